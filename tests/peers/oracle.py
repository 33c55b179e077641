# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The other end of tests/peers/sft_oracle.c: frames out, records back."""

import pathlib
import re
import struct
import subprocess

HEADER = pathlib.Path(__file__).resolve().parents[2] / "include" / "sft" / "types.h"
NO_OFFSET = 2**64 - 1


def status_names():
    """{number: "SFT_E_..."} read from the public header, so that no second list can go stale."""
    rows = re.findall(r"X\((SFT_\w+), (\d+), \"", HEADER.read_text())
    if len(rows) < 30:
        raise SystemExit(f"cannot read the statuses from {HEADER}")
    return {int(number): name for name, number in rows}


STATUS = status_names()


class Crash(Exception):
    """The program ended badly; `frame` is the input that did it (or None if it only fails in company)."""

    def __init__(self, message, frame):
        super().__init__(message)
        self.frame = frame


def run(program, mode, payload):
    return subprocess.run([program, mode], input=payload, capture_output=True, check=False)


def ask(program, mode, frames):
    """One answer (bytes) per frame."""
    joined = b"".join([part for f in frames for part in (struct.pack("<I", len(f)), f)])
    done = run(program, mode, joined)
    if done.returncode != 0:
        for frame in frames:
            alone = run(program, mode, struct.pack("<I", len(frame)) + frame)
            if alone.returncode != 0:
                raise Crash(f"exit {alone.returncode}: {alone.stderr.decode(errors='replace')}", frame)
        raise Crash(f"exit {done.returncode}: {done.stderr.decode(errors='replace')}", None)
    out, answers, at = done.stdout, [], 0
    while at < len(out):
        (size,) = struct.unpack_from("<I", out, at)
        answers.append(out[at + 4 : at + 4 + size])
        at += 4 + size
    if len(answers) != len(frames):
        raise Crash(f"{len(answers)} answers to {len(frames)} frames", None)
    return answers


class Record:
    """Reads the fields of one answer in order."""

    def __init__(self, data):
        self.data, self.at = data, 0

    def u32(self):
        (v,) = struct.unpack_from("<I", self.data, self.at)
        self.at += 4
        return v

    def u64(self):
        (v,) = struct.unpack_from("<Q", self.data, self.at)
        self.at += 8
        return v

    def many64(self, count):
        v = struct.unpack_from(f"<{count}Q", self.data, self.at)
        self.at += 8 * count
        return v

    def raw(self):
        size = self.u32()
        self.at += size
        return self.data[self.at - size : self.at]

    def rest(self):
        return self.data[self.at :]


class Verdict:
    """What the library said about one file."""

    __slots__ = ("status", "offset", "tensor", "message", "header_bytes", "metadata", "tensors", "ok")

    def __init__(self, answer):
        r = Record(answer)
        self.status = STATUS[r.u32()]
        r.u32()
        self.offset = r.u64()
        self.tensor = r.raw().decode()
        self.message = r.raw().decode()
        self.ok = self.status == "SFT_OK"
        self.metadata, self.tensors = None, []
        if not self.ok:
            return
        self.header_bytes = r.u64()
        has_metadata, count = r.u32(), r.u32()
        pairs = [(r.raw().decode(), r.raw().decode()) for _ in range(count)]
        self.metadata = dict(pairs) if has_metadata else None
        if len(pairs) != len(self.metadata or ()):
            raise Crash("the same metadata key twice in one answer", None)
        for _ in range(r.u32()):
            name, dtype = r.raw().decode(), r.raw().decode()
            shape = list(r.many64(r.u32()))
            offset, nbytes, borrowed, borrowed_size = r.many64(4)
            self.tensors.append((name, dtype, shape, offset, nbytes, borrowed, borrowed_size))
        if r.rest():
            raise Crash("bytes left over in an answer", None)


def text(data):
    return struct.pack("<I", len(data)) + data
