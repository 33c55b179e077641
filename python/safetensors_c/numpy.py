# SPDX-License-Identifier: Apache-2.0 OR MIT
"""safetensors for NumPy: save, save_file, load, load_file, load_into, save_stream.

Arrays of any layout and byte order are saved right. bfloat16, float8 and float4 are the types of the
package ml_dtypes, imported when a tensor has one. docs/python.md lists the differences from
`safetensors.numpy`.
"""

from __future__ import annotations

import os
import sys
from typing import Dict, List, Optional, Union  # noqa: F401  (importable from here)

import numpy as np

from . import _alias, _core, _io
from ._core import (  # noqa: F401
    SafetensorError,
    TensorSpec,
    deserialize,
    safe_open,
    serialize,
    serialize_file,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any, BinaryIO

    Path = Union[str, os.PathLike]

# Types that NumPy gets from ml_dtypes. F4 is packed two to a byte in files and one to a byte in arrays.
_ML_TYPES = {
    code: name.removesuffix("_x2")
    for code, name in _io.NAMES.items()
    if name.startswith(("bfloat", "float8", "float4"))
}
_ML_CODES = {name: code for code, name in _ML_TYPES.items()}
_TYPES: dict[str, Any] = {c: np.dtype(n).type for c, n in _io.NAMES.items() if c not in _ML_TYPES}
_TYPES["BOOL"] = bool


def _getdtype(dtype_str: str) -> Any:
    if dtype_str in _ML_TYPES:
        try:
            import ml_dtypes
        except ImportError:
            raise SafetensorError(
                f"a tensor is {dtype_str}, which NumPy has only with the package ml_dtypes"
            ) from None
        return getattr(ml_dtypes, _ML_TYPES[dtype_str])
    return _TYPES[dtype_str]


def _is_little_endian(tensor: np.ndarray) -> bool:
    order = tensor.dtype.byteorder
    if order == "=":
        return sys.byteorder == "little"
    if order in "|<>":
        return order != ">"
    raise ValueError(f"Unexpected byte order {order}")


_NAMES: dict[
    Any, str
] = {}  # little-endian types by dtype: dtype.name, in Python, takes longer than all the rest


def _spec(tensor: Any, keep: list) -> Any:
    if not tensor.flags.c_contiguous:
        tensor = tensor.copy(order="C")
    name = _NAMES.get(tensor.dtype)
    if name is None:
        little = _is_little_endian(tensor)
        tensor = tensor if little else tensor.byteswap(inplace=False)
        name = tensor.dtype.name
        if little and len(_NAMES) < 64:
            _NAMES[tensor.dtype] = name
    shape = tensor.shape
    if name == "float4_e2m1fn":
        tensor, shape, name = _packed_f4(tensor)
    keep.append(tensor)
    return TensorSpec(dtype=name, shape=shape, data_ptr=_core._array_address(tensor), data_len=tensor.nbytes)


def _packed_f4(tensor: np.ndarray) -> tuple[np.ndarray, tuple[int, ...], str]:
    """Two elements of the last dimension per byte, the first in the low half."""
    if tensor.ndim == 0 or tensor.shape[-1] % 2:
        raise ValueError(f"float4 needs an even last dimension to be saved, got {tensor.shape}")
    raw = tensor.view(np.uint8) & 15
    packed = raw[..., 0::2] | (raw[..., 1::2] << 4)
    return np.ascontiguousarray(packed), packed.shape, "float4_e2m1fn_x2"


def _flatten(tensor_dict: Mapping[str, np.ndarray], keep_alive_buffer: list) -> dict[str, Any]:
    return {
        name: _spec(tensor if isinstance(tensor, np.ndarray) else _array(tensor), keep_alive_buffer)
        for name, tensor in tensor_dict.items()
    }


def _array(value: Any) -> np.ndarray:
    value.dtype  # noqa: B018 - an AttributeError for what is no array
    return np.asarray(value)


def _view2np(safeview: Iterable[tuple[str, Any]]) -> dict[str, np.ndarray]:
    """The result of deserialize as arrays over the same memory."""
    return {name: _array_over(v["data"], v["dtype"], v["shape"]) for name, v in safeview}


def _array_over(data: Any, code: str, shape: Any) -> np.ndarray:
    if code == "F4":
        return _unpack_f4(np.frombuffer(data, dtype=np.uint8), shape)
    dtype = np.dtype(_getdtype(code))
    array = np.frombuffer(data, dtype=dtype).reshape(shape)
    if sys.byteorder == "big" and dtype.itemsize > 1:
        array = array.byteswap()
    return array


def _unpack_f4(packed: np.ndarray, shape: Any) -> np.ndarray:
    """An array with an element to a byte; what the extension calls for a file's F4."""
    both = np.stack([packed & 15, packed >> 4], axis=-1)
    return both.reshape(shape).view(_getdtype("F4"))


_OURS = (deserialize, _view2np)


class _Numpy(_io.Frame[np.ndarray]):
    name = "np"

    def specs(self, tensors: Any, keep: list, *, force_contiguous: bool = False) -> dict[str, Any]:
        return _flatten(tensors, keep)

    def plan_entry(self, like: Any) -> tuple[str, list[int]]:
        dtype, shape = like if isinstance(like, tuple) else (like.dtype, like.shape)
        name, shape = np.dtype(dtype).name, list(shape)
        if name == "float4_e2m1fn" and shape:
            return "float4_e2m1fn_x2", [*shape[:-1], shape[-1] // 2]
        return name, shape

    def cast(self, tensor: Any, dtype: Any, *, only_floating: bool) -> Any:
        if isinstance(dtype, str) and (dtype in _io.NAMES or dtype in _ML_CODES):
            dtype = _getdtype(_ML_CODES.get(dtype, dtype))
        kind = tensor.dtype.kind
        if only_floating and not (kind in "fV" or tensor.dtype.name in _ML_CODES):
            return tensor
        return tensor.astype(dtype, copy=False)

    def alias(self, base: Any, view: _alias.View) -> Any:
        if view.dtype == "F4" or view.dtype not in _io.NAMES:
            raise SafetensorError(f"alias `{view.name}` has the dtype {view.dtype}")
        dtype = np.dtype(_getdtype(view.dtype))
        view.check(base.nbytes, dtype.itemsize)
        flat = base.reshape(-1).view(np.uint8)
        return np.ndarray(
            view.shape,
            dtype,
            buffer=flat,
            offset=view.offset * dtype.itemsize if flat.size else 0,
            strides=[s * dtype.itemsize for s in view.stride],
        )

    def memory_of(self, name: str, tensor: np.ndarray) -> np.ndarray:
        if not tensor.flags.writeable:
            raise ValueError(f"Key `{name}` is read-only")
        return tensor

    def takes_bytes(self, tensor: np.ndarray, code: str) -> bool:
        plain = tensor.flags.c_contiguous and code != "F4" and _is_little_endian(tensor)
        return plain and tensor.dtype == np.dtype(_getdtype(code))


_FRAME = _Numpy(globals())
save_stream = _FRAME.save_stream
load_file = _FRAME.load_file
load_into = _FRAME.load_into


# ---------------------------------------------------------------- saving


def save(tensor_dict: dict[str, np.ndarray], metadata: dict[str, str] | None = None) -> bytes:
    """The bytes of a safetensors file with these arrays (any strides, any byte order)."""
    keep: list = []
    return bytes(serialize(_flatten(tensor_dict, keep), metadata=metadata))


def save_file(
    tensor_dict: dict[str, np.ndarray],
    filename: Path | BinaryIO,
    metadata: dict[str, str] | None = None,
    *,
    digests: str | None = None,
    progress: Callable[[int, int], Any] | None = None,
) -> None:
    """Saves arrays to a path, all or nothing, or to an object with write().

    Arrays may have any strides and byte order; those that are not C-contiguous and little-endian are copied before the
    save begins. digests: "crc32c" or "sha256", recorded per tensor for verify=. progress(done, total): bytes; an
    exception in it ends the save, and no file is left.
    Raises OSError, and SafetensorError for a type that the format lacks.
    """
    keep: list = []
    _io.write(_flatten(tensor_dict, keep), filename, metadata, digests, progress, serialize_file)


# ---------------------------------------------------------------- loading


def load(data: Any) -> dict[str, np.ndarray]:
    """{name: array} from the bytes of a file (bytes, bytearray, memoryview, mmap), writable, each in memory of its own.
    Raises SafetensorError for a file that is not valid."""
    if sys.byteorder == "big" or (deserialize, _view2np) != _OURS:
        return _view2np(deserialize(data))
    try:
        return _core._load_bytes(data, "np")  # the same without a bytearray and a view for each
    except (AttributeError, TypeError):
        return _view2np(deserialize(data))  # says what is wrong
