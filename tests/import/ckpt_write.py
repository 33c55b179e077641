#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""ckpt_write.py --tool TOOL - MindSpore checkpoints that the tool writes: those of fixtures/ read and written again are
the same file, byte for byte; trailers hold; what a checkpoint cannot hold is refused. Standard library only."""

import argparse
import json
import os
import pathlib
import struct
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent / "fixtures"


def save(path, tensors):
    """name -> (type, shape, bytes) as safetensors."""
    header, data = {}, b""
    for name, (kind, shape, raw) in tensors.items():
        header[name] = {"dtype": kind, "shape": shape, "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tool", required=True)
    tool = os.path.abspath(parser.parse_args().tool)
    faults = 0

    def run(*args, status=0, word=""):
        nonlocal faults
        r = subprocess.run([tool, *map(str, args)], capture_output=True, text=True)
        if r.returncode != status or word not in r.stderr:
            print("FAULT", args, r.returncode, r.stderr)
            faults += 1
        return r

    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        out, back = folder / "out.ckpt", folder / "back.safetensors"
        for fixture, size in (("mindspore-crc.ckpt", 0), ("mindspore-pieces-crc.ckpt", 1024)):
            more = ["--piece-size", size] if size else []
            for threads in (1, 4):
                run("convert", HERE / fixture, "-o", out, "-f", "--verify", "-j", threads, *more)
                if out.read_bytes() != (HERE / fixture).read_bytes():
                    print("FAULT", fixture, "is another file when written again")
                    faults += 1
            run("convert", out, "-o", back, "-f", "--verify")
            run("diff", HERE / fixture, back)
        tensors = {
            "a": ("F32", [2, 3], bytes(range(24))),
            "s": ("I64", [], bytes(8)),
            "e": ("F16", [0, 3], b""),
        }
        save(folder / "in.safetensors", tensors)
        for size in (1, 16, 20, 1 << 40):
            run("convert", folder / "in.safetensors", "-o", out, "-f", "--piece-size", size)
            run("convert", out, "-o", back, "-f")
            run("diff", folder / "in.safetensors", back)
            r = run("scan", "--checksums", "--json", out)
            if '"harmless"' not in r.stdout:
                print("FAULT scan", r.stdout)
                faults += 1
        damaged = bytearray(out.read_bytes())
        damaged[-30] ^= 1
        out.write_bytes(damaged)
        r = run("scan", "--checksums", "--json", out, status=1)
        if "crc-mismatch" not in r.stdout:
            print("FAULT a changed byte is not found", r.stdout)
            faults += 1
        for kind, shape, raw, word in (
            ("F8_E4M3", [2], b"ab", "no type F8_E4M3"),
            ("C64", [1], bytes(8), "no type C64"),
            ("F32", [0], b"", "without elements"),
        ):
            save(folder / "in.safetensors", {**tensors, "x": (kind, shape, raw)})
            none = folder / "none.ckpt"
            r = subprocess.run(
                [tool, "convert", folder / "in.safetensors", "-o", none], capture_output=True, text=True
            )
            if r.returncode == 0 or word not in r.stderr or none.exists():
                print("FAULT", kind, shape, r.returncode, r.stderr)
                faults += 1
        left = sorted(p.name for p in folder.iterdir())
        if left != ["back.safetensors", "in.safetensors", "out.ckpt"]:
            print("FAULT left behind", left)
            faults += 1
    print("%d faults" % faults)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
