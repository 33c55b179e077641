# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Where tests work and what the programs that they start may take. Standard library only."""

import os
import resource
import subprocess
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


def launch(most, command, **how):
    """subprocess.Popen of a program that has no more than `most` bytes of address space (None: no limit). It inherits the
    limit from this process, which needs little while it starts one: a function that runs between fork and exec
    (preexec_fn) would cost more than most of the runs themselves. It is used where this process is itself too large."""
    if most is None:
        return subprocess.Popen(command, **how)
    before = resource.getrlimit(resource.RLIMIT_AS)
    limit = (most, before[1])
    with open("/proc/self/statm", encoding="ascii") as f:
        own = int(f.read().split()[0]) * resource.getpagesize()
    if own > most // 2:
        return subprocess.Popen(
            command, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, limit), **how
        )
    resource.setrlimit(resource.RLIMIT_AS, limit)
    try:
        return subprocess.Popen(command, **how)
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)
