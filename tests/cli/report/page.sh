# The page: what its columns say is what ls and show say, of files, shards, other formats; statistics none, sample, full.
cat > go.py <<'GO'
import json, os, subprocess, sys
sys.path.insert(0, os.environ["TESTS"])
import report_page
def tool(*a):
    return json.loads(subprocess.run(["safetensors", *a], check=True, capture_output=True).stdout)
for model in ("small", "cube", "kinds", "empty", "layers", "meta", "hostile"):
    path = model + ".safetensors"
    listed = tool("ls", "--json", path)
    for mode in ("full", "sample", "none"):
        subprocess.run(["safetensors", "report", path, "-o", "r.html", "--force", "--stats", mode], check=True)
        page = report_page.load("r.html")
        assert (page["schema"], page["kind"], page["name"], page["statistics"]) == (1, "report", path, mode)
        names = [t["name"] for t in page["tensors"]]
        assert names == [t["name"] for t in listed["tensors"]], (names, listed)
        for t, l in zip(page["tensors"], listed["tensors"]):
            assert (t["dtype"], t["shape"], t["nbytes"]) == (l["dtype"], l["shape"], l["nbytes"]), (t, l)
            n = 1
            for d in t["shape"]:
                n *= d
            assert (t["stats"] is not None) == (mode != "none")
            assert mode == "none" or t["stats"]["n"] == n and t["stats"]["exact"]
            assert (t["heat"] is not None) == (mode != "none" and n > 0), t
        told = tool("report", "--json", path, "--stats", mode)
        for key in ("files", "metadata", "totals", "dtypes", "kinds", "templates", "findings"):
            assert told[key] == page[key], key
        for t, j in zip(page["tensors"], told["tensors"]):
            s = j["statistics"]
            assert (s is None) == (t["stats"] is None)
            assert s is None or s["histogram"]["counts"] == t["stats"]["bins"] and s["count"] == t["stats"]["n"]
    print(model, page["totals"], [f["text"] for f in page["findings"]][:3])
    places = [(t["offset"], t["nbytes"]) for t in page["tensors"]]
    if model == "small":
        print(places, page["metadata"], page["files"])
subprocess.run(["safetensors", "report", "model", "-o", "m.html"], check=True)
page = report_page.load("m.html")
print([f["name"] for f in page["files"]], [(t["name"], t["file"]) for t in page["tensors"]])
GO
python3 go.py
safetensors report small.safetensors -o - | head -1
safetensors report --json small.safetensors
