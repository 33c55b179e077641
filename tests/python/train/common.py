# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What the tests of training frameworks share: trainings in processes of their own that are killed, and what lies on the disk."""

import contextlib
import os
import pathlib
import random
import resource
import signal
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


def train(script, *words, kill_after=None, timeout=300):
    """Runs `script words...`, which prints lines; SIGKILL after that many lines and a moment. (lines, exit status)."""
    env = {**os.environ, "PYTHONHASHSEED": "0", "TOKENIZERS_PARALLELISM": "false", "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(
        [sys.executable, "-u", str(script), *map(str, words)],
        stdout=subprocess.PIPE,
        text=True,
        env=env,
        start_new_session=True,
    ) as process:
        lines, end = [], time.monotonic() + timeout
        for line in process.stdout:
            if line.startswith("= "):
                lines.append(line[2:].strip())
            if kill_after is not None and len(lines) >= kill_after:
                time.sleep(random.random() * 0.05)
                os.killpg(process.pid, signal.SIGKILL)
                break
            assert time.monotonic() < end
        process.stdout.read()
        return lines, process.wait()


def train_together(size, script, *words, kill_after=None, timeout=300):
    """As train, by `size` processes of torchrun, each of which says its number first: `= pid NUMBER`. SIGKILL to one of them.
    Lines are sorted: they begin with the rank and the step."""
    command = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--nproc-per-node",
        str(size),
        "--rdzv-backend",
        "c10d",
    ]
    command += ["--rdzv-endpoint", "127.0.0.1:0", "--local-addr", "127.0.0.1"]
    env = {**os.environ, "PYTHONHASHSEED": "0", "TOKENIZERS_PARALLELISM": "false", "OMP_NUM_THREADS": "1"}
    env["GLOO_SOCKET_IFNAME"] = "lo"
    with subprocess.Popen(
        [*command, str(script), *map(str, words)], stdout=subprocess.PIPE, text=True, env=env
    ) as process:
        lines, numbers, end = [], [], time.monotonic() + timeout
        for line in process.stdout:
            if line.startswith("= pid "):
                numbers.append(int(line[6:]))
            elif line.startswith("= "):
                lines.append(line[2:].strip())
            if kill_after is not None and len(lines) >= kill_after:
                time.sleep(random.random() * 0.05)
                os.kill(random.choice(numbers), signal.SIGKILL)  # the launcher ends the others
                kill_after = None
            assert time.monotonic() < end
        return sorted(lines), process.wait()


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
    os.write(1, ("= " + " ".join(map(str, words)) + "\n").encode())  # whole: other processes write there, too
    time.sleep(0.04)


def compare(whole, pieces):
    """Lines `STEP VALUE...` of a training in pieces: every one equals that of the whole; the last piece reached the end."""
    wanted = dict(line.split(" ", 1) for line in whole)
    for line in (x for piece in pieces for x in piece):
        step, value = line.split(" ", 1)
        assert wanted[step] == value, f"{step}: {value} instead of {wanted[step]}"
    assert pieces[-1][-1] == whole[-1]
