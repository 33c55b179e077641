# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Batches: a torch DataLoader whose position a run keeps."""

from __future__ import annotations

import random
import sys
import warnings
from copy import deepcopy

from . import _run_state as _state

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any


def sampler_of(loader: Any) -> Any:
    """The program's sampler: of accelerate's loaders the one beneath theirs, and beneath the parts of its batches that each
    process takes."""
    find = getattr(loader, "get_sampler", None)
    if find is None:
        return getattr(loader, "sampler", None)
    found, batches = find(), getattr(loader, "batch_sampler", None)
    while found is None and batches is not None:
        batches = getattr(batches, "batch_sampler", None)
        found = getattr(batches, "sampler", None)
    return found


class Batches:
    """A torch DataLoader whose position can be saved: iterate over this, and give it as loader=.

    Kept are the states of the random generators from which an epoch began, its own and its sampler's, and how many batches
    were taken. A resumed epoch begins from these states and drops so many batches: loading them again is the price, and the
    workers' own random states are right then, too. An epoch that is left early (break, an exception) is begun anew by the next
    iteration, also after a resume from a step that was saved in between: save inside the loop to go on within the epoch.
    With next() in place of a loop: an epoch has ended when its iterator has said so (StopIteration) or is gone;
    until then a resumed iteration gives what is left of it, which may be nothing.
    Random states of worker processes that persist over epochs are not kept.
    """

    def __init__(self, loader: Any) -> None:
        self.loader = loader
        self._start: dict[str, Any] | None = None  # None: between two epochs
        self._first: dict[str, Any] | None = None  # at the first batch, if something was drawn since
        self._again = False  # by workers that persist from an epoch before
        self._taken = 0
        self._resumed = False
        self._epoch = 0  # which iteration the position is of
        self._told = False  # that there are two
        self._told_shared = False

    def __len__(self) -> int:
        return len(self.loader)

    def _sampler(self) -> Any:
        return sampler_of(self.loader)

    def _generators(self) -> dict[str, Any]:
        sampler = self._sampler()
        batches = getattr(self.loader, "batch_sampler", None)
        owners = {"loader": self.loader, "sampler": sampler, "batch_sampler": batches}
        owners["inner"] = getattr(batches, "sampler", None)  # of a batch_sampler of the program's own
        found = {k: getattr(o, "generator", None) for k, o in owners.items()}
        return {k: g for k, g in found.items() if hasattr(g, "get_state") and hasattr(g, "set_state")}

    def _draws_on_the_way(self) -> Any:
        """The generator from which its sampler draws not only when an epoch begins or ends."""
        from torch.utils import data

        sampler = self._sampler()
        once = isinstance(sampler, (data.SubsetRandomSampler, data.WeightedRandomSampler))
        if isinstance(sampler, data.RandomSampler):
            once = not sampler.replacement and sampler.num_samples <= len(sampler.data_source)
        return None if once else getattr(sampler, "generator", None)

    def _states(self) -> dict[str, Any]:
        import torch

        states: dict[str, Any] = {"python": random.getstate(), "torch": torch.get_rng_state()}
        if "numpy" in sys.modules:
            states["numpy"] = sys.modules["numpy"].random.get_state(legacy=False)
        states.update({f"of.{k}": g.get_state() for k, g in self._generators().items()})
        sampler = self._sampler()
        if hasattr(sampler, "set_epoch") and hasattr(sampler, "epoch"):
            states["epoch"] = sampler.epoch
        elif hasattr(sampler, "state_dict") and hasattr(sampler, "load_state_dict"):
            states["sampler"] = deepcopy(sampler.state_dict())
        return states

    def _set(self, states: dict[str, Any], all_of_it: bool) -> None:
        _state.set_random_states({k: v for k, v in states.items() if k in ("python", "numpy", "torch")})
        if not all_of_it:
            return
        for k, g in self._generators().items():
            if f"of.{k}" in states:
                g.set_state(states[f"of.{k}"])
        if "epoch" in states:
            self._sampler().set_epoch(states["epoch"])
        elif "sampler" in states:
            self._sampler().load_state_dict(states["sampler"])

    def __iter__(self) -> Iterator[Any]:
        after: dict[str, Any] | None = None
        if self._resumed and self._start is not None:
            batches = self._skipped()
        else:
            self._start, self._first, self._taken = self._states(), None, 0
            self._again = getattr(self.loader, "_iterator", None) is not None
            batches = iter(self.loader)
            after = self._states()
        self._resumed = False
        self._epoch += 1
        return self._rest(batches, self._epoch, after)

    def _skipped(self) -> Iterator[Any]:
        """The epoch from where it was saved, and the generators as they were there."""
        now = self._states()
        if self._again:
            iter(self.loader)  # workers begin, which draws a seed
        self._set(self._start or {}, True)
        batches = iter(self.loader)
        if self._first is not None and self._taken:
            self._set(self._first, True)
        for _ in range(self._taken):
            next(batches)
        self._set(now, False)
        for k, g in self._generators().items():
            if f"of.{k}" in now:
                g.set_state(now[f"of.{k}"])  # where another loader has brought it, if they share it
        return batches

    def _rest(self, batches: Iterator[Any], epoch: int, after: dict[str, Any] | None) -> Iterator[Any]:
        if self._epoch == epoch and not self._taken:  # a sampler draws its order now
            first = self._states()
            self._first = None if after is not None and _same(first, after) else first
        try:
            for batch in batches:
                if self._epoch != epoch and not self._told:
                    self._told = True
                    warnings.warn(
                        "two iterations over one Batches at a time: the position that is kept is that of the later one alone;"
                        " give each a Batches and a DataLoader of its own",
                        stacklevel=2,
                    )
                self._taken += self._epoch == epoch
                yield batch
        finally:  # at the end, or where the loop was left
            if self._epoch == epoch:
                self._start, self._first, self._taken = None, None, 0

    def state_dict(self) -> dict[str, Any]:
        now = {k: g.get_state() for k, g in self._generators().items()}
        state = {"version": 1, "start": self._start, "taken": self._taken, "now": now}
        if self._first is not None:
            state["first"] = self._first
        if self._again:
            state["again"] = True
        return state

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._start, self._taken, self._resumed = state["start"], state["taken"], state["start"] is not None
        self._first, self._again = state.get("first"), state.get("again", False)
        self._epoch += 1  # an iteration that is still open says nothing any more
        for k, g in self._generators().items():
            if k in state["now"]:
                g.set_state(state["now"][k])


def warn_of_shared(named: list[tuple[str, Batches]]) -> None:
    """What one sampler draws within its epoch moves the generator of another loader, which a resume cannot repeat."""
    for name, one in named:
        generator = None if one._told_shared else one._draws_on_the_way()
        for other, loader in named:
            if loader is not one and any(g is generator for g in loader._generators().values()):
                one._told_shared = True
                warnings.warn(
                    f"{name} and {other} share a torch.Generator, from which the sampler of {name} draws within its epoch: a"
                    " resume is not exact; give each a generator of its own",
                    stacklevel=4,
                )


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(_same(v, b[k]) for k, v in a.items())
    if hasattr(a, "shape") and hasattr(b, "shape"):
        return a.shape == b.shape and bool((a == b).all())
    return bool(a == b)
