#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""hostile.py --tool TOOL [--keep FOLDER] [--table] - crafted archives, pickles and streams, fed to scan and to ls.

Each case is (name, bytes, verdict of scan, word that the loader's error must hold or None if it loads). Bounds: 2
seconds and 256 MiB of address space beyond the tool's own, one case at a time; nothing may be opened but the file,
nothing executed, nothing written. Then every file of fixtures/ is cut at every byte. Standard library only.
"""

import argparse
import io
import os
import pathlib
import pickle
import struct
import sys
import tempfile
import zlib

from load_cases import ANY, CASES, D, H, U, case, check_case, truncations

HERE = pathlib.Path(__file__).resolve().parent

# ---------------------------------------------------------------- building zips


class Member:
    def __init__(self, name, data, **changes):
        self.name = name.encode() if isinstance(name, str) else name
        self.data = data
        self.change = changes


def make_zip(members, **change):
    """A zip as strict as ours wants it, unless told otherwise. change: see the code."""
    out = io.BytesIO(change.get("before", b""))
    out.seek(0, 2)
    directory = b""
    headers = {}
    for m in members:
        c = m.change
        method = c.get("method", 0)
        packed = m.data
        if method == 8:
            z = zlib.compressobj(9, zlib.DEFLATED, -15)
            packed = z.compress(m.data) + z.flush()
        packed = c.get("packed", packed)
        crc = c.get("crc", zlib.crc32(m.data))
        csize, usize = c.get("csize", len(packed)), c.get("usize", len(m.data))
        at = c.get("at", out.tell())
        local_name = c.get("local_name", m.name)
        flags = c.get("flags", 0)
        if "at" not in c:
            out.write(
                struct.pack(
                    "<IHHHHHIIIHH",
                    0x04034B50,
                    20,
                    c.get("local_flags", flags),
                    c.get("local_method", method),
                    0,
                    0,
                    c.get("local_crc", crc),
                    min(c.get("local_csize", csize), 0xFFFFFFFF),
                    min(usize, 0xFFFFFFFF),
                    len(local_name),
                    0,
                )
            )
            out.write(local_name)
            out.write(packed)
            out.write(c.get("descriptor", b""))
            out.write(c.get("after", b""))
        headers[m.name] = at
        directory += (
            struct.pack(
                "<IHHHHHHIIIHHHHHII",
                0x02014B50,
                20,
                20,
                flags,
                method,
                0,
                0,
                crc,
                min(csize, 0xFFFFFFFF),
                min(usize, 0xFFFFFFFF),
                len(m.name),
                0,
                0,
                0,
                0,
                0,
                c.get("cd_at", at),
            )
            + m.name
        )
    at = out.tell()
    out.write(directory)
    count = change.get("count", len(members))
    size = change.get("directory_size", len(directory))
    start = change.get("directory_at", at)
    if "zip64" in change:
        here = out.tell()
        z = {"entries": len(members), "size": len(directory), "at": at}
        z.update(change["zip64"])
        out.write(
            struct.pack(
                "<IQHHIIQQQQ", 0x06064B50, 44, 45, 45, 0, 0, z["entries"], z["entries"], z["size"], z["at"]
            )
        )
        out.write(struct.pack("<IIQI", 0x07064B50, 0, z.get("locator", here), 1))
    comment = change.get("comment", b"")
    out.write(
        struct.pack(
            "<IHHHHIIH",
            0x06054B50,
            change.get("disk", 0),
            0,
            count & 0xFFFF,
            count & 0xFFFF,
            size & 0xFFFFFFFF,
            start & 0xFFFFFFFF,
            change.get("comment_len", len(comment)),
        )
    )
    out.write(comment)
    out.write(change.get("behind", b""))
    return out.getvalue()


def storage(key="0", kind="FloatStorage", n=4, module="torch"):
    return (
        b"(X\x07\x00\x00\x00storagec"
        + module.encode()
        + b"\n"
        + kind.encode()
        + b"\nX"
        + struct.pack("<I", len(key.encode()))
        + key.encode()
        + b"X\x03\x00\x00\x00cpu"
        + integer(n)
        + b"tQ"
    )


def integer(n):
    if -(1 << 31) <= n < 1 << 31:
        return b"J" + struct.pack("<i", n)
    raw = n.to_bytes((n.bit_length() + 8) // 8, "little", signed=True)
    return b"\x8a" + bytes([len(raw)]) + raw


def numbers(values):
    return b"(" + b"".join(v if isinstance(v, bytes) else integer(v) for v in values) + b"t"


def tensor(store=None, offset=0, size=(2, 2), stride=(2, 1), more=b""):
    store = storage() if store is None else store
    offset = offset if isinstance(offset, bytes) else integer(offset)
    return (
        b"ctorch._utils\n_rebuild_tensor_v2\n("
        + store
        + offset
        + numbers(size)
        + numbers(stride)
        + b"\x89ccollections\nOrderedDict\n)R"
        + more
        + b"tR"
    )


def text(s):
    raw = s if isinstance(s, bytes) else s.encode()
    return b"X" + struct.pack("<I", len(raw)) + raw


def state(*pairs):
    body = b"".join((k if isinstance(k, bytes) and k[:1] in b"XK(GN" else text(k)) + v for k, v in pairs)
    return b"\x80\x02}(" + body + b"u."


GOOD = state(("w", tensor()))
DATA = struct.pack("<4f", 1, 2, 3, 4)


def torch_zip(pkl=GOOD, members=None, data=DATA, **change):
    base = [Member("m/data.pkl", pkl), Member("m/data/0", data), Member("m/version", b"3\n")]
    return make_zip(base if members is None else members, **change)


def torch_pkl(name, pkl, verdict, error, *args):
    case(name, torch_zip(pkl), verdict, error, *args)


def legacy(pkl, keys=("0",), body=None, head=b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19.\x80\x02M\xe9\x03."):
    system = b"\x80\x02}" + text("little_endian") + b"\x88s."
    listing = b"\x80\x02](" + b"".join(text(k) for k in keys) + b"e."
    raw = b"".join(struct.pack("<q", 4) + DATA for _ in keys) if body is None else body
    return head + system + pkl + listing + raw


# ---------------------------------------------------------------- the cases


def zips():
    good = torch_zip()
    case("good zip", good, H, None)
    case(
        "good deflated",
        torch_zip(
            members=[
                Member("m/data.pkl", GOOD, method=8),
                Member("m/data/0", DATA, method=8),
                Member("m/version", b"3\n"),
            ]
        ),
        U,
        None,
    )
    case("good zip64 end", torch_zip(zip64={}), H, None)
    case("end record in the comment", torch_zip(comment=torch_zip()[-22:]), D, "zip-")
    case("two archives in one", good + torch_zip(state(("w", tensor(size=(1, 1))))), ANY, "zip-")
    case("bytes behind the end", torch_zip(behind=b"junk"), U, "zip-end")
    case("bytes before the first member", torch_zip(before=b"PK\3\4junkjunkjunk"), ANY, "zip-")
    case("zip64 says other entries", torch_zip(zip64={"entries": 2}), D, "zip-64")
    case("zip64 says another place", torch_zip(zip64={"at": 7}), D, "zip-64")
    case("zip64 locator leads elsewhere", torch_zip(zip64={"locator": 3}), D, "zip-64")
    case("no entries counted", torch_zip(count=0), D, "zip-directory")
    case("65535 entries counted", torch_zip(count=65535), D, "zip-directory")
    case("several disks", torch_zip(disk=1), D, "zip-end")
    case("directory elsewhere", torch_zip(directory_at=0), D, "zip-directory")
    shared = [
        Member("m/data.pkl", GOOD),
        Member("m/version", b"3\n"),
        Member("m/data/0", DATA),
        Member("m/data/1", DATA, at=0, cd_at=0),
    ]
    case("two entries, one header", torch_zip(members=shared), D, "zip-")
    name, extra = b"m/data.pkl", b"\x99\x99\0\0" * 16000
    head = (
        struct.pack("<IHHHHHIIIHH", 0x04034B50, 20, 0, 0, 0, 0, 0, 0, 0, len(name), len(extra)) + name + extra
    )
    entry = (
        struct.pack(
            "<IHHHHHHIIIHHHHHII", 0x02014B50, 20, 20, 0, 0, 0, 0, 0, 0, 0, len(name), 0, 0, 0, 0, 0, 0
        )
        + name
    )
    case(
        "two entries, one header, 65,000 times",
        head
        + entry * 65000
        + struct.pack("<IHHHHIIH", 0x06054B50, 0, 0, 65000, 65000, 65000 * len(entry), len(head), 0),
        D,
        "zip-overlap",
    )
    quoted = Member("m/data/1", DATA)
    inner = make_zip([quoted])[: 30 + len(quoted.name) + len(DATA)]
    case(
        "a member inside another",
        make_zip(
            [
                Member("m/data.pkl", GOOD),
                Member("m/version", b"3\n"),
                Member("m/data/0", inner),
                Member("m/data/1", DATA, at=0, cd_at=30 + 10 + len(GOOD) + 30 + 9 + 2 + 30 + 8),
            ]
        ),
        D,
        "zip-overlap",
    )
    base = [Member("m/data.pkl", GOOD), Member("m/data/0", DATA), Member("m/version", b"3\n")]

    def changed(i, **change):
        return torch_zip(
            members=[Member(m.name, m.data, **(change if k == i else {})) for k, m in enumerate(base)]
        )

    case("local name differs", changed(1, local_name=b"m/data/9"), D, "zip-local")
    case("local sizes differ", changed(1, local_csize=3), D, "zip-local")
    case("local crc differs", changed(1, local_crc=5), D, "zip-local")
    case("local flags differ", changed(0, local_flags=1), D, "zip-local")
    case("local method differs", changed(0, local_method=8), D, "zip-local")
    for bit in (0, 5, 6, 13):
        case("flag bit %d" % bit, changed(0, flags=1 << bit), D, "zip-flags")
    for method in (9, 12, 14, 93, 99):
        case("method %d" % method, changed(1, method=method), U, "zip-method")
    case("stored with two sizes", changed(1, usize=17), D, "zip-method")
    case("header behind the directory", changed(1, cd_at=0xFFFFFF), D, "zip-local")
    case("zip64 sizes missing", changed(1, usize=0xFFFFFFFF, csize=0xFFFFFFFF), D, "zip-")
    for name in ("../evil", "/etc/passwd", "m/a\0b", "m/..", "m\\data", "C:x", "m/\x01"):
        case("member %r" % name, torch_zip(members=base + [Member(name, b"x")]), D, "zip-name")
    case("member not UTF-8", torch_zip(members=base + [Member(b"m/\xff\xfe", b"x")]), D, "zip-name")
    case("member with a long name", torch_zip(members=base + [Member("m/" + "x" * 65000, b"x")]), U, None)
    case("name twice", torch_zip(members=base + [Member("m/data.pkl", GOOD)]), D, "zip-duplicate")
    case(
        "name twice in other case", torch_zip(members=base + [Member("M/DATA.PKL", GOOD)]), D, "zip-duplicate"
    )
    case("descriptor missing", changed(1, flags=8), U, "zip-descriptor")
    case(
        "descriptor lies",
        changed(1, flags=8, descriptor=struct.pack("<IIII", 0x08074B50, 1, 16, 16)),
        U,
        "zip-descriptor",
    )
    ok = struct.pack("<IIII", 0x08074B50, zlib.crc32(DATA), 16, 16)
    case("descriptor as PyTorch writes it", changed(1, flags=0x808, descriptor=ok), H, None)
    case("bytes between members", changed(1, after=b"hidden"), U, "zip-hidden")
    case("crc of the pickle wrong", changed(0, crc=1), U, "zip-crc")
    bare = [Member(m.name, m.data, crc=0) for m in base]
    case("no member has a checksum", torch_zip(members=bare), H, None)
    case("no member but one has a checksum", torch_zip(members=bare + [Member("m/x", b"x")]), U, "zip-crc")
    case(
        "no checksums, runs code",
        torch_zip(members=bare + [Member("m/x.pkl", b"cos\nsystem\n(S'x'\ntR.", crc=0)]),
        D,
        None,
    )
    case(
        "no checksums, one deflated",
        torch_zip(members=bare + [Member("m/data/9", b"x" * 99, crc=0, method=8)]),
        U,
        "zip-crc",
    )
    case("crc wrong, not wanted", changed(0, crc=1), U, None, "--no-crc")
    bomb = zlib.compressobj(9, zlib.DEFLATED, -15)
    packed = bomb.compress(bytes(1 << 20)) + bomb.flush()
    case("deflate beyond 1032 to 1", changed(1, method=8, packed=packed, usize=(1 << 32) - 2), U, "zip-ratio")
    case("deflate longer than it says", changed(1, method=8, packed=packed, usize=16, crc=0), ANY, None)
    case(
        "pickle deflated, longer than it says",
        changed(0, method=8, packed=packed, usize=16),
        U,
        "zip-deflate",
    )
    case("pickle deflated, damaged", changed(0, method=8, packed=b"\xff" * 40, usize=60), U, "zip-deflate")
    case(
        "bomb of zeros as the pickle",
        torch_zip(members=[Member("m/data.pkl", b"N" * (1 << 27) + b".", method=8)] + base[1:]),
        U,
        "pickle-stack",
    )
    case(
        "second folder with a pickle",
        torch_zip(members=base + [Member("n/data.pkl", GOOD)]),
        D,
        "torch-folder",
    )
    many = [Member("m/%d.pkl" % i, b"\x80\x02N.") for i in range(3000)] + [
        Member("m/x.pkl", b"cos\nsystem\n(S'x'\ntR.")
    ]
    case("3,000 pickles, then one that runs code", torch_zip(members=base + many), D, None)
    case(
        "second folder runs code",
        torch_zip(members=base + [Member("n/data.pkl", b"cos\nsystem\n(S'x'\ntR.")]),
        D,
        "torch-folder",
    )
    case(
        "TorchScript", torch_zip(members=base + [Member("m/constants.pkl", b"\x80\x02).")]), U, "torchscript"
    )
    case(
        "TorchScript, left out",
        torch_zip(members=base + [Member("m/constants.pkl", b"\x80\x02).")]),
        U,
        None,
        "--allow-opaque",
    )
    case("code folder", torch_zip(members=base + [Member("m/code/x.py", b"import os")]), U, "torchscript")
    case("zip in a zip", make_zip([Member("m.pt", good)]), H, "no PyTorch file")
    case("empty zip", b"PK\5\6" + bytes(18), H, ANY)
    case("gzip", b"\x1f\x8b\x08" + bytes(64), U, ANY)
    case("Arrow file", b"ARROW1\0\0" + bytes(64) + b"ARROW1", U, "Arrow")
    case("Cap'n Proto message", struct.pack("<IIIHHQ", 0, 2, 0, 1, 0, 7), U, "Cap'n Proto")
    case("7z", b"7z\xbc\xaf\x27\x1c" + bytes(64), U, ANY)
    case("LFS pointer", b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n", ANY, ANY)
    case("web page", b"<!DOCTYPE html><html></html>", ANY, ANY)
    case("empty file", b"", U, ANY)
    for order in (b"BIG", b"", b"middle", b"x" * 100):
        case(
            "byteorder %r" % order[:8],
            torch_zip(members=base + [Member("m/byteorder", order)]),
            U,
            "torch-byteorder",
        )
    case(
        "byteorder of 1 MB",
        torch_zip(members=base + [Member("m/byteorder", b"b" * (1 << 20))]),
        U,
        "zip-size",
    )
    case("byteorder big", torch_zip(members=base + [Member("m/byteorder", b"big")]), H, None)
    case("version 10^21", torch_zip(members=base[:2] + [Member("m/version", b"9" * 21)]), U, "torch-version")
    case("no version", torch_zip(members=base[:2]), U, "torch-version")
    case("storage shorter", torch_zip(data=DATA[:8]), U, "torch-storage")
    case("storage longer", torch_zip(data=DATA * 4), H, None)
    case("storage missing", torch_zip(members=[base[0], base[2]]), U, "torch-storage")
    case(
        "storage deflated, longer than it says",
        changed(1, method=8, packed=packed, usize=16, crc=zlib.crc32(DATA)),
        ANY,
        "+",
    )
    case(
        "pickle of another name",
        torch_zip(members=base + [Member("m/config.p", b"cos\nsystem\n(S'x'\ntR.")]),
        D,
        None,
    )
    case("storage not referred to", torch_zip(members=base + [Member("m/data/7", b"secret")]), H, None)


def pickles():
    system = b"cposix\nsystem\n"
    arg = text("touch hacked") + b"\x85R"
    for name, call in (
        ("GLOBAL", system + arg),
        ("STACK_GLOBAL", text("os") + text("system") + b"\x93" + arg),
        (
            "STACK_GLOBAL from the memo",
            text("os") + b"q\x00" + text("system") + b"q\x010h\x00h\x01\x93" + arg,
        ),
        ("INST", b"(" + text("touch hacked") + b"ios\nsystem\n"),
        ("OBJ", b"(" + system + text("touch hacked") + b"o"),
        ("OBJ, then POP", b"(" + system + text("touch hacked") + b"o0K\x01"),
        ("REDUCE, then POP", system + arg + b"0K\x01"),
        ("torch.load of another member", b"ctorch.serialization\nload\n" + text("config.p") + b"\x85R"),
        ("copyreg", b"ccopyreg\n_reconstructor\n" + b"(cos\nsystem\nc__builtin__\nobject\nNtR"),
        ("BUILD of a global", b"cmy\nThing\n)\x81}" + text("x") + system + arg + b"sb"),
        ("NEWOBJ", system + text("touch hacked") + b"\x85\x81"),
        ("eval", b"c__builtin__\neval\n" + arg),
        ("exec", b"cbuiltins\nexec\n" + arg),
        ("getattr", b"cbuiltins\ngetattr\n" + arg),
        ("subprocess", b"csubprocess\nPopen\n" + arg),
        ("dotted", b"ctorch.serialization\nos.system\n" + arg),
        ("submodule", b"ctorch.serialization.os\nsystem\n" + arg),
        ("pip", b"cpip._internal.cli.main\nmain\n" + arg),
        ("nested pickle", b"ctorch.storage\n_load_from_bytes\n" + b"C\x01.\x85R"),
        ("torch.load", b"ctorch\nload\n" + arg),
        ("torch.hub", b"ctorch.hub\nload\n" + arg),
        ("runpy", b"crunpy\nrun_path\n" + arg),
        ("webbrowser", b"cwebbrowser\nopen\n" + arg),
        ("numpy.f2py", b"cnumpy.f2py.crackfortran\nmyeval\n" + arg),
        ("importlib", b"cimportlib\nimport_module\n" + arg),
        ("functools.partial", b"cfunctools\npartial\n" + arg),
        ("operator.attrgetter", b"coperator\nattrgetter\n" + arg),
        ("logging.FileHandler", b"clogging\nFileHandler\n" + arg),
        ("ctypes", b"cctypes\nCDLL\n" + arg),
        ("asyncio", b"casyncio.unix_events\nx\n" + arg),
    ):
        torch_pkl(
            "runs code: " + name, state(("w", tensor()), ("e", call)), D, None if name == "copyreg" else ANY
        )
    eval_of = b"c__builtin__\neval\n" + text("data") + b"}" + text("data")
    paddle = eval_of + array("f4", 8)
    torch_pkl("Paddle's eval", state(("w", paddle + b"s\x86R")), ANY, None)
    torch_pkl(
        "Paddle's eval with a second name",
        state(("w", paddle + b"s" + text("e") + system + arg + b"s\x86R")),
        D,
        ANY,
    )
    torch_pkl(
        "Paddle's eval of other text",
        state(("w", (paddle + b"s\x86R").replace(text("data"), text("1+1"), 1))),
        D,
        ANY,
    )
    torch_pkl(
        "Paddle's eval with a third argument",
        state(("w", (paddle + b"s").replace(b"eval\n", b"eval\n(", 1) + b"NtR")),
        D,
        ANY,
    )
    torch_pkl("NUL in a name", state(("w", tensor()), ("e", b"ctorch\0.x\nFloatStorage\0\n" + arg)), U, ANY)
    torch_pkl("code named, not called", state(("w", tensor()), ("e", system)), D, None)
    torch_pkl("code called, left out", state(("w", tensor()), ("e", system + arg)), D, None, "--allow-opaque")
    torch_pkl("unknown class", state(("w", tensor()), ("e", b"cmy.module\nThing\n)R")), U, "not known")
    torch_pkl("second pickle", GOOD + b"cos\nsystem\n" + arg + b".", D, "pickle-trailing")
    torch_pkl("code, then damage", b"\x80\x02" + system + arg + b"\xff", D, ANY)
    torch_pkl("stack underflow", b"\x80\x02s.", U, "pickle-stack")
    torch_pkl("mark missing", b"\x80\x02u.", U, "pickle-mark")
    torch_pkl("mark missing for a tuple", b"\x80\x02t.", U, "pickle-mark")
    torch_pkl("append below a mark", b"\x80\x02](Ka.", U, "pickle-stack")
    for name, target in (
        ("tensor", tensor()),
        ("storage", storage()),
        ("tuple", b")"),
        ("int", b"K\x01"),
        ("text", text("x")),
    ):
        torch_pkl("setitem on a " + name, b"\x80\x02" + target + b"K\x00K\x01s.", D, "pickle-type")
        torch_pkl("append to a " + name, b"\x80\x02" + target + b"K\x00a.", D, "pickle-type")
    torch_pkl("build on a tuple", b"\x80\x02)}b.", D, "pickle-type")
    torch_pkl("odd setitems", b"\x80\x02}(K\x00u.", U, "pickle-items")
    torch_pkl("odd dict", b"\x80\x02(K\x00d.", U, "pickle-items")
    torch_pkl("memo missing", b"\x80\x02h\x05.", U, "pickle-memo")
    torch_pkl("memo index 2^32-1", b"\x80\x02Nr\xff\xff\xff\xff.", U, "pickle-memo")
    laughs = (
        b"\x80\x02]("
        + b"K\x00" * 10
        + b"eq\x00"
        + b"".join(
            b"](" + b"h" + bytes([i]) + (b"h" + bytes([i])) * 9 + b"eq" + bytes([i + 1]) for i in range(20)
        )
        + b"."
    )
    torch_pkl("billion laughs", laughs, U, "pickle-stack")
    nested = b"\x80\x02" + b"".join(
        b"](" + (b"h" + bytes([i - 1])) * 10 + b"eq" + bytes([i]) if i else b"](" + tensor() * 10 + b"eq\x00"
        for i in range(12)
    )
    torch_pkl("billion laughs of tensors", nested[:2] + b"(" + nested[2:] + b"l.", U, "memory")
    meta = b"ctorch._utils\n_rebuild_meta_tensor_no_storage\n(K\x01K\x02K\x03\x89tR"
    doubled = b"".join(b"q" + bytes([i]) + b"h" + bytes([i]) + b"\x86" for i in range(1, 25))
    thousand = b"](" + meta + b"q\x00" + b"h\x00" * 1000 + b"e"
    for name, args in (("", ()), (", left out", ("--allow-opaque",))):
        torch_pkl(
            "billions of meta tensors" + name,
            b"\x80\x02" + thousand + doubled + b".",
            U,
            "pickle-expansion" if args else "meta device",
            *args,
        )
        keys = b"}(N" + tensor() + b"K\x01" + tensor() + b"u"
        torch_pkl(
            "billions of keys that are no text" + name,
            b"\x80\x02" + keys + doubled + b".",
            U,
            "pickle-expansion",
            *args,
        )
    torch_pkl("200,000 meta tensors", b"\x80\x02](" + meta * 200000 + b"e.", H, None, "--allow-opaque")
    flags = b"}(" + b"".join(text("%05d" % i) + b"\x89" for i in range(100000)) + b"uq\x01"
    torch_pkl(
        "50,000 tensors share 100,000 flags",
        b"\x80\x02](" + tensor(more=flags) + tensor(more=b"h\x01") * 50000 + b"e.",
        U,
        "torch-view",
    )
    many = 200000  # what is looked through again for each mention
    names = b"}(" + b"K\1N" * many + b"u"
    torch_pkl(
        "eval of many names, many times",
        b"\x80\x02](c__builtin__\neval\nq\0" + text("data") + names + b"\x86q\1" + b"h\0h\1R" * many + b"e.",
        D,
        None,
        "--allow-opaque",
    )
    torch_pkl(
        "many names of 2 kB",
        b"\x80\x02](" + text("o." * 500) + b"q\0" + text("a." * 500) + b"q\1" + b"h\0h\1\x93" * many + b"e.",
        U,
        "memory",
    )
    once = b"}(" + text("k" * 65000) + b"q\0" + meta + b"q\1"
    torch_pkl(
        "one long key, many times",
        b"\x80\x02" + once + b"h\0h\1" * many + b"u.",
        U,
        "pickle-expansion",
        "--allow-opaque",
    )
    torch_pkl(
        "one long key of no text, many times",
        b"\x80\x02}("
        + text(b"k" * 500000 + b"\xed\xa0\x80")
        + b"q\0"
        + tensor()
        + b"q\1"
        + b"h\0h\1" * many
        + b"u.",
        U,
        "pickle-expansion",
        "--allow-opaque",
    )
    torch_pkl(
        "many names of what has a long one",
        b"\x80\x02}("
        + text("A" * 65000)
        + tensor()
        + b"q\0"
        + b"".join(text("b%d" % i) + b"h\0" for i in range(50000))
        + b"u.",
        U,
        "pickle-expansion",
    )
    bomb = [
        Member("m/data.pkl", b"\x80\x02]" + b"(e" * (60 << 20) + b".", method=8),
        Member("m/data/0", DATA),
        Member("m/version", b"3\n"),
    ]
    case("bomb of opcodes", make_zip(bomb), U, "pickle-opcodes")
    bomb[0] = Member(
        "m/data.pkl", b"\x80\x04\x8e" + struct.pack("<Q", 300 << 20) + bytes(300 << 20) + b".", method=8
    )
    case("bomb of bytes in the pickle", make_zip(bomb), U, "zip-inflate")
    torch_pkl("list that holds itself", b"\x80\x02]q\x00(h\x00" + tensor() + b"e.", H, "pickle-cycle")
    torch_pkl(
        "dict that holds itself",
        b"\x80\x02}q\x00(" + text("w") + tensor() + text("x") + b"h\x00u.",
        H,
        "pickle-cycle",
    )
    torch_pkl("depth 5 x 10^5", b"\x80\x02" + tensor() + b"\x85" * 500000 + b".", U, "torch-name")
    torch_pkl("depth 5 x 10^5 of nothing", b"\x80\x02N" + b"\x85" * 500000 + b".", H, None)
    torch_pkl("depth 4 x 10^6", b"\x80\x02N" + b"\x85" * 4000000 + b".", U, "memory")
    torch_pkl("LONG4 negative", b"\x80\x02\x8b\xff\xff\xff\xff.", U, "pickle-long")
    torch_pkl("LONG4 of 2 GB", b"\x80\x02\x8b\xff\xff\xff\x7f.", U, "pickle-truncated")
    torch_pkl("text of 2^63", b"\x80\x04\x8d" + struct.pack("<Q", 1 << 63) + b".", U, "pickle-truncated")
    torch_pkl("bytes of 2^64", b"\x80\x04\x8e" + b"\xff" * 8 + b".", U, "pickle-truncated")
    torch_pkl("frame too long", b"\x80\x04\x95" + struct.pack("<Q", 1000) + b"N.", U, "pickle-frame")
    torch_pkl(
        "opcode crosses its frame",
        b"\x80\x04\x95" + struct.pack("<Q", 3) + text("hello") + b".",
        D,
        "pickle-frame",
    )
    torch_pkl(
        "frame in a frame",
        b"\x80\x04\x95" + struct.pack("<Q", 11) + b"\x95" + struct.pack("<Q", 2) + b"N.",
        D,
        "pickle-frame",
    )
    torch_pkl("protocol twice", b"\x80\x02\x80\x02N.", U, "pickle-proto")
    for p in (0, 1, 6, 255):
        torch_pkl("protocol %d" % p, bytes([0x80, p]) + b"N.", U, "pickle-proto")
    torch_pkl("reduce without a tuple", b"\x80\x02ccollections\nOrderedDict\nNR.", U, "pickle-call")
    torch_pkl(
        "rebuild of two arguments",
        state(("w", b"ctorch._utils\n_rebuild_tensor_v2\n" + storage() + b"K\x00\x86R")),
        U,
        "torch-",
    )
    torch_pkl("rebuild of nothing", state(("w", b"ctorch._utils\n_rebuild_tensor_v2\n)R")), U, "torch-")
    torch_pkl("LONG1 of 255 bytes", b"\x80\x02\x8a\xff" + b"\xff" * 254 + b"\x7f.", H, None)
    long = b"T" + struct.pack("<I", 1 << 20) + bytes(1 << 20)  # its length must be nobody's number
    for what, more in (
        ("dtype", b"(K\x01(K\x02t" + long + b"\x89C\x08abcdefghtb"),
        ("state", long + b"b"),
        ("shape", b"(K\x01" + long + b"NNNtb"),
    ):
        torch_pkl(
            "bytes as an array's " + what,
            state(("w", b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n(K\x00tC\x01btR" + more)),
            U,
            "numpy-pickle",
        )
    torch_pkl(
        "bytes as a masked array's state",
        state(("w", b"cnumpy.ma.core\n_mareconstruct\n(NN)NtR" + long + b"b")),
        U,
        "numpy-pickle",
    )
    torch_pkl(
        "bytes as arguments",
        state(("w", b"ctorch._utils\n_rebuild_parameter\n" + long + b"\x85R")),
        H,
        "a tensor",
    )
    torch_pkl("a second state", state(("w", b"ccollections\nOrderedDict\n)R}b}b")), U, "pickle-state")
    torch_pkl(
        "keys of keys, many tensors",
        b"\x80\x02" + tensor() + b"q\0" + b"".join(b"0}(h\0Nu" for i in range(100)) + b".",
        ANY,
        ANY,
    )
    torch_pkl(
        "a dict of tensors as keys",
        b"\x80\x02}(" + b"".join(tensor() + b"N" for i in range(60000)) + b"u.",
        H,
        None,
        "--allow-opaque",
    )
    torch_pkl("call of a call", b"\x80\x02cmy\nx\n)R)R.", D, ANY)
    torch_pkl("values left over", b"\x80\x02NN.", U, "pickle-stack")
    torch_pkl("no stop", b"\x80\x02N", U, "pickle-truncated")
    torch_pkl("empty pickle", b"", U, "pickle-truncated")
    torch_pkl("extension codes", b"\x80\x02\x82\x01)R.", U, "pickle-opcode")
    for code in range(256):
        torch_pkl("opcode %02x alone" % code, bytes([code]), ANY, ANY)
        torch_pkl("opcode %02x in a list" % code, b"\x80\x02](" + bytes([code]) + bytes(20) + b"e.", ANY, "+")


def tensors():
    def bad(name, value, error="torch-", verdict=U):
        torch_pkl("tensor: " + name, state(("w", value)), verdict, error)

    bad("numel * itemsize wraps", tensor(storage(n=0x4000000000000001)))
    bad("offset beyond", tensor(offset=1))
    bad("offset wraps", tensor(offset=(1 << 63) - 1))
    bad("offset negative", tensor(offset=-1))
    bad("extent wraps", tensor(size=(1 << 62, 1 << 62), stride=(1 << 62, 1)))
    bad("size negative", tensor(size=(-1, 2)))
    bad("stride negative", tensor(stride=(-2, 1)))
    bad("stride 0 times 2^40", tensor(size=(1 << 40, 2), stride=(0, 1)), "amplification")
    bad("stride 0 times 2^62", tensor(size=(1 << 62, 2), stride=(0, 1)), ANY)
    bad("size is a bool", tensor(size=(b"\x88", 2)))
    bad("size is a float", tensor(size=(b"G" + struct.pack(">d", 2.0), 2)))
    bad("size is a large integer", tensor(size=(1 << 100, 2)))
    bad("65 dimensions", tensor(size=(1,) * 65, stride=(1,) * 65))
    bad("lengths differ", tensor(stride=(1,)))
    bad("storage is no storage", tensor(b"K\x01"))
    bad("storage is a list", tensor(b"]"))
    bad("persistent id is no tuple", tensor(b"K\x01Q"))
    bad("storage key is an integer", tensor(storage().replace(b"X\x01\x00\x00\x000", b"K\x00")))
    for key in ("../x", "", "x" * 70000):
        bad("storage key %r" % key[:8], tensor(storage(key)))
    bad("unknown storage class", tensor(storage(kind="QUInt9Storage")), "torch-storage", ANY)
    torch_pkl(
        "tensor: one storage, two types",
        state(("w", tensor()), ("v", tensor(storage(kind="IntStorage")))),
        U,
        "torch-storage",
    )
    torch_pkl(
        "tensor: one storage, two sizes",
        state(("w", tensor()), ("v", tensor(storage(n=3)))),
        U,
        "torch-storage",
    )
    v3 = (
        b"ctorch._utils\n_rebuild_tensor_v3\n("
        + storage(kind="UntypedStorage", module="torch.storage", n=15)
        + integer(0)
        + numbers((4,))
        + numbers((1,))
        + b"\x89}ctorch\nfloat32\ntR"
    )
    bad("v3 leaves its bytes", v3)
    q = (
        b"ctorch._utils\n_rebuild_qtensor\n("
        + storage(kind="QInt8Storage", n=16)
        + integer(0)
        + numbers((2, 2))
        + numbers((2, 1))
        + b"(ctorch\nper_tensor_affine\nG%s"
        + integer(0)
        + b"t\x89}tR"
    )
    bad("scale 0", q.replace(b"%s", struct.pack(">d", 0.0)))
    bad("scale NaN", q.replace(b"%s", struct.pack(">d", float("nan"))))
    channel = (
        b"(ctorch\nper_channel_affine\n"
        + tensor(storage("1", "DoubleStorage", 2), 0, (2,), (1,))
        + tensor(storage("2", "LongStorage", 2), 0, (2,), (1,))
        + b"%at"
    )
    per = q.replace(b"(ctorch\nper_tensor_affine\nG%s" + integer(0) + b"t", channel)
    parts = [
        Member("m/data.pkl", b""),
        Member("m/data/0", bytes(16)),
        Member("m/data/1", bytes(16)),
        Member("m/data/2", bytes(16)),
        Member("m/version", b"3\n"),
    ]

    def quantised(name, value, verdict, error):
        parts[0] = Member("m/data.pkl", state(("w", value)))
        case("tensor: " + name, make_zip(parts), verdict, error)

    quantised("scales of an axis", per.replace(b"%a", integer(0)), H, None)
    for axis in (-1, 2, 1 << 62):
        quantised("axis %d" % axis, per.replace(b"%a", integer(axis)), U, "torch-")
    quantised(
        "scales of another length",
        per.replace(b"%a", integer(0)).replace(
            numbers((2, 2)) + numbers((2, 1)), numbers((4, 1)) + numbers((1, 1))
        ),
        U,
        "torch-",
    )
    quantised(
        "quantised, strides leave the storage",
        per.replace(b"%a", integer(0)).replace(numbers((2, 1)), numbers((1 << 40, 1))),
        U,
        "torch-",
    )
    indices = tensor(storage("1", "LongStorage", 2), 0, (1, 2), (2, 1))
    sparse = (
        b"ctorch._utils\n_rebuild_sparse_tensor\n(ctorch.serialization\n_get_layout\n"
        + text("torch.sparse_coo")
        + b"\x85R("
        + indices
        + tensor(size=(2,), stride=(1,))
        + numbers((1,))
        + b"\x88ttR"
    )
    parts[2] = Member("m/data/1", struct.pack("<qq", 1 << 62, -5))
    quantised("sparse, indices out of bounds", sparse, H, None)
    meta = (
        b"ctorch._utils\n_rebuild_meta_tensor_no_storage\n(ctorch\nfloat32\n"
        + numbers((3,))
        + numbers((1,))
        + b"\x89tR"
    )
    torch_pkl("tensor: meta", state(("w", meta)), H, "meta device")
    torch_pkl("name twice", state(("w", tensor()), ("w", tensor())), ANY, ANY)
    torch_pkl(
        "name twice when flat", state(("a.b", tensor()), ("a", b"}" + text("b") + tensor() + b"s")), ANY, ANY
    )
    torch_pkl('keys 0 and "0"', state(("0", tensor()), (b"K\x00", tensor(size=(1, 1)))), U, "twice")
    torch_pkl("name __metadata__", state(("__metadata__", tensor())), ANY, "+")
    torch_pkl("name with controls", state(("a\x1b[31m\n", tensor())), H, None)
    torch_pkl("name with a lone surrogate", state((b"\xed\xa0\x80", tensor())), H, "torch-name")
    torch_pkl("name of 1 MB", state(("n" * (1 << 20), tensor())), U, "torch-name")
    for name, key in (("float", b"G" + struct.pack(">d", 1.5)), ("tuple", b"(K\x01t"), ("None", b"N")):
        torch_pkl("key is a " + name, state((key, tensor())), H, "torch-name")
    torch_pkl(
        "50,000 names of nothing",
        state(*[("t%d" % i, tensor(size=(0,), stride=(1,))) for i in range(50000)]),
        H,
        None,
    )
    torch_pkl("numpy array of objects", state(("w", tensor()), ("n", array("O8", 8))), D, "objects")
    torch_pkl("numpy array that lies", state(("w", tensor()), ("n", array("f4", 12))), U, "numpy-pickle")


def array(code, size):
    return (
        b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\nK\x00\x85C\x01btR(K\x01K\x02\x85cnumpy\ndtype\n("
        + text(code)
        + b"\x89\x88tR(K\x03"
        + text("<")
        + b"NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb\x89C"
        + bytes([size])
        + bytes(size)
        + b"tb"
    )


def legacies():
    case("good legacy", legacy(GOOD), H, None)
    case(
        "legacy: eval as the magic",
        b"\x80\x02c__builtin__\neval\n" + text("0x1950a86a20f9469cfc6c") + b"\x85R.",
        D,
        ANY,
    )
    case(
        "legacy: runs code",
        legacy(state(("w", tensor()), ("e", b"cos\nsystem\n" + text("x") + b"\x85R"))),
        D,
        "not known",
    )
    case("legacy: key missing", legacy(GOOD, keys=()), U, "torch-keys")
    case("legacy: key twice", legacy(GOOD, keys=("0", "0")), U, "torch-keys")
    case("legacy: key unknown", legacy(GOOD, keys=("0", "9")), U, "torch-keys")
    case("legacy: elements differ", legacy(GOOD, body=struct.pack("<q", 3) + DATA), U, "torch-storage")
    case("legacy: elements negative", legacy(GOOD, body=struct.pack("<q", -1) + DATA), U, "torch-storage")
    case("legacy: ends in a storage", legacy(GOOD, body=struct.pack("<q", 4) + DATA[:9]), U, "torch-storage")
    case("legacy: bytes behind", legacy(GOOD) + b"more", U, "torch-trailing")
    long = b"\x80\x02(" + storage("k" * 1000000)[:-1] + b"q\0Q" + b"h\0Q" * 200000 + b"t."
    case("legacy: key of 1 MB, many times", legacy(long), U, "storage key")
    view = storage()[:-2] + b"(" + text("v") + integer(2) + integer(3) + b"ttQ"
    case(
        "legacy: view leaves its storage",
        legacy(state(("w", tensor(view, size=(1,), stride=(1,))))),
        U,
        "torch-storage",
    )
    module = b"(" + text("module") + b"cmy\nNet\n" + text("f.py") + text("import os") + b"tQ"
    case("legacy: source of a module", legacy(state(("w", tensor()), ("m", module + b")\x81"))), U, ANY)
    case("bare pickle runs code", pickle.dumps(print), D, "no tensors")
    case("bare pickle of nothing", pickle.dumps({"a": 1}), H, "no tensors")


def tar_member(name, data, **change):
    h = bytearray(512)
    h[0 : len(name)] = name.encode()
    h[100:108] = b"0000644\0"
    h[108:116] = h[116:124] = b"0000000\0"
    h[124:136] = change.get("size", b"%011o\0" % len(data))
    h[136:148] = b"00000000000\0"
    h[156:157] = change.get("type", b"0")
    h[257:265] = b"ustar\x0000"
    h[148:156] = b" " * 8
    total = sum(h) + change.get("checksum", 0)
    h[148:156] = b"%06o\0 " % total
    return bytes(h) + data + bytes(-len(data) % 512)


def make_tar(
    change=None, rank=2, place=None, views=(), order=("sys_info", "pickle", "tensors", "storages"), more=b""
):
    change = change or {}
    dump = lambda x: pickle.dumps(x, 2)
    cls = lambda name: b"ctorch\n" + name.encode() + b"\n"
    one = lambda key, second, name: b"\x80\x02(" + integer(key) + second + cls(name) + b"t."
    place = struct.pack("<4qq", 2, 2, 2, 1, 0) if place is None else place
    files = {
        "sys_info": dump({"protocol_version": 1000, "little_endian": True}),
        "pickle": b"\x80\x02}" + text("w") + text("100") + b"Qs.",
        "tensors": dump(1) + one(100, integer(7), "FloatTensor") + struct.pack("<iI", rank, 0) + place,
        "storages": dump(change.get("count", 1))
        + b"\x80\x02("
        + integer(7)
        + text("cpu")
        + cls("FloatStorage")
        + b"t."
        + struct.pack("<q", change.get("elements", 4))
        + DATA
        + dump(list(views)),
    }
    files.update(change.get("files", {}))
    out = b"".join(tar_member(n, files[n], **change.get(n, {})) for n in order)
    return out + more + bytes(1024)


def tars():
    case("good tar", make_tar(), H, None)
    case("tar: view", make_tar(views=[(8, 7, 1, 2)]), H, None)
    case("tar: view leaves its storage", make_tar(views=[(8, 7, 3, 2)]), U, "tar")
    case("tar: view of itself", make_tar(views=[(8, 8, 0, 1)]), U, "tar")
    count = 5000  # each a pickle of its own
    one = lambda i: (
        b"\x80\x02("
        + integer(100 + i)
        + integer(7)
        + b"ctorch\nFloatTensor\nt."
        + struct.pack("<iI3q", 1, 0, 1, 1, 0)
    )
    case(
        "tar: 5,000 tensors",
        make_tar(
            {
                "files": {
                    "tensors": pickle.dumps(count, 2) + b"".join(map(one, range(count))),
                    "pickle": b"\x80\x02}("
                    + b"".join(text("w%d" % i) + text(str(100 + i)) + b"Q" for i in range(count))
                    + b"u.",
                }
            }
        ),
        H,
        None,
    )
    case("tar: link", make_tar({"storages": {"type": b"2"}}), U, "tar")
    case("tar: hard link", make_tar({"storages": {"type": b"1"}}), U, "tar")
    case("tar: member twice", make_tar(more=tar_member("pickle", b"N.")), U, "twice")
    case("tar: another member", make_tar(more=tar_member("../evil", b"x")), D, "tar")
    case("tar: bad checksum", make_tar({"pickle": {"checksum": 1}}), U, "damaged")
    case("tar: size negative", make_tar({"storages": {"size": b"\xff" * 12}}), U, "tar")
    case("tar: size past the end", make_tar({"storages": {"size": b"77777777777\0"}}), U, "tar")
    case("tar: 10^9 storages", make_tar({"count": 10**9}), U, "count")
    case("tar: elements negative", make_tar({"elements": -1}), U, "tar")
    case("tar: elements beyond", make_tar({"elements": 1 << 40}), U, "tar")
    case("tar: rank -1", make_tar(rank=-1), U, "dimensions")
    case("tar: rank 2^31-1", make_tar(rank=(1 << 31) - 1), U, "dimensions")
    case(
        "tar: tensor leaves its storage", make_tar(place=struct.pack("<4qq", 2, 2, 2, 1, 1)), U, "torch-view"
    )
    case("tar: stride negative", make_tar(place=struct.pack("<4qq", 2, 2, -2, 1, 3)), U, "torch-view")
    case(
        "tar: pickle runs code",
        make_tar({"files": {"pickle": b"cos\nsystem\n" + text("x") + b"\x85R."}}),
        D,
        ANY,
    )
    case("tar: a storage of its own", make_tar({"files": {"pickle": GOOD}}), U, "tar")
    case("tar: sparse member", make_tar({"storages": {"type": b"S"}}), U, "tar")
    case("tar: device", make_tar({"storages": {"type": b"3"}}), U, "tar")
    pax = tar_member("PaxHeaders/pickle", b"20 path=../../evil\n\n", type=b"x")
    case("tar: path of a pax header", pax + make_tar(), D, "torch-pax")
    grown = tar_member("PaxHeaders/x", b"17 size=99999999\n", type=b"x")
    case("tar: size of a pax header", grown + make_tar(), D, "torch-pax")
    case(
        "tar: time in a pax header",
        tar_member("PaxHeaders/x", b"20 mtime=1234567.25\n", type=b"x") + make_tar(),
        H,
        None,
    )
    for bad in (
        b"20 mtime=1234567.25",
        b"9999 a=b\n",
        b"x",
        b"5 a\n",
        b"0 a=b\n",
        b"18446744073709551617 a=b\n",
        b"1" * 9000,
    ):
        case(
            "tar: pax header %r" % bad[:12],
            tar_member("PaxHeaders/x", bad, type=b"x") + make_tar(),
            D,
            "torch-pax",
        )
    case("tar: no pickle", make_tar(order=("sys_info", "tensors", "storages")), U, "no PyTorch")


# ---------------------------------------------------------------- running them


def own_sources():
    sources = {"zip": torch_zip(), "legacy": legacy(GOOD), "tar": make_tar()}
    for path in sorted((HERE / "fixtures").glob("*.pt")):
        sources[path.name] = path.read_bytes()
    return sources


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tool", required=True)
    parser.add_argument("--keep")
    parser.add_argument("--table", action="store_true")
    args = parser.parse_args()
    tool = os.path.abspath(args.tool)
    for make in (zips, pickles, tensors, legacies, tars):
        make()
    if args.keep:
        os.makedirs(args.keep, exist_ok=True)
        for i, item in enumerate(CASES):
            (pathlib.Path(args.keep) / ("%03d.pt" % i)).write_bytes(item[1])
        return 0
    faults, slow = [], []
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for item in CASES:
            line = check_case(tool, folder, item, faults, slow)
            if args.table:
                print(line)
        os.unlink(folder / "case.pt")
        cut = truncations(tool, folder, faults, own_sources())
    for f in faults:
        print("FAULT", f)
    print(
        "%d cases, %d truncations, slowest %.2f s (%s), %d faults"
        % (len(CASES), cut, *max(slow), len(faults))
    )
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
