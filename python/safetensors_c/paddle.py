# SPDX-License-Identifier: Apache-2.0 OR MIT
"""safetensors for PaddlePaddle: save, save_file, load, load_file, save_stream."""

from __future__ import annotations

import os
import sys
from typing import Any, Dict, List, Optional, Union  # noqa: F401  (importable from here)

import numpy as np
import paddle

from . import _alias, _io, numpy
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
    from typing import BinaryIO

    Path = Union[str, os.PathLike]

_CODES = "F64 F32 F16 BF16 I64 I32 I16 I8 U8 BOOL F8_E4M3 F8_E5M2 C64".split()
_TYPES, _SIZE = _io.types_of(paddle, _CODES)
# Of the same width, for what NumPy lacks.
NPDTYPES = {t: numpy._TYPES.get(c, np.float16 if c == "BF16" else np.uint8) for c, t in _TYPES.items()}


_VERSION = [int("0" + "".join(filter(str.isdigit, part))) for part in paddle.__version__.split(".")[:3]]
# From 3.2 on paddle makes tensors over memory that is not its own; 0.0.0 is how it names a development build.
_OVER_MEMORY = _VERSION >= [3, 2, 0] or _VERSION == [0, 0, 0]


def _getdtype(dtype_str: str) -> Any:
    return _TYPES[dtype_str]


def _np2paddle(numpy_dict: dict[str, np.ndarray], device: str = "cpu") -> dict[str, paddle.Tensor]:
    return {name: paddle.to_tensor(a, place=device) for name, a in numpy_dict.items()}


def _paddle2np(paddle_dict: Mapping[str, paddle.Tensor]) -> dict[str, np.ndarray]:
    return {name: tensor.detach().cpu().numpy() for name, tensor in paddle_dict.items()}


def _from_numpy(array: np.ndarray, device: Any) -> paddle.Tensor:
    """What the extension calls to make a tensor of a file."""
    place = str(device or "cpu").replace("cuda", "gpu")
    code = numpy._ML_CODES.get(array.dtype.name)
    if code not in _TYPES:
        return paddle.to_tensor(array, place=place)
    entry = {"dtype": code, "shape": list(array.shape), "data": bytearray(array.tobytes())}
    return _view2paddle([("", entry)], place)[""]


def _view2paddle(safeview: Iterable[tuple[str, Any]], device: str) -> dict[str, paddle.Tensor]:
    out = {}
    for name, v in safeview:
        dtype, data = _getdtype(v["dtype"]), v["data"]
        if len(data) == 0:
            tensor = paddle.empty(v["shape"], dtype=dtype)
        elif sys.byteorder == "big":
            swapped = np.frombuffer(data, dtype=NPDTYPES[dtype]).byteswap()
            tensor = paddle.base.core.frombuffer(bytearray(swapped), dtype).reshape(v["shape"])
        else:
            tensor = paddle.base.core.frombuffer(data, dtype).reshape(v["shape"])
        out[name] = tensor if device == "cpu" else tensor.to(device)
    return out


def _to_ndarray(tensor: paddle.Tensor, name: str) -> tuple[Any, Any]:
    """(bytes of the tensor as an array that shares its memory, what keeps that memory)."""
    import ctypes

    if not tensor.is_contiguous():
        raise ValueError(_io.NOT_CONTIGUOUS.format(name))
    if not tensor.place.is_cpu_place():
        tensor = tensor.cpu()
    size = _SIZE[tensor.dtype]
    for n in tensor.shape:
        size *= n
    address = tensor.data_ptr()
    if address == 0 or size == 0:
        return np.empty(0, dtype=np.uint8), 0
    data = np.frombuffer(memoryview((ctypes.c_ubyte * size).from_address(address)), dtype=np.uint8)
    if sys.byteorder == "big":
        data = data.view(NPDTYPES[tensor.dtype]).byteswap()
    return data, tensor


def _check_types(tensors: Any) -> None:
    if not isinstance(tensors, dict):
        raise ValueError(f"Expected a dict of [str, paddle.Tensor] but received {type(tensors)}")
    for name, tensor in tensors.items():
        if not isinstance(tensor, paddle.Tensor):
            raise ValueError(f"Key `{name}` is invalid, expected paddle.Tensor but received {type(tensor)}")


def _flatten(tensors: dict[str, paddle.Tensor], keep_alive_buffer: list) -> dict[str, Any]:
    _check_types(tensors)
    specs = {}
    for name, tensor in tensors.items():
        data, owner = _to_ndarray(tensor, name)
        keep_alive_buffer.append((data, owner))
        specs[name] = TensorSpec(
            dtype=_io.last_name(tensor.dtype),
            shape=tensor.shape,
            data_ptr=data.ctypes.data,
            data_len=data.nbytes,
        )
    return specs


class _Paddle(_io.DeviceFrame["paddle.Tensor"]):
    name = "paddle"

    def specs(self, tensors: Any, keep: list, *, force_contiguous: bool = False) -> dict[str, Any]:
        if force_contiguous and isinstance(tensors, dict):
            _check_types(tensors)
            tensors = {name: tensor.contiguous() for name, tensor in tensors.items()}
        return _flatten(tensors, keep)

    def cast(self, tensor: Any, dtype: Any, *, only_floating: bool) -> Any:
        dtype = _TYPES.get(dtype, dtype) if isinstance(dtype, str) else dtype
        if only_floating and not (
            tensor.is_floating_point() or tensor.dtype in (_TYPES["F8_E4M3"], _TYPES["F8_E5M2"])
        ):
            return tensor
        return tensor.cast(dtype)

    def alias(self, base: Any, view: _alias.View) -> Any:
        if view.dtype not in _TYPES:
            raise SafetensorError(f"alias `{view.name}` has the unknown dtype {view.dtype}")
        flat = np.array(_to_ndarray(base.contiguous(), view.name)[0])
        code = view.dtype if view.dtype in numpy._TYPES else "U16" if view.dtype == "BF16" else "U8"
        shown = _alias.View(view.name, view.of, code, view.shape, view.stride, view.offset)
        data = bytearray(np.ascontiguousarray(numpy._FRAME.alias(flat, shown)))
        entry = {"dtype": view.dtype, "shape": view.shape, "data": data}
        return _view2paddle([(view.name, entry)], "cpu")[view.name]


_FRAME = _Paddle(globals())
save_stream = _FRAME.save_stream
load_file = _FRAME.load_file


def save(tensors: dict[str, paddle.Tensor], metadata: dict[str, str] | None = None) -> bytes:
    """The bytes of a safetensors file with these tensors."""
    keep: list = []
    return bytes(serialize(_flatten(tensors, keep), metadata=metadata))


def save_file(
    tensors: dict[str, paddle.Tensor],
    filename: Path | BinaryIO,
    metadata: dict[str, str] | None = None,
    *,
    force_contiguous: bool = False,
    digests: str | None = None,
    progress: Callable[[int, int], Any] | None = None,
) -> None:
    """Saves tensors to a path, all or nothing, or to an object with write().

    force_contiguous: pack strided tensors instead of refusing them. digests, progress: see
    safetensors_c.torch.save_file.
    """
    keep: list = []
    specs = _FRAME.specs(tensors, keep, force_contiguous=force_contiguous)
    _io.write(specs, filename, metadata, digests, progress, serialize_file)


def load(data: Any, device: str = "cpu") -> dict[str, paddle.Tensor]:
    """Tensors from the bytes of a file."""
    if _OVER_MEMORY:
        return _view2paddle(deserialize(data), device)
    return _np2paddle(numpy.load(data), device)
