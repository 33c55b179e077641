# SPDX-License-Identifier: Apache-2.0 OR MIT
"""dcp_worker.py WHAT PATH - one process of a job that torchrun starts for test_dcp.py."""

from __future__ import annotations

import os
import shutil
import sys
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from group_worker import objects, tell, values, wrong
from safetensors_c import Run
from safetensors_c.dcp import StepWriter, StorageReader, StorageWriter
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


def refuse(path, kind):
    odd = {"g": object()} if kind == "object" else torch.ones(3, dtype=torch.complex128)
    try:
        dcp.save({"w": torch.ones(3), "f": odd}, storage_writer=StorageWriter(path))
        tell(error=None)
    except BaseException as e:  # CheckpointException
        tell(error=str(e), there=os.path.exists(path))


def problem(path, seed):
    """Why a checkpoint cannot be loaded, or is not that of the seed; None: it is."""
    model, optimizer = state_of("1")
    weights, moments = get_state_dict(model, optimizer)
    state = {"model": weights, "optimizer": moments}
    try:
        dcp.load(state, storage_reader=StorageReader(path))
    except BaseException as e:  # CheckpointException
        return str(e)
    set_state_dict(model, optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"])
    return ", ".join(wrong(model, optimizer, seed)) or None


def steps_in(path):
    return sorted(int(name[5:]) for name in os.listdir(path) if name.startswith("step-"))


def train(path):
    """Checks what is there, then saves step after step until it is killed, or fails as another one was."""
    there = steps_in(path)
    tell(at=max(there, default=0), problems=[problem(f"{path}/step-{n}", n) for n in there[-4:]])
    for step in range(max(there, default=0) + 1, 100000):
        model, optimizer = state_of(step)
        weights, moments = get_state_dict(model, optimizer)
        try:
            state = {"model": weights, "optimizer": moments}
            dcp.save(state, storage_writer=StorageWriter(f"{path}/step-{step}"))
        except BaseException as e:  # CheckpointException, or of the backend
            tell(error=type(e).__name__)
            os._exit(3)
        tell(committed=step)


def check(path):
    tell(problems={n: problem(f"{path}/step-{n}", n) for n in steps_in(path)})


def why(path):
    tell(problem=problem(path, "7"))


def full(path):
    """A first checkpoint fits, the next one does not; then what is left is smaller again."""
    save(f"{path}/step-1")
    model, optimizer = state_of("7")
    more = [torch.ones(1_000_000), torch.ones(1_000_000)]
    try:
        state = {"model": model.state_dict(), "more": more}
        dcp.save(state, storage_writer=StorageWriter(f"{path}/step-2"))
        tell(error=None)
    except BaseException as e:  # CheckpointException
        tell(error=str(e))
    dist.barrier()
    left = [os.path.join(d, n) for d, _, names in os.walk(path) for n in names]
    tell(there=sorted(os.listdir(path)), left=[n for n in left if "step-1" not in n])
    tell(problem=problem(f"{path}/step-1", "7"))
    save(f"{path}/step-3")
    tell(problem=problem(f"{path}/step-3", "7"))


def damaged(path):
    """Bytes of every file are changed, and every file is removed: what the error says."""
    save(f"{path}/step")
    for name in sorted(os.listdir(f"{path}/step")):
        where = f"{path}/step/{name}"
        with open(where, "rb") as f:
            data = f.read()
        dist.barrier()
        for at in [*range(0, len(data), max(1, len(data) // 40)), len(data) - 1, "missing", "cut"]:
            if dist.get_rank() == 0:
                damage(where, data, at)
            dist.barrier()
            tell(name=name, at=at, problem=problem(f"{path}/step", "7"))
            dist.barrier()
        if dist.get_rank() == 0:
            with open(where, "wb") as f:
                f.write(data)
        dist.barrier()
    tell(name=None, problem=problem(f"{path}/step", "7"))
    if dist.get_rank() == 0:
        shutil.rmtree(f"{path}/step")


def step(path):
    """A step of a run, between two that Run.save writes."""
    model, optimizer = state_of("7")
    weights, moments = get_state_dict(model, optimizer)
    state = {"model": weights, "optimizer": moments, "extra": EXTRA}
    with Run(path, group=dist.group.WORLD, timeout=20, keep_last=3) as run:
        run.save(1, model=model).committed.result()
        dcp.save(state, storage_writer=StepWriter(run, 2, metrics={"loss": 0.5}))
        tell(latest=open(f"{path}/latest").read().strip() if dist.get_rank() == 0 else None)
        for number, more in ((2, {}), (3, {"f": {"g": object()}})):
            try:
                dcp.save({**state, **more}, storage_writer=StepWriter(run, number))
                tell(error=None)
            except BaseException as e:  # CheckpointException
                tell(error=str(e))
        future = dcp.async_save(state, storage_writer=StepWriter(run, 4))
        try:
            future.result()
            tell(error=None)
        except BaseException as e:
            tell(error=str(e))
        run.save(5, model=model).committed.result()


def damage(where, data, at):
    if at == "missing":
        os.unlink(where)
        return
    changed = bytearray(data)
    if at == "cut":
        del changed[-1]
    else:
        changed[at] ^= 1
    with open(where, "wb") as f:
        f.write(changed)


if __name__ == "__main__":
    dist.init_process_group("cpu:gloo", timeout=timedelta(seconds=30))
    globals()[sys.argv[1]](*sys.argv[2:])
    dist.barrier()
    os._exit(0)  # torch 2.13 aborts now and then as it takes this backend down
