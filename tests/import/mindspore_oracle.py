#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""mindspore_oracle.py --tool TOOL - checkpoints written by the tool, loaded by the installed mindspore with its check of
the checksum, compared bit for bit; with pieces of the real size too (a parameter of more than 512 MiB) if --large."""

import argparse
import hashlib
import json
import mmap
import os
import pathlib
import struct
import subprocess
import sys
import tempfile

import mindspore as ms

KINDS = {
    "F32": 4,
    "F16": 2,
    "BF16": 2,
    "F64": 8,
    "I8": 1,
    "U8": 1,
    "I16": 2,
    "U16": 2,
    "I32": 4,
    "U32": 4,
    "I64": 8,
    "U64": 8,
    "BOOL": 1,
}
NAMES = {
    "Float32": "F32",
    "Float16": "F16",
    "Float64": "F64",
    "BFloat16": "BF16",
    "Int8": "I8",
    "UInt8": "U8",
    "Int16": "I16",
    "UInt16": "U16",
    "Int32": "I32",
    "UInt32": "U32",
    "Int64": "I64",
    "UInt64": "U64",
    "Bool": "BOOL",
}


def save(path, tensors):
    header, at = {}, 0
    for name, (kind, shape, raw) in tensors.items():
        header[name] = {"dtype": kind, "shape": shape, "data_offsets": [at, at + len(raw)]}
        at += len(raw)
    text = json.dumps(header).encode()
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for _, _, raw in tensors.values():
            f.write(raw)


def free_pages(need):
    """MindSpore refuses files larger than the memory that nobody uses, the page cache counted as use: take some from it."""
    if os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") < 2 * need:
        with mmap.mmap(-1, 4 * need) as room:
            for at in range(0, 4 * need, 1 << 12):
                room[at] = 1


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tool", required=True)
    parser.add_argument("--large", action="store_true")
    args = parser.parse_args()
    tool = os.path.abspath(args.tool)
    tensors = {}
    for kind, size in KINDS.items():
        for shape in ((3, 5), (), (1,), (2, 3, 4), (0, 3)):
            count = 1
            for d in shape:
                count *= d
            raw = hashlib.shake_256(("%s%s" % (kind, shape)).encode()).digest(count * size)
            raw = bytes(b & 1 for b in raw) if kind == "BOOL" else raw
            tensors["%s.%s" % (kind, "x".join(map(str, shape)) or "scalar")] = (kind, list(shape), raw)
    if args.large:
        tensors["large"] = ("F32", [33, 1 << 20, 4], os.urandom(1 << 20) * 528)
    compared = faults = 0
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        save(folder / "in.safetensors", tensors)
        for more in ([], ["--piece-size", "16"])[: 1 if args.large else 2]:
            out = folder / ("out%d.ckpt" % len(more))
            subprocess.run([tool, "convert", folder / "in.safetensors", "-o", out, *more], check=True)
            free_pages(out.stat().st_size)
            loaded = ms.load_checkpoint(str(out), crc_check=True)
            if sorted(loaded) != sorted(tensors):
                print("FAULT names differ")
                faults += 1
            for key, (kind, shape, raw) in tensors.items():
                v = loaded[key]
                compared += 1
                if NAMES[str(v.dtype)] != kind or list(v.shape) != shape or bytes(v.get_bytes()) != raw:
                    print("FAULT", key, v.dtype, v.shape)
                    faults += 1
    print("mindspore %s loads %d tensors that the tool wrote, %d faults" % (ms.__version__, compared, faults))
    return 1 if faults or not compared else 0


if __name__ == "__main__":
    sys.exit(main())
