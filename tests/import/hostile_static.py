#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""hostile_static.py --tool TOOL [--table] [--corpus FOLDER] - as hostile.py, for Paddle's static graphs: tensors one after the
other, and models beside them that give their names, as protobuf and as JSON. --corpus writes the cases as seeds for the
fuzz targets. Standard library only."""

import math
import os
import pathlib
import struct
import sys
import tempfile

import load_cases
from hostile_proto import field, varint
from load_cases import ANY, CASES, LIMIT_SECONDS, H, Run, U, case, save_seed, truncations

HERE = pathlib.Path(__file__).resolve().parent
LONGEST = 1500  # of a seed
DATA = struct.pack("<4f", 1, 2, 3, 4)


def one(dims=(4,), kind=5, data=DATA, desc=None, levels=(), count=None, version=0, second=0, length=None):
    desc = field(1, kind) + b"".join(field(2, d) for d in dims) if desc is None else desc
    out = struct.pack("<IQ", version, len(levels) if count is None else count)
    out += b"".join(struct.pack("<Q", len(x)) + x for x in levels)
    return out + struct.pack("<II", second, len(desc) if length is None else length) + desc + data


def paddle_static():
    def put(name, raw, verdict, error):
        case("pdiparams: " + name, raw, verdict, error)

    good = one()
    put("good", good, H, None)
    put("three", good * 3, H, None)
    put("a scalar", one((), data=DATA[:4]), H, None)
    put("no elements", one((0, 5), data=b""), H, None)
    put("packed dimensions", one(desc=field(1, 5) + field(2, varint(2) + varint(2))), H, None)
    put("levels of detail behind the first", good + one(levels=(bytes(16), bytes(8))), H, None)
    put("17 levels", good + one(levels=(b"",) * 17), U, "levels")
    put("2^63 levels", good + one(count=1 << 63), U, "levels")
    put("levels longer than the file", good + struct.pack("<IQQ", 0, 1, 1 << 62) + bytes(40), U, "levels")
    put("version 1 behind the first", good + one(version=1), U, "version")
    put("second version 7", good + one(second=7), U, "version")
    put("description of 2^31", good + one(length=1 << 31), U, "description")
    put("description of 4 GB less 1", good + one(length=0xFFFFFFFF), U, "description")
    put("description without a type", good + one(desc=field(2, 4)), U, "type")
    put(
        "description with a name",
        good + one(desc=field(1, 5) + field(2, 4) + field(9, b"x")),
        U,
        "another field",
    )
    put("type 25", good + one(kind=25), ANY, "type 25")
    put("type 2^64-1", good + one(kind=(1 << 64) - 1), ANY, "not known")
    put("negative dimension", good + one((-1,)), U, "negative")
    put("dimensions overflow", good + one((1 << 62, 1 << 62)), U, "overflow")
    put("65 dimensions", good + one((1,) * 65), U, "dimensions")
    put("longer than the file", good + one((1 << 40,)), U, "the file has")
    put("one byte too few", good + one(data=DATA[:15]), U, "the file has")
    put("one byte behind", good + b"\0", U, "+")
    put("zeros behind", good + bytes(64), U, "+")
    put("200,000 scalars", one((), data=DATA[:4]) * 200000, ANY, "+")
    put("200,000 of no elements", one((0,), data=b"") * 200000, ANY, "+")


def variable(name, dims=(4,), persistable=1, kind=7):
    tensor = field(1, 5) + b"".join(field(2, d) for d in dims)
    return field(
        3, field(1, name) + field(2, field(1, kind) + field(3, field(1, tensor))) + field(3, persistable)
    )


def program(*variables):
    return field(1, field(1, 0) + field(2, 0) + b"".join(variables))


def pir(*names, dims=(4,)):
    ops = ",".join(
        '{"#":"p","A":[0,1,1,%s],"O":{"%%":1,"TT":{"#":"0.t_dtensor","D":[{"#":"0.t_f32"},[%s],"NCHW",[],0]}}}'
        % (n, ",".join(map(str, dims)))
        for n in names
    )
    return ('{"base_code":{"magic":"pir"},"program":{"regions":[{"blocks":[{"ops":[%s]}]}]}}' % ops).encode()


def beside(tool, faults):
    """(what, the model's file, its bytes, tensors, exit status, text of the listing or the error)"""
    two, deep = one() * 2, b"[" * 100000
    tests = [
        ("names", "w.pdmodel", program(variable("b"), variable("a")), two, 0, "a "),
        ("names in JSON", "w.json", pir('"b"', '"a"'), two, 0, "b "),
        ("names with escapes", "w.json", pir('"\\u00e4\\n"', '"a"'), two, 0, "\u00e4"),
        (
            "what is fed is no parameter",
            "w.pdmodel",
            program(variable("feed", kind=9), variable("t", persistable=0), variable("a"), variable("b")),
            two,
            0,
            "a ",
        ),
        ("any dimension", "w.pdmodel", program(variable("a", (-1,)), variable("b")), two, 0, "a "),
        ("another shape", "w.pdmodel", program(variable("a", (5,)), variable("b")), two, 1, "another shape"),
        ("another shape in JSON", "w.json", pir('"a"', '"b"', dims=(2, 2)), two, 1, "another shape"),
        ("three names", "w.pdmodel", program(*map(variable, "abc")), two, 1, "names 3"),
        ("one name", "w.json", pir('"a"'), two, 1, "names 1"),
        ("a name twice", "w.json", pir('"a"', '"a"'), two, 1, "twice"),
        ("a name not UTF-8", "w.pdmodel", program(variable(b"\xff"), variable("a")), two, 0, "tensor_0"),
        ("a cut program", "w.pdmodel", program(variable("a"), variable("b"))[:-3], two, 0, "tensor_0"),
        ("an empty program", "w.pdmodel", b"", two, 0, "tensor_0"),
        ("no JSON", "w.json", b'{"#":"p","A":[0,1', two, 0, "tensor_0"),
        ("JSON of brackets", "w.json", b'{"#":"p","A":' + deep, two, 0, "tensor_0"),
        ("a name that is a list", "w.json", pir("[]", "[]"), two, 0, "tensor_0"),
        ("65 dimensions in JSON", "w.json", pir('"a"', '"b"', dims=(1,) * 65), two, 0, "tensor_0"),
        ("a name with a NUL", "w.json", pir('"a\\u0000"', '"b"'), two, 0, "tensor_0"),
    ]
    for what, name, model, tensors, status, text in tests:
        with tempfile.TemporaryDirectory() as folder:
            (pathlib.Path(folder) / name).write_bytes(model)
            (pathlib.Path(folder) / "w.pdiparams").write_bytes(tensors)
            for command in ("ls", "scan"):
                run = Run(tool, [command, "w.pdiparams"], pathlib.Path(folder))
                said = (run.out + run.err).decode("utf-8", "replace")
                if command == "ls" and (run.status != status or text not in said):
                    faults.append("pdiparams: %s: exits with %d: %s" % (what, run.status, said[:300]))
                if run.status not in (0, 1) or run.seconds > LIMIT_SECONDS:
                    faults.append(
                        "pdiparams: %s: %s exits with %d after %.1f s"
                        % (what, command, run.status, run.seconds)
                    )
    with tempfile.TemporaryDirectory() as folder:
        os.symlink("/etc/passwd", pathlib.Path(folder) / "w.json")
        (pathlib.Path(folder) / "w.pdiparams").write_bytes(two)
        run = Run(tool, ["ls", "w.pdiparams"], pathlib.Path(folder))
        if run.status != 0 or b"tensor_0" not in run.out:
            faults.append("pdiparams: a model that is a link: %s" % run.err[:200])
    return len(tests) + 1


def fixtures():
    """Files to cut, and the lengths at which they are files again: a file may have fewer tensors."""
    sources, whole = {}, set()
    for path in [
        HERE / "fixtures" / "paddle-numbers.pdiparams",
        HERE / "fixtures" / "paddle-float32.pdtensor",
    ]:
        raw = path.read_bytes()
        sources[path.name] = raw
        at = 0
        while at < len(raw):
            desc = struct.unpack_from("<I", raw, at + 16)[0]
            dims, p = [], at + 22
            while p < at + 20 + desc:  # small ones: of one byte each
                dims.append(raw[p + 1])
                p += 2
            at += 20 + desc + 4 * (1 if not dims else math.prod(dims))
            whole.add((path.name, at))
    return sources, whole


def corpus(folder):
    sources = [(name, raw) for name, raw, *_ in CASES]
    sources += [
        ("names", program(variable("b"), variable("a"))),
        ("names in json", pir('"b"', '"a"')),
        ("an escaped name in json", pir('"\\u00e4"', '"a"', dims=(-1, 2))),
    ]
    sources += [(p.stem, p.read_bytes()) for p in (HERE / "fixtures").glob("paddle-*.pd[it]*")]
    for name, raw in sources:
        save_seed(folder / "pdiparams", name.split(": ")[-1], raw, LONGEST)


if __name__ == "__main__":
    sys.exit(
        load_cases.program(
            (paddle_static,),
            corpus,
            lambda tool, folder, faults: truncations(tool, folder, faults, *fixtures()),
            beside,
        )
    )
