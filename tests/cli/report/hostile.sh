# Names and metadata that would be script, end elements, turn text round; a million metadata keys; config.json, licence.
cat > go.py <<'GO'
import json, os, struct, subprocess, sys, time
sys.path.insert(0, os.environ["TESTS"])
import report_page
names = ["</script><script>alert(1)</script>", "<!--", "\u202egnirts", "nul\0nul", "a" * 100000, "", "\x1b[31m", "\u2028", "007", "9007199254740993",
         "1" * 400, "x-0.00.10", "é<ü", "__proto__", "&lt;"]
meta = {"</script>": "<img src=x onerror=alert(1)>", "license": " MIT\n", "\0": "\x7f"}
os.mkdir("m")
header = {"__metadata__": meta}
for i, n in enumerate(names):
    header[n] = {"dtype": "F32", "shape": [1], "data_offsets": [4 * i, 4 * i + 4]}
text = json.dumps(header).encode()
open("m/model.safetensors", "wb").write(struct.pack("<Q", len(text)) + text + struct.pack("<%df" % len(names), *[float("nan")] * len(names)))
open("m/config.json", "w").write('{"x": "</script>"}')
open("m/README.md", "w").write("---\nlanguage: en\nlicense: apache-2.0\n---\nlicense: no\n")
subprocess.run(["safetensors", "report", "m", "-o", "h.html"], check=True)
page = report_page.load("h.html")
assert sorted(t["name"] for t in page["tensors"]) == sorted(names)
assert {m["key"]: m["value"] for m in page["metadata"]} == meta and page["config"] == '{"x": "</script>"}'
print(page["license"], [f["from"] + ": " + f["text"] for f in page["findings"]])
del header["__metadata__"]["license"]
text = json.dumps(header).encode()
open("m/model.safetensors", "wb").write(struct.pack("<Q", len(text)) + text + bytes(4 * len(names)))
subprocess.run(["safetensors", "report", "m", "-o", "h.html", "--force"], check=True)
print(report_page.load("h.html")["license"])
header = {"__metadata__": {"k%d" % i: "v" for i in range(1000000)}}
text = json.dumps(header).encode()
open("many.safetensors", "wb").write(struct.pack("<Q", len(text)) + text)
done = subprocess.run(["safetensors", "report", "many.safetensors", "-o", "n.html"], capture_output=True, text=True)
page = report_page.load("n.html")
print(done.returncode, len(done.stderr.splitlines()) in (1, 2), os.path.getsize("n.html") < 20000000, 0 < len(page["metadata"]) < 1000000)
GO
python3 go.py
