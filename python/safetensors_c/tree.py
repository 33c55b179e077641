# SPDX-License-Identifier: Apache-2.0 OR MIT
"""save_tree and load_tree: nested dicts, lists, tuples and scalars around tensors, without pickle.

The tensors are ordinary tensors of the file, named by their path; the structure around them is JSON with tagged types in
the metadata key "sft.tree" (docs/tree.md describes it; `safetensors convert` writes it too). load_tree returns what
save_tree was given, types included; a value that cannot be represented is refused by name, never changed silently.
"""

from __future__ import annotations

import base64
import hashlib
import json
import sys
from collections import Counter, OrderedDict
from importlib import import_module

from ._core import SafetensorError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

KEY = "sft.tree"
DIGEST = "sft.tree.sha256"  # of its text, where digests were asked for
VERSION = 1
MAX_DEPTH = 200
TAG = "$"
_DICTS = {dict: "dict", OrderedDict: "odict", Counter: "counter"}
_CONTAINERS = (list, tuple, set, frozenset, *_DICTS)
_EXACT = 1 << 53  # integers below this are exact in any JSON reader
_INT_BITS = 13286  # an integer of so many bits has at most 4000 digits

_MODULES = {
    "pt": "torch",
    "torch": "torch",
    "pytorch": "torch",
    "np": "numpy",
    "numpy": "numpy",
    "jax": "flax",
    "flax": "flax",
    "tf": "tensorflow",
    "tensorflow": "tensorflow",
    "paddle": "paddle",
    "mlx": "mlx",
    "ms": "mindspore",
    "mindspore": "mindspore",
}


def _where(at: tuple[str, ...]) -> str:
    """The path to a value, for messages."""
    return ".".join(at) or "the top"


def _module(framework: str) -> Any:
    if framework not in _MODULES:
        raise SafetensorError(f"framework {framework} is invalid")
    return import_module("." + _MODULES[framework], __package__)


def _loaded(name: str, attribute: str) -> Any:
    """A class of a framework if the program imported it; nothing is imported here."""
    module = sys.modules.get(name)
    return getattr(module, attribute, None) if module is not None else None


def _tensor_kinds() -> list[tuple[str, type]]:
    kinds = (
        ("pt", "torch", "Tensor"),
        ("np", "numpy", "ndarray"),
        ("flax", "jax", "Array"),
        ("tf", "tensorflow", "Tensor"),
        ("tf", "tensorflow", "Variable"),
        ("paddle", "paddle", "Tensor"),
        ("mlx", "mlx.core", "array"),
        ("ms", "mindspore", "Tensor"),
    )
    found = ((frame, _loaded(module, cls)) for frame, module, cls in kinds)
    return [(frame, cls) for frame, cls in found if isinstance(cls, type)]


# ---------------------------------------------------------------- to JSON


class _Encoder:
    who = "save_tree"

    def __init__(self) -> None:
        self.kinds = _tensor_kinds()
        self.generic = _loaded("numpy", "generic")
        self.torch_dtype = _loaded("torch", "dtype")
        self.torch_size = _loaded("torch", "Size")
        self.torch_tensor = _loaded("torch", "Tensor")
        self.torch_parameter = _loaded("torch.nn", "Parameter")
        self.tensors: dict[str, Any] = {}
        self.names: dict[int, str] = {}  # id of a tensor seen before
        self.framework: str | None = None
        self.open: set[int] = set()  # ids of the containers above

    def value(self, x: Any, at: tuple[str, ...]) -> Any:
        kind = type(x)
        if x is None or kind is bool:
            return x
        if kind is str:
            return self.text(x, at)
        if kind is int:
            if x.bit_length() > _INT_BITS:
                raise ValueError(f"{self.who}: an integer of more than 4000 digits (at {_where(at)})")
            return x if -_EXACT < x < _EXACT else {TAG: "int", "v": str(x)}
        if kind is float:
            return {TAG: "float", "v": repr(x)}
        if kind is complex:
            return {TAG: "complex", "v": [repr(x.real), repr(x.imag)]}
        if kind is bytes:
            return {TAG: "bytes", "v": base64.b64encode(x).decode("ascii")}
        if kind in _CONTAINERS or kind is self.torch_size:
            return self.container(x, kind, at)
        for framework, cls in self.kinds:
            if isinstance(x, cls):
                if not self.is_plain(x, framework):  # what a subclass adds would be lost
                    raise TypeError(f"{self.who} cannot keep {kind} (at {_where(at)})")
                return self.tensor(x, framework, at)
        if self.generic is not None and isinstance(x, self.generic):
            return self.numpy_scalar(x, at)
        if self.torch_dtype is not None and kind is self.torch_dtype:
            return {TAG: "torch.dtype", "v": str(x).split(".")[-1]}
        raise TypeError(f"{self.who} cannot keep {kind} (at {_where(at)})")

    def is_plain(self, x: Any, framework: str) -> bool:
        if framework == "np":
            return type(x) in (sys.modules["numpy"].ndarray, sys.modules["numpy"].memmap)
        return framework != "pt" or type(x) in (self.torch_tensor, self.torch_parameter)

    def text(self, x: str, at: tuple[str, ...]) -> str:
        try:
            x.encode()
        except UnicodeEncodeError:
            what = f"{self.who}: a string has a lone surrogate (at {_where(at)})"
            raise ValueError(what.encode("utf-8", "backslashreplace").decode()) from None
        return x

    def container(self, x: Any, kind: type, at: tuple[str, ...]) -> Any:
        if id(x) in self.open:
            raise ValueError(f"{self.who}: the value at {_where(at)} contains itself")
        if len(at) >= MAX_DEPTH:
            raise ValueError(f"{self.who}: nested deeper than {MAX_DEPTH} (at {_where(at)})")
        self.open.add(id(x))
        try:
            return self.inner(x, kind, at)
        finally:
            self.open.discard(id(x))

    def inner(self, x: Any, kind: type, at: tuple[str, ...]) -> Any:
        if kind in _DICTS:
            if kind is dict and TAG not in x and all(type(k) is str for k in x):
                return {self.text(k, at): self.value(v, (*at, k)) for k, v in x.items()}
            pairs = []
            for k, v in x.items():
                if type(k) not in (str, int, bool, float, bytes, tuple, type(None), frozenset):
                    raise TypeError(f"{self.who} cannot keep a key of {type(k)} (at {_where(at)})")
                pairs.append([self.value(k, (*at, "key")), self.value(v, (*at, str(k)))])
            return {TAG: _DICTS[kind], "v": pairs}
        items = [self.value(v, (*at, str(i))) for i, v in enumerate(x)]
        if kind is list:
            return items
        if kind in (set, frozenset):
            items.sort(key=lambda item: json.dumps(item, sort_keys=True))
        name = "torch.Size" if kind is self.torch_size else kind.__name__
        return {TAG: name, "v": items}

    def numpy_scalar(self, x: Any, at: tuple[str, ...]) -> Any:
        name = x.dtype.name
        if x.dtype.kind in "biu":
            return {TAG: "numpy", "dtype": name, "v": str(int(x))}
        if name in ("float16", "float32", "float64"):
            return {TAG: "numpy", "dtype": name, "v": repr(float(x))}
        if name in ("complex64", "complex128"):
            z = complex(x)
            return {TAG: "numpy", "dtype": name, "v": [repr(z.real), repr(z.imag)]}
        raise TypeError(f"{self.who} cannot keep a NumPy scalar of {name} (at {_where(at)})")

    def tensor(self, x: Any, framework: str, at: tuple[str, ...]) -> Any:
        if self.framework is None:
            self.framework = framework
        elif self.framework != framework:
            raise TypeError(
                f"save_tree: tensors of two frameworks, {self.framework} and {framework} (at {_where(at)})"
            )
        name = self.names.get(id(x))
        if name is None:
            name = ".".join(at) or "tensor"
            base, n = name, 1
            while name in self.tensors or name == "__metadata__" or name.startswith("sft.storage."):
                n += 1
                name = f"{base}#{n}"
            self.tensors[name] = x
            self.names[id(x)] = name
        return {TAG: "tensor", "v": name}


def dump(tree: Any) -> tuple[str, dict[str, Any], str | None]:
    """(JSON text, {name: tensor}, framework of the tensors) of a tree."""
    encoder = _Encoder()
    value = encoder.value(tree, ())
    text = json.dumps({"version": VERSION, "tree": value}, ensure_ascii=False, separators=(",", ":"))
    return text, encoder.tensors, encoder.framework


# ---------------------------------------------------------------- from JSON


def _bad(what: str) -> SafetensorError:
    return SafetensorError(f"metadata {KEY}: {what}")


def _float(text: Any) -> float:
    if not isinstance(text, str):
        raise _bad("a number is not written as a string")
    try:
        return float(text)
    except ValueError:
        raise _bad(f"{text!r} is not a number") from None


def _complex(pair: Any) -> complex:
    if not isinstance(pair, list) or len(pair) != 2:
        raise _bad("a complex number is not a pair")
    return complex(_float(pair[0]), _float(pair[1]))


def _int(text: Any) -> int:
    if isinstance(text, str):
        digits = text[1:] if text.startswith("-") else text
        if len(digits) <= 4000 and digits.isascii() and digits.isdecimal():
            return int(text)
    raise _bad("an integer is not written in decimal")


class _Decoder:
    def __init__(self, get: Callable[[str], Any]) -> None:
        self.get = get

    def value(self, x: Any, depth: int = 0) -> Any:
        if depth > MAX_DEPTH:
            raise _bad(f"nested deeper than {MAX_DEPTH}")
        if isinstance(x, list):
            return [self.value(v, depth + 1) for v in x]
        if not isinstance(x, dict):
            if type(x) is float:
                raise _bad("a bare number with a fraction")
            return x
        if TAG not in x:
            return {k: self.value(v, depth + 1) for k, v in x.items()}
        return self.tagged(x[TAG], x.get("v"), x, depth)

    def tagged(self, tag: Any, v: Any, node: dict[str, Any], depth: int) -> Any:
        if tag == "tensor":
            if not isinstance(v, str):
                raise _bad("a tensor without a name")
            return self.get(v)
        if tag == "numpy":
            return _numpy_scalar(node.get("dtype"), v)
        if isinstance(tag, str) and tag in _SCALARS:
            return _SCALARS[tag](v)
        if not isinstance(v, list):
            raise _bad(f"{tag!r} without a list")
        for kind, name in _DICTS.items():
            if tag == name:
                return self.pairs(v, depth, kind)
        items = [self.value(item, depth + 1) for item in v]
        try:
            return _sequence(tag)(items)
        except TypeError as e:
            raise _bad(str(e)) from None

    def pairs(self, v: list, depth: int, kind: type) -> Any:
        out = kind()
        for pair in v:
            if not isinstance(pair, list) or len(pair) != 2:
                raise _bad("a dict entry is not a pair")
            key = self.value(pair[0], depth + 1)
            try:
                out[key] = self.value(pair[1], depth + 1)
            except TypeError as e:
                raise _bad(str(e)) from None
        return out


def _sequence(tag: Any) -> Callable[[list], Any]:
    if tag == "torch.Size":
        return import_module("torch").Size  # type: ignore[no-any-return]
    kinds: dict[str, Any] = {"tuple": tuple, "set": set, "frozenset": frozenset}
    if not isinstance(tag, str) or tag not in kinds:
        raise _bad(f"unknown tag {tag!r}")
    return kinds[tag]  # type: ignore[no-any-return]


def _bytes(v: Any) -> bytes:
    try:
        return base64.b64decode(v, validate=True)
    except (TypeError, ValueError):
        raise _bad("bytes that are no base64") from None


def _numpy_scalar(dtype: Any, v: Any) -> Any:
    import numpy as np

    kinds: dict[str, Callable[[Any], Any]] = {"bool": bool, "complex64": _complex, "complex128": _complex}
    kinds.update({f"float{n}": _float for n in (16, 32, 64)})
    kinds.update({f"{s}int{n}": _int for s in ("", "u") for n in (8, 16, 32, 64)})
    if not isinstance(dtype, str) or dtype not in kinds:
        raise _bad(f"a NumPy scalar of {dtype!r}")
    try:
        if dtype == "bool":
            return np.bool_(_int(v) != 0)
        return np.dtype(dtype).type(kinds[dtype](v))
    except OverflowError as e:
        raise _bad(str(e)) from None


def _torch_dtype(v: Any) -> Any:
    torch = import_module("torch")
    dtype = getattr(torch, v, None) if isinstance(v, str) else None
    if not isinstance(dtype, torch.dtype):
        raise _bad(f"no torch dtype {v!r}")
    return dtype


_SCALARS: dict[str, Callable[[Any], Any]] = {
    "float": _float,
    "int": _int,
    "complex": _complex,
    "bytes": _bytes,
    "torch.dtype": _torch_dtype,
}


def parse(text: str, get: Callable[[str], Any]) -> Any:
    """The tree of a JSON text; get(name) gives its tensors, once per place they are at."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as e:
        raise _bad(str(e)) from None
    if not isinstance(document, dict) or "tree" not in document:
        raise _bad("no tree in it")
    if document.get("version") != VERSION:
        raise _bad(f"version {document.get('version')!r}, this is version {VERSION}")
    return _Decoder(get).value(document["tree"])


# ---------------------------------------------------------------- files


def save_tree(
    tree: Any,
    filename: Any,
    metadata: dict[str, str] | None = None,
    *,
    framework: str | None = None,
    **options: Any,
) -> None:
    """Saves a tree of dicts, lists, tuples, sets and scalars around tensors of one framework.

    Scalars: None, bool, int, float, complex, str, bytes, NumPy scalars, torch.dtype; also OrderedDict and
    torch.Size. A tensor that occurs twice is stored once and is one tensor again after load_tree. framework: needed
    only when the tree may hold no tensor. options: those of save_file (force_contiguous, shared, digests, progress ...).
    torch tensors that share memory are stored as views ("alias").
    Raises TypeError with the path of a value that cannot be saved, ValueError for a value that contains itself, and what
    save_file raises.
    """
    text, tensors, found = dump(tree)
    module = _module(found or framework or "np")
    notes = dict(metadata or {})
    if KEY in notes:
        raise ValueError(f"the metadata key {KEY} is taken by the tree")
    notes[KEY] = text
    if options.get("digests") is not None:
        notes[DIGEST] = hashlib.sha256(text.encode()).hexdigest()
    if module.__name__.endswith(".torch"):
        options = {"force_contiguous": True, "shared": "alias", **options}
    module.save_file(tensors, filename, notes, **options)


def load_tree(filename: Any, framework: str = "pt", *, with_metadata: bool = False, **options: Any) -> Any:
    """The tree of a file that save_tree (or `safetensors convert`) wrote, with tensors of `framework`.

    options: those of load_file (device, backend, verify, dtype, progress). with_metadata: return (tree, the rest of the
    metadata). Raises SafetensorError when the file holds no tree or a malformed one, and what load_file raises. No file
    can make this run code.
    """
    for taken in ("select", "rename"):
        if taken in options:
            raise TypeError(f"load_tree takes no {taken}=")
    tensors, metadata = _module(framework).load_file(filename, with_metadata=True, **options)
    if not metadata or KEY not in metadata:
        raise SafetensorError(f"the file holds no tree (no metadata key {KEY})")
    if options.get("verify") and DIGEST in metadata:
        if hashlib.sha256(metadata[KEY].encode()).hexdigest() != metadata[DIGEST]:
            raise _bad(f"it is damaged: its SHA-256 is not that of {DIGEST}")

    def get(name: str) -> Any:
        if name not in tensors:
            raise _bad(f"the file lacks its tensor `{name}`")
        return tensors[name]

    tree = parse(metadata[KEY], get)
    rest = {k: v for k, v in metadata.items() if not k.startswith("sft.")}
    return (tree, rest) if with_metadata else tree
