#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""diff_peers.py --peer PYTHON [--tool TOOL] [--layers N] [--hidden N] - diff --report beside modeldelta.

Two models of BF16 as a fine-tune leaves them: attention and MLP of each layer moved a little, norms and embeddings are the
same. Both programs write their page and their JSON of them, turn by turn. Prints seconds, seconds of the processor, peak
memory and the size of the page of each (the best of --turns), and how far the measures that both have are apart: relative
norm of the change, and cosine.

PYTHON: an interpreter with torch, safetensors and modeldelta (PyPI, `pip install modeldelta==0.4.4`).
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time

MODELS = """
import sys, torch
from safetensors.torch import save_file
folder, layers, hidden = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
torch.manual_seed(1)
base = {"model.embed_tokens.weight": torch.randn(4 * hidden, hidden) / 50}
for l in range(layers):
    at = f"model.layers.{l}."
    for name in ("q", "k", "v", "o"):
        base[f"{at}self_attn.{name}_proj.weight"] = torch.randn(hidden, hidden) / hidden**0.5
    base[f"{at}mlp.up_proj.weight"] = torch.randn(2 * hidden, hidden) / hidden**0.5
    base[f"{at}mlp.down_proj.weight"] = torch.randn(hidden, 2 * hidden) / hidden**0.5
    base[f"{at}input_layernorm.weight"] = torch.ones(hidden)
moved = {n: w + w.abs().mean() * torch.randn_like(w) / 20 if "_proj" in n else w for n, w in base.items()}
for name, model in (("base", base), ("tuned", moved)):
    save_file({n: w.bfloat16().contiguous() for n, w in model.items()}, f"{folder}/{name}/model.safetensors", {"format": "pt"})
"""


def measured(command: list[str]) -> tuple[float, float, float]:
    """Seconds, those of the processor, and MiB at most."""
    begin = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    said = process.stderr.read()
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != (0 if "modeldelta" in command else 1):  # the tool's 1: they differ
        sys.exit(f"{command[0]} failed: {said.decode(errors='replace')}")
    return time.perf_counter() - begin, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


def apart(ours: str, theirs: str) -> str:
    tensors = {t["name"]: t["measures"] for t in json.loads(ours)["tensors"] if "measures" in t}
    norms, cosines, both = 0.0, 0.0, 0
    for one in json.loads(theirs)["modules"]:
        mine = tensors.get(one["name"])
        if mine is not None:
            both += 1
            norms = max(norms, abs(one["frob_norm_relative"] - mine["relative"]) / mine["relative"])
            cosines = max(cosines, abs(one["cosine_sim"] - mine["cosine"]))
    if both == 0:
        sys.exit("the two have no tensor in common")
    return f"{both} tensors: relative norms differ by {norms:.1e} of themselves at most, cosines by {cosines:.1e}"


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--tool", default="build/safetensors")
    options.add_argument("--peer", required=True)
    options.add_argument("--layers", type=int, default=4)
    options.add_argument("--hidden", type=int, default=1024)
    options.add_argument("--turns", type=int, default=3)
    o = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        base, tuned = f"{folder}/base", f"{folder}/tuned"
        os.mkdir(base)
        os.mkdir(tuned)
        subprocess.run([o.peer, "-c", MODELS, folder, str(o.layers), str(o.hidden)], check=True)
        size = os.path.getsize(f"{base}/model.safetensors")
        page = {"safetensors diff": f"{folder}/ours.html", "modeldelta": f"{folder}/theirs.html"}
        runs = {
            "safetensors diff": [
                o.tool,
                "diff",
                base,
                tuned,
                "--force",
                "--report",
                page["safetensors diff"],
            ],
            "modeldelta": [o.peer, "-m", "modeldelta", base, tuned, "-o", page["modeldelta"]],
        }
        best = {name: [float("inf")] * 3 for name in runs}
        for _ in range(o.turns):
            for name, command in runs.items():
                best[name] = [min(a, b) for a, b in zip(best[name], measured(command))]
        print(f"two models of {size} bytes, load {os.getloadavg()[0]:.1f}")
        for name, (seconds, processor, memory) in best.items():
            written = os.path.getsize(page[name])
            print(
                f"{name}: {seconds:.2f} s, processor {processor:.2f} s, {memory:.0f} MiB, page {written} bytes"
            )
        ours = subprocess.run(
            [o.tool, "diff", base, tuned, "--stat", "--json"], stdout=subprocess.PIPE, check=False
        ).stdout
        subprocess.run(
            [o.peer, "-m", "modeldelta", base, tuned, "-o", f"{folder}/theirs.json"],
            check=True,
            capture_output=True,
        )
        with open(f"{folder}/theirs.json", encoding="utf-8") as file:
            print(apart(ours.decode(), file.read()))


if __name__ == "__main__":
    main()
