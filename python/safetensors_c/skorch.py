# SPDX-License-Identifier: Apache-2.0 OR MIT
"""skorch nets in a Run: modules, criteria, optimizers, history, schedulers and random states; no pickle.

    checkpoint = RunCheckpoint("run", monitor="valid_loss_best", keep_last=3)
    net = NeuralNetClassifier(Module, max_epochs=20, callbacks=[checkpoint, LoadRun(checkpoint)])
    net.fit(X, y)  # run again after a kill: goes on from the newest complete epoch, to 20 epochs in all

The step's number is that of the epoch. docs/trainers.md says what is kept, and what is not.

Or files by the names that skorch has for them, the optimizer's too:

    class Net(SafetensorsMixin, NeuralNetClassifier): ...

    checkpoint = Checkpoint(dirname="best")
    net = Net(Module, callbacks=[checkpoint, LoadInitState(checkpoint)])
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import warnings
from copy import deepcopy

import skorch.callbacks
from skorch.callbacks import BatchScoring, Callback, EarlyStopping, EpochScoring, LRScheduler
from skorch.exceptions import SkorchException
from skorch.history import History
from skorch.utils import _check_f_arguments

from . import SafetensorError, safe_open, torch, tree
from .run import Run

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from .run import Handle, Resumed

__all__ = [
    "Checkpoint",
    "LoadInitState",
    "LoadRun",
    "RunCheckpoint",
    "SafetensorsMixin",
    "TrainEndCheckpoint",
    "load_net",
    "save_net",
]

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


def _frozen(net: Any) -> dict[str, list[str]]:
    """The names of the parameters of each module that are not trained."""
    parts = {name: getattr(net, name + "_") for name in (*net._modules, *net._criteria)}
    return {
        part: [name for name, p in module.named_parameters() if not p.requires_grad]
        for part, module in parts.items()
    }


def _freeze(net: Any, frozen: dict[str, list[str]]) -> None:
    for part, names in frozen.items():
        for name, p in getattr(net, part + "_").named_parameters():
            p.requires_grad_(name not in names)


def _stopped(net: Any, states: dict[str, Any]) -> list[str]:
    """The callbacks that have ended the training already."""
    early = [(name, c) for name, c in _callbacks(net) if isinstance(c, EarlyStopping)]
    return [name for name, c in early if states.get(name, {}).get("misses_", 0) >= c.patience]


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
                values: dict[str, Any] = {a: getattr(callback, a, None) for a in attributes}
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
            mine: Any = getattr(callback, attribute, None)
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
    return _save_rows(run, net, len(net.history), step, **options)


def _save_rows(run: Run, net: Any, rows: int, step: int | None = None, **options: Any) -> Handle:
    """With so many rows of the history."""
    history = _plain(list(net.history)[:rows])
    last = history[-1] if history else {}
    metrics = {k: v for k, v in last.items() if isinstance(v, (int, float)) and not isinstance(v, bool)}
    extra = {"history": history, "callbacks": _remembered(net), "frozen": _frozen(net)}
    options = {"metrics": metrics, "extra": extra, **options}
    return run.save(rows if step is None else step, **_objects(net), **options)


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
        history that must be true, a callable that takes the net, None: every epoch. rewind: steps of the run beyond the epoch
        with which training begins are removed then; without it they are a FileExistsError. options: of Run, for a path
        (keep_last, best, mode, ...).
    An epoch is saved when the next one begins or training ends, so that the order of callbacks does not matter. Writing goes
    on behind; the error of a save that failed is raised at the next one, at the latest at the end of training.
    """

    def __init__(
        self,
        run: Any,
        monitor: Any = None,
        event_name: str = "event_cp",
        rewind: bool = False,
        **options: Any,
    ) -> None:
        self.run = run
        self.monitor = monitor
        self.event_name = event_name
        self.rewind = rewind
        self.options = options
        self.__dict__.update(options)

    @classmethod
    def _get_param_names(cls) -> list[str]:
        return ["run", "monitor", "event_name", "rewind"]

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        return {
            "run": self.run,
            "monitor": self.monitor,
            "event_name": self.event_name,
            "rewind": self.rewind,
            **self.options,
        }

    def initialize(self) -> RunCheckpoint:
        self.run_ = self.run if isinstance(self.run, Run) else None
        self.due_ = False
        self.begun_ = False
        return self

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "run_": None}

    def __deepcopy__(self, memo: Any) -> RunCheckpoint:
        return type(self)(self.run, self.monitor, self.event_name, self.rewind, **self.options)

    def opened(self) -> Run:
        """The run; opened when it is first wanted."""
        if self.run_ is None:
            self.run_ = Run(os.fspath(self.run), **self.options)
        return self.run_

    def on_train_begin(self, net: Any, **kwargs: Any) -> None:
        self.due_ = False
        self.begun_ = False

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
        with self._letting_go():
            _save_rows(self.opened(), net, rows, replace=True)

    @contextlib.contextmanager
    def _letting_go(self) -> Iterator[None]:
        """Training ends by an error: the run is open no longer, so that another one can begin."""
        try:
            yield
        except BaseException:
            run = self.run_
            if run is not None and run is not self.run:
                self.run_ = None
                run.__exit__(Exception, Exception(), None)  # another failure is a warning beside the error
            raise

    def on_epoch_begin(self, net: Any, **kwargs: Any) -> None:
        if not self.begun_:  # behind every on_train_begin, LoadRun's too
            self.begun_ = True
            for words in _forgotten(net):
                warnings.warn(
                    f"a run does not keep what the callback {words} remembers: give it state_dict and load_state_dict",
                    stacklevel=2,
                )
            with self._letting_go():
                self.opened()._begin_training(
                    len(net.history) - 1, self.rewind, "RunCheckpoint(..., rewind=True)"
                )
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
    would have ended (at once, where EarlyStopping has ended it); else it is what is trained on top, and EarlyStopping counts
    anew. Parameters are trained or frozen (Freezer) as they were.
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
        stopped = _stopped(net, extra["callbacks"])
        if self.total:
            self.epochs_ = net.max_epochs
            net.max_epochs = 0 if stopped else max(0, net.max_epochs - len(extra["history"]))
        for name in stopped:
            extra["callbacks"][name]["misses_"] = 0
        groups = {
            name: [
                {k: v for k, v in g.items() if k != "params"} for g in getattr(net, name + "_").param_groups
            ]
            for name in net._optimizers
        }
        self.again_ = (deepcopy(groups), extra["callbacks"], extra.get("frozen", {}))

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
        groups, states, frozen = self.again_
        self.again_ = None
        _remind(net, states)
        _freeze(net, frozen)
        for name, saved in groups.items():
            for group, hyper in zip(getattr(net, name + "_").param_groups, saved):
                group.update(hyper)

    def on_train_end(self, net: Any, **kwargs: Any) -> None:
        if self.epochs_ is not None:
            net.max_epochs, self.epochs_ = self.epochs_, None


# ---------------------------------------------------------------- files by the names that skorch has for them

_EPOCH = "skorch.epoch"
_ABSENT = (
    "You are trying to {what} 'f_{{name}}' but for that to work, the net needs to have an attribute called "
    "'net.{{name}}_' that is a PyTorch Module or Optimizer; make sure that it exists and check for typos."
)
_EARLY = (
    "Cannot {what} state of an un-initialized model. Please initialize first by calling .initialize() or by "
    "fitting the model with .fit(...)."
)


def _read(f: Any) -> tuple[Any, dict[str, str]]:
    """(state dict, metadata) of a file of save_params, or of any safetensors file; on the CPU."""
    if not isinstance(f, (str, os.PathLike)):
        with tempfile.NamedTemporaryFile() as copy:
            copy.write(f.read())
            copy.flush()
            return _read(copy.name)
    with safe_open(f, "pt") as opened:
        metadata = opened.metadata() or {}
    verify = "sft.crc32c" in metadata
    state = (tree.load_tree if tree.KEY in metadata else torch.load_file)(f, verify=verify)
    return state, metadata


class SafetensorsMixin:
    """A net, `class Net(SafetensorsMixin, NeuralNetClassifier)`, whose save_params and load_params keep safetensors.

    Every file is one of docs/tree.md: a module's has its parameters under their plain names, an optimizer's its whole
    state dict. use_safetensors=False asks for torch's pickle, as without this class. A file is whole or as it was before.
    """

    def save_params(
        self,
        f_params: Any = None,
        f_optimizer: Any = None,
        f_criterion: Any = None,
        f_history: Any = None,
        use_safetensors: bool = True,
        **kwargs: Any,
    ) -> None:
        """As NeuralNet.save_params. Raises TypeError with the path of what a file cannot hold, and what save_file raises."""
        files = {"f_params": f_params, "f_optimizer": f_optimizer, "f_criterion": f_criterion}
        files.update(f_history=f_history, **kwargs)
        if not use_safetensors:
            super().save_params(use_safetensors=False, **files)  # type: ignore[misc]
            return
        for attribute, f in self._given("save", files).items():
            state = self._part("save", attribute).state_dict()
            metadata = {"format": "pt", _EPOCH: str(len(self.history or ()))}  # type: ignore[attr-defined]
            tree.save_tree(state, f, metadata, framework="pt", digests="crc32c")
        if f_history is not None:
            self.history.to_file(f_history)  # type: ignore[attr-defined]

    def load_params(
        self,
        f_params: Any = None,
        f_optimizer: Any = None,
        f_criterion: Any = None,
        f_history: Any = None,
        checkpoint: Any = None,
        use_safetensors: bool = True,
        **kwargs: Any,
    ) -> None:
        """As NeuralNet.load_params; nothing in the files can run code.

        Of a checkpoint the files must be of one epoch: SafetensorError names those that are not, as after a kill between two
        of them. Raises what load_file and load_state_dict raise; in that case the net may hold a part.
        """
        files = {"f_params": f_params, "f_optimizer": f_optimizer, "f_criterion": f_criterion}
        files.update(f_history=f_history, **kwargs)
        if not use_safetensors:
            super().load_params(checkpoint=checkpoint, use_safetensors=False, **files)  # type: ignore[misc]
            return
        if checkpoint is not None:
            files = {**self._of_checkpoint(checkpoint, f_history), **{k: f for k, f in files.items() if f}}
        given = self._given("load", files)
        if files.get("f_history") is not None:
            self.history = History.from_file(files["f_history"])
        states = {}
        for attribute, f in given.items():
            part = self._part("load", attribute)
            states[attribute] = (part, *_read(f))
        if checkpoint is not None:
            self._of_one_epoch({str(given[a]): m.get(_EPOCH) for a, (_, _, m) in states.items()})
        for part, state, _ in states.values():
            part.load_state_dict(state)

    def _given(self, what: str, files: dict[str, Any]) -> dict[str, Any]:
        parts, others = _check_f_arguments(what + "_params", **files)
        if not parts and not others and self.verbose:  # type: ignore[attr-defined]
            print(f"Nothing to {what}")
        return dict(parts)

    def _part(self, what: str, attribute: str) -> Any:
        if attribute.endswith("_") and not self.initialized_:  # type: ignore[attr-defined]
            self.check_is_fitted([attribute], msg=_EARLY.format(what=what))  # type: ignore[attr-defined]
        return self._get_module(attribute, msg=_ABSENT.format(what=what))  # type: ignore[attr-defined]

    def _of_checkpoint(self, checkpoint: Any, f_history: Any) -> dict[str, Any]:
        """The names of its files, which are those of the newest event in its history."""
        if not self.initialized_:  # type: ignore[attr-defined]
            self.initialize()  # type: ignore[attr-defined]
        if f_history is None and checkpoint.f_history is not None:
            self.history = History.from_file(checkpoint.f_history_)
        return {**checkpoint.get_formatted_files(self), "f_history": checkpoint.f_history_}

    def _of_one_epoch(self, epochs: dict[str, str | None]) -> None:
        known = {f: epoch for f, epoch in epochs.items() if epoch is not None}
        if len(set(known.values())) > 1:
            said = ", ".join(f"{f} of epoch {epoch}" for f, epoch in known.items())
            raise SafetensorError(f"the files of this checkpoint are not of one epoch: {said}")


class Checkpoint(skorch.callbacks.Checkpoint):
    """skorch's Checkpoint with use_safetensors, for a net with SafetensorsMixin: the optimizer, too, and a save that fails is raised.

    Its files are replaced one by one: a kill between two leaves files of two epochs, which load_params refuses by their
    names. RunCheckpoint has no such moment.
    """

    def __init__(
        self,
        monitor: Any = "valid_loss_best",
        f_params: Any = "params.safetensors",
        f_optimizer: Any = "optimizer.safetensors",
        f_criterion: Any = "criterion.safetensors",
        use_safetensors: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(monitor, f_params, f_optimizer, f_criterion, **kwargs)
        self.use_safetensors = use_safetensors
        if use_safetensors and self.f_pickle is not None:
            raise ValueError("f_pickle asks for a pickle, use_safetensors for none")

    def _save_params(self, f: Any, net: Any, f_name: str, log_name: str) -> None:
        net.save_params(**{f_name: f}, use_safetensors=self.use_safetensors)


class TrainEndCheckpoint(skorch.callbacks.TrainEndCheckpoint):
    """skorch's TrainEndCheckpoint as Checkpoint here."""

    def __init__(
        self,
        f_params: Any = "params.safetensors",
        f_optimizer: Any = "optimizer.safetensors",
        f_criterion: Any = "criterion.safetensors",
        use_safetensors: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(f_params, f_optimizer, f_criterion, **kwargs)
        self.use_safetensors = use_safetensors

    def initialize(self) -> TrainEndCheckpoint:
        self.checkpoint_ = Checkpoint(
            monitor=None,
            fn_prefix=self.fn_prefix,
            dirname=self.dirname,
            event_name=None,
            sink=self.sink,
            use_safetensors=self.use_safetensors,
            **self._f_kwargs(),
        )
        self.checkpoint_.initialize()
        return self


class LoadInitState(skorch.callbacks.LoadInitState):
    """skorch's LoadInitState for the checkpoints here. Nothing there: a first training; a part of it: SkorchException."""

    did_load_: bool

    def __init__(self, checkpoint: Any, use_safetensors: bool | None = None) -> None:
        super().__init__(
            checkpoint, checkpoint.use_safetensors if use_safetensors is None else use_safetensors
        )

    def on_train_begin(self, net: Any, X: Any = None, y: Any = None, **kwargs: Any) -> None:
        if self.did_load_:
            return
        self.did_load_ = True
        checkpoint: Any = getattr(self.checkpoint, "checkpoint_", self.checkpoint)
        try:
            net.load_params(checkpoint=checkpoint, use_safetensors=self.use_safetensors)
        except FileNotFoundError as e:
            names = [f for f in checkpoint._f_kwargs().values() if isinstance(f, str) and "{" not in f]
            paths = [os.path.join(checkpoint.dirname, checkpoint.fn_prefix + f) for f in names]
            there = [path for path in paths if os.path.exists(path)]
            if there:
                raise SkorchException(
                    f"half a checkpoint: {there[0]} is there, another file is not: {e}"
                ) from e
