# Many small tensors: each costs what it holds, not a table of all values of 16 bits. Processor time, beside that of report.
cat > go.py <<'GO'
import json, resource, struct, subprocess
n = 20000
h = json.dumps({"%x.w" % (i * 2654435761 % 2**32): {"dtype": "F32", "shape": [4], "data_offsets": [16 * i, 16 * i + 16]} for i in range(n)}).encode()
open("m.safetensors", "wb").write(struct.pack("<Q", len(h)) + h + struct.pack("<4f", 1, 2, 3, 4) * n)
def cost(*a):
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    out = subprocess.run(["safetensors", *a], capture_output=True, check=True).stdout
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before, out
report, _ = cost("report", "--json", "m.safetensors")
table, out = cost("show", "-t", "m.safetensors", "*")
lines = out.decode().splitlines()
assert len(lines) == n + 1 and all(" 2.5 " in line for line in lines[1:]), lines[:3]
texts, out = cost("show", "m.safetensors", "*")
assert out.count(b"mean        2.5\n") == n
for took in (table, texts):
    assert took < 3 * report, (table, texts, report)
print("counted")
GO
python3 go.py
