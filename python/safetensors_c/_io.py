# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What saving and loading have in common in all frameworks.

A framework's module brings a `Frame`: how one of its tensors becomes a TensorSpec, how it is cast and viewed. This
module knows element types, files, names, selections, digests and progress, and no framework: it may not import one.
"""

from __future__ import annotations

import errno
import io
import math
import os
from typing import Any, Generic, TypeVar

from . import _alias, _core

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
    from typing import BinaryIO, Union

    Path = Union[str, os.PathLike]

SafetensorError = _core.SafetensorError
TensorSpec = _core.TensorSpec
Tensor = TypeVar("Tensor")

NOT_CONTIGUOUS = (
    "You are trying to save a non contiguous tensor: `{}` which is not allowed. It either means you"
    " are trying to save tensors which are reference of each other in which case it's recommended to save"
    " only the full tensors, and reslice at load time, or simply call `.contiguous()` on your tensor to"
    " pack it before saving."
)

# Element types by the format's name: what frameworks call them, and bits of an element. The table is the library's.
NAMES = {code: name for code, name, _ in _core._dtypes if name is not None}
BITS = {code: bits for code, _, bits in _core._dtypes}


def types_of(framework: Any, codes: Iterable[str] = NAMES) -> tuple[dict[str, Any], dict[Any, int]]:
    """({format's name: type}, {type: bytes}) of the types that a framework has under their names. torch's type of F4
    holds two elements in its one byte."""
    found = {code: getattr(framework, NAMES[code]) for code in codes if hasattr(framework, NAMES[code])}
    return found, {dtype: max(BITS[code] // 8, 1) for code, dtype in found.items()}


def last_name(dtype: Any) -> str:
    """What follows the last dot of a type: "float32" of torch.float32 and paddle.float32."""
    return str(dtype).rpartition(".")[2]


class Frame(Generic[Tensor]):
    """One framework: how its tensors become TensorSpecs, are cast and shown; and the functions that all have.

    module: the names of the framework's module. The functions look up there what the reference's look up in theirs
    (safe_open, serialize_file ...), because programs replace these names.
    """

    name = ""  # what safe_open calls it

    def __init__(self, module: dict[str, Any]) -> None:
        self.module = module

    def __reduce__(self) -> str:
        return "_FRAME"  # so that its functions can be pickled

    def specs(self, tensors: Any, keep: list, *, force_contiguous: bool = False) -> dict[str, Any]:
        """TensorSpecs of all tensors, after the checks; `keep` holds what their addresses point into."""
        raise NotImplementedError

    def one(self, name: str, tensor: Any, keep: list) -> Any:
        """The TensorSpec of one tensor, made contiguous where it is not."""
        return self.specs({name: tensor}, keep, force_contiguous=True)[name]

    def plan_entry(self, like: Any) -> tuple[str, list[int]]:
        """(dtype name, shape) of anything with .dtype and .shape, or of that pair."""
        dtype, shape = like if isinstance(like, tuple) else (like.dtype, like.shape)
        return last_name(dtype), list(shape)

    def cast(self, tensor: Any, dtype: Any, *, only_floating: bool) -> Any:
        """The tensor as `dtype` (the framework's own or a name); with only_floating others stay as they are."""
        raise NotImplementedError

    def alias(self, base: Any, view: _alias.View) -> Any:
        """`view` of the loaded tensor `base`."""
        raise NotImplementedError

    def save_stream(
        self,
        plan: Mapping[str, Any],
        produce: Callable[[str], Tensor],
        filename: Path | BinaryIO,
        metadata: dict[str, str] | None = None,
        *,
        digests: str | None = None,
        progress: Callable[[int, int], Any] | None = None,
    ) -> None:
        """Saves tensors that are made one at a time, with the memory of one.

        plan: for each name anything with .dtype and .shape (a tensor on torch's meta device, jax.ShapeDtypeStruct,
        tf.TensorSpec) or a tuple (dtype, shape). produce(name): called once for each name, in the order of the file;
        its tensor is written and released. digests, progress: as for save_file.
        Raises ValueError when a tensor is not what was planned, and what save_file raises. On any error no file is left.
        """
        save_stream(self, filename, plan, produce, metadata, digests, progress)

    def load_file(
        self,
        filename: Any,
        *,
        backend: str = "mmap",
        select: Any = None,
        rename: Any = None,
        dtype: Any = None,
        verify: bool = False,
        aliases: bool = True,
        with_metadata: bool = False,
        progress: Callable[[int, int], Any] | None = None,
        names: Any = None,
        reverse: bool = False,
        config: Any = None,
    ) -> Any:
        """Tensors of a file: {name: tensor}, in the order of the file.

        filename: a path; the bytes of a file; an object with read(). backend: "mmap" (private copy-on-write memory
        over the file; nothing is read until it is used) or "pread" (memory of its own, read now). select: a glob
        ("layers.0.*"), names, or a predicate. rename: a mapping or a function of the stored name. dtype: cast
        floating-point tensors to it; a mapping casts the (stored) names that it holds. verify: compare the recorded
        digests, before loading or, with backend="pread", while reading. aliases: show the views that
        save_file(shared="alias") recorded. with_metadata: return (tensors, metadata or None). progress(done, total):
        bytes. names, reverse, config: the tensors get the names of another framework, fused, split and stacked as
        distributed.renamed() does; config: by default config.json beside the file. select, rename and dtype see these
        names, and what verify compares are the file's.
        Raises OSError, and SafetensorError for a file that is not valid, a name that it lacks, or, with verify, a digest
        that differs or is not recorded.
        """
        how = {"framework": self.name, "backend": backend}
        other = None if names is None else (names, reverse, config)
        return _load(
            self, filename, how, select, rename, dtype, verify, aliases, with_metadata, progress, other
        )

    def load_into(
        self,
        tensors: Mapping[str, Tensor],
        filename: Any,
        *,
        strict: bool = True,
        rename: Any = None,
        verify: bool = False,
        progress: Callable[[int, int], Any] | None = None,
    ) -> tuple[list[str], list[str]]:
        """Reads a file straight into tensors that exist; returns (missing, unexpected) names.

        A contiguous tensor of the file's type in the CPU's memory is filled by one read without another copy; others
        by assignment, which casts. strict: KeyError before anything is read when names differ. rename: of the stored
        names, as in load_file.
        Raises ValueError when a shape differs or memory is read-only, and what load_file raises.
        """
        new_name = renamer(rename) if rename is not None else None
        with _core.safe_open(readable(filename), framework=self.name, device="cpu", backend="pread") as f:
            if verify:
                f.verify()
            stored = {new_name(n) if new_name else n: n for n in f.offset_keys()}
            missing = [n for n in tensors if n not in stored]
            unexpected = [n for n in stored if n not in tensors]
            if strict and (missing or unexpected):
                raise KeyError(f"missing in the file: {missing}, unexpected in it: {unexpected}")
            direct, others = self._plan_reads(f, tensors, stored)
            if direct:
                f.load_into(direct, progress=progress)
            for name, tensor in others.items():
                self.assign(tensor, f.get_tensor(name))
        return missing, unexpected

    def _plan_reads(
        self, f: Any, tensors: Mapping[str, Tensor], stored: Mapping[str, str]
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """{stored name: tensor}, all checked: those whose memory takes the bytes as they are, and the others."""
        direct: dict[str, Any] = {}
        others: dict[str, Any] = {}
        blocks = blocks_of(f.metadata())
        for new, name in stored.items():
            if new not in tensors:
                continue
            tensor, meta = self.memory_of(new, tensors[new]), f.get_tensor_meta(name)
            if self.shape_of(meta) != list(tensor.shape):
                raise ValueError(
                    f"Key `{new}` has the shape {list(tensor.shape)}, the file has {list(meta.shape)}"
                )
            if name in blocks and meta.dtype == "U8" and last_name(tensor.dtype) != "uint8":
                refuse_blocks(name)
            (direct if self.takes_bytes(tensor, meta.dtype) else others)[name] = tensor
        return direct, others

    def memory_of(self, name: str, tensor: Any) -> Any:
        """What can be written to; ValueError where nothing can."""
        return tensor

    def shape_of(self, meta: _core.TensorMeta) -> list[int]:
        """The framework's shape of a stored tensor."""
        return list(meta.shape)

    def assign(self, tensor: Any, value: Any) -> None:
        """The elements of a loaded tensor into one that exists."""
        tensor[...] = value

    def takes_bytes(self, tensor: Any, code: str) -> bool:
        """Whether the bytes of a stored tensor of type `code` are, as they lie, those of `tensor`."""
        raise NotImplementedError


class DeviceFrame(Frame[Tensor]):
    """A framework whose load_file takes a device."""

    def load_file(
        self,
        filename: Any,
        device: Any = "cpu",
        *,
        backend: str = "mmap",
        select: Any = None,
        rename: Any = None,
        dtype: Any = None,
        verify: bool = False,
        aliases: bool = True,
        with_metadata: bool = False,
        progress: Callable[[int, int], Any] | None = None,
        names: Any = None,
        reverse: bool = False,
        config: Any = None,
    ) -> Any:
        how = {"framework": self.name, "device": device, "backend": backend}
        other = None if names is None else (names, reverse, config)
        return _load(
            self, filename, how, select, rename, dtype, verify, aliases, with_metadata, progress, other
        )

    load_file.__doc__ = Frame.load_file.__doc__


# ---------------------------------------------------------------- saving


def flush(path: Path) -> None:
    """Waits until a file, or the names in a directory, are on the disk. Windows opens no directories, and keeps names itself."""
    if os.name == "nt":
        return
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def is_stream(target: Any) -> bool:
    return not isinstance(target, (str, bytes, os.PathLike)) and hasattr(target, "write")


def given(**keywords: Any) -> dict[str, Any]:
    """The keywords that are not None: a function that a program put in place of ours may not know the others."""
    return {name: value for name, value in keywords.items() if value is not None}


def write(
    specs: Mapping[str, Any],
    target: Any,
    metadata: Mapping[str, str] | None,
    digests: str | None,
    progress: Callable[[int, int], Any] | None,
    serialize_file: Callable[..., Any],
) -> None:
    """All tensors to a path (all or nothing) or to a file object with write(). serialize_file: the
    name in the framework's module; a program's own one knows only the reference's parameters."""
    if not is_stream(target):
        serialize_file(specs, target, metadata=metadata, **given(digests=digests, progress=progress))
    elif digests is not None:  # part of the header, which comes before the tensors
        _write_all(target, _core.serialize(specs, metadata, digests=digests, progress=progress))
    else:
        _stream(specs, target, metadata, lambda name: (specs[name], None), progress)


def save_stream(
    frame: Frame,
    target: Any,
    plan: Mapping[str, Any],
    produce: Callable[[str], Any],
    metadata: Mapping[str, str] | None,
    digests: str | None,
    progress: Callable[[int, int], Any] | None,
) -> None:
    """Tensors made one at a time by produce(name), in file order; each is released once written."""
    entries = {name: _planned(*frame.plan_entry(like)) for name, like in plan.items()}

    def one(name: str) -> tuple[Any, list]:
        keep: list = []
        spec = frame.one(name, produce(name), keep)
        wanted = entries[name]
        if spec.dtype != wanted.dtype or list(spec.shape) != list(wanted.shape):
            raise ValueError(
                f"Key `{name}` was planned as {wanted.dtype} {list(wanted.shape)}"
                f" but {spec.dtype} {list(spec.shape)} was produced"
            )
        return spec, keep

    if is_stream(target):
        if digests is not None:
            raise ValueError(
                "digests are written before the tensors: a stream of produced tensors cannot have them"
            )
        _stream(entries, target, metadata, one, progress)
        return
    with _core.Writer(target, entries, metadata, digests=digests) as writer:
        for name, spec in _each(writer, one, progress):
            writer.put(name, spec)
        writer.finish()


def _each(
    writer: _core.Writer,
    one: Callable[[str], tuple[Any, Any]],
    progress: Callable[[int, int], Any] | None,
) -> Iterator[tuple[str, Any]]:
    """(name, TensorSpec) of each tensor in file order. one(name): (TensorSpec, the object that owns its memory, which is
    released before the next one is made)."""
    total, done = writer.data_bytes, 0
    if progress is not None:
        progress(0, total)
    for name in writer.order:
        held = one(name)
        yield name, held[0]
        done += held[0].data_len
        del held
        if progress is not None:
            progress(done, total)


def _planned(dtype: str, shape: list[int]) -> Any:
    """The TensorSpec of a tensor that does not exist yet."""
    code = TensorSpec(dtype=dtype, shape=shape, data_ptr=0, data_len=0)
    bits = BITS[code.dtype] * math.prod(code.shape)
    return TensorSpec(dtype=dtype, shape=shape, data_ptr=0, data_len=bits // 8)


def _stream(
    entries: Mapping[str, Any],
    target: Any,
    metadata: Mapping[str, str] | None,
    one: Callable[[str], tuple[Any, Any]],
    progress: Callable[[int, int], Any] | None,
) -> None:
    """Header, then tensor by tensor, through target.write(). one: as for _each."""
    import ctypes
    import tempfile

    with tempfile.TemporaryFile() as scratch:
        with _core.Writer(scratch.fileno(), entries, metadata) as writer:
            pass
        scratch.seek(0)
        _write_all(target, scratch.read())
    for _, spec in _each(writer, one, progress):
        if spec.data_len:
            _write_all(target, (ctypes.c_ubyte * spec.data_len).from_address(spec.data_ptr))


def _write_all(target: Any, data: Any) -> None:
    """write() of an unbuffered file may write less than it was given."""
    view = memoryview(data).cast("B")
    while len(view):
        count = target.write(view[: 1 << 30])
        given = min(len(view), 1 << 30)
        if count is None and not isinstance(target, io.RawIOBase):
            count = given  # a file object of somebody's own that returns nothing
        elif count is None:
            raise BlockingIOError(errno.EAGAIN, "the file would block: not all was written")
        elif not 0 < count <= given:
            raise OSError(
                f"write() of {type(target).__name__} returned {count!r}, not a number from 1 to {given}"
            )
        view = view[count:]


# ---------------------------------------------------------------- loading


def chooser(select: Any) -> Callable[[Iterable[str]], list[str]] | None:
    """select= as a function over all names: a glob, a predicate, or the names wanted."""
    if select is None:
        return None
    if isinstance(select, str):
        pattern = select
        return lambda names: _core._glob(pattern, names)
    if callable(select):
        return lambda names: [n for n in names if select(n)]
    wanted = list(select)

    def exact(names: Iterable[str]) -> list[str]:
        present = set(names)
        for name in wanted:
            if name not in present:
                raise SafetensorError(f"File does not contain tensor {name}")
        return list(dict.fromkeys(wanted))

    exact.wanted = wanted  # type: ignore[attr-defined]
    return exact


def renamer(rename: Any) -> Callable[[str], str]:
    """rename= as a function: it is one, or a mapping that leaves other names as they are."""
    if callable(rename):
        return rename
    if not hasattr(rename, "get"):
        raise TypeError(f"rename: a function or a mapping, not {type(rename).__name__}")
    return lambda name: rename.get(name, name)


def rename_keys(tensors: dict[str, Any], rename: Any) -> dict[str, Any]:
    new_name = renamer(rename)
    out: dict[str, Any] = {}
    for name, tensor in tensors.items():
        new = new_name(name)
        if not isinstance(new, str):
            raise TypeError(f"rename of `{name}` gave {type(new)}, expected str")
        if new in out:
            raise ValueError(f"rename gives the name `{new}` to two tensors")
        out[new] = tensor
    return out


def blocks_of(metadata: Mapping[str, str] | None) -> Collection[str]:
    """Names of tensors that are blocks of a quantised type, according to the metadata (gguf.tensors)."""
    text = metadata.get("gguf.tensors") if metadata else None
    if text is None:
        return ()
    import json  # pylint: disable=import-outside-toplevel

    try:
        table = json.loads(text)
    except (ValueError, RecursionError):
        return ()  # not our table
    return table if isinstance(table, dict) else ()


def refuse_blocks(name: str) -> None:
    """A cast of a quantised type's blocks would be meaningless."""
    raise SafetensorError(
        f"`{name}` is blocks of a quantised type, not numbers that could be cast: "
        "dequantize=True of open_any or convert makes numbers of those of a GGUF file"
    )


def cast_all(frame: Frame, tensors: dict[str, Any], dtype: Any, blocks: Collection[str] = ()) -> None:
    """In place in the dict. A mapping casts the names it holds; a dtype casts what is floating-point."""
    if hasattr(dtype, "items"):
        for name, wanted in dtype.items():
            if name in tensors:
                made = frame.cast(tensors[name], wanted, only_floating=False)
                if name in blocks and made.dtype != tensors[name].dtype:
                    refuse_blocks(name)
                tensors[name] = made
        return
    for name, tensor in tensors.items():
        tensors[name] = frame.cast(tensor, dtype, only_floating=True)


def readable(source: Any) -> Any:
    """A path or the bytes of a file; the contents of an object with read()."""
    if not isinstance(source, (str, bytes, os.PathLike)) and hasattr(source, "read"):
        data = source.read()
        if not isinstance(data, str):
            return memoryview(data)
    return source


def _load(
    frame: Frame,
    source: Any,
    how: dict[str, Any],
    select: Any,
    rename: Any,
    dtype: Any,
    verify: bool,
    aliases: bool,
    with_metadata: bool,
    progress: Callable[[int, int], Any] | None,
    other: tuple[Any, bool, Any] | None = None,
) -> Any:
    """Everything behind load_file. other: names, reverse, config."""
    choose = chooser(select)
    if other is not None:
        tensors, metadata = _load_renamed(frame, source, how, choose, verify, progress, other)
        return _finish(frame, tensors, metadata, rename, dtype, with_metadata)
    with frame.module["safe_open"](readable(source), **how) as f:
        if not isinstance(f, _core.safe_open) and not (choose or verify or with_metadata or progress):
            tensors, metadata = f.get_tensors(), None  # a program's own safe_open may have nothing else
        else:
            metadata = f.metadata()
            links = _alias.parse(metadata) if aliases and metadata else None
            if verify and how["backend"] == "pread" and choose is None and links is None and progress is None:
                tensors = f.get_tensors(verify=True)  # compared while it is read
            else:
                if verify:
                    f.verify()
                tensors = _load_open(frame, f, choose, links, progress, aliases)
    return _finish(frame, tensors, metadata, rename, dtype, with_metadata)


def _load_renamed(
    frame: Frame, source: Any, how: dict[str, Any], choose: Any, verify: bool, progress: Any, other: Any
) -> tuple[dict[str, Any], Any]:
    """(tensors under their other names, metadata)"""
    from .distributed import config_beside, renamed

    names, reverse, config = other
    with _core.safe_open(readable(source), **how) as f:
        if verify:
            f.verify()
        beside = config_beside(source) if config is None else config
        with renamed(f, names, reverse=reverse, config=beside) as g:
            return _load_open(frame, g, choose, None, progress, False), g.metadata()


def _finish(
    frame: Frame, tensors: dict[str, Any], metadata: Any, rename: Any, dtype: Any, with_metadata: bool
) -> Any:
    if dtype is not None:
        cast_all(frame, tensors, dtype, blocks_of(metadata))
    if rename is not None:
        tensors = rename_keys(tensors, rename)
    return (tensors, metadata) if with_metadata else tensors


def _load_open(frame: Frame, f: Any, choose: Any, links: Any, progress: Any, aliases: bool) -> dict[str, Any]:
    if choose is None and links is None and progress is None:
        return f.get_tensors()
    stored = f.offset_keys()
    names = list(stored) if links is None else _alias.visible(stored, links)
    if choose is not None:
        if aliases and isinstance(
            f, _core.safe_open
        ):  # further names recorded in the metadata ("alias": "tensor")
            names += [n for n in getattr(choose, "wanted", ()) if n not in names and n in f]
        names = choose(names)
    needed = dict.fromkeys(links[n].of if links and n in links else n for n in names)
    loaded: dict[str, Any] = {}
    sizes = {n: _size(f, n) for n in needed} if progress is not None else {}
    total, done = sum(sizes.values()), 0
    if progress is not None:
        progress(0, total)
    for name in needed:
        loaded[name] = f.get_tensor(name)
        if progress is not None:
            done += sizes[name]
            progress(done, total)
    if links is None:
        return loaded
    return {n: frame.alias(loaded[links[n].of], links[n]) if n in links else loaded[n] for n in names}


def _size(f: Any, name: str) -> int:
    begin, end = f.get_tensor_meta(name).data_offsets
    return end - begin
