# The page of diff: what its columns hold is what --json says; statuses, places, sizes; hostile names.
cat > go.py <<'GO'
import json, os, random, struct, subprocess, sys
sys.path.insert(0, os.environ["TESTS"])
import report_page
random.seed(7)
def put(path, tensors, meta=None):
    h, body = {"__metadata__": meta} if meta else {}, b""
    for name, (dtype, shape, data) in tensors.items():
        h[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(body), len(body) + len(data)]}
        body += data
    t = json.dumps(h).encode()
    open(path, "wb").write(struct.pack("<Q", len(t)) + t + body)
f = lambda v: struct.pack("<%df" % len(v), *v)
def tool(*a):
    done = subprocess.run(["safetensors", "diff", *a], capture_output=True)
    return done.returncode, done.stdout, done.stderr.decode()
def fits(page, told):
    assert page["schema"] == 1 and page["kind"] == "diff" and page["change"] == told["kind"] and page["same"] == told["same"]
    for key in ("reason", "models", "tally", "renamed", "overall", "metadata"):
        assert page[key] == told[key], key
    assert page.get("rank") == told.get("rank") and page.get("states") == told.get("states")
    assert sum(r["change"] == "same" for r in page["rows"]) == told["same_tensors"]
    rows = [r for r in page["rows"] if r["change"] != "same"]
    assert len(rows) == len(told["tensors"])
    for r, t in zip(rows, told["tensors"]):
        for key in ("name", "change", "a", "b", "new_name"):
            assert r.get(key) == t.get(key), (r, t)
        m, want = r.get("measures"), t.get("measures")
        assert (m is None) == (want is None)
        for key in want or {}:
            if key == "elements":
                continue
            assert m[key] == want[key] or (want[key] is None and m[key] != 0) or abs(m[key] - want[key]) <= 1e-15 * abs(want[key]), (key, m, want)
            assert key != "relative" or want[key] is None or abs(r["moved"] - want[key]) <= 1e-6 * want[key]
n = 48 * 32
w = [random.gauss(0, 1) for _ in range(n)]
noisy = [x + random.gauss(0, 0.01) for x in w]
odd = ["</script><script>alert(1)</script>", "<!--", "\u202egnirts", "nul\0nul", "a" * 100000, "", "\x1b[31m", "007", "9007199254740993", "é<ü", "__proto__"]
base = {"l.%d.w" % i: ("F32", [32, 48], f(w)) for i in range(3)}
base.update({"z": ("F32", [0], b""), "i": ("U8", [4], b"abcd"), "b": ("BOOL", [2], b"\0\1"), "c": ("C64", [1], f([1, 2])), "q": ("F4", [4], b"\x10\x08"),
             "zero": ("F32", [2], f([0, 0])), "nan": ("F32", [2], f([float("nan"), 1])), "old": ("F32", [40], f(w[:40])), "gone": ("U8", [1], b"g")})
other = dict(base)
other.update({"l.1.w": ("F32", [32, 48], f(noisy)), "i": ("U8", [4], b"abce"), "b": ("BOOL", [2], b"\1\1"), "c": ("C64", [1], f([1, 2.5])),
              "q": ("F4", [4], b"\x10\x00"), "zero": ("F32", [2], f([0, 3])), "nan": ("F32", [2], f([2, float("inf")])), "new": ("F32", [40], f(w[:40])),
              "fresh": ("I8", [3], bytes(3)), "l.2.w": ("F16", [32, 48], struct.pack("<%de" % n, *w))})
del other["old"], other["gone"]
for k, name in enumerate(odd):
    base[name] = ("F32", [2], f([k, 1]))
    other[name] = ("F32", [2], f([k, 2 if k % 3 else 1]))
put("a", base, {"k": "v", "</script>": "<img>", "gone": "x", "same": "s"})
put("b", other, {"k": "w", "</script>": "<!-", "new": "z" * 1000, "same": "s"})
for a, b in (("a", "b"), ("b", "a"), ("a", "a"), ("model", "small.safetensors"), ("layers.safetensors", "layers.safetensors")):
    status, out, err = tool(a, b, "--report", "d.html", "-f")
    assert (status, err) == (0 if a == b else 1, ""), (status, err)
    assert out == tool(a, b, "--stat")[1]
    told = json.loads(tool(a, b, "--stat", "--json")[1])
    page = report_page.load_diff("d.html")
    fits(page, told)
    both = json.loads(tool(a, b, "--report", "e.html", "-f", "--json")[1])
    assert both == told and open("d.html", "rb").read() == open("e.html", "rb").read()
    status, out, err = tool(a, b, "--report", "-")
    assert out == open("d.html", "rb").read() and status == (0 if a == b else 1)
    status, out, err = tool("-q", a, b, "--report", "e.html", "-f")
    assert (status, out) == (0 if a == b else 1, b"") and open("d.html", "rb").read() == open("e.html", "rb").read()
    for j in ("1", "7"):
        tool(a, b, "--report", "e.html", "-f", "-j", j)
        assert open("d.html", "rb").read() == open("e.html", "rb").read()
    print(page["change"], page["tally"], page["renamed"], page["metadata_changes"])
page = open("d.html", "rb").read()
assert page.count(b"<script") == 3 and b"alert(1)" not in page
tool("a", "b", "--ignore-dtype", "--report", "d.html", "-f")
fits(report_page.load_diff("d.html"), json.loads(tool("a", "b", "--stat", "--json", "--ignore-dtype")[1]))
# less and less room: the sizes hold, what is left out is told in the page and on standard error
many = {"m.%d.%s" % (i // 3, "xyz"[i % 3]): ("F32", [8], f(w[8 * (i % 100):8 * (i % 100) + 8])) for i in range(9000)}
moved = {k: (d, s, v if i % 2 else f([x + 0.001 * (1 + i) for x in struct.unpack("<8f", v)])) for i, (k, (d, s, v)) in enumerate(many.items())}
put("a", many, {"key %d" % i: "v" * 100 for i in range(500)})
put("b", moved, {"key %d" % i: "w" * 100 for i in range(500)})
small = os.path.getsize("d.html") // 1000 * 1000
before = None
for size in (5000000, 1000000, 500000, 250000, small):
    status, out, err = tool("a", "b", "--report", "s.html", "-f", "--max-size", str(size))
    page = report_page.load_diff("s.html")
    assert status == 1 and os.path.getsize("s.html") <= size, (size, os.path.getsize("s.html"))
    assert page["tally"] == {"same": 4500, "removed": 0, "added": 0, "type": 0, "values": 4500, "name": 0}
    kept = [r for r in page["rows"] if r["change"] != "same"]
    full = [r["name"] for r in kept if r["measures"]]
    least = min((r["moved"] for r in kept if r["measures"]), default=9)
    assert all(r["moved"] <= least for r in kept if not r["measures"])
    assert before is None or set(full) <= before
    before = set(full)
    assert page["left_out"] == [line.split(": left out: ")[1] for line in err.splitlines()]
    print(len(page["rows"]) < 9000, len(kept) < 4500, len(full) < 4500, len(page["metadata"]) < 500, len(page["left_out"]) > 0)
GO
python3 go.py
try() { safetensors diff "$@" >out; echo "exit $?"; cat out; }
try small.safetensors small.safetensors --report x.html --no-values
try small.safetensors small.safetensors --report - --json
try small.safetensors small.safetensors --max-size 1MB
try small.safetensors small.safetensors -f
try small.safetensors small.safetensors --report x.html --max-size 9kB 2>&1 | sed 's/takes [0-9]* bytes/takes N bytes/'
try small.safetensors cube.safetensors -q --report small.safetensors -f
try small.safetensors cube.safetensors -q --report cube.safetensors -f
try small.safetensors model -q --report model/model-00001-of-00002.safetensors -f
try small.safetensors model -q --report model/model.safetensors.index.json -f
try model/model.safetensors.index.json small.safetensors -q --report model/model.safetensors.index.json -f
safetensors report model -o model/model.safetensors.index.json -f; echo "exit $?"
# what belongs to a model though no tensor is in it
echo mine > model/README.md; echo '{}' > model/config.json
(cd model && try . ../small.safetensors -q --report README.md -f)
try small.safetensors model -q --report model/README.md -f
try model/model.safetensors.index.json small.safetensors -q --report model/config.json -f
try model/model-00001-of-00002.safetensors small.safetensors -q --report model/config.json -f
cat model/README.md model/config.json
rm model/README.md model/config.json
try small.safetensors cube.safetensors -q --report model
try small.safetensors cube.safetensors -q --report nowhere/x.html
try small.safetensors nowhere --report x.html
try bad/short.safetensors small.safetensors --report x.html
echo old > there.html
try small.safetensors small.safetensors --report there.html
cat there.html
try small.safetensors small.safetensors --report there.html --force
grep -c '<script type="application/json" id="sft-diff">' there.html
safetensors diff - small.safetensors --report - < small.safetensors | head -1
ls -a | grep -c 'x\.html\|tmp'
