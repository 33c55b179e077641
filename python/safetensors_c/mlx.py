# SPDX-License-Identifier: Apache-2.0 OR MIT
"""safetensors for MLX: save, save_file, load, load_file, save_stream. bfloat16 is saved and loaded, too."""

from __future__ import annotations

import os  # noqa: F401
from typing import Any, Dict, Optional, Union  # noqa: F401  (importable from here)

import mlx.core as mx
import numpy as np

from . import _io, numpy
from ._core import safe_open  # noqa: F401
from ._over_numpy import OverNumpy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping


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


class _Mlx(OverNumpy["mx.array"]):
    name = "mlx"

    def plan_entry(self, like: Any) -> tuple[str, list[int]]:
        name, shape = super().plan_entry(like)
        return ("bool" if name == "bool_" else name), shape

    def cast(self, tensor: Any, dtype: Any, *, only_floating: bool) -> Any:
        if only_floating and not mx.issubdtype(tensor.dtype, mx.floating):
            return tensor
        return tensor.astype(getattr(mx, _io.NAMES.get(dtype, dtype)) if isinstance(dtype, str) else dtype)


_FRAME = _Mlx(globals(), "_mx2np", "_np2mx")
save = _FRAME.save
save_file = _FRAME.save_file
save_stream = _FRAME.save_stream
load = _FRAME.load
load_file = _FRAME.load_file
