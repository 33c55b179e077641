# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Pickle streams, written opcode by opcode, that name one thing and hand it a harmless text. They are for a scanner to read: no
test loads one."""

import base64
import bz2
import gzip
import io
import lzma
import struct
import zipfile
import zlib


def short(text):
    data = text.encode("utf-8", "surrogatepass")
    return (
        b"\x8c" + bytes([len(data)]) + data if len(data) < 256 else b"X" + struct.pack("<I", len(data)) + data
    )


def line(text):
    return text.encode("utf-8", "surrogatepass") + b"\n"


ARGUMENT = b"(S'inert'\nt"
FORMS = {
    "global": lambda m, n: b"c" + line(m) + line(n) + ARGUMENT + b"R.",
    "protocol2": lambda m, n: b"\x80\x02c" + line(m) + line(n) + b"(X\x05\x00\x00\x00inerttR.",
    "stack": lambda m, n: b"\x80\x04" + short(m) + short(n) + b"\x93" + short("inert") + b"\x85R.",
    "framed": lambda m, n: (lambda body: b"\x80\x04\x95" + struct.pack("<Q", len(body)) + body)(
        short(m) + b"\x94" + short(n) + b"\x94\x93\x94" + short("inert") + b"\x94\x85\x94R\x94."
    ),
    "memo": lambda m, n: (
        b"\x80\x04" + short(m) + b"q\x000" + short(n) + b"q\x010h\x00h\x01\x93" + short("inert") + b"\x85R."
    ),
    "inst": lambda m, n: b"(S'inert'\ni" + line(m) + line(n) + b".",
    "obj": lambda m, n: b"(c" + line(m) + line(n) + b"S'inert'\no.",
    "newobj": lambda m, n: b"\x80\x02c" + line(m) + line(n) + b"(S'inert'\nt\x81.",
    "newobj_ex": lambda m, n: b"\x80\x04" + short(m) + short(n) + b"\x93)}\x92.",
    "build": lambda m, n: b"\x80\x02c" + line(m) + line(n) + b"}U\x01aU\x01bsb.",
    "not called": lambda m, n: b"\x80\x02c" + line(m) + line(n) + b".",
    "popped": lambda m, n: b"c" + line(m) + line(n) + ARGUMENT + b"R0N.",
    "behind a pop": lambda m, n: b"N0c" + line(m) + line(n) + ARGUMENT + b"R.",
    "behind a stop": lambda m, n: b"N.c" + line(m) + line(n) + ARGUMENT + b"R.",
    "no stop": lambda m, n: b"c" + line(m) + line(n) + ARGUMENT + b"R",
    "broken": lambda m, n: b"\x80\x02c" + line(m) + line(n) + ARGUMENT + b"R\xff\xff\xff",
    "and a line": lambda m, n: b"c" + line(m) + line(n) + ARGUMENT + b"R.\n",
    "in a list": lambda m, n: b"\x80\x02](K\x01c" + line(m) + line(n) + ARGUMENT + b"Re.",
}


def nested(stream):
    """A pickle as a value of a pickle."""
    return b"\x80\x04B" + struct.pack("<I", len(stream)) + stream + b"."


def in_zip(stream, name="archive/data.pkl", method=zipfile.ZIP_STORED):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as z:
        z.writestr(name, stream)
        z.writestr("archive/version", b"3\n")
    return out.getvalue()


WRAPS = {
    "bare": lambda s: s,
    "nested": nested,
    "base64": lambda s: b"\x80\x04" + short(base64.b64encode(s).decode()) + b".",
    "zip": in_zip,
    "deflated": lambda s: in_zip(s, method=zipfile.ZIP_DEFLATED),
    "odd member": lambda s: in_zip(s, "archive/readme.txt"),
    "zip in zip": lambda s: in_zip(in_zip(s), "inner.zip"),
    "gzip": gzip.compress,
    "zlib": zlib.compress,
    "bz2": bz2.compress,
    "xz": lzma.compress,
    "lzma": lambda s: lzma.compress(s, format=lzma.FORMAT_ALONE),
}
