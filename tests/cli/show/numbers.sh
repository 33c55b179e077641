# Statistics against numbers computed here, for every kind of type, over several blocks; JSON.
cat > make.py <<'END'
import json, math, struct, random
random.seed(7)
n = 300000
def f32(x):
    return struct.unpack("<f", struct.pack("<f", x))[0]
sets = {
    "f32": ("F32", "f", [f32(random.gauss(0.5, 2)) for i in range(n)] + [math.nan, math.inf, -math.inf, -math.inf, 0.0, -0.0]),
    "f64": ("F64", "d", [1e6 + random.random() * 1e-3 for i in range(n)]),
    "f16": ("F16", "e", [random.choice([0.0, 1.5, -65504.0, 6e-8]) for i in range(1000)]),
    "i64": ("I64", "q", [2**63 - 1, -2**63, 0, 5]),
    "u64": ("U64", "Q", [2**64 - 1, 2**64 - 2, 9007199254740993]),
    "i8": ("I8", "b", [random.randrange(-128, 128) for i in range(5000)]),
    "u16": ("U16", "H", [65535] * 7),
    "nans": ("F32", "f", [math.nan] * 3),
    "tiny": ("F64", "d", [5e-324, 0.0, -5e-324]),
    "huge": ("F64", "d", [1.7e308, -1.7e308]),
    "c": ("C64", "f", [3.0, 4.0, 0.0, 0.0, math.nan, 1.0, math.inf, 0.0]),
}
header, body, want = {}, b"", {}
for name, (dtype, letter, values) in sets.items():
    part = struct.pack("<%d%s" % (len(values), letter), *values)
    count = len(values) // 2 if dtype == "C64" else len(values)
    header[name] = {"dtype": dtype, "shape": [count], "data_offsets": [len(body), len(body) + len(part)]}
    body += part
    if dtype == "F16":
        values = struct.unpack("<%de" % len(values), part)
    if dtype == "C64":
        values = [math.nan if math.isnan(a) or math.isnan(b) else math.hypot(a, b) for a, b in zip(values[::2], values[1::2])]
    sets[name] = (dtype, values)
text = json.dumps(header).encode()
open("n.safetensors", "wb").write(struct.pack("<Q", len(text)) + text + body)
END
cat > check.py <<'END'
import json, math, subprocess, sys
from fractions import Fraction
exec(open("make.py").read())
out = subprocess.run(["safetensors", "show", "--json", "--bins", "100", "n.safetensors", "*"] + sys.argv[1:], capture_output=True, text=True)
assert out.returncode == 0, out
got = json.loads(out.stdout)
assert got["schema"] == 1 and got["file"] == "n.safetensors"
for t in got["tensors"]:
    dtype, values = sets[t["name"]]
    s = t["statistics"]
    finite = [v for v in values if math.isfinite(v)]
    faults = []
    def same(key, value):
        if s.get(key) != value:
            faults.append((key, s.get(key), value))
    same("finite", len(finite))
    same("nan", sum(math.isnan(v) for v in values))
    same("positive_inf", sum(v == math.inf for v in values))
    same("negative_inf", sum(v == -math.inf for v in values))
    same("zeros", sum(v == 0 for v in values))
    same("negative", sum(v < 0 for v in finite))
    if finite:
        same("min", min(finite))
        same("max", max(finite))
        mean = sum(map(Fraction, finite)) / len(finite)
        var = sum((Fraction(v) - mean) ** 2 for v in finite[:20000]) / len(finite) if len(finite) <= 20000 else None
        if abs(s["mean"] - float(mean)) > 1e-13 * abs(float(mean)) + 1e-16 * max(map(abs, finite)):
            faults.append(("mean", s["mean"], float(mean)))
        if var is None:
            m = float(mean)
            var = math.fsum((v - m) ** 2 for v in finite) / len(finite)
            std = math.sqrt(var)
        else:
            try:
                std = math.sqrt(var)
            except OverflowError:
                std = None
        if std is None or s["std"] is None:
            if t["name"] != "huge":
                faults.append(("std", s["std"], std))
        elif abs(s["std"] - std) > 1e-11 * std + 5e-324:
            faults.append(("std", s["std"], std))
        h = s["histogram"]
        counts = [0] * len(h["counts"])
        for v in finite:
            k = math.floor((Fraction(v) - Fraction(h["start"])) / Fraction(h["width"])) if dtype not in ("I64", "U64") else None
            if k is None:
                break
            counts[k] += 1
        else:
            if counts != h["counts"]:
                faults.append(("histogram", h["counts"], counts))
        if sum(h["counts"]) != len(finite) or len(h["counts"]) > 100:
            faults.append(("bins", len(h["counts"])))
    else:
        same("min", None)
    print(t["name"], "good" if not faults else faults)
END
python3 make.py
python3 check.py
python3 check.py --jobs 1 | grep -vc good
python3 check.py --jobs 7 | grep -vc good
true
