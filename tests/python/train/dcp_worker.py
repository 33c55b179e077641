# SPDX-License-Identifier: Apache-2.0 OR MIT
"""dcp_worker.py save|load|asynchronous|refuse PATH - one process of a job that torchrun starts for test_dcp.py."""

from __future__ import annotations

import os
import sys

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from group_worker import objects, tell, values, wrong
from safetensors_c.dcp import StorageReader, StorageWriter
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict

EXTRA = {"text": "a", "list": [1, 2.5, None], "big": 2**70, "bytes": b"\0\1", "nan": float("inf")}


def state_of(seed):
    state = objects("fsdp")
    model, optimizer = state["model"], state["optimizer"]
    values(model, optimizer, seed)
    return model, optimizer


def save(path, how=dcp.save):
    model, optimizer = state_of("7")
    weights, moments = get_state_dict(model, optimizer)
    state = {"model": weights, "optimizer": moments, "extra": EXTRA}
    done = how(state, storage_writer=StorageWriter(path))
    if how is not dcp.save:
        done.result()
    tell(files=sorted(os.listdir(path)) if dist.get_rank() == 0 else None)


def asynchronous(path):
    save(path, dcp.async_save)


def load(path):
    model, optimizer = state_of("1")
    weights, moments = get_state_dict(model, optimizer)
    state = {"model": weights, "optimizer": moments, "extra": {k: None for k in EXTRA}}
    state["extra"]["list"] = [0, 0.0, None]
    dcp.load(state, storage_reader=StorageReader(path))
    set_state_dict(model, optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"])
    tell(wrong=wrong(model, optimizer, "7"), extra=state["extra"] == EXTRA)


def refuse(path):
    try:
        dcp.save({"w": torch.ones(3), "f": {"g": object()}}, storage_writer=StorageWriter(path))
        tell(error=None)
    except BaseException as e:  # CheckpointException
        tell(error=str(e), there=os.path.exists(path))


if __name__ == "__main__":
    dist.init_process_group("cpu:gloo")
    globals()[sys.argv[1]](*sys.argv[2:])
    dist.barrier()
    os._exit(0)  # torch 2.13 aborts now and then as it takes this backend down
