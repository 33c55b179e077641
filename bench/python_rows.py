#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""python_rows.py --python PYTHON [--rows 200 | --narrow] [--only OPERATION,...] [--times 5] [--again 30] [--seed 1] [--out FILE] [--folder DIR]

What programs do with `safetensors`, timed on it and on the drop-in: random rows of operation, framework, type, shape,
count, slice, backend, disk or memory, first or later. Every timing is taken in a process of its own, ours and the
reference's in turns, so that neither gets the warmer machine. PYTHON has both: safetensors and, as SAFETENSORS_C=1
gives it, ours (build/python-env/bin/python).

A row's ratio is the reference's median time over ours: below 1 ours is slower. Its spread is the larger of the two
interquartile ranges over the median. A row whose ratio plus spread is below 0.95 is timed again, --again times; if it
still is, it counts as lost and the exit status is 1. --narrow: not random rows but the first columns of tensors of 32 MiB with
rows of 256 B to 16 KiB, once with a new handle each time and once through one that stays open (held). --only: random rows of these operations.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

TYPES = {"F32": 4, "F16": 2, "BF16": 2, "I64": 8, "U8": 1, "BOOL": 1, "F8_E4M3": 1, "C64": 8}
OPERATIONS = (
    "save",
    "save_file",
    "load",
    "load_file",
    "load_file pread",
    "open",
    "get_tensor",
    "rows",
    "columns",
    "iterate",
)
LOST = 0.95


def row(rng: random.Random, memory: bool, operations: tuple = OPERATIONS) -> dict:
    """One random row."""
    total = int(2 ** rng.uniform(10, 26))
    count = min(int(2 ** rng.uniform(0, 10)), max(total // 64, 1))
    operation = rng.choice(operations)
    framework = rng.choice(("torch", "numpy"))
    types = [t for t in TYPES if framework == "torch" or t not in ("BF16", "F8_E4M3")]
    dtype = rng.choice(types)
    each = max(total // count // TYPES[dtype], 1)
    width = min(int(2 ** rng.uniform(0, 12)), each)
    return {
        "operation": operation,
        "framework": framework,
        "dtype": dtype,
        "shape": [max(each // width, 1), width],
        "count": count,
        "first": rng.random() < 0.5,
        "memory": memory and rng.random() < 0.5,
        "part": rng.choice((1, 8, 64, 1000)),
        "backend": rng.choice(("mmap", "mmap", "pread")),
    }


def narrow() -> list[dict]:
    """Columns of each width, from the file's pages in memory."""
    common = {"dtype": "U8", "count": 1, "first": False, "memory": False, "backend": "mmap"}
    return [
        {
            **common,
            "operation": operation,
            "framework": framework,
            "shape": [(32 << 20) // width, width],
            "part": part,
        }
        for operation in ("columns", "columns held")
        for framework in ("numpy", "torch")
        for width, parts in (
            (16384, (16, 64, 512, 1024)),
            (4096, (16, 512)),
            (1024, (4, 16, 64)),
            (256, (16,)),
        )
        for part in parts
        if framework == "numpy" or width == 16384
    ]


def label(r: dict) -> str:
    size = r["count"] * r["shape"][0] * r["shape"][1] * TYPES[r["dtype"]]
    text = f"{r['operation']} {r['framework']} {r['count']} x {r['dtype']} {r['shape']} ({size / 1048576:.2f} MiB)"
    text += f" {'memory' if r['memory'] else 'disk'} {'first' if r['first'] else 'later'}"
    if r["operation"] in ("rows", "columns", "get_tensor", "iterate", "open"):
        text += f" {r['backend']}"
    return text + (f" {r['part']} of each" if r["operation"] in ("rows", "columns", "columns held") else "")


# ---------------------------------------------------------------- in the process that is timed


def make(r: dict):
    """(tensors, module) of the row's framework."""
    import numpy as np

    names = [f"layers.{i}.weight" for i in range(r["count"])]
    kinds = {
        "F32": "f4",
        "F16": "f2",
        "BF16": "u2",
        "I64": "i8",
        "U8": "u1",
        "BOOL": "?",
        "F8_E4M3": "u1",
        "C64": "c8",
    }
    arrays = {n: np.ones(r["shape"], kinds[r["dtype"]]) for n in names}
    if r["framework"] == "numpy":
        import safetensors.numpy as module

        return arrays, module
    import safetensors.torch as module
    import torch

    tensors = {n: torch.from_numpy(a) for n, a in arrays.items()}
    other = {"BF16": torch.bfloat16, "F8_E4M3": torch.float8_e4m3fn}.get(r["dtype"])
    return ({n: t.view(other) for n, t in tensors.items()} if other is not None else tensors), module


def touch(tensors) -> int:
    """Reads what was given, a byte of each page: memory that is mapped has cost nothing yet."""
    import numpy as np

    total = 0
    for t in tensors:
        if type(t).__module__ == "torch":
            import torch

            t = t.contiguous().reshape(-1).view(torch.uint8)[::4096].numpy()
        total += int(np.ascontiguousarray(t).reshape(-1).view("u1")[::4096].sum() if t.size else 0)
    return total


def operation(r: dict, path: str, folder: str):
    """What is timed, as a function of the number of the time."""
    import safetensors

    tensors, module = make(r)
    framework = "pt" if r["framework"] == "torch" else "np"
    kind = r["operation"]
    if kind == "save":
        return lambda i: module.save(tensors)
    if kind == "save_file":
        return lambda i: module.save_file(tensors, f"{folder}/out{i}.safetensors")
    if kind == "load":
        with open(path, "rb") as f:
            data = f.read()
        return lambda i: touch(module.load(data).values())
    if kind.startswith("load_file"):
        backend = "pread" if kind.endswith("pread") else "mmap"
        return lambda i: touch(module.load_file(path, backend=backend).values())

    if kind == "columns held":
        held = safetensors.safe_open(path, framework, backend=r["backend"])
        return lambda i: touch(held.get_slice(n)[:, : r["part"]] for n in held.keys())

    def opened(i):
        with safetensors.safe_open(path, framework, backend=r["backend"]) as f:
            if kind == "open":
                return f.keys()
            if kind == "get_tensor":
                return touch(f.get_tensor(n) for n in f.keys())
            if kind == "iterate":
                return touch(
                    f.get_slice(n)[k] for n in list(f.keys())[:8] for k in range(min(r["shape"][0], 64))
                )
            part = min(r["part"], r["shape"][0 if kind == "rows" else 1])
            index = slice(0, part) if kind == "rows" else (slice(None), slice(0, part))
            return touch(f.get_slice(n)[index] for n in f.keys())

    return opened


def timed(r: dict, path: str, folder: str) -> float:
    call = operation(r, path, folder)
    if r["first"]:
        begin = time.perf_counter()
        call(0)
        return time.perf_counter() - begin
    times = []
    for i in range(8):
        begin = time.perf_counter()
        call(i)
        times.append(time.perf_counter() - begin)
        if r["operation"] == "save_file":
            os.unlink(f"{folder}/out{i}.safetensors")
    return statistics.median(times[2:])


# ---------------------------------------------------------------- in the one that starts them


def measure(python: str, r: dict, path: str, folder: str, times: int) -> tuple[list, list]:
    """(ours, the reference's) seconds."""
    out: tuple[list, list] = ([], [])
    for i in range(2 * times):
        side = i % 2 if i // 2 % 2 == 0 else 1 - i % 2
        environment = {k: v for k, v in os.environ.items() if k != "SAFETENSORS_C"}
        environment.update({"SAFETENSORS_C": "1"} if side == 0 else {})
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            done = subprocess.run(
                [python, os.path.abspath(__file__), "--timed", json.dumps(r), path, scratch],
                env=environment,
                capture_output=True,
                text=True,
            )
        if done.returncode != 0:
            raise SystemExit(f"{label(r)}: {done.stderr[-2000:]}")
        out[side].append(float(done.stdout))
    return out


def summary(ours: list, theirs: list) -> dict:
    def spread(values):
        q = statistics.quantiles(values, n=4) if len(values) > 2 else [min(values), 0, max(values)]
        return (q[2] - q[0]) / statistics.median(values)

    ratio = statistics.median(theirs) / statistics.median(ours)
    return {
        "ours": statistics.median(ours),
        "reference": statistics.median(theirs),
        "ratio": ratio,
        "spread": max(spread(ours), spread(theirs)) * ratio,
        "times": len(ours),
    }


def run(given: argparse.Namespace, places: dict) -> list[dict]:
    rng = random.Random(given.seed)
    out = []
    fixed = narrow() if given.narrow else None
    operations = tuple(o for o in OPERATIONS if not given.only or o in given.only.split(","))
    for number in range(len(fixed) if fixed else given.rows):
        r = fixed[number] if fixed else row(rng, places[True] is not None, operations)
        folder = places[r["memory"]]
        path = f"{folder}/row.safetensors"
        subprocess.run([given.python, os.path.abspath(__file__), "--made", json.dumps(r), path], check=True)
        result = summary(*measure(given.python, r, path, folder, given.times))
        if result["ratio"] + result["spread"] < LOST:
            result = summary(*measure(given.python, r, path, folder, given.again))
        out.append({"row": r, "label": label(r), **result})
        lost = " LOST" if result["ratio"] + result["spread"] < LOST else ""
        print(
            f"{number + 1:4} {result['ratio']:8.2f} +-{result['spread']:.2f} {result['ours'] * 1e3:10.3f} ms"
            f" {result['reference'] * 1e3:10.3f} ms  {label(r)}{lost}",
            flush=True,
        )
    return out


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--rows", type=int, default=200)
    parser.add_argument("--narrow", action="store_true")
    parser.add_argument("--only", default="")
    parser.add_argument("--times", type=int, default=5)
    parser.add_argument("--again", type=int, default=30)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", default=".")
    parser.add_argument("--out")
    parser.add_argument("--timed", nargs=3)
    parser.add_argument("--made", nargs=2)
    given = parser.parse_args()
    if given.timed:
        print(timed(json.loads(given.timed[0]), *given.timed[1:]))
        return 0
    if given.made:
        tensors, module = make(json.loads(given.made[0]))
        module.save_file(tensors, given.made[1])
        return 0
    disk = tempfile.mkdtemp(dir=given.folder)
    memory = tempfile.mkdtemp(dir="/dev/shm") if os.access("/dev/shm", os.W_OK) else None
    try:
        rows = run(given, {False: disk, True: memory})
    finally:
        shutil.rmtree(disk)
        shutil.rmtree(memory or disk, ignore_errors=True)
    lost = [r for r in rows if r["ratio"] + r["spread"] < LOST]
    below = [r for r in rows if r["ratio"] < LOST]
    ratios = sorted(r["ratio"] for r in rows)
    print(
        f"{len(rows)} rows: {len(lost)} lost, {len(below)} below {LOST} within their spread, median ratio"
        f" {statistics.median(ratios):.2f}, least {ratios[0]:.2f}"
    )
    if given.out:
        with open(given.out, "w", encoding="utf-8") as f:
            json.dump({"seed": given.seed, "rows": rows}, f, indent=1)
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())
