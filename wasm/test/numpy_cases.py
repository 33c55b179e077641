# SPDX-License-Identifier: Apache-2.0 OR MIT
"""numpy_cases.py FOLDER COUNT - a model, and so many random slices of it with what numpy says they are.

FOLDER/model.safetensors, cases.json, wanted.bin. Needs numpy and ml_dtypes.
"""

import json
import pathlib
import random
import struct
import sys

import ml_dtypes
import numpy as np

TYPES = {
    "BOOL": np.bool_,
    "U8": np.uint8,
    "I8": np.int8,
    "U16": np.uint16,
    "I16": np.int16,
    "U32": np.uint32,
    "I32": np.int32,
    "U64": np.uint64,
    "I64": np.int64,
    "F16": np.float16,
    "BF16": ml_dtypes.bfloat16,
    "F8_E4M3": ml_dtypes.float8_e4m3fn,
    "F8_E5M2": ml_dtypes.float8_e5m2,
    "F8_E8M0": ml_dtypes.float8_e8m0fnu,
    "F8_E4M3FNUZ": ml_dtypes.float8_e4m3fnuz,
    "F8_E5M2FNUZ": ml_dtypes.float8_e5m2fnuz,
    "F32": np.float32,
    "F64": np.float64,
    "C64": np.complex64,
}
# Exact whatever the value, so that numpy is an oracle without rules of its own.
EXACT = {
    "F32": [
        "F16",
        "BF16",
        "F8_E4M3",
        "F8_E5M2",
        "F8_E8M0",
        "F8_E4M3FNUZ",
        "F8_E5M2FNUZ",
        "U8",
        "I8",
        "I16",
        "U16",
    ],
    "F64": ["F32", "F16", "BF16", "I32", "U32"],
    "I64": ["I8", "I16", "I32", "U8", "U16", "U32"],
}


def array(rng, name, shape):
    count = int(np.prod(shape, dtype=np.int64))
    dtype = np.dtype(TYPES[name])
    if name == "BOOL":
        return rng.integers(0, 2, count).astype(np.bool_).reshape(shape)
    raw = rng.integers(0, 256, count * dtype.itemsize, dtype=np.uint8)
    return np.frombuffer(raw.tobytes(), dtype).reshape(shape)


def random_slice(rnd, shape):
    text = []
    index = []
    rank = rnd.randrange(len(shape) + 1)
    for size in shape[:rank]:
        if size > 0 and rnd.random() < 0.25:
            i = rnd.randrange(-size, size)
            text.append(str(i))
            index.append(i)
            continue
        start, stop = (rnd.choice([None, rnd.randint(-size - 2, size + 2)]) for _ in range(2))
        step = rnd.choice([None, None, 1, 2, 3, -1, -2])
        parts = ["" if x is None else str(x) for x in (start, stop)]
        text.append(":".join(parts) + ("" if step is None else ":%d" % step))
        index.append(slice(start, stop, step))
    if rnd.random() < 0.2:
        text.append("...")
        index.append(Ellipsis)
    return ", ".join(text), tuple(index)


def main():
    folder = pathlib.Path(sys.argv[1])
    rng = np.random.default_rng(1)
    rnd = random.Random(1)
    arrays = {}
    for name in TYPES:
        for i in range(4):
            shape = tuple(rnd.randint(0 if i == 3 else 1, 9) for _ in range(rnd.randint(0, 4)))
            arrays["%s.%d" % (name, i)] = (name, array(rng, name, shape))
    header, data = {}, b""
    for key, (name, a) in arrays.items():
        begin = len(data)
        data += a.tobytes()
        header[key] = {"dtype": name, "shape": list(a.shape), "data_offsets": [begin, len(data)]}
    text = json.dumps(header).encode()
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)

    cases, wanted = [], b""
    for _ in range(int(sys.argv[2])):
        key = rnd.choice(list(arrays))
        name, a = arrays[key]
        text, index = random_slice(rnd, a.shape)
        to = rnd.choice([None] + [t for t, sources in EXACT.items() if name in sources])
        with np.errstate(all="ignore"):
            got = np.asarray(a[index])
            got = got if to is None else got.astype(TYPES[to])
        if to is not None and np.isnan(got.astype(np.float64)).any():
            to, got = None, np.asarray(a[index])  # which NaN it is, is another test's matter
        raw = np.ascontiguousarray(got).tobytes()
        cases.append(
            {
                "name": key,
                "slice": text,
                "dtype": to,
                "shape": list(got.shape),
                "begin": len(wanted),
                "end": len(wanted) + len(raw),
            }
        )
        wanted += raw
    (folder / "cases.json").write_text(json.dumps(cases))
    (folder / "wanted.bin").write_bytes(wanted)


main()
