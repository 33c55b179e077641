# SPDX-License-Identifier: Apache-2.0 OR MIT
"""group_worker.py WHAT ... - one process of a job that torchrun starts for test_run_group.py: a small training with DTensors."""

from __future__ import annotations

import faulthandler
import json
import os
import random
import sys
import time
import warnings

import torch
import torch.distributed as dist
from safetensors_c import Run, SafetensorError
from safetensors_c.run import Batches
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor

torch.set_num_threads(1)
RANK, SIZE = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])


def model():
    torch.manual_seed(5)
    inner = torch.nn.Sequential(
        torch.nn.Linear(7, 13),
        torch.nn.BatchNorm1d(13),
        torch.nn.ReLU(),
        torch.nn.Linear(13, 3),
    )
    inner[0].bias.requires_grad_(False)
    return inner


def objects(kind):
    """Model and optimizer: of FSDP2, of data parallel replicas, or whole in each process."""
    whole = model()
    if kind == "fsdp":
        mesh = init_device_mesh("cpu", (SIZE,))
        fully_shard(whole[0], mesh=mesh)
        fully_shard(whole, mesh=mesh)
    elif kind == "ddp":
        whole = torch.nn.parallel.DistributedDataParallel(whole)
    trained = [p for p in whole.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=0.01, foreach=False)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 50)
    data = torch.utils.data.TensorDataset(torch.arange(64.0).reshape(64, 1))
    loader = Batches(torch.utils.data.DataLoader(data, batch_size=4, shuffle=True))
    return {"model": whole, "optimizer": optimizer, "scheduler": scheduler, "loader": loader}


def values(whole, optimizer, seed):
    """Puts known values everywhere: as unsharded tensors they depend on the seed and the name alone."""
    inner = whole.module if hasattr(whole, "module") else whole
    for name, p in sorted(inner.named_parameters()):
        put(p.detach(), f"{name}/{seed}")
        if p.requires_grad:
            p.grad = torch.zeros_like(p)
    optimizer.step()
    for name, p in sorted(inner.named_parameters()):
        put(p.detach(), f"{name}/{seed}")
        for key, value in optimizer.state.get(p, {}).items():
            if key != "step":
                put(value, f"{name}/{key}/{seed}")
    for name, b in sorted(inner.named_buffers()):
        if b.is_floating_point():
            put(b, f"{name}/{seed}")


def known(name, shape, dtype):
    g = torch.Generator().manual_seed(int.from_bytes(name.encode()[-6:], "little") ^ hash_of(name))
    return torch.randn(shape, generator=g).to(dtype)


def hash_of(name):
    import zlib

    return zlib.crc32(name.encode())


def put(tensor, name):
    whole = known(name, tuple(tensor.shape), tensor.dtype)
    if isinstance(tensor, DTensor):
        local = distribute_tensor(whole, tensor.device_mesh, tensor.placements, src_data_rank=None).to_local()
        tensor.to_local().copy_(local)
    else:
        tensor.copy_(whole)


def wrong(whole, optimizer, seed):
    """Names whose values are not the known ones, bit for bit."""
    inner = whole.module if hasattr(whole, "module") else whole
    out = []

    def look(tensor, name):
        truth = known(f"{name}/{seed}", tuple(tensor.shape), tensor.dtype)
        if isinstance(tensor, DTensor):
            tensor, truth = (
                tensor.to_local(),
                distribute_tensor(
                    truth, tensor.device_mesh, tensor.placements, src_data_rank=None
                ).to_local(),
            )
        if not torch.equal(tensor, truth):
            out.append(name)

    seen = 0
    for name, p in inner.named_parameters():
        look(p.detach(), name)
        for key, value in optimizer.state.get(p, {}).items():
            if key != "step":
                look(value, f"{name}/{key}")
                seen += 1
    for name, b in inner.named_buffers():
        if b.is_floating_point():
            look(b, name)
    assert seen == 2 * sum(p.requires_grad for p in inner.parameters()), seen
    return out


def opened(path, timeout=20.0, **more):
    return Run(path, group=dist.group.WORLD, timeout=timeout, **more)


def tell(**facts):
    os.write(1, (json.dumps({"rank": RANK, **facts}) + "\n").encode())  # at once: others write there, too


def batches(loader, count):
    """The numbers of the next `count` batches."""
    out = []
    for batch in loader:
        out.append(batch[0].reshape(-1).tolist())
        if len(out) == count:
            break
    return out


def save(path, kind, step):
    state = objects(kind)
    values(state["model"], state["optimizer"], step)
    state["scheduler"].step()
    random.seed(100 * RANK + int(step))
    torch.manual_seed(1000 * RANK + int(step))
    taken = iter(state["loader"])
    next(taken), next(taken)
    with opened(path) as run:
        run.save(int(step), **state, extra={"mine": RANK, "same": [1, 2.5], "of": torch.tensor([RANK])})
        after = [random.random(), torch.rand(2).tolist(), [b[0].reshape(-1).tolist() for b in taken]]
    tell(after=after, lr=state["scheduler"].get_last_lr())


def resume(path, kind, step):
    state = objects(kind)
    with opened(path) as run, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found, extra = run.resume(**state)
        left = sorted(run.left_behind)
    after = None
    if not left:
        rest = [b[0].reshape(-1).tolist() for b in state["loader"]]
        after = [random.random(), torch.rand(2).tolist(), rest]
    tell(
        found=found,
        wrong=wrong(state["model"], state["optimizer"], int(step)),
        steps=[float(s["step"]) for s in state["optimizer"].state.values()],
        lr=state["scheduler"].get_last_lr(),
        extra={**extra, "of": extra["of"].tolist()},
        left=left,
        told=[str(w.message) for w in caught if "was saved by" in str(w.message)],
        after=after,
    )


def train(path, kind, last):
    """Saves every step; says which are committed, so that the test knows what must not be lost. It is killed, or ends at
    `last`, or at an error, which it tells."""
    faulthandler.dump_traceback_later(40, exit=True)
    state = objects(kind)
    with opened(path, timeout=4.0) as run:
        found, _ = run.resume(**state)
        tell(at=found, wrong=wrong(state["model"], state["optimizer"], found) if found else [])
        for step in range(found + 1, int(last) + 1):
            values(state["model"], state["optimizer"], step)
            begun = time.monotonic()
            try:
                handle = run.save(step, **state)
                handle.committed.result()
            except (SafetensorError, OSError) as e:
                tell(error=str(e), kind=type(e).__name__, after=time.monotonic() - begun)
                os._exit(3)
            tell(committed=step)


def disagree(path):
    """Rank 1 saves another step than the others; then it has a state that cannot be kept."""
    linear = torch.nn.Linear(3, 3)
    run = opened(path)
    for step, extra in ((5 if RANK == 1 else 4, None), (6, lambda: 0 if RANK == 1 else None)):
        try:
            run.save(step, model=linear, extra=extra if RANK == 1 else None)
            tell(error=None)
        except (SafetensorError, TypeError) as e:
            tell(error=str(e), kind=type(e).__name__)
    other = torch.nn.Linear(3, 3, bias=RANK != 2)
    try:
        run.save(7, model=other)
        tell(error=None)
    except SafetensorError as e:
        tell(error=str(e), kind=type(e).__name__)
    optimizer = torch.optim.SGD(linear.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    try:
        run.save(7, model=linear, **({} if RANK == 1 else {"scheduler": scheduler}))
        tell(error=None)
    except SafetensorError as e:
        tell(error=str(e), kind=type(e).__name__)
    try:
        run.resume(model=linear) if RANK == 1 else run.save(7, model=linear)
        tell(error=None)
    except SafetensorError as e:
        tell(error=str(e), kind=type(e).__name__)
    run.save(8, model=linear, extra=RANK or None).committed.result()
    run.close()
    tell(steps=[s["step"] for s in Run(path, read_only=True).steps()])


def back(path):
    """A step below the newest is an error in all; all rewind, and train on."""
    linear = torch.nn.Linear(3, 3)
    with opened(path) as run:
        for step in (10, 20, 30):
            run.save(step, model=linear)
        try:
            run.save(15, model=linear)
            tell(error=None)
        except FileExistsError as e:
            tell(error=str(e))
        run.wait()
        try:
            run._begin_training(10, False, "rewind=True")
            tell(error=None)
        except FileExistsError as e:
            tell(error=str(e))
        for wrong in (  # another number, in one process alone
            lambda: run.rewind(10 if RANK == 0 else 20),
            lambda: run.rewind(10 if RANK == 0 else None),
            lambda: run.resume(model=linear, step=10, rewind=RANK == 0),
            lambda: run.resume(model=linear, step=10 if RANK == 0 else 20),
            lambda: run.save(-1 if RANK == 1 else 40, model=linear),
        ):
            try:
                wrong()
                tell(error=None)
            except SafetensorError as e:
                tell(error=str(e))
            except ValueError as e:
                tell(error=str(e))
        tell(steps=[s["step"] for s in run.steps()])
        run.resume(model=linear, step=10, rewind=True)
        run.save(15, model=linear).committed.result()
    tell(steps=[s["step"] for s in Run(path, read_only=True).steps()])


def absent(path):
    """Rank 2 does not open the run."""
    if RANK == 2:
        time.sleep(4)
        return
    begun = time.monotonic()
    try:
        opened(path, timeout=1.5)
        tell(error=None)
    except SafetensorError as e:
        tell(error=str(e), status=e.status, after=time.monotonic() - begun)
    time.sleep(3)  # the launcher ends the others as soon as one fails


def late(path):
    """Rank 2 comes to a save when the others have given up: what the training exchanges then is its own."""
    run = opened(path, timeout=1.5)
    linear = torch.nn.Linear(4, 4)
    run.save(1, model=linear).committed.result()
    if RANK == 2:
        time.sleep(4)
    try:
        run.save(2, model=linear)
        error = None
    except SafetensorError as e:
        error = str(e)
    gathered = []
    for n in (1, 2, 1):
        out = [torch.zeros(n, dtype=torch.int64) for _ in range(dist.get_world_size())]
        dist.all_gather(out, torch.full((n,), RANK, dtype=torch.int64))
        gathered.append([x.tolist() for x in out])
    tell(error=error, gathered=gathered)
    dist.barrier()


def twice(path):
    """Two groups open one run."""
    pairs = [dist.new_group([0, 1]), dist.new_group([2, 3])]
    mine = pairs[RANK // 2]
    if RANK >= 2:
        dist.barrier()
    try:
        run = Run(path, group=mine, timeout=20)
        tell(error=None)
    except SafetensorError as e:
        run = None
        tell(error=str(e), status=e.status)
    if RANK < 2:
        dist.barrier()
    dist.barrier()
    if run is not None:
        run.close()


def guard(path, kind, agree, every=0):
    """Trains until it is told to end, or another process is missing."""
    state = objects(kind)
    with opened(path, timeout=2.0) as run:
        found, _ = run.resume(**state)
        tell(
            at=found, pid=os.getpid(), wrong=wrong(state["model"], state["optimizer"], found) if found else []
        )
        begun, spent = time.monotonic(), 0.0
        try:
            with run.guard(int(every), agree=int(agree), **state) as guard:
                for step in range(found + 1, 100000):
                    values(state["model"], state["optimizer"], step)
                    begun = time.monotonic()
                    guard.step(step)
                    spent += time.monotonic() - begun
        except SafetensorError as e:
            tell(error=str(e), status=e.status, after=time.monotonic() - begun)
            os._exit(3)
        finally:
            tell(last=step, each=spent / (step - found))


def at_odds(path):
    """Rank 1 is a step ahead; then the block ends in one process by an exception, which the others learn of."""
    linear = torch.nn.Linear(3, 3)
    with opened(path, timeout=2.0) as run:
        run.save(1, model=linear).committed.result()
        try:
            with run.guard(model=linear) as guard:
                guard.step(3 if RANK == 1 else 2)
        except SafetensorError as e:
            tell(error=str(e), status=e.status)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                with run.guard(model=linear) as guard:
                    guard.step(2)
                    if RANK == 1:
                        raise KeyError("x")
                    guard.step(3)
            except (KeyError, SafetensorError) as e:
                tell(error=str(e), told=[str(w.message) for w in caught])
        time.sleep(5)
    os._exit(0)


def main():
    dist.init_process_group("gloo")
    globals()[sys.argv[1]](*sys.argv[2:])
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
