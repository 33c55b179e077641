#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""write_numpy.py FOLDER - .npy and .npz of every type, order and version, with what numpy.load says of them."""

import io
import sys
import zipfile

import ml_dtypes
import numpy as np
from expect import Files

files = Files("numpy " + np.__version__)
rng = np.random.default_rng(31)


def values(kind, shape=(4, 6)):
    dtype = np.dtype(kind)
    if dtype.kind == "b":
        return rng.integers(0, 2, shape).astype(dtype)
    if dtype.kind in "SU":
        return np.array([["a", "bc", "def"] * 2] * 4).astype(dtype)
    raw = rng.integers(0, 256, int(np.prod(shape)) * dtype.itemsize, dtype=np.uint8)
    return np.frombuffer(raw.tobytes(), dtype=dtype).reshape(shape)


def one(name, array, version=None, **load):
    path = files.path(name + ".npy")
    with open(path, "wb") as f:
        np.lib.format.write_array(f, array, version=version)
    loaded = np.load(path, **load)
    files.add(path.name, {"arr_0": loaded})


for kind in "b1 u1 i1 u2 i2 u4 i4 u8 i8 f2 f4 f8 c8".split():
    for order in "<>":
        if kind in ("b1", "u1", "i1") and order == ">":
            continue
        for layout in "CF":
            one(
                "%s-%s-%s" % (kind, "little" if order == "<" else "big", layout),
                np.asarray(values(order + kind), order=layout),
            )
for version in ((1, 0), (2, 0), (3, 0)):
    one("version%d" % version[0], values("<f4"), version)
for shape in ((), (0,), (0, 3), (1,), (2, 3, 4, 5), (1, 1, 1, 1, 1, 1), (100000,)):
    one("shape-" + "x".join(map(str, shape)), values("<f4", shape))
one("negative-strides", values("<i4")[::-1, ::-2])
for kind in (
    "g",
    "c16",
    "G",
    "M8[s]",
    "m8[ns]",
    "S3",
    "U3",
    "V3",
    "V4",
    "V8",
):  # what safetensors has no type for
    one("odd-" + kind.replace("[", "-").replace("]", ""), values(kind))
one("odd-record", np.zeros(3, [("a", "<f4"), ("b", "<i2", (2,))]))
one("odd-object", np.array([{"a": 1}, None], dtype=object), allow_pickle=True)
for kind in ("V1", "V2"):
    one("untyped-" + kind, values(kind))
for name in sorted(k for k in vars(ml_dtypes) if k.startswith(("bfloat", "float", "int", "uint"))):
    kind = np.dtype(getattr(ml_dtypes, name))
    try:
        one("ml-" + name, (np.abs(rng.standard_normal((3, 4))) * 2).astype(kind))
    except Exception as e:
        files.skip("ml-" + name, e)
every = {kind: values("<" + kind) for kind in "b1 u1 i1 u2 i2 u4 i4 u8 i8 f2 f4 f8 c8".split()}
for name, save in (("stored", np.savez), ("deflated", np.savez_compressed)):
    for part, arrays in (
        ("every", every),
        ("big", {k: v.astype(v.dtype.newbyteorder(">")) for k, v in every.items()}),
        ("names", {"a/b": every["f4"], "名前": every["f8"], "with space": every["i2"], "a.b": every["u1"]}),
        ("odd", {"text": np.array(["a", "b"]), "w": every["f4"], "none": np.array(None)}),
        ("scalars", {"a": np.float32(3), "b": np.int64(4), "c": np.bool_(True)}),
        ("none", {}),
    ):
        path = files.path("%s-%s.npz" % (name, part))
        save(path, **arrays)
        with np.load(path, allow_pickle=True) as z:
            loaded = {k: z[k] for k in z.files}
        more = {} if loaded else {"not_converted": "no array"}
        files.add(path.name, loaded, **more)
for extra in ("config.json", "README.md", "sub/other.npy"):
    path = files.path("with-%s.npz" % extra.replace("/", "-"))
    np.savez(path, w=every["f4"])
    with zipfile.ZipFile(path, "a") as z:
        member = io.BytesIO()
        np.save(member, every["f8"])
        z.writestr(extra, member.getvalue() if extra.endswith("npy") else b'{"a": 1}')
    wanted = {"w": every["f4"]}
    if extra.endswith("npy"):
        wanted["sub/other"] = every["f8"]
    files.add(path.name, wanted)
path = files.path("two.npy")  # two arrays, one after the other: np.load reads the first
with open(path, "wb") as f:
    np.save(f, every["f4"])
    np.save(f, every["i4"])
files.add(path.name, {"arr_0": np.load(path)}, named=["behind"])
sys.exit(files.close())
