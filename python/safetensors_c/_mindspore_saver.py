# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Saver: the checkpoints of a MindSpore job of any number of processes, and going on from them. docs/mindspore.md is the guide."""

from __future__ import annotations

import json
import os
import re
import threading
import warnings
import zlib
from collections.abc import Mapping
from operator import index
from typing import NamedTuple

import mindspore as ms
import numpy as np
from mindspore import ops
from mindspore.communication import GlobalComm, get_group_size, get_rank
from mindspore.train import Callback

from . import _core, _mindspore_steps, distributed
from . import mindspore as _ours
from ._core import SafetensorError, safe_open
from ._mindspore_steps import Step

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .distributed import Layout, Names, Path

# What MindSpore's own saves have beside parameters.
_STATE = ("epoch_num", "step_num", "global_step", "loss_scale", "global_batch_size")
_SUFFIX = ".safetensors"
_ZEROS = 1 << 20
_MOST = 10**18 - 1


class Resumed(NamedTuple):
    """Where training goes on: after step `step` of epoch `epoch`; 0 and 0 where nothing was saved yet."""

    epoch: int
    step: int
    extra: dict[str, Any]  # what append_info saved: numbers as Python has them, tensors as they are


def _error(status: str, sentence: str) -> SafetensorError:
    error = SafetensorError(sentence)
    error.status = status
    return error


def _world() -> tuple[int, int]:
    """(rank, number of processes)"""
    if GlobalComm.INITED:
        return get_rank(), get_group_size()
    for name in ("MS_WORKER_NUM", "RANK_SIZE"):
        if int(os.environ.get(name) or 1) > 1:
            raise RuntimeError(
                f"{name} says {os.environ[name]} processes: call mindspore.communication.init() before"
            )
    return 0, 1


def _gather(mine: bytes) -> list[bytes]:
    """What all processes give, in the order of their ranks. An AllGather of 32-bit integers is what every backend has."""
    gather = ops.AllGather()
    sizes = gather(ms.Tensor(np.array([len(mine)], np.int32))).asnumpy().tolist()
    width = -(-max(sizes) // 4) * 4
    words = np.frombuffer(mine.ljust(width, b"\0"), np.int32)
    got = gather(ms.Tensor(words.copy())).asnumpy().tobytes()
    return [got[i * width : i * width + size] for i, size in enumerate(sizes)]


def _parameters(network: Any) -> dict[str, Any]:
    """By name, of a Cell, a dict, or several of them: as MindSpore saves them."""
    if isinstance(network, ms.nn.Cell):
        found = [(p.name, p) for _, p in network.parameters_and_names()]
    elif isinstance(network, Mapping):
        found = list(network.items())
    elif isinstance(network, (list, tuple)):
        found = [(p.name, p) for p in network if isinstance(p, ms.Parameter)]
        for part in network:
            if not isinstance(part, ms.Parameter):
                found += _parameters(part).items()
    else:
        raise TypeError(f"a Cell, a dict or a list of them is wanted, not {type(network).__name__}")
    out: dict[str, Any] = {}
    for name, parameter in found:
        if not isinstance(parameter, ms.Tensor):
            raise TypeError(
                f"`{name}` is {type(parameter).__name__}, not a Tensor or a Parameter: give it in append_info"
            )
        info = getattr(parameter, "param_info", None)
        if info is not None and info.is_pipeline_shared_param:
            continue  # the stage that owns it saves it
        if out.setdefault(name, parameter) is not parameter:
            raise ValueError(f"two parameters are called `{name}`")
    return out


def _appended(values: Mapping[str, Any]) -> dict[str, Any]:
    """append_info as tensors, of the types that MindSpore makes of them."""
    out = {}
    for name, value in values.items():
        if isinstance(value, ms.Generator):
            value = value.get_state()
        if not isinstance(value, (ms.Tensor, bool, int, float)):
            raise TypeError(
                f"append_info: `{name}` is {type(value).__name__}; an int, float, bool, Tensor, Parameter or Generator is wanted"
            )
        out[name] = value if isinstance(value, ms.Tensor) else ms.Tensor(value)
    return out


def _append_info(given: Any) -> dict[str, Any]:
    """CheckpointConfig's list: "epoch_num", "step_num" and a dict; or the dict alone."""
    out: dict[str, Any] = {}
    for element in [given] if isinstance(given, Mapping) else given or []:
        if isinstance(element, Mapping):
            out.update(element)
        elif element in ("epoch_num", "step_num"):
            out[element] = 0
        else:
            raise ValueError(f'append_info: "epoch_num", "step_num" or a dict is wanted, not {element!r}')
    _appended(out)
    return out


def _crc_num(arrays: Mapping[str, np.ndarray]) -> str:
    """MindSpore's checksum of a file, over names and bytes in the order of the names (train/serialization.py, crc_check): of an
    integer without dimensions the bytes are so many zeros as it says. ValueError for a negative one, which MindSpore cannot
    save or load so."""
    crc = 0
    for name in sorted(arrays):
        array = np.asarray(arrays[name])
        crc = zlib.crc32(name.encode(), crc)
        if array.ndim == 0 and array.dtype.kind in "iu":
            left = int(array)
            if left < 0:
                raise ValueError(
                    f"crc_check: MindSpore cannot check `{name}`, which is {left}: give it a dimension"
                )
            for at in range(0, left, _ZEROS):
                crc = zlib.crc32(bytes(min(_ZEROS, left - at)), crc)
        elif array.size:
            crc = zlib.crc32(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data, crc)
    return str(crc)


class _Write:
    """One step's file of this process, being written; an error is kept until it is asked for."""

    def __init__(self, step: Step, total: int, work: Callable[[], None], behind: bool) -> None:
        self.step, self.total = step, total
        self._work = work
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="safetensors-saver") if behind else None
        if self._thread is not None:
            self._thread.start()
        else:
            self._run()

    def _run(self) -> None:
        try:
            self._work()
        except BaseException as error:
            self._error = error

    def error(self) -> BaseException | None:
        if self._thread is not None:
            self._thread.join()
        return self._error


class Saver(Callback):
    """Saves a MindSpore job's steps as MindFormers lays them out, each process its own tensors, and goes on from them.

        saver = Saver("output/checkpoint", "qwen2", save_checkpoint_steps=100, keep_checkpoint_max=3, async_save=True)
        point = saver.resume(model.train_network)  # or [net, optimizer]
        model.train(epochs, data, callbacks=[saver], initial_epoch=point.epoch)

    A callback of Model.train, or, in a loop of one's own, saver.save([net, optimizer], epoch, step). Of several processes (msrun;
    mindspore.communication.init() was called) all make it, resume and save together, with the same arguments, on a file system
    that all see. On the disk, under MindFormers' names: rank_R/PREFIX_rank_R-EPOCH_STEP.safetensors with digests, rank_R/meta.json, and
    layout.json where there are several ranks: what MindSpore, distributed.open_checkpoint and the tool read.

    directory: made if it is not there. prefix, save_checkpoint_steps, keep_checkpoint_max, keep_checkpoint_per_n_minutes,
        saved_network, append_info, crc_check, remove_redundancy: as CheckpointConfig and ModelCheckpoint have them. A step is removed
        only when a newer one is on the disk, whole, of all ranks: for a moment there is one more. crc_check records MindSpore's
        crc_num. append_info: texts are refused, since MindSpore cannot read them back.
    integrated_save: what is sharded is also written as one model, by rank 0: integrated/PREFIX-EPOCH_STEP.safetensors.
    async_save: True or "thread": save returns when the tensors are copied; an error comes with the next call, at the latest
        with close or at the end of Model.train.
    layout: how parameters are sharded: a strategy file, a directory of them, a layout as JSON or a mapping (docs/layout.md);
        "replicated": every rank has all of everything. None: "replicated" if the job's parallel_mode is data_parallel.
    durable: a file is on the disk before meta.json names it.
    One training at a time: from resume, or the first save, to close, the end of Model.train or of the process, each rank's directory is
        locked (rank_R/.saver.lock); SafetensorError, SFT_E_STATE, where another Saver, of this or of another process, has it.
    Raises ValueError for arguments that contradict each other, RuntimeError before communication.init().
    Threads: one call at a time. After an error in one process all raise.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        prefix: str = "CKP",
        *,
        save_checkpoint_steps: int = 1,
        keep_checkpoint_max: int = 5,
        keep_checkpoint_per_n_minutes: int = 0,
        integrated_save: bool = False,
        async_save: bool | str = False,
        saved_network: ms.nn.Cell | None = None,
        append_info: Any = None,
        crc_check: bool = False,
        remove_redundancy: bool = False,
        layout: Layout | None = None,
        durable: bool = True,
    ) -> None:
        super().__init__()
        if not prefix or "/" in prefix or os.sep in prefix or "_rank_" in prefix or prefix[0] in ".-":
            raise ValueError(
                f"prefix {prefix!r}: a name without / and _rank_ that begins with neither . nor -"
            )
        if async_save not in (False, True, "thread"):
            raise ValueError(
                f'async_save={async_save!r}: True or "thread" is wanted (a process is not needed: writing holds no lock)'
            )
        keep_max, minutes = index(keep_checkpoint_max or 0), index(keep_checkpoint_per_n_minutes or 0)
        if min(index(save_checkpoint_steps) - 1, keep_max, minutes) < 0:
            raise ValueError("save_checkpoint_steps is at least 1, what is kept at least 0")
        self.directory = os.path.abspath(os.fspath(directory))
        self.prefix = prefix
        self.rank, self.ranks = _world()
        self._every = save_checkpoint_steps
        self._keep_max, self._per_minutes = keep_max, minutes
        self._integrated, self._behind = integrated_save, bool(async_save)
        self._network, self._append = saved_network, _append_info(append_info)
        self._crc, self._remove, self._durable = crc_check, remove_redundancy, durable
        self._layout: dict[str, Any] | None = None  # None: replicated
        self._take_layout(layout)
        self._begun = self._resumed = False
        self._lock: _mindspore_steps.Lock | None = None
        self._seen = Step(0, 0)  # rank 0: the newest step of the directory that this saver knows of
        self._at = Step(0, 0)  # the newest step that was saved, or gone on from
        self._after = Step(0, 0)  # the step that training went on from
        # steps of the whole training: done; saved; before this Model.train
        self._total = self._saved = self._base = 0
        self._pending: _Write | None = None

    def _take_layout(self, layout: Layout | None) -> None:
        if layout is None and self.ranks > 1:
            mode = ms.get_auto_parallel_context("parallel_mode")
            if mode != "data_parallel":
                raise ValueError(
                    f"{self.ranks} processes, and parallel_mode is {mode}: say by layout= how parameters are sharded; "
                    '"replicated" if every process has all of everything'
                )
        elif layout is not None and layout != "replicated":
            self._layout, ranks = distributed._read_layout(layout)
            if ranks != self.ranks:
                raise ValueError(f"the layout is of {ranks} ranks, the job has {self.ranks}")
        if self._remove and self.ranks == 1:
            raise ValueError("remove_redundancy: one process has no replicas")

    # ------------------------------------------------------------ all processes

    def _together(self, work: Callable[[], Any]) -> list[Any]:
        """What `work` gives in each process, by rank. An error of one is raised in all."""
        mine, error = None, None
        try:
            mine = work()
        except Exception as e:
            error = e
        if self.ranks == 1:
            if error is not None:
                raise error
            return [mine]
        told = {"is": mine} if error is None else {"error": f"{type(error).__name__}: {error}"}
        everyone = [json.loads(text) for text in _gather(json.dumps(told).encode())]
        if error is not None:
            raise error
        for rank, one in enumerate(everyone):
            if "error" in one:
                raise _error("SFT_E_IO", f"rank {rank}: {one['error']}")
        return [one["is"] for one in everyone]

    def _of_first(self, work: Callable[[], Any]) -> Any:
        """What `work` gives in rank 0."""
        return self._together(lambda: work() if self.rank == 0 else None)[0]

    def _hold(self, make: bool) -> None:
        """This process's directory is this saver's alone; without `make` one that is not there, or cannot be written, is nobody's."""
        if self._lock is not None:
            return
        place = _mindspore_steps.rank_directory(self.directory, self.rank)
        if make:
            os.makedirs(place, exist_ok=True)
        try:
            self._lock = _mindspore_steps.Lock(place)
        except _mindspore_steps.Locked as e:
            raise _error("SFT_E_STATE", str(e)) from None
        except OSError:
            if make:
                raise

    def _let_go(self) -> None:
        lock, self._lock = self._lock, None
        self._resumed, self._begun = self._resumed or self._begun, False
        if lock is not None:
            lock.release()

    # ------------------------------------------------------------ saving

    def save(self, network: Any, epoch: int, step: int, *, append: Mapping[str, Any] | None = None) -> None:
        """Saves step `step` (from 1) of epoch `epoch`.

        network: a Cell, a dict of tensors, or a list of them, with the optimizer. append: values beside append_info.
        Raises FileExistsError for a directory that holds steps and was not resumed from, or steps of another training since; ValueError for a step that is not newer;
        the errors of the save before, if it was asynchronous; SafetensorError in the processes where nothing failed.
        Cost: one copy of the tensors if asynchronous, else the writing of this process's tensors.
        """
        self.wait()
        at = Step(index(epoch), index(step))
        if epoch < 0 or step < 1 or max(at) > _MOST:
            raise ValueError(
                f"epoch {epoch}, step {step}: steps are counted from 1, and have 18 digits at most"
            )
        if at <= self._at:
            raise ValueError(f"step {at} is not newer than {self._at}")
        if not self._begun:
            try:
                self._together(lambda: self._hold(True))
                self._begin(network)
            except BaseException:
                self._let_go()
                raise
        values = dict(self._append)
        for name, count in (("epoch_num", at.epoch), ("step_num", self._total)):
            if name in values:
                values[name] = count
        if self._total == 0:  # a loop of the program's own, which alone knows it
            values.pop("step_num", None)
        values.update(append or {})
        try:
            work = self._prepared(at, _parameters(network), values)
        except Exception as e:  # the others must learn of it
            work = _raising(e)
        self._pending = _Write(at, self._total, work, self._behind)
        if not self._behind:
            self.wait()

    def _prepared(self, at: Step, tensors: dict[str, Any], values: dict[str, Any]) -> Callable[[], None]:
        """Copies what may change; what is left to do."""
        if not tensors:
            raise ValueError("a network without parameters: the step would hold nothing")
        kept = set(tensors)
        if self._remove:
            layout = self._layout or _mindspore_steps.replicated(tensors, self.ranks)
            kept = _mindspore_steps.kept_by(layout, self.rank, tensors)
        both = sorted(set(tensors) & set(values))
        if both:
            raise ValueError(f"append_info: `{both[0]}` is a parameter's name")
        given = {**{n: t for n, t in tensors.items() if n in kept}, **_appended(values)}
        arrays = {name: _ours._to_np(tensor) for name, tensor in given.items()}
        if self._behind:
            arrays = {name: array.copy() for name, array in arrays.items()}
        metadata = {
            "format": "ms",
            "remove_redundancy": str(self._remove),
            "saver.append_info": json.dumps(sorted(values)),
            "saver.place": f"rank_{self.rank}-{at}",
            "saver.steps": str(self._total),
        }
        before = self._at
        return lambda: self._write(at, arrays, metadata, before)

    def _write(self, at: Step, arrays: dict[str, np.ndarray], metadata: dict[str, str], before: Step) -> None:
        if self._crc:
            metadata["crc_num"] = _crc_num(arrays)
        place = _mindspore_steps.rank_directory(self.directory, self.rank)
        name = _mindspore_steps.file_name(self.prefix, self.rank, at)
        keep: list[Any] = []
        specs = _ours.numpy._flatten(arrays, keep)
        _core.serialize_file(
            specs, os.path.join(place, name), metadata, digests="crc32c", durable=self._durable
        )
        _mindspore_steps.write_meta(place, at, name, self._durable, before)

    def wait(self) -> None:
        """Returns when the last save is on the disk, of all processes, and steps that need not stay are removed. Raises what
        happened behind."""
        pending, self._pending = self._pending, None
        if pending is None:
            return

        def done() -> None:
            error = pending.error()
            if error is not None:
                raise error

        try:
            self._together(done)
            stay = [Step(*pair) for pair in self._of_first(lambda: self._finish(pending.step))]
        except BaseException:
            self._set_aside()  # a step that one process could not write is none
            raise
        first = self._at == Step(0, 0)
        self._at, self._saved = pending.step, pending.total
        if first:  # each later one says that the one before was whole; nobody would of this one
            self._together(self._tell_at)
        self._together(lambda: self._prune(set(stay)))

    def close(self) -> None:
        """wait(), and other trainings may save there. A later save begins as the first did."""
        try:
            self.wait()
        finally:
            self._let_go()

    def _finish(self, at: Step) -> list[Step]:
        """Rank 0: the step is whole; what stays."""
        if self.ranks > 1:
            with distributed.open_checkpoint(self.directory, step=str(at)) as whole:  # nothing is missing
                if self._integrated and self._layout is not None:
                    self._integrate(at, whole)
        place = _mindspore_steps.rank_directory(self.directory, 0)
        times = {
            step: os.path.getmtime(paths[0])
            for step, paths in _mindspore_steps.files_in(place).items()
            if step <= at
        }
        return _mindspore_steps.kept_steps(times, self._keep_max, self._per_minutes)

    def _integrate(self, at: Step, whole: safe_open) -> None:
        place = os.path.join(self.directory, "integrated")
        os.makedirs(place, exist_ok=True)
        shapes = {name: whole.get_tensor_meta(name) for name in whole.keys()}  # noqa: SIM118
        _ours.numpy.save_stream(
            {name: (_ours.numpy._getdtype(meta.dtype), meta.shape) for name, meta in shapes.items()},
            whole.get_tensor,
            os.path.join(place, f"{self.prefix}-{at}{_SUFFIX}"),
            whole.metadata(),
            digests="crc32c",
        )

    def _tell_at(self) -> None:
        """This process's meta.json: the newest step, which is whole."""
        place = _mindspore_steps.rank_directory(self.directory, self.rank)
        name = _mindspore_steps.file_name(self.prefix, self.rank, self._at)
        _mindspore_steps.write_meta(place, self._at, name, self._durable, self._at)

    def _prune(self, stay: set[Step]) -> None:
        place = _mindspore_steps.rank_directory(self.directory, self.rank)
        places = [(place, f"{self.prefix}_rank_{self.rank}-")]
        if self.rank == 0 and self._integrated:
            places.append((os.path.join(self.directory, "integrated"), f"{self.prefix}-"))
        for place, begin in places:
            if not os.path.isdir(place):
                continue
            for step, paths in _mindspore_steps.files_in(place).items():
                own = os.path.join(place, f"{begin}{step}{_SUFFIX}")
                if step < max(stay) and step not in stay and own in paths:
                    os.unlink(own)
            for name in os.listdir(place):
                if name.startswith(begin) and name.endswith(_SUFFIX + _mindspore_steps.ASIDE):
                    os.unlink(os.path.join(place, name))

    # ------------------------------------------------------------ the first save

    def _begin(self, network: Any) -> None:
        """The directory is this job's: its layout, no other steps."""
        everyone = self._together(lambda: sorted(_parameters(network)))
        layout = self._layout
        if layout is None:
            if any(names != everyone[0] for names in everyone):
                raise _error(
                    "SFT_E_MISMATCH",
                    'the processes save other tensors, which is not "replicated": give layout=',
                )
            layout = _mindspore_steps.replicated(everyone[0], self.ranks)
        text = json.dumps(layout, ensure_ascii=False, indent=1) + "\n"
        told = [self.directory, self.prefix, zlib.crc32(text.encode()), self._remove, list(self._at)]
        for rank, other in enumerate(self._together(lambda: told)):
            if other != told:
                raise _error("SFT_E_MISMATCH", f"rank {rank} has other arguments: {other}, not {told}")
        self._of_first(lambda: self._check_directory(layout))
        self._together(self._set_aside)  # before any process writes: no step is ever of two trainings
        if self.ranks > 1:
            path = os.path.join(self.directory, "layout.json")
            self._of_first(lambda: _mindspore_steps.write_text(path, text, self._durable))
        self._begun = True

    def _check_directory(self, layout: dict[str, Any]) -> None:
        there = _mindspore_steps.Steps(self.directory)
        newest = max(there.files, default=Step(0, 0))
        if self._resumed and newest > max(self._seen, self._at):
            raise FileExistsError(
                f"{self.directory} holds step {newest} of another training, which was not there at resume(): resume() again"
            )
        if there.files and not self._resumed:
            raise FileExistsError(
                f"{self.directory} holds steps, the newest {max(there.files)}: resume() from it, or save to another directory"
            )
        for step, ranks in there.files.items():
            for rank, paths in ranks.items():
                if os.path.basename(paths[0]) != _mindspore_steps.file_name(self.prefix, rank, step):
                    raise FileExistsError(
                        f"{paths[0]} is not of prefix {self.prefix}: save to another directory"
                    )
        beside = os.path.join(self.directory, "layout.json")
        if there.files and self.ranks > 1:
            old = distributed.read_layout(beside) if os.path.exists(beside) else None
            if old != distributed.read_layout(layout):
                raise FileExistsError(
                    f"{self.directory} holds steps of another layout: save to another directory, and resume(source=) from this one"
                )
        elif there.files and there.ranks != [0]:
            raise FileExistsError(
                f"{self.directory} holds steps of {len(there.ranks)} ranks: save to another directory"
            )

    def _set_aside(self) -> None:
        """What is newer than where training went on from is of a training that was not finished: a name that nobody reads."""
        place = _mindspore_steps.rank_directory(self.directory, self.rank)
        os.makedirs(place, exist_ok=True)
        told = _mindspore_steps.read_meta(place)
        if told is not None and told > self._at:  # first: it names no file that is gone
            name = _mindspore_steps.file_name(self.prefix, self.rank, self._at)
            if os.path.exists(os.path.join(place, name)):
                self._tell_at()
            else:
                os.unlink(os.path.join(place, "meta.json"))
        for step, paths in _mindspore_steps.files_in(place).items():
            for path in paths if step > self._at else []:
                os.replace(path, path + _mindspore_steps.ASIDE)

    # ------------------------------------------------------------ going on

    def resume(
        self,
        network: Any,
        *,
        source: Path | None = None,
        layout: Layout | None = None,
        step: str | None = None,
        names: Names | None = None,
        strict: bool = True,
    ) -> Resumed:
        """Puts the newest complete step into a network and its optimizer, and says where training goes on.

        network: as for save, made as for a new training (Model.build or one step makes Model.train_network). source: the directory
        of another job, of any strategy, ours or MindSpore's, that of one device included; None: this saver's. layout: how the
        source is sharded, where it does not say; what this job's ranks hold is cut by the saver's own. step: "3_2"; None: the
        newest that all ranks have, whose digests (or crc_num) are right; of each newer one a UserWarning says why it was
        passed over. names: as for distributed.renamed. strict: parameters that are missing or too many are an error.
        Returns (0, 0, {}) where no step was ever written to its end. Raises SafetensorError where steps were, and none can be
        read; where a parameter has another type or shape, before any of this process's has changed.
        Cost: every file of the step is read once, by one of the processes; each process reads its own tensors.
        """
        wanted = _parameters(network)
        where = self.directory if source is None else os.path.abspath(os.fspath(source))
        if where == self.directory:
            try:
                self._together(lambda: self._hold(False))
            except BaseException:
                if not self._begun:
                    self._let_go()
                raise
        steps, told = self._of_first(lambda: self._candidates(where, layout, step))
        for sentence in told:
            warnings.warn(sentence, stacklevel=2)
        why = ""
        for pair in steps:
            at = Step(*pair)
            found: list[Any] = []
            verdicts = self._together(lambda: self._look(found, where, at, layout, names))
            bad = [(rank, verdict) for rank, verdict in enumerate(verdicts) if verdict is not None]
            if not bad:
                return self._take(at, wanted, found[0], found[1], strict, source is None)
            why = f"step {at} of {where} is passed over: {bad[0][1]}" + (
                f" (process {bad[0][0]} says so)" if self.ranks > 1 else ""
            )
            if step is None:
                warnings.warn(why, stacklevel=2)
        if steps:
            raise _error("SFT_E_STATE", f"no step of {where} can be resumed from: {why}")
        self._resumed = self._resumed or source is None
        return Resumed(0, 0, {})

    def _candidates(
        self, where: str, layout: Layout | None, step: str | None
    ) -> tuple[list[Step], list[str]]:
        """Rank 0: steps that were written to their end, newest first, and what to say of the others."""
        there = _mindspore_steps.Steps(where)
        if where == self.directory:
            self._seen = max(there.files, default=Step(0, 0))
        wanted = None if step is None else _mindspore_steps.step_of(step)
        if not os.path.isdir(where) and (wanted is not None or where != self.directory):
            raise _error("SFT_E_NOT_FOUND", f"{where} is not there")
        if not there.files and there.others:
            raise _error(
                "SFT_E_NOT_FOUND", f"{where} holds no steps of a training job, but {there.others[0]}"
            )
        if wanted is not None and wanted not in there.files:
            raise _error(
                "SFT_E_NOT_FOUND", f"{where} has no step {wanted}: {', '.join(map(str, sorted(there.files)))}"
            )
        ranks = self._ranks_of(where, layout, len(there.ranks) or 1)
        for at, files in there.files.items():
            twice = [paths for paths in files.values() if len(paths) > 1]
            if twice and wanted in (None, at):
                raise _error(
                    "SFT_E_MISMATCH", f"{where} holds steps of two trainings: {twice[0][0]} and {twice[0][1]}"
                )
        good, told = [], []
        newest = max(there.told.values(), default=Step(0, 0))
        if there.files and wanted is None and newest > max(there.files):
            told.append(
                f"step {newest} of {where} is passed over: a meta.json names it, and no file is there"
            )
        for at in there.newest_first() if wanted is None else [wanted]:
            why = there.why_not(at, ranks)
            if why is None:
                good.append(at)
            elif wanted is not None:
                raise _error("SFT_E_STATE", f"step {at} of {where} is not whole: {why}")
            else:
                told.append(f"step {at} of {where} is passed over: {why}")
        lost = None if good else there.lost(ranks)
        if lost is not None:
            raise _error(
                "SFT_E_STATE",
                f"no step of {where} can be resumed from, and it was no new training: {'; '.join([lost, *told[:2]])}",
            )
        return good, told

    @staticmethod
    def _ranks_of(where: str, layout: Layout | None, found: int) -> int:
        beside = os.path.join(where, "layout.json")
        if layout is None and os.path.isfile(beside):
            layout = beside
        if layout is None or (isinstance(layout, str) and "=" in layout and not os.path.exists(layout)):
            return found  # numbers alone: the ranks that are there
        return distributed._read_layout(layout)[1]

    def _look(
        self, found: list[Any], where: str, at: Step, layout: Layout | None, names: Names | None
    ) -> str | None:
        """Why a step cannot be resumed from; None: what this process needs of it is in `found`."""
        paths = _mindspore_steps.Steps(where).paths(at)
        try:
            for path in paths[self.rank :: self.ranks]:
                try:
                    _verify(path)
                except (SafetensorError, OSError) as e:
                    return f"{os.path.relpath(path, where)}: {e}"
            with distributed.open_checkpoint(where, "ms", layout=layout, step=str(at), names=names) as whole:
                found.append(whole.metadata() or {})
                gone = _beside(found[0]) - set(whole.keys())
                if gone and names is None:
                    return f"its metadata are damaged: saver.append_info names `{min(gone)}`, which it does not have"
                if self._layout is None:
                    found.append(whole.get_tensors(owned=True))
                else:
                    with distributed.open_part(whole, self._layout, self.rank) as part:
                        found.append(part.get_tensors(owned=True))
        except (SafetensorError, OSError) as e:
            return f"{type(e).__name__}: {e}"
        return None

    def _take(
        self,
        at: Step,
        wanted: dict[str, Any],
        metadata: dict[str, str],
        tensors: dict[str, Any],
        strict: bool,
        own: bool,
    ) -> Resumed:
        beside = _beside(metadata) | set(_STATE)
        extra = {name: tensors.pop(name) for name in sorted(beside & set(tensors) - set(wanted))}

        def put() -> None:
            _ours._put(wanted, tensors, strict)

        self._together(put)
        values = {n: t.asnumpy().item() if not t.shape else t for n, t in extra.items()}
        self._at = at if own else Step(0, 0)
        self._after = at
        self._resumed = self._resumed or own
        total = metadata.get("saver.steps") or str(values.get("step_num") or 0)
        self._total = self._saved = self._base = int(total) if total.isdigit() else 0
        return Resumed(at.epoch, at.step, values)

    # ------------------------------------------------------------ Model.train

    def on_train_begin(self, run_context: Any) -> None:
        self._base = self._total

    def on_train_step_end(self, run_context: Any) -> None:
        self._look_at(run_context.original_args(), False)

    def on_train_end(self, run_context: Any) -> None:
        self._look_at(run_context.original_args(), True)
        self.close()

    def _look_at(self, now: Any, last: bool) -> None:
        self._total = self._base + now.cur_step_num
        saved = self._saved if self._pending is None else self._pending.total
        if self._total > saved and (last or self._total - saved >= self._every):
            step = (now.cur_step_num - 1) % now.batch_num + 1
            if now.cur_epoch_num == self._after.epoch:
                step += self._after.step  # training went on in this epoch, with the data that were left
            network = self._network if self._network is not None else now.train_network
            self.save(network, now.cur_epoch_num, step)

    def __enter__(self) -> Saver:
        return self

    def __exit__(self, *error: object) -> None:
        if error[0] is None:
            self.close()
            return
        if self._pending is not None:  # the others may be gone: this process's own file alone
            behind = self._pending.error()
            if behind is not None:
                warnings.warn(f"step {self._pending.step} was not saved: {behind}", stacklevel=2)
        self._let_go()


def _raising(error: BaseException) -> Callable[[], None]:
    def work() -> None:
        raise error

    return work


def _beside(metadata: Mapping[str, str]) -> set[str]:
    """The names of append_info in a step's metadata, of which no digest tells whether they are right."""
    try:
        names = json.loads(metadata.get("saver.append_info", "null" if "saver.steps" in metadata else "[]"))
    except (ValueError, RecursionError):
        names = None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise _error("SFT_E_SCHEMA", "its metadata are damaged: saver.append_info is no list of names")
    return set(names)


# A file of the saver: whose it is, and of which step.
_PLACE = re.compile(r"rank_\d+-\d+_\d+$")


def _verify(path: str) -> None:
    """It is the file that its name says, and its digests, or MindSpore's crc_num, are right, if it has any."""
    if not path.endswith(_SUFFIX):
        _core.open_any(path, "np", checksums=True).close()
        return
    with safe_open(path, "np") as f:
        metadata = f.metadata() or {}
        told = metadata.get("crc_num")
        place, own = metadata.get("saver.place"), _PLACE.search(os.path.basename(path)[: -len(_SUFFIX)])
        if place is not None and own is not None and own[0] != place:
            raise _error("SFT_E_MISMATCH", f"it was written as {place}, and lies under another name")
        try:
            f.verify()
        except SafetensorError as e:
            if e.status != "SFT_E_NOT_FOUND":
                raise
            if told is not None and _crc_num(f.get_tensors()) != told:
                raise _error("SFT_E_MISMATCH", f"{path} is damaged: its crc_num is another") from None
