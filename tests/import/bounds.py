#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""bounds.py --tool TOOL - small files that cost much, fed to the commands that hostile.py does not run: `convert`, with and
without --tree, `diff` and `cp`. Bounds: 2 seconds of the processor's time, 256 MiB at the peak, no output left behind by what
fails. Standard library only; Linux."""

import argparse
import os
import pathlib
import random
import shutil
import struct
import sys
import tempfile
import zlib

from hostile import Member, make_zip, storage, tensor, text, torch_zip
from hostile_table import MEMORY, SECONDS, Run

P = b"\x80\x02"
MANY = 500000


def pkl(name, body, error, *args):
    return name, torch_zip(P + body + b"."), error, ("convert", "--tree", "--allow-opaque", *args)


def trees():
    control = text("\x01" * 1000000)
    yield pkl("text of controls", text("\x01" * 12000000), "pickle-expansion")
    yield pkl("one text, many times", b"(" + control + b"q\0" + b"h\0" * 1000 + b"l", "pickle-expansion")
    yield pkl(
        "texts in a key", b"}((" + text("x" * 1000) + b"q\0" + b"h\0" * MANY + b"tNu", "pickle-expansion"
    )
    yield pkl(
        "key of no text, many times",
        b"}(" + text(b"k" * 500000 + b"\xed\xa0\x80") + b"q\0" + b"Nh\0" * MANY + b"Nu",
        "pickle-expansion",
    )
    large = b"\x8b\x40\x06\0\0" + b"\xff" * 1599 + b"\x7fq\0"
    yield pkl("one large integer, many times", b"(" + large + b"h\0" * MANY + b"l", "pickle-expansion")
    real = b"G\0\0\0\0\0\0\0\1q\0"
    yield pkl("one denormal, many times", b"(" + real + b"h\0" * 2 * MANY + b"l", "pickle-expansion")
    lone = text(b"k" * 5000000 + b"\xed\xa0\x80") + b"q\0"
    yield pkl(
        "text with a lone surrogate, many times", b"(" + lone + b"h\0" * MANY + b"l", "pickle-expansion"
    )
    pair = b"cbuiltins\ncomplex\n(" + real[:9] * 2 + b"tRq\0"
    yield pkl("one complex denormal, many times", b"(" + pair + b"h\0" * MANY + b"l", "pickle-expansion")
    one = tensor(size=(), stride=())
    yield pkl("one tensor, many times", b"](" + one + b"q\0" + b"h\0" * MANY + b"e", "pickle-expansion")
    yield pkl("one tensor, 200,000 times", b"](" + one + b"q\0" + b"h\0" * 200000 + b"e", None)
    yield pkl(
        "many tensors of one name",
        b"}(" + text("w") + b"q\1" + one + b"q\0" + b"h\1h\0" * MANY + b"u",
        "memory",
    )


def archives():
    """Deflated members: what is read in another order than it lies in, is not inflated anew for each tensor."""
    order, each = list(range(4000)), 65536
    random.Random(1).shuffle(order)
    body = b""
    for i, at in enumerate(order):
        where = storage(kind="ByteStorage", n=len(order) * each) + b"q\1" if i == 0 else b"h\1"
        body += text("t%05d" % i) + tensor(where, at * each, (each,), (1,))
    data = make_zip(
        [
            Member("m/data.pkl", P + b"}(" + body + b"u."),
            Member("m/data/0", bytes(len(order) * each), method=8),
            Member("m/version", b"3\n"),
        ]
    )
    yield "4,000 tensors of a deflated member, in no order", data, None, ("convert",)
    # the last bits of a stream stand for up to thousands of bytes, which may fall behind the end of a block
    arrays = []
    for n in range(130944, 136000, 37):
        head = b"{'descr':'|u1','fortran_order':False,'shape':(%d,)}" % n
        head = head.ljust(117) + b"\n"
        arrays.append(
            Member("a%d.npy" % n, b"\x93NUMPY\1\0" + struct.pack("<H", len(head)) + head + bytes(n), method=8)
        )
    yield "deflated zeros of many sizes", make_zip(arrays), None, ("convert", "--verify")
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    packed = packer.compress(arrays[0].data) + packer.flush()
    for k in range(1, 9):
        member = Member("a.npy", arrays[0].data, method=8, packed=packed[:-k])
        yield "deflated zeros without the last %d bytes" % k, make_zip([member]), "zip-deflate", ("convert",)


def described(name):
    """One tensor and 100,000 metadata."""
    entries = ",".join('"k%06d":"v"' % i for i in range(100000))
    header = (
        '{"__metadata__":{%s},"%s":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}}' % (entries, name)
    ).encode()
    header += b" " * (-len(header) % 8)
    return struct.pack("<Q", len(header)) + header


def others():
    yield "100,000 metadata", described("a"), None, ("diff", "case.pt")
    shards = {"model-%05d-of-00002.safetensors" % n: described("t%d" % n) for n in (1, 2)}
    yield "100,000 metadata in each of two files", shards, None, ("cp", "out.safetensors")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tool", required=True)
    tool = os.path.abspath(parser.parse_args().tool)
    faults, count, slowest, peak = [], 0, 0.0, 0
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for what, data, error, args in [*trees(), *archives(), *others()]:
            case = folder / "case.pt"
            if isinstance(data, dict):
                case.mkdir()
            for name, content in data.items() if isinstance(data, dict) else ():
                (case / name).write_bytes(content)
            if not isinstance(data, dict):
                case.write_bytes(data)
            out = ["-o", "out.safetensors", "-q"] if args[0] == "convert" else []
            run = Run(tool, [args[0], "case.pt", *args[1:], *out], folder)
            count, slowest, peak = count + 1, max(slowest, run.spent), max(peak, run.peak)
            made = folder / "out.safetensors"
            if (
                error is None
                and run.status != 0
                or error is not None
                and (run.status not in (1, 3) or error not in run.err or made.exists())
            ):
                faults.append("%s: exit %d: %s" % (what, run.status, run.err[:300]))
            if run.spent > SECONDS or run.peak > MEMORY:
                faults.append("%s: %.2f s, %d MiB" % (what, run.spent, run.peak >> 20))
            for path in folder.iterdir():
                shutil.rmtree(path) if path.is_dir() else path.unlink()
    for fault in faults:
        print("FAULT", fault)
    print("%d files, slowest %.2f s, peak %d MiB, %d faults" % (count, slowest, peak >> 20, len(faults)))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
