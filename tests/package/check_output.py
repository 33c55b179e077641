#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""check_output.py MODEL TENSOR FILE - FILE holds exactly the first two rows of the tensor.
check_output.py --f32 MODEL FILE - FILE holds every floating-point tensor of the model as F32.
Reads the files by itself (standard library), so that it does not depend on what it checks."""

import glob
import json
import os
import struct
import sys


def load(path):
    with open(path, "rb") as f:
        data = f.read()
    (n,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + n])
    metadata = header.pop("__metadata__", None)
    return {
        k: (v["dtype"], v["shape"], data[8 + n + v["data_offsets"][0] : 8 + n + v["data_offsets"][1]])
        for k, v in header.items()
    }, metadata


def model(folder):
    out = {}
    for path in sorted(glob.glob(os.path.join(folder, "*.safetensors"))):
        out.update(load(path)[0])
    return out


def same(got, want, what):
    if got != want:
        sys.exit("%s: not what it must be" % what)


def main():
    if sys.argv[1] == "--f32":
        want = model(sys.argv[2])
        got, metadata = load(sys.argv[3])
        same(metadata, {"made_by": "cpp_to_f32"}, "metadata")
        same(sorted(got), sorted(want), "names")
        for name, (dtype, shape, data) in want.items():
            if dtype == "BF16":
                data = b"".join(b"\0\0" + data[i : i + 2] for i in range(0, len(data), 2))
            else:
                same(dtype, "F32", name)
            same(got[name], ("F32", shape, data), name)
        print("%d tensors right" % len(got))
        return
    folder, name, path = sys.argv[1:]
    dtype, shape, data = model(folder)[name]
    row = len(data) // shape[0]
    got, _ = load(path)
    same(got, {name: (dtype, [2] + shape[1:], data[: 2 * row])}, path)
    print("rows right")


main()
