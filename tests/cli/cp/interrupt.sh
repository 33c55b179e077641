# Ctrl-C in the middle of a copy: 130, the old file is there, nothing else.
cat > go.py <<'END'
import json, os, signal, struct, subprocess, time
n = 400 << 20
h = json.dumps({"a": {"dtype": "F32", "shape": [n // 4], "data_offsets": [0, n]}}).encode()
with open("big", "wb") as f:
    f.write(struct.pack("<Q", len(h)) + h)
    f.truncate(8 + len(h) + n)
before = sorted(os.listdir("."))
for wait in (0.05, 0.02, 0.1, 0.01, 0.005, 0.03):
    open("target", "w").write("old")
    p = subprocess.Popen(["safetensors", "cp", "-f", "--cast", "BF16", "-j1", "big", "target"], stderr=subprocess.PIPE)
    time.sleep(wait)
    p.send_signal(signal.SIGINT)
    _, err = p.communicate()
    if p.returncode == 130:
        break
    assert p.returncode in (0, -2), p.returncode
print(p.returncode, open("target").read(), err)
os.remove("target")
print(sorted(os.listdir(".")) == before)
END
python3 go.py
rm big
