#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""hostile_arrays.py --tool TOOL [--table] [--corpus FOLDER] - as hostile.py, for numpy's formats and GGUF. --corpus writes
the cases as seeds for the fuzz targets. Standard library only."""

import pathlib
import struct
import sys

from hostile import Member, make_zip
from load_cases import ANY, CASES, D, H, U, case, program, save_seed, truncations

HERE = pathlib.Path(__file__).resolve().parent
LONGEST = 1500  # of a seed

# ---------------------------------------------------------------- numpy

FOUR = struct.pack("<4f", 1, 2, 3, 4)


def npy(
    text="{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2), }", data=FOUR, version=(1, 0), length=None
):
    raw = text.encode("latin-1") if isinstance(text, str) else text
    width = "<H" if version[0] == 1 else "<I"
    return (
        b"\x93NUMPY"
        + bytes(version)
        + struct.pack(width, len(raw) if length is None else length)
        + raw
        + data
    )


def header(descr="'<f4'", fortran="False", shape="(2, 2)"):
    return "{'descr': %s, 'fortran_order': %s, 'shape': %s, }" % (descr, fortran, shape)


def numpy_files():
    bad = "npy-header"
    case("npy: good", npy(), H, None)
    case("npy: version 2", npy(version=(2, 0)), H, None)
    case("npy: scalar", npy(header(shape="()"), FOUR[:4]), H, None)
    case("npy: python 2 numbers", npy(header(shape="(2L, 2L)")), H, None)
    case("npy: empty", npy(header(shape="(0, 18446744073709551615)"), b""), H, None)
    case("npy: fortran scalar", npy(header(fortran="True", shape="()"), FOUR[:4]), H, None)
    case("npy: big-endian fortran", npy(header("'>f4'", "True")), H, None)
    case("npy: void of two bytes", npy(header("'|V2'", shape="(8,)")), H, None)
    case("npy: version 9.9", npy(version=(9, 9)), U, "format version 9.9")
    case("npy: header of 4 GB", npy(version=(2, 0), length=0xFFFFFFFF), U, bad)
    case("npy: header of 20 kB", npy(header() + " " * 20000), U, "numpy itself takes")
    for name, text in {
        "import": "__import__('os').system('id')",
        "call in shape": header(shape="(exec('1'), 2)"),
        "negative": header(shape="(-1, 2)"),
        "expression": header(shape="(2*2,)"),
        "number for a tuple": header(shape="4"),
        "no tuple": header(shape="(4)"),
        "list for a tuple": header(shape="[2, 2]"),
        "65 dimensions": header(shape="(" + "1, " * 65 + ")"),
        "number of 30 digits": header(shape="(100000000000000000000000000000,)"),
        "fortran is 1": header(fortran="1"),
        "twice": "{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (2, 2)}",
        "fourth key": header()[:-2] + "'x': 1}",
        "two keys": "{'descr': '<f4', 'shape': (2, 2)}",
        "not closed": header()[:-3],
        "behind it": header() + "#",
        "escape": header("'\\x3cf4'"),
        "zero byte": header() + "\0",
        "long type": header("'" + "<f4" * 40 + "'"),
    }.items():
        case("npy: " + name, npy(text), U, bad)
    case("npy: shape overflows", npy(header(shape="(4294967296, 4294967296, 4)")), U, "overflows")
    case("npy: bytes overflow", npy(header(shape="(4611686018427387905, 4)")), U, "overflows")
    case("npy: shape beyond the file", npy(header(shape="(1000000000,)")), U, "npy-size")
    case("npy: trailing", npy(data=FOUR + b"x"), U, "follow the array")
    for descr in ("'<U4'", "'|S4'", "'<M8[ns]'", "'<f16'", "'|V16'", "'<f3'", "'=f4'", "'|f4'", "'q'", "''"):
        case("npy: type " + descr, npy(header(descr)), H, "npy-dtype")
    case("npy: fields", npy(header("[('a', '<f4'), ('b', '<i4', (2,))]")), H, "structured")
    case("npy: fields without an end", npy(header("[('a', '<f4'")), U, bad)
    case("npy: brackets", npy(header("[" * 5000)), U, bad)
    evil = b"\x80\x02cos\nsystem\nX\x02\x00\x00\x00id\x85R."
    case("npy: object", npy(header("'|O'", shape="(1,)"), evil), D, "npy-object")
    good = make_zip([Member("a.npy", npy()), Member("A.npy", npy())])
    case("npz: names that differ by case", good, H, None)
    case("npz: deflated", make_zip([Member("a.npy", npy(), method=8)]), H, None)
    case(
        "npz: object inside",
        make_zip([Member("a.npy", npy()), Member("b.npy", npy(header("'|O'"), evil))]),
        D,
        "npy-object",
    )
    objects = [Member("o%d.npy" % i, npy(header("'|O'"), b"\x80\x02N.")) for i in range(3000)]
    case(
        "npz: 3,000 objects, then one that runs code",
        make_zip(objects + [Member("x.npy", npy(header("'|O'"), evil))]),
        D,
        "npy-object",
    )
    case("npz: other member", make_zip([Member("a.npy", npy()), Member("b.bin", b"x")]), ANY, "npz-member")
    case("npz: a text behind", make_zip([Member("a.npy", npy()), Member("b.txt", b"x")]), ANY, None)
    case("npz: settings before", make_zip([Member("b.json", b"{}"), Member("a.npy", npy())]), ANY, None)
    case("npz: settings alone", make_zip([Member("b.json", b"{}")]), ANY, "+")
    case("npz: twice", make_zip([Member("a.npy", npy()), Member("a.npy", npy())]), D, "zip-duplicate")
    case("npz: a pickle beside", make_zip([Member("m/a.npy", npy()), Member("m/data.pkl", evil)]), D, ANY)
    case("npz: no array", make_zip([Member("a.npy", b"x" * 40)]), U, bad)
    case(
        "npz: bomb",
        make_zip(
            [Member("a.npy", npy(header(shape="(1000000,)"), b"\0" * 4000000), method=8, usize=1 << 40)]
        ),
        ANY,
        ANY,
    )
    case("npz: shorter than it says", make_zip([Member("a.npy", npy(header(shape="(3, 2)")))]), U, "npy-size")


# ---------------------------------------------------------------- GGUF


def s(text, long=True):
    raw = text.encode() if isinstance(text, str) else text
    return struct.pack("<Q" if long else "<I", len(raw)) + raw


def kv(key, kind, raw):
    return s(key) + struct.pack("<I", kind) + raw


def info(name="w", dims=(4,), kind=0, offset=0, rank=None):
    return (
        s(name)
        + struct.pack("<I", len(dims) if rank is None else rank)
        + b"".join(struct.pack("<Q", d) for d in dims)
        + struct.pack("<IQ", kind, offset)
    )


ARCH = kv("general.architecture", 8, s("llama"))


def gguf(infos=(info(),), values=(ARCH,), data=FOUR, version=3, tensors=None, count=None, alignment=32):
    head = b"GGUF" + struct.pack(
        "<IQQ", version, len(infos) if tensors is None else tensors, len(values) if count is None else count
    )
    head += b"".join(values) + b"".join(infos)
    return head + b"\0" * (-len(head) % alignment) + data


def gguf_files():
    case("gguf: good", gguf(), H, None)
    case("gguf: no tensors", gguf((), data=b""), H, None)
    case("gguf: zeros behind the end, 2 MB", gguf() + bytes(2 << 20), H, None)
    case("gguf: bytes behind the end", gguf() + b"x" * 100, U, None)
    case("gguf: a byte behind zeros behind the end", gguf() + bytes(9000) + b"x", U, None)
    case("gguf: bytes behind no tensors", gguf((), data=b"") + b"x", U, None)
    two = (info(), info(b"v", offset=96))
    case("gguf: zeros between tensors", gguf(two, data=FOUR.ljust(96, b"\0") + FOUR), H, None)
    case("gguf: bytes between tensors", gguf(two, data=FOUR.ljust(95, b"\0") + b"x" + FOUR), U, None)
    many = tuple(info(b"w%d" % i, offset=96 * i) for i in range(20000))
    case("gguf: 20,000 gaps", gguf(many, data=(FOUR.ljust(96, b"\0")) * 20000), U, None)
    case("gguf: a scalar", gguf((info(dims=()),), data=FOUR[:4]), H, None)
    v1 = b"GGUF" + struct.pack("<III", 1, 1, 1) + s("k", False) + struct.pack("<I", 4) + struct.pack("<I", 7)
    v1 += s("w", False) + struct.pack("<IIIQ", 1, 4, 0, 0)
    case("gguf: version 1", v1 + b"\0" * (-len(v1) % 32) + FOUR, H, None)
    case(
        "gguf: alignment 64",
        gguf(values=(kv("general.alignment", 4, struct.pack("<I", 64)),), alignment=64),
        H,
        None,
    )
    case("gguf: blocks", gguf((info(dims=(32,), kind=2),), data=b"\0" * 18), H, None)
    case("gguf: version 0", gguf(version=0), U, "gguf-version")
    case("gguf: version 4", gguf(version=4), U, "gguf-version")
    case("gguf: 2^63 tensors", gguf(tensors=1 << 63), U, "gguf-count")
    case("gguf: 2^63 values", gguf(count=1 << 63), U, "gguf-count")
    case("gguf: one tensor too many", gguf(tensors=2, data=b""), U, "gguf-")
    case("gguf: key of 2^63 bytes", gguf(values=(struct.pack("<Q", 1 << 63) + b"x" * 40,)), U, "gguf-end")
    case("gguf: key of 100 kB", gguf(values=(kv("k" * 100000, 4, b"\0" * 4),)), U, "gguf-string")
    case(
        "gguf: value of 2^64 - 1 bytes",
        gguf(values=(kv("k", 8, struct.pack("<Q", (1 << 64) - 1)),)),
        U,
        "gguf-end",
    )
    case("gguf: type of value 13", gguf(values=(kv("k", 13, b"\0" * 8),)), U, "gguf-value")
    case("gguf: bool 2", gguf(values=(kv("k", 7, b"\2"),)), U, "gguf-bool")
    case("gguf: key twice", gguf(values=(ARCH, ARCH)), U, "twice")
    case("gguf: our own key", gguf(values=(kv("gguf.tensors", 8, s("{}")),)), U, "gguf-key")
    case("gguf: key not UTF-8", gguf(values=(kv(b"\xff", 8, s("x")),)), U, "UTF-8")
    case("gguf: text not UTF-8", gguf(values=(ARCH, kv("k", 8, s(b"\xff\xc0x")))), H, None)
    case("gguf: name not UTF-8", gguf((info(b"\xff"),)), U, "UTF-8")
    for n in (0, 3, 24, 1 << 30):
        case(
            "gguf: alignment %d" % n,
            gguf(values=(kv("general.alignment", 4, struct.pack("<I", n)),)),
            U,
            "gguf-alignment",
        )
    case("gguf: alignment is text", gguf(values=(kv("general.alignment", 8, s("32")),)), U, "gguf-alignment")
    case(
        "gguf: arrays of arrays",
        gguf(values=(kv("k", 9, struct.pack("<IQIQ", 9, 1, 9, 1)),)),
        U,
        "gguf-array",
    )
    case(
        "gguf: array of 2^61 numbers",
        gguf(values=(kv("k", 9, struct.pack("<IQ", 12, 1 << 61)),)),
        U,
        "gguf-array",
    )
    case(
        "gguf: array of 2^40 texts",
        gguf(values=(kv("k", 9, struct.pack("<IQ", 8, 1 << 40)),)),
        U,
        "gguf-array",
    )
    case("gguf: five dimensions", gguf((info(dims=(1,) * 5),)), U, "gguf-rank")
    case("gguf: 2^32 - 1 dimensions", gguf((info(rank=0xFFFFFFFF),)), U, "gguf-rank")
    case("gguf: dimensions overflow", gguf((info(dims=(1 << 42, 1 << 42)),)), U, "gguf-shape")
    case("gguf: bytes overflow", gguf((info(dims=(1 << 62, 1)),)), U, "gguf-")
    case("gguf: dimension below zero", gguf((info(dims=((1 << 64) - 1,)),)), U, "gguf-shape")
    case("gguf: half a block", gguf((info(dims=(33,), kind=2),), data=b"\0" * 40), U, "gguf-shape")
    for kind in (4, 5, 31, 36, 99, 0xFFFFFFFF):
        case("gguf: type %d" % kind, gguf((info(kind=kind),)), U, "gguf-type")
    case("gguf: offset not aligned", gguf((info(offset=4),), data=FOUR * 4), U, "gguf-offset")
    case("gguf: offset past the end", gguf((info(offset=1 << 40),)), U, "gguf-offset")
    case("gguf: offset overflows", gguf((info(offset=(1 << 64) - 32),)), U, "gguf-offset")
    case("gguf: tensor past the end", gguf((info(dims=(5,)),)), U, "gguf-offset")
    case("gguf: same bytes", gguf((info("a"), info("b"))), U, "gguf-overlap")
    case("gguf: overlap", gguf((info("a", (16,)), info("b", offset=32)), data=FOUR * 4), U, "gguf-overlap")
    case("gguf: one name", gguf((info("a"), info("a", offset=32)), data=FOUR * 3), U, ANY)
    case("gguf: bytes unused", gguf(data=FOUR + b"\0" * 500), H, None)
    big = (
        b"GGUF"
        + struct.pack(">IQQ", 3, 1, 0)
        + struct.pack(">Q", 1)
        + b"w"
        + struct.pack(">IQIQ", 1, 32, 2, 0)
    )
    case("gguf: big-endian blocks", big + b"\0" * (-len(big) % 32 + 18), H, "gguf-order")


# ---------------------------------------------------------------- all of it


def sources():
    """Small files to be cut at every byte, and what of them is a file again."""
    out = {
        "npy": npy(),
        "npz": make_zip([Member("a.npy", npy()), Member("b.npy", npy(), method=8)]),
        "gguf": gguf(),
    }
    for name in ("numpy.npz", "numpy-big-fortran.npy", "types.gguf"):
        out[name] = (HERE / "fixtures" / name).read_bytes()
    end = len(out["types.gguf"])
    return out, {
        ("types.gguf", end - n) for n in range(1, 9)
    }  # the writer fills up the last tensor to 32 bytes


def corpus(folder):
    for name, data, *_ in CASES:
        save_seed(folder / name.split(":")[0].replace("npz", "npy"), name, data, LONGEST)


if __name__ == "__main__":
    sys.exit(
        program(
            (numpy_files, gguf_files),
            corpus,
            lambda tool, folder, faults: truncations(tool, folder, faults, *sources()),
        )
    )
