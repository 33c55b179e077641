# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The files that the benchmarks read: made once, kept in the folder given, named by what they hold."""

import os
import pathlib
import random
import struct

BLOCK = 64 << 20


def write(path, text, data_bytes, fill=None):
    """A file with this header text; data sparse unless fill gives it in blocks."""
    text = text if isinstance(text, bytes) else text.encode()
    text += b" " * (-len(text) % 8)
    part = path.with_suffix(".part")
    with open(part, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        if fill:
            left = data_bytes
            while left > 0:
                f.write(fill[: min(left, len(fill))])
                left -= len(fill)
        f.truncate(8 + len(text) + data_bytes)
        f.flush()
        os.fsync(f.fileno())
    part.rename(path)
    return path


def header_bytes(path):
    with open(path, "rb") as f:
        return struct.unpack("<Q", f.read(8))[0]


def entries(count, order=None):
    """Entries of [8, 8] BF16 tensors as a mixture of experts would have them, and the data bytes."""
    out = [
        '"layers.%d.experts.%d.w":{"dtype":"BF16","shape":[8,8],"data_offsets":[%d,%d]}'
        % (i // 256, i % 256, 128 * i, 128 * i + 128)
        for i in range(count)
    ]
    if order == "reversed":
        out.reverse()
    elif order == "random":
        random.Random(1).shuffle(out)
    return out, 128 * count


def many(folder, count, dtype="BF16"):
    path = folder / f"many-{dtype}-{count}.safetensors"
    if not path.exists():
        out, size = entries(count)
        write(path, ("{%s}" % ",".join(out)).replace("BF16", dtype), size)
    return path


def one_of_many(folder):
    """10,000 tensors of 1 KiB, then one of 16 KiB and one of 32 MiB."""
    path = folder / "one-of-10k.safetensors"
    sizes = [("t%d" % i, 1024) for i in range(10_000)] + [("small", 16 << 10), ("large", 32 << 20)]
    places, parts, at = {}, [], 0
    for name, size in sizes:
        parts.append('"%s":{"dtype":"U8","shape":[%d],"data_offsets":[%d,%d]}' % (name, size, at, at + size))
        places[name] = (at, size)
        at += size
    if not path.exists():
        write(path, "{%s}" % ",".join(parts), at, os.urandom(BLOCK))
    start = 8 + header_bytes(path)
    return path, {name: (start + places[name][0], places[name][1]) for name in ("small", "large")}


def matrix(folder, rows, columns=4096):
    """One F32 tensor "w" of rows x columns, random bytes; (path, offset of its data)."""
    path = folder / f"matrix-{rows}x{columns}.safetensors"
    if not path.exists():
        size = rows * columns * 4
        text = '{"w":{"dtype":"F32","shape":[%d,%d],"data_offsets":[0,%d]}}' % (rows, columns, size)
        write(path, text, size, os.urandom(BLOCK))
    return path, 8 + header_bytes(path)


def layers(folder, mib, count=290, dtype="F16", name="layers"):
    """A model of `count` tensors of a little under one size, odd in the last place; random bytes, or, where
    the values matter (F32, BF16), what a normal distribution gives."""
    path = folder / f"{name}-{dtype}-{mib}.safetensors"
    if not path.exists():
        width = 4 if dtype == "F32" else 2
        size = (mib << 20) // count // width * width
        text = "{%s}" % ",".join(
            '"model.layers.%03d.weight":{"dtype":"%s","shape":[%d],"data_offsets":[%d,%d]}'
            % (i, dtype, size // width, size * i, size * (i + 1))
            for i in range(count)
        )
        write(path, text, size * count, os.urandom(BLOCK) if dtype == "F16" else normal(dtype))
    return path


def normal(dtype):
    import numpy

    values = numpy.random.default_rng(1).standard_normal(BLOCK // 4, numpy.float32)
    return (
        values if dtype == "F32" else numpy.tile((values.view(numpy.uint32) >> 16).astype(numpy.uint16), 2)
    ).tobytes()


def shards(folder, mib, count=8):
    """A folder of `count` files of `mib` MiB each, the tensors of all under different names."""
    inner = folder / f"shards-{count}x{mib}"
    inner.mkdir(exist_ok=True)
    size = (mib << 20) // 32 // 2 * 2
    paths = []
    for k in range(count):
        path = inner / f"model-{k + 1:05d}-of-{count:05d}.safetensors"
        if not path.exists():
            text = "{%s}" % ",".join(
                '"model.layers.%03d.weight":{"dtype":"BF16","shape":[%d],"data_offsets":[%d,%d]}'
                % (32 * k + i, size // 2, size * i, size * (i + 1))
                for i in range(32)
            )
            write(path, text, size * 32, os.urandom(BLOCK))
        paths.append(path)
    return inner, paths


def rejects(folder):
    """Headers of 100,000 tensors with one fault near the end, or as large and of another kind."""
    out, size = entries(100_000)
    good = ",".join(out)
    last = '"z":{"dtype":"BF16","shape":[8,8],"data_offsets":[%d,%d]}'
    cases = {
        "overlap at the end": ("{%s,%s}" % (good, last % (size - 128, size)), size),
        "hole at the end": ("{%s,%s}" % (good, last % (size + 128, size + 256)), size + 256),
        "name twice at the end": ("{%s,%s}" % (good, out[0]), size),
        "overflow at the end": (
            '{%s,"z":{"dtype":"BF16","shape":[4294967296,4294967296],"data_offsets":[%d,%d]}}'
            % (good, size, size),
            size,
        ),
        "cut in the last entry": ("{%s" % good[:-10], size),
        "invalid UTF-8 at the end": (b"{%s," % good.encode() + b'"\xff":1}', size),
        "too deep at the end": ('{%s,"z":%s}' % (good, "[" * 200), size),
        "trailing byte": ("{%s}" % good, size + 1),
        "first entry wrong": ('{"z":{"dtype":"BF17","shape":[],"data_offsets":[0,0]},%s}' % good, size),
        "every entry out of order, last overlaps": (
            "{%s,%s}" % (",".join(reversed(out)), last % (0, 128)),
            size,
        ),
        "brackets": ("[" * len(good), 0),
    }
    made = {}
    for label, (text, data) in cases.items():
        path = folder / ("reject-" + label.replace(" ", "-").replace(",", "") + ".safetensors")
        if not path.exists():
            write(path, text, data)
        made[label] = path
    return made


def bombs(folder):
    """Headers of about 100 MB, valid or not."""
    limit = 99_000_000

    def repeated(pattern, width):
        return ",".join([pattern % i for i in range(limit // width)])

    def tensors(order):
        out, size = entries(1_020_000, order)
        return "{%s}" % ",".join(out), size

    cases = {
        "tensors in order": lambda: tensors(None),
        "tensors in random order": lambda: tensors("random"),
        "tensors in reverse order": lambda: tensors("reversed"),
        "empty tensors": lambda: (
            "{%s}" % repeated('"%07d":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}', 59),
            0,
        ),
        "scalars, short names": lambda: (
            "{%s}"
            % ",".join(
                [
                    '"%x":{"dtype":"U8","shape":[],"data_offsets":[%d,%d]}' % (i, i, i + 1)
                    for i in range(1_400_000)
                ]
            ),
            1_400_000,
        ),
        "metadata keys": lambda: ('{"__metadata__":{%s}}' % repeated('"%07d":""', 13), 0),
        "one metadata string": lambda: ('{"__metadata__":{"k":"%s"}}' % ("a" * limit), 0),
        "escapes in one metadata string": lambda: (
            '{"__metadata__":{"k":"%s"}}' % ("\\u0041" * (limit // 6)),
            0,
        ),
        "shape of many ones": lambda: (
            '{"a":{"dtype":"U8","shape":[%s],"data_offsets":[0,1]}}' % ",".join("1" * (limit // 2)),
            1,
        ),
        "ignored array": lambda: (
            '{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1],"x":[%s]}}' % ",".join("1" * (limit // 2)),
            1,
        ),
        "ignored object": lambda: (
            '{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1],"x":{%s}}}' % repeated('"%07d":1', 12),
            1,
        ),
        "brackets": lambda: ("[" * limit, 0),
        "blanks": lambda: ("{}" + " " * limit, 0),
        "no closing quote": lambda: ('{"' + "a" * limit, 0),
    }
    made = {}
    for label, make in cases.items():
        path = folder / ("bomb-" + label.replace(" ", "-").replace(",", "") + ".safetensors")
        if not path.exists():
            write(path, *make())
        made[label] = path
    return made


def folder_at(path):
    folder = pathlib.Path(path)
    folder.mkdir(parents=True, exist_ok=True)
    return folder.resolve()
