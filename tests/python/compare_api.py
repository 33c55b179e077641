# SPDX-License-Identifier: Apache-2.0 OR MIT
"""compare_api.py [--reference DIRECTORY] [--version V] - the drop-in beside `safetensors`, row by row.

One program (probe()) runs twice, in processes of their own: over the reference, which lies in DIRECTORY or is
installed, and over ours by SAFETENSORS_C=1. It makes a table: every name of every module with its kind and
signature, and the outcome of a generated set of calls (type, truth, value; class and text of an error), as they
are and with functions of the modules replaced. The tables must be equal but for EXPECTED, a list with reasons,
whose entries must each be met. Prints the rows that differ; exit status 1 if there are any.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import os
import re
import subprocess
import sys
import tempfile

# (rows, reason). What is better here than there stands in docs/python.md.
EXPECTED = [
    ("TensorSpec {'dtype': 'F32',*", "the format's names of types are understood, too"),
    ("TensorSpec *'data_ptr': None*", "CPython's sentence, without the name of the argument"),
    ("name safetensors._safe_open_handle", "a function; nobody derives from it"),
    ("open paddle", "the framework is imported when the first tensor is made"),
    ("slice * reversed", "no len() there, no sequence here: TypeError in both"),
    ("slice np * enumerated", "rows end where the tensor ends"),
    ("slice np * iterated", "rows end where the tensor ends"),
    ("slice pt pread * enumerated", "rows end where the tensor ends"),
    ("slice pt pread * iterated", "rows end where the tensor ends"),
    ("slice * [[]-2:]", "negative bounds count from the end"),
    ("slice * [[]2:1]", "an empty slice is one"),
    ("slice * empty *", "an empty dimension can be sliced"),
    ("slice * wide *", "an empty dimension can be sliced"),
    ("slice * scalar [[]*", "the index is told as it was given"),
    ("torch _end_ptr *", "views that cannot be flattened have an end; other errors for what is no tensor"),
    ("torch _to_ndarray *", "strided tensors are packed, not misread"),
    ("torch storage_size *", "other errors for what is no tensor"),
    ("torch save e8m0", "load() knows all types"),
    ("torch device cpu", "torch.device('cpu') is a device"),
    ("torch load_file from directory", "a directory of shards is a model"),
    ("torch save_file to loop", "links stay: one that leads nowhere is an error"),
    ("torch save_file to *", "the sentence says what is wrong with the path"),
    ("file * of buffer *", "any buffer is a file's contents, bytes as well"),
    ("file * of object *", "an object with read() is a file"),
    ("device * device(type='cuda'*", "torch.device is a device"),
    ("numpy save torch *", "what numpy.asarray makes an array of can be saved"),
    ("numpy save scalar *", "a NumPy scalar can be saved"),
]


# ---------------------------------------------------------------- describing


def text(error: BaseException) -> str:
    """Class and text, without what differs from run to run."""
    name = type(error).__name__
    said = str(error).replace(os.getcwd(), "<here>")
    said = re.sub(r"0x[0-9a-f]+", "0x", said)
    said = re.sub(r"\{('[^{}]*')\}", lambda m: "{" + ", ".join(sorted(m[1].split(", "))) + "}", said)
    said = (
        said.replace("safetensors_c._core", "safetensors")
        .replace("builtins.", "")
        .replace("safetensors_c.", "")
    )
    said = said.replace("safetensors._safetensors_rust.", "")
    said = re.sub(
        r" \((Invalid|Header|Metadata|Tensor|Validation|Misaligned)\w+\)$", "", said
    )  # ours names the variant
    said = re.sub(r"(invalid (JSON|UTF-8) in header): .*", r"\1", said)  # what follows is the parser's own
    said = said.partition("\n\n")[0]
    return f"{name}: {said}"


def value(x: object) -> str:
    """A value as text that is equal for equal values."""
    kind = type(x)
    if kind.__module__.startswith("torch") and hasattr(x, "untyped_storage"):
        import zlib

        import torch

        if type(x) not in (torch.Tensor, torch.nn.Parameter):
            return f"{kind.__name__} {tuple(x.shape)} {x.dtype}"
        where = f"{kind.__name__} {x.dtype} {tuple(x.shape)} {x.device} {x.requires_grad} {x.is_contiguous()}"
        if x.device.type == "meta" or x.layout != torch.strided:
            return where
        raw = x.detach().contiguous().reshape(-1).view(torch.uint8)
        return f"{where} {raw.tolist() if raw.numel() < 64 else zlib.crc32(bytes(raw.tolist()))}"
    if kind.__module__ == "numpy":
        return f"{kind.__name__} {x.dtype} {x.shape} {x.flags.writeable} {x.tobytes()[:64].hex()}"  # type: ignore
    if isinstance(x, dict):
        return f"{kind.__name__} {{" + ", ".join(sorted(f"{k!r}: {value(v)}" for k, v in x.items())) + "}"
    if isinstance(x, (list, tuple)):
        return f"{kind.__name__} [" + ", ".join(map(value, x)) + "]"
    if isinstance(x, (set, frozenset)):
        return f"{kind.__name__} {sorted(map(value, x))}"
    if isinstance(x, (bytes, bytearray)):
        return f"{kind.__name__} {bytes(x)[:400]!r}"
    if x is None or isinstance(x, (bool, int, float, str)):
        return repr(x)
    return kind.__name__


def outcome(call) -> str:
    try:
        return value(call())
    except BaseException as e:  # noqa: BLE001  (a panic of the reference is no Exception)
        return text(e)


# ---------------------------------------------------------------- what is probed


def names(rows: dict, modules: dict) -> None:
    import inspect

    for module_name, module in modules.items():
        for name in dir(module):
            if name.startswith("__") and name not in ("__path__", "__version__", "__file__"):
                continue
            thing = getattr(module, name)
            kind = "function" if callable(thing) and not isinstance(thing, type) else type(thing).__name__
            rows[f"name {module_name}.{name}"] = kind
            if kind not in ("function", "type") or str(getattr(thing, "__module__", "")).startswith("typing"):
                continue
            try:
                parameters = inspect.signature(thing).parameters.values()
            except (TypeError, ValueError):
                continue
            for p in parameters:
                default = "" if p.default is p.empty else f" = {p.default!r}"
                rows[f"signature {module_name}.{name}({p.name})"] = f"{p.kind.name}{default}"
    torch_names = modules.get("safetensors.torch")
    for table in ("_SIZE", "_TYPES"):
        for key, v in (getattr(torch_names, table, None) or {}).items():
            rows[f"entry torch.{table}[{key}]"] = str(v)


def tensors_of_torch() -> dict:
    import numpy as np
    import torch

    class Sub(torch.Tensor):
        pass

    a = torch.arange(24.0).reshape(4, 6)
    released = torch.zeros(4)
    released.untyped_storage().resize_(0)
    one = {
        **{
            f"{d}": torch.ones(2, 3).to(d)
            for d in (
                torch.float64,
                torch.float16,
                torch.bfloat16,
                torch.int64,
                torch.int8,
                torch.uint8,
                torch.bool,
                torch.uint16,
                torch.uint64,
                torch.complex64,
                torch.float8_e4m3fn,
                torch.float8_e5m2,
            )
        },
        "e8m0": torch.ones(4, dtype=torch.uint8).view(torch.float8_e8m0fnu),
        "scalar": torch.tensor(3.5),
        "empty": torch.zeros(0, 3),
        "transposed": a.t(),
        "strided": a[:, ::2],
        "row": a[1],
        "expanded": torch.zeros(1).expand(3),
        "meta": torch.zeros(3, device="meta"),
        "sparse": torch.eye(2).to_sparse(),
        "csr": torch.eye(2).to_sparse_csr(),
        "complex128": torch.zeros(2).to(torch.complex128),
        "parameter": torch.nn.Parameter(torch.ones(2)),
        "sub": torch.ones(2).as_subclass(Sub),
        "zero": torch._efficientzerotensor((3,)),
        "released": released,
        "array": np.ones(2),
        "list": [1.0],
        "text": "x",
        "none": None,
        "quantized": torch.quantize_per_tensor(torch.zeros(3), 1.0, 0, torch.qint8),
    }
    many = {name: {"t": t} for name, t in one.items()}
    many |= {
        "same": {"a": a, "b": a},
        "views": {"a": a, "b": a[1:]},
        "halves": {"a": a[:2], "b": a[2:]},
        "overlap": {"a": a[:3], "b": a[1:]},
        "nothing": {},
        "key": {1: a},
        "nokey": {None: a},
        "noname": {"": a},
        "unicode": {"é\n": a},
        "not a dict": [a],
        "pairs": [("a", a)],
        "nil": None,
        "order": {"z": a, "a": torch.ones(1)},
        "mixed": {
            "f4": torch.ones(1),
            "f8": torch.ones(1, dtype=torch.float64),
            "u1": torch.ones(1).to(torch.uint8),
        },
    }
    return many


def calls_of_torch(rows: dict, st) -> None:
    import torch

    def module(state):
        made = torch.nn.Module()
        made.state_dict = lambda *a, **k: dict(state)
        return made

    def loaded(path):
        return {k: value(v) for k, v in sorted(st.load_file(path).items())}

    for name, tensors in tensors_of_torch().items():
        rows[f"torch save {name}"] = outcome(lambda: st.load(st.save(tensors)))
        rows[f"torch save_file {name}"] = outcome(lambda: (st.save_file(tensors, "s"), loaded("s")))
        if isinstance(tensors, dict):
            for force in (True, False):
                rows[f"torch save_model {name} {force}"] = outcome(
                    lambda: (st.save_model(module(tensors), "m", force_contiguous=force), loaded("m"))
                )
        rows[f"torch _find_shared_tensors {name}"] = outcome(
            lambda: sorted(sorted(map(str, s)) for s in st._find_shared_tensors(tensors))
        )
        rows[f"torch _remove_duplicate_names {name}"] = outcome(lambda: st._remove_duplicate_names(tensors))
        rows[f"torch _flatten_as_ptr {name}"] = outcome(
            lambda: sorted(map(str, st._flatten_as_ptr(tensors, [])))
        )
        if isinstance(tensors, dict) and "t" in tensors:
            t = tensors["t"]
            for what, call in {
                "storage_ptr": lambda: st.storage_ptr(t) != 0,
                "storage_size": lambda: st.storage_size(t),
                "_is_complete": lambda: st._is_complete(t),
                "_end_ptr": lambda: st._end_ptr(t) - t.data_ptr(),
                "_to_ndarray": lambda: st._to_ndarray(t)[0].tobytes(),
            }.items():
                rows[f"torch {what} {name}"] = outcome(call)
    a = {"a": torch.ones(2)}
    for name, metadata in METADATA.items():
        rows[f"torch metadata {name}"] = outcome(lambda: st.save(a, metadata)[8:].split(b"}}")[0])
    for name, path in paths().items():
        rows[f"torch load_file from {name}"] = outcome(lambda: st.load_file(path))
        rows[f"torch save_file to {name}"] = outcome(lambda: st.save_file(a, path))
    for device in (
        "cpu",
        "cpu:0",
        torch.device("cpu"),
        "meta",
        "foo",
        "cuda:x",
        "mps:1",
        None,
        1.5,
        "",
        "CPU",
    ):
        rows[f"torch device {device}"] = outcome(lambda: st.load_file("good", device=device))
    for backend in ("mmap", "pread", "foo", None, 1):
        rows[f"torch backend {backend}"] = outcome(lambda: st.load_file("good", backend=backend))
    for preferred in (["b"], ["a"], [], None, ["x"]):
        for discard in (["a"], None):
            rows[f"torch preferred {preferred} {discard}"] = outcome(
                lambda: st._remove_duplicate_names(
                    {"a": a["a"], "b": a["a"]}, preferred_names=preferred, discard_names=discard
                )
            )
    model = torch.nn.Linear(2, 2)
    st.save_file({"weight": torch.ones(2, 2), "other": torch.ones(1)}, "model")
    for strict in (True, False):
        rows[f"torch load_model {strict}"] = outcome(lambda: st.load_model(model, "model", strict=strict))


METADATA = {
    "none": None,
    "empty": {},
    "one": {"a": "b"},
    "number": {"a": 1},
    "key": {1: "a"},
    "text": "x",
    "list": [("a", "b")],
    "value": {"a": None},
    "unicode": {"é": "\n"},
}


def paths() -> dict:
    from pathlib import Path

    import numpy as np

    class Like:
        def __init__(self, path):
            self.path = path

        def __fspath__(self):
            return self.path

    if not os.path.islink("loop"):
        os.symlink("loop", "loop")
    return {
        "text": "good",
        "path": Path("good"),
        "number": 7.5,
        "none": None,
        "missing": "missing/x",
        "directory": "directory",
        "nul": "a\0b",
        "list": ["good"],
        "empty": "",
        "nul in a path": Path("a\0b"),
        "like text": Like("good"),
        "like bytes": Like(b"good"),
        "like number": Like(1),
        "long": "x" * 300,
        "deep": "x/" * 3000,
        "loop": "loop",
        "numpy text": np.str_("good"),
        "below a file": "good/x",
        "surrogate": "\ud800",
        "set": set(),
    }


def sources() -> dict:
    """What is no path, though it holds a file or could be taken for a name."""
    import array
    import io

    with open("good", "rb") as f:
        data = f.read()
    return {
        "buffer bytes": data,
        "buffer name": b"good",
        "buffer missing": b"no such file",
        "buffer bytearray": bytearray(data),
        "buffer memoryview": memoryview(data),
        "buffer array": array.array("B", data),
        "object BytesIO": io.BytesIO(data),
        "text object": io.StringIO("x"),
        "object file": open("good", "rb"),
        "dict": {},
        "tuple": ("good",),
    }


def calls_of_sources(rows: dict, package, st, sn) -> None:
    import numpy as np
    import torch

    st.save_file({"a": torch.ones(2)}, "good")
    for name in sources():
        for what, call in {
            "st.load_file": st.load_file,
            "sn.load_file": sn.load_file,
            "st.load": st.load,
            "sn.load": sn.load,
            "deserialize": package.deserialize,
            "safe_open": lambda x: package.safe_open(x, "np").keys(),
            "load_model": lambda x: st.load_model(torch.nn.Linear(1, 1), x),
        }.items():
            rows[f"file {what} of {name}"] = outcome(lambda: call(sources()[name]))
    for device in (
        -1,
        -(2**70),
        0,
        7,
        2**63,
        2**70,
        True,
        False,
        np.int64(-1),
        np.int64(0),
        1.0,
        b"cpu",
        [],
        "-1",
        "cuda:-1",
        "cpu:-1",
        " cpu",
        "CUDA",
        torch.device("cuda"),
        torch.device("cuda:1"),
        torch.device("meta"),
    ):
        for framework in ("pt", "np"):
            rows[f"device {framework} {device!r}"] = outcome(
                lambda: package.safe_open("good", framework, device=device).keys()
            )
    for name, v in {
        "torch f4": torch.ones(2),
        "torch bf16": torch.ones(2, dtype=torch.bfloat16),
        "torch grad": torch.ones(2, requires_grad=True),
        "torch strided": torch.ones(4)[::2],
        "scalar f4": np.float32(1),
        "scalar bool": np.bool_(True),
        "int": 1,
        "list": [1.0],
        "none": None,
        "bytes": b"x",
        "object": np.array([None]),
        "text": np.array(["a"]),
        "record": np.zeros(2, [("a", "f4")]),
        "complex128": np.zeros(2, complex),
        "longdouble": np.zeros(2, np.longdouble),
        "time": np.zeros(2, "M8[s]"),
        "matrix": np.matrix([[1.0, 2.0]]),
        "masked": np.ma.array([1.0, 2.0], mask=[1, 0]),
        "tuple": (1, 2),
    }.items():
        rows[f"numpy save {name}"] = outcome(lambda: sn.save({"a": v}))


def files() -> dict:
    import struct

    def file(header, data=b""):
        header = json.dumps(header).encode() if not isinstance(header, bytes) else header
        return struct.pack("<Q", len(header)) + header + data

    one = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}
    return {
        "good": file({"a": one}, bytes(8)),
        "nothing": b"",
        "short": b"\1\0\0",
        "long": file({"a": one}, bytes(9)),
        "cut": file({"a": one}, bytes(7)),
        "header": struct.pack("<Q", 1 << 40) + b"{}",
        "past": struct.pack("<Q", 99),
        "text": file(b"hello"),
        "array": file(b"[]"),
        "utf8": file(b'{"\xff":{}}'),
        "empty": file({}),
        "type": file({"a": {**one, "dtype": "F33"}}, bytes(8)),
        "field": file({"a": {"dtype": "F32"}}, bytes(8)),
        "shape": file({"a": {**one, "shape": [3]}}, bytes(8)),
        "minus": file({"a": {**one, "shape": [-2]}}, bytes(8)),
        "hole": file({"a": one, "b": {**one, "data_offsets": [9, 17]}}, bytes(17)),
        "overlap": file({"a": one, "b": {**one, "data_offsets": [4, 12]}}, bytes(12)),
        "back": file({"a": {**one, "data_offsets": [8, 0]}}, bytes(8)),
        "big": file({"a": {**one, "shape": [1 << 62, 8]}}, bytes(8)),
        "metadata": file({"__metadata__": {"a": 1}}),
    }


def calls_of_files(rows: dict, package, sn) -> None:
    for name, data in files().items():
        with open(f"f-{name}", "wb") as f:
            f.write(data)
        rows[f"file deserialize {name}"] = outcome(lambda: package.deserialize(data))
        rows[f"file load {name}"] = outcome(lambda: sn.load(data))
        for backend in ("mmap", "pread"):
            rows[f"file load_file {name} {backend}"] = outcome(
                lambda: sn.load_file(f"f-{name}", backend=backend)
            )
    for name, data in {"text": "x", "none": None, "number": 1, "list": [1]}.items():
        rows[f"file load of {name}"] = outcome(lambda: sn.load(data))
    for framework in (
        "pt",
        "torch",
        "pytorch",
        "np",
        "numpy",
        "tf",
        "flax",
        "jax",
        "mlx",
        "paddle",
        "foo",
        "",
        None,
        1,
    ):
        rows[f"open {framework}"] = outcome(lambda: package.safe_open("good", framework).keys())
    for arguments in (
        (),
        ("good",),
        ("good", "np", "cpu", "mmap"),
        ("missing", "np"),
        (None, "np"),
        ("good", "np", "cuda"),
    ):
        rows[f"open {arguments}"] = outcome(lambda: package.safe_open(*arguments))
    rows["open keywords"] = outcome(
        lambda: package.safe_open(filename="good", framework="np", device="cpu", backend="mmap")
    )
    rows["open unknown keyword"] = outcome(lambda: package.safe_open("good", "np", foo=1))
    for v in (
        {},
        {"dtype": "float32"},
        {"dtype": "foo", "shape": [1], "data_ptr": 0, "data_len": 0},
        {"dtype": "float32", "shape": [1], "data_ptr": 1, "data_len": 4},
        {"dtype": "F32", "shape": (), "data_ptr": 1, "data_len": 4},
        {"dtype": 1, "shape": [1], "data_ptr": 1, "data_len": 4},
        {"dtype": "float32", "shape": 3, "data_ptr": 1, "data_len": 4},
        {"dtype": "float32", "shape": [-1], "data_ptr": 1, "data_len": 4},
        {"dtype": "float32", "shape": [1], "data_ptr": None, "data_len": 4},
        {"dtype": "float32", "shape": [1], "data_ptr": 1, "data_len": -4},
    ):
        rows[f"TensorSpec {v}"] = outcome(lambda: package.TensorSpec(**v))
    for v in ({"a": 1}, {"a": {"dtype": "float32", "shape": [1], "data": b"\0\0\0\0"}}, [], None, {1: 2}):
        rows[f"serialize {v}"] = outcome(lambda: package.serialize(v))


INDEXES = {
    "0": 0,
    "-1": -1,
    "5": 5,
    "-9": -9,
    ":": slice(None),
    "1:": slice(1, None),
    ":2": slice(None, 2),
    "1:2": slice(1, 2),
    "-2:": slice(-2, None),
    "2:1": slice(2, 1),
    "0:99": slice(0, 99),
    "...": Ellipsis,
    "0,1": (0, 1),
    ":,1": (slice(None), 1),
    ":,:2": (slice(None), slice(None, 2)),
    "...,0": (Ellipsis, 0),
    "(0,0,0)": (0, 0, 0),
    "None": None,
    "list": [0],
    "empty list": [],
    "text": "a",
    "float": 1.5,
    "true": True,
    "()": (),
    "1.0:": slice(1.0, None),
}


def calls_of_handles(rows: dict, package) -> None:
    for framework in ("pt", "np"):
        for backend in ("mmap", "pread"):
            f = package.safe_open("several", framework, backend=backend)
            way = f"{framework} {backend}"
            for name, call in {
                "bool": lambda: bool(f),
                "keys": f.keys,
                "offset_keys": f.offset_keys,
                "metadata": f.metadata,
                "tensors": f.get_tensors,
                "missing": lambda: f.get_tensor("x"),
                "none": lambda: f.get_tensor(None),
                "slice of missing": lambda: f.get_slice("x"),
                "enter": lambda: f.__enter__() is f,
            }.items():
                rows[f"handle {way} {name}"] = outcome(call)
            for name in ("a", "empty", "flat", "scalar", "wide"):
                s = f.get_slice(name)
                rows[f"slice {way} {name} tensor"] = outcome(lambda: f.get_tensor(name))
                for what, call in {
                    "bool": lambda: bool(s),
                    "iterated": lambda: list(s),
                    "shape": s.get_shape,
                    "dtype": s.get_dtype,
                    "enumerated": lambda: [i for i, _ in enumerate(s)],
                    "hash": lambda: hash(s) == hash(s),
                    "iter": lambda: type(iter(s)).__name__,
                    "reversed": lambda: list(reversed(s)),
                }.items():
                    rows[f"slice {way} {name} {what}"] = outcome(call)
                for what, index in INDEXES.items():
                    rows[f"slice {way} {name} [{what}]"] = outcome(lambda: s[index])
            rows[f"handle {way} exit"] = outcome(lambda: f.__exit__(None, None, None))
            for name, call in {
                "keys": f.keys,
                "tensor": lambda: f.get_tensor("a"),
                "tensors": f.get_tensors,
                "metadata": f.metadata,
                "slice": lambda: f.get_slice("a"),
                "bool": lambda: bool(f),
                "enter": f.__enter__,
                "exit": lambda: f.__exit__(None, None, None),
            }.items():
                rows[f"handle {way} closed {name}"] = outcome(call)


def patched(rows: dict, modules: dict) -> None:
    """Each function of a module replaced by one that notes how it is called and passes on; then the others are called."""
    import numpy as np
    import torch

    model = torch.nn.Linear(2, 2)
    for module_name, module in modules.items():
        if module_name == "safetensors":
            continue
        short = module_name.rpartition(".")[2]
        tensors = {"a": torch.ones(2)} if short == "torch" else {"a": np.ones(2)}
        for name in REPLACED:
            real = getattr(module, name, None)
            if real is None:
                continue
            seen: list = []

            def noted(*args, real=real, seen=seen, **kwargs):
                seen.append(f"{len(args)} {sorted(kwargs)}")
                return real(*args, **kwargs)

            setattr(module, name, noted)
            try:
                for call_name, call in {
                    "save": lambda: module.save(tensors),
                    "save_file": lambda: module.save_file(tensors, "p", {"k": "v"}),
                    "load": lambda: module.load(open("good", "rb").read()),
                    "load_file": lambda: module.load_file("good"),
                    "save_model": lambda: module.save_model(model, "pm"),
                    "load_model": lambda: module.load_model(model, "pm"),
                }.items():
                    if hasattr(module, call_name) and call_name != name:
                        seen.clear()
                        result = outcome(call).split(" ")[0]
                        rows[f"patched {short}.{name} in {call_name}"] = f"{sorted(set(seen))} {result}"
            finally:
                setattr(module, name, real)


REPLACED = (
    "save",
    "save_file",
    "load",
    "load_file",
    "safe_open",
    "serialize",
    "serialize_file",
    "deserialize",
    "_flatten_as_ptr",
    "_flatten",
    "_find_shared_tensors",
    "_remove_duplicate_names",
    "_view2torch",
    "_view2np",
    "_to_ndarray",
    "_evaluate_tensors_for_save",
    "_filter_shared_not_shared",
    "storage_ptr",
    "_is_complete",
)


def probe() -> dict:
    import logging
    import warnings

    warnings.simplefilter("ignore")
    import numpy as np
    import safetensors
    import safetensors.numpy
    import safetensors.torch
    import torch

    logging.disable(logging.CRITICAL)
    modules = {m: sys.modules[m] for m in ("safetensors", "safetensors.torch", "safetensors.numpy")}
    os.mkdir("directory")
    safetensors.numpy.save_file({"a": np.arange(2, dtype="f4")}, "good")
    safetensors.torch.save_file(
        {
            "a": torch.arange(12.0).reshape(3, 4),
            "empty": torch.zeros(0, 4),
            "flat": torch.arange(3),
            "scalar": torch.tensor(3.0),
            "wide": torch.zeros(2, 0),
        },
        "several",
        {"format": "pt"},
    )
    rows: dict = {"whose": safetensors.__version__}
    names(rows, modules)
    calls_of_torch(rows, safetensors.torch)
    calls_of_files(rows, safetensors, safetensors.numpy)
    calls_of_handles(rows, safetensors)
    calls_of_sources(rows, safetensors, safetensors.torch, safetensors.numpy)
    patched(rows, modules)
    return rows


# ---------------------------------------------------------------- comparing


def table(ours: bool, reference: str | None) -> dict:
    environment = {k: v for k, v in os.environ.items() if k not in ("SAFETENSORS_C", "PYTHONPATH")}
    if ours:
        environment["SAFETENSORS_C"] = "1"
    elif reference:
        environment["PYTHONPATH"] = os.path.abspath(reference)
    with tempfile.TemporaryDirectory() as directory:
        done = subprocess.run(
            [sys.executable, os.path.abspath(__file__), "--probe"],
            env=environment,
            cwd=directory,
            capture_output=True,
            text=True,
            timeout=600,
        )
    if done.returncode != 0:
        raise SystemExit(f"the probe failed:\n{done.stderr[-4000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def allowed(row: str, theirs: str | None, ours: str | None, met: set) -> bool:
    if theirs is None or ours is not None and ours.startswith(theirs) and "Error: " in theirs:
        return True  # we have more, or say more
    if ours is not None and re.sub(r"argument '\w+': ", "", ours) == theirs:
        return True  # 0.9.0rc1 does not name the argument any more
    if row.startswith("signature ") and theirs.endswith("= Ellipsis") and ours is not None:
        return True  # that is how pyo3 tells a default
    for pattern, _ in EXPECTED:
        if fnmatch.fnmatchcase(row, pattern):
            met.add(pattern)
            return True
    return False


def compare(reference: str | None, version: str | None) -> tuple[int, list[str]]:
    theirs, ours = table(False, reference), table(True, None)
    whose = theirs.pop("whose")
    if version is not None and whose.replace("-rc.", "rc") != version:
        raise SystemExit(f"the reference is {whose}, not {version}")
    if "+c" not in ours.pop("whose"):
        raise SystemExit("SAFETENSORS_C=1 does not give ours: install ./python")
    met: set = set()
    wrong = []
    for row in sorted(set(theirs) | set(ours)):
        a, b = theirs.get(row), ours.get(row)
        if a != b and not allowed(row, a, b, met):
            wrong.append(f"{row}\n    {whose}: {a}\n    ours:  {b}")
    if whose == "0.8.0":
        wrong += [
            f"EXPECTED {pattern!r}: nothing differs there" for pattern, _ in EXPECTED if pattern not in met
        ]
    return len(theirs), wrong


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--reference")
    parser.add_argument("--version")
    parser.add_argument("--probe", action="store_true")
    given = parser.parse_args()
    if given.probe:
        print(json.dumps(probe()))
        return 0
    count, wrong = compare(given.reference, given.version)
    print("\n".join(wrong))
    print(f"{count} rows, {len(wrong)} differ, {len(EXPECTED)} differences expected")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
