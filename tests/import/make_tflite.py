#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""make_tflite.py FOLDER - models by the installed tensorflow's converter, and tflite.json: the constants as its interpreter
gives them (those of less than a byte, and of models that no interpreter runs, as the schema's own classes have them).
Run by hand for fixtures/ (tensorflow-cpu 2.21.0, numpy 2.4.6), and by scripts/import_peers.sh."""

import hashlib
import json
import os
import pathlib
import sys

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import numpy as np
import tensorflow as tf
from tensorflow.lite.python import schema_py_generated as schema
from tensorflow.lite.tools import flatbuffer_utils

NAMES = {
    0: "F32",
    1: "F16",
    2: "I32",
    3: "U8",
    4: "I64",
    6: "BOOL",
    7: "I16",
    8: "C64",
    9: "I8",
    10: "F64",
    12: "U64",
    15: "U32",
    16: "U16",
    18: "BF16",
}


class Net(tf.Module):
    """Two signatures over one set of weights."""

    def __init__(self) -> None:
        super().__init__()
        rng = np.random.default_rng(9)
        self.w = tf.constant(rng.standard_normal((16, 8)).astype(np.float32))
        self.b = tf.constant(rng.standard_normal(8).astype(np.float32))
        self.k = tf.constant(rng.standard_normal((3, 3, 2, 4)).astype(np.float32))

    @tf.function(input_signature=[tf.TensorSpec([1, 16], tf.float32)])
    def dense(self, x: tf.Tensor) -> dict:
        return {"y": tf.nn.relu(tf.matmul(x, self.w) + self.b)}

    @tf.function(input_signature=[tf.TensorSpec([1, 5, 5, 2], tf.float32)])
    def image(self, x: tf.Tensor) -> dict:
        return {"y": tf.reshape(tf.nn.conv2d(x, self.k, 1, "SAME"), [-1, 4])}


def rows(path: pathlib.Path) -> dict[str, list]:
    data = path.read_bytes()
    model = flatbuffer_utils.read_model_from_bytearray(bytearray(data))
    found = {}
    for s, graph in enumerate(model.subgraphs):
        name = graph.name.decode() if graph.name else ""
        prefix = "" if len(model.subgraphs) == 1 else (name or "subgraph_%d" % s) + "."
        runs = None
        try:
            runs = tf.lite.Interpreter(model_content=data, experimental_preserve_all_tensors=True)
        except (RuntimeError, ValueError):
            pass
        for i, t in enumerate(graph.tensors):
            buffer = model.buffers[t.buffer].data
            if (
                not t.buffer
                or buffer is None
                or len(buffer) == 0
                or t.type not in NAMES
                and t.type not in (17, 19, 20)
            ):
                continue
            raw = bytes(bytearray(buffer))
            shape = [int(n) for n in t.shape] if t.shape is not None else []
            if t.type in (17, 19, 20):
                dtype, shape = "U8", [len(raw)]
            else:
                dtype = NAMES[t.type]
                if runs is not None and t.sparsity is None:
                    assert (
                        runs.get_tensor(i, s).tobytes() == raw and list(runs.get_tensor(i, s).shape) == shape
                    )
            if t.sparsity is None:
                found[prefix + t.name.decode()] = [dtype, shape, hashlib.sha256(raw).hexdigest()]
    return found


def typed() -> bytes:
    """One model of constants of every type, by the schema's own classes."""
    rng = np.random.default_rng(5)
    model = schema.ModelT()
    model.version, model.description = 3, b"types"
    model.operatorCodes, model.buffers = [], [schema.BufferT()]
    graph = schema.SubGraphT()
    graph.name, graph.tensors, graph.inputs, graph.outputs, graph.operators = b"main", [], [], [], []
    model.subgraphs = [graph]

    def put(
        name: str, kind: int, shape: list, raw: bytes, quant: schema.QuantizationParametersT | None = None
    ) -> None:
        t = schema.TensorT()
        t.name, t.type, t.shape, t.buffer, t.quantization = name, kind, shape, len(model.buffers), quant
        b = schema.BufferT()
        b.data = list(raw)
        model.buffers.append(b)
        graph.tensors.append(t)

    sizes = {0: 4, 1: 2, 2: 4, 3: 1, 4: 8, 6: 1, 7: 2, 8: 8, 9: 1, 10: 8, 12: 8, 15: 4, 16: 2, 18: 2}
    for kind, size in sizes.items():
        raw = bytes(rng.integers(0, 2 if kind == 6 else 256, 15 * size, dtype=np.uint8))
        put("all/%s" % NAMES[kind], kind, [3, 5], raw)
    for kind, name, raw in ((17, "int4", bytes(8)), (19, "int2", bytes(4)), (20, "uint4", bytes(range(8)))):
        q = schema.QuantizationParametersT()
        q.scale, q.zeroPoint, q.quantizedDimension = [0.5, 0.1, 1 / 3], [0, -3, 2], 0
        put(name, kind, [3, 5], raw, q)
    put("scalar", 0, [], np.float32(2.5).tobytes())
    put("same", 0, [1], np.float32(1.5).tobytes())
    alias = schema.TensorT()
    alias.name, alias.type, alias.shape, alias.buffer = "same_again", 0, [1], len(model.buffers) - 1
    graph.tensors.append(alias)
    return bytes(flatbuffer_utils.convert_object_to_bytearray(model))


def main() -> int:
    folder = pathlib.Path(sys.argv[1])
    net = Net()
    content = {}

    def put(name: str, data: bytes) -> None:
        (folder / name).write_bytes(data)
        content[name] = rows(folder / name)

    def convert(*functions: str, **options: object) -> bytes:
        signatures = [getattr(net, f).get_concrete_function() for f in functions]
        converter = tf.lite.TFLiteConverter.from_concrete_functions(signatures, net)
        for key, value in options.items():
            setattr(converter, key, value)
        return converter.convert()

    def samples() -> object:
        for i in range(4):
            yield [np.random.default_rng(i).standard_normal((1, 16)).astype(np.float32)]

    put("tflite.tflite", convert("dense"))
    put("tflite-offsets.tflite", convert("dense", _experimental_use_buffer_offset=True))
    put(
        "tflite-int8.tflite",
        convert("dense", optimizations=[tf.lite.Optimize.DEFAULT], representative_dataset=samples),
    )
    put(
        "tflite-f16.tflite",
        convert(
            "image",
            optimizations=[tf.lite.Optimize.DEFAULT],
            target_spec=tf.lite.TargetSpec(supported_types=[tf.float16]),
        ),
    )
    saved = folder / "saved"
    tf.saved_model.save(net, str(saved), {"dense": net.dense, "image": net.image})
    put("tflite-graphs.tflite", tf.lite.TFLiteConverter.from_saved_model(str(saved)).convert())
    for path in sorted(saved.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    saved.rmdir()
    put("tflite-types.tflite", typed())
    text = json.dumps(content, indent=1, sort_keys=True, ensure_ascii=False)
    (folder / "tflite.json").write_text(text + "\n", encoding="utf-8")
    print("tensorflow", tf.__version__, sum(len(v) for v in content.values()), "tensors")
    return 0


if __name__ == "__main__":
    sys.exit(main())
