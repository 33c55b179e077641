#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""make_onnx.py FOLDER - models by the installed onnx, and onnx.json: what its own numpy_helper makes of their tensors.
Run by hand for fixtures/ (onnx 1.23.2, numpy 2.4.6, ml_dtypes 0.6.0), and by scripts/import_peers.sh."""

import hashlib
import json
import pathlib
import sys

import ml_dtypes
import numpy as np
import onnx
from onnx import TensorProto as T
from onnx import helper, numpy_helper

ROWS = {
    "float32": "F32",
    "float64": "F64",
    "float16": "F16",
    "bfloat16": "BF16",
    "int8": "I8",
    "uint8": "U8",
    "int16": "I16",
    "uint16": "U16",
    "int32": "I32",
    "uint32": "U32",
    "int64": "I64",
    "uint64": "U64",
    "bool": "BOOL",
    "complex64": "C64",
    "float8_e4m3fn": "F8_E4M3",
    "float8_e5m2": "F8_E5M2",
    "float8_e4m3fnuz": "F8_E4M3FNUZ",
    "float8_e5m2fnuz": "F8_E5M2FNUZ",
    "float8_e8m0fnu": "F8_E8M0",
}
PLAIN = [
    T.FLOAT,
    T.UINT8,
    T.INT8,
    T.UINT16,
    T.INT16,
    T.INT32,
    T.INT64,
    T.BOOL,
    T.FLOAT16,
    T.DOUBLE,
    T.UINT32,
    T.UINT64,
    T.COMPLEX64,
    T.BFLOAT16,
    T.FLOAT8E4M3FN,
    T.FLOAT8E4M3FNUZ,
    T.FLOAT8E5M2,
    T.FLOAT8E5M2FNUZ,
    T.FLOAT8E8M0,
]
SMALL = {T.UINT4: 4, T.INT4: 4, T.FLOAT4E2M1: 4, T.UINT2: 2, T.INT2: 2}


def row(proto: onnx.TensorProto, folder: str = "") -> list:
    """Type, shape and SHA-256 of what onnx loads; types that share bytes as onnx packs them."""
    if proto.data_type in SMALL:
        raw = proto.raw_data or bytes(v & 0xFF for v in proto.int32_data)
        count = int(np.prod(proto.dims, dtype=int))
        packed = ["U8", [len(raw)]]
        if proto.data_type == T.FLOAT4E2M1 and count % 2 == 0:
            packed = ["F4", list(proto.dims)]
        values = numpy_helper.to_array(proto).reshape(-1).astype(np.float32)  # onnx's own unpacking agrees
        bits = SMALL[proto.data_type]
        codes = [raw[i * bits // 8] >> i * bits % 8 & (1 << bits) - 1 for i in range(count)]
        kind = helper.tensor_dtype_to_np_dtype(proto.data_type)
        assert (np.array(codes, dtype=np.uint8).view(kind).astype(np.float32) == values).all() or bits == 4
        return [*packed, hashlib.sha256(raw).hexdigest()]
    value = numpy_helper.to_array(proto, folder)
    return [ROWS[value.dtype.name], list(value.shape), hashlib.sha256(value.tobytes()).hexdigest()]


def model(tensors=(), nodes=(), functions=(), **more) -> onnx.ModelProto:
    graph = helper.make_graph(list(nodes), "g", [], [], initializer=list(tensors), **more)
    return helper.make_model(graph, functions=list(functions), producer_name="tests")


def array(rng, kind, shape=(3, 5)):
    dtype = helper.tensor_dtype_to_np_dtype(kind)
    x = rng.standard_normal(shape) * 20
    return (
        (np.abs(x) % 2).astype(dtype)
        if kind in SMALL
        else x.astype(dtype)
        if kind != T.UINT64
        else abs(x).astype(dtype)
    )


def main() -> int:
    folder = pathlib.Path(sys.argv[1])
    rng = np.random.default_rng(11)
    content = {}

    def put(name: str, made: onnx.ModelProto, rows: dict, **how) -> None:
        onnx.save_model(made, str(folder / name), **how)
        content[name] = rows

    raw, single = [], []
    for kind in PLAIN + list(SMALL):
        value = array(rng, kind)
        name = T.DataType.Name(kind).lower()
        raw.append(numpy_helper.from_array(value, "raw." + name))
        if kind != T.COMPLEX64 or True:
            single.append(helper.make_tensor("single." + name, kind, value.shape, value.reshape(-1)))
    raw.append(numpy_helper.from_array(np.float32(3.5).reshape(()), "scalar"))
    raw.append(numpy_helper.from_array(np.zeros((0, 4), np.float16), "empty"))
    raw.append(helper.make_tensor("even_fp4", T.FLOAT4E2M1, (4, 2), bytes(range(4)), raw=True))
    single.append(
        helper.make_tensor("long", T.FLOAT16, (3001,), rng.standard_normal(3001).astype(np.float16))
    )
    single.append(helper.make_tensor("bytes", T.INT8, (50, 50), rng.integers(-128, 127, 2500)))
    put("onnx-raw.onnx", model(raw), {t.name: row(t) for t in raw})
    put("onnx-single.onnx", model(single), {t.name: row(t) for t in single})

    def constant(name, value):
        return helper.make_node("Constant", [], [name], value=numpy_helper.from_array(value, "ignored"))

    w = [rng.standard_normal((2, 3)).astype(np.float32) for _ in range(8)]
    inner = helper.make_graph(
        [constant("inner_c", w[0])], "inner", [], [], initializer=[numpy_helper.from_array(w[1], "inner_w")]
    )
    other = helper.make_graph(
        [helper.make_node("If", ["c"], ["z"], then_branch=inner, else_branch=inner)],
        "other",
        [],
        [],
        initializer=[numpy_helper.from_array(w[2], "other_w")],
    )
    nodes = [
        constant("c", w[3]),
        helper.make_node("If", ["c"], ["y"], name="pick", then_branch=inner, else_branch=other),
        helper.make_node("ConstantOfShape", ["c"], ["n"], value=numpy_helper.from_array(w[4][:1, 0], "no")),
        helper.make_node("Constant", [], ["f"], value_float=1.5),
    ]
    function = helper.make_function(
        "local", "twice", [], ["o"], [constant("o", w[5])], [helper.make_opsetid("", 21)]
    )
    top = numpy_helper.from_array(w[6], "top")
    want = {
        "top": w[6],
        "c": w[3],
        "pick.then_branch.inner_c": w[0],
        "pick.then_branch.inner_w": w[1],
        "pick.else_branch.other_w": w[2],
        "pick.else_branch.node_0.then_branch.inner_w": w[1],
        "pick.else_branch.node_0.then_branch.inner_c": w[0],
        "pick.else_branch.node_0.else_branch.inner_w": w[1],
        "pick.else_branch.node_0.else_branch.inner_c": w[0],
        "twice.o": w[5],
    }
    put(
        "onnx-nested.onnx",
        model([top], nodes, [function]),
        {k: row(numpy_helper.from_array(v, k)) for k, v in want.items()},
    )

    outside = [
        numpy_helper.from_array(array(rng, T.FLOAT, (40, 9)), "a"),
        numpy_helper.from_array(array(rng, T.BFLOAT16, (17, 5)), "b"),
        numpy_helper.from_array(np.arange(4, dtype=np.int64), "small"),
    ]
    rows = {t.name: row(t) for t in outside}
    put(
        "onnx-external.onnx",
        model(outside),
        rows,
        save_as_external_data=True,
        location="onnx-external.data",
        size_threshold=64,
    )
    outside = [
        numpy_helper.from_array(numpy_helper.to_array(t), t.name)
        for t in onnx.load(str(folder / "onnx-external.onnx")).graph.initializer
    ]
    (folder / "parts").mkdir(exist_ok=True)
    for t in outside[:2]:
        onnx.external_data_helper.set_external_data(t, "parts/%s.bin" % t.name)
        (folder / "parts" / (t.name + ".bin")).unlink(missing_ok=True)
    made = model(outside)
    onnx.external_data_helper.write_external_data_tensors(made, str(folder))
    (folder / "onnx-many.onnx").write_bytes(made.SerializeToString())
    again = onnx.load(str(folder / "onnx-many.onnx"))
    content["onnx-many.onnx"] = {t.name: row(t) for t in again.graph.initializer}
    assert content["onnx-many.onnx"] == rows
    text = model([helper.make_tensor("words", T.STRING, (2,), [b"a", b"b"])])
    put("onnx-strings.onnx", text, {"refused": "words has the element type 8 (strings)"})
    constants = [
        helper.make_node("Constant", [], [k[6:]], **{k: v})
        for k, v in {
            "value_float": -1.5,
            "value_floats": [0.25, 3.0, -7.5],
            "value_int": -9,
            "value_ints": [1, -2, 1 << 40],
            "value_string": "a",
            "value_strings": ["b", "c"],
        }.items()
    ]
    sixes = [
        numpy_helper.from_array((rng.standard_normal((4, 6)) * 2).astype(d), d.__name__)
        for d in (ml_dtypes.float6_e2m3fn, ml_dtypes.float6_e3m2fn)
    ]
    odd = numpy_helper.from_array((rng.standard_normal(7) * 2).astype(ml_dtypes.float6_e2m3fn), "odd")
    numbers = {
        "float": np.array(-1.5, np.float32),
        "floats": np.array([0.25, 3.0, -7.5], np.float32),
        "int": np.array(-9),
        "ints": np.array([1, -2, 1 << 40]),
    }
    rows = {
        k: [ROWS[v.dtype.name], list(v.shape), hashlib.sha256(v.tobytes()).hexdigest()]
        for k, v in numbers.items()
    }
    rows |= {
        t.name: [k, [4, 6], hashlib.sha256(t.raw_data).hexdigest()]
        for t, k in zip(sixes, ("F6_E2M3", "F6_E3M2"))
    }
    rows["odd"] = ["U8", [6], hashlib.sha256(odd.raw_data).hexdigest()]
    put("onnx-constants.onnx", model([*sixes, odd], constants), rows)
    (folder / "onnx.json").write_text(json.dumps(content, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    print("onnx", onnx.__version__, sum(len(v) for v in content.values()), "tensors")
    return 0


if __name__ == "__main__":
    sys.exit(main())
