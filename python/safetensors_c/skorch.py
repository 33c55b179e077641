# SPDX-License-Identifier: Apache-2.0 OR MIT
"""skorch nets in a Run: modules, criteria, optimizers, history, schedulers and random states; no pickle.

    checkpoint = RunCheckpoint("run", monitor="valid_loss_best", keep_last=3)
    net = NeuralNetClassifier(Module, max_epochs=20, callbacks=[checkpoint, LoadRun(checkpoint)])
    net.fit(X, y)  # run again after a kill: goes on from the newest complete epoch, to 20 epochs in all

The step's number is that of the epoch. docs/trainers.md says what is kept, and what is not.
"""

from __future__ import annotations

import os
import warnings
from copy import deepcopy

from skorch.callbacks import BatchScoring, Callback, EarlyStopping, EpochScoring, LRScheduler
from skorch.exceptions import SkorchException

from .run import Run

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .run import Handle, Resumed

__all__ = ["LoadRun", "RunCheckpoint", "load_net", "save_net"]

# What callbacks of skorch remember from epoch to epoch and do not find again in the history.
_REMEMBERED: list[tuple[type, tuple[str, ...]]] = [
    (EarlyStopping, ("misses_", "dynamic_threshold_", "best_epoch_", "best_model_weights_")),
    (EpochScoring, ("best_score_",)),
    (BatchScoring, ("best_score_",)),
    (LRScheduler, ("lr_scheduler_", "batch_idx_")),
]


# ---------------------------------------------------------------- a net and a step


def _plain(x: Any) -> Any:
    """History rows with numbers of Python for those of NumPy."""
    if isinstance(x, dict):
        return {k: _plain(v) for k, v in x.items()}
    if isinstance(x, (list, tuple)):
        return [_plain(v) for v in x]
    return x.item() if type(x).__module__ == "numpy" and hasattr(x, "item") and x.ndim == 0 else x


def _objects(net: Any) -> dict[str, Any]:
    """What Run.save and Run.resume take."""
    modules = {name.rstrip("_"): getattr(net, name + "_") for name in net._modules}
    criteria = {name.rstrip("_"): getattr(net, name + "_") for name in net._criteria}
    optimizers = {name.rstrip("_"): getattr(net, name + "_") for name in net._optimizers}
    learns = {name: c for name, c in criteria.items() if any(True for _ in c.parameters())}
    models = {**modules, **learns}
    given: dict[str, Any] = {
        "model": next(iter(models.values())) if len(models) == 1 else models,
        "optimizer": next(iter(optimizers.values())) if len(optimizers) == 1 else optimizers,
    }
    given.update({name: c for name, c in criteria.items() if name not in learns})
    return given


def _callbacks(net: Any) -> list[tuple[str, Any]]:
    return [(name, callback) for name, callback in net.callbacks_ if callback is not None]


def _remembered(net: Any) -> dict[str, Any]:
    """The states of the callbacks, by their names."""
    out: dict[str, Any] = {}
    for name, callback in _callbacks(net):
        if hasattr(callback, "state_dict") and hasattr(callback, "load_state_dict"):
            out[name] = callback.state_dict()
            continue
        for kind, attributes in _REMEMBERED:
            if isinstance(callback, kind):
                values = {a: getattr(callback, a, None) for a in attributes}
                out[name] = {
                    a: v.state_dict() if hasattr(v, "state_dict") else _plain(v) for a, v in values.items()
                }
    return out


def _remind(net: Any, states: dict[str, Any]) -> None:
    for name, callback in _callbacks(net):
        state = states.get(name)
        if state is None:
            continue
        if hasattr(callback, "load_state_dict"):
            callback.load_state_dict(state)
            continue
        for attribute, value in state.items():
            mine = getattr(callback, attribute, None)
            if hasattr(mine, "load_state_dict"):
                mine.load_state_dict(value)
            elif value is not None or not callable(mine):
                setattr(callback, attribute, value)


def _forgotten(net: Any) -> list[str]:
    """Callbacks of the program that seem to remember something which no step has."""
    out = []
    for name, callback in _callbacks(net):
        if type(callback).__module__.split(".")[0] in ("skorch", __package__) or hasattr(
            callback, "state_dict"
        ):
            continue
        own = [a for a in vars(callback) if a.endswith("_") and not a.startswith("_")]
        if own and not any(isinstance(callback, kind) for kind, _ in _REMEMBERED):
            out.append(f"{name} ({', '.join(own)})")
    return out


def save_net(run: Run, net: Any, step: int | None = None, **options: Any) -> Handle:
    """Saves an initialized net as a step, by default that of its last epoch. options: those of Run.save.

    Raises TypeError with the path of what a step cannot hold, and the error of an earlier save that failed behind.
    """
    history = _plain(list(net.history))
    last = history[-1] if history else {}
    metrics = {k: v for k, v in last.items() if isinstance(v, (int, float)) and not isinstance(v, bool)}
    extra = {"history": history, "callbacks": _remembered(net)}
    options = {"metrics": metrics, "extra": extra, **options}
    return run.save(len(history) if step is None else step, **_objects(net), **options)


def load_net(run: Run, net: Any, step: int | None = None) -> Resumed:
    """Puts the newest complete step into an initialized net, in place: modules, criteria, optimizers, history, random
    states. (0, None) for a new run. Callbacks are reminded of theirs by LoadRun, or by nobody."""
    resumed = run.resume(step=step, **_objects(net))
    if resumed.extra is not None:
        net.history[:] = resumed.extra["history"]
    return resumed


# ---------------------------------------------------------------- callbacks


class RunCheckpoint(Callback):
    """Saves a step at the end of an epoch, as skorch's Checkpoint with everything in it.

    run: a path, or a Run that the program has opened (which it closes itself). monitor: as that of Checkpoint: a key of the
        history that must be true, a callable that takes the net, None: every epoch. options: of Run, for a path (keep_last,
        best, mode, ...).
    An epoch is saved when the next one begins or training ends, so that the order of callbacks does not matter. Writing goes
    on behind; the error of a save that failed is raised at the next one, at the latest at the end of training.
    """

    def __init__(self, run: Any, monitor: Any = None, event_name: str = "event_cp", **options: Any) -> None:
        self.run = run
        self.monitor = monitor
        self.event_name = event_name
        self.options = options
        vars(self).update(options)

    @classmethod
    def _get_param_names(cls) -> list[str]:
        return ["run", "monitor", "event_name"]

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        return {"run": self.run, "monitor": self.monitor, "event_name": self.event_name, **self.options}

    def initialize(self) -> RunCheckpoint:
        self.run_ = self.run if isinstance(self.run, Run) else None
        self.due_ = False
        return self

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "run_": None}

    def __deepcopy__(self, memo: Any) -> RunCheckpoint:
        return type(self)(self.run, self.monitor, self.event_name, **self.options)

    def opened(self) -> Run:
        """The run; opened when it is first wanted."""
        if self.run_ is None:
            self.run_ = Run(os.fspath(self.run), **self.options)
        return self.run_

    def on_train_begin(self, net: Any, **kwargs: Any) -> None:
        self.due_ = False
        for words in _forgotten(net):
            warnings.warn(
                f"a run does not keep what the callback {words} remembers: give it state_dict and load_state_dict",
                stacklevel=2,
            )

    def on_epoch_end(self, net: Any, **kwargs: Any) -> None:
        if self.monitor is None:
            due = True
        elif callable(self.monitor):
            due = bool(self.monitor(net))
        else:
            try:
                due = bool(net.history[-1, self.monitor])
            except KeyError as e:
                raise SkorchException(f"{e.args[0]} The history has no {self.monitor!r} to monitor.") from e
        net.history.record(self.event_name, due)
        self.due_ = due

    def _save(self, net: Any, rows: int) -> None:
        self.due_ = False
        history = _plain(list(net.history)[:rows])
        extra = {"history": history, "callbacks": _remembered(net)}
        last = history[-1]
        metrics = {k: v for k, v in last.items() if isinstance(v, (int, float)) and not isinstance(v, bool)}
        save_net(self.opened(), net, rows, extra=extra, metrics=metrics, replace=True)

    def on_epoch_begin(self, net: Any, **kwargs: Any) -> None:
        if self.due_:
            self._save(net, len(net.history) - 1)

    def on_train_end(self, net: Any, **kwargs: Any) -> None:
        if self.due_:
            self._save(net, len(net.history))
        if self.run_ is not None and self.run_ is not self.run:
            run, self.run_ = self.run_, None
            run.close()
        elif self.run_ is not None:
            self.run_.wait()


class LoadRun(Callback):
    """Goes on from the newest complete step of a RunCheckpoint's run when training begins, once; as LoadInitState.

    With `total` max_epochs is what all runs together train, so that a fit that was killed and is run again ends where it
    would have ended; else it is what is trained on top.
    """

    def __init__(self, checkpoint: RunCheckpoint, total: bool = True) -> None:
        self.checkpoint = checkpoint
        self.total = total

    def initialize(self) -> LoadRun:
        self.did_load_ = False
        self.again_: Any = None
        self.epochs_: int | None = None
        return self

    def __deepcopy__(self, memo: Any) -> LoadRun:
        return type(self)(deepcopy(self.checkpoint, memo), self.total)

    def on_train_begin(self, net: Any, **kwargs: Any) -> None:
        if self.did_load_:
            return
        self.did_load_ = True
        extra = self._load(net)
        if extra is None:
            return
        if self.total:
            self.epochs_ = net.max_epochs
            net.max_epochs = max(0, net.max_epochs - len(extra["history"]))
        groups = {
            name: [
                {k: v for k, v in g.items() if k != "params"} for g in getattr(net, name + "_").param_groups
            ]
            for name in net._optimizers
        }
        self.again_ = (deepcopy(groups), extra["callbacks"])

    def _load(self, net: Any) -> Any:
        """By the run of the net's own RunCheckpoint: cloning a net gives each callback a copy of it."""
        wanted = self.checkpoint.run
        for _, callback in _callbacks(net):
            if isinstance(callback, RunCheckpoint) and callback.run == wanted:
                return load_net(callback.opened(), net).extra
        if isinstance(wanted, Run):
            return load_net(wanted, net).extra
        if not os.path.isdir(wanted):
            return None
        with Run(os.fspath(wanted), read_only=True) as run:
            return load_net(run, net).extra

    def on_epoch_begin(self, net: Any, **kwargs: Any) -> None:
        """What other callbacks have set up since, after ours: schedulers, learning rates, best scores."""
        if self.again_ is None:
            return
        groups, states = self.again_
        self.again_ = None
        _remind(net, states)
        for name, saved in groups.items():
            for group, hyper in zip(getattr(net, name + "_").param_groups, saved):
                group.update(hyper)

    def on_train_end(self, net: Any, **kwargs: Any) -> None:
        if self.epochs_ is not None:
            net.max_epochs, self.epochs_ = self.epochs_, None
