# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The benchmarks: what the library needs, what the machine needs for the same bytes, what the wheel needs.

Contenders are warm servers (bench/bench.c, bench/wheel.py) that take turns, so that whatever the machine
does in between hits all of them. Every number is a median of at least 11 turns; ratios are the median of
the ratios within a turn. Prints a table, writes results.json with every single value. Modes: quick (small
files, 5 turns, for development), default (`make bench`, about 15 minutes), full (4 GiB saves, 15 turns).
"""

import argparse
import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys
import time

import report
import workloads
from files import folder_at

MODES = {
    # turns, MiB of a save, rows of the matrix (16 KiB each), MiB touched before anything is timed, MiB of a load
    "quick": {"turns": 5, "save_mib": 256, "rows": 8192, "prewarm": 2048, "load_mib": 256},
    "default": {"turns": 11, "save_mib": 1024, "rows": 65536, "prewarm": 0, "load_mib": 1024},
    "full": {"turns": 15, "save_mib": 4096, "rows": 65536, "prewarm": 0, "load_mib": 4096},
}


class Server:
    """One contender: a process that answers a line of words with nanoseconds."""

    def __init__(self, command):
        self.command = [str(c) for c in command]
        self.process = subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __call__(self, *words):
        self.process.stdin.write("\t".join(str(w) for w in words) + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            raise SystemExit(f"{self.command[0]}: died at {words!r}")
        return float(answer)

    def close(self):
        self.process.stdin.close()
        if self.process.wait() != 0:
            raise SystemExit(f"{self.command[0]}: exit {self.process.returncode}")


class Bench:
    """What the workloads use: the two servers, the turns, the rows."""

    def __init__(self, args):
        self.mode = MODES[args.mode]
        self.turns = args.turns or self.mode["turns"]
        self.folder = folder_at(args.dir)
        self.build = pathlib.Path(args.build).resolve()
        self.commands = {"c": [self.build / "bench" / "sft_bench"],
                         "wheel": [sys.executable, pathlib.Path(__file__).with_name("wheel.py")]}
        self.c, self.wheel = (Server(self.commands[k]) for k in ("c", "wheel"))
        self.rows = []

    def fresh(self, kind):
        """A server of its own, for peaks of memory."""
        return Server(self.commands[kind])

    def measure(self, workload, case, contenders, targets=(), turns=None, unit="ns", note=""):
        """contenders: {name: callable giving one value}. targets: (text, numerator, denominator,
        least), least None where the ratio is only told."""
        names = list(contenders)
        values = {n: [] for n in names}
        for turn in range((turns or self.turns) + 1):
            first = turn % len(names)
            for name in names[first:] + names[:first]:
                value = contenders[name]()
                if turn > 0:  # the first turn warms up
                    values[name].append(value)
        row = {"workload": workload, "case": case, "unit": unit, "note": note,
               "contenders": {n: summary(v) for n, v in values.items()}, "targets": []}
        for text, over, under, least in targets:
            if over in values and under in values:
                got = statistics.median(a / b for a, b in zip(values[over], values[under]))
                row["targets"].append({"text": text, "ratio": got, "wanted": least,
                                       "of_minima": min(values[over]) / min(values[under]),
                                       "met": least is None or got >= least})
        self.add(row)
        return values

    def fact(self, workload, case, value, unit, target=None, most=None, note=""):
        """One number that is not a time of turns: a size, a peak. Target: at most `most`."""
        row = {"workload": workload, "case": case, "unit": unit, "note": note,
               "contenders": {"ours": summary([value])}, "targets": []}
        if most is not None:
            row["targets"].append({"text": target, "ratio": value, "wanted": most, "met": value <= most})
        self.add(row)

    def add(self, row):
        self.rows.append(row)
        print(report.line(row), flush=True)


def summary(values):
    ordered = sorted(values)
    return {"median": statistics.median(values), "min": ordered[0],
            "p95": ordered[min(len(ordered) - 1, int(0.95 * len(ordered)))], "values": values}


def machine(folder):
    try:
        cpu = next(line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name"))
    except (OSError, StopIteration):
        cpu = platform.processor()
    kind = subprocess.run(["findmnt", "-no", "FSTYPE", "-T", folder], capture_output=True, text=True, check=False)
    import numpy
    import safetensors
    return {"cpu": cpu, "cores": os.cpu_count(), "memory": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
            "kernel": platform.release(), "file_system": kind.stdout.strip(), "python": platform.python_version(),
            "safetensors": safetensors.__version__, "numpy": numpy.__version__}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--build", default="build")
    parser.add_argument("--dir", default="build/bench", help="where the files and results.json go")
    parser.add_argument("--mode", choices=MODES, default="default")
    parser.add_argument("--turns", type=int, default=0)
    parser.add_argument("--only", default="", help="workloads, comma-separated: W1,W9")
    parser.add_argument("--keep", action="store_true", help="keep the files for the next run")
    args = parser.parse_args()
    start = time.monotonic()
    bench = Bench(args)
    free = int(next(x.split()[1] for x in open("/proc/meminfo") if x.startswith("MemAvailable"))) >> 10
    bench.c("prewarm", bench.mode["prewarm"] or min(free // 2, 12 << 10))
    load = os.getloadavg()[0]
    wanted = set(filter(None, args.only.split(",")))
    for name, workload in workloads.ALL:
        if not wanted or name in wanted:
            workload(bench)
    bench.c.close()
    bench.wheel.close()
    facts = machine(bench.folder)
    facts.update(mode=args.mode, turns=bench.turns, seconds=round(time.monotonic() - start), load_before=load,
                 load_after=os.getloadavg()[0])
    result = {"schema": 1, "machine": facts, "rows": bench.rows}
    (bench.folder / "results.json").write_text(json.dumps(result, indent=1))
    text = report.table(result)
    (bench.folder / "results.md").write_text(text)
    print("\n" + text)
    print(f"\n{bench.folder / 'results.json'}: every value; {facts['seconds']} s")
    if not args.keep:
        for path in bench.folder.glob("*.safetensors*"):
            path.unlink()
    return 0


if __name__ == "__main__":
    sys.exit(main())
