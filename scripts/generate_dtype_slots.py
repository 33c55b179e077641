#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""generate_dtype_slots.py [ROOT] - finds the hash by which src/format/dtype.c finds a type by its name.

Reads the rows of SFT_DTYPE_MAP in include/sft/dtype.h, tries multipliers until the top five bits of (first
eight bytes of the name * multiplier) differ for all names, and writes multiplier and slots into
src/format/dtype.c. The same names always give the same result. Standard library only.
"""

import pathlib
import random
import re
import sys

SLOTS = 32


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent.parent)
    rows = re.findall(r'X\(SFT_\w+, (\d+), "(\w+)"', (root / "include/sft/dtype.h").read_text())
    keys = [int.from_bytes(name.encode()[:8].ljust(8, b"\0"), "little") for _, name in rows]
    if len(keys) >= SLOTS or len(set(keys)) < len(keys):
        sys.exit("generate_dtype_slots: more slots are needed, or two names begin with the same eight bytes")
    source = root / "src/format/dtype.c"
    text = source.read_text()
    tried = int(re.search(r"UINT64_C\(0x([0-9a-f]+)\)\) >> 59", text)[1], 16)
    numbers = random.Random(1)
    while len({(key * tried & 2**64 - 1) >> 59 for key in keys}) < len(keys):
        tried = numbers.getrandbits(64) | 1
    slots = [0] * SLOTS
    for (number, _), key in zip(rows, keys):
        slots[(key * tried & 2**64 - 1) >> 59] = int(number)
    width = " " * 38
    halves = [", ".join(f"{s}" for s in slots[i : i + 16]) for i in (0, 16)]
    text = re.sub(
        r"slots\[32\] = \{.*?\};",
        lambda m: f"slots[32] = {{{halves[0]},\n{width}{halves[1]}}};",
        text,
        flags=re.S,
    )
    text = re.sub(r"UINT64_C\(0x[0-9a-f]+\)\) >> 59", f"UINT64_C(0x{tried:016x})) >> 59", text)
    source.write_text(text)


if __name__ == "__main__":
    main()
