#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""fixtures.py FOLDER - makes the input files of the golden runs. Standard library only, always the same
bytes. What a file holds is said beside its name below."""

import json
import os
import struct
import sys

SIZES = {
    "F64": 8,
    "I64": 8,
    "U64": 8,
    "C64": 8,
    "F32": 4,
    "I32": 4,
    "U32": 4,
    "F16": 2,
    "BF16": 2,
    "I16": 2,
    "U16": 2,
    "F8_E4M3": 1,
    "F8_E5M2": 1,
    "U8": 1,
    "I8": 1,
    "BOOL": 1,
    "F4": 0.5,
    "F6_E2M3": 0.75,
}


def count(shape):
    n = 1
    for d in shape:
        n *= d
    return n


def fill(dtype, shape):
    """0, 1, 2 ... in the tensor's own type."""
    n = count(shape)
    letter = {
        "F64": "d",
        "F32": "f",
        "F16": "e",
        "I64": "q",
        "U64": "Q",
        "I32": "i",
        "U32": "I",
        "I16": "h",
        "U16": "H",
        "I8": "b",
        "U8": "B",
    }.get(dtype)
    if letter:
        top = {"b": 128, "B": 256}.get(letter, 2048)
        return struct.pack("<%d%s" % (n, letter), *[i % top for i in range(n)])
    if dtype == "BF16":
        return b"".join(struct.pack("<f", float(i % 128))[2:] for i in range(n))
    if dtype == "BOOL":
        return bytes(i % 2 for i in range(n))
    return bytes(i % 256 for i in range(int(n * SIZES[dtype])))


def make(tensors, metadata=None, align=True, data=None):
    """tensors: list of (name, dtype, shape), in file order."""
    header = {}
    if metadata is not None:
        header["__metadata__"] = metadata
    body = b""
    for name, dtype, shape in tensors:
        part = fill(dtype, shape) if data is None else data[name]
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(body), len(body) + len(part)]}
        body += part
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    if align:
        text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + body


def raw(text, body=b""):
    text = text if isinstance(text, bytes) else text.encode()
    return struct.pack("<Q", len(text)) + text + body


def main(folder):
    os.makedirs(folder, exist_ok=True)

    def put(name, data):
        path = os.path.join(folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as f:
            f.write(data)

    small = make(
        [("weight", "F32", [2, 3]), ("ids", "I64", [4]), ("scale", "BF16", [2, 2])],
        {"format": "pt", "note": "caf\u00e9"},
    )
    put("small.safetensors", small)
    put("plain.safetensors", make([("a", "F32", [2])]))
    put("empty.safetensors", make([]))
    put(
        "meta.safetensors",
        make([("a", "U8", [8])], {"format": "pt", "b": "2", "a": "1", "nested": '{"x": 1}'}),
    )
    put(
        "kinds.safetensors",
        make(
            [
                ("scalar", "F64", []),
                ("none", "F32", [0, 4]),
                ("c", "C64", [2]),
                ("f4", "F4", [2, 4]),
                ("b", "BOOL", [3]),
            ]
        ),
    )
    put(
        "cube.safetensors",
        make(
            [
                ("w", "F32", [4, 3, 5]),
                ("w[0]", "U8", [2]),
                ("h", "F16", [6]),
                ("bf", "BF16", [2, 3]),
                ("e4", "F8_E4M3", [4]),
                ("f4", "F4", [2, 4]),
            ]
        ),
    )
    layers = [("embed.weight", "F16", [100, 8])]
    for i in range(12):
        layers += [
            ("layers.%d.attn.q" % i, "F16", [8, 8]),
            ("layers.%d.attn.bias" % i, "F32", [8]),
            ("layers.%d.mlp.w" % i, "F16", [16 if i == 11 else 32, 8]),
        ]
    put("layers.safetensors", make(layers + [("norm", "F32", [8])], {"format": "pt"}))
    put(
        "hostile.safetensors",
        make(
            [
                ("red\x1b[31m", "U8", [1]),
                ("line\nbreak", "U8", [1]),
                ("rtl\u202eevil", "U8", [1]),
                ("zero\u200bwidth", "U8", [1]),
                ("c1\u009b31m", "U8", [1]),
                ("nul\x00byte", "U8", [1]),
                ("del\x7f", "U8", [1]),
                ('quote"back\\slash', "U8", [1]),
                ("\u6f22\u5b57", "U8", [1]),
                ("tag\U000e0041", "U8", [1]),
                ("", "U8", [1]),
            ],
            {"key\x1b]0;title\x07": "value\x1b[2J\r\n\u202e"},
        ),
    )
    put("misaligned.safetensors", make([("u", "U8", [1]), ("f", "F32", [2])], align=False))

    # a model of two shards
    one = make([("a", "F32", [2]), ("b", "F32", [3])], {"format": "pt"})
    two = make([("c", "I64", [2])], {"format": "pt"})
    put("model/model-00001-of-00002.safetensors", one)
    put("model/model-00002-of-00002.safetensors", two)
    index = {
        "metadata": {"total_size": 36},
        "weight_map": {
            "a": "model-00001-of-00002.safetensors",
            "b": "model-00001-of-00002.safetensors",
            "c": "model-00002-of-00002.safetensors",
        },
    }
    put("model/model.safetensors.index.json", json.dumps(index).encode())
    put("gap/model-00001-of-00002.safetensors", one)
    put("gap/model.safetensors.index.json", json.dumps(index).encode())
    index["weight_map"]["c"] = "../model/model-00002-of-00002.safetensors"
    put("escape/model-00001-of-00002.safetensors", one)
    put("escape/model.safetensors.index.json", json.dumps(index).encode())

    # a training job of two ranks and two steps; the second rank has not finished the last one
    rows = [bytes(range(r * 16, r * 16 + 16)) for r in range(2)]
    for rank in range(2):
        for step in ("1_1", "1_2", "2_1")[: 3 - rank]:
            put(
                "ranks/job/rank_%d/net_rank_%d-%s.safetensors" % (rank, rank, step),
                make([("w", "F32", [2, 2]), ("n", "U8", [3])], data={"w": rows[rank], "n": b"\1\2\3"}),
            )
    put(
        "ranks/job/layout.json",
        json.dumps(
            {
                "format": "safetensors-layout",
                "version": 1,
                "mesh": {"axes": {"tp": 2}},
                "tensors": [{"name": "w", "cuts": ["tp", None]}],
            }
        ).encode(),
    )
    put(
        "ranks/whole.safetensors",
        make([("w", "F32", [4, 2]), ("n", "U8", [3])], data={"w": b"".join(rows), "n": b"\1\2\3"}),
    )
    put("ranks/plan.json", json.dumps({"layers.*.q_proj": "colwise", "layers.*.o_proj": "rowwise"}).encode())
    strategy = {
        "dev_matrix": [2, 2],
        "tensor_map": [0, -1],
        "tensor_shape": [8, 4],
        "field": 0,
        "opt_weight_shard_step": 2,
        "opt_weight_shard_size": 2,
    }
    put(
        "ranks/strategy.json",
        json.dumps(
            {"current_stage": 0, "parallel_strategy_item": {}, "parallel_layout_item": {"w": strategy}}
        ).encode(),
    )

    # what people take for safetensors
    put("bad/empty.safetensors", b"")
    put("bad/lfs.safetensors", b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 1024\n")
    put("bad/page.safetensors", b"<!DOCTYPE html>\n<html><body>404</body></html>\n")
    put("bad/zip.safetensors", b"PK\x03\x04\x00\x00\x08\x08" + bytes(60))
    put("bad/pickle.safetensors", b"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.")
    put("bad/gguf.safetensors", b"GGUF\x03\x00\x00\x00" + bytes(16))
    put("bad/json.safetensors", b'{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}')
    put("bad/zeros.safetensors", bytes(64))
    put("bad/short.safetensors", small[:-10])
    put("bad/header-cut.safetensors", small[:40])
    put("bad/long.safetensors", small + b"\0\0\0")
    put("bad/tiny.safetensors", b"\x01\x02\x03")
    put("bad/dtype.safetensors", raw('{"w":{"dtype":"F99","shape":[1],"data_offsets":[0,4]}}', bytes(4)))
    put(
        "bad/overlap.safetensors",
        raw(
            '{"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},'
            '"b":{"dtype":"U8","shape":[4],"data_offsets":[2,6]}}',
            bytes(6),
        ),
    )
    put(
        "bad/hole.safetensors",
        raw(
            '{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},'
            '"b":{"dtype":"U8","shape":[2],"data_offsets":[3,5]}}',
            bytes(5),
        ),
    )
    put("bad/syntax.safetensors", raw('{"a":{"dtype":"U8",}}'))
    put(
        "bad/esc.safetensors",
        raw('{"\\u001b[31mred":{"dtype":"U9","shape":[2],"data_offsets":[0,2]}}', bytes(2)),
    )


if __name__ == "__main__":
    main(sys.argv[1])
