# Progress: on a terminal, after one second, wiped at the end; never elsewhere, never with -q.
cat > watch.py <<'END'
import json, os, pty, re, struct, subprocess, sys, threading, time
n = 48 << 20
text = json.dumps({"w": {"dtype": "U8", "shape": [n], "data_offsets": [0, n]}}).encode()
with open("w.safetensors", "wb") as f:
    f.write(struct.pack("<Q", len(text)) + text)
    f.truncate(8 + len(text) + n)

def run(args, terminal):
    master, slave = pty.openpty()
    seen = []

    def collect():
        try:
            while True:
                part = os.read(master, 4096)
                if not part:
                    return
                seen.append(part)
        except OSError:
            pass

    p = subprocess.Popen(["safetensors", "get", "w.safetensors", "w", "-o", "-"] + args, stdout=subprocess.PIPE,
                         stderr=slave if terminal else subprocess.PIPE)
    os.close(slave)
    watcher = threading.Thread(target=collect)
    watcher.start()
    p.stdout.read(1 << 20)
    time.sleep(1.2)
    for _ in range(40):
        p.stdout.read(1 << 20)
        time.sleep(0.01)
    p.stdout.read()
    talk = b"" if terminal else p.stderr.read()
    code = p.wait()
    watcher.join()
    os.close(master)
    return code, b"".join(seen) + talk

code, seen = run([], True)
lines = [l for l in seen.split(b"\r") if l.strip() and l != b"\x1b[K"]
good = re.compile(rb"writing: \d+%  [\d.]+ [KM]iB of 48\.0 MiB  [\d.]+ [KM]?i?B/s  \d+:\d\d left\x1b\[K")
print(code, len(lines) > 0, all(good.fullmatch(l) for l in lines), seen.endswith(b"\r\x1b[K"))
print(run(["-q"], True))
print(run([], False))
END
python3 watch.py
