# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What saving and loading have in common in all frameworks.

A framework module brings a `Frame`: how one of its tensors becomes a TensorSpec, how it is cast and moved.
This module knows files, names, selections, digests and progress, and no framework. It may not import one.
"""

from __future__ import annotations

import os
from fnmatch import fnmatchcase

from . import _alias, _core

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping
    from typing import Any

SafetensorError = _core.SafetensorError
TensorSpec = _core.TensorSpec


class Frame:
    """One framework, as this module needs it."""

    name = ""  # what safe_open calls it

    def specs(self, tensors: Any, keep: list, *, force_contiguous: bool = False) -> dict[str, Any]:
        """TensorSpecs of all tensors, after the checks; `keep` holds what their addresses point into."""
        raise NotImplementedError

    def one(self, name: str, tensor: Any, keep: list) -> Any:
        """The TensorSpec of one tensor, made contiguous where it is not."""
        raise NotImplementedError

    def plan_entry(self, like: Any) -> tuple[str, list[int]]:
        """(dtype name, shape) of anything with .dtype and .shape."""
        raise NotImplementedError

    def cast(self, tensor: Any, dtype: Any, *, only_floating: bool) -> Any:
        raise NotImplementedError

    def from_bytes(self, data: Any, device: Any) -> dict[str, Any]:
        raise NotImplementedError

    def alias(self, base: Any, view: Any) -> Any:
        """`view` (an _alias.View) of the loaded tensor `base`; None where the framework has no views."""
        return None


# ---------------------------------------------------------------- saving


def is_stream(target: Any) -> bool:
    return not isinstance(target, (str, bytes, os.PathLike)) and hasattr(target, "write")


def given(**keywords: Any) -> dict[str, Any]:
    """Those that are not None: functions that a program has put in the place of ours know no others."""
    return {name: value for name, value in keywords.items() if value is not None}


def write(
    specs: Mapping[str, Any],
    target: Any,
    metadata: Mapping[str, str] | None,
    digests: str | None,
    progress: Callable[[int, int], Any] | None,
    serialize_file: Callable[..., Any],
) -> None:
    """All tensors to a path (all or nothing) or to a file object with write(). serialize_file: what the
    framework's module calls so; a program's own one knows the reference's parameters alone."""
    if not is_stream(target):
        serialize_file(specs, target, metadata=metadata, **given(digests=digests, progress=progress))
    elif digests is not None:  # they stand in the header, before the tensors
        _write_all(target, _core.serialize(specs, metadata, digests=digests, progress=progress))
    else:
        _stream(specs, target, metadata, specs.__getitem__, progress)


def save_stream(
    frame: Frame,
    target: Any,
    plan: Mapping[str, Any],
    produce: Callable[[str], Any],
    metadata: Mapping[str, str] | None,
    digests: str | None,
    progress: Callable[[int, int], Any] | None,
) -> None:
    """Tensors made one at a time by produce(name), in file order; each is let go once written."""
    entries = {name: _planned(*frame.plan_entry(like)) for name, like in plan.items()}

    def one(name: str) -> Any:
        keep: list = []
        spec = frame.one(name, produce(name), keep)
        wanted = entries[name]
        if spec.dtype != wanted.dtype or list(spec.shape) != list(wanted.shape):
            raise ValueError(
                f"Key `{name}` was planned as {wanted.dtype} {list(wanted.shape)}"
                f" but {spec.dtype} {list(spec.shape)} was produced"
            )
        return _Held(spec, keep)

    if is_stream(target):
        if digests is not None:
            raise ValueError("digests stand in front of the tensors: a stream of produced ones has none")
        _stream(entries, target, metadata, one, progress)
        return
    with _core.Writer(target, entries, metadata, digests=digests) as writer:
        total, done = writer.data_bytes, 0
        if progress is not None:
            progress(0, total)
        for name in writer.order:
            held = one(name)
            writer.put(name, held.spec)
            done += held.spec.data_len
            del held
            if progress is not None:
                progress(done, total)
        writer.finish()


class _Held:
    """A TensorSpec and what its address points into."""

    __slots__ = ("spec", "keep")

    def __init__(self, spec: Any, keep: list) -> None:
        self.spec = spec
        self.keep = keep


def _planned(dtype: str, shape: list[int]) -> Any:
    """The TensorSpec of a tensor that is not there yet."""
    code = TensorSpec(dtype=dtype, shape=shape, data_ptr=0, data_len=0)
    bits = int("".join(c for c in code.dtype.partition("_")[0] if c.isdigit()) or "8")
    for n in code.shape:
        bits *= n
    return TensorSpec(dtype=dtype, shape=shape, data_ptr=0, data_len=bits // 8)


def _stream(
    entries: Mapping[str, Any],
    target: Any,
    metadata: Mapping[str, str] | None,
    one: Callable[[str], Any],
    progress: Callable[[int, int], Any] | None,
) -> None:
    """Header, then tensor by tensor, through target.write(). one(name): a TensorSpec, or one that is held."""
    import ctypes
    import tempfile

    with tempfile.TemporaryFile() as scratch:
        with _core.Writer(scratch.fileno(), entries, metadata) as writer:
            order, total = writer.order, writer.data_bytes
        scratch.seek(0)
        _write_all(target, scratch.read())
    done = 0
    if progress is not None:
        progress(0, total)
    for name in order:
        held = one(name)
        spec = held.spec if isinstance(held, _Held) else held
        if spec.data_len:
            _write_all(target, (ctypes.c_ubyte * spec.data_len).from_address(spec.data_ptr))
        done += spec.data_len
        del held, spec
        if progress is not None:
            progress(done, total)


def _write_all(target: Any, data: Any) -> None:
    """write() of raw files may take less than it is given."""
    view = memoryview(data).cast("B")
    while len(view):
        count = target.write(view[: 1 << 30])
        if count is None:  # a file object that does not say; or one that would block
            count = min(len(view), 1 << 30)
        view = view[count:]


# ---------------------------------------------------------------- loading


def chooser(select: Any) -> Callable[[Iterable[str]], list[str]] | None:
    """select= as a function over all names: a glob, a predicate, or the names wanted."""
    if select is None:
        return None
    if isinstance(select, str):
        pattern = select
        return lambda names: [n for n in names if fnmatchcase(n, pattern)]
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
    """rename= as a function: one already, or a mapping that leaves other names alone."""
    if callable(rename):
        return rename
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
    """Names of tensors that the metadata (gguf.tensors) call blocks of a quantised type."""
    text = metadata.get("gguf.tensors") if metadata else None
    if text is None:
        return ()
    import json  # pylint: disable=import-outside-toplevel

    try:
        table = json.loads(text)
    except (ValueError, RecursionError):
        return ()  # some other text
    return table if isinstance(table, dict) else ()


def refuse_blocks(name: str) -> None:
    """Bytes of blocks are no numbers that a cast could keep."""
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


def open_source(frame: Frame, source: Any, device: Any, backend: str) -> Any:
    return _core.safe_open(readable(source), framework=frame.name, device=device, backend=backend)


def opener(safe_open: Any, source: Any, **how: Any) -> Callable[[], Any]:
    """How load_file opens its file: with what the framework's module calls safe_open, and the reference's
    arguments, because programs replace that."""
    return lambda: safe_open(readable(source), **how)


def load(
    frame: Frame,
    opened: Callable[[], Any],
    backend: str,
    select: Any,
    rename: Any,
    dtype: Any,
    verify: bool,
    aliases: bool,
    with_metadata: bool,
    progress: Callable[[int, int], Any] | None,
) -> Any:
    """Everything behind load_file."""
    choose = chooser(select)
    with opened() as f:
        if not isinstance(f, _core.safe_open) and not (choose or verify or with_metadata or progress):
            tensors, metadata = f.get_tensors(), None  # all that a program's own needs to have
        else:
            metadata = f.metadata()
            links = _alias.parse(metadata) if aliases and metadata else None
            if verify and backend == "pread" and choose is None and links is None and progress is None:
                tensors = f.get_tensors(verify=True)  # compared on the way into memory
            else:
                if verify:
                    f.verify()
                tensors = _load_open(frame, f, choose, links, progress, aliases)
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
        ):  # other names that the metadata record ("alias": "tensor")
            names += [n for n in getattr(choose, "wanted", ()) if n not in names and n in f]
        names = choose(names)
    needed = dict.fromkeys(links[n].of if links and n in links else n for n in names)
    loaded: dict[str, Any] = {}
    if progress is None:
        for name in needed:
            loaded[name] = f.get_tensor(name)
    else:
        sizes = {n: _size(f, n) for n in needed}
        total, done = sum(sizes.values()), 0
        progress(0, total)
        for name in needed:
            loaded[name] = f.get_tensor(name)
            done += sizes[name]
            progress(done, total)
    if links is None:
        return loaded
    out = {}
    for name in names:
        if name in links:
            view = links[name]
            made = frame.alias(loaded[view.of], view)
            if made is not None:
                out[name] = made
        else:
            out[name] = loaded[name]
    return out


def _size(f: Any, name: str) -> int:
    begin, end = f.get_tensor_meta(name).data_offsets
    return end - begin
