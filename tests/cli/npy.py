#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""npy.py FILE... - prints descr, shape and values of .npy files. Standard library only; checks the header's
layout as numpy.lib.format describes it."""

import ast
import struct
import sys

FORMATS = {
    "<f4": "f",
    "<f8": "d",
    "<f2": "e",
    "<i8": "q",
    "<i4": "i",
    "<i2": "h",
    "|i1": "b",
    "|u1": "B",
    "|b1": "?",
    "<u2": "H",
    "<u4": "I",
    "<u8": "Q",
}


def load(path):
    with open(path, "rb") as f:
        data = f.read()
    assert data[:8] == b"\x93NUMPY\x01\x00", "magic"
    size = struct.unpack("<H", data[8:10])[0]
    assert (10 + size) % 64 == 0, "padding"
    text = data[10 : 10 + size].decode("latin-1")
    assert text.endswith("\n") and text.rstrip() == text.rstrip("\n ").rstrip(), "blanks and a line break"
    header = ast.literal_eval(text)
    assert sorted(header) == ["descr", "fortran_order", "shape"] and header["fortran_order"] is False
    body = data[10 + size :]
    count = 1
    for n in header["shape"]:
        count *= n
    if header["descr"] in FORMATS:
        values = list(struct.unpack("<%d%s" % (count, FORMATS[header["descr"]]), body))
    else:
        width = int(header["descr"][2:])
        assert len(body) == count * width, "size"
        values = [body[i : i + width].hex() for i in range(0, len(body), width)]
    return header["descr"], header["shape"], values


if __name__ == "__main__":
    for path in sys.argv[1:]:
        print(path, *load(path))
