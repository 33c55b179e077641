# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Checkpoints of many processes: save and load the state dict of a torch.distributed job, each process its shards;
and, without torch, open any training job's directory as one model, or one rank's shards of it.

    save(model.state_dict(), "ckpt/step-100")          # every process of the group; DTensors and plain tensors
    load(model.state_dict(), "ckpt/step-100")          # another mesh, another number of processes: in place
    with open_checkpoint("ckpt/step-100") as whole:    # numpy, no group: global tensors, read on request
        part = load_part(whole, "layout.json", rank=3)

torch is needed only for save and load. Tensor bytes travel only through files, which all processes must see; processes
exchange a few bytes for each tensor. docs/python.md, "Training jobs", is the guide; docs/checkpoint.md lists what can be opened.
"""

from __future__ import annotations

import json
import os
import sys
import warnings
from collections.abc import Mapping, Sequence
from datetime import timedelta
from itertools import product
from typing import NamedTuple

from . import _core
from ._core import SafetensorError, safe_open

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Union

    Path = Union[str, os.PathLike]
    Layout = Union[Path, Mapping[str, Any]]
    Names = Union[Path, Mapping[str, Any]]
    Runs = list[tuple[int, int]]

__all__ = [
    "Result",
    "left_out",
    "load",
    "load_part",
    "open_checkpoint",
    "open_part",
    "read_layout",
    "renamed",
    "save",
]


class Result(NamedTuple):
    """What a save or load did."""

    bytes: int  # of tensors, written or read by this process
    tensors: int  # shards that this process wrote or asked for
    total_bytes: int  # save: of all files, with headers; load: of all processes' shards
    total_files: int  # save: files with tensors; load: 0


def _layout(layout: Layout | None) -> str | bytes | None:
    if layout is None:
        return None
    if isinstance(layout, Mapping):
        return json.dumps(layout).encode()
    return os.fspath(layout)


def _text(given: Path | Mapping[str, Any]) -> str:
    """JSON: of a mapping, or what is in a file."""
    if isinstance(given, Mapping):
        return json.dumps(given)
    with open(os.fspath(given), encoding="utf-8") as f:  # a number is no descriptor here
        return f.read()


# ---------------------------------------------------------------- without a group


def open_checkpoint(
    path: Path,
    framework: str = "numpy",
    *,
    device: Any = "cpu",
    layout: Layout | None = None,
    step: str | None = None,
    ranks: int | None = None,
    partial: bool = False,
    names: Names | None = None,
    reverse: bool = False,
    config: Path | Mapping[str, Any] | None = None,
) -> safe_open:
    """Opens a job's checkpoint as one model: a handle like safe_open's, with global tensors that are read on request.

    path: a directory that save() made; PyTorch's distributed checkpoints in safetensors; MindSpore's rank directories,
        complete weights and MindFormers 2.0; files with a topology.json; a model of one or many files; a URL of one; with
        layout or step the URL of rank directories (docs/checkpoint.md), or one with "{rank}" for the number in each file's.
    layout: how tensors are sharded, where the checkpoint does not say: a file (MindSpore's strategy, our JSON, a
        tensor-parallel plan ...), or our JSON as a mapping. ranks: their number, for a tensor-parallel plan without it.
    step: which of several files of a rank, by the end of their names ("3_2"); None: the newest.
    partial: leave out tensors that are not complete, with a UserWarning for each of the first ten; left_out() names all.
    names, reverse: other names for the tensors, as renamed() gives them. config: what these need, and a layout of numbers
        ("dp=2,tp=4"); by default config.json in the path, or beside the file that it is.
    Raises FileNotFoundError, and SafetensorError with .status: SFT_E_HOLE (no file holds a tensor that the layout
    names, or one of its shards; .tensor), SFT_E_MISMATCH (files disagree, mixed steps, another model's layout),
    SFT_E_FORMAT (no known kind of checkpoint), SFT_E_UNSUPPORTED (no library).
    Cost: one read of each header; no tensor is read. Threads: any number may use a handle. It cannot be pickled.
    """
    if names is not None and partial:
        raise ValueError(
            "what partial=True leaves out is told by left_out(): open without names, then renamed()"
        )
    whole = _core._open_checkpoint(
        path, framework, device, layout=_layout(layout), step=step, ranks=ranks, partial=partial,
        config=None if config is None else _text(config),
    )  # fmt: skip
    if partial:
        _warn_of([whole])
    if names is None:
        return whole
    with whole:
        return renamed(
            whole, names, reverse=reverse, config=config_beside(path) if config is None else config
        )


def _warn_of(handles: Sequence[safe_open]) -> None:
    """What they left out, to the caller's caller."""
    missing = [sentence for handle in handles for _, sentence in _core._left_out(handle)]
    for sentence in missing[:10]:
        warnings.warn(sentence, stacklevel=3)
    if len(missing) > 10:
        warnings.warn(f"{len(missing) - 10} more tensors are left out", stacklevel=3)


def config_beside(path: Any) -> str | None:
    """config.json in a directory, or beside a file; None where there is none, or no path is given."""
    if not isinstance(path, (str, os.PathLike)):
        return None
    text = os.fspath(path)
    beside = os.path.join(text if os.path.isdir(text) else os.path.dirname(text), "config.json")
    return beside if os.path.isfile(beside) else None


def _rules(names: Names) -> str:
    """What _core takes: the name of rules that come with the library, or the text of others."""
    if isinstance(names, str) and _core._rules_known(names):
        return names
    try:
        return _text(names)
    except FileNotFoundError as e:
        nearest = _core._rules_nearest(names) if isinstance(names, str) else None
        if nearest is None:
            raise
        what = f"no such file, and no rules that come with the library: the nearest are {nearest}"
        raise FileNotFoundError(e.errno, what, names) from None


def renamed(
    whole: safe_open,
    names: Names,
    *,
    reverse: bool = False,
    config: Path | Mapping[str, Any] | None = None,
) -> safe_open:
    """An open model under the names of another framework, its tensors fused, split and stacked as rules say.

    whole: from open_checkpoint or safe_open; it may be closed afterwards. names: rules, those that come with the library by their
        name ("llama-mindformers", "qwen2-mindformers", with "-fused" behind), a file of rules, or their JSON as a mapping
        (docs/names.md). reverse: from the names on the right to those on the left. config: a file or a mapping whose numbers
        the rules may ask for (num_attention_heads ...).
    What may be a mistake is a UserWarning. Aliases (other names of a tensor) are not carried over.
    Raises SafetensorError: SFT_E_NOT_FOUND (a tensor or a number that a rule needs), SFT_E_SHAPE, SFT_E_DTYPE (tensors that
    cannot be put together so), SFT_E_DUPLICATE (two tensors get one name), and the errors of the rules' text.
    Cost: O(tensors * rules), from headers alone; nothing is copied, and reading a tensor reads only its pieces.
    """
    told: list[str] = []
    handle = _core._renamed(whole, _rules(names), reverse, None if config is None else _text(config), told)
    for sentence in told:
        warnings.warn(sentence, stacklevel=2)
    return handle


def left_out(whole: safe_open) -> dict[str, str]:
    """Tensors that open_checkpoint(partial=True) left out, and files that are gone with tensors nobody can name: {name: why}."""
    return dict(_core._left_out(whole))


def read_layout(layout: Layout, *, ranks: int | None = None) -> dict[str, Any]:
    """Any description of a layout (docs/layout.md) in our own form, as a mapping: what layout= takes, and layout.json holds.

    layout: as for open_checkpoint, but no numbers alone, which say nothing without a model. ranks: their number, for a
    tensor-parallel plan without it. Raises SafetensorError: SFT_E_FORMAT and the errors of the text; OSError. Cost: O(size).
    """
    return _read_layout(layout, ranks)[0]


def _read_layout(layout: Layout, ranks: int | None = None) -> tuple[dict[str, Any], int]:
    """And of how many ranks it is."""
    text, count = _core._read_layout(_layout(layout), ranks)  # type: ignore[arg-type]
    return json.loads(text), count


def open_part(
    whole: safe_open,
    layout: Layout,
    rank: int,
    *,
    ranks: int | None = None,
    allow_replicated: bool = False,
    names: Names | None = None,
    reverse: bool = False,
    config: Path | Mapping[str, Any] | None = None,
) -> safe_open:
    """The shards that rank `rank` holds of an open model under `layout`: a handle whose tensors have local shapes.

    whole: from open_checkpoint or safe_open; it may be closed afterwards. Tensors that the layout does not name are
    replicated; those that it gives only to other ranks are missing; an empty shard has a dimension of size 0.
    layout: a file, its JSON as a mapping, or numbers alone, "dp=2,tp=4,pp=2" (docs/layout.md).
    allow_replicated: accept a layout that names no tensor of the model, so that every rank has all of it. names, reverse:
        the model is renamed() before, so that a layout of one framework cuts a model of another. config: the model's
        config.json, a file or a mapping, for the numbers that names and numbers alone ask for; without it numbers alone read
        the one beside the model's files.
    Raises SafetensorError: SFT_E_SHAPE (.tensor cannot be sharded so), SFT_E_MISMATCH (a layout for other names), SFT_E_NOT_FOUND
    (numbers alone, and a name that no rule knows), and the errors of reading a layout.
    Cost: O(tensors * pieces), from headers alone; reading a shard reads only its bytes.
    """
    text = None if config is None else _text(config).encode()
    how: dict[str, Any] = {"ranks": ranks, "allow_replicated": allow_replicated, "config": text}
    if names is None:
        return _core._part(whole, _layout(layout), rank, **how)
    with renamed(whole, names, reverse=reverse, config=config) as other:
        return _core._part(other, _layout(layout), rank, **how)


def load_part(
    path: Path | safe_open,
    layout: Layout,
    rank: int,
    tensors: Sequence[str] | None = None,
    *,
    framework: str = "numpy",
    ranks: int | None = None,
    partial: bool = False,
    source_layout: Layout | None = None,
    step: str | None = None,
    allow_replicated: bool = False,
    names: Names | None = None,
    reverse: bool = False,
    config: Path | Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """The shards that rank `rank` holds of a model under `layout`, in memory of their own: {name: tensor}.

    path: as for open_checkpoint, or an open handle (then `framework` is the handle's). tensors: the names of those that are
        wanted; None: all. layout, ranks, allow_replicated: as for open_part. source_layout: how the path's own ranks are cut,
        where they do not say, and step: which of the path's steps (open_checkpoint's layout and step). partial: of ranks
        that are not all there what is whole of the part, with a UserWarning for each of the first ten tensors that are not.
    names, reverse, config: as for open_checkpoint, so that a layout of one framework cuts a
        model of another; an open handle is renamed before.
    Raises what open_checkpoint and open_part raise; SFT_E_NOT_FOUND for a name that the rank does not hold.
    Cost: one read of what the rank holds, adjacent shards together; columns are read row by row: from a disk with gaps of less
        than 3 KiB, from a URL without gaps where its server serves several ranges at once, else with gaps up to 64 KiB
        (SFT_REMOTE_GAP, docs/remote.md).
    """
    given = isinstance(path, safe_open)
    if given and (step is not None or source_layout is not None):
        raise ValueError("source_layout and step are for a path that is opened here; a handle has its own")
    if isinstance(path, safe_open):
        whole = path
    elif partial:  # tensors with holes, which only a part is taken of
        whole = _core._open_checkpoint(
            path, framework, "cpu", layout=_layout(source_layout), step=step, holes=True,
            config=None if config is None else _text(config),
        )  # fmt: skip
    else:
        whole = open_checkpoint(path, framework, layout=source_layout, step=step, config=config)
    if names is not None and config is None and not given:
        config = config_beside(path)
    try:
        with open_part(
            whole, layout, rank, ranks=ranks, allow_replicated=allow_replicated,
            names=names, reverse=reverse, config=config,
        ) as part:  # fmt: skip
            if partial and not given:
                _warn_of([whole, part])
            return part.get_tensors(tensors, owned=True)
    finally:
        if not given:
            whole.close()


# ---------------------------------------------------------------- boxes of placements


def _chunk(runs: Runs, parts: int, index: int) -> Runs:
    """Chunk `index` of torch.chunk(parts) of the concatenation of the runs (first, length)."""
    total = sum(length for _, length in runs)
    size = -(-total // parts)
    low, high = min(size * index, total), min(size * (index + 1), total)
    out, at = [], 0
    for first, length in runs:
        begin, end = max(low, at), min(high, at + length)
        if begin < end:
            out.append((first + begin - at, end - begin))
        at += length
    return out


def _shard(runs: Runs, placement: Any, parts: int, index: int) -> Runs:
    """The runs that a Shard or _StridedShard over `parts` processes gives to the one at `index`."""
    factor = getattr(placement, "split_factor", 1)
    chosen: Runs = []
    for i in range(factor):
        for first, length in _chunk(runs, parts * factor, index + i * parts):
            if chosen and sum(chosen[-1]) == first:
                chosen[-1] = (chosen[-1][0], chosen[-1][1] + length)
            else:
                chosen.append((first, length))
    return chosen


def _dtensor_runs(name: str, tensor: Any) -> list[Runs] | None:
    """Per dimension, the runs that this process holds; None: it is not in the mesh."""
    mesh = tensor.device_mesh
    coordinate = mesh.get_coordinate()
    if coordinate is None:
        return None
    dims: list[Runs] = [[(0, size)] if size else [] for size in tensor.shape]
    for axis, placement in enumerate(tensor.placements):
        if placement.is_replicate():
            continue
        if placement.is_partial() or not hasattr(placement, "dim"):
            raise ValueError(f"{name} is {placement}, which is no layout of stored values")
        dim = placement.dim % len(dims)
        dims[dim] = _shard(dims[dim], placement, mesh.size(axis), coordinate[axis])
    held = tuple(sum(length for _, length in runs) for runs in dims)
    local = tuple(tensor.to_local().shape)
    if held != local and 0 not in held + local:
        raise ValueError(
            f"{name}: its placements give {list(held)} to this process, which holds {list(local)}"
        )
    return dims


# ---------------------------------------------------------------- state dicts


def _flatten(state: Mapping[Any, Any], prefix: str, out: dict[str, Any]) -> dict[str, Any]:
    for key, value in state.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping):
            _flatten(value, name + ".", out)
        elif isinstance(value, (list, tuple)):
            _flatten(dict(enumerate(value)), name + ".", out)
        elif not hasattr(value, "data_ptr"):
            raise TypeError(f"{name} is {type(value).__name__}, not a tensor: give it as metadata")
        elif name in out:
            raise ValueError(f"two tensors are called {name}")
        else:
            out[name] = value
    return out


class _Parts:
    """The entries for _core's calls, and the tensors that own their memory."""

    def __init__(self, reading: bool) -> None:
        self.reading = reading
        self.entries: list[tuple] = []
        self.keep: list[Any] = []
        self.later: list[tuple[Any, Any]] = []  # (where it belongs, where it is read to)
        self.seen: set[int] = set()

    def add(self, name: str, tensor: Any) -> None:
        import torch

        if self.reading and sys.byteorder != "little":
            raise NotImplementedError("loading into shards needs a little-endian machine")
        if tensor.device.type == "meta" or tensor.layout != torch.strided:
            raise ValueError(f"{name} has no memory to save or load, or is sparse")
        if hasattr(tensor, "device_mesh"):
            dims = _dtensor_runs(name, tensor)
            if dims is None:
                return
            local = tensor.to_local().detach()
        else:
            dims, local = None, tensor.detach()
        if dims is None or all(runs == [(0, size)] for runs, size in zip(dims, tensor.shape) if size):
            self._one(name, tensor, local, None)
        elif not all(dims):
            start = [0] * tensor.dim()
            count = [sum(length for _, length in runs) for runs in dims]
            self._one(name, tensor, local, (start, count))
        else:
            for box in product(*(_places(runs) for runs in dims)):
                piece = local
                for dim, (_, length, at) in enumerate(box):
                    piece = piece.narrow(dim, at, length)
                self._one(name, tensor, piece, ([b[0] for b in box], [b[1] for b in box]))

    def _one(self, name: str, tensor: Any, piece: Any, box: tuple | None) -> None:
        from .torch import _CODES, _SIZE

        if tensor.dtype not in _CODES:
            raise ValueError(f"{name} is {tensor.dtype}, which the format does not have")
        code = _CODES[tensor.dtype]
        memory = self._memory(piece)
        self.keep.append(memory)
        double = 2 if code == "F4" else 1  # two to an element of torch

        def sizes(values: Sequence[int]) -> list[int]:
            return [n * (double if i == len(values) - 1 else 1) for i, n in enumerate(values)]

        self.entries.append((name, code, sizes(tensor.shape),
                             None if box is None else sizes(box[0]), None if box is None else sizes(box[1]),
                             memory.data_ptr(), memory.numel() * _SIZE[tensor.dtype]))  # fmt: skip

    def _memory(self, piece: Any) -> Any:
        """Packed little-endian bytes on the CPU: the piece itself where it is that, and is no other entry's memory."""
        import torch

        if not self.reading:
            from .torch import _plain

            return _plain(piece).contiguous()
        plain = piece.device.type == "cpu" and piece.is_contiguous()
        plain = plain and not (piece.is_conj() or piece.is_neg())
        if plain and (piece.numel() == 0 or piece.data_ptr() not in self.seen):
            self.seen.add(piece.data_ptr())
            return piece
        memory = torch.empty(piece.shape, dtype=piece.dtype)
        self.later.append((piece, memory))
        return memory

    def settle(self) -> None:
        import torch

        with torch.no_grad():
            for piece, memory in self.later:
                piece.copy_(memory)


def _places(runs: Runs) -> list[tuple[int, int, int]]:
    """(first in the global tensor, length, first in the local shard) of each run."""
    out, at = [], 0
    for first, length in runs:
        out.append((first, length, at))
        at += length
    return out


# ---------------------------------------------------------------- processes


def _group(group: Any, timeout: float | None = None) -> tuple[int, int, Callable[[bytes], bytes]] | None:
    """(rank, size, exchange) of a torch.distributed group; None: this process alone. timeout: of an exchange, in seconds;
    None: the group's."""
    import torch
    import torch.distributed as dist

    if not dist.is_available() or not dist.is_initialized():
        if group is not None:
            raise ValueError("a group was given, but torch.distributed is not initialised")
        return None
    rank, size = dist.get_rank(group), dist.get_world_size(group)
    if rank < 0:
        raise ValueError("this process is not of the group given")
    device = torch.device("cpu")
    if "cpu:" not in dist.get_backend_config(group):
        device = torch.device("cuda", torch.cuda.current_device())

    gather = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor  # its older name

    def exchange(mine: bytes) -> bytes:
        given = torch.frombuffer(bytearray(mine), dtype=torch.uint8).to(device)
        got = torch.empty(size * len(mine), dtype=torch.uint8, device=device)
        if timeout is None:
            gather(got, given, group=group)
        else:
            gather(got, given, group=group, async_op=True).wait(timedelta(seconds=timeout))
        return got.cpu().numpy().tobytes()

    return rank, size, exchange


def _prepare(state: Mapping[str, Any], reading: bool) -> tuple[_Parts, Exception | None]:
    parts = _Parts(reading)
    try:
        for name, tensor in _flatten(state, "", {}).items():
            parts.add(name, tensor)
    except Exception as error:  # the other processes must learn of it
        return parts, error
    return parts, None


def _together(call: Callable[[Any], tuple], parts: _Parts, error: Exception | None, alone: bool) -> Result:
    """An error of this process's preparation makes the call fail on all processes, and is raised here as it was."""
    if error is None:
        return Result(*call(parts.entries))
    if not alone:
        try:
            call(f"{type(error).__name__}: {error}")
        except SafetensorError:
            pass
    raise error


def save(
    state_dict: Mapping[str, Any],
    path: Path,
    group: Any = None,
    *,
    metadata: Mapping[str, str] | None = None,
    digests: str | Sequence[str] | None = None,
    durable: bool = True,
    progress: Callable[[int, int], object] | None = None,
) -> Result:
    """Saves the tensors of a process group as the directory `path`. All processes call it, with the same arguments.

    state_dict: {name: tensor}; nested dicts and lists are flattened with dots. Of DTensors on any mesh (Shard,
        Replicate, _StridedShard; uneven and empty shards too) each process saves its local shard; plain tensors are
        assumed equal on all processes that have them. Each byte is written by one process: shards that several hold are
        written by the one that has written least so far. Device and strided tensors are copied to CPU memory first.
    path: must not exist, or be an empty directory, on a file system that all processes see.
    group: a torch.distributed group (gloo, nccl ...); None: the default one, or this process alone.
    metadata: {text: text} for every file's header, the same on all processes. digests: "crc32c", "sha256" per tensor.
    durable: wait for the disk. progress(done, total): bytes of this process.

    The complete directory appears at once, or not at all: if one process fails, all raise. load(), open_checkpoint(),
    every command of the tool and PyTorch's HuggingFaceStorageReader can read it.
    Raises FileExistsError; TypeError and ValueError for an entry that cannot be saved (SafetensorError on the other
    processes); SafetensorError: SFT_E_MISMATCH (processes disagree about a tensor), SFT_E_HOLE, SFT_E_OVERLAP, SFT_E_IO.
    Cost: each distinct byte is written once. Threads: one call at a time in a process.
    """
    parts, error = _prepare(state_dict, False)
    talk = _group(group)
    if error is None and not all(isinstance(text, str) for pair in (metadata or {}).items() for text in pair):
        error = TypeError("metadata maps texts to texts")
    given = dict(metadata) if metadata is not None and error is None else None
    return _together(
        lambda entries: _core._save_group(path, entries, talk, given, digests, durable, progress),
        parts,
        error,
        talk is None,
    )


def load(
    state_dict: Mapping[str, Any],
    path: Path,
    group: Any = None,
    *,
    layout: Layout | None = None,
    ranks: int | None = None,
    step: str | None = None,
    cast: bool = False,
    strict: bool = True,
    progress: Callable[[int, int], object] | None = None,
) -> Result:
    """Fills the tensors of a state dict from a checkpoint, in place, each process its shards. All processes of the group
    call it; they need not ask for the same tensors.

    state_dict: as for save(). Only local shards are written: directly if their memory is packed, on the CPU and not
        shared with another tensor, else through a copy.
    path, layout, ranks, step: as for open_checkpoint(), but no URL. The checkpoint may have been sharded in any way, by
        any number of processes.
    cast: types may differ; values are converted. strict=False: tensors that the checkpoint lacks stay as they are.
    Raises what open_checkpoint() raises, on all processes if on one; SafetensorError: SFT_E_NOT_FOUND (.tensor is
    missing), SFT_E_SHAPE, SFT_E_MISMATCH (dtype). After an error the contents of the tensors are undefined.
    Cost: each process reads every header once and its own bytes once, adjacent shards together. Threads: one call at a
    time in a process.
    """
    parts, error = _prepare(state_dict, True)
    talk = _group(group)
    source = _layout(layout)
    result = _together(
        lambda entries: _core._load_group(
            path, entries, talk, source, ranks, step, cast, not strict, progress
        ),
        parts,
        error,
        talk is None,
    )
    parts.settle()
    return result
