#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""make_tf.py FOLDER - checkpoints written by TensorFlow, and tf.json: type, shape and SHA-256 of what
TensorFlow's own reader loads from them. Run by hand for fixtures/, and by `make test-peers`."""

import hashlib
import json
import os
import pathlib
import shutil
import sys

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = ""

import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402

ROWS = {
    "float32": "F32",
    "float64": "F64",
    "float16": "F16",
    "bfloat16": "BF16",
    "int8": "I8",
    "int16": "I16",
    "int32": "I32",
    "int64": "I64",
    "uint8": "U8",
    "uint16": "U16",
    "uint32": "U32",
    "uint64": "U64",
    "bool": "BOOL",
    "complex64": "C64",
    "float8_e4m3fn": "F8_E4M3",
    "float8_e5m2": "F8_E5M2",
    "float8_e4m3fnuz": "F8_E4M3FNUZ",
    "float8_e5m2fnuz": "F8_E5M2FNUZ",
    "qint8": "I8",
    "quint8": "U8",
    "qint16": "I16",
    "quint16": "U16",
    "qint32": "I32",
    "float8_e4m3b11fnuz": "U8",
    "int4": "I8",
    "uint4": "U8",
}
NOTHING = ["string", "variant", "resource"]
rng = np.random.default_rng(5)
folder = pathlib.Path(sys.argv[1])
content = {}


def values(kind, shape=(3, 5)):
    x = rng.standard_normal(shape) * 20
    dtype = kind.as_numpy_dtype
    if kind.is_complex:
        return (x + 1j * rng.standard_normal(shape)).astype(dtype)
    if kind.name in ("int4", "uint4"):
        return (np.abs(x) % 8).astype(dtype)
    if kind == tf.bool:
        return x > 0
    return (np.abs(x) if kind.is_unsigned or "u" in kind.name[:2] else x).astype(dtype)


def rows(prefix: pathlib.Path, skip=()) -> dict:
    """What TensorFlow's reader says of every tensor of a checkpoint."""
    reader = tf.train.load_checkpoint(str(prefix))
    kinds = reader.get_variable_to_dtype_map()
    out = {}
    for name, shape in reader.get_variable_to_shape_map().items():
        kind = kinds[name]
        if kind.name in NOTHING or name in skip:
            continue
        value = np.asarray(reader.get_tensor(name))
        assert list(value.shape) == list(shape)
        data = value.tobytes()
        out[name] = [ROWS[kind.name], list(value.shape), hashlib.sha256(data).hexdigest()]
    return out


def put(name: str, prefix: pathlib.Path, **how) -> None:
    content[name] = rows(prefix, **how)


def objects() -> None:
    """tf.train.Checkpoint: names of an object graph, an optimizer, a list, a dict; through CheckpointManager."""
    model = tf.Module()
    model.kernel = tf.Variable(rng.standard_normal((4, 6)).astype(np.float32))
    model.layers = [tf.Variable(tf.cast(rng.standard_normal(7), tf.bfloat16)), tf.Variable(3.5)]
    model.named = {"a": tf.Variable(np.zeros((0, 3), np.float16)), "text": tf.Variable("words")}
    optimizer = tf.keras.optimizers.Adam()
    optimizer.build([model.kernel])
    made = tf.train.Checkpoint(model=model, optimizer=optimizer, step=tf.Variable(7, dtype=tf.int64))
    manager = tf.train.CheckpointManager(made, str(folder / "tf-objects"), max_to_keep=1)
    manager.save()
    put("tf-objects", pathlib.Path(manager.latest_checkpoint))  # by the file "checkpoint"


def saved() -> None:
    """A SavedModel: the folder, its variables."""
    model = tf.Module()
    model.w = tf.Variable(rng.standard_normal((8, 3)).astype(np.float64))
    model.b = tf.Variable(np.arange(3, dtype=np.int32))
    tf.saved_model.save(model, str(folder / "tf-saved"))
    put("tf-saved", folder / "tf-saved" / "variables" / "variables")
    content["tf-saved/saved_model.pb"] = {"refused": "the graph of a SavedModel"}
    (folder / "tf-saved" / "fingerprint.pb").unlink(missing_ok=True)
    shutil.rmtree(folder / "tf-saved" / "assets", ignore_errors=True)


def types() -> None:
    """Every type, by the operation that all writers end in."""
    kinds = [
        k
        for k in list(vars(tf.dtypes).values())
        + [tf.dtypes.as_dtype(n) for n in (24, 25, 26, 27, 28, 29, 30)]
        if isinstance(k, tf.DType) and k.name in ROWS
    ]
    kinds = sorted(set(kinds), key=lambda k: k.as_datatype_enum)
    names, tensors = [], []
    for kind in kinds:
        try:
            if kind.is_quantized:
                plain = getattr(
                    tf,
                    {
                        "qint8": "int8",
                        "quint8": "uint8",
                        "qint16": "int16",
                        "quint16": "uint16",
                        "qint32": "int32",
                    }[kind.name],
                )
                tensors.append(tf.bitcast(tf.constant(values(plain)), kind))
            else:
                tensors.append(tf.constant(values(kind), kind))
            names.append(kind.name)
        except (TypeError, ValueError, NotImplementedError) as e:
            print("not made:", kind.name, e)
    names += ["scalar", "empty", "text", "long"]
    tensors += [
        tf.constant(2.5),
        tf.zeros((0, 4)),
        tf.constant([b"a", b"bc" * 100]),
        tf.constant(np.arange(3001, dtype=np.int16)),
    ]
    tf.raw_ops.SaveV2(
        prefix=str(folder / "tf-types"),
        tensor_names=names,
        shape_and_slices=[""] * len(names),
        tensors=tensors,
    )
    put("tf-types", folder / "tf-types")  # by its prefix


def slices() -> None:
    """Partitioned variables of the graph mode, and shards of two devices merged by the saver."""
    v1 = tf.compat.v1
    with tf.Graph().as_default():
        for name, shape, cuts in [
            ("rows", (7, 3), [3, 1]),
            ("columns", (4, 300), [1, 4]),
            ("more", (5,), [5]),
        ]:
            with v1.variable_scope(name, use_resource=False):
                v1.get_variable(
                    "w",
                    shape,
                    partitioner=v1.fixed_size_partitioner(max(cuts), cuts.index(max(cuts))),
                    initializer=v1.random_normal_initializer(seed=3),
                )
        with v1.Session() as session:
            session.run(v1.global_variables_initializer())
            v1.train.Saver().save(session, str(folder / "tf-slices"), write_meta_graph=False)
    (folder / "checkpoint").unlink()
    put("tf-slices.index", folder / "tf-slices")
    with tf.Graph().as_default():
        for i in range(3):
            with tf.device("/cpu:%d" % i):
                v1.get_variable("v%d" % i, (2 + i, 4), initializer=v1.random_normal_initializer(seed=i))
        with v1.Session(config=v1.ConfigProto(device_count={"CPU": 3})) as session:
            session.run(v1.global_variables_initializer())
            v1.train.Saver(sharded=True).save(session, str(folder / "tf-shards"), write_meta_graph=False)
    (folder / "checkpoint").unlink()
    put("tf-shards", folder / "tf-shards")


def grid() -> None:
    """Slices in two dimensions, far apart, through the operation itself; one that covers all."""
    big = rng.integers(-128, 127, (3, 8300)).astype(np.int8)
    parts = [(0, 2, 0, 8192), (0, 2, 8192, 108), (2, 1, 0, 8192), (2, 1, 8192, 108)]
    names = ["grid"] * 4 + ["all"]
    specs = ["3 8300 %d,%d:%d,%d" % p for p in parts] + ["3 2 -:-"]
    tensors = [big[a : a + n, b : b + m] for a, n, b, m in parts] + [
        np.arange(6, dtype=np.float32).reshape(3, 2)
    ]
    tensors = [tf.constant(x) for x in tensors]
    tf.raw_ops.SaveV2(
        prefix=str(folder / "tf-grid"), tensor_names=names, shape_and_slices=specs, tensors=tensors
    )
    put("tf-grid", folder / "tf-grid")


def many() -> None:
    """An index of several blocks (TensorFlow's have 256 KiB): too large for fixtures/."""
    if folder.name == "fixtures":
        return
    names = [hashlib.sha512(b"%d" % i).hexdigest() for i in range(4000)]
    tensors = [tf.constant(rng.standard_normal(i % 5).astype(np.float32)) for i in range(4000)]
    tf.raw_ops.SaveV2(
        prefix=str(folder / "tf-many"), tensor_names=names, shape_and_slices=[""] * 4000, tensors=tensors
    )
    put("tf-many", folder / "tf-many")


def keras() -> None:
    """Weights in TensorFlow's format, of the last Keras that wrote it."""
    try:
        import tf_keras
    except ImportError:
        return
    model = tf_keras.Sequential(
        [tf_keras.layers.Dense(4, input_shape=(3,)), tf_keras.layers.BatchNormalization()]
    )
    model.save_weights(str(folder / "tf-keras"), save_format="tf")
    (folder / "checkpoint").unlink(missing_ok=True)
    put("tf-keras", folder / "tf-keras")


def main() -> int:
    tf.keras.utils.set_random_seed(5)
    for make in (objects, saved, types, slices, grid, many, keras):
        make()
    (folder / "tf.json").write_text(json.dumps(content, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    print("tensorflow", tf.__version__, sum(len(v) for v in content.values()), "tensors")
    return 0


if __name__ == "__main__":
    sys.exit(main())
