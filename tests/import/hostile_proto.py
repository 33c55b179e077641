#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""hostile_proto.py --tool TOOL [--table] [--corpus FOLDER] - as hostile.py, for the formats that are read by lengths:
MindSpore. --corpus writes the cases as seeds for the fuzz targets. Standard library only."""
import argparse
import os
import pathlib
import re
import struct
import sys
import tempfile

import hostile
from hostile import ANY, H, U, case

HERE = pathlib.Path(__file__).resolve().parent
LONGEST = 1500  # of a seed

# ---------------------------------------------------------------- protobuf


def varint(n):
    n &= (1 << 64) - 1
    out = b""
    while n > 0x7F:
        out += bytes([n & 0x7F | 0x80])
        n >>= 7
    return out + bytes([n])


def field(number, value, length=None):
    """A varint, or bytes with their length (or a false one)."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    value = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(value) if length is None else length) + value


# ---------------------------------------------------------------- MindSpore

DATA = struct.pack("<4f", 1, 2, 3, 4)


def ms_tensor(dims=(4,), kind="Float32", data=DATA, more=b""):
    return b"".join(field(1, d) for d in dims) + field(2, kind) + field(3, data) + more


def ms_value(tag="w", tensor=None, more=b""):
    return field(1, field(1, tag) + field(2, ms_tensor() if tensor is None else tensor) + more)


def mindspore():
    good = ms_value()
    pair = ms_value("w", ms_tensor((4,), data=DATA[:8])) + ms_value("w", ms_tensor((4,), data=DATA[8:]))
    case("mindspore: good", good, H, None)
    case("mindspore: in two pieces", pair, H, None)
    case("mindspore: scalar of dims [0]", ms_value("s", ms_tensor((0,), data=DATA[:4])), H, None)
    case("mindspore: no elements", ms_value("s", ms_tensor((0,), data=b"")), H, None)
    case("mindspore: packed dims", ms_value("w", field(1, varint(2) + varint(2)) + ms_tensor(())), H, None)
    case("mindspore: text left out", good + ms_value("t", ms_tensor((0,), "str", b"x\0\0\0")), H, None)
    case("mindspore: trailer", good + b"crc_num" + bytes(10), H, None)
    case("mindspore: trailer of 80 bits", good + b"crc_num" + b"\xff" * 10, U, "checksum")
    case("mindspore: name twice, not in a row", good + ms_value("x") + good, U, "twice")
    case("mindspore: pieces of other dims", pair + ms_value("w"), U, "+")
    case("mindspore: pieces that disagree", good + ms_value("w", ms_tensor((2, 2))), U, "pieces of one parameter")
    case("mindspore: pieces of other types", good + ms_value("w", ms_tensor((4,), "Int32")), U, "pieces of one")
    case("mindspore: one piece too many", pair + ms_value("w", ms_tensor((4,), data=DATA[:4])), U, "bytes of data")
    case("mindspore: one piece missing", pair[: len(pair) // 2], U, "bytes of data")
    case("mindspore: piece ends in an element", ms_value("w", ms_tensor(data=DATA[:7])) +
         ms_value("w", ms_tensor(data=DATA[7:])), U, "middle of an element")
    case("mindspore: scalar in pieces", ms_value("w", ms_tensor((), data=DATA[:2])) +
         ms_value("w", ms_tensor((), data=DATA[2:4])), U, "scalar")
    case("mindspore: unknown type", good + ms_value("x", ms_tensor((4,), "Float31")), ANY, "Float31")
    case("mindspore: map parameter", good + field(1, field(1, "m") + field(3, b"")), ANY, "map parameter")
    case("mindspore: dims overflow", ms_value("w", ms_tensor((1 << 62, 1 << 62))), U, "overflows")
    case("mindspore: dims 2^63", good + ms_value("x", ms_tensor((1 << 63,))), U, "negative")
    case("mindspore: 65 dims", good + ms_value("x", ms_tensor((1,) * 65)), U, "dimensions")
    case("mindspore: 10^6 packed dims", good + ms_value("x", field(1, b"\1" * 10**6) + ms_tensor(())), U, "dimensions")
    case("mindspore: content twice", good + ms_value("x", ms_tensor(more=field(3, DATA))), U, "once")
    case("mindspore: tensor twice", good + ms_value("x", more=field(2, ms_tensor())), U, "one tensor")
    case("mindspore: no name", good + field(1, field(2, ms_tensor())), U, "without its name")
    case("mindspore: name is not UTF-8", good + ms_value(b"\xff\xfe"), U, "UTF-8")
    case("mindspore: name of 1 MB", good + ms_value("n" * 10**6), U, "limit")
    case("mindspore: name __metadata__", ms_value("__metadata__"), ANY, "+")
    case("mindspore: name of control characters", ms_value("\x1b[2J\n"), ANY, "+")
    case("mindspore: length past its parent", good + field(1, field(1, "x") + field(2, ms_tensor(), 200)), U, "longer")
    case("mindspore: length 2^63", good + field(1, b"", 1 << 63), U, "longer")
    case("mindspore: length 2^64-1", good + field(1, b"", (1 << 64) - 1), U, "longer")
    case("mindspore: varint of 11 bytes", good + b"\x0a" + b"\xff" * 10 + b"\1", U, "varint")
    case("mindspore: group", good + b"\x0b\x0c", U, "wire type")
    case("mindspore: field 0", good + b"\x02\x00", U, "tag")
    case("mindspore: another field", good + field(2, b"x"), U, "values only")
    case("mindspore: 200,000 empty pieces", ms_value("w", ms_tensor(data=DATA)) +
         ms_value("w", ms_tensor(data=b"")) * 200000, H, None)
    case("mindspore: 200,000 pieces of a byte", ms_value("w", ms_tensor((200000,), "Int8", b"x")) * 200000, H, None)
    case("mindspore: 100,000 parameters", b"".join(ms_value("p%d" % i) for i in range(100000)), H, None)
    for mode in b"\xd8\xd9\xda":
        case("mindspore: encrypted %x" % mode, bytes([mode]) + b"\x5e\x3a\x7f" + bytes(64), U, "encrypted")


# ---------------------------------------------------------------- running them


def fixtures():
    """Files to cut, and the lengths at which they are files again: a checkpoint may have fewer parameters."""
    sources, whole = {}, set()
    for pattern in ("mindspore.ckpt", "mindspore-crc.ckpt"):
        data = (HERE / "fixtures" / pattern).read_bytes()
        sources[pattern] = data
        at = 0
        while data[at : at + 1] == b"\x0a":
            whole.add((pattern, at))
            n, shift, at = 0, 0, at + 1
            while True:
                b = data[at]
                n, shift, at = n | (b & 0x7F) << shift, shift + 7, at + 1
                if b < 0x80:
                    break
            at += n
        whole.add((pattern, at))
    return sources, whole


def corpus(folder):
    for name, data, *_ in hostile.CASES:
        target = folder / name.split(":")[0]
        target.mkdir(parents=True, exist_ok=True)
        if len(data) <= LONGEST:
            (target / re.sub(r"[^a-z0-9]+", "-", name.split(": ")[1].lower()).strip("-")).write_bytes(data)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tool")
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--corpus", type=pathlib.Path)
    args = parser.parse_args()
    for make in (mindspore,):
        make()
    if args.corpus:
        corpus(args.corpus)
        return 0
    tool = os.path.abspath(args.tool)
    faults, slow = [], []
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for item in hostile.CASES:
            line = hostile.check_case(tool, folder, item, faults, slow)
            if args.table:
                print(line)
        os.unlink(folder / "case.pt")
        cut = hostile.truncations(tool, folder, faults, *fixtures())
    for f in faults:
        print("FAULT", f)
    print("%d cases, %d truncations, slowest %.2f s (%s), %d faults" %
          (len(hostile.CASES), cut, *max(slow), len(faults)))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
