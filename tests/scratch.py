# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Where tests work and what the programs that they start may take. Standard library only."""

import contextlib
import os
import resource
import tempfile

ROOM = 1 << 30


def in_memory():
    """From here on temporary directories of this process are in memory, where that has room: tests that make and
    remove tens of thousands of small files spend nine tenths of their time in a file system on disk."""
    try:
        room = os.statvfs("/dev/shm")
    except OSError:
        return
    if (
        os.access("/dev/shm", os.W_OK)
        and room.f_bavail * room.f_frsize >= ROOM
        and "TMPDIR" not in os.environ
    ):
        tempfile.tempdir = "/dev/shm"


@contextlib.contextmanager
def address_space(most):
    """Programs started within have no more than `most` bytes, or no limit with None. They inherit it from this
    process, which needs little while it starts one: a function that runs between fork and exec (preexec_fn) would
    cost more than most of the runs themselves."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    if most is not None:
        resource.setrlimit(resource.RLIMIT_AS, (most, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)
