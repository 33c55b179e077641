#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""hostile_tf.py --tool TOOL [--table] [--corpus FOLDER] - as hostile.py, for TensorFlow's tensor bundles: an index made
here, its shards beside it, each as wrong as the case says. Also what no writer of today makes: big-endian data, blocks
of two entries. Bounds: those of hostile.py. --corpus writes the cases as seeds for fuzz_tf. Standard library only."""

import argparse
import json
import os
import pathlib
import re
import shutil
import struct
import sys
import tempfile

from hostile_proto import field, varint
from load_cases import ANY, LIMIT_SECONDS, H, Run, U

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from crc32c import crc32c  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
MAGIC = struct.pack("<Q", 0xDB4775248B80FB57)
DATA = struct.pack("<4f", 1, 2, 3, 4)
CASES = []  # name, files, what to open, verdict or ANY, word of the error or None, rows or None


def masked(data):
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


# ---------------------------------------------------------------- tables


def pairs(entries, every=16, share=True):
    """Entries of a block and its restart points."""
    out, restarts, last = b"", [], b""
    for n, (key, value) in enumerate(entries):
        shared = 0
        if n % every == 0:
            restarts.append(len(out))
        elif share:
            shared = len(os.path.commonprefix([last, key]))
        out += varint(shared) + varint(len(key) - shared) + varint(len(value)) + key[shared:] + value
        last = key
    return out, restarts or [0]


def block(entries=b"", restarts=(0,), count=None):
    return (
        entries
        + b"".join(struct.pack("<I", r) for r in restarts)
        + struct.pack("<I", len(restarts) if count is None else count)
    )


BLOCKS = []  # of one each, for the corpus


def table(blocks, keys, handles=None, kind=0, index=None, footer=None, crc=None, meta=None):
    """blocks: bytes of each; keys: the index's, one for each. The rest: what is to be wrong."""
    out, places = b"", []
    BLOCKS.append(blocks[0])

    def put(data, type_byte=0):
        nonlocal out
        at = len(out)
        out += (
            data
            + bytes([type_byte])
            + struct.pack("<I", masked(data + bytes([type_byte])) if crc is None else crc)
        )
        return at, len(data)

    for b in blocks:
        places.append(put(b, kind))
    meta = meta or put(block())
    listing = [(k, varint(h[0]) + varint(h[1])) for k, h in zip(keys, handles(places) if handles else places)]
    place = put(block(*pairs(listing, 1)) if index is None else index)
    end = b"".join(varint(v) for v in (*meta, *place))
    return out + (end.ljust(40, b"\0") + MAGIC if footer is None else footer(end, meta, place))


def header(shards=1, more=b""):
    return field(1, shards) + field(3, field(1, 1)) + more


def shape(*dims):
    return b"".join(field(2, field(1, d) if d else b"") for d in dims)


def entry(dims=(4,), kind=1, shard=0, offset=0, size=16, data=DATA, more=b"", crc=None):
    out = field(1, kind) + field(2, shape(*dims))
    out += (
        (field(3, shard) if shard else b"")
        + (field(4, offset) if offset else b"")
        + (field(5, size) if size else b"")
    )
    return out + b"\x35" + struct.pack("<I", masked(data) if crc is None else crc) + more


def bundle(*entries, head=None, per=None, every=16):
    """A whole index: entries sorted, blocks of `per` entries."""
    rows = [(b"", header() if head is None else head)] + sorted(
        (k.encode() if isinstance(k, str) else k, v) for k, v in entries
    )
    per = per or len(rows)
    parts = [rows[i : i + per] for i in range(0, len(rows), per)]
    return table([block(*pairs(p, every)) for p in parts], [p[-1][0] for p in parts])


def number(n):
    raw = n.to_bytes((n.bit_length() + 7) // 8, "big")
    return bytes([len(raw)]) + raw


def signed(n):
    """OrderedCode's signed numbers."""
    length = 1
    while (~n if n < 0 else n) >> (7 * length - 1):
        length += 1
    whole = (n & (1 << 80) - 1) if n < 0 else n
    raw = bytearray((whole & (1 << 8 * length) - 1).to_bytes(length, "big"))
    for i in range(length):
        raw[i // 8] ^= 0x80 >> i % 8
    return bytes(raw)


def slice_key(name, *extents):
    out = b"\0" + name.encode().replace(b"\xff", b"\xff\0") + b"\0\1" + number(len(extents))
    return out + b"".join(signed(a) + signed(n) for a, n in extents)


def spec(*extents):
    return field(
        7,
        b"".join(
            field(1, (field(1, a) if a else b"") + (field(2, n) if n >= 0 else b"")) for a, n in extents
        ),
    )


def halves(
    name="v",
    first=((0, 2),),
    second=((2, 2),),
    dims=(4,),
    one=(2,),
    two=(2,),
    sizes=(8, 8),
    skip=(),
    data=DATA,
):
    rows = [
        (name, field(1, 1) + field(2, shape(*dims)) + spec(*first) + spec(*second)),
        (slice_key(name, *first), entry(one, size=sizes[0], data=data[: sizes[0]])),
        (slice_key(name, *second), entry(two, offset=sizes[0], size=sizes[1], data=data[sizes[0] :])),
    ]
    return [r for i, r in enumerate(rows) if i not in skip]


# ---------------------------------------------------------------- the cases


def case(name, index, verdict, error, shards=(DATA,), path="m.index", rows=None, total=None, files=()):
    count = len(shards) if total is None else total
    found = {"m.data-%05d-of-%05d" % (i, count): s for i, s in enumerate(shards)}
    found.update({"m.index": index}, **dict(files))
    CASES.append((name, found, path, verdict, error, rows))


def tables():
    good = bundle(("w", entry()))
    rows = [(b"", header()), (b"w", entry())]
    body, points = pairs(rows)
    flat = block(body, points)
    case("good", good, H, None, rows={"w": ["F32", [4], DATA]})
    case("by its prefix", good, H, None, path="m", rows={"w": ["F32", [4], DATA]})
    case(
        "blocks of one entry",
        bundle(("a", entry()), ("b", entry(offset=16)), per=1),
        H,
        None,
        shards=(DATA * 2,),
    )
    case(
        "blocks of two, every second a restart",
        bundle(*(("t%03d" % i, entry(offset=16 * i)) for i in range(40)), per=2, every=2),
        H,
        None,
        shards=(DATA * 40,),
    )
    case("a checksum of a block", table([flat], [b"w"], crc=1), U, "CRC32C")
    case("snappy", table([flat], [b"w"], kind=1), U, "snappy")
    case("unknown compression", table([flat], [b"w"], kind=7), U, "unknown type 7")
    case("a block outside", table([flat], [b"w"], handles=lambda p: [(1 << 40, 100)]), U, "tf-table")
    case(
        "a block of 2^64-1 bytes",
        table([flat], [b"w"], handles=lambda p: [(0, (1 << 64) - 1)]),
        U,
        "tf-table",
    )
    case(
        "a block that ends in the footer",
        table([flat], [b"w"], handles=lambda p: [(0, 10**3)]),
        U,
        "tf-table",
    )
    case(
        "the same block 1,000 times",
        table([flat], [b"w%04d" % i for i in range(1000)], handles=lambda p: p * 1000),
        U,
        "used twice",
    )
    case(
        "a block in a block",
        table([flat, flat], [b"w", b"x"], handles=lambda p: [p[0], (p[0][0] + 1, 9)]),
        U,
        "used twice",
    )
    case(
        "blocks backwards",
        table([flat, block(*pairs([(b"x", entry())]))], [b"w", b"x"], handles=lambda p: p[::-1]),
        ANY,
        "+",
    )
    case(
        "index: a place and more",
        table([flat], [b"w"], index=block(*pairs([(b"w", varint(0) + varint(9) + b"x")]))),
        U,
        "no place",
    )
    case("index: half a place", table([flat], [b"w"], index=block(*pairs([(b"w", b"\x80")]))), U, "no place")
    case("index: empty", table([flat], [b"w"], index=block()), U, "restart")
    case("index: no restart points", table([flat], [b"w"], index=b""), U, "restart")
    case("index: key below its block's", table([flat], [b"a"]), U, "above the one")
    case(
        "index: second block not above the first",
        table([flat, block(*pairs([(b"w", entry())]))], [b"w", b"x"]),
        U,
        "earlier block",
    )
    case(
        "footer: no room for places",
        table([flat], [b"w"], footer=lambda e, m, p: b"\x80" * 40 + MAGIC),
        U,
        "footer",
    )
    case(
        "footer: the index is itself",
        table(
            [flat],
            [b"w"],
            footer=lambda e, m, p: (
                (varint(m[0]) + varint(m[1])) * 2 + bytes(40 - 2 * len(varint(m[0]) + varint(m[1]))) + MAGIC
            ),
        ),
        U,
        "restart",
    )
    case(
        "footer: the index is the data",
        table(
            [flat],
            [b"w"],
            footer=lambda e, m, p: (
                (varint(m[0]) + varint(m[1]) + b"\0" + varint(len(flat))).ljust(40, b"\0") + MAGIC
            ),
        ),
        U,
        "+",
    )
    case("restarts: none", table([block(body, ())], [b"w"]), U, "restart")
    case("restarts: 2^32-1", table([block(body, points, 2**32 - 1)], [b"w"]), U, "restart")
    case("restarts: one outside", table([block(body, [0, 10**6])], [b"w"]), U, "restart")
    case("restarts: one in an entry", table([block(body, [0, 3])], [b"w"]), U, "restart")
    case("restarts: first not 0", table([block(body, [1])], [b"w"]), U, "restart")
    case("restarts: twice the same", table([block(body, [0, 0])], [b"w"]), U, "restart")
    long = [(b"", header()), (b"aa", entry()), (b"ab", entry(offset=16))]
    listing = pairs(long)[0]
    second = len(pairs(long[:2])[0])
    case(
        "restarts: an entry that shares",
        table([block(listing, [0, second])], [b"ab"]),
        U,
        "restart",
        shards=(DATA * 2,),
    )
    case(
        "shares more than there is",
        table([block(pairs(rows[:1])[0] + varint(5) + varint(1) + varint(0) + b"x")], [b"x"]),
        U,
        "shares more",
    )
    case(
        "key longer than the block",
        table([block(pairs(rows[:1])[0] + varint(0) + varint(500) + varint(0) + b"x")], [b"x"]),
        U,
        "longer",
    )
    case(
        "value of 2^63",
        table([block(pairs(rows[:1])[0] + varint(0) + varint(1) + varint(1 << 63) + b"x")], [b"x"]),
        U,
        "longer",
    )
    case(
        "keys out of order",
        table([block(*pairs([(b"", header()), (b"b", entry()), (b"a", entry())]))], [b"b"]),
        U,
        "not above",
    )
    case(
        "key twice",
        table([block(*pairs([(b"", header()), (b"b", entry()), (b"b", entry())]))], [b"b"]),
        U,
        "not above",
    )
    case("key of 300,000 bytes", bundle(("k" * 300000, entry())), U, "limit")
    many = [(b"", header()), (b"k" * 200000, entry(kind=7))]
    extra = b"".join(varint(200000 + i) + varint(1) + varint(2) + b"k" + field(1, 7) for i in range(50000))
    case("50,000 keys of 200,000 bytes", table([block(pairs(many)[0] + extra)], [b"l"]), U, "memory")
    case(
        "one header, no block of 100 MB",
        table([flat], [b"w"], handles=lambda p: [(0, 100 << 20)]),
        U,
        "tf-table",
    )
    case("LevelDB's own", table([block(*pairs([(b"a", b"b")]))], [b"a"]), ANY, ANY)
    case("a pickle in front", b"\x80\x02cos\nsystem\nX\x02\0\0\0id\x85R." + good, ANY, "+", rows=None)


def bundles():
    case("header: no shards", bundle(("w", entry()), head=header(0)), U, "without shards")
    case("header: 2^31 shards", bundle(("w", entry()), head=header(1 << 31)), U, "limit")
    case("header: order 2", bundle(("w", entry()), head=header(more=field(2, 2))), U, "unknown order")
    case(
        "header: for later readers",
        bundle(("w", entry()), head=field(1, 1) + field(3, field(1, 9) + field(2, 2))),
        U,
        "version 2",
    )
    case("header: version 1 of checkpoints", bundle(("w", b"x"), head=field(1, field(1, b""))), U, "0.12")
    case("header: cut", bundle(("w", entry()), head=b"\x08"), U, "varint")
    case("header: group", bundle(("w", entry()), head=header() + b"\x0b"), U, "wire type")
    case("nothing but a header", bundle(), H, None)
    case("shard 1 of 1", bundle(("w", entry(shard=1))), U, "shard 1 of 1")
    case("shard -1", bundle(("w", entry(shard=-1))), U, "of 1")
    case(
        "65,536 shards, one there",
        bundle(("w", entry(shard=65535)), head=header(65536)),
        U,
        "tf-bundle: m.data-65535-of-65536",
        total=65536,
    )
    case("shard missing", bundle(("w", entry())), U, "m.data-00000-of-00001: cannot open", shards=(), total=1)
    case("offset outside", bundle(("w", entry(offset=1))), U, "which has 16")
    case("offset 2^64-1", bundle(("w", entry(offset=-1))), U, "which has 16")
    case("size too small", bundle(("w", entry(size=12))), U, "shape and type need 16")
    case("size -1", bundle(("w", entry(size=-1))), U, "shape and type need 16")
    case("size of a larger shape", bundle(("w", entry((1 << 40,), size=1 << 42))), U, "which has 16")
    case("dims overflow", bundle(("w", entry((1 << 62, 1 << 62)))), U, "overflows")
    case("dim -1", bundle(("w", entry((-1,)))), U, "negative")
    case(
        "dim 0 unwritten",
        bundle(("w", entry((0, 7), size=0, data=b""))),
        H,
        None,
        rows={"w": ["F32", [0, 7], b""]},
    )
    case("300 dims", bundle(("w", entry((1,) * 300))), U, "dimensions")
    case("unknown rank", bundle(("w", field(1, 1) + field(2, field(3, 1)))), U, "not known")
    case("two shapes", bundle(("w", entry(more=field(2, shape(4))))), U, "two of them")
    case(
        "no shape, a scalar",
        bundle(("w", field(1, 1) + field(5, 4) + b"\x35" + struct.pack("<I", masked(DATA[:4])))),
        H,
        None,
        rows={"w": ["F32", [], DATA[:4]]},
    )
    case("type 0", bundle(("w", entry(kind=0))), ANY, "not known")
    case("type 101, a reference", bundle(("w", entry(kind=101))), ANY, "not known")
    case("type 2^63", bundle(("w", entry(kind=1 << 63))), ANY, "not known")
    case(
        "texts, resources, variants",
        bundle(*(("k%d" % k, entry(kind=k, offset=16 * i)) for i, k in enumerate((7, 20, 21)))),
        H,
        None,
        rows={},
    )
    case("a text in no shard", bundle(("w", entry(kind=7, shard=9))), U, "no shard")
    case("value cut", bundle(("w", entry()[:-2])), U, "cut short")
    case("crc as a varint", bundle(("w", entry() + field(6, 1))), U, "another kind")
    case(
        "two tensors share bytes",
        bundle(("a", entry()), ("b", entry(offset=4, size=4, dims=(1,), data=DATA[4:8]))),
        U,
        "share bytes",
    )
    case("a tensor inside a text", bundle(("a", entry()), ("b", entry(kind=7))), U, "share bytes")
    case("name not UTF-8", bundle((b"\xc3(", entry())), U, "UTF-8")
    case("name of control characters", bundle(("\x1b[2J\n", entry())), ANY, "+")
    case("name __metadata__", bundle(("__metadata__", entry())), ANY, "+")
    case(
        "100,000 tensors",
        bundle(*(("t%06d" % i, entry(offset=16 * i)) for i in range(100000)), per=4000),
        H,
        None,
        shards=(DATA * 100000,),
    )
    case(
        "big-endian",
        bundle(
            ("c", entry((1,), kind=8, offset=16, size=8, data=struct.pack(">2f", 5, 6))),
            ("w", entry(data=struct.pack(">4f", 1, 2, 3, 4))),
            head=header(more=field(2, 1)),
        ),
        H,
        None,
        shards=(struct.pack(">6f", 1, 2, 3, 4, 5, 6),),
        rows={"w": ["F32", [4], DATA], "c": ["C64", [1], struct.pack("<2f", 5, 6)]},
    )
    case(
        "big-endian slices",
        bundle(*halves(data=struct.pack(">4f", 1, 2, 3, 4)), head=header(more=field(2, 1))),
        H,
        None,
        shards=(struct.pack(">4f", 1, 2, 3, 4),),
        rows={"v": ["F32", [4], DATA]},
    )


def slices():
    case("slices", bundle(*halves()), H, None, rows={"v": ["F32", [4], DATA]})
    case(
        "slices: one of all",
        bundle(("v", field(1, 1) + field(2, shape(4)) + spec((0, -1))), (slice_key("v", (0, -1)), entry())),
        H,
        None,
        rows={"v": ["F32", [4], DATA]},
    )
    square = dict(dims=(2, 2), one=(2, 1), two=(2, 1))
    case(
        "slices: columns",
        bundle(*halves(first=((0, -1), (0, 1)), second=((0, -1), (1, 1)), **square)),
        H,
        None,
        rows={"v": ["F32", [2, 2], DATA[:4] + DATA[8:12] + DATA[4:8] + DATA[12:]]},
    )
    case(
        "slices: an empty one",
        bundle(
            *halves(first=((0, 4),), second=((4, 0),), one=(4,), two=(0,), sizes=(16, 0)),
        ),
        H,
        None,
        rows={"v": ["F32", [4], DATA]},
    )
    case("slices: one missing", bundle(*halves(skip=(2,))), U, "not in the checkpoint")
    case("slices: the variable missing", bundle(*halves(skip=(0,))), U, "belongs to no variable")
    case("slices: overlap", bundle(*halves(first=((0, 2),), second=((1, 2),))), U, "share elements")
    case("slices: a hole", bundle(*halves(dims=(5,))), U, "slices of 4 elements")
    case("slices: outside", bundle(*halves(second=((3, 2),))), U, "leaves the variable")
    case(
        "slices: start 2^63",
        bundle(("v", field(1, 1) + field(2, shape(4)) + spec((-1, 2)))),
        U,
        "cannot be read",
    )
    case("slices: other rank", bundle(*halves(dims=(4, 1))), U, "another number of dimensions")
    case("slices: other shape", bundle(*halves(one=(3,), sizes=(12, 8))), U, "another shape")
    case("slices: other size", bundle(*halves(sizes=(4, 8))), U, "another size")
    case("slices: the same twice", bundle(*halves(second=((0, 2),))[:2]), U, "named twice")
    case(
        "slices: of slices",
        bundle(*halves(), (slice_key("x", (0, 1)), entry(more=spec((0, 1))))),
        U,
        "slice of slices",
    )
    case("slices: garbage key", bundle(("w", entry()), (b"\0\0\0\0", entry())), U, "belongs to no variable")
    case(
        "slices: an extent is a number",
        bundle(("v", field(1, 1) + field(2, shape(4)) + field(7, field(1, 5)))),
        U,
        "cannot be read",
    )
    n = 20000
    rows = [("v", field(1, 6) + field(2, shape(n)) + b"".join(spec((i, 1)) for i in range(n)))]
    rows += [(slice_key("v", (i, 1)), entry((1,), kind=6, offset=i, size=1, data=b"\0")) for i in range(n)]
    case("slices: 20,000", bundle(*rows, per=1000), H, None, shards=(bytes(n),))
    rows = [
        (
            "v",
            field(1, 6)
            + field(2, shape(100, 100))
            + b"".join(spec((i, 1), (k, 1)) for i in range(100) for k in range(100)),
        )
    ]
    rows += [
        (slice_key("v", (i, 1), (k, 1)), entry((1, 1), kind=6, offset=100 * i + k, size=1))
        for i in range(100)
        for k in range(100)
    ]
    case("slices: 10,000 in two dimensions", bundle(*rows, per=1000), U, "limit", shards=(bytes(10000),))


def state(text):
    return {"checkpoint": text.encode()}


def paths():
    good = bundle(("w", entry()))
    named = 'model_checkpoint_path: "%s"\n'
    ok = {"w": ["F32", [4], DATA]}
    case("state: good", good, ANY, None, path=".", files=state(named % "m"), rows=ok)
    case(
        "state: older lines before",
        good,
        ANY,
        None,
        path=".",
        files=state('all_model_checkpoint_paths: "x"\n' + named % "m"),
    )
    case("state: octal", good, ANY, None, path=".", files=state(named % "\\155"), rows=ok)
    case(
        "state: absolute, elsewhere", good, ANY, None, path=".", files=state(named % "/once/there/m"), rows=ok
    )
    case("state: upwards", good, ANY, "leads out", path=".", files=state(named % "../m"))
    case("state: upwards below", good, ANY, "leads out", path=".", files=state(named % "sub/../../m"))
    case("state: not there", good, ANY, "+", path=".", files=state(named % "none"))
    case("state: a NUL", good, ANY, "+", path=".", files=state(named % "m\\000"))
    case("state: no quote", good, ANY, "+", path=".", files=state("model_checkpoint_path: m"))
    case("state: no end", good, ANY, "+", path=".", files=state('model_checkpoint_path: "m'))
    case("state: 64 KiB", good, ANY, "+", path=".", files=state(named % ("m" * 65500)))
    case("state: binary", good, ANY, "+", path=".", files={"checkpoint": bytes(range(256)) * 9})
    case("an index of another name", good, ANY, "does not end in .index", path="other", files={"other": good})
    CASES[-1][1].pop("m.index")


# ---------------------------------------------------------------- running them


def read(path):
    data = path.read_bytes()
    n = struct.unpack("<Q", data[:8])[0]
    listing = json.loads(data[8 : 8 + n])
    listing.pop("__metadata__", None)
    return {
        k: [t["dtype"], t["shape"], data[8 + n + t["data_offsets"][0] : 8 + n + t["data_offsets"][1]]]
        for k, t in listing.items()
    }


def check_case(tool, folder, item, faults, slow):
    name, files, path, verdict, error, rows = item
    for file, data in files.items():
        (folder / file).write_bytes(data)
    scan = Run(tool, ["scan", "--json", "--checksums", path], folder)
    load = Run(tool, ["ls", path], folder)
    message = load.err.decode("utf-8", "replace").strip()
    answers = [json.loads(line) for line in scan.out.splitlines() if line.startswith(b"{")]
    of_index = [a for a in answers if a["file"].endswith(".index")] or answers
    got = of_index[-1]["verdict"] if answers else "?"
    if scan.status < 0 or scan.status > 4 or load.status < 0 or load.status > 4:
        faults.append("%s: exits with %d and %d" % (name, scan.status, load.status))
    elif verdict not in (ANY, got):
        faults.append(
            "%s: scan says %s, not %s: %s %s" % (name, got, verdict, scan.out[:300], scan.err[:200])
        )
    elif error is None and load.status != 0:
        faults.append("%s: does not load: %s" % (name, message))
    elif error not in (None, "+") and (load.status == 0 or (error != ANY and error not in message)):
        faults.append("%s: load exits with %d, %r is not in %r" % (name, load.status, error, message[:300]))
    seconds = max(scan.seconds, load.seconds)
    slow.append((seconds, name))
    if seconds > LIMIT_SECONDS:
        faults.append("%s: %.1f seconds" % (name, seconds))
    if rows is not None:
        run = Run(tool, ["convert", "--verify", path, "-o", "out.safetensors"], folder)
        if not rows:
            if run.status != 1 or b"there are no tensors" not in run.err:
                faults.append("%s: nothing is to be converted: %s" % (name, run.err[:200]))
        elif run.status != 0 or read(folder / "out.safetensors") != rows:
            faults.append("%s: converts to something else: %s" % (name, run.err[:200]))
        (folder / "out.safetensors").unlink(missing_ok=True)
    elif error is not None and load.status != 0:
        Run(tool, ["convert", path, "-o", "out.safetensors"], folder)
    left = set(os.listdir(folder)) - set(files)
    if left:
        faults.append("%s: left behind: %s" % (name, sorted(left)))
    for file in files:
        (folder / file).unlink()
    return "%-42s scan %-9s  ls %d  %4.0f ms  %s" % (
        name[:42],
        got,
        load.status,
        seconds * 1000,
        message.split("\n")[0][-110:],
    )


def cuts(tool, folder, faults):
    """Index and shard cut at every byte, every byte of them changed: refused, or told by the checksums."""
    index, data = bundle(*halves(), ("w", entry(offset=16))), DATA * 2
    files = [("index cut at %d" % n, index[:n], data) for n in range(len(index))]
    files += [("shard cut at %d" % n, index, data[:n]) for n in range(len(data))]
    files += [
        ("index changed at %d" % n, index[:n] + bytes([index[n] ^ 1]) + index[n + 1 :], data)
        for n in range(len(index))
    ]
    files += [
        ("shard changed at %d" % n, index, data[:n] + bytes([data[n] ^ 1]) + data[n + 1 :])
        for n in range(len(data))
    ]
    padding = set(range(len(index) - 48, len(index) - 8))
    names = []
    for i, (_, first, second) in enumerate(files):
        (folder / str(i)).mkdir()
        (folder / str(i) / "m.index").write_bytes(first)
        (folder / str(i) / "m.data-00000-of-00001").write_bytes(second)
        names.append("%d/m.index" % i)
    for command in (["check", "--json"], ["scan", "--json", "--checksums"]):
        run = Run(tool, [*command, *names], folder)
        rows = [json.loads(line) for line in run.out.decode().splitlines()]
        if run.status not in (0, 1) or len(rows) != len(names):
            faults.append(
                "cut: %s exits with %d, %d answers: %s" % (command[0], run.status, len(rows), run.err[-300:])
            )
            continue
        for (what, *_), row in zip(files, rows):
            number_of = int(what.split()[-1])
            bad = (
                not row["valid"]
                if command[0] == "check"
                else row["verdict"] != "harmless" or row["format"] != "tf-bundle"
            )
            late = what.startswith("shard changed") and command[0] == "check"
            if not bad and not late and not (what.startswith("index changed") and number_of in padding):
                faults.append("%s: %s takes it" % (what, command[0]))
    for i in range(len(files)):
        shutil.rmtree(folder / str(i))
    return len(files)


def outside(tool, folder, faults):
    """Shards that are links, pipes, folders; a state file whose checkpoint is a link out."""
    model = folder / "model"
    model.mkdir()
    (folder / "secret").write_bytes(DATA)
    (folder / "away.index").write_bytes(bundle(("w", entry())))
    shard = model / "m.data-00000-of-00001"
    for what, make, word in (
        ("a link", lambda: shard.symlink_to("../secret"), b"a link"),
        ("a pipe", lambda: os.mkfifo(shard), b"regular"),
        ("a folder", lambda: shard.mkdir(), b"regular"),
    ):
        (model / "m.index").write_bytes(bundle(("w", entry())))
        make()
        run = Run(tool, ["hash", "model/m.index"], folder)
        if run.status == 0 or word not in run.err or run.seconds > 2:
            faults.append("shard is %s: %d %s" % (what, run.status, run.err[:200]))
        shutil.rmtree(model)
        model.mkdir()
    (model / "checkpoint").write_text('model_checkpoint_path: "m"\n')
    (model / "m.index").symlink_to("../away.index")
    run = Run(tool, ["ls", "model"], folder)
    if run.status == 0:
        faults.append("a state file's checkpoint is a link: %s" % run.out[:200])
    return 4


def corpus(folder):
    """Blocks of entries, which fuzz_tf puts into a table, and tables of which something else is wrong."""
    folder.mkdir(parents=True, exist_ok=True)
    blocks = sorted({b for b in BLOCKS if len(b) <= 120})
    for i, data in enumerate(blocks[:: max(1, len(blocks) // 40)]):
        (folder / ("block-%02d" % i)).write_bytes(data)
    for name, files, *_ in CASES:
        data = files.get("m.index", b"")
        if (
            name.startswith(("index", "footer", "blocks", "good", "big", "slices: an e"))
            and 0 < len(data) <= 250
        ):
            (folder / re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")).write_bytes(data)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tool")
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--corpus", type=pathlib.Path)
    args = parser.parse_args()
    for make in (tables, bundles, slices, paths):
        make()
    if args.corpus:
        corpus(args.corpus)
        return 0
    tool = os.path.abspath(args.tool)
    faults, slow = [], []
    for item in CASES:
        with tempfile.TemporaryDirectory() as name:
            line = check_case(tool, pathlib.Path(name), item, faults, slow)
            if args.table:
                print(line)
    with tempfile.TemporaryDirectory() as name:
        cut = cuts(tool, pathlib.Path(name), faults)
        more = outside(tool, pathlib.Path(name), faults)
    for f in faults:
        print("FAULT", f)
    print(
        "%d cases, %d cuts and changes, slowest %.2f s (%s), %d faults"
        % (len(CASES) + more, cut, *max(slow), len(faults))
    )
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
