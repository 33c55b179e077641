# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Run: a directory of complete, verified steps of a training job, saved while training goes on; no pickle.

    with Run("run", keep_last=3, best="val_loss") as run:
        state = dict(model=model, optimizer=optimizer, scheduler=scheduler, loader=loader)
        step, extra = run.resume(**state)
        while step < 10_000:
            train_one_step()
            step += 1
            if step % 100 == 0:
                run.save(step, **state, metrics={"val_loss": loss})

docs/run.md, "Python", is the guide, and says what lies on the disk.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import sys
import threading
import time
import warnings
import weakref
from collections.abc import Mapping
from copy import deepcopy
from typing import NamedTuple

from . import _core, _run_group
from . import _run_state as _state
from ._core import SafetensorError
from ._run_watch import Moment, Watch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

__all__ = ["Batches", "Guard", "Handle", "Resumed", "Run"]

_READ_ONLY = 1
_REPLACE = 1
_STEP_MAX = (1 << 53) - 1
_SLICE = 50  # milliseconds of waiting between looks at signals
_open: weakref.WeakSet[Run] = weakref.WeakSet()


class Resumed(NamedTuple):
    """Where training goes on."""

    step: int  # 0 where nothing was saved yet
    extra: Any  # what save was given as extra


class _Future:
    """Something that will have happened: wait, result, exception."""

    def __init__(self, run: Run, ticket: int) -> None:
        self._run = run
        self._ticket = ticket
        self._done = ticket == 0
        self._error: BaseException | None = None
        if ticket:
            run._futures.add(self)

    def wait(self, timeout: float | None = None) -> bool:
        """Whether it has happened, or failed, within `timeout` seconds (None: for ever)."""
        if not self._done:
            try:
                self._done = self._run._wait(self._ticket, timeout)
            except (Exception, MemoryError) as e:
                self._done, self._error = True, e
        return self._done

    def done(self) -> bool:
        return self.wait(0)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Its error; None: it went well. TimeoutError: it has not happened yet."""
        if not self.wait(timeout):
            raise TimeoutError("the step is not committed yet")
        return self._error

    def result(self, timeout: float | None = None) -> None:
        error = self.exception(timeout)
        if error is not None:
            raise error


class Handle:
    """One save. staged: memory may change (it is when save returns); committed: the step is on the disk, whole."""

    def __init__(self, run: Run, step: int, ticket: int) -> None:
        self.step = step
        self.staged = _Future(run, 0)
        self.committed = _Future(run, ticket)


class Run:
    """A training run: a directory of steps.

    path: made if it is not there. keep_last, keep_every, keep_best, keep_seconds: a step stays if one of them keeps it;
        with none every step stays. The newest complete step always stays, and the best one by the metric `best`
        (mode: "min" or "max").
    shard_bytes: a file of more is sharded. arenas: memory for so many steps that are being written. durable: flushed to
        the disk before a step counts. sha256: recorded beside CRC32C. read_only: nothing is written, no lock is taken.
    device: a CUDA device ("cuda:0"), whose tensors are copied out through pinned memory on streams of their own
        (libsafetensors-cuda); without it torch copies tensors of devices before they are staged.
    group: a torch.distributed group (torch.distributed.group.WORLD), all processes of which open, save and resume together;
        each saves its shards. timeout: how many seconds a process waits for the others, before an error names those that
        are missing. docs/run.md, "Many processes", says what is whose.
    Raises SafetensorError with .status SFT_E_STATE where another process has the run, SFT_E_TIMEOUT where one of the group
    is missing.
    Threads: any number may use a run; saves and resumes take turns.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        keep_last: int = 0,
        keep_every: int = 0,
        keep_best: int = 0,
        keep_seconds: float = 0,
        best: str | None = None,
        mode: str = "min",
        shard_bytes: int = 5_000_000_000,
        arenas: int = 1,
        durable: bool = True,
        sha256: bool = False,
        read_only: bool = False,
        device: Any = None,
        group: Any = None,
        timeout: float = 600,
    ) -> None:
        self.path = os.fspath(path)
        self._lock = threading.RLock()
        self._waiting = threading.Condition()
        self._waiters = 0
        self._futures: weakref.WeakSet[_Future] = weakref.WeakSet()
        self._objects: dict[str, Any] = {}
        self._raised: set[str] = set()  # errors behind that a call has told
        self._saved: int | None = None  # the newest step that was staged or resumed
        self._guard: Guard | None = None
        self._ordinal = None if device is None else _ordinal_of(device)
        self.left_behind: set[str] = (
            set()
        )  # what the last resume did not put back, of another number of processes
        self._group = None if group is None else _run_group.Processes(group, timeout)
        if self._group is not None:
            self._group.begin(f"opening {self.path}")
        self._core: Any = _core._Run(
            path=self.path,
            keep_last=keep_last,
            keep_every=keep_every,
            keep_best=keep_best,
            keep_seconds=int(keep_seconds),
            shard_bytes=shard_bytes,
            arenas=arenas,
            flags=_READ_ONLY if read_only else 0,
            best=best,
            mode=mode,
            durable=durable,
            sha256=sha256,
            device=None if device is None else _core._cuda_open(self._ordinal),
            group=None if self._group is None else self._group.talk,
            timeout_ms=max(1, int(timeout * 1000)),
        )
        self._place = os.path.realpath(self.path)
        self._lock_fd = None if read_only else _descriptor_of(os.path.join(self.path, ".sft-run.lock"))
        _open.add(self)

    @property
    def rank(self) -> int:
        """Which of the processes of its group this is."""
        return 0 if self._group is None else self._group.rank

    @property
    def size(self) -> int:
        """How many processes have the run together."""
        return 1 if self._group is None else self._group.size

    # -- save

    def save(
        self,
        step: int,
        *,
        model: Any = None,
        optimizer: Any = None,
        rng: Any = True,
        extra: Any = None,
        metrics: Mapping[str, Any] | None = None,
        files: Mapping[str, str | bytes] | None = None,
        replace: bool = False,
        **objects: Any,
    ) -> Handle:
        """Saves a step: copies everything and returns; writing goes on behind.

        model: a torch.nn.Module, or a dict of them. optimizer: one, or a dict of them; its parameters are the model's.
        scheduler=, scaler=, ema=, loader=, sampler= ...: further modules, and objects with state_dict and
        load_state_dict, by names of your choice. rng: the random states of python, NumPy and torch; a dict: those, and
        generators by names. extra: dicts, lists, numbers, texts, tensors: what resume returns. metrics: numbers for the
        rules. files: {"config.json": text} beside the weights. replace: a step of this number is replaced.
        Raises TypeError with the path of a value that it does not know; FileExistsError; and, before anything is done, the
        error of an earlier save that failed behind.
        Cost: one copy of the state; waits where the step before is still being written.
        """
        given = {"model": model, "optimizer": optimizer, "rng": rng, **objects}
        with self._lock:
            self._objects = given
            handle = self._write(step, given, extra, metrics, files, replace)
        if self._guard is not None:
            self._guard._after_save(step)
        return handle

    def _write(
        self,
        step: int,
        given: dict[str, Any],
        extra: Any,
        metrics: Any = None,
        files: Any = None,
        replace: bool = False,
        small: dict[str, Any] | None = None,
    ) -> Handle:
        core = self._alive()
        if not 0 <= step <= _STEP_MAX:
            raise ValueError(f"a step is a number up to 2^53 - 1, not {step}")
        written = (
            _state.Written(self._ordinal)
            if self._group is None
            else _run_group.Written(self._group, step, self._ordinal)
        )
        with written.together():
            _collect(written, given, small if small is not None else _small_states(given))
            if extra is not None:
                written.tree("extra", extra)
            numbers = [
                (name, float(v.detach() if _state.is_tensor(v) else v)) for name, v in (metrics or {}).items()
            ]
            texts = [(n, v.encode() if isinstance(v, str) else bytes(v)) for n, v in (files or {}).items()]
        how = (_REPLACE if replace else 0, written.tensors, written.entries, numbers, texts, written.metadata)
        with self._telling():
            ticket = core.save(step, *how, _stream_of(self._ordinal) if written.on_device else 0)
        self._saved = step
        return Handle(self, step, ticket)

    # -- for dcp

    def _all_told(self, step: int, told: dict[str, Any], error: Exception | None) -> list[dict[str, Any]]:
        """What all processes tell before they save; an error of one is one of all."""
        if self._group is None:
            if error is not None:
                raise error
            return [told]
        self._group.begin(f"saving step {step}")
        return self._group.agree({"call": "save", "step": step, "names": "", **told}, error)

    def _write_pieces(
        self, step: int, tensors: list[tuple[Any, ...]], entry: tuple[str, Any], metrics: Mapping[str, Any]
    ) -> Handle:
        """A step of pieces of tensors, each of which one process has, and one entry, the same for all."""
        entries = [(entry[0], json.dumps(entry[1]))]
        if self._group is not None:
            entries.append((_run_group.ENTRY, json.dumps({"count": self.size, "differ": []})))
        numbers = [(name, float(v)) for name, v in metrics.items()]
        with self._lock:
            ticket = self._alive().save(step, 0, tensors, entries, numbers, [], [("format", "pt")], 0)
            self._saved = step
        return Handle(self, step, ticket)

    def _entries(self, step: int) -> dict[str, str]:
        """state.json of a complete step."""
        with self._lock:
            core = self._alive()
            core.resume(step)
            try:
                return dict(core.entries())
            finally:
                core.leave()

    def wait(self, timeout: float | None = None) -> bool:
        """Waits until all that was staged is committed; raises the error of a save that no call has told."""
        with self._telling():
            return self._wait(0, timeout)

    @contextlib.contextmanager
    def _telling(self) -> Iterator[None]:
        """An error behind that is raised here is told: close and handles that live on do not raise it again."""
        try:
            yield
        except (OSError, SafetensorError) as e:
            self._raised.add(str(e))
            raise

    def _wait(self, ticket: int, timeout: float | None) -> bool:
        core = self._alive()
        end = None if timeout is None else time.monotonic() + timeout
        with self._waiting:
            self._waiters += 1
        try:
            while True:
                left = _SLICE if end is None else min(_SLICE, max(0, int((end - time.monotonic()) * 1000)))
                if core.wait(ticket, left):
                    return True
                if end is not None and time.monotonic() >= end:
                    return False
        finally:
            with self._waiting:
                self._waiters -= 1
                self._waiting.notify_all()

    def poll(self) -> dict[str, int]:
        """How far the writing is: pending steps, bytes_done of bytes_total, bytes linked and written so far. Raises the
        error of a save that failed behind."""
        with self._telling():
            return self._alive().poll()

    # -- resume

    def resume(
        self,
        *,
        model: Any = None,
        optimizer: Any = None,
        rng: Any = True,
        step: int | None = None,
        **objects: Any,
    ) -> Resumed:
        """Puts the newest step that is complete and verified into the objects, in place; (0, None) for a new run.

        A step that is being written is waited for. The objects as in save, made as for a new training. step: this one alone. Digests are compared while loading: a
        step that is damaged is passed over, with a warning that says why.
        Raises SafetensorError with .status: SFT_E_NOT_FOUND, SFT_E_SHAPE, SFT_E_DTYPE, SFT_E_MISMATCH name the parameter
        where the step is of another model; SFT_E_NOT_FOUND where there are steps, none of which can be used.
        After an error the objects hold anything.
        """
        given = {"model": model, "optimizer": optimizer, "rng": rng, **objects}
        with self._lock:
            self._objects = given
            core = self._alive()
            if self._group is None:
                self.wait()
            else:
                self._group.begin("resuming")
            told = core.resume(step)
            if told is None:
                return Resumed(0, None)
            try:
                while True:
                    try:
                        read = (
                            _state.Read(core, told[0])
                            if self._group is None
                            else _run_group.Read(self._group, core, told[0])
                        )
                        extra, self.left_behind, why = _put_back(core, read, given)
                        break
                    except _Damage as damage:
                        told = core.next(str(damage))
            finally:
                skipped = core.skipped()
                core.leave()
            for passed in skipped:
                warnings.warn(f"{passed['name']} was passed over: {passed['why']}", stacklevel=2)
            if why:
                warnings.warn(why, stacklevel=2)
            self._saved = told[0]
            return Resumed(told[0], extra)

    def steps(self, verify: bool = False) -> list[dict[str, Any]]:
        """What is there, oldest first: name, step, time, bytes, complete, verified, kept, metric, and why not."""
        with self._lock:
            return self._alive().list(verify)

    def prune(self) -> int:
        """Removes what the rules do not keep; how many steps."""
        with self._lock:
            core = self._alive()
            return core.prune() if self.rank == 0 else 0

    # -- guard

    def guard(self, every: int = 0, *, exceptions: bool = True, agree: int = 1, **objects: Any) -> Guard:
        """A context that saves when the job is told to end, or fails: see Guard. objects: those of save; without them
        those of the last save or resume. agree: of a group, after how many steps its processes ask each other for signals."""
        if agree < 1:
            raise ValueError("guard: agree is at least 1")
        return Guard(self, (every, agree), exceptions, objects)

    # -- close

    def _alive(self) -> Any:
        if self._core is None:
            raise SafetensorError("the run is closed")
        return self._core

    def close(self) -> None:
        """Waits for what is being written; raises an error that no call has told."""
        with self._lock:
            if self._core is None:
                return
            # Handles that live on know the end of their saves; an error that one of them has just learned is raised here.
            told = [f._error for f in list(self._futures) if not f._done and f.wait()]
            told = [e for e in told if e is not None and str(e) not in self._raised]
            core, self._core = self._core, None
            self._lock_fd = None
            try:
                with self._waiting:
                    while self._waiters and _still_writing(core):
                        self._waiting.wait(0.1)
                    while self._waiters:
                        self._waiting.wait(0.1)
            finally:
                core.close()
            if told:
                raise told[0]

    def __enter__(self) -> Run:
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if error is None:
            self.close()
            return
        try:
            self.close()
        except Exception as e:
            warnings.warn(f"a save of the run failed, too: {e}", stacklevel=2)


def _ordinal_of(device: Any) -> int:
    import torch

    found = torch.device(device)
    if found.type != "cuda":
        raise ValueError(f"device: {device} is no CUDA device")
    return torch.cuda.current_device() if found.index is None else found.index


def _stream_of(ordinal: int | None) -> int:
    """torch's current stream of a device, for which the copies wait, as DLPack numbers it."""
    return _state.torch_module().cuda.current_stream(ordinal).cuda_stream or 1


def _still_writing(core: Any) -> bool:
    try:
        return bool(core.poll()["pending"])
    except Exception:
        return True


# ---------------------------------------------------------------- objects


class _Damage(Exception):
    pass


def _parts(what: str, objects: Any) -> Iterator[tuple[str, Any]]:
    """(name, object) of one object or of a dict of them."""
    if isinstance(objects, Mapping):
        yield from ((f"{what}.{name}", one) for name, one in objects.items())
    elif objects is not None:
        yield what, objects


def _others(given: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for what, objects in given.items():
        if what not in ("model", "optimizer", "rng"):
            if what in ("extra", "metrics", _run_group.ENTRY) or what.startswith("rng"):
                raise TypeError(f"{what} is no name for an object")
            yield from _parts(what, objects)


def _small_states(given: Mapping[str, Any], own: Callable[[Any], Any] = lambda x: x) -> dict[str, Any]:
    """The states of all that is neither a module nor an optimizer. own: what makes a copy of what an object may change;
    random states are copies already."""
    small = {}
    for name, one in _others(given):
        if _state.is_module(one):
            continue
        if hasattr(one, "state_dict") and hasattr(one, "load_state_dict"):
            small[name] = own(one.state_dict())
            generator = _generator_of(one)
            if generator is not None:
                small[f"{name}.generator"] = generator.get_state()
        elif hasattr(one, "set_epoch") and hasattr(one, "epoch"):
            small[name] = {"epoch": one.epoch}  # torch's DistributedSampler
        elif hasattr(one, "batch_sampler"):
            raise TypeError(
                f"a run cannot keep {type(one)} (at {name}): it does not tell where it is; iterate over"
                " safetensors_c.run.Batches(loader) and give that, or use torchdata's StatefulDataLoader"
            )
        else:
            raise TypeError(
                f"a run cannot keep {type(one)} (at {name}): it has no state_dict and load_state_dict"
            )
    rng = given.get("rng")
    if rng is not None and rng is not False:
        small.update({f"rng.{name}": state for name, state in _state.random_states(rng).items()})
    return small


def _generator_of(one: Any) -> Any:
    """The generator that a loader which tells where it is (torchdata's) was given; its state is not part of what it tells."""
    generator = getattr(one, "generator", None) if hasattr(one, "batch_sampler") else None
    return generator if hasattr(generator, "get_state") and hasattr(generator, "set_state") else None


def _begun(read: _state.Read, name: str, one: Any) -> list[tuple[Any, Any]]:
    """A loader that resumes draws random numbers when its epoch begins, which the training that goes on has done already: it
    begins now, before the random states are put back."""
    if not hasattr(one, "batch_sampler"):
        return []
    more: list[tuple[Any, Any]] = [(lambda ignored: one.state_dict(), None)]
    generator = _generator_of(one)
    if generator is not None and read.has(f"{name}.generator"):
        more.append((generator.set_state, read.tree(f"{name}.generator")))
    return more


def _collect(written: _state.Written, given: Mapping[str, Any], small: Mapping[str, Any]) -> None:
    model = given.get("model")
    if model is not None:
        written.model(model)
    names = _state.parameter_names(model)
    for key, optimizer in _parts("optimizer", given.get("optimizer")):
        if not hasattr(optimizer, "param_groups") or not hasattr(optimizer, "state_dict"):
            raise TypeError(f"a run cannot keep {type(optimizer)} (at {key}): it is no optimizer")
        written.optimizer(key, optimizer, names)
    for name, one in _others(given):
        if _state.is_module(one):
            written.module(name, one)
    for name, state in small.items():
        written.tree(name, state)


def _put_back(core: Any, read: _state.Read, given: Mapping[str, Any]) -> tuple[Any, set[str], str]:
    """extra, and what is left behind as another number of processes resumes: names, and a sentence."""
    states: list[tuple[str, Any, Any]] = []
    with read.together():
        rng = given.get("rng")
        wanted = rng is not None and rng is not False
        left, why = _run_group.left_behind(read, dict(_others(given)), wanted)
        _find_memory(read, given, left, states)
        kept = [n for n in read.nodes if n.startswith("rng.") and n not in left] if wanted else []
        generators = {n[4:]: read.tree(n) for n in kept}
        extra = read.tree("extra") if read.has("extra") else None
    try:
        core.load(read.loads)
    except SafetensorError as e:
        if e.status != "SFT_E_MISMATCH":
            raise
        raise _Damage(str(e)) from e
    torch = _state.torch_module()
    if torch is not None:
        with torch.no_grad():
            for put in read.then:
                put()
    for name, put_state, state in states:
        read.give(name, put_state, state)
    read.give("rng", lambda found: _state.set_random_states(found, rng), generators)
    return extra, left, why


def _find_memory(
    read: _state.Read, given: Mapping[str, Any], left: set[str], states: list[tuple[str, Any, Any]]
) -> None:
    model = given.get("model")
    if model is not None:
        read.model(model)
    names = _state.parameter_names(model)
    for key, optimizer in _parts("optimizer", given.get("optimizer")):
        read.optimizer(key, optimizer, names)
    for name, one in _others(given):
        if name in left:
            continue
        if _state.is_module(one):
            read.module(name, one)
        elif hasattr(one, "load_state_dict"):
            states.append((name, one.load_state_dict, read.tree(name)))
            states += [(name, put, state) for put, state in _begun(read, name, one)]
        elif hasattr(one, "set_epoch"):
            saved = read.tree(name)
            read.form(_state._has(saved, epoch=int), name)
            states.append((name, one.set_epoch, saved["epoch"]))
        else:
            raise TypeError(f"a run cannot keep {type(one)} (at {name})")


# ---------------------------------------------------------------- guard


class Guard:
    """Saves when the job is told to end, and when it fails.

        with run.guard(every=100, **state) as guard:
            while step < 10_000:
                train_one_step()
                step += 1
                guard.step(step, metrics={"loss": loss})

    step says that an update is complete, which is the only moment at which a save is exact. It saves every `every` steps,
    and when a signal has come: after SIGTERM it waits for the commit and raises SystemExit(143), after SIGUSR1 (SLURM's
    warning) training goes on. A second SIGTERM ends at once. run.save counts as a step, too.
    An exception that leaves the block: if nothing of the model and the optimizer has changed since the last step, that step
    is saved as it was, random states and loaders included; else a warning says which step is the newest.
    Signals are caught in the main thread of this process alone; the handlers before are put back at the end.

    Of a group, all processes enter, step and leave together. A signal to any of them (SLURM sends to all, or to one) is one to
    all: at the next step they save together, and after SIGTERM all raise SystemExit(143). To know of it, each step whose
    number is a multiple of `agree`, each run.save and the end of the block cost one allgather of 16 bytes, a round trip of
    the network; a process that does not come to it is named by an error with .status SFT_E_TIMEOUT after at most twice the
    run's timeout. A signal that reaches some before a step and others behind it is two: SIGUSR1 then saves two steps.
    An exception saves nothing there, as the others may be in the middle of theirs; a warning says which step is the newest.
    """

    def __init__(self, run: Run, periods: tuple[int, int], exceptions: bool, objects: dict[str, Any]) -> None:
        self._run = run
        self._every, self._agree = periods
        self._group = run._group
        self._exceptions = exceptions
        self._given = objects
        self._came: list[int] = []
        self._old: dict[int, Any] = {}
        self._process = os.getpid()
        self._safe: tuple[int, Any, Any, dict[str, Any], Moment] | None = None
        self._watch = Watch()
        self._ending = False  # SIGTERM came to this process
        self._leaving = False

    def __enter__(self) -> Guard:
        if threading.current_thread() is threading.main_thread():
            for name in ("SIGTERM", "SIGUSR1"):
                number = getattr(signal, name, None)
                if number is not None:
                    self._old[number] = signal.signal(number, self._signal)
        self._run._guard = self
        return self

    def _objects(self) -> dict[str, Any]:
        return {"rng": True, **self._given} if self._given else self._run._objects

    def _signal(self, number: int, frame: Any) -> None:
        if os.getpid() != self._process:  # a worker that was forked
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        elif self._ending and number == signal.SIGTERM:
            self._leave()
        else:
            self._ending = self._ending or number == signal.SIGTERM
            self._came.append(number)

    def _asked(self, step: int, always: bool = True) -> list[int]:
        """The signals that have come since the last call, to any process of a group."""
        if self._group is not None and not always and step % self._agree != 0:
            return []
        came, self._came = self._came, []
        return came if self._group is None else self._group.signals(step, came)

    def _follow(self, asked: list[int]) -> None:
        if signal.SIGTERM in asked:
            self._run.wait()
            self._leave()

    def _leave(self) -> None:
        self._leaving = True
        raise SystemExit(128 + signal.SIGTERM)

    def step(
        self, step: int, *, extra: Any = None, metrics: Mapping[str, Any] | None = None
    ) -> Handle | None:
        """An update is complete. The handle of a save, or None. Of a group: at the same step in all processes; see Guard for
        the cost and the errors."""
        handle = None
        due = self._every and step % self._every == 0
        asked = self._asked(step, always=False)
        if (due or asked) and self._run._saved != step:
            handle = self._save(step, extra, metrics, signal.SIGTERM in asked)
            if self._group is None:
                asked += self._asked(step)
        elif self._exceptions and self._group is None:
            given = self._objects()
            self._safe = (step, deepcopy(extra), metrics, _small_states(given, deepcopy), self._look(given))
        self._follow(asked)
        return handle

    def _save(self, step: int, extra: Any, metrics: Any, last: bool) -> Handle:
        """last: there is no next time, so what earlier saves failed at, of which each process tells its own, is a warning."""
        with self._run._lock:
            for _ in range(self._run.size if last else 0):
                try:
                    return self._run._write(step, self._objects(), extra, metrics)
                except (OSError, SafetensorError) as e:
                    warnings.warn(f"a save failed: {e}", stacklevel=3)
            return self._run._write(step, self._objects(), extra, metrics)

    def _after_save(self, step: int) -> None:
        self._follow(self._asked(step))

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        self._run._guard = None
        try:
            if error is not None and self._exceptions and not self._leaving:
                self._save_after(error)
        finally:
            self._watch.close()
            for number, old in self._old.items():
                signal.signal(number, signal.SIG_DFL if old is None else old)
        if error is None:
            asked = self._asked(-1)
            if signal.SIGTERM in asked and not self._leaving:
                self._save_after(SystemExit(128 + signal.SIGTERM))
            self._follow(asked)

    def _look(self, given: Mapping[str, Any]) -> Moment:
        modules = [one for _, one in _state.models(given.get("model"))]
        modules += [one for _, one in _others(given) if _state.is_module(one)]
        return self._watch.look(modules, [one for _, one in _parts("optimizer", given.get("optimizer"))])

    def _save_after(self, error: BaseException) -> None:
        if self._group is not None:
            warnings.warn(
                f"{type(error).__name__}: one of many processes saves nothing; the newest step is {self._run._saved}",
                stacklevel=3,
            )
        safe = self._safe
        if safe is None or (self._run._saved is not None and self._run._saved >= safe[0]):
            return
        step, extra, metrics, small, before = safe
        given = self._objects()
        if not self._look(given).same(before):
            warnings.warn(
                f"{type(error).__name__} came in the middle of the update after step {step}, which cannot be saved any"
                f" more; the newest step of the run is {self._run._saved}",
                stacklevel=3,
            )
            return
        try:
            with self._run._lock:
                self._run._write(step, given, extra, metrics, small=small)
            self._run.wait()
        except Exception as e:
            warnings.warn(f"step {step} could not be saved: {e}", stacklevel=3)


# ---------------------------------------------------------------- batches of a plain DataLoader


class Batches:
    """A torch DataLoader whose position can be saved: iterate over this, and give it as loader=.

    Kept are the states of the random generators from which an epoch began, its own and its sampler's, and how many batches
    were taken. A resumed epoch begins from these states and drops so many batches: loading them again is the price, and the
    workers' own random states are right then, too. An epoch that is left early is begun anew by the next iteration.
    Random states of worker processes that persist over epochs are not kept.
    """

    def __init__(self, loader: Any) -> None:
        self.loader = loader
        self._start: dict[str, Any] | None = None  # None: between two epochs
        self._taken = 0
        self._resumed = False
        self._now: dict[str, Any] = {}  # of its generators, where the saved training was

    def __len__(self) -> int:
        return len(self.loader)

    def _sampler(self) -> Any:
        find = getattr(
            self.loader, "get_sampler", None
        )  # accelerate's loaders: that of the program, beneath theirs
        return getattr(self.loader, "sampler", None) if find is None else find()

    def _generators(self) -> dict[str, Any]:
        sampler = self._sampler()
        batches = getattr(self.loader, "batch_sampler", None)
        owners = {"loader": self.loader, "sampler": sampler, "batch_sampler": batches}
        owners["inner"] = getattr(batches, "sampler", None)  # of a batch_sampler of the program's own
        found = {k: getattr(o, "generator", None) for k, o in owners.items()}
        return {k: g for k, g in found.items() if hasattr(g, "get_state") and hasattr(g, "set_state")}

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
        if self._resumed and self._start is not None:
            now = self._states()
            self._set(self._start, True)
            batches = iter(self.loader)
            for _ in range(self._taken):
                next(batches)
            self._set(now, False)
            for k, g in self._generators().items():
                if k in self._now:
                    g.set_state(self._now[k])
        else:
            self._start, self._taken = self._states(), 0
            batches = iter(self.loader)
        self._resumed = False
        return self._rest(batches)

    def _rest(self, batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            self._taken += 1
            yield batch
        self._start, self._taken = None, 0

    def state_dict(self) -> dict[str, Any]:
        now = {k: g.get_state() for k, g in self._generators().items()}
        return {"version": 1, "start": self._start, "taken": self._taken, "now": now}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._start, self._taken, self._resumed = state["start"], state["taken"], state["start"] is not None
        self._now = state["now"]
        for k, g in self._generators().items():
            if k in self._now:
                g.set_state(self._now[k])


# ---------------------------------------------------------------- forked children


def _descriptor_of(path: str) -> int | None:
    """This process's descriptor of an open file."""
    try:
        wanted = os.stat(path)
        for name in os.listdir("/dev/fd"):
            try:
                got = os.fstat(int(name))
            except OSError:
                continue
            if (got.st_dev, got.st_ino) == (wanted.st_dev, wanted.st_ino):
                return int(name)
    except OSError:
        pass
    return None


def _inherited(run: Run) -> Iterator[int]:
    """The descriptors of what the run's own threads had open when this process was forked: files of a step that is being
    written, and its directory, under its last name if the parent has renamed it since: nobody else writes there. Where the
    system does not tell what a descriptor is of (no /proc), none."""
    begin, whole = os.path.join(run._place, ".step-"), os.path.join(run._place, "step-")
    try:
        numbers = os.listdir("/proc/self/fd")
    except OSError:
        return
    for number in numbers:
        try:
            link = os.readlink(f"/proc/self/fd/{number}")
            if link.startswith(begin) or (link.startswith(whole) and _is_ours(run, link, int(number))):
                yield int(number)
        except OSError:  # that of the listing
            pass


def _is_ours(run: Run, link: str, number: int) -> bool:
    """A step's directory, or a file in one that is open for writing; what the program reads there is its own."""
    import fcntl

    writes = fcntl.fcntl(number, fcntl.F_GETFL) & os.O_ACCMODE != os.O_RDONLY
    return writes or os.path.dirname(link) == run._place


def _let_go() -> None:
    """A forked child (a worker of a loader) would hold the run's lock after its parent was killed, and, while it lives, the
    space of files that are removed."""
    for run in list(_open):
        if run._lock_fd is None:
            continue
        for fd in (run._lock_fd, *_inherited(run)):
            with contextlib.suppress(OSError):
                os.close(fd)
        run._lock_fd = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_let_go)
