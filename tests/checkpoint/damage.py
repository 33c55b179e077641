#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""damage.py --tool TOOL [--rounds N] [--seed S] - what a killed job leaves is damaged, then the job is run again.

Each round: tasks of a reshard or a split (every third with --record, some with --verify, some into a directory that holds other
files) are killed at a random time or left to end; then one file of what they left is removed, emptied, cut, made longer, replaced
by another, or has a bit flipped, at random; then the job is run to its end. The target is then byte for byte what a run without any of
this writes, or the run is refused and says why; never anything else. After a refusal --restart leads to the target. The
oracle is the file of an undisturbed run. Standard library only.
"""

import argparse
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time

import kills


def staged(base):
    """Every file that a job left, wherever its staging directory is."""
    found = []
    for folder, _, names in os.walk(base):
        if ".sft-part" in folder:
            found += [os.path.join(folder, n) for n in names]
    return sorted(found)


def damage(rng, path):
    how = rng.choice(["remove", "empty", "cut", "longer", "flip", "flip", "flip", "zeros", "other", "swap"])
    size = os.path.getsize(path)
    if how == "remove":
        os.remove(path)
    elif how in ("empty", "cut"):
        os.truncate(path, 0 if how == "empty" else rng.randrange(size + 1))
    elif how == "longer":
        with open(path, "ab") as f:
            f.write(rng.randbytes(rng.randint(1, 5000)))
    elif how == "other":
        os.remove(path)
        with open(path, "wb") as f:
            f.write(rng.randbytes(min(size, 1 << 20)))
    elif how == "swap":
        other = rng.choice([p for p in staged(os.path.dirname(path))])
        a, b = open(path, "rb").read(), open(other, "rb").read()
        open(path, "wb").write(b)
        open(other, "wb").write(a)
    elif size > 0:
        at = rng.randrange(size)
        with open(path, "r+b") as f:
            f.seek(at)
            was = f.read(1)
            f.seek(at)
            f.write(bytes([was[0] ^ 1 << rng.randrange(8)]) if how == "flip" else bytes(min(size - at, 4096)))
    return "%s %s" % (how, os.path.basename(path))


class Job:
    def __init__(self, tool, base, kind, options):
        self.kind = kind
        if kind == "reshard":
            self.command = [
                tool,
                "reshard",
                os.path.join(base, "three"),
                "--target-layout",
                os.path.join(base, "plan.json"),
                "--ranks",
                "5",
            ]
        else:
            self.command = [
                tool,
                "split",
                os.path.join(base, "model.safetensors"),
                "--max-shard-size",
                "3MiB",
            ]
        self.command += ["--memory", "8MiB", "-j", "1", "--no-sync", *options]

    def start(self, target, task=None, more=()):
        return subprocess.Popen(
            self.command + ["-o", target, *more] + (["--task", task] if task else []),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )

    def run(self, target, task=None, more=()):
        p = self.start(target, task, more)
        err = p.communicate()[1].decode()
        return p.returncode, err


def same(truth, target, extra):
    names = set(kills.files_of(target))
    return names == set(kills.files_of(truth)) | extra and all(
        open(os.path.join(truth, n), "rb").read() == open(os.path.join(target, n), "rb").read()
        for n in kills.files_of(truth)
    )


def difference(truth, target, extra):
    """What same() found, for the report."""
    want, have = set(kills.files_of(truth)) | extra, set(kills.files_of(target))
    other = [
        n
        for n in sorted(want & have - extra)
        if open(os.path.join(truth, n), "rb").read() != open(os.path.join(target, n), "rb").read()
    ]
    return "missing %s, too many %s, other bytes in %s" % (sorted(want - have), sorted(have - want), other)


def one_round(rng, job, base, truth, longest, counts):
    target = os.path.join(base, "out")
    extra = set()
    if rng.random() < 0.4:  # the target is not empty: files are renamed one by one
        os.mkdir(target)
        with open(os.path.join(target, "README.md"), "w", encoding="ascii") as f:
            f.write("kept\n")
        extra = {"README.md"}
    done = lambda: (
        os.path.isdir(target)
        and set(kills.files_of(target)) >= set(kills.files_of(truth))
        and not staged(base)
        and not any(".sft-journal-" in n for n in kills.files_of(target))  # the next run removes them
    )
    tasks = rng.choice([0, 1, 2, 3])
    what = []
    for _ in range(rng.randint(1, 3)):
        if tasks == 0:
            running = [job.start(target)]
        else:
            running = [
                job.start(target, "%d/%d" % (k, tasks)) for k in range(1, tasks + 1) if rng.random() < 0.7
            ]
        for p in running:
            time.sleep(rng.random() * longest)
            if rng.random() < 0.7 and p.poll() is None:
                p.kill()
                counts["killed"] += 1
        for p in running:
            p.communicate()
        if done():
            break
        for path in rng.sample(staged(base), min(len(staged(base)), rng.randint(1, 2))):
            if os.path.exists(path):
                what.append(damage(rng, path))
                counts["damaged"] += 1
    if not done():
        if tasks > 0 and rng.random() < 0.5:
            for k in range(1, tasks + 1):
                code, err = job.run(target, "%d/%d" % (k, tasks)) if not done() else (0, "")
                if code != 0:
                    break
        else:
            code, err = job.run(target)
        if code != 0:
            if code not in (1, 3) or not err.startswith("safetensors: "):
                raise SystemExit("refused without a sentence: %d %s after %s" % (code, err, what))
            counts["refused"] += 1
            code, err = job.run(target, more=["--restart", "--force"])
            if code != 0:
                raise SystemExit("--restart after a refusal: %d %s after %s" % (code, err, what))
    if not same(truth, target, extra):
        raise SystemExit(
            "WRONG: %s after %s (tasks %d): %s"
            % (difference(truth, target, extra), what, tasks, " ".join(job.command))
        )
    if staged(base):
        raise SystemExit("left behind: %r after %s" % (staged(base), what))
    shutil.rmtree(target)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--tool", required=True)
    p.add_argument("--rounds", type=int, default=30)
    p.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 30))
    a = p.parse_args()
    print("seed %d" % a.seed)
    rng = random.Random(a.seed)
    base = tempfile.mkdtemp(prefix="sft-damage-", dir="/dev/shm" if os.path.isdir("/dev/shm") else None)
    counts = {"killed": 0, "damaged": 0, "refused": 0}
    try:
        kills.prepare(a.tool, base, 24)
        jobs = []
        for kind in ("reshard", "split"):
            for options in ([], ["--record", "crc32c"], ["--verify"]):
                job = Job(a.tool, base, kind, options)
                truth = os.path.join(base, "truth-%s%d" % (kind, len(jobs)))
                begun = time.monotonic()
                code, err = job.run(truth)
                if code != 0:
                    raise SystemExit("undisturbed: exit %d %s" % (code, err))
                jobs.append((job, truth, time.monotonic() - begun))
        for _ in range(a.rounds):
            job, truth, took = rng.choice(jobs)
            one_round(rng, job, base, truth, took * 1.1, counts)
    finally:
        shutil.rmtree(base, ignore_errors=True)
    print(
        "%d rounds: %d killed, %d files damaged, %d runs refused, 0 wrong"
        % (a.rounds, counts["killed"], counts["damaged"], counts["refused"])
    )
    return 0 if counts["damaged"] > 0 else 1


if __name__ == "__main__":
    sys.exit(main())
