# SPDX-License-Identifier: Apache-2.0 OR MIT
"""results.json as text: a line while running, a Markdown table at the end.

By hand: report.py results.json [FILE.md]; the table is printed, or put between the two marks in FILE.md.
"""

import json
import pathlib
import sys

MARKS = "<!-- measured: begin -->\n", "<!-- measured: end -->\n"


def amount(value, unit):
    if unit == "ns":
        for size, name in ((1e9, "s"), (1e6, "ms"), (1e3, "us")):
            if value >= size:
                return f"{value / size:.3g} {name}"
        return f"{value:.3g} ns"
    if unit == "bytes":
        return f"{value / 1e6:.3g} MB" if value >= 1e6 else f"{value / 1e3:.3g} kB"
    return f"{value:.3g}"


def verdict(target, unit):
    minima = f", of minima {target['of_minima']:.3g}" if "of_minima" in target else ""
    if target["wanted"] is None:
        return f"{target['text']}: {target['ratio']:.3g}{minima}"
    met = "met" if target["met"] else "NOT MET"
    if unit in ("bytes", "ns") and target["wanted"] > 1000:  # a fact: at most so much
        return f"{target['text']}: {met}"
    return f"{target['text']}: {target['ratio']:.3g}{minima} (wanted {target['wanted']:.3g}) {met}"


def line(row):
    parts = [f"{name} {amount(s['median'], row['unit'])}" for name, s in row["contenders"].items()]
    parts += [verdict(t, row["unit"]) for t in row["targets"]]
    return f"{row['workload']:<5}{row['case']}: " + "; ".join(parts) + (f" [{row['note']}]" if row["note"] else "")


def spread(s, unit):
    if len(s["values"]) == 1:
        return amount(s["median"], unit)
    return f"{amount(s['median'], unit)} ({amount(s['min'], unit)} .. {amount(s['p95'], unit)})"


def table(result):
    m = result["machine"]
    out = [f"{m['cpu']}, {m['cores']} cores, {m['memory'] / 2**30:.1f} GiB, Linux {m['kernel']}, {m['file_system']}; "
           f"Python {m['python']}, safetensors {m['safetensors']}, numpy {m['numpy']}; mode {m['mode']}, "
           f"{m['turns']} turns, {m['seconds']} s, load {m['load_before']:.2f} before, "
           f"{m['load_after']:.2f} after", "",
           "| | case | ours: median (min .. p95) | beside it | target: ratio (wanted) |", "|---|---|---|---|---|"]
    for row in result["rows"]:
        names = list(row["contenders"])
        ours = names[0]
        mine = ("" if ours == "ours" else ours + ": ") + spread(row["contenders"][ours], row["unit"])
        beside = "<br>".join(f"{n}: {spread(row['contenders'][n], row['unit'])}" for n in names[1:])
        note = f"<br>{row['note']}" if row["note"] else ""
        targets = "<br>".join(verdict(t, row["unit"]) for t in row["targets"])
        out.append(f"| {row['workload']} | {row['case']} | {mine} | {beside}{note} | {targets} |")
    met = [t["met"] for row in result["rows"] for t in row["targets"] if t["wanted"] is not None]
    out += ["", f"{sum(met)} of {len(met)} targets met."]
    return "\n".join(out) + "\n"


def main(argv):
    text = table(json.loads(pathlib.Path(argv[1]).read_text()))
    if len(argv) < 3:
        print(text)
        return
    page = pathlib.Path(argv[2])
    head, rest = page.read_text().split(MARKS[0])
    page.write_text(head + MARKS[0] + text + MARKS[1] + rest.split(MARKS[1])[1])


if __name__ == "__main__":
    main(sys.argv)
