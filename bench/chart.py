# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The chart of the README: how many times as fast as the PyPI package `safetensors`, one bar for each kind of work.

    bench/chart.py build/bench/results.json docs/chart.svg

Each bar is the median of the ratios within a turn, the fastest of the reference's own ways against ours
(safetensors_c, or the tool where it converts); a thin line runs from the 10th to the 90th percentile. The scale is logarithmic. The file names the
machine and the run in its description, and follows the reader's light or dark colours.
"""

import json
import math
import pathlib
import statistics
import sys

import plots
import report
from workloads_bytes import OWNED

LOADS = tuple(name for name, kit, _ in OWNED if kit == "ref")
# what, in detail, workload, beginning of the case, ours, theirs (the fastest in a turn counts)
BARS = (
    ("Open", "and one tensor of 10,000", "PY", "safe_open + one", "ours", ("safetensors",)),
    ("Load lazily", "18,867 small tensors", "W17", "load_file of", "ours", ("safetensors",)),
    ("Load", "every byte into memory", "W4", "load", "ours, Python torch", LOADS),
    ("Save", "64 tensors, a new file", "W11", "save_file of", "ours, Python", ("safetensors",)),
    ("Slice rows", "64 MiB of them", "W9", "4,096 rows", "ours, Python", ("wheel",)),
    ("Slice columns", "a quarter of each row", "W10", "4096 B", "ours, Python", ("wheel",)),
    ("Slice columns", "1 KiB of each 16 KiB row", "W10", "1024 B", "ours, Python", ("wheel",)),
    (
        "Convert",
        "BF16 to F32, file to file",
        "W15",
        "BF16 to F32",
        "ours, the tool",
        ("safetensors + torch",),
    ),
)
LEFT, WIDTH, RIGHT, ROW = 230, 370, 200, 38
STYLE = """
text{font-family:system-ui,sans-serif;fill:#1f2328}.card{fill:#fff;stroke:#d1d9e0}.dim{fill:#59636e}
.grid{stroke:#d1d9e0}.one{stroke:#59636e}.bar{fill:#2f6fb3}.slow{fill:#bf7a1a}.line{stroke:#1f2328;fill:none}
@media(prefers-color-scheme:dark){text{fill:#f0f6fc}.card{fill:#0d1117;stroke:#3d444d}.dim{fill:#9198a1}
.grid{stroke:#3d444d}.one{stroke:#9198a1}.bar{fill:#4c8fd6}.slow{fill:#d29922}.line{stroke:#f0f6fc}}
"""


def bar_of(row, ours, theirs):
    """(ratio, low, high, median of ours, median of the fastest of theirs) of a row; None where one is missing."""
    contenders = row["contenders"]
    present = [contenders[name]["values"] for name in theirs if name in contenders]
    if ours not in contenders or not present:
        return None
    mine = contenders[ours]["values"]
    best = [min(turn) for turn in zip(*present)]
    ratios = sorted(b / a for a, b in zip(mine, best))
    tenth = len(ratios) // 10
    return (
        statistics.median(ratios),
        ratios[tenth],
        ratios[-1 - tenth],
        statistics.median(mine),
        statistics.median(best),
    )


def bars_of(result):
    """[(label, detail, bar)] of all BARS that the results hold."""
    out = []
    for label, detail, workload, case, ours, theirs in BARS:
        rows = (r for r in result["rows"] if r["workload"] == workload and r["case"].startswith(case))
        found = next((bar for bar in (bar_of(row, ours, theirs) for row in rows) if bar), None)
        if found:
            out.append((label, detail, found))
    return out


def about(result):
    m = result["machine"]
    return (
        f"{m['cpu']}, {m['cores']} cores, Linux {m['kernel']}, {m['file_system']}; Python {m['python']}, safetensors "
        f"{m['safetensors']}; bench/run.sh {m['mode']}, {m['turns']} turns, load average {m['load_before']:.1f} before "
        f"and {m['load_after']:.1f} after"
    )


def ticks(most):
    """1, 2, 5, 10, 20 ... up to the first that is not below `most`."""
    out = [1]
    while out[-1] < most:
        out.append(out[-1] * 5 // 2 if str(out[-1])[0] == "2" else out[-1] * 2)
    return out


def svg(result):
    """The chart as text, or None where the results hold none of its rows."""
    bars = bars_of(result)
    if not bars:
        return None
    marks = ticks(max(bar[2] for _, _, bar in bars))
    least = min(1.0, *(bar[1] for _, _, bar in bars))
    span = math.log(marks[-1] / least)
    bottom = 58 + ROW * len(bars)

    def x(value):
        return LEFT + WIDTH * math.log(value / least) / span

    def words(at, y, text, size=12, anchor="start", kind=""):
        return plots.text(at, y, text, size, anchor, f' class="{kind}"' if kind else "")

    out = [words(16, 26, "Times as fast as the PyPI package safetensors", 16)]
    for mark in marks:
        out.append(f'<path class="{"one" if mark == 1 else "grid"}" d="M{x(mark):.1f} 50V{bottom}"/>')
        out.append(words(x(mark), bottom + 15, f"{mark}", 11, "middle", "dim"))
    for i, (label, detail, (ratio, low, high, mine, theirs)) in enumerate(bars):
        y = 56 + ROW * i
        a, b = sorted((x(1), x(ratio)))
        kind = "bar" if ratio >= 1 else "slow"
        out.append(words(LEFT - 12, y + 12, label, 13, "end"))
        out.append(words(LEFT - 12, y + 26, detail, 11, "end", "dim"))
        out.append(
            f'<rect class="{kind}" x="{a:.1f}" y="{y + 4}" width="{max(b - a, 1):.1f}" height="20" rx="2"/>'
        )
        if low < high:
            out.append(f'<path class="line" d="M{x(low):.1f} {y + 14}H{x(high):.1f}"/>')
        end = max(x(high), x(1)) + 8
        out.append(words(end, y + 13, f"{ratio:.3g}", 13))
        out.append(
            words(
                end,
                y + 27,
                f"{report.amount(mine, 'ns')} against {report.amount(theirs, 'ns')}",
                10,
                kind="dim",
            )
        )
    width, height = LEFT + WIDTH + RIGHT, bottom + 50
    version = result["machine"]["safetensors"]
    note = f"safetensors {version} = 1, logarithmic scale; medians of the turns"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'role="img">\n<title>libsafetensors beside safetensors {plots.escape(version)}</title>\n'
        f"<desc>{plots.escape(about(result))}. Made by bench/chart.py.</desc>\n<style>{STYLE}</style>\n"
        f'<rect class="card" x="0.5" y="0.5" width="{width - 1}" height="{height - 1}" rx="8"/>\n'
        + "\n".join(out)
        + "\n"
        + words(LEFT, bottom + 34, note, 10, kind="dim")
        + "\n</svg>\n"
    )


def write(result, path):
    """Whether there was anything to draw."""
    text = svg(result)
    if text:
        pathlib.Path(path).write_text(text)
    return bool(text)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: chart.py RESULTS.json CHART.svg")
    if not write(json.loads(pathlib.Path(sys.argv[1]).read_text()), sys.argv[2]):
        sys.exit("chart.py: these results hold no row of the chart")
