#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""kills.py --tool TOOL [--rounds N] [--mib M] [--seed S] - tasks of a reshard that are killed, and ended by others.

Each round cuts one model from 3 ranks to 5 by rows and columns, the second half of them with --record. Several --task processes at once, each killed at a random
time or left alone; then another number of tasks, again with kills; at last one run alone, or each task once more and
--task finish. After every step the target is not there, or complete; at the end it is what one run without kills writes.
Standard library only.
"""

import argparse
import filecmp
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time


def write_model(path, mib):
    rows = 1024
    tensors = {
        "layers.%d.%s" % (i, kind): [rows, 256] for i in range(2 * mib) for kind in ("attn.q", "mlp.w")
    }
    tensors["norm"] = [333]
    header, at = {}, 0
    for name, shape in tensors.items():
        n = shape[0] * (shape[1] if len(shape) > 1 else 1)
        header[name] = {"dtype": "U8", "shape": shape, "data_offsets": [at, at + n]}
        at += n
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    rng = random.Random(5)
    with open(path, "wb") as f:
        f.write(len(text).to_bytes(8, "little") + text)
        while at > 0:
            block = rng.randbytes(min(at, 1 << 20))
            f.write(block)
            at -= len(block)


def files_of(folder):
    return sorted(
        os.path.relpath(os.path.join(b, n), folder) for b, _, names in os.walk(folder) for n in names
    )


def same(a, b):
    return files_of(a) == files_of(b) and all(
        filecmp.cmp(os.path.join(a, f), os.path.join(b, f), shallow=False) for f in files_of(a)
    )


class Reshard:
    def __init__(self, tool, base, record):
        self.command = [
            tool,
            "reshard",
            os.path.join(base, "three"),
            "--target-layout",
            os.path.join(base, "plan.json"),
            "--ranks",
            "5",
            "--memory",
            "8MiB",
            "-j",
            "1",
            "--no-sync",
        ] + (["--record", "crc32c"] if record else [])

    def start(self, target, task=None):
        return subprocess.Popen(
            self.command + ["-o", target] + (["--task", task] if task else []),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )

    def run(self, target, task=None):
        p = self.start(target, task)
        err = p.communicate()[1].decode()
        return p.returncode, err


def with_kills(rng, job, target, tasks, longest):
    """All tasks of a count at once, about two thirds of them killed. Returns how many were."""
    running = [job.start(target, "%d/%d" % (k, tasks)) for k in range(1, tasks + 1)]
    doomed = [p for p in running if rng.random() < 0.67]
    ends = sorted((rng.random() * longest, i) for i in range(len(doomed)))
    began = time.monotonic()
    killed = 0
    for when, i in ends:
        time.sleep(max(0.0, when - (time.monotonic() - began)))
        if doomed[i].poll() is None:
            doomed[i].kill()
            killed += 1
    for p in running:
        err = p.communicate()[1].decode()
        # a task that comes when another has published finds the target there; two may meet at publishing
        if p.returncode not in (0, -9) and "there already" not in err and "another process" not in err:
            raise SystemExit("a task: exit %d %s" % (p.returncode, err))
    return killed


def one_round(rng, job, base, truth, longest):
    target = os.path.join(base, "out")
    killed = 0
    counts = []
    for _ in range(rng.randint(1, 3)):
        tasks = rng.choice([1, 2, 3, 4, 7])
        counts.append(tasks)
        killed += with_kills(rng, job, target, tasks, longest)
        if os.path.exists(target):
            break
    if not os.path.exists(target):
        if rng.random() < 0.5:
            counts.append(0)
            code, err = job.run(target)
            if code != 0:
                raise SystemExit("the last run: exit %d %s" % (code, err))
        else:
            tasks = rng.choice([2, 5])
            counts.append(-tasks)
            for k in range(1, tasks + 1):
                if not os.path.exists(target):
                    code, err = job.run(target, "%d/%d" % (k, tasks))
                    if code != 0:
                        raise SystemExit("task %d of %d: exit %d %s" % (k, tasks, code, err))
            if not os.path.exists(target):
                code, err = job.run(target, "finish")
                if code != 0:
                    raise SystemExit("finish: exit %d %s" % (code, err))
    if not same(truth, target):
        raise SystemExit("other files after tasks %r" % counts)
    left = [n for n in os.listdir(base) if n.startswith(".out")]
    if left:
        raise SystemExit("left behind: %r after tasks %r" % (left, counts))
    shutil.rmtree(target)
    return killed


def prepare(tool, base, mib):
    write_model(os.path.join(base, "model.safetensors"), mib)
    with open(os.path.join(base, "plan.json"), "w", encoding="utf-8") as f:
        json.dump({"layers.*.attn.q": "colwise", "layers.*.mlp.w": "rowwise"}, f)
    subprocess.run(
        [
            tool,
            "reshard",
            os.path.join(base, "model.safetensors"),
            "--target-layout",
            os.path.join(base, "plan.json"),
            "--ranks",
            "3",
            "-o",
            os.path.join(base, "three"),
            "-q",
        ],
        check=True,
    )


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--tool", required=True)
    p.add_argument("--rounds", type=int, default=6)
    p.add_argument("--mib", type=int, default=48)
    p.add_argument("--seed", type=int, default=1)
    a = p.parse_args()
    rng = random.Random(a.seed)
    tool = os.path.abspath(a.tool)
    base = tempfile.mkdtemp(prefix="sft-kills-", dir="/dev/shm" if os.path.isdir("/dev/shm") else None)
    try:
        prepare(tool, base, a.mib)
        killed = 0
        for record in (False, True):
            job = Reshard(tool, base, record)
            truth = os.path.join(base, "truth-%d" % record)
            began = time.monotonic()
            code, err = job.run(truth)
            longest = time.monotonic() - began
            if code != 0:
                raise SystemExit("without kills: exit %d %s" % (code, err))
            ranks = [os.path.join(truth, f) for f in files_of(truth) if f.endswith(".safetensors")]
            if record and (len(ranks) != 5 or subprocess.run([tool, "verify", "-q", *ranks]).returncode != 0):
                raise SystemExit("the digests that were recorded are not those of the tensors")
            killed += sum(one_round(rng, job, base, truth, longest) for _ in range((a.rounds + record) // 2))
    finally:
        shutil.rmtree(base)
    print("%d rounds, %d tasks killed, every end the same" % (a.rounds, killed))
    return 0 if killed > 0 else 1


if __name__ == "__main__":
    sys.exit(main())
