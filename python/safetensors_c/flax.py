# SPDX-License-Identifier: Apache-2.0 OR MIT
"""safetensors for JAX and Flax: save, save_file, load, load_file, save_stream.

The dict of the caller is left as it is. bfloat16 and float8 come and go as JAX's own (ml_dtypes).
"""

from __future__ import annotations

import os
from typing import Dict, Optional, Union  # noqa: F401  (importable from here)

import jax.numpy as jnp
import numpy as np
from jax import Array

from . import _alias, _io, numpy
from ._core import safe_open  # noqa: F401

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any, BinaryIO

    Path = Union[str, os.PathLike]


def _np2jnp(numpy_dict: dict[str, np.ndarray]) -> dict[str, Array]:
    return {name: jnp.array(array) for name, array in numpy_dict.items()}


def _jnp2np(jnp_dict: Mapping[str, Array]) -> dict[str, np.ndarray]:
    return {name: np.asarray(array) for name, array in jnp_dict.items()}


class _Flax(_io.Frame):
    name = "flax"

    def specs(self, tensors: Any, keep: list, *, force_contiguous: bool = False) -> dict[str, Any]:
        return numpy._flatten(_jnp2np(tensors), keep)

    def one(self, name: str, tensor: Any, keep: list) -> Any:
        return numpy._flatten({name: np.asarray(tensor)}, keep)[name]

    def plan_entry(self, like: Any) -> tuple[str, list[int]]:
        return numpy._FRAME.plan_entry(like)

    def cast(self, tensor: Any, dtype: Any, *, only_floating: bool) -> Any:
        if isinstance(dtype, str) and (dtype in numpy._TYPES or dtype in numpy._ML_TYPES):
            dtype = numpy._getdtype(dtype)
        if only_floating and not jnp.issubdtype(tensor.dtype, jnp.floating):
            return tensor
        return tensor.astype(dtype)

    def alias(self, base: Any, view: _alias.View) -> Any:
        return jnp.array(numpy._FRAME.alias(np.asarray(base), view))


_FRAME = _Flax()


def save(tensors: dict[str, Array], metadata: dict[str, str] | None = None) -> bytes:
    """The bytes of a safetensors file with these arrays."""
    return numpy.save(_jnp2np(tensors), metadata=metadata)


def save_file(
    tensors: dict[str, Array],
    filename: Path | BinaryIO,
    metadata: dict[str, str] | None = None,
    *,
    digests: str | None = None,
    progress: Callable[[int, int], Any] | None = None,
) -> None:
    """Saves arrays to a path, all or nothing, or to an object with write(); see safetensors_c.numpy."""
    extra = _io.given(digests=digests, progress=progress)
    numpy.save_file(_jnp2np(tensors), filename, metadata=metadata, **extra)


def save_stream(
    plan: Mapping[str, Any],
    produce: Callable[[str], Array],
    filename: Path | BinaryIO,
    metadata: dict[str, str] | None = None,
    *,
    digests: str | None = None,
    progress: Callable[[int, int], Any] | None = None,
) -> None:
    """Saves arrays that are made one at a time; plan may hold jax.ShapeDtypeStruct."""
    _io.save_stream(_FRAME, filename, plan, produce, metadata, digests, progress)


def load(data: Any) -> dict[str, Array]:
    """Arrays from the bytes of a file."""
    return _np2jnp(numpy.load(data))


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
        _io.opener(safe_open, filename, framework="flax", backend=backend),
        backend,
        select,
        rename,
        dtype,
        verify,
        aliases,
        with_metadata,
        progress,
    )
