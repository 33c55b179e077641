# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Run: loaders, samplers and plain loaders in Batches go on with the next batch."""

import warnings

import numpy as np
import pytest
import torch
from run_parts import Position
from safetensors_c import Run
from safetensors_c.run import Batches


def test_an_epoch_that_is_left_is_begun_anew(tmp_path):
    """Steps per epoch by break: a training that goes on, and one that is resumed, see the same batches."""

    def epoch(batches, most):
        out = []
        for batch in batches:
            out.append(batch.tolist())
            if len(out) == most:
                break
        return out

    for save_inside in (False, True):
        torch.manual_seed(2)
        batches = Batches(torch.utils.data.DataLoader(torch.arange(12), batch_size=2, shuffle=True))
        place = tmp_path / str(save_inside)
        with Run(place) as run:
            epoch(batches, 3)
            expected = []
            if save_inside:
                for batch in batches:
                    if expected:
                        expected.append(batch.tolist())
                    else:
                        expected.append(None)
                        run.save(1, loader=batches).committed.result()
                expected = [expected[1:]]
            else:
                run.save(1, loader=batches).committed.result()
            expected += [epoch(batches, 3), epoch(batches, 9)]
            torch.manual_seed(3)
            again = Batches(torch.utils.data.DataLoader(torch.arange(12), batch_size=2, shuffle=True))
            old = iter(again)
            next(old)
            run.resume(loader=again)
            old.close()
            lengths = (9, 3, 9) if save_inside else (3, 9)
            assert [epoch(again, most) for most in lengths] == expected


def test_loaders_and_samplers(tmp_path):
    loader, sampler = Position(), torch.utils.data.DistributedSampler(range(9), 3, 0)
    loader.at["workers"][1]["seen"] = 5
    sampler.set_epoch(4)
    with Run(tmp_path) as run:
        run.save(1, loader=loader, sampler=sampler, nothing=None)
        run.wait()
        loader2, sampler2 = Position(), torch.utils.data.DistributedSampler(range(9), 3, 0)
        run.resume(loader=loader2, sampler=sampler2)
        assert sampler2.epoch == 4 and loader2.at["workers"][1] == {"seen": 5}
        assert type(loader2.at["workers"][0]["rng"]) is np.ndarray
        with pytest.raises(TypeError, match="at loader.*Batches"):
            run.save(2, loader=torch.utils.data.DataLoader(range(3)))


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("own", [False, True])
def test_batches_of_a_plain_loader(tmp_path, workers, own):
    def make():
        generator = torch.Generator().manual_seed(1) if own else None
        data = torch.utils.data.DataLoader(
            torch.arange(10), batch_size=2, shuffle=True, num_workers=workers, generator=generator
        )
        return Batches(data)

    def rest(batches, epochs):
        out = []
        for _ in range(epochs):
            out.append([(b.tolist(), torch.rand(()).item()) for b in batches])
        return out

    for taken in (0, 2, 5):
        batches = make()
        torch.manual_seed(8)
        rest(batches, 1)
        at = iter(batches)
        for _ in range(taken):
            next(at)
        with Run(tmp_path / str(taken)) as run:
            run.save(1, loader=batches)
            expected = [[(b.tolist(), torch.rand(()).item()) for b in at], *rest(batches, 2)]
            run.wait()
            batches = make()
            run.resume(loader=batches)
            if taken == 0:  # an iterator of which nothing was taken is an epoch that has not begun
                expected = expected[1:] if not expected[0] else expected
            assert rest(batches, 3)[: len(expected)] == expected


def shuffled(**more):
    return Batches(torch.utils.data.DataLoader(torch.arange(20), 4, shuffle=True, **more))


@pytest.mark.parametrize("at", [1, 2, 5, 7])
def test_what_is_drawn_before_the_first_batch(tmp_path, at):
    def go_on(batches, run, step):
        seen, iterator = [], iter(batches)
        while step < 9:
            noise = torch.randn(2).tolist()
            try:
                batch = next(iterator)
            except StopIteration:
                iterator = iter(batches)
                batch = next(iterator)
            step += 1
            seen.append((noise, batch.tolist()))
            if step == at and run is not None:
                run.save(step, loader=batches)
        return seen

    torch.manual_seed(0)
    with Run(tmp_path) as run:
        whole = go_on(shuffled(), run, 0)
        run.wait()
        torch.manual_seed(1)
        batches = shuffled()
        run.resume(loader=batches)
        assert go_on(batches, None, at) == whole[at:]


@pytest.mark.parametrize("at", [3, 7])
def test_batches_of_workers_that_persist(tmp_path, at):
    def go_on(batches, run, step, epoch):
        seen = []
        while epoch < 3:
            for batch in batches:
                step += 1
                seen.append(batch.tolist())
                torch.rand(1)
                if step == at and run is not None:
                    run.save(step, loader=batches, extra=epoch)
            epoch += 1
        return seen

    torch.manual_seed(0)
    with Run(tmp_path) as run:
        whole = go_on(shuffled(num_workers=1, persistent_workers=True), run, 0, 0)
        run.wait()
        torch.manual_seed(1)
        batches = shuffled(num_workers=1, persistent_workers=True)
        step, epoch = run.resume(loader=batches)
        assert go_on(batches, None, step, epoch) == whole[at:]


def test_a_batch_sampler_of_the_programs_own(tmp_path):
    def made():
        g = torch.Generator().manual_seed(3)
        data = torch.arange(24)
        sampler = torch.utils.data.RandomSampler(data, generator=g)
        return Batches(
            torch.utils.data.DataLoader(data, batch_sampler=torch.utils.data.BatchSampler(sampler, 4, False))
        )

    def rest(batches, epochs):
        return [x.tolist() for _ in range(epochs) for x in batches]

    for begun in (0, 2):
        whole = made()
        list(whole)
        taken = iter(whole)
        for _ in range(begun):
            next(taken)
        with Run(tmp_path / f"run{begun}") as run:
            run.save(1, loader=whole)
            expected = [x.tolist() for x in taken] + rest(whole, 2)
            other = made()
            run.resume(loader=other)
            assert rest(other, 3) == expected


@pytest.mark.parametrize("at", range(1, 13))
def test_loaders_that_share_a_generator(tmp_path, at):
    """Each begins its next epoch when the other is within one."""

    def make():
        generator = torch.Generator().manual_seed(5)
        return {
            k: Batches(torch.utils.data.DataLoader(torch.arange(n), 2, shuffle=True, generator=generator))
            for k, n in (("a", 8), ("b", 6))
        }

    def stream(loader):
        while True:
            yield from loader

    def go_on(loaders, run, step):
        a, b, seen = stream(loaders["a"]), stream(loaders["b"]), []
        while step < 16:
            seen.append((next(a).tolist(), next(b).tolist()))
            step += 1
            if step == at and run is not None:
                run.save(step, loader=loaders)
        return seen

    with Run(tmp_path) as run:
        expected = go_on(make(), run, 0)[at:]
        run.wait()
        loaders = make()
        assert go_on(loaders, None, run.resume(loader=loaders).step) == expected


@pytest.mark.parametrize(
    "more, warned", [({"replacement": True}, True), ({"num_samples": 99}, True), ({}, False)]
)
def test_a_shared_generator_that_is_drawn_from_within_an_epoch_is_warned_of(tmp_path, more, warned):
    generator = torch.Generator()
    data = torch.arange(8)
    sampler = torch.utils.data.RandomSampler(data, generator=generator, **more)
    one = Batches(torch.utils.data.DataLoader(data, 2, sampler=sampler))
    other = Batches(torch.utils.data.DataLoader(data, 2, shuffle=True, generator=generator))
    with Run(tmp_path) as run, warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for step in (1, 2):
            run.save(step, loader={"one": one, "other": other})
    assert [str(w.message)[:51] for w in said] == [
        "loader.one and loader.other share a torch.Generator"
    ] * warned


def test_two_iterations_at_a_time_are_warned_of(tmp_path):
    loader = Batches(torch.utils.data.DataLoader(torch.arange(8), 2, shuffle=True))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        first = iter(loader)
        next(first)
        first = iter(loader)  # in its place
        next(first)
        list(first)
    with pytest.warns(UserWarning, match="two iterations over one Batches") as said:
        list(zip(loader, loader))
    assert len(said) == 1
