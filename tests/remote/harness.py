# SPDX-License-Identifier: Apache-2.0 OR MIT
"""harness.py - what the tests of models behind URLs share: files, the probe, counting. Standard library only."""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import struct
import subprocess
import tempfile
import time
from typing import Callable

HERE = os.path.dirname(os.path.abspath(__file__))
MODEL = os.path.join(os.path.dirname(os.path.dirname(HERE)), "examples", "model")
# A test must not wait for what a user would, but a busy machine may keep a good server from answering for seconds:
# short back-off for all, short stalls only where the server does stall.
PATIENT = ["backoff_ms=10", "stall_ms=20000", "deadline_ms=60000", "connect_ms=20000"]
QUICK = ["stall_ms=1000", "deadline_ms=3000"]


def header_of(length: int, data: int) -> bytes:
    """A safetensors file whose header text has exactly `length` bytes, with one U8 tensor of `data` bytes."""
    entry = '"t":{"dtype":"U8","shape":[%d],"data_offsets":[0,%d]}' % (data, data)
    plain = '{"__metadata__":{"p":"%s"},' + entry + "}"
    text = plain % ("x" * (length - len(plain % "")))
    assert len(text) == length
    body = bytes((i * 7 + length) & 255 for i in range(data))
    return struct.pack("<Q", length) + text.encode() + body


def tensors_file(tensors: dict[str, bytes]) -> bytes:
    at = 0
    entries = {}
    for name, data in tensors.items():
        entries[name] = {"dtype": "U8", "shape": [len(data)], "data_offsets": [at, at + len(data)]}
        at += len(data)
    text = json.dumps(entries).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + b"".join(tensors.values())


def noise(size: int, seed: int) -> bytes:
    """Bytes that nothing compresses and every run makes again."""
    out = bytearray()
    block = hashlib.sha512(b"%d" % seed).digest()
    while len(out) < size:
        block = hashlib.sha512(block).digest()
        out += block * 1024
    return bytes(out[:size])


class Tests:
    """Named checks that go on after a failure; the last line counts them."""

    def __init__(self) -> None:
        parser = argparse.ArgumentParser()
        parser.add_argument("--probe", required=True)
        parser.add_argument("--tool")
        parser.add_argument("--fault")
        parser.add_argument("--table", action="store_true", help="print the table of cases")
        parser.add_argument("only", nargs="*")
        self.args = parser.parse_args()
        self.failed = 0
        self.passed = 0
        self.tmp = os.path.realpath(tempfile.mkdtemp(prefix="sft-remote-"))
        self.files = os.path.join(self.tmp, "files")
        shutil.copytree(MODEL, self.files)
        self.log = os.path.join(self.tmp, "log")
        self.env = {k: v for k, v in os.environ.items() if not k.startswith(("HF_", "AWS_", "SSL_"))}
        self.env = {k: v for k, v in self.env.items() if not k.lower().endswith("_proxy")}
        self.env.update(HOME=os.path.join(self.tmp, "home"), NO_COLOR="1")

    def put(self, name: str, data: bytes) -> str:
        path = os.path.join(self.files, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as f:
            f.write(data)
        return path

    def probe(self, *args: str, env: dict[str, str] | None = None, timeout: float = 300) -> dict:
        done = subprocess.run(
            [self.args.probe, *PATIENT, *args],
            env={**self.env, **(env or {})},
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        if done.returncode not in (0, 1):
            raise RuntimeError("probe %s: %d %s" % (args, done.returncode, done.stderr[-2000:]))
        return json.loads(done.stdout)

    def tool(self, *args: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess:
        return subprocess.run(
            [self.args.tool, *args],
            env={**self.env, **(env or {})},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    def logged(self) -> list[dict]:
        if not os.path.exists(self.log):
            return []
        with open(self.log, encoding="utf-8") as f:
            return [json.loads(line) for line in f]

    def forget(self) -> None:
        if os.path.exists(self.log):
            os.remove(self.log)

    def check(self, name: str, good: bool, what: object = "") -> None:
        if good:
            self.passed += 1
        else:
            self.failed += 1
            print("FAILED %s: %s" % (name, what))

    def equal(self, name: str, got: object, wanted: object) -> None:
        self.check(name, got == wanted, "got %r, wanted %r" % (got, wanted))

    def run(self, *tests: Callable[["Tests"], None]) -> int:
        for test in tests:
            if self.args.only and test.__name__ not in self.args.only:
                continue
            begun = time.monotonic()
            try:
                test(self)
            except Exception as e:  # pylint: disable=broad-except
                self.check(test.__name__, False, repr(e))
            if self.args.table:
                print("# %s: %.1f s" % (test.__name__, time.monotonic() - begun))
        shutil.rmtree(self.tmp, ignore_errors=True)
        print("%d checks passed, %d failed" % (self.passed, self.failed))
        return 1 if self.failed else 0


def sha256(path: str) -> str:
    with open(path, "rb") as f:
        return hashlib.sha256(f.read()).hexdigest()
