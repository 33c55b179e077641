# SPDX-License-Identifier: Apache-2.0 OR MIT
"""safetensors for MindSpore: save, save_file, load, load_file, load_into, save_stream, Saver; bfloat16 and float8 as MindSpore has them.

    save_file(net, "net.safetensors")               # a Cell, or a dict of tensors and parameters
    load_into(net, "net.safetensors")               # every parameter by its name, or an error that names it
    safe_open("net.safetensors", "ms")              # lazily
    Saver("checkpoint", "net")                      # a callback of Model.train: steps of a job, and going on from them

Tensors are made on the host; MindSpore moves them where they are used.
"""

from __future__ import annotations

import ctypes
import os  # noqa: F401
from collections.abc import Mapping
from typing import Any

import mindspore as ms
import numpy as np

from . import _io, numpy
from ._core import SafetensorError, safe_open  # noqa: F401
from ._over_numpy import OverNumpy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_FLOAT8 = {
    code: getattr(ms, name)
    for code, name in _io.NAMES.items()
    if name.startswith("float8") and hasattr(ms, name)
}
_CODES = {dtype: code for code, dtype in _FLOAT8.items()}


def _to_np(tensor: ms.Tensor) -> np.ndarray:
    if not isinstance(tensor, ms.Tensor):
        raise ValueError(f"expected a mindspore.Tensor, received {type(tensor)}")
    array = tensor.asnumpy()
    if array.dtype.name == str(tensor.dtype).lower():
        return array
    code = _CODES.get(tensor.dtype)
    if code is None:
        raise SafetensorError(
            f"the format has no element type for MindSpore's {tensor.dtype}"
        )  # Int4, HiFloat8
    if array.size == 0:
        return np.empty(array.shape, numpy._getdtype(code))
    memory = (ctypes.c_ubyte * array.size).from_address(
        array.ctypes.data
    )  # NumPy has no name for these bytes
    return np.frombuffer(memory, np.uint8).copy().view(numpy._getdtype(code)).reshape(array.shape)


def _to_ms(array: np.ndarray) -> ms.Tensor:
    code = numpy._ML_CODES.get(array.dtype.name)
    if code in _FLOAT8:
        tensor = ms.Tensor(np.zeros(array.shape, np.float32), dtype=_FLOAT8[code])
        ctypes.memmove(tensor.data_ptr(), np.ascontiguousarray(array).ctypes.data, array.size)
        return tensor
    if code is not None and not hasattr(ms, numpy._ML_TYPES[code]):
        raise SafetensorError(f"MindSpore has no element type for {code}")
    return ms.Tensor.from_numpy(np.ascontiguousarray(array).reshape(array.shape))


def _from_numpy(array: np.ndarray, device: Any) -> ms.Tensor:
    """What the extension calls to make a tensor of a file."""
    return _to_ms(array)


def _np2ms(arrays: Mapping[str, np.ndarray]) -> dict[str, ms.Tensor]:
    return {name: _to_ms(array) for name, array in arrays.items()}


def _named(net: Any) -> Any:
    """A Cell's parameters by their names; anything else as it is."""
    if not isinstance(net, ms.nn.Cell):
        return net
    out: dict[str, ms.Parameter] = {}
    for parameter in net.get_parameters():
        if out.setdefault(parameter.name, parameter) is not parameter:
            raise ValueError(f"two parameters are called `{parameter.name}`")
    return out


def _ms2np(tensors: Any) -> dict[str, np.ndarray]:
    named = _named(tensors)
    if not isinstance(named, Mapping):
        raise TypeError(f"a dict of tensors or a Cell is wanted, not {type(named).__name__}")
    for name, tensor in named.items():
        if not isinstance(tensor, ms.Tensor):
            raise ValueError(f"`{name}`: expected a mindspore.Tensor, received {type(tensor)}")
    return {name: _to_np(tensor) for name, tensor in named.items()}


class _MindSpore(OverNumpy["ms.Tensor"]):
    name = "ms"

    def plan_entry(self, like: Any) -> tuple[str, list[int]]:
        dtype, shape = like if isinstance(like, tuple) else (like.dtype, like.shape)
        code = _CODES.get(dtype)
        if code is not None:
            return _io.NAMES[code], list(shape)
        name = dtype if isinstance(dtype, str) else np.dtype(ms.dtype_to_nptype(dtype)).name
        return name, list(shape)

    def cast(self, tensor: Any, dtype: Any, *, only_floating: bool) -> Any:
        if only_floating and not tensor.is_floating_point():
            return tensor
        return tensor.astype(getattr(ms, _io.NAMES.get(dtype, dtype)) if isinstance(dtype, str) else dtype)


_FRAME = _MindSpore(globals(), "_ms2np", "_np2ms")
save = _FRAME.save
save_file = _FRAME.save_file
save_stream = _FRAME.save_stream
load = _FRAME.load
load_file = _FRAME.load_file


def load_into(
    net: Any,
    source: Any,
    *,
    strict: bool = True,
    rename: Mapping[str, str] | Callable[[str], str] | None = None,
    verify: bool = False,
) -> tuple[list[str], list[str]]:
    """Puts a file's tensors into a Cell's parameters, or those of a dict, by name.

    source: a file, or a dict of tensors, which are copied: what one process needs of a model in any number of files and ranks, under names of
        MindFormers or Hugging Face, is distributed.load_part(path, strategy, rank, framework="ms", names=...).
    rename: a mapping or a function of the stored name. verify: digests are compared. Returns (names of parameters that the
    file lacks, names of the file that the net lacks), which strict makes an error. Nothing is cast.
    Raises SafetensorError, before any parameter has changed, with the name where dtype or shape differ; ValueError where two
    parameters of the Cell have one name.
    """
    parameters = dict(_named(net))
    if not isinstance(source, Mapping):
        return _put(parameters, load_file(source, rename=rename, verify=verify, backend="pread"), strict)
    if rename is not None or verify:
        raise TypeError("rename= and verify= are for files")
    return _put(parameters, dict(source), strict, copies=True)


def _put(
    parameters: dict[str, Any], tensors: dict[str, Any], strict: bool, *, copies: bool = False
) -> tuple[list[str], list[str]]:
    """load_into's work; without copies the tensors are the parameters' from now on."""
    missing = [name for name in parameters if name not in tensors]
    unexpected = [name for name in tensors if name not in parameters]
    if strict and (missing or unexpected):
        raise SafetensorError(f"the net's {missing} are missing, and it has no {unexpected}")
    found = [(name, parameters[name], tensor) for name, tensor in tensors.items() if name in parameters]
    for name, parameter, tensor in found:
        if not isinstance(tensor, ms.Tensor):
            raise TypeError(f"`{name}`: expected a mindspore.Tensor, received {type(tensor)}")
        if parameter.dtype != tensor.dtype or tuple(parameter.shape) != tuple(tensor.shape):
            raise SafetensorError(
                f"`{name}` is {tensor.dtype} {list(tensor.shape)} in the file, {parameter.dtype} {list(parameter.shape)} in the net"
            )
    for tensor in {tensor.dtype: tensor for _, _, tensor in found}.values() if copies else ():
        _to_np(tensor)  # it can be copied
    for _, parameter, tensor in found:
        parameter.set_data(_to_ms(np.array(_to_np(tensor))) if copies else tensor)
    return missing, unexpected


from ._mindspore_saver import Resumed, Saver  # noqa: E402, F401 - it needs what is above
