# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Tests of the benchmark suite's report, plots, comparison, budget and contenders; nothing is measured."""

import pathlib
import sys
import tempfile
import unittest
import xml.etree.ElementTree

BENCH = pathlib.Path(__file__).resolve().parents[2] / "bench"
sys.path.insert(0, str(BENCH))

import chart  # noqa: E402
import compare  # noqa: E402
import plots  # noqa: E402
import report  # noqa: E402
import run  # noqa: E402
import server  # noqa: E402
import targets  # noqa: E402
import workloads  # noqa: E402

MACHINE = {
    "cpu": "a <cpu>",
    "cores": 2,
    "memory": 1 << 34,
    "kernel": "6.1",
    "file_system": "ext4",
    "python": "3.11",
    "safetensors": "0.8",
    "numpy": "2",
    "mode": "quick",
    "turns": 3,
    "seconds": 1,
    "load_before": 0.5,
    "load_after": 0.6,
    "peers": {"ref": "0.8.0", "gguf": "absent: ImportError"},
}


def row(ours, theirs, base, wanted=0.9, failed=None, planned=3):
    def counted(values):
        return [{"ns": v, "minor": 200, "major": 0, "cpu_us": 5, "device": 0, "peak": 2e6} for v in values]

    return run.row_of(
        "W4",
        "load <one> & two",
        "ns",
        "",
        "owned",
        {"ours": counted(ours), "safetensors": theirs, "rc": [2 * v for v in theirs], "base": base},
        failed or {},
        [
            ("of the base", "base", "ours", wanted, "W4-fresh"),
            ("times the best", ("safetensors", "rc"), "ours", 3, "W4-ref"),
            ("told", "absent", "ours", None),
            ("told", "base", "ours", None, "W5"),
        ],
        planned,
    )


def result(*rows):
    return {"schema": 2, "machine": MACHINE, "problems": [], "rows": list(rows)}


class Rows(unittest.TestCase):
    def test_ratio_is_the_median_of_turns(self):
        got = row([10, 20, 40], [40, 40, 40], [10, 10, 10])["targets"][0]
        self.assertEqual(got["ratio"], 0.5)
        self.assertEqual((got["low"], got["high"]), (0.25, 1.0))
        self.assertFalse(got["met"])
        self.assertEqual(got["of_minima"], 1.0)

    def test_fastest_of_several_within_a_turn(self):
        got = row([10, 10, 10], [30, 40, 50], [9, 9, 9])["targets"]
        self.assertEqual(got[1]["ratio"], 4)
        self.assertTrue(got[0]["met"] and got[1]["met"])
        self.assertEqual(len(got), 3)  # a ratio to one who is not there is left out

    def test_failed_contender_is_no_success(self):
        got = row([], [1, 1, 1], [1, 1, 1], failed={"ours": "died"})
        self.assertEqual([t["met"] for t in got["targets"]], [False, False])  # what is only told is left out
        self.assertIn("ours FAILED: died", report.line(got))
        self.assertNotIn("ours", got["contenders"])

    def test_lowered_turns_are_told(self):
        self.assertNotIn("lowered_from", row([1] * 3, [1] * 3, [1] * 3))
        got = row([1] * 3, [1] * 3, [1] * 3, planned=11)
        self.assertIn("3 turns instead of 11", report.line(got))

    def test_counters_are_kept(self):
        got = row([1] * 3, [1] * 3, [1] * 3)["contenders"]
        self.assertEqual(got["ours"]["counters"]["minor"], [200] * 3)
        self.assertEqual(got["ours"]["typical"]["peak"], 2e6)
        self.assertNotIn("counters", got["base"])


class Tables(unittest.TestCase):
    def test_page(self):
        text = report.page(result(row([10] * 3, [20] * 3, [8] * 3)))
        self.assertIn("NOT MET", text)
        self.assertIn(targets.WHY["W4-fresh"], text)
        self.assertIn("gguf absent", text)
        self.assertIn("0 of 2 measured targets met", text)
        width = {
            line.count("|") for line in text.split("### Every row")[1].splitlines() if line.startswith("|")
        }
        self.assertEqual(width, {6})

    def test_worst_row_decides(self):
        text = report.page(result(row([10] * 3, [50] * 3, [10] * 3), row([10] * 3, [50] * 3, [5] * 3)))
        self.assertIn("0.5 (0.5 .. 0.5), wanted 0.9 | met in 1 of 2 rows", text)

    def test_facts(self):
        fact = {
            "workload": "W12",
            "case": "peak",
            "unit": "bytes",
            "note": "",
            "group": "",
            "contenders": {"ours": run.summary([5e6])},
            "targets": [
                {
                    "text": "under",
                    "ratio": 5e6,
                    "wanted": 64 << 20,
                    "met": True,
                    "id": "W12-memory",
                    "most": True,
                }
            ],
        }
        self.assertIn("5 MB of 67.1 MB | met", report.page(result(fact)))

    def test_amounts(self):
        self.assertEqual(
            [report.amount(v, "ns") for v in (5, 1500, 2e6, 3e9)], ["5 ns", "1.5 us", "2 ms", "3 s"]
        )

    def test_marks_of_a_page(self):
        with tempfile.TemporaryDirectory() as folder:
            page, data = pathlib.Path(folder) / "p.md", pathlib.Path(folder) / "r.json"
            page.write_text("head\n" + report.MARKS[0] + "stale text\n" + report.MARKS[1] + "tail\n")
            data.write_text(__import__("json").dumps(result(row([1] * 3, [1] * 3, [1] * 3))))
            report.main(["report.py", data, page])
            text = page.read_text()
            self.assertTrue(
                text.startswith("head\n") and text.endswith("tail\n") and "stale text" not in text
            )

    def test_every_target_is_asked_for(self):
        ids = [name for name, _ in targets.TARGETS]
        self.assertEqual(len(ids), len(set(ids)))
        self.assertLessEqual(set(targets.WHY), set(ids))
        code = "".join(p.read_text() for p in BENCH.glob("workloads*.py"))
        for name in set(ids) - {"GPU"}:
            stem = name.rsplit("-", 1)[0]
            self.assertTrue(f'"{name}"' in code or f"{stem}-{{" in code, name)


class Plots(unittest.TestCase):
    def test_svg(self):
        with tempfile.TemporaryDirectory() as folder:
            made = plots.write_all(result(row([10] * 3, [20, 30, 40], [8] * 3)), folder)
            self.assertEqual([p.name for p in made], ["owned.svg"])
            tree = xml.etree.ElementTree.parse(made[0])
            bars = tree.findall("{http://www.w3.org/2000/svg}rect")
            self.assertEqual(len(bars), 4)  # the background and three contenders
            words = [t.text for t in tree.findall("{http://www.w3.org/2000/svg}text")]
            self.assertIn("W4 load <one> & two", words)
            self.assertIn("3", words)

    def test_bars(self):
        got = {name: rest for name, *rest in plots.bars_of(row([10] * 3, [20, 30, 40], [5] * 3))}
        self.assertEqual(got["safetensors"], [3, 2, 4])
        self.assertEqual(got["base"][0], 0.5)

    def test_classes_are_not_mixed(self):
        rows = [dict(row([1] * 3, [2] * 3, [1] * 3), group=g, case=g) for g in ("views", "owned", "open")]
        with tempfile.TemporaryDirectory() as folder:
            for path in plots.write_all(result(*rows), folder):
                text = path.read_text()
                self.assertEqual([g for g in ("views", "owned", "open") if f"W4 {g}" in text], [path.stem])

    def test_nothing_to_compare(self):
        self.assertIsNone(plots.svg("x", [dict(row([1], [1], [1]), contenders={})]))


class Chart(unittest.TestCase):
    def rows(self):
        """One row for each bar: ours takes 10 ns, the reference 40, 20 and 30."""
        return [
            run.row_of(
                workload,
                f"{case} <&>",
                "ns",
                "",
                "",
                {ours: [10] * 3, **{n: [40, 20, 30] for n in theirs}},
                {},
                [],
                3,
            )
            for _, _, workload, case, ours, theirs in chart.BARS
        ]

    def test_bars_are_medians_of_ratios(self):
        bars = chart.bars_of(result(*self.rows()))
        self.assertEqual(len(bars), len(chart.BARS))
        self.assertEqual({bar[:3] for _, _, bar in bars}, {(3, 2, 4)})

    def test_svg(self):
        text = chart.svg(result(*self.rows()))
        tree = xml.etree.ElementTree.fromstring(text)
        self.assertEqual(len(tree.findall("{http://www.w3.org/2000/svg}rect")), 1 + len(chart.BARS))
        self.assertLess(len(text), 30_000)
        self.assertIn("prefers-color-scheme:dark", text)
        self.assertIn("a &lt;cpu&gt;", text)

    def test_every_bar_is_of_a_workload(self):
        code = "".join(p.read_text() for p in BENCH.glob("workloads*.py"))
        for _, _, workload, _, ours, theirs in chart.BARS:
            self.assertIn(workload, workloads.ROWS)
            for name in (ours, *theirs):
                self.assertTrue(f'"{name}"' in code or name == "ours, Python torch", name)

    def test_nothing_to_compare(self):
        self.assertIsNone(chart.svg(result()))

    def test_ticks(self):
        self.assertEqual(chart.ticks(20), [1, 2, 5, 10, 20])


class Comparison(unittest.TestCase):
    def test_spread(self):
        text, spreads = compare.compare(
            result(row([10] * 3, [20] * 3, [10] * 3)), result(row([20] * 3, [20] * 3, [10] * 3))
        )
        self.assertIn("| W4 | load <one> & two | ours | 10 ns | 20 ns | 2.00 |", text)
        self.assertEqual(spreads, [2.0, 2.0, 2.0])
        self.assertIn("1 of 2 verdicts differ", text)

    def test_lonely_rows(self):
        other = dict(row([1] * 3, [1] * 3, [1] * 3), case="elsewhere")
        self.assertIn(
            "Only in one", compare.compare(result(row([1] * 3, [1] * 3, [1] * 3)), result(other))[0]
        )


class Budgets(unittest.TestCase):
    def test_turns_shrink_and_never_below_the_least(self):
        self.assertEqual(run.turns_within(11, 50, 0.001), 11)
        self.assertEqual(run.turns_within(11, 50, 10), 5)
        self.assertEqual(run.turns_within(11, 50, 1000), run.LEAST_TURNS)
        self.assertEqual(run.turns_within(2, 50, 1000), 2)

    def test_what_one_does_not_use_is_left_to_the_others(self):
        budget = run.Budget(100, {"W1": 1, "W2": 1})
        budget.begin("W2")
        self.assertAlmostEqual(budget.share(), 50 / workloads.ROWS["W2"], delta=1)
        budget.begin("W1")
        self.assertAlmostEqual(budget.share(), 100 / workloads.ROWS["W1"], delta=1)

    def test_every_workload_has_rows_and_weight(self):
        names = [name for name, _, _ in workloads.ALL]
        self.assertEqual(len(names), len(set(names)))
        self.assertLessEqual(sum(w for _, _, w in workloads.ALL), 25 * 60 + 300)
        self.assertLessEqual(set(workloads.ROWS), set(names))

    def test_times(self):
        self.assertEqual([run.seconds_of(t) for t in ("25m", "90s", "2h", "30")], [1500, 90, 7200, 30])


class Contenders(unittest.TestCase):
    def test_absent_program(self):
        with self.assertRaises(server.Failed):
            server.Server(["/nonexistent/program"])("x")

    def test_death_and_error_are_failures(self):
        quiet = server.Server([sys.executable, "-c", "input(); raise SystemExit(3)"])
        with self.assertRaisesRegex(server.Failed, "died"):
            quiet("x")
        told = server.Server([sys.executable, "-c", 'input(); print(\'{"error": "no such thing"}\')'])
        with self.assertRaisesRegex(server.Failed, "no such thing"):
            told("x")
        told.close()

    def test_greeting(self):
        absent = server.Server([sys.executable, "-c", 'print(\'{"absent": "not here"}\')'], greets=True)
        with self.assertRaisesRegex(server.Failed, "not here"):
            absent("x")


if __name__ == "__main__":
    unittest.main()
