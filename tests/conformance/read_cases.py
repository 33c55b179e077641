# SPDX-License-Identifier: Apache-2.0 OR MIT
"""read_cases.py - the conformance cases (see README.md) for tests in Python. Standard library only."""

import re
import struct


def text(s):
    out = bytearray()
    i = 0
    while i < len(s):
        rest = s[i:]
        if rest[:1] != b"\\":
            out += rest[:1]
            i += 1
        elif rest[1:2] == b"x":
            out.append(int(rest[2:4], 16))
            i += 4
        elif rest[1:2] == b"*":
            m = re.match(rb"\\\*(\d+)\(([^)]*)\)", rest)
            out += text(m.group(2)) * int(m.group(1))
            i += m.end()
        else:
            out += b" " if rest[1:2] == b"s" else rest[1:2]
            i += 2
    return bytes(out)


def cases(path):
    """Each case: name, line, file (bytes), ours (has a limit or is strict), wanted (words), want, reference."""
    case = None
    for number, line in enumerate(open(path, "rb").read().split(b"\n"), 1):
        word, _, value = line.partition(b" ")
        if word == b"case":
            if case:
                yield case
            case = {"name": value.decode(), "line": number, "file": b"", "ours": False}
        elif word == b"header":
            h = text(value)
            case["file"] = struct.pack("<Q", len(h)) + h
        elif word == b"file":
            case["file"] = text(value)
        elif word == b"data":
            case["file"] += bytes(int(value))
        elif word in (b"strict", b"limit"):
            case["ours"] = True
        elif word == b"want":
            case["wanted"] = value.decode().split(" ", 2)
            case["want"] = value.startswith(b"ok")
        elif word == b"reference":
            case["reference"] = value == b"accepts"
    if case:
        yield case
