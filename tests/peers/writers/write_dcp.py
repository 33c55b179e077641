#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""write_dcp.py FOLDER - checkpoints by torch.distributed.checkpoint, of one process and of two (gloo, DTensors); every one is
a directory. What they hold is what DCP loads into plain tensors."""

import os
import subprocess
import sys
import warnings

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from expect import NAMES, Files, sha

warnings.filterwarnings("ignore")
torch.manual_seed(36)


def raw(t):
    return t.detach().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes() if t.numel() else b""


def answer(t):
    kind = str(t.dtype).split(".")[-1]
    return [[NAMES[kind], list(t.shape), sha(raw(t))]] if kind in NAMES else []


def flat(value, prefix="", found=None):
    found = {} if found is None else found
    if isinstance(value, torch.Tensor):
        found[prefix] = answer(value)
    elif isinstance(value, (dict, list)):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            flat(item, "%s.%s" % (prefix, key) if prefix else str(key), found)
    return found


def bits(kind):
    dtype = getattr(torch, kind)
    if dtype is torch.bool:
        return torch.randint(0, 2, (4, 6)).bool()
    return torch.randint(0, 256, (4, 6 * dtype.itemsize), dtype=torch.uint8).view(dtype)


def pair(rank, folder):
    """Two processes: DTensors cut by rows, by columns, unevenly, replicated."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor

    dist.init_process_group("gloo", rank=rank, world_size=2, init_method="file://%s/meeting" % folder)
    mesh = init_device_mesh("cpu", (2,))
    torch.manual_seed(1)
    whole = {
        "rows": torch.randn(8, 3),
        "uneven": torch.randn(7, 5),
        "columns": torch.randn(4, 6),
        "same": torch.randn(3, 3),
        "half": torch.randn(6, 2).bfloat16(),
        "tiny": torch.randn(1, 2),
    }
    where = {
        "rows": Shard(0),
        "uneven": Shard(0),
        "columns": Shard(1),
        "same": Replicate(),
        "half": Shard(0),
        "tiny": Shard(0),
    }
    state = {k: distribute_tensor(v, mesh, [where[k]]) for k, v in whole.items()}
    state["plain"] = torch.arange(5)
    dcp.save(state, checkpoint_id=os.path.join(folder, "two-ranks"))
    dcp.save({"model": state, "step": 7}, checkpoint_id=os.path.join(folder, "two-ranks-nested"))
    dist.barrier()
    dist.destroy_process_group()


def main():
    files = Files("torch.distributed.checkpoint " + torch.__version__.split("+")[0])

    def put(name, state, named=(), **how):
        try:
            dcp.save(state, checkpoint_id=str(files.path(name)), no_dist=True, **how)
        except Exception as e:
            files.skip(name, e)
            return
        files.add(name, flat(state), named)

    for kind in NAMES:
        put("type-" + kind, {"w": bits(kind), "s": bits(kind)[1, 2].clone(), "none": bits(kind)[:0]})
    w = torch.randn(5, 6)
    model = torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.BatchNorm1d(6), torch.nn.Linear(6, 2))
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.randn(3, 4)).sum().backward()
    optimizer.step()
    put("model", {"model": model.state_dict()})
    put("flat", dict(model.state_dict()))
    put(
        "training",
        {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 3, "name": "x"},
    )
    put("views", {"a": w, "b": w.t(), "c": w[1:3], "d": w[:1].expand(4, 6)})
    put("tied", {"a": w, "b": w})
    put("numbers", {"w": w, "n": 3, "f": 0.5, "t": "text", "none": None, "rng": torch.get_rng_state()})
    put("lists", {"l": [w, {"deep": w + 1}]})
    put("complex", {"c": torch.randn(3, dtype=torch.complex64)})
    put("many", {"layers.%d.w" % i: torch.full((3, 2), float(i)) for i in range(200)})
    put("names", {"a/b": w, "名": w + 1, "x" * 300: w + 2, "..": w + 3})
    for name, how in {
        "no-sync": {"sync_files": False},
        "one-file": {"single_file_per_rank": True},
        "many-files": {"single_file_per_rank": False},
        "threads": {"thread_count": 3},
    }.items():
        put(
            "writer-" + name,
            {"a": w, "b": w + 1, "c": w + 2, "n": 4},
            storage_writer=dcp.FileSystemWriter(str(files.path("writer-" + name)), **how),
        )
    try:
        from torch.distributed.checkpoint._extension import ZStandard

        put(
            "zstd",
            {"a": w, "b": w + 1},
            storage_writer=dcp.FileSystemWriter(str(files.path("zstd")), _extensions=[ZStandard()]),
        )
    except Exception as e:
        files.skip("zstd", e)
    ranks = [
        subprocess.Popen(
            [sys.executable, os.path.abspath(__file__), str(files.folder), str(r)], stderr=subprocess.PIPE
        )
        for r in (0, 1)
    ]
    said = [p.communicate(timeout=240)[1] for p in ranks]
    if any(p.returncode for p in ranks):
        files.skip("two-ranks", said[0].decode()[-200:] or said[1].decode()[-200:])
    else:
        for name in ("two-ranks", "two-ranks-nested"):
            meta = dcp.FileSystemReader(str(files.path(name))).read_metadata()
            got = {
                k: torch.empty(v.size, dtype=v.properties.dtype)
                for k, v in meta.state_dict_metadata.items()
                if hasattr(v, "chunks")
            }
            dcp.load(got, checkpoint_id=str(files.path(name)), no_dist=True)
            files.add(name, flat(got))
    return files.close()


if __name__ == "__main__":
    if len(sys.argv) > 2:
        pair(int(sys.argv[2]), sys.argv[1])
    else:
        sys.exit(main())
