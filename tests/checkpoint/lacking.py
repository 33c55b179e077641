#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""lacking.py --tool TOOL [--count N] [--seed S] - parts of sets whose ranks are not all there: slice --partial.

Random models are cut by numpy among random ranks and saved by the reference package, some ranks are removed, and every rank of another
random layout asks for its part. It gets exactly the tensors whose part the other ranks hold, and the rest is named and counted. Needs
numpy and safetensors (tests/requirements.txt). `cases` is for tests of Python's load_part, too.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile

import numpy as np
from safetensors.numpy import load_file, save_file

SIDE = 8


def layout_of(axes, ranks, replicas=1):
    """axes: {name: 0, 1 or None, the dimension that is cut}"""
    cuts = {0: ["tp", None], 1: [None, "tp"]}
    return {
        "format": "safetensors-layout",
        "version": 1,
        "mesh": {"axes": {"dp": replicas, "tp": ranks}},
        "tensors": [
            {"name": n, "whole": True} if axis is None else {"name": n, "cuts": cuts[axis]}
            for n, axis in axes.items()
        ],
    }


def share(value, axis, rank, ranks):
    return value if axis is None else np.ascontiguousarray(np.split(value, ranks, axis)[rank])


def cases(base, rng, count):
    """(directory, its layout, layout of the parts, rank, {name: part}, names of parts that are not whole)"""
    for i in range(count):
        place = os.path.join(base, f"{i}")
        tp, dp = rng.choice([2, 4]), rng.choice([1, 2])
        model = {f"t{k}.weight": np.array([[rng.randrange(1000) for _ in range(SIDE)] for _ in range(SIDE)], np.int32)
                 for k in range(rng.randint(1, 5))}  # fmt: skip
        axes = {n: rng.choice([None, 0, 1]) for n in model}
        present = set(rng.sample(range(tp * dp), rng.randint(1, tp * dp - 1)))
        for rank in present:
            os.makedirs(os.path.join(place, f"rank_{rank}"))
            part = {n: share(v, axes[n], rank % tp, tp) for n, v in model.items()}
            save_file(part, os.path.join(place, f"rank_{rank}", "model.safetensors"))
        ranks = rng.choice([2, 4])
        others = {n: rng.choice([None, 0, 1]) for n in model}
        for rank in range(ranks):
            part, lost = {}, set()
            for n, v in model.items():
                there = np.zeros(v.shape, bool)
                for r in present:
                    share_of = np.zeros(tp, bool)
                    share_of[r % tp] = True
                    wide = np.repeat(share_of, SIDE // tp)
                    there |= True if axes[n] is None else wide[:, None] if axes[n] == 0 else wide[None, :]
                if share(there, others[n], rank, ranks).all():
                    part[n] = share(v, others[n], rank, ranks)
                else:
                    lost.add(n)
            yield place, layout_of(axes, tp, dp), layout_of(others, ranks), rank, part, lost


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tool", required=True)
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--seed", type=int, default=None)
    args = parser.parse_args()
    tool = os.path.abspath(args.tool)
    seed = args.seed if args.seed is not None else random.randrange(1 << 30)
    print("seed", seed)
    whole = parts = nothing = 0
    with tempfile.TemporaryDirectory() as base:
        layouts = [os.path.join(base, n) for n in ("source.json", "target.json")]
        out = os.path.join(base, "out.safetensors")
        for place, source, target, rank, part, lost in cases(base, random.Random(seed), args.count):
            for path, layout in zip(layouts, (source, target)):
                with open(path, "w", encoding="utf-8") as f:
                    json.dump(layout, f)
            command = [tool, "slice", place, "--source-layout", layouts[0], "--layout", layouts[1], "-k", str(rank),
                       "-o", out, "-f", "--no-sync", "--json"]  # fmt: skip
            r = subprocess.run([*command, "--partial"], capture_output=True, text=True)
            told = (place, rank, sorted(lost), r.stderr)
            assert all(f'"{n}" is left out' in r.stderr for n in lost), told
            if not part:
                assert r.returncode == 1 and "nothing is written" in r.stderr, told
                nothing += 1
                continue
            assert r.returncode == 0 and json.loads(r.stdout)["tensors_left_out"] == len(lost), told
            got = load_file(out)
            assert set(got) == set(part) and all(np.array_equal(got[n], part[n]) for n in part), told
            whole, parts = whole + (not lost), parts + bool(lost)
            name = next(iter(part))
            if lost:
                r = subprocess.run(
                    [*command, "--partial", "--cast", f"{name}=I64"], capture_output=True, text=True
                )
                assert r.returncode in (0, 1), r.stderr  # of tensors that are whole in the model
                if r.returncode == 0 and name in load_file(out):
                    assert np.array_equal(load_file(out)[name], part[name].astype(np.int64)), told
                r = subprocess.run(command, capture_output=True, text=True)
                assert r.returncode == 1 and "no file holds" in r.stderr, told
    assert whole and parts and (nothing or args.count < 20), (whole, parts, nothing)
    print(whole, "whole parts,", parts, "parts with a loss,", nothing, "of nothing")


if __name__ == "__main__":
    sys.exit(main())
