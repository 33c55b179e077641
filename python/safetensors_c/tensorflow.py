# SPDX-License-Identifier: Apache-2.0 OR MIT
"""safetensors for TensorFlow: save, save_file, load, load_file, save_stream.

The dict of the caller is left as it is. bfloat16 and float8 come and go as TensorFlow's own (ml_dtypes).
"""

from __future__ import annotations

import os
from typing import Dict, Optional, Union  # noqa: F401  (importable from here)

import numpy as np
import tensorflow as tf

from . import _alias, _io, numpy
from ._core import safe_open  # noqa: F401

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any, BinaryIO

    Path = Union[str, os.PathLike]


def _np2tf(numpy_dict: dict[str, np.ndarray]) -> dict[str, tf.Tensor]:
    return {name: tf.convert_to_tensor(array) for name, array in numpy_dict.items()}


def _tf2np(tf_dict: Mapping[str, tf.Tensor]) -> dict[str, np.ndarray]:
    return {name: np.asarray(tensor.numpy()) for name, tensor in tf_dict.items()}


class _TensorFlow(_io.Frame):
    name = "tf"

    def specs(self, tensors: Any, keep: list, *, force_contiguous: bool = False) -> dict[str, Any]:
        return numpy._flatten(_tf2np(tensors), keep)

    def one(self, name: str, tensor: Any, keep: list) -> Any:
        return numpy._flatten({name: np.asarray(tensor.numpy())}, keep)[name]

    def plan_entry(self, like: Any) -> tuple[str, list[int]]:
        dtype, shape = like if isinstance(like, tuple) else (like.dtype, like.shape)
        return tf.as_dtype(dtype).name, [int(n) for n in shape]

    def cast(self, tensor: Any, dtype: Any, *, only_floating: bool) -> Any:
        if isinstance(dtype, str) and (dtype in numpy._TYPES or dtype in numpy._ML_TYPES):
            dtype = tf.as_dtype(numpy._getdtype(dtype))
        if only_floating and not tensor.dtype.is_floating:
            return tensor
        return tf.cast(tensor, dtype)

    def alias(self, base: Any, view: _alias.View) -> Any:
        return tf.convert_to_tensor(numpy._FRAME.alias(base.numpy(), view))


_FRAME = _TensorFlow()


def save(tensors: dict[str, tf.Tensor], metadata: dict[str, str] | None = None) -> bytes:
    """The bytes of a safetensors file with these tensors."""
    return numpy.save(_tf2np(tensors), metadata=metadata)


def save_file(
    tensors: dict[str, tf.Tensor],
    filename: Path | BinaryIO,
    metadata: dict[str, str] | None = None,
    *,
    digests: str | None = None,
    progress: Callable[[int, int], Any] | None = None,
) -> None:
    """Saves tensors to a path, all or nothing, or to an object with write(); see safetensors_c.numpy."""
    extra = _io.given(digests=digests, progress=progress)
    numpy.save_file(_tf2np(tensors), filename, metadata=metadata, **extra)


def save_stream(
    plan: Mapping[str, Any],
    produce: Callable[[str], tf.Tensor],
    filename: Path | BinaryIO,
    metadata: dict[str, str] | None = None,
    *,
    digests: str | None = None,
    progress: Callable[[int, int], Any] | None = None,
) -> None:
    """Saves tensors that are made one at a time; plan may hold tf.TensorSpec."""
    _io.save_stream(_FRAME, filename, plan, produce, metadata, digests, progress)


def load(data: Any) -> dict[str, tf.Tensor]:
    """Tensors from the bytes of a file."""
    return _np2tf(numpy.load(data))


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
    """Tensors of a file, as a dict in the order of the file; see safetensors_c.torch.load_file."""
    return _io.load(
        _FRAME,
        _io.opener(safe_open, filename, framework="tf", backend=backend),
        backend,
        select,
        rename,
        dtype,
        verify,
        aliases,
        with_metadata,
        progress,
    )
