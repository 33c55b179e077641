#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""make_hdf5.py FOLDER - files by the installed h5py and keras, and hdf5.json: what h5py reads out of them. Run by hand for
fixtures/ (h5py 3.14.0 with HDF5 1.14.6, keras 3.15.1, ml_dtypes 0.6.0, numpy 2.4.6), and by scripts/import_peers.sh."""

import hashlib
import io
import json
import os
import pathlib
import sys
import zipfile

os.environ.setdefault("KERAS_BACKEND", "numpy")
import h5py  # noqa: E402
import ml_dtypes  # noqa: E402
import numpy as np  # noqa: E402

NAMES = {
    "float32": "F32",
    "float64": "F64",
    "float16": "F16",
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
}
SMALL = {
    "float32": "f4",
    "float64": "f8",
    "float16": "f2",
    "int16": "i2",
    "uint16": "u2",
    "int32": "i4",
    "uint32": "u4",
    "int64": "i8",
    "uint64": "u8",
    "complex64": "c8",
}
CONTENT = {}


def row(dataset):
    """What h5py has of a dataset: type, shape, SHA-256 of the values, little-endian. None: no tensor."""
    if dataset.shape is None:
        return None
    value = np.asarray(dataset[()])
    if value.dtype.kind == "V":  # opaque: Keras says in an attribute what it is
        name = "BF16" if dataset.attrs.get("dtype") == "bfloat16" else "U%d" % (8 * value.dtype.itemsize)
    else:
        value = value.astype(value.dtype.newbyteorder("<"))
        name = NAMES[value.dtype.name]
    return [name, list(value.shape), hashlib.sha256(value.tobytes()).hexdigest()]


def listing(file):
    """Every path, hard and soft links included."""
    found = {}

    def walk(group, prefix):
        for key in group:
            item = group[key]
            if isinstance(item, h5py.Group):
                walk(item, prefix + key + "/")
            elif isinstance(item, h5py.Dataset) and row(item) is not None:
                found[prefix + key] = row(item)

    walk(file, "")
    return found


def record(path):
    if path.suffix == ".keras":
        with zipfile.ZipFile(path) as z:
            inner = io.BytesIO(z.read("model.weights.h5"))
    else:
        inner = str(path)
    with h5py.File(inner, "r") as f:
        CONTENT[path.name] = listing(f)


def dtypes(f, rng):
    for name in NAMES:
        value = (np.abs(rng.standard_normal((3, 5))) * 20).astype(name)
        f["little/" + name] = value
        if name in SMALL:
            f.create_dataset("big/" + name, data=value, dtype=">" + SMALL[name])
    f["bare"] = np.frombuffer(bytes(range(12)), "V2")
    brain = rng.standard_normal((4, 3)).astype(ml_dtypes.bfloat16)
    f.create_dataset("brain", data=brain.view("V2")).attrs["dtype"] = "bfloat16"
    t = h5py.h5t.IEEE_F32LE.copy()  # bfloat16 as a float of HDF5's own
    t.set_fields(15, 7, 8, 0, 7)
    t.set_size(2)
    t.set_ebias(127)
    space = h5py.h5s.create_simple((2, 3))
    own = h5py.h5d.create(f.id, b"brain float", t, space)
    own.write(h5py.h5s.ALL, h5py.h5s.ALL, rng.standard_normal((2, 3)).astype(np.float32))
    f["scalar"] = np.float32(2.5)
    f["empty"] = np.zeros((0, 3), np.float32)
    f["nothing"] = h5py.Empty("f4")
    f["enum"] = rng.integers(0, 3, 5).astype("i2")
    f["type"] = np.dtype("f8")
    f.create_dataset("typed", data=rng.standard_normal(3), dtype=f["type"])
    f["名前/重み"] = np.array([np.nan, -np.inf, -0.0], np.float16)
    f["long " + "x" * 300] = np.ones(2, np.int8)


def layouts(f, rng):
    value = rng.integers(0, 50, (23, 17)).astype("<i4")
    kinds = {
        "plain": {"chunks": (5, 4)},
        "whole": {"chunks": (23, 17)},
        "deflate": {"chunks": (5, 4), "compression": "gzip"},
        "shuffle": {
            "chunks": (7, 17),
            "compression": "gzip",
            "compression_opts": 9,
            "shuffle": True,
            "fletcher32": True,
        },
        "summed": {"chunks": (4, 6), "fletcher32": True},
        "mixed": {"chunks": (23, 17), "shuffle": True},
        "rows": {"chunks": (3, 17), "maxshape": (None, 17)},
        "columns": {"chunks": (3, 4), "maxshape": (23, None), "compression": "gzip"},
        "both": {"chunks": (3, 4), "maxshape": (None, None)},
        "both deflate": {"chunks": (3, 4), "maxshape": (None, None), "compression": "gzip", "shuffle": True},
        "largest": {"chunks": (3, 4), "maxshape": (40, 30)},
    }
    for kind, options in kinds.items():
        f.create_dataset(kind, data=value, **options)
        f.create_dataset(kind + " big", data=value.astype(">f8"), **options)
    sparse = f.create_dataset("sparse", (40, 30), "f4", chunks=(8, 7), fillvalue=-1.5, compression="gzip")
    sparse[10:20, 5:9] = 3
    sparse = f.create_dataset(
        "sparse rows", (40, 30), ">i2", chunks=(8, 7), fillvalue=770, maxshape=(None, 30)
    )
    sparse[31:, :] = 3
    f.create_dataset("no data", (40, 30), "f4", fillvalue=7)
    f.create_dataset("no chunks", (40, 30), "f4", chunks=(8, 7))
    space = h5py.h5s.create_simple((11, 13))
    for kind in ("compact", "implicit"):
        how = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        if kind == "compact":
            how.set_layout(h5py.h5d.COMPACT)
        else:
            how.set_chunk((4, 5))
            how.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
        made = h5py.h5d.create(f.id, kind.encode(), h5py.h5t.IEEE_F32BE, space, how)
        made.write(h5py.h5s.ALL, h5py.h5s.ALL, rng.standard_normal((11, 13)).astype("f4"))
    shrunk = f.create_dataset("shrunk", data=value, chunks=(4, 4), maxshape=(None, None))
    shrunk.resize((9, 30))


def write(folder, rng):
    def new(name, **options):
        path = folder / name
        return path, h5py.File(path, "w", **options)

    for name, options in {"hdf5-types.h5": {}, "hdf5-types-latest.h5": {"libver": "latest"}}.items():
        path, f = new(name, **options)
        with f:
            dtypes(f, rng)
        record(path)
        CONTENT[path.name].pop("brain float", None)  # h5py reads it as float32
    for name, options in {"hdf5-layouts.h5": {}, "hdf5-layouts-latest.h5": {"libver": "latest"}}.items():
        path, f = new(name, **options)
        with f:
            layouts(f, rng)
        record(path)
    path, f = new("hdf5-many.h5")
    with f:
        for i in range(300):
            f["layer_%d" % i if i % 30 else "layer_%d/vars/0" % i] = np.full((1,), i, np.int16)
    record(path)
    path, f = new("hdf5-many-latest.h5", libver="latest")
    with f:
        for i in range(300):
            f["layer_%d with a name of some length" % i] = np.full((1,), i, np.int16)
        f.create_dataset("attributes", data=np.zeros(4, "V2"))
        for i in range(40):
            f["attributes"].attrs["number %d" % i] = i
        f["attributes"].attrs["dtype"] = "bfloat16"
    record(path)
    path, f = new("hdf5-links.h5", userblock_size=1024)
    with f:
        f["a/first"] = rng.standard_normal(6).astype("f4")
        f["b/hard"] = f["a/first"]
        f["b/soft"] = h5py.SoftLink("/a/./first")
        f["a/near"] = h5py.SoftLink("first")
        f["z"] = rng.standard_normal(3)
    record(path)
    path, f = new("hdf5-ordered.h5", track_order=True)
    with f:
        f.attrs["note"] = "x" * 100
        for i in (3, 1, 2):
            f.create_group("g%d" % i, track_order=True)["w"] = np.full((2, 2), i, "u1")
    record(path)
    # pages of the arrays that index chunks: more than 1,024 of them
    path, f = new("hdf5-pages.h5", libver="latest")
    with f:
        f.create_dataset("fixed", (2600,), "u1", chunks=(1,), fillvalue=9)[::700] = 1
        f.create_dataset("grows", (2600,), "u1", chunks=(1,), fillvalue=9, maxshape=(None,))[1000::800] = 1
        far = f.create_dataset(
            "far", (150000, 2), ">i2", chunks=(1, 2), fillvalue=3, maxshape=(None, 2), compression="gzip"
        )
        far[100], far[140000], far[149999] = 1, 2, 4  # in blocks of three sizes, the last of them in pages
        value = rng.integers(0, 255, (20, 20)).astype("u1")
        f.create_dataset(
            "tree", data=value, chunks=(1, 1), maxshape=(None, None)
        )  # more than a node of records
    record(path)
    refused(folder)


def refused(folder):
    text = {}

    def put(name, why, make, **options):
        with h5py.File(folder / name, "w", **options) as f:
            f["w"] = np.zeros(3, "f4")
            make(f)
        text[name] = {"refused": why}

    put(
        "hdf5-external.h5",
        "data in other files",
        lambda f: f.create_dataset("x", (3,), "u1", external=[("/etc/hostname", 0, 3)]),
    )
    put(
        "hdf5-external-link.h5",
        "a link into another file",
        lambda f: f.__setitem__("x", h5py.ExternalLink("/etc/hostname", "/w")),
    )

    def virtual(f):
        layout = h5py.VirtualLayout((3,), "f4")
        layout[:] = h5py.VirtualSource("other.h5", "w", (3,))
        f.create_virtual_dataset("x", layout)

    put("hdf5-virtual.h5", "a virtual dataset", virtual, libver="latest")
    put("hdf5-dangling.h5", "no tensor of this file", lambda f: f.__setitem__("x", h5py.SoftLink("/nowhere")))
    put("hdf5-loop.h5", "leads in a circle", lambda f: f.create_group("g").__setitem__("up", f))
    put("hdf5-text.h5", "texts", lambda f: f.create_dataset("x", data="text", dtype=h5py.string_dtype()))
    put("hdf5-records.h5", "records", lambda f: f.create_dataset("x", (2,), [("a", "f4"), ("b", "i4")]))
    CONTENT.update(text)


def lzf(folder, rng):
    """h5py's own filter, of every type; a chunk that does not shrink is kept as it is."""
    path = folder / "hdf5-lzf.h5"
    with h5py.File(path, "w") as f:
        for order in "<>":
            for name, code in SMALL.items():
                value = (rng.standard_normal((23, 17)) * 20).astype(order + code)
                f.create_dataset(
                    "%s%s" % (name, order),
                    data=value,
                    chunks=(10, 8),
                    compression="lzf",
                    shuffle=order == ">",
                )
        for name in ("bool", "int8", "uint8"):
            f.create_dataset(
                name, data=(rng.standard_normal((23, 17)) > 0).astype(name), chunks=(10, 8), compression="lzf"
            )
        f.create_dataset("zeros", data=np.zeros((900, 90)), compression="lzf", fletcher32=True)
        f.create_dataset("far", data=np.tile(np.arange(2000, dtype="<u2"), 5), compression="lzf")
        f.create_dataset(
            "random", data=rng.integers(0, 256, (64, 64), "u1"), chunks=(64, 64), compression="lzf"
        )
        grown = f.create_dataset(
            "grown", data=np.ones((5, 4), "f4"), chunks=(5, 4), maxshape=(None, 4), compression="lzf"
        )
        grown.resize((20, 4))
    record(path)


def large(folder):
    """Attributes and names that are too large for the blocks of a heap."""
    path = folder / "hdf5-large.h5"
    with h5py.File(path, "w", libver="latest") as f:
        f["w"] = np.arange(3.0)
        f["w"].attrs["numbers"] = np.zeros(20000)
        f.attrs["text"] = "x" * 70000
        f.attrs["small"] = 1
        for i in range(10):
            f["g/%d" % i + "x" * 5000] = np.full(3, i, "i2")
    record(path)


def by_keras(folder):
    import keras

    keras.utils.set_random_seed(5)
    model = keras.Sequential(
        [
            keras.layers.Input((6,)),
            keras.layers.Dense(4, name="dense"),
            keras.layers.BatchNormalization(),
            keras.layers.Dropout(0.5, seed=3),
            keras.layers.Dense(2, name="half", dtype=keras.DTypePolicy("float16")),
        ]
    )
    model.compile(optimizer=keras.optimizers.Adam())
    model.optimizer.build(model.trainable_variables)
    for name in ("keras.h5", "keras.keras", "keras.weights.h5"):
        path = folder / name
        (model.save_weights if "weights" in name else model.save)(path)
        record(path)
    brain = keras.Sequential(
        [keras.layers.Input((3,)), keras.layers.Dense(2, dtype=keras.DTypePolicy("bfloat16"))]
    )
    brain.save_weights(folder / "keras-bf16.weights.h5")
    record(folder / "keras-bf16.weights.h5")
    print("keras", keras.__version__, keras.backend.backend())


def main() -> int:
    folder = pathlib.Path(sys.argv[1])
    write(folder, np.random.default_rng(5))
    lzf(folder, np.random.default_rng(6))
    large(folder)
    by_keras(folder)
    text = json.dumps(CONTENT, indent=1, sort_keys=True, ensure_ascii=False)
    (folder / "hdf5.json").write_text(text + "\n", encoding="utf-8")
    print(
        "h5py",
        h5py.__version__,
        "HDF5",
        h5py.version.hdf5_version,
        sum(len(v) for v in CONTENT.values()),
        "tensors",
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
