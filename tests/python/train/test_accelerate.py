# SPDX-License-Identifier: Apache-2.0 OR MIT
"""safetensors_c.accelerate with accelerate itself: killed and resumed, what save_state keeps, what is refused."""

import os
import pathlib
import sys
import warnings

import pytest
import torch
from accelerate import Accelerator, DataLoaderConfiguration
from accelerate.utils import DistributedDataParallelKwargs, DistributedType
from common import assert_no_pickle, compare, no_room, say, train, train_together
from safetensors_c import Run, SafetensorError
from safetensors_c.accelerate import load_state, save_state
from safetensors_c.run import Batches

EPOCHS, EACH = 3, 10


class Average:
    """An object of the program, as register_for_checkpointing takes it."""

    def __init__(self):
        self.value = 0.0

    def state_dict(self):
        return {"value": self.value}

    def load_state_dict(self, state):
        self.value = state["value"]


def prepared(stateful=False, seedable=True, hidden=16):
    torch.manual_seed(11)
    config = DataLoaderConfiguration(use_stateful_dataloader=stateful, use_seedable_sampler=seedable)
    same = DistributedDataParallelKwargs(find_unused_parameters=os.environ.get("WORLD_SIZE") == "3")
    accelerator = Accelerator(
        cpu=True, dataloader_config=config, gradient_accumulation_steps=2, kwargs_handlers=[same]
    )
    model = torch.nn.Sequential(
        torch.nn.Linear(6, hidden),
        torch.nn.Dropout(0.0 if stateful else 0.2),
        torch.nn.ReLU(),
        torch.nn.Linear(hidden, 2),
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.02)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda n: 1 / (1 + 0.1 * n))
    g = torch.Generator().manual_seed(1)
    x = torch.randn(EACH * 8 * accelerator.num_processes, 6, generator=g)
    loader = torch.utils.data.DataLoader(
        torch.utils.data.TensorDataset(x, (x.sum(1) > 0).long()), batch_size=8, shuffle=True
    )
    model, optimizer, loader, scheduler = accelerator.prepare(model, optimizer, loader, scheduler)
    average = Average()
    accelerator.register_for_checkpointing(average)
    torch.manual_seed(20 + accelerator.process_index)
    return accelerator, model, optimizer, loader, scheduler, average


def go_on(path, stateful, seedable=True):
    """A stateful loader goes on at the right batch, but making its iterator draws random numbers: without dropout then."""
    accelerator, model, optimizer, loader, scheduler, average = prepared(stateful, seedable)
    batches = loader if stateful else Batches(loader)
    more = {} if stateful else {"batches": batches}
    told = [f"{accelerator.process_index}:"] if accelerator.num_processes > 1 else []
    if told:
        say("pid", os.getpid())
    with Run(path, keep_last=2, group=torch.distributed.group.WORLD) as run:
        step, extra = load_state(run, accelerator, **more)
        for epoch in range((extra or {"epoch": 0})["epoch"], EPOCHS):
            for x, y in batches:
                with accelerator.accumulate(model):
                    loss = torch.nn.functional.cross_entropy(model(x), y)
                    accelerator.backward(loss)
                    optimizer.step()
                    scheduler.step()
                    optimizer.zero_grad()
                step += 1
                average.value += 0.1 * (loss.item() - average.value)
                weights = sum(p.detach().double().sum().item() for p in model.parameters())
                values = (loss.item(), average.value, scheduler.get_last_lr()[0], weights)
                say("".join([*told, f"{step:03d}"]), *(v.hex() for v in values))
                if step % EACH and step % 2 == 0:
                    save_state(run, accelerator, step, extra={"epoch": epoch}, **more)
            save_state(run, accelerator, step, extra={"epoch": epoch + 1}, **more)


@pytest.mark.parametrize("stateful", [False, True])
def test_a_killed_training_goes_on_as_if_it_had_not_been(tmp_path, stateful):
    whole, status = train(__file__, tmp_path / "whole", stateful)
    assert status == 0 and len(whole) == EPOCHS * EACH
    pieces = []
    for kill in (7, 6, 9, None):
        lines, status = train(__file__, tmp_path / "run", stateful, kill_after=kill)
        assert status == (0 if kill is None else -9)
        pieces.append(lines)
    compare(whole, pieces)
    assert len(pieces[-1]) < len(whole)
    assert_no_pickle(tmp_path / "run")


@pytest.mark.parametrize(("size", "stateful"), [(2, False), (2, True), (2, "plain"), (3, False)])
def test_two_processes_are_killed_and_go_on(tmp_path, size, stateful):
    """Three with buckets that DDP does not make anew, so that it adds gradients in the same order. "plain": with the sampler that
    accelerate takes if nothing is said, beneath the parts of batches that each process has."""
    whole, status = train_together(size, __file__, tmp_path / "whole", stateful)
    assert status == 0 and len(whole) == size * EPOCHS * EACH
    pieces = []
    for kill in (14, 16, None):
        lines, status = train_together(size, __file__, tmp_path / "run", stateful, kill_after=kill)
        assert (status == 0) == (kill is None)
        pieces.append(lines)
    compare(whole, pieces)
    assert len(pieces[-1]) < len(whole)
    if stateful is False:  # each has its own random states
        assert {x.split()[1] for x in whole if x[0] == "0"} != {x.split()[1] for x in whole if x[0] == "1"}
    assert_no_pickle(tmp_path / "run")


def test_another_number_of_processes(tmp_path):
    lines, status = train_together(2, __file__, tmp_path / "run", False)
    assert status == 0
    accelerator, model, optimizer, loader, scheduler, average = prepared()
    random = torch.get_rng_state()
    with Run(tmp_path / "run") as run, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        step, extra = load_state(run, accelerator, batches=Batches(loader))
        assert step == EPOCHS * EACH and extra == {"epoch": EPOCHS}
        assert run.left_behind == {"batches", "rng.torch", "rng.numpy", "rng.python"}
    [told] = [str(w.message) for w in caught if "processes" in str(w.message)]
    assert "saved by 2 processes, and 1 resume it; not put back" in told and "rng.torch" in told
    assert "rank 0's, of several that differed" in told and "custom.0" in told
    assert torch.equal(random, torch.get_rng_state())
    _, value, lr, weights = lines[len(lines) // 2 - 1].split()[1:]
    assert average.value.hex() == value and scheduler.get_last_lr()[0].hex() == lr
    assert sum(p.detach().double().sum().item() for p in model.parameters()).hex() == weights
    assert all(s["step"] == EPOCHS * EACH // 2 for s in optimizer.state.values())


def test_all_that_save_state_keeps(tmp_path):
    """Accelerate's own list: models, optimizers, schedulers, samplers, random states, custom objects, its counter."""
    accelerator, model, optimizer, loader, scheduler, average = prepared()
    for x, y in loader:
        with accelerator.accumulate(model):
            accelerator.backward(torch.nn.functional.cross_entropy(model(x), y))
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()
    average.value = 4.5
    accelerator.save_state(tmp_path / "theirs")
    with Run(tmp_path / "run") as run:
        save_state(run, accelerator, 10, metrics={"loss": 1.5}).committed.result()
        states = []
        for ours in (False, True):
            other, model2, optimizer2, loader2, scheduler2, average2 = prepared()
            for batch in loader2:
                assert len(batch) == 2
            torch.rand(7)
            if ours:
                assert load_state(run, other).step == 10
            else:
                other.load_state(tmp_path / "theirs")
            values = [average2.value, other.step, scheduler2.state_dict(), torch.rand(3).tolist()]
            values += [x.tolist() for x, _ in loader2]
            values += [p.tolist() for p in model2.parameters()]
            saved = optimizer2.state_dict()
            values += [
                {k: v.tolist() if torch.is_tensor(v) else v for k, v in s.items()}
                for s in saved["state"].values()
            ]
            values.append(saved["param_groups"])
            states.append(values)
        assert states[0][0] == 4.5
        assert states[0] == states[1]


def test_two_models_and_two_optimizers(tmp_path):
    accelerator = Accelerator(cpu=True)
    models = [torch.nn.Linear(2, 3), torch.nn.Linear(3, 1)]
    optimizers = [torch.optim.SGD(m.parameters(), lr=0.1, momentum=0.9) for m in models]
    prepared_ = accelerator.prepare(*models, *optimizers)
    loss = prepared_[1](prepared_[0](torch.ones(4, 2))).sum()
    accelerator.backward(loss)
    for o in prepared_[2:]:
        o.step()
    with Run(tmp_path / "run") as run:
        save_state(run, accelerator, 1).committed.result()
        kept = [p.clone() for m in models for p in m.parameters()]
        for m in models:
            for p in m.parameters():
                p.data.zero_()
        assert load_state(run, accelerator).step == 1
        assert all(torch.equal(a, p) for a, p in zip(kept, (p for m in models for p in m.parameters())))


def test_what_is_refused(tmp_path):
    accelerator = prepared()[0]
    with Run(tmp_path / "run") as run:
        save_state(run, accelerator, 1).committed.result()
        handle = accelerator.register_save_state_pre_hook(lambda models, weights, directory: None)
        with pytest.raises(TypeError, match="hooks"):
            save_state(run, accelerator, 2)
        handle.remove()
        with pytest.raises(SafetensorError, match=r"0\.weight.*\[16, 6\].*\[5, 6\]"):
            load_state(run, prepared(hidden=5)[0])
        with pytest.raises(SafetensorError, match="stateful"):
            load_state(run, prepared(stateful=True)[0])

        class Odd:
            def state_dict(self):
                return {"of": {"mine": object()}}

            def load_state_dict(self, state):
                pass

        other = prepared()[0]
        other.register_for_checkpointing(Odd())
        with pytest.raises(TypeError, match=r"object.*custom\.1\.of\.mine"):
            save_state(run, other, 3)
        other = prepared()[0]
        other.state._shared_state["num_processes"] = 2
        try:
            with pytest.raises(TypeError, match="2 processes, the run 1.*group="):
                save_state(run, other, 4)
        finally:
            other.state._shared_state["num_processes"] = 1
        for kind in ("FSDP", "DEEPSPEED", "MEGATRON_LM"):
            other.state._shared_state["distributed_type"] = DistributedType(kind)
            try:
                with pytest.raises(TypeError, match=f"whole in each process, not those of {kind}"):
                    save_state(run, other, 4)
            finally:
                other.state._shared_state["distributed_type"] = DistributedType.NO


def test_a_failed_save_is_raised_and_old_steps_stay(tmp_path):
    accelerator = prepared()[0]
    with Run(tmp_path / "run") as run:
        save_state(run, accelerator, 1).committed.result()
        with no_room():
            save_state(run, accelerator, 2).staged.result()
            with pytest.raises((OSError, SafetensorError), match="too large"):
                run.wait()
        save_state(run, accelerator, 3).committed.result()
    with Run(tmp_path / "run") as run:
        assert [s["step"] for s in run.steps()] == [1, 3]


if __name__ == "__main__":
    torch.use_deterministic_algorithms(True)
    go_on(pathlib.Path(sys.argv[1]), sys.argv[2] == "True", sys.argv[2] != "plain")
