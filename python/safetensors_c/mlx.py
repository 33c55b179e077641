# SPDX-License-Identifier: Apache-2.0 OR MIT
"""safetensors for MLX: save, save_file, load, load_file, save_stream. bfloat16 is saved and loaded, too."""

from __future__ import annotations

import os
from typing import Dict, Optional, Union  # noqa: F401  (importable from here)

import mlx.core as mx
import numpy as np

from . import _alias, _io, numpy
from ._core import safe_open  # noqa: F401

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any, BinaryIO

    Path = Union[str, os.PathLike]


def _to_np(array: Any) -> np.ndarray:
    if array.dtype == mx.bfloat16:
        raw = np.asarray(array.reshape(-1).view(mx.uint16))
        return raw.view(numpy._getdtype("BF16")).reshape(array.shape)
    return np.asarray(array)


def _to_mx(array: np.ndarray) -> Any:
    if array.dtype.name == "bfloat16":
        flat = np.ascontiguousarray(array).reshape(-1).view(np.uint16)
        return mx.array(flat).view(mx.bfloat16).reshape(array.shape)
    return mx.array(array)


def _from_numpy(array: np.ndarray, device: Any) -> Any:
    """What the extension calls to make an array of a file."""
    return _to_mx(array)


def _np2mx(numpy_dict: dict[str, np.ndarray]) -> dict[str, mx.array]:
    return {name: _to_mx(array) for name, array in numpy_dict.items()}


def _mx2np(mx_dict: Mapping[str, mx.array]) -> dict[str, np.ndarray]:
    return {name: _to_np(array) for name, array in mx_dict.items()}


class _Mlx(_io.Frame):
    name = "mlx"

    def specs(self, tensors: Any, keep: list, *, force_contiguous: bool = False) -> dict[str, Any]:
        return numpy._flatten(_mx2np(tensors), keep)

    def one(self, name: str, tensor: Any, keep: list) -> Any:
        return numpy._flatten({name: _to_np(tensor)}, keep)[name]

    def plan_entry(self, like: Any) -> tuple[str, list[int]]:
        dtype, shape = like if isinstance(like, tuple) else (like.dtype, like.shape)
        name = str(dtype).split(".")[-1]
        return ("bool" if name == "bool_" else name), list(shape)

    def cast(self, tensor: Any, dtype: Any, *, only_floating: bool) -> Any:
        if isinstance(dtype, str):
            dtype = getattr(mx, numpy._FRAME.plan_entry((numpy._getdtype(dtype), ()))[0])
        if only_floating and not mx.issubdtype(tensor.dtype, mx.floating):
            return tensor
        return tensor.astype(dtype)

    def alias(self, base: Any, view: _alias.View) -> Any:
        return _to_mx(np.ascontiguousarray(numpy._FRAME.alias(_to_np(base), view)))


_FRAME = _Mlx()


def save(tensors: dict[str, mx.array], metadata: dict[str, str] | None = None) -> bytes:
    """The bytes of a safetensors file with these arrays."""
    return numpy.save(_mx2np(tensors), metadata=metadata)


def save_file(
    tensors: dict[str, mx.array],
    filename: Path | BinaryIO,
    metadata: dict[str, str] | None = None,
    *,
    digests: str | None = None,
    progress: Callable[[int, int], Any] | None = None,
) -> None:
    """Saves arrays to a path, all or nothing, or to an object with write(); see safetensors_c.numpy."""
    extra = _io.given(digests=digests, progress=progress)
    numpy.save_file(_mx2np(tensors), filename, metadata=metadata, **extra)


def save_stream(
    plan: Mapping[str, Any],
    produce: Callable[[str], mx.array],
    filename: Path | BinaryIO,
    metadata: dict[str, str] | None = None,
    *,
    digests: str | None = None,
    progress: Callable[[int, int], Any] | None = None,
) -> None:
    """Saves arrays that are made one at a time."""
    _io.save_stream(_FRAME, filename, plan, produce, metadata, digests, progress)


def load(data: Any) -> dict[str, mx.array]:
    """Arrays from the bytes of a file."""
    return _np2mx(numpy.load(data))


def load_file(
    filename: Any,
    *,
    backend: str = "mmap",
    select: Any = None,
    rename: Any = None,
    dtype: Any = None,
    verify: bool = False,
    aliases: bool = True,
    with_metadata: bool = False,
    progress: Callable[[int, int], Any] | None = None,
) -> Any:
    """Arrays of a file, as a dict in the order of the file; see safetensors_c.torch.load_file."""
    return _io.load(
        _FRAME,
        _io.opener(safe_open, filename, framework="mlx", backend=backend),
        backend,
        select,
        rename,
        dtype,
        verify,
        aliases,
        with_metadata,
        progress,
    )
