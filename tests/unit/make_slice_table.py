#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Prints tests/unit/slice_table.h: how Python resolves ranges. Run it by hand; the table is checked in."""

import random

r = random.Random(7)
SIZES = [0, 1, 2, 3, 5, 8, 17]
STEPS = [None, 1, 1, 2, 3, 7, -1, -1, -2, -3, -9, 2**63 - 1, 1 - 2**63]


def bounds(n):
    return [None, 0, 1, 2, n - 1, n, n + 1, n + 7, -1, -2, -n, -n - 1, -n - 9, 2**63 - 1, 1 - 2**63]


def text(v):
    return "" if v is None else str(v)


rows, seen = [], set()
while len(rows) < 420:
    n = r.choice(SIZES)
    a, b, c = r.choice(bounds(n)), r.choice(bounds(n)), r.choice(STEPS)
    if (n, a, b, c) not in seen:
        seen.add((n, a, b, c))
        x = range(*slice(a, b, c).indices(n))
        spec = text(a) + ":" + text(b) + ("" if c is None else ":" + text(c))
        rows.append('    {"%s", %d, %d, %d},' % (spec, n, len(x), x[0] if len(x) else 0))
print("""/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * tests/unit/slice_table.h - ranges as Python resolves them, printed by make_slice_table.py: the text, the
 * size of the dimension, how many elements it gives and the first of them (0 if there are none).
 */""")
print("\n".join(rows))
