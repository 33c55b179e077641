# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The benchmarks: what the library needs, what the machine needs for the same bytes, what the peers need.

Contenders take turns, so that whatever the machine does in between hits all of them. Every number is a
median of at least 11 turns (fewer where the row says so); a ratio is the median of the ratios within a turn.
Prints a table, writes results.json with every single value, results.md and plots (SVG). Modes: quick (small
files, few turns, for development), default (`make bench`), full (4 GiB, a file larger than memory, 15 turns).
--budget lowers the turns of what is still to come when time runs short, and the rows say so.
--before BUILD compares with the build of another commit instead of the peers and the machine: each contender of
ours takes turns with the same one of that build, and the end names what became slower.
"""

import argparse
import contextlib
import json
import os
import pathlib
import platform
import shutil
import statistics
import subprocess
import sys
import time

import chart
import plots
import report
import workloads
from files import folder_at
from server import Failed, Server

MODES = {
    # turns, MiB of a save, rows of the matrix (16 KiB each), MiB touched before anything is timed (0: half of
    # what is free), MiB of a load, MiB of the streamed file, MiB of a shard, tensors of the large dict
    "quick": {
        "turns": 3,
        "save_mib": 128,
        "rows": 8192,
        "prewarm": 2048,
        "load_mib": 128,
        "stream_mib": 512,
        "shard_mib": 32,
        "many": 18_867,
        "matrix_mib": 128,
        "budget": 600,
    },
    "default": {
        "turns": 11,
        "save_mib": 1024,
        "rows": 65536,
        "prewarm": 0,
        "load_mib": 1024,
        "stream_mib": 4096,
        "shard_mib": 128,
        "many": 18_867,
        "matrix_mib": 1024,
        "budget": 1440,
    },
    "full": {
        "turns": 15,
        "save_mib": 4096,
        "rows": 65536,
        "prewarm": 0,
        "load_mib": 4096,
        "stream_mib": 0,
        "shard_mib": 512,
        "many": 18_867,
        "matrix_mib": 4096,
        "budget": 4 * 3600,
    },
}
LEAST_TURNS = 3


class Budget:
    """Seconds shared out among the workloads by their weight, which is about what each takes in the default
    mode; what one does not use goes to those behind it."""

    def __init__(self, seconds, weights):
        self.end = time.monotonic() + seconds
        self.weights = dict(weights)
        self.until = self.end

    def begin(self, name):
        left, weights = self.end - time.monotonic(), sum(self.weights.values())
        share = self.weights.pop(name) / weights if weights else 1
        self.until = time.monotonic() + max(0.0, left * share)
        self.rows = workloads.ROWS.get(name, 1)

    def share(self):
        """Seconds for the next row: an equal share of what its workload has left."""
        left = max(0.0, self.until - time.monotonic()) / max(1, self.rows)
        self.rows -= 1
        return left


def turns_within(wanted, seconds, seconds_each):
    """How many turns of that length fit: LEAST_TURNS at least, `wanted` at most."""
    return max(min(wanted, LEAST_TURNS), min(wanted, int(seconds / max(seconds_each, 1e-9))))


class Bench:
    """What the workloads use: the contenders, the turns, the rows."""

    def __init__(self, args):
        self.mode_name = args.mode
        self.mode = dict(MODES[args.mode])
        self.turns = args.turns or self.mode["turns"]
        self.folder = folder_at(args.dir)
        self.build = pathlib.Path(args.build).resolve()
        here = pathlib.Path(__file__).resolve().parent
        peers = pathlib.Path(args.peers or self.build).resolve()

        def python(name):
            return peers / name / "bin" / "python"

        self.pythons = {
            "peers": python("bench-venv"),
            "rc": python("bench-venv-rc"),
            "ours": python("bench-venv-ours"),
            "tests": pathlib.Path(sys.executable),
        }
        self.commands = {
            "wheel": [sys.executable, here / "wheel.py"],
            "ref": [self.pythons["peers"], here / "peers.py", "safetensors"],
            "rc": [self.pythons["rc"], here / "peers.py", "safetensors"],
            **ours(self.build, self.pythons["ours"], here),
        }
        for kit in ("torch", "numpy", "fastsafetensors", "runai", "gguf", "tensorizer", "instanttensor"):
            self.commands[kit] = [self.pythons["peers"], here / "peers.py", kit]
        self.servers, self.peers, self.rows, self.problems = {}, {}, [], []
        self.before = None
        if args.before:
            build = pathlib.Path(args.before).resolve()
            theirs = build / "bench-venv-ours" / "bin" / "python"
            instead = {
                str(self.build / "safetensors"): build / "safetensors",
                str(self.pythons["ours"]): theirs,
            }
            self.before = {"commands": ours(build, theirs, here), "servers": {}, "instead": instead}
        self.instead = {}
        self.c, self.wheel = self.server("c"), self.server("wheel")
        weights = {
            name: weight for name, _, weight in workloads.ALL if not args.only or name in args.only.split(",")
        }
        self.budget = Budget(args.budget or self.mode["budget"], weights)

    # -------------------------------------------------------------- contenders

    def server(self, kind):
        """The one server of that kind, started when it is first asked."""
        if kind not in self.servers:
            self.servers[kind] = self.fresh(kind)
        return self.servers[kind]

    def fresh(self, kind):
        """A server of its own, for peaks of memory."""
        command = self.commands[kind]
        return Server(
            command, greets=len(command) > 1 and str(command[1]).endswith("peers.py"), instead=self.instead
        )

    @contextlib.contextmanager
    def as_before(self):
        """Within it, the servers of the other build answer in the place of ours."""
        kept = self.commands, self.servers, self.c, self.instead
        self.commands, self.servers = self.before["commands"], self.before["servers"]
        self.instead = self.before["instead"]
        self.c = self.server("c")
        try:
            yield
        finally:
            self.commands, self.servers, self.c, self.instead = kept

    def with_before(self, contenders):
        """Each contender of ours, and the same one of the other build; what is wanted of them."""

        def earlier(call):
            def run():
                with self.as_before():
                    return call()

            return run

        names = [n for n in contenders if n.startswith("ours")]
        both = {}
        for name in names:
            both[name], both[f"before: {name}"] = contenders[name], earlier(contenders[name])
        return both, [(f"{n}: as fast as before", f"before: {n}", n, None) for n in names]

    def once(self, *words):
        """One command of the C program in a process of its own."""
        server = self.fresh("c")
        try:
            return server(*words)
        finally:
            server.close()

    def peer(self, kind, *words):
        """One command of a Python package, in a process forked for it."""
        try:
            server = self.server(kind)
            if server.process is None:
                server.start()
                self.peers[kind] = server.version
            return server(*words)
        except Failed as error:
            self.peers.setdefault(kind, f"absent: {error}")
            raise

    def has(self, kind):
        """Whether that package is there."""
        try:
            server = self.server(kind)
            if server.process is None:
                server.start()
                self.peers[kind] = server.version
            return True
        except Failed as error:
            self.peers.setdefault(kind, f"absent: {error}")
            return False

    def rest(self):
        """Ends all servers: their memory is wanted for the next workload. They start again when asked."""
        for server in [*self.servers.values(), *(self.before["servers"].values() if self.before else ())]:
            server.close()

    def drop(self, *paths):
        """Out of the page cache, proven by mincore."""
        left = self.c("drop", *paths) / 1e6
        if left > 0.001:
            raise Failed(f"{left:.1%} of {paths[0]} stayed in the page cache")

    # -------------------------------------------------------------- rows

    def measure(self, workload, case, contenders, wanted=(), turns=None, unit="ns", note="", group=""):
        """contenders: {name: callable giving nanoseconds or a dict with "ns"}. wanted: (text, numerator,
        denominator, least[, id of the target in targets.py]), least None where the ratio is only told.
        numerator may be a tuple of names: the fastest of them. group: the class for the plots."""
        if self.before:
            contenders, wanted = self.with_before(contenders)
            if not contenders:
                return {}
        taken = {n: [] for n in contenders}
        failed, turn, least = {}, 0, turns or self.turns
        planned, until = least, time.monotonic() + self.budget.share()
        while turn <= least:
            names = [n for n in contenders if n not in failed]
            if not names:
                break
            began, first = time.monotonic(), turn % len(names)
            for name in names[first:] + names[:first]:
                try:
                    value = contenders[name]()
                except Failed as error:
                    failed[name] = str(error)
                    continue
                if turn > 0:  # the first turn warms up
                    taken[name].append(value)
            if turn < 2:  # the very first is slower than the others (it verifies): look again after the next
                now = time.monotonic()
                least = turn + turns_within(planned - turn, until - now, now - began)
            turn += 1
        self.add(row_of(workload, case, unit, note, group, taken, failed, wanted, planned))
        return {n: [ns_of(v) for v in values] for n, values in taken.items() if n not in failed}

    def fact(self, workload, case, value, unit, target=None, most=None, note="", id=None):
        """One number that is not a time of turns: a size, a peak. Target: at most `most`."""
        row = {
            "workload": workload,
            "case": case,
            "unit": unit,
            "note": note,
            "group": "",
            "contenders": {"ours": summary([value])},
            "targets": [],
        }
        if most is not None:
            row["targets"].append(
                {"text": target, "ratio": value, "wanted": most, "met": value <= most, "id": id, "most": True}
            )
        self.add(row)

    def add(self, row):
        self.rows.append(row)
        print(report.line(row), flush=True)


def ours(build, python, here):
    """The commands whose speed is ours, of one build."""
    return {
        "c": [build / "bench" / "sft_bench"],
        "ours-warm": [python, here / "wheel.py", "safetensors_c"],
        "ours": [python, here / "peers.py", "safetensors_c"],
    }


def ns_of(value):
    return value["ns"] if isinstance(value, dict) else value


def summary(values):
    """values: numbers, or dicts of counters whose medians are kept beside the times."""
    times = [ns_of(v) for v in values]
    ordered = sorted(times)
    out = {
        "median": statistics.median(times),
        "min": ordered[0],
        "p95": ordered[min(len(ordered) - 1, int(0.95 * len(ordered)))],
        "values": times,
    }
    if isinstance(values[0], dict):
        out["counters"] = {k: [v[k] for v in values] for k in values[0] if k != "ns"}
        out["typical"] = {k: statistics.median(v) for k, v in out["counters"].items()}
    return out


def row_of(workload, case, unit, note, group, taken, failed, wanted, planned):
    values = {n: v for n, v in taken.items() if v and n not in failed}
    row = {
        "workload": workload,
        "case": case,
        "unit": unit,
        "note": note,
        "group": group,
        "failed": failed,
        "contenders": {n: summary(v) for n, v in values.items()},
        "targets": [],
    }
    turns = max((len(v) for v in values.values()), default=0)
    row["turns"] = turns
    if turns < planned:
        row["lowered_from"] = planned
    for text, over, under, least, *rest in wanted:
        target = {"text": text, "wanted": least, "id": rest[0] if rest else None}
        over = [n for n in ((over,) if isinstance(over, str) else over) if n in values]
        if over and under in values:
            best = [
                min(ns_of(values[n][i]) for n in over)
                for i in range(turns)
                if all(i < len(values[n]) for n in over)
            ]
            below = [ns_of(v) for v in values[under]]
            ratios = [a / b for a, b in zip(best, below)]
            ordered = sorted(ratios)
            got = statistics.median(ratios)
            target.update(
                ratio=got,
                low=ordered[len(ordered) // 10],
                high=ordered[-1 - len(ordered) // 10],
                of_minima=min(best) / min(below),
                met=least is None or got >= least,
            )
        elif least is None:
            continue
        else:
            target.update(ratio=None, met=False)
        row["targets"].append(target)
    return row


def sizes_of_memory():
    return {line.split(":")[0]: int(line.split()[1]) << 10 for line in open("/proc/meminfo") if ":" in line}


def machine(folder):
    try:
        cpu = next(
            line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")
        )
    except (OSError, StopIteration):
        cpu = platform.processor()
    kind = subprocess.run(
        ["findmnt", "-no", "FSTYPE", "-T", folder], capture_output=True, text=True, check=False
    )
    try:
        huge = (
            pathlib.Path("/sys/kernel/mm/transparent_hugepage/enabled")
            .read_text()
            .split("[")[1]
            .split("]")[0]
        )
    except (OSError, IndexError):
        huge = "unknown"
    import numpy
    import safetensors

    return {
        "cpu": cpu,
        "cores": os.cpu_count(),
        "memory": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "kernel": platform.release(),
        "file_system": kind.stdout.strip(),
        "huge_pages": huge,
        "python": platform.python_version(),
        "safetensors": safetensors.__version__,
        "numpy": numpy.__version__,
        "compiler": platform.python_compiler(),
        "disk_free": shutil.disk_usage(folder).free,
    }


def seconds_of(text):
    """'25m', '90s', '2h' or seconds."""
    scale = {"s": 1, "m": 60, "h": 3600}.get(text[-1:])
    return int(float(text[:-1]) * scale) if scale else int(text)


def options(argv):
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--build", default="build")
    parser.add_argument(
        "--peers", default="", help="where bench/peers.sh put its environments (the build folder)"
    )
    parser.add_argument(
        "--before", default="", help="the build folder of another commit, to compare with it alone"
    )
    parser.add_argument("--dir", default="build/bench", help="where the files and results.json go")
    parser.add_argument("--mode", choices=MODES, default="default")
    parser.add_argument("--turns", type=int, default=0)
    parser.add_argument(
        "--budget", type=seconds_of, default=0, help="25m, 90s, 2h: fewer turns when it runs short"
    )
    parser.add_argument("--only", default="", help="workloads, comma-separated: W1,W9")
    parser.add_argument("--keep", action="store_true", help="keep the files for the next run")
    parser.add_argument(
        "--list", action="store_true", help="name the workloads, with the seconds each may take"
    )
    return parser.parse_args(argv)


def clean(folder):
    """What the workloads made; results and plots stay."""
    for pattern in ("*.safetensors*", "*.pt", "*.gguf", "*.tensors", "*.part", "*.tmp*"):
        for path in folder.glob(pattern):
            path.unlink(missing_ok=True)
    for path in folder.glob("shards-*"):
        shutil.rmtree(path, ignore_errors=True)


def run_all(bench, only):
    for name, workload, _ in workloads.ALL:
        if only and name not in only:
            continue
        bench.budget.begin(name)
        began = time.monotonic()
        try:
            workload(bench)
        except Exception as error:  # one workload's trouble is not another's
            bench.problems.append({"workload": name, "error": f"{type(error).__name__}: {error}"})
            print(f"{name:<5}FAILED: {type(error).__name__}: {error}", flush=True)
        bench.rest()
        left = bench.budget.end - time.monotonic()
        print(f"      {name}: {time.monotonic() - began:.0f} s; {left:.0f} s of the budget left", flush=True)


def main(argv):
    args = options(argv)
    only = set(filter(None, args.only.split(",")))
    if args.list:
        for name, workload, weight in workloads.ALL:
            print(
                f"{name:<7}{weight:>4} s  {(workload.__doc__ or '').splitlines()[0] if workload.__doc__ else ''}"
            )
        return 0
    unknown = only - {name for name, _, _ in workloads.ALL}
    if unknown:
        raise SystemExit(f"run.py: no such workload: {', '.join(sorted(unknown))}; --list names them")
    start = time.monotonic()
    bench = Bench(args)
    seconds = args.budget or bench.mode["budget"]
    estimate = sum(weight for name, _, weight in workloads.ALL if not only or name in only)
    print(
        f"bench: mode {args.mode}, {bench.turns} turns; at most about {min(seconds, estimate) / 60:.0f} minutes"
        if args.mode == "default"
        else f"bench: mode {args.mode}, {bench.turns} turns, within {seconds / 60:.1f} minutes",
        flush=True,
    )
    try:
        free = sizes_of_memory()["MemAvailable"] >> 20
        bench.c("prewarm", bench.mode["prewarm"] or min(free // 2, 12 << 10))
        load = os.getloadavg()[0]
        run_all(bench, only)
        bench.rest()
        facts = machine(bench.folder)
        facts.update(
            mode=args.mode,
            turns=bench.turns,
            seconds=round(time.monotonic() - start),
            budget=seconds,
            load_before=load,
            load_after=os.getloadavg()[0],
            peers=bench.peers,
        )
    finally:
        if not args.keep:
            clean(bench.folder)
    result = {"schema": 2, "machine": facts, "problems": bench.problems, "rows": bench.rows}
    (bench.folder / "results.json").write_text(json.dumps(result, indent=1))
    text = report.before(result) if args.before else report.page(result)
    (bench.folder / "results.md").write_text(text)
    made = [] if args.before else plots.write_all(result, bench.folder / "plots")
    if not args.before:
        chart.write(result, bench.folder / "chart.svg")
    print("\n" + text)
    print(f"\n{bench.folder / 'results.json'}: every value; {len(made)} plots; {facts['seconds']} s")
    return 1 if bench.problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
