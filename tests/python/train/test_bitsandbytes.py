# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Optimizers of bitsandbytes in a run, states of 8 bits among them, as its build for the CPU runs them: trainings go on bit for
bit, and what lies on the disk has the element types that the optimizer has."""

import pytest
import torch
from safetensors_c import Run, safe_open
from torch import nn

bnb = pytest.importorskip("bitsandbytes")

EIGHT_BITS = {
    "Adam8bit": {},
    "AdamW8bit": {"weight_decay": 0.1},
    "SGD8bit": {"momentum": 0.9},
    "Lion8bit": {},
    "RMSprop8bit": {},
    "Adagrad8bit": {},
    "LAMB8bit": {},
    "LARS8bit": {"momentum": 0.9},
    "AdEMAMix8bit": {},
    "PagedAdamW8bit": {},
}
MORE = {"AdamW": {}, "Adam": {}}  # of 32 bits


def make(name):
    """A weight of more than 4,096 elements, whose states are of 8 bits, and a bias, whose states are not."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(128, 64), nn.Tanh(), nn.Dropout(0.1), nn.Linear(64, 3))
    how = {**EIGHT_BITS, **MORE}[name]
    return model, getattr(bnb.optim, name)(model.parameters(), lr=1e-2, **how)


def train(model, optimizer, steps):
    losses = []
    for _ in range(steps):
        loss = model(torch.randn(6, 128)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def flat(tree, at=()):
    if isinstance(tree, dict):
        return {k: v for key, x in tree.items() for k, v in flat(x, (*at, key)).items()}
    return {at: tree}


@pytest.mark.filterwarnings("ignore:Paged optimizers are not supported on CPU")
@pytest.mark.parametrize("name", [*EIGHT_BITS, *MORE])
@pytest.mark.parametrize("into", ["a new one", "one that has a state"])
def test_goes_on_bit_for_bit(tmp_path, name, into):
    model, optimizer = make(name)
    train(model, optimizer, 3)
    with Run(tmp_path) as run:
        run.save(3, model=model, optimizer=optimizer).committed.result(60)
        expected = train(model, optimizer, 4)
        other = make(name)
        if into != "a new one":
            train(*other, 2)
        assert run.resume(model=other[0], optimizer=other[1]) == (3, None)
        assert train(*other, 4) == expected
    ours, theirs = flat(optimizer.state_dict()), flat(other[1].state_dict())
    assert ours.keys() == theirs.keys()
    for key, value in ours.items():
        if isinstance(value, torch.Tensor):
            assert value.dtype == theirs[key].dtype and torch.equal(value, theirs[key]), key
    with safe_open(tmp_path / "step-000000003" / "optimizer.safetensors", "pt") as f:
        kinds = {key: f.get_tensor(key).dtype for key in f.keys()}
    # bitsandbytes gives the states as a dict of its own in each parameter's
    states = {p: kinds[f"optimizer.__bnb_optimizer_quant_state__.state1.{p}"] for p in ("0.weight", "0.bias")}
    eight = torch.uint8 if name in EIGHT_BITS else torch.float32
    assert states == {"0.weight": eight, "0.bias": torch.float32}
