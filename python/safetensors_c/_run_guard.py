# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Guard: what Run.guard gives."""

from __future__ import annotations

import os
import signal
import threading
import warnings
from copy import deepcopy

from . import _run_objects
from . import _run_state as _state
from ._core import SafetensorError
from ._run_watch import Moment, Watch
from ._run_workers import Workers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from .run import Handle, Run


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
    A signal to all processes of the job kills the workers of a loader (SIGTERM; SIGUSR1 only those that are not forked within
    the block). What torch raises then waits for the next step, which saves; where the loader waits for a batch it leaves the
    block, and the last step is saved (exceptions=False: not). After SIGTERM SystemExit(143) follows in both cases.

    Of a group, all processes enter, step and leave together. A signal to any of them (SLURM sends to all, or to one) is one to
    all: at the next step they save together, and after SIGTERM all raise SystemExit(143). To know of it, each step whose
    number is a multiple of `agree`, each run.save and the end of the block cost one allgather of 16 bytes, a round trip of
    the network; a process that does not come to it is named by an error with .status SFT_E_TIMEOUT after at most twice the
    run's timeout. A signal that reaches some before a step and others behind it is two: SIGUSR1 then saves two steps.
    An exception saves nothing there, as the others may be in the middle of theirs; a warning says which step is the newest:
    also that of a loader that waits for a batch of workers that a signal has killed.
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
        self._saving = False
        self._workers = Workers(lambda: bool(self._ending or self._saving or self._came))

    def __enter__(self) -> Guard:
        if threading.current_thread() is threading.main_thread():
            for name in ("SIGTERM", "SIGUSR1"):
                number = getattr(signal, name, None)
                if number is not None:
                    self._old[number] = signal.signal(number, self._signal)
            self._workers.begin()
        self._run._guard = self
        return self

    def _objects(self) -> dict[str, Any]:
        return {"rng": True, **self._given} if self._given else self._run._objects

    def _signal(self, number: int, frame: Any) -> None:
        if (
            os.getpid() != self._process
        ):  # a worker that was forked, without which training could not go on after SIGUSR1
            signal.signal(number, signal.SIG_DFL if number == signal.SIGTERM else signal.SIG_IGN)
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
        if asked and (error := self._workers.take()) is not None:
            raise error

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
            self._safe = (
                step,
                deepcopy(extra),
                metrics,
                _run_objects.small_states(given, deepcopy),
                self._look(given),
            )
        self._follow(asked)
        return handle

    def _save(self, step: int, extra: Any, metrics: Any, last: bool) -> Handle:
        """last: there is no next time, so what earlier saves failed at, of which each process tells its own, is a warning."""
        self._saving = True
        try:
            with self._run._lock:
                for _ in range(self._run.size if last else 0):
                    try:
                        return self._run._write(step, self._objects(), extra, metrics)
                    except (OSError, SafetensorError) as e:
                        warnings.warn(f"a save failed: {e}", stacklevel=3)
                return self._run._write(step, self._objects(), extra, metrics)
        finally:
            self._saving = False

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
            self._workers.end(self._ending)
        if error is None:
            self._workers.take()  # nobody needs them any more
            asked = self._asked(-1)
            if signal.SIGTERM in asked and not self._leaving:
                self._save_after(SystemExit(128 + signal.SIGTERM))
            self._follow(asked)
        elif self._ending and not self._leaving and isinstance(error, Exception):
            if self._workers.died or isinstance(error, (ConnectionError, EOFError)):  # of dead workers
                self._leave()

    def _look(self, given: Mapping[str, Any]) -> Moment:
        modules = [one for _, one in _state.models(given.get("model"))]
        modules += [one for _, one in _run_objects.others(given) if _state.is_module(one)]
        return self._watch.look(
            modules, [one for _, one in _run_objects.parts("optimizer", given.get("optimizer"))]
        )

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
