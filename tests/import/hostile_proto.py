#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""hostile_proto.py --tool TOOL [--table] [--corpus FOLDER] - as hostile.py, for the formats that are read by lengths:
MindSpore, ONNX (with files beside it), Flax; and Paddle's pickles. --corpus writes the cases as seeds for the fuzz targets. Standard library only."""

import os
import pathlib
import struct
import sys
import tempfile

import hostile
from load_cases import ANY, CASES, LIMIT_SECONDS, H, Run, U, case, program, save_seed, truncations

HERE = pathlib.Path(__file__).resolve().parent
LONGEST = 1500  # of a seed

# ---------------------------------------------------------------- protobuf


def varint(n):
    n &= (1 << 64) - 1
    out = b""
    while n > 0x7F:
        out += bytes([n & 0x7F | 0x80])
        n >>= 7
    return out + bytes([n])


def field(number, value, length=None):
    """A varint, or bytes with their length (or a false one)."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    value = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(value) if length is None else length) + value


# ---------------------------------------------------------------- MindSpore

DATA = struct.pack("<4f", 1, 2, 3, 4)


def ms_tensor(dims=(4,), kind="Float32", data=DATA, more=b""):
    return b"".join(field(1, d) for d in dims) + field(2, kind) + field(3, data) + more


def ms_value(tag="w", tensor=None, more=b""):
    return field(1, field(1, tag) + field(2, ms_tensor() if tensor is None else tensor) + more)


def mindspore():
    good = ms_value()
    pair = ms_value("w", ms_tensor((4,), data=DATA[:8])) + ms_value("w", ms_tensor((4,), data=DATA[8:]))
    case("mindspore: good", good, H, None)
    case("mindspore: in two pieces", pair, H, None)
    case("mindspore: scalar of dims [0]", ms_value("s", ms_tensor((0,), data=DATA[:4])), H, None)
    case("mindspore: no elements", ms_value("s", ms_tensor((0,), data=b"")), H, None)
    case("mindspore: packed dims", ms_value("w", field(1, varint(2) + varint(2)) + ms_tensor(())), H, None)
    case("mindspore: text left out", good + ms_value("t", ms_tensor((0,), "str", b"x\0\0\0")), H, None)
    case("mindspore: trailer", good + b"crc_num" + bytes(10), H, None)
    case("mindspore: trailer of 80 bits", good + b"crc_num" + b"\xff" * 10, U, "checksum")
    case("mindspore: name twice, not in a row", good + ms_value("x") + good, U, "twice")
    case("mindspore: pieces of other dims", pair + ms_value("w"), U, "+")
    case(
        "mindspore: pieces that disagree",
        good + ms_value("w", ms_tensor((2, 2))),
        U,
        "pieces of one parameter",
    )
    case(
        "mindspore: pieces of other types", good + ms_value("w", ms_tensor((4,), "Int32")), U, "pieces of one"
    )
    case(
        "mindspore: one piece too many",
        pair + ms_value("w", ms_tensor((4,), data=DATA[:4])),
        U,
        "bytes of data",
    )
    case("mindspore: one piece missing", pair[: len(pair) // 2], U, "bytes of data")
    case(
        "mindspore: piece ends in an element",
        ms_value("w", ms_tensor(data=DATA[:7])) + ms_value("w", ms_tensor(data=DATA[7:])),
        U,
        "middle of an element",
    )
    case(
        "mindspore: scalar in pieces",
        ms_value("w", ms_tensor((), data=DATA[:2])) + ms_value("w", ms_tensor((), data=DATA[2:4])),
        U,
        "scalar",
    )
    case("mindspore: unknown type", good + ms_value("x", ms_tensor((4,), "Float31")), ANY, "Float31")
    case("mindspore: map parameter", good + field(1, field(1, "m") + field(3, b"")), ANY, "map parameter")
    case("mindspore: dims overflow", ms_value("w", ms_tensor((1 << 62, 1 << 62))), U, "overflows")
    case("mindspore: dims 2^63", good + ms_value("x", ms_tensor((1 << 63,))), U, "negative")
    case("mindspore: 65 dims", good + ms_value("x", ms_tensor((1,) * 65)), U, "dimensions")
    case(
        "mindspore: 10^6 packed dims",
        good + ms_value("x", field(1, b"\1" * 10**6) + ms_tensor(())),
        U,
        "dimensions",
    )
    case("mindspore: content twice", good + ms_value("x", ms_tensor(more=field(3, DATA))), U, "once")
    case("mindspore: tensor twice", good + ms_value("x", more=field(2, ms_tensor())), U, "one tensor")
    case("mindspore: no name", good + field(1, field(2, ms_tensor())), U, "without its name")
    case("mindspore: name is not UTF-8", good + ms_value(b"\xff\xfe"), U, "UTF-8")
    case("mindspore: name of 1 MB", good + ms_value("n" * 10**6), U, "limit")
    case("mindspore: name __metadata__", ms_value("__metadata__"), ANY, "+")
    case("mindspore: name of control characters", ms_value("\x1b[2J\n"), ANY, "+")
    case(
        "mindspore: length past its parent",
        good + field(1, field(1, "x") + field(2, ms_tensor(), 200)),
        U,
        "longer",
    )
    case("mindspore: length 2^63", good + field(1, b"", 1 << 63), U, "longer")
    case("mindspore: length 2^64-1", good + field(1, b"", (1 << 64) - 1), U, "longer")
    case("mindspore: varint of 11 bytes", good + b"\x0a" + b"\xff" * 10 + b"\1", U, "varint")
    case("mindspore: group", good + b"\x0b\x0c", U, "wire type")
    case("mindspore: field 0", good + b"\x02\x00", U, "tag")
    case("mindspore: another field", good + field(2, b"x"), U, "values only")
    case(
        "mindspore: 200,000 empty pieces",
        ms_value("w", ms_tensor(data=DATA)) + ms_value("w", ms_tensor(data=b"")) * 200000,
        H,
        None,
    )
    case(
        "mindspore: 200,000 pieces of a byte",
        ms_value("w", ms_tensor((200000,), "Int8", b"x")) * 200000,
        H,
        None,
    )
    case("mindspore: 100,000 parameters", b"".join(ms_value("p%d" % i) for i in range(100000)), H, None)
    for mode in b"\xd8\xd9\xda":
        case("mindspore: encrypted %x" % mode, bytes([mode]) + b"\x5e\x3a\x7f" + bytes(64), U, "encrypted")


# ---------------------------------------------------------------- ONNX


def fixed(number, value):
    return varint(number << 3 | 5) + struct.pack("<f", value)


def onnx_tensor(name="w", kind=1, dims=(4,), data=None, more=b""):
    out = b"".join(field(1, d) for d in dims) + field(2, kind) + field(8, name)
    return out + (field(9, DATA) if data is None else data) + more


def onnx_model(*tensors, graph=b"", version=field(1, 10)):
    return version + field(7, b"".join(field(5, t) for t in tensors) + graph + field(2, "g"))


def entry(key, value):
    return field(13, field(1, key) + field(2, value))


def external(location="w.bin", offset=None, length=None, more=b"", name="w"):
    data = entry("location", location) + (entry("offset", offset) if offset is not None else b"")
    data += (entry("length", length) if length is not None else b"") + field(14, 1)
    return onnx_tensor(name, data=data + more)


def onnx_node(name, op, *attributes, output="y"):
    return field(
        1, field(2, output) + field(3, name) + field(4, op) + b"".join(field(5, a) for a in attributes)
    )


def onnx_nested(depth):
    """If in If in If ..., with a tensor inside all of them. Built from the inside, of any depth."""
    graph = field(5, onnx_tensor("deep"))
    for _ in range(depth):
        graph = onnx_node("n", "If", field(1, "b") + field(6, graph))
    return field(1, 10) + field(7, graph + field(2, "g"))


def onnx():
    t = onnx_tensor
    packed = field(4, DATA)
    case("onnx: good", onnx_model(t()), H, None)
    case("onnx: complex of doubles", onnx_model(t(kind=15, dims=(1,))), H, None)
    case(
        "onnx: complex of doubles one by one",
        onnx_model(t(kind=15, dims=(1,), data=field(10, DATA))),
        H,
        None,
    )
    case("onnx: floats of 6 bits", onnx_model(t(kind=27, data=field(9, b"\1\2\3\4"))), H, None)
    case("onnx: floats of 6 bits one by one", onnx_model(t(kind=28, data=field(5, b"\1\2\3\4"))), H, None)
    case("onnx: floats packed", onnx_model(t(data=packed)), H, None)
    case("onnx: floats one by one", onnx_model(t(data=b"".join(fixed(4, i) for i in range(4)))), H, None)
    case(
        "onnx: floats in three fields",
        onnx_model(t(data=field(4, DATA[:4]) + fixed(4, 2) + field(4, DATA[8:]))),
        H,
        None,
    )
    case("onnx: dims packed", onnx_model(field(1, b"\2\2") + t(dims=())), H, None)
    case("onnx: no graph in it", field(1, 10) + field(2, "x" * 9), ANY, ANY)
    case("onnx: two graphs", onnx_model(t("a")) + field(7, field(5, t("b"))), H, None)
    case("onnx: no elements", onnx_model(t(dims=(0, 5), data=b"")), H, None)
    case("onnx: no data", onnx_model(t(data=b"")), U, "numbers")
    case("onnx: one number too many", onnx_model(t(kind=7, data=field(7, b"\1" * 5))), U, "numbers")
    case("onnx: one number too few", onnx_model(t(kind=7, data=field(7, b"\1" * 3))), U, "numbers")
    case("onnx: numbers of another field", onnx_model(t(kind=7, data=packed)), U, "not the type's")
    case("onnx: numbers of two fields", onnx_model(t(data=packed + field(7, b"\1"))), U, "not the type's")
    case("onnx: float cut in a packed field", onnx_model(t(data=field(4, DATA[:14]))), U, "bytes of data")
    case(
        "onnx: floats cut in two fields",
        onnx_model(t(data=field(4, DATA[:10]) + field(4, DATA[10:]))),
        U,
        "+",
    )
    case("onnx: numbers of another wire type", onnx_model(t(kind=7, data=fixed(7, 1) * 4)), U, "another kind")
    case(
        "onnx: varint cut in a packed field", onnx_model(t(kind=7, data=field(7, b"\1\1\1\x80"))), U, "varint"
    )
    case("onnx: raw_data and float_data", onnx_model(t(data=field(9, DATA) + packed)), U, "two forms")
    case("onnx: raw_data and external", onnx_model(external(more=field(9, DATA))), U, "two forms")
    case("onnx: raw_data twice", onnx_model(t(more=field(9, DATA))), U, "twice")
    case("onnx: raw_data too short", onnx_model(t(data=field(9, DATA[:12]))), U, "bytes of data")
    case("onnx: raw_data too long", onnx_model(t(data=field(9, DATA * 2))), U, "bytes of data")
    case("onnx: entries, not external", onnx_model(t(more=entry("location", "x"))), U, "not external")
    case("onnx: data_location 2", onnx_model(t(more=field(14, 2))), U, "neither")
    case("onnx: segment", onnx_model(t(more=field(3, b""))), U, "segment")
    case("onnx: strings", onnx_model(t(kind=8, data=field(6, "x") * 4)), ANY, "strings")
    case("onnx: type 0", onnx_model(t(kind=0)), ANY, "not known")
    case("onnx: type 99", onnx_model(t(kind=99)), ANY, "not known")
    case("onnx: type 2^63", onnx_model(t(kind=1 << 63)), ANY, "not known")
    case(
        "onnx: sparse",
        onnx_model(graph=field(15, field(1, t("s")) + field(2, t("i")) + field(3, b"\2\2"))),
        H,
        None,
    )
    case(
        "onnx: sparse without indices", onnx_model(graph=field(15, field(1, t("s")))), U, "without its values"
    )
    case("onnx: sparse without values", onnx_model(graph=field(15, b"")), U, "sparse tensor")
    case(
        "onnx: sparse in parts that lie",
        onnx_model(graph=field(15, field(1, t("s", data=b"")) + field(2, t("i")))),
        U,
        "numbers",
    )
    case(
        "onnx: 100,000 sparse ones",
        onnx_model(graph=b"".join(field(15, field(1, t("s%d" % i)) + field(2, t())) for i in range(100000))),
        H,
        None,
    )
    case("onnx: no name", onnx_model(t("")), H, None)
    case("onnx: two without a name", onnx_model(t(""), t("")), U, "twice")
    case(
        "onnx: a tensor in an attribute",
        onnx_model(graph=onnx_node("n", "Add", field(1, "k") + field(5, t()))),
        H,
        None,
    )
    case(
        "onnx: tensors in attributes without names",
        onnx_model(graph=onnx_node("", "Add", field(10, t()) * 9, output="")),
        H,
        None,
    )
    case(
        "onnx: a tensor in an attribute, damaged",
        onnx_model(graph=onnx_node("n", "Add", field(5, t(data=b"")))),
        U,
        "numbers",
    )
    case(
        "onnx: 100,000 tensors in an attribute",
        onnx_model(graph=onnx_node("n", "Add", field(10, t()) * 100000)),
        H,
        None,
    )
    case(
        "onnx: 200,000 functions of one name",
        onnx_model(t()) + field(25, field(1, "f") + field(10, "d")) * 200000,
        H,
        None,
    )
    case(
        "onnx: a function's default",
        onnx_model(t()) + field(25, field(1, "f") + field(11, field(1, "a") + field(5, t()))),
        H,
        None,
    )
    case(
        "onnx: a function's default graph",
        onnx_model(t()) + field(25, field(11, field(6, field(5, t()) * 1))),
        H,
        None,
    )
    branches = [onnx_node("if", "If", field(1, "then") + field(6, field(5, t()))) for _ in range(2)]
    case("onnx: two nodes of one name and one output", onnx_model(graph=b"".join(branches * 2)), U, "twice")
    case(
        "onnx: 50,000 nodes of one name",
        onnx_model(
            graph=b"".join(
                onnx_node("if", "If", field(1, "b") + field(6, field(5, t())), output="o%d" % i)
                for i in range(50000)
            )
        ),
        H,
        None,
    )
    case("onnx: name twice", onnx_model(t(), t()), U, "twice")
    case("onnx: name with a NUL", onnx_model(t("a\0b")), U, "NUL")
    case("onnx: name is not UTF-8", onnx_model(t(b"\xc3")), U, "UTF-8")
    case("onnx: name of 100 kB", onnx_model(t("n" * 10**5)), U, "limit")
    case("onnx: dims wrap", onnx_model(t(dims=(1 << 62, 16))), U, "overflows")
    case("onnx: dims wrap in bytes", onnx_model(t(dims=(1 << 62,))), U, "+")
    case("onnx: dim -1", onnx_model(t(dims=(-1,))), U, "negative")
    case("onnx: 2^40 elements of nothing", onnx_model(t(dims=(1 << 40,), data=b"")), U, "+")
    case("onnx: 2^40 half bytes", onnx_model(t(dims=(1 << 40,), kind=22)), U, "bytes of data")
    case("onnx: 10^8 packed dims", onnx_model(field(1, b"\1" * 10**6) + t()), U, "dimensions")
    case("onnx: raw_data past the tensor", onnx_model(t(data=varint(74) + varint(1 << 40))), U, "longer")
    case("onnx: length 2^64-1", onnx_model(graph=varint(42) + varint((1 << 64) - 1)), U, "longer")
    case("onnx: varint of 11 bytes", onnx_model(graph=b"\x2a" + b"\xff" * 10 + b"\1"), U, "varint")
    case("onnx: group", onnx_model(t(), graph=b"\x0b\x0c"), U, "wire type")
    case("onnx: 20 graphs deep", onnx_nested(20), H, None)
    case("onnx: 5,000 graphs deep", onnx_nested(5000), U, "deep")
    case(
        "onnx: value of a Constant",
        onnx_model(graph=onnx_node("n", "Constant", field(1, "value") + field(5, t("x")))),
        H,
        None,
    )
    case(
        "onnx: value before its name",
        onnx_model(
            graph=field(
                1, field(5, field(5, t("x")) + field(1, "value")) + field(4, "Constant") + field(2, "y")
            )
        ),
        H,
        None,
    )
    case(
        "onnx: Constant without an output",
        onnx_model(graph=onnx_node("n", "Constant", field(1, "value") + field(5, t()), output="")),
        H,
        None,
    )
    case(
        "onnx: two Constants of one name",
        onnx_model(graph=onnx_node("n", "Constant", field(1, "value") + field(5, t("x"))) * 2),
        U,
        "twice",
    )
    case(
        "onnx: 50,000 tensors of one number",
        onnx_model(*(t("t%d" % i, 6, (1,), field(5, b"\1")) for i in range(50000))),
        ANY,
        "+",
    )
    case(
        "onnx: 300,000 tensors of one number",
        onnx_model(*(t("t%d" % i, 6, (1,), field(5, b"\1")) for i in range(300000))),
        U,
        "sources",
    )
    case("onnx: 200,000 nodes", onnx_model(graph=onnx_node("n", "Add", field(1, "value")) * 200000), H, None)
    case("onnx: 10^6 empty fields", onnx_model(graph=b"\x0a\x00" * 10**6), U, None)
    case(
        "onnx: 10^6 numbers one by one",
        onnx_model(t(kind=6, dims=(10**6,), data=field(5, 1) * 10**6)),
        H,
        None,
    )
    for location in (
        "/etc/passwd",
        "../x",
        "a/../../x",
        "a//b",
        "",
        ".",
        "a/..",
        "C:\\x",
        "C:x",
        "a\\b",
        "x" * 5000,
        "a/",
    ):
        case(
            "onnx: external data in %s" % location[:20],
            onnx_model(external(location)),
            "dangerous" if location[:1] == "/" or ".." in location.split("/") or location[1:2] == ":" else U,
            "+",
        )
    case("onnx: location with a NUL", onnx_model(external("a\0b")), U, "NUL")


def onnx_constants():
    def put(name, *attribute, verdict=H, error=None):
        node = onnx_node("n", "Constant", b"".join(attribute))
        case("onnx: a constant: " + name, field(1, 10) + field(7, node + field(2, "g")), verdict, error)

    put("floats", field(1, "value_floats"), fixed(7, 1.0), fixed(7, 2.0))
    put("packed floats", field(1, "value_floats"), field(7, DATA))
    put(
        "packed floats and half of one",
        field(1, "value_floats"),
        field(7, DATA[:7]),
        verdict=U,
        error="number",
    )
    put("no floats", field(1, "value_floats"))
    put("a float", field(1, "value_float"), fixed(2, 1.0))
    put("a float twice", field(1, "value_float"), fixed(2, 1.0), fixed(2, 1.0), verdict=U, error="number")
    put("no float", field(1, "value_float"), verdict=U, error="without its number")
    put("a float that is an integer", field(1, "value_float"), field(2, 5), verdict=U, error="number")
    put("integers", field(1, "value_ints"), field(8, -1), field(8, 7))
    put("packed integers", field(1, "value_ints"), field(8, varint(-1) + varint(7)))
    put(
        "packed integers that are cut",
        field(1, "value_ints"),
        field(8, b"\xff\xff"),
        verdict=U,
        error="varint",
    )
    put("an integer", field(1, "value_int"), field(3, -5))
    put("texts", field(1, "value_strings"), field(9, "a"), field(9, "b"))
    put(
        "a sparse tensor",
        field(1, "sparse_value"),
        field(22, field(1, onnx_tensor())),
        verdict=U,
        error="sparse",
    )
    put("500,000 integers", field(1, "value_ints"), field(8, b"\1" * 500000))


def beside(tool, faults):
    """External data: (entries, how to make the folder, a word of the error or None). The error must come without
    anything outside having been opened; strace is in contained.sh."""
    rows = [
        ("good", external(), None),
        ("offset", external(offset="16"), None),
        ("below", external("sub/w.bin"), None),
        ("a dot", external("./w.bin"), None),
        ("length", external(length="16"), None),
        ("other length", external(length="12"), "external data"),
        ("offset beyond", external(offset="17"), "has 32"),
        ("offset 2^64-1", external(offset=str(2**64 - 1)), "has 32"),
        ("offset 2^64", external(offset=str(2**64)), "64 bits"),
        ("offset -1", external(offset="-1"), "64 bits"),
        ("offset 1e9", external(offset="1e9"), "64 bits"),
        ("offset of spaces", external(offset=" 1"), "64 bits"),
        ("offset empty", external(offset=""), "missing"),
        ("other keys", external(more=entry("prepacked_0", "x")), None),
        ("no location", onnx_tensor(data=field(14, 1)), "without a location"),
        ("not there", external("none.bin"), "cannot open"),
        ("a folder", external("sub"), "regular"),
        ("a pipe", external("pipe"), "regular"),
        ("a link", external("link"), "a link"),
        ("a link outside", external("out"), "a link"),
        ("a link in the middle", external("way/w.bin"), "a link"),
        ("a link to a device", external("null"), "a link"),
        ("a link to itself", external("loop"), "a link"),
        ("absolute", external("/etc/passwd"), "leads out"),
        ("upwards", external("sub/../../secret"), "leads out"),
    ]
    with tempfile.TemporaryDirectory() as name:
        root = pathlib.Path(name)
        (root / "secret").write_bytes(DATA)
        folder = root / "model"
        (folder / "sub").mkdir(parents=True)
        for path in ("w.bin", "sub/w.bin"):
            (folder / path).write_bytes(DATA * 2)
        os.mkfifo(folder / "pipe")
        for link, to in (
            ("link", "w.bin"),
            ("out", "../secret"),
            ("way", "sub"),
            ("null", "/dev/zero"),
            ("loop", "loop"),
        ):
            (folder / link).symlink_to(to)
        for what, tensor, error in rows:
            (folder / "m.onnx").write_bytes(onnx_model(tensor))
            for args in (["model/m.onnx"], [str(folder / "m.onnx")]):
                run = Run(tool, ["hash", *args], root)
                message = run.err.decode("utf-8", "replace")
                if (
                    (run.status == 0) != (error is None)
                    or (error or "") not in message
                    or run.seconds > LIMIT_SECONDS
                ):
                    faults.append(
                        "onnx beside: %s: %d, %.2f s: %s" % (what, run.status, run.seconds, message.strip())
                    )
        many = [external(offset=str(i % 16), name="t%d" % i) for i in range(3000)]
        (folder / "m.onnx").write_bytes(onnx_model(*many))
        for i in range(400):  # more files than descriptors are kept for
            (folder / ("f%d" % i)).write_bytes(DATA)
        (folder / "n.onnx").write_bytes(
            onnx_model(*(external("f%d" % i, name="t%d" % i) for i in range(400)))
        )
        for name in ("m.onnx", "n.onnx"):
            run = Run(tool, ["convert", name, "-o", "out-" + name + ".safetensors"], folder)
            if run.status != 0 or run.seconds > LIMIT_SECONDS:
                faults.append(
                    "onnx beside: %s: %d, %.2f s: %s" % (name, run.status, run.seconds, run.err[:200])
                )
        cache = root / "models--a--b"
        (cache / "blobs").mkdir(parents=True)
        (cache / "snapshots" / "r").mkdir(parents=True)
        (cache / "blobs" / "1").write_bytes(onnx_model(external()))
        (cache / "blobs" / "2").write_bytes(DATA)
        (cache / "snapshots" / "r" / "m.onnx").symlink_to("../../blobs/1")
        (cache / "snapshots" / "r" / "w.bin").symlink_to("../../blobs/2")
        run = Run(tool, ["hash", "models--a--b/snapshots/r/m.onnx"], root)
        if run.status != 0:
            faults.append("onnx beside: the cache's links: %s" % run.err[:200])
        (cache / "snapshots" / "r" / "w.bin").unlink()
        (cache / "snapshots" / "r" / "w.bin").symlink_to("../../../secret")
        run = Run(tool, ["hash", "models--a--b/snapshots/r/m.onnx"], root)
        if run.status == 0 or b"a link" not in run.err:
            faults.append("onnx beside: a link out of the cache: %d %s" % (run.status, run.err[:200]))
    return 2 * len(rows) + 4


# ---------------------------------------------------------------- Flax


def mp_text(s):
    s = s.encode() if isinstance(s, str) else s
    return (bytes([0xA0 | len(s)]) if len(s) < 32 else b"\xdb" + struct.pack(">I", len(s))) + s


def mp_bytes(b):
    return b"\xc6" + struct.pack(">I", len(b)) + b


def mp_array(shape=b"\x91\x04", kind="float32", data=DATA, code=1, more=b"", length=None):
    inner = b"\x93" + shape + mp_text(kind) + mp_bytes(data) + more
    return b"\xc9" + struct.pack(">IB", len(inner) if length is None else length, code) + inner


def mp_map(*pairs):
    return (
        b"\xdf"
        + struct.pack(">I", len(pairs))
        + b"".join((mp_text(k) if isinstance(k, str) else k) + v for k, v in pairs)
    )


def mp_chunked(chunks, shape=(b"\x04",), mark=b"\xc3", more=()):
    return mp_map(
        ("__msgpack_chunked_array__", mark),
        ("shape", mp_map(*((str(i), n) for i, n in enumerate(shape)))),
        ("chunks", mp_map(*((str(i), c) for i, c in enumerate(chunks)))),
        *more,
    )


def flax():
    a, m = mp_array, mp_map
    half = mp_array(b"\x91\x02", data=DATA[:8])
    case("flax: good", m(("w", a())), H, None)
    case("flax: an array alone", a(), H, None)
    case("flax: a scalar of numpy", m(("w", a(b"\x90", data=DATA[:4], code=3))), H, None)
    case("flax: two chunks", m(("w", mp_chunked([half, half]))), H, None)
    case("flax: in lists", m(("w", b"\x92" + a() + b"\x91" + a())), H, None)
    case("flax: numbers as keys", m(("w", a()), (b"\x05", a()), (b"\xcd\x01\x00", a())), H, None)
    case(
        "flax: type as bytes",
        m(("w", b"\xc7\x21\x01\x93\x91\x04\xc4\x07float32\xc4\x10" + DATA + b"\x00")),
        ANY,
        "+",
    )
    case(
        "flax: other values",
        m(
            ("w", a()),
            ("i", b"\xff"),
            ("f", b"\xcb" + bytes(8)),
            ("n", b"\xc0"),
            ("s", mp_text("x")),
            ("b", mp_bytes(b"y")),
            ("c", b"\xd8\x02" + bytes(16)),
        ),
        H,
        None,
    )
    case("flax: bytes behind", m(("w", a())) + b"\xc0", U, "follow")
    case("flax: a name twice", m(("w", a()), ("w", a())), U, "twice")
    case("flax: a name two ways", m(("a.b", a()), ("a", m(("b", a())))), U, "twice")
    case("flax: too few bytes", m(("w", a(data=DATA[:12]))), U, "bytes of data")
    case("flax: too many bytes", m(("w", a(data=DATA * 2))), U, "bytes of data")
    case("flax: type object", m(("w", a(kind="object"))), ANY, "object")
    case("flax: type of fields", m(("w", a(kind="<f4,<i8"))), ANY, "not known")
    case("flax: type without end", m(("w", a(kind="f" * 40))), U, "no name")
    case("flax: extension 42", m(("w", a()), ("x", b"\xd4\x2a\x00")), ANY, "extension")
    case(
        "flax: dims overflow",
        m(("w", a(b"\x92\xcf" + b"\x40" + bytes(7) + b"\xcf\x40" + bytes(7)))),
        U,
        "overflows",
    )
    case("flax: dim negative", m(("w", a(b"\x91\xff"))), U, "no size")
    case("flax: dim a float", m(("w", a(b"\x91\xcb" + bytes(8)))), U, "no size")
    case("flax: dim 2^63", m(("w", a(b"\x91\xcf\x80" + bytes(7)))), U, "no size")
    case("flax: 65 dims", m(("w", a(b"\xdc\x00\x41" + b"\x01" * 65))), U, "dimensions")
    case("flax: shape is text", m(("w", a(mp_text("x")))), U, "without a shape")
    case("flax: four parts", m(("w", a()), ("x", a(more=b"\xc0"))), U, "does not end")
    case("flax: extension too long", m(("w", a(length=1 << 31))), U, "longer")
    case("flax: extension too short", m(("w", a(length=20))), U, "longer")
    case("flax: map of 2^32-1", b"\xdf\xff\xff\xff\xff" + mp_text("w") + a(), ANY, "+")
    case("flax: array of 2^32-1", m(("w", a()), ("x", b"\xdd\xff\xff\xff\xff")), U, "more items")
    case("flax: text of 2^32-1", m(("w", a()), ("x", b"\xdb\xff\xff\xff\xff")), U, "longer")
    case("flax: bytes of 2^32-1", m(("w", a()), ("x", b"\xc6\xff\xff\xff\xff")), U, "longer")
    case("flax: byte c1", m(("w", a()), ("x", b"\xc1")), U, "c1")
    case("flax: 500 levels", m(("w", a()), ("x", b"\x91" * 500 + b"\xc0")), H, None)
    case("flax: 100,000 lists deep", m(("w", a()), ("x", b"\x91" * 100000 + b"\xc0")), U, "levels")
    case("flax: 100,000 maps deep", m(("w", a()), ("x", b"\x81\xa1k" * 100000 + b"\xc0")), U, "levels")
    case("flax: a key that is a map", m(("w", a()), (b"\x80", b"\xc0")), U, "no text")
    case("flax: a key that is negative", m(("w", a()), (b"\xff", b"\xc0")), U, "no text")
    case("flax: a key that is not UTF-8", m(("w", a()), (mp_text(b"\xed\xa0\x80"), b"\xc0")), U, "UTF-8")
    case("flax: a key of 1 MB", m(("w", a()), ("k" * 10**6, b"\xc0")), U, "65536")
    case("flax: an empty key", m(("w", a()), ("", a())), ANY, "+")
    case("flax: the mark later", m(("w", a()), ("__msgpack_chunked_array__", b"\xc3")), U, "first key")
    case(
        "flax: the mark alone",
        m(("w", a()), ("x", m(("__msgpack_chunked_array__", b"\xc3")))),
        U,
        "a mark, a shape",
    )
    case(
        "flax: chunks with more",
        m(("w", a()), ("x", mp_chunked([half, half], more=(("y", b"\xc0"),)))),
        U,
        "a mark",
    )
    case("flax: no chunks", m(("w", a()), ("x", mp_chunked([]))), U, "no chunks")
    case("flax: a chunk missing", m(("w", a()), ("x", mp_chunked([half]))), U, "bytes of data")
    case("flax: a chunk too many", m(("w", a()), ("x", mp_chunked([half] * 3))), U, "bytes of data")
    case(
        "flax: chunks of two types",
        m(("w", a()), ("x", mp_chunked([half, mp_array(b"\x91\x02", "int32", DATA[:8])]))),
        U,
        "different types",
    )
    case("flax: a chunk that is no array", m(("w", a()), ("x", mp_chunked([half, b"\xc0"]))), U, "no array")
    case(
        "flax: a chunk that ends in an element",
        m(
            ("w", a()),
            ("x", mp_chunked([mp_array(b"\x91\x01", data=DATA[:7]), mp_array(b"\x91\x01", data=DATA[7:])])),
        ),
        U,
        "middle of an element",
    )
    case(
        "flax: 100,000 chunks of an element",
        m(
            ("w", a()),
            (
                "x",
                mp_chunked(
                    [mp_array(b"\x91\x01", "int8", b"x")] * 100000,
                    shape=(b"\xce" + struct.pack(">I", 100000),),
                ),
            ),
        ),
        H,
        None,
    )
    case(
        "flax: 200,000 arrays",
        m(*(("t%d" % i, mp_array(b"\x91\x01", "int8", b"x")) for i in range(200000))),
        H,
        None,
    )
    case("flax: 10^6 values", m(("w", a()), ("x", b"\xdd\x00\x0f\x42\x40" + b"\xc0" * 10**6)), H, None)


# ---------------------------------------------------------------- Paddle


def pd_array(values, shape=None, kind="f4", raw=None):
    """What numpy pickles with protocol 3."""
    data = struct.pack("<%df" % len(values), *values) if raw is None else raw
    shape = (len(values),) if shape is None else shape
    return (
        b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n"
        + hostile.numbers((0,))
        + b"C\x01btR(K\x01"
        + hostile.numbers(shape)
        + b"cnumpy\ndtype\n("
        + hostile.text(kind)
        + b"\x89\x88tR(K\x03"
        + hostile.text("<")
        + b"NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb\x89"
        + b"B"
        + struct.pack("<I", len(data))
        + data
        + b"tb"
    )


def pd_dict(*pairs):
    return b"}(" + b"".join((hostile.text(k) if isinstance(k, str) else k) + v for k, v in pairs) + b"u"


def pd_big(parts, info):
    return b"\x80\x03" + pd_dict(*parts, ("UnpackBigParamInfor@@", info)) + b"."


def pd_info(*slices, shape=(2, 2), name="w"):
    listing = b"](" + b"".join(hostile.text(s) if isinstance(s, str) else s for s in slices) + b"e"
    return pd_dict((name, pd_dict(("OriginShape", hostile.numbers(shape)), ("slices", listing))))


def paddle():
    """The tool tells the core's error for a pickle that is damaged, so ANY; scan tells the reason."""
    half = pd_array([1, 2])
    two = (("w@@.0", half), ("w@@.1", half))
    case("paddle: good", b"\x80\x03" + pd_dict(("w", half)) + b".", H, None)
    case("paddle: slices", pd_big(two, pd_info("w@@.0", "w@@.1")), H, None)
    case("paddle: a slice missing", pd_big(two, pd_info("w@@.0", "w@@.2")), U, ANY)
    case("paddle: a slice left over", pd_big(two, pd_info("w@@.0", shape=(2,))), H, None)
    case("paddle: a slice twice", pd_big(two, pd_info("w@@.0", "w@@.0")), U, ANY)
    case("paddle: slices too few", pd_big(two, pd_info("w@@.0")), U, "bytes of data")
    case("paddle: slices of a number", pd_big(two, pd_info(b"K\x05")), U, ANY)
    case("paddle: slices of dicts", pd_big((("w@@.0", b"}"),), pd_info("w@@.0")), U, ANY)
    case("paddle: no slices", pd_big(two, pd_info()), U, ANY)
    case(
        "paddle: slices of two types",
        pd_big((("w@@.0", half), ("w@@.1", pd_array([], (2,), "i4", DATA[:8]))), pd_info("w@@.0", "w@@.1")),
        U,
        ANY,
    )
    case(
        "paddle: slices of a matrix",
        pd_big((("w@@.0", pd_array([1, 2], (1, 2))),), pd_info("w@@.0", shape=(2,))),
        U,
        ANY,
    )
    case("paddle: slices, shape negative", pd_big(two, pd_info("w@@.0", "w@@.1", shape=(-2, -2))), U, ANY)
    case(
        "paddle: slices, shape overflows",
        pd_big(two, pd_info("w@@.0", "w@@.1", shape=(1 << 62, 1 << 62))),
        U,
        "overflows",
    )
    parts = tuple(("w@@.%d" % i, pd_array([1])) for i in range(12000))
    # more than are read; as a pickle it is harmless from its first byte to its last
    case(
        "paddle: 12,000 slices", pd_big(parts, pd_info(*(name for name, _ in parts), shape=(12000,))), H, ANY
    )
    case(
        "paddle: slices of a parameter that is there",
        pd_big((*two, ("w", half)), pd_info("w@@.0", "w@@.1")),
        U,
        "twice",
    )
    case("paddle: the list of slices is a number", pd_big(two, b"K\x01"), U, ANY)
    case("paddle: a parameter is a number", pd_big(two, pd_dict(("w", b"K\x01"))), U, ANY)
    text = half.replace(
        b"B\x08\0\0\0" + struct.pack("<2f", 1, 2),
        b"c_codecs\nencode\n(" + hostile.text("\0\0\x80?\0\0\0@") + hostile.text("latin1") + b"tR",
    )
    case("paddle: bytes as text", b"\x80\x02" + pd_dict(("w", text)) + b".", H, None)
    case(
        "paddle: text that is not Latin-1",
        b"\x80\x02" + pd_dict(("w", text.replace(b"\xc2\x80", b"\xc4\x80"))) + b".",
        U,
        ANY,
    )
    case(
        "paddle: text of another code",
        b"\x80\x02" + pd_dict(("w", text.replace(b"latin1", b"utf-16"))) + b".",
        U,
        ANY,
    )
    case(
        "paddle: text too short",
        b"\x80\x02" + pd_dict(("w", text.replace(b"X\x09", b"X\x08").replace(b"\0@X", b"@X"))) + b".",
        ANY,
        "+",
    )
    large = pd_array([], (1 << 20,), "u1", b"")
    encoded = [
        large.replace(b"\x89B" + bytes(4), b"\x89c_codecs\nencode\n(" + said + hostile.text("latin1") + b"tR")
        for said in (hostile.text("a" * (1 << 20)) + b"q\x01", b"h\x01")
    ]
    arrays = [("w%d" % i, encoded[i != 0]) for i in range(900)]
    case("paddle: one text of 1 MiB in 900 arrays", b"\x80\x02" + pd_dict(*arrays) + b".", U, None)
    case("paddle: a pair", b"\x80\x03" + hostile.text("n") + half + b"\x86.", H, None)


# ---------------------------------------------------------------- running them


def boundaries(data):
    """Where fields end. Knows bytes and varints."""
    at, found = 0, set()
    while at < len(data) and data[at] != 0x63:  # "crc_num"
        found.add(at)
        bytes_follow, n, shift = data[at] & 7 == 2, 0, 0
        at += 1 + (data[at] > 0x7F)
        while True:
            b = data[at]
            n, shift, at = n | (b & 0x7F) << shift, shift + 7, at + 1
            if b < 0x80:
                break
        at += n if bytes_follow else 0
    return found | {at}


def fixtures():
    """Files to cut, and the lengths at which they are files again: a checkpoint may have fewer parameters."""
    sources, whole = {}, set()
    for pattern in ("mindspore.ckpt", "mindspore-crc.ckpt"):
        data = (HERE / "fixtures" / pattern).read_bytes()
        sources[pattern] = data
        whole.update((pattern, at) for at in boundaries(data))
    for name in ("onnx-nested.onnx", "onnx-raw.onnx"):
        sources[name] = (HERE / "fixtures" / name).read_bytes()
        graph = [at for at in boundaries(sources[name]) if sources[name][at : at + 1] == b"\x3a"][0]
        whole.update((name, at) for at in boundaries(sources[name]) if at > graph)
    for name in ("flax.msgpack", "flax-chunks.msgpack", "paddle-slices2.pdparams", "paddle-object.pdparams"):
        sources[name] = (HERE / "fixtures" / name).read_bytes()
    return sources, whole


def corpus(folder):
    for name, data, *_ in CASES:
        kind, what = name.split(": ")[:2]
        save_seed(folder / kind, what, data, LONGEST)


if __name__ == "__main__":
    sys.exit(
        program(
            (mindspore, onnx, onnx_constants, flax, paddle),
            corpus,
            lambda tool, folder, faults: truncations(tool, folder, faults, *fixtures()),
            beside,
        )
    )
