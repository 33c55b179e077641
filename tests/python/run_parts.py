# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What the tests of Run share: a small network, its training, trees compared, a loader that knows its place."""

import numpy as np
import torch
from torch import nn

SCHEDULERS = torch.optim.lr_scheduler


def network(sparse=False):
    torch.manual_seed(0)
    if sparse:
        return nn.Sequential(
            nn.Embedding(7, 4, sparse=True), nn.Flatten(), nn.Linear(12, 3).requires_grad_(False)
        )
    return nn.Sequential(nn.Linear(5, 8, bias=False), nn.Dropout(0.2), nn.Tanh(), nn.Linear(8, 3, bias=False))


def train(model, optimizer, steps, scheduler=None, sparse=False):
    losses = []
    for _ in range(steps):
        x = torch.randint(0, 7, (6, 3)) if sparse else torch.randn(6, 5)

        def closure(x=x):
            optimizer.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            return loss

        losses.append(optimizer.step(closure).item())
        if scheduler is not None:
            scheduler.step(*([losses[-1]] if isinstance(scheduler, SCHEDULERS.ReduceLROnPlateau) else []))
    return losses


def same(a, b):
    """Trees are equal, tensors bit for bit."""
    if isinstance(a, torch.Tensor):
        return a.dtype == b.dtype and a.shape == b.shape and torch.equal(a, b)
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    if isinstance(a, (list, tuple)):
        return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
    return a == b and type(a) is type(b)


class Position:
    """What torchdata's StatefulDataLoader looks like."""

    def __init__(self):
        self.at = {"workers": [{"rng": np.arange(3)}, {"seen": 0}]}

    def state_dict(self):
        return self.at

    def load_state_dict(self, state):
        self.at = state
