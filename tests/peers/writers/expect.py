# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What a writer's files hold, recorded beside them for ../writers.py: one JSON per writer.

    {"library": "onnx 1.23.2",
     "files": {"a.onnx": {"tensors": {NAME: [[dtype, shape, sha256], ...]}, "named": [NAME, ...], "options": []}}}

A tensor has one row, or several where its type is none of safetensors': each is a right answer. NAME "*" is a tensor for which
the file has no name. What is in "named" is no tensor that safetensors can hold: a conversion says its name, or is refused.
"not_converted": why, if what the library wrote holds no tensors; then only a refusal with a sentence is right."""

import hashlib
import json
import pathlib
import sys

NAMES = {
    "bool": "BOOL",
    "uint8": "U8",
    "int8": "I8",
    "int16": "I16",
    "uint16": "U16",
    "int32": "I32",
    "uint32": "U32",
    "int64": "I64",
    "uint64": "U64",
    "float16": "F16",
    "bfloat16": "BF16",
    "float32": "F32",
    "float64": "F64",
    "complex64": "C64",
    "float8_e4m3fn": "F8_E4M3",
    "float8_e5m2": "F8_E5M2",
    "float8_e4m3fnuz": "F8_E4M3FNUZ",
    "float8_e5m2fnuz": "F8_E5M2FNUZ",
    "float8_e8m0fnu": "F8_E8M0",
}


def sha(data):
    return hashlib.sha256(data).hexdigest()


def packed(codes, bits):
    """Codes of a few bits each, the first lowest, as every library here packs them."""
    total = 0
    for i, code in enumerate(codes):
        total |= int(code) << (i * bits)
    return total.to_bytes((len(codes) * bits + 7) // 8, "little")


def rows(array):
    """The right answers for an array of numpy, ml_dtypes among them; [] if there is none but its name."""
    import numpy as np

    array = np.asarray(array)
    kind, shape = array.dtype.name, list(array.shape)
    data = array.astype(array.dtype.newbyteorder("<")).tobytes()
    if kind in NAMES:
        return [[NAMES[kind], shape, sha(data)]]
    small = {
        "int4": 4,
        "uint4": 4,
        "int2": 2,
        "uint2": 2,
        "int1": 1,
        "uint1": 1,
        "float4_e2m1fn": 4,
        "float6_e2m3fn": 6,
        "float6_e3m2fn": 6,
    }
    if kind in small:  # a byte each in memory
        bits = small[kind]
        codes = [
            c & ((1 << bits) - 1) for c in np.ascontiguousarray(array).reshape(-1).view(np.uint8).tolist()
        ]
        dense = packed(codes, bits)
        signed = "I8" if kind.startswith("int") else "U8"
        own = {"float4_e2m1fn": "F4", "float6_e2m3fn": "F6_E2M3", "float6_e3m2fn": "F6_E3M2"}.get(kind)
        value = array.astype(np.int8 if signed == "I8" else np.uint8).tobytes() if "int" in kind else data
        found = [
            [signed, shape, sha(value)],
            ["U8", shape, sha(data)],
            ["U8", shape, sha(bytes(codes))],
            ["U8", [len(dense)], sha(dense)],
        ]
        return ([[own, shape, sha(dense)]] if own else []) + found
    if kind.startswith("float8"):  # e3m4, e4m3, e4m3b11fnuz: none of safetensors'
        return [["U8", shape, sha(data)]]
    if array.dtype.kind == "V" and array.dtype.names is None and array.dtype.itemsize in (1, 2):
        return [["U%d" % (8 * array.dtype.itemsize), shape, sha(data)]]
    return []


class Files:
    """The files of one writer, in the directory that its first argument names."""

    def __init__(self, library):
        self.folder = pathlib.Path(sys.argv[1])
        self.folder.mkdir(parents=True, exist_ok=True)
        self.library = library
        self.files = {}
        self.failed = []

    def path(self, name):
        return self.folder / name

    def add(self, name, tensors=None, named=(), options=(), **more):
        """tensors: {name: array of numpy, or a list of rows}"""
        found, names = {}, list(named)
        for key, value in (tensors or {}).items():
            value = value if isinstance(value, list) else rows(value)
            if value:
                found[key] = value
            else:
                names.append(key)
        self.files[name] = {"tensors": found, "named": names, "options": list(options), **more}

    def skip(self, what, why):
        """What this version of the library does not write."""
        self.failed.append(
            "%s: %s" % (what, str(why).splitlines()[0][:120] if str(why) else type(why).__name__)
        )

    def close(self):
        content = {"library": self.library, "files": self.files, "not_written": self.failed}
        (self.folder / "expect.json").write_text(
            json.dumps(content, indent=1, sort_keys=True), encoding="utf-8"
        )
        print("%s: %d files, %d not written" % (self.library, len(self.files), len(self.failed)))
        return 0
