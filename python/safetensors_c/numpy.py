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

_TYPES: dict[str, Any] = {
    "F64": np.float64,
    "F32": np.float32,
    "F16": np.float16,
    "I64": np.int64,
    "U64": np.uint64,
    "I32": np.int32,
    "U32": np.uint32,
    "I16": np.int16,
    "U16": np.uint16,
    "I8": np.int8,
    "U8": np.uint8,
    "BOOL": bool,
    "C64": np.complex64,
}

# Types that NumPy gets from ml_dtypes. F4 is packed two to a byte in files and one to a byte in arrays.
_ML_TYPES = {
    "BF16": "bfloat16",
    "F8_E4M3": "float8_e4m3fn",
    "F8_E4M3FNUZ": "float8_e4m3fnuz",
    "F8_E5M2": "float8_e5m2",
    "F8_E5M2FNUZ": "float8_e5m2fnuz",
    "F8_E8M0": "float8_e8m0fnu",
    "F4": "float4_e2m1fn",
}


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
    """What deserialize gives, as arrays over the same memory."""
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


class _Numpy(_io.Frame):
    name = "np"

    def specs(self, tensors: Any, keep: list, *, force_contiguous: bool = False) -> dict[str, Any]:
        return _flatten(tensors, keep)

    def one(self, name: str, tensor: Any, keep: list) -> Any:
        return _flatten({name: tensor}, keep)[name]

    def plan_entry(self, like: Any) -> tuple[str, list[int]]:
        dtype, shape = like if isinstance(like, tuple) else (like.dtype, like.shape)
        name, shape = np.dtype(dtype).name, list(shape)
        if name == "float4_e2m1fn" and shape:
            return "float4_e2m1fn_x2", [*shape[:-1], shape[-1] // 2]
        return name, shape

    def cast(self, tensor: Any, dtype: Any, *, only_floating: bool) -> Any:
        if isinstance(dtype, str) and (dtype in _TYPES or dtype in _ML_TYPES):
            dtype = _getdtype(dtype)
        elif isinstance(dtype, str) and dtype in _ML_TYPES.values():
            dtype = _getdtype(next(c for c, n in _ML_TYPES.items() if n == dtype))
        kind = tensor.dtype.kind
        if only_floating and not (kind == "f" or kind == "V" or tensor.dtype.name in _ML_TYPES.values()):
            return tensor
        return tensor.astype(dtype, copy=False)

    def alias(self, base: Any, view: _alias.View) -> Any:
        if view.dtype == "F4" or (view.dtype not in _TYPES and view.dtype not in _ML_TYPES):
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


_FRAME = _Numpy()


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

    Arrays may have any strides and byte order; those that are not C-contiguous and little-endian are
    copied, one after the other before the save begins. digests: "crc32c" or "sha256", recorded per tensor
    for verify=. progress(done, total): bytes; an exception in it ends the save without a trace.
    """
    keep: list = []
    _io.write(_flatten(tensor_dict, keep), filename, metadata, digests, progress, serialize_file)


def save_stream(
    plan: Mapping[str, Any],
    produce: Callable[[str], np.ndarray],
    filename: Path | BinaryIO,
    metadata: dict[str, str] | None = None,
    *,
    digests: str | None = None,
    progress: Callable[[int, int], Any] | None = None,
) -> None:
    """Saves arrays that are made one at a time, with the memory of one.

    plan: for each name anything with .dtype and .shape, or a tuple (dtype, shape). produce(name): called
    once per name in the order of the file. ValueError when its array is not what was planned.
    """
    _io.save_stream(_FRAME, filename, plan, produce, metadata, digests, progress)


# ---------------------------------------------------------------- loading


def load(data: Any) -> dict[str, np.ndarray]:
    """Arrays from the bytes of a file (bytes, bytearray, memoryview, mmap), writable, each its own memory."""
    if sys.byteorder == "big" or (deserialize, _view2np) != _OURS:
        return _view2np(deserialize(data))
    try:
        return _core._load_bytes(data, "np")  # the same without a bytearray and a view for each
    except (AttributeError, TypeError):
        return _view2np(deserialize(data))  # says what is wrong


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
    """Arrays of a file, as a dict in the order of the file; see safetensors_c.torch.load_file.

    backend: "mmap" (private copy-on-write memory over the file: writable, nothing is read before it is
    used) or "pread" (memory of its own, read now).
    """
    return _io.load(
        _FRAME,
        _io.opener(safe_open, filename, framework="np", backend=backend),
        backend,
        select,
        rename,
        dtype,
        verify,
        aliases,
        with_metadata,
        progress,
    )


def load_into(
    tensors: Mapping[str, np.ndarray],
    filename: Any,
    *,
    strict: bool = True,
    rename: Any = None,
    verify: bool = False,
    progress: Callable[[int, int], Any] | None = None,
) -> tuple[list[str], list[str]]:
    """Reads a file straight into arrays that exist; returns (missing, unexpected) names.

    A writable C-contiguous array of the file's dtype is filled by one read without another copy; others
    by assignment, which casts. Shapes must be equal. strict: KeyError when names differ.
    """
    new_name = _io.renamer(rename) if rename is not None else None
    with _io.open_source(_FRAME, filename, "cpu", "pread") as f:
        if verify:
            f.verify()
        stored = {new_name(n) if new_name else n: n for n in f.offset_keys()}
        missing = [n for n in tensors if n not in stored]
        unexpected = [n for n in stored if n not in tensors]
        if strict and (missing or unexpected):
            raise KeyError(f"missing in the file: {missing}, unexpected in it: {unexpected}")
        direct, others = {}, {}
        blocks = _io.blocks_of(f.metadata())
        for new, name in stored.items():
            if new not in tensors:
                continue
            array, meta = tensors[new], f.get_tensor_meta(name)
            if list(meta.shape) != list(array.shape):
                raise ValueError(
                    f"Key `{new}` has the shape {list(array.shape)}, the file has {list(meta.shape)}"
                )
            if not array.flags.writeable:
                raise ValueError(f"Key `{new}` is read-only")
            plain = array.flags.c_contiguous and meta.dtype != "F4" and _is_little_endian(array)
            if plain and array.dtype == np.dtype(_getdtype(meta.dtype)):
                direct[name] = array
            else:
                others[name] = array
            if name in blocks and meta.dtype == "U8" and array.dtype != np.uint8:
                _io.refuse_blocks(name)
        if direct:
            f.load_into(direct, progress=progress)
        for name, array in others.items():
            array[...] = f.get_tensor(name)
    return missing, unexpected
