#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""make_paddle.py FOLDER - files by the installed paddlepaddle, and paddle.json: what its paddle.load makes of them. Run
by hand for fixtures/ (paddlepaddle 3.3.1, numpy 2.4.6), and by scripts/import_peers.sh."""

import hashlib
import json
import pathlib
import sys

import numpy as np
import paddle
from paddle.framework import io_utils

NAMES = {
    "float32": "F32",
    "float64": "F64",
    "float16": "F16",
    "bfloat16": "BF16",
    "int8": "I8",
    "uint8": "U8",
    "int16": "I16",
    "int32": "I32",
    "int64": "I64",
    "bool": "BOOL",
    "complex64": "C64",
}


def rows(tree, prefix=""):
    """What paddle has of a file: name -> type, shape, SHA-256."""
    found = {}
    items = enumerate(tree) if isinstance(tree, (list, tuple)) else tree.items()
    for key, value in items:
        if isinstance(value, (dict, list, tuple)):
            found.update(rows(value, "%s%s." % (prefix, key)))
        elif isinstance(value, paddle.Tensor):
            kind = NAMES[str(value.dtype).split(".")[-1]]
            found[prefix + str(key)] = [
                kind,
                list(value.shape),
                hashlib.sha256(value.numpy().tobytes()).hexdigest(),
            ]
        elif isinstance(value, np.ndarray):
            kind = NAMES[value.dtype.name]
            found[prefix + str(key)] = [kind, list(value.shape), hashlib.sha256(value.tobytes()).hexdigest()]
    return found


def main() -> int:
    folder = pathlib.Path(sys.argv[1])
    paddle.seed(3)
    content = {}

    def put(name: str, value, **how) -> None:
        paddle.save(value, str(folder / name), **how)
        loaded = paddle.load(str(folder / name))
        content[name] = rows({"tensor": loaded} if isinstance(loaded, paddle.Tensor) else loaded)

    class Every(paddle.nn.Layer):
        def __init__(self) -> None:
            super().__init__()
            self.inner = paddle.nn.Sequential(paddle.nn.Linear(3, 5), paddle.nn.BatchNorm1D(5))
            for kind in NAMES:
                self.register_buffer("buffer_" + kind, (paddle.randn([2, 3]) * 9).astype(kind))

    layer = Every()
    for protocol in (2, 3, 4):
        put("paddle%d.pdparams" % protocol, layer.state_dict(), protocol=protocol)
    model = paddle.nn.Linear(4, 3)
    model.to(dtype="bfloat16")
    put("paddle-bf16.pdparams", model.state_dict())
    model = paddle.nn.Linear(4, 3)
    optimizer = paddle.optimizer.AdamW(parameters=model.parameters())
    model(paddle.ones([2, 4])).sum().backward()
    optimizer.step()
    put("paddle.pdopt", optimizer.state_dict())
    put(
        "paddle-object.pdparams",
        {
            "t": paddle.ones([2, 2]).astype("bfloat16"),
            "n": np.arange(3),
            "list": [paddle.zeros([1]), 5, {"deep": paddle.rand([3])}],
            "text": "x",
        },
    )
    put("paddle-one.pdtensor", paddle.rand([2, 2]))
    # Large parameters in slices: the writer's and reader's own code, with 2^30 replaced by 2^6 in its source.
    source = pathlib.Path(io_utils.__file__).read_text(encoding="utf-8")
    space = dict(vars(io_utils))
    start = source.index("def _unpack_saved_dict")
    exec(source[start : source.index("\ndef ", start)].replace("2**30", "2**6"), space)
    paddle.framework.io._unpack_saved_dict = space["_unpack_saved_dict"]
    big = paddle.nn.Linear(7, 11)
    for protocol in (2, 3):
        put("paddle-slices%d.pdparams" % protocol, big.state_dict(), protocol=protocol)
    paddle.save(paddle.ones([2, 3]), str(folder / "paddle-binary.pdtensor"), use_binary_format=True)
    digest = hashlib.sha256(np.ones((2, 3), np.float32).tobytes()).hexdigest()
    content["paddle-binary.pdtensor"] = {"paddle-binary": ["F32", [2, 3], digest]}
    (folder / "paddle.json").write_text(
        json.dumps(content, indent=1, sort_keys=True) + "\n", encoding="utf-8"
    )
    print("paddle", paddle.__version__, sum(len(v) for v in content.values()), "tensors")
    return 0


if __name__ == "__main__":
    sys.exit(main())
