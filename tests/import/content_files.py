# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Builders of the small files that scan is asked about: graphs of TensorFlow and ONNX, configurations of Keras, images,
tokens, safetensors, GGUF. Standard library only."""

import base64
import json
import pathlib
import struct
import sys
import zlib

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from hostile_proto import field, varint  # noqa: E402

# ---------------------------------------------------------------- protobuf


def fixed32(number, value):
    return varint(number << 3 | 5) + struct.pack("<f", value)


def node(name, op, **attrs):
    out = field(1, name) + field(2, op)
    for key, text in attrs.items():
        out += field(5, field(1, key) + field(2, field(2, text)))
    return out


def function(name, *nodes):
    return field(1, field(1, field(1, name)) + b"".join(field(3, n) for n in nodes))


def graph(*nodes, functions=b""):
    out = b"".join(field(1, n) for n in nodes)
    return out + (field(2, functions) if functions else b"")


def saved_model(graph_def, more=b""):
    return field(1, 1) + field(2, field(1, field(4, "serve")) + field(2, graph_def) + more)


def onnx_node(op, domain="", attribute=b""):
    return field(1, "x") + field(2, "y") + field(4, op) + attribute + (field(7, domain) if domain else b"")


def onnx(*nodes, tensors=(), more=b""):
    weights = (
        field(1, 1) + field(1, 4) + field(2, 1) + field(8, "w") + field(9, struct.pack("<4f", 1, 2, 3, 4))
    )
    body = b"".join(field(1, n) for n in nodes) + field(2, "g") + field(5, weights)
    body += b"".join(field(5, t) for t in tensors)
    return field(1, 8) + field(2, "test") + field(7, body) + field(8, field(2, 17)) + more


# ---------------------------------------------------------------- Keras


def keras(class_name, config=None, module="keras.layers", registered=None):
    return {
        "module": module,
        "class_name": class_name,
        "config": {"name": "x"} if config is None else config,
        "registered_name": registered,
    }


def model(*layers):
    return {
        "module": "keras",
        "class_name": "Sequential",
        "registered_name": "Sequential",
        "build_config": {"input_shape": [None, 4]},
        "config": {"name": "s", "trainable": True, "layers": list(layers)},
        "compile_config": {"optimizer": keras("Adam", module="keras.optimizers"), "loss": "mse"},
    }


DENSE = keras(
    "Dense",
    {
        "name": "d",
        "units": 4,
        "activation": "relu",
        "kernel_initializer": keras("GlorotUniform", {"seed": None}, "keras.initializers"),
    },
)
CODE = base64.b64encode(b"\xe3" + b"\0" * 30).decode()
LAMBDA = {"class_name": "__lambda__", "config": {"value": CODE, "defaults": None, "closure": None}}


# ---------------------------------------------------------------- images


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(*more, idat=b"", end=b""):
    """A picture of one pixel. more: (kind, data) of chunks behind its head; idat: what follows its compressed data; end: what follows the file."""
    head = chunk(b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0))
    return (
        b"\x89PNG\r\n\x1a\n"
        + head
        + b"".join(chunk(*m) for m in more)
        + chunk(b"IDAT", zlib.compress(b"\0\0") + idat)
        + chunk(b"IEND", b"")
        + end
    )


JPEG = (
    b"\xff\xd8\xff\xe0\0\x10JFIF\0\1\1\0\0\1\0\1\0\0"
    + b"\xff\xdb\0\x43\0"
    + bytes(64)
    + b"\xff\xda\0\x08\1\1\0\0\x3f\0"
    + b"\x12\xff\0\x34"
    + b"\xff\xd9"
)
GIF = b"GIF89a\1\0\1\0\x80\0\0\0\0\0\xff\xff\xff,\0\0\0\0\1\0\1\0\0\2\2D\1\0;"
WEBP = b"RIFF\x1a\0\0\0WEBPVP8L\x0d\0\0\0" + bytes(13) + b"\0"
SVG = "<svg xmlns='http://www.w3.org/2000/svg'><rect width='1' height='1'/>%s</svg>"


# ---------------------------------------------------------------- metadata, tokens


def safetensors(metadata):
    head = json.dumps(
        {"__metadata__": metadata, "w": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}
    ).encode()
    return struct.pack("<Q", len(head)) + head + bytes(4)


def gguf(**texts):
    def string(text):
        text = text.encode()
        return struct.pack("<Q", len(text)) + text

    out = (
        b"GGUF"
        + struct.pack("<IQQ", 3, 0, len(texts) + 1)
        + string("general.architecture")
        + struct.pack("<I", 8)
    )
    out += string("llama")
    for key, text in texts.items():
        out += string(key) + struct.pack("<I", 8) + string(text)
    return out + bytes(-len(out) % 32)


PIECES = (
    field(1, field(1, "<unk>") + fixed32(2, 0.0) + field(3, 2))
    + b"".join(field(1, field(1, f"▁w{i}") + fixed32(2, -1.5)) for i in range(50))
    + field(2, field(1, "in.txt") + field(4, 51))
    + field(3, field(1, "nmt_nfkc") + field(2, b"\0\1\2"))
)
