#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""hostile_shell.py --tool TOOL [--all] - a payload within another file: what Python's own modules find there, `scan` must find.

A payload (a pickle that names os.system, a Keras archive and an HDF5 file with a Lambda layer) is wrapped (not at all, compressed,
in base64, twice) and put into every format at every place: as bytes, as a text, before, inside, behind, with other bytes behind it.
An oracle that knows nothing of this project goes through the file as Python's zipfile, tarfile (ignore_zeros), gzip, zlib,
bz2, lzma, base64 and pickle (with inert stand-ins for all that it looks up) and HDF5's search for its superblock do. What
reaches the payload so must not be harmless, and the file around it without the payload must be as before. Nothing is executed.
Standard library only; Linux. Without --all a part of the table, chosen by a fixed seed."""

import argparse
import base64
import bz2
import gzip
import io
import json
import lzma
import os
import pathlib
import pickle
import random
import struct
import sys
import tarfile
import tempfile
import zipfile
import zlib

from hostile_proto import field
from hostile_table import MEMORY, SECONDS, Run

HERE = pathlib.Path(__file__).resolve().parent
EVIL = b"\x80\x04\x8c\x02os\x8c\x06system\x93\x8c\x02id\x85R."
OLD = b"cos\nsystem\n(S'id'\ntR."
SIGNATURE = b"\x89HDF\r\n\x1a\n"


def fixture(name):
    return (HERE / "fixtures" / "content" / name).read_bytes()


PAYLOADS = {"pickle": EVIL, "pickle0": OLD, "keras": fixture("lambda.keras"), "h5": fixture("lambda.h5")}
PLAIN = {"keras": fixture("plain.keras"), "h5": fixture("plain.h5")}


# ---------------------------------------------------------------- the oracle


class Inert:
    def __init__(self, *args, **kwargs):
        pass

    def __call__(self, *args, **kwargs):
        return Inert()

    def __setstate__(self, state):
        pass


class Recorder(pickle._Unpickler):
    """Looks up nothing: it says what it would have looked up."""

    def __init__(self, data, found):
        super().__init__(io.BytesIO(data), encoding="bytes")
        self.found = found

    def find_class(self, module, name):
        self.found.add("%s.%s" % (module, name))
        return Inert

    def persistent_load(self, pid):
        return Inert()


def strings_of(value, depth=0):
    if depth > 20:
        return
    if isinstance(value, (bytes, bytearray, str)):
        yield value
    elif isinstance(value, dict):
        for k, v in value.items():
            yield from strings_of(k, depth + 1)
            yield from strings_of(v, depth + 1)
    elif isinstance(value, (list, tuple, set)):
        for v in value:
            yield from strings_of(v, depth + 1)


def unpacked(data):
    for unpack in (
        gzip.decompress,
        lambda d: zlib.decompressobj().decompress(d),
        lambda d: bz2.BZ2Decompressor().decompress(d),
        lambda d: lzma.LZMADecompressor().decompress(d),
    ):
        try:
            yield unpack(data)
        except Exception:  # noqa: BLE001 - not of this kind
            pass


def members(data):
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as z:
            for info in z.infolist():
                try:
                    yield z.read(info)
                except Exception:  # noqa: BLE001 - damaged
                    pass
    except Exception:  # noqa: BLE001 - no zip
        pass
    try:
        with (
            tarfile.open(fileobj=io.BytesIO(data), mode="r:") as first,
            tarfile.open(fileobj=io.BytesIO(data), ignore_zeros=True) as t,
        ):
            for info in t if first.next() else ():
                if info.isfile():
                    yield t.extractfile(info).read()
    except Exception:  # noqa: BLE001 - no tar
        pass


def texts(text, found, depth):
    """base64 as Python decodes it: with line breaks, either alphabet, with or without padding"""
    if isinstance(text, bytes):
        try:
            text = text.decode("ascii")
        except UnicodeDecodeError:
            return
    if len(text) < 16:
        return
    for part in {text, text.rpartition("base64,")[2]}:
        for decode in (base64.b64decode, base64.urlsafe_b64decode):
            try:
                reach(decode(part + "=" * (-len("".join(part.split())) % 4)), found, depth + 1)
            except Exception:  # noqa: BLE001 - none
                pass


def reach(data, found, depth=0):
    """Adds to found what Python's modules come to that act."""
    if depth > 8 or not data:
        return
    if isinstance(data, str):
        texts(data, found, depth)
        data = data.encode("utf-8", "surrogatepass")
    stream = Recorder(data, names := set())
    try:
        for value in strings_of(stream.load()):
            reach(value, found, depth + 1)
    except Exception:  # noqa: BLE001 - no pickle, or its end
        pass
    found |= {"pickle"} if names & {"os.system", "posix.system"} else set()
    at = next((n for n in [0] + [512 << i for i in range(20)] if data[n : n + 8] == SIGNATURE), None)
    if (
        at is not None
        and b"__lambda__" in data[at:]
        or b'{"class_name": "__lambda__"' in data
        and data[:1] == b"{"
    ):
        found.add("lambda")
    for inner in (*members(data), *unpacked(data)):
        reach(inner, found, depth + 1)
    if depth > 0:
        texts(data, found, depth)
    try:
        for value in strings_of(json.loads(data)):
            reach(value, found, depth + 1)
    except ValueError:
        pass


# ---------------------------------------------------------------- outer formats: bytes within


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(data, kind=b"piCk"):
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0))
        + chunk(b"IDAT", zlib.compress(b"\0\1\2\3"))
        + chunk(kind, data)
        + chunk(b"IEND", b"")
    )


def jpeg(data):
    out = b"\xff\xd8"
    for i in range(0, len(data), 65000):
        out += b"\xff\xfe" + struct.pack(">H", len(data[i : i + 65000]) + 2) + data[i : i + 65000]
    return out + b"\xff\xda\0\2\x01\x02\xff\xd9"


def gif(data):
    blocks = b"".join(bytes([len(data[i : i + 255])]) + data[i : i + 255] for i in range(0, len(data), 255))
    return b"GIF89a\1\0\1\0\0\0\0" + b"!\xfe" + blocks + b"\0" + b",\0\0\0\0\1\0\1\0\0\2\2D\1\0;"


def webp(data):
    body = (
        b"WEBP"
        + b"VP8L"
        + struct.pack("<I", 6)
        + b"\x2f\0\0\0\0\0"
        + b"piCk"
        + struct.pack("<I", len(data))
        + data
        + b"\0" * (len(data) % 2)
    )
    return b"RIFF" + struct.pack("<I", len(body)) + body


def safetensors(data):
    header = json.dumps({"w": {"dtype": "U8", "shape": [len(data)], "data_offsets": [0, len(data)]}}).encode()
    header += b" " * (-len(header) % 8)
    return struct.pack("<Q", len(header)) + header + data


def safetensors_named(text):
    header = json.dumps(
        {"__metadata__": {"note": text}, "w": {"dtype": "U8", "shape": [1], "data_offsets": [0, 1]}}
    ).encode()
    header += b" " * (-len(header) % 8)
    return struct.pack("<Q", len(header)) + header + b"\0"


def npy(data):
    header = (b"{'descr': '|u1', 'fortran_order': False, 'shape': (%d,), }" % len(data)).ljust(117) + b"\n"
    return b"\x93NUMPY\1\0" + struct.pack("<H", len(header)) + header + data


def npz(data, method=zipfile.ZIP_STORED):
    return zipped("a.npy", npy(data), method)


def zipped(name, data, method=zipfile.ZIP_STORED):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as z:
        z.writestr(name, data)
    return out.getvalue()


def tarred(name, data):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as t:
        info = tarfile.TarInfo(name)
        info.size = len(data)
        t.addfile(info, io.BytesIO(data))
    return out.getvalue()


def gguf(data, text=None):
    def s(raw):
        raw = raw if isinstance(raw, bytes) else raw.encode()
        return struct.pack("<Q", len(raw)) + raw

    meta = (
        s("general.architecture")
        + struct.pack("<I", 8)
        + s("x")
        + s("note")
        + struct.pack("<I", 8)
        + s(text or "y")
    )
    head = b"GGUF" + struct.pack("<IQQ", 3, 1, 2) + meta + s("w") + struct.pack("<IQIQ", 1, len(data), 24, 0)
    return head + b"\0" * (-len(head) % 32) + data + b"\0" * (-len(data) % 32)


def onnx(data, prop="", doc="", node="n"):
    tensor = field(1, len(data)) + field(2, 2) + field(8, "w") + field(9, data)
    graph = (
        field(1, field(1, "w") + field(2, "y") + field(3, node) + field(4, "Relu"))
        + field(2, "g")
        + field(5, tensor)
    )
    return (
        field(1, 8)
        + field(2, "x")
        + (field(6, doc) if doc else b"")
        + field(7, graph)
        + field(8, field(1, "") + field(2, 17))
        + (field(14, field(1, "note") + field(2, prop)) if prop else b"")
    )


def msgpack(data):
    shape = (
        b"\x93"
        + b"\x91"
        + b"\xce"
        + struct.pack(">I", len(data))
        + b"\xa5uint8"
        + b"\xc6"
        + struct.pack(">I", len(data))
        + data
    )
    return b"\x81\xa1w\xc9" + struct.pack(">IB", len(shape), 1) + shape


def pickled(data):
    return pickle.dumps({"a": data}, 4)


def jsoned(data):
    return json.dumps({"a": 1, "b": data}).encode()


AS_BYTES = {
    "png": png,
    "jpeg": jpeg,
    "gif": gif,
    "webp": webp,
    "safetensors": safetensors,
    "npy": npy,
    "npz": npz,
    "npz-deflated": lambda d: npz(d, zipfile.ZIP_DEFLATED),
    "gguf": gguf,
    "onnx": onnx,
    "msgpack": msgpack,
    "pickle": pickled,
    "pickle2": lambda d: pickle.dumps([d], 2),
    "pickle-bytearray": lambda d: pickle.dumps(bytearray(d), 5),
    "tar": lambda d: tarred("a.bin", d),
    "zip": lambda d: zipped("a.bin", d),
    "gzip": gzip.compress,
    "xz": lzma.compress,
    "pickle-list": lambda d: pickle.dumps([0, ["x", (d, 1)]], 4),
    "pickle-key": lambda d: pickle.dumps({d: 1}, 4),
}
AS_TEXT = {
    "json": jsoned,
    "json-key": lambda t: json.dumps({t: 1}).encode(),
    "json-list": lambda t: json.dumps([[t]]).encode(),
    "safetensors-metadata": safetensors_named,
    "gguf-metadata": lambda t: gguf(bytes(8), t),
    "onnx-prop": lambda t: onnx(b"\0", prop=t),
    "onnx-doc": lambda t: onnx(b"\0", doc=t),
    "onnx-node": lambda t: onnx(b"\0", node=t),
    "pickle-text": pickled,
    "pickle-text0": lambda t: pickle.dumps({"a": t}, 0),
    "pickle-text-key": lambda t: pickle.dumps({t: 1}, 4),
    "png-text": lambda t: png(b"parameters\0" + t.encode(), b"tEXt"),
    "zip-json": lambda t: zipped("a.json", jsoned(t)),
    "png-ztxt": lambda t: png(b"parameters\0\0" + zlib.compress(t.encode()), b"zTXt"),
    "gzip-json": lambda t: gzip.compress(jsoned(t)),
    "npz-name": lambda t: zipped(t.replace("\n", "")[:200] + ".npy", npy(bytes(8))),
}
WRAPS = {
    "none": bytes,
    "gzip": gzip.compress,
    "zlib": zlib.compress,
    "bz2": bz2.compress,
    "xz": lzma.compress,
    "lzma": lambda d: lzma.compress(d, lzma.FORMAT_ALONE),
    "zip": lambda d: zipped("m.pkl", d),
    "zip-deflated": lambda d: zipped("m.pkl", d, zipfile.ZIP_DEFLATED),
    "tar": lambda d: tarred("m.pkl", d),
}
CODES = {
    "base64": base64.b64encode,
    "lines": base64.encodebytes,
    "urlsafe": base64.urlsafe_b64encode,
    "unpadded": lambda d: base64.b64encode(d).rstrip(b"="),
    "data": lambda d: b"data:application/octet-stream;base64," + base64.b64encode(d),
    "crlf": lambda d: base64.encodebytes(d).replace(b"\n", b"\r\n"),
    "twice": lambda d: base64.b64encode(base64.b64encode(d)),
    "spaced": lambda d: (
        b"  " + b" ".join(base64.b64encode(d)[i : i + 64] for i in range(0, len(base64.b64encode(d)), 64))
    ),
}


def cases():
    """(what, bytes)"""
    inner = {}
    for name, data in PAYLOADS.items():
        for wrap, pack in WRAPS.items():
            inner["%s %s" % (name, wrap)] = pack(data)
        inner["%s gzip gzip" % name] = gzip.compress(gzip.compress(data))
        inner["%s zip zlib" % name] = zipped("m.pkl", zlib.compress(data))
        inner["%s in pickle" % name] = pickled(data)
        inner["%s zlib in pickle" % name] = pickled(zlib.compress(data))
    for what, data in inner.items():
        for outer, make in AS_BYTES.items():
            for tail in (0, 1, 50, 65000, 65535, 70000):
                if tail == 0 or what.split(" ", 1)[1] in ("none", "zip", "zip-deflated", "tar"):
                    yield "%s in %s, %d behind" % (what, outer, tail), make(data + b"\0" * tail)
            if what.startswith("h5 none"):
                for at in (512, 1024, 4096):
                    front = next(
                        (n for n in range(at) if make(b"\0" * n + data)[at : at + 8] == SIGNATURE), None
                    )
                    if front is not None:
                        yield "%s at %d in %s" % (what, at, outer), make(b"\0" * front + data)
            yield "%s behind %s" % (what, outer), make(bytes(100)) + data
            yield "%s behind %s and zeros" % (what, outer), make(bytes(100)) + bytes(700) + data
            yield "%s before %s" % (what, outer), data + make(bytes(100))
        for code, encode in CODES.items():
            for outer, make in AS_TEXT.items():
                if outer == "npz-name" and len(encode(data)) > 200:
                    continue  # of names no more is given here
                yield "%s as %s in %s" % (what, code, outer), make(encode(data).decode())
            yield "%s as %s in bytes of a pickle" % (what, code), pickled(encode(data))
            yield "%s as %s, packed, in a pickle" % (what, code), pickled(zlib.compress(encode(data)))
    for name in ("pickle", "pickle0"):
        for outer in ("safetensors", "gguf", "onnx", "npy"):
            yield (
                "%s in the middle of %s" % (name, outer),
                AS_BYTES[outer](bytes(99) + PAYLOADS[name] + bytes(99)),
            )
    yield from behind()


def behind():
    """one archive after another, and what is no archive"""
    for n, name in enumerate(PAYLOADS):
        first, second = tarred("a.txt", b"hi\n"), tarred("b.pkl", PAYLOADS[name])
        yield "%s in a tar behind a tar" % name, first + second
        yield "%s in a tar behind a tar without its end" % name, first[:1024] + second
        yield "%s in a tar behind a block that is none" % name, first + (b"junk" * 128) + second
        yield "%s behind a tar" % name, first + PAYLOADS[name]
        yield "%s behind text" % name, b"hello\n" * (n + 1) + PAYLOADS[name]


def harmless():
    """the same shells around nothing: (what, bytes)"""
    for outer, make in AS_BYTES.items():
        if outer not in ("zip", "tar", "gzip", "xz"):  # of what is no file in them nobody knows anything
            yield outer, make(bytes(100))
            yield outer, make(b"\x01\x02\x03\x04" * 500)
    for outer, make in AS_TEXT.items():
        yield outer, make("the quick brown fox jumps over the lazy dog")
        yield outer, make(base64.b64encode(bytes(range(200))).decode())
        yield outer, make(base64.b64encode(b"plain words in base64, many of them").decode())
    for name, data in PLAIN.items():
        yield name + " in base64", jsoned(base64.b64encode(data).decode())
        yield name + " in a pickle", pickled(data)
        yield name + " in safetensors", safetensors(data)
    yield "two tars", tarred("a.txt", b"hi\n") + tarred("b.txt", b"ho\n")
    yield "zlib in a pickle", pickled(zlib.compress(b"numbers" * 100))
    yield (
        "words like zlib",
        pickled(["hCabcdef", "xGxGxGxG", "8Oabcdefgh", "HKabcdefgh", "(Shello world)"] * 100),
    )


NAMES = {"json": "case.json", "jpeg": "case.jpg", "png": "case.png", "gif": "case.gif", "webp": "case.webp"}


def judge(tool, folder, batch):
    """verdicts of the files of one call"""
    names = []
    for number, what, data in batch:
        suffix = next((v for k, v in NAMES.items() if " in " + k in what or what.startswith(k)), "case.bin")
        names.append("%05d-%s" % (number, suffix))
        (folder / names[-1]).write_bytes(data)
    run = Run(tool, ["scan", "--json", *names], folder)
    out = {}
    for line in run.out.splitlines():
        report = json.loads(line)
        out[int(report["file"][:5])] = (
            report["verdict"],
            [(f["verdict"], f["rule"], f["subject"], f["message"]) for f in report["findings"]],
        )
    for name in names:
        (folder / name).unlink()
    return out, run


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tool", required=True)
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--only", default="")
    parser.add_argument("--each", type=int, default=16, help="files of one call")
    given = parser.parse_args()
    tool = os.path.abspath(given.tool)
    hostile = [c for c in cases() if given.only in c[0]]
    if not given.all and not given.only:
        middle = [c for c in hostile if "in the middle" in c[0]]
        hostile = random.Random(13).sample(hostile, 600) + middle
    good = [("good " + what, data) for what, data in harmless()]
    every = [(i, what, data) for i, (what, data) in enumerate(hostile + good)]
    faults, reached, dangerous, slowest, peak = [], 0, 0, 0.0, 0
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        for at in range(0, len(every), given.each):
            batch = every[at : at + given.each]
            verdicts, run = judge(tool, folder, batch)
            slowest, peak = max(slowest, run.spent), max(peak, run.peak)
            if run.spent > SECONDS or run.peak > MEMORY:
                faults.append(
                    "%.2f s, %d MiB for one of: %s"
                    % (run.spent, run.peak >> 20, ", ".join(c[1] for c in batch))
                )
            for number, what, data in batch:
                verdict, findings = verdicts.get(number, ("none", []))
                if what.startswith("good "):
                    if verdict != "harmless":
                        faults.append("%s: %s %s" % (what, verdict, findings[:3]))
                    continue
                reach(data, found := set())
                if not found and "behind" in what and verdict == "harmless":
                    continue  # too far from the end for Python, or behind the end of what nothing goes on to read
                reached += bool(found)
                dangerous += verdict == "dangerous"
                if verdict not in ("dangerous", "unknown"):
                    faults.append("%s: %s, Python reaches %s" % (what, verdict, sorted(found)))
    for fault in faults[:200]:
        print("FAULT", fault)
    print(
        "%d files, %d in which Python reaches the payload, %d dangerous; slowest call %.2f s, peak %d MiB; %d faults"
        % (len(every), reached, dangerous, slowest, peak >> 20, len(faults))
    )
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
