#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""reference.py FILE... - compares the verdicts of the conformance cases with safetensors 0.8.0.

The reference must agree with each case's `want`, or with its `reference` line where there is one. Cases
with `strict` or `limit` are compared only if they have that line.
"""
import re
import struct
import sys

import safetensors


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
            case["want"] = value.startswith(b"ok")
        elif word == b"reference":
            case["reference"] = value == b"accepts"
    if case:
        yield case


def main():
    compared = faults = 0
    for path in sys.argv[1:]:
        for case in cases(path):
            if case["ours"] and "reference" not in case:
                continue
            try:
                safetensors.deserialize(case["file"])
                accepts, why = True, ""
            except safetensors.SafetensorError as e:
                accepts, why = False, str(e)
            compared += 1
            if accepts != case.get("reference", case["want"]):
                faults += 1
                print(f"{path}:{case['line']}: {case['name']}: reference {'accepts' if accepts else 'rejects'} {why}")
    print(f"{compared} verdicts compared with safetensors {safetensors.__version__}, {faults} differ")
    return 1 if faults or not compared else 0


if __name__ == "__main__":
    sys.exit(main())
