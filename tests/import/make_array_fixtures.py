#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""make_array_fixtures.py - writes fixtures/numpy.npz, numpy-big-fortran.npy and types.gguf with numpy and gguf-py, and
what they hold (arrays.json: name, type, shape, SHA-256 of the values, little-endian in C order) beside them.

Made with numpy 2.4.6 and gguf 0.19.0. Run by hand; the files are checked in."""

import hashlib
import json
import pathlib

import gguf
import numpy as np
from gguf.quants import dequantize, quantize

HERE = pathlib.Path(__file__).resolve().parent / "fixtures"
NAMES = {
    "b1": "BOOL",
    "u1": "U8",
    "i1": "I8",
    "u2": "U16",
    "i2": "I16",
    "f2": "F16",
    "u4": "U32",
    "i4": "I32",
    "f4": "F32",
    "u8": "U64",
    "i8": "I64",
    "f8": "F64",
    "c8": "C64",
}


def row(a):
    a = np.ascontiguousarray(a)
    raw = a.astype(a.dtype.newbyteorder("<")).tobytes()
    return [NAMES[a.dtype.str[1:]], list(a.shape), hashlib.sha256(raw).hexdigest()]


def main():
    rng = np.random.default_rng(5)
    truth = {}
    arrays = {"t." + t: rng.integers(0, 2 if t == "b1" else 100, (2, 3)).astype(t) for t in NAMES}
    np.savez_compressed(HERE / "numpy.npz", **arrays)
    truth["numpy.npz"] = {k: row(v) for k, v in arrays.items()}
    a = np.asfortranarray(rng.standard_normal((3, 5)).astype(">f8"))
    np.save(HERE / "numpy-big-fortran.npy", a)
    truth["numpy-big-fortran.npy"] = {"arr_0": row(a)}
    w = gguf.GGUFWriter(HERE / "types.gguf", "llama")
    w.add_uint32("llama.block_count", 2)
    w.add_array("tokens", ["a", "b"])
    raw, floats = {}, {}
    for name in ("Q4_0", "Q8_0", "MXFP4"):
        t = gguf.GGMLQuantizationType[name]
        q = quantize(rng.standard_normal((2, 32)).astype(np.float32), t)
        w.add_tensor(name, q, raw_dtype=t)
        raw[name] = row(q)
        floats[name] = row(dequantize(q, t).astype("<f4"))
    x = rng.standard_normal((3, 4)).astype(np.float16)
    w.add_tensor("half", x)
    raw["half"] = floats["half"] = row(x)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()
    truth["types.gguf"] = raw
    truth["types.gguf --dequantize"] = floats
    (HERE / "arrays.json").write_text(json.dumps(truth, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
