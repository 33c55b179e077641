#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Loads to a GPU, beside what bounds them and beside the peers, in one run.

cuda_bench.py SFT_BENCH_CUDA MODEL [--device N] [--reps N] [--threads N] [--json FILE] [--driver LIB] [--cufile LIB]

MODEL is a .safetensors file or a folder of them. Measured, interleaved, one process per run, median and
spread over the repetitions, cold (page cache dropped by posix_fadvise, and proven so) and warm:

  sft auto, read, direct, gds   libsafetensors-cuda; seconds from sft_cuda_load to all bytes on the device
  load_file                     safetensors.torch.load_file(device="cuda")        (needs torch with CUDA)
  prefetch                      safe_open(...).prefetch() of safetensors 0.9rc    (needs that version)
  storage                       the files by pread alone, as many threads         (the first bound)
  pcie                          one pinned block to the device, best of eight     (the second bound)

"ratio" is bytes per second over the lower of the two bounds in the same state; the target is 0.9. A peer that
cannot run is named with its reason. Where there is no GPU one line says so and the status is 0.
Run it on a quiet machine, with a model of at least 10 GB for figures that mean something.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import mmap
import os
import pathlib
import statistics
import subprocess
import sys

PEER = """
import json, sys, time
paths, device, way = sys.argv[3:], "cuda:" + sys.argv[2], sys.argv[1]
import torch, safetensors
from safetensors import safe_open
from safetensors.torch import load_file
torch.cuda.init()
torch.empty(1, device=device)
torch.cuda.synchronize(device)
begun = time.perf_counter()
kept = []
for path in paths:
    if way == "load_file":
        kept.append(load_file(path, device=device))
    else:
        with safe_open(path, framework="pt", device=device) as f, f.prefetch() as loader:
            kept.append({name: tensor for name, tensor in loader})
torch.cuda.synchronize(device)
seconds = time.perf_counter() - begun
size = sum(t.numel() * t.element_size() for part in kept for t in part.values())
print(json.dumps({"seconds": seconds, "bytes": size, "version": safetensors.__version__}))
"""


def files_of(model: pathlib.Path) -> list[pathlib.Path]:
    return sorted(model.glob("*.safetensors")) if model.is_dir() else [model]


def drop(paths: list[pathlib.Path]) -> None:
    for path in paths:
        fd = os.open(path, os.O_RDONLY)
        os.fsync(fd)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(fd)


def warm(paths: list[pathlib.Path]) -> None:
    buffer = bytearray(16 << 20)
    for path in paths:
        with open(path, "rb", buffering=0) as f:
            while f.readinto(buffer):
                pass


def cached(paths: list[pathlib.Path]) -> float:
    """The share of the files' pages that is in the page cache, by mincore."""
    libc = ctypes.CDLL(None, use_errno=True)
    present = pages = 0
    for path in paths:
        size = path.stat().st_size
        if size == 0:
            continue
        with (
            open(path, "rb") as f,
            mmap.mmap(f.fileno(), size, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_WRITE) as m,
        ):
            count = (size + mmap.PAGESIZE - 1) // mmap.PAGESIZE
            seen = (ctypes.c_ubyte * count)()
            anchor = ctypes.c_char.from_buffer(m)
            address = ctypes.c_void_p(ctypes.addressof(anchor))
            if libc.mincore(address, ctypes.c_size_t(size), seen) == 0:
                present += sum(byte & 1 for byte in seen)
            pages += count
            del anchor
    return present / pages if pages else 0.0


def run(command: list[str]) -> dict:
    """The last line of what a command prints, as JSON; {"error": ...} if there is none."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = done.stdout.strip().splitlines()
    try:
        return json.loads(lines[-1])
    except (IndexError, ValueError):
        text = (done.stderr or done.stdout).strip().splitlines()
        return {"error": text[-1] if text else f"status {done.returncode}"}


def ways_of(args: argparse.Namespace, paths: list[pathlib.Path]) -> dict[str, list[str]]:
    common = [f"device={args.device}", f"threads={args.threads}"]
    common += [f"driver={args.driver}"] if args.driver else []
    common += [f"cufile={args.cufile}"] if args.cufile else []
    bench = [str(args.bench)]
    names = [str(path) for path in paths]
    return {
        "storage": bench + ["storage", str(args.model), "direct=0"] + common,
        "storage direct": bench + ["storage", str(args.model), "direct=1"] + common,
        "pcie": bench + ["pcie", str(args.model)] + common,
        "sft auto": bench + ["load", str(args.model), "strategy=0"] + common,
        "sft read": bench + ["load", str(args.model), "strategy=2"] + common,
        "sft direct": bench + ["load", str(args.model), "strategy=3"] + common,
        "sft gds": bench + ["load", str(args.model), "strategy=0", "gds=1"] + common,
        "load_file": [sys.executable, "-c", PEER, "load_file", str(args.device)] + names,
        "prefetch": [sys.executable, "-c", PEER, "prefetch", str(args.device)] + names,
    }


def rate(row: dict) -> float | None:
    if "bytes_per_second" in row:
        return row["bytes_per_second"]
    if row.get("bytes") and row.get("seconds"):
        return row["bytes"] / row["seconds"]
    return None


def measure(args: argparse.Namespace, paths: list[pathlib.Path]) -> dict:
    ways = ways_of(args, paths)
    runs: dict = {state: {way: [] for way in ways} for state in ("cold", "warm")}
    dead: dict[str, str] = {}
    for _ in range(args.reps):
        for state in ("cold", "warm"):
            for way, command in ways.items():
                if way in dead:
                    continue
                if state == "cold":
                    drop(paths)
                else:
                    warm(paths)
                share = cached(paths)
                row = run(command)
                if rate(row) is None:
                    dead[way] = row.get("error") or row.get("reason") or "no figure"
                    continue
                row["cached_before"] = round(share, 4)
                runs[state][way].append(row)
    return {"runs": runs, "could_not_run": dead}


def summary(runs: dict) -> list[dict]:
    rows = []
    for state, by_way in runs.items():
        rates = {way: [rate(row) for row in rows_] for way, rows_ in by_way.items() if rows_}
        medians = {way: statistics.median(values) for way, values in rates.items()}
        storage = max((medians[w] for w in ("storage", "storage direct") if w in medians), default=None)
        bounds = [value for value in (storage, medians.get("pcie")) if value]
        for way, values in rates.items():
            rows.append(
                {
                    "state": state,
                    "way": way,
                    "gb_per_second": round(medians[way] / 1e9, 3),
                    "least": round(min(values) / 1e9, 3),
                    "most": round(max(values) / 1e9, 3),
                    "ratio": round(medians[way] / min(bounds), 3) if bounds else None,
                    "runs": len(values),
                    "cached_before": max(row["cached_before"] for row in by_way[way]),
                }
            )
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("bench", type=pathlib.Path)
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("--device", type=int, default=0)
    parser.add_argument("--reps", type=int, default=11)
    parser.add_argument("--threads", type=int, default=min(16, os.cpu_count() or 1))
    parser.add_argument("--driver", help="library of the CUDA driver (the tests' stand-in, for a dry run)")
    parser.add_argument("--cufile", help="library of cuFile")
    parser.add_argument("--json", type=pathlib.Path)
    args = parser.parse_args()
    paths = files_of(args.model)
    if not paths:
        parser.error(f"{args.model} holds no .safetensors file")
    command = [str(args.bench), "load", str(args.model), f"device={args.device}", "check=1"]
    command += [f"driver={args.driver}"] if args.driver else []
    first = run(command)
    if first.get("gpu") is None and "error" not in first:
        print(f"no GPU: {first.get('reason')}; nothing was measured")
        return 0
    if "error" in first or first.get("differing") != 0:
        print(f"the first load failed: {first}", file=sys.stderr)
        return 1
    result = {"model": [str(path) for path in paths], "threads": args.threads, "first": first}
    result.update(measure(args, paths))
    result["summary"] = summary(result["runs"])
    text = json.dumps(result, indent=1)
    if args.json:
        args.json.write_text(text + "\n", encoding="utf-8")
    print(f"{'state':5}  {'way':15} {'GB/s':>8} {'least':>8} {'most':>8} {'ratio':>6}")
    for row in result["summary"]:
        print("{state:5}  {way:15} {gb_per_second:8.2f} {least:8.2f} {most:8.2f} {ratio!s:>6}".format(**row))
    for way, reason in result["could_not_run"].items():
        print(f"       {way:15} could not run: {reason}")
    if not args.json:
        print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
