# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What a process that is forked while a Run is open lets go of."""

from __future__ import annotations

import contextlib
import os
import weakref

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from .run import Run

opened: weakref.WeakSet[Run] = weakref.WeakSet()


def descriptor_of(path: str) -> int | None:
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
    for run in list(opened):
        if run._lock_fd is None:
            continue
        for fd in (run._lock_fd, *_inherited(run)):
            with contextlib.suppress(OSError):
                os.close(fd)
        run._lock_fd = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_let_go)
