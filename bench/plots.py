# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Bars of ratios as SVG, from results.json, with the standard library alone.

One plot per class of work: a bar says how many times as long a contender takes as ours, on a logarithmic
scale, whiskers from the 10th to the 90th percentile of the turns. Left of 1 (light) are those that are faster
than ours. The classes open, lazy views, and bytes in owned memory are never in one plot.

By hand: plots.py results.json FOLDER.
"""

import json
import math
import pathlib
import statistics
import sys

GROUPS = {
    "open": "Opening files and refusing broken ones; no tensor data is touched",
    "views": "Lazy views: tensor objects, no byte of data is read",
    "owned": "All bytes in memory of the caller's own",
    "mapped": "Mapped, and every byte summed",
    "slices": "One tensor, rows and columns",
    "save": "Saving",
    "files": "Files into other files: merge, split, cast",
    "verify": "Verifying",
    "start": "Starting",
    "many": "Dicts of very many tensors",
}
BY_WORKLOAD = {"W1": "open", "W20": "open", "W8": "slices", "W9": "slices", "W10": "slices", "W14": "save"}
LEFT, WIDTH, BAR, GAP = 430, 460, 13, 10


def group_of(row):
    return row.get("group") or BY_WORKLOAD.get(row["workload"], "")


def bars_of(row):
    """(name, ratio, low, high) of every contender against the row's first of ours."""
    contenders = row["contenders"]
    ours = next((n for n in contenders if n.startswith("ours")), None)
    if ours is None or row["unit"] != "ns":
        return []
    mine, out = contenders[ours]["values"], []
    for name, c in contenders.items():
        if name == ours or len(contenders) < 2:
            continue
        ratios = sorted(a / b for a, b in zip(c["values"], mine) if b > 0)
        if ratios and ratios[0] > 0:
            out.append(
                (name, statistics.median(ratios), ratios[len(ratios) // 10], ratios[-1 - len(ratios) // 10])
            )
    return out


def escape(text):
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def text(x, y, words, size=11, anchor="start", extra=""):
    return f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}"{extra}>{escape(words)}</text>'


def svg(title, rows):
    """The plot of these rows, or None where there is nothing to compare."""
    blocks = [(row, bars_of(row)) for row in rows]
    blocks = [(row, bars) for row, bars in blocks if bars]
    if not blocks:
        return None
    every = [v for _, bars in blocks for _, _, low, high in bars for v in (low, high)]
    least, most = math.floor(math.log10(min(every + [0.9]))), math.ceil(math.log10(max(every + [1.1])))

    def x(value):
        return LEFT + WIDTH * (math.log10(value) - least) / (most - least)

    y, out = 56, []
    for row, bars in blocks:
        out.append(text(8, y + BAR - 3, f"{row['workload']} {row['case']}", extra=' font-weight="bold"'))
        y += BAR + 3
        for name, ratio, low, high in bars:
            a, b = sorted((x(1), x(ratio)))
            middle = y + BAR / 2
            out.append(text(LEFT - 6, y + BAR - 3, name, anchor="end"))
            out.append(
                f'<rect x="{a:.1f}" y="{y}" width="{max(b - a, 0.5):.1f}" height="{BAR - 2}" '
                f'fill="{"#3b6ea5" if ratio >= 1 else "#e0a030"}"/>'
            )
            out.append(
                f'<path d="M{x(low):.1f} {middle}H{x(high):.1f}M{x(low):.1f} {middle - 3}v6M{x(high):.1f} '
                f'{middle - 3}v6" stroke="#222" fill="none"/>'
            )
            out.append(text(max(x(high), x(ratio), x(1)) + 5, y + BAR - 3, f"{ratio:.3g}", 10))
            y += BAR
        y += GAP
    lines = []
    for power in range(least, most + 1):
        at = x(10.0**power)
        lines.append(f'<path d="M{at:.1f} 46V{y}" stroke="{"#000" if power == 0 else "#ccc"}"/>')
        lines.append(text(at, 42, f"{10.0**power:g}", 10, "middle"))
    head = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{LEFT + WIDTH + 60}" height="{y + 10}" '
        'font-family="sans-serif"><rect width="100%" height="100%" fill="#fff"/>',
        text(8, 18, title, 14, extra=' font-weight="bold"'),
        text(
            8,
            34,
            "how many times as long as ours (the first of ours in each row); whiskers: 10th to 90th "
            "percentile",
            10,
        ),
    ]
    return "\n".join(head + lines + out + ["</svg>"]) + "\n"


def write_all(result, folder):
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    made = []
    for group, title in GROUPS.items():
        image = svg(title, [row for row in result["rows"] if group_of(row) == group])
        if image:
            (folder / f"{group}.svg").write_text(image)
            made.append(folder / f"{group}.svg")
    return made


if __name__ == "__main__":
    for made_path in write_all(json.loads(pathlib.Path(sys.argv[1]).read_text()), sys.argv[2]):
        print(made_path)
