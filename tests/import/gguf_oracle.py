#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""gguf_oracle.py --tool TOOL - numpy and gguf-py write, we read; we write, they read; bit for bit.

npy and npz: every element type, both orders of bytes and of dimensions, versions 1 to 3, stored and deflated. GGUF: every
type of tensor that gguf-py knows, raw and turned into floats, both byte orders, every type of metadata. Needs gguf and
numpy; ml_dtypes if it is there.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import zipfile

import numpy as np

try:
    import gguf
    from gguf.quants import dequantize, quantize
except ImportError:
    gguf = None

RNG = np.random.default_rng(20)
DONE = {"compared": 0}
TYPES = ["b1", "u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", "f2", "f4", "f8", "c8"]


def run(tool, *args, fails=False):
    r = subprocess.run([tool, *map(str, args)], capture_output=True)
    if (r.returncode != 0) != fails:
        raise SystemExit("%s: exits with %d: %s" % (args, r.returncode, r.stderr.decode()))
    return r.stdout if not fails else r.stderr.decode()


def load_ours(path):
    """The tensors of a safetensors file as (shape, dtype name, bytes), and its metadata."""
    data = pathlib.Path(path).read_bytes()
    n = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + n])
    metadata = header.pop("__metadata__", {})
    out = {}
    for name, row in header.items():
        a, b = row["data_offsets"]
        out[name] = (tuple(row["shape"]), row["dtype"], data[8 + n + a : 8 + n + b])
    return out, metadata


def same(what, ours, array):
    want = np.ascontiguousarray(array)
    want = want.astype(want.dtype.newbyteorder("<"))
    if tuple(ours[0]) != array.shape or ours[2] != want.tobytes():
        raise SystemExit("%s differs: %s %s, %s %s" % (what, ours[0], ours[1], array.shape, array.dtype))
    DONE["compared"] += 1


def values(dtype, shape):
    n = int(np.prod(shape))
    raw = RNG.integers(0, 256, n * np.dtype(dtype).itemsize, dtype=np.uint8).tobytes()
    if dtype.endswith("b1"):
        return RNG.integers(0, 2, shape).astype(dtype)
    return np.frombuffer(raw, dtype=dtype).reshape(shape).copy()


def arrays():
    out = {}
    for t in TYPES:
        for order in "<>":
            for shape in [(), (0, 3), (7,), (3, 5, 4), (33, 65)]:
                a = values(order + t, shape)
                name = "%s %s %s" % (order + t, shape, "c")
                out[name] = a
                if len(shape) > 1:
                    out[name[:-1] + "f"] = np.asfortranarray(a)
    return out


def read_numpy(tool, tmp):
    wide = arrays()
    for name, save in (("stored", np.savez), ("deflated", np.savez_compressed)):
        path = tmp / (name + ".npz")
        save(path, **wide)
        run(tool, "convert", path, "-o", tmp / "o.safetensors", "-f", "--verify")
        ours, _ = load_ours(tmp / "o.safetensors")
        assert set(ours) == set(wide), set(wide) ^ set(ours)
        for k, a in wide.items():
            same(name + " " + k, ours[k], a)
    for version in [(1, 0), (2, 0), (3, 0)]:
        for a in (values("<f4", (4, 6)), np.asfortranarray(values(">i8", (4, 6))), values("<f2", ())):
            path = tmp / "one.npy"
            with open(path, "wb") as f:
                np.lib.format.write_array(f, a, version=version)
            run(tool, "convert", path, "-o", tmp / "o.safetensors", "-f")
            same("npy %s" % (version,), load_ours(tmp / "o.safetensors")[0]["arr_0"], a)


def write_numpy(tool, tmp):
    """npz -> safetensors -> npz: numpy loads what it wrote."""
    wide = arrays()
    wide["käse/größe"] = values("<f4", (300, 200))
    np.savez(tmp / "a.npz", **wide)
    run(tool, "convert", tmp / "a.npz", "-o", tmp / "a.safetensors", "-f")
    run(tool, "convert", tmp / "a.safetensors", "-o", tmp / "b.npz", "-f", "--verify")
    assert zipfile.ZipFile(tmp / "b.npz").testzip() is None
    with np.load(tmp / "b.npz") as z:
        assert set(z.files) == set(wide)
        for k, a in wide.items():
            b = z[k]
            assert b.shape == a.shape and b.dtype == a.dtype.newbyteorder("<"), k
            assert b.tobytes() == np.ascontiguousarray(a).astype(b.dtype).tobytes(), k
            DONE["compared"] += 1
    with zipfile.ZipFile(tmp / "b.npz") as z:
        for i in z.infolist():
            with open(tmp / "b.npz", "rb") as f:
                f.seek(i.header_offset + 26)
                at = i.header_offset + 30 + sum(map(int, np.frombuffer(f.read(4), "<u2")))
            assert at % 64 == 0, i.filename
    message = run(tool, "convert", tmp / "a.safetensors", "-o", tmp / "no.npz", "--cast", "bf16", fails=True)
    assert "no type BF16" in message and not (tmp / "no.npz").exists()


def meta(w):
    w.add_uint8("t.u8", 200)
    w.add_int8("t.i8", -100)
    w.add_uint16("t.u16", 60000)
    w.add_int16("t.i16", -30000)
    w.add_uint32("t.u32", 4000000000)
    w.add_int32("t.i32", -2000000000)
    w.add_uint64("t.u64", 2**64 - 1)
    w.add_int64("t.i64", -(2**63))
    w.add_float32("t.f32", 1e-5)
    w.add_float64("t.f64", 0.1)
    w.add_bool("t.bool", True)
    w.add_string("t.string", 'a "quoted"\ntext')
    w.add_array("t.ints", [1, -2, 3])
    w.add_array("t.floats", [0.5, 1.0, -2.25])
    w.add_array("t.strings", ["a", "b\n", "ü"])


WANT = {
    "general.architecture": "llama",
    "t.u8": "200",
    "t.i8": "-100",
    "t.u16": "60000",
    "t.i16": "-30000",
    "t.u32": "4000000000",
    "t.i32": "-2000000000",
    "t.u64": str(2**64 - 1),
    "t.i64": str(-(2**63)),
    "t.bool": "true",
    "t.string": 'a "quoted"\ntext',
    "t.ints": "[1, -2, 3]",
    "t.floats": "[0.5, 1.0, -2.25]",
    "t.strings": '["a", "b\\n", "ü"]',
}


def blocks_of(t, shape):
    """Blocks by gguf-py's quantiser where it has one, else random bytes with sane scales."""
    elements, size = gguf.GGML_QUANT_SIZES[t]
    n = int(np.prod(shape)) // elements
    try:
        return quantize(RNG.standard_normal(shape).astype(np.float32), t)
    except NotImplementedError:
        raw = RNG.integers(0, 256, (n, size), dtype=np.uint8)
        raw[:, np.arange(size) % 2 == 1] &= 0xBF  # no half float becomes an infinity or a NaN
        return raw.reshape(shape[:-1] + (shape[-1] // elements * size,))


def read_gguf(tool, tmp):
    """Every type that gguf-py has: raw bytes equal; floats equal what it computes."""
    plain = {"F32": "<f4", "F16": "<f2", "F64": "<f8", "I8": "i1", "I16": "<i2", "I32": "<i4", "I64": "<i8"}
    w = gguf.GGUFWriter(tmp / "a.gguf", "llama")
    meta(w)
    want, raws = {}, {}
    for name, d in plain.items():
        want[name] = values(d, (3, 4, 8))
        w.add_tensor(name, want[name])
    for t, (elements, size) in gguf.GGML_QUANT_SIZES.items():
        if elements == 1 or t.name == "Q8_1":  # a type of ggml's memory, never of files
            continue
        raws[t.name] = blocks_of(t, (6, 512))
        w.add_tensor(t.name, raws[t.name], raw_dtype=t)
    bf = values("<u2", (5, 8))
    w.add_tensor("BF16", bf.view(np.uint8), raw_dtype=gguf.GGMLQuantizationType.BF16)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()
    run(tool, "convert", tmp / "a.gguf", "-o", tmp / "o.safetensors", "-f", "--verify")
    ours, md = load_ours(tmp / "o.safetensors")
    for k, v in WANT.items():
        assert md[k] == v, (k, md[k])
    assert np.float32(md["t.f32"]) == np.float32(1e-5) and float(md["t.f64"]) == 0.1
    types, tensors = json.loads(md["gguf.types"]), json.loads(md["gguf.tensors"])
    assert types["t.ints"] == "[i32]" and types["t.u8"] == "u8" and "t.string" not in types
    for name, a in want.items():
        same("gguf " + name, ours[name], a)
    assert ours["BF16"] == ((5, 8), "BF16", bf.tobytes())
    for name, raw in raws.items():
        assert ours[name][1] == "U8" and tensors[name] == {"type": name, "shape": [6, 512]}, name
        same("raw " + name, ours[name], raw)
    run(tool, "convert", tmp / "a.gguf", "-o", tmp / "d.safetensors", "-f", "--verify", "--dequantize")
    ours, _ = load_ours(tmp / "d.safetensors")
    turned = []
    for name, raw in raws.items():
        if ours[name][1] == "U8":
            continue
        t = gguf.GGMLQuantizationType[name]
        try:
            floats = dequantize(raw, t)
        except NotImplementedError:
            assert name == "Q8_K"
            b = raw.reshape(-1, 292)
            floats = b[:, :4].copy().view("<f4") * b[:, 4:260].view(np.int8).astype(np.float32)
            floats = floats.reshape(6, 512)
        got = np.frombuffer(ours[name][2], "<f4").reshape(ours[name][0])
        same(
            "floats " + name,
            ours[name],
            np.where(np.isnan(floats) & np.isnan(got), got, floats).astype("<f4"),
        )
        turned.append(name)
    for (
        name
    ) in "Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 Q2_K Q3_K Q4_K Q5_K Q6_K Q8_K IQ4_NL IQ4_XS TQ1_0 TQ2_0 MXFP4".split():
        assert name in turned, name
    assert (ours["BF16"][1], ours["F16"][1]) == ("BF16", "F16")
    big = gguf.GGUFWriter(tmp / "big.gguf", "llama", endianess=gguf.GGUFEndian.BIG)
    meta(big)
    for name in plain:
        big.add_tensor(name, want[name])
    big.write_header_to_file()
    big.write_kv_data_to_file()
    big.write_tensors_to_file()
    big.close()
    run(tool, "convert", tmp / "big.gguf", "-o", tmp / "o.safetensors", "-f")
    ours, md = load_ours(tmp / "o.safetensors")
    for k, v in WANT.items():
        assert md[k] == v, (k, md[k])
    for name in plain:
        same("big-endian " + name, ours[name], want[name])


def value_of(field):
    return field.contents()


def write_gguf(tool, tmp):
    """GGUF -> safetensors -> GGUF: gguf-py reads tensors and metadata equal, blocks included."""
    run(tool, "convert", tmp / "a.gguf", "-o", tmp / "a.safetensors", "-f")
    run(tool, "convert", tmp / "a.safetensors", "-o", tmp / "b.gguf", "-f", "--verify")
    a, b = gguf.GGUFReader(tmp / "a.gguf"), gguf.GGUFReader(tmp / "b.gguf")
    inner = lambda r: {k: (f.types, value_of(f)) for k, f in r.fields.items() if not k.startswith("GGUF.")}
    assert inner(a) == inner(b), (inner(a), inner(b))
    have = {t.name: t for t in b.tensors}
    assert len(a.tensors) == len(b.tensors)
    for t in a.tensors:
        u = have[t.name]
        assert (t.tensor_type, list(t.shape)) == (u.tensor_type, list(u.shape)), t.name
        assert t.data.tobytes() == u.data.tobytes(), t.name
        assert u.data_offset % 32 == 0
        DONE["compared"] += 1
    np.savez(tmp / "c.npz", x=values("<f4", (5, 7)), y=values("<i4", (3,)))
    message = run(tool, "convert", tmp / "c.npz", "-o", tmp / "c.gguf", fails=True)
    assert "general.architecture" in message and not (tmp / "c.gguf").exists()
    run(
        tool,
        "convert",
        tmp / "c.npz",
        "-o",
        tmp / "c.gguf",
        "-m",
        "general.architecture=llama",
        "-m",
        "llama.block_count:u32=2",
        "-m",
        "llama.rope.freq_base=10000.0",
        "-m",
        "a.list:[i32]=[1, 2, 3]",
        "-m",
        'a.texts:[string]=["x", "y"]',
        "--cast",
        "x=bf16",
    )
    r = gguf.GGUFReader(tmp / "c.gguf")
    assert r.fields["llama.block_count"].types == [gguf.GGUFValueType.UINT32]
    assert value_of(r.fields["llama.block_count"]) == 2
    assert value_of(r.fields["a.list"]) == [1, 2, 3] and value_of(r.fields["a.texts"]) == ["x", "y"]
    assert r.fields["llama.rope.freq_base"].types == [gguf.GGUFValueType.FLOAT32]
    assert {t.name: t.tensor_type.name for t in r.tensors} == {"x": "BF16", "y": "I32"}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tool", required=True)
    args = parser.parse_args()
    tool = os.path.abspath(args.tool)
    steps = [read_numpy, write_numpy] + ([read_gguf, write_gguf] if gguf is not None else [])
    with tempfile.TemporaryDirectory() as name:
        for step in steps:
            step(tool, pathlib.Path(name))
            print(step.__name__, "equal")
    print(
        "%d arrays compared, numpy %s, gguf %s"
        % (DONE["compared"], np.__version__, "yes" if gguf is not None else "not installed: not run")
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
