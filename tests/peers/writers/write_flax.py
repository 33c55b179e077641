#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""write_flax.py FOLDER - msgpack by flax: every type of ml_dtypes, states of modules and of optax, chunks."""

import sys

import flax
import flax.linen as nn
import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import optax
from expect import Files
from flax import serialization
from flax.training import train_state

files = Files("flax " + flax.__version__)
rng = np.random.default_rng(34)


def flat(tree, prefix="", found=None):
    found = {} if found is None else found
    for key, value in tree.items():
        if isinstance(value, dict):
            flat(value, "%s%s." % (prefix, key), found)
        elif hasattr(value, "dtype"):
            found["%s%s" % (prefix, key)] = np.asarray(value)
    return found


def put(name, tree):
    data = serialization.to_bytes(tree)
    files.path(name).write_bytes(data)
    found = flat(serialization.msgpack_restore(data))
    files.add(name, found, **({} if found else {"not_converted": "no array"}))


plain = "bool uint8 int8 uint16 int16 uint32 int32 uint64 int64 float16 float32 float64 complex64 complex128".split()
more = sorted(k for k in vars(ml_dtypes) if k.startswith(("bfloat", "float", "int", "uint")))
for name in plain + more:
    try:
        kind = np.dtype(getattr(ml_dtypes, name, name))
        x = np.abs(rng.standard_normal((3, 5))) * (1 if "1" == name[-1] else 2 if name[-1] in "24" else 20)
        put("type-%s.msgpack" % name, {"params": {"w": x.astype(kind), "s": x.astype(kind)[0, 0]}})
        put("jax-%s.msgpack" % name, {"params": {"w": jnp.asarray(x[:2]).astype(kind)}})
    except Exception as e:
        files.skip(name, e)
for shape in ((), (0,), (0, 3), (1, 1, 1, 1), (70000,)):
    put("shape-%s.msgpack" % "x".join(map(str, shape)), {"w": np.zeros(shape, np.float32)})
put(
    "strings.msgpack",
    {"w": np.ones(3), "text": "x", "bytes": b"123", "none": None, "n": 5, "f": 0.5, "c": 1j, "big": 2**60},
)
put("names.msgpack", {"a/b": np.ones(1), "a.b": np.zeros(2), "": np.ones(4), "名": {"": np.ones(3)}})
put("clash.msgpack", {"a.b": np.ones(1), "a": {"b": np.zeros(2)}})
put("ints.msgpack", {0: np.ones(1), 1: np.zeros(2)})
put("none.msgpack", {"step": 3})


class Net(nn.Module):
    kind: str

    @nn.compact
    def __call__(self, x):
        if self.kind == "dense":
            return nn.Dense(3)(nn.relu(nn.Dense(5)(x)))
        if self.kind == "norm":
            return nn.BatchNorm(use_running_average=False)(nn.LayerNorm()(nn.Dense(4)(x)))
        if self.kind == "embed":
            return nn.Embed(7, 4)(jnp.asarray(x, jnp.int32))
        if self.kind == "attention":
            return nn.MultiHeadDotProductAttention(2)(x[:, None], x[:, None])
        return nn.Dense(3, dtype=jnp.bfloat16, param_dtype=jnp.bfloat16)(x)


for kind in ("dense", "norm", "embed", "attention", "half"):
    net = Net(kind)
    variables = net.init(jax.random.key(1), jnp.ones((2, 4)))
    put("module-%s.msgpack" % kind, variables)
    for name in ("adam", "sgd", "adafactor", "lion"):
        state = train_state.TrainState.create(
            apply_fn=net.apply, params=variables["params"], tx=getattr(optax, name)(1e-3)
        )
        put("state-%s-%s.msgpack" % (kind, name), serialization.to_state_dict(state))
serialization.MAX_CHUNK_SIZE = 100  # bytes: arrays in chunks, as those of more than 1 GiB are
for name in ("float32", "float16", "uint8", "int64", "bool"):
    put(
        "chunks-%s.msgpack" % name,
        {"a": (rng.standard_normal((7, 31)) * 3).astype(name), "b": np.ones(3, name)},
    )
sys.exit(files.close())
