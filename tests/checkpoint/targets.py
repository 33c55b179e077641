#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Targets and sources that a job must not mix up: folders that are read and written, links, pipes,
models of one shape and time, more files than descriptors, layouts of very many ranks.

    python3 targets.py --tool build/safetensors
"""

import argparse
import json
import os
import resource
import shutil
import stat
import struct
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

TOOL = ""


def save(path: Path, names: int, fill: int, rows: int = 64) -> None:
    size = rows * 16
    header = {
        f"t{i}": {"dtype": "U8", "shape": [rows, 16], "data_offsets": [i * size, (i + 1) * size]}
        for i in range(names)
    }
    text = json.dumps(header).encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    data = b"".join(bytes([fill + i]) * size for i in range(names))
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def run(*args: str, limit: Callable[[], None] | None = None) -> tuple[int, str]:
    done = subprocess.run(
        [TOOL, *args], capture_output=True, text=True, timeout=300, preexec_fn=limit, check=False
    )
    return done.returncode, done.stdout + done.stderr


def expect(status: int, words: str, *args: str, limit: Callable[[], None] | None = None) -> None:
    got, text = run(*args, limit=limit)
    if got != status or words not in text:
        sys.exit(f"{' '.join(args)}: exit {got}, {status} was expected, with {words!r}:\n{text}")


def files(folder: str) -> dict[str, bytes]:
    root = Path(folder)
    return {str(p.relative_to(root)): p.read_bytes() for p in root.rglob("*") if p.is_file()}


def same(a: str, b: str) -> None:
    expect(0, "", "verify", "--same", a, b)


def folder_that_is_read() -> None:
    save(Path("m/model.safetensors"), 6, 1)
    expect(0, "", "split", "m", "-o", "p", "--max-shard-size", "2KB")
    before = files("p")
    for source in "p", "p/model.safetensors.index.json":
        for size in "2KB", "4KB":
            args = ["split", source, "-o", "p/../p", "--max-shard-size", size, "--force"]
            expect(2, "folder that is read", *args)
    # a part that is read by itself is under a name of the target
    expect(0, "", "split", "m", "-o", "two", "--max-shard-size", "4KB")
    part = "m/model-00001-of-00003.safetensors"
    os.rename("two/model-00001-of-00002.safetensors", part)
    words = "read by this job"
    expect(3, words, "split", part, "-o", "m", "--max-shard-size", "2KB", "--force")
    assert files("p") == before
    os.unlink(part)
    # one file is one rename
    expect(0, "", "join", "m/model.safetensors", "-o", "m/model.safetensors", "--force")
    same("m/model.safetensors", "p")


def what_is_no_size_or_name() -> None:
    args = ["join", "m/model.safetensors", "--unified", "-o", "un", "--part-size"]
    expect(2, "0 bytes", *args, "0")
    expect(0, "6 tensors", *args, "1")
    expect(2, "empty name", "split", "m/model.safetensors", "-o", "")


def what_is_no_file() -> None:
    os.mkfifo("pipe")
    for more in [], ["--force"]:
        expect(3, "is there", "join", "m/model.safetensors", "-o", "pipe", *more)
    assert stat.S_ISFIFO(os.stat("pipe").st_mode)


def links_in_place_of_staging() -> None:
    for more in [], ["--restart"]:
        os.makedirs("precious", exist_ok=True)
        Path("precious/kept").write_text("kept")
        os.symlink("precious", ".new.sft-part")
        args = ["split", "m/model.safetensors", "-o", "new", "--max-shard-size", "2KB", *more]
        expect(1, "is a link", *args)
        assert files("precious") == {"kept": b"kept"} and not os.path.lexists("new")
        os.unlink(".new.sft-part")


def links_that_lead_nowhere() -> None:
    os.symlink("not-there", "astray")
    for more in [], ["--force"], ["--restart"]:
        expect(
            3,
            "leads nowhere",
            "split",
            "m/model.safetensors",
            "-o",
            "astray",
            "--max-shard-size",
            "2KB",
            *more,
        )
        expect(3, "leads nowhere", "reshard", "m", "--target-layout", "64.json", "-o", "astray", *more)
    assert os.readlink("astray") == "not-there" and not os.path.lexists(".astray.sft-part")
    os.unlink("astray")


def standard_output_is_no_target() -> None:
    for command in "join", "split", "dedupe", "expand":
        expect(2, "no pipe can", command, "m/model.safetensors", "-o", "-")
    expect(2, "no pipe can", "reshard", "m", "--target-layout", "64.json", "-o", "-")
    expect(2, "no pipe can", "slice", "m", "--layout", "64.json", "--rank", "1", "-o", "-")
    assert not os.path.lexists("-")


def recorded_digests() -> None:
    """--record is what verify --record makes; what is recorded goes along with tensors that stay whole."""
    save(Path("d.safetensors"), 5, 40)
    expect(0, "", "verify", "--record", "crc32c,sha256", "d.safetensors")
    expect(0, "", "split", "d.safetensors", "-o", "d1", "--max-shard-size", "2KB")
    expect(0, ": ok: 5 tensors", "verify", "d1")
    for kinds in "crc32c", "sha256", "crc32c,sha256":
        expect(0, "", "split", "d1", "-o", "d2", "--max-shard-size", "2KB", "--record", kinds)
        expect(0, ": ok", "verify", "d2")
        before = files("d2")
        expect(0, "", "verify", "--record", kinds, "-f", "d2")
        assert files("d2") == before, kinds
        expect(0, "", "join", "d2", "-o", "j.safetensors", "--record", kinds)
        expect(0, ": ok", "verify", "j.safetensors")
        data = bytearray(Path("j.safetensors").read_bytes())
        data[-1] ^= 1
        Path("j.safetensors").write_bytes(data)
        expect(1, '"t4"', "verify", "j.safetensors")
        os.unlink("j.safetensors")
        shutil.rmtree("d2")
    expect(2, "is wanted", "split", "d1", "-o", "d2", "--record", "md5")
    # ranks, and what dedupe takes from them
    cut = {"format": "safetensors-layout", "version": 1, "mesh": {"axes": {"x": 2, "y": 2}}}
    cut["tensors"] = [{"pattern": "*", "cuts": ["x", None]}]
    Path("d.json").write_text(json.dumps(cut))
    args = ["reshard", "d1", "--target-layout", "d.json", "-o", "d4", "--record", "crc32c"]
    for task in "2/3", "1/3":
        expect(0, "not done yet", *args, "--task", task)
    expect(0, "", *args, "--task", "3/3")
    for folder in "d4", "d5", "d6":
        for path in sorted(Path(folder).rglob("*.safetensors")):
            done = 1 if folder == "d5" and path.parent.name not in ("rank_0", "rank_2") else 0
            expect(0, ": ok", "verify", str(path)) if not done else None
        if folder == "d4":
            expect(0, "", "dedupe", "d4", "-o", "d5", "--rule", "balanced", "--record", "crc32c")
        elif folder == "d5":
            expect(0, "", "expand", "d5", "-o", "d6")
    assert {k: v for k, v in files("d4").items()} == files("d6")
    # without --record nobody has computed any
    expect(0, "", "dedupe", "d4", "-o", "d7", "--rule", "balanced")
    expect(1, "no digests are recorded", "verify", "d7/rank_0/model.safetensors")


def models_of_one_shape_and_time() -> None:
    for fill, name in (1, "a"), (101, "b"):
        save(Path(name + ".safetensors"), 4, fill, 1 << 16)
        os.utime(name + ".safetensors", ns=(10**18, 10**18))
    begin = ["-o", "ab", "--max-shard-size", "1MB", "--task"]
    expect(0, "not done yet", "split", "a.safetensors", *begin, "1/2")
    expect(1, "read something else", "split", "b.safetensors", *begin, "2/2")
    expect(0, "", "split", "a.safetensors", *begin, "2/2")
    same("a.safetensors", "ab")


def more_files_than_descriptors() -> None:
    def few() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (48, 48))

    cuts = [{"by": "x", "split": "balanced"}, None]
    layout = {
        "format": "safetensors-layout",
        "version": 1,
        "mesh": {"axes": {"x": 64}},
        "tensors": [{"pattern": "*", "cuts": cuts}],
    }
    Path("64.json").write_text(json.dumps(layout))
    args = ["reshard", "m/model.safetensors", "--target-layout", "64.json", "-o", "r64"]
    expect(0, "", *args, limit=few)
    same("m/model.safetensors", "r64")


def very_many_ranks() -> None:
    for i in range(2):
        save(Path(f"rk/rank_{i}/m.safetensors"), 1, 7)
    for axis, first in (1 << 31, 0), (2, 1 << 60):
        layout = {
            "format": "safetensors-layout",
            "version": 1,
            "mesh": {"axes": {"x": axis}, "first_rank": first},
            "tensors": [{"name": "t0", "cuts": ["x", None]}],
        }
        Path("many.json").write_text(json.dumps(layout))
        args = ["reshard", "m/model.safetensors", "--target-layout", "many.json", "-o", "many"]
        expect(1, "131072 at most", *args)
        if first == 0:
            expect(1, "in 2147483648 parts", "verify", "--replicas", "rk", "--layout", "many.json")
            args = ["join", "rk", "--layout", "many.json", "-o", "j.safetensors"]
            expect(1, "in 2147483648 parts", *args)
    assert not os.path.lexists("many")


def one_folder_of_ranks() -> None:
    entry = {"name": "t0", "shape": [64, 16], "flat": {"by": ["x"]}}
    for ranks in 1, 2:
        layout = {
            "format": "safetensors-layout",
            "version": 1,
            "mesh": {"axes": {"x": ranks}},
            "tensors": [entry],
        }
        Path("flat.json").write_text(json.dumps(layout))
        out = f"flat{ranks}"
        expect(0, "", "reshard", "m/model.safetensors", "--target-layout", "flat.json", "-o", out)
        same("m/model.safetensors", out)
    shutil.rmtree("flat2/rank_1")
    expect(1, "no file holds the box [32:64, 0:16]", "ls", "flat2")
    shutil.rmtree("flat2/rank_0")
    os.unlink("flat2/layout.json")
    save(Path("flat2/rank_0/model.safetensors"), 1, 3)  # nobody says that there were more
    expect(0, "[64, 16]", "ls", "flat2")


def main() -> None:
    global TOOL
    parser = argparse.ArgumentParser()
    parser.add_argument("--tool", required=True)
    TOOL = os.path.abspath(parser.parse_args().tool)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        folder_that_is_read()
        what_is_no_size_or_name()
        what_is_no_file()
        links_in_place_of_staging()
        models_of_one_shape_and_time()
        more_files_than_descriptors()
        links_that_lead_nowhere()
        standard_output_is_no_target()
        recorded_digests()
        very_many_ranks()
        one_folder_of_ranks()
        os.chdir("/")
    print("ok")


if __name__ == "__main__":
    main()
