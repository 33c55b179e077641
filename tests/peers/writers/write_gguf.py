#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""write_gguf.py FOLDER - GGUF of every type that gguf-py writes, both byte orders, splits, every type of metadata."""

import sys

import gguf
import numpy as np
from expect import Files, rows
from gguf.quants import dequantize, quantize

files = Files("gguf 0.19")
rng = np.random.default_rng(32)
T = gguf.GGMLQuantizationType
PLAIN = {"F32": "f4", "F16": "f2", "F64": "f8", "I8": "i1", "I16": "i2", "I32": "i4", "I64": "i8"}


def write(name, tensors, meta=(), **how):
    """tensors: {name: (array, raw type or None)}"""
    path = files.path(name)
    w = gguf.GGUFWriter(path, "llama", **how)
    for add, key, value in meta:
        getattr(w, add)(key, value)
    for key, (array, kind) in tensors.items():
        w.add_tensor(key, array, raw_dtype=kind)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()
    return path


def read(path):
    """What gguf-py reads: values, blocks as bytes."""
    found = {}
    for t in gguf.GGUFReader(path).tensors:
        data = np.array(t.data)
        if t.tensor_type == T.BF16:
            found[t.name] = [
                ["BF16", [int(n) for n in reversed(t.shape)], rows(data.view(np.uint8).reshape(-1))[0][2]]
            ]
        else:
            found[t.name] = data
    return found


for kind in T:
    if kind == T.Q8_1:
        files.skip(
            "Q8_1", "gguf-py has 40 bytes for a block, as ggml had until 2024; ggml has 36, and so have we"
        )
        continue
    x = rng.standard_normal((3, 512)).astype(np.float32)
    try:
        if kind.name in PLAIN:
            array, raw = (x * 20).astype(PLAIN[kind.name]), None
        else:
            try:
                array = quantize(x, kind)
            except NotImplementedError:  # gguf-py reads these, but does not make them: any blocks
                block, size = gguf.GGML_QUANT_SIZES[kind]
                array = rng.integers(0, 256, (3, 512 // block * size)).astype(np.uint8)
            raw = kind
        for order in (gguf.GGUFEndian.LITTLE, gguf.GGUFEndian.BIG):
            if order == gguf.GGUFEndian.BIG and kind.name not in PLAIN:
                continue
            path = write(
                "%s-%s.gguf" % (kind.name, order.name.lower()),
                {"blk.0.w": (array, raw), "one": (x[0, :3].copy(), None)},
                endianess=order,
            )
            if order == gguf.GGUFEndian.LITTLE:
                files.add(path.name, read(path))
            else:
                files.add(path.name, {"blk.0.w": array, "one": x[0, :3].copy()})
        if kind.name not in PLAIN and kind.name != "BF16":
            try:
                floats = dequantize(array, kind).astype("<f4")
            except NotImplementedError:
                continue
            path = write("%s-floats.gguf" % kind.name, {"blk.0.w": (array, raw)})
            files.add(path.name, {"blk.0.w": rows(floats) + rows(array)}, options=["--dequantize"])
    except Exception as e:
        files.skip(kind.name, e)
meta = [
    ("add_uint8", "u8", 3),
    ("add_int8", "i8", -3),
    ("add_uint16", "u16", 3),
    ("add_int16", "i16", -3),
    ("add_uint32", "u32", 3),
    ("add_int32", "i32", -3),
    ("add_float32", "f32", 0.5),
    ("add_uint64", "u64", 3),
    ("add_int64", "i64", -3),
    ("add_float64", "f64", 0.5),
    ("add_bool", "b", True),
    ("add_string", "s", "text"),
    ("add_array", "list", [1, 2, 3]),
    ("add_array", "texts", ["a", "ü"]),
    ("add_array", "floats", [0.5, 1.5]),
]
for i, row in enumerate(meta):
    path = write("meta-%02d.gguf" % i, {"w": (np.arange(6, dtype=np.float32), None)}, [row])
    files.add(path.name, read(path))
path = write("meta-all.gguf", {"w": (np.arange(6, dtype=np.float32), None)}, meta)
files.add(path.name, read(path))
path = write("empty-metadata-only.gguf", {}, meta)
files.add(path.name, {}, not_converted="no tensor")
for alignment in (8, 64, 4096):
    path = files.path("aligned-%d.gguf" % alignment)
    w = gguf.GGUFWriter(path, "llama")
    w.add_custom_alignment(alignment)
    for i in range(3):
        w.add_tensor("t%d" % i, rng.standard_normal(5 + i).astype(np.float32))
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()
    files.add(path.name, read(path))
w = gguf.GGUFWriter(files.path("split.gguf"), "llama", split_max_tensors=2)
wanted = {}
for i in range(5):
    wanted["t%d" % i] = rng.standard_normal((4, 4 + i)).astype(np.float32)
    w.add_tensor("t%d" % i, wanted["t%d" % i])
w.write_header_to_file()
w.write_kv_data_to_file()
w.write_tensors_to_file()
w.close()
files.add("split-00001-of-00003.gguf", wanted)
sys.exit(files.close())
