# SPDX-License-Identifier: Apache-2.0 OR MIT
"""stream(): the tensors of one or many files, one after another, read ahead."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from ._core import TensorStream, safe_open


class _Chain:
    """The streams of several files, each opened when the previous one ends."""

    def __init__(self, sources: Iterable[Any], framework: str, device: Any, wanted: dict[str, Any]):
        self._sources = iter(sources)
        self._open = (framework, device)
        self._wanted = wanted
        self._now: TensorStream | None = None

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        return self

    def __next__(self) -> tuple[str, Any]:
        while True:
            if self._now is None:
                self._now = _one(next(self._sources), *self._open, self._wanted)
            try:
                return next(self._now)
            except StopIteration:
                self._now = None

    def close(self) -> None:
        """Stops reading ahead. Tensors already returned stay."""
        self._sources = iter(())
        if self._now is not None:
            self._now.close()
            self._now = None

    def __enter__(self) -> _Chain:
        return self

    def __exit__(self, *ignored: Any) -> None:
        self.close()


def _one(source: Any, framework: str, device: Any, wanted: dict[str, Any]) -> TensorStream:
    if isinstance(source, safe_open):
        return source.stream(**wanted)
    return safe_open(source, framework, device, backend="pread").stream(**wanted)


def stream(
    source: Any,
    names: Sequence[str] | None = None,
    *,
    framework: str = "pt",
    device: Any = "cpu",
    order: str = "file",
    memory: int | None = None,
    slices: dict[str, Any] | None = None,
    verify: bool = False,
) -> TensorStream | _Chain:
    """Pairs (name, tensor), read ahead by the package's threads while the caller works.

    source: a path, a directory of shards, an index, bytes, an open `safe_open`, or a list of those, read file by file.
    names: only these (of one source). order: "file" (in the order of the bytes, the fastest), "given" (as in `names`)
    or "any" (as they arrive). memory: bytes for reading ahead; default: at least three times the largest of them. Tensors
    already returned do not count: their memory is the caller's. slices: {name: index}, as for `get_slice`. verify:
    compare complete tensors with the CRC32C recorded in their files.

    Returns an iterator that is also a context manager; close() or leaving the block stops reading ahead. An error is
    raised when its tensor is due (SafetensorError.tensor) and ends the stream: OSError, or SafetensorError, also for a
    digest that differs. Use it from one thread at a time.
    """
    wanted = {"names": names, "order": order, "memory": memory, "slices": slices, "verify": verify}
    if isinstance(source, (list, tuple)) and not isinstance(source, (str, bytes, os.PathLike)):
        if names is not None:
            raise ValueError("names are those of one source, not of a list")
        return _Chain(source, framework, device, wanted)
    return _one(source, framework, device, wanted)
