#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""write_hdf5.py FOLDER - HDF5 by the installed h5py: types, layouts and filters, each with every version of the file format
that libver gives; what h5py reads of each."""

import sys

import h5py
import ml_dtypes
import numpy as np
from expect import Files, rows

files = Files("h5py %s, HDF5 %s" % (h5py.__version__, h5py.version.hdf5_version))
rng = np.random.default_rng(37)
LIBVER = {
    "earliest": "earliest",
    "v108": ("v108", "v108"),
    "v110": ("v110", "v110"),
    "v112": ("v112", "v112"),
    "v114": ("v114", "v114"),
    "latest": "latest",
    "v200": ("v200", "v200"),
}


def listing(path):
    """(tensors, what is none) as h5py has them."""
    tensors, named = {}, []
    with h5py.File(path, "r") as f:

        def visit(group, prefix, depth):
            for key in group:
                item = group[key]
                if isinstance(item, h5py.Group):
                    if depth < 9:
                        visit(item, prefix + key + "/", depth + 1)
                elif isinstance(item, h5py.Dataset):
                    answers = []
                    if item.shape is not None:
                        value = np.asarray(item[()])
                        answers = rows(value)
                        if value.dtype.kind == "V" and item.attrs.get("dtype") == "bfloat16":
                            answers[0][0] = "BF16"
                    if answers:
                        tensors[prefix + key] = answers
                    else:
                        named.append(prefix + key)

        visit(f, "", 0)
    return tensors, named


def put(name, fill, libver="earliest", more=None, **how):
    path = files.path(name + ".h5")
    try:
        with h5py.File(path, "w", libver=LIBVER[libver], **how) as f:
            fill(f)
        tensors, named = listing(path)
    except Exception as e:
        path.unlink(missing_ok=True)
        files.skip(name, e)
        return
    more = dict(more or {})
    if not tensors and not named:
        more["not_converted"] = "no dataset"
    files.add(path.name, tensors, named, **more)


def data(kind, shape=(23, 17)):
    return (np.abs(rng.standard_normal(shape)) * 20).astype(kind)


TYPES = ["b1", "u1", "i1"] + [o + k for k in "u2 i2 u4 i4 u8 i8 f2 f4 f8 c8 c16".split() for o in "<>"]
versions = [v for v in LIBVER if v != "v200" or h5py.version.hdf5_version_tuple[0] >= 2]
for kind in TYPES:
    name = kind.replace("<", "little-").replace(">", "big-")
    for version in ("earliest", "latest"):

        def fill(f, kind=kind):
            f["plain"] = data(kind)
            f.create_dataset("chunks", data=data(kind), chunks=(5, 4), compression="gzip", shuffle=True)
            f["scalar"] = data(kind, ())
            f["none"] = np.zeros((0, 3), kind)

        put("type-%s-%s" % (name, version), fill, version)
for name in ("bfloat16", "float8_e4m3fn", "float8_e5m2"):
    put("ml-" + name, lambda f: f.create_dataset("w", data=data("f4").astype(getattr(ml_dtypes, name))))
layouts = {
    "contiguous": {},
    "chunks": {"chunks": (5, 4)},
    "whole": {"chunks": (23, 17)},
    "rows": {"chunks": (3, 17), "maxshape": (None, 17)},
    "both": {"chunks": (3, 4), "maxshape": (None, None)},
    "largest": {"chunks": (3, 4), "maxshape": (40, 30)},
    "gzip1": {"chunks": (5, 4), "compression": "gzip", "compression_opts": 1},
    "gzip0": {"compression": "gzip", "compression_opts": 0},
    "gzip9": {
        "chunks": (7, 17),
        "compression": "gzip",
        "compression_opts": 9,
        "shuffle": True,
        "fletcher32": True,
    },
    "shuffle": {"chunks": (5, 4), "shuffle": True},
    "fletcher": {"chunks": (5, 4), "fletcher32": True},
    "lzf": {"compression": "lzf"},
    "scale": {"chunks": (5, 4), "scaleoffset": 0},
    "grown": {"chunks": (5, 4), "maxshape": (None, 17), "compression": "gzip"},
}
for version in versions:
    for name, options in layouts.items():

        def fill(f, options=options, name=name):
            d = f.create_dataset("w", data=data("<i4"), **options)
            f.create_dataset("v", data=data(">i8"), **options)
            if name == "grown":
                d.resize((60, 17))
                d[40:50] = 7

        put("layout-%s-%s" % (name, version), fill, version)

    def sparse(f):
        d = f.create_dataset("sparse", (40, 30), "f4", chunks=(8, 7), fillvalue=-1.5)
        d[10:20, 5:9] = 3
        f.create_dataset("untouched", (40, 30), "f4", chunks=(8, 7))
        f.create_dataset("no data", (4, 3), "f8", fillvalue=7)

    def groups(f):
        for i in range(40):
            f["g%d/h/w%d" % (i % 3, i)] = np.full((2,), i, "i2")

    def nothing(f):
        f["w"] = np.ones(3, "f4")
        f["null"] = h5py.Empty("f4")

    def attributes(f):
        f["w"] = np.ones(3)
        for i in range(20):
            f["w"].attrs["a%d" % i] = "x" * 50

    put("sparse-" + version, sparse, version)
    put("groups-" + version, groups, version)
    put("null-" + version, nothing, version)
    put("attributes-" + version, attributes, version)
w = np.ones((3, 4), "f4")


def odd(f):
    f["w"] = w


cases = {
    "text": lambda f: (odd(f), f.create_dataset("t", data="text")),
    "texts": lambda f: (odd(f), f.create_dataset("t", data=["a", "b"])),
    "fixed": lambda f: (odd(f), f.create_dataset("t", data=np.array([b"ab", b"c"], "S3"))),
    "records": lambda f: (odd(f), f.create_dataset("t", (2,), [("a", "f4"), ("b", "i4")])),
    "references": lambda f: (odd(f), f.create_dataset("t", (1,), h5py.ref_dtype)),
    "lists": lambda f: (odd(f), f.create_dataset("t", (2,), h5py.vlen_dtype("i4"))),
    "arrays": lambda f: (odd(f), f.create_dataset("t", (2,), np.dtype(("f4", (3,))))),
    "opaque": lambda f: (odd(f), f.create_dataset("t", data=np.zeros(3, "V7"))),
    "enum": lambda f: (odd(f), f.create_dataset("t", data=[0, 1], dtype=h5py.enum_dtype({"A": 0, "B": 1}))),
    "longdouble": lambda f: f.create_dataset("t", data=np.ones(3, "g")),
    "time": lambda f: (odd(f), f.create_dataset("t", data=np.arange(3).astype(h5py.opaque_dtype("M8[s]")))),
    "soft": lambda f: (odd(f), f.__setitem__("s", h5py.SoftLink("/w"))),
    "hard": lambda f: (odd(f), f.__setitem__("h", f["w"])),
    "hard-group": lambda f: (f.create_dataset("g/w", data=w), f.__setitem__("h", f["g"])),
    "named-type": lambda f: (
        f.__setitem__("type", np.dtype("f8")),
        f.create_dataset("w", data=np.ones(3), dtype=f["type"]),
    ),
    "empty": lambda f: None,
    "groups-only": lambda f: f.create_group("a/b"),
    "odd-name": lambda f: f.create_dataset("名/ a.b", data=w),
    "large-attribute": lambda f: f.create_dataset("w", data=w).attrs.__setitem__("a", np.zeros(8000)),
    "rank": lambda f: f.create_dataset("w", data=np.zeros((1,) * 31 + (2,), "u1")),
    "userblock": odd,
    "ordered": odd,
    "paged": odd,
}
for name, fill in cases.items():
    how = {
        "userblock": {"userblock_size": 512},
        "ordered": {"track_order": True},
        "paged": {"fs_strategy": "page", "fs_page_size": 4096},
    }.get(name, {})
    put("case-" + name, fill, **how)
    put("case-%s-latest" % name, fill, "latest", **how)
sys.exit(files.close())
