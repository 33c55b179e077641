#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""write_keras.py FOLDER - models by Keras 3: .keras, .h5, .weights.h5, weights in shards; what h5py reads of each."""

import io
import json
import sys
import warnings
import zipfile

import h5py
import keras
import numpy as np
from expect import Files, rows
from keras import layers

warnings.filterwarnings("ignore")
files = Files("keras " + keras.__version__)
keras.utils.set_random_seed(38)


def listing(opened):
    tensors, named = {}, []
    with h5py.File(opened, "r") as f:

        def visit(name, item):
            if not isinstance(item, h5py.Dataset):
                return
            answers = rows(np.asarray(item[()])) if item.shape is not None else []
            if answers and item.attrs.get("dtype") == "bfloat16":
                answers[0][0] = "BF16"
            if answers:
                tensors[name] = answers
            else:
                named.append(name)

        f.visititems(visit)
        f.visititems_links(lambda name, link: None)
    return tensors, named


def put(name, save):
    path = files.path(name)
    try:
        save(path)
        if path.suffix == ".keras":
            with zipfile.ZipFile(path) as z:
                tensors, named = listing(io.BytesIO(z.read("model.weights.h5")))
        else:
            tensors, named = listing(path)
    except Exception as e:
        files.skip(name, e)
        return
    files.add(name, tensors, named, **({} if tensors or named else {"not_converted": "no weights"}))


def dense(policy=None):
    more = {"dtype": keras.DTypePolicy(policy)} if policy else {}
    return keras.Sequential(
        [
            layers.Input((6,)),
            layers.Dense(4, **more),
            layers.BatchNormalization(**more),
            layers.Dense(2, **more),
        ]
    )


def functional():
    x = layers.Input((8, 8, 3))
    y = layers.Conv2D(4, 3, activation="relu")(x)
    y = layers.GlobalAveragePooling2D()(layers.Add()([y, layers.Conv2D(4, 1)(layers.Cropping2D(1)(x))]))
    return keras.Model(x, layers.Dense(3)(y))


MODELS = {
    "dense": dense,
    "functional": functional,
    "half": lambda: dense("float16"),
    "mixed": lambda: dense("mixed_bfloat16"),
    "bf16": lambda: dense("bfloat16"),
    "double": lambda: dense("float64"),
    "lstm": lambda: keras.Sequential(
        [layers.Input((5, 3)), layers.LSTM(4, return_sequences=True), layers.GRU(3)]
    ),
    "bidirectional": lambda: keras.Sequential([layers.Input((5, 3)), layers.Bidirectional(layers.LSTM(4))]),
    "embedding": lambda: keras.Sequential(
        [layers.Input((5,)), layers.Embedding(10, 4), layers.LayerNormalization()]
    ),
    "attention": lambda: (lambda x: keras.Model(x, layers.MultiHeadAttention(2, 4)(x, x)))(
        layers.Input((5, 8))
    ),
    "conv": lambda: keras.Sequential(
        [
            layers.Input((9, 9, 3)),
            layers.SeparableConv2D(4, 3),
            layers.DepthwiseConv2D(3),
            layers.Conv2DTranspose(2, 3),
            layers.GroupNormalization(1),
        ]
    ),
    "dropout": lambda: keras.Sequential([layers.Input((6,)), layers.Dropout(0.5, seed=3), layers.Dense(2)]),
    "none": lambda: keras.Sequential([layers.Input((6,)), layers.Flatten()]),
    "normalization": lambda: keras.Sequential(
        [layers.Input((6,)), layers.Normalization(mean=1.0, variance=2.0), layers.Dense(2)]
    ),
    "nested": lambda: keras.Sequential(
        [layers.Input((6,)), keras.Sequential([layers.Dense(6), layers.Dense(6)]), layers.Dense(2)]
    ),
    "lambda": lambda: keras.Sequential([layers.Input((6,)), layers.Lambda(lambda v: v * 2), layers.Dense(2)]),
    "lora": lambda: (lambda m: (m.layers[0].enable_lora(2), m)[1])(dense()),
}
for name, make in MODELS.items():
    try:
        model = make()
    except Exception as e:
        files.skip(name, e)
        continue
    for end in (".keras", ".h5", ".weights.h5"):
        put(name + end, model.save_weights if "weights" in end else model.save)
for quant in ("int8", "int4", "float8", "gptq"):
    try:
        model = dense()
        model.quantize(quant)
    except Exception as e:
        files.skip("quantized " + quant, e)
        continue
    for end in (".keras", ".weights.h5"):
        put("quantized-%s%s" % (quant, end), model.save_weights if "weights" in end else model.save)
for name in ("SGD", "Adam", "AdamW", "RMSprop", "Lion", "Adafactor", "Ftrl", "Muon"):
    try:
        model = dense()
        model.compile(optimizer=getattr(keras.optimizers, name)())
        model.optimizer.build(model.trainable_variables)
    except Exception as e:
        files.skip("optimizer " + name, e)
        continue
    put("optimizer-%s.keras" % name, model.save)
    put("optimizer-%s.h5" % name, model.save)
for size in (1e-6, 4e-6, 1.0):
    model = keras.Sequential([layers.Input((16,))] + [layers.Dense(16) for _ in range(6)])
    path = files.path("sharded-%g.weights.json" % size)
    try:
        model.save_weights(path, max_shard_size=size)
        index = json.loads(path.read_text())
        tensors = {}
        for shard in sorted(files.folder.glob(path.name.replace(".weights.json", "") + "_*.weights.h5")):
            tensors.update(listing(shard)[0])
        files.add(path.name, tensors)
        assert index
    except Exception as e:
        files.skip("sharded-%g" % size, e)
sys.exit(files.close())
