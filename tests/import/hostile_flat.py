#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""hostile_flat.py --tool TOOL [--table] [--corpus FOLDER] - as hostile.py, for formats of FlatBuffers: TFLite (with files
beside it) and tensors of Arrow. Fixtures are cut at every byte and have every word of theirs replaced. --corpus writes
the cases as seeds for the fuzz targets. Standard library only."""

import collections
import json
import os
import pathlib
import struct
import sys
import tempfile

from load_cases import ANY, CASES, LIMIT_SECONDS, D, H, Run, U, case, program, save_seed

HERE = pathlib.Path(__file__).resolve().parent
LONGEST = 1500  # of a seed
NONE = 0xFFFFFFFF


# ---------------------------------------------------------------- a FlatBuffer, from front to back


class Text(bytes):
    """A string: a length, bytes, a NUL."""


class Vector:
    def __init__(self, code, items, count=None):
        self.code, self.items, self.count = code, items, len(items) if count is None else count


class Table:
    """slot -> (struct code, number), or something that an offset leads to; at: instead of that offset."""

    def __init__(self, fields, **change):
        self.fields, self.change = fields, change


class Offset(int):
    """An offset as it is."""


def build(root, ident=b"TFL3", root_at=None):
    out = bytearray(4) + ident
    placed = {}
    todo = collections.deque()

    def emit(item):
        if id(item) in placed:
            return placed[id(item)]
        while len(out) % 8:
            out.append(0)
        if isinstance(item, Table):
            return table(item)
        at = len(out)
        placed[id(item)] = at
        if isinstance(item, Text):
            out.extend(struct.pack("<I", len(item)) + item + b"\0")
        elif item.code == "table":
            out.extend(struct.pack("<I", item.count) + bytes(4 * len(item.items)))
            todo.extend((at + 4 + 4 * i, child) for i, child in enumerate(item.items))
        elif item.code == "bytes":
            out.extend(struct.pack("<I", item.count) + item.items)
        else:
            if item.code in "qQd":
                out.extend(bytes(4))
                at += 4
                placed[id(item)] = at
            out.extend(struct.pack("<I%d%s" % (len(item.items), item.code), item.count, *item.items))
        return at

    def table(item):
        slots = max(item.fields, default=-1) + 1
        offsets, body = [0] * slots, bytearray(4)
        links = []
        for slot, value in item.fields.items():
            number = isinstance(value, tuple)
            size = struct.calcsize("<" + value[0]) if number else 4
            while len(body) % min(size, 8):
                body.append(0)
            offsets[slot] = len(body)
            if not number and not isinstance(value, Offset):
                links.append((len(body), value))
            body.extend(
                struct.pack("<" + value[0], *value[1:])
                if number
                else struct.pack("<I", value if isinstance(value, Offset) else 0)
            )
        for slot, offset in item.change.get("slots", {}).items():
            offsets[slot] = offset
        vtable = struct.pack(
            "<HH%dH" % slots,
            item.change.get("vtable", 4 + 2 * slots),
            item.change.get("size", len(body)),
            *offsets,
        )
        out.extend(vtable)
        while len(out) % 8:
            out.append(0)
        at = len(out)
        placed[id(item)] = at
        out.extend(body)
        start = at - len(vtable)
        while bytes(out[start : start + len(vtable)]) != vtable:
            start -= 1
        struct.pack_into("<i", out, at, item.change.get("soffset", at - start))
        todo.extend((at + offset, child) for offset, child in links)
        return at

    first = emit(root)
    while todo:
        at, child = todo.popleft()
        struct.pack_into("<I", out, at, (emit(child) - at) & NONE)
    struct.pack_into("<I", out, 0, first if root_at is None else root_at)
    return bytes(out)


# ---------------------------------------------------------------- TFLite

DATA = struct.pack("<4f", 1, 2, 3, 4)


def data(raw=DATA, count=None, **more):
    fields = {0: Vector("bytes", raw, count)} if raw is not None else {}
    fields.update({{"offset": 1, "size": 2}[k]: ("Q", v) for k, v in more.items()})
    return Table(fields)


def tensor(name=b"w", kind=0, shape=(4,), buffer=1, **more):
    fields = {0: Vector("i", list(shape)), 1: ("b", kind), 2: ("I", buffer)}
    if name is not None:
        fields[3] = Text(name)
    fields.update({int(k[1:]): v for k, v in more.items()})
    return Table(fields)


def model(tensors, buffers=None, version=3, graphs=None, **more):
    tables = [
        Table({0: Vector("table", list(t)), 4: Text(b"g%d" % i)}) for i, t in enumerate(graphs or [tensors])
    ]
    fields = {
        0: ("I", version),
        2: Vector("table", tables),
        4: Vector("table", [data(None)] + (buffers if buffers is not None else [data()])),
    }
    fields.update({int(k[1:]): v for k, v in more.items()})
    return Table(fields)


def external(name=b"w.bin", offset=0, length=16, number=1, more=b""):
    group = Vector("table", [Table({0: Text(name)})])
    entry = Table({0: ("I", number), 1: ("I", 0), 2: ("Q", offset), 3: ("Q", length), 4: Text(more)})
    return {"f8": group, "f9": Vector("table", [entry])}


def quantised(scales=(0.5,), zeros=(0,), **more):
    fields = {2: Vector("f", list(scales)), 3: Vector("q", list(zeros)), 6: ("i", 0)}
    fields.update({int(k[1:]): v for k, v in more.items()})
    return Table(fields)


def flex(op, node, width=0, kind=10, first=5, count=2):
    """Options of an operator of TensorFlow: a FlexBuffers vector of its name and its NodeDef, sizes of 1 << width bytes."""
    w = 1 << width
    size = lambda n: n.to_bytes(w, "little")  # noqa: E731
    out, places = b"", []
    for text in (op, node):
        out += size(len(text))
        places.append(len(out))
        out += text + b"\0"
    out += size(count)
    at = len(out)
    for i, p in enumerate(places):
        out += size((at + i * w - p) & ((1 << 8 * w) - 1))
    out += bytes([first << 2 | width, 5 << 2 | width])
    root = len(out)
    return out + size((root - at) & ((1 << 8 * w) - 1)) + bytes([kind << 2 | width, w])


def node_def(op, more=b""):
    return b"\n\1n\x12" + bytes([len(op)]) + op + more


def operators():
    """Operators of others' libraries, and of TensorFlow by their names, by their options, by their nodes."""

    def put(name, codes, verdict, options=None, **more):
        table = [
            Table({0: ("b", min(c, 127)), 1: Text(n), 3: ("i", c)} if n is not None else {0: ("b", c)})
            for c, n in codes
        ]
        graph = {0: Vector("table", [tensor()])}
        if options is not None:
            graph[3] = Vector(
                "table",
                [Table({0: ("I", 0), 5: Vector("bytes", options), **{int(k): v for k, v in more.items()}})],
            )
        m = Table(
            {
                0: ("I", 3),
                1: Vector("table", table),
                2: Vector("table", [Table(graph)]),
                4: Vector("table", [data(None), data()]),
            }
        )
        case("tflite: operators, " + name, build(m), verdict, None)

    put("its own", [(0, None), (3, b""), (209, b"")], H)
    put("for detection", [(32, b"TFLite_Detection_PostProcess"), (32, b"Mfcc")], H)
    put("a library's", [(3, None), (32, b"MyOp")], U)
    put("without a name", [(32, None)], U)
    put("of a later version", [(210, b"")], U)
    put("that calls others", [(173, b"")], U)
    put("a delegate's", [(51, None)], U)
    good = flex(b"Erf", node_def(b"Erf"))
    put("Flex, no options", [(32, b"FlexErf")], H)
    put("Flex, by its name", [(32, b"FlexWriteFile")], D)
    put("Flex, unknown", [(32, b"FlexNoSuchOp")], U)
    put("Flex", [(32, b"FlexErf")], H, good)
    for w in (1, 2, 3):
        put("Flex, sizes of %d" % w, [(32, b"FlexErf")], H, flex(b"Erf", node_def(b"Erf"), w))
        put(
            "Flex, sizes of %d, another node" % w,
            [(32, b"FlexErf")],
            D,
            flex(b"Erf", node_def(b"ReadFile"), w),
        )
    put("Flex, other options", [(32, b"FlexErf")], D, flex(b"WriteFile", node_def(b"Erf")))
    put("Flex, another node", [(32, b"FlexErf")], D, flex(b"Erf", node_def(b"WriteFile")))
    put(
        "Flex, a second operator in its node",
        [(32, b"FlexErf")],
        D,
        flex(b"Erf", node_def(b"Erf") + node_def(b"EagerPyFunc")),
    )
    stream = b"*\x1a\n\x0doutput_stream\x12\x09\x12\x07file://"
    put("Flex, prints to a file", [(32, b"FlexPrintV2")], D, flex(b"PrintV2", node_def(b"PrintV2", stream)))
    for name, options in (
        ("empty", b""),
        ("one byte", b"\1"),
        ("a number", b"\5\4\1"),
        ("a map", flex(b"Erf", node_def(b"Erf"), kind=9)),
        ("a key", flex(b"Erf", node_def(b"Erf"), first=4)),
        ("of one item", flex(b"Erf", b"", count=1)),
        ("2^63 items", flex(b"Erf", b"", 3, count=1 << 63)),
        ("cut", good[1:]),
        ("width 0", good[:-1] + b"\0"),
        ("width 255", good[:-1] + b"\xff"),
        ("not of its end", good + b"\0"),
        ("node cut", flex(b"Erf", b"\x12\x63Erf")),
    ):
        put("Flex, options: " + name, [(32, b"FlexErf")], U, options)
    put("Flex, options beyond the file", [(32, b"FlexErf")], U, good, **{"9": ("Q", 1 << 60)})


def tflite():
    def put(name, m, verdict, error, **how):
        case("tflite: " + name, build(m, **how), verdict, error)

    put("good", model([tensor()]), H, None)
    for name, tail, verdict in (
        ("zeros", bytes(4000), H),
        ("text", b"x" * 300, U),
        ("a byte behind zeros", bytes(3000) + b"x", U),
    ):
        case("tflite: %s behind the end" % name, build(model([tensor()])) + tail, verdict, None)
    put("two subgraphs", model(None, graphs=[[tensor()], [tensor()]]), H, None)
    put("two tensors of a buffer", model([tensor(), tensor(b"v")]), H, None)
    put("a name twice", model([tensor(), tensor()], [data()]), H, None)
    put("a name twice, and the one it gets", model([tensor(), tensor(b"w#2"), tensor(b"w")]), U, "twice")
    put("no name", model([tensor(None)]), H, None)
    put("made when it runs", model([tensor(buffer=0), tensor(b"v")]), H, None)
    put("no subgraphs", model(None, graphs=[[]]), H, None)
    put("4-bit integers", model([tensor(kind=17, shape=(3, 5))], [data(bytes(8))]), H, None)
    put(
        "4-bit integers, one byte too few",
        model([tensor(kind=17, shape=(3, 5))], [data(bytes(7))]),
        U,
        "need 8",
    )
    put("data behind the model", model([tensor()], [data(None, offset=8, size=16)]), H, None)
    put(
        "data at the offset 2^63", model([tensor()], [data(None, offset=1 << 63, size=16)]), U, "the file has"
    )
    put(
        "offset and size wrap",
        model([tensor()], [data(None, offset=(1 << 64) - 8, size=16)]),
        U,
        "the file has",
    )
    put("data in two places", model([tensor()], [data(offset=8, size=16)]), U, "two places")
    put("data longer than the file", model([tensor()], [data(count=1 << 30)]), U, "more items")
    put("data of 2^32-1 bytes", model([tensor()], [data(count=NONE)]), U, "more items")
    put("data too short", model([tensor()], [data(DATA[:12])]), U, "need 16")
    put("data too long", model([tensor()], [data(DATA + b"\0")]), U, "need 16")
    put("buffer 9 of 2", model([tensor(buffer=9)]), U, "not there")
    put("buffer 2^32-1", model([tensor(buffer=NONE)]), U, "not there")
    put(
        "two buffers share bytes",
        model(
            [tensor(), tensor(b"v", buffer=2)],
            [data(None, offset=8, size=16), data(None, offset=16, size=16)],
        ),
        U,
        "share",
    )
    put("negative dimension", model([tensor(shape=(-4,))]), U, "negative")
    put("dimensions overflow", model([tensor(shape=(0x7FFFFFFF,) * 3)]), U, "overflows")
    put("elements overflow", model([tensor(shape=(0x7FFFFFFF, 0x7FFFFFFF), kind=4)]), U, "+")
    put("65 dimensions", model([tensor(shape=(1,) * 65)]), U, "dimensions")
    put("no elements of 2^62", model([tensor(shape=(0, 0x7FFFFFFF, 0x7FFFFFFF))], [data(b"")]), H, None)
    put("unknown type", model([tensor(kind=99)]), ANY, "element type 99")
    put("type -1", model([tensor(kind=-1)]), ANY, "element type 255")
    put("texts", model([tensor(kind=5)]), ANY, "texts")
    put("a resource", model([tensor(kind=13)]), ANY, "a resource")
    put("sparse", model([tensor(f6=Table({}))]), ANY, "a sparse tensor")
    put("name not UTF-8", model([tensor(b"\xff\xfe")]), U, "UTF-8")
    put("name with a NUL", model([tensor(b"a\0b")]), U, "NUL")
    put("name of 1 MB", model([tensor(b"n" * 10**6)]), U, "limit")
    put("name of control characters", model([tensor(b"\x1b[2J\n")]), ANY, "+")
    put("name __metadata__", model([tensor(b"__metadata__")]), ANY, "+")
    put("version 4", model([tensor()], version=4), U, "version 4")
    put("quantised", model([tensor(f4=quantised())]), H, None)
    put(
        "quantised by numbers that are none",
        model([tensor(f4=quantised((float("nan"), float("inf"))))]),
        H,
        None,
    )
    put(
        "quantised by a tensor that is not there",
        model([tensor(f4=quantised(f4=("B", 2), f5=Table({0: ("i", 77)})))]),
        U,
        "not there",
    )
    put(
        "quantised in blocks",
        model([tensor(f4=quantised(f4=("B", 2), f5=Table({0: ("i", 0), 2: ("i", 32)})))]),
        H,
        None,
    )
    put(
        "details of a kind that is not known",
        model([tensor(f4=quantised(f4=("B", 9), f5=Table({})))]),
        H,
        None,
    )
    structure(put)
    multitudes(put)


def structure(put):
    put("root at 0", model([tensor()]), U, "leads out", root_at=0)
    put("root behind the end", model([tensor()]), U, "leads out", root_at=1 << 20)
    put("root at the last byte", model([tensor()]), U, "+", root_at=8)
    put("fields before the file", Table({0: ("I", 3)}, soffset=1 << 20), U, "at byte 16: tflite: an offset")
    put(
        "fields behind the file", Table({0: ("I", 3)}, soffset=-(1 << 20)), U, "at byte 16: tflite: an offset"
    )
    put("fields list of 3 bytes", Table({0: ("I", 3)}, vtable=3), U, "size cannot be")
    put("fields list of 65,534 bytes", Table({0: ("I", 3)}, vtable=65534), U, "size cannot be")
    put("table of 65,535 bytes", Table({0: ("I", 3)}, size=65535), U, "size cannot be")
    put("field behind its table", Table({0: ("I", 3)}, slots={0: 200}), U, "outside of its table")
    put("field in its table's head", Table({0: ("I", 3)}, slots={0: 2}), U, "outside of its table")
    put("field half outside", Table({0: ("H", 3)}), U, "outside of its table")
    put("subgraphs at the offset 0", Table({0: ("I", 3), 2: Offset(0)}), U, "leads out")
    put("subgraphs at 2^31", Table({0: ("I", 3), 2: Offset(1 << 31)}), U, "leads out")
    put("subgraphs in the model itself", Table({0: ("I", 3), 2: Offset(4)}), U, "+")
    put("2^32-1 subgraphs", Table({0: ("I", 3), 2: Vector("table", [], NONE)}), U, "more items")
    put("2^32-1 buffers", model([tensor()], f4=Vector("table", [], NONE)), U, "more items")
    put("2^32-1 dimensions", model([tensor(f0=Vector("i", [], NONE))]), U, "more items")
    put("external buffer that is not listed", model([tensor(f10=("I", 3))]), U, "not listed")
    put(
        "external buffer given twice",
        model([tensor()], f9=Vector("table", [Table({0: ("I", 1)})] * 2)),
        U,
        "given twice",
    )
    put(
        "external buffer of a group that is not there",
        model([tensor(f10=("I", 1))], **external() | {"f8": Vector("table", [])}),
        U,
        "not listed",
    )
    put("external buffer packed", model([tensor(f10=("I", 1))], **external(more=b"zip")), ANY, "packing")
    for name in (b"/etc/passwd", b"../w.bin", b"a/../../w.bin", b"", b"C:\\w.bin"):
        put(
            "external data: %s" % name.decode(),
            model([tensor(f10=("I", 1))], **external(name)),
            U,
            "leads out",
        )


def multitudes(put):
    one = tensor()
    put("50,000 times one tensor", model([one] * 50000), H, None)
    put("30,000 tensors", model([tensor(b"t%d" % i) for i in range(30000)]), H, None)
    long = quantised([1 / 3] * 4096, list(range(4096)))
    put(
        "5,000 tensors share 4,096 scales",
        model([tensor(b"t%d" % i, f4=long) for i in range(5000)]),
        U,
        "memory",
    )
    put(
        "1,000 tensors share a name of 60,000 bytes",
        model([tensor(f3=SHARED) for _ in range(1000)]),
        ANY,
        "+",
    )
    put("300 subgraphs share 1,000 tensors", model(None, graphs=[[one] * 1000] * 300), ANY, "+")
    put(
        "many subgraphs are one",
        Table(
            {
                0: ("I", 3),
                2: Vector("table", [Table({0: Vector("table", [one] * 20000)})] * 500),
                4: Vector("table", [data(None), data()]),
            }
        ),
        ANY,
        "+",
    )


SHARED = Text(b"n" * 60000)


# ---------------------------------------------------------------- Arrow


def message(
    shape=(4,),
    strides=None,
    kind=4,
    body=DATA,
    extent=(0, 16),
    typed=(3, Table({0: ("h", 1)})),
    length=None,
    names=None,
    **more,
):
    dims = [Table({0: ("q", n), 1: Text(names or b"")}) for n in shape]
    fields = {0: ("B", typed[0]), 1: typed[1], 2: Vector("table", dims), 4: ("qq", *extent)}
    if strides is not None:
        fields[3] = Vector("q", list(strides))
    fields.update({int(k[1:]): v for k, v in more.items()})
    flat = build(
        Table(
            {0: ("h", 4), 1: ("B", kind), 2: Table(fields), 3: ("q", len(body) if length is None else length)}
        ),
        ident=bytes(4),
    )
    flat += bytes(-len(flat) % 8)
    return struct.pack("<II", NONE, len(flat)) + flat + body


def arrow():
    def put(name, raw, verdict, error):
        case("arrow: " + name, raw, verdict, error)

    good = message()
    put("good", good, H, None)
    put("good, before 0.15", good[4:], H, None)
    put("three tensors", good * 3, H, None)
    put("three tensors, padded", (good + bytes(40)) * 3, H, None)
    put("named dimensions", message(names=b"row"), H, None)
    put("columns first", message((2, 2), (4, 8)), H, None)
    put("every second", message((2,), (8,)), H, None)
    put("one element, any stride", message((1,), (0,), extent=(0, 4)), H, None)
    put("no elements", message((0, 3), extent=(0, 0)), H, None)
    put("strides of 0 expand", message((1 << 20, 1 << 10), (0, 0)), U, "amplification")
    put("strides leave the data", message((2, 2), (4, 1 << 40)), U, "need")
    put("strides wrap", message((1 << 40, 4), (1 << 40, 4)), U, "overflow")
    put("negative stride", message((4,), (-4,)), U, "negative")
    put("strides of another rank", message((2, 2), (4,)), U, "number of dimensions")
    put("negative dimension", message((-1,)), U, "negative")
    put("dimensions overflow", message((1 << 62, 1 << 62)), U, "overflow")
    put("65 dimensions", message((1,) * 65), U, "dimensions")
    put("2^31 dimensions", message(f2=Vector("table", [], 1 << 31)), U, "more items")
    put("data behind the body", message(extent=(8, 16)), U, "need")
    put("data at 2^63", message(extent=(-(1 << 63), 16)), U, "need")
    put("data of 2^63", message(extent=(0, -(1 << 63))), U, "need")
    put("data too short", message(extent=(0, 12)), U, "need")
    put("body longer than the file", message(length=1 << 40), U, "cut short")
    put("body of -1", message(length=-1), U, "cut short")
    put("no type", message(typed=(0, Table({}))), ANY, "element type")
    put("integers of 7 bits", message(typed=(2, Table({0: ("i", 7)}))), ANY, "element type")
    put("decimals", message(typed=(7, Table({}))), ANY, "element type")
    put("sparse", message(kind=5), ANY, "a sparse tensor")
    put("a schema", message(kind=1), ANY, "Arrow stream")
    put("a schema behind a tensor", good + message(kind=1), ANY, "no tensor")
    put("half a message behind", good + good[:30], U, "cut short")
    put("zeros behind", good + bytes(20), H, None)
    put("100 zeros behind", good + bytes(100), U, "+")
    put("other bytes behind", good + b"\1" * 20, U, "cut short")
    put("name of 1 MB", message(names=b"n" * 10**6), U, "limit")
    put("name not UTF-8", message(names=b"\xff"), U, "UTF-8")
    put("20,000 tensors", good * 20000, H, None)


# ---------------------------------------------------------------- with files


def beside(tool, faults):
    """External data that is there; what it may not be."""
    tests = [
        ("external", external(), 16, 0),
        ("external, in the middle", external(offset=8), 24, 0),
        ("external, too short", external(offset=8), 16, 1),
        ("external, of another length", external(length=12), 16, 1),
        ("external, not there", external(b"none.bin"), 16, 3),
    ]
    for name, how, size, status in tests:
        with tempfile.TemporaryDirectory() as folder:
            (pathlib.Path(folder) / "w.bin").write_bytes(bytes(range(size)))
            (pathlib.Path(folder) / "case.pt").write_bytes(build(model([tensor(f10=("I", 1))], **how)))
            run = Run(tool, ["hash", "case.pt"], pathlib.Path(folder))
            if run.status != status:
                faults.append("tflite: %s: exits with %d: %s" % (name, run.status, run.err[:200]))
    with tempfile.TemporaryDirectory() as folder:
        os.symlink("/etc/passwd", pathlib.Path(folder) / "w.bin")
        (pathlib.Path(folder) / "case.pt").write_bytes(build(model([tensor(f10=("I", 1))], **external())))
        run = Run(tool, ["ls", "case.pt"], pathlib.Path(folder))
        if run.status == 0 or b"a link" not in run.err:
            faults.append("tflite: external data by a link is taken: %s" % run.err[:200])
    return len(tests) + 1


def tried(tool, folder, name, changed, faults, allowed):
    """Many files in a run: an answer for each; those that are taken have what `allowed` says."""
    paths = []
    for i, raw in enumerate(changed):
        paths.append("v-%d.pt" % i)
        (folder / paths[-1]).write_bytes(raw)
    for command in ("scan", "check", "ls"):
        r = Run(tool, [command, "--json", *paths], folder)
        rows = [json.loads(line) for line in r.out.decode().splitlines()]
        if r.status not in (0, 1, 2) or (len(rows) != len(paths) and command == "scan"):
            faults.append(
                "%s: %s exits with %d, %d answers: %s" % (name, command, r.status, len(rows), r.err[-300:])
            )
        if r.seconds > LIMIT_SECONDS * 10:
            faults.append("%s: %s takes %.1f s" % (name, command, r.seconds))
        if command == "check" and allowed is not None:
            for path, row in zip(paths, rows):
                if row["valid"] and not allowed(folder / path):
                    faults.append("%s: %s is taken" % (name, path))
    for path in paths:
        os.unlink(folder / path)
    return len(paths)


def variants(tool, folder, faults):
    """Every cut and every changed word of the fixtures. A cut that is taken has all the tensors: what was cut is not read."""
    total = 0
    for path in [
        HERE / "fixtures" / n
        for n in (
            "tflite.tflite",
            "tflite-graphs.tflite",
            "tflite-types.tflite",
            "tflite-int8.tflite",
            "arrow-shapes.arrow",
            "arrow-fortran.arrow",
        )
    ]:
        raw = path.read_bytes()
        (folder / "whole.pt").write_bytes(raw)

        def same(cut, arrow=path.suffix == ".arrow"):
            return arrow or Run(tool, ["diff", cut.name, "whole.pt"], folder).status == 0

        for start in range(0, len(raw), 500):
            total += tried(
                tool,
                folder,
                path.name,
                [raw[:n] for n in range(start, min(start + 500, len(raw)))],
                faults,
                same,
            )
        words = [
            raw[:at] + struct.pack("<I", word) + raw[at + 4 :]
            for at in range(0, min(len(raw), 700) - 4, 4)
            for word in (0, 1, 0x7FFFFFFF, NONE)
        ]
        for start in range(0, len(words), 500):
            total += tried(tool, folder, path.name, words[start : start + 500], faults, None)
        os.unlink(folder / "whole.pt")
    return total


def corpus(folder):
    sources = [(name.split(":")[0], name.split(": ", 1)[1], raw) for name, raw, *_ in CASES]
    sources += [
        (p.name.split("-")[0].split(".")[0], p.stem, p.read_bytes())
        for p in (HERE / "fixtures").glob("tflite*.tflite")
    ]
    sources += [("arrow", p.stem, p.read_bytes()) for p in (HERE / "fixtures").glob("arrow-[fs]*.arrow")]
    for kind, name, raw in sources:
        save_seed(folder / kind, name, raw, 2 * LONGEST)


if __name__ == "__main__":
    sys.exit(program((tflite, operators, arrow), corpus, variants, beside))
