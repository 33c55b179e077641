# Thumbnails: cells are mean magnitudes; parts of a tensor of several units join; samples are evenly spread.
cat > go.py <<'GO'
import json, os, struct, subprocess, sys, array
sys.path.insert(0, os.environ["TESTS"])
import report_page
def write(path, tensors):
    header, body = {}, b""
    for name, (dtype, shape, data) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(body), len(body) + len(data)]}
        body += data
    text = json.dumps(header).encode()
    open(path, "wb").write(struct.pack("<Q", len(text)) + text + body)
# each element of a cell is the cell's number: 64 x 1024 in 32 x 32 cells of 2 x 32
grid = array.array("f", [float(r // 2 * 32 + c // 32) for r in range(64) for c in range(1024)])
# 2048 x 2048 F32, 16 MiB: six units
row = [array.array("f", [float(r * 32 + c // 64) for c in range(2048)]).tobytes() * 64 for r in range(32)]
half = bytes(i % 16 for i in range(64))
write("t.safetensors", {
    "grid": ("F32", [64, 1024], grid.tobytes()),
    "large": ("F32", [2048, 2048], b"".join(row)),
    "vector": ("I16", [5], struct.pack("<5h", 0, -1, 2, -3, 4)),
    "scalar": ("F64", [], struct.pack("<d", -8)),
    "half": ("F4", [4, 32], half),
    "complex": ("C64", [2], struct.pack("<4f", 3, -4, 0, 0)),
    "nothing": ("F32", [3, 0], b""),
    "nan": ("F32", [2], struct.pack("<2f", float("nan"), float("inf"))),
})
for options in ([], ["-j1"], ["-j3"]):
    subprocess.run(["safetensors", "report", "t.safetensors", "-o", "t.html", "--force", *options], check=True)
    page = {t["name"]: t for t in report_page.load("t.html")["tensors"]}
    for name in ("grid", "large"):
        rows, columns, scale, cells = page[name]["heat"]
        assert (rows, columns, scale) == (32, 32, 1023.0)
        assert all(abs(v * scale / 255 - i) <= scale / 510 + 1e-3 for i, v in enumerate(cells)), name
    s = page["large"]["stats"]
    assert s["exact"] and s["n"] == 2048 * 2048 and sum(s["bins"]) == s["n"] and (s["min"], s["max"], s["mean"]) == (0, 1023, 511.5)
for name in ("vector", "scalar", "half", "complex", "nothing", "nan"):
    print(name, page[name]["heat"])
subprocess.run(["safetensors", "report", "t.safetensors", "-o", "t.html", "--force", "--sample", "65536"], check=True)
page = {t["name"]: t for t in report_page.load("t.html")["tensors"]}
s = page["large"]["stats"]
print(s["exact"], s["n"], abs(s["mean"] - 511.5) < 20, [abs(p - q * 1023) < 60 for p, q in zip(s["percentiles"], (0.001, 0.01, 0.05, 0.25, 0.5))])
print(page["grid"]["stats"]["exact"], page["vector"]["stats"]["exact"])
GO
python3 go.py
