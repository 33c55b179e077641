#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""hostile_hdf5.py --tool TOOL [--table] [--corpus FOLDER] - as hostile.py, for HDF5 and for archives of Keras. --corpus
writes the small cases as seeds for the fuzz target. Standard library only."""

import binascii
import os
import pathlib
import struct
import sys
import tempfile
import zlib

from hostile import Member, make_zip
from load_cases import ANY, CASES, LIMIT_SECONDS, D, H, Run, U, case, program, save_seed, truncations

HERE = pathlib.Path(__file__).resolve().parent
LONGEST = 3000  # of a seed
NONE = (1 << 64) - 1
MASK = 0xFFFFFFFF


def lookup3(data):
    """HDF5's sum of metadata (Bob Jenkins's hashlittle)."""

    def rot(v, n):
        return (v << n | v >> (32 - n)) & MASK

    a = b = c = (0xDEADBEEF + len(data)) & MASK
    while len(data) > 12:
        x, y, z = struct.unpack("<3I", data[:12])
        data = data[12:]
        a, b, c = (a + x) & MASK, (b + y) & MASK, (c + z) & MASK
        a = (a - c & MASK) ^ rot(c, 4)
        c = c + b & MASK  # noqa: E702
        b = (b - a & MASK) ^ rot(a, 6)
        a = a + c & MASK  # noqa: E702
        c = (c - b & MASK) ^ rot(b, 8)
        b = b + a & MASK  # noqa: E702
        a = (a - c & MASK) ^ rot(c, 16)
        c = c + b & MASK  # noqa: E702
        b = (b - a & MASK) ^ rot(a, 19)
        a = a + c & MASK  # noqa: E702
        c = (c - b & MASK) ^ rot(b, 4)
        b = b + a & MASK  # noqa: E702
    if data:
        x, y, z = struct.unpack("<3I", data.ljust(12, b"\0"))
        a, b, c = (a + x) & MASK, (b + y) & MASK, (c + z) & MASK
        c = ((c ^ b) - rot(b, 14)) & MASK
        a = ((a ^ c) - rot(c, 11)) & MASK
        b = ((b ^ a) - rot(a, 25)) & MASK
        c = ((c ^ b) - rot(b, 16)) & MASK
        a = ((a ^ c) - rot(c, 4)) & MASK
        b = ((b ^ a) - rot(a, 14)) & MASK
        c = ((c ^ b) - rot(b, 24)) & MASK
    return c


def summed(data):
    return data + struct.pack("<I", lookup3(data))


def q(*values):
    return struct.pack("<%dQ" % len(values), *values)


# ---------------------------------------------------------------- files


class Image:
    """Blocks one after the other behind a superblock; each is made by a function of the addresses of all."""

    def __init__(self, version=2, **change):
        self.version, self.change, self.blocks = version, change, []

    def add(self, name, make):
        self.blocks.append((name, make if callable(make) else lambda at, data=make: data))
        return self

    def superblock(self, at, end):
        c = {
            "version": self.version,
            "offset": 8,
            "length": 8,
            "base": 0,
            "end": end,
            "root": at.get("root", 0),
            "more": NONE,
            "driver": NONE,
            **self.change,
        }
        magic = b"\x89HDF\r\n\x1a\n"
        if self.version < 2:
            return (
                magic
                + bytes([c["version"], 0, 0, 0, 0, c["offset"], c["length"], 0])
                + struct.pack("<HHI", 4, 16, 0)
                + q(c["base"], NONE, c["end"], c["driver"])
                + q(0, c["root"])
                + bytes(24)
            )
        raw = (
            magic
            + bytes([c["version"], c["offset"], c["length"], 0])
            + q(c["base"], c["more"], c["end"], c["root"])
        )
        return summed(raw)

    def build(self):
        at = {}
        for _ in range(2):
            out = bytes(len(self.superblock({}, 0)))
            new = {}
            for name, make in self.blocks:
                out += b"\0" * (-len(out) % 8)
                new[name] = len(out)
                out += make(Known(at))
            at = new
        return self.superblock(at, len(out)) + out[len(self.superblock({}, 0)) :]


class Known(dict):
    def __missing__(self, key):
        return 0


def header(*messages, cut=0, more=b""):
    """An object header of version 2; messages: (type, body)."""
    body = (
        b"".join(struct.pack("<BHB", m[0], len(m[1]), m[2] if len(m) > 2 else 0) + m[1] for m in messages)
        + more
    )
    return summed(b"OHDR\2\2" + struct.pack("<I", len(body) - cut) + body)


def header1(*messages, length=None):
    body = b""
    for m in messages:
        data = m[1] + b"\0" * (-len(m[1]) % 8)
        body += struct.pack("<HHB3x", m[0], len(data), m[2] if len(m) > 2 else 0) + data
    return struct.pack("<BxHIII", 1, len(messages), 1, len(body) if length is None else length, 0) + body


def link(name, addr, kind=None, target=None, length=None):
    raw = name.encode() if isinstance(name, str) else name
    flags = 2 | (8 if kind is not None else 0)
    out = bytes([1, flags]) + (bytes([kind]) if kind is not None else b"")
    out += struct.pack("<I", len(raw) if length is None else length) + raw
    return 6, out + (q(addr) if target is None else struct.pack("<H", len(target)) + target)


def space(*shape, most=None, version=2, kind=1, rank=None):
    out = bytes([version, len(shape) if rank is None else rank, 1 if most else 0, kind]) + (
        bytes(4) if version == 1 else b""
    )
    return 1, out + q(*shape) + (q(*most) if most else b"")


F4 = (3, b"\x11\x20\x1f\0" + struct.pack("<IHHBBBBI", 4, 0, 32, 23, 8, 0, 23, 127))
U1 = (3, b"\x10\0\0\0" + struct.pack("<IHH", 1, 0, 8))
DATA = struct.pack("<4f", 1, 2, 3, 4)


def compact(data=DATA, size=None):
    return 8, b"\3\0" + struct.pack("<H", len(data) if size is None else size) + data


def contiguous(addr, size=16):
    return 8, b"\3\1" + q(addr, size)


def chunked(addr, *dims):
    return 8, b"\3\2" + bytes([len(dims)]) + q(addr) + struct.pack("<%dI" % len(dims), *dims)


def chunked4(addr, index, parameters, *dims, flags=0):
    return 8, b"\4\2" + bytes([flags, len(dims), 4]) + struct.pack("<%dI" % len(dims), *dims) + bytes(
        [index]
    ) + parameters + q(addr)


def filters(*ids):
    return 11, b"\2" + bytes([len(ids)]) + b"".join(
        struct.pack("<HH", i, 0) + (b"" if i < 256 else b"\0\0") + struct.pack("<HI", 1, 4) for i in ids
    )


def dataset(*messages, shape=(4,)):
    return header(space(*shape), F4, *messages)


def one(block, *more, version=2):
    """A file whose root has one link, w, to this object; more: (name, block)."""
    image = Image(version).add("root", lambda at: header(link("w", at["w"]))).add("w", block)
    for name, make in more:
        image.add(name, make)
    return image.build()


def root(make, *more, version=2):
    image = Image(version).add("root", make)
    for name, block in more:
        image.add(name, block)
    return image.build()


GOOD = dataset(compact())


def crowd(count, block, extra=b""):
    """A root of `count` links to as many copies of the object block(address of extra); headers of version 1, which have no
    sums."""
    extra += b"\0" * (-len(extra) % 8)
    names = ["%06d" % i for i in range(count)]

    def body(first, step):
        return b"".join(header1(link(name, first + i * step))[16:] for i, name in enumerate(names))

    at = 48 + 16 + len(body(0, 0))
    one = block(at)
    one += b"\0" * (-len(one) % 8)
    links = body(at + len(extra), len(one))
    out = struct.pack("<BxHIII", 1, min(count, 65535), 1, len(links), 0) + links + extra + one * count
    return summed(b"\x89HDF\r\n\x1a\n" + bytes([2, 8, 8, 0]) + q(0, NONE, 48 + len(out), 48)) + out


def first_chunk(size, at, *place):
    return b"TREE\1\0\1\0" + q(NONE, NONE) + struct.pack("<II", size, 0) + q(*place, 0) + q(at)


def multitudes():
    """Much work out of few bytes: chunks that are not there, metadata read again and again."""
    for name, layout, shape, most in (
        ("hdf5: places of chunks in a row", lambda at: chunked4(0, 2, b"", 1, 1), (1,), (1000000,)),
        ("hdf5: places of chunks in a tree", lambda at: chunked(at, 1, 1), (600000,), None),
    ):
        data = crowd(
            8000, lambda at: header1(space(*shape, most=most), U1, layout(at)), first_chunk(1, 48, 0)
        )
        case(name, data, U, "more chunks than")
    chunk = zlib.compress(bytes(1 << 22), 9)
    columns = 64

    def tree(at):
        out = b"TREE\1\0" + struct.pack("<H", columns) + q(NONE, NONE)
        size = len(out) + columns * 40
        return out + b"".join(
            struct.pack("<II", len(chunk), 0) + q(0, i, 0) + q(at + size + i * len(chunk))
            for i in range(columns)
        )

    case("hdf5: bomb of columns", wide(tree, chunk * columns, columns), U, "hdf5-ratio")
    long = [("!" * 60000, 0)] + [("%06d" % i, 0) for i in range(60000)]

    def links(at):
        return b"".join(header1(link(name, at))[16:] for name, _ in long)

    at = 48 + 16 + len(links(0))
    out = struct.pack("<BxHIII", 1, 60001, 1, at - 64, 0) + links(at) + header1(space(1), U1, compact(b"\1"))
    case(
        "hdf5: many names of what has a long one",
        summed(b"\x89HDF\r\n\x1a\n" + bytes([2, 8, 8, 0]) + q(0, NONE, 48 + len(out), 48)) + out,
        U,
        "again and again",
    )


def wide(tree, chunks, columns):
    """A dataset of bytes in columns of 4 MiB each."""
    probe = crowd(
        1,
        lambda at: header1(space(1 << 22, columns), U1, chunked(at, 1 << 22, 1, 1), filters(1)),
        tree(0) + chunks,
    )
    at = probe.index(b"TREE")
    return crowd(
        1,
        lambda at: header1(space(1 << 22, columns), U1, chunked(at, 1 << 22, 1, 1), filters(1)),
        tree(at) + chunks,
    )


# ---------------------------------------------------------------- cases


def superblocks():
    def file(**change):
        return Image(**change).add("root", lambda at: header(link("w", at["w"]))).add("w", GOOD).build()

    case("hdf5: good", file(), H, None)
    case("hdf5: user block", b"\0" * 2048 + file(base=2048, end=2048 + len(file())), H, None)
    case("hdf5: bytes behind the end", file() + b"x" * 100, U, None)
    case("hdf5: zeros behind the end, 2 MB", file() + bytes(2 << 20), H, None)
    case("hdf5: a byte behind zeros behind the end", file() + bytes(9000) + b"x", U, None)
    behind = file(base=512, end=512 + len(file()))
    case("hdf5: a script before it", b"#!/bin/sh\nid\nexit\n".ljust(512, b"#") + behind, U, None)
    case("hdf5: a byte before it", bytes(511) + b"x" + behind, U, None)
    case(
        "hdf5: as MATLAB writes it",
        b"MATLAB 7.3 MAT-file, Platform: GLNXA64".ljust(512, b"\0") + behind,
        H,
        None,
    )
    case("hdf5: version 4", b"".join((file()[:8], b"\4", file()[9:])), U, "version 4")
    case("hdf5: addresses of 3 bytes", file(offset=3), U, "2, 4 or 8")
    case("hdf5: lengths of 0 bytes", file(length=0), U, "2, 4 or 8")
    case("hdf5: addresses of 3 bytes, version 0", file(version=0, offset=3), U, "2, 4 or 8")
    case("hdf5: once behind a user block", file(base=512, end=512 + len(file())), H, None)
    case("hdf5: something was put before it", b"\0" * 2048 + file(), H, None)
    case("hdf5: ends before it begins", file(base=512, end=511), U, "cut short")
    case("hdf5: end beyond the file", file(end=1 << 40), U, "cut short")
    case("hdf5: end of 2^64-1", file(end=NONE), U, "cut short")
    case("hdf5: end before its objects", file(end=60), U, "the file ends at 60")
    case("hdf5: no root", file(root=NONE), U, "the file ends")
    case("hdf5: root beyond", file(root=1 << 62), U, "the file ends")
    case("hdf5: root is the superblock", file(root=0), U, "object header")
    case("hdf5: wrong sum", file()[:20] + b"\1" + file()[21:], U, "checksum")
    case("hdf5: driver", file(version=0, driver=96), U, "several files")
    case(
        "hdf5: extension is the root",
        Image(more=48).add("root", header((20, b""))).build(),
        U,
        "several files",
    )
    case("hdf5: the signature alone", b"\x89HDF\r\n\x1a\n" + bytes(60), U, "+")


def headers():
    case("hdf5: wrong sum of a header", one(GOOD[:-1] + b"\0"), U, "checksum")
    case(
        "hdf5: message too long",
        one(header((1, b"x"), more=struct.pack("<BHB", 1, 50, 0) + bytes(20))),
        U,
        "longer than",
    )
    case("hdf5: header of 4 GB", one(b"OHDR\2\2" + b"\xff" * 4 + bytes(40)), U, "longer than the file")
    case("hdf5: header of 2^64-1", one(b"OHDR\2\3" + b"\xff" * 8 + bytes(40)), U, "longer than the file")
    case(
        "hdf5: header 1 of 4 GB",
        one(header1(space(4), F4, compact(), length=MASK), version=0),
        U,
        "longer than the file",
    )
    case("hdf5: continues in itself", one(lambda at: header((16, q(at["w"], 30)))), U, "+")
    case(
        "hdf5: continues in a circle",
        one(
            lambda at: header((16, q(at["c"], 32))),
            ("c", lambda at: summed(b"OCHK" + struct.pack("<BHB", 16, 16, 0) + q(at["c"], 28)) + bytes(8)),
        ),
        U,
        "+",
    )
    case(
        "hdf5: version 1 continues in a circle",
        one(lambda at: header1((16, q(at["w"] + 16, 24))), version=0),
        U,
        "blocks",
    )
    case(
        "hdf5: continues everywhere",
        one(lambda at: header1(*((16, q(at["w"] + 16, 2400)) for _ in range(100))), version=0),
        U,
        "+",
    )
    case("hdf5: continues outside", one(header((16, q(1 << 40, 50)))), U, "the file")
    case(
        "hdf5: continues with 2^64-1 bytes",
        one(lambda at: header((16, q(at["w"], NONE)))),
        U,
        "longer than the file",
    )
    case("hdf5: continuation cut short", one(header((16, b"\1\2"))), U, "cut short")
    case("hdf5: a message to be understood", one(header((77, b"x", 0x80))), U, "must be understood")
    case("hdf5: no object", one(b"\7" * 64), U, "no object header")
    case("hdf5: an object of nothing", one(header((0, bytes(8)))), H, None)


def links():
    group = lambda *messages: root(
        lambda at: header(*(m(at) if callable(m) else m for m in messages)), ("w", GOOD)
    )  # noqa: E731
    w = lambda at: link("w", at["w"])  # noqa: E731
    case("hdf5: two names of one dataset", group(w, lambda at: link("v", at["w"])), H, None)
    case("hdf5: a name twice", group(w, w), ANY, "+")
    case(
        "hdf5: a name twice, two datasets",
        root(lambda at: header(w(at), link("w", at["x"])), ("w", GOOD), ("x", GOOD)),
        U,
        "twice",
    )
    case("hdf5: the root in the root", group(lambda at: link("r", at["root"])), H, "leads in a circle")
    case(
        "hdf5: soft links in a circle",
        group(w, link("a", 0, 1, b"/b"), link("b", 0, 1, b"/a")),
        H,
        "no tensor of this file",
    )
    case("hdf5: a soft link", group(w, link("a", 0, 1, b"././w")), H, None)
    case(
        "hdf5: a soft link upwards",
        group(w, link("a", 0, 1, b"../../etc/passwd")),
        H,
        "no tensor of this file",
    )
    case("hdf5: an external link", group(w, link("a", 0, 64, b"\0/etc/passwd\0/x\0")), D, "another file")
    case("hdf5: a link of the kind 99", group(w, link("a", 0, 99, b"x")), H, "kind 99")
    case("hdf5: name of 4 GB", group(link("a", 0, length=MASK)), U, "cut short")
    case("hdf5: name empty", group(link("", 0)), U, "empty")
    case("hdf5: name with slashes", group(link("../../x", 0)), U, "slash")
    case("hdf5: name with a zero", group(link("a\0b", 0)), U, "zero")
    case("hdf5: name not UTF-8", group(link(b"\xed\xa0\x80", 0)), U, "UTF-8")
    case("hdf5: link to nowhere", group(link("a", NONE)), U, "nowhere")
    case("hdf5: link outside", group(link("a", 1 << 50)), U, "the file ends")
    case("hdf5: link into a header", group(lambda at: link("a", at["w"] + 3)), U, "+")
    case("hdf5: link of version 9", group((6, b"\x09" + link("w", 0)[1][1:])), U, "version")
    chain = Image()
    for i in range(3000):
        name = "root" if i == 0 else "g%d" % i
        chain.add(name, lambda at, n="g%d" % (i + 1): header(link("deep", at[n])))
    case("hdf5: 3,000 groups deep", chain.add("g3000", GOOD).build(), H, None)
    many = (
        Image()
        .add("root", lambda at: header(*(link("w%d" % i, at["w"]) for i in range(50000))))
        .add("w", GOOD)
    )
    case("hdf5: 50,000 names of one dataset", many.build(), H, None)


def heap(names=b"\0w\0", size=None, data=None):
    def make(at):
        return b"HEAP\0\0\0\0" + q(
            len(names) if size is None else size, NONE, at["names"] if data is None else data
        )

    return [("heap", make), ("names", names)]


def symbols(*entries, count=None):
    return b"SNOD\1\0" + struct.pack("<H", len(entries) if count is None else count) + b"".join(entries)


def entry(name, addr, cached=0, scratch=0):
    return q(name, addr) + struct.pack("<III", cached, 0, scratch) + bytes(12)


def tree(level, *children, kind=0, count=None):
    body = b"".join(q(0, child) for child in children) + q(0)
    return (
        b"TREE"
        + bytes([kind, level])
        + struct.pack("<H", len(children) if count is None else count)
        + q(NONE, NONE)
        + body
    )


def tables():
    def table(node=None, leaf=None, more=None, **change):
        image = Image(0).add("root", lambda at: header1((17, q(at["tree"], at["heap"]))))
        for name, block in heap(**change):
            image.add(name, block)
        image.add("tree", node or (lambda at: tree(0, at["leaf"])))
        image.add("leaf", leaf or (lambda at: symbols(entry(1, at["w"]))))
        image.add("w", header1(space(4), F4, compact()))
        for name, block in more or []:
            image.add(name, block)
        return image.build()

    case("hdf5 table: good", table(), H, None)
    case("hdf5 table: a tree in itself", table(lambda at: tree(1, at["tree"])), U, "this level")
    case(
        "hdf5 table: a tree in a circle",
        table(lambda at: tree(2, at["two"]), more=[("two", lambda at: tree(1, at["tree"]))]),
        U,
        "this level",
    )
    case("hdf5 table: a leaf is its tree", table(lambda at: tree(0, at["tree"])), U, "signature")
    case("hdf5 table: level 200", table(lambda at: tree(200, at["leaf"])), U, "this level")
    case("hdf5 table: 65,535 children", table(lambda at: tree(0, count=65535)), U, "the file ends")
    case("hdf5 table: 65,535 symbols", table(leaf=symbols(count=65535)), U, "the file ends")
    case(
        "hdf5 table: the same leaf 10,000 times",
        table(
            lambda at: tree(0, *([at["leaf"]] * 10000)), leaf=lambda at: symbols(*([entry(1, at["w"])] * 100))
        ),
        ANY,
        "+",
    )
    wide = [
        ("n%d" % i, lambda at, i=i: tree(i, *([at["n%d" % (i - 1)] if i else at["leaf"]] * 30)))
        for i in range(20)
    ]
    case(
        "hdf5 table: 30^20 paths",
        table(lambda at: tree(20, *([at["n19"]] * 30)), more=wide),
        U,
        "again and again",
    )
    case("hdf5 table: tree outside", table(lambda at: tree(0, 1 << 60)), U, "the file ends")
    case("hdf5 table: tree of chunks", table(lambda at: tree(0, at["leaf"], kind=1)), U, "this level")
    case(
        "hdf5 table: name outside",
        table(leaf=lambda at: symbols(entry(1 << 40, at["w"]))),
        U,
        "outside the heap",
    )
    case("hdf5 table: name without an end", table(names=b"\0w"), U, "outside the heap")
    case("hdf5 table: name with a slash", table(names=b"\0/etc/x\0"), U, "slash")
    case("hdf5 table: heap of 2^63 bytes", table(size=1 << 63), U, "the file ends")
    case("hdf5 table: heap outside", table(data=1 << 40), U, "the file ends")
    case(
        "hdf5 table: soft link outside the heap",
        table(leaf=lambda at: symbols(entry(1, at["w"], 2, 77))),
        U,
        "outside the heap",
    )
    case(
        "hdf5 table: a soft link to itself",
        table(leaf=symbols(entry(1, NONE, 2, 1))),
        H,
        "no tensor of this file",
    )
    case("hdf5 table: symbol to nowhere", table(leaf=symbols(entry(1, NONE))), U, "nowhere")
    case(
        "hdf5 table: the group itself",
        table(leaf=lambda at: symbols(entry(1, at["root"]))),
        H,
        "leads in a circle",
    )


def frhp(
    root_block,
    rows=0,
    id_len=7,
    width=4,
    start=512,
    direct=4096,
    bits=32,
    largest=4096,
    filtered=0,
    large=NONE,
):
    return summed(
        b"FRHP\0"
        + struct.pack("<HHBI", id_len, filtered, 2, largest)
        + q(0, large, 0, NONE, 0, 0, 0, 1, 0, 0, 0, 0)
        + struct.pack("<H", width)
        + q(start, direct)
        + struct.pack("<HH", bits, 1)
        + q(root_block)
        + struct.pack("<H", rows)
    )


def bthd(root_node, records, kind=5, node=512, record=11, depth=0):
    return summed(
        b"BTHD\0"
        + bytes([kind])
        + struct.pack("<IHHBB", node, record, depth, 100, 40)
        + q(root_node)
        + struct.pack("<H", records)
        + q(records)
    )


def leaf(*records, kind=5):
    return summed(b"BTLF\0" + bytes([kind]) + b"".join(records))


def inner(records, children, kind=5, depth=1):
    return summed(
        b"BTIN\0"
        + bytes([kind])
        + b"".join(records)
        + b"".join(q(a) + bytes([n]) + (b"\1\0" if depth > 1 else b"") for a, n in children)
    )


def managed(offset, size, kind=0):
    return struct.pack("<IBIH", 0, kind << 4, offset, size)


def fhdb(at, *objects, size=512, offset=0, wrong=0):
    body = b"".join(objects)
    raw = b"FHDB\0" + q(at["frhp"]) + struct.pack("<I", offset)
    rest = body.ljust(size - len(raw) - 4, b"\0")
    return raw + struct.pack("<I", lookup3(raw + bytes(4) + rest) ^ wrong) + rest


def dense():
    def group(records=None, node=None, block=None, head=None, top=None, **more):
        image = Image().add("root", lambda at: header((2, b"\0\0" + q(at["frhp"], at["bthd"]))))
        text = lambda at: link("w", at["w"])[1]  # noqa: E731
        image.add("w", GOOD)
        image.add("frhp", head or (lambda at: frhp(at["block"])))
        image.add("bthd", top or (lambda at: bthd(at["leaf"], 1)))
        image.add(
            "leaf", node or (lambda at: leaf(*(records(at) if records else [managed(21, len(text(at)))])))
        )
        image.add("block", block or (lambda at: fhdb(at, text(at))))
        for name, make in more.items():
            image.add(name, make)
        return image.build()

    case("hdf5 dense: good", group(), H, None)
    case(
        "hdf5 dense: wrong sum of a block",
        group(block=lambda at: fhdb(at, link("w", at["w"])[1], wrong=1)),
        U,
        "checksum",
    )
    case("hdf5 dense: object outside", group(lambda at: [managed(1 << 20, 15)]), U, "beyond")
    case("hdf5 dense: object too long", group(lambda at: [managed(21, 4000)]), U, "beyond")
    case(
        "hdf5 dense: objects that share bytes",
        group(lambda at: [managed(21, 15)] * 2, top=lambda at: bthd(at["leaf"], 2)),
        U,
        "share bytes",
    )
    case("hdf5 dense: huge object without a tree", group(lambda at: [managed(21, 15, 1)]), U, "does not have")

    def huge(place=None, size=None, key=21 | 15 << 32, ids=1, depth=0, id_len=7):
        text = lambda at: link("w", at["w"])[1]  # noqa: E731
        here = lambda at: at["object"] if place is None else place  # noqa: E731
        long = lambda at: len(text(at)) if size is None else size  # noqa: E731
        direct = lambda at: bytes(4) + b"\x10" + q(here(at), long(at))  # noqa: E731
        one = managed(21, 15, 1)
        return group(
            lambda at: [direct(at) if id_len == 17 else one] * ids,
            object=text,
            top=lambda at: bthd(at["leaf"], ids, record=21 if id_len == 17 else 11),
            head=lambda at: frhp(at["block"], large=at["tree"], id_len=id_len),
            tree=lambda at: bthd(at["place"], 1, kind=1, record=24, depth=depth),
            place=lambda at: leaf(q(here(at), long(at), key), kind=1),
        )

    case("hdf5 dense: huge object", huge(), H, None)
    case("hdf5 dense: huge object, direct", huge(id_len=17), H, None)
    case("hdf5 dense: huge object of another key", huge(key=3), U, "does not have")
    case("hdf5 dense: huge object outside", huge(place=1 << 40), U, "the file ends")
    case("hdf5 dense: huge object nowhere", huge(place=NONE), U, "does not have")
    case("hdf5 dense: huge object nowhere, direct", huge(place=NONE, id_len=17), U, "does not have")
    case("hdf5 dense: huge object at 0", huge(place=0, id_len=17), U, "does not have")
    case("hdf5 dense: huge object of 2^62 bytes", huge(size=1 << 62), U, "the file ends")
    case("hdf5 dense: huge object of no bytes", huge(size=0), U, "+")
    case("hdf5 dense: huge objects in a deep tree", huge(depth=9), U, "+")
    case("hdf5 dense: tiny object", group(lambda at: [managed(21, 15, 2)]), U, "+")
    case("hdf5 dense: object of version 3", group(lambda at: [managed(21, 15, 12)]), U, "unknown kind")
    case("hdf5 dense: no block", group(head=lambda at: frhp(NONE)), U, "the file ends")
    case(
        "hdf5 dense: the block of another heap",
        group(block=lambda at: fhdb({"frhp": 0}, offset=512)),
        U,
        "should be",
    )
    case("hdf5 dense: width 0", group(head=lambda at: frhp(at["block"], width=0)), U, "impossible")
    case("hdf5 dense: width 3", group(head=lambda at: frhp(at["block"], width=3)), U, "impossible")
    case(
        "hdf5 dense: blocks of 2^63",
        group(head=lambda at: frhp(at["block"], start=1 << 63, direct=1 << 63)),
        U,
        "impossible",
    )
    case("hdf5 dense: 0 bits", group(head=lambda at: frhp(at["block"], bits=0)), U, "impossible")
    case("hdf5 dense: 65,535 rows", group(head=lambda at: frhp(at["block"], rows=65535)), U, "impossible")
    case("hdf5 dense: ids of 3 bytes", group(head=lambda at: frhp(at["block"], id_len=3)), U, "too short")
    case("hdf5 dense: filtered heap", group(head=lambda at: frhp(at["block"], filtered=4)), U, "with filters")
    case(
        "hdf5 dense: a block in itself",
        group(
            lambda at: [managed(1 << 16, 15)],
            head=lambda at: frhp(at["fhib"], rows=40),
            fhib=lambda at: summed(b"FHIB\0" + q(at["frhp"]) + bytes(4) + q(*([at["fhib"]] * 160))),
        ),
        U,
        "+",
    )
    case("hdf5 dense: 16 levels", group(top=lambda at: bthd(at["leaf"], 1, depth=16)), U, "+")
    case("hdf5 dense: 17 levels", group(top=lambda at: bthd(at["leaf"], 1, depth=17)), U, "too deep")
    case("hdf5 dense: nodes of 4 GB", group(top=lambda at: bthd(at["leaf"], 1, node=MASK)), U, "+")
    case("hdf5 dense: nodes of 10 bytes", group(top=lambda at: bthd(at["leaf"], 1, node=10)), U, "no room")
    case(
        "hdf5 dense: records of 0 bytes",
        group(top=lambda at: bthd(at["leaf"], 1, record=0)),
        U,
        "another kind",
    )
    case("hdf5 dense: records of 5 bytes", group(top=lambda at: bthd(at["leaf"], 1, record=5)), U, "+")
    case(
        "hdf5 dense: 65,535 records",
        group(top=lambda at: bthd(at["leaf"], 65535)),
        U,
        "more records than fit",
    )
    case(
        "hdf5 dense: tree of attributes", group(top=lambda at: bthd(at["leaf"], 1, kind=8)), U, "another kind"
    )
    case(
        "hdf5 dense: a tree in itself",
        group(
            top=lambda at: bthd(at["leaf"], 1, depth=1),
            node=lambda at: inner([managed(21, 15)], [(at["leaf"], 1), (at["leaf"], 1)]),
        ),
        U,
        "+",
    )


def datasets():
    bad = lambda name, block, error, verdict=U: case("hdf5 data: " + name, one(block), verdict, error)  # noqa: E731
    case("hdf5 data: contiguous", one(lambda at: dataset(contiguous(at["d"])), ("d", DATA)), H, None)
    case("hdf5 data: no elements", one(dataset(contiguous(NONE, 0), shape=(0, 1 << 62))), H, None)
    case("hdf5 data: a scalar", one(dataset(compact(DATA[:4]), shape=())), H, None)
    case("hdf5 data: null", one(header(space(kind=2), F4, compact(b""))), H, None)
    bad("33 dimensions", dataset(compact(), shape=(1,) * 33), "32 dimensions")
    bad("255 dimensions", header(space(rank=255), F4, compact()), "32 dimensions")
    bad("shape cut short", header(space(4, rank=2), F4, compact()), "cut short")
    bad("shape overflows", dataset(compact(), shape=(1 << 40, 1 << 40)), "overflows")
    bad("bytes overflow", dataset(compact(), shape=(1 << 62, 2)), "overflows")
    bad("larger than the largest shape", header(space(4, most=(3,)), F4, compact()), "larger than the one")
    bad("dataspace of version 9", header(space(4, version=9), F4, compact()), "version")
    bad("too few bytes", dataset(compact(DATA[:8])), "bytes of data")
    bad("too many bytes", dataset(compact(DATA * 2)), "bytes of data")
    bad("compact beyond its message", dataset(compact(size=400)), "cut short")
    bad("outside", dataset(contiguous(1 << 40)), "the file ends")
    bad("at the end of the addresses", dataset(contiguous(NONE - 1)), "the file ends")
    bad("of 4 PB without bytes", dataset(contiguous(NONE, 1 << 52), shape=(1 << 50,)), "amplification")
    bad("of 4 PB in no chunks", dataset(chunked(NONE, 1024, 4), shape=(1 << 50,)), "amplification")
    case(
        "hdf5 data: 2 datasets, the same bytes",
        root(
            lambda at: header(link("v", at["v"]), link("w", at["w"])),
            ("v", lambda at: dataset(contiguous(at["d"]))),
            ("w", lambda at: dataset(contiguous(at["d"] + 4, 12), shape=(3,))),
            ("d", DATA),
        ),
        U,
        "share bytes",
    )
    bad("layout of version 6", dataset((8, b"\6\1" + q(0, 16))), "version 6")
    bad("layout 9", dataset((8, b"\3\x09")), "layout that is not known", H)
    bad("layout cut short", dataset((8, b"\3")), "+", ANY)
    bad("virtual", dataset((8, b"\4\3" + q(0) + bytes(4))), "a virtual dataset", D)
    bad(
        "external",
        header(
            space(4), F4, (7, b"\1\0\0\0" + struct.pack("<HH", 1, 1) + q(48) + q(0, 0, 16)), contiguous(NONE)
        ),
        "in other files",
        D,
    )
    bad("fill value of 3 bytes", dataset(contiguous(NONE), (5, b"\3\x20\3\0\0\0abc")), "fill value")
    bad("fill value of 2 GB", dataset(contiguous(NONE), (5, b"\3\x20\0\0\0\x7fabc")), "fill value")
    case("hdf5 data: fill value", one(dataset(contiguous(NONE), (5, b"\3\x20\4\0\0\0abcd"))), H, None)
    for name, (word, body) in {
        "3-byte integers": ("do not fill", b"\x10\0\0\0" + struct.pack("<IHH", 3, 0, 24)),
        "12 bits": ("do not fill", b"\x10\0\0\0" + struct.pack("<IHH", 2, 0, 12)),
        "VAX": ("neither IEEE", b"\x31\x60\x1f\0" + F4[1][4:]),
        "80 bits": (
            "neither IEEE",
            b"\x11\x20\x4f\0" + struct.pack("<IHHBBBBI", 10, 0, 80, 64, 15, 0, 64, 16383),
        ),
        "text": ("texts", b"\x13\0\0\0\4\0\0\0"),
        "time": ("times", b"\x12\0\0\0\4\0\0\0"),
        "bits": ("fields of bits", b"\x14\0\0\0\4\0\0\0\0\0\x20\0"),
        "references": ("references", b"\x17\0\0\0\x08\0\0\0"),
        "opaque": ("opaque", b"\x15\0\0\0\4\0\0\0"),
        "any length": ("any length", b"\x19\0\0\0\x10\0\0\0" + F4[1]),
        "records": ("records", b"\x16\3\0\0\4\0\0\0"),
        "arrays": ("arrays", b"\x3a\0\0\0\x10\0\0\0\1\4\0\0\0" + F4[1]),
        "kind 15": ("unknown kind", b"\x1f\0\0\0\4\0\0\0"),
        "size 2^32-1": ("do not fill", b"\x10\0\0\0" + struct.pack("<IHH", MASK, 0, 8)),
    }.items():
        bad("type: " + name, header(space(4), (3, body), compact()), word, H)
    bad("type cut short", header(space(4), (3, b"\x11\x20"), compact()), "cut short")
    bad("type of version 9", header(space(4), (3, b"\x91" + F4[1][1:]), compact()), "version")
    bad(
        "records in records",
        header(space(4), (3, b"\x36\2\0\0\x08\0\0\0r\0\0" + (b"\x36\2\0\0\4\0\0\0r\0\0" * 9)), compact()),
        "records",
        H,
    )
    bad(
        "65,535 names",
        header(space(4), (3, b"\x18\xff\xff\0\1\0\0\0" + U1[1] + b"a\0" * 50), compact()),
        "cut short",
    )
    bad(
        "type shared with itself",
        lambda at: header(space(4), (3, b"\3\2" + q(at["w"]), 2), compact()),
        "shared itself",
    )
    bad("type shared with nothing", header(space(4), (3, b"\3\2" + q(NONE), 2), compact()), "the file ends")
    bad("type in a heap", header(space(4), (3, b"\3\1" + bytes(8), 2), compact()), "heap of shared")
    opaque = (3, b"\x15\0\0\0\2\0\0\0")
    text = lambda at, n=8: (
        12,
        b"\3\0"
        + struct.pack("<HHH", 6, 8, 4)
        + b"\0dtype\0"
        + b"\x19\1\0\0\x10\0\0\0"  # noqa: E731
        + b"\2\0\0\0"
        + struct.pack("<I", n)
        + q(at["g"])
        + struct.pack("<I", 1),
    )
    glob = lambda size=40, n=8: b"GCOL\1\0\0\0" + q(size) + struct.pack("<HHI", 1, 1, 0) + q(n) + b"bfloat16"  # noqa: E731
    for name, block, error in (
        ("good", glob(), None),
        ("of 2^63 bytes", glob(1 << 63), "1 MiB"),
        ("of 0 bytes", glob(0), "1 MiB"),
        ("object of 2^63", glob(n=1 << 63), "beyond the end"),
        ("not there", bytes(40), "signature"),
    ):
        case(
            "hdf5 data: text in a heap, " + name,
            one(lambda at: header(space(8), opaque, compact(), text(at)), ("g", block)),
            U if error else H,
            error,
        )


def chunk_key(size, mask, *offsets):
    return struct.pack("<II", size, mask) + q(*offsets)


def chunk_tree(*chunks, level=0, count=None):
    """chunks: (size, mask, offsets, address)."""
    body = b"".join(chunk_key(s, m, *o) + q(a) for s, m, o, a in chunks)
    return (
        b"TREE"
        + bytes([1, level])
        + struct.pack("<H", len(chunks) if count is None else count)
        + q(NONE, NONE)
        + body
    )


def chunks():
    def file(*rows, dims=(2, 4), shape=(4,), ids=(), data=DATA, most=None, make=None, **change):
        def block(at):
            more = [filters(*ids)] if ids else []
            return header(space(*shape, most=most), F4, chunked(at["t"], *dims), *more)

        return one(
            block,
            (
                "t",
                make or (lambda at: chunk_tree(*((s, m, o, at["d"] + a) for s, m, o, a in rows), **change)),
            ),
            ("d", data),
        )

    two = [(8, 0, (0, 0), 0), (8, 0, (2, 0), 8)]
    packed = zlib.compress(DATA[:8])
    case("hdf5 chunks: good", file(*two), H, None)
    case("hdf5 chunks: one is missing", file(two[0]), H, None)
    case("hdf5 chunks: one beyond the shape", file(*two, (8, 0, (200, 0), 0)), H, None)
    case("hdf5 chunks: deflated", file((len(packed), 0, (0, 0), 0), ids=(1,), data=packed), H, None)
    case("hdf5 chunks: two for one place", file(two[0], two[0]), U, "same place")
    case("hdf5 chunks: sharing bytes", file(two[0], (8, 0, (2, 0), 4)), U, "share bytes")
    case("hdf5 chunks: not at their place", file((8, 0, (1, 0), 0)), U, "its place")
    case("hdf5 chunks: outside", file((8, 0, (0, 0), 1 << 40)), U, "the file ends")
    case(
        "hdf5 chunks: tree in itself",
        file(make=lambda at: chunk_tree((8, 0, (0, 0), at["t"]), level=1)),
        U,
        "this level",
    )
    case("hdf5 chunks: 65,535 in a node", file(*two, count=65535), U, "the file ends")
    case("hdf5 chunks: of no elements", file(*two, dims=(0, 4)), U, "no size")
    case("hdf5 chunks: of 4 GB", file(*two, dims=(1 << 30, 4)), U, "2^32")
    case("hdf5 chunks: other rank", file(*two, dims=(2, 2, 4)), U, "dimensions")
    case("hdf5 chunks: other elements", file(*two, dims=(2, 8)), U, "other elements")
    case("hdf5 chunks: one of 2^30", file(two[0], shape=(1 << 31,)), U, "+")
    case("hdf5 chunks: one of 2^50", file(two[0], shape=(1 << 51,)), U, "more chunks than")
    for i in (0, 4, 5, 6, 7, 32001, 32015):
        case("hdf5 chunks: filter %d" % i, file(*two, ids=(i,)), U, "filter")
    case("hdf5 chunks: 9 filters", file(*two, ids=(2,) * 9), U, "more than 8")
    case(
        "hdf5 chunks: 255 filters",
        one(header(space(4), F4, chunked(NONE, 2, 4), (11, b"\2\xff"))),
        U,
        "more than 8",
    )
    case(
        "hdf5 chunks: filters cut short",
        one(header(space(4), F4, chunked(NONE, 2, 4), (11, b"\2\3\1\0"))),
        U,
        "cut short",
    )
    case(
        "hdf5 chunks: impossible ratio",
        file((20, 0, (0, 0), 0), ids=(1,), dims=(1 << 20, 4), shape=(1 << 20,), data=bytes(64)),
        U,
        "hdf5-ratio",
    )
    case(
        "hdf5 chunks: stored longer than it is",
        file((5000, 0, (0, 0), 0), ids=(1,), data=bytes(5000)),
        U,
        "hdf5-ratio",
    )
    case(
        "hdf5 chunks: of 1 GiB, filtered",
        file((1 << 21, 0, (0, 0), 0), ids=(1,), dims=(1 << 28, 4), shape=(1 << 28,), data=bytes(1 << 21)),
        U,
        "memory limit",
    )

    # the indexes of version 4
    def newer(layout, *more, shape=(4,), most=None, ids=()):
        return one(
            lambda at: header(space(*shape, most=most), F4, layout(at), *([filters(*ids)] if ids else [])),
            *more,
            ("d", DATA),
        )

    case("hdf5 chunks 4: single", newer(lambda at: chunked4(at["d"], 1, b"", 4, 4)), H, None)
    case(
        "hdf5 chunks 4: single outside", newer(lambda at: chunked4(1 << 40, 1, b"", 4, 4)), U, "the file ends"
    )

    # at the edge, without filters there: the size in the index counts for nothing
    def edge(skip):
        return newer(
            lambda at: chunked4(at["d"] + skip, 1, q(8) + bytes(4), 4, 4, flags=3), shape=(3,), ids=(1,)
        )

    case("hdf5 chunks 4: plain edge", edge(0), H, None)
    case("hdf5 chunks 4: plain edge, half outside", edge(8), U, "the file ends")
    case("hdf5 chunks 4: implicit", newer(lambda at: chunked4(at["d"], 2, b"", 2, 4)), H, None)
    case(
        "hdf5 chunks 4: implicit, 2^60",
        newer(lambda at: chunked4(at["d"], 2, b"", 1, 4), most=(1 << 60,)),
        U,
        "beyond the file",
    )
    case(
        "hdf5 chunks 4: implicit without an end",
        newer(lambda at: chunked4(at["d"], 2, b"", 1, 4), most=(NONE,)),
        U,
        "largest",
    )
    case("hdf5 chunks 4: index 0", newer(lambda at: chunked4(at["d"], 0, b"", 2, 4)), U, "unknown kind")
    case("hdf5 chunks 4: index 9", newer(lambda at: chunked4(at["d"], 9, b"", 2, 4)), U, "unknown kind")
    fahd = lambda at, n=2, size=8, bits=10, block="b", client=0: summed(  # noqa: E731
        b"FAHD\0" + bytes([client, size, bits]) + q(n, at[block])
    )
    fadb = lambda at, *addresses, client=0: summed(b"FADB\0" + bytes([client]) + q(at["f"]) + q(*addresses))  # noqa: E731
    fixed = lambda at: chunked4(at["f"], 3, b"\x0a", 2, 4)  # noqa: E731
    good = ("b", lambda at: fadb(at, at["d"], at["d"] + 8))
    case("hdf5 chunks 4: fixed array", newer(fixed, ("f", fahd), good), H, None)
    case(
        "hdf5 chunks 4: fixed array of 2^63",
        newer(fixed, ("f", lambda at: fahd(at, 1 << 63)), good),
        U,
        "larger than the file",
    )
    case(
        "hdf5 chunks 4: fixed array, pages of 2^200",
        newer(fixed, ("f", lambda at: fahd(at, bits=200)), good),
        U,
        "larger",
    )
    case(
        "hdf5 chunks 4: fixed array of elements of 3 bytes",
        newer(fixed, ("f", lambda at: fahd(at, size=3)), good),
        U,
        "not these",
    )
    case(
        "hdf5 chunks 4: fixed array of another client",
        newer(fixed, ("f", lambda at: fahd(at, client=1)), good),
        U,
        "not these",
    )
    case(
        "hdf5 chunks 4: fixed array, its block",
        newer(fixed, ("f", fahd), ("b", lambda at: fadb({"f": 8}, 1, 2))),
        U,
        "should be",
    )
    case(
        "hdf5 chunks 4: fixed array in itself",
        newer(fixed, ("f", lambda at: fahd(at, block="f")), good),
        U,
        "+",
    )
    eahd = lambda at, bits=32, own=4, least=4, pointers=4, page=10, n=2, client=0: summed(  # noqa: E731
        b"EAHD\0" + bytes([client, 8, bits, own, least, pointers, page]) + q(0, 0, 0, 0, n, n, at["i"])
    )
    supers = 31 - 4
    eaib = lambda at: summed(
        b"EAIB\0\0" + q(at["e"]) + q(at["d"], at["d"] + 8, NONE, NONE, *([NONE] * (6 + supers)))
    )  # noqa: E731
    grows = lambda at: chunked4(at["e"], 4, b"\x20\4\4\4\x0a", 2, 4)  # noqa: E731
    rows = [
        ("good", eahd, eaib, None),
        ("least 0", lambda at: eahd(at, least=0), eaib, "impossible"),
        ("least 3", lambda at: eahd(at, least=3), eaib, "impossible"),
        ("pointers 0", lambda at: eahd(at, pointers=0), eaib, "impossible"),
        ("bits 255", lambda at: eahd(at, bits=255), eaib, "impossible"),
        ("pages of 2^255", lambda at: eahd(at, page=255), eaib, "impossible"),
        ("255 own", lambda at: eahd(at, own=255), eaib, "the file ends"),
        ("2^63 elements", lambda at: eahd(at, n=1 << 63), eaib, None),
        ("the block of another", eahd, lambda at: eaib({"e": 1, "d": at["d"]}), "should be"),
        (
            "a super block that is the index",
            lambda at: eahd(at, n=10000),
            lambda at: summed(b"EAIB\0\0" + q(at["e"]) + q(at["d"], *([NONE] * 9), *([at["i"]] * supers))),
            "+",
        ),
    ]
    for name, e, i, error in rows:
        case(
            "hdf5 chunks 4: growing array, " + name,
            newer(grows, ("e", e), ("i", i), most=(NONE,)),
            U if error else H,
            error,
        )


SHORT = b"\x80\x04\x8c\x02os\x8c\x06system\x93\x8c\x02id\x85R."
OLD = b"cos\nsystem\n(S'id'\ntR."


def text(size):
    return 3, b"\x13\0\0\0" + struct.pack("<I", size)


def record(size):
    return 3, b"\x16\1\0\0" + struct.pack("<I", size) + b"b\0\0\0\0\0\0\0" + struct.pack(
        "<IB3xII4xIIII", 0, 0, 0, 0, 0, 0, 0, 0
    ) + text(size)[1]


def hidden():
    """Pickles that lie in the file as nobody reads them: deflated, shuffled, in chunks of a few bytes, in rows of columns."""

    def flat(kind, data, shape, size=1, ids=(), dims=None, packed=None):
        packed = zlib.compress(data) if packed is None else packed
        return one(
            lambda at: header(
                space(*shape),
                kind,
                chunked(at["t"], *(dims or shape), size),
                *([filters(*ids)] if ids else []),
            ),
            ("t", lambda at: chunk_tree((len(packed), 0, (*[0] * len(shape), 0), at["d"]))),
            ("d", packed),
        )

    def deflated(name, payload, verdict):
        n = len(payload)
        case("hdf5 deflated bytes: " + name, flat(U1, payload, (n,), ids=(1,)), verdict, None)
        case(
            "hdf5 deflated floats: " + name,
            flat(F4, payload[:32].ljust(32, b"\0"), (8,), 4, ids=(1,)),
            verdict,
            None,
        )
        case(
            "hdf5 deflated texts: " + name,
            flat(text(40), payload.ljust(40, b"\0") + bytes(40), (2,), 40, ids=(1,)),
            verdict,
            "texts",
        )
        case(
            "hdf5 deflated opaque: " + name,
            flat(
                (3, b"\x15\0\0\0" + struct.pack("<I", 40)),
                bytes(40) + payload.ljust(40, b"\0"),
                (2,),
                40,
                ids=(1,),
            ),
            verdict,
            "opaque",
        )
        case(
            "hdf5 deflated records: " + name,
            flat(record(40), payload.ljust(40, b"\0") + bytes(40), (2,), 40, ids=(1,)),
            verdict,
            "records",
        )
        case(
            "hdf5 deflated behind others: " + name,
            flat(U1, bytes(7) + payload, (n + 7,), ids=(1,)),
            verdict,
            None,
        )

    deflated("pickle", SHORT, D)
    deflated("protocol 0", OLD, D)
    deflated("behind a letter", b"C" + OLD, D)
    deflated("base64", binascii.b2a_base64(SHORT, newline=False), D)
    deflated("plain", b"a text that names nothing, really", H)
    deflated("a list of words", b"acos\nacosh\nbroadcast\nx\nunicode\n", H)
    for name, payload, verdict in (("pickle", SHORT, D), ("zeros", bytes(24), H)):
        rows = [(1, 0, (i, 0), i) for i in range(len(payload))]
        case(
            "hdf5 chunks of a byte: " + name,
            one(
                lambda at, n=len(payload): header(space(n), U1, chunked(at["t"], 1, 1)),
                (
                    "t",
                    lambda at, rows=rows: chunk_tree(*((s, m, o, at["d"] + 23 - a) for s, m, o, a in rows)),
                ),
                ("d", payload.ljust(24, b"\0")[::-1]),
            ),
            verdict,
            None,
        )
    case(
        "hdf5 deflated: an unknown filter behind it",
        flat(U1, SHORT, (len(SHORT),), ids=(1, 32015)),
        U,
        "filter",
    )
    case(
        "hdf5 texts behind an unknown filter",
        flat(text(40), OLD.ljust(80, b"\0"), (2,), 40, ids=(32001,)),
        U,
        "texts",
    )
    case(
        "hdf5 texts, a damaged stream", flat(text(40), b"", (2,), 40, ids=(1,), packed=b"x" * 30), U, "texts"
    )


def attribute(name, value):
    name = name.encode() + b"\0"
    kind, shape = text(len(value))[1], b"\2\0\0\0"
    return 12, struct.pack("<BBHHHB", 3, 0, len(name), len(kind), len(shape), 0) + name + kind + shape + value


def configurations():
    """What Keras reads: in attributes of any group, for a group may be loaded, and in datasets."""
    for name, config, verdict in (
        ("a dense layer", b'{"class_name": "Dense", "config": {"units": 3}}', H),
        ("a Lambda layer", b'{"class_name": "Lambda", "config": {}}', U),
        ("a torch module", b'{"class_name": "TorchModuleWrapper", "config": {"module": "gAQu"}}', D),
        (
            "a SavedModel",
            b'{"module": "keras.layers", "class_name": "TFSMLayer", "config": {"filepath": "/tmp/x"}, "registered_name": null}',
            U,
        ),
        ("no JSON", b"none", U),
    ):
        for key in ("model_config", "training_config"):

            def inner(at, key=key, config=config):
                return header(link("w", at["w"]), attribute(key, config))

            case(
                "hdf5 %s of a group: %s" % (key, name),
                root(lambda at: header(link("g", at["g"])), ("g", inner), ("w", GOOD)),
                verdict,
                None,
            )
            case(
                "hdf5 %s of a dataset: %s" % (key, name),
                one(dataset(compact(), attribute(key, config))),
                verdict,
                None,
            )
            case(
                "hdf5 %s as a dataset: %s" % (key, name),
                root(
                    lambda at, key=key: header(link("w", at["w"]), link(key, at["c"])),
                    ("w", GOOD),
                    ("c", header(space(), text(len(config)), compact(config))),
                ),
                verdict,
                "texts",
            )


def archives():
    h5 = one(GOOD)
    beside = [
        Member("metadata.json", b"{}"),
        Member("config.json", b'{"class_name": "Dense", "module": "keras.layers"}'),
    ]
    lambdas = [
        Member("metadata.json", b"{}"),
        Member("config.json", b'{"class_name": "Lambda", "module": "os"}'),
    ]
    case(
        "keras: a module that is none of Keras's",
        make_zip([*lambdas, Member("model.weights.h5", h5)]),
        D,
        None,
    )
    case("keras: good", make_zip([*beside, Member("model.weights.h5", h5)]), H, None)
    case("keras: no weights", make_zip(beside + [Member("x", b"y" * 50)]), U, "no member")
    case("keras: deflated", make_zip([*beside, Member("model.weights.h5", h5, method=8)]), ANY, "compressed")
    case(
        "keras: weights that are none",
        make_zip([*beside, Member("model.weights.h5", b"x" * 100)]),
        U,
        "no superblock",
    )
    case(
        "keras: weights twice",
        make_zip([*beside, Member("model.weights.h5", h5), Member("model.weights.h5", h5)]),
        D,
        "zip-duplicate",
    )
    case("keras: weights elsewhere", make_zip([*beside, Member("../model.weights.h5", h5)]), ANY, "zip-name")


# ---------------------------------------------------------------- running them


def reading(tool, faults):
    """Faults that only the bytes of a chunk show: to convert is an error and leaves nothing, scan --checksums sees it."""

    def file(data, ids, size=8):
        return one(
            lambda at: header(space(2), F4, chunked(at["t"], 2, 4), filters(*ids)),
            ("t", lambda at: chunk_tree((len(data), 0, (0, 0), at["d"]))),
            ("d", data),
        )

    packed = zlib.compress(DATA[:8])
    rows = [
        ("good", file(packed, (1,)), None),
        ("no deflate stream", file(b"\xff" * 16, (1,)), "damaged"),
        ("ends early", file(packed[:-6], (1,)), "ends early"),
        ("wrong sum of it", file(packed[:-1] + bytes([packed[-1] ^ 1]), (1,)), "damaged"),
        ("inflates to more", file(zlib.compress(bytes(900)), (1,)), "more than its size"),
        ("inflates to less", file(zlib.compress(b"x"), (1,)), "not its size"),
        ("inflates to a little more", file(zlib.compress(bytes(12)), (1,)), "not its size"),
        ("deflated twice", file(zlib.compress(packed), (1, 1)), None),
        ("wrong sum", file(DATA[:8] + b"\1\2\3\4", (3,)), "hdf5-checksum"),
        ("sum too short", file(b"\1\2\3\4\5\6\7\0", (3,)), "+"),
        ("shuffled", file(DATA[:8], (2,)), None),
        ("LZF", file(b"\7" + DATA[:8], (32000,)), None),
        ("LZF, a repeat of 8", file(b"\0a\xa0\0", (32000,)), None),
        ("LZF, a long repeat", file(b"\0a\xe0\0\0", (32000,)), "not its size"),
        ("LZF, nothing", file(b"", (32000,)), "+"),
        ("LZF, literals cut short", file(b"\7" + DATA[:7], (32000,)), "damaged"),
        ("LZF, a repeat cut short", file(b"\0a\x20", (32000,)), "damaged"),
        ("LZF, a long repeat cut short", file(b"\0a\xe0", (32000,)), "damaged"),
        ("LZF, more cut short", file(b"\0a\xe0\1", (32000,)), "damaged"),
        ("LZF, a repeat of nothing", file(b"\x20\0" + DATA[:6], (32000,)), "damaged"),
        ("LZF, a repeat from before", file(b"\0a\x20\1", (32000,)), "damaged"),
        ("LZF, far before", file(b"\0a\x3f\xff", (32000,)), "damaged"),
        ("LZF, too much", file(b"\7" + DATA[:8] + b"\xe0\xff\0" * 4, (32000,)), "damaged"),
        ("LZF, a little more", file(b"\7" + DATA[:8] + b"\0a", (32000,)), "not its size"),
        ("LZF, less", file(b"\3" + DATA[:4], (32000,)), "not its size"),
    ]
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for what, data, error in rows:
            (folder / "x.h5").write_bytes(data)
            run = Run(tool, ["convert", "x.h5", "-o", "out.safetensors", "-f"], folder)
            scan = Run(tool, ["scan", "--checksums", "--json", "x.h5"], folder)
            message = run.err.decode("utf-8", "replace")
            if error is None:
                (folder / "out.safetensors").unlink(missing_ok=True)
            seen = b'"hdf5-chunk"' in scan.out
            word = error if error not in (None, "+") else ""
            if (
                (run.status == 0) != (error is None)
                or word not in message
                or seen != (error is not None)
                or run.seconds > LIMIT_SECONDS
            ):
                faults.append(
                    "hdf5 reading: %s: %d, %.2f s: %s %s"
                    % (what, run.status, run.seconds, message.strip(), scan.out[:300])
                )
            left = set(os.listdir(folder)) - {"x.h5"}
            if left:
                faults.append("hdf5 reading: %s: left behind: %s" % (what, left))
    return len(rows)


def corpus(folder):
    for name, data, *_ in CASES:
        save_seed(folder, name, data, LONGEST)


def fixtures():
    """Files to cut: those of the real writers that are small, and all good ones of ours."""
    names = ("hdf5-ordered.h5", "hdf5-links.h5", "keras-bf16.weights.h5")
    found = {name: (HERE / "fixtures" / name).read_bytes() for name in names}
    found.update((name, data) for name, data, _, error, _ in CASES if name.endswith("good") and error is None)
    return found


if __name__ == "__main__":
    sys.exit(
        program(
            (
                superblocks,
                headers,
                links,
                tables,
                dense,
                datasets,
                chunks,
                hidden,
                configurations,
                archives,
                multitudes,
            ),
            corpus,
            lambda tool, folder, faults: truncations(tool, folder, faults, fixtures()),
            reading,
        )
    )
