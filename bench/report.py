# SPDX-License-Identifier: Apache-2.0 OR MIT
"""results.json as text: a line while running, a Markdown table at the end.

By hand: report.py results.json [FILE.md]; the table is printed, or put between the two marks in FILE.md.
"""

import json
import pathlib
import sys

import targets

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
    if target["ratio"] is None:
        return f"{target['text']}: not measured"
    minima = f", of minima {target['of_minima']:.3g}" if "of_minima" in target else ""
    if target["wanted"] is None:
        return f"{target['text']}: {target['ratio']:.3g}{minima}"
    met = "met" if target["met"] else "NOT MET"
    if target.get("most"):  # a fact: at most so much
        return f"{target['text']}: {met}"
    return f"{target['text']}: {target['ratio']:.3g}{minima} (wanted {target['wanted']:.3g}) {met}"


def line(row):
    parts = [f"{name} {amount(s['median'], row['unit'])}" for name, s in row["contenders"].items()]
    parts += [verdict(t, row["unit"]) for t in row["targets"]]
    parts += [f"{name} FAILED: {why}" for name, why in row.get("failed", {}).items()]
    notes = "; ".join(filter(None, [row["note"], lowered(row)]))
    return f"{row['workload']:<5}{row['case']}: " + "; ".join(parts) + (f" [{notes}]" if notes else "")


def lowered(row):
    return f"{row['turns']} turns instead of {row['lowered_from']} (budget)" if "lowered_from" in row else ""


def counters(s):
    """Faults, memory and device bytes of a contender, where they were counted."""
    t = s.get("typical")
    if not t:
        return ""
    parts = [
        f"peak {amount(t['peak'], 'bytes')}",
        f"{t['minor']:,.0f} faults" if t["minor"] >= 100 else "",
        f"{t['major']:,.0f} major" if t["major"] >= 1 else "",
        f"{amount(t['device'], 'bytes')} from the device" if t["device"] >= 1e6 else "",
    ]
    return "; " + ", ".join(filter(None, parts)) if t["peak"] >= 1e6 or t["device"] >= 1e6 else ""


def spread(s, unit):
    if len(s["values"]) == 1:
        return amount(s["median"], unit)
    return f"{amount(s['median'], unit)} ({amount(s['min'], unit)} .. {amount(s['p95'], unit)})"


def about(result):
    """The machine and how it was measured."""
    m = result["machine"]
    peers = m.get("peers", {})
    out = [
        f"{m['cpu']}, {m['cores']} cores, {m['memory'] / 2**30:.1f} GiB, Linux {m['kernel']}, {m['file_system']}, "
        f"huge pages {m.get('huge_pages', 'unknown')}; Python {m['python']}, safetensors {m['safetensors']}, numpy "
        f"{m['numpy']}; mode {m['mode']}, {m['turns']} turns, {m['seconds']} s, load {m['load_before']:.2f} before, "
        f"{m['load_after']:.2f} after"
    ]
    if peers:
        out += ["", "Peers: " + "; ".join(f"{name} {version}" for name, version in peers.items())]
    if result.get("problems"):
        out += ["", "**Failed**: " + "; ".join(f"{p['workload']}: {p['error']}" for p in result["problems"])]
    return out


def targets_table(result):
    """Every target of the project, its worst row in these results, and why it is missed where it is."""
    found = {}
    for row in result["rows"]:
        for t in row["targets"]:
            if t.get("id") and t["wanted"] is not None:
                found.setdefault(t["id"], []).append((row, t))
    out = ["| target | measured (worst row) | |", "|---|---|---|"]
    met = total = 0
    for name, words in targets.TARGETS:
        rows = found.get(name)
        if not rows:
            out.append(f"| {words} | - | not measured{'. ' + targets.WHY[name] if name == 'GPU' else ''} |")
            continue
        row, t = min(rows, key=badness)
        total += 1
        met += all(x["met"] for _, x in rows)
        if t["ratio"] is None:
            measured = "failed: " + "; ".join(f"{n}: {w}" for n, w in row.get("failed", {}).items())
        elif t.get("most"):
            measured = f"{amount(t['ratio'], row['unit'])} of {amount(t['wanted'], row['unit'])}"
        else:
            measured = f"{t['ratio']:.3g} ({t['low']:.3g} .. {t['high']:.3g}), wanted {t['wanted']:.3g}"
        held = sum(x["met"] for _, x in rows)
        verdict_ = (
            "met" if held == len(rows) else ("NOT MET" if held == 0 else f"met in {held} of {len(rows)} rows")
        )
        why = "" if held == len(rows) else ". " + targets.WHY.get(name, "See the row.")
        out.append(f"| {words} | {row['case']}: {measured} | {verdict_}{why} |")
    return out + ["", f"{met} of {total} measured targets met; {len(targets.TARGETS) - total} not measured."]


def before(result):
    """Ours beside the same of another build, turn by turn (bench/run.py --before); at the end what became slower:
    by more than 3 percent by the medians, the minima, and nine of ten turns."""
    out = [
        *about(result),
        "",
        "| | case | now | before | before / now (of ten turns one is outside) | of minima |",
    ]
    out.append("|---|---|---|---|---|---|")
    slower = []
    for row in result["rows"]:
        for t in row["targets"]:
            if not t["text"].endswith("as fast as before") or t["ratio"] is None:
                continue
            name = t["text"].split(":")[0]
            now, old = (row["contenders"][n] for n in (name, f"before: {name}"))
            case = row["case"] + ("" if name == "ours" else f", {name.removeprefix('ours, ')}")
            times = [spread(s, row["unit"]) for s in (now, old)]
            out.append(
                f"| {row['workload']} | {case} | {times[0]} | {times[1]} | {t['ratio']:.3f} ({t['low']:.3f} .. "
                f"{t['high']:.3f}) | {t['of_minima']:.3f} |"
            )
            if max(t["ratio"], t["high"], t["of_minima"]) < 0.97:
                slower.append(case)
    rows = len(out) - len(about(result)) - 3
    return "\n".join([*out, "", f"{rows} rows; slower: " + ("; ".join(slower) or "none")]) + "\n"


def badness(pair):
    t = pair[1]
    if t["ratio"] is None:
        return -1.0
    return t["wanted"] / t["ratio"] if t.get("most") and t["ratio"] else t["ratio"] / t["wanted"]


def table(result):
    out = [
        "| | case | ours: median (min .. p95) | beside it | target: ratio (wanted) |",
        "|---|---|---|---|---|",
    ]
    for row in result["rows"]:
        unit = row["unit"]
        cells = [
            ("" if n == "ours" else n + ": ") + spread(s, unit) + counters(s)
            for n, s in row["contenders"].items()
        ]
        mine = [c for c, n in zip(cells, row["contenders"]) if n.startswith("ours")]
        beside = [c for c, n in zip(cells, row["contenders"]) if not n.startswith("ours")]
        beside += [f"{n}: did not run: {why}" for n, why in row.get("failed", {}).items()]
        beside += list(filter(None, [row["note"], lowered(row)]))
        marks = "<br>".join(verdict(t, unit) for t in row["targets"])
        out.append(
            "| "
            + " | ".join(
                [
                    row["workload"],
                    row["case"],
                    "<br>".join(mine),
                    "<br>".join(beside).replace("|", "/"),
                    marks,
                ]
            )
            + " |"
        )
    met = [t["met"] for row in result["rows"] for t in row["targets"] if t["wanted"] is not None]
    return out + ["", f"{sum(met)} of {len(met)} comparisons with a wanted value met it."]


def page(result):
    """All that goes between the marks of docs/performance/table.md."""
    parts = [
        about(result),
        ["### Targets", ""] + targets_table(result),
        ["### Every row", ""] + table(result),
    ]
    return "\n\n".join("\n".join(part) for part in parts) + "\n"


def main(argv):
    text = page(json.loads(pathlib.Path(argv[1]).read_text()))
    if len(argv) < 3:
        print(text)
        return
    document = pathlib.Path(argv[2])
    head, rest = document.read_text().split(MARKS[0])
    document.write_text(head + MARKS[0] + text + MARKS[1] + rest.split(MARKS[1])[1])


if __name__ == "__main__":
    main(sys.argv)
