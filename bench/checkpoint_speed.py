#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""checkpoint_speed.py - split, join and reshard against plain copies of the same bytes. (checkpoint_peers.py: against
PyTorch and MindSpore.)

    bench/checkpoint_speed.py --tool build/safetensors [--gib 1] [--rounds 9] [--folder DIR] [--mpi-tool
    build/safetensors-mpi] [-o out.json]

Each round runs every contender once, in an order that turns from round to round, on files that are in the page cache,
into files that do not exist, without waiting for the disk; removing them is not timed. Before each of them as much memory
as it needs is touched: in a virtual machine the first touch of memory that the host has taken back costs ten times what
the copy costs, and would hit by chance. It still does now and then, five times over and whoever it may be; so the fastest
of the rounds counts, of every contender (the JSON has all of them).
Baselines: cp, copy_file_range, and preallocation with two threads of pread and pwrite. Ratios are speed over the fastest
baseline (join, split, rows), or over cp (columns): targets 0.85, 0.85, 0.85, 1.0. Peak memory is the tool's, or that of
this script (24 MiB), whichever is larger. Prints a table, and JSON with -o. Exit 1 if a target is missed. --before TOOL: the tool of another commit takes its turn,
too, and how many times as long it takes is told (by the medians of turns, and by the minima).
"""

from __future__ import annotations

import argparse
import json
import mmap
import os
import platform
import resource
import shutil
import statistics
import struct
import subprocess
import sys
import tempfile
import threading
import time

BLOCK = 1 << 20
MPI_TARGET = 1.0  # seconds of two threads over those of two ranks
TARGETS = {"join": 0.85, "split": 0.85, "rows": 0.85, "columns": 1.0, "columns 8 to 8": 1.0}


def write_model(path: str, layers: int, rows: int, columns: int) -> int:
    """A model of `layers` BF16 matrices, cut by rows or columns according to their names."""
    header = {"__metadata__": {"format": "pt"}}
    at = 0
    size = rows * columns * 2
    for i in range(layers):
        header[f"layers.{i}.w"] = {"dtype": "BF16", "shape": [rows, columns], "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    block = os.urandom(1 << 22)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        left = at
        while left > 0:
            f.write(block[: min(left, len(block))])
            left -= min(left, len(block))
    return at


def files_of(folder: str) -> list[str]:
    return sorted(os.path.join(b, n) for b, _, names in os.walk(folder) for n in names)


def copy_with_cp(source: list[str], out: str) -> None:
    for i, path in enumerate(source):
        subprocess.run(["cp", "--reflink=never", path, os.path.join(out, str(i))], check=True)


def copy_in_kernel(source: list[str], out: str) -> None:
    for i, path in enumerate(source):
        with open(path, "rb") as a, open(os.path.join(out, str(i)), "wb") as b:
            left = os.fstat(a.fileno()).st_size
            while left > 0:
                n = os.copy_file_range(a.fileno(), b.fileno(), left)
                if n == 0:
                    raise OSError("copy_file_range stopped")
                left -= n


def copy_with_threads(source: list[str], out: str) -> None:
    todo: list[tuple[int, int, int, int]] = []
    handles = []
    for i, path in enumerate(source):
        a = os.open(path, os.O_RDONLY)
        b = os.open(os.path.join(out, str(i)), os.O_WRONLY | os.O_CREAT, 0o644)
        handles += [a, b]
        size = os.fstat(a).st_size
        os.posix_fallocate(b, 0, max(size, 1))
        todo += [(a, b, at, min(BLOCK, size - at)) for at in range(0, size, BLOCK)]
    lock = threading.Lock()
    todo.reverse()

    def work() -> None:
        buffer = bytearray(BLOCK)
        view = memoryview(buffer)
        while True:
            with lock:
                if not todo:
                    return
                a, b, at, n = todo.pop()
            os.preadv(a, [view[:n]], at)
            os.pwrite(b, view[:n], at)

    threads = [threading.Thread(target=work) for _ in range(2)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for h in handles:
        os.close(h)


BASELINES = {"cp": copy_with_cp, "copy_file_range": copy_in_kernel, "two threads": copy_with_threads}


def run_tool(tool: str, arguments: list[str]) -> tuple[float, int]:
    """Seconds, and peak memory in bytes."""
    began = time.perf_counter()
    p = subprocess.Popen([tool, *arguments], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(p.pid, 0)
    p.returncode = os.waitstatus_to_exitcode(status)
    if p.returncode != 0:
        raise SystemExit(f"{arguments}: exit {p.returncode}")
    return time.perf_counter() - began, usage.ru_maxrss * 1024


def touch_memory(size: int) -> None:
    """Has the host of a virtual machine back as much memory, which is free again afterwards. In a process of its own:
    what a child is started with counts for its peak."""
    child = os.fork()
    if child == 0:
        m = mmap.mmap(-1, size)
        block = bytes(1 << 20)
        for at in range(0, size - len(block), len(block)):
            m[at : at + len(block)] = block
        os._exit(0)
    os.waitpid(child, 0)


def clear(path: str) -> None:
    if os.path.isdir(path):
        shutil.rmtree(path)
    elif os.path.exists(path):
        os.unlink(path)


def measure(
    args: argparse.Namespace, folder: str, name: str, source: str, command: list[str], out: str
) -> dict:
    inputs = files_of(source) if os.path.isdir(source) else [source]
    inputs = [p for p in inputs if p.endswith(".safetensors")]
    size = sum(os.path.getsize(p) for p in inputs)
    tools = {"safetensors": args.tool, **({"before": args.before} if args.before else {})}
    times: dict[str, list[float]] = {k: [] for k in [*BASELINES, *tools]}
    peak = 0
    scratch = os.path.join(folder, "copies")
    for path in inputs:  # into the page cache
        with open(path, "rb") as f:
            while f.read(BLOCK * 8):
                pass
    for i in range(args.rounds):
        kinds = list(times)
        for kind in kinds[i % len(kinds) :] + kinds[: i % len(kinds)]:
            clear(scratch)
            clear(out)
            os.mkdir(scratch)
            touch_memory(size + size // 8)
            if kind in tools:
                seconds, memory = run_tool(tools[kind], [*command, "-o", out, "--no-sync", "-q"])
                peak = max(peak, memory if kind == "safetensors" else 0)
            else:
                began = time.perf_counter()
                BASELINES[kind](inputs, scratch)
                seconds = time.perf_counter() - began
            times[kind].append(seconds)
    clear(scratch)
    clear(out)
    speed = {k: size / min(v) / 1e9 for k, v in times.items()}
    best = max(v for k, v in speed.items() if k not in tools)
    against = speed["cp"] if name.startswith("columns") else best
    row = {
        "name": name,
        "bytes": size,
        "gb_per_s": speed,
        "times": times,
        "peak_bytes": peak,
        "ratio": speed["safetensors"] / against,
        "target": TARGETS[name],
    }
    print(
        "%-16s %6.2f GB/s   cp %5.2f   copy_file_range %5.2f   two threads %5.2f   ratio %4.2f (target %.2f)   "
        "peak %4d MiB"
        % (
            name,
            speed["safetensors"],
            speed["cp"],
            speed["copy_file_range"],
            speed["two threads"],
            row["ratio"],
            row["target"],
            peak >> 20,
        ),
        flush=True,
    )
    if args.before:
        ratios = sorted(b / n for n, b in zip(times["safetensors"], times["before"]))
        print(
            f"{'':16} before / now {statistics.median(ratios):.3f} ({ratios[0]:.3f} .. {ratios[-1]:.3f}), of minima"
            f" {speed['safetensors'] / speed['before']:.3f}"
        )
    return row


def measure_mpi(
    args: argparse.Namespace, folder: str, name: str, source: str, command: list[str], out: str
) -> dict:
    """Two ranks of one thread against one process of two, in turn. Starting MPI, which takes as long for a job of an
    hour, is told apart: it is what `safetensors-mpi --version` takes."""
    environment = {
        **os.environ,
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "OMPI_MCA_rmaps_base_oversubscribe": "1",
    }
    mpirun = ["mpirun", "-n", "2", args.mpi_tool]
    contenders = {
        "threads": [args.tool, *command, "-o", out, "--no-sync", "-q", "--jobs", "2"],
        "ranks": [*mpirun, *command, "-o", out, "--no-sync", "-q", "--jobs", "1"],
        "start": [*mpirun, "--version"],
    }
    size = sum(os.path.getsize(p) for p in files_of(source) if p.endswith(".safetensors"))
    times: dict[str, list[float]] = {k: [] for k in contenders}
    for i in range(args.rounds):
        kinds = list(contenders)
        for kind in kinds[i % 3 :] + kinds[: i % 3]:
            clear(out)
            touch_memory(size + size // 8)
            began = time.perf_counter()
            subprocess.run(contenders[kind], env=environment, stdout=subprocess.DEVNULL, check=True)
            times[kind].append(time.perf_counter() - began)
    clear(out)
    best = {k: min(v) for k, v in times.items()}
    work = best["ranks"] - best["start"]
    row = {
        "name": f"{name}, mpirun -n 2",
        "bytes": size,
        "times": times,
        "seconds": best["ranks"],
        "start_seconds": best["start"],
        "safetensors_seconds": best["threads"],
        "ratio": best["threads"] / work,
        "target": MPI_TARGET,
    }
    print(
        "%-16s %6.2f GB/s without the start of MPI (%.2f s), two threads %5.2f   ratio %4.2f (target %.2f)"
        % (
            f"{name}, 2 ranks",
            size / work / 1e9,
            best["start"],
            size / best["threads"] / 1e9,
            row["ratio"],
            MPI_TARGET,
        ),
        flush=True,
    )
    return row


def main() -> int:
    parser = argparse.ArgumentParser(description="copies of checkpoints against plain copies")
    parser.add_argument("--tool", required=True)
    parser.add_argument("--gib", type=float, default=1.0)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--folder", help="where the files go (default: a temporary folder)")
    parser.add_argument("-o", "--output")
    parser.add_argument("--before", help="the tool of another commit, which takes its turn, too")
    parser.add_argument("--mpi-tool", help="safetensors-mpi: two ranks against two threads, too")
    args = parser.parse_args()
    args.tool = os.path.abspath(args.tool)
    args.before = os.path.abspath(args.before) if args.before else None
    args.mpi_tool = os.path.abspath(args.mpi_tool) if args.mpi_tool else None
    folder = tempfile.mkdtemp(prefix="checkpoint-speed-", dir=args.folder)
    rows = []
    try:
        model = os.path.join(folder, "model.safetensors")
        write_model(model, max(2, int(args.gib * (1 << 30) / (4096 * 8192 * 2))), 4096, 8192)
        plans = {}
        for kind in ("rows", "columns"):
            plans[kind] = os.path.join(folder, kind + ".json")
            with open(plans[kind], "w") as f:
                json.dump({"layers.*": "colwise" if kind == "rows" else "rowwise"}, f)

        def ranks(kind: str, n: int) -> str:
            out = os.path.join(folder, f"{kind}{n}")
            run_tool(
                args.tool,
                [
                    "reshard",
                    model,
                    "--target-layout",
                    plans[kind],
                    "--ranks",
                    str(n),
                    "-o",
                    out,
                    "--no-sync",
                    "-q",
                ],
            )
            return out

        shards = os.path.join(folder, "shards")
        run_tool(args.tool, ["split", model, "-o", shards, "--max-shard-size", "256MB", "--no-sync", "-q"])
        out = os.path.join(folder, "out")
        rows.append(measure(args, folder, "join", shards, ["join", shards], out + ".safetensors"))
        rows.append(measure(args, folder, "split", model, ["split", model, "--max-shard-size", "256MB"], out))
        clear(shards)
        source = ranks("rows", 4)
        rows.append(
            measure(
                args,
                folder,
                "rows",
                source,
                ["reshard", source, "--target-layout", plans["rows"], "--ranks", "3"],
                out,
            )
        )
        if args.mpi_tool:
            rows.append(
                measure_mpi(
                    args,
                    folder,
                    "rows",
                    source,
                    ["reshard", source, "--target-layout", plans["rows"], "--ranks", "3"],
                    out,
                )
            )
        clear(source)
        source = ranks("columns", 4)
        rows.append(
            measure(
                args,
                folder,
                "columns",
                source,
                ["reshard", source, "--target-layout", plans["columns"], "--ranks", "3"],
                out,
            )
        )
        if args.mpi_tool:
            rows.append(
                measure_mpi(
                    args,
                    folder,
                    "columns",
                    source,
                    ["reshard", source, "--target-layout", plans["columns"], "--ranks", "3"],
                    out,
                )
            )
        clear(source)
        source = ranks("columns", 8)
        clear(model)
        rows.append(
            measure(
                args,
                folder,
                "columns 8 to 8",
                source,
                ["reshard", source, "--target-layout", plans["rows"], "--ranks", "8"],
                out,
            )
        )
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    missed = [r["name"] for r in rows if r["ratio"] < r["target"]]
    if args.output:
        with open(args.output, "w") as f:
            json.dump(
                {
                    "schema": 2,
                    "machine": platform.machine(),
                    "cpus": os.cpu_count(),
                    "system": platform.release(),
                    "rounds": args.rounds,
                    "rows": rows,
                    "self_peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
                },
                f,
                indent=1,
            )
            f.write("\n")
    print("targets missed: " + ", ".join(missed) if missed else "all targets met")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
