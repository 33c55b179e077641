# SPDX-License-Identifier: Apache-2.0 OR MIT
# The extension module. tests/test_types.py compares it with what is there.
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, final

from ._prefetch import PrefetchLoader

__version__: str
_converters: dict[str, Callable[[Any, Any], Any]]
_dtypes: tuple[tuple[str, str | None, int], ...]

_Progress = Callable[[int, int], object] | None
_Digests = str | Sequence[str] | None
_Path = str | os.PathLike[str]

class SafetensorError(Exception):
    status: str | None
    offset: int | None
    tensor: str | None

class TensorSpec:
    def __new__(
        cls,
        *,
        dtype: str,
        shape: Sequence[int],
        data_ptr: int,
        data_len: int,
        owner: Any = None,
    ) -> TensorSpec: ...
    @property
    def dtype(self) -> str: ...
    @property
    def shape(self) -> list[int]: ...
    @property
    def data_ptr(self) -> int: ...
    @property
    def data_len(self) -> int: ...

@final
class TensorMeta:
    @property
    def name(self) -> str: ...
    @property
    def dtype(self) -> str: ...
    @property
    def shape(self) -> list[int]: ...
    @property
    def nbytes(self) -> int: ...
    @property
    def data_offsets(self) -> tuple[int, int]: ...
    @property
    def file_offset(self) -> int: ...
    @property
    def file(self) -> str: ...

class PySafeSlice:
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def dtype(self) -> str: ...
    def get_shape(self) -> list[int]: ...
    def get_dtype(self) -> str: ...
    def __len__(self) -> int: ...
    def __getitem__(self, index: Any, /) -> Any: ...

class safe_open:
    def __new__(
        cls, filename: Any, framework: str, device: Any = "cpu", *, backend: str = "mmap"
    ) -> safe_open: ...
    @property
    def closed(self) -> bool: ...
    def keys(self) -> list[str]: ...
    def offset_keys(self) -> list[str]: ...
    def metadata(self) -> dict[str, str] | None: ...
    def get_tensor(self, name: str) -> Any: ...
    def get_tensors(
        self,
        names: Sequence[str] | None = None,
        *,
        owned: bool = False,
        strategy: str = "auto",
        progress: _Progress = None,
        verify: bool = False,
    ) -> dict[str, Any]: ...
    def get_slice(self, name: str) -> PySafeSlice: ...
    def get_tensor_meta(self, name: str) -> TensorMeta: ...
    def load_into(
        self, tensors: dict[str, Any], *, progress: _Progress = None, verify: bool = False
    ) -> None: ...
    def explain(self, strategy: str = "auto") -> list[dict[str, Any]]: ...
    def verify(self, *, progress: _Progress = None) -> dict[str, int]: ...
    def stream(
        self,
        names: Sequence[str] | None = None,
        *,
        order: str = "file",
        memory: int | None = None,
        slices: dict[str, Any] | None = None,
        verify: bool = False,
    ) -> TensorStream: ...
    def prefetch(
        self,
        plan: Mapping[str, slice | None] | None = None,
        *,
        device: str | int | None = None,
        threads: int = 8,
    ) -> PrefetchLoader: ...
    def items(self) -> Iterator[tuple[str, Any]]: ...
    def values(self) -> Iterator[Any]: ...
    def get(self, name: str, default: Any = None, /) -> Any: ...
    def close(self) -> None: ...
    def __len__(self) -> int: ...
    def __contains__(self, name: object, /) -> bool: ...
    def __iter__(self) -> Iterator[str]: ...
    def __getitem__(self, name: str, /) -> Any: ...
    def __enter__(self) -> safe_open: ...
    def __exit__(self, *ignored: Any) -> None: ...

class TensorStream:
    def __iter__(self) -> TensorStream: ...
    def __next__(self) -> tuple[str, Any]: ...
    def close(self) -> None: ...
    def __enter__(self) -> TensorStream: ...
    def __exit__(self, *args: Any) -> None: ...

class Writer:
    def __new__(
        cls,
        target: _Path | int,
        tensor_dict: Mapping[str, TensorSpec],
        metadata: Mapping[str, str] | None = None,
        *,
        digests: _Digests = None,
        durable: bool = False,
    ) -> Writer: ...
    @property
    def order(self) -> list[str]: ...
    @property
    def data_bytes(self) -> int: ...
    @property
    def file_bytes(self) -> int: ...
    def put(self, name: str, data: Any) -> None: ...
    def finish(self) -> None: ...
    def abort(self) -> None: ...
    def __enter__(self) -> Writer: ...
    def __exit__(self, *ignored: Any) -> None: ...

_RunTensor = tuple[str, str, Sequence[int], int, int, int, int]

class _Run:
    def __new__(
        cls,
        *,
        path: _Path,
        keep_last: int,
        keep_every: int,
        keep_best: int,
        keep_seconds: int,
        shard_bytes: int,
        arenas: int,
        flags: int,
        best: str | None,
        mode: str,
        durable: bool,
        sha256: bool,
        device: Any,
    ) -> _Run: ...
    def save(
        self,
        step: int,
        flags: int,
        tensors: list[_RunTensor],
        entries: list[tuple[str, str]],
        metrics: list[tuple[str, float]],
        files: list[tuple[str, bytes]],
        metadata: list[tuple[str, str]],
        /,
    ) -> int: ...
    def poll(self) -> dict[str, int]: ...
    def wait(self, ticket: int, milliseconds: int, /) -> bool: ...
    def resume(self, step: int | None, /) -> tuple[int, str] | None: ...
    def next(self, why: str, /) -> tuple[int, str]: ...
    def leave(self) -> None: ...
    def entries(self) -> dict[str, str]: ...
    def tensors(self) -> dict[str, tuple[str, tuple[int, ...]]]: ...
    def load(self, tensors: list[_RunTensor], /) -> None: ...
    def list(self, verify: bool, /) -> list[dict[str, Any]]: ...
    def skipped(self) -> list[dict[str, Any]]: ...
    def prune(self) -> int: ...
    def close(self) -> None: ...

def deserialize(bytes: Any) -> list[tuple[str, dict[str, Any]]]: ...
def serialize(
    tensor_dict: Mapping[str, TensorSpec],
    metadata: Mapping[str, str] | None = None,
    *,
    digests: _Digests = None,
    progress: _Progress = None,
) -> bytes: ...
def serialize_file(
    tensor_dict: Mapping[str, TensorSpec],
    filename: _Path,
    metadata: Mapping[str, str] | None = None,
    *,
    durable: bool = False,
    digests: _Digests = None,
    sidecar: bool = False,
    new_only: bool = False,
    data_alignment: int | None = None,
    progress: _Progress = None,
) -> None: ...
def serialize_fd(
    tensor_dict: Mapping[str, TensorSpec],
    fd: int,
    metadata: Mapping[str, str] | None = None,
    *,
    digests: _Digests = None,
    progress: _Progress = None,
) -> None: ...
def _safe_open_handle(f: Any, framework: str, device: Any = "cpu", *, backend: str = "mmap") -> safe_open: ...
def _cuda_open(device: int, driver: str | None = None, memory: int | None = None) -> Any: ...
def _cuda_info(device: Any, /) -> dict[str, Any]: ...
def _cuda_load(
    device: Any,
    handle: safe_open,
    names: Sequence[str] | None,
    slices: dict[str, Any] | None,
    direct: bool,
    progress: _Progress,
) -> tuple[Any, list[tuple[str, str, tuple[int, ...], int, int]]]: ...
def _cuda_dlpack(load: Any, index: int, as_bytes: bool, versioned: bool, /) -> Any: ...
def _cuda_stats(load: Any, /) -> dict[str, Any]: ...
def _open_checkpoint(
    path: Any,
    framework: str,
    device: Any = "cpu",
    *,
    layout: str | bytes | None = None,
    step: str | None = None,
    ranks: int | None = None,
    partial: bool = False,
) -> safe_open: ...
def _left_out(handle: safe_open, /) -> list[tuple[str, str]]: ...
def _part(
    handle: safe_open,
    layout: str | bytes | None,
    rank: int,
    *,
    ranks: int | None = None,
    allow_replicated: bool = False,
) -> safe_open: ...
def _save_group(
    path: _Path,
    tensors: list[tuple[Any, ...]] | str,
    group: tuple[int, int, Callable[[bytes], bytes]] | None,
    metadata: dict[str, str] | None,
    digests: _Digests,
    durable: bool,
    progress: _Progress,
) -> tuple[int, int, int, int]: ...
def _load_group(
    path: _Path,
    tensors: list[tuple[Any, ...]] | str,
    group: tuple[int, int, Callable[[bytes], bytes]] | None,
    layout: str | bytes | None,
    ranks: int | None,
    step: str | None,
    cast: bool,
    missing: bool,
    progress: _Progress,
) -> tuple[int, int, int, int]: ...
def open_any(
    filename: Any,
    framework: str = "pt",
    device: Any = "cpu",
    *,
    backend: str = "mmap",
    key: str | None = None,
    dedup: str = "hf",
    allow_opaque: bool = False,
    no_crc: bool = False,
    checksums: bool = False,
    follow_links: bool = False,
    dequantize: bool = False,
    tree: bool = False,
    view_as: Mapping[str, Any] | None = None,
) -> safe_open: ...
def _convert(
    inputs: list[str],
    output: str,
    to: str,
    choose: Callable[..., tuple[str, str | None] | None] | None,
    metadata: dict[str, str] | None,
    max_shard_size: int,
    plan: bool,
    replace: bool,
    verify: bool,
    durable: bool,
    progress: _Progress,
    *,
    key: str | None = None,
    dedup: str = "hf",
    allow_opaque: bool = False,
    no_crc: bool = False,
    checksums: bool = False,
    follow_links: bool = False,
    dequantize: bool = False,
    tree: bool = False,
    view_as: Mapping[str, Any] | None = None,
) -> Any: ...
def _load_bytes(data: Any, framework: str, /) -> dict[str, Any]: ...
def _glob(pattern: str, names: Iterable[str], /) -> list[str]: ...
def _without() -> int: ...
def _array_address(array: Any, /) -> int: ...
def _reopen(source: Any, framework: str, device: Any, backend: str, how: Any = ..., /) -> safe_open: ...
