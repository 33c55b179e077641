# Ctrl-C: exit status 130, silence, and nothing left behind. A signal that was ignored stays ignored.
for i in 1 2 3 4 5 6 7 8; do for k in 1 2 3 4; do cp layers.safetensors l$i$k.safetensors; done; done
cat > begun.py <<'END'
import glob, os, time

def wait(p, path):
    """Until the process has opened the file, where the system tells, or has ended."""
    if not os.path.isdir("/proc/self/fd"):
        time.sleep(0.05)
    while os.path.isdir("/proc/self/fd") and p.poll() is None:
        for fd in glob.glob(f"/proc/{p.pid}/fd/*"):
            try:
                if os.path.samefile(fd, path):
                    return
            except OSError:
                pass
END
cat > stop.py <<'END'
import os, signal, subprocess, sys, time

def start(args, **more):
    return subprocess.Popen(["safetensors"] + args, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **more)

many = sorted(f for f in os.listdir(".") if f.startswith("l"))
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    p = start(["ls", "--json"] + many)  # more than a pipe holds, and nobody reads on
    os.read(p.stdout.fileno(), 1)  # it has begun
    p.send_signal(number)
    time.sleep(0.1)
    p.stdout.read()
    print("writing:", p.wait(), p.stderr.read())
p = start(["ls", "-"], stdin=subprocess.PIPE)
time.sleep(0.2)
p.send_signal(signal.SIGINT)
print("reading:", p.wait() in (-2, 130), p.stderr.read())
p = start(["ls", "--json"] + many, preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
time.sleep(0.2)
p.send_signal(signal.SIGHUP)
time.sleep(0.1)
print("ignored:", p.stdout.read().count(b"\n") == len(many), p.wait())
END
python3 stop.py
python3 - <<'END'
# An edit that has to copy: the old file or the new one, and nothing beside it.
import begun, json, os, signal, struct, subprocess
n = 2 << 30
text = json.dumps({"w": {"dtype": "U8", "shape": [n], "data_offsets": [0, n]}}).encode()
os.mkdir("edit")
with open("edit/big.safetensors", "wb") as f:
    f.write(struct.pack("<Q", len(text)) + text)
    f.truncate(8 + len(text) + n)
p = subprocess.Popen(["safetensors", "meta", "edit/big.safetensors", "--set", "a=b"], stderr=subprocess.PIPE)
begun.wait(p, "edit/big.safetensors")
p.send_signal(signal.SIGINT)
print("edit:", p.wait() in (130, 0), p.stderr.read(), os.listdir("edit"))
print(subprocess.run(["safetensors", "check", "edit/big.safetensors"], capture_output=True).stdout)
END
python3 - <<'END'
# A tensor on its way into a file: all of it or nothing.
import begun, json, os, signal, struct, subprocess
n = 1 << 30
text = json.dumps({"w": {"dtype": "U8", "shape": [n], "data_offsets": [0, n]}}).encode()
os.mkdir("get")
with open("get/big.safetensors", "wb") as f:
    f.write(struct.pack("<Q", len(text)) + text)
    f.truncate(8 + len(text) + n)
p = subprocess.Popen(["safetensors", "get", "get/big.safetensors", "w", "-o", "get/w.bin"], stderr=subprocess.PIPE)
begun.wait(p, "get/big.safetensors")
p.send_signal(signal.SIGINT)
code = p.wait()
whole = os.path.exists("get/w.bin") and os.path.getsize("get/w.bin") == n
print("get:", code in (130, 0), whole == (code == 0), p.stderr.read(), [f for f in os.listdir("get") if "tmp" in f])
END
