# SPDX-License-Identifier: Apache-2.0 OR MIT
"""get.py - `safetensors get` against numpy: random tensors, random ranges, .npy read back by numpy.load.

usage: get.py --tool PATH [--count N] [--seed N]
"""

import argparse
import json
import os
import random
import struct
import subprocess
import tempfile

import numpy as np

DTYPES = {
    "F64": "<f8",
    "F32": "<f4",
    "F16": "<f2",
    "I64": "<i8",
    "I32": "<i4",
    "I16": "<i2",
    "I8": "|i1",
    "U64": "<u8",
    "U32": "<u4",
    "U16": "<u2",
    "U8": "|u1",
    "BOOL": "|b1",
    "C64": "<c8",
}


def write(path, arrays):
    header, body, at = {}, b"", 0
    for name, (dtype, array) in arrays.items():
        data = array.tobytes()
        header[name] = {"dtype": dtype, "shape": list(array.shape), "data_offsets": [at, at + len(data)]}
        body += data
        at += len(data)
    text = json.dumps(header).encode()
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + body)


def random_array(rng, dtype):
    shape = [
        rng.choice([0, 1, 2, 3, 5, 7, 16]) if rng.random() < 0.9 else 33 for _ in range(rng.randrange(5))
    ]
    n = int(np.prod(shape, dtype=np.int64))
    if rng.random() < 0.05:  # larger than one block of the tool
        shape, n = [rng.choice([700, 1000]), 300], None
        n = shape[0] * shape[1]
    raw = np.random.default_rng(rng.randrange(1 << 30)).integers(0, 100, n)
    return raw.astype(DTYPES[dtype]).reshape(shape)


def random_index(rng, n):
    def edge():
        return rng.choice(["", str(rng.randint(-n - 2, n + 2))])

    step = rng.choice(["", "", ":", ":%d" % rng.choice([1, 2, 3, -1, -2, -5])])
    if n > 0 and rng.random() < 0.3:
        return str(rng.randint(-n, n - 1))
    return edge() + ":" + edge() + step


def random_ranges(rng, shape):
    rank = len(shape)
    items = [random_index(rng, n) for n in shape]
    if rng.random() < 0.3:  # an ellipsis in place of some of them
        a = rng.randint(0, rank)
        b = rng.randint(a, rank)
        items[a:b] = ["..."]
    elif rng.random() < 0.3:
        items = items[: rng.randint(0, rank)]
    return rng.choice([", ", ","]).join(items)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tool", required=True)
    parser.add_argument("--count", type=int, default=1500)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    rng = random.Random(args.seed)
    empty = whole = 0
    with tempfile.TemporaryDirectory() as folder:
        path, out = os.path.join(folder, "m.safetensors"), os.path.join(folder, "o.npy")
        for i in range(args.count):
            if i % 50 == 0:
                arrays = {"t%d" % k: (d, random_array(rng, d)) for k, d in enumerate(list(DTYPES) * 2)}
                write(path, arrays)
            name = rng.choice(list(arrays))
            dtype, array = arrays[name]
            ranges = random_ranges(rng, array.shape)
            want = eval("array[%s]" % ranges) if ranges else array
            operand = "%s[%s]" % (name, ranges)
            subprocess.run([args.tool, "get", "-f", path, operand, "-o", out], check=True)
            got = np.load(out)
            assert got.dtype.str == DTYPES[dtype] and got.shape == want.shape, (
                operand,
                got.shape,
                want.shape,
            )
            assert got.tobytes() == np.ascontiguousarray(want).tobytes(), (operand, array.shape)
            raw = subprocess.run(
                [args.tool, "get", path, operand, "-o", "-"], check=True, capture_output=True
            )
            assert raw.stdout == np.ascontiguousarray(want).tobytes(), operand
            empty += want.size == 0
            whole += want.size == array.size
    print("%d slices agree with numpy (%d empty, %d of whole tensors)" % (args.count, empty, whole))
    assert 0 < empty < args.count / 2


if __name__ == "__main__":
    main()
