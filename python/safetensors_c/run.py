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
import math
import operator
import os
import threading
import time
import warnings
import weakref
from typing import NamedTuple

from . import _core, _run_fork, _run_group, _run_objects
from . import _run_state as _state
from ._core import SafetensorError
from ._run_batches import Batches
from ._run_guard import Guard

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import Any

__all__ = ["Batches", "Guard", "Handle", "Resumed", "Run"]

_READ_ONLY = 1
_REPLACE = 1
_STEP_MAX = (1 << 53) - 1
_NONE = (1 << 64) - 1
_KEPT_OTHER = 64  # SFT_RUN_KEPT_OTHER
_SLICE = 50  # milliseconds of waiting between looks at signals


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
            ended = self._run._ended(self._ticket, timeout)
            if ended is not False:
                self._done, self._error = True, None if ended is True else ended
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
        (mode: "min" or "max"). A part of a second counts as one.
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
        numbers = {
            "keep_last": keep_last,
            "keep_every": keep_every,
            "keep_best": keep_best,
            "shard_bytes": shard_bytes,
            "arenas": arenas,
        }
        _check_numbers({**numbers, "keep_seconds": keep_seconds, "timeout": timeout})
        if best == "":
            raise ValueError("best: the name of a metric, not an empty text")
        if keep_best and best is None:
            raise ValueError(f"keep_best={keep_best} needs a metric: best=")
        self.path = os.fspath(path)
        self._lock = threading.RLock()
        self._waiting = threading.Condition()
        self._waiters = 0
        self._futures: weakref.WeakSet[_Future] = weakref.WeakSet()
        self._objects: dict[str, Any] = {}
        self._best: str | None = best  # None once a step has that metric, or was warned about
        self._raised: set[str] = set()  # errors behind that a call has told
        self._saved: int | None = None  # the newest step that was staged or resumed
        self._staged: set[int] = set()  # steps that this run has saved
        self._guard: Guard | None = None
        self._ordinal = None if device is None else _ordinal_of(device)
        # What the last resume did not put back, of another number of processes.
        self.left_behind: set[str] = set()
        self._group = None if group is None else _run_group.Processes(group, timeout)
        if self._group is not None:
            self._group.begin(f"opening {self.path}", "open")
        self._core: Any = _core._Run(
            path=self.path,
            **numbers,
            keep_seconds=math.ceil(keep_seconds),
            flags=_READ_ONLY if read_only else 0,
            best=best,
            mode=mode,
            durable=durable,
            sha256=sha256,
            device=None if self._ordinal is None else _core._cuda_open(self._ordinal),
            group=None if self._group is None else self._group.talk,
            timeout_ms=max(1, int(timeout * 1000)),
        )
        self._read_only = bool(read_only)
        self._place = os.path.realpath(self.path)
        self._lock_fd = (
            None if read_only else _run_fork.descriptor_of(os.path.join(self.path, ".sft-run.lock"))
        )
        _run_fork.opened.add(self)

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
        keep: int | None = None,
        **objects: Any,
    ) -> Handle:
        """Saves a step: copies everything and returns; writing goes on behind.

        model: a torch.nn.Module, or a dict of them. optimizer: one, or a dict of them; its parameters are the model's.
        scheduler=, scaler=, ema=, loader=, sampler= ...: further modules, and objects with state_dict and
        load_state_dict, by names of your choice. rng: the random states of python, NumPy and torch; a dict: those, and
        generators by names. extra: dicts, lists, numbers, texts, tensors: what resume returns. metrics: numbers for the
        rules. files: {"config.json": text} beside the weights, or {"directory/name": text}. replace: a step of this number is replaced. keep: the number
        of a step that stays, too, once this one is committed, whatever the rules say, until a later save names another: this
        one, or one that is there.
        Raises TypeError with the path of a value that it does not know; FileExistsError; and, before anything is done, the
        error of an earlier save that failed behind.
        Cost: one copy of the state; waits where the step before is still being written.
        """
        given = {"model": model, "optimizer": optimizer, "rng": rng, **objects}
        with self._lock:
            self._objects = given
            handle = self._write(step, given, extra, metrics, files, (replace, keep))
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
        how: tuple[bool, int | None] = (False, None),
        small: dict[str, Any] | None = None,
    ) -> Handle:
        core = self._alive()
        written = (
            _state.Written(self._ordinal)
            if self._group is None
            else _run_group.Written(self._group, step, self._ordinal)
        )
        with written.together():  # what is wrong in one process is told to all
            step = _step_number("a step", step)
            replace, keep = how[0], self._kept(step, how[1])
            _run_objects.collect(
                written, given, small if small is not None else _run_objects.small_states(given)
            )
            if extra is not None:
                written.tree("extra", extra)
            numbers = [
                (name, float(v.detach() if _state.is_tensor(v) else v)) for name, v in (metrics or {}).items()
            ]
            texts = [(n, _bytes_of(n, v)) for n, v in (files or {}).items()]
        whole = (
            _REPLACE if replace else 0,
            written.tensors,
            written.entries,
            numbers,
            texts,
            written.metadata,
        )
        stream = _stream_of(self._ordinal) if written.on_device else 0
        with self._telling():
            ticket = core.save(step, *whole, stream, _NONE if keep is None else keep)
        self._look_for_best([name for name, _ in numbers])
        self._saved = step
        self._staged.add(step)
        return Handle(self, step, ticket)

    def _kept(self, step: int, keep: int | None) -> int | None:
        """The step that is to stay: this one, or one that is there or on its way. The first process's counts."""
        if keep is None:
            return None
        keep = _step_number("keep", keep)
        if self.rank == 0 and keep != step and keep not in self._staged:
            there = self._alive().list(False, keep)
            if not there or not there[0]["complete"]:
                raise ValueError(f"keep={keep}: the run has no such step")
        return keep

    def _look_for_best(self, names: list[str]) -> None:
        """One warning where neither this step nor another one has the metric of the rules."""
        if self._best is None or self.rank > 0:
            return
        best, self._best = self._best, None
        if best in names:
            return
        others = [s for s in self._alive().list(False) if s["complete"]]
        if not others and self._saved is None:
            self._best = best  # the first one
        elif not any(s["metric"] for s in others):
            warnings.warn(
                f"no step has the metric best={best!r}, this one has {', '.join(names) or 'none'}: all steps stay until one"
                " has it",
                stacklevel=4,
            )

    # -- for dcp

    def _all_told(self, step: int, told: dict[str, Any], error: Exception | None) -> list[dict[str, Any]]:
        """What all processes tell before they save; an error of one is one of all."""
        if self._group is None:
            if error is not None:
                raise error
            return [told]
        self._group.begin(f"saving step {step}", "save")
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
        ended = self._ended(ticket, timeout)
        if isinstance(ended, Exception):
            raise ended
        return ended

    def _ended(self, ticket: int, timeout: float | None) -> bool | Exception:
        """Whether it is committed within the time, or the error of that save: what is raised is of something else."""
        core = self._alive()
        if timeout is not None and not timeout >= 0:
            raise ValueError(f"timeout is a number of seconds from 0 on, not {timeout!r}")
        end = None if timeout is None else time.monotonic() + timeout
        with self._waiting:
            self._waiters += 1
        try:
            while True:
                left = _SLICE if end is None else int(max(0, min(_SLICE, (end - time.monotonic()) * 1000)))
                ended: bool | Exception = core.wait(ticket, left)
                if ended is not False:
                    return ended
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
        rewind: bool = False,
        **objects: Any,
    ) -> Resumed:
        """Puts the newest step that is complete and verified into the objects, in place; (0, None) for a new run.

        A step that is being written is waited for. The objects as in save, made as for a new training. step: this one alone.
        Digests are compared while loading: a step that is damaged is passed over, with a warning that says why. Warnings name
        a step without random states, unless rng is False, and, when an optimizer goes on, what the step holds beside what is
        asked for. rewind: the steps above it are removed, once all is in the objects; without it a warning says that no step
        below them can be saved.
        Raises SafetensorError with .status: SFT_E_NOT_FOUND, SFT_E_SHAPE, SFT_E_DTYPE, SFT_E_MISMATCH name the parameter
        where the step is of another model; SFT_E_NOT_FOUND where there are steps, none of which can be used.
        After an error the objects hold anything.
        """
        given = {"model": model, "optimizer": optimizer, "rng": rng, **objects}
        step = None if step is None else _step_number("step", step)
        with self._lock:
            self._objects = given
            core = self._alive()
            if self._group is None:
                self.wait()
            else:
                self._group.begin("resuming", _call("resume", step, rewind))
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
                        extra, self.left_behind, why = _run_objects.put_back(core, read, given)
                        break
                    except _run_objects.Damage as damage:
                        told = core.next(str(damage))
            finally:
                skipped = core.skipped()
                core.leave()
            for passed in skipped:
                warnings.warn(f"{passed['name']} was passed over: {passed['why']}", stacklevel=2)
            if why:
                warnings.warn(why, stacklevel=2)
            self._saved = told[0]
            if rewind:
                self.rewind(told[0])
            elif step is not None:
                self._warn_of_newer(step)
            return Resumed(told[0], extra)

    def rewind(self, step: int | None) -> int:
        """For a training that goes on from this step, at that moment: removes the complete steps above it; None: all, to
        train anew from nothing. How many were removed. Of a group all processes call it.

        Raises SafetensorError and removes nothing where the run has no such complete step (.status SFT_E_NOT_FOUND) or it is
        damaged. After another error all are there, or none is for anybody, and the next save removes what is left.
        """
        step = None if step is None else _step_number("step", step)
        with self._lock:
            core = self._alive()
            if self._group is not None:
                self._group.begin("rewinding", f"rewind to {'nothing' if step is None else f'step {step}'}")
            with self._telling():
                removed: int = core.rewind(step)
            if self._saved is not None and (step is None or self._saved > step):
                self._saved = step
            return removed

    def _newest_good(self) -> tuple[int | None, list[dict[str, Any]]]:
        """The newest step that is complete and verified, and the newer ones. Older ones are not read."""
        with self._lock:
            core = self._alive()
            newer: list[dict[str, Any]] = []
            for s in reversed(core.list(False)):
                if s["complete"]:
                    s = next(iter(core.list(True, s["step"])), s)
                if s["complete"] and s["verified"]:
                    return s["step"], newer
                newer.append(s)
            return None, newer

    def _newer(self, step: int) -> list[str]:
        """The names of complete steps above this one, those aside that were found to be damaged: not only unreadable."""
        steps = [s for s in self._alive().list(False) if s["complete"]]
        found = [s for s in steps if s["verified"] is not False or s["kept"] & _KEPT_OTHER]
        return [s["name"] for s in found if s["step"] > step]

    def _warn_of_newer(self, step: int) -> None:
        newer = self._newer(step) if self.rank == 0 and not self._read_only else []
        if newer:
            warnings.warn(
                f"the run has newer steps than {step} ({_some(newer)}), below which none can be saved:"
                f" resume(step={step}, rewind=True) removes them",
                stacklevel=3,
            )

    def _begin_training(
        self, step: int | Callable[[], int], rewind: bool, word: str, remove: bool = True
    ) -> int:
        """For trainers: training goes on from this step (0: from nothing), and the run has none beyond it, or `word` says how
        they are removed; remove: they are, now, before the first update. The step, which a function may find out. Of a group
        all processes call it."""
        with self._lock:
            told: dict[str, Any] = {"call": "begin", "newer": []}
            error: Exception | None = None
            try:
                told["step"] = step if isinstance(step, int) else step()
                if self.rank == 0:
                    told["newer"] = self._newer(told["step"])
            except Exception as e:
                error = e
            if self._group is not None:
                self._group.begin("beginning to train", "begin")
                told = self._group.agree(told, error)[0]
            elif error is not None:
                raise error
            begin, newer = told["step"], told["newer"]
            if newer and not rewind:
                where = f"from step {begin}" if begin else "from nothing"
                raise FileExistsError(
                    f"training begins {where}, and the run {self.path} has steps beyond that: {_some(newer)}. Resume from"
                    f" the newest, take another directory, or have them removed: {word}"
                )
            if newer and remove:
                complete = [s["step"] for s in self._alive().list(False) if s["complete"]]
                self.rewind(max((s for s in complete if s <= begin), default=None))
            return int(begin)

    def steps(self, verify: bool = False) -> list[dict[str, Any]]:
        """What is there, oldest first: name, step, time, bytes, complete, verified (True or False; None: not compared), kept, metric,
        and why not."""
        with self._lock:
            return self._alive().list(verify)

    def prune(self) -> int:
        """Removes what the rules do not keep; how many steps."""
        with self._lock:
            core = self._alive()
            with self._telling():
                return core.prune() if self.rank == 0 else 0

    # -- guard

    def guard(self, every: int = 0, *, exceptions: bool = True, agree: int = 1, **objects: Any) -> Guard:
        """A context that saves when the job is told to end, or fails: see Guard. objects: those of save; without them
        those of the last save or resume. agree: of a group, after how many steps its processes ask each other for signals."""
        every, agree = _step_number("every", every), _step_number("agree", agree)
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
            errors: list[BaseException | None] = []
            try:
                errors += [f._error for f in list(self._futures) if not f._done and f.wait()]
            except (OSError, SafetensorError) as e:
                errors.append(e)
            told = [e for e in errors if e is not None and str(e) not in self._raised]
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


def _check_numbers(numbers: dict[str, float]) -> None:
    for name, value in numbers.items():
        if not 0 <= value < 1 << 63:
            raise ValueError(f"{name} is a number from 0 on, not {value!r}")


def _step_number(what: str, value: Any) -> int:
    """Exactly, never modulo 2^64."""
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{what} is a whole number, not {value!r}") from None
    if isinstance(value, bool) or not 0 <= number <= _STEP_MAX:
        raise ValueError(f"{what} is a number up to 2^53 - 1, not {value}")
    return number


def _call(name: str, step: int | None, rewind: bool) -> str:
    """What all processes of a group must have called."""
    return f"{name}{'' if step is None else f' of step {step}'}{', with a rewind' if rewind else ''}"


def _bytes_of(name: str, text: Any) -> bytes:
    if isinstance(text, str):
        return text.encode()
    if not isinstance(text, (bytes, bytearray, memoryview)):
        raise TypeError(f"files: {name!r} is a {type(text).__name__}, not a text or bytes")
    return bytes(text)


def _some(names: list[str]) -> str:
    return ", ".join(names if len(names) < 5 else [*names[:2], "...", names[-1]])


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
