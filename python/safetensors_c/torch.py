# SPDX-License-Identifier: Apache-2.0 OR MIT
"""safetensors for PyTorch: save, save_file, load, load_file, save_model, load_model, and more.

Same names, results and messages as `safetensors.torch`; keyword-only arguments add what it lacks.
docs/python.md lists every difference, and the rules of shared and copied memory.

What the reference's functions look up in this module when they run (safe_open, serialize_file, save_file,
_TYPES ...) ours look up there as well: programs replace these names.
"""

from __future__ import annotations

import os
import sys
from collections import defaultdict
from typing import Any, Dict, List, Optional, Set, Tuple, Union  # noqa: F401  (importable from here)

import torch

from . import _alias, _core, _io
from ._core import (  # noqa: F401  (programs import safe_open from here)
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
    Device = Union[str, int, torch.device]

# ---------------------------------------------------------------- dtypes

_TYPES, _SIZE = _io.types_of(torch)
_NAMES = {dtype: _io.NAMES[code] for code, dtype in _TYPES.items()}
_CODES = {dtype: code for code, dtype in _TYPES.items()}
# None where this torch lacks the type.
_float8_e4m3fn = _TYPES.get("F8_E4M3")
_float8_e4m3fnuz = _TYPES.get("F8_E4M3FNUZ")
_float8_e5m2 = _TYPES.get("F8_E5M2")
_float8_e5m2fnuz = _TYPES.get("F8_E5M2FNUZ")
_float8_e8m0 = _TYPES.get("F8_E8M0")
_float4_e2m1_x2 = _TYPES.get("F4")
_SWAP = {2: torch.int16, 4: torch.int32, 8: torch.int64}
_META = torch.device("meta")
_BIG = sys.byteorder == "big"


def _getdtype(dtype_str: str) -> torch.dtype:
    return _TYPES[dtype_str]


# ---------------------------------------------------------------- storages


def storage_ptr(tensor: torch.Tensor) -> int:
    """Address of the storage under the tensor; 0 for one whose layout has none. RuntimeError ("invalid python
    storage") for a subclass that only wraps other tensors: what it shares cannot be seen."""
    try:
        return tensor.untyped_storage().data_ptr()
    except Exception:
        try:
            return tensor.storage().data_ptr()
        except NotImplementedError:
            return 0


def storage_size(tensor: torch.Tensor) -> int:
    """Bytes of the storage under the tensor."""
    return tensor.untyped_storage().nbytes()


def _end_ptr(tensor: torch.Tensor) -> int:
    """The address behind the last byte that the tensor uses."""
    start = tensor.data_ptr()
    if not tensor.nelement():
        return start
    last = sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride()))
    return start + (last + 1) * _SIZE[tensor.dtype]


def _filter_shared_not_shared(
    tensors: list[set[str]], state_dict: Mapping[str, torch.Tensor]
) -> list[set[str]]:
    """Splits the sets of names where no byte is shared."""
    out: list[set[str]] = []
    for names in tensors:
        if len(names) < 2:
            out.append(names)
            continue
        areas = sorted((state_dict[n].data_ptr(), _end_ptr(state_dict[n]), n) for n in names)
        reach = -1
        for start, stop, name in areas:
            if start >= reach:
                out.append({name})
            else:
                out[-1].add(name)
            reach = max(reach, stop)
    return out


def _without_storage(name: str, tensor: torch.Tensor, error: RuntimeError) -> RuntimeError:
    """The error with the tensor's name; callers look for torch's words in it."""
    return RuntimeError(
        f"{error} The tensor `{name}` of type {type(tensor).__module__}.{type(tensor).__qualname__} has no memory"
        " of its own that could be saved: save the plain tensors that it is made of."
    )


def _find_shared_tensors(state_dict: Mapping[str, torch.Tensor]) -> list[set[str]]:
    """Sets of names whose tensors overlap in memory; a tensor on its own is a set of one."""
    storages: dict[Any, set[str]] = {}
    for name, tensor in state_dict.items():
        if tensor.device == _META:
            continue
        try:
            ptr = storage_ptr(tensor)
            size = storage_size(tensor) if ptr else 0
        except RuntimeError as e:
            raise _without_storage(name, tensor, e) from e
        if size:
            storages.setdefault((tensor.device, ptr, size), set()).add(name)
    return _filter_shared_not_shared(list(storages.values()), state_dict)


def _is_complete(tensor: torch.Tensor) -> bool:
    """Whether the tensor uses every byte of its storage."""
    return tensor.data_ptr() == storage_ptr(tensor) and tensor.nelement() * _SIZE[
        tensor.dtype
    ] == storage_size(tensor)


def _remove_duplicate_names(
    state_dict: Mapping[str, torch.Tensor],
    *,
    preferred_names: Iterable[str] | None = None,
    discard_names: Iterable[str] | None = None,
) -> defaultdict[str, list[str]]:
    """{name to keep: names to drop} for tensors that share memory. Of the names that cover their storage the first in
    order is kept, preferably one of preferred_names, and one of discard_names only if there is no other."""
    preferred = set(preferred_names or ())
    discarded = set(discard_names or ())
    removed: defaultdict[str, list[str]] = defaultdict(list)
    for shared in _find_shared_tensors(state_dict):
        complete = {name for name in shared if _is_complete(state_dict[name])}
        if not complete:
            raise RuntimeError(
                "Error while trying to find names to remove to save state dict, but found no suitable name to"
                f" keep for saving amongst: {shared}. None is covering the entire storage.Refusing to save/load"
                " the model since you could be storing much more memory than needed. Please refer to"
                " https://huggingface.co/docs/safetensors/torch_shared_tensors for more information. Or open an"
                " issue."
            )
        keep = min(complete & preferred or complete - discarded or complete)
        for name in sorted(shared - {keep}):
            removed[keep].append(name)
    return removed


# ---------------------------------------------------------------- tensors as bytes


def _check_types(tensors: Any) -> None:
    if not isinstance(tensors, dict):
        raise ValueError(f"Expected a dict of [str, torch.Tensor] but received {type(tensors)}")
    sparse = []
    for name, tensor in tensors.items():
        if not isinstance(tensor, torch.Tensor):
            raise ValueError(f"Key `{name}` is invalid, expected torch.Tensor but received {type(tensor)}")
        if tensor.layout != torch.strided:
            sparse.append(name)
    if sparse:
        raise ValueError(
            f"You are trying to save a sparse tensors: `{sparse}` which this library does not support."
            " You can make it a dense tensor before saving with `.to_dense()` but be aware this might"
            " make a much larger file than needed."
        )


def _evaluate_tensors_for_save(tensors: dict[str, torch.Tensor]) -> None:
    """Refuses values that are not tensors, sparse tensors, and tensors that share memory."""
    _check_types(tensors)
    failing = [names for names in _find_shared_tensors(tensors) if len(names) > 1]
    if failing:
        raise RuntimeError(
            f"""
            Some tensors share memory, this will lead to duplicate memory on disk and potential differences when loading them again: {failing}.
            A potential way to correctly save your model is to use `save_model`.
            More information at https://huggingface.co/docs/safetensors/torch_shared_tensors
            """
        )


def _plain(tensor: torch.Tensor) -> torch.Tensor:
    """The same values as little-endian bytes in CPU memory; the tensor itself where it is that already."""
    if tensor.device.type != "cpu":
        tensor = tensor.to("cpu")
    if tensor.is_conj():
        tensor = tensor.resolve_conj()
    if tensor.is_neg():
        tensor = tensor.resolve_neg()
    if _BIG and _SIZE[tensor.dtype] > 1:
        import numpy as np

        parts = 2 if tensor.dtype is torch.complex64 else 1
        size = _SIZE[tensor.dtype] // parts
        flat = tensor.detach().contiguous().reshape(-1).view(_SWAP[size]).numpy()
        swapped = torch.from_numpy(np.ascontiguousarray(flat.byteswap()))
        tensor = swapped.view(tensor.dtype).reshape(tensor.shape)
    return tensor


def _spec(tensor: torch.Tensor, keep: list) -> Any:
    if _to_ndarray is not _OUR_TO_NDARRAY:  # a program's own way to the bytes
        array, held = _to_ndarray(tensor)
        keep.append((array, held))
        return TensorSpec(
            dtype=_name_of(tensor.dtype),
            shape=tensor.shape,
            data_ptr=array.ctypes.data,
            data_len=array.nbytes,
        )
    dtype = tensor.dtype
    size = _SIZE[dtype]
    if tensor.device.type != "cpu" or dtype is torch.complex64 or _BIG or tensor.is_neg():
        tensor = _plain(tensor)
    keep.append(tensor)
    return TensorSpec(
        dtype=_NAMES.get(dtype) or _name_of(dtype),
        shape=tensor.shape,
        data_ptr=tensor.data_ptr(),
        data_len=tensor.nelement() * size,
    )


def _flatten_as_ptr(tensors: dict[str, torch.Tensor], keep_alive_buffer: list) -> dict[str, Any]:
    _evaluate_tensors_for_save(tensors)
    specs = {}
    for name, tensor in tensors.items():
        if not tensor.is_contiguous():
            raise ValueError(_io.NOT_CONTIGUOUS.format(name))
        specs[name] = _spec(tensor, keep_alive_buffer)
    return specs


def _to_ndarray(tensor: torch.Tensor) -> tuple[Any, Any]:
    """(bytes of the tensor as a uint8 array that shares its memory, what keeps that memory)."""
    import numpy as np

    _SIZE[tensor.dtype]  # a KeyError for what the format lacks
    plain = _plain(tensor.detach())
    if plain.data_ptr() == 0:
        return np.empty(0), 0
    if not plain.is_contiguous():
        plain = plain.contiguous()
    return plain.reshape(-1).view(torch.uint8).numpy(), plain


_OUR_TO_NDARRAY = _to_ndarray


def _tobytes(tensor: torch.Tensor, name: str) -> bytes:
    """Bytes of a contiguous dense tensor (a helper that releases before 0.8 had)."""
    if tensor.layout != torch.strided:
        raise ValueError(
            f"You are trying to save a sparse tensor: `{name}` which this library does not support."
            " You can make it a dense tensor before saving with `.to_dense()` but be aware this might"
            " make a much larger file than needed."
        )
    if not tensor.is_contiguous():
        raise ValueError(_io.NOT_CONTIGUOUS.format(name))
    return _to_ndarray(tensor)[0].tobytes() if tensor.nelement() else b""


def _flatten(tensors: dict[str, torch.Tensor]) -> dict[str, dict[str, Any]]:
    """{name: {"dtype", "shape", "data"}} (a helper that releases before 0.8 had)."""
    _evaluate_tensors_for_save(tensors)
    return {
        name: {"dtype": _name_of(t.dtype), "shape": t.shape, "data": _tobytes(t, name)}
        for name, t in tensors.items()
    }


def _name_of(dtype: torch.dtype) -> str:
    return _io.last_name(dtype)


def _view2torch(safeview: Iterable[tuple[str, Any]]) -> dict[str, torch.Tensor]:
    """The result of deserialize as tensors over the same memory."""
    make = _tensor_over if not torch._C._len_torch_dispatch_stack() else _tensor_under_modes
    return {name: make(v["data"], v["dtype"], v["shape"]) for name, v in safeview}


def _under_modes(make: Callable[[], torch.Tensor]) -> torch.Tensor:
    """The result of make() without torch's dispatch modes; a FakeTensor of it if FakeTensorMode is one of them."""
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.utils._python_dispatch import _disable_current_modes

    with _disable_current_modes() as modes:
        tensor = make()
    for mode in reversed(modes):
        if isinstance(mode, FakeTensorMode):
            return mode.from_tensor(tensor)
    return tensor


def _tensor_under_modes(data: Any, code: str, shape: list[int]) -> torch.Tensor:
    return _under_modes(lambda: _tensor_over(data, code, shape))


def _import_under_modes(capsule: Any, dtype: torch.dtype | None) -> torch.Tensor:
    """The extension calls this for a tensor of a file while a dispatch mode is active."""

    def make() -> torch.Tensor:
        tensor = torch.utils.dlpack.from_dlpack(capsule)
        return tensor if dtype is None else tensor.view(dtype)

    return _under_modes(make)


def _tensor_over(data: Any, code: str, shape: list[int]) -> torch.Tensor:
    dtype = _getdtype(code)
    if code == "F4" and shape:
        if shape[-1] % 2:
            raise SafetensorError(
                f"f4_x2 dtype requires that the last dim be divisible by 2 in torch: got {shape}"
            )
        shape = [*shape[:-1], shape[-1] // 2]
    if len(data) == 0:
        return torch.empty(shape, dtype=dtype)
    tensor = torch.frombuffer(data, dtype=torch.uint8)
    if _BIG and _SIZE[dtype] > 1:
        import numpy as np

        size = _SIZE[dtype] // (2 if code == "C64" else 1)
        tensor = torch.from_numpy(np.frombuffer(data, dtype=f"<i{size}").astype(f"=i{size}"))
    return tensor.view(dtype).reshape(shape)


_OURS = (deserialize, _view2torch)

# ---------------------------------------------------------------- the frame


class _Torch(_io.DeviceFrame[torch.Tensor]):
    name = "pt"

    def specs(self, tensors: Any, keep: list, *, force_contiguous: bool = False) -> dict[str, Any]:
        return _flatten_as_ptr(_contiguous(tensors) if force_contiguous else tensors, keep)

    def one(self, name: str, tensor: Any, keep: list) -> Any:
        _check_types({name: tensor})
        return _spec(tensor.contiguous(), keep)

    def plan_entry(self, like: Any) -> tuple[str, list[int]]:
        dtype, shape = like if isinstance(like, tuple) else (like.dtype, like.shape)
        _SIZE[dtype]
        return _NAMES[dtype], list(shape)

    def cast(self, tensor: Any, dtype: Any, *, only_floating: bool) -> Any:
        if isinstance(dtype, str):
            dtype = getattr(torch, dtype, None) or _TYPES[dtype]
        if only_floating and not tensor.is_floating_point():
            return tensor
        return tensor.to(dtype)

    def alias(self, base: Any, view: _alias.View) -> Any:
        if view.dtype not in _TYPES:
            raise SafetensorError(f"alias `{view.name}` has the unknown dtype {view.dtype}")
        dtype = _TYPES[view.dtype]
        view.check(base.nelement() * base.element_size(), _SIZE[dtype])
        flat = base.reshape(-1)
        if flat.dtype is not dtype:
            at = flat.storage_offset() * flat.element_size()
            if flat.nelement() * flat.element_size() % _SIZE[dtype] or at % _SIZE[dtype]:
                flat = flat.clone()
            flat = flat.view(torch.uint8)[: view.extent() * _SIZE[dtype]].view(dtype)
        return flat.as_strided(view.shape, view.stride, flat.storage_offset() + view.offset)

    def memory_of(self, name: str, tensor: torch.Tensor) -> torch.Tensor:
        return tensor.detach()

    def shape_of(self, meta: _core.TensorMeta) -> list[int]:
        shape = list(meta.shape)
        return [*shape[:-1], shape[-1] // 2] if meta.dtype == "F4" and shape else shape

    def assign(self, tensor: torch.Tensor, value: torch.Tensor) -> None:
        tensor.copy_(value)

    def takes_bytes(self, tensor: torch.Tensor, code: str) -> bool:
        return (
            tensor.dtype is _TYPES.get(code)
            and tensor.device.type == "cpu"
            and tensor.layout == torch.strided
            and tensor.is_contiguous()
            and not tensor.is_conj()
            and not tensor.is_neg()
            and not (_BIG and _SIZE[tensor.dtype] > 1)
        )


_FRAME = _Torch(globals())
save_stream = _FRAME.save_stream
load_file = _FRAME.load_file
load_into = _FRAME.load_into


def _contiguous(tensors: Any) -> Any:
    """The same tensors, contiguous; anything but a dict is returned for the checks to refuse."""
    if not isinstance(tensors, dict):
        return tensors
    _check_types(tensors)
    return {name: t.contiguous() for name, t in tensors.items()}


def _share(
    tensors: dict[str, torch.Tensor], metadata: Mapping[str, str] | None
) -> tuple[dict[str, torch.Tensor], dict[str, str] | None]:
    """Tensors without overlap, and metadata that records the others as views of them."""
    _check_types(tensors)
    kept = dict(tensors)
    views: list[_alias.View] = []
    for names in _find_shared_tensors(tensors):
        if len(names) < 2:
            continue
        group = sorted(names)
        begin = min(tensors[n].data_ptr() for n in group)
        end = max(_end_ptr(tensors[n]) for n in group)
        covering = [
            n
            for n in group
            if tensors[n].is_contiguous() and tensors[n].data_ptr() == begin and _end_ptr(tensors[n]) == end
        ]
        if covering:
            base = covering[0]
        else:
            base = f"{_alias.STORAGE}{group[0]}"
            size = end - begin
            first = tensors[group[0]]
            raw = torch.empty(0, dtype=torch.uint8, device=first.device)
            kept[base] = raw.set_(first.untyped_storage(), begin - storage_ptr(first), (size,), (1,))
        for n in group:
            if n == base:
                continue
            t = tensors[n]
            size = _SIZE[t.dtype]
            if (t.data_ptr() - begin) % size or t.is_conj() or t.is_neg():
                raise ValueError(f"tensor `{n}` cannot be recorded as a view of `{base}`")
            offset = (t.data_ptr() - begin) // size
            code = _CODES[t.dtype]
            views.append(_alias.View(n, base, code, list(t.shape), list(t.stride()), offset))
            del kept[n]
    if not views:
        return kept, dict(metadata) if metadata is not None else None
    out = dict(metadata or {})
    out[_alias.KEY] = _alias.record(views)
    return kept, out


# ---------------------------------------------------------------- saving


def save(
    tensors: dict[str, torch.Tensor],
    metadata: dict[str, str] | None = None,
    *,
    force_contiguous: bool = False,
) -> bytes:
    """The bytes of a safetensors file with these tensors.

    tensors: dense, contiguous unless force_contiguous, not sharing memory. metadata: text to text.
    Raises ValueError and RuntimeError as save_file does.
    """
    if force_contiguous:
        tensors = _contiguous(tensors)
    keep: list = []
    return bytes(serialize(_flatten_as_ptr(tensors, keep), metadata=metadata))


def save_file(
    tensors: dict[str, torch.Tensor],
    filename: Path | BinaryIO,
    metadata: dict[str, str] | None = None,
    *,
    force_contiguous: bool = False,
    shared: str = "error",
    digests: str | None = None,
    progress: Callable[[int, int], Any] | None = None,
) -> None:
    """Saves tensors to a path, all or nothing, or to an object with write().

    force_contiguous: pack strided tensors instead of refusing them. shared: what to do with tensors that
    share memory: "error", "alias" (store the memory once and record the views: load_file shows them
    sharing again) or "copy" (store each). digests: "crc32c" or "sha256", recorded per tensor for verify=.
    progress(done, total): bytes, called between tensors; an exception in it ends the save, and no file is left.

    Tensors must not be changed while they are saved. Tensors on other devices are copied to the CPU one at a time.
    Raises ValueError (not a tensor, sparse, not contiguous), RuntimeError (shared memory), KeyError (a dtype that the
    format lacks), OSError, SafetensorError.
    """
    if shared == "alias":
        tensors, metadata = _share(tensors, metadata)
    elif shared == "copy":
        _check_types(tensors)
        tensors = dict(tensors)
        for names in _find_shared_tensors(tensors):
            for name in sorted(names)[1:]:
                tensors[name] = tensors[name].clone(memory_format=torch.preserve_format)
    elif shared != "error":
        raise ValueError(f'shared is "{shared}", expected "error", "alias" or "copy"')
    if isinstance(tensors, dict) and any(
        isinstance(t, torch.Tensor) and t.device.type not in ("cpu", "meta") for t in tensors.values()
    ):
        _save_from_devices(tensors, filename, metadata, force_contiguous, digests, progress)
        return
    keep: list = []
    specs = _flatten_as_ptr(_contiguous(tensors) if force_contiguous else tensors, keep)
    _io.write(specs, filename, metadata, digests, progress, serialize_file)


def _save_from_devices(
    tensors: dict[str, torch.Tensor],
    target: Any,
    metadata: Any,
    force_contiguous: bool,
    digests: str | None,
    progress: Any,
) -> None:
    _evaluate_tensors_for_save(tensors)
    if not force_contiguous:
        for name, tensor in tensors.items():
            if not tensor.is_contiguous():
                raise ValueError(_io.NOT_CONTIGUOUS.format(name))
    _io.save_stream(_FRAME, target, tensors, tensors.__getitem__, metadata, digests, progress)


def save_model(
    model: torch.nn.Module,
    filename: Path,
    metadata: dict[str, str] | None = None,
    force_contiguous: bool = True,
) -> None:
    """Saves the state_dict of a model; of parameters that share memory only one is stored.

    The other names are recorded in the metadata, {dropped name: stored name}, unless that key exists.
    Raises what save_file raises, RuntimeError if no name covers the shared memory.
    """
    state_dict = dict(model.state_dict())
    notes = dict(metadata) if metadata is not None else None
    for kept, dropped in _remove_duplicate_names(state_dict).items():
        for name in dropped:
            notes = notes if notes is not None else {}
            notes.setdefault(name, kept)
            del state_dict[name]
    if force_contiguous:
        state_dict = {name: tensor.contiguous() for name, tensor in state_dict.items()}
    try:
        save_file(state_dict, filename, metadata=notes)  # a program's own has these three parameters
    except ValueError as e:
        raise ValueError(
            f"{e} Or use save_model(..., force_contiguous=True), read the docs for potential caveats."
        ) from e


# ---------------------------------------------------------------- loading


def load(data: Any, *, device: Device = "cpu") -> dict[str, torch.Tensor]:
    """{name: tensor} from the bytes of a file (bytes, bytearray, memoryview, mmap), each in memory of its own.
    Raises SafetensorError for a file that is not valid."""
    if _BIG or (deserialize, _view2torch) != _OURS:
        tensors = _view2torch(deserialize(data))
    else:
        tensors = _core._load_bytes(data, "pt")  # the same without a bytearray and a view for each
    if device not in ("cpu", None):
        tensors = {name: t.to(device) for name, t in tensors.items()}
    return tensors


def load_model(
    model: torch.nn.Module,
    filename: Path,
    strict: bool = True,
    device: Device = "cpu",
    *,
    backend: str = "mmap",
) -> tuple[Any, list[str]]:
    """Loads what save_model saved into a model; returns (missing, unexpected) names.

    A name that save_model left out because it shares memory with another is not missing. strict: RuntimeError if a name
    is missing or unexpected. Raises what load_file raises, RuntimeError for a shape that differs.
    """
    state_dict = load_file(filename, device=device, backend=backend)
    dropped = _remove_duplicate_names(model.state_dict(), preferred_names=state_dict.keys())
    missing_list, unexpected = model.load_state_dict(state_dict, strict=False)
    missing = set(missing_list)
    for names in dropped.values():
        for name in names:
            if name in missing:
                missing.remove(name)
            else:
                unexpected.append(name)
    if strict and (missing or unexpected):
        error = f"Error(s) in loading state_dict for {model.__class__.__name__}:"
        for title, wrong in (("Missing", sorted(missing)), ("Unexpected", sorted(unexpected))):
            if wrong:
                listed = ", ".join(f'"{name}"' for name in wrong)
                error += f"\n    {title} key(s) in state_dict: {listed}"
        raise RuntimeError(error)
    return missing, unexpected
