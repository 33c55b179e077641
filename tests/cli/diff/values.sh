# Differences counted over several blocks against numbers computed here, with one thread or many.
cat > go.py <<'END'
import array, json, random, struct, subprocess
random.seed(3)
n = 200001
a = array.array("f", (random.gauss(0, 1) for i in range(n)))
b = array.array("f", a)
for i in random.sample(range(n), 1000):
    b[i] += random.choice([1e-3, -1e-5, 2.0])
def put(path, v):
    h = json.dumps({"x": {"dtype": "F32", "shape": [3, n // 3], "data_offsets": [0, 4 * n]}}).encode()
    open(path, "wb").write(struct.pack("<Q", len(h)) + h + v.tobytes())
put("a", a)
put("b", b)
for args in ([], ["--atol", "1e-4"], ["--rtol", "1e-2"], ["--atol", "5"]):
    atol = float(args[1]) if args[:1] == ["--atol"] else 0
    rtol = float(args[1]) if args[:1] == ["--rtol"] else 0
    want = [i for i in range(n) if (abs(a[i] - b[i]) > atol + rtol * abs(b[i]) if args else a[i] != b[i])]
    for jobs in "1", "5":
        p = subprocess.run(["safetensors", "diff", "--json", "-j", jobs, "a", "b"] + args, capture_output=True, text=True)
        got = json.loads(p.stdout)
        assert p.returncode == (1 if want else 0) and got["same"] == (not want), p
        if want:
            v = got["tensors"][0]["values"]
            assert v["differing"] == len(want) and v["first"] == want[0], (v, len(want), want[0])
            assert v["max_abs"] == max(abs(a[i] - b[i]) for i in want), v
            assert v["max_rel"] == max(abs(a[i] - b[i]) / abs(b[i]) for i in want), v
            assert v["first_values"] == [a[want[0]], b[want[0]]], v
    print(args, len(want))
END
python3 go.py
safetensors diff a b --values
true
