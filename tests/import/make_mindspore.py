#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""make_mindspore.py FOLDER - checkpoints by the installed mindspore, and mindspore.json: what its load_checkpoint makes
of them. Run by hand for fixtures/ (mindspore 2.10.0, numpy 2.4.6), and by scripts/import_peers.sh."""

import hashlib
import json
import os
import pathlib
import sys

import mindspore as ms
import numpy as np
from mindspore.train import serialization

NAMES = {
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
}


def loaded(path: pathlib.Path) -> dict[str, list]:
    """What MindSpore has of a file: name -> type, shape, SHA-256 of the bytes."""
    rows = {}
    for name, value in ms.load_checkpoint(str(path)).items():
        if not isinstance(value, str):
            digest = hashlib.sha256(value.get_bytes()).hexdigest()
            rows[name] = [NAMES[str(value.dtype)], list(value.shape), digest]
    return rows


def main() -> int:
    folder = pathlib.Path(sys.argv[1])
    rng = np.random.default_rng(7)
    content = {}

    def put(name: str, tensors: dict, **how) -> None:
        if (folder / name).exists():
            os.chmod(folder / name, 0o600)
        ms.save_checkpoint([{"name": k, "data": v} for k, v in tensors.items()], str(folder / name), **how)
        os.chmod(folder / name, 0o644)  # mindspore makes it read-only
        content[name] = loaded(folder / name)

    plain = [
        np.float32,
        np.float16,
        np.float64,
        np.int8,
        np.uint8,
        np.int16,
        np.uint16,
        np.int32,
        np.uint32,
        np.int64,
        np.uint64,
        np.bool_,
    ]
    every = {
        "all." + np.dtype(t).name: ms.Tensor((rng.standard_normal((3, 5)) * 50).astype(t)) for t in plain
    }
    every["all.bfloat16"] = ms.Tensor(rng.standard_normal((2, 3)).astype(np.float32)).astype(ms.bfloat16)
    every["scalar"] = ms.Tensor(np.array(5, dtype=np.int64))
    every["one"] = ms.Tensor(np.array([1.5], dtype=np.float32))
    every["名前/weight"] = ms.Tensor(np.array([[np.nan, np.inf], [-0.0, 1e-40]], dtype=np.float32))
    more = {"epoch": 3, "lr": 0.5, "flag": True, "text": "kept out"}
    put("mindspore.ckpt", every, append_dict=more)
    put("mindspore-crc.ckpt", every, crc_check=True)
    serialization.SLICE_SIZE = 1  # KiB: parameters in pieces, as those of more than 512 MiB are
    big = {
        "flat": ms.Tensor(rng.standard_normal(1500).astype(np.float32)),
        "matrix": ms.Tensor(rng.standard_normal((7, 11, 13)).astype(np.float32)),
        "small": ms.Tensor(np.arange(4, dtype=np.int32)),
        "halves": ms.Tensor(rng.standard_normal((33, 61)).astype(np.float16)),
    }
    put("mindspore-pieces.ckpt", big)
    arrays = {k: v.asnumpy() for k, v in big.items()}
    put("mindspore-pieces-crc.ckpt", {k: ms.Tensor(v) for k, v in arrays.items()}, crc_check=True)
    ms.save_checkpoint(
        [{"name": "w", "data": every["one"]}],
        str(folder / "mindspore-encrypted.ckpt"),
        enc_key=b"0123456789ABCDEF",
    )
    os.chmod(folder / "mindspore-encrypted.ckpt", 0o644)
    content["mindspore-encrypted.ckpt"] = {"refused": "encrypted MindSpore checkpoint"}
    text = json.dumps(content, indent=1, sort_keys=True, ensure_ascii=False)
    (folder / "mindspore.json").write_text(text + "\n", encoding="utf-8")
    print("mindspore", ms.__version__, sum(len(v) for v in content.values()), "tensors")
    return 0


if __name__ == "__main__":
    sys.exit(main())
