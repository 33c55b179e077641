#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""make_flax.py FOLDER - files by the installed flax, and flax.json: what its msgpack_restore makes of them. Run by hand
for fixtures/ (flax 0.12.8, jax 0.10.2, msgpack 1.2.4, numpy 2.4.6), and by scripts/import_peers.sh."""

import hashlib
import json
import pathlib
import sys

import flax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
from flax import serialization

NAMES = {
    "float32": "F32",
    "float64": "F64",
    "float16": "F16",
    "bfloat16": "BF16",
    "int8": "I8",
    "uint8": "U8",
    "int16": "I16",
    "uint16": "U16",
    "int32": "I32",
    "uint32": "U32",
    "int64": "I64",
    "uint64": "U64",
    "bool": "BOOL",
    "complex64": "C64",
    "float8_e4m3fn": "F8_E4M3",
    "float8_e5m2": "F8_E5M2",
    "float8_e4m3fnuz": "F8_E4M3FNUZ",
    "float8_e5m2fnuz": "F8_E5M2FNUZ",
    "float8_e8m0fnu": "F8_E8M0",
}


def rows(tree, prefix=""):
    """What flax has of a file: name -> type, shape, SHA-256."""
    found = {}
    for key, value in tree.items():
        if isinstance(value, dict):
            found.update(rows(value, prefix + str(key) + "."))
        elif hasattr(value, "dtype"):
            value = np.asarray(value)
            digest = hashlib.sha256(value.tobytes()).hexdigest()
            found[prefix + str(key)] = [NAMES[value.dtype.name], list(value.shape), digest]
    return found


def main() -> int:
    folder = pathlib.Path(sys.argv[1])
    rng = np.random.default_rng(5)
    content = {}

    def put(name: str, tree) -> None:
        (folder / name).write_bytes(serialization.to_bytes(tree))
        content[name] = rows(serialization.msgpack_restore((folder / name).read_bytes()))

    every = {}
    for name in NAMES:
        kind = np.dtype(getattr(ml_dtypes, name)) if hasattr(ml_dtypes, name) else np.dtype(name)
        every[name] = np.abs(rng.standard_normal((3, 5)) * 20).astype(kind)
    params = {
        "params": {
            "dense": {"kernel": jnp.ones((3, 4), jnp.bfloat16), "bias": np.zeros(4, np.float32)},
            "list": [np.arange(3), (np.float32(2.5), np.int64(-7))],
            "every": every,
            "empty": np.zeros((0, 2), np.float32),
            "scalar": np.array(1.5),
            "fortran": np.asfortranarray(rng.standard_normal((4, 3)).astype(np.float32)),
            "名前": np.array([[np.nan, -np.inf]], np.float16),
            "long " + "x" * 300: np.ones(2, np.int8),
        },
        "step": 12,
        "rate": 0.1,
        "z": 1 + 2j,
        "none": None,
        "flag": True,
        "text": "kept out",
    }
    put("flax.msgpack", params)
    serialization.MAX_CHUNK_SIZE = 100  # bytes: arrays in chunks, as those of more than 1 GiB are
    put(
        "flax-chunks.msgpack",
        {
            "a": {
                "matrix": rng.standard_normal((7, 11)).astype(np.float32),
                "cube": rng.integers(0, 255, (3, 5, 13)).astype(np.uint8),
            },
            "small": np.arange(4),
            "halves": rng.standard_normal((2, 101)).astype(np.float16),
        },
    )
    serialization.MAX_CHUNK_SIZE = 2**30
    small = {}
    for name in (
        "int1",
        "int2",
        "int4",
        "uint1",
        "uint2",
        "uint4",
        "float4_e2m1fn",
        "float6_e2m3fn",
        "float6_e3m2fn",
        "float8_e3m4",
        "float8_e4m3",
        "float8_e4m3b11fnuz",
        "float8_e8m0fnu",
    ):
        small[name] = (rng.standard_normal((4, 6)) * 3).astype(np.dtype(getattr(ml_dtypes, name)))
    small["odd"] = (rng.standard_normal((3, 5)) * 3).astype(ml_dtypes.float4_e2m1fn)
    (folder / "flax-small.msgpack").write_bytes(serialization.to_bytes(small))
    given = {}
    for name, value in serialization.msgpack_restore((folder / "flax-small.msgpack").read_bytes()).items():
        kind, raw = "U8", value.tobytes()
        if name.startswith("int"):  # numbers as I8
            kind, raw = "I8", value.astype(np.int8).tobytes()
        elif name == "float4_e2m1fn":  # two to a byte, the first in the low half
            kind, raw = "F4", bytes(raw[i] & 15 | (raw[i + 1] & 15) << 4 for i in range(0, len(raw), 2))
        elif name == "float8_e8m0fnu":
            kind = "F8_E8M0"
        given[name] = [kind, list(value.shape), hashlib.sha256(raw).hexdigest()]
    content["flax-small.msgpack"] = given
    text = json.dumps(content, indent=1, sort_keys=True, ensure_ascii=False)
    (folder / "flax.json").write_text(text + "\n", encoding="utf-8")
    print("flax", flax.__version__, sum(len(v) for v in content.values()), "tensors")
    return 0


if __name__ == "__main__":
    sys.exit(main())
