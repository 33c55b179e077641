#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""read_files.py KIND FOLDER FILE... - what a library reads of files that others wrote, in the form of expect.py; for
../inventory.py, in the environment of the library. KIND: torch, onnx, numpy, tf, safetensors. Pickles only by readers that allow no
names but those of tensors (torch's weights_only; an unpickler of numpy's names alone)."""

import io
import json
import os
import pathlib
import pickle
import sys
import warnings

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import numpy as np
from expect import NAMES, rows, sha

warnings.filterwarnings("ignore")


def flat(value, leaf, prefix="", found=None):
    found = {} if found is None else found
    answers = leaf(value)
    if answers is not None:
        found[prefix or "*"] = answers
    elif isinstance(value, (dict, list, tuple)):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            flat(item, leaf, "%s.%s" % (prefix, key) if prefix else str(key), found)
    return found


def by_torch(path):
    import torch

    def leaf(t):
        if not isinstance(t, torch.Tensor):
            return None
        t = t.detach().contiguous()
        raw = t.reshape(-1).view(torch.uint8).numpy().tobytes() if t.numel() else b""
        return [[NAMES[str(t.dtype).split(".")[-1]], list(t.shape), sha(raw)]]

    try:
        value = torch.jit.load(str(path), map_location="cpu").state_dict()
        return {"tensors": flat(dict(value), leaf), "options": ["--allow-opaque"], "more": True}
    except RuntimeError:
        options = []
        try:
            value = torch.load(path, map_location="cpu", weights_only=True)
        except pickle.UnpicklingError:  # names beside the tensors: those are stood in for

            class Any(dict):
                def __init__(self, *a, **k):
                    super().__init__()

                def __setstate__(self, state):
                    pass

                def __call__(self, *a, **k):
                    return Any()

            class Reader(pickle.Unpickler):
                def find_class(self, module, name):
                    if module.split(".")[0] in ("torch", "collections") and name in (
                        "OrderedDict",
                        "_rebuild_tensor_v2",
                        "_rebuild_parameter",
                        "FloatStorage",
                        "LongStorage",
                        "HalfStorage",
                        "device",
                    ):
                        return super().find_class(module, name)
                    return Any

            class Module:
                Unpickler = Reader
                load = staticmethod(pickle.load)

            value = torch.load(path, map_location="cpu", weights_only=False, pickle_module=Module)
            options = ["--allow-opaque"]
        part = next(
            (
                p
                for p in ("state_dict", "model_state_dict", "model_state", "model")
                if isinstance(value, dict) and isinstance(value.get(p), dict)
            ),
            None,
        )
        return {"tensors": flat(value[part] if part else value, leaf), "options": options, "more": True}


def by_onnx(path):
    import onnx
    from onnx import numpy_helper

    model = onnx.load(str(path))
    found, named = {}, []

    def answer(t):
        if t.data_type == onnx.TensorProto.STRING:
            named.append(t.name)
            return []
        return rows(numpy_helper.to_array(t, str(path.parent)))

    for t in model.graph.initializer:
        found[t.name] = answer(t)
    for t in model.graph.sparse_initializer:
        named.append(t.values.name)
    for node in model.graph.node:
        if node.op_type == "Constant" and node.domain in ("", "ai.onnx") and node.output:
            for a in node.attribute:
                value = {
                    "value": lambda a=a: numpy_helper.to_array(a.t, str(path.parent)),
                    "value_float": lambda a=a: np.array(a.f, np.float32),
                    "value_floats": lambda a=a: np.array(list(a.floats), np.float32),
                    "value_int": lambda a=a: np.array(a.i, np.int64),
                    "value_ints": lambda a=a: np.array(list(a.ints), np.int64),
                }.get(a.name)
                if value is None or a.name == "value" and a.t.data_type == onnx.TensorProto.STRING:
                    named.append(node.output[0])
                else:
                    found[node.output[0]] = rows(value())
        for a in node.attribute if node.op_type != "Constant" and node.output and node.output[0] else ():
            for i, t in enumerate([a.t] if a.type == onnx.AttributeProto.TENSOR else a.tensors):
                end = "" if a.type == onnx.AttributeProto.TENSOR else ".%d" % i
                found["%s.%s%s" % (node.output[0], a.name, end)] = answer(t)
    found = {k: v for k, v in found.items() if v}
    entry = {"tensors": found, "named": named, "more": True}
    if (
        not found
        and not named
        and not any(a.g.node or a.graphs for n in model.graph.node for a in n.attribute)
        and not model.functions
    ):
        entry["not_converted"] = "no tensor"
    return entry


class Numbers(pickle.Unpickler):
    def find_class(self, module, name):
        if (module, name) in (
            ("numpy.core.multiarray", "_reconstruct"),
            ("numpy._core.multiarray", "_reconstruct"),
            ("numpy", "ndarray"),
            ("numpy", "dtype"),
            ("_codecs", "encode"),
        ):
            return super().find_class(module.replace("numpy.core", "numpy._core"), name)
        raise pickle.UnpicklingError(module + "." + name)


def by_numpy(path):
    def leaf(value):
        return rows(value) if isinstance(value, (np.ndarray, np.generic)) else None

    if path.suffix == ".npz":
        with np.load(path) as z:
            value = {k: z[k] for k in z.files}
    elif path.suffix == ".npy":
        return {"tensors": {"arr_0": rows(np.load(path))}}
    else:
        value = Numbers(io.BytesIO(path.read_bytes()), encoding="latin1").load()
    found = flat(value, leaf)
    return {"tensors": found, **({} if found else {"not_converted": "no array"})}


def by_tf(path):
    if path.suffix == ".tflite":
        from tensorflow.lite.python import schema_py_generated as schema

        model = schema.ModelT.InitFromObj(schema.Model.GetRootAs(path.read_bytes(), 0))
        types = {v: k.lower() for k, v in vars(schema.TensorType).items() if isinstance(v, int)}
        found = {}
        for graph in model.subgraphs:
            for tensor in graph.tensors:
                data = model.buffers[tensor.buffer].data
                if data is not None and len(data):
                    raw, kind = bytes(bytearray(data)), types[tensor.type]
                    row = (
                        [
                            NAMES[kind],
                            [] if tensor.shape is None else [int(n) for n in tensor.shape],
                            sha(raw),
                        ]
                        if kind in NAMES
                        else ["U8", [len(raw)], sha(raw)]
                    )
                    key = (
                        tensor.name.decode()
                        if len(model.subgraphs) == 1
                        else "%s.%s" % (graph.name.decode(), tensor.name.decode())
                    )
                    found.setdefault(key, []).append(row)
        return {"tensors": found}
    import tensorflow as tf

    if path.suffix == ".pb":
        return {"tensors": {}, "not_converted": "a graph"}
    reader = tf.train.load_checkpoint(str(path)[: -len(".index")])
    kinds = reader.get_variable_to_dtype_map()
    found, named = {}, []
    for key in kinds:
        if kinds[key].name in ("string", "variant", "resource"):
            named.append(key)
        else:
            found[key] = rows(np.asarray(reader.get_tensor(key)))
    return {"tensors": found, "named": named}


def by_safetensors(path):
    from safetensors import safe_open

    with safe_open(str(path), "numpy") as f:
        return {"tensors": {k: rows(f.get_tensor(k)) for k in f.keys()}}


def main():
    kind, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    read = {
        "torch": by_torch,
        "onnx": by_onnx,
        "numpy": by_numpy,
        "tf": by_tf,
        "safetensors": by_safetensors,
    }[kind]
    content = {}
    for name in sys.argv[3:]:
        try:
            content[name] = read(folder / name)
        except Exception as e:
            content[name] = {"unread": "%s: %s" % (type(e).__name__, str(e)[:200])}
    print(json.dumps(content))
    return 0


if __name__ == "__main__":
    sys.exit(main())
