#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""moments.py --tool TOOL [--moments N] [--seed S] [--only WORD] - what others do to a file while a command reads or writes it.

Every command of the tool, on a file, a model of four shards, a checkpoint of ranks, or a file of another format, is started; at a
random moment somebody replaces a file (`mv new old`), cuts it short, writes other bytes into it, or points the link that leads
to the directory to another one. In half of the runs the tool is stopped meanwhile (SIGSTOP). The result - exit status, standard
output, every file written - is then that of the same command before, or that of the same command after; or exit status 3 with a
sentence, and nothing written. Never a mixture, never a signal, and what was replaced stays replaced.

The oracle is the command itself on a file that nobody touches, and for commands that change their operand Python's reading of it.
Standard library only.
"""

import argparse
import hashlib
import json
import os
import random
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time

import scene

SIZE = 200000
COUNT = 6
LONGEST = 120  # seconds, of a command that takes milliseconds, on a busy machine


def snapshot(folder):
    found = {}
    for root, folders, files in os.walk(folder):
        folders[:] = [f for f in folders if not f.startswith(".")]
        for name in files:
            if not name.startswith("."):
                path = os.path.join(root, name)
                with open(path, "rb") as f:
                    found[os.path.relpath(path, folder)] = hashlib.sha256(f.read()).hexdigest()
    return found


class Stage:
    """Two states of everything, and how to get from one to the other."""

    def __init__(self, tool, base):
        self.tool, self.base = tool, base
        self.here, self.out = os.path.join(base, "here"), os.path.join(base, "out")
        self.states = []
        for seed in (1, 2):
            self.states.append(os.path.join(base, "state%d" % seed))
            self.make(self.states[-1], seed)

    def make(self, d, seed):
        tensors = scene.model(seed, SIZE, COUNT)
        one = os.path.join(d, "m.safetensors")
        scene.put(one, scene.weights(tensors, {"seed": str(seed)}, backwards=seed == 2))
        self.must("verify", "--record", "crc32c,sha256", one)
        scene.put(os.path.join(d, "b.safetensors"), scene.weights(tensors, {"seed": str(seed)}))
        digests = {k: {"sha256": hashlib.sha256(v).hexdigest()} for k, v in tensors.items()}
        scene.put(
            os.path.join(d, "b.safetensors.digests.json"),
            json.dumps(
                {
                    "schema": 1,
                    "file": "b.safetensors",
                    "size": os.path.getsize(os.path.join(d, "b.safetensors")),
                    "tensors": digests,
                }
            ),
        )
        scene.write_torch(os.path.join(d, "m.pt"), tensors)
        scene.shards(os.path.join(d, "v"), tensors, 4)
        os.symlink("v", os.path.join(d, "shards"))
        scene.put(os.path.join(d, "plan.json"), '{"t*": "colwise"}')
        self.must(
            "reshard",
            one,
            "--target-layout",
            os.path.join(d, "plan.json"),
            "-r",
            "2",
            "-o",
            os.path.join(d, "ranks"),
        )
        self.must("dedupe", os.path.join(d, "ranks"), "-o", os.path.join(d, "few"))
        scene.put(os.path.join(d, "fixed.safetensors"), scene.weights(scene.model(1, SIZE, COUNT)))

    def must(self, *args):
        p = scene.run(self.tool, *args)
        if p.returncode != 0:
            raise SystemExit("%s: %s" % (args, p.stderr))

    def reset(self):
        shutil.rmtree(self.here, ignore_errors=True)
        shutil.copytree(self.states[0], self.here, symlinks=True)
        self.clear()

    def clear(self):
        shutil.rmtree(self.out, ignore_errors=True)
        os.makedirs(self.out)

    def change(self, kind, name, rng):
        """One change that somebody else makes of `name`."""
        path, new = os.path.join(self.here, name), os.path.join(self.states[1], name)
        if kind == "replace":
            shutil.copyfile(new, path + ".new")
            os.rename(path + ".new", path)
        elif kind == "truncate":
            os.truncate(path, rng.randrange(os.path.getsize(path)))
        elif kind == "edit":  # other bytes of tensors, in pieces, under the header that is there
            with open(path, "r+b") as f:
                begin = (
                    8 + struct.unpack("<Q", f.read(8))[0]
                    if name.endswith(".safetensors")
                    else os.path.getsize(path) // 2
                )
                end = os.path.getsize(path) - (0 if name.endswith(".safetensors") else 4000)
                f.seek(begin)
                for at in range(begin, end, 65536):
                    f.write(rng.randbytes(min(65536, end - at)))
                    f.flush()
        elif kind == "switch":
            shutil.copytree(os.path.join(self.states[1], "v"), os.path.join(self.here, "w"))
            os.symlink("w", path + ".new")
            os.rename(path + ".new", path)

    def run(self, args, moment=None, stop=False, action=None):
        env = None
        if stop and "ASAN_OPTIONS" in os.environ:
            # its search for leaks stops the process by itself, and waits for ever if somebody lets it go on meanwhile
            env = {**os.environ, "ASAN_OPTIONS": os.environ["ASAN_OPTIONS"] + ":detect_leaks=0"}
        p = subprocess.Popen(
            [self.tool, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=self.base, env=env
        )
        if action is not None:
            time.sleep(moment)
            if stop and p.poll() is None:
                p.send_signal(signal.SIGSTOP)
            action()
            if stop:
                p.send_signal(signal.SIGCONT)
        try:
            out, err = p.communicate(timeout=LONGEST)
        except subprocess.TimeoutExpired:
            p.kill()
            out, err = p.communicate()
            err += b"\nit does not end"
        return p.returncode, hashlib.sha256(out).hexdigest(), snapshot(self.out), err.decode(errors="replace")


# What is changed for the commands of each kind of operand.
CHANGES = {
    "file": [("replace", "m.safetensors"), ("truncate", "m.safetensors"), ("edit", "m.safetensors")],
    "beside": [("replace", "b.safetensors"), ("truncate", "b.safetensors"), ("edit", "b.safetensors")],
    "torch": [("replace", "m.pt"), ("truncate", "m.pt"), ("edit", "m.pt")],
    "shards": [
        ("replace", "v/model-00003-of-00004.safetensors"),
        ("truncate", "v/model-00002-of-00004.safetensors"),
        ("edit", "v/model-00004-of-00004.safetensors"),
        ("switch", "shards"),
        ("replace", "v/model.safetensors.index.json"),
    ],
    "ranks": [
        ("replace", "ranks/rank_1/model.safetensors"),
        ("truncate", "ranks/rank_0/model.safetensors"),
        ("edit", "ranks/rank_1/model.safetensors"),
        ("replace", "ranks/layout.json"),
    ],
    "few": [("replace", "few/rank_1/model.safetensors"), ("edit", "few/rank_0/model.safetensors")],
}


def commands():
    """kind of operand, arguments; "out/..." is written"""
    table = []
    for kind, x in (("file", "here/m.safetensors"), ("shards", "here/shards"), ("ranks", "here/ranks")):
        rows = [
            "ls X",
            "ls --json X",
            "show X",
            "show X t1",
            "check X",
            "check --digests X",
            "mem X",
            "meta X",
            "hash X",
            "hash --all X",
            "hash --content X",
            "hash --tensors X",
            "verify X",
            "verify --same X here/fixed.safetensors",
            "diff X here/fixed.safetensors",
            "diff --values here/fixed.safetensors X",
            "get X t3 -o -",
            "diff --stat --json X here/fixed.safetensors",
            "diff --report out/d.html here/fixed.safetensors X",
            "report X -o out/r.html",
            "report --json X",
            "get X t3[100:] -o out/t.npy",
            "cp X out/o.safetensors",
            "cp X - --select t[0-3]",
            "cp X out/o.safetensors --digests sha256 --cast t1=I8",
            "split X -o out/s --max-shard-size 300000",
            "join X -o out/o.safetensors",
            "join --unified X -o out/u",
            "reshard X --target-layout here/plan.json -r 3 -o out/r",
            "slice X --layout here/plan.json -r 2 -k 1 -o out/o.safetensors",
        ]
        if kind != "ranks":
            rows += [
                "convert X -o out/o.safetensors --max-shard-size 300000",
                "convert X -o out/o.pt",
                "convert --verify X -o out/o.npz",
            ]
        if kind != "ranks":
            rows += ["scan X"]
        if kind == "file":
            rows += ["convert X -o out/o.safetensors"]
        table += [
            (kind, r.replace("X", x).split()) for r in rows if not (kind == "ranks" and r.startswith("slice"))
        ]
    table += [
        ("file", "hash --whole here/m.safetensors".split()),
        ("file", "meta --export here/m.safetensors".split()),
        ("beside", "verify here/b.safetensors".split()),
        ("beside", "check --digests here/b.safetensors".split()),
        ("beside", "cp here/b.safetensors out/o.safetensors".split()),
        ("beside", "convert here/b.safetensors -o out/o.safetensors".split()),
        ("ranks", "dedupe here/ranks -o out/d".split()),
        ("ranks", "layout show here/ranks".split()),
        ("ranks", "verify --replicas here/ranks".split()),
        ("ranks", "resume-point here/ranks".split()),
        ("few", "expand here/few -o out/e".split()),
        ("few", "ls here/few".split()),
    ]
    for r in (
        "ls X",
        "show X",
        "check X",
        "hash --content X",
        "hash --whole X",
        "get X t2 -o -",
        "diff X here/fixed.safetensors",
        "scan X",
        "scan --checksums X",
        "convert X -o out/o.safetensors",
        "convert --verify X -o out/o.safetensors",
        "convert X -o out/o.safetensors --max-shard-size 300000",
        "convert X -o out/o.npz",
        "cp X out/o.safetensors",
        "split X -o out/s --max-shard-size 300000",
        "mem X",
    ):
        table.append(("torch", r.replace("X", "here/m.pt").split()))
    return table


class Run:
    def __init__(self, stage, rng):
        self.s, self.rng, self.faults = stage, rng, 0
        self.seen = {"before": 0, "after": 0, "said so": 0}
        self.count = 0

    def fault(self, *what):
        self.faults += 1
        print("FAULT", *[str(w)[:600] for w in what], flush=True)

    def one(self, args, before, took, kind, name):
        s = self.s
        s.reset()
        # Nothing tells a file in the middle of a write from one that is done: an edit is one moment to the tool.
        stop = kind == "edit" or self.rng.random() < 0.5
        rc, out, files, err = s.run(
            args, self.rng.random() * took * 1.2, stop, lambda: s.change(kind, name, self.rng)
        )
        self.count += 1
        if (rc, out, files) == before:
            self.seen["before"] += 1
            return
        s.clear()
        after = s.run(args)[:3]
        if (rc, out, files) == after:
            self.seen["after"] += 1
        elif rc == 3 and err.strip() and not files:
            self.seen["said so"] += 1
        else:
            self.fault(
                " ".join(args),
                "|",
                kind,
                name,
                "stopped" if stop else "",
                "| exit",
                rc,
                err,
                sorted(files),
                "| before exit",
                before[0],
                "| after exit",
                after[0],
            )

    def command(self, kind, args, moments):
        s = self.s
        s.reset()
        begun = time.monotonic()
        before = s.run(args)[:3]
        took = time.monotonic() - begun
        if before[0] > 1 and args[0] not in ("layout", "resume-point"):
            self.fault(" ".join(args), "does not run:", s.run(args))
            return
        for change, name in CHANGES[kind]:
            for _ in range(moments):
                self.one(args, before, took, change, name)

    def editing(self, args, moments):
        """Commands that change their operand: stopped, the file is replaced or cut, and they go on."""
        s = self.s
        path = os.path.join(s.here, "b.safetensors")
        s.reset()
        begun = time.monotonic()
        s.run(args)
        took = time.monotonic() - begun
        for i in range(moments * 2):
            kind = ("replace", "truncate")[i % 2]
            s.reset()
            left = []

            def action():
                s.change(kind, "b.safetensors", self.rng)
                with open(path, "rb") as f:
                    left.append(f.read())

            rc, _, _, err = s.run(args, self.rng.random() * took * 1.2, True, action)
            self.count += 1
            with open(path, "rb") as f:
                now = f.read()
            if now == left[0]:
                self.seen["before" if rc == 0 else "said so"] += 1
                if rc not in (0, 1, 3) or (rc != 0 and not err.strip()):
                    self.fault(" ".join(args), kind, "exit", rc, err)
            elif rc == 0 and kind == "replace" and scene.read_weights(path) == scene.model(2, SIZE, COUNT):
                self.seen["after"] += 1
            else:
                self.fault(" ".join(args), kind, "LOST: exit", rc, err)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--tool", required=True)
    p.add_argument("--moments", type=int, default=1)
    p.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 30))
    p.add_argument("--only", default="")
    a = p.parse_args()
    print("seed %d" % a.seed, flush=True)
    with tempfile.TemporaryDirectory(prefix="sft-moments-") as base:
        run = Run(Stage(os.path.abspath(a.tool), base), random.Random(a.seed))
        table = [(k, args) for k, args in commands() if a.only in " ".join(args)]
        for kind, args in table:
            run.command(kind, args, a.moments)
        edits = [
            ["meta", "here/b.safetensors", "--set", "k=v"],
            ["meta", "here/b.safetensors", "--set", "k=" + "v" * 5000],
            ["verify", "-f", "--record", "crc32c,sha256", "here/b.safetensors"],
        ]
        edits = [e for e in edits if a.only in " ".join(e)]
        for args in edits:
            run.editing(args, a.moments)
    print(
        "%d commands, %d runs with a change meanwhile: %s; %d faults"
        % (len(table) + len(edits), run.count, ", ".join("%s %d" % i for i in run.seen.items()), run.faults)
    )
    return 1 if run.faults else 0


if __name__ == "__main__":
    sys.exit(main())
