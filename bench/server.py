# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A contender: a process that answers a line of words with a number or a JSON object."""

import json
import select
import subprocess
import time

PATIENCE = 600  # seconds for one answer


class Failed(Exception):
    """A contender that could not do what was asked; the others go on."""


class Server:
    def __init__(self, command, greets=False, instead=None):
        """greets: the first line out says whether it is there at all; see peers.py. instead: words that are
        to be other ones."""
        self.command = [str(c) for c in command]
        self.greets = greets
        self.instead = instead or {}
        self.version = None
        self.process = None

    def start(self):
        try:
            self.process = subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        except OSError as error:
            raise Failed(f"{self.command[0]}: {error}") from error
        if self.greets:
            greeting = self.answer(120)
            if "ready" not in greeting:
                self.kill()
                raise Failed(greeting.get("absent", str(greeting)))
            self.version = greeting["ready"]

    def answer(self, seconds=PATIENCE):
        end, line = time.monotonic() + seconds, b""
        while not line.endswith(b"\n"):
            ready, _, _ = select.select([self.process.stdout], [], [], max(0, end - time.monotonic()))
            if not ready:
                self.kill()
                raise Failed(f"no answer within {seconds} s")
            more = self.process.stdout.read1(1 << 16)
            if not more:
                self.kill()
                raise Failed(f"{self.command[-1].rsplit('/', 1)[-1]} died")
            line += more
        return json.loads(line)

    def __call__(self, *words):
        words = [str(self.instead.get(str(w), w)) for w in words]
        if self.process is None:
            self.start()
        try:
            self.process.stdin.write(("\t".join(words) + "\n").encode())
            self.process.stdin.flush()
        except OSError as error:
            self.kill()
            raise Failed(f"{self.command[0]}: {error}") from error
        try:
            answer = self.answer()
        except Failed as error:
            raise Failed(f"{error} at {' '.join(words)}"[:300]) from error
        if isinstance(answer, dict) and "error" in answer:
            raise Failed(answer["error"])
        return answer

    def kill(self):
        if self.process is not None:
            self.process.kill()
            self.close()

    def close(self):
        if self.process is not None:
            try:
                self.process.stdin.close()
            except OSError:
                pass
            self.process.wait()
            self.process.stdout.close()
            self.process = None
