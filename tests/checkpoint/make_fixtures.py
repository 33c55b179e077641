#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""make_fixtures.py mindspore|torch - writes tests/checkpoint/fixtures, small real files of other programs. Run it by hand
with a Python that has mindspore 2.10 (CPU) or torch 2.13; what it writes is checked in. Every value of a tensor is its
linear index (plus a number for each tensor), so that tests need no second copy of the truth.

  mindspore/  strategy.ckpt (a protobuf made by MindSpore's classes), rank_0..3 by ms.save_checkpoint with
              remove_redundancy and crc_check, unified/ by ms.unified_safetensors, sliced/ by
              ms.load_distributed_checkpoint
  dcp/        four processes (gloo) saving DTensors by HuggingFaceStorageWriter: row and column shards, uneven rows, a
              scalar, integers
"""

import os
import shutil
import sys

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "fixtures")
SHAPES = {"w": (8, 4), "q": (4, 4), "n": (6,), "u": (10, 3)}
BASE = {"w": 0, "q": 100, "n": 200, "u": 300}


def full(np, name):
    n = 1
    for s in SHAPES[name]:
        n *= s
    return np.arange(BASE[name], BASE[name] + n, dtype=np.int32).reshape(SHAPES[name])


def mindspore():
    os.environ["GLOG_v"] = "3"
    sys.path.insert(0, os.path.dirname(HERE))
    import mindspore as ms
    import mindspore_peer as peer
    import numpy as np

    folder = os.path.join(HERE, "mindspore")
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    entries = [("w", [2, 2], [0, -1], 2, 2), ("q", [2, 2], [1, 0], 0, 0), ("n", [2, 2], [-1], 0, 0)]
    strategy = os.path.join(folder, "strategy.ckpt")
    with open(strategy, "wb") as f:
        f.write(peer.protobuf(entries))
    for rank in range(4):
        parts = {"step": np.array([7], dtype=np.int32)}
        for name, dev, tensor_map, step, size in entries:
            if name != "n" or rank == 2:
                parts[name] = peer.their_slice(full(np, name), dev, tensor_map, step, size, rank).copy()
        peer.save_rank(
            os.path.join(folder, "checkpoint", "rank_%d" % rank, "net_rank_%d-1_2.safetensors" % rank),
            parts,
            crc_check=True,
            remove_redundancy=True,
        )
    ms.unified_safetensors(
        os.path.join(folder, "checkpoint"),
        strategy,
        os.path.join(folder, "unified"),
        merge_with_redundancy=False,
    )
    os.makedirs(os.path.join(folder, "sliced"))
    ms.load_distributed_checkpoint(
        None,
        predict_strategy=strategy,
        format="safetensors",
        unified_safetensors_dir=os.path.join(folder, "unified"),
        dst_safetensors_dir=os.path.join(folder, "sliced"),
    )
    for base, _, names in os.walk(folder):
        for name in names:
            os.chmod(os.path.join(base, name), 0o644)


def torch_rank(rank, world, folder, port):
    import numpy as np
    import torch
    import torch.distributed as dist
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint import HuggingFaceStorageWriter
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor

    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), RANK=str(rank), WORLD_SIZE=str(world))
    dist.init_process_group("gloo", rank=rank, world_size=world)
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    flat = init_device_mesh("cpu", (4,))
    state = {
        "w": distribute_tensor(torch.from_numpy(full(np, "w")).float(), mesh, [Shard(0), Shard(1)]),
        "q": distribute_tensor(torch.from_numpy(full(np, "q")).float(), mesh, [Replicate(), Shard(0)]),
        "u": distribute_tensor(torch.from_numpy(full(np, "u")), flat, [Shard(0)]),
        "n": torch.from_numpy(full(np, "n")).to(torch.int64),
        "scalar": torch.tensor(2.5),
    }
    dcp.save(
        state,
        storage_writer=HuggingFaceStorageWriter(
            folder, save_distributed=True, fqn_to_index_mapping={k: 1 for k in state}
        ),
    )
    dist.destroy_process_group()


def torch_():
    import torch.multiprocessing as mp

    folder = os.path.join(HERE, "dcp")
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    mp.spawn(torch_rank, (4, folder, 29517), nprocs=4)


if __name__ == "__main__":
    {"mindspore": mindspore, "torch": torch_}[sys.argv[1]]()
