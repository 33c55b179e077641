# SPDX-License-Identifier: Apache-2.0 OR MIT
"""torchdata's StatefulDataLoader in a run: a resumed training sees the very batches that one sees which never stopped."""

import itertools
import random

import pytest
import torch
from safetensors_c import Run
from torchdata.stateful_dataloader import StatefulDataLoader
from torchdata.stateful_dataloader.sampler import RandomSampler, StatefulDistributedSampler


class Items(torch.utils.data.Dataset):
    def __len__(self):
        return 23

    def __getitem__(self, i):
        return torch.tensor([i, i * i])


class Counting(torch.utils.data.IterableDataset):
    """An iterable that says where it is; each worker has its share, drawn with noise of its own generator."""

    def __init__(self):
        self.at = 0
        self.noise = torch.Generator()
        self.resumed = False

    def __iter__(self):
        info = torch.utils.data.get_worker_info()
        worker, workers = (info.id, info.num_workers) if info else (0, 1)
        self.at *= self.resumed
        if self.at == 0:
            self.noise.manual_seed(worker)
        self.resumed = False
        while self.at < 12:
            self.at += 1
            yield torch.tensor(
                [self.at * workers + worker, int(torch.randint(0, 99, (), generator=self.noise))]
            )

    def state_dict(self):
        return {"at": self.at, "noise": self.noise.get_state()}

    def load_state_dict(self, state):
        self.at = state["at"]
        self.noise.set_state(state["noise"])
        self.resumed = True


def shuffled(workers, **how):
    return StatefulDataLoader(Items(), batch_size=3, shuffle=True, num_workers=workers, **how)


def persistent(workers):
    return shuffled(workers, persistent_workers=workers > 0)


def own_generator(workers):
    return shuffled(workers, generator=torch.Generator().manual_seed(7))


def replacing(workers):
    """More than the 32 numbers that the sampler draws at a time."""
    sampler = RandomSampler(Items(), replacement=True, num_samples=70)
    return StatefulDataLoader(Items(), batch_size=3, sampler=sampler, num_workers=workers)


def every_second(workers):
    return shuffled(workers, snapshot_every_n_steps=2)


def distributed(workers):
    sampler = StatefulDistributedSampler(Items(), num_replicas=2, rank=1, shuffle=True, seed=5)
    return StatefulDataLoader(Items(), batch_size=2, sampler=sampler, num_workers=workers)


def iterable(workers):
    return StatefulDataLoader(Counting(), batch_size=2, num_workers=workers)


def begin():
    random.seed(1)
    torch.manual_seed(2)


def batches(loader):
    """Of epochs without end, each with a number of the process's own generator."""
    while True:
        for batch in loader:
            yield batch.tolist(), torch.rand(()).item()


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize(
    "make", [shuffled, persistent, own_generator, replacing, every_second, distributed, iterable]
)
def test_the_batches_go_on(tmp_path, make, workers):
    begin()
    loader = make(workers)
    going = batches(loader)
    next(going)
    length = sum(1 for _ in make(0))
    for taken in (1, 2, length - 1, length + 1):  # in the first epoch and in the second
        begin()
        loader = make(workers)
        going = batches(loader)
        list(itertools.islice(going, taken))
        with Run(tmp_path / str(taken)) as run:
            run.save(taken, loader=loader).committed.result(60)
            expected = list(itertools.islice(going, length + 3))
            torch.manual_seed(99)
            other = make(workers)
            assert run.resume(loader=other).step == taken
            assert list(itertools.islice(batches(other), length + 3)) == expected, f"after {taken}"
