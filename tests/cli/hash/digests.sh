# Every digest against Python's hashlib; on files around the limits of AutoV1; folders; one pass or many.
cat > check.py <<'END'
import hashlib, json, os, struct, subprocess, sys
def sha(data):
    return hashlib.sha256(data).hexdigest()
def parse(data):
    n = struct.unpack("<Q", data[:8])[0]
    return json.loads(data[8:8 + n]), data[8 + n:]
def content(parts):
    h = hashlib.sha256()
    for name, dtype, shape, data in sorted(parts, key=lambda p: p[0].encode()):
        b = name.encode()
        h.update(struct.pack("<Q", len(b)) + b + dtype.encode() + b"\0" + struct.pack("<Q", len(shape)))
        h.update(b"".join(struct.pack("<Q", d) for d in shape) + hashlib.sha256(data).digest())
    return h.hexdigest()
def tensors(data):
    header, body = parse(data)
    return [(k, v["dtype"], v["shape"], body[v["data_offsets"][0]:v["data_offsets"][1]])
            for k, v in sorted(header.items(), key=lambda kv: kv[1]["data_offsets"] if kv[0] != "__metadata__" else [])
            if k != "__metadata__"]
def tool(*args):
    out = subprocess.run(["safetensors", "hash", *args], capture_output=True, text=True)
    assert out.returncode == 0, out
    return out.stdout
def one(path):
    data = open(path, "rb").read()
    parts = tensors(data)
    got = json.loads(tool("--all", "--json", path))
    digests = {t["name"]: t["sha256"] for t in got.pop("tensors")}
    want = {"schema": 1, "file": path, "sha256": sha(data), "data_sha256": sha(parse(data)[1]),
            "autov1": sha(data[0x100000:0x110000])[:8], "autov2": sha(data)[:10], "autov3": sha(parse(data)[1]),
            "autov3_short": sha(parse(data)[1])[:12], "content_sha256": content(parts)}
    assert got == want, (path, got, want)
    assert digests == {p[0]: sha(p[3]) for p in parts}, path
    assert tool("--whole", path) == "%s  %s\n" % (sha(data), path)
    assert tool("--data", path) == "%s  %s\n" % (want["data_sha256"], path)
    assert tool("--content", path) == "%s  %s\n" % (want["content_sha256"], path)
    assert tool("--content", "--tensors", "-j1", path).split()[2] == want["content_sha256"]
    print(path, "good")
def big(path, size):
    head = json.dumps({"b": {"dtype": "U8", "shape": [size - 7], "data_offsets": [0, size - 7]},
                       "e": {"dtype": "F32", "shape": [0], "data_offsets": [size - 7, size - 7]},
                       "a": {"dtype": "U8", "shape": [7], "data_offsets": [size - 7, size]}}).encode()
    block = bytes(i * 7 % 256 for i in range(65536))
    open(path, "wb").write(struct.pack("<Q", len(head)) + head + (block * (size // 65536 + 1))[:size])
big("inside.safetensors", 0x108000)
big("buffers.safetensors", 9 << 20)
for path in ("small.safetensors", "empty.safetensors", "kinds.safetensors", "hostile.safetensors", "layers.safetensors",
             "inside.safetensors", "buffers.safetensors"):
    one(path)
parts = []
for name in ("model/model-00001-of-00002.safetensors", "model/model-00002-of-00002.safetensors"):
    parts += tensors(open(name, "rb").read())
assert json.loads(tool("--json", "--content", "model"))["content_sha256"] == content(parts)
got = json.loads(tool("--json", "model"))
assert got["content_sha256"] == content(parts)
for f in got["files"]:
    assert f["sha256"] == sha(open(f["file"], "rb").read()), f
print("folder good")
END
python3 check.py
