# SPDX-License-Identifier: Apache-2.0 OR MIT
"""torch.distributed.checkpoint into directories of safetensors and JSON: no pickle on the disk.

    dcp.save(state, storage_writer=StorageWriter("ckpt/step-100"))     # async_save, too
    dcp.load(state, storage_reader=StorageReader("ckpt/step-100"))     # another number of processes
    dcp.save(state, storage_writer=StepWriter(run, 100))               # a step of a safetensors_c.Run

Tensors lie as safetensors_c.distributed.save has them, so that open_checkpoint, the tool and PyTorch's own
HuggingFaceStorageReader read them; objects lie in dcp.json in the form of docs/tree.md, with what files there are.
docs/run.md says what a kill, a full disk and damage lead to.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import io
import json
import os
import secrets
import shutil
import threading

import torch
from torch.distributed.checkpoint import metadata as _metadata
from torch.distributed.checkpoint import storage as _storage
from torch.distributed.checkpoint.planner import LoadItemType, WriteItemType
from torch.futures import Future

from . import _io
from . import distributed as _distributed
from . import tree as _tree
from ._core import SafetensorError, safe_open
from ._run_state import MODEL
from .run import Run
from .torch import _CODES, save_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .run import Handle

__all__ = ["StepWriter", "StorageReader", "StorageWriter"]

_OBJECTS = "dcp.json"
_ENTRY = "dcp"  # of a step's state.json: objects by names
_SAVE = "sft.dcp"  # of every file's metadata: which save wrote it
_HASHED = ("files", "objects")


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


def _header(path: str) -> tuple[dict[str, Any], bytes]:
    """What dcp.json says of a file, and its header."""
    with open(path, "rb") as f:
        whole = os.fstat(f.fileno()).st_size
        size = f.read(8)
        text = f.read(min(int.from_bytes(size, "little"), whole))
    return {"size": whole, "header": hashlib.sha256(size + text).hexdigest()}, text


def _save_of(header: bytes) -> str | None:
    """Which save wrote the file of this header."""
    return json.loads(header).get("__metadata__", {}).get(_SAVE)


def _sha256(told: dict[str, Any]) -> str:
    """Of what dcp.json says, in one form."""
    text = json.dumps([told.get(key) for key in _HASHED], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


class StorageWriter(_storage.StorageWriter):
    """Writes the directory `path` (or the checkpoint_id of save), which must not exist: all or nothing. Tensors inside of
    objects, and objects that trees do not know, raise TypeError with the path. durable: files are flushed before the
    directory gets its name."""

    def __init__(self, path: str | os.PathLike[str] = "", *, durable: bool = True) -> None:
        self._path = os.fspath(path)
        self._durable = durable
        self._save = ""

    def reset(self, checkpoint_id: str | os.PathLike[str] | None = None) -> None:
        if checkpoint_id:
            self._path = os.fspath(checkpoint_id)

    @property
    def _staging(self) -> str:
        head, name = os.path.split(os.path.abspath(self._path))
        return os.path.join(head, f".{name}.sft-part")

    def set_up_storage_writer(self, is_coordinator: bool, *args: Any, **kwargs: Any) -> None:
        pass

    def prepare_local_plan(self, plan: Any) -> Any:
        return plan

    def prepare_global_plan(self, plans: list[Any]) -> list[Any]:
        if os.path.lexists(self._path):
            raise FileExistsError(f"{self._path} is there already")
        shutil.rmtree(self._staging, ignore_errors=True)
        os.makedirs(self._staging)
        self._save = secrets.token_hex(16)
        return [
            dataclasses.replace(plan, storage_data=(i, self._save)) for i, plan in enumerate(plans, start=1)
        ]

    def _collect(self, plan: Any, planner: Any) -> tuple[list[Any], list[tuple[Any, Any]]]:
        """(a result for each object, with its node; a pair of item and tensor for each piece)."""
        objects, pieces = [], []
        for item in plan.items:
            name = item.index.fqn
            if item.type != WriteItemType.BYTE_IO:
                data = planner.resolve_data(item).detach()
                if data.dtype not in _CODES:
                    raise TypeError(f"safetensors has no {data.dtype} (at {name})")
                pieces.append((item, data.cpu().contiguous()))
                continue
            if not hasattr(planner, "lookup_object"):
                raise TypeError(f"{type(planner).__name__} gives {name} as a pickle alone, which is refused")
            stored = _Encoder().value(planner.lookup_object(item.index), (name,))
            objects.append(_storage.WriteResult(item.index, 0, ("object", stored)))
        return objects, pieces

    def write_data(self, plan: Any, planner: Any) -> Any:
        number, save = plan.storage_data
        results, pieces = self._collect(plan, planner)
        files: list[dict[str, tuple[Any, Any]]] = []
        places = []
        for item, data in pieces:
            name = item.index.fqn
            place = next((i for i, f in enumerate(files) if name not in f), len(files))
            files += [{}] if place == len(files) else []
            files[place][name] = (data, list(item.tensor_data.chunk.offsets))
            places.append((item.index, place))
        names = [
            f"shard-{number:05d}-model-{n:05d}-of-{len(files):05d}.safetensors"
            for n in range(1, len(files) + 1)
        ]
        try:
            for name, tensors in zip(names, files):
                self._write(os.path.join(self._staging, name), tensors, save)
        except BaseException:
            for name in names:  # a full disk has room again
                with contextlib.suppress(OSError):
                    os.unlink(os.path.join(self._staging, name))
            raise
        return _done([*results, *(_storage.WriteResult(i, 0, ("file", names[place])) for i, place in places)])

    def _write(self, path: str, tensors: dict[str, tuple[Any, Any]], save: str) -> None:
        info = {name: {"saved_offsets": offsets} for name, (_, offsets) in tensors.items()}
        metadata = {"format": "pt", "DCP_VERSION": "1.0", "DCP_SHARDING_INFO": json.dumps(info), _SAVE: save}
        given = {n: data for n, (data, _) in tensors.items()}
        # tied ones each by itself, as DCP has them
        save_file(given, path, metadata, digests="crc32c", shared="copy")
        self._flush(path)

    def finish(self, metadata: Any, results: list[list[Any]]) -> None:
        all_results = [r for group in results for r in group]
        objects = {r.index.fqn: r.storage_data[1] for r in all_results if r.storage_data[0] == "object"}
        kept = {n: v for n, v in metadata.state_dict_metadata.items() if hasattr(v, "size")}
        tensors = {n: list(v.size) for n, v in kept.items()}
        nulls = [n for n in metadata.state_dict_metadata if n not in tensors and n not in objects]
        objects.update(dict.fromkeys(nulls))  # None is null
        files = self._written({r.storage_data[1] for r in all_results if r.storage_data[0] == "file"})
        if tensors:  # what was written is whole
            with _distributed.open_checkpoint(self._staging) as whole:
                found = {name: list(whole.get_slice(name).get_shape()) for name in whole.keys()}  # noqa: SIM118
            if found != tensors:
                raise RuntimeError("the files hold other tensors than the plan")
        told = {"version": 1, "files": files, "objects": objects}
        with open(os.path.join(self._staging, _OBJECTS), "w", encoding="utf-8") as f:
            json.dump({**told, "sha256": _sha256(told)}, f, ensure_ascii=False)
        self._flush(os.path.join(self._staging, _OBJECTS))
        self._flush(self._staging)
        os.rename(self._staging, self._path)
        self._flush(os.path.dirname(os.path.abspath(self._path)))

    def _written(self, names: set[str]) -> dict[str, Any]:
        """The files of this save, and of no other whose processes live on after a kill."""
        files = {}
        for name in sorted(names):
            files[name], header = _header(os.path.join(self._staging, name))
            if _save_of(header) != self._save:
                raise RuntimeError(f"{name} was written by another save of {self._path}")
        others = sorted(set(os.listdir(self._staging)) - names)
        if others:
            raise RuntimeError(f"another save of {self._path} wrote {others[0]}")
        return files

    def _flush(self, path: str) -> None:
        if self._durable:
            _io.flush(path)

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: str | os.PathLike[str]) -> bool:
        return "://" not in os.fspath(checkpoint_id)


class StepWriter(StorageWriter):
    """Writes step `step` of a run (of the same processes: Run(path, group=...)): with its manifest, `latest` and the run's
    rules, as Run.save does. metrics: numbers for the rules.

    StorageReader reads it, and the tool; Run.resume does not, as DCP's names are not those of a model. Raises FileExistsError.
    For dcp.save: the run's processes talk while they save, which async_save would do beside the training's own.
    """

    def __init__(self, run: Run, step: int, *, metrics: dict[str, float] | None = None) -> None:
        super().__init__()
        self._run, self._step, self._metrics = run, step, metrics or {}
        self._handle: Handle | None = None

    def reset(self, checkpoint_id: str | os.PathLike[str] | None = None) -> None:
        if checkpoint_id:
            raise TypeError("a step of a run has its own name: no checkpoint_id is taken")

    def prepare_global_plan(self, plans: list[Any]) -> list[Any]:
        if len(plans) != self._run.size:
            raise TypeError(f"{len(plans)} processes save, and the run is of {self._run.size}")
        return plans

    def write_data(self, plan: Any, planner: Any) -> Any:
        error: Exception | None = None
        objects: list[Any] = []
        pieces: list[tuple[Any, Any]] = []
        try:
            if threading.current_thread() is not threading.main_thread():
                raise TypeError("StepWriter is for dcp.save in the main thread, not for async_save")
            objects, pieces = self._collect(plan, planner)
        except Exception as e:
            error = e
        nodes = {r.index.fqn: r.storage_data[1] for r in objects}
        told = self._run._all_told(self._step, {"dcp": nodes}, error)  # each process has some
        whole = {name: node for theirs in told for name, node in theirs["dcp"].items()}
        held: list[Any] = []  # what the addresses lead to, until the run has its copy
        tensors = [_piece(item, data, held) for item, data in pieces]
        self._handle = self._run._write_pieces(self._step, tensors, (_ENTRY, whole), self._metrics)
        return _done(objects + [_storage.WriteResult(item.index, 0, ("file", "")) for item, _ in pieces])

    def finish(self, metadata: Any, results: list[list[Any]]) -> None:
        if self._handle is not None:
            self._handle.committed.result()


def _piece(item: Any, data: torch.Tensor, held: list[Any]) -> tuple[Any, ...]:
    """As _core._Run.save takes it; `held` gets the tensors whose memory it names."""
    parts = _distributed._Parts(False)
    chunk, size = item.tensor_data.chunk, list(item.tensor_data.size)
    whole = list(chunk.sizes) == size
    parts._one(item.index.fqn, torch.empty(size, dtype=data.dtype, device="meta"), data,
               None if whole else (list(chunk.offsets), list(chunk.sizes)))  # fmt: skip
    held += parts.keep
    name, code, shape, start, count, address, nbytes = parts.entries[0]
    return (name, code, shape, MODEL, address, nbytes, 0, *(() if start is None else (start, count)))


class StorageReader(_storage.StorageReader):
    """Reads a directory of StorageWriter, a step of a run, or whatever open_checkpoint opens, by DCP's own planner, on
    any number of processes: each reads its own bytes.

    verify: the digests that files record are compared before anything is read, each file by one of the processes (the
    price: every byte is read once more); without it only names, sizes and headers are. What is damaged or missing is named
    in the CheckpointException that dcp.load raises in all processes.
    """

    def __init__(self, path: str | os.PathLike[str] = "", *, verify: bool = True) -> None:
        self._path = os.fspath(path)
        self._verify = verify
        self._objects: dict[str, Any] = {}

    def reset(self, checkpoint_id: str | os.PathLike[str] | None = None) -> None:
        if checkpoint_id:
            self._path = os.fspath(checkpoint_id)

    def _of_step(self) -> dict[str, Any]:
        """The objects of a step of a run, which is complete."""
        place, name = os.path.split(os.path.realpath(self._path))
        if not name[5:].isdigit():
            raise ValueError(f"{self._path} is a step of a run, but has another name")
        with Run(place, read_only=True) as run:
            entries = run._entries(int(name[5:]))
        return json.loads(entries.get(_ENTRY, "{}"))

    def _tensor_files(self) -> list[str]:
        return sorted(name for name in os.listdir(self._path) if name.endswith(".safetensors"))

    def _read_objects(self) -> dict[str, Any]:
        if any(os.path.exists(os.path.join(self._path, name)) for name in ("manifest.json", "state.json")):
            return self._of_step()
        path = os.path.join(self._path, _OBJECTS)
        if not os.path.exists(path):
            for name in self._tensor_files()[:1]:
                if _save_of(_header(os.path.join(self._path, name))[1]) is not None:
                    raise FileNotFoundError(f"{path} is missing")
            return {}
        try:
            with open(path, encoding="utf-8") as f:
                told = json.load(f)
        except ValueError as e:
            raise SafetensorError(f"{path} was changed: {e}") from e
        if told.get("version") != 1 or not all(isinstance(told.get(key), dict) for key in _HASHED):
            raise ValueError(f"{path} is of another version, or none of ours")
        if told.get("sha256") != _sha256(told):
            raise SafetensorError(f"{path} was changed: its SHA-256 differs")
        for name, facts in told["files"].items():
            place = os.path.join(self._path, name)
            if not os.path.exists(place):
                raise FileNotFoundError(f"{place} is missing")
            if os.path.getsize(place) != facts["size"]:
                raise SafetensorError(
                    f"{place} was changed: it has {os.path.getsize(place)} bytes, not {facts['size']}"
                )
            if _header(place)[0] != facts:
                raise SafetensorError(f"{place} was changed: its header is another")
        return told["objects"]

    def read_metadata(self, *args: Any, **kwargs: Any) -> Any:
        entries: dict[str, Any] = {name: _metadata.BytesStorageMetadata() for name in self._read_objects()}
        if self._tensor_files():
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
        files = self._tensor_files() if self._verify else []
        return [
            dataclasses.replace(plan, storage_data=files[i :: len(plans)]) for i, plan in enumerate(plans)
        ]

    def read_data(self, plan: Any, planner: Any) -> Any:
        for name in plan.storage_data:
            with safe_open(os.path.join(self._path, name), "pt") as f:
                f.verify()
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
