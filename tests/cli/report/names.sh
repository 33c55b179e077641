# Names cut at their numbers: whatever came before, a number has 1 to 15 digits and no leading zero, and the page has the name again.
cat > go.py <<'GO'
import json, os, random, re, struct, subprocess, sys
sys.path.insert(0, os.environ["TESTS"])
import report_page
pick = random.Random(19)
parts = ["a", "b.", "0", "00", "01", "1", "12", "9" * 15, "1" * 16, "0" * 16, ".", "é"]
names = sorted({"".join(pick.choice(parts) for _ in range(pick.randrange(7))) for _ in range(20000)})
pick.shuffle(names)
names += ["layers.%d.%s.weight" % (i // 3, "qkv"[i % 3]) for i in range(3000)]
header = {n: {"dtype": "U8", "shape": [0], "data_offsets": [0, 0]} for n in names}
text = json.dumps(header).encode()
open("m.safetensors", "wb").write(struct.pack("<Q", len(text)) + text)
subprocess.run(["safetensors", "report", "m.safetensors", "-o", "r.html"], check=True)
page = report_page.load("r.html")
assert [t["name"] for t in page["tensors"]] == names
cut = lambda name: re.split(r"(?<![0-9])(?:0|[1-9][0-9]{0,14})(?![0-9])", name)
assert sorted(page["templates"]) == sorted(map(list, {tuple(cut(n)) for n in names}))
print(len(names) > 10000)
GO
python3 go.py
