#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""write_mindspore.py FOLDER - checkpoints by MindSpore: every type, pieces, checksums, encryption, optimizers, MindIR."""

import os
import sys

import mindspore as ms
import numpy as np
from expect import Files, sha
from mindspore import nn
from mindspore.train import serialization

KINDS = {
    "Float32": "F32",
    "Float16": "F16",
    "Float64": "F64",
    "BFloat16": "BF16",
    "Int8": "I8",
    "UInt8": "U8",
    "Int16": "I16",
    "UInt16": "U16",
    "Int32": "I32",
    "UInt32": "U32",
    "Int64": "I64",
    "UInt64": "U64",
    "Bool": "BOOL",
    "Complex64": "C64",
    "Float8_E4M3FN": "F8_E4M3",
    "Float8_E5M2": "F8_E5M2",
}
files = Files("mindspore " + ms.__version__)
rng = np.random.default_rng(42)


def put(name, tensors, option="", **how):
    path = files.path(name)
    try:
        made = [{"name": k, "data": v} for k, v in tensors.items()] if isinstance(tensors, dict) else tensors
        ms.save_checkpoint(made, str(path), **how)
        os.chmod(path, 0o644)
        found, named = {}, []
        for key, value in ms.load_checkpoint(str(path)).items():
            if isinstance(value, str):
                named.append(key)
            elif str(value.dtype) in KINDS:
                found[key] = [[KINDS[str(value.dtype)], list(value.shape), sha(value.get_bytes())]]
            else:
                named.append(key)
    except Exception as e:
        files.skip(name, e)
        return
    files.add(name, found, named)


for kind in "b1 u1 i1 u2 i2 u4 i4 u8 i8 f2 f4 f8 c8 c16".split():
    value = (np.abs(rng.standard_normal((3, 5))) * 20).astype(kind)
    put("type-%s.ckpt" % kind, {"w": ms.Tensor(value), "s": ms.Tensor(value[0, 0])})
    put("crc-%s.ckpt" % kind, {"w": ms.Tensor(value)}, crc_check=True)
for kind in ("bfloat16", "float8_e4m3fn", "float8_e5m2", "hifloat8", "qint4x2", "int4"):
    if not hasattr(ms, kind):
        files.skip(kind, "MindSpore has no such type")
        continue
    try:
        value = ms.Tensor(rng.standard_normal((2, 4)).astype("f4")).astype(getattr(ms, kind))
        put("type-%s.ckpt" % kind, {"w": value})
    except Exception as e:
        files.skip(kind, e)
w = ms.Tensor(rng.standard_normal((5, 6)).astype("f4"))
put("numbers.ckpt", {"w": w}, append_dict={"epoch": 3, "lr": 0.5, "flag": True, "text": "x"})
put("parameters.ckpt", {"w": ms.Parameter(w, name="w"), "moments.w": ms.Parameter(w * 2, name="m")})
put(
    "shapes.ckpt",
    {"a": ms.Tensor(np.zeros((1,) * 6, "f4")), "b": ms.Tensor(np.array([1.5], "f4")), "c": ms.Tensor(5)},
)
put("names.ckpt", {"名/w": w, "a b": w, "x" * 200: w})
put("many.ckpt", {"t%d" % i: ms.Tensor(np.full((2,), i, "f4")) for i in range(300)})
for name, cell in {
    "dense": nn.Dense(3, 4),
    "conv": nn.Conv2d(3, 4, 3),
    "norm": nn.BatchNorm2d(4),
    "lstm": nn.LSTM(3, 4),
}.items():
    put("cell-%s.ckpt" % name, cell)
for name in ("Adam", "Momentum", "SGD", "RMSProp", "AdamWeightDecay"):
    try:
        cell = nn.Dense(3, 4)
        args = (0.1, 0.9) if name == "Momentum" else ()
        optimizer = getattr(nn, name)(cell.trainable_params(), *args)
        put("optimizer-%s.ckpt" % name, {p.name: p for p in optimizer.get_parameters()})
    except Exception as e:
        files.skip(name, e)
for mode in ("AES-GCM", "AES-CBC", "SM4-CBC"):
    try:
        path = files.path("encrypted-%s.ckpt" % mode)
        ms.save_checkpoint([{"name": "w", "data": w}], str(path), enc_key=b"0123456789ABCDEF", enc_mode=mode)
        os.chmod(path, 0o644)
        files.add(path.name, {}, not_converted="what only its key opens")
    except Exception as e:
        files.skip(mode, e)
for kind in ("safetensors",):
    try:
        path = files.path("own.safetensors")
        ms.save_checkpoint([{"name": "w", "data": w}], str(path), format=kind)
        os.chmod(path, 0o644)
        files.add(path.name, {"w": [["F32", [5, 6], sha(w.get_bytes())]]})
    except Exception as e:
        files.skip(kind, e)
try:
    net = nn.Dense(3, 4)
    ms.export(
        net, ms.Tensor(np.ones((2, 3), "f4")), file_name=str(files.path("program")), file_format="MINDIR"
    )
    os.chmod(files.path("program.mindir"), 0o644)
    files.add("program.mindir", {}, named=["weight"])
except Exception as e:
    files.skip("mindir", e)
serialization.SLICE_SIZE = 1  # KiB: parameters in pieces, as those of more than 512 MiB are
for kind in ("f4", "f2", "i4", "u1"):
    value = (np.abs(rng.standard_normal((7, 11, 13))) * 9).astype(kind)
    put("pieces-%s.ckpt" % kind, {"big": ms.Tensor(value), "small": ms.Tensor(np.arange(4))})
    put("pieces-crc-%s.ckpt" % kind, {"big": ms.Tensor(value)}, crc_check=True)
sys.exit(files.close())
