# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The death of a loader's workers while a guard has something to save.

A signal to all processes of a job kills the workers, and torch tells of that by an error in the midst of whatever the
training does, which is the end of an update that could have been saved. While a guard is active this error waits.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_SOON = 0.5  # seconds in which a signal that has reached the workers reaches this process, and the other way round


class Workers:
    """noted: whether a signal has come that is not answered yet."""

    def __init__(self, noted: Callable[[], bool]) -> None:
        self._noted = noted
        self._old: Any = None
        self._process = os.getpid()
        self._until: float | None = None  # None: the guard is active
        self.error: Exception | None = None  # that waits
        self.died = False

    def begin(self) -> None:
        if not hasattr(signal, "SIGCHLD"):
            return
        torch_data = sys.modules.get("torch.utils.data")
        if torch_data is not None:
            with contextlib.suppress(Exception):  # what torch does for its first loader with workers
                torch_data._utils.signal_handling._set_SIGCHLD_handler()
        old = signal.getsignal(signal.SIGCHLD)
        if callable(old):
            self._old = old
            signal.signal(signal.SIGCHLD, self._handler)

    def end(self, ending: bool) -> None:
        """ending: the job is told to end, and workers that die a moment later are no error of it."""
        self._until = time.monotonic() + _SOON if ending else 0.0
        if self._old is not None and not ending and signal.getsignal(signal.SIGCHLD) == self._handler:
            signal.signal(signal.SIGCHLD, self._old)

    def take(self) -> Exception | None:
        error, self.error = self.error, None
        return error

    def _handler(self, number: int, frame: Any) -> None:
        try:
            self._old(number, frame)
        except Exception as error:
            if os.getpid() != self._process or not self._told():
                raise
            self.died = True
            if _waits(frame):  # for a batch that does not come any more, between two updates
                raise
            self.error = error

    def _told(self) -> bool:
        if self._until is not None:
            return time.monotonic() < self._until
        end = time.monotonic() + _SOON
        while not self._noted() and time.monotonic() < end:
            time.sleep(0.01)
        return self._noted()


def _waits(frame: Any) -> bool:
    while frame is not None:
        if (
            frame.f_code.co_name == "_try_get_data"
            and frame.f_globals.get("__name__") == "torch.utils.data.dataloader"
        ):
            return True
        frame = frame.f_back
    return False
