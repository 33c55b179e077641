#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""hidden.py --tool TOOL [--kills N] - what SIGKILL leaves of commands that write one file: nothing that can be seen but a complete
result; and sidecars (NAME.digests.json): they fit their file after cp, cp -f, meta and verify --record, through links too.

The oracle is the result of a run that nobody disturbs, and Python's hashlib for digests. Standard library only.
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

import scene
from scene import CHECKS, FAULTS, check


def visible(folder):
    found = {}
    for name in os.listdir(folder):
        if not name.startswith("."):
            with open(os.path.join(folder, name), "rb") as f:
                found[name] = hashlib.sha256(f.read()).hexdigest()
    return found


def kills(tool, base, count):
    rng = random.Random(5)
    here, d = os.path.join(base, "m.safetensors"), os.path.join(base, "d")
    scene.put(here, scene.weights(scene.model(1, 400000, 6)))
    scene.write_torch(os.path.join(base, "m.pt"), scene.model(1, 400000, 6))
    commands = [
        ["get", here, "t1", "-o", "d/t.npy"],
        ["get", here, "t1", "-o", "d/t.bin"],
        ["report", here, "-o", "d/r.html"],
        ["convert", "m.pt", "-o", "d/o.safetensors"],
        ["convert", here, "-o", "d/o.npz"],
        ["convert", here, "-o", "d/o.pt"],
        ["cp", here, "d/o.safetensors"],
        ["join", here, "-o", "d/o.safetensors"],
        ["verify", "--record", "sha256", "d/x.safetensors"],
        ["verify", "--record", "sha256", "--manifest", "d/x.safetensors"],
        ["meta", "d/x.safetensors", "--set", "k=" + "v" * 9000],
    ]
    killed = 0
    for args in commands:
        for force in (False, True):
            results = []
            took = 0.0
            for i in range(count + 1):
                shutil.rmtree(d, ignore_errors=True)
                os.makedirs(d)
                shutil.copyfile(here, os.path.join(d, "x.safetensors"))
                old = (
                    os.path.join(d, os.path.basename(args[-1]))
                    if args[-2] == "-o" or args[0] == "cp"
                    else None
                )
                if force and old:
                    scene.put(old, b"older")
                before = visible(d)
                more = ["-f"] if force and args[0] != "meta" else []
                begun = time.monotonic()
                p = subprocess.Popen(
                    [tool, *args, *more], cwd=base, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
                )
                if i > 0:
                    time.sleep(rng.random() * took * 1.1)
                    p.send_signal(signal.SIGKILL)
                err = p.communicate()[1].decode()
                if i == 0:
                    took = time.monotonic() - begun
                    check(p.returncode == 0, args, err)
                    results = [before, visible(d)]
                else:
                    killed += p.returncode == -9
                    check(visible(d) in results, "killed:", args, more, sorted(visible(d)))
    return killed


def sidecar(path, tensors):
    digests = {k: {"sha256": hashlib.sha256(v).hexdigest()} for k, v in tensors.items()}
    scene.put(
        path + ".digests.json",
        json.dumps(
            {"schema": 1, "file": os.path.basename(path), "size": os.path.getsize(path), "tensors": digests}
        ),
    )


def sidecars(tool, base):
    a, b = scene.model(3, 5000), scene.model(4, 5000)
    d = os.path.join(base, "s")
    one, two, link = (
        os.path.join(d, "a.safetensors"),
        os.path.join(d, "b.safetensors"),
        os.path.join(d, "link.safetensors"),
    )

    def fresh():
        shutil.rmtree(d, ignore_errors=True)
        for path, tensors in ((one, a), (two, b)):
            scene.put(path, scene.weights(tensors))
            sidecar(path, tensors)

    def verified(path, tensors, what):
        p = scene.run(tool, "verify", path)
        check(p.returncode == 0 and "ok" in p.stdout, what, p.returncode, p.stdout, p.stderr)
        check(scene.read_weights(os.path.realpath(path)) == tensors, what, "other tensors")

    def must(what, *args):
        p = scene.run(tool, *args)
        check(p.returncode == 0, what, p.stderr)
        return p

    fresh()
    must("cp", "cp", one, os.path.join(d, "c.safetensors"))
    verified(os.path.join(d, "c.safetensors"), a, "cp carries what lies beside")
    must("cp -f", "cp", "-f", one, two)
    verified(two, a, "cp -f onto a file with a sidecar")
    fresh()
    os.symlink("a.safetensors", link)
    must("meta", "meta", link, "--set", "k=" + "v" * 9000)
    verified(one, a, "meta through a link: the file")
    verified(link, a, "meta through a link: the link")
    check(os.path.islink(link), "meta through a link: the link is gone")
    fresh()
    blobs = os.path.join(d, "blobs")
    os.makedirs(blobs)
    os.rename(one, os.path.join(blobs, "0123"))
    os.symlink("blobs/0123", one)  # as hub caches lay files out: the sidecar lies beside the link
    must("meta", "meta", one, "--set", "k=" + "v" * 9000)
    check(
        os.path.islink(one) and scene.read_weights(os.path.join(blobs, "0123")) == a,
        "meta through a cache's link",
    )
    p = scene.run(tool, "verify", one)
    check(p.returncode == 0 or "no digests" in p.stderr, "a cache's link:", p.returncode, p.stdout, p.stderr)
    fresh()
    must("cp -f of a link", "cp", "-f", two, one)
    verified(one, b, "cp -f, twice")
    must("split", "split", one, "-o", os.path.join(d, "parts"), "--max-shard-size", "12000")
    p = scene.run(tool, "verify", os.path.join(d, "parts"))
    check(p.returncode == 0 and "8 tensors" in p.stdout, "split carries:", p.stdout, p.stderr)
    must("join", "join", os.path.join(d, "parts"), "-o", os.path.join(d, "j.safetensors"))
    verified(os.path.join(d, "j.safetensors"), b, "join carries")
    with open(
        two, "r+b"
    ) as f:  # a bit of the source: what is carried tells of it, what were made anew would not
        f.seek(-1, 2)
        last = f.read(1)
        f.seek(-1, 2)
        f.write(bytes([last[0] ^ 1]))
    must("split of a damaged file", "split", two, "-o", os.path.join(d, "bad"), "--max-shard-size", "12000")
    check(scene.run(tool, "verify", os.path.join(d, "bad")).returncode == 1, "damage is recorded as right")
    cut = must(
        "split, cut",
        "slice",
        one,
        "--layout",
        plan(d),
        "-r",
        "2",
        "-k",
        "0",
        "-o",
        os.path.join(d, "cut.safetensors"),
    )
    check(
        scene.run(tool, "verify", os.path.join(d, "cut.safetensors")).returncode == 1,
        "digests of whole tensors go with parts:",
        cut.stderr,
    )


def long_names(tool, base):
    """A name of 255 bytes leaves no room for what would lie beside the file: there is none, then."""
    d = os.path.join(base, "long")
    tensors = scene.model(6, 100)
    other = os.path.join(d, "other.safetensors")
    scene.put(other, scene.weights(tensors))
    for length in (238, 242, 243, 255):
        path = os.path.join(d, "x" * (length - 12) + ".safetensors")
        scene.put(path, scene.weights(tensors))
        for args, status in (
            (("check", "--digests", path), 0),
            (("verify", path), 1),
            (("cp", path, os.path.join(d, "copy.safetensors")), 0),
            (("meta", path, "--set", "k=v"), 0),
            (("meta", path, "--set", "k=" + "v" * 9000), 0),
            (("cp", "-f", other, path), 0),
            (("verify", "--record", "crc32c", path), 0),
            (("verify", path), 0),
        ):
            p = scene.run(tool, *args)
            check(
                p.returncode == status and "too long" not in p.stderr and "do not fit" not in p.stderr,
                length,
                args[:2],
                p.returncode,
                p.stderr,
            )
        os.unlink(os.path.join(d, "copy.safetensors"))
        check(scene.read_weights(path) == tensors, length, "other tensors")


def plan(d):
    path = os.path.join(d, "plan.json")
    scene.put(path, '{"t*": "colwise"}')
    return path


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tool", required=True)
    parser.add_argument("--kills", type=int, default=6)
    args = parser.parse_args()
    tool = os.path.abspath(args.tool)
    with tempfile.TemporaryDirectory(prefix="sft-hidden-") as base:
        killed = kills(tool, base, args.kills)
        sidecars(tool, base)
        long_names(tool, base)
    print("%d kills, %d checks, %d faults" % (killed, CHECKS["checks"], len(FAULTS)))
    return 1 if FAULTS else 0


if __name__ == "__main__":
    sys.exit(main())
