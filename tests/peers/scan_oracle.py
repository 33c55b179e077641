#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""scan_oracle.py --tool TOOL [--count N] [--seed S] [--python PYTHON ...] - what CPython's unpicklers look up, scan names.

Random opcode streams, many of them programs that work, are given to CPython's own unpicklers - the C one over bytes, over
a file, over a file without peek, one Unpickler loaded again and again, and Lib/pickle.py's - whose find_class records the
name and returns an inert stand-in: nothing is imported, nothing is called but stand-ins. This happens in children with
limits of time and memory. The same bytes, bare, compressed, as members of zips and tars, go to `scan --json`, many files
to a call. Two properties:
  1. every name that an unpickler looked up is a finding of scan;
  2. a file of which a name outside the allow-list was looked up is not "harmless", unless nothing was called with it and it is
     listed as a note (raw bytes or words that an unpickler takes for a name, and then fails).
Behind lines of a text (which a program may read before it unpickles) the second counts for what is called.
Another interpreter may record, too: --python (3.8 to 3.14). A new seed is printed in every run; --keep DIR keeps what fails.
Standard library only.
"""

import argparse
import base64
import bz2
import concurrent.futures
import gzip
import io
import json
import lzma
import os
import pathlib
import pickle
import random
import struct
import subprocess
import sys
import tarfile
import tempfile
import zipfile
import zlib

BATCH = 1000  # files in one call of the tool, streams in one message to a recorder

# ---------------------------------------------------------------- the recorder, a process of its own

RECORDER = r"""
import io, json, pickle, resource, struct, sys
import warnings
resource.setrlimit(resource.RLIMIT_AS, (256 << 20, 256 << 20))  # C's memo is an array up to its largest number
warnings.simplefilter("ignore")
sys.unraisablehook = lambda *a: None
LOOKUPS = 4000

called = set()
class Meta(type):
    def __call__(cls, *a, **k):
        called.add(cls.looked_up)
        return object.__new__(cls)
    def __getattr__(cls, name):
        if name.startswith("__"): raise AttributeError(name)
        return Standin()
    def __setattr__(cls, name, value): pass
class Standin(metaclass=Meta):
    looked_up = None
    def __new__(cls, *a, **k):
        called.add(cls.looked_up)
        return object.__new__(Standin)
    def __init__(self, *a, **k): pass
    def __call__(self, *a, **k): return object.__new__(Standin)
    def __setstate__(self, state): pass
    def __setitem__(self, k, v): pass
    def append(self, v): pass
    def extend(self, v): pass
    def add(self, v): pass
    def __hash__(self): return 1
    def __eq__(self, other): return self is other
    def __iter__(self): return iter(())

found = set()
known = {}
class Enough(Exception): pass
def record(module, name):
    if len(found) >= LOOKUPS: raise Enough
    found.add((module, name))
    if (module, name) not in known:
        if len(known) > 5000: known.clear()
        known[module, name] = Meta("Named", (Standin,), {"looked_up": (module, name)})
    return known[module, name]
class C(pickle.Unpickler):
    def find_class(self, module, name): return record(module, name)
    def persistent_load(self, pid): return object.__new__(Standin)
class P(pickle._Unpickler):
    def find_class(self, module, name): return record(module, name)
    def persistent_load(self, pid): return object.__new__(Standin)
class Bare:  # no peek, no readinto
    def __init__(self, data): self.f = io.BytesIO(data)
    def read(self, n=-1): return self.f.read(n)
    def readline(self): return self.f.readline()

def again(make, f, kept):
    u = None
    for _ in range(20):
        before = f.tell() if hasattr(f, "tell") else None
        if u is None or not kept: u = make(f)
        u.load()
        if before is not None and f.tell() == before: return
        # A pickle that ends within its frame: what lies behind it, too, is walked before the frame's end, with the memo as that leaves it
        # ("pickle-trailing"); Python's own code, asked again, leaves it out, and has the memo as it was.
        frame = kept and getattr(getattr(u, "_unframer", None), "current_frame", None)
        if frame and frame.read(1): return

def ways(data):
    yield lambda: again(C, io.BufferedReader(io.BytesIO(data)), False)
    yield lambda: again(C, io.BytesIO(data), False)
    yield lambda: again(C, io.BytesIO(data), True)
    yield lambda: again(C, Bare(data), False)
    yield lambda: again(P, io.BytesIO(data), False)
    yield lambda: again(P, io.BytesIO(data), True)
    yield lambda: again(lambda f: C(f, encoding="latin1"), io.BytesIO(data), False)
    yield lambda: again(lambda f: P(f, encoding="latin1"), io.BytesIO(data), False)
    yield lambda: again(lambda f: C(f, encoding="bytes", fix_imports=False), io.BytesIO(data), False)
    yield lambda: again(lambda f: C(f, buffers=iter([b"x"] * 9)), io.BytesIO(data), False)

def main():
    stdin, stdout = sys.stdin.buffer, sys.stdout.buffer
    while True:
        head = stdin.read(4)
        if len(head) < 4: return
        out = []
        for _ in range(struct.unpack("<I", head)[0]):
            data = stdin.read(struct.unpack("<I", stdin.read(4))[0])
            found.clear()
            called.clear()
            for way in ways(data):
                try: way()
                except (Exception, RecursionError): pass
            out.append([sorted([m, n] for m, n in names if (m, n) != (None, None)) for names in (found, called - {None})])
        text = json.dumps(out).encode()
        stdout.write(struct.pack("<I", len(text)) + text)
        stdout.flush()
main()
"""


class Recorder:
    def __init__(self, python):
        kept = dict(
            os.environ, MALLOC_MMAP_THRESHOLD_=str(1 << 30), MALLOC_TRIM_THRESHOLD_=str(1 << 30)
        )  # memory is not given back each time
        self.process = subprocess.Popen(
            [python, "-S", "-c", RECORDER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=kept
        )

    def names(self, streams):
        message = struct.pack("<I", len(streams)) + b"".join(struct.pack("<I", len(s)) + s for s in streams)
        with concurrent.futures.ThreadPoolExecutor(1) as one:
            one.submit(lambda: (self.process.stdin.write(message), self.process.stdin.flush()))
            head = self.process.stdout.read(4)
            if len(head) < 4:
                raise SystemExit("a recorder died")
            return [
                tuple(set(map(tuple, names)) for names in both)
                for both in json.loads(self.process.stdout.read(struct.unpack("<I", head)[0]))
            ]

    def close(self):
        self.process.stdin.close()
        self.process.wait()


# ---------------------------------------------------------------- streams

NAMES = [
    ("os", "system"),
    ("posix", "system"),
    ("builtins", "eval"),
    ("__builtin__", "eval"),
    ("subprocess", "Popen"),
    ("collections", "OrderedDict"),
    ("torch._utils", "_rebuild_tensor_v2"),
    ("numpy.core.multiarray", "_reconstruct"),
    ("a", "b"),
    ("my.module", "Class.method"),
    ("urllib2", "urlopen"),
    ("_codecs", "encode"),
    ("nt", "system"),
    ("torch", "FloatStorage"),
    ("operator", "attrgetter"),
    ("functools", "partial"),
    ("runpy", "run_path"),
    ("copyreg", "_reconstructor"),
    ("copy_reg", "_reconstructor"),
    ("os ", "x y"),
    ("\u00fc", "\u4e2d"),
    ("os.path", "join"),
    ("torch._utils", "_rebuild_tensor.__globals__"),
    ("httplib", "HTTPConnection"),
    ("pip", "main"),
    ("joblib.numpy_pickle", "NumpyArrayWrapper"),
]
ALLOWED = {
    ("collections", "OrderedDict"),
    ("torch._utils", "_rebuild_tensor_v2"),
    ("numpy.core.multiarray", "_reconstruct"),
    ("torch", "FloatStorage"),
    ("_codecs", "encode"),
    ("copyreg", "_reconstructor"),
    ("copy_reg", "_reconstructor"),
    ("joblib.numpy_pickle", "NumpyArrayWrapper"),
    ("collections", "Counter"),
    ("collections", "deque"),
    ("datetime", "timedelta"),
    ("decimal", "Decimal"),
}
ALLOWED |= {
    (m, n)
    for m in ("builtins", "__builtin__")
    for n in (
        "set",
        "frozenset",
        "bytearray",
        "Ellipsis",
        "NotImplemented",
        "range",
        "xrange",
        "slice",
        "complex",
    )
}
OPCODES = bytes(range(0x80, 0x99)) + b"(.012FIJKLMNPQRSTUVXabcd}eghijl]opqrst)uGBC"


class Maker:
    """Writes streams whose stack it roughly knows, and breaks its own rules now and then."""

    def __init__(self, rng):
        self.r = rng

    def string(self, text, binary_only=False):
        """Some opcode that pushes this text, perhaps wrongly for CPython."""
        r = self.r
        raw = text.encode("utf-8", "surrogatepass")
        k = r.randrange(10)
        if k == 0:
            return b"X" + struct.pack("<I", len(raw)) + raw
        if k == 1 and len(raw) < 256:
            return b"\x8c" + bytes([len(raw)]) + raw
        if k == 2:
            return b"\x8d" + struct.pack("<Q", len(raw)) + raw
        if k == 3:
            return (
                b"V"
                + "".join(
                    c
                    if 31 < ord(c) < 127 and c != "\\" and r.random() < 0.8
                    else "\\u%04x" % ord(c)
                    if ord(c) < 65536
                    else "\\U%08x" % ord(c)
                    for c in text
                ).encode()
                + b"\n"
            )
        if k in (4, 5) and raw.isascii():
            q = r.choice("'\"")
            body = "".join(
                c if r.random() < 0.7 and c not in "\\'\"\n" else r.choice(["\\x%02x", "\\%03o"]) % ord(c)
                for c in text
            )
            return b"S" + (q + body + q).encode() + b"\n"
        if k == 6 and len(raw) < 256:
            return b"U" + bytes([len(raw)]) + raw
        if k == 7:
            return b"T" + struct.pack("<i", len(raw)) + raw
        return b"\x8c" + bytes([len(raw) & 255]) + raw[:255]

    def number(self):
        r = self.r
        return r.choice(
            [
                b"K\x05",
                b"M\x05\x01",
                b"J\xff\xff\xff\x7f",
                b"I7\n",
                b"I01\n",
                b"I0x1f\n",
                b"L12L\n",
                b"L-3\n",
                b"F1.5\n",
                b"Finf\n",
                b"G" + bytes(8),
                b"\x8a\x01\x07",
                b"\x8a\x00",
                b"\x8b\x02\x00\x00\x00\x01\x02",
                b"I 3 \n",
                b"I\x00\n",
                b"I1_0\n",
                b"F 2\n",
                b"F1_0.5\n",
                b"I017\n",
                b"L0b1\n",
            ]
        )

    def far(self, n):
        """A number of the memo. CPython's is an array up to the largest: those that cost it megabytes are few."""
        k = self.r.randrange(600)
        return 1 << 20 if k == 0 else 70000 if k < 8 else 300 if k < 200 else n

    def put(self):
        r = self.r
        n = r.randrange(6)
        return r.choice(
            [
                b"q" + bytes([n]),
                b"r" + struct.pack("<I", self.far(n)),
                b"p%d\n" % n,
                b"\x94",
                b"\x94",
                b"p 0_%d\n" % n,
                b"p99999999999999999999\n",
            ]
        )

    def get(self):
        r = self.r
        n = r.randrange(6)
        return r.choice(
            [
                b"h" + bytes([n]),
                b"h" + bytes([n]),
                b"j" + struct.pack("<I", self.far(n)),
                b"g%d\n" % n,
                b"g+%d\n" % n,
                b"g99999999999999999999\n",
            ]
        )

    def name(self):
        r = self.r
        module, name = r.choice(NAMES)
        k = r.randrange(11)
        m, n = module.encode("utf-8", "replace"), name.encode("utf-8", "replace")
        if k < 2:
            return b"c" + m + b"\n" + n + b"\n"
        if k == 2:
            return (
                b"(" + b"".join(self.value(1) for _ in range(r.randrange(3))) + b"i" + m + b"\n" + n + b"\n"
            )
        if k == 3:
            return b"i" + m + b"\n" + n + b"\n"  # without a mark
        a, b = self.string(module), self.string(name)
        if k == 4:
            return (
                a + self.put() + b"0" + b + self.put() + self.get() + b"0" + self.get() + self.get() + b"\x93"
            )
        if k == 5:
            return a + b"2" + b"0" + b + b"\x93"
        if k == 6:
            return (
                b"("
                + self.value(1)
                + a
                + b"1"
                + a
                + b"q\x01"
                + b
                + b"q\x02"
                + b"0"
                + b"0"
                + b"h\x01h\x02\x93"
            )
        if k == 7:
            return self.string("x") + b"q\x03" + b"0" + a + b"q\x03" + b"0" + b"h\x03" + b + b"\x93"
        if k == 8:
            return a + b"\x94" + b + b"\x94\x93"
        return a + b + b"\x93"

    def call(self, depth):
        r = self.r
        k = r.randrange(8)
        args = b"".join(self.value(depth + 1) for _ in range(r.randrange(3)))
        if k == 0:
            return b"(" + self.name() + args + b"o"
        if k == 1:
            return self.name() + b"(" + args + b"t\x81"
        if k == 2:
            return self.name() + b")" + b"}" + b"\x92"
        if k == 3:
            return self.name() + b")R" + r.choice([b"}b", b"Nb", b"]b", self.value(depth + 1) + b"b"])
        if k == 4:
            return self.name() + r.choice([b"(" + args + b"l", b"]", b"N", b"}"]) + b"R"
        if k == 5:
            return self.name() + b"(" + args + b"tR" + b"(" + args + b"e"
        if k == 6:
            return self.name() + b")R" + self.value(depth + 1) + self.value(depth + 1) + b"s"
        return self.name() + b"(" + args + b"tR"

    def value(self, depth=0):
        r = self.r
        k = r.randrange(22 if depth < 5 else 8)
        if k < 2:
            return self.number()
        if k < 4:
            return self.string(r.choice(["x", "os", "system", "", "a.b", "\u00e9"]))
        if k == 4:
            return r.choice([b"N", b"\x88", b"\x89", b")", b"]", b"}", b"\x8f"])
        if k == 5:
            return self.bytes_value()
        if k == 6:
            return self.get()
        if k == 7:
            return r.choice(
                [
                    b"Pid\n",
                    b"NQ",
                    b"\x97",
                    b"C\x01x\x98",
                    b"\x82\x01",
                    b"\x83\x01\x00",
                    b"\x84\x01\x00\x00\x00",
                ]
            )
        if k < 11:
            return self.name()
        if k < 14:
            return self.call(depth)
        if k == 14:
            return (
                b"("
                + b"".join(self.value(depth + 1) for _ in range(r.randrange(4)))
                + r.choice(b"tld\x911").to_bytes(1, "little")
            )
        if k == 15:
            return b"](" + b"".join(self.value(depth + 1) for _ in range(r.randrange(4))) + b"e"
        if k == 16:
            return (
                b"}("
                + b"".join(self.string("k%d" % i) + self.value(depth + 1) for i in range(r.randrange(3)))
                + b"u"
            )
        if k == 17:
            return self.value(depth + 1) + self.put() + (b"0" + self.get() if r.random() < 0.5 else b"")
        if k == 18:
            return self.value(depth + 1) + r.choice([b"20", b"0N", b"2\x860N", b"\x85", b"N\x86"])
        if k == 19:
            return b"\x8f(" + self.number() + b"\x90"
        if k == 20:
            return self.value(depth + 1) + self.value(depth + 1) + self.value(depth + 1) + b"\x87"
        return self.frame(self.value(depth + 1))

    def bytes_value(self):
        r = self.r
        raw = bytes(r.randrange(256) for _ in range(r.randrange(12)))
        return r.choice(
            [
                b"C" + bytes([len(raw)]) + raw,
                b"B" + struct.pack("<I", len(raw)) + raw,
                b"\x8e" + struct.pack("<Q", len(raw)) + raw,
                b"\x96" + struct.pack("<Q", len(raw)) + raw,
            ]
        )

    def frame(self, body):
        r = self.r
        size = len(body) + r.choice([0, 0, 0, 0, 1, -1, 2, -3, 5, 100, 1 << 20])
        return b"\x95" + struct.pack("<Q", max(size, 0)) + body

    def pickle(self):
        r = self.r
        head = b""
        if r.random() < 0.5:
            head = b"\x80" + bytes([r.choice([0, 1, 2, 3, 4, 5, 4, 2])])
        body = b"".join(
            self.value() + r.choice([b"0", b"0", b"", self.put()]) for _ in range(r.randrange(1, 5))
        )
        if r.random() < 0.3:
            body = self.frame(body + r.choice([b"", b"."]))
        return head + body + r.choice([b".", b".", b".", b"", b"0.", b"N."])

    def stream(self):
        r = self.r
        k = r.randrange(20)
        if k < 12:
            s = self.pickle()
        elif k < 16:
            s = b"".join(self.pickle() + r.choice([b"", b"", b"\n"]) for _ in range(r.randrange(2, 5)))
        elif k == 16:
            s = bytes(r.choice(OPCODES) for _ in range(r.randrange(1, 40)))
        elif k == 17:
            s = bytes(r.randrange(256) for _ in range(r.randrange(1, 60)))
        else:
            s = self.real()
        if r.random() < 0.25 and s:
            s = self.mutate(s)
        return s

    def real(self):
        """A pickle by CPython's own pickler."""
        r = self.r
        import datetime
        import decimal
        from collections import Counter, OrderedDict, deque

        value = r.choice(
            [
                OrderedDict(a=1),
                Counter("aab"),
                deque([1, 2]),
                datetime.timedelta(3),
                decimal.Decimal("1.5"),
                {"a": [1, (2, "x")]},
                set([1, 2]),
                frozenset("ab"),
                b"bytes" * 9,
                bytearray(b"abc"),
                Ellipsis,
                NotImplemented,
                len,
                range(3),
                slice(1, 2),
                complex(1, 2),
                "text" * 300,
                [1 << 70, -5, 1.25, None, True],
                os.getcwd,
                struct.Struct,
                1 << 900,
                ["a"] * 1100,
            ]
        )
        try:
            return pickle.dumps(value, r.randrange(6))
        except Exception:
            return pickle.dumps(1)

    def mutate(self, s):
        r = self.r
        s = bytearray(s)
        for _ in range(r.randrange(1, 4)):
            k, at = r.randrange(5), r.randrange(len(s) + 1)
            if k == 0 and s:
                s[at % len(s)] = r.choice(OPCODES)
            elif k == 1:
                s[at:at] = bytes([r.choice(OPCODES)])
            elif k == 2 and s:
                del s[at % len(s)]
            elif k == 3:
                s[at:at] = self.value(4)
            else:
                s[at:] = b"" if r.random() < 0.3 else s[at:]
        return bytes(s)


LINES = "behind lines of a text"
SMALL = [
    {"id": lzma.FILTER_LZMA2, "preset": 0, "dict_size": 4096}
]  # an encoder's buffers cost more than its work
MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # a million files are made and read


def wrap(rng, stream):
    """(way, bytes of a file that holds the stream)"""
    k = rng.randrange(16)
    out = io.BytesIO()
    if k > 13:
        return LINES, rng.choice(
            [b"# words\n", b"one\ntwo words\n\n", b"a,b\n1,2\n2.5,0\n", b"cat food\nis good\n"]
        ) + stream
    if k == 0:
        return "gzip", gzip.compress(stream, rng.choice([1, 9]))
    if k == 1:
        return "zlib", zlib.compress(stream)
    if k == 2:
        return "bzip2", bz2.compress(stream, 1)
    if k == 3:
        return "xz", lzma.compress(stream, filters=SMALL)
    if k == 4:
        return "lzma", lzma.compress(
            stream, format=lzma.FORMAT_ALONE, filters=[dict(SMALL[0], id=lzma.FILTER_LZMA1)]
        )
    if k == 5:
        with zipfile.ZipFile(out, "w", rng.choice([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])) as z:
            z.writestr(rng.choice(["a/data.pkl", "readme.txt", "x.npy", "m/data/0", "b/c/d.bin"]), stream)
        return "zip", out.getvalue()
    if k == 6:
        with tarfile.open(fileobj=out, mode="w:gz" if rng.random() < 0.5 else "w") as t:
            info = tarfile.TarInfo("a/weights.ckpt")
            info.size = len(stream)
            t.addfile(info, io.BytesIO(stream))
        return "tar", out.getvalue()
    if k == 7:
        return "gzip twice", gzip.compress(gzip.compress(stream))
    return "bare", stream


# ---------------------------------------------------------------- the tool


def scan(tool, folder, files, suffixes):
    paths = []
    for i, data in enumerate(files):
        path = "%05d%s" % (i, suffixes[i])
        fd = os.open(folder / path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.write(fd, data)
        os.close(fd)
        paths.append(path)
    done = subprocess.run(
        [tool, "scan", "--json", "-v", *paths], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    if done.returncode not in (0, 1) or done.stderr:
        raise SystemExit("scan: status %d: %s" % (done.returncode, done.stderr.decode()[:500]))
    lines = [json.loads(line) for line in done.stdout.decode("utf-8", "surrogatepass").splitlines()]
    if len(lines) != len(files):
        raise SystemExit("scan: %d answers to %d files" % (len(lines), len(files)))
    return lines


def shown(module, name):
    """A name as scan's findings have it: at most 512 bytes of each half, NUL as \\x01, and cut at 512 bytes together."""
    raw = b".".join(
        part.encode("utf-8", "surrogatepass")[:512].replace(b"\0", b"\1") for part in (module, name)
    )
    return raw[:512]


def latin1(name):
    """What encoding="latin1" makes of the strings of Python 2 is shown by its bytes, U+FFFD where these are no text."""
    try:
        return tuple(part.encode("latin1").decode("utf-8", "surrogatepass") for part in name)
    except UnicodeDecodeError:
        return tuple(part.encode("latin1").decode("utf-8", "replace") for part in name)
    except UnicodeEncodeError:
        return name


def mixed(name):
    """One half of it such a string."""
    module, text = latin1((name[0],))[0], latin1((name[1],))[0]
    return {shown(m, n) for m in (name[0], module) for n in (name[1], text)}


def refused(name):
    """No import takes a module with an empty part."""
    return "" in name[0].split(".")


def worded(name):
    """Words of a sentence, as no file or attribute is called: behind lines of a text these are prose."""
    return (
        not all(name)
        or refused(name)
        or any(c <= " " or c in "!\"#$%&'()*,:;<=>?[\\]^`{|}" for part in name for c in part)
    )


def batch(tool, seed, count, recorders, keep):
    rng = random.Random(seed)
    maker = Maker(rng)
    streams = [maker.stream() for _ in range(count)]
    wrapped = [wrap(rng, s) for s in streams]
    names, called = [set() for _ in streams], [set() for _ in streams]
    for recorder in recorders:
        for i, (looked_up, acts) in enumerate(recorder.names(streams)):
            names[i] |= looked_up
            called[i] |= acts
    for i, (way, _) in enumerate(wrapped):  # of words only what is called counts, and could be a name
        names[i] = {n for n in called[i] if not worded(n)} if way == LINES else names[i]
    faults, looked, reached = [], 0, 0
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        answers = scan(
            tool,
            pathlib.Path(folder),
            [data for _, data in wrapped],
            [".txt" if way == LINES else "" for way, _ in wrapped],
        )
    for i, (answer, found) in enumerate(zip(answers, names)):
        subjects = {f["subject"].encode("utf-8", "surrogatepass") for f in answer["findings"]}
        rules = {f["rule"] for f in answer["findings"]}
        looked += len(found)
        reached += bool(found)
        missing = [n for n in found if not mixed(n) & subjects]
        why = None
        if (
            missing
            and "walk-limit" not in rules
            and (wrapped[i][0] != LINES or answer["verdict"] == "harmless")
        ):
            why = "not named: %r" % (missing[:3],)
        noted = {
            f["subject"].encode("utf-8", "surrogatepass") for f in answer["findings"] if f["kind"] == "note"
        }
        heard = {
            n for n in found - ALLOWED if not refused(n) and n in called[i] or not mixed(n) & noted
        }  # the others are listed as words
        if why is None and answer["verdict"] == "harmless" and heard:
            why = "harmless, though it looks up %r" % (sorted(heard)[:3],)
        if why:
            faults.append(
                "%s, batch %d, stream %d (%s): %s: %s"
                % (
                    answer["verdict"],
                    seed,
                    i,
                    wrapped[i][0],
                    why,
                    base64.b64encode(streams[i][:300]).decode(),
                )
            )
            if keep:
                os.makedirs(keep, exist_ok=True)
                (pathlib.Path(keep) / ("%d-%d.pkl" % (seed, i))).write_bytes(streams[i])
                (pathlib.Path(keep) / ("%d-%d.file" % (seed, i))).write_bytes(wrapped[i][1])
    return faults, looked, reached


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tool", required=True)
    parser.add_argument("--count", type=int, default=10000)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--python", action="append", default=[])
    parser.add_argument("--keep")
    args = parser.parse_args()
    tool = os.path.abspath(args.tool)
    fixed = 20261122
    # half of the streams are always the same, half are new
    seed = args.seed if args.seed is not None else random.SystemRandom().randrange(1 << 40)
    print("new seed %d" % seed, flush=True)
    recorders = [Recorder(python) for python in [sys.executable, *args.python]]
    faults, looked, reached, done = [], 0, 0, 0
    at = 0
    while done < args.count:
        n = min(BATCH, args.count - done)
        f, names, files = batch(
            tool, (fixed if at % 2 == 0 and args.seed is None else seed) + at, n, recorders, args.keep
        )
        faults += f
        looked += names
        reached += files
        done += n
        at += 1
        if done % 25000 < BATCH:
            print("%d streams, %d lookups, %d faults" % (done, looked, len(faults)), flush=True)
        if len(faults) > 40:
            break
    for recorder in recorders:
        recorder.close()
    for f in faults[:40]:
        print("FAULT", f)
    print(
        "%d streams, %d of them look names up, %d lookups, %d faults" % (done, reached, looked, len(faults))
    )
    if looked < done // 4:
        print("FAULT too few lookups: the streams test nothing")
        return 1
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
