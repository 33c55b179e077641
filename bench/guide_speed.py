#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""guide_speed.py - the guide of MindSpore Transformers on a Qwen2 of 1 GiB: merge, cut, reshard, by MindSpore and by the tool.

    build/python-mindspore-env/bin/python bench/guide_speed.py --tool build/safetensors [--mib 1024] [--rounds 3] [--folder DIR] [-o out.json]

  merge      ranks of dp 2, tp 2 into complete weights: unified_safetensors (2 and 64 processes); join --unified
  cut        complete weights into ranks of tp 4: load_distributed_checkpoint without a network (1 and 2 processes); reshard
  reshard    ranks of dp 2, tp 2 into ranks of tp 4: transform_checkpoints (1 and 2 processes); reshard

Two shapes: few large tensors (hidden size 2048) and many small ones (hidden size 256). MindSpore's cut takes time quadratically by
their number: many small ones are cut of a model of a fourth of the size. Rounds and figures are those of checkpoint_peers.py: files in the
page cache, nobody waits for the disk, each contender in a process of its own, in turn; of several ways that MindSpore offers the
fastest counts. Before that the tensors of both are compared, byte for byte. Exit 1 if they differ or a target is missed.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

from checkpoint_peers import report, timed, touch, write_file
from checkpoint_speed import touch_memory

HERE = os.path.abspath(__file__)
# hidden size, of the feed-forward, vocabulary; times faster that are wanted
SHAPES = {"large": (2048, 5632, 32000, 3.0), "small": (256, 768, 4096, 10.0)}
HEADS, KV = 16, 4


def make_model(folder: str, shape: str, mib: int) -> int:
    """A Qwen2 of MindFormers' names, F16, of about so many MiB; bytes of its tensors."""
    hidden, ffn, vocab, _ = SHAPES[shape]
    kv = hidden * KV // HEADS
    layer = {
        "attention.wq.weight": [hidden, hidden],
        "attention.wk.weight": [kv, hidden],
        "attention.wv.weight": [kv, hidden],
        "attention.wo.weight": [hidden, hidden],
        "feed_forward.w1.weight": [ffn, hidden],
        "feed_forward.w2.weight": [hidden, ffn],
        "feed_forward.w3.weight": [ffn, hidden],
    }
    ends = {"model.tok_embeddings.embedding_weight": [vocab, hidden], "lm_head.weight": [vocab, hidden]}

    def size(tensors: dict[str, list[int]]) -> int:
        return sum(2 * r * c for r, c in tensors.values())

    layers = max(1, ((mib << 20) - size(ends)) // size(layer))
    tensors = {f"model.layers.{i}.{n}": s for i in range(layers) for n, s in layer.items()} | ends
    os.makedirs(folder)
    write_file(
        os.path.join(folder, "model.safetensors"), "F16", tensors, {"format": "ms"}, os.urandom(1 << 22)
    )
    told = {"model_type": "qwen2", "num_attention_heads": HEADS, "num_key_value_heads": KV,
            "num_hidden_layers": layers, "tie_word_embeddings": False}  # fmt: skip
    with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as f:
        json.dump(told, f)
    return size(tensors)


def prepare(tool: str, base: str, mib: int, shape: str) -> int:
    """The model; its strategies; what the job left, and complete weights."""
    size = make_model(os.path.join(base, "model"), shape, mib)
    for name, numbers in (("source", ["--dp", "2", "--tp", "2"]), ("target", ["--tp", "4"])):
        subprocess.run(
            [tool, "layout", "make", "model", *numbers, "--to", "strategy", "-o", f"{name}.ckpt"],
            cwd=base,
            check=True,
        )
    subprocess.run([tool, "reshard", "model", "--target-layout", "source.ckpt", "-o", "ranks", "-q",
                    "--name", "rank_{rank}/net_rank_{rank}-1_1.safetensors"], cwd=base, check=True)  # fmt: skip
    os.remove(os.path.join(base, "ranks", "layout.json"))
    for meta in (os.path.join(base, "ranks", f"rank_{r}", "meta.json") for r in range(4)):
        if os.path.exists(meta):
            os.remove(meta)
    subprocess.run(
        [tool, "join", "ranks", "--layout", "source.ckpt", "--unified", "-o", "whole", "-q"],
        cwd=base,
        check=True,
    )
    return size


def contiguous() -> None:
    """transform_checkpoints of 2.10 writes tensors that are cut along columns as they lie in memory: for comparing only."""
    import numpy as np
    from mindspore.parallel import transform_safetensors

    save = transform_safetensors.save_file
    transform_safetensors.save_file = lambda tensors, *more, **how: save(
        {n: np.ascontiguousarray(t) for n, t in tensors.items()}, *more, **how
    )


def theirs(kind: str, processes: int) -> None:
    """One call of MindSpore's, in the directory of the files, into `out`; 0 processes: one, for comparing."""
    import mindspore as ms

    if processes == 0:
        contiguous()
        processes = 1
    calls = {
        "merge": lambda: ms.unified_safetensors(
            "ranks", "source.ckpt", "out", merge_with_redundancy=True, max_process_num=processes
        ),
        "cut": lambda: ms.load_distributed_checkpoint(
            None, predict_strategy="target.ckpt", format="safetensors", unified_safetensors_dir="whole",
            dst_safetensors_dir="out", max_process_num=processes),
        "reshard": lambda: ms.transform_checkpoints(
            "ranks", "out", "net", "source.ckpt", "target.ckpt", process_num=processes, output_format="safetensors"),
    }  # fmt: skip
    timed(calls[kind], children=True)


def ours(arguments: list[str]) -> None:
    began = time.perf_counter()
    p = subprocess.Popen(arguments)
    _, status, usage = os.wait4(p.pid, 0)
    if status != 0:
        raise SystemExit(f"{arguments}: status {status}")
    print(json.dumps({"seconds": time.perf_counter() - began, "peak": usage.ru_maxrss << 10}))


OURS = {
    "merge": ["join", "ranks", "--layout", "source.ckpt", "--unified", "-o", "out/u"],
    "cut": ["reshard", "whole", "--target-layout", "target.ckpt", "-o", "out/r"],
    "reshard": [
        "reshard",
        "ranks",
        "--source-layout",
        "source.ckpt",
        "--target-layout",
        "target.ckpt",
        "-o",
        "out/r",
    ],
}
WAYS = {"merge": (2, 64), "cut": (1, 2), "reshard": (1, 2)}


def run(base: str, *worker: str) -> dict[str, float]:
    """A contender, in a process of its own: what starts it counts for its peak."""
    p = subprocess.run([sys.executable, HERE, "--worker", *worker], cwd=base, capture_output=True, text=True,
                       env={**os.environ, "GLOG_v": "3"})  # fmt: skip
    lines = [line for line in p.stdout.splitlines() if line.startswith('{"seconds"')]
    if p.returncode != 0 or not lines:
        raise SystemExit(f"{worker}: exit {p.returncode}\n{p.stdout[-2000:]}{p.stderr[-4000:]}")
    return json.loads(lines[-1])  # type: ignore[no-any-return]


def tensors_of(folder: str) -> dict[tuple[str, str], bytes]:
    """Digests of all tensors, by the rank's directory and name, as the reference reads them."""
    import hashlib

    from safetensors import safe_open

    out = {}
    for at, _, names in os.walk(folder):
        rank = os.path.basename(at) if os.path.basename(at).startswith("rank_") else ""
        for name in names:
            if name.endswith(".safetensors"):
                with safe_open(os.path.join(at, name), "np") as f:
                    for key in f.keys():  # noqa: SIM118
                        out[rank, key] = hashlib.blake2b(f.get_tensor(key).tobytes(), digest_size=16).digest()
    return out


def fresh(folder: str) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)


def row(args: argparse.Namespace, base: str, kind: str, shape: str, size: int) -> dict:
    out = os.path.join(base, "out")
    results: dict[str, list[dict[str, float]]] = {}
    tool = ["tool", args.tool, *OURS[kind], "--no-sync", "-q"]
    contenders = {**{f"{n} processes": [kind, str(n)] for n in WAYS[kind]}, "safetensors": tool}
    touch(base)
    made = []
    for worker in (tool, [kind, "0"]):
        fresh(out)
        run(base, *worker)
        made.append(tensors_of(out))
    for i in range(args.rounds):
        labels = list(contenders)
        for label in labels[i % len(labels) :] + labels[: i % len(labels)]:
            fresh(out)
            touch_memory(size + size // 8)
            results.setdefault(label, []).append(run(base, *contenders[label]))
    shutil.rmtree(out, ignore_errors=True)
    differ = made[0] != made[1]
    seconds = {k: min(r["seconds"] for r in v) for k, v in results.items()}
    peaks = {k: max(r["peak"] for r in v) for k, v in results.items()}
    best = min((k for k in seconds if k != "safetensors"), key=seconds.__getitem__)
    ratio, target = seconds[best] / seconds["safetensors"], SHAPES[shape][3]
    print("%-8s %-6s %7.3f s, %5d MiB   %-13s %8.3f s, %5d MiB   ratio %7.2f (target %.0f)%s"
          % (kind, shape, seconds["safetensors"], int(peaks["safetensors"]) >> 20, best, seconds[best],
             int(peaks[best]) >> 20, ratio, target, "   DIFFERS" if differ else ""), flush=True)  # fmt: skip
    return {"name": kind, "shape": shape, "bytes": size, "tensors": len(made[0]), "seconds": seconds, "peak_bytes": peaks,
            "best_peer": best, "rounds": results, "ratio": ratio, "target": target, "differ": differ}  # fmt: skip


def rows_of(args: argparse.Namespace, shape: str, mib: int, kinds: list[str]) -> list[dict]:
    base = tempfile.mkdtemp(prefix="guide-", dir=args.folder)
    try:
        size = prepare(args.tool, base, mib, shape)
        return [row(args, base, kind, shape, size) for kind in kinds]
    finally:
        shutil.rmtree(base, ignore_errors=True)


def main() -> int:
    if len(sys.argv) > 2 and sys.argv[1] == "--worker":
        if sys.argv[2] == "tool":
            ours(sys.argv[3:])
        else:
            theirs(sys.argv[2], int(sys.argv[3]))
        return 0
    parser = argparse.ArgumentParser(description="merge, cut and reshard, beside MindSpore")
    parser.add_argument("--tool", required=True)
    parser.add_argument("--mib", type=int, default=1024)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", help="where the files go (default: a temporary folder)")
    parser.add_argument("--shapes", default="large,small")
    parser.add_argument("-o", "--output")
    args = parser.parse_args()
    args.tool = os.path.abspath(args.tool)
    rows = []
    for shape in args.shapes.split(","):
        rows += rows_of(args, shape, args.mib, ["merge", "reshard"] if shape == "small" else list(OURS))
        if shape == "small":
            rows += rows_of(args, shape, args.mib // 4, ["cut"])
    return report(args, rows)


if __name__ == "__main__":
    sys.exit(main())
