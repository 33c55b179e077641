# Ctrl-C in the middle of a copy: 130, the old file is there, nothing else.
cat > go.py <<'END'
import json, os, signal, struct, subprocess, time
n = 400 << 20
h = json.dumps({"a": {"dtype": "F32", "shape": [n // 4], "data_offsets": [0, n]}}).encode()
with open("big", "wb") as f:
    f.write(struct.pack("<Q", len(h)) + h)
    f.truncate(8 + len(h) + n)
before = sorted(os.listdir("."))
command = ["safetensors", "cp", "-f", "--cast", "BF16", "-j1", "big", "target"]
began = time.monotonic()
subprocess.run(command, check=True)
whole = time.monotonic() - began
for turn in range(100): # too early or too late on a busy machine: at another part of the time that it takes
    open("target", "w").write("old")
    p = subprocess.Popen(command, stderr=subprocess.PIPE)
    time.sleep(whole * (turn * 7 % 20 + 1) / 25)
    p.send_signal(signal.SIGINT)
    _, err = p.communicate()
    if p.returncode == 130:
        break
    assert p.returncode in (0, -2), p.returncode
print(p.returncode, open("target", "rb").read(20).decode("latin-1").encode("ascii", "replace").decode(), err)
os.remove("target")
print(sorted(os.listdir(".")) == before)
END
python3 go.py
rm big
