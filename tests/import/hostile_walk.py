#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""hostile_walk.py --tool TOOL - what `scan` walks: opcodes that CPython executes, wherever and however they are wrapped.

Every case is bytes, a verdict, and a name or rule that must be found. Payloads are inert: nothing is ever unpickled here.
Each case takes at most 2 seconds of processor time and 256 MiB. Standard library only; Linux.
"""

import argparse
import base64
import bz2
import functools
import gzip
import io
import json
import lzma
import os
import pathlib
import re
import struct
import sys
import tarfile
import tempfile
import zipfile
import zlib

import hostile_table

HERE = pathlib.Path(__file__).resolve().parent
D, U, H = "dangerous", "unknown", "harmless"
SECONDS, MEMORY = 2.0, 256 << 20
CASES = []
GLOBALS = pathlib.Path(__file__).resolve().parents[2] / "src/import/pickle/globals.c"
EVIL = b"cos\nsystem\n(S'id'\ntR."
OBJECTS = (  # joblib 1.5: numpy.array([{}, None], dtype=object)
    "gASV0QAAAAAAAACME2pvYmxpYi5udW1weV9waWNrbGWUjBFOdW1weUFycmF5V3JhcHBlcpSTlCmBlH2UKIwIc3ViY2xhc3OUjAVudW1weZSMB25kYXJyYXmU"
    "k5SMBXNoYXBllEsChZSMBW9yZGVylIwBQ5SMBWR0eXBllGgGjAVkdHlwZZSTlIwCTziUiYiHlFKUKEsDjAF8lE5OTkr/////Sv////9LP3SUYowKYWxsb3df"
    "bW1hcJSJjBtudW1weV9hcnJheV9hbGlnbm1lbnRfYnl0ZXOUSxB1YoAFlY0AAAAAAAAAjBZudW1weS5fY29yZS5tdWx0aWFycmF5lIwMX3JlY29uc3RydWN0"
    "lJOUjAVudW1weZSMB25kYXJyYXmUk5RLAIWUQwFilIeUUpQoSwFLAoWUaAOMBWR0eXBllJOUjAJPOJSJiIeUUpQoSwOMAXyUTk5OSv////9K/////0s/dJRi"
    "iV2UKH2UTmV0lGIuLg=="
)
SAFE = b"ccollections\nOrderedDict\n)R."


def case(name, data, verdict, found=None):
    CASES.append((name, data, verdict, found))


def u(text):
    raw = text.encode("utf-8", "surrogatepass")
    return b"X" + struct.pack("<I", len(raw)) + raw


def b(raw):
    return b"B" + struct.pack("<I", len(raw)) + raw


def frame(body, size=None):
    return b"\x95" + struct.pack("<Q", len(body) if size is None else size) + body


def zipped(members, method=zipfile.ZIP_STORED):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as z:
        for name, data in members:
            z.writestr(name, data)
    return out.getvalue()


def tarred(members, mode="w"):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode=mode) as t:
        for name, data in members:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            t.addfile(info, io.BytesIO(data))
    return out.getvalue()


def floor():
    case("empty", b"", U, "broken")
    case("random bytes", bytes((i * 7919 + 13) % 251 for i in range(4096)), U, "broken")
    case("a program", b"\x7fELF" + bytes(200), U, "broken")
    case("the issue's own", b'N0cos\nsystem\n(S"id"\ntR.', D, "os.system")
    case("only what is vouched for", SAFE, H, "collections.OrderedDict")
    case("a newline behind STOP", EVIL + b"\n", D, "os.system")
    case("a newline behind a good STOP", SAFE + b"\n", U, "broken")
    case("no STOP", EVIL[:-1], D, "os.system")
    case("cut in the second line", b"cos\nsystemX", D, "os.system")
    case("nonsense behind the name", b"cos\nsystem\n\xff\xfe\xfd", D, "os.system")
    case("nonsense before the name", b"\xffcos\nsystem\n.", U, "broken")
    case("a name that nobody knows", b"cmy.module\nThing\n.", U, "my.module.Thing")


def streams():
    for n in (2, 3, 17):
        case("%d good pickles, then another" % n, SAFE * n + EVIL, D, "os.system")
    case("a pickle that fails, then one", b"R." + EVIL, U, "broken")
    case("an empty STOP, then one", b"." + EVIL, U)
    case("in a frame behind STOP", b"\x80\x04" + frame(b"N." + EVIL), D, "os.system")
    case("behind the frame that STOP lies in", b"\x80\x04" + frame(b"N.\xff\xff\xff") + EVIL, D, "os.system")
    case("a frame that reaches over the end", b"\x80\x04" + frame(EVIL, 1 << 40), D, "os.system")
    case("a frame in a frame", b"\x80\x04" + frame(frame(EVIL) + b"N"), D, "os.system")
    case("what C drops at the end of a frame", b"\x80\x04" + frame(b"cxx") + b"os\nsystem\n.", D, "os.system")
    case(
        "what C drops, as a length",
        b"\x80\x04" + frame(b"X\xff\xff") + b"\x02\0\0\0os" + u("system") + b"\x93.",
        D,
        "os.system",
    )
    case(
        "one memo for two pickles",
        u("os") + b"q\x01" + u("system") + b"q\x02." + b"h\x01h\x02\x93.",
        D,
        "os.system",
    )
    case(
        "MEMOIZE counts what is set",
        u("x") + b"r\x00\x00\x01\x00" + u("os") + b"\x94" + u("system") + b"\x94h\x01h\x02\x93.",
        D,
        "os.system",
    )
    case("PROTO in the middle", b"\x80\x02N0\x80\x04" + EVIL, D, "os.system")
    case("PROTO 6", b"\x80\x06" + EVIL, U)


def names():
    case("STACK_GLOBAL", u("os") + u("system") + b"\x93.", D, "os.system")
    case(
        "from the memo, overwritten",
        u("x") + b"q\x00" + u("os") + b"q\x00" + u("system") + b"q\x01h\x00h\x01\x93.",
        D,
        "os.system",
    )
    case("from DUP", u("posix") + b"20" + u("system") + b"\x93.", D, "posix.system")
    case("over a POP_MARK", u("os") + b"(" + u("x") + b"1" + u("system") + b"\x93.", D, "os.system")
    case("over a POP of a mark", u("os") + b"(0" + u("system") + b"\x93.", D, "os.system")
    case("escapes of STRING", b"S'\\x6f\\163'\nS\"sys\\164em\"\n\x93.", D, "os.system")
    case("escapes of UNICODE", b"V\\u006fs\nV\\U00000073ystem\n\x93.", D, "os.system")
    case("BINSTRING of Python 2", b"T\x02\0\0\0osU\x06system\x93.", D, "os.system")
    case(
        "keys beyond 64 bits",
        u("os") + b"p" + b"9" * 40 + b"\n0" + u("system") + b"p7\n0g" + b"9" * 40 + b"\ng7\n\x93.",
        D,
        "os.system",
    )
    case(
        "keys with underscores and spaces",
        u("os") + b"p 1_0\n0g10\n" + u("system") + b"\x93.",
        D,
        "os.system",
    )
    case("INST", b"(S'id'\nios\nsystem\n.", D, "os.system")
    case("INST without a mark", b"ios\nsystem\n.", D, "os.system")
    case("OBJ, then POP", b"(cos\nsystem\nS'id'\no0N.", D, "os.system")
    case("NEWOBJ_EX", b"csubprocess\nPopen\n(S'id'\nt}\x92.", D, "subprocess.Popen")
    case(
        "a name that a call makes",
        b"c_codecs\nencode\n(" + u("os") + u("latin1") + b"tR" + u("system") + b"\x93.",
        D,
        "computed-name",
    )
    case("a name that a persistent id makes", b"Px\n" + u("system") + b"\x93.", D, "computed-name")
    case("bytes as a name", b"C\x02os" + u("system") + b"\x93.", U)
    case(
        "a dotted name through a good module",
        u("torch._utils") + u("_rebuild_tensor.__globals__") + b"\x93.",
        D,
    )
    case("a module in a good module", b"ctorch.serialization\nos.system\n.", D)
    case("an extension code", b"\x80\x02\x82\x05.", U, "extension-code")
    case("state for a function", b"ctorch._utils\n_rebuild_tensor\n}b.", D, "pickle-build")
    case("Python 2's names", b"curllib2\nurlopen\n.", D, "urllib2.urlopen")
    case("names of 3.14", b"cconcurrent.interpreters\ncreate\n.", D)
    case("attributes of the interpreter", b"cnumpy\n__builtins__\n.", D)
    case("a chain of attributes", u("numpy") + u("core.multiarray") + b"\x93.", D)
    for module, name in (
        ("_osx_support", "_read_output"),
        ("_aix_support", "_read_cmd_output"),
        ("imaplib", "IMAP4_stream"),
        ("pip", "main"),
        ("test.support.script_helper", "assert_python_ok"),
        ("numpy.f2py.crackfortran", "getlincoef"),
        ("idlelib.run", "X"),
        ("lib2to3.pgen2.grammar", "Grammar.loads"),
        ("torch.utils.collect_env", "run"),
        ("mlflow.projects.backend.local", "_run_entry_point"),
        ("pandas", "read_csv"),
        ("pkgutil", "resolve_name"),
        ("operator", "methodcaller"),
        ("_io", "FileIO"),
        ("multiprocessing.util", "spawnv_passfds"),
        ("mailcap", "findmatch"),
        ("cloudpickle.cloudpickle", "_make_function"),
        ("ssl", "get_server_certificate"),
        ("profile", "Profile.run"),
        ("_interpreters", "exec"),
        ("code", "InteractiveInterpreter"),
        ("_pyrepl.pager", "pipe_pager"),
        ("torch._inductor.codecache", "compile_file"),
        ("torch.jit.unsupported_tensor_ops", "execWrapper"),
        ("numpy.testing._private.utils", "runstring"),
        ("logging", "FileHandler"),
        ("uuid", "_get_command_stdout"),
    ):
        case("%s.%s" % (module, name), u(module) + u(name) + b"\x93.", D, "%s.%s" % (module, name))


def directory_only(body):
    """A zip directory of one member, empty and without a header of its own, behind anything."""
    entry = (
        b"PK\1\2" + struct.pack("<HHHHHHIIIHHHHHII", 20, 20, 0, 0, 0, 33, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0) + b"x"
    )
    return body + entry + b"PK\5\6" + struct.pack("<HHHHIIH", 0, 0, 1, 1, len(entry), len(body), 0)


def tar_of(name):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as t:
        info = tarfile.TarInfo(name)
        info.size = 2
        t.addfile(info, io.BytesIO(b"hi"))
    return out.getvalue()


def local(name, size, crc=0):
    return b"PK\3\4" + struct.pack("<HHHHHIIIHH", 20, 0, 0, 0, 33, crc, size, size, len(name), 0) + name


def central(name, size, at, crc=0):
    return (
        b"PK\1\2"
        + struct.pack("<HHHHHHIIIHHHHHII", 20, 20, 0, 0, 0, 33, crc, size, size, len(name), 0, 0, 0, 0, 0, at)
        + name
    )


def end_of(count, directory, at):
    return directory + b"PK\5\6" + struct.pack("<HHHHIIH", 0, 0, count, count, len(directory), at, 0)


def nested_members(count, tail):
    """Each member holds all that follow, headers and all."""
    names = [b"%05d" % i for i in range(count)]
    sizes = [(count - i - 1) * 35 + len(tail) for i in range(count)]
    body = b"".join(local(n, size) for n, size in zip(names, sizes)) + tail
    return body + end_of(
        count, b"".join(central(n, size, 35 * i) for i, (n, size) in enumerate(zip(names, sizes))), len(body)
    )


def same_member(count, data):
    crc = zlib.crc32(data)
    body = local(b"m", len(data), crc) + data
    return body + end_of(
        count, b"".join(central(b"%06d" % i, len(data), 0, crc) for i in range(count)), len(body)
    )


def containers():
    case("bzip2, a million empty streams", bz2.compress(b"") * 1000000, U, "unpack-limit")
    case("bzip2, 300,000 short streams", bz2.compress(b"a") * 300000 + bz2.compress(EVIL), U, "unpack-limit")
    case("bzip2, 30 short streams", bz2.compress(b"# a\n") * 30 + bz2.compress(EVIL), D, "os.system")
    case("zlib, two million empty streams", zlib.compress(b"") * 2000000, U, "unpack-limit")
    case("gzip, a million empty streams", gzip.compress(b"", mtime=0) * 1000000, U, "unpack-limit")
    case("xz, 200,000 empty streams", lzma.compress(b"") * 200000, U, "unpack-limit")
    for name in ("../../x.txt", "/etc/x.txt", "a/../../b.txt"):
        case("tar, " + name, tar_of(name), D, "tar-name")
    for name in ("./a.txt", "a..b/c.txt", "a/...txt"):
        case("tar, " + name, tar_of(name), H)
    case("a zip directory behind a program", directory_only(b"\x7fELF" + bytes(range(256)) * 4), U)
    case(
        "a zip directory behind random bytes", directory_only(bytes(i * i * 7 % 251 for i in range(5000))), U
    )
    case("a zip directory behind a pickle behind letters", directory_only(b"XXXX" + EVIL), U)
    for way, pack in (
        ("gzip", gzip.compress),
        ("zlib", zlib.compress),
        ("bzip2", bz2.compress),
        ("xz", lzma.compress),
        ("lzma", lambda d: lzma.compress(d, format=lzma.FORMAT_ALONE)),
    ):
        case(way, pack(EVIL), D, "os.system")
        case(way + ", good", pack(SAFE), H, "collections.OrderedDict")
        case(
            way + ", cut short", pack(EVIL + os.urandom(4096))[:-40], D, "os.system"
        ) if way != "bzip2" else None
        case(way + ", twice", pack(pack(EVIL)), D, "os.system")
        case(way + ", a second stream", pack(SAFE) + pack(EVIL), D if way != "lzma" else D, "os.system")
        case(way + ", ten times", functools.reduce(lambda d, _: pack(d), range(10), EVIL), D, "os.system")
        case(way + ", 20 times", functools.reduce(lambda d, _: pack(d), range(20), EVIL), U, "unpack-limit")
        case(way + ", a bomb", pack(bytes(64 << 20)), U)
    case("gzip with odd flags", b"\x1f\x8b\x08\xe0" + gzip.compress(EVIL)[4:], D, "os.system")
    case("gzip with a wrong checksum", gzip.compress(EVIL)[:-8] + bytes(8), D, "os.system")
    for magic, what in (
        (b"\x28\xb5\x2f\xfd", "zstd"),
        (b"\x04\x22\x4d\x18", "lz4"),
        (b"7z\xbc\xaf\x27\x1c", "7z"),
        (b"Rar!\x1a\x07\0", "RAR"),
    ):
        case(what, magic + bytes(100), U, "compressed")
    for method, what in (
        (zipfile.ZIP_STORED, "stored"),
        (zipfile.ZIP_DEFLATED, "deflated"),
        (zipfile.ZIP_BZIP2, "bzip2"),
    ):
        case("zip, " + what, zipped([("readme.txt", EVIL)], method), D, "os.system")
        case(
            "zip, INST of words, " + what,
            zipped([("readme.txt", b"S''\n(ios \nx y\no0")], method),
            U,
            "os .x y",
        )
        case(
            "zip, INST of words in a storage, " + what,
            zipped([("m/data.pkl", b"}."), ("m/data/0", b"(ios \nx y\no0")], method),
            U,
            "os .x y",
        )
    for what, string in (
        ("STRING", b"S'a'\n"),
        ("BINSTRING", b"T\1\0\0\0a"),
        ("SHORT_BINSTRING", b"U\1a"),
        ("BINBYTES", b"B\1\0\0\0a"),
    ):
        case("READONLY_BUFFER on " + what, b"\x80\x04" + string + b"\x980" + EVIL, D, "os.system")
    for what, args in (
        ("a dictionary", b"}"),
        ("a list", b"]"),
        ("a text", b"S'a'\n"),
        ("a set", b"\x8f"),
    ):  # func(*args) takes them
        case(
            "REDUCE of words with " + what,
            zipped([("readme.txt", b"cosB\nx y\n" + args + b"R0N")]),
            U,
            "osB.x y",
        )
    case("INST of words first of all", b"(ios \nx y\n", U, "os .x y")
    case(
        "a text in brackets",
        zipped([("readme.txt", b"Words (if any\nare here),\n(in short)\nare words\n")]),
        H,
    )
    case("zip, lzma", zipped([("a", EVIL)], zipfile.ZIP_LZMA), U, "zip-method")
    case(
        "zip in a zip in a gzip in a tar",
        tarred([("x", gzip.compress(zipped([("y", zipped([("z", EVIL)]))])))]),
        D,
        "os.system",
    )
    case("zip behind a pickle", SAFE + zipped([("a", EVIL)]), D, "os.system")
    case("a directory of a zip with bytes", zipped([("a/", EVIL)]), D, "os.system")
    case(
        "zip with a flag of encryption",
        zipped([("a", EVIL)]).replace(
            b"PK\x01\x02\x14\x03\x14\x00\x00\x00", b"PK\x01\x02\x14\x03\x14\x00\x01\x00"
        ),
        D,
        "zip-encrypted",
    )
    case("zips one behind the other", zipped([("a", SAFE)]) + zipped([("b", EVIL)]), D, "os.system")
    case("zips one behind the other, good", zipped([("a", SAFE)]) + zipped([("b", SAFE)]), H)
    case("tar", tarred([("weights.ckpt", EVIL)]), D, "os.system")
    case("tar.gz", tarred([("a.yaml", b"x: 1\n"), ("weights.ckpt", EVIL)], "w:gz"), D, "os.system")
    npy = io.BytesIO()
    header = b"{'descr': '|O', 'fortran_order': False, 'shape': (1,), }"
    npy = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header) + 1) + header + b"\n" + EVIL
    first, second = tarred([("a.txt", b"hi\n")]), tarred([("b.pkl", EVIL)])
    case("a tar behind a tar", first + second, D, "os.system")
    case("a tar behind a tar that lacks its end", first[:1024] + second, D, "os.system")
    case("a pickle behind a tar", first + EVIL, D, "os.system")
    case("a program behind a tar", first + b"\x7fELF" + bytes(200), U, "trailing")
    case("two tars", first + tarred([("b.txt", b"ho\n")]), H)
    hidden = zipped([("m.pkl", EVIL)])
    for n in (0, 1, 50, 65000, 65535):
        shell = (
            b"\x93NUMPY\1\0v\0"
            + (b"{'descr': '|u1', 'fortran_order': False, 'shape': (%d,), }" % (len(hidden) + n)).ljust(117)
            + b"\n"
        )
        case("zip in an array, %d zeros behind it" % n, shell + hidden + bytes(n), D, "os.system")
    case(
        "zip whose front is cut off", zipped([("a.bin", bytes(5000)), ("m.pkl", EVIL)])[4000:], D, "os.system"
    )
    moved = bytes(512) + (HERE / "fixtures" / "content" / "lambda.h5").read_bytes()
    case("HDF5 behind a user block that was put before it", moved, D, "__lambda__")
    head = b"{'descr': '|u1', 'fortran_order': False, 'shape': (%d,), }" % (len(moved) - 128)
    case("HDF5 in an array", b"\x93NUMPY\1\0v\0" + head.ljust(117) + b"\n" + moved[128:], D, "keras-lambda")
    case("npy of objects", npy, D, "os.system")
    case(
        "npz in a .keras",
        zipped([("metadata.json", b"{}"), ("w.npz", zipped([("a.npy", npy)]))]),
        D,
        "os.system",
    )
    magic = b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19."
    case("a legacy stream that begins so", b"\x80\x02" + EVIL[:-1] + b"0" + magic[2:], D, "os.system")


def numpy_types():
    """States of numpy.dtype and calls of numpy.ndarray that take bytes of the file for addresses, beside those that numpy writes."""
    kind = "numpy-dtype"
    dtype = b"cnumpy\ndtype\n"
    plain = b"(K\x03U\x01<NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"

    def made(name):
        return dtype + b"(" + u(name) + b"\x89\x88tR"

    def state(fields, size, flags, base=b"N"):
        return (
            b"(K\x03U\x01|"
            + base
            + b"(U\x01at"
            + fields
            + b"K"
            + bytes([size])
            + b"K\x01K"
            + bytes([flags])
            + b"tb"
        )

    def field(what, offset):
        return b"}U\x01a" + what + b"J" + struct.pack("<I", offset) + b"\x86s"

    objects = made("O8") + b"(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK?tb"
    number = made("f8") + plain
    case("a type of numbers", number + b".", H)
    case("a type of objects", objects + b".", H)
    case("a type of protocol 0", b"cnumpy\ndtype\n(S'f8'\nI00\nI01\ntR(I3\nS'<'\nNNNI-1\nI-1\nI0\ntb.", H)
    case(
        "texts and records",
        made("U5")
        + b"(K\x03U\x01<NNNK\x14K\x04K\x08tb"
        + made("V8")
        + state(field(number, 0), 8, 16)
        + b"\x86.",
        H,
    )
    case("a record of objects", made("V8") + state(field(objects, 0), 8, 27) + b".", H)
    case(
        "a type with a shape",
        made("V16") + b"(K\x03U\x01|" + number + b"K\x02\x85\x86NNK\x10K\x08K\x00tb.",
        H,
    )
    case("objects that say they are none", made("V8") + state(field(objects, 0), 8, 0) + b".", D, kind)
    case("objects without their flags", made("O8") + plain + b".", D, kind)
    case("a field behind its element", made("V8") + state(field(number, 1 << 30), 8, 16) + b".", D, kind)
    case("a number of a mebibyte", made("f8") + b"(K\x03U\x01<NNNJ\0\0\x10\0K\x01K\x00tb.", D, kind)
    case(
        "a shape beyond the element",
        made("V8") + state(b"N", 8, 0, number + b"K\x20\x85\x86") + b".",
        D,
        kind,
    )
    both = b"}(U\x01a" + objects + b"K\x00\x86U\x01b" + number + b"K\x00\x86u"
    case("objects under numbers", made("V8") + state(both, 8, 27) + b".", D, kind)
    case("a state that is computed", made("V8") + b"c__builtin__\ntuple\n]\x85Rb.", U, kind)
    case("a second state", number + b"(K\x03U\x01<NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb.", D, kind)
    case(
        "a type that is used before its state",
        made("V8") + b"q\x01h\x010" + state(field(objects, 0), 8, 27) + b".",
        D,
        kind,
    )
    shared = b"}q\x05" + b"0" + made("V8") + state(b"h\x05", 8, 16)
    case("fields from elsewhere", shared + b".", U, kind)
    later = made("V8") + state(b"}q\x05", 8, 16) + b"h\x05U\x01a" + objects + b"K\x00\x86s0."
    case("fields that come later", later, U, kind)
    case(
        "a type by another way",
        b"ccopy_reg\n_reconstructor\n(" + dtype + dtype + u("V8") + b"tR" + b"c__builtin__\ntuple\n]\x85Rb.",
        U,
        kind,
    )
    case("a type by NEWOBJ", dtype + u("V8") + b"\x85\x81" + state(field(objects, 0), 8, 0) + b".", D, kind)
    case("an array of addresses", b"cnumpy\nndarray\n(K\x01\x85U\x01OC\x08AAAAAAAAtR.", D, "numpy-array")
    case("an array that is called", b"cnumpy\nndarray\n(K\x01\x85U\x02f8C\x08AAAAAAAAtR.", U, "numpy-array")


def nested():
    once = b("".encode() + EVIL) + b"."
    case("in bytes", once, D, "os.system")
    case("in bytes, twice", b(once) + b".", D, "os.system")
    deep = EVIL
    for i in range(40):
        deep = b(deep) + b"."
        if i == 27:
            case("in bytes, 28 times", deep, D, "os.system")
    case("in bytes, 40 times", deep, U, "walk-limit")
    case("in a string", u(EVIL.decode()) + b".", D, "os.system")
    case("in a string of protocol 0", b"V" + EVIL.replace(b"\n", b"\\u000a") + b"\n.", D, "os.system")
    case(
        "in a string as Python 2 writes bytes",
        u((b"\x80\x02" + EVIL).decode("latin1")) + b".",
        D,
        "os.system",
    )
    case("in a bytearray", b"\x96" + struct.pack("<Q", len(EVIL)) + EVIL + b".", D, "os.system")
    case("as base64", u(base64.b64encode(b"\x80\x04" + EVIL).decode()) + b".", D, "os.system")
    case("as base64 in bytes", b(base64.b64encode(b"\x80\x04" + EVIL)) + b".", D, "os.system")
    case("as hex", u((b"\x80\x04" + EVIL).hex()) + b".", D, "os.system")
    case("in a large string", b(EVIL + bytes(100000)) + b".", D, "os.system")
    case("prose in strings", u("cat\ndog\nbird") + u("In the beginning\n") + b"\x86.", H)


def joblib():
    def array(dtype, shape, data, padding=None):
        state = (
            u("shape")
            + b"("
            + b"".join(b"K" + bytes([n]) for n in shape)
            + b"t"
            + u("dtype")
            + u("numpy")
            + u("dtype")
            + b"\x93"
            + u(dtype)
            + b"\x89\x88\x87R"
            + (b"" if padding is None else u("numpy_array_alignment_bytes") + b"K\x10")
        )
        return (
            u("joblib.numpy_pickle")
            + u("NumpyArrayWrapper")
            + b"\x93)\x81}("
            + state
            + b"ub"
            + (b"" if padding is None else bytes([padding]) + b"\xff" * padding)
            + data
        )

    raw = b"\x93" * 48
    case("joblib's array", array("f8", (2, 3), raw, 3) + b".", H)
    case("joblib's array before 1.2", array("f8", (2, 3), raw) + b".", H)
    case("behind joblib's array", array("f8", (2, 3), raw, 3) + EVIL, D, "os.system")
    case("in joblib's array, for other loaders", array("u1", (len(EVIL),), EVIL) + b".", D, "os.system")
    case("in joblib's array, behind padding that stops them", array("u1", (len(EVIL),), EVIL, 0) + b".", H)
    case("joblib's objects", array("O", (1,), SAFE, None) + b"0" + EVIL, D, "os.system")
    case("in joblib's objects", array("O", (1,), EVIL, None) + b".", D, "os.system")
    case("joblib's objects as it writes them", base64.b64decode(OBJECTS), H)
    case("a name out of an array", u("numpy") + u("ndarray") + b"\x93)R" + u("system") + b"\x93." + EVIL, U)
    case(
        "a name out of a function's result",
        u("_codecs") + u("encode") + b"\x93)R" + u("system") + b"\x93.",
        D,
        "computed-name",
    )
    case("joblib's array, cut", array("f8", (200, 200), raw, 3), U)


def bombs():
    # texts of protocol 0 longer than the window: numpy's arrays are such, a pickle may be
    far = b"V" + bytes(range(32, 92)) * 2000 + b"\xff\x80" * 40000 + b"\n."
    case("a long text", far, H)
    case("a long text in quotes", b"S'" + b"\\x80ab" * 40000 + b"'\n.", H)
    case(
        "a long text that is a pickle",
        b"Vcos\\u000asystem\\u000a(S'id'\\u000atR." + b"a" * 70000 + b"\n.",
        D,
        "os.system",
    )
    case("many long texts", b"(" + (b"V" + bytes(range(128, 256)) * 550 + b"\n0") * 750 + b"t.", U)
    case("a stack of 30 million", b"N" * 30_000_000 + EVIL, U, "walk-limit")
    case("marks, 30 million", b"(" * 30_000_000, U)
    case("DUP, 20 million", b"N" + b"2" * 20_000_000, U)
    case("memo, 6 million", b"N" + b"\x94" * 6_000_000 + EVIL, D, "os.system")
    case(
        "memo, far apart",
        b"N"
        + b"".join(b"r" + struct.pack("<I", i * 2654435761 & 0xFFFFFFFF) for i in range(1_000_000))
        + EVIL,
        D,
        "os.system",
    )
    case("pickles, 5 million", b"N." * 5_000_000 + EVIL, D, "os.system")
    case("pickles with a place each, 2 million", b"Nr\xff\0\0\0." * 2_000_000 + EVIL, D, "os.system")
    case(
        "frames that all reach to the end",
        b"\x80\x04" + b"".join(frame(b"N.", 1 << 30) for _ in range(20000)) + EVIL,
        D,
    )
    case(
        "strings, 2 million",
        b"".join(b"\x8c\x07module%d0" % (i % 10) for i in range(2_000_000)) + EVIL,
        D,
        "os.system",
    )
    case("names, 500,000", b"".join(b"ca%d\nb\n0" % i for i in range(500_000)), U)
    case(
        "distinct names, 3 million",
        b"\x80\x02" + b"".join(b"ca%d\nb%d\n0" % (i, i) for i in range(3_000_000)) + b".",
        U,
        "too-many",
    )
    case(
        "distinct names of os, a million",
        b"".join(b"cos.a%d\nb%d\n0" % (i, i) for i in range(1_000_000)) + b".",
        D,
        "too-many",
    )
    case(
        "names of 500 parts, 60,000",
        b"".join(b"ctorch%s%d\nn%s\n0" % (b".ab" * 160, i, b".os2" * 100) for i in range(60_000)) + b".",
        U,
    )
    case("NONE and POP, 20 million", b"\x80\x04" + b"N0" * 20_000_000 + b".", U)
    case("pickles, 20 million", b"N." * 20_000_000, U, "walk-limit")
    case("extension codes, 15 million", b"\x80\x04" + b"\x82\x010" * 15_000_000 + b"N.", U)
    case(
        "texts that begin like pickles, 60 MB",
        b"\x80\x04" + (b"X" + struct.pack("<I", 16300) + b"(" * 16300 + b"0") * 3700 + b"N.",
        U,
    )
    case(
        "texts in base64, 60 MB",
        b"\x80\x04"
        + (b"X" + struct.pack("<I", 16000) + base64.b64encode(b"(" * 12000) + b"0") * 3700
        + b"N.",
        U,
    )
    case("a line of 20 MB", b"V" + b"x" * 20_000_000 + b"\n" + EVIL, D)
    case("a number of 20 MB", b"L" + b"1" * 20_000_000 + b"L\n0" + EVIL, D, "os.system")
    case("lengths of 2^63", b"\x8e" + struct.pack("<Q", 1 << 63) + EVIL, U)
    case("literals that look like pickles, 300,000", b"".join(b"C\x08cqx\nyyy\n0" for _ in range(300_000)), U)
    case("a gzip of 60 million opcodes", gzip.compress(b"N0" * 30_000_000 + EVIL), U)
    for name, count, tail in (
        ("in one another", 60_000, b"x" * 100),
        ("in one another, around a pickle", 60_000, EVIL),
        ("in one another, few", 300, EVIL),
    ):
        case(
            "a zip of members %s" % name,
            nested_members(count, tail),
            D,
            "os.system" if count < 1000 else None,
        )
    case("a zip of 60,000 members of the same bytes", same_member(60_000, bytes(range(256)) * 40), D)
    case("a zip of 60,000 members of the same pickle", same_member(60_000, EVIL), D, "os.system")
    case("a zip of 150,000 members", zipped([("m%d" % i, b"N.") for i in range(150_000)]), U, "members")
    case("a zip of 60,000 members", zipped([("m%d" % i, b"N.") for i in range(60_000)]), H)
    case("a tar of nothing but headers", tarred([("m%d" % i, b"") for i in range(40_000)]), H)


def unsorted():
    """The allow-list is searched by halves for modules; a name has one meaning."""
    text = GLOBALS.read_text(encoding="utf-8")
    rows = re.findall(r'^    \{"([^"]*)",\s+((?:"[^"]*"\s*)+),\s+SFT__G_', text, re.M)
    modules = [module.encode() for module, _ in rows]
    names = [
        (module, name)
        for module, strings in rows
        for name in "".join(re.findall('"([^"]*)"', strings)).split()
    ]
    faults = ["globals.c: %r is not in order" % b for a, b in zip(modules, modules[1:]) if a > b]
    faults += ["globals.c: %s.%s is there twice" % pair for pair in set(names) if names.count(pair) > 1]
    return faults + (["globals.c: no rows"] if len(names) < 280 else [])


def far(tool, folder):
    """Tensors of bytes that begin behind what is looked through for pickles: their first bytes are looked at all the same."""
    faults = []
    path = folder / "far.safetensors"
    for name, data, verdict in (
        ("protocol 4", b"\x80\x04\x8c\x02os\x8c\x06system\x93\x8c\x02id\x85R.", D),
        ("protocol 0", b"cos\nsystem\n(S'id'\ntR.", D),
        ("bytes", bytes(range(64)), H),
    ):
        begin = 130 << 20
        header = json.dumps(
            {
                "w": {"dtype": "U8", "shape": [begin], "data_offsets": [0, begin]},
                "x._extra_state": {
                    "dtype": "U8",
                    "shape": [len(data)],
                    "data_offsets": [begin, begin + len(data)],
                },
            }
        ).encode()
        with open(path, "wb") as f:
            f.write(len(header).to_bytes(8, "little") + header)
            f.seek(begin, 1)
            f.write(data)
        r = hostile_table.Run(tool, ["scan", "--json", path.name], folder)
        if json.loads(r.out)["verdict"] != verdict or r.spent > SECONDS or r.peak > MEMORY:
            faults.append("a tensor far behind, %s: %r, %.2f s" % (name, r.out[:300], r.spent))
    path.unlink()
    return faults


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tool", required=True)
    parser.add_argument("--table", action="store_true")
    args = parser.parse_args()
    tool = os.path.abspath(args.tool)
    for make in (floor, streams, names, numpy_types, containers, nested, joblib, bombs):
        make()
    faults, slowest, largest = unsorted(), (0, ""), (0, "")
    with tempfile.TemporaryDirectory() as folder:
        faults += far(tool, pathlib.Path(folder))
        path = pathlib.Path(folder) / "case.bin"
        for name, data, verdict, found in CASES:
            path.write_bytes(data)
            r = hostile_table.Run(tool, ["scan", "--json", "case.bin"], folder)
            status, out, err = r.status, r.out, r.err
            try:
                answer = json.loads(out)
            except ValueError:
                faults.append("%s: status %d, %r" % (name, status, err[:200]))
                continue
            said = {f["rule"] for f in answer["findings"]} | {f["subject"] for f in answer["findings"]}
            if answer["verdict"] != verdict:
                faults.append("%s: %s, not %s: %r" % (name, answer["verdict"], verdict, sorted(said)[:6]))
            if status != (0 if answer["verdict"] == H else 1):
                faults.append("%s: %s, but exit status %d" % (name, answer["verdict"], status))
            if found is not None and found not in said:
                faults.append("%s: %s is not said: %r" % (name, found, sorted(said)[:6]))
            if r.spent > SECONDS:
                faults.append("%s: %.2f seconds" % (name, r.spent))
            if r.peak > MEMORY:
                faults.append("%s: %d MiB" % (name, r.peak >> 20))
            slowest = max(slowest, (r.spent, name))
            largest = max(largest, (r.peak, name))
            if args.table:
                print("%-50s %-9s %5.2f s %4d MiB" % (name, answer["verdict"], r.spent, r.peak >> 20))
    for f in faults:
        print("FAULT", f)
    print(
        "%d cases, slowest %.2f s (%s), largest %d MiB (%s), %d faults"
        % (len(CASES), *slowest, largest[0] >> 20, largest[1], len(faults))
    )
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
