#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""write_joblib.py FOLDER - joblib.dump with every compressor and level, of arrays, of trees of arrays, of models."""

import gzip
import pickle
import sys
import warnings

import joblib
import numpy as np
from expect import Files, rows
from sklearn import linear_model

warnings.filterwarnings("ignore")
files = Files("joblib " + joblib.__version__)
rng = np.random.default_rng(39)


def flat(value, prefix="", found=None):
    found = {} if found is None else found
    if isinstance(value, np.ndarray):
        found[prefix or "*"] = rows(value)
    elif isinstance(value, (dict, list, tuple)):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            flat(item, "%s.%s" % (prefix, key) if prefix else str(key), found)
    return found


def put(name, value, named=(), **how):
    try:
        joblib.dump(value, files.path(name), **how)
    except Exception as e:
        files.skip(name, e)
        return
    found = flat(joblib.load(files.path(name)))
    files.add(name, found, named, **({} if found or named else {"not_converted": "no array"}))


x = rng.standard_normal((30, 40)).astype("f4")
tree = {"w": x, "list": [x[0].astype("f8"), {"deep": np.arange(5)}], "n": 3, "t": "text"}
for kind in "b1 u1 i1 u2 i2 u4 i4 u8 i8 f2 f4 f8 c8 c16 >f4 >i8 g S3 U3 M8[s]".split():
    value = (
        np.array(["a", "bc"] * 4).astype(kind)
        if kind[0] in "SU"
        else (np.abs(rng.standard_normal((4, 6))) * 9).astype("i8").astype(kind)
    )
    name = kind.replace("[", "-").replace("]", "").replace(">", "big-")
    put("type-%s.joblib" % name, {"w": value, "v": x})
    put("type-%s.z" % name, {"w": value, "v": x}, compress=3)
for how in (
    0,
    1,
    9,
    True,
    ("zlib", 6),
    ("gzip", 3),
    ("bz2", 9),
    ("xz", 3),
    ("lzma", 3),
    ("lz4", 3),
    "zlib",
    "gzip",
    "bz2",
    "xz",
    "lzma",
    "lz4",
):
    label = str(how).replace("(", "").replace(")", "").replace("'", "").replace(", ", "-")
    put("compress-%s.joblib" % label, tree, compress=how)
    put("alone-%s.joblib" % label, x, compress=how)
for end in ("z", "gz", "bz2", "xz", "lzma", "lz4"):  # the extension chooses
    put("extension.joblib." + end, tree)
for protocol in range(2, 6):
    put("protocol%d.joblib" % protocol, tree, protocol=protocol)
put("fortran.joblib", {"w": np.asfortranarray(x), "t": x.T, "s": x[::2, ::3]})
put("empty.joblib", {"w": np.zeros((0, 3)), "s": np.array(2.5)})
put("same.joblib", {"a": x, "b": x})
put("big.joblib", {"w": rng.standard_normal(300000)})
put("objects.joblib", {"w": x, "objects": np.array([None, "a"], dtype=object)}, named=["objects"])
put("record.joblib", {"w": x, "record": np.zeros(3, [("a", "f4")])}, named=["record"])
put("scalars.joblib", {"w": x, "f": np.float32(3), "i": np.int64(2)})
put("matrix.joblib", {"w": np.asmatrix(x)})
put("memmap.joblib", {"w": np.memmap(files.path("m.bin"), "f4", "w+", shape=(5, 5))})
put("none.joblib", {"a": 1})
model = linear_model.LogisticRegression().fit(x, np.arange(30) % 3)
joblib.dump(model, files.path("model.joblib"))
files.add("model.joblib", {}, named=["coef_"])
joblib.dump({"model": model, "w": x}, files.path("model-and-array.joblib"))
files.add("model-and-array.joblib", {"w": x}, named=["coef_"])
for protocol in range(6):  # pickles without joblib
    path = files.path("plain%d.pkl" % protocol)
    path.write_bytes(pickle.dumps({"w": x, "list": [x[0]]}, protocol=protocol))
    files.add(path.name, {"w": x, "list.0": x[0]})
    path = files.path("plain%d.pkl.gz" % protocol)
    path.write_bytes(gzip.compress(pickle.dumps({"w": x}, protocol=protocol)))
    files.add(path.name, {"w": x})
sys.exit(files.close())
