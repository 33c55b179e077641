# --max-size: a page that fits is whole; else thumbnails go first, then statistics of the smallest tensors until a quarter of the
# room is left for them, then metadata, the longest values first; each is said; the page is not larger.
cat > go.py <<'GO'
import json, os, struct, subprocess, sys
sys.path.insert(0, os.environ["TESTS"])
import report_page
def make(meta):
    header, at = {"__metadata__": meta}, 0
    for i in range(400):
        n = (i * 7 % 100 + 1) * 4
        header["layers.%d.weight" % i] = {"dtype": "BF16", "shape": [n], "data_offsets": [at, at + 2 * n]}
        at += 2 * n
    text = json.dumps(header).encode()
    open("s.safetensors", "wb").write(struct.pack("<Q", len(text)) + text + bytes(i * 37 % 60 for i in range(at)))
def report(most, to="s.html"):
    done = subprocess.run(["safetensors", "report", "s.safetensors", "-o", to, "--force", "--max-size", str(most)], capture_output=True, text=True)
    assert done.returncode == 0 and os.path.getsize(to) <= most, (most, os.path.getsize(to))
    page = report_page.load(to)
    assert page["left_out"] == [line.split("left out: ")[1] for line in done.stderr.splitlines()]
    return page
def shown(meta, page):
    return sum(m["value"] == meta[m["key"]] for m in page["metadata"])
base = os.path.getsize(subprocess.run(["safetensors", "report", "empty.safetensors", "-f", "-o", "e.html"], check=True) and "e.html")
few = {"key.%d" % i: "<v>" * 50 for i in range(300)}
long = dict(few, long="x" * 400000, longer="y" * 900000)
short = {"key.%d" % i: "v" for i in range(1500)}
for name, meta in ("few", few), ("long", long), ("short", short), ("none", {}):
    make(meta)
    whole = report(10**8)
    assert whole["left_out"] == [] and shown(meta, whole) == len(meta) and all(t["stats"] and t["heat"] for t in whole["tensors"])
    size = os.path.getsize("s.html")
    assert report(size)["left_out"] == [] and report(size - 1)["left_out"] != []
    before, seen = None, set()
    for most in [size - 1] + [base + 21000 + (size - base - 21000) * k // 23 for k in range(22, -1, -1)]:
        page = report(most)
        room = most - base - 21000
        heat = sum(t["heat"] is not None for t in page["tensors"])
        stats = [t["nbytes"] for t in page["tensors"] if t["stats"] is not None]
        rest = [t["nbytes"] for t in page["tensors"] if t["stats"] is None]
        bytes_of_stats = next(s["bytes"] for s in page["columns"]["sections"] if s["name"] == "stats")
        assert not stats or not rest or min(stats) >= max(rest)
        assert not (heat and rest), most
        cut = [m for m in page["metadata"] if "cut" in m]
        assert all(len(m["value"]) + m["cut"] == len(meta[m["key"]]) for m in cut)
        assert not (heat and shown(meta, page) < len(meta)), most
        if shown(meta, page) < len(meta):
            assert bytes_of_stats / 3 * 4 <= max(room, 0) / 4 + 6000 + 12 * len(page["metadata"]), (most, bytes_of_stats, room)
            lengths = [len(m["value"].replace("<", "......")) for m in page["metadata"] if "cut" not in m]
            cuts = [len(m["value"].replace("<", "......")) for m in cut if m is not page["metadata"][-1]]
            assert max(lengths, default=0) <= max(cuts, default=10**9) + 100, most
        # with less room not more of any of the three, but where metadata begin to be cut, which goes by what texts take at most
        now = (heat, len(stats), sum(len(m["value"]) for m in page["metadata"]))
        assert before is None or all(a <= b + slack for a, b, slack in zip(now, before, (0, 50, 0))), (most, now, before)
        before = now
        seen.add((heat == 400, heat > 0, len(stats) == 400, len(stats) > 0, shown(meta, page) == len(meta), len(page["metadata"]) == len(meta)))
    print(name, *("".join("-+"[x] for x in s) for s in sorted(seen, reverse=True)))
# What says that something is left out needs no room where nothing is.
for name, value in ("one", 1), ("two", 2):
    open(name, "wb").write(struct.pack("<Q", 56) + b'{"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}  ' + struct.pack("<f", value))
for words in ["report", "one", "-o"], ["diff", "one", "two", "--report"]:
    sized = lambda most: subprocess.run(["safetensors", *words, "w.html", "-f", "--max-size", str(most)], capture_output=True).returncode
    done, size = sized(10**8), os.path.getsize("w.html")
    print(words[0], done, sized(size), os.path.getsize("w.html") == size, sized(size - 1))
done = subprocess.run(["safetensors", "report", "s.safetensors", "-o", "x.html", "--max-size", "1000"], capture_output=True, text=True)
print(done.returncode, "--max-size: the names" in done.stderr, os.path.exists("x.html"))
GO
python3 go.py
mkdir dir && cp small.safetensors dir/model.safetensors && python3 -c "print('{\"k\": \"' + 'v' * 30000 + '\"}')" >dir/config.json
safetensors report dir -o d.html
size=$(wc -c <d.html)
for most in $size $((size - 1)) $((size - 20000)); do
    safetensors report dir -o d.html -f --max-size $most 2>&1
    grep -c vvvvvvvv d.html
done
