# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What a program's run leaves to compare: values, tensors by digest, exceptions by class and text.

A script of this directory registers functions with @program; one.py runs one of them in a process of its own, in a
directory of the same name for both packages, so that nothing has to be made equal afterwards.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
from pathlib import Path

PROGRAMS: dict[str, dict] = {}


def program(
    name, distribution=None, modules=(), environment=None
):  # programs.py reads `environment` from the source
    """Registers a function of one Record. `modules`: what must have been imported for the run to count."""

    def register(function):
        PROGRAMS[name] = {"function": function, "distribution": distribution or name, "modules": modules}
        return function

    return register


def as_bytes(tensor):
    """(dtype, shape, the bytes in C order) of a tensor of any framework."""
    if type(tensor).__module__.split(".")[0] == "torch" or hasattr(tensor, "untyped_storage"):
        import torch

        flat = tensor.detach().cpu().contiguous()
        data = flat.reshape(-1).view(torch.uint8).numpy().tobytes() if flat.numel() else b""
        return str(tensor.dtype), list(tensor.shape), data
    if hasattr(tensor, "_read_buffer_tag") or type(tensor).__module__.split(".")[0] == "mlx":
        import mlx.core as mx

        return str(tensor.dtype), list(tensor.shape), bytes(memoryview(mx.view(tensor.flatten(), mx.uint8)))
    import numpy as np

    array = tensor.numpy() if hasattr(tensor, "numpy") else np.asarray(tensor)
    return str(tensor.dtype), list(tensor.shape), np.ascontiguousarray(array).tobytes()


class Record:
    def __init__(self, work: Path) -> None:
        self.work = work
        self.rows: list[list] = []
        self.errors = 0

    def value(self, label, value):
        self.rows.append([label, repr(value)])
        return value

    def tensors(self, label, tensors, ordered=True):
        """A mapping or a sequence of tensors: kind, names in order, types, shapes, bytes.

        `ordered=False` for what deserialize() of the reference gives in an order drawn by lot."""
        pairs = list(tensors.items()) if hasattr(tensors, "items") else list(enumerate(tensors))
        kinds = sorted({type(t).__name__ for _, t in pairs})
        names = [name for name, _ in pairs] if ordered else sorted(name for name, _ in pairs)
        self.rows.append(
            [
                label,
                f"{type(tensors).__name__} of {len(pairs)} {kinds} {hashlib.sha256(repr(names).encode()).hexdigest()[:8]}",
            ]
        )
        if not pairs:
            raise AssertionError(f"{label}: no tensors")
        for name, tensor in pairs:
            dtype, shape, data = as_bytes(tensor)
            self.rows.append([f"{label}[{name}]", f"{dtype} {shape} {hashlib.sha256(data).hexdigest()[:20]}"])
        return tensors

    def call(self, label, function, *arguments, **keywords):
        """The result if there is one; else the exception, with those behind it, becomes a row."""
        try:
            return function(*arguments, **keywords)
        except Exception as error:  # noqa: BLE001
            row, at = [], error
            while at is not None and len(row) < 4:
                bases = [base.__name__ for base in type(at).__mro__[:-1]]
                row.append(f"{bases}: {at}")
                at = at.__cause__ or at.__context__
            self.rows.append([label, row])
            self.errors += 1
            return None

    def broken(self, path, load, only=None):
        """Damaged copies of a file through the program's own loader: the class and words of what it then says.

        `path` is replaced by each copy in turn (a program often wants its own names) and put back."""
        path = Path(path)
        data = path.read_bytes()
        size = int.from_bytes(data[:8], "little")
        text = json.loads(data[8 : 8 + size])
        first = next(name for name in text if name != "__metadata__")

        def with_header(change):
            other = json.loads(json.dumps(text))
            change(other)
            new = json.dumps(other).encode()
            return len(new).to_bytes(8, "little") + new + data[8 + size :]

        cases = {
            "cut": data[: len(data) // 2 + 4],
            "longer": data + b"12345678",
            "empty": b"",
            "seven bytes": data[:7],
            "header cut": data[: 8 + size // 2],
            "header too large": (1 << 62).to_bytes(8, "little") + data[8:],
            "page of HTML": b"<!DOCTYPE html><html><body>404</body></html>",
            "LFS pointer": b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 3\n",
            "no JSON": (8).to_bytes(8, "little") + b"{{{{{{{{" + data[8 + size :],
            "no UTF-8": (8).to_bytes(8, "little") + b'{"\xff\xfe":1' + data[8 + size :],
            "unknown type": with_header(lambda h: h[first].update(dtype="F13")),
            "overlap": with_header(
                lambda h: h[first]["data_offsets"].__setitem__(0, h[first]["data_offsets"][0] + 1)
            ),
            "tensor renamed": with_header(lambda h: h.__setitem__("other.name", h.pop(first))),
        }
        for name, content in cases.items():
            if only is not None and name not in only:
                continue
            path.unlink()
            path.write_bytes(content)
            loaded = self.call(f"{path.name}, {name}", load) is not None
            self.rows.append([f"{path.name}, {name}: result", "loads" if loaded else "is None"])
        path.unlink()
        loaded = self.call(f"{path.name}, missing", load) is not None
        self.rows.append([f"{path.name}, missing: result", "loads" if loaded else "is None"])
        path.write_bytes(data)

    def shelve(self, path, name):
        """Keeps a file or directory under another name for the comparison."""
        target = self.work / name
        (shutil.copytree if Path(path).is_dir() else shutil.copy)(path, target)
        return target


def loaded_library():
    """Which of the two packages this process has in memory."""
    with open("/proc/self/maps") as maps:
        text = maps.read()
    return {
        "reference": "_safetensors_rust" in text,
        "ours": "safetensors_c/_core" in text,
        "version": getattr(sys.modules.get("safetensors"), "__version__", None),
    }
