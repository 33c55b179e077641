# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The steps of a MindSpore job on the disk, as MindFormers names them; who keeps which replica; which steps stay. No MindSpore.

DIR/layout.json                                  how tensors are sharded, of several ranks
DIR/rank_R/PREFIX_rank_R-EPOCH_STEP.safetensors  what rank R holds
DIR/rank_R/meta.json                             the newest step that rank R has written: {"last_epoch", "last_step", "last_ckpt_file"},
                                                 and the newest that all ranks were known to have: {"saver.whole": "EPOCH_STEP"}
DIR/rank_R/.saver.lock                           empty; locked by the process that saves there
"""

from __future__ import annotations

import errno
import gc
import json
import os
import re
import stat
import threading
import weakref
from typing import NamedTuple

from . import _io

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import Any

_RANK = re.compile(r"rank_(0|[1-9][0-9]{0,8})\Z")
_STEP = re.compile(r"-([0-9]{1,18})_([0-9]{1,18})\.(?:safetensors|ckpt)\Z")
ASIDE = ".passed-over"  # behind the names of files of steps newer than the one that a training went on from


class Step(NamedTuple):
    """Where a training was; the newest is the greatest."""

    epoch: int
    step: int  # within the epoch, from 1

    def __str__(self) -> str:
        return f"{self.epoch}_{self.step}"


def step_of(text: str) -> Step:
    """Of "3_2", "-3_2", or the name of a file that ends so."""
    found = _STEP.search("-" + text if text[:1].isdigit() else text) or _STEP.search(f"-{text}.safetensors")
    if found is None:
        raise ValueError(f"{text!r} is no step: EPOCH_STEP is wanted, as 3_2")
    return Step(int(found[1]), int(found[2]))


def file_name(prefix: str, rank: int, step: Step) -> str:
    return f"{prefix}_rank_{rank}-{step}.safetensors"


def rank_directory(directory: str, rank: int) -> str:
    return os.path.join(directory, f"rank_{rank}")


def ranks_in(directory: str) -> list[int]:
    """The numbers of the rank_N in a directory, which need not be there."""
    try:
        names = os.listdir(directory)
    except FileNotFoundError:
        return []
    found = (_RANK.match(name) for name in names if os.path.isdir(os.path.join(directory, name)))
    return sorted(int(m[1]) for m in found if m)


def files_in(directory: str) -> dict[Step, list[str]]:
    """The files of weights that end in a step, by their paths."""
    out: dict[Step, list[str]] = {}
    for name in sorted(os.listdir(directory)):
        found = _STEP.search(name)
        if found is not None and os.path.isfile(os.path.join(directory, name)):
            step = Step(int(found[1]), int(found[2]))
            out.setdefault(step, []).append(os.path.join(directory, name))
    return out


class Steps:
    """What a directory holds: of every step the files, by rank. A directory without rank_N is of one rank. `others`: what is
    there and no job leaves that was killed before its first step was done."""

    def __init__(self, directory: str) -> None:
        self.ranks = ranks_in(directory)
        places = {rank: rank_directory(directory, rank) for rank in self.ranks}
        if not places and os.path.isdir(directory):
            places = {0: directory}
        self.files: dict[Step, dict[int, list[str]]] = {}
        self.told: dict[int, Step] = {}
        self.whole: dict[int, Step] = {}
        own = {"layout.json", "integrated", *(f"rank_{rank}" for rank in self.ranks)}
        self.others = sorted(set(os.listdir(directory)) - own) if places else []
        for rank, place in places.items():
            weights = [
                os.path.join(f"rank_{rank}", n)
                for n in os.listdir(place)
                if n.endswith((".safetensors", ".ckpt"))
            ]
            self.others += weights if self.ranks else []
            for found, read in ((self.told, read_meta), (self.whole, read_whole)):
                step = read(place)
                if step is not None:
                    found[rank] = step
            for step, paths in files_in(place).items():
                self.files.setdefault(step, {})[rank] = paths

    def newest_first(self) -> list[Step]:
        return sorted(self.files, reverse=True)

    def paths(self, step: Step) -> list[str]:
        return sorted(path for paths in self.files[step].values() for path in paths)

    def why_not(self, step: Step, ranks: int) -> str | None:
        """Why a step was not written to its end by all of so many ranks; None: it was. A rank says so by its file, and
        by a meta.json that is not older; one that is missing or broken says nothing."""
        files = self.files[step]
        for rank in range(ranks):
            if rank not in files:
                return f"rank {rank} has no file of it"
            if len(files[rank]) > 1:
                return f"rank {rank} has {len(files[rank])} files of it: {os.path.basename(files[rank][0])} and others"
            if rank in self.told and self.told[rank] < step:
                return f"the meta.json of rank {rank} is of {self.told[rank]}: the rank was not done"
        more = sorted(rank for rank in files if rank >= ranks)
        if more:
            return f"there is a rank {more[0]}, and the layout is of {ranks}"
        return None

    def lost(self, ranks: int) -> str | None:
        """Where no step is whole: what says that one was written to its end by all of so many ranks. None: nothing does, a
        job that was killed in its first step leaves the like. Ranks' directories are made before the first file, and a
        step is begun when the one before is whole."""
        gone = next((rank for rank in range(ranks) if rank not in self.ranks), None)
        if self.files and self.ranks and gone is not None:
            return f"the directory rank_{gone} is gone"
        for rank, step in sorted(self.whole.items()):
            return f"the meta.json of rank {rank} says that {step} was whole"
        for rank, step in sorted(self.told.items()):
            if rank not in self.files.get(step, {}):
                return f"the meta.json of rank {rank} names {step}, and no file is there"
        if len(self.files) > 1:
            return f"{max(self.files)} was begun, and so {min(self.files)} was whole"
        return None


# ---------------------------------------------------------------- meta.json


def _told(directory: str) -> dict[str, Any]:
    """A rank's meta.json; nothing where it is not there, or is none."""
    try:
        with open(os.path.join(directory, "meta.json"), encoding="utf-8") as f:
            told = json.load(f)
    except (OSError, ValueError, RecursionError):
        return {}
    return told if isinstance(told, dict) else {}


def read_meta(directory: str) -> Step | None:
    """The step that a rank's meta.json names; None: it is not there, or says nothing."""
    told = _told(directory)
    try:
        return Step(int(told["last_epoch"]), int(told["last_step"]))
    except (ValueError, TypeError, KeyError, OverflowError):
        return None


def read_whole(directory: str) -> Step | None:
    """The newest step that all ranks had when this one wrote its meta.json; None: it does not say."""
    told = _told(directory).get("saver.whole")
    try:
        return step_of(told) if isinstance(told, str) else None
    except ValueError:
        return None


def write_meta(directory: str, step: Step, name: str, durable: bool, whole: Step | None = None) -> None:
    told = {"last_epoch": step.epoch, "last_step": step.step, "last_ckpt_file": name}
    if whole is not None and whole > Step(0, 0):
        told["saver.whole"] = str(whole)
    write_text(os.path.join(directory, "meta.json"), json.dumps(told), durable)


def _is_gone(process: int) -> bool:
    """No process of this machine has the number; where that cannot be asked, nobody says so."""
    if os.name != "posix" or process < 1:
        return False
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):  # another user's
        return False
    return False


def _remove_left(path: str) -> None:
    """What writers of this file left beside it that were killed: PATH.PROCESS.tmp, of processes that are gone."""
    directory, base = os.path.split(path)
    try:
        names = os.listdir(directory or ".")
    except OSError:
        return
    for name in names:
        number = name[len(base) + 1 : -len(".tmp")]
        if name == f"{base}.{number}.tmp" and number.isascii() and number.isdigit() and _is_gone(int(number)):
            left = os.path.join(directory, name)
            try:
                if stat.S_ISREG(os.lstat(left).st_mode):
                    os.unlink(left)
            except OSError:
                pass  # another process of the job was faster


def write_text(path: str, text: str, durable: bool) -> None:
    """A file that is there whole or not at all."""
    _remove_left(path)
    beside = f"{path}.{os.getpid()}.tmp"
    try:
        with open(beside, "w", encoding="utf-8") as f:
            f.write(text)
            f.flush()
            if durable:
                os.fsync(f.fileno())
        os.replace(beside, path)
    except BaseException:
        try:
            os.unlink(beside)
        except OSError:
            pass
        raise
    if durable:
        _io.flush(os.path.dirname(path))


# ---------------------------------------------------------------- one job at a time

LOCK = ".saver.lock"
_LOCKED: set[tuple[int, int, int]] = set()  # of this process, which its own locks do not stop
_LOCKED_LOCK = threading.Lock()


class Locked(Exception):
    """Somebody else saves there."""


class Lock:
    """One Saver's alone is a rank's directory, which is there: until release(), or the process ends, however it ends (a POSIX record
    lock, which children do not inherit). Where there are no such locks nothing is held. Raises Locked, OSError."""

    def __init__(self, directory: str) -> None:
        self._release: Callable[[], object] = lambda: None
        if fcntl is None:
            return
        path = os.path.join(directory, LOCK)
        with _LOCKED_LOCK:
            if self._is_ours(path):
                gc.collect()  # a Saver that nobody has any more
            if self._is_ours(path):  # before it is opened: closing it would end that lock
                raise Locked(f"another Saver of this process saves in {directory}: close() it")
            fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)
            try:
                fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as e:
                os.close(fd)
                if e.errno in (errno.EACCES, errno.EAGAIN):
                    raise Locked(f"another process saves in {directory}") from None
                return
            told = os.fstat(fd)
            key = os.getpid(), told.st_dev, told.st_ino
            _LOCKED.add(key)
            self._release = weakref.finalize(self, _unlock, fd, key)

    @staticmethod
    def _is_ours(path: str) -> bool:
        try:
            told = os.stat(path)
        except OSError:
            return False
        return (os.getpid(), told.st_dev, told.st_ino) in _LOCKED

    def release(self) -> None:
        self._release()


def _unlock(fd: int, key: tuple[int, int, int]) -> None:
    _LOCKED.discard(key)
    os.close(fd)


# ---------------------------------------------------------------- layouts


def replicated(names: Iterable[str], ranks: int) -> dict[str, Any]:
    """The layout of a data-parallel job: every rank holds all of every tensor."""
    return {
        "format": "safetensors-layout",
        "version": 1,
        "mesh": {"axes": {"dp": ranks}},
        "tensors": [{"name": name, "whole": True} for name in sorted(names)],
    }


def _axes(cut: Any) -> set[str]:
    """The axes that cut a dimension, of one entry of `cuts`."""
    if cut is None:
        return set()
    if isinstance(cut, str):
        return {cut}
    if isinstance(cut, list):
        return set().union(*map(_axes, cut))
    return {cut["axis"]} if "axis" in cut else _axes(cut["by"])


def _holders(entry: Mapping[str, Any], meshes: Mapping[str | None, Any], rank: int) -> list[int] | None:
    """The ranks that hold the same of an entry's tensor as `rank`; None: it says nothing of that rank, or not so simply."""
    mesh = meshes.get(entry.get("mesh"))
    if mesh is None or not ("whole" in entry or "cuts" in entry):
        return None
    axes = mesh["axes"]
    devices = 1
    for size in axes.values():
        devices *= size
    ranks = mesh.get("ranks") or [mesh.get("first_rank", 0) + d for d in range(devices)]
    if rank not in ranks:
        return None
    cut = set().union(*map(_axes, entry.get("cuts", [])))

    def coordinates(device: int) -> list[int]:
        out = []
        for axis, size in reversed(list(axes.items())):
            device, at = divmod(device, size)
            if axis in cut:
                out.append(at)
        return out

    mine = coordinates(ranks.index(rank))
    return sorted(r for d, r in enumerate(ranks) if coordinates(d) == mine)


def kept_by(layout: Mapping[str, Any], rank: int, names: Iterable[str]) -> set[str]:
    """Which of the tensors that it holds a rank keeps where replicas are removed: of the tensors that the same ranks hold, in
    the order of their names, the i-th stays with the rank i % (number of ranks), as MindSpore does. Tensors that no entry
    names, and those that are cut by an axis that replicates as well, stay with every rank."""
    meshes = {None: layout.get("mesh"), **layout.get("meshes", {})}
    entries: dict[str, list[Any]] = {}
    for entry in layout["tensors"]:
        if "name" in entry:
            entries.setdefault(entry["name"], []).append(entry)
    groups: dict[tuple[int, ...], list[str]] = {}
    kept = set(names)
    for name in sorted(entries):
        found = [h for h in (_holders(entry, meshes, rank) for entry in entries[name]) if h is not None]
        if len(found) == 1:
            groups.setdefault(tuple(found[0]), []).append(name)
    for holders, members in groups.items():
        kept -= {name for i, name in enumerate(members) if holders[i % len(holders)] != rank}
    return kept


# ---------------------------------------------------------------- which steps stay


def kept_steps(times: Mapping[Step, float], keep_max: int, per_minutes: int) -> list[Step]:
    """Of complete steps, with the seconds at which they were written, those that stay: the newest `keep_max`; or, with none
    given, one for each so many minutes, the first of them; the newest in any case. With neither all stay."""
    steps: Sequence[Step] = sorted(times)
    if keep_max > 0:
        return list(steps[-keep_max:])
    if per_minutes <= 0:
        return list(steps)
    kept: list[Step] = []
    for step in steps:
        if not kept or times[step] - times[kept[-1]] >= per_minutes * 60 or times[step] < times[kept[-1]]:
            kept.append(step)
    return kept if kept and kept[-1] == steps[-1] else [*kept, *steps[-1:]]
