# SPDX-License-Identifier: Apache-2.0 OR MIT
"""safe_open.prefetch: the tensors of a file loading to a CUDA device in the background.

Reader threads take tensors in file order: each reads into pinned memory with the GIL released, copies to the device on a
stream of its own, waits for the copy, and hands the tensor to take() and iteration. The loader keeps the file open: the
handle may be closed first. A tensor's memory belongs to torch and is freed with it.
"""

from __future__ import annotations

import threading
import weakref
from collections import deque

from . import _core
from ._io import NAMES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

SafetensorError = _core.SafetensorError


class PrefetchLoader:
    """Returns each tensor once, by take(name) or by iterating over (name, tensor) as they become ready."""

    def __init__(self, jobs: dict[str, Callable[[], Any]], place: Callable[[Any], Any], threads: int) -> None:
        self._names = dict.fromkeys(jobs)
        self._waiting = deque(jobs.items())
        self._ready: dict[str, Any] = {}
        self._taken: set[str] = set()
        self._error: BaseException | None = None
        self._closed = False
        self._changed = threading.Condition()
        for _ in range(max(1, min(threads, len(jobs)))):
            arguments = (weakref.ref(self), self._changed, place)
            threading.Thread(target=_work, args=arguments, daemon=True).start()

    def names(self) -> list[str]:
        """The names of its tensors, in file order."""
        return list(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def take(self, name: str) -> Any:
        """The tensor, once it has arrived on the device. SafetensorError if it was taken before or loading failed."""
        with self._changed:
            if name not in self._names:
                raise SafetensorError(f"tensor {name} is not in the prefetch plan")
            while True:
                self._check()
                if name in self._ready:
                    return self._hand_out(name)
                if name in self._taken:
                    raise SafetensorError(
                        "tensor already delivered (prefetch hands each tensor out once, via take or iteration)"
                    )
                self._changed.wait()

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        while True:
            with self._changed:
                while not self._ready:
                    self._check()
                    if len(self._taken) == len(self._names):
                        return
                    self._changed.wait()
                self._check()
                name = next(iter(self._ready))
                tensor = self._hand_out(name)
            yield name, tensor

    def _hand_out(self, name: str) -> Any:
        self._taken.add(name)
        return self._ready.pop(name)

    def close(self) -> None:
        """Stops loading and releases every tensor that was not taken; those taken stay."""
        with self._changed:
            self._closed = True
            self._waiting.clear()
            self._ready.clear()
            self._changed.notify_all()

    def __enter__(self) -> PrefetchLoader:
        return self

    def __exit__(self, *ignored: object) -> None:
        self.close()

    def __del__(self) -> None:
        if hasattr(self, "_changed"):
            self.close()

    def _check(self) -> None:
        if self._closed:
            raise SafetensorError("prefetch loader closed")
        if self._error is not None:
            raise SafetensorError(f"prefetch failed: {self._error}") from self._error


def _work(alive: Any, changed: threading.Condition, place: Callable[[Any], Any]) -> None:
    """One reader thread. It does not keep the loader alive while it reads."""
    while True:
        current = alive()
        if current is None:
            return
        with changed:
            if current._closed or current._error is not None or not current._waiting:
                return
            name, read = current._waiting.popleft()
        del current
        failure, tensor = None, None
        try:
            tensor = place(read())
        except BaseException as e:  # handed to whoever waits
            failure = e
        del read
        current = alive()
        if current is None:
            return
        with changed:
            if failure is not None:
                current._error = current._error or failure
            elif not current._closed:
                current._ready[name] = tensor
            changed.notify_all()
        del current, tensor


def _rows(f: Any, name: str, wanted: Any) -> slice | None:
    """The rows of a plan entry, checked; None for all. SafetensorError for what is no contiguous range of rows."""
    meta = f.get_tensor_meta(name)
    if wanted is None:
        return None
    if not isinstance(wanted, slice):
        raise SafetensorError(f"prefetch plan values must be None or a slice, got {type(wanted)} for {name}")
    if not meta.shape:
        raise SafetensorError(f"cannot slice rows of the 0-d tensor {name}")
    rows = meta.shape[0]
    for side in ("start", "stop"):
        bound = getattr(wanted, side)
        if bound is None:
            continue
        if not isinstance(bound, int):
            raise SafetensorError(f"prefetch plan slice bounds for {name} must be integers or None")
        if not -rows <= bound <= rows:
            raise SafetensorError(
                f"prefetch plan slice {side} {bound} for {name} is out of range for {rows} rows"
            )
    try:
        start, stop, step = wanted.indices(rows)
    except (TypeError, ValueError) as e:
        raise SafetensorError(f"invalid prefetch plan slice for {name}: {e}") from None
    if step != 1:
        raise SafetensorError(f"prefetch plan slices must have step 1, got {step} for {name}")
    nbytes = meta.data_offsets[1] - meta.data_offsets[0]
    if rows and nbytes % rows:
        raise SafetensorError(f"cannot slice rows of {name}: a row is not a whole number of bytes")
    return slice(start, max(start, stop))


def _cuda_index(device: Any) -> int:
    if isinstance(device, int) and not isinstance(device, bool):
        return device
    text = str(device)
    if text == "cuda":
        return 0
    if text.startswith("cuda:") and text[5:].isdecimal():
        return int(text[5:])
    raise SafetensorError(f"prefetch loads to cuda devices, not {text}")


def _jobs(f: Any, plan: Any) -> dict[str, Callable[[], Any]]:
    """{name: function that reads it}, in file order; everything is checked before anything is read."""
    rows: dict[str, slice | None] | None = None
    if plan is not None:
        rows = {}
        for name, wanted in plan.items():
            if not isinstance(name, str):
                raise SafetensorError("prefetch plan keys must be tensor names")
            rows[name] = _rows(f, name, wanted)
    jobs: dict[str, Callable[[], Any]] = {}
    for name in f.offset_keys():
        if rows is not None and name not in rows:
            continue
        dtype = f.get_tensor_meta(name).dtype
        if dtype not in NAMES:
            raise SafetensorError(f"prefetch cannot hand out dtype {dtype}: torch has no matching dtype")
        part = rows[name] if rows is not None else None
        jobs[name] = _reader(f.get_slice(name), part)
    if rows is not None and not jobs:
        raise SafetensorError("prefetch plan selects no tensors")
    return jobs


def _reader(view: Any, part: slice | None) -> Callable[[], Any]:
    return lambda: view[:] if part is None and view.get_shape() else view[part if part else ...]


def _placer(index: int) -> Callable[[Any], Any]:
    """A function that copies a tensor to the device on a stream of the calling thread, complete when it returns."""
    import torch

    device = torch.device("cuda", index)
    local = threading.local()

    def place(tensor: Any) -> Any:
        if not hasattr(local, "stream"):
            local.stream = torch.cuda.Stream(device)
        with torch.cuda.stream(local.stream):
            there = tensor.pin_memory().to(device, non_blocking=True)
        local.stream.synchronize()
        return there

    return place


def _on_cpu(handle: Any, device: Any) -> Any:
    """A handle whose slices are in the CPU's memory: the same file, reopened if the handle has another device."""
    if device in (None, "cpu"):
        return handle
    reopen, arguments = handle.__reduce__()
    return reopen(arguments[0], arguments[1], "cpu", "pread")


def start(
    handle: Any,
    framework: str,
    default_device: Any,
    plan: Any = None,
    *,
    device: Any = None,
    threads: int = 8,
) -> PrefetchLoader:
    """What safe_open.prefetch calls."""
    if framework not in ("pt", "torch", "pytorch"):
        raise SafetensorError('prefetch is only compatible with framework="pt"')
    if handle.closed:
        raise SafetensorError("File is closed")
    index = _cuda_index(default_device if device is None else device)
    jobs = _jobs(_on_cpu(handle, default_device), plan)
    return PrefetchLoader(jobs, _placer(index), threads)
