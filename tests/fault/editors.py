#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""editors.py --tool TOOL [--rounds N] [--seed S] - edits of one file by many at once, and files that are replaced meanwhile.

1. Four editors at once, each sets keys of its own (some fit in place, some need a new file): every key is there afterwards, the file
   is valid, its tensors are what they were.
2. `mv new model` while `meta --set` or `verify --record` runs, at random moments: the new file is there, byte for byte, and the
   command says so (exit status 3), or the command had ended before and the new file is there; or the replacement came first, and
   what was edited is the new one. Never the old file back, never digests of one file in another.
3. The same at the last moment: the tool stops (SIGSTOP) at random, the file is replaced, it goes on.
The oracle is Python's own reading of the files. Standard library only.
"""

import argparse
import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time


def write_file(path, seed, size, pad):
    data = random.Random(seed).randbytes(size)
    header = {
        "__metadata__": {"model": str(seed)},
        "t": {"dtype": "U8", "shape": [size], "data_offsets": [0, size]},
    }
    text = json.dumps(header).encode()
    text += b" " * (pad - len(text) % 8)
    with open(path, "wb") as f:
        f.write(len(text).to_bytes(8, "little") + text + data)


def read_file(path):
    with open(path, "rb") as f:
        all_bytes = f.read()
    n = int.from_bytes(all_bytes[:8], "little")
    header = json.loads(all_bytes[8 : 8 + n])
    begin, end = header["t"]["data_offsets"]
    return (
        header.get("__metadata__", {}),
        hashlib.sha256(all_bytes[8 + n + begin : 8 + n + end]).hexdigest(),
        all_bytes,
    )


class Checks:
    def __init__(self, a, base):
        self.tool, self.base, self.rng = os.path.abspath(a.tool), base, random.Random(a.seed)
        self.path = os.path.join(base, "m.safetensors")
        self.took = {}
        self.counts = {"edits": 0, "replaced first": 0, "edited first": 0, "said so": 0}

    def start(self, *args):
        return subprocess.Popen([self.tool, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def editors(self):
        write_file(self.path, 1, 300000, self.rng.choice([8, 256, 2048]))
        before = read_file(self.path)[1]
        wanted = {"model": "1"}
        running = []
        for k in range(4):
            key, value = "key%d" % k, "v" * self.rng.choice([1, 10, 100, 3000])
            wanted[key] = value
            running.append(self.start("meta", self.path, "--set", "%s=%s" % (key, value)))
        for p in running:
            err = p.communicate()[1].decode()
            if p.returncode != 0:
                raise SystemExit("an editor: exit %d %s" % (p.returncode, err))
        metadata, after, _ = read_file(self.path)
        if metadata != wanted:
            raise SystemExit("LOST: %s" % {k: v[:20] for k, v in wanted.items() if metadata.get(k) != v})
        if before != after:
            raise SystemExit("TORN: other tensors")
        self.counts["edits"] += 4

    def replaced(self, command, stop):
        write_file(self.path, 1, 3000000, 8)
        fresh = os.path.join(self.base, "new")
        write_file(fresh, 2, 3000000, 8)
        new_bytes = read_file(fresh)[2]
        digest_of = {1: read_file(self.path)[1], 2: read_file(fresh)[1]}
        p = self.start(*command, self.path)
        time.sleep(self.rng.random() * self.took.get(command[0], 0.05))
        if stop and p.poll() is None:
            p.send_signal(signal.SIGSTOP)
        os.rename(fresh, self.path)
        if stop:
            p.send_signal(signal.SIGCONT)
        err = p.communicate()[1].decode()
        metadata, digest, now = read_file(self.path)
        if digest != digest_of[2] or metadata.get("model") != "2":
            raise SystemExit("LOST: the new file is gone after %s, exit %d %s" % (command, p.returncode, err))
        if p.returncode == 3:
            if now != new_bytes:
                raise SystemExit("exit 3, and the new file was written to")
            self.counts["said so"] += 1
        elif p.returncode != 0:
            raise SystemExit("%s: exit %d %s" % (command, p.returncode, err))
        elif now == new_bytes:
            self.counts["edited first"] += 1
        else:
            if (
                command[0] == "verify"
                and subprocess.run([self.tool, "verify", "-q", self.path]).returncode != 0
            ):
                raise SystemExit("digests of one file recorded in another")
            self.counts["replaced first"] += 1
        left = [n for n in os.listdir(self.base) if n != "m.safetensors"]
        if left:
            raise SystemExit("left behind: %s" % left)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--tool", required=True)
    p.add_argument("--rounds", type=int, default=40)
    p.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 30))
    a = p.parse_args()
    print("seed %d" % a.seed)
    base = tempfile.mkdtemp(prefix="sft-editors-")
    c = Checks(a, base)
    try:
        commands = (
            ("meta", "--set", "k=" + "v" * 5000),
            ("meta", "--set", "k=v"),
            ("verify", "--record", "crc32c,sha256"),
        )
        for command in commands:
            write_file(c.path, 1, 3000000, 8)
            begun = time.monotonic()
            subprocess.run([c.tool, *command, c.path], check=True, stdout=subprocess.DEVNULL)
            c.took[command[0]] = max(c.took.get(command[0], 0), (time.monotonic() - begun) * 1.2)
        os.remove(c.path)
        for i in range(a.rounds):
            c.editors()
            c.replaced(commands[i % 3], i % 2 == 0)
    finally:
        shutil.rmtree(base, ignore_errors=True)
    print(
        "%d rounds: %d edits by four at once, 0 lost, 0 torn; replaced meanwhile: %s"
        % (
            a.rounds,
            c.counts["edits"],
            ", ".join("%s %d" % (k, v) for k, v in c.counts.items() if k != "edits"),
        )
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
