#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Promises of README and docs that no other test asks for, with oracles of our own making in Python: promises.py --tool TOOL.

Each function is a row of docs/PROMISES.md. The truth comes from NumPy, hashlib, the reference package and the pages'
own description of what is written; nothing of the library is asked about itself.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import re
import shutil
import signal
import stat
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import safetensors.numpy as reference
from safetensors import safe_open

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from crc32c import crc32c_hex  # noqa: E402

CHECKS = []
TOOL = ""
SEED = 0


def check(function):
    CHECKS.append(function)
    return function


def tool(*arguments, **more):
    return subprocess.run(
        [TOOL, *map(str, arguments)],
        capture_output=True,
        text=True,
        errors="surrogateescape",
        timeout=60,
        **more,
    )


def model(path="m.safetensors", count=6, metadata=None, seed=1):
    rng = np.random.default_rng(seed)
    tensors = {
        f"t{i}.w": rng.normal(size=(rng.integers(1, 9), rng.integers(1, 9))).astype(
            ["f4", "f2", "f8", "i4"][i % 4]
        )
        for i in range(count)
    }
    reference.save_file(tensors, path, metadata)
    return tensors


def digest(path):
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


def listing(directory):
    return {
        str(p.relative_to(directory)): digest(p) if p.is_file() else None
        for p in sorted(Path(directory).rglob("*"))
    }


def parts(path):
    """(header, where the data begin, all bytes)"""
    data = Path(path).read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    return json.loads(data[8 : 8 + size]), 8 + size, data


def description(header, name):
    """format.md, "Recorded digests"."""
    entry, text = header[name], name.encode()
    out = (
        struct.pack("<Q", len(text))
        + text
        + entry["dtype"].encode()
        + b"\0"
        + struct.pack("<Q", len(entry["shape"]))
    )
    return out + b"".join(struct.pack("<Q", d) for d in entry["shape"])


@check
def digests_as_described(random):
    """Recorded digests and the content hash are what format.md says, whatever the order and the shards."""
    model(count=7)
    for kind, one in {"crc32c": crc32c_hex, "sha256": lambda b: hashlib.sha256(b).hexdigest()}.items():
        tool("cp", "m.safetensors", f"{kind}.safetensors", "--digests", kind)
        header, base, data = parts(f"{kind}.safetensors")
        names = sorted((n for n in header if n != "__metadata__"), key=str.encode)
        sums = [
            one(data[base + header[n]["data_offsets"][0] : base + header[n]["data_offsets"][1]])
            for n in names
        ]
        wanted = crc32c_hex(b"".join(description(header, n) for n in names)) + "".join(sums)
        assert re.sub("[^0-9a-f]", "", header["__metadata__"][f"sft.{kind}"]) == wanted, kind
    whole = hashlib.sha256()
    for n in names:
        begin, end = header[n]["data_offsets"]
        whole.update(description(header, n) + hashlib.sha256(data[base + begin : base + end]).digest())
    tool("split", "m.safetensors", "-o", "shards", "--max-shard-size", "150")
    for path in ("m.safetensors", "crc32c.safetensors", "shards"):
        assert whole.hexdigest() in tool("hash", "--content", path).stdout, path


@check
def flipped_bits(random):
    """A flipped bit is found, named and placed (README)."""
    model(count=8)
    tool("cp", "m.safetensors", "v.safetensors", "--digests", "crc32c")
    header, base, data = parts("v.safetensors")
    for _ in range(60):
        at = random.randrange(base, len(data))
        changed = bytearray(data)
        changed[at] ^= 1 << random.randrange(8)
        Path("v.safetensors").write_bytes(changed)
        done = tool("verify", "v.safetensors")
        name = next(
            n
            for n, e in header.items()
            if n != "__metadata__" and e["data_offsets"][0] <= at - base < e["data_offsets"][1]
        )
        place = re.search(r"\[(\d+), (\d+)\)", done.stdout + done.stderr)
        assert done.returncode == 1 and f'"{name}"' in done.stdout + done.stderr, (at, name, done)
        assert place and int(place[1]) <= at < int(place[2]), (at, done)


@check
def edits_in_place(random):
    """An edit of metadata that fits moves no tensor (format.md, "Reserve")."""
    model()
    tool("cp", "m.safetensors", "r.safetensors", "--reserve", "256")
    _, base, data = parts("r.safetensors")
    for i in range(10):
        done = tool("meta", "r.safetensors", "--set", f"k{i}={'x' * i}")
        _, now, new = parts("r.safetensors")
        assert done.returncode == 0 and now == base and new[now:] == data[base:], done
        assert safe_open("r.safetensors", "np").metadata()[f"k{i}"] == "x" * i


@check
def names_are_escaped(random):
    """Control, bidirectional and invisible characters of a file reach no output (SECURITY.md)."""
    name = "a\x1b[31m\u202eb\u200b\x07"
    reference.save_file({name: np.ones((4, 4), "f4"), "q": np.ones(3, "f4")}, "m.safetensors", {name: name})
    reference.save_file({name: np.zeros((4, 4), "f4")}, "n.safetensors")
    Path("model.safetensors.index.json").write_text(
        json.dumps(
            {"metadata": {name: name}, "weight_map": {name: "m.safetensors", "gone" + name: "x.safetensors"}}
        )
    )
    entries = [{"name": name, "cuts": ["tp", None]}, {"name": name + "2", "whole": True}]
    Path("l.json").write_text(
        json.dumps(
            {"format": "safetensors-layout", "version": 1, "mesh": {"axes": {"tp": 2}}, "tensors": entries}
        )
    )
    for line in (
        "ls m.safetensors",
        "show m.safetensors",
        "check m.safetensors",
        "check --strict m.safetensors",
        "check model.safetensors.index.json",
        "ls model.safetensors.index.json",
        "meta m.safetensors",
        "diff m.safetensors n.safetensors",
        "mem m.safetensors",
        "scan m.safetensors",
        "layout show l.json",
        "layout show --rank 0 l.json",
        "layout convert l.json",
        "reshard m.safetensors --target-layout l.json -o ranks",
        "verify m.safetensors",
        "cp --plan m.safetensors o.safetensors",
        "split --plan m.safetensors -o s",
        "convert --plan m.safetensors -o o.npz",
        "ls ranks",
    ):
        for more in ([], ["-v"]):
            done = tool(*line.split(), *more)
            found = [c for c in "\x1b\x07\u202e\u200b" if c in done.stdout + done.stderr]
            assert not found, (line, more, found)
    done = tool("show", "m.safetensors", name)
    assert not any(c in done.stdout + done.stderr for c in "\x1b\x07\u202e\u200b"), done


@check
def cut_and_joined(random):
    """split and reshard give the parts that NumPy gives; join gives the file back, byte for byte."""
    tensors = {
        "a": np.random.default_rng(SEED).normal(size=(8, 6)).astype("f4"),
        "b": np.arange(60, dtype="f2").reshape(5, 12),
        "c": np.arange(7),
    }
    reference.save_file(tensors, "m.safetensors")
    cuts = [
        {"name": "a", "cuts": ["tp", "dp"]},
        {"name": "b", "cuts": [None, {"by": ["dp", "tp"], "split": "balanced"}]},
        {"name": "c", "cuts": [{"by": "tp", "split": "chunk"}]},
    ]
    Path("l.json").write_text(
        json.dumps(
            {
                "format": "safetensors-layout",
                "version": 1,
                "mesh": {"axes": {"dp": 2, "tp": 2}},
                "tensors": cuts,
            }
        )
    )
    assert tool("reshard", "m.safetensors", "--target-layout", "l.json", "-o", "r").returncode == 0
    for rank in range(4):
        dp, tp = divmod(rank, 2)
        wanted = {
            "a": np.split(np.split(tensors["a"], 2, 0)[tp], 2, 1)[dp],
            "b": np.array_split(tensors["b"], 4, 1)[rank],
            "c": tensors["c"][:4] if tp == 0 else tensors["c"][4:],
        }
        found = reference.load_file(f"r/rank_{rank}/model.safetensors")
        assert all(np.array_equal(found[n], wanted[n]) for n in wanted), rank
    tool("split", "m.safetensors", "-o", "s", "--max-shard-size", "200")
    for source in ("r", "s"):
        assert tool("join", source, "-o", f"{source}.safetensors").returncode == 0
        assert digest(f"{source}.safetensors") == digest("m.safetensors"), source


@check
def tasks_in_any_order(random):
    """Any number of tasks, in any order, end in the bytes of one process; a changed source is exit status 3 (jobs.md)."""
    reference.save_file({f"t{i}": np.full((300, 500), i, "f4") for i in range(9)}, "m.safetensors")
    tool("split", "m.safetensors", "-o", "one", "--max-shard-size", "1MB")
    for turn in range(4):
        count = random.randrange(2, 6)
        order = random.sample(range(1, count + 1), count)
        for k in order:
            tool(
                "split",
                "m.safetensors",
                "-o",
                f"o{turn}",
                "--max-shard-size",
                "1MB",
                "--task",
                f"{k}/{count}",
            )
        assert listing(f"o{turn}") == listing("one"), order
    tool("split", "m.safetensors", "-o", "c", "--max-shard-size", "1MB", "--task", "1/3")
    reference.save_file({f"t{i}": np.zeros((300, 500), "f4") for i in range(9)}, "m.safetensors")
    done = tool("split", "m.safetensors", "-o", "c", "--max-shard-size", "1MB")
    assert done.returncode == 3 and not Path("c").exists(), done
    done = tool("split", "m.safetensors", "-o", "c", "--max-shard-size", "2MB")
    assert done.returncode == 3, done
    tool("split", "--restart", "m.safetensors", "-o", "c", "--max-shard-size", "1MB", "--task", "1/3")
    done = tool("split", "m.safetensors", "-o", "c", "--max-shard-size", "2MB")
    assert done.returncode == 1 and "another job" in done.stderr and not Path("c").exists(), done
    reference.save_file({f"u{i}": np.zeros((30, 50), "f4") for i in range(90)}, "m.safetensors")
    done = tool("split", "m.safetensors", "-o", "c", "--max-shard-size", "1MB")
    assert done.returncode == 3 and "has changed" in done.stderr and not Path("c").exists(), done


@check
def what_is_not_replaced(random):
    """A staging directory that is a link, a pipe as target, the directory that is read: refused, untouched (jobs.md)."""
    model(count=9)
    tool("split", "m.safetensors", "-o", "s", "--max-shard-size", "300")
    Path("elsewhere").mkdir()
    os.symlink("elsewhere", ".out.sft-part")
    assert tool(
        "split", "m.safetensors", "-o", "out", "--max-shard-size", "300"
    ).returncode != 0 and not os.listdir("elsewhere")
    os.mkfifo("p.safetensors")
    before = listing("s")
    for line in (
        "cp -f m.safetensors p.safetensors",
        "join -f s -o p.safetensors",
        "convert -f m.safetensors -o p.safetensors",
        "split -f s -o s --max-shard-size 200",
    ):
        assert tool(*line.split()).returncode != 0, line
    assert stat.S_ISFIFO(os.stat("p.safetensors").st_mode) and listing("s") == before


@check
def plans_write_nothing(random):
    """--plan leaves the directory as it was."""
    model()
    Path("l.json").write_text(
        json.dumps(
            {
                "format": "safetensors-layout",
                "version": 1,
                "mesh": {"axes": {"tp": 2}},
                "tensors": [{"pattern": "*", "whole": True}],
            }
        )
    )
    before = listing(".")
    for line in (
        "cp m.safetensors o.safetensors",
        "convert m.safetensors -o o.npz",
        "split m.safetensors -o s",
        "join m.safetensors -o j.safetensors",
        "reshard m.safetensors --target-layout l.json -o r",
    ):
        assert tool(*line.split(), "--plan").returncode == 0 and listing(".") == before, line


@check
def killed_and_interrupted(random):
    """A kill leaves the old file or the new one; Ctrl-C is exit status 130 and leaves nothing that can be seen (errors.md)."""
    for i, letter in enumerate("ab"):
        reference.save_file(
            {f"t{k}": np.full((1000, 700), i, "f4") for k in range(6)}, f"{letter}.safetensors"
        )
    whole = {digest("a.safetensors"), digest("b.safetensors")}
    shutil.copy("a.safetensors", "x.safetensors")
    for i in range(16):
        source = f"{'ab'[i % 2]}.safetensors"
        line = random.choice(
            [
                ["cp", "-f", source, "x.safetensors"],
                ["join", "-f", source, "-o", "x.safetensors"],
                ["convert", "-f", source, "-o", "x.safetensors"],
            ]
        )
        process = subprocess.Popen([TOOL, *line], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(random.random() * 0.08)
        process.send_signal(signal.SIGINT if i % 3 == 0 else signal.SIGKILL)
        code = process.wait()
        assert code in (0, 1, 130, -9, -2), (
            line,
            code,
        )  # 1: a killed join has left the journal of another source
        seen = {f for f in os.listdir(".") if not f.startswith(".")}
        assert (
            seen == {"a.safetensors", "b.safetensors", "x.safetensors"} and digest("x.safetensors") in whole
        ), (line, code, seen)


def main() -> int:
    global TOOL, SEED
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tool", required=True)
    parser.add_argument("--seed", type=int, default=0, help="0: a new one each time")
    arguments = parser.parse_args()
    TOOL = os.path.abspath(arguments.tool)
    SEED = arguments.seed or random.SystemRandom().randrange(1, 1 << 31)
    failed = 0
    for function in CHECKS:
        with tempfile.TemporaryDirectory() as work:
            os.chdir(work)
            try:
                function(random.Random(SEED))
                print(f"ok    {function.__name__}")
            except AssertionError as error:
                failed += 1
                print(f"FELL  {function.__name__}: {function.__doc__}\n      {str(error)[:600]}")
            os.chdir("/")
    print(f"promises: {len(CHECKS) - failed} of {len(CHECKS)} held (seed {SEED})")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
