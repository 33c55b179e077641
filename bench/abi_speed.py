#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""abi_speed.py FULL LIMITED [--python PYTHON] [--framework numpy] [--rounds 15] [--out FILE] - what does the stable ABI cost?

FULL and LIMITED are folders that pip filled from the same sources with the same compiler, the first with the whole API:
    SFT_FULL_API=1 pip install --no-deps --target FULL ./python; pip install --no-deps --target LIMITED ./python
Each round starts a process for either, in turns and in either order, which does the operations that spend most in the
interpreter: many small tensors, names, slices, tiny files. Times are of the processor, the best of seven. Printed: the best
of all rounds, which other work on the machine touches least, the ratio limited / full (above 1 the stable ABI is slower), and the
quartiles of the rounds' ratios. PYTHON needs numpy, and torch without `--framework numpy`.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

CHILD = """
import json, os, sys, time
sys.path.insert(0, sys.argv[1])
folder = sys.argv[2]
started = time.process_time()
import safetensors_c
imported = time.process_time() - started
import numpy as np
import safetensors_c.numpy as sn
with_torch = sys.argv[3] == "torch"
if with_torch:
    import torch
    import safetensors_c.torch as st
assert os.path.dirname(os.path.dirname(safetensors_c.__file__)) == sys.argv[1]
many, tiny = os.path.join(folder, "many.safetensors"), os.path.join(folder, "tiny.safetensors")
if not os.path.exists(many):
    sn.save_file({f"layers.{i}.weight": np.full((4, 8), i, np.float32) for i in range(5000)}, many)
    sn.save_file({"a": np.zeros(4, np.float32)}, tiny)
arrays = sn.load_file(many)
few = dict(list(arrays.items())[:500])
data = open(tiny, "rb").read()
h = safetensors_c.safe_open(many, "np"); h.__enter__()
if with_torch: t = safetensors_c.safe_open(many, "pt"); t.__enter__()
names = list(h.keys())
def opened():
    with safetensors_c.safe_open(tiny, "np"): pass
def slices():
    for n in names: h.get_slice(n)[1:3, ::2]
operations = {
    "keys of 5,000 tensors": lambda: list(h.keys()),
    "open a tiny file": lambda: [opened() for _ in range(200)],
    "get_tensor, numpy, 5,000": lambda: [h.get_tensor(n) for n in names],
    "get_tensor, torch, 5,000": lambda: [t.get_tensor(n) for n in names],
    "get_slice, numpy, 5,000": slices,
    "load_file, numpy, 5,000": lambda: sn.load_file(many),
    "load_file, torch, 5,000": lambda: st.load_file(many),
    "load bytes, tiny": lambda: [sn.load(data) for _ in range(500)],
    "save to bytes, 500": lambda: sn.save(few),
    "metadata of 5,000": lambda: [h.get_tensor_meta(n) for n in names],
}
out = {"import": imported}
for name, run in operations.items():
    if "torch" in name and not with_torch: continue
    run()
    best = []
    for _ in range(7):
        start = time.process_time(); run(); best.append(time.process_time() - start)
    out[name] = min(best)
print(json.dumps(out))
"""


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("full")
    arguments.add_argument("limited")
    arguments.add_argument("--python", default=sys.executable)
    arguments.add_argument(
        "--framework", choices=("torch", "numpy"), default="torch", help="numpy: without torch"
    )
    arguments.add_argument("--rounds", type=int, default=15)
    arguments.add_argument("--out")
    options = arguments.parse_args()
    folders = {"full": os.path.realpath(options.full), "limited": os.path.realpath(options.limited)}
    times: dict[str, dict[str, list[float]]] = {}
    with tempfile.TemporaryDirectory() as work:
        for turn in range(-1, options.rounds):
            for which in sorted(folders, reverse=turn % 2 == 1):
                command = [options.python, "-c", CHILD, folders[which], work, options.framework]
                told = subprocess.run(command, check=True, capture_output=True, text=True).stdout
                for name, seconds in json.loads(told).items() if turn >= 0 else ():
                    times.setdefault(name, {}).setdefault(which, []).append(seconds)
    rows = []
    print(
        "| operation | whole API | stable ABI | ratio | quartiles of the rounds' ratios |\n|---|---|---|---|---|"
    )
    for name, two in times.items():
        ratios = [limited / full for full, limited in zip(two["full"], two["limited"], strict=True)]
        low, middle, high = statistics.quantiles(ratios, n=4)
        full, limited = min(two["full"]), min(two["limited"])
        row = {"operation": name, "full": full, "limited": limited, "ratio": limited / full}
        rows.append(row | {"quartiles": [low, middle, high]})
        best = f"{full * 1e6:,.0f} us | {limited * 1e6:,.0f} us | {limited / full:.3f}"
        print(f"| {name} | {best} | {low:.2f} {middle:.2f} {high:.2f} |")
    ratio = statistics.geometric_mean(row["ratio"] for row in rows)
    print(f"\ngeometric mean of the ratios: {ratio:.3f}")
    if options.out:
        with open(options.out, "w", encoding="utf-8") as f:
            json.dump(rows, f, indent=1)


if __name__ == "__main__":
    main()
