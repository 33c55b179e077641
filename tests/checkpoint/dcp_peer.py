#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""dcp_peer.py --tool TOOL [--cases N] [--seed S] - checkpoints that PyTorch's HuggingFaceStorageWriter saves from four
processes (gloo), random DTensors on 1-D and 2-D meshes, uneven sizes, read by the tool as one model and compared with
full_tensor(). On the same files PyTorch's own consolidation: where it goes wrong (scalars, integers), it is counted, and
the tool must be right. Prints the counts; exit 1 on any difference.
"""

import argparse
import os
import random
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import ffi  # noqa: E402

DTYPES = ["float32", "bfloat16", "int64", "int8", "bool", "float8_e4m3fn", "float64"]
NAMES = {
    "float32": "F32",
    "bfloat16": "BF16",
    "int64": "I64",
    "int8": "I8",
    "bool": "BOOL",
    "float8_e4m3fn": "F8_E4M3",
    "float64": "F64",
}


def product(values):
    n = 1
    for v in values:
        n *= v
    return n


def cases(count, seed):
    """[(mesh, {name: (dtype, shape, placements or None)})]: the same in every process"""
    rng = random.Random(seed)
    out = []
    for _ in range(count):
        mesh = rng.choice([(4,), (2, 2), (1, 4), (4, 1)])
        tensors = {}
        for i in range(rng.randint(1, 5)):
            dims = rng.randint(1, 3)
            shape = tuple(rng.randint(1, 11) for _ in range(dims))
            if rng.random() < 0.15:
                tensors["plain.%d" % i] = (rng.choice(DTYPES), shape if rng.random() < 0.5 else (), None)
                continue
            placements = ["R" if rng.random() < 0.25 else rng.randrange(dims) for _ in mesh]
            tensors["layers.%d.w-'%d" % (i, i)] = (rng.choice(DTYPES), shape, placements)
        out.append((mesh, tensors))
    return out


def data(name, dtype, shape, torch):
    rng = random.Random(name + str(shape) + dtype)
    width = getattr(torch, dtype).itemsize
    raw = bytes(
        rng.randrange(2) if dtype == "bool" else rng.randrange(120) for _ in range(product(shape) * width)
    )
    return torch.frombuffer(bytearray(raw), dtype=getattr(torch, dtype)).reshape(shape), raw


def worker(rank, folder, count, seed, place):
    import torch
    import torch.distributed as dist
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint import HuggingFaceStorageWriter
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import DTensor, Replicate, Shard
    from torch.distributed.tensor._utils import compute_local_shape_and_global_offset

    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=4, init_method="file://%s/meeting" % place)
    meshes = {}
    for i, (shape, tensors) in enumerate(cases(count, seed)):
        if shape not in meshes:
            meshes[shape] = init_device_mesh("cpu", shape)
        mesh, state = meshes[shape], {}
        for name, (dtype, size, placements) in tensors.items():
            whole, _ = data(name, dtype, size, torch)
            if placements is None:
                state[name] = whole
                continue
            where = [Replicate() if p == "R" else Shard(p) for p in placements]
            local, offset = compute_local_shape_and_global_offset(whole.shape, mesh, where)
            part = whole[tuple(slice(o, o + n) for o, n in zip(offset, local))].contiguous()
            state[name] = DTensor.from_local(
                part, mesh, where, run_check=False, shape=whole.shape, stride=whole.stride()
            )
        dcp.save(
            state,
            storage_writer=HuggingFaceStorageWriter(
                os.path.join(folder, str(i)),
                save_distributed=True,
                fqn_to_index_mapping={k: 1 for k in state},
            ),
        )
    dist.destroy_process_group()


def consolidated(path, tensors, truth, stats):
    from torch.distributed.checkpoint._consolidate_hf_safetensors import consolidate_safetensors_files

    out = path + "-out"
    os.makedirs(out)
    try:
        consolidate_safetensors_files(path, out, fqn_to_index_mapping={n: 1 for n in tensors})
    except Exception:  # noqa: BLE001
        stats["torch fails"] += 1
        return
    got = {}
    for name in os.listdir(out):
        if name.endswith(".safetensors"):
            got.update(ffi.read_file(os.path.join(out, name))[0])
    wrong = [n for n in truth if got.get(n) != truth[n]]
    stats["torch wrong"] += bool(wrong)
    stats["torch right"] += not wrong


def uneven(mesh, shape, placements):
    sizes = list(shape)
    for n, p in zip(mesh, placements or []):
        if p != "R":
            if sizes[p] % n:
                return True
            sizes[p] //= n
    return False


def main():
    import torch
    import torch.multiprocessing as mp

    p = argparse.ArgumentParser()
    p.add_argument("--tool", required=True)
    p.add_argument("--cases", type=int, default=60)
    p.add_argument("--seed", type=int, default=1)
    a = p.parse_args()
    folder = tempfile.mkdtemp(prefix="sft-dcp-")
    with tempfile.TemporaryDirectory() as place:  # they meet at a file: a free port may be taken meanwhile
        mp.spawn(worker, (folder, a.cases, a.seed, place), nprocs=4)
    stats = {"cases": 0, "tensors": 0, "uneven": 0, "torch right": 0, "torch wrong": 0, "torch fails": 0}
    fault = None
    for i, (mesh, tensors) in enumerate(cases(a.cases, a.seed)):
        path = os.path.join(folder, str(i))
        truth = {n: (NAMES[d], s, data(n, d, s, torch)[1]) for n, (d, s, _) in tensors.items()}
        r = subprocess.run(
            [os.path.abspath(a.tool), "cp", "-f", path, path + ".safetensors"], capture_output=True, text=True
        )
        if r.returncode != 0 or ffi.read_file(path + ".safetensors")[0] != truth:
            fault = "case %d: mesh %r %r: %s" % (i, mesh, tensors, r.stderr)
            break
        stats["cases"] += 1
        stats["tensors"] += len(tensors)
        stats["uneven"] += sum(uneven(mesh, s, p) for _, s, p in tensors.values())
        consolidated(path, tensors, truth, stats)
    print(", ".join("%s %d" % kv for kv in stats.items()))
    if fault:
        print(fault, "in", folder)
        return 1
    shutil.rmtree(folder)
    if stats["uneven"] * 10 < stats["tensors"] * 3:
        print("less than 30 % uneven")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
