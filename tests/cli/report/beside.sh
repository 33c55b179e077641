# What lies beside a model: files that begin as editors write them, links that lead out, and reports over what belongs to the model.
cat > go.py <<'GO'
import json, os, shutil, struct, subprocess, sys
sys.path.insert(0, os.environ["TESTS"])
import report_page
text = json.dumps({"a": {"dtype": "U8", "shape": [1], "data_offsets": [0, 1]}}).encode()
os.makedirs("m")
open("m/model.safetensors", "wb").write(struct.pack("<Q", len(text)) + text + b"x")
json.dump({"metadata": {}, "weight_map": {"a": "model.safetensors"}}, open("m/model.safetensors.index.json", "w"))
open("secret.json", "w").write('{"secret": 1}')
def report(model, *options):
    done = subprocess.run(["safetensors", "report", model, "-f", *options], capture_output=True, text=True)
    sys.stdout.write("%d %s" % (done.returncode, done.stderr.replace("\nhint: see safetensors report --help", "") or "\n"))
    return report_page.load("r.html") if done.returncode == 0 else None
open("m/README.md", "wb").write(b"\xef\xbb\xbf---\r\nlicense: mit\r\n---\r\n")
os.symlink("../secret.json", "m/config.json")
page = report("m", "-o", "r.html")
print(page["license"], page.get("config"), page["left_out"])
os.rename("m/config.json", "out.json")
open("m/real.json", "w").write('{"n": 1}')
os.symlink("real.json", "m/config.json")
print(report("m", "-o", "r.html")["config"])
# a cache of the Hub: links to blobs beside
os.makedirs("hub/models--o--n/blobs"); os.makedirs("hub/models--o--n/snapshots/1")
shutil.copy("m/model.safetensors", "hub/models--o--n/blobs/w"); shutil.copy("m/real.json", "hub/models--o--n/blobs/c")
os.symlink("../../blobs/w", "hub/models--o--n/snapshots/1/model.safetensors"); os.symlink("../../blobs/c", "hub/models--o--n/snapshots/1/config.json")
print(report("hub/models--o--n/snapshots/1", "-o", "r.html")["config"])
before = {n: open("m/" + n, "rb").read() for n in os.listdir("m")}
for output in sorted(before):
    report("m", "-o", "m/" + output) if output != "real.json" else None
report("m/model.safetensors.index.json", "-o", "m/model.safetensors.index.json")
assert before == {n: open("m/" + n, "rb").read() for n in os.listdir("m")}
GO
python3 go.py
