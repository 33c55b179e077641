# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Two results.json of the same command side by side: how far apart medians and ratios lie.

compare.py A.json B.json: a Markdown table, a row per contender; "spread" is the larger median over the
smaller one. Rows that only one of the two has are named at the end.
"""

import json
import pathlib
import statistics
import sys

from report import amount


def medians(result):
    return {
        (row["workload"], row["case"], name): (c["median"], row["unit"])
        for row in result["rows"]
        for name, c in row["contenders"].items()
    }


def ratios(result):
    return {
        (row["workload"], row["case"], t["text"]): t["ratio"]
        for row in result["rows"]
        for t in row["targets"]
        if t.get("ratio") and not t.get("most")
    }


def verdicts(result):
    return {
        (row["workload"], row["case"], t["text"]): t["met"]
        for row in result["rows"]
        for t in row["targets"]
        if t["wanted"] is not None
    }


def apart(a, b):
    return max(a, b) / min(a, b) if min(a, b) > 0 else float("inf")


def compare(one, two):
    """The text, and the spreads of the ratios."""
    a, b = medians(one), medians(two)
    both = [key for key in a if key in b]
    out = ["| | case | contender | first | second | spread |", "|---|---|---|---|---|---|"]
    for key in both:
        (first, unit), (second, _) = a[key], b[key]
        out.append(
            f"| {key[0]} | {key[1]} | {key[2]} | {amount(first, unit)} | {amount(second, unit)} | "
            f"{apart(first, second):.2f} |"
        )
    times = sorted(apart(a[k][0], b[k][0]) for k in both)
    c, d = ratios(one), ratios(two)
    spreads = sorted(apart(c[k], d[k]) for k in c if k in d)
    out.append("")
    for what, values in (("medians", times), ("ratios", spreads)):
        if values:
            out.append(
                f"{len(values)} {what}: half of them within {statistics.median(values):.2f}, nine of ten within "
                f"{values[int(0.9 * (len(values) - 1))]:.2f}, the widest {values[-1]:.2f} times apart."
            )
    v, w = verdicts(one), verdicts(two)
    changed = [k for k in v if k in w and v[k] != w[k]]
    out.append(
        f"{len(changed)} of {sum(k in w for k in v)} verdicts differ"
        + ("".join(f"\n- {' / '.join(k)}" for k in changed) if changed else ".")
    )
    lonely = sorted(set(a) ^ set(b))
    if lonely:
        out.append("\nOnly in one of the two: " + "; ".join(" / ".join(k) for k in lonely))
    return "\n".join(out) + "\n", spreads


if __name__ == "__main__":
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    print(compare(*(json.loads(pathlib.Path(p).read_text()) for p in sys.argv[1:]))[0])
