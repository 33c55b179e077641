# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A run that many processes of torch.distributed save and resume together: who is missing, what all agree on, which part
of a DTensor lies here, and what cannot be carried to another number of processes. docs/run.md, "Many processes".
"""

from __future__ import annotations

import ctypes
import datetime
import hashlib
import json
import re
import struct
from collections.abc import Mapping

from . import _run_state as _state
from . import distributed as _distributed
from ._core import SafetensorError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

ENTRY = "processes"  # of state.json: how many saved, and whose states differed
_GRACE = 5.0  # seconds, after the timeout, until all survivors know of a failure
_runs: dict[str, int] = {}  # runs opened in each group: processes open them in the same order


def _error(status: str, sentence: str) -> SafetensorError:
    error = SafetensorError(sentence)
    error.status = status
    return error


class Processes:
    """The processes of a torch.distributed group, which make the same calls of a run in the same order.

    Every wait ends after `timeout` seconds with an error that names the ranks that are missing. After such an error, or
    one of the backend, nothing is exchanged any more: a new run is to be opened, by a new job.
    """

    def __init__(self, group: Any, timeout: float) -> None:
        talk = _distributed._group(group, timeout)
        if talk is None:
            raise ValueError("a group was given, but torch.distributed is not initialised")
        self.rank, self.size, self._gather = talk
        self.timeout = timeout
        self._broken: SafetensorError | None = None
        from torch.distributed import distributed_c10d as c10d

        name = getattr(group, "group_name", "")
        _runs[name] = _runs.get(name, 0) + 1
        self._prefix = f"sft-run/{_runs[name]}"
        self._store = c10d._get_process_group_store(group)
        self._calls = 0

    @property
    def talk(self) -> tuple[int, int, Callable[[bytes], bytes]]:
        """What _core takes."""
        return self.rank, self.size, self.exchange

    def _keys(self, what: str) -> list[str]:
        return [f"{self._prefix}/{what}/{rank}" for rank in range(self.size)]

    def _missing(self, what: str, seconds: float, told: str = "1") -> list[int] | None:
        """Waits until all processes have come to `what`; those that have not. None: the store does not answer."""
        keys = self._keys(what)
        try:
            self._store.set(keys[self.rank], told)
            try:
                self._store.wait(keys, datetime.timedelta(seconds=seconds))
                return []
            except RuntimeError:
                return [rank for rank, key in enumerate(keys) if not self._store.check([key])]
        except RuntimeError:
            return None

    def _break(self, what: str, missing: list[int] | None, cause: BaseException | None) -> SafetensorError:
        who = "rank " + ", ".join(map(str, missing or []))
        if missing is None:
            who = "the store of torch.distributed does not answer: its process (rank 0, or the launcher) is gone"
        elif missing:
            who = f"not there within {self.timeout:g} s: {who}"
        else:
            who = f"no process is missing, but the backend says: {cause}"
        self._broken = _error("SFT_E_IO" if missing == [] else "SFT_E_TIMEOUT", f"{what}: {who}")
        return self._broken

    def _still(self) -> None:
        if self._broken is not None:
            raise _error("SFT_E_STATE", f"the processes of the run were parted before: {self._broken}")

    def _all_go_on(self, complete: bool) -> bool:
        """Whether all go on, or none: as the first one saw it. One that comes when the others have given up must not send
        anything, which would meet the next exchange of the training."""
        try:
            seen = self._store.compare_set(
                f"{self._prefix}/{self._calls}/all", "", "yes" if complete else "no"
            )
        except RuntimeError:
            return False
        return bool(seen == b"yes")

    def _too_late(self, what: str) -> SafetensorError:
        why = f"{what}: rank {self.rank} came when the others had given up waiting, after {self.timeout:g} s"
        self._broken = _error("SFT_E_TIMEOUT", why)
        return self._broken

    def begin(self, what: str, call: str) -> None:
        """All processes are there, in the same call, or an error names those that are not."""
        self._still()
        self._calls += 1
        missing = self._missing(str(self._calls), self.timeout, call)
        if missing is None or (missing and not self._all_go_on(False)):
            raise self._break(what, missing, None)
        if not missing and not self._all_go_on(True):
            raise self._too_late(what)
        try:
            calls = [self._store.get(key).decode() for key in self._keys(str(self._calls))]
        except RuntimeError:
            raise self._break(what, None, None) from None
        for rank, theirs in enumerate(calls):  # what they would exchange does not fit together
            if theirs != calls[0]:
                raise _error("SFT_E_MISMATCH", _DIFFERENT["call"].format(rank, theirs, calls[0]))
        self._store.delete_key(f"{self._prefix}/{self._calls - 1}/{self.rank}")  # all are past that one
        if self.rank == 0:
            self._store.delete_key(f"{self._prefix}/{self._calls - 1}/all")

    def exchange(self, mine: bytes) -> bytes:
        """An allgather: what all processes give, in the order of their ranks."""
        try:
            return self._gather(mine)
        except RuntimeError as cause:
            missing = self._missing("failed", self.timeout + _GRACE)
            raise self._break("the processes of the run could not exchange what they hold", missing, cause) \
                from cause  # fmt: skip

    def of_first(self, number: int) -> int:
        """The first process's number, for all."""
        self._still()
        return int.from_bytes(
            self.exchange(number.to_bytes(8, "little", signed=True))[:8], "little", signed=True
        )

    def signals(self, step: int, came: Iterable[int]) -> list[int]:
        """What came to any of the processes, all of which are at this step."""
        self._still()
        mine = sum(1 << number for number in set(came))
        whole = self.exchange(struct.pack("<qQ", step, mine))
        every = 0
        for rank, (theirs, bits) in enumerate(struct.iter_unpack("<qQ", whole)):
            first = struct.unpack_from("<q", whole)[0]
            if theirs != first:
                raise _error("SFT_E_MISMATCH", _DIFFERENT["at"].format(rank, _where(theirs), _where(first)))
            every |= bits
        return [number for number in range(64) if every >> number & 1]

    def agree(self, told: dict[str, Any], error: Exception | None) -> list[dict[str, Any]]:
        """What every process tells; if one of them failed, or is in another call, all raise."""
        if error is not None:
            told = {"error": f"{type(error).__name__}: {error}"}
        text = json.dumps(told).encode()
        sizes = self.exchange(len(text).to_bytes(8, "little"))
        lengths = [int.from_bytes(sizes[8 * r : 8 * r + 8], "little") for r in range(self.size)]
        most = max(lengths)
        whole = self.exchange(text.ljust(most, b"\0"))
        all_told = [json.loads(whole[most * r : most * r + n]) for r, n in enumerate(lengths)]
        if error is not None:
            raise error
        for rank, theirs in enumerate(all_told):
            if "error" in theirs:
                raise _error("SFT_E_ARG", f"rank {rank}: {theirs['error']}")
        for key in ("call", "step", "objects", "names"):
            for rank, theirs in enumerate(all_told):
                first = all_told[0].get(key)
                if theirs.get(key) != first:
                    raise _error("SFT_E_MISMATCH", _DIFFERENT[key].format(rank, theirs.get(key), first))
        return all_told


# Entries that a process may have alone: what it tells for itself, states of generators that it does not use elsewhere.
_OF_EACH = re.compile(r"extra$|rng\.(python|numpy|torch|cuda\.\d+)$")
_DIFFERENT = {
    "call": "rank {} is in a {}, and rank 0 in a {}",
    "at": "rank {} {}, and rank 0 {}: all processes of a guard are at the same step, and leave it together",
    "step": "rank {} has step {}, and rank 0 has step {}",
    "objects": "rank {} saves {}, and rank 0 saves {}: every process gives objects of the same names",
    "names": "rank {} has other parameters or optimizer states than rank 0: every process gives all names, each its shards",
}


def _where(step: int) -> str:
    return "leaves the guard" if step < 0 else f"is at step {step}"


class _Together:
    """In the block each process prepares a step; at its end all know whether all could."""

    group: Processes

    def told(self) -> dict[str, Any]:
        raise NotImplementedError

    def settle(self, told: list[dict[str, Any]]) -> None:
        """What follows from what all tell."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if error is None or isinstance(error, Exception):
            self.settle(self.group.agree(self.told(), error))


# ---------------------------------------------------------------- save


class Written(_state.Written, _Together):
    """A step that is being collected by one of many processes. Of DTensors it has its shards; parameters and optimizer
    states that are plain tensors are the same everywhere; buffers that are plain are rank 0's; trees are each
    process's own."""

    def __init__(self, group: Processes, step: int, device: int | None = None) -> None:
        super().__init__(device)
        self.group = group
        self.step = step
        self.own = f"state.rank-{group.rank:05d}."
        self.digests: dict[str, str] = {}
        self.places: dict[str, tuple[Any, ...]] = {}

    def model(self, model: Any) -> None:
        for prefix, module in _state.models(model):
            for path, inner in module.named_modules():
                if type(inner).__name__ == "FullyShardedDataParallel":
                    raise TypeError(
                        f"a run cannot keep a FullyShardedDataParallel (at model.{prefix}{path}): use fully_shard"
                    )
        super().model(model)
        tensors, tied, _ = _state.split(_state.model_values(model), _state.model_extras(model))
        for name, first in tied.items():  # readers of collective saves know no second names
            self.tensor(name, tensors[first], _state.MODEL, f"model.{name}")

    def together(self) -> Any:
        self.group.begin(f"saving step {self.step}", "save")
        return self

    def told(self) -> dict[str, Any]:
        common = sorted(name for name in self.names if not name.startswith(self.own))
        names = hashlib.sha256("\0".join(common).encode()).hexdigest()
        objects = ", ".join(sorted(name for name, _ in self.entries if not _OF_EACH.match(name)))
        told = {"call": "save", "step": self.step, "objects": objects, "names": names}
        return {**told, "digests": self.digests}

    def settle(self, told: list[dict[str, Any]]) -> None:
        names = {name for theirs in told for name in theirs["digests"]}
        differ = sorted(n for n in names if len({theirs["digests"].get(n) for theirs in told}) > 1)
        self.entries.append((ENTRY, json.dumps({"count": self.group.size, "differ": differ})))

    def tensor(self, name: str, x: Any, part: int, at: object, flags: int = 0) -> str:
        own = name.startswith(self.own)
        if hasattr(x, "device_mesh"):
            if own:
                raise TypeError(f"a run keeps sharded tensors of modules and optimizers alone (at {at})")
            self._sharded(name, x, part, at, flags)
            return name
        plain_buffer = part != _state.OPTIMIZER and not own
        if plain_buffer and self.group.rank > 0 and not isinstance(x, _state.torch_module().nn.Parameter):
            self.names.add(name)
            return name
        name = super().tensor(name, x, part, at, flags)
        self.places[name] = self.tensors[-1]
        return name

    def _sharded(self, name: str, x: Any, part: int, at: object, flags: int) -> None:
        parts = _distributed._Parts(False)
        try:
            parts.add(name, x.detach())
        except ValueError as e:
            raise TypeError(f"a run cannot keep it (at {at}): {e}") from e
        self.names.add(name)
        self.keep += parts.keep
        for _, code, shape, start, count, address, nbytes in parts.entries:
            box = () if start is None else (start, count)
            self.tensors.append((name, code, shape, part, address, nbytes, flags, *box))

    def entry(self, name: str, node: Any) -> None:
        super().entry(name, node)
        digest = hashlib.sha256(self.entries[-1][1].replace(self.own, "state.").encode())
        for stored in _state._tensors_of(node):
            if stored.startswith(self.own):
                _, code, shape, _, address, nbytes, flags = self.places[stored][:7]
                digest.update(f"{code}{shape}".encode())
                # of a device nobody looks here: taken for different
                digest.update(
                    self.own.encode() if flags & _state.ON_DEVICE else ctypes.string_at(address, nbytes)
                )
        self.digests[name] = digest.hexdigest()


# ---------------------------------------------------------------- resume


class Read(_state.Read, _Together):
    """A step that goes back into the objects of one of many processes, whatever their number was."""

    def __init__(self, group: Processes, core: Any, step: int) -> None:
        super().__init__(core, step)
        self.group = group
        self.size = group.size

    def together(self) -> Any:
        return self

    def told(self) -> dict[str, Any]:
        return {"call": "resume", "step": self.step, "names": ""}

    def into(self, name: str, target: Any, what: str) -> None:
        if not hasattr(target, "device_mesh"):
            super().into(name, target, what)
            return
        parts = _distributed._Parts(True)
        parts.add(name, target.detach())
        code, shape = _state._code_and_shape(target)
        self.check(name, what, code, shape)
        for _, code, shape, start, count, address, nbytes in parts.entries:
            box = () if start is None else (start, count)
            self.loads.append((name, code, shape, _state.STATE, address, nbytes, 0, *box))
        self.keep.append(parts)
        self.then.append(parts.settle)


def _is_position(one: Any) -> bool:
    """Does it say which batches were taken: a loader, a sampler?"""
    return hasattr(one, "__iter__") and hasattr(one, "state_dict") and not _state.is_module(one)


def left_behind(read: _state.Read, objects: Mapping[str, Any], rng: bool) -> tuple[set[str], str]:
    """What is not put back, as the step was saved by another number of processes, and a sentence about it ("" if there is
    nothing to say). objects: by their names in state.json; rng: whether random states are wanted."""
    saved = read.nodes.get(ENTRY, {"count": 1, "differ": None})
    read.form(_state._has(saved, count=int), ENTRY)
    differ = saved.get("differ")
    read.form(differ is None or (isinstance(differ, list) and _state._texts(differ)), ENTRY)
    if saved["count"] == read.size:
        return set(), ""
    states = [n for n in read.nodes if rng and n.startswith("rng.") and (differ is None or n in differ)]
    left = [*states, *(n for n, one in objects.items() if n in read.nodes and _is_position(one))]
    first = [n for n in differ or [] if n not in left and n != ENTRY and (n in objects or n in _KEPT)]
    why = ""
    if left:
        why += f"; not put back, as each process had its own: {', '.join(left)}"
    if first:
        why += f"; rank 0's, of several that differed: {', '.join(first)}"
    if why:
        why = f"step {read.step} was saved by {saved['count']} processes, and {read.size} resume it{why}"
    return set(left), why


_KEPT = ("model", "optimizer", "extra")
