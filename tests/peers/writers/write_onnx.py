#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""write_onnx.py FOLDER - models by onnx: every type as raw bytes, as numbers and outside of the file; every attribute of
Constant; sparse initializers; graphs, functions and training; what onnx's numpy_helper says of each."""

import sys

import numpy as np
import onnx
from expect import Files, packed, rows, sha
from onnx import TensorProto as T
from onnx import helper, numpy_helper

files = Files("onnx " + onnx.__version__)
rng = np.random.default_rng(33)
BITS = {"UINT4": 4, "INT4": 4, "FLOAT4E2M1": 4, "UINT2": 2, "INT2": 2}


def answer(proto, folder=""):
    """Rows for what onnx loads; its own packing is one of the right answers."""
    value = numpy_helper.to_array(proto, folder)
    found = rows(value)
    name = T.DataType.Name(proto.data_type)
    if name in BITS:
        bits = BITS[name]
        codes = np.ascontiguousarray(value).reshape(-1).view(np.uint8) & ((1 << bits) - 1)
        data = packed(codes.tolist(), bits)
        found.append(["U8", [len(data)], sha(data)])
    if name.startswith("FLOAT6"):
        raw = proto.raw_data or bytes(v & 0xFF for v in proto.int32_data)
        found.append(["U8", [len(raw)], sha(raw)])
    return found


def put(
    name,
    tensors=(),
    nodes=(),
    wanted=None,
    named=(),
    functions=(),
    sparse=(),
    training=None,
    how=None,
    **more,
):
    graph = helper.make_graph(
        list(nodes), "g", [], [], initializer=list(tensors), sparse_initializer=list(sparse), **more
    )
    made = helper.make_model(graph, functions=list(functions))
    if training is not None:
        made.training_info.add().initialization.CopyFrom(training)
    onnx.save_model(made, str(files.path(name)), **(how or {}))
    if wanted is None:
        wanted = {
            t.name: answer(t, str(files.folder)) for t in onnx.load(str(files.path(name))).graph.initializer
        }
    files.add(name, wanted, named, **({} if wanted or named else {"not_converted": "no tensor"}))


for number, name in sorted((v, k) for k, v in T.DataType.items()):
    if name in ("UNDEFINED", "STRING"):
        continue
    kind = helper.tensor_dtype_to_np_dtype(number)
    x = np.abs(rng.standard_normal((3, 5))) * (2 if name in BITS or name.startswith("FLOAT6") else 20)
    value = (x > 1) if name == "BOOL" else x.astype(kind)
    low = name.lower()
    for form in ("raw", "numbers", "outside", "constant"):
        try:
            if form == "numbers":
                t = helper.make_tensor("w", number, value.shape, value.reshape(-1))
            else:
                t = numpy_helper.from_array(value, "w")
            if form == "outside":
                put(
                    "%s-%s.onnx" % (low, form),
                    [t],
                    how={
                        "save_as_external_data": True,
                        "size_threshold": 0,
                        "location": "%s-outside.data" % low,
                    },
                )
            elif form == "constant":
                node = helper.make_node("Constant", [], ["const"], value=t)
                put("%s-%s.onnx" % (low, form), nodes=[node], wanted={"const": answer(t)})
            else:
                put("%s-%s.onnx" % (low, form), [t])
        except Exception as e:
            files.skip("%s-%s" % (low, form), e)

F32 = np.float32
for shape in ((), (0,), (0, 4), (1,), (2, 3, 4, 5, 6)):
    put(
        "shape-%s.onnx" % "x".join(map(str, shape)),
        [numpy_helper.from_array(rng.standard_normal(shape).astype(F32), "w")],
    )
constant = {
    "value_float": (1.5, np.array(1.5, F32)),
    "value_floats": ([1.5, 2.5], np.array([1.5, 2.5], F32)),
    "value_int": (7, np.array(7, np.int64)),
    "value_ints": ([7, 8, 9], np.array([7, 8, 9], np.int64)),
}
for key, (given, value) in constant.items():
    put(
        "constant-%s.onnx" % key,
        nodes=[helper.make_node("Constant", [], ["const"], **{key: given})],
        wanted={"const": value},
    )
for key, given in {"value_string": "text", "value_strings": ["a", "b"]}.items():
    put(
        "constant-%s.onnx" % key,
        nodes=[helper.make_node("Constant", [], ["const"], **{key: given})],
        wanted={},
        named=["const"],
    )
text = helper.make_tensor("words", T.STRING, (2,), [b"a", b"b"])
w = numpy_helper.from_array(rng.standard_normal((4, 4)).astype(F32), "w")
put("strings.onnx", [text, w], wanted={"w": answer(w)}, named=["words"])
values = helper.make_tensor("few", T.FLOAT, (3,), [1.0, 2.0, 3.0])
linear = helper.make_tensor("i", T.INT64, (3,), [1, 5, 11])
pairs = helper.make_tensor("i", T.INT64, (3, 2), [0, 1, 1, 1, 2, 3])
for name, index in (("linear", linear), ("pairs", pairs)):
    sparse = helper.make_sparse_tensor(values, index, [3, 4])
    parts = {"values": answer(values), "indices": answer(index), "size": np.array([3, 4], np.int64)}
    put(
        "sparse-%s.onnx" % name,
        [w],
        sparse=[sparse],
        wanted={"w": answer(w), **{"few." + k: v for k, v in parts.items()}},
    )
    node = helper.make_node("Constant", [], ["const"], sparse_value=sparse)
    put(
        "constant-sparse-%s.onnx" % name,
        [w],
        nodes=[node],
        wanted={"w": answer(w), **{"const." + k: v for k, v in parts.items()}},
    )
    node = helper.make_node("Own", ["w"], ["y"], domain="local", one=sparse)
    node.attribute.append(helper.make_attribute("many", [sparse, sparse]))
    wanted = {"y.%s.%s" % (at, k): v for at in ("one", "many.0", "many.1") for k, v in parts.items()}
    put("attribute-sparse-%s.onnx" % name, [w], nodes=[node], wanted={"w": answer(w), **wanted})
for name, attribute in {
    "tensor": {"t": w},
    "tensors": {"ts": [w, w]},
}.items():  # tensors in attributes of other nodes
    node = helper.make_node("Own", ["w"], ["y"], name="own", domain="local", **attribute)
    wanted = {n: answer(w) for n in ("w", *(["y.t"] if name == "tensor" else ["y.ts.0", "y.ts.1"]))}
    put("attribute-%s.onnx" % name, [w], nodes=[node], wanted=wanted)
of_shape = numpy_helper.from_array(np.array([2], F32), "v")
fill = helper.make_node("ConstantOfShape", ["x"], ["y"], name="fill", value=of_shape)
put("constant-of-shape.onnx", [w], nodes=[fill], wanted={"w": answer(w), "y.value": answer(of_shape)})
put(
    "constant-without-output.onnx",
    [w],
    nodes=[helper.make_node("Constant", [], [], name="lone", value=of_shape)],
    wanted={"w": answer(w), "lone": answer(of_shape)},
)
put(
    "without-a-name.onnx",
    [numpy_helper.from_array(np.array([3], F32), ""), w],
    wanted={"w": answer(w), "": np.array([3], F32)},
)
same = []
for domain in ("one", "two"):
    made = helper.make_function(
        domain,
        "same",
        ["a"],
        ["b"],
        [helper.make_node("Constant", [], ["b"], value=of_shape)],
        [helper.make_opsetid("", 18)],
    )
    made.attribute_proto.append(helper.make_attribute("default", w))
    same.append(made)
wanted = {
    "same@%s.%s" % (d, n): v
    for d in ("one", "two")
    for n, v in (("b", answer(of_shape)), ("attribute_proto.default", answer(w)))
}
put("functions-of-one-name.onnx", [w], functions=same, wanted={"w": answer(w), **wanted})
inner = helper.make_graph([], "inner", [], [], initializer=[numpy_helper.from_array(np.arange(3), "iw")])
branch = helper.make_node("If", ["x"], ["y"], name="pick", then_branch=inner, else_branch=inner)
wanted = {"w": answer(w), "pick.then_branch.iw": np.arange(3), "pick.else_branch.iw": np.arange(3)}
put("nested.onnx", [w], nodes=[branch], wanted=wanted)
loop = helper.make_node("Loop", ["x"], ["y"], name="loop", body=inner)
put("loop.onnx", [w], nodes=[loop], wanted={"w": answer(w), "loop.body.iw": np.arange(3)})
opset = [helper.make_opsetid("", 21)]
body = helper.make_node("Constant", [], ["o"], value=numpy_helper.from_array(np.arange(4.0), "v"))
put(
    "function.onnx",
    [w],
    functions=[helper.make_function("local", "twice", [], ["o"], [body], opset)],
    wanted={"w": answer(w), "twice.o": np.arange(4.0)},
)
extra = helper.make_graph([], "t", [], [], initializer=[numpy_helper.from_array(np.arange(5.0), "tw")])
put("training.onnx", [w], wanted={"w": answer(w), "*": np.arange(5.0)}, training=extra)
put("none.onnx", nodes=[helper.make_node("Relu", ["x"], ["y"])], wanted={})
many = [numpy_helper.from_array(rng.standard_normal((i % 7, 3)).astype(F32), "t%03d" % i) for i in range(300)]
put("many.onnx", many)
put(
    "names.onnx", [numpy_helper.from_array(np.arange(2), n) for n in ("a/b:0", "名前", "x" * 300, "a b", "_")]
)
for one in (True, False):
    made = [numpy_helper.from_array(rng.standard_normal((40, 9)).astype(F32), "t%d" % i) for i in range(4)]
    put(
        "outside-%s.onnx" % ("one" if one else "many"),
        made,
        how={
            "save_as_external_data": True,
            "all_tensors_to_one_file": one,
            "size_threshold": 64,
            "location": "outside-one.data" if one else None,
        },
    )
sys.exit(files.close())
