#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""write_paddle.py FOLDER - Paddle: state dicts of every type and protocol, optimizers, tensors alone, inference models
(.pdmodel or .json with .pdiparams); what Paddle loads of each."""

import os
import sys
import warnings

os.environ.setdefault("FLAGS_use_mkldnn", "0")
import numpy as np
import paddle
from expect import NAMES, Files, rows, sha

warnings.filterwarnings("ignore")
files = Files("paddle " + paddle.__version__)
paddle.seed(41)


def answer(value):
    if isinstance(value, paddle.Tensor):
        kind = str(value.dtype).split(".")[-1]
        if kind not in NAMES:
            return []
        return [[NAMES[kind], list(value.shape), sha(value.numpy().tobytes())]]
    return rows(value)


def flat(value, prefix="", found=None):
    found = {} if found is None else found
    if isinstance(value, (paddle.Tensor, np.ndarray)):
        found[prefix or "*"] = answer(value)
    elif isinstance(value, (dict, list, tuple)):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            flat(item, "%s.%s" % (prefix, key) if prefix else str(key), found)
    return found


def put(name, value, **how):
    try:
        paddle.save(value, str(files.path(name)), **how)
        found = flat(paddle.load(str(files.path(name))))
    except Exception as e:
        files.skip(name, e)
        return
    files.add(name, found, **({} if found else {"not_converted": "no tensor"}))


for kind in [k for k in NAMES if hasattr(paddle, k)] + ["complex128"]:
    try:
        value = (paddle.randn([3, 4]) * 9).astype(kind)
    except Exception as e:
        files.skip(kind, e)
        continue
    for protocol in (2, 4):
        put("type-%s-%d.pdparams" % (kind, protocol), {"w": value, "s": value[0, 0]}, protocol=protocol)
    put("alone-%s.pdtensor" % kind, value)
    try:
        path = files.path("binary-%s.pdtensor" % kind)
        paddle.save(value, str(path), use_binary_format=True)
        files.add(path.name, {"*": answer(value)})
    except Exception as e:
        files.skip("binary-" + kind, e)
for name, layer in {
    "linear": paddle.nn.Linear(3, 4),
    "conv": paddle.nn.Conv2D(3, 4, 3),
    "norm": paddle.nn.BatchNorm1D(4),
    "lstm": paddle.nn.LSTM(3, 4, 2),
    "embedding": paddle.nn.Embedding(7, 3),
    "attention": paddle.nn.MultiHeadAttention(8, 2),
    "encoder": paddle.nn.TransformerEncoderLayer(8, 2, 16),
}.items():
    for protocol in (2, 3, 4):
        put("layer-%s-%d.pdparams" % (name, protocol), layer.state_dict(), protocol=protocol)
for name in ("SGD", "Momentum", "Adam", "AdamW", "Adagrad", "Adamax", "RMSProp", "Lamb"):
    try:
        layer = paddle.nn.Linear(4, 3)
        optimizer = getattr(paddle.optimizer, name)(learning_rate=0.1, parameters=layer.parameters())
        layer(paddle.ones([2, 4])).sum().backward()
        optimizer.step()
        put("optimizer-%s.pdopt" % name, optimizer.state_dict())
    except Exception as e:
        files.skip(name, e)
put(
    "tree.pdparams",
    {
        "t": paddle.ones([2, 2]),
        "list": [paddle.zeros([1]), 5, {"deep": paddle.rand([3])}],
        "n": np.arange(3),
        "x": "text",
    },
)
put("none.pdparams", {"a": 1})
put("scalar.pdparams", {"s": paddle.to_tensor(3.5), "e": paddle.zeros([0, 3])})


class Net(paddle.nn.Layer):
    def __init__(self, kind="float32"):
        super().__init__()
        self.one = paddle.nn.Linear(4, 6)
        self.norm = paddle.nn.BatchNorm1D(6)
        self.two = paddle.nn.Linear(6, 2)

    def forward(self, x):
        return self.two(self.norm(self.one(x)))


for pir in (True, False):
    name = "inference-%s" % ("pir" if pir else "old")
    try:
        paddle.set_flags({"FLAGS_enable_pir_api": pir})
        if not pir:
            paddle.framework.set_flags({"FLAGS_enable_pir_api": False})
        net = Net()
        net.eval()
        spec = [paddle.static.InputSpec([None, 4], "float32")]
        paddle.jit.save(net, str(files.path(name)), input_spec=spec)
        wanted = {}
        for key, value in paddle.jit.load(str(files.path(name))).state_dict().items():
            wanted[key] = answer(value)
        # the names in the program are those of the variables, not those of the layers: values in any order
        files.add(name + ".pdiparams", {}, more=True, values=sorted(r[0][2] for r in wanted.values()))
    except Exception as e:
        files.skip(name, e)
sys.exit(files.close())
