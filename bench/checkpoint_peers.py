#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""checkpoint_peers.py - putting ranks' files together, against PyTorch and MindSpore on the same files.

    build/python-env/bin/python bench/checkpoint_peers.py --tool build/safetensors [--mib 1024] [--rounds 3]
        [--folder DIR] [--mindspore PYTHON] [--no-torch] [-o out.json]

Run it with a Python that has torch and this package. Each round runs every contender once, in turn, each in a process
of its own, on files that are in the page cache, after memory was touched (see checkpoint_speed.py); nobody waits for
the disk. The fastest round of each counts, and of several ways that a peer offers (threads, processes, files) the
fastest. Time is that of the call (of the process for the
tool); peak memory is what the process had at most, less what it had when the call began (nothing for the tool).

  consolidation   torch's consolidate_safetensors_files into one file, into four with two threads, and on two ranks;
                  `safetensors join`
  reader          dcp.load with HuggingFaceStorageReader (one and two threads), all tensors into memory that exists;
                  safetensors_c.distributed.open_checkpoint(...).load_into
  two readers     the same by two processes (gloo), each into its DTensors, cut along the other dimension than the files;
                  safetensors_c.distributed.load
  unified         mindspore.unified_safetensors (2 and 64 processes); `safetensors join --unified`

Three shapes of a model: few large tensors cut by rows or by columns among 4 ranks, and many small ones among 64.
Prints a table, and JSON with -o. Exit 1 if a target is missed.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import shutil
import struct
import subprocess
import sys
import tempfile
import time

from checkpoint_speed import touch_memory

HERE = os.path.abspath(__file__)
TARGETS = {"consolidation": 3.0, "reader": 10.0, "two readers": 10.0, "unified": 10.0}
# ranks, rows and columns of a tensor (BF16; for MindSpore F16), dimension that is cut
SHAPES = {"rows": (4, 4096, 8192, 0), "columns": (4, 4096, 8192, 1), "small": (64, 512, 1024, 0)}


# ---------------------------------------------------------------- files


def write_file(
    path: str, dtype: str, tensors: dict[str, list[int]], metadata: dict[str, str], block: bytes
) -> None:
    header: dict[str, object] = {"__metadata__": metadata}
    at = 0
    for name, shape in tensors.items():
        size = shape[0] * shape[1] * 2
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        while at > 0:
            at -= f.write(block[: min(at, len(block))])


def names_of(shape: str, mib: int) -> dict[str, list[int]]:
    _, rows, columns, _ = SHAPES[shape]
    return {f"layers.{i}.weight": [rows, columns] for i in range(max(2, (mib << 20) // (rows * columns * 2)))}


def write_ranks(folder: str, shape: str, mib: int, mindspore: bool) -> int:
    """The ranks' files as PyTorch or MindSpore leave them; bytes in all."""
    ranks, rows, columns, dim = SHAPES[shape]
    block = os.urandom(1 << 22)
    part = [rows // ranks, columns] if dim == 0 else [rows, columns // ranks]
    names = names_of(shape, mib)
    for rank in range(ranks):
        offsets = [rank * part[0], 0] if dim == 0 else [0, rank * part[1]]
        sharding = json.dumps({name: {"saved_offsets": offsets} for name in names})
        if mindspore:
            os.makedirs(os.path.join(folder, f"rank_{rank}"))
            path = os.path.join(folder, f"rank_{rank}", f"net_rank_{rank}-1_1.safetensors")
            metadata = {"remove_redundancy": "False"}
        else:
            path = os.path.join(folder, "shard-%05d-model-00001-of-00001.safetensors" % (rank + 1))
            metadata = {"format": "pt", "DCP_VERSION": "1.0", "DCP_SHARDING_INFO": sharding}
        write_file(path, "F16" if mindspore else "BF16", {name: part for name in names}, metadata, block)
    return sum(os.path.getsize(os.path.join(b, n)) for b, _, found in os.walk(folder) for n in found)


# ---------------------------------------------------------------- contenders: each a process of its own


def memory(key: str) -> int:
    with open("/proc/self/status", encoding="ascii") as f:
        return next(int(line.split()[1]) << 10 for line in f if line.startswith(key))


def timed(call, children: bool = False) -> None:  # type: ignore[no-untyped-def]
    """children: the peak is that of this process or of the largest one that it started, whichever is more."""
    with open("/proc/self/clear_refs", "w", encoding="ascii") as f:
        f.write("5")  # the peak begins anew
    before = memory("VmRSS")
    began = time.perf_counter()
    call()
    seconds = time.perf_counter() - began
    peak = max(0, memory("VmHWM") - before)
    if children:
        peak = max(peak, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss << 10)
    print(json.dumps({"seconds": seconds, "peak": peak}))


def consolidate(folder: str, out: str, names: dict[str, list[int]], files: int, threads: int) -> None:
    from torch.distributed.checkpoint._consolidate_hf_safetensors import consolidate_safetensors_files

    index = {name: 1 + i * files // len(names) for i, name in enumerate(names)}
    timed(lambda: consolidate_safetensors_files(folder, out, fqn_to_index_mapping=index, num_threads=threads))


def one_rank(rank: int, folder: str, out: str, names: list[str], port: int) -> None:
    import torch.distributed as dist
    from torch.distributed.checkpoint._consolidate_hf_safetensors import (
        consolidate_safetensors_files_on_every_rank,
    )

    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)
    index = {name: 1 + i * 4 // len(names) for i, name in enumerate(names)}
    dist.barrier()
    if rank == 0:
        timed(lambda: (consolidate_safetensors_files_on_every_rank(folder, out, index), dist.barrier()))
    else:
        consolidate_safetensors_files_on_every_rank(folder, out, index)
        dist.barrier()
    dist.destroy_process_group()


def consolidate_two(folder: str, out: str, names: dict[str, list[int]]) -> None:
    import socket

    import torch.multiprocessing as mp

    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    mp.spawn(one_rank, (folder, out, list(names), port), nprocs=2)


def read_torch(folder: str, names: dict[str, list[int]], threads: int) -> None:
    import warnings

    import torch
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint import HuggingFaceStorageReader

    warnings.simplefilter("ignore")
    state = {name: torch.zeros(shape, dtype=torch.bfloat16) + 1 for name, shape in names.items()}
    reader = HuggingFaceStorageReader(folder, thread_count=threads)
    timed(lambda: dcp.load(state, storage_reader=reader, no_dist=True))


def read_ours(folder: str, names: dict[str, list[int]]) -> None:
    import torch
    from safetensors_c.distributed import open_checkpoint

    state = {name: torch.zeros(shape, dtype=torch.bfloat16) + 1 for name, shape in names.items()}

    def call() -> None:
        with open_checkpoint(folder, "pt") as f:
            f.load_into(state)

    timed(call)


def one_reader(
    rank: int, folder: str, shape: str, names: dict[str, list[int]], threads: int, port: int
) -> None:
    import warnings

    import torch
    import torch.distributed as dist
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint import HuggingFaceStorageReader
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import DTensor, Shard

    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)
    mesh = init_device_mesh("cpu", (2,))
    dim = 1 - SHAPES[shape][3]
    state = {}
    for name, (rows, columns) in names.items():
        part = torch.ones((rows, columns // 2) if dim == 1 else (rows // 2, columns), dtype=torch.bfloat16)
        state[name] = DTensor.from_local(part, mesh, [Shard(dim)], run_check=False)

    def call() -> None:
        if threads > 0:
            dcp.load(state, storage_reader=HuggingFaceStorageReader(folder, thread_count=threads))
        else:
            from safetensors_c.distributed import load

            load(state, folder)
        dist.barrier()

    dist.barrier()
    if rank == 0:
        timed(call)
    else:
        call()
    sys.stdout.flush()
    dist.destroy_process_group()


def read_two(folder: str, shape: str, names: dict[str, list[int]], threads: int) -> None:
    import socket

    import torch.multiprocessing as mp

    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    mp.spawn(one_reader, (folder, shape, names, threads, port), nprocs=2)


def unify(folder: str, out: str, strategy: str, processes: int) -> None:
    import mindspore as ms

    timed(
        lambda: ms.unified_safetensors(
            folder, strategy, out, merge_with_redundancy=True, max_process_num=processes
        )
    )


def write_strategy(path: str, names: dict[str, list[int]]) -> None:
    from mindspore.train.node_strategy_pb2 import ParallelStrategyMap

    m = ParallelStrategyMap()
    m.current_stage = 0
    item = m.parallel_strategy_item.add()
    item.node_name = "MatMul-op0"
    item.parallel_strategys.stage = 0
    item.parallel_strategys.parallel_strategy.add().dim.extend([1, 1])
    ranks, _, _, dim = SHAPES[os.environ["SHAPE"]]
    for name in names:
        item = m.parallel_layout_item.add()
        item.param_name = name
        item.parallel_layouts.dev_matrix.add().dim.extend([ranks])
        item.parallel_layouts.tensor_map.add().dim.extend([0, -1] if dim == 0 else [-1, 0])
        item.parallel_layouts.param_split_shape.add()
        item.parallel_layouts.indices_offset.add()
        item.parallel_layouts.field = 0
        item.parallel_layouts.opt_weight_shard_step = item.parallel_layouts.opt_weight_shard_size = 0
    with open(path, "wb") as f:
        f.write(m.SerializeToString())


def work(kind: str, arguments: list[str]) -> None:
    names = names_of(os.environ["SHAPE"], int(os.environ["MIB"]))
    if kind == "consolidate":
        consolidate(arguments[0], arguments[1], names, int(arguments[2]), int(arguments[3]))
    elif kind == "consolidate-two":
        consolidate_two(arguments[0], arguments[1], names)
    elif kind == "read-torch":
        read_torch(arguments[0], names, int(arguments[1]))
    elif kind == "read-ours":
        read_ours(arguments[0], names)
    elif kind == "read-two":
        read_two(arguments[0], os.environ["SHAPE"], names, int(arguments[1]))
    elif kind == "unify":
        unify(arguments[0], arguments[1], arguments[2], int(arguments[3]))
    elif kind == "strategy":
        write_strategy(arguments[0], names)
    else:
        began = time.perf_counter()
        p = subprocess.Popen(arguments, stdout=subprocess.DEVNULL)
        _, status, usage = os.wait4(p.pid, 0)
        seconds = time.perf_counter() - began
        if status != 0:
            raise SystemExit(f"{arguments}: status {status}")
        print(json.dumps({"seconds": seconds, "peak": usage.ru_maxrss << 10}))


# ---------------------------------------------------------------- rounds


def run(python: str, shape: str, mib: int, kind: str, arguments: list[str]) -> dict[str, float]:
    env = {**os.environ, "SHAPE": shape, "MIB": str(mib), "GLOG_v": "3", "TORCH_CPP_LOG_LEVEL": "ERROR"}
    p = subprocess.run([python, HERE, "--worker", kind, *arguments], env=env, capture_output=True, text=True)
    lines = [line for line in p.stdout.splitlines() if line.startswith("{")]
    if p.returncode != 0 or (not lines and kind != "strategy"):
        raise SystemExit(f"{kind} {arguments}: exit {p.returncode}\n{p.stdout[-2000:]}{p.stderr[-4000:]}")
    return json.loads(lines[-1]) if lines else {}


def touch(folder: str) -> None:
    """Into the page cache."""
    for base, _, found in os.walk(folder):
        for name in found:
            with open(os.path.join(base, name), "rb") as f:
                while f.read(1 << 23):
                    pass


def compare(args: argparse.Namespace, name: str, shape: str, size: int, source: str, out: str,
            theirs: dict[str, tuple[str, str, list[str]]], ours: tuple[str, str, list[str]]) -> dict:  # fmt: skip
    """theirs: what: (python, kind, arguments), fastest counts. Each writes into a fresh folder `out`."""
    results: dict[str, list[dict[str, float]]] = {}
    touch(source)
    contenders = {**theirs, "safetensors": ours}
    for i in range(args.rounds):
        labels = list(contenders)
        for label in labels[i % len(labels) :] + labels[: i % len(labels)]:
            python, kind, arguments = contenders[label]
            shutil.rmtree(out, ignore_errors=True)
            os.makedirs(out)
            touch_memory(size + size // 8)
            results.setdefault(label, []).append(run(python, shape, args.mib, kind, arguments))
            shutil.rmtree(out, ignore_errors=True)
    seconds = {k: min(r["seconds"] for r in v) for k, v in results.items()}
    peaks = {k: max(r["peak"] for r in v) for k, v in results.items()}
    best = min(theirs, key=lambda k: seconds[k])
    ratio = seconds[best] / seconds["safetensors"]
    target = TARGETS[name] if name != "consolidation" or shape == "rows" else 0.0
    print("%-13s %-8s %7.3f s, %5d MiB   %-22s %7.3f s, %5d MiB   ratio %6.2f (target %.1f)"
          % (name, shape, seconds["safetensors"], int(peaks["safetensors"]) >> 20, best, seconds[best],
             int(peaks[best]) >> 20, ratio, target), flush=True)  # fmt: skip
    return {"name": name, "shape": shape, "bytes": size, "seconds": seconds, "peak_bytes": peaks, "best_peer": best,
            "rounds": results, "ratio": ratio, "target": target}  # fmt: skip


def torch_rows(args: argparse.Namespace, folder: str, shape: str) -> list[dict]:
    source, out = os.path.join(folder, "dcp"), os.path.join(folder, "out")
    os.makedirs(source)
    size = write_ranks(source, shape, args.mib, False)
    py = sys.executable
    target = os.path.join(out, "joined.safetensors")
    rows = [compare(args, "consolidation", shape, size, source, out,
                    {"one file": (py, "consolidate", [source, out, "1", "1"]),
                     "four files, 2 threads": (py, "consolidate", [source, out, "4", "2"]),
                     "two ranks": (py, "consolidate-two", [source, out])},
                    (py, "tool", [args.tool, "join", source, "-o", target, "--no-sync", "-q"])),
            compare(args, "reader", shape, size, source, out,
                    {"one thread": (py, "read-torch", [source, "1"]), "two threads": (py, "read-torch", [source, "2"])},
                    (py, "read-ours", [source])),
            compare(args, "two readers", shape, size, source, out,
                    {"one thread": (py, "read-two", [source, "1"]), "two threads": (py, "read-two", [source, "2"])},
                    (py, "read-two", [source, "0"]))]  # fmt: skip
    shutil.rmtree(source)
    return rows


def mindspore_rows(args: argparse.Namespace, folder: str, shape: str) -> list[dict]:
    source, out = os.path.join(folder, "ms"), os.path.join(folder, "out")
    os.makedirs(source)
    size = write_ranks(source, shape, args.mib, True)
    strategy = os.path.join(folder, "strategy.ckpt")
    run(args.mindspore, shape, args.mib, "strategy", [strategy])
    theirs = {f"{n} processes": (args.mindspore, "unify", [source, os.path.join(out, "u"), strategy, str(n)])
              for n in (2, 64)}  # fmt: skip
    ours = [
        args.tool,
        "join",
        source,
        "--unified",
        "--layout",
        strategy,
        "-o",
        os.path.join(out, "u"),
        "--no-sync",
        "-q",
    ]
    rows = [compare(args, "unified", shape, size, source, out, theirs, (sys.executable, "tool", ours))]
    shutil.rmtree(source)
    return rows


def report(args: argparse.Namespace, rows: list[dict]) -> int:
    """JSON, and the exit status."""
    missed = [r["name"] + " " + r["shape"] for r in rows if r["ratio"] < r["target"] or r.get("differ")]
    if args.output:
        with open(args.output, "w", encoding="utf-8") as f:
            json.dump({"schema": 1, "machine": platform.machine(), "cpus": os.cpu_count(), "system": platform.release(),
                       "rounds": args.rounds, "rows": rows}, f, indent=1)  # fmt: skip
            f.write("\n")
    print("targets missed: " + ", ".join(missed) if missed else "all targets met")
    return 1 if missed else 0


def main() -> int:
    if len(sys.argv) > 2 and sys.argv[1] == "--worker":
        work(sys.argv[2], sys.argv[3:])
        return 0
    parser = argparse.ArgumentParser(description="ranks put together, against PyTorch and MindSpore")
    parser.add_argument("--tool", required=True)
    parser.add_argument("--mib", type=int, default=1024)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", help="where the files go (default: a temporary folder)")
    parser.add_argument("--shapes", default="rows,columns,small")
    parser.add_argument("--no-torch", action="store_true")
    parser.add_argument("--mindspore", help="a Python that has mindspore")
    parser.add_argument("-o", "--output")
    args = parser.parse_args()
    args.tool = os.path.abspath(args.tool)
    folder = tempfile.mkdtemp(prefix="checkpoint-peers-", dir=args.folder)
    rows: list[dict] = []
    try:
        for shape in args.shapes.split(","):
            if not args.no_torch:
                rows += torch_rows(args, folder, shape)
            if args.mindspore:
                rows += mindspore_rows(args, folder, shape)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return report(args, rows)


if __name__ == "__main__":
    sys.exit(main())
