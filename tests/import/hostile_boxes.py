#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""hostile_boxes.py --tool TOOL [--keep DIRECTORY] - what acts in containers and binary formats: zip, tar, ONNX, GGUF, HDF5, images.

Beside each hostile file stands a genuine neighbour that must stay harmless. Files of many small parts (members, nodes,
attributes, tensors) end in a verdict within the same bounds as all others: 2 seconds of processor time, 256 MiB. Payloads are
inert: they name what would act, and are given to no loader. Standard library only.
"""

import bz2
import collections
import gzip
import io
import json
import pathlib
import pickle
import random
import struct
import sys
import tarfile
import zipfile
import zlib

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import hostile_hdf5 as hdf5  # noqa: E402
from content_files import gguf, onnx, onnx_node, png, safetensors  # noqa: E402
from hostile_proto import field, varint  # noqa: E402
from scan_cases import LIMIT_SECONDS, D, H, U, case, program, scan  # noqa: E402

EVIL = b"\x80\x04\x8c\x02os\x8c\x06system\x93\x8c\x02id\x85R."
SPY = "__import__('os').system('id')"
TEMPLATE = "{{ x.__class__.__mro__ }}"
FAR = "os." + "path.os." * 1000 + "system"


# ---------------------------------------------------------------- metadata


def properties(*entries, number=14):
    return b"".join(field(number, field(1, key) + field(2, value)) for key, value in entries)


def metadata_cases():
    relu = onnx_node("Relu")
    acts = [
        ("names", SPY, D, "config-target"),
        ("names", "{0: eval('1')}", D, "config-target"),
        ("stride", "open ('/x')", D, "config-target"),
        ("imgsz", "evil(1)", U, "config-target"),
        ("anything", SPY, D, "config-target"),
        ("chat_template", TEMPLATE, D, "template"),
        ("My.Template", TEMPLATE, D, "template"),
        ("config", '{"_target_": "os.system"}', D, "config-target"),
        ("config", '{"auto_map": {"AutoModel": "x--m.X"}}', U, "remote-code"),
        ("auto_map", '{"AutoModel": "x--m.X"}', U, "remote-code"),
        ("_target_", "os.system", D, "config-target"),
        ("_target_", FAR, D, "config-target"),
        ("x", '{"_target_": "%s"}' % FAR, D, "config-target"),
        ("x", " \n" * 2000 + '{"class_path": "os.system"}', D, "config-target"),
        ("a" * 300 + "_target_", "evil.f", U, "config-target"),
    ]
    plain = [
        ("names", "{0: 'person (adult)', 1: 'os.path', 2: \"it's eval(\"}"),
        ("names", "['a', 'b']"),
        ("stride", "32"),
        ("imgsz", "[640, 640]"),
        ("names", "person, traffic light (red), cat"),
        ("author", "Ultralytics (AGPL-3.0)"),
        ("args", "{'batch': 1, 'half': False}"),
        ("chat_template", "{% for m in messages %}{{ m['content'] }}{% endfor %}"),
        ("config", '{"a": [1, 2], "b": "torch.nn"}'),
        ("description", "We import os and eval() nothing."),
        ("prompt", "hello world " * 1000),
        ("k" * 300, "some words"),
        ("x", " " * 3000 + '{"a": 1}'),
    ]
    for key, value, verdict, rule in acts:
        case("model.onnx", onnx(relu, more=properties((key, value))), verdict, rule)
        case("model.safetensors", safetensors({key: value}), verdict, rule)
        case("model.gguf", gguf(**{key: value}), verdict, rule)
    for key, value in plain:
        case("model.onnx", onnx(relu, more=properties((key, value))), H)
        case("model.safetensors", safetensors({key: value}), H)
        case("model.gguf", gguf(**{key: value}), H)
    torchao = json.dumps(
        {
            "_type": "Float8Tensor",
            "_data": {"block_size": [1, 4], "dtype": {"_type": "torch.dtype", "_data": "bfloat16"}},
        }
    )
    case("torchao.safetensors", safetensors({"w": torchao}), H)
    graph = (
        field(1, 8)
        + field(7, field(1, relu) + properties(("names", SPY), number=16))
        + field(8, field(2, 17))
    )
    case("graph.onnx", graph, D, "config-target")


# ---------------------------------------------------------------- tensors of bytes


def bytes_tensor(data, dtype="U8", each=1, before=104):
    data += bytes(-len(data) % each)
    head = {
        "w": {"dtype": "U8", "shape": [before], "data_offsets": [0, before]},
        "x": {"dtype": dtype, "shape": [len(data) // each], "data_offsets": [before, before + len(data)]},
    }
    text = json.dumps(head).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + bytes(before) + data


def tensor_cases():
    for name, pack in (("gzip", gzip.compress), ("zlib", zlib.compress), ("bzip2", bz2.compress)):
        case(name + ".safetensors", bytes_tensor(pack(EVIL)), D, "global")
        case(name + "-plain.safetensors", bytes_tensor(pack(b"numbers and words " * 9)), H)
    # without the mark of a protocol, which pickle.loads does not need; of any type
    for name, data, verdict in (
        ("bare", EVIL[2:], D),
        ("list", b"]\x94(K\x01" + EVIL[2:-1] + b"e.", D),
        ("short", b"(U\x02osU\x06system\x93U\x02id\x85R.", D),
        ("object", b"(cos\nsystem\nU\x02ido.", D),
        ("own", b"cevil\nmod\n(S'id'\ntR.", U),
    ):
        for dtype, each in (("U8", 1), ("F32", 4), ("BOOL", 1), ("F8_E4M3", 1)):
            case(name + ".safetensors", bytes_tensor(data, dtype, each), verdict, "global")
    for dtype, each in (("F32", 4), ("I64", 8), ("BOOL", 1), ("BF16", 2)):
        case("far.safetensors", bytes_tensor(EVIL, dtype, each, 130 << 20), D, "global")
    chosen = random.Random(3)
    for i in range(40):
        case("random.safetensors", bytes_tensor(chosen.randbytes(100000), "F32", 4), H)
    case("raw.safetensors", bytes_tensor(bytes(range(256)) * 64), H)
    case("marks.safetensors", bytes_tensor(b"\x1f\x8b\x08\0" * 4000 + b"BZh91AY&SY" * 400), H)


def text(s, op=b"X"):
    return op + struct.pack("<Q" if op == b"\x8d" else "<I", len(s)) + s.encode()


def far_calls():
    """A pickle with its mark whose call stands further off than what is looked at first: the memo, what is popped, long names."""
    end = b"\x93" + text("id") + b"\x85R"
    yield (
        "memo",
        b"\x80\x04]("
        + text("os")
        + b"\x94"
        + text("system")
        + b"\x94"
        + text("z" * 5000)
        + b"h\x00h\x01"
        + end
        + b"e.",
        D,
    )
    yield "pop", b"\x80\x04" + text("os") + text("z" * 5000) + b"0" + text("system") + end + b".", D
    yield (
        "mark",
        b"\x80\x04" + text("os") + b"(" + text("z" * 5000, b"\x8d") + b"1" + text("system") + end + b".",
        D,
    )
    yield "line", b"\x80\x02(I" + b"1" * 5000 + b"\n1cos\nsystem\n" + text("id") + b"\x85R.", D
    yield (
        "bytes",
        b"\x80\x03B"
        + struct.pack("<I", 70000)
        + bytes(70000)
        + b"0"
        + text("os")
        + text("system")
        + end
        + b".",
        D,
    )
    yield (
        "frame",
        b"\x80\x04\x95"
        + struct.pack("<Q", 6000)
        + b"]("
        + b"K\x01" * 3000
        + b"e0"
        + text("os")
        + text("system")
        + end
        + b".",
        D,
    )
    yield "name", b"\x80\x04" + text("os") + text("path.os." * 1000 + "system") + end + b".", D
    yield "module", b"\x80\x04" + text("evil." + "a." * 8000 + "b") + text("f") + b"\x93)R.", U
    yield "global", b"\x80\x02cevil." + b"a." * 4000 + b"b\nf\n)R.", U


def legacy(protocol, value):
    sizes = {"short": 2, "int": 4, "long": 4}
    head = (
        0x1950A86A20F9469CFC6C,
        1001,
        {"protocol_version": 1001, "little_endian": True, "type_sizes": sizes},
    )
    return b"".join(pickle.dumps(x, protocol) for x in (*head, value, []))


def marked_cases():
    # each of the pickles of a legacy file has a memo of its own
    for protocol in (2, 4, 5):
        case(
            "legacy.pt",
            legacy(protocol, {"a": collections.OrderedDict(b=1), "n": collections.Counter("ab")}),
            H,
        )
    for name, data, verdict in far_calls():
        for before in (0, 104, 1234567):
            case(name + ".safetensors", bytes_tensor(data, before=before), verdict, "global")
        case(name + "-f32.safetensors", bytes_tensor(data, "F32", 4), verdict, "global")
        case(
            name + ".onnx",
            onnx(
                onnx_node("Relu"), more=field(7, field(5, field(1, len(data)) + field(2, 2) + field(9, data)))
            ),
            verdict,
            "global",
        )
        rank1 = hdf5.one(
            lambda at, n=len(data): hdf5.header(hdf5.space(n), hdf5.U1, hdf5.contiguous(at["d"], n)),
            ("d", data),
        )
        case(name + ".h5", rank1, verdict, "global")
    # long names without the mark, wherever they stand
    for name, data, verdict in (
        ("stack", text("os") + text("path.os." * 1000 + "system") + b"\x93" + text("id") + b"\x85R.", D),
        ("lines", b"cos\n" + b"path.os." * 1000 + b"system\n" + text("id") + b"\x85R.", D),
        ("own", text("evil." + "a." * 800 + "b") + text("f") + b"\x93)R.", U),
    ):
        for before in (0, 1234567, (1 << 20) - 6000):
            case(name + ".safetensors", bytes_tensor(b"\1" * 64 + data, before=before), verdict, "global")
    case(
        "words.safetensors",
        bytes_tensor(b"".join(b"word" * n + b"\nsystem" * 9 + b"\n" for n in range(1, 900))),
        H,
    )
    # what a program writes as a tensor of bytes, and bytes that only begin as a pickle does
    plain = {"a": "z" * 5000, "b": [1.5] * 3000, "c": bytes(70000)}
    for protocol in (2, 3, 4, 5):
        case("plain.safetensors", bytes_tensor(pickle.dumps(plain, protocol)), H)
    for i, head in enumerate(
        (b"X\x88\x13\0\0", b"B\x88\x13\0\0", b"V", b"(I", b"\x95" + struct.pack("<Q", 5000), b"\x82|imT\n")
    ):
        case(f"bytes{i}.safetensors", bytes_tensor((b"\x80\x04" + head).ljust(6000, b"\xfe")), H)


# ---------------------------------------------------------------- names and kinds of members


def zipped(*members, method=zipfile.ZIP_STORED):
    """(name, name by the extra field or None, bytes)"""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as z:
        for name, other, data in members:
            info = zipfile.ZipInfo(name)
            info.compress_type = method
            if other is not None:
                body = struct.pack("<BI", 1, zlib.crc32(name.encode())) + other.encode()
                info.extra = struct.pack("<HH", 0x7075, len(body)) + body
            z.writestr(info, data)
    return out.getvalue()


def linked(mode):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as z:
        info = zipfile.ZipInfo("a.txt")
        info.create_system, info.external_attr = 3, mode << 16
        z.writestr(info, "/etc/passwd")
    return out.getvalue()


def gguf_bytes(data, text):
    """A GGUF whose metadata have these bytes, as a text or as an array of U8."""
    whole = gguf()
    at = whole.index(b"llama") + 5
    kind = struct.pack("<IQ", 8, len(data)) if text else struct.pack("<IIQ", 9, 0, len(data))
    entry = struct.pack("<Q", 7) + b"x.state" + kind + data
    whole = whole[:16] + struct.pack("<Q", 2) + whole[24:at] + entry
    return whole + bytes(-len(whole) % 32)


# Pickles without a mark that look up a name which nobody knows, and call it or end with it.
CALLS = (
    b"cevil\nmod\n(S'id'\ntR.",
    b"}(S'a'\ncevil\nmod\n(S'id'\ntRu.",
    b"(S'id'\nievil\nmod\n.",
    b"(cevil\nmod\nS'id'\no.",
    b"cevil\nmod\np0\n0(Vid\ntp1\n0g0\ng1\nR.",
    b"cevil\nmod\nq\x00)\x81}q\x01b.",
    b"cevil\nmod\n)}\x92.",
    b"cevil\nmod\n}b.",
    b"cevil\nmod\nX\x02\0\0\0id\x85R.",
    b"cevil\nmod\n" + b"N0" * 500 + b"(tR.",
    b"Vevil\nVmod\n\x93(Vid\ntR.",
    b"S'evil'\np0\nS'mod'\n\x93)R.",
    b"\x8d\x04\0\0\0\0\0\0\0evil\x8c\x03mod\x93)R.",
    b"ccopy_reg\n_reconstructor\np0\n(cevil\nmod\np1\nc__builtin__\nobject\np2\nNtp3\nRp4\n.",
    b"ccopy_reg\n_reconstructor\n(I1\ncevil\nmod\ntR.",
    b"cevil.sub\nMod.load\n.",
    b"cevil\nmod\n0N.",
)
# Words one below the other, which name something to an unpickler and do nothing with it.
WORDS = (
    b"cat\ndog\nRat\n",
    b"lib\ncache\nbuild\n.DS_Store\n",
    b"name\ncache\nbuild\n.\n",
    b"cDNA\nmRNA\ntRNA\nrRNA\n",
    b"cab\ndog\ngreat\nRust\n",
    b"(see\ninput\noutput\n.\n",
    b"core\nitem\n(to be read)\nclass\nint\n)\n",
    b"cevil\nmod\n(S'id'\nt",
    b"class\ninstance\nbuild\nreduce\nobject\n",
    b"ccollections\nOrderedDict\n)R.",
)


def gguf_cases():
    for text in (True, False):
        for data in CALLS:
            case("called.gguf", gguf_bytes(data, text), U, "global")
        for data in WORDS:
            case("words.gguf", gguf_bytes(data, text), H)
    far = bytes((1 << 20) - 47)  # over the end of a window
    case("far.gguf", gguf_bytes(far + CALLS[0], False), U, "global")
    unmarked = b"\x8c\x04evil\x8c\x03mod\x93\x8c\x02id\x85R."
    for text in (True, False):
        case("unmarked.gguf", gguf_bytes(unmarked, text), U, "global")
        case("bytes.gguf", gguf_bytes(b"\x8c\x04evil\x8c\x03mod\x92\x8c\x02id\x85R.", text), H)


def later_sizes(size, packed):
    """A member with a descriptor, whose local header has these sizes: macOS writes the size, and no other."""
    data = b"hello " * 40
    deflate = zlib.compressobj(wbits=-15)
    body = deflate.compress(data) + deflate.flush()
    real = (zlib.crc32(data), len(body), len(data))
    head = struct.pack("<HHHHHIIIHH", 20, 8, 8, 0, 0x21, 0, packed, len(data) if size is None else size, 5, 0)
    local = b"PK\3\4" + head + b"a.txt" + body + b"PK\7\x08" + struct.pack("<III", *real)
    entry = (
        b"PK\1\2"
        + struct.pack("<HHHHHHIIIHHHHHII", 20, 20, 8, 8, 0, 0x21, *real, 5, 0, 0, 0, 0, 0, 0)
        + b"a.txt"
    )
    return local + entry + b"PK\5\6" + struct.pack("<HHHHIIH", 0, 0, 1, 1, len(entry), len(local), 0)


def zip_cases():
    for names in (
        ("b.txt", "./b.txt"),
        ("a//b.txt", "a/b.txt"),
        ("a/./b.txt", "a/b.txt"),
        ("././A.txt", "a.txt"),
    ):
        case("place.zip", zipped(*((name, None, b"hi") for name in names)), D, "zip-duplicate")
    case(
        "places.zip",
        zipped(*((name, None, b"hi") for name in ("a/b.txt", "a.b/c.txt", "b.txt", "./c.txt", "...txt"))),
        H,
    )
    case("macos.zip", later_sizes(None, 0), H)
    case("later.zip", later_sizes(0, 0), H)
    case("less.zip", later_sizes(200, 0), D, "zip-local")
    case("more.zip", later_sizes(None, 7), D, "zip-local")
    case("link.zip", linked(0o120777), U, "zip-link")
    case("pipe.zip", linked(0o010644), U, "zip-link")
    case("file.zip", linked(0o100644), H)
    case("renamed.zip", zipped(("a.txt", "a.py", "import os")), D, "zip-local")
    case("away.zip", zipped(("b.txt", "../../b.txt", "hi")), D, "zip-name")
    case("other.zip", zipped(("b.txt", "c.txt", "hi")), D, "zip-local")
    case("code.zip", zipped(("a_.txt", "ä.py", "import os")), D, "zip-local")
    case("spelt-code.zip", zipped(("a_.py", "ä.py", "# hello")), U, "code-file")
    case("spelt.zip", zipped(("a_.txt", "ä.txt", "hi")), "not-dangerous")
    case("same.zip", zipped(("b.txt", "b.txt", "hi")), H)
    case("deflated.zip", zipped(("b.txt", "b.txt", "hi " * 90), method=zipfile.ZIP_DEFLATED), H)


def tarred(*members, format=tarfile.PAX_FORMAT):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=format) as t:
        for name, data, *kind in members:
            info = tarfile.TarInfo(name)
            info.size, info.type = len(data), kind[0] if kind else tarfile.REGTYPE
            t.addfile(info, io.BytesIO(data))
    return out.getvalue()


def tar_cases():
    good = tarred(("a.txt", b"hi" * 600))
    case("good.tar", good, H)
    case("cut.tar", good[:900], U, "members")
    for kind in (tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE):
        case("device.tar", tarred(("a", b"", kind)), U, "tar-link")
    case("twice.tar", tarred(("a.txt", b"hi"), ("a.txt", b"ho")), U, "tar-duplicate")
    case("case.tar", tarred(("a.txt", b"hi"), ("A.txt", b"ho")), U, "tar-duplicate")
    case("dot.tar", tarred(("a.txt", b"hi"), ("./a.txt", b"ho")), U, "tar-duplicate")
    case(
        "directory.tar",
        tarred(("a/", b"", tarfile.DIRTYPE), ("a/b.txt", b"hi"), ("a", b"", tarfile.DIRTYPE)),
        H,
    )
    # names of more than 100 bytes, which differ at their end alone, as each kind of tar has them
    for name, form in (
        ("ustar", tarfile.USTAR_FORMAT),
        ("gnu", tarfile.GNU_FORMAT),
        ("pax", tarfile.PAX_FORMAT),
    ):
        deep = "/".join(["directory"] * 12) + "/"
        pax = form == tarfile.PAX_FORMAT  # PyTorch's reader minds such headers
        none = {"without": "tar-duplicate"}
        case(
            name + ".tar",
            tarred((deep + "a.txt", b"hi"), (deep + "b.txt", b"ho"), format=form),
            D if pax else H,
            **none,
        )
        case(
            name + "-twice.tar",
            tarred((deep + "a.txt", b"hi"), (deep + "a.txt", b"ho"), format=form),
            D if pax else U,
            "tar-duplicate",
        )
        case(
            name + "-code.tar",
            tarred((deep + "a.py", b"# hello\n"), format=form),
            D if pax else U,
            "code-file",
        )
        if form != tarfile.USTAR_FORMAT:
            flat = "x" * 150
            case(
                name + "-flat.tar",
                tarred((flat + "a.txt", b"hi"), (flat + "b.txt", b"ho"), format=form),
                D if pax else H,
                **none,
            )
            case(name + "-flat-away.tar", tarred(("../" + flat + "b.txt", b"ho"), format=form), D, "tar-name")
    info = tarfile.TarInfo("x")
    info.type, info.size = tarfile.XHDTYPE, 30
    case(
        "pax-damaged.tar",
        info.tobuf() + b"9 path=a.txt\n1 x".ljust(512, b"\0") + good,
        "not-harmless",
        "members",
    )
    case("names.tar", tarred(*(("d%d/f%d.txt" % (i % 7, i), b"hi") for i in range(3000))), H)


# ---------------------------------------------------------------- HDF5


def lists(base, size):
    """A dataset of one list of any length, of bytes or floats, in a file of that size."""
    kind = struct.pack("<B3BI", 0x19, 0, 0, 0, 16) + base
    return hdf5.one(
        lambda at: hdf5.header(hdf5.space(1), (3, kind), hdf5.contiguous(at["d"], 16)),
        ("d", bytes(16)),
        ("rest", bytes(size)),
    )


def hdf5_cases():
    octets = struct.pack("<B3BIHH", 0x10, 0, 0, 0, 1, 0, 8)
    floats = hdf5.F4[1]
    case("lists.h5", lists(octets, 129 << 20), U, "walk-limit")
    case("few-lists.h5", lists(octets, 1 << 10), H)
    case("floats.h5", lists(floats, 129 << 20), H)


# ---------------------------------------------------------------- images and texts


def image_cases():
    case("good.png", png((b"tEXt", b"Comment\0hello"), (b"prVt", bytes(range(256)))), H)
    case("critical.png", png((b"EVIL", b"x" * 20)), U)
    case("text.png", png((b"tEXt", b"Comment\0" + EVIL)), D, "global")
    case("private.png", png((b"prVt", b"abc" + EVIL)), D, "global")
    case("idat.png", png(idat=EVIL), D, "global")
    case(
        "webp.webp",
        b"RIFF" + struct.pack("<I", 4 + 8 + 32) + b"WEBPEXIF" + struct.pack("<I", 32) + EVIL.ljust(32, b"\0"),
        D,
        "global",
    )


def text_cases():
    for name, text, verdict in (
        ("a.txt", "cantigravity\nx\nhello", "not-harmless"),
        ("b.txt", "cpip.__main__\nx\nhello", D),
        ("c.txt", "hello\ncidlelib.idle\nx\nhello", "not-harmless"),
        ("d.txt", "cat\ndog\nhello", H),
        ("e.txt", "config.json\nvocab\ncat\n", H),
        ("f.txt", "antigravity\nx\nis a module\n", H),
    ):
        case(name, text, verdict)


# ---------------------------------------------------------------- the lite interpreter


def lite(*operators, protocol=2):
    code = (
        "__torch__.M.forward",
        (("instructions", ()), ("operators", tuple((o, "", 1) for o in operators)), ("types", ())),
    )
    return zipped(
        ("m/data.pkl", None, pickle.dumps({}, 2)),
        ("m/bytecode.pkl", None, pickle.dumps((8, code), protocol)),
        ("m/version", None, "3\n"),
        ("m/byteorder", None, "little"),
    )


def lite_cases():
    for protocol in (2, 4):
        case("act.ptl", lite("aten::add", "aten::from_file", protocol=protocol), D, "torchscript-code")
        case("save.ptl", lite("aten::save", protocol=protocol), D, "torchscript-code")
        case("own.ptl", lite("evil::run", protocol=protocol), U, "torchscript-code")
        case("class.ptl", lite("__torch__.torch.classes.evil.Run", protocol=protocol), U, "torchscript-code")
        case(
            "good.ptl",
            lite(
                "aten::add",
                "prim::ListConstruct",
                "quantized::linear_dynamic",
                "aten::_convolution",
                "__torch__.torch.classes.quantized.LinearPackedParamsBase",
                protocol=protocol,
            ),
            "not-dangerous",
            without="torchscript-code",
        )


# ---------------------------------------------------------------- many small parts


def many_members():
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as z:
        for i in range(150000):
            z.writestr("a/%d.txt" % i, b"hi")
    return out.getvalue()


def many_gzips():
    info = tarfile.TarInfo("a.txt")
    info.size = 500
    return (info.tobuf() + gzip.compress(b"x" * 400)[:500].ljust(512, b"\0")) * 56000 + bytes(1024)


def many_tensors():
    n = 600000
    text = (
        "{"
        + ",".join(
            '"t%d":{"dtype":"U8","shape":[8],"data_offsets":[%d,%d]}' % (i, 8 * i, 8 * i + 8)
            for i in range(n)
        )
        + "}"
    ).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + b"\x80\x04]q\0.aa" * n


def long_field(number, data):
    return varint(number << 3 | 2) + varint(len(data)) + data


def time_cases():
    case("members.zip", many_members(), U, "members")
    case("metadata.safetensors", safetensors({str(i): "hello" for i in range(1500000)}), U, "strings")
    case(
        "metadata.onnx",
        onnx(onnx_node("Relu"), more=field(14, field(1, "k") + field(2, "hello")) * 900000),
        U,
        "strings",
    )
    case("gzips.tar", many_gzips(), U)
    case("tensors.safetensors", many_tensors(), U)
    node = long_field(1, field(4, "Relu") + field(5, field(1, "a")) * 11500000)
    case("attributes.onnx", field(1, 8) + long_field(7, node), U, "graph")
    case(
        "domains.onnx",
        field(1, 8) + long_field(7, field(1, field(4, "X") + field(7, "y")) * 6400000),
        U,
        "onnx-domain",
    )
    case("nodes.onnx", field(1, 8) + long_field(7, field(1, field(4, "Relu")) * 6400000), U, "graph")


def check_damaged(tool, work):
    """Bytes changed in LZF streams, in heaps and trees of large objects: a verdict for each, nothing else."""
    bad = 0
    for name in ("hdf5-lzf.h5", "hdf5-large.h5"):
        data = (pathlib.Path(__file__).resolve().parent / "fixtures" / name).read_bytes()
        chosen = random.Random(name)
        paths = []
        for i in range(100):
            path = work / f"{i:03}-{name}"
            damaged = bytearray(data)
            for _ in range(chosen.choice((1, 4, 64))):
                damaged[chosen.randrange(len(data))] = chosen.randrange(256)
            path.write_bytes(damaged)
            paths.append(path)
        for at in range(0, len(paths), 20):
            run, results, seconds = scan(tool, *paths[at : at + 20])
            if run.returncode not in (0, 1) or len(results) != 20 or seconds > LIMIT_SECONDS:
                bad += 1
                print(
                    f"{name} damaged, {at} to {at + 20}: status {run.returncode}, {len(results)} results, {seconds:.2f} s",
                    file=sys.stderr,
                )
    return bad


if __name__ == "__main__":
    sys.exit(
        program(
            (
                metadata_cases,
                tensor_cases,
                marked_cases,
                gguf_cases,
                zip_cases,
                tar_cases,
                hdf5_cases,
                image_cases,
                text_cases,
                lite_cases,
                time_cases,
            ),
            check_damaged,
        )
    )
