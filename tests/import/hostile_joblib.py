#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""hostile_joblib.py --tool TOOL - dumps of joblib changed and cut at every byte (fixtures/joblib*), arrays whose shapes, types and
padding lie, bombs; fed to ls and to scan. --corpus FOLDER writes seeds for the fuzz target. Bounds: 2 seconds of processor time, an exit status of 0 or 1. Standard library only."""

import argparse
import bz2
import gzip
import lzma
import os
import pathlib
import random
import sys
import tempfile
import zlib

import hostile_table
from load_cases import save_seed, truncations

HERE = pathlib.Path(__file__).resolve().parent
SECONDS = 2.0 if os.environ.get("SFT_SANITIZED") != "1" else 60.0
FAULTS = []


def text(s):
    return b"X" + len(s).to_bytes(4, "little") + s.encode()


def number(n):
    raw = n.to_bytes((n.bit_length() + 8) // 8, "little", signed=True)
    return b"\x8a" + bytes([len(raw)]) + raw


def array(shape, code="f8", data=bytes(48), padding=b"\x03\xff\xff\xff", flags=0, align=True):
    """{'w': NumpyArrayWrapper} of protocol 2, and the bytes behind it."""
    dims = b"(" + b"".join(number(n) for n in shape) + b"t"
    kind = (
        b"cnumpy\ndtype\n("
        + text(code)
        + b"K\0K\1tR(K\3"
        + text("<")
        + b"NNN"
        + number(-1)
        + number(-1)
        + number(flags)
        + b"tb"
    )
    state = (
        b"}("
        + text("subclass")
        + b"cnumpy\nndarray\n"
        + text("shape")
        + dims
        + text("order")
        + text("C")
        + text("dtype")
        + kind
    )
    state += (text("numpy_array_alignment_bytes") + b"K\x10" if align else b"") + b"u"
    return (
        b"\x80\x02}"
        + text("w")
        + b"cjoblib.numpy_pickle\nNumpyArrayWrapper\n)\x81"
        + state
        + b"b"
        + padding
        + data
        + b"s."
    )


def cases():
    yield "good", array([2, 3]), None
    yield "without padding", array([2, 3], padding=b"", align=False), None
    for n in (7, 2**31, 2**32, 2**61, 2**62, 2**63 - 1, 2**63, 2**64, 2**70, -1):
        yield "shape %d" % n, array([n]), ""
        yield "shape %d, 0" % n, array([n, 0], data=b""), None if 0 <= n < 2**60 else ""
        yield "shape 8 times %d" % n, array([n] * 8), ""
    yield "65 dimensions", array([1] * 65, data=bytes(8)), "dimensions"
    yield "padding beyond the end", array([2, 3], data=b"", padding=b"\xff"), ""
    for code in ("", "f", "f999999999", "f9999999999", "x8", "f-8", "8f", "f8f8", "f\0", "U4"):
        yield "type %r" % code, array([1], code, bytes(8)), ""
    yield "objects", array([1], "O8", b"", b"\x80\x02K\1.", 63), "O8"
    yield "objects that hold an array", array([1], "O8", b"", array([2, 3])[:-2] + b"s.", 63), ""
    yield "objects, one in another", array([1], "O8", b"", array([1], "O8", b"", b"\x80\x02K\1.", 63), 63), ""
    yield "runs code behind an array", array([2, 3])[:-2] + b"cos\nsystem\n(S'x'\ntR0s.", ""
    bomb = b"\x80\x04N" + bytes(1 << 28)
    for name, packed in (
        ("gzip", gzip.compress(bomb, 1)),
        ("zlib", zlib.compress(bomb)),
        ("xz", lzma.compress(bomb, preset=0)),
        ("bzip2", bz2.compress(bomb, 1)),
    ):
        yield "bomb of " + name, packed, ""
        yield (
            "bomb of %s in itself" % name,
            {"gzip": gzip, "zlib": zlib, "xz": lzma, "bzip2": bz2}[name].compress(packed),
            "",
        )
    yield "gzip, then other bytes", gzip.compress(array([2, 3])) + b"more", ""
    yield "two of gzip", gzip.compress(array([2, 3])[:50]) + gzip.compress(array([2, 3])[50:]), None


def damaged():
    rng = random.Random(1)
    for path in sorted((HERE / "fixtures").glob("joblib*.joblib")):
        data = path.read_bytes()
        for n in range(25):
            changed = bytearray(data)
            changed[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
            yield "%s changed %d" % (path.name, n), bytes(changed), None


def whole():
    """Files to be cut: all that are compressed, and of the plain ones the smallest and one of protocol 4."""
    return {
        p.name: p.read_bytes()
        for p in sorted((HERE / "fixtures").glob("joblib*.joblib"))
        if "-" in p.name or p.name == "joblib4.joblib"
    }


def corpus(folder):
    """fuzz_joblib.c packs what begins with Z or G itself."""
    seeds = [
        (name, data)
        for name, data, _ in cases()
        if "bomb" not in name and ("shape" not in name or str(2**63) in name)
    ]
    seeds += [
        ("stored " + name, (b"ZG"[i % 2 :][:1]) + data)
        for i, (name, data) in enumerate(seeds)
        if data[0] == 0x80
    ]
    seeds += list(whole().items())
    for name, data in seeds:
        save_seed(folder / "joblib", name, data, 3000)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tool")
    parser.add_argument("--corpus", type=pathlib.Path)
    args = parser.parse_args()
    if args.corpus:
        corpus(args.corpus)
        return 0
    tool = os.path.abspath(args.tool)
    count, slowest = 0, (0.0, "")
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "case.joblib"
        for name, data, word in [*cases(), *damaged()]:
            path.write_bytes(data)
            for command in ("ls", "scan"):
                r = hostile_table.Run(tool, [command, path.name], folder)
                slowest = max(slowest, (r.spent, "%s of %s" % (command, name)))
                count += 1
                if r.status not in (0, 1) or r.spent > SECONDS:
                    FAULTS.append(
                        "%s of %s: exit %d, %.1f s: %s" % (command, name, r.status, r.spent, r.err[:200])
                    )
                elif command == "ls" and word is not None and (r.status == 0 or word not in r.err):
                    FAULTS.append(
                        "%s: not refused with %r: %s" % (name, word, (r.out + r.err.encode())[:300])
                    )
                elif command == "ls" and word is None and "changed" not in name and r.status != 0:
                    FAULTS.append("%s: refused: %s" % (name, r.err[:300]))
                elif command == "scan" and "code" in name and b"dangerous" not in r.out:
                    FAULTS.append("%s: %s" % (name, r.out[:300]))
        path.unlink()
        cut = truncations(tool, pathlib.Path(folder), FAULTS, whole())
    for f in FAULTS[:20]:
        print("FAULT", f)
    print("%d runs, %d cuts, slowest %.2f s (%s), %d faults" % (count, cut, *slowest, len(FAULTS)))
    return 1 if FAULTS else 0


if __name__ == "__main__":
    sys.exit(main())
