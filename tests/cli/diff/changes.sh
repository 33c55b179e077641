# Names, types, shapes, metadata, values; order and files do not matter.
try() { safetensors diff "$@"; echo "exit $?"; }
try small.safetensors small.safetensors
safetensors cp layers.safetensors other --order reference -f
try layers.safetensors other
safetensors cp model one && try model one && try one model/model.safetensors.index.json
python3 - <<'END'
import json, struct
def put(path, tensors, meta):
    h, body = {"__metadata__": meta}, b""
    for name, dtype, shape, data in tensors:
        h[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(body), len(body) + len(data)]}
        body += data
    t = json.dumps(h).encode()
    open(path, "wb").write(struct.pack("<Q", len(t)) + t + body)
nan, inf = float("nan"), float("inf")
f = lambda *v: struct.pack("<%df" % len(v), *v)
put("a", [("gone", "F32", [1], f(1)), ("type", "F32", [2], f(1, 2)), ("shape", "U8", [6], bytes(6)),
          ("same", "I8", [3], bytes(3)), ("near", "F32", [2, 3], f(1, 2, 3, nan, inf, 0.0)),
          ("ints", "I64", [3], struct.pack("<3q", 2**63 - 1, -2**63, 5)), ("bits", "F4", [4], bytes([0x10, 0x08])),
          ("c", "C64", [2], f(1, 2, 3, 4)), ("red\x1b[31m", "U8", [1], b"a"), ("none", "F32", [0], b"")],
    {"k": "v", "gone": "x", "long": "y" * 300, "\x1b[2J": "\u202e"})
put("b", [("new", "BF16", [1, 2], bytes(4)), ("type", "I32", [2], struct.pack("<2i", 1, 2)), ("shape", "U8", [2, 3], bytes(6)),
          ("same", "I8", [3], bytes(3)), ("near", "F32", [2, 3], f(1, 2.0001, 3, nan, -inf, -0.0)),
          ("ints", "I64", [3], struct.pack("<3q", 2**63 - 2, -2**63, 5)), ("bits", "F4", [4], bytes([0x10, 0x00])),
          ("c", "C64", [2], f(1, 2, 3, 4.5)), ("red\x1b[31m", "U8", [1], b"b"), ("none", "F32", [0], b"")],
    {"k": "w", "new": "z", "long": "y" * 301, "\x1b[2J": "\u202f"})
END
try a b
try a b --values
try a b --values --metadata
try b a --atol 1e-3
try a b --rtol 1e-4 --ignore-dtype
try a b --nan-differs --atol 10
try a b --no-values
try -q a b
try -v a b --no-values 2>&1 | tail -2
try a b --json -m > out.json
python3 - <<'END'
import json
j = json.loads(open("out.json").read().splitlines()[0])
print({k: v for k, v in j.items() if k not in ("tensors", "metadata")})
for t in j["tensors"]: print(t)
for t in j["metadata"]: print(str(t)[:80])
END
