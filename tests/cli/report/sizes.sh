# --max-size: thumbnails go first, then statistics of the smallest tensors, then metadata; each is said; the page is not larger.
cat > go.py <<'GO'
import json, os, struct, subprocess, sys
sys.path.insert(0, os.environ["TESTS"])
import report_page
header, at = {"__metadata__": {"key.%d" % i: "<v>" * 50 for i in range(300)}}, 0
for i in range(400):
    n = (i * 7 % 100 + 1) * 4
    header["layers.%d.weight" % i] = {"dtype": "BF16", "shape": [n], "data_offsets": [at, at + 2 * n]}
    at += 2 * n
text = json.dumps(header).encode()
open("s.safetensors", "wb").write(struct.pack("<Q", len(text)) + text + os.urandom(at))
base = os.path.getsize(subprocess.run(["safetensors", "report", "empty.safetensors", "-o", "e.html"], check=True) and "e.html")
before = None
for size in (1000000, 180000, 120000, 80000, 40000, 25000):
    done = subprocess.run(["safetensors", "report", "s.safetensors", "-o", "s.html", "--force", "--max-size", str(base + size)], capture_output=True, text=True)
    assert done.returncode == 0 and os.path.getsize("s.html") <= base + size, (size, os.path.getsize("s.html"))
    page = report_page.load("s.html")
    told = [line.split("left out: ")[1] for line in done.stderr.splitlines()]
    assert page["left_out"] == told
    heat = sum(t["heat"] is not None for t in page["tensors"])
    stats = [t["nbytes"] for t in page["tensors"] if t["stats"] is not None]
    rest = [t["nbytes"] for t in page["tensors"] if t["stats"] is None]
    assert not stats or not rest or min(stats) >= max(rest)
    assert heat == 0 or not rest
    whole = sum("cut" not in m for m in page["metadata"])
    now = (heat, len(stats), whole)
    assert before is None or all(a <= b for a, b in zip(now, before)), (now, before)
    before = now
    print(heat == 400, heat > 0, len(stats) == 400, len(stats) > 0, whole == 300, len(told) > 0)
done = subprocess.run(["safetensors", "report", "s.safetensors", "-o", "x.html", "--max-size", "1000"], capture_output=True, text=True)
print(done.returncode, "--max-size: the names" in done.stderr, os.path.exists("x.html"))
GO
python3 go.py
mkdir dir && cp small.safetensors dir/model.safetensors && python3 -c "print('{\"k\": \"' + 'v' * 30000 + '\"}')" >dir/config.json
size=$(wc -c <e.html)
for more in 200000 40000; do
    safetensors report dir -o d.html -f --max-size $((size + more)) 2>&1 | grep config
    grep -c vvvvvvvv d.html
done
