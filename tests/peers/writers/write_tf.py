#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""write_tf.py FOLDER - TensorFlow: checkpoints of every type, SavedModels, TFLite with every way of quantising, Keras 2; what
TensorFlow's own readers say of each."""

import os
import pathlib
import sys
import warnings

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import h5py
import numpy as np
import tensorflow as tf
import tf_keras
from expect import NAMES, Files, rows, sha
from tensorflow.lite.python import schema_py_generated as schema

warnings.filterwarnings("ignore")
files = Files("tensorflow " + tf.__version__)
rng = np.random.default_rng(43)
PLAIN = {"qint8": "int8", "quint8": "uint8", "qint16": "int16", "quint16": "uint16", "qint32": "int32"}


def checkpoint(name, prefix=None, path=None):
    reader = tf.train.load_checkpoint(str(prefix or files.path(name)))
    tensors, named = {}, []
    kinds = reader.get_variable_to_dtype_map()
    for key in reader.get_variable_to_shape_map():
        if kinds[key].name in ("string", "variant", "resource"):
            named.append(key)
        else:
            tensors[key] = np.asarray(reader.get_tensor(key))
    files.add(path or name, tensors, named)


def raw(name, names, tensors, slices=None):
    tf.raw_ops.SaveV2(
        prefix=str(files.path(name)),
        tensor_names=names,
        shape_and_slices=slices or [""] * len(names),
        tensors=tensors,
    )
    checkpoint(name, path=name + ".index")


kinds = {k for k in list(vars(tf.dtypes).values()) if isinstance(k, tf.DType)}
kinds |= {tf.dtypes.as_dtype(n) for n in range(1, 32) if n not in (20, 21)}
for kind in sorted(kinds, key=lambda k: k.as_datatype_enum):
    if kind.name.endswith("_ref") or kind.name in ("resource", "variant"):
        continue
    try:
        x = np.abs(rng.standard_normal((3, 5))) * (2 if "4" in kind.name[-2:] or "2" == kind.name[-1] else 20)
        x = x % 2 if kind.name in ("int2", "uint2") else x  # what does not fit is no number of the type
        if kind.name == "string":
            value = tf.constant([b"a", b"bc"])
        elif kind.name in PLAIN:
            value = tf.bitcast(tf.constant(x.astype(PLAIN[kind.name])), kind)
        else:
            value = tf.constant(x.astype(kind.as_numpy_dtype), kind)
        raw("type-" + kind.name, ["w", "plain"], [value, tf.ones([2])])
    except Exception as e:
        files.skip(kind.name, e)
for shape in ((), (0,), (0, 4), (1, 1, 1, 1, 1), (3001,)):
    raw("shape-" + "x".join(map(str, shape)), ["w"], [tf.zeros(shape)])
raw("names", ["a/b:0", "名", "x" * 400, "a b"], [tf.ones([i + 1]) for i in range(4)])
raw("many", ["t%05d" % i for i in range(3000)], [tf.fill([i % 4], float(i)) for i in range(3000)])
big = rng.standard_normal((6, 5)).astype("f4")
raw(
    "slices",
    ["s"] * 3,
    [tf.constant(big[a:b]) for a, b in ((0, 2), (2, 3), (3, 6))],
    ["6 5 %d,%d:-" % (a, b - a) for a, b in ((0, 2), (2, 3), (3, 6))],
)


def module(kind="float32"):
    m = tf.Module()
    m.w = tf.Variable(tf.cast(rng.standard_normal((4, 6)), kind))
    m.layers = [tf.Variable(tf.cast(rng.standard_normal(3), kind)) for _ in range(2)]
    m.d = {"a": tf.Variable(7, dtype=tf.int64)}
    return m


for kind in ("float32", "float16", "bfloat16", "float64"):
    m = module(kind)
    path = tf.train.Checkpoint(model=m).write(str(files.path("object-" + kind)))
    checkpoint("object-" + kind, path=pathlib.Path(path).name + ".index")
    tf.saved_model.save(m, str(files.path("saved-" + kind)))
    checkpoint("saved-" + kind, files.path("saved-" + kind) / "variables" / "variables")
    files.add("saved-%s/saved_model.pb" % kind, {}, not_converted="a graph")
manager = tf.train.CheckpointManager(
    tf.train.Checkpoint(model=module(), step=tf.Variable(3), text=tf.Variable("t")),
    str(files.path("managed")),
    max_to_keep=2,
)
manager.save()
manager.save()
checkpoint("managed", manager.latest_checkpoint)
table = tf.lookup.experimental.MutableHashTable(tf.string, tf.int64, -1)
table.insert(["a"], [1])
path = tf.train.Checkpoint(table=table, w=tf.Variable(1.5)).write(str(files.path("table")))
checkpoint("table", path=pathlib.Path(path).name + ".index")


def keras(name, model):
    for end, save in (
        (".h5", model.save),
        (".weights.h5", model.save_weights),
        ("-tf", lambda p: model.save_weights(p, save_format="tf")),
        (".keras", model.save),
        ("-saved", lambda p: model.save(p, save_format="tf")),
    ):
        path = str(files.path("keras2-%s%s" % (name, end)))
        try:
            save(path)
            if end == "-tf":
                checkpoint(os.path.basename(path), path=os.path.basename(path) + ".index")
            elif end == "-saved":
                checkpoint(os.path.basename(path), path + "/variables/variables")
            else:
                hdf5(path)
        except Exception as e:
            files.skip(name + end, e)


def hdf5(path):
    import io
    import zipfile

    opened = path
    if path.endswith(".keras"):
        with zipfile.ZipFile(path) as z:
            opened = io.BytesIO(z.read("model.weights.h5"))
    tensors, named = {}, []
    with h5py.File(opened, "r") as f:

        def visit(key, item):
            if isinstance(item, h5py.Dataset):
                answers = rows(np.asarray(item[()])) if item.shape is not None else []
                if answers:
                    tensors[key] = answers
                else:
                    named.append(key)

        f.visititems(visit)
    files.add(
        os.path.basename(path),
        tensors,
        named,
        **({} if tensors or named else {"not_converted": "no weights"}),
    )


layers = tf_keras.layers
models = {
    "dense": [layers.Dense(4, input_shape=(3,)), layers.BatchNormalization(), layers.Dense(2)],
    "conv": [
        layers.Conv2D(4, 3, input_shape=(8, 8, 3)),
        layers.DepthwiseConv2D(3),
        layers.Flatten(),
        layers.Dense(2),
    ],
    "lstm": [layers.LSTM(4, input_shape=(5, 3), return_sequences=True), layers.GRU(2)],
    "embedding": [
        layers.Embedding(9, 4, input_length=5),
        layers.GlobalAveragePooling1D(),
        layers.LayerNormalization(),
    ],
    "none": [layers.Flatten(input_shape=(3, 4))],
}
for name, stack in models.items():
    model = tf_keras.Sequential(stack)
    model.compile("adam", "mse")
    keras(name, model)


def lite(name, converter):
    """TFLite: every buffer that a tensor has, by the schema that TensorFlow reads it with."""
    try:
        data = converter.convert()
    except Exception as e:
        files.skip("lite-" + name, e)
        return
    files.path("lite-%s.tflite" % name).write_bytes(data)
    model = schema.ModelT.InitFromObj(schema.Model.GetRootAs(data, 0))
    types = {v: k.lower() for k, v in vars(schema.TensorType).items() if isinstance(v, int)}
    found, named = {}, []
    for graph in model.subgraphs:
        for tensor in graph.tensors:
            buffer = model.buffers[tensor.buffer].data
            if buffer is None or not len(buffer):
                continue
            key, kind = tensor.name.decode(), types[tensor.type]
            if len(model.subgraphs) > 1:
                key = "%s.%s" % (graph.name.decode(), key)
            shape = [] if tensor.shape is None else [int(n) for n in tensor.shape]
            raw = bytes(bytearray(buffer))
            if kind == "string" or tensor.sparsity is not None:
                named.append(key)
            elif kind in NAMES:
                found.setdefault(key, []).append([NAMES[kind], shape, sha(raw)])
            else:
                found.setdefault(key, []).append(["U8", [len(raw)], sha(raw)])
    files.add("lite-%s.tflite" % name, found, named)


samples = {"dense": (3,), "conv": (8, 8, 3), "lstm": (5, 3)}
for name, shape in samples.items():
    model = tf_keras.Sequential(models[name])

    def data(shape=shape):
        for _ in range(10):
            yield [rng.standard_normal((1, *shape)).astype("f4")]

    for way in ("float", "dynamic", "half", "integer", "integer16", "int8"):
        converter = tf.lite.TFLiteConverter.from_keras_model(model)
        if name == "lstm":
            converter.target_spec.supported_ops = [
                tf.lite.OpsSet.TFLITE_BUILTINS,
                tf.lite.OpsSet.SELECT_TF_OPS,
            ]
            converter._experimental_lower_tensor_list_ops = False
        if way != "float":
            converter.optimizations = [tf.lite.Optimize.DEFAULT]
        if way == "half":
            converter.target_spec.supported_types = [tf.float16]
        if way in ("integer", "int8", "integer16"):
            converter.representative_dataset = data
        if way == "int8":
            converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS_INT8]
            converter.inference_input_type = converter.inference_output_type = tf.int8
        if way == "integer16":
            converter.target_spec.supported_ops = [
                tf.lite.OpsSet.EXPERIMENTAL_TFLITE_BUILTINS_ACTIVATIONS_INT16_WEIGHTS_INT8
            ]
        lite("%s-%s" % (name, way), converter)
sys.exit(files.close())
