# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What the tests of training frameworks share: trainings in processes of their own that are killed, and what lies on the disk."""

import contextlib
import os
import pathlib
import random
import resource
import signal
import socket
import subprocess
import sys
import time

MAGICS = (b"PK\x03\x04", b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05")  # zip (torch.save), pickles


def files_of(directory):
    return sorted(p for p in pathlib.Path(directory).rglob("*") if p.is_file())


def assert_no_pickle(directory):
    """Every file below is safetensors or text."""
    files = files_of(directory)
    assert files
    for path in files:
        data = path.read_bytes()
        assert not data.startswith(MAGICS), path
        if path.suffix == ".safetensors" or path.suffix == ".ckpt":
            assert data[8:9] == b"{" and int.from_bytes(data[:8], "little") < len(data), path
        else:
            data.decode("utf-8")
    return [str(p.relative_to(directory)) for p in files]


def _port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def _ranks(processes):
    """What each process of a job of torch.distributed on this machine has in its environment; one alone has none of it."""
    if processes == 1:
        return [{}]
    common = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(_port()), "WORLD_SIZE": str(processes)}
    common.update(GLOO_SOCKET_IFNAME="lo", LOCAL_WORLD_SIZE=str(processes))
    return [{**common, "RANK": str(rank), "LOCAL_RANK": str(rank)} for rank in range(processes)]


def train(script, *words, kill_after=None, timeout=300, processes=1):
    """Runs `script words...`, whose first process prints lines; SIGKILL to all of them after that many lines and a moment.
    (lines, exit status of the first)."""
    env = {**os.environ, "PYTHONHASHSEED": "0", "TOKENIZERS_PARALLELISM": "false", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-u", str(script), *map(str, words)]
    started = [
        subprocess.Popen(
            command, stdout=subprocess.PIPE, text=True, env={**env, **rank}, start_new_session=True
        )
        for rank in _ranks(processes)
    ]
    lines, end = [], time.monotonic() + timeout
    try:
        for line in started[0].stdout:
            if line.startswith("= "):
                lines.append(line[2:].strip())
            if kill_after is not None and len(lines) >= kill_after:
                time.sleep(random.random() * 0.05)
                break
            assert time.monotonic() < end
        else:
            for process in started:
                process.wait(timeout=60)
    finally:
        for process in started:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
    return lines, started[0].returncode


@contextlib.contextmanager
def no_room():
    """Within it files of this process end after 100 bytes, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def say(*words):
    """A line for train, and a moment in which it may be killed."""
    if os.environ.get("RANK", "0") == "0":
        print("=", *words, flush=True)
    time.sleep(0.04)


def compare(whole, pieces):
    """Lines `STEP VALUE...` of a training in pieces: every one equals that of the whole; the last piece reached the end."""
    wanted = dict(line.split(" ", 1) for line in whole)
    for line in (x for piece in pieces for x in piece):
        step, value = line.split(" ", 1)
        assert wanted[step] == value, f"{step}: {value} instead of {wanted[step]}"
    assert pieces[-1][-1] == whole[-1]
