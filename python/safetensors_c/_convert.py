# SPDX-License-Identifier: Apache-2.0 OR MIT
"""convert: weight files of other formats to safetensors, and safetensors to some of them.

libsafetensors-import does the work; no file is ever executed. This module turns selections, names and types into the
answers that the library asks for, tensor by tensor.
"""

from __future__ import annotations

import os
import re
import warnings
from contextlib import contextmanager
from typing import TypedDict

from . import _core
from ._io import renamer
from .distributed import _rules, config_beside
from .distributed import _text as _text_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from typing import Any

    from .distributed import Names

_ENDINGS = {".npz": "npz", ".gguf": "gguf", ".pt": "pt", ".pth": "pt", ".ckpt": "ckpt"}
# Extensions of formats that are never written: safetensors under such a name only on request.
_OTHERS = frozenset(
    ".bin .pt2 .ptl .distcp .pkl .pickle .joblib .npy .h5 .hdf5 .keras .onnx .msgpack .pdparams .pdopt .pdiparams .pdmodel"
    " .arrow .feather .parquet .tflite .pb .mlmodel .mlpackage .ggml .eqx .engine .tar .zip".split()
)
_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_UNITS |= {"KI": 2**10, "MI": 2**20, "GI": 2**30, "TI": 2**40}


class PlannedTensor(TypedDict):
    name: str
    dtype: str
    shape: list[int]
    nbytes: int
    from_name: str
    from_dtype: str
    file: int


class ConvertReport(TypedDict):
    format: str  # of the last input: "torch-zip", "npz", ...
    tensors: int
    aliases: int  # further names of tensors, recorded in the metadata
    left_out: int  # by select and drop, and of left_out_parts
    cast: int
    gathered: int  # tensors whose elements were not stored in order
    data_bytes: int
    file_bytes: int
    unused_bytes: int  # of the inputs, in no tensor
    files: int
    verified: int
    left_out_parts: list[
        tuple[str, str]
    ]  # tensors and objects of the inputs that were not converted: (what, why)
    notes: list[tuple[str, str]]
    plan: list[PlannedTensor] | None  # with plan=True


def convert(
    inputs: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    output: str | os.PathLike[str],
    *,
    to: str | None = None,
    key: str | None = None,
    dedup: str = "hf",
    select: str | Callable[[str], bool] | Iterable[str] | None = None,
    drop: str | Callable[[str], bool] | Iterable[str] | None = None,
    rename: Callable[[str], str] | Mapping[str, str] | None = None,
    dtype: Any = None,
    names: Names | None = None,
    reverse: bool = False,
    config: str | os.PathLike[str] | Mapping[str, Any] | None = None,
    metadata: Mapping[str, str] | None = None,
    max_shard_size: int | str | None = None,
    tree: bool = False,
    allow_opaque: bool = False,
    no_crc: bool = False,
    dequantize: bool = False,
    follow_links: bool = False,
    view_as: Mapping[str, Any] | None = None,
    verify: bool = False,
    plan: bool = False,
    replace: bool = False,
    durable: bool = False,
    progress: Callable[[int, int], Any] | None = None,
) -> ConvertReport:
    """Converts files of any known format to safetensors, or one input to "npz", "gguf", "pt" or "ckpt".

    to: the output's format; None: by the output's extension. names, reverse, config: other names for the tensors of each
        input, fused and split as distributed.renamed() does it; config: by default config.json in the first input or beside
        it. select, drop, rename and dtype see these names. docs/python.md describes the other keywords.
    UserWarning for a name in select, drop, rename or dtype that matches no tensor, and of what may be a mistake in names. Raises ValueError for arguments that
    do not fit together, OSError, and SafetensorError for an input that is not valid or cannot be represented.
    """
    single = isinstance(inputs, (str, os.PathLike))
    if hasattr(inputs, "get_tensor"):  # iterating over one gives names of tensors
        raise TypeError(f"inputs: paths, not {type(inputs).__name__}")
    paths = [_text(p) for p in ([inputs] if single else list(inputs))]  # type: ignore[list-item,arg-type]
    target = _text(output)
    if to is None:
        to = _format_of(target)
    shard = _size(max_shard_size)
    if not paths:
        raise ValueError("inputs: none given")
    if to != "safetensors" and (len(paths) != 1 or shard):
        raise ValueError(f"one input becomes one {to} file, without shards")
    select, drop = (x if x is None or isinstance(x, str) or callable(x) else list(x) for x in (select, drop))
    choices = {"select": select, "drop": drop, "rename": rename, "dtype": dtype}
    told: list[str] = []
    naming = (
        None
        if names is None
        else _naming(names, reverse, config_beside(paths[0]) if config is None else config, told)
    )
    asked: set[str] | None = set() if any(x is not None for x in choices.values()) else None
    with _directory(target, not plan and to == "safetensors" and len(paths) == 1 and os.path.isdir(paths[0])):
        report: ConvertReport = _core._convert(
            paths,
            target,
            to,
            _chooser(asked, **choices),
            dict(metadata) if metadata is not None else None,
            shard,
            plan,
            replace,
            verify,
            durable,
            progress,
            naming,
            key=key,
            dedup=dedup,
            allow_opaque=allow_opaque,
            no_crc=no_crc,
            dequantize=dequantize,
            follow_links=follow_links,
            tree=tree,
            view_as=view_as,
        )
    for message in told + _unmet(asked or (), **choices):
        warnings.warn(message, stacklevel=2)
    return report


def _naming(
    names: Names, reverse: bool, config: Any, told: list[str]
) -> tuple[str, bool, str | None, list[str]]:
    return _rules(names), bool(reverse), None if config is None else _text_of(config), told


def _format_of(target: str) -> str:
    """The format that an output's extension means; ValueError for one that is never written."""
    ending = os.path.splitext(target)[1].lower()
    if ending in _OTHERS and not os.path.isdir(target):
        raise ValueError(
            f"{target!r}: {ending} cannot be written, only safetensors, .npz, .gguf, .pt, .pth and .ckpt; "
            'to="safetensors" writes safetensors under this name'
        )
    return _ENDINGS.get(ending, "safetensors")


@contextmanager
def _directory(target: str, wanted: bool) -> Iterator[None]:
    """Makes the output's directory if it is wanted and missing; removes it if the block fails and leaves it empty."""
    made = wanted and not os.path.exists(target)
    if made:
        os.mkdir(target)
    try:
        yield
    except BaseException:
        if made and not os.listdir(target):
            os.rmdir(target)
        raise


def _unmet(asked: Iterable[str], **choices: Any) -> list[str]:
    """A sentence for each name or pattern in select, drop, rename and dtype that matched no tensor."""
    messages = []
    for word, what in choices.items():
        if isinstance(what, str) and word in ("select", "drop"):
            wanted = [] if _core._glob(what, asked) else [what]
        elif isinstance(what, list) or hasattr(what, "items"):
            wanted = [name for name in what if name not in asked]
        else:
            continue
        messages += [f"{word}: {name!r} is no tensor of the input" for name in wanted]
    return messages


def _text(path: Any) -> str:
    text = os.fspath(path)
    if not isinstance(text, str):
        raise TypeError(f"a path must be str, not {type(text).__name__}")
    return text


def _size(value: int | str | None) -> int:
    """5000000000, "5GB", "512MiB"; 0 for None."""
    if value is None or isinstance(value, int):
        return value or 0
    if not isinstance(value, str):
        raise TypeError(f"max_shard_size: an int or a str, not {type(value).__name__}")
    found = re.fullmatch(r"\s*(\d+)\s*([KMGT]?I?)B?\s*", value.upper())
    if found is None or found[2] not in _UNITS:
        raise ValueError(
            f"max_shard_size {value!r}: a number of bytes, or one with KB, MB, GB, KiB, MiB, GiB"
        )
    return int(found[1]) * _UNITS[found[2]]


def _matcher(what: Any) -> Callable[[str], bool]:
    """A glob, a predicate, or names, as a predicate."""
    if isinstance(what, str):
        return lambda name: bool(_core._glob(what, (name,)))
    if callable(what):
        return what  # type: ignore[no-any-return]
    names = set(what)
    return lambda name: name in names


def _type_name(dtype: Any) -> str:
    """ "BF16", "bfloat16", torch.bfloat16, numpy.float16 and numpy.dtype("float16"), by name."""
    if isinstance(dtype, str):
        return dtype.upper() if _core_name.fullmatch(dtype) else dtype
    if isinstance(dtype, type):
        return dtype.__name__
    name = getattr(dtype, "name", None)
    return name if isinstance(name, str) else str(dtype).rpartition(".")[2]


_core_name = re.compile(r"(?i)(bool|[fuic]\d+|bf16)(_\w+)?")


def _chooser(
    asked: set[str] | None, select: Any, drop: Any, rename: Any, dtype: Any
) -> Callable[..., tuple[str, str | None] | None] | None:
    if asked is None:
        return None
    keep = _matcher(select) if select is not None else None
    leave = _matcher(drop) if drop is not None else None
    new_name = renamer(rename) if rename is not None else None
    by_name = {n: _type_name(d) for n, d in dtype.items()} if hasattr(dtype, "items") else None
    floats = _type_name(dtype) if dtype is not None and by_name is None else None

    def choose(
        name: str, stored: str, shape: tuple[int, ...], is_float: bool
    ) -> tuple[str, str | None] | None:
        asked.add(name)
        if (keep is not None and not keep(name)) or (leave is not None and leave(name)):
            return None
        wanted = by_name.get(name) if by_name is not None else floats if is_float else None
        return (new_name(name) if new_name is not None else name), wanted

    return choose
