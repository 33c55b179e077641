#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Writes the seeds of the import wing's targets in fuzz/corpus, from the cases of tests/import/hostile.py and from
what real pickles hold. Run it by hand after a change; the seeds are checked in."""
import os
import re
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "tests", "import"))
import hostile  # noqa: E402

LONGEST = 1200
FEW = re.compile(r"opcode .. (alone|in a list)")


def put(target, name, data):
    folder = os.path.join(HERE, "corpus", target)
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")), "wb") as f:
        f.write(data)


def main():
    pickles = {}

    def take(name, pkl, *rest):
        if len(pkl) <= LONGEST and not FEW.match(name):
            pickles[name] = pkl

    hostile.torch_pkl = take
    hostile.pickles()
    hostile.tensors()
    pickles["good"] = hostile.GOOD
    hostile.CASES.clear()
    hostile.zips()
    hostile.legacies()
    for name, data, *_ in hostile.CASES:
        if name.startswith(("legacy", "good legacy", "bare")):
            at = data.find(b"s.", data.find(b"little_endian"))
            if at > 0 and len(data) <= LONGEST:
                put("legacy", name, data[at + 2 :])
        elif len(data) <= LONGEST:
            put("zip", name, data)
    put("zip", "legacy", hostile.legacy(hostile.GOOD))
    for name, pkl in pickles.items():
        put("pickle", name, pkl)
    good = hostile.make_tar()
    parts, at = {}, 0
    while good[at]:
        size = int(good[at + 124 : at + 135], 8)
        parts[good[at : at + 100].rstrip(b"\0").decode()] = good[at + 512 : at + 512 + size]
        at += 512 + (size + 511) // 512 * 512
    order = [parts[n] for n in ("sys_info", "storages", "tensors", "pickle")]
    put("tar", "parts", b"\0" + b"".join(len(p).to_bytes(2, "little") for p in order[:3]) + b"".join(order))
    put("tar", "whole", b"\1" + good)


if __name__ == "__main__":
    main()
