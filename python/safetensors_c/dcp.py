# SPDX-License-Identifier: Apache-2.0 OR MIT
"""torch.distributed.checkpoint into directories of safetensors and JSON: no pickle on the disk.

    dcp.save(state, storage_writer=StorageWriter("ckpt/step-100"))     # async_save, too
    dcp.load(state, storage_reader=StorageReader("ckpt/step-100"))     # another number of processes

Tensors lie as safetensors_c.distributed.save has them, so that open_checkpoint, the tool and PyTorch's own
HuggingFaceStorageReader read them; objects lie in dcp.json in the form of docs/tree.md.
"""

from __future__ import annotations

import dataclasses
import io
import json
import os
import shutil

import torch
from torch.distributed.checkpoint import metadata as _metadata
from torch.distributed.checkpoint import storage as _storage
from torch.distributed.checkpoint.planner import LoadItemType, WriteItemType
from torch.futures import Future

from . import distributed as _distributed
from . import tree as _tree
from .torch import save_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["StorageReader", "StorageWriter"]

_OBJECTS = "dcp.json"


def _done(value: Any) -> Any:
    future: Any = Future()
    future.set_result(value)
    return future


class _Encoder(_tree._Encoder):
    who = "torch.distributed.checkpoint"

    def tensor(self, x: Any, framework: str, at: tuple[str, ...]) -> Any:
        raise TypeError(f"{self.who}: a tensor inside of an object cannot be kept (at {_tree._where(at)})")


class _Decoder(_tree._Decoder):
    def __init__(self) -> None:
        super().__init__(lambda name: None)  # type: ignore[arg-type,return-value]


class StorageWriter(_storage.StorageWriter):
    """Writes the directory `path` (or the checkpoint_id of save), which must not exist: all or nothing. Tensors inside of
    objects, and objects that trees do not know, raise TypeError with the path. durable: files are flushed before the
    directory gets its name."""

    def __init__(self, path: str | os.PathLike[str] = "", *, durable: bool = True) -> None:
        self._path = os.fspath(path)
        self._durable = durable
        self._first = False

    def reset(self, checkpoint_id: str | os.PathLike[str] | None = None) -> None:
        if checkpoint_id:
            self._path = os.fspath(checkpoint_id)

    @property
    def _staging(self) -> str:
        head, name = os.path.split(os.path.abspath(self._path))
        return os.path.join(head, f".{name}.sft-part")

    def set_up_storage_writer(self, is_coordinator: bool, *args: Any, **kwargs: Any) -> None:
        self._first = is_coordinator

    def prepare_local_plan(self, plan: Any) -> Any:
        return plan

    def prepare_global_plan(self, plans: list[Any]) -> list[Any]:
        if os.path.lexists(self._path):
            raise FileExistsError(f"{self._path} is there already")
        shutil.rmtree(self._staging, ignore_errors=True)
        os.makedirs(self._staging)
        return [dataclasses.replace(plan, storage_data=i) for i, plan in enumerate(plans, start=1)]

    def write_data(self, plan: Any, planner: Any) -> Any:
        files: list[dict[str, tuple[Any, Any]]] = []
        results = []
        for item in plan.items:
            name, stored = item.index.fqn, None
            if item.type == WriteItemType.BYTE_IO:
                if not hasattr(planner, "lookup_object"):
                    raise TypeError(
                        f"{type(planner).__name__} gives {name} as a pickle alone, which is refused"
                    )
                stored = _Encoder().value(planner.lookup_object(item.index), (name,))
            else:
                data = planner.resolve_data(item).detach().cpu()
                place = next((f for f in files if name not in f), None)
                if place is None:
                    place = {}
                    files.append(place)
                place[name] = (data, list(item.tensor_data.chunk.offsets))
            results.append(_storage.WriteResult(item.index, 0, stored))
        for number, tensors in enumerate(files, start=1):
            info = {name: {"saved_offsets": offsets} for name, (_, offsets) in tensors.items()}
            name = f"shard-{plan.storage_data:05d}-model-{number:05d}-of-{len(files):05d}.safetensors"
            path = os.path.join(self._staging, name)
            save_file(
                {name: data.contiguous() for name, (data, _) in tensors.items()},
                path,
                {"format": "pt", "DCP_VERSION": "1.0", "DCP_SHARDING_INFO": json.dumps(info)},
                digests="crc32c",
            )
            self._flush(path)
        return _done(results)

    def finish(self, metadata: Any, results: list[list[Any]]) -> None:
        objects = {
            r.index.fqn: r.storage_data for group in results for r in group if r.storage_data is not None
        }
        kept = {n: v for n, v in metadata.state_dict_metadata.items() if hasattr(v, "size")}
        tensors = {n: list(v.size) for n, v in kept.items()}
        nulls = [n for n in metadata.state_dict_metadata if n not in tensors and n not in objects]
        objects.update(dict.fromkeys(nulls))  # None is null
        with open(os.path.join(self._staging, _OBJECTS), "w", encoding="utf-8") as f:
            json.dump({"version": 1, "objects": objects}, f, ensure_ascii=False)
        self._flush(os.path.join(self._staging, _OBJECTS))
        self._flush(self._staging)
        if tensors:  # what was written is whole
            with _distributed.open_checkpoint(self._staging) as whole:
                found = {name: list(whole.get_slice(name).get_shape()) for name in whole.keys()}  # noqa: SIM118
            if found != tensors:
                raise RuntimeError("the files hold other tensors than the plan")
        os.rename(self._staging, self._path)
        self._flush(os.path.dirname(os.path.abspath(self._path)))

    def _flush(self, path: str) -> None:
        if self._durable and os.name != "nt":
            fd = os.open(path, os.O_RDONLY)
            try:
                os.fsync(fd)
            finally:
                os.close(fd)

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: str | os.PathLike[str]) -> bool:
        return "://" not in os.fspath(checkpoint_id)


class StorageReader(_storage.StorageReader):
    """Reads a directory of StorageWriter, a step of a run, or whatever open_checkpoint opens, by DCP's own planner, on
    any number of processes: each reads its own bytes."""

    def __init__(self, path: str | os.PathLike[str] = "") -> None:
        self._path = os.fspath(path)
        self._objects: dict[str, Any] = {}

    def reset(self, checkpoint_id: str | os.PathLike[str] | None = None) -> None:
        if checkpoint_id:
            self._path = os.fspath(checkpoint_id)

    def _read_objects(self) -> dict[str, Any]:
        path = os.path.join(self._path, _OBJECTS)
        if not os.path.exists(path):
            return {}
        with open(path, encoding="utf-8") as f:
            told = json.load(f)
        if told.get("version") != 1 or not isinstance(told.get("objects"), dict):
            raise ValueError(f"{path} is of another version, or none of ours")
        return told["objects"]

    def read_metadata(self, *args: Any, **kwargs: Any) -> Any:
        entries: dict[str, Any] = {name: _metadata.BytesStorageMetadata() for name in self._read_objects()}
        if any(name.endswith(".safetensors") for name in os.listdir(self._path)):
            with _distributed.open_checkpoint(self._path, "pt") as whole:
                for name in whole.keys():  # noqa: SIM118
                    part = whole.get_slice(name)
                    size = torch.Size(part.get_shape())
                    dtype = _distributed_dtype(part.get_dtype())
                    chunk = _metadata.ChunkStorageMetadata(torch.Size([0] * len(size)), size)
                    properties = _metadata.TensorProperties(dtype=dtype)
                    entries[name] = _metadata.TensorStorageMetadata(properties, size, [chunk])
        return _metadata.Metadata(state_dict_metadata=entries, storage_meta=_metadata.StorageMeta())

    def set_up_storage_reader(self, metadata: Any, is_coordinator: bool, *args: Any, **kwargs: Any) -> None:
        self._objects = self._read_objects()

    def prepare_local_plan(self, plan: Any) -> Any:
        return plan

    def prepare_global_plan(self, plans: list[Any]) -> list[Any]:
        return plans

    def read_data(self, plan: Any, planner: Any) -> Any:
        tensors = []
        for item in plan.items:
            if item.type == LoadItemType.BYTE_IO:
                held = io.BytesIO()  # in memory: planners take no objects
                torch.save(_Decoder().value(self._objects[item.storage_index.fqn]), held)
                held.seek(0)
                planner.load_bytes(item, held)
            else:
                tensors.append(item)
        if tensors:
            with _distributed.open_checkpoint(self._path, "pt") as whole:
                for item in tensors:
                    where = tuple(slice(o, o + n) for o, n in zip(item.storage_offsets, item.lengths))
                    part = whole.get_slice(item.storage_index.fqn)
                    target = planner.resolve_tensor(item).detach()
                    target.copy_(part[where] if where else whole.get_tensor(item.storage_index.fqn))
                    planner.commit_tensor(item, target)
        return _done(None)

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: str | os.PathLike[str]) -> bool:
        return os.path.isdir(checkpoint_id)


def _distributed_dtype(code: str) -> Any:
    from .torch import _TYPES

    return _TYPES[code]
