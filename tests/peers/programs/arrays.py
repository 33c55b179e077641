# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The frameworks beside torch, each in an environment of its own."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
from record import program

ENVIRONMENT = "jax"


@program("flax", modules=("safetensors.flax",))
def flax_(log):
    import flax.linen as nn
    import flax.nnx as nnx
    import jax
    import jax.numpy as jnp
    from flax.traverse_util import flatten_dict, unflatten_dict
    from safetensors.flax import load, load_file, save, save_file

    class Net(nn.Module):
        @nn.compact
        def __call__(self, x):
            return nn.Dense(3)(nn.LayerNorm()(nn.Dense(5)(x)))

    params = Net().init(jax.random.PRNGKey(0), jnp.ones((1, 4)))["params"]
    save_file(flatten_dict(params, sep="."), "params.safetensors", metadata={"kind": "linen"})
    back = load_file("params.safetensors")
    log.tensors("linen", back)
    log.tensors("applied", [Net().apply({"params": unflatten_dict(back, sep=".")}, jnp.ones((1, 4)))])
    state = nnx.state(nnx.Linear(4, 2, rngs=nnx.Rngs(0)))
    flat = {".".join(map(str, path)): leaf[...] for path, leaf in nnx.to_flat_state(state)}
    log.tensors("nnx", load(save(flat)), ordered=False)
    many = {
        str(d): jnp.arange(6).astype(d).reshape(2, 3)
        for d in ("bfloat16", "float16", "float32", "int8", "uint8", "int16", "int32", "uint32", "bool")
    }
    log.value("bytes", save(dict(many)))
    save_file(many, "types.safetensors")
    log.call("types", lambda: log.tensors("types", load_file("types.safetensors")))
    log.call("complex", save_file, {"c": jnp.ones(2, jnp.complex64)}, "complex.safetensors")
    log.broken("params.safetensors", lambda: load_file("params.safetensors"))


@program("orbax", distribution="orbax-checkpoint", modules=("safetensors.flax", "orbax.checkpoint"))
def orbax_(log):
    """Its reader of the format is its own; what it restores is what the package wrote."""
    import asyncio  # noqa: F401

    import jax.numpy as jnp
    import orbax.checkpoint.experimental.v1 as ocp
    from safetensors.flax import load_file, save_file

    made = {
        "a.kernel": jnp.arange(24.0).reshape(4, 6),
        "a.bias": jnp.ones(6, jnp.bfloat16),
        "n": jnp.arange(3, dtype=jnp.int32),
    }
    Path("model").mkdir()
    save_file(made, "model/model.safetensors", {"format": "np"})
    log.tensors("package", load_file("model/model.safetensors"))

    def restore():
        with ocp.Context(checkpoint_layout=ocp.options.CheckpointLayout.SAFETENSORS):
            return ocp.load(Path("model").absolute())

    back = log.call("restore", restore)
    if back is not None:
        log.tensors("orbax", back)
        log.value("equal", all((np.asarray(back[k]) == np.asarray(made[k])).all() for k in made))
    log.broken("model/model.safetensors", restore, only={"empty", "cut"})


@program("keras-hub", modules=("safetensors",))
def keras_hub_(log):
    os.environ["KERAS_BACKEND"] = "jax"
    from keras_hub.src.utils.transformers import safetensor_utils
    from safetensors.numpy import save_file

    rng = np.random.default_rng(3)
    tensors = {f"model.layers.{i}.w": rng.normal(size=(4, 6)).astype("f4") for i in range(2)}
    Path("preset").mkdir()
    save_file(tensors, "preset/model.safetensors", {"format": "np"})
    loader = log.call("loader", lambda: safetensor_utils.SafetensorLoader(str(Path("preset").absolute())))
    if loader is not None:
        with loader:
            for name in tensors:
                log.tensors(name, [loader.get_tensor(name)])
            log.value("prefix", loader.get_prefixed_key("model.layers.0.w", loader.safetensor_files or {}))
    with safetensor_utils.contextlib.ExitStack() as stack:
        f = stack.enter_context(
            safetensor_utils.safetensors.safe_open("preset/model.safetensors", framework="np")
        )
        log.value("keys", list(f.keys()))


@program("keras", modules=("safetensors.numpy",))
def keras_(log):
    os.environ["KERAS_BACKEND"] = "numpy"
    import keras
    from safetensors.numpy import load_file, save_file

    keras.utils.set_random_seed(1)
    model = keras.Sequential(
        [
            keras.Input((4,)),
            keras.layers.Dense(3),
            keras.layers.BatchNormalization(),
            keras.layers.Dense(2, use_bias=False),
        ]
    )
    save_file({w.path: w.numpy() for w in model.weights}, "weights.safetensors")
    model.save("model.keras")
    back = load_file("weights.safetensors")
    log.tensors("weights", back)
    for weight in model.weights:
        weight.assign(back[weight.path])
    log.tensors("predict", [model.predict(np.ones((2, 4)), verbose=0)])
    os.unlink("model.keras")  # has the time in it


@program(
    "tensorflow", environment="tensorflow", distribution="tensorflow-cpu", modules=("safetensors.tensorflow",)
)
def tensorflow_(log):
    import tensorflow as tf
    from safetensors import safe_open
    from safetensors.tensorflow import load, load_file, save, save_file

    tf.random.set_seed(1)
    tensors = {
        str(d): tf.cast(tf.reshape(tf.range(6), (2, 3)), d)
        for d in (
            "bfloat16",
            "float16",
            "float32",
            "float64",
            "int8",
            "uint8",
            "int16",
            "uint16",
            "int32",
            "uint32",
            "int64",
            "bool",
        )
    }
    save_file(dict(tensors), "types.safetensors")
    log.tensors("types", load_file("types.safetensors"))
    log.tensors("bytes", load(save({"a": tf.ones((2, 2))}, {"x": "y"})), ordered=False)
    with safe_open("types.safetensors", "tf") as f:
        log.tensors("slices", {n: f.get_slice(n)[:, 1:] for n in f.keys()})
    net = tf.keras.Sequential([tf.keras.Input((4,)), tf.keras.layers.Dense(3), tf.keras.layers.Dense(1)])
    save_file({w.path: tf.convert_to_tensor(w) for w in net.weights}, "net.safetensors")
    log.tensors("net", load_file("net.safetensors"))
    log.call("scalar", save, {"s": tf.constant(1.0)})
    log.broken("types.safetensors", lambda: load_file("types.safetensors"))


@program("paddle", environment="paddle", distribution="paddlepaddle", modules=("safetensors",))
def paddle_(log):
    import paddle
    from safetensors.paddle import load, load_file, save, save_file

    paddle.seed(1)
    net = paddle.nn.Sequential(paddle.nn.Linear(4, 3), paddle.nn.BatchNorm1D(3))
    save_file(net.state_dict(), "net.safetensors")
    log.call("paddle.save", lambda: paddle.save(dict(net.state_dict()), "own.safetensors", safetensors=True))
    if Path("own.safetensors").exists():
        log.tensors(
            "paddle.load numpy",
            log.call("numpy", lambda: paddle.load("own.safetensors", safetensors=True, return_numpy=True)),
        )
    kinds = {
        k: paddle.cast(paddle.arange(6).reshape([2, 3]), k)
        for k in (
            "float32",
            "float16",
            "bfloat16",
            "float64",
            "int8",
            "uint8",
            "int16",
            "int32",
            "int64",
            "bool",
        )
    }
    raw = save(kinds, {"a": "b"})
    log.tensors("bytes", load(raw), ordered=False)
    Path("types.safetensors").write_bytes(raw)
    from safetensors.numpy import load_file as load_np

    log.tensors("net as numpy", load_np("net.safetensors"))
    log.call("pread", lambda: log.tensors("net pread", load_file("net.safetensors", backend="pread")))
    log.broken("net.safetensors", lambda: load_np("net.safetensors"))


@program("mindspore", environment="mindspore", modules=("safetensors.numpy",))
def mindspore_(log):
    import mindspore as ms
    from mindspore import nn

    ms.set_seed(1)
    np.random.seed(1)
    ms.set_context(device_target="CPU")

    class Net(nn.Cell):
        def __init__(self):
            super().__init__()
            self.one = nn.Dense(6, 4)
            self.two = nn.Dense(4, 2)

        def construct(self, x):
            return self.two(self.one(x))

    net = Net()
    ms.save_checkpoint(net, "net", format="safetensors")
    ms.save_checkpoint(net, "sum", format="safetensors", crc_check=True)
    back = ms.load_checkpoint("net.safetensors", format="safetensors")
    log.tensors("net", {k: v.asnumpy() for k, v in back.items()})
    log.call(
        "sum",
        lambda: log.tensors(
            "sum",
            {
                k: v.asnumpy()
                for k, v in ms.load_checkpoint(
                    "sum.safetensors", format="safetensors", crc_check=True
                ).items()
            },
        ),
    )
    log.value("loaded", ms.load_param_into_net(Net(), back))
    ms.save_checkpoint(net, "big", format="ckpt")
    log.call("to safetensors", ms.ckpt_to_safetensors, "big.ckpt", "converted")
    log.call("to ckpt", ms.safetensors_to_ckpt, "net.safetensors", "again")
    for name in sorted(p.name for p in Path(".").rglob("*.ckpt")):
        log.value("written", name)
    log.broken("net.safetensors", lambda: ms.load_checkpoint("net.safetensors", format="safetensors"))
    for file in list(Path(".").rglob("*.ckpt")) + list(Path(".").rglob("rank_*/**/*.log")):
        file.unlink()


@program("mlx", environment="mlx", modules=("safetensors.mlx",))
def mlx_(log):
    import mlx.core as mx
    import mlx.nn as nn
    from mlx.utils import tree_flatten
    from safetensors import safe_open
    from safetensors.mlx import load, load_file, save, save_file

    mx.random.seed(1)
    net = nn.Sequential(nn.Linear(4, 3), nn.LayerNorm(3))
    flat = dict(tree_flatten(net.parameters()))
    save_file(flat, "package.safetensors", {"made": "here"})
    mx.save_safetensors("own.safetensors", flat)
    for name in ("package", "own"):
        log.tensors(f"{name} by the package", load_file(f"{name}.safetensors"))
        log.tensors(f"{name} by mlx", mx.load(f"{name}.safetensors"))
    kinds = {
        str(d).split(".")[-1]: mx.arange(6).reshape(2, 3).astype(d)
        for d in (
            mx.float16,
            mx.float32,
            mx.int8,
            mx.uint8,
            mx.int16,
            mx.uint16,
            mx.int32,
            mx.uint32,
            mx.int64,
            mx.uint64,
            mx.bool_,
        )
    }
    raw = save(kinds)
    log.value("bytes", raw)
    log.tensors("types", load(raw), ordered=False)
    with safe_open("package.safetensors", "mlx") as f:
        log.tensors("slices", {n: f.get_slice(n)[:2] for n in f.keys()})
    log.value("names", json.dumps(sorted(flat)))
    log.broken("package.safetensors", lambda: load_file("package.safetensors"))
