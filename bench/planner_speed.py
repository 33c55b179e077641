#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""planner_speed.py - how long plans take, and what memory, over headers without data.

    bench/planner_speed.py --tool build/safetensors [--folder DIR] [--only WORD] [-o out.json]

Makes folders of ranks whose files are holes behind real headers, and has the tool plan with --plan: it opens every file,
reads every header, proves that the target is covered, and says what each file would cost. Cases:

    join 1,000      1,000 ranks x 1,000 tensors, all cut by rows, into one file
    reshard 1,000   the same to 500 ranks, and to 7 (which divides nothing)
    dedupe 1,000    10 x 100 ranks x 1,000 tensors: which of 10 replicas stays
    ten thousand    10,000 ranks x 100 tensors to 5,000 ranks: what files cost, rather than tensors
    trillion        1.0e12 BF16 parameters from 4,096 to 2,048 ranks: 8 x 16 x 32 (tensor-parallel, stages, optimizer
                    sharding) to 8 x 8 x 32
    trillion, flat  the same with every tensor cut among all 4,096, then among all 2,048 ranks: no job is worse

Targets: under 1 s for 1,000 ranks; under 10 s and 2 GiB for the trillions. Peak memory is the process's. Exit 1 if missed.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import time


def write_rank(folder: str, rank: int, blob: bytes, size: int) -> None:
    where = os.path.join(folder, f"rank_{rank}")
    os.makedirs(where)
    with open(os.path.join(where, "model.safetensors"), "wb") as f:
        f.write(blob)
        f.truncate(len(blob) + size)


def header(tensors: list[tuple[str, list[int]]]) -> tuple[bytes, int]:
    """BF16 tensors; the bytes of the header with its length, and the bytes of the data."""
    out: dict[str, object] = {"__metadata__": {"format": "pt"}}
    at = 0
    for name, shape in tensors:
        n = 2
        for s in shape:
            n *= s
        out[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [at, at + n]}
        at += n
    text = json.dumps(out, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text, at


def layout(path: str, axes: dict[str, int], tensors: list[dict[str, object]], meshes: object = None) -> str:
    content = {"format": "safetensors-layout", "version": 1, "mesh": {"axes": axes}, "tensors": tensors}
    if meshes is not None:
        content["meshes"] = meshes
    with open(path, "w", encoding="utf-8") as f:
        json.dump(content, f)
    return path


# ---------------------------------------------------------------- the models


def rows_of_many(base: str, ranks: int, tensors: int, replicas: int) -> str:
    folder = os.path.join(base, f"rows{ranks}x{tensors}x{replicas}")
    blob, size = header([(f"layers.{i:03d}.mlp.weight", [2, 512]) for i in range(tensors)])
    for r in range(ranks):
        write_rank(folder, r, blob, size)
    layout(
        os.path.join(folder, "layout.json"),
        {"dp": replicas, "tp": ranks // replicas},
        [{"pattern": "*", "cuts": ["tp", None]}],
    )
    return folder


HIDDEN, INNER, LAYERS, VOCABULARY = 25600, 102400, 96, 131072
MATRICES = {
    "self_attn.q_proj": (HIDDEN, HIDDEN, 0),
    "self_attn.k_proj": (HIDDEN, HIDDEN, 0),
    "self_attn.v_proj": (HIDDEN, HIDDEN, 0),
    "self_attn.o_proj": (HIDDEN, HIDDEN, 1),
    "mlp.gate_proj": (INNER, HIDDEN, 0),
    "mlp.up_proj": (INNER, HIDDEN, 0),
    "mlp.down_proj": (HIDDEN, INNER, 1),
}
NORMS = ("input_layernorm", "post_attention_layernorm")


def trillion(folder: str, stages: int, tp: int, dp: int) -> None:
    """Stages of layers; matrices cut by tp along one dimension, and by dp along the first (optimizer sharding)."""
    for stage in range(stages):
        mine = range(stage * LAYERS // stages, (stage + 1) * LAYERS // stages)
        tensors = []
        for i in mine:
            for name, (rows, columns, dim) in MATRICES.items():
                cut = [rows // tp // dp, columns] if dim == 0 else [rows // dp, columns // tp]
                tensors.append((f"model.layers.{i}.{name}.weight", cut))
            tensors += [(f"model.layers.{i}.{name}.weight", [HIDDEN]) for name in NORMS]
        if stage == 0:
            tensors.append(("model.embed_tokens.weight", [VOCABULARY // tp // dp, HIDDEN]))
        if stage == stages - 1:
            tensors += [("model.norm.weight", [HIDDEN]), ("lm_head.weight", [VOCABULARY // tp // dp, HIDDEN])]
        blob, size = header(tensors)
        for r in range(tp * dp):
            write_rank(folder, stage * tp * dp + r, blob, size)


def staged(path: str, stages: int, tp: int, dp: int) -> str:
    entries: list[dict[str, object]] = []
    for i in range(LAYERS):
        mesh = f"stage{i * stages // LAYERS}"
        for name, (_, _, dim) in MATRICES.items():
            entries.append(
                {
                    "name": f"model.layers.{i}.{name}.weight",
                    "mesh": mesh,
                    "cuts": [["tp", "dp"], None] if dim == 0 else ["dp", "tp"],
                }
            )
        entries += [{"name": f"model.layers.{i}.{n}.weight", "mesh": mesh, "cuts": [None]} for n in NORMS]
    entries += [
        {"name": "model.embed_tokens.weight", "mesh": "stage0", "cuts": [["tp", "dp"], None]},
        {"name": "model.norm.weight", "mesh": f"stage{stages - 1}", "cuts": [None]},
        {"name": "lm_head.weight", "mesh": f"stage{stages - 1}", "cuts": [["tp", "dp"], None]},
    ]
    meshes = {f"stage{s}": {"axes": {"dp": dp, "tp": tp}, "first_rank": s * tp * dp} for s in range(stages)}
    return layout(path, {"dp": dp, "tp": tp}, entries, meshes)


def flat(folder: str, ranks: int) -> None:
    tensors = []
    for i in range(LAYERS):
        tensors += [
            (f"model.layers.{i}.{n}.weight", [-(-rows // ranks), columns])
            for n, (rows, columns, _) in MATRICES.items()
        ]
        tensors += [(f"model.layers.{i}.{n}.weight", [HIDDEN]) for n in NORMS]
    tensors += [(n, [VOCABULARY // ranks, HIDDEN]) for n in ("model.embed_tokens.weight", "lm_head.weight")]
    tensors.append(("model.norm.weight", [HIDDEN]))
    full = header(tensors)
    # torch.chunk of 25,600 rows among 4,096: 7 each for 3,657 ranks, 1 for one, none for the others
    for r in range(ranks):
        mine = []
        for name, shape in tensors:
            rows = next((m[0] for n, m in MATRICES.items() if n in name), None)
            if rows is None:
                mine.append((name, shape))
            else:
                part = -(-rows // ranks)
                mine.append((name, [max(0, min(part, rows - r * part)), shape[1]]))
        blob, size = full if mine == tensors else header(mine)
        write_rank(folder, r, blob, size)


def flat_layout(path: str, ranks: int) -> str:
    return layout(
        path,
        {"x": ranks},
        [
            {"pattern": "*norm.weight", "whole": True},
            {"pattern": "*", "cuts": [{"by": "x", "split": "chunk"}, None]},
        ],
    )


# ---------------------------------------------------------------- runs


def plan(tool: str, arguments: list[str]) -> tuple[float, float, int, dict[str, object]]:
    """Seconds, those of the processor, peak bytes, the plan's last line."""
    with tempfile.TemporaryFile() as out:
        began = time.perf_counter()
        p = subprocess.Popen([tool, *arguments, "--plan"], stdout=out)
        _, status, usage = os.wait4(p.pid, 0)
        took = time.perf_counter() - began
        p.returncode = os.waitstatus_to_exitcode(status)
        if p.returncode != 0:
            raise SystemExit(f"{arguments}: exit {p.returncode}")
        out.seek(max(0, out.seek(0, 2) - 4096))
        return (
            took,
            usage.ru_utime + usage.ru_stime,
            usage.ru_maxrss * 1024,
            json.loads(out.read().splitlines()[-1]),
        )


def cases(base: str, only: str) -> list[tuple[str, list[str], float, float]]:
    """(name, arguments, seconds at most, bytes at most)"""
    out: list[tuple[str, list[str], float, float]] = []
    target = os.path.join(base, "out")
    gib = float(1 << 30)

    def file(name: str) -> str:
        return os.path.join(base, name)

    if only in "thousand":
        source = rows_of_many(base, 1000, 1000, 1)
        out.append(("join 1,000 ranks", ["join", source, "-o", file("one.safetensors")], 1, gib))
        for ranks in (500, 7):
            to = layout(
                file(f"to{ranks}.json"),
                {"x": ranks},
                [{"pattern": "*", "cuts": [{"by": "x", "split": "chunk"}, None]}],
            )
            out.append(
                (
                    f"reshard 1,000 ranks to {ranks}",
                    [
                        "reshard",
                        source,
                        "--source-layout",
                        source + "/layout.json",
                        "--target-layout",
                        to,
                        "-o",
                        target,
                    ],
                    1,
                    gib,
                )
            )
        out.append(
            ("dedupe 1,000 ranks", ["dedupe", rows_of_many(base, 1000, 1000, 10), "-o", target], 1, gib)
        )
    if only in "ten":
        source = rows_of_many(base, 10000, 100, 1)
        to = layout(file("to5000.json"), {"x": 5000}, [{"pattern": "*", "cuts": ["x", None]}])
        out.append(
            (
                "reshard 10,000 ranks to 5,000",
                [
                    "reshard",
                    source,
                    "--source-layout",
                    source + "/layout.json",
                    "--target-layout",
                    to,
                    "-o",
                    target,
                ],
                10,
                2 * gib,
            )
        )
    if only in "trillion":
        source = file("trillion")
        trillion(source, 16, 8, 32)
        out.append(
            (
                "trillion, 8 x 16 x 32 to 8 x 8 x 32",
                [
                    "reshard",
                    source,
                    "--source-layout",
                    staged(file("t4096.json"), 16, 8, 32),
                    "--target-layout",
                    staged(file("t2048.json"), 8, 8, 32),
                    "-o",
                    target,
                ],
                10,
                2 * gib,
            )
        )
    if only in "flat":
        source = file("flat")
        flat(source, 4096)
        out.append(
            (
                "trillion, 4,096 to 2,048 ways",
                [
                    "reshard",
                    source,
                    "--source-layout",
                    flat_layout(file("f4096.json"), 4096),
                    "--target-layout",
                    flat_layout(file("f2048.json"), 2048),
                    "-o",
                    target,
                ],
                10,
                2 * gib,
            )
        )
    return out


def main() -> int:
    p = argparse.ArgumentParser()
    p.add_argument("--tool", required=True)
    p.add_argument("--folder", help="where the headers go: 600 MB (default: a temporary one)")
    p.add_argument("--only", default="", help="thousand, ten, trillion or flat")
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument(
        "--keep", action="store_true", help="leave the headers where they are, and say how to plan with them"
    )
    p.add_argument("-o", "--output")
    a = p.parse_args()
    base = tempfile.mkdtemp(prefix="sft-planner-", dir=a.folder)
    missed = 0
    rows = []
    try:
        print(f"{'plan':40} {'s':>7} {'CPU s':>7} {'MiB':>7} {'files':>6} {'pieces':>10} {'TB':>8}")
        for name, arguments, seconds, memory in cases(base, a.only):
            runs = [plan(os.path.abspath(a.tool), arguments) for _ in range(a.rounds)]
            took, busy, peak = min(r[0] for r in runs), min(r[1] for r in runs), max(r[2] for r in runs)
            total = runs[0][3]
            ok = took < seconds and peak < memory
            missed += not ok
            if a.keep:
                print(" ".join([a.tool, *arguments, "--plan"]))
            rows.append(
                {
                    "plan": name,
                    "seconds": took,
                    "cpu_seconds": busy,
                    "peak_bytes": peak,
                    "seconds_target": seconds,
                    "bytes_target": memory,
                    "total": total,
                }
            )
            print(
                f"{name:40} {took:7.2f} {busy:7.2f} {peak / (1 << 20):7.0f} {total['files']:6} {total['runs']:10} "
                f"{total['bytes'] / 1e12:8.3f}{'' if ok else '  MISSED'}",
                flush=True,
            )
    finally:
        if not a.keep:
            shutil.rmtree(base)
    if a.output:
        with open(a.output, "w", encoding="utf-8") as f:
            json.dump(rows, f, indent=2)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
