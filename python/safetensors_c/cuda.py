# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Loads tensors into the memory of an NVIDIA GPU with libsafetensors-cuda: one allocation, a small ring of pinned memory,
reads and copies overlapped; of a slice only its bytes are read. Tensors are passed on through DLPack, without a copy.

    from safetensors_c import cuda
    weights = cuda.load("model.safetensors", device="cuda:0")        # torch tensors
    with cuda.Device(0) as gpu:                                      # cupy, jax, anything that takes DLPack
        part = gpu.load("model.safetensors", ["w"], slices={"w": slice(0, 512)})
        w = cupy.from_dlpack(part["w"])

The library is opened on first use (SAFETENSORS_CUDA_LIBRARY: a path to use instead of the system's); it needs only the
driver's libcuda.so.1. Without it: SafetensorError (status "unsupported").
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from . import _core
from ._core import SafetensorError, safe_open

_CUDA = 2  # DLPack's device type


class CudaTensor:
    """One tensor on a device, packed row-major. It keeps the memory of its load alive, and so do tensors made from it.

    name, dtype (the format's: "BF16"), shape, nbytes, address (a device pointer; of no meaning for 0 bytes),
    device (ordinal). An object with `__dlpack__`: give it to `torch.from_dlpack`, `cupy.from_dlpack`,
    `jax.dlpack.from_dlpack`. Any thread.
    """

    __slots__ = ("_index", "_loaded", "_bytes", "address", "device", "dtype", "name", "nbytes", "shape")

    def __init__(
        self, loaded: Any, index: int, device: int, view: tuple[str, str, tuple[int, ...], int, int]
    ):
        self._loaded, self._index, self._bytes, self.device = loaded, index, False, device
        self.name, self.dtype, self.shape, self.nbytes, self.address = view

    def __dlpack_device__(self) -> tuple[int, int]:
        return (_CUDA, self.device)

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """A DLPack capsule. All bytes are on the device when a load returns, so any stream may use them immediately.
        BufferError for a copy or another device."""
        if copy:
            raise BufferError("a copy was asked for: take one of what this gives")
        if dl_device is not None and tuple(dl_device) != self.__dlpack_device__():
            raise BufferError(f"the tensor is on CUDA device {self.device}, not on {dl_device}")
        return _core._cuda_dlpack(
            self._loaded, self._index, self._bytes, max_version is not None and max_version[0] >= 1
        )

    def as_bytes(self) -> CudaTensor:
        """The same memory as `nbytes` elements of U8, for consumers that do not know the type."""
        view = (self.name, "U8", (self.nbytes,), self.nbytes, self.address)
        other = CudaTensor(self._loaded, self._index, self.device, view)
        other._bytes = True
        return other

    def torch(self) -> Any:
        """A torch tensor over the same memory."""
        import torch  # pylint: disable=import-outside-toplevel

        from .torch import _TYPES  # pylint: disable=import-outside-toplevel

        dtype = _TYPES[self.dtype]
        if math.prod(self.shape) == 0:
            return torch.empty(self.shape, dtype=dtype, device=f"cuda:{self.device}")
        raw = torch.from_dlpack(self.as_bytes())
        shape = self.shape if self.dtype != "F4" else (*self.shape[:-1], self.shape[-1] // 2)
        return raw.view(dtype).reshape(shape)

    def __repr__(self) -> str:
        return f"<CudaTensor {self.name!r} {self.dtype} {list(self.shape)} on cuda:{self.device}>"


class Device:
    """An open GPU: primary context, streams, and the ring of pinned memory, which is kept for the next load.

    index: ordinal, as in CUDA_VISIBLE_DEVICES. driver: path of the driver's library (default: the system's).
    memory: bytes that all loads together may hold (default: what the device has). A context manager; what was loaded
    outlives it. Do not use it in a forked child. Any number of threads may load at the same time.
    """

    def __init__(self, index: int = 0, *, driver: Any = None, memory: int | None = None):
        self.index = index
        self._device: Any = _core._cuda_open(index, None if driver is None else os.fspath(driver), memory)

    def _open(self) -> Any:
        if self._device is None:
            raise SafetensorError("the device is closed")
        return self._device

    def info(self) -> dict[str, Any]:
        """name, total_bytes, free_bytes, held_bytes, peak_bytes, ring_bytes, driver_version, capability, unified."""
        return _core._cuda_info(self._open())

    def load(
        self,
        source: Any,
        names: Sequence[str] | None = None,
        *,
        slices: Mapping[str, Any] | None = None,
        direct: bool = False,
        progress: Callable[[int, int], object] | None = None,
    ) -> dict[str, CudaTensor]:
        """Loads tensors onto the device in one allocation; returns when they are complete.

        source: what `safe_open` takes, or an open one. names: only these. slices: {name: index}, as for
        `get_slice`; only the bytes of the slice are read. direct: GPUDirect Storage, for files where a probe shows that it
        works. progress(done, total): bytes; an exception in it ends the load.
        Raises SafetensorError (status "out of memory" if the device has too little), OSError, MemoryError (host).
        """
        if isinstance(source, safe_open):
            return self._load(source, names, slices, direct, progress)
        with safe_open(source, "np", backend="pread") as f:
            return self._load(f, names, slices, direct, progress)

    def _load(self, f: Any, names: Any, slices: Any, direct: bool, progress: Any) -> dict[str, CudaTensor]:
        slices = dict(slices) if slices is not None else None
        loaded, views = _core._cuda_load(self._open(), f, names, slices, direct, progress)
        return {view[0]: CudaTensor(loaded, i, self.index, view) for i, view in enumerate(views)}

    def close(self) -> None:
        """Frees the ring and the streams when the last running load ends. What was loaded stays."""
        self._device = None

    def __enter__(self) -> Device:
        return self

    def __exit__(self, *ignored: Any) -> None:
        self.close()


def statistics(tensor: CudaTensor) -> dict[str, Any]:
    """What the load that brought `tensor` did: bytes_read, bytes_copied, bytes_direct, chunks, copies, ring_waits (above
    zero: the copies were the limit), and how its first file was read: reason, direct, direct_reason."""
    return _core._cuda_stats(tensor._loaded)


def load(
    source: Any,
    names: Sequence[str] | None = None,
    *,
    device: Any = "cuda",
    slices: Mapping[str, Any] | None = None,
    direct: bool = False,
    progress: Callable[[int, int], object] | None = None,
) -> dict[str, Any]:
    """torch tensors on a CUDA device ("cuda": torch's current one). Otherwise as `Device.load`."""
    import torch  # pylint: disable=import-outside-toplevel

    place = torch.device(device)
    if place.type != "cuda":
        raise ValueError(f"device is {place}, not a CUDA device")
    index = place.index if place.index is not None else torch.cuda.current_device()
    with Device(index) as gpu:
        there = gpu.load(source, names, slices=slices, direct=direct, progress=progress)
        return {name: tensor.torch() for name, tensor in there.items()}
