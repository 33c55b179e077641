#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Promises of `--help`, command by command, with oracles of NumPy, ml_dtypes, hashlib and the reference package:
help_promises.py --tool TOOL [--seed N]. Built as promises.py is; read that first."""

from __future__ import annotations

import hashlib
import json
import math
import os
import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import promises
import safetensors.numpy as reference
from promises import check, tool

promises.CHECKS.clear()
FLOATS = {"F64": ("f8", "u8"), "F32": ("f4", "u4"), "F16": ("f2", "u2"), "BF16": (ml_dtypes.bfloat16, "u2")}


def asked(*arguments, status=0):
    done = tool(*arguments)
    assert done.returncode == status, (arguments, done)
    return json.loads(done.stdout)


def patterns(rng, bits, count):
    """Random values of a type: all of its bit patterns are as likely, and some are borders."""
    width = np.dtype(bits).itemsize * 8
    values = (
        rng.integers(0, 1 << width, count, dtype="u8")
        if width < 64
        else rng.integers(0, 2**64, count, dtype="u8")
    )
    borders = [0, 1, 1 << (width - 1), (1 << (width - 1)) - 1, (1 << width) - 1]
    values[: len(borders)] = borders
    return values.astype(bits)


def stored(tensors, path="m.safetensors"):
    """tensors: {name: (format's type, array of bits, shape)}."""
    header, data = {}, b""
    for name, (dtype, bits) in tensors.items():
        header[name] = {
            "dtype": dtype,
            "shape": list(bits.shape),
            "data_offsets": [len(data), len(data) + bits.nbytes],
        }
        data += bits.tobytes()
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    Path(path).write_bytes(len(text).to_bytes(8, "little") + text + data)


def significant(text):
    digits = text.lower().split("e")[0].replace("-", "").replace(".", "").strip("0")
    return max(len(digits), 1)


@check
def values_are_the_shortest_decimals(random):
    """show: floating-point values are the shortest decimals that are the value again in their own type; JSON's are exact as double."""
    rng = np.random.default_rng(random.randrange(1 << 30))
    for dtype, (kind, bits) in FLOATS.items():
        raw = patterns(rng, bits, 700)
        stored({"w": (dtype, raw)})
        exact = asked("show", "m.safetensors", "w[:]", "--all", "--json")["tensors"][0]["slice"]["values"]
        text = tool("show", "m.safetensors", "w[:]", "--all", "--no-histogram").stdout
        shown = text[text.rindex("[") + 1 : text.rindex("]")].replace(",", " ").split()
        values, make = raw.view(kind), np.dtype(kind).type
        assert len(shown) == len(exact) == len(raw), (dtype, len(shown), len(exact))
        for word, number, value, pattern in zip(shown, exact, values, raw):
            if np.isnan(value):
                assert word.lower() == "nan" and number == "NaN", (dtype, word, number)
                continue
            assert float(number) == float(value), (dtype, number, float(value))
            assert make(float(word)).view(bits) == pattern, (dtype, word, float(value))
            digits = significant(word)
            written_out = 1 <= abs(float(value)) < 1e15 and word.endswith(
                ".0"
            )  # an integer that might have fewer digits
            if np.isfinite(value) and digits > 1 and not written_out:
                shorter = f"{float(value):.{digits - 2}e}"  # the nearest with a digit less
                assert make(float(shorter)).view(bits) != pattern, (dtype, word, shorter)


@check
def statistics_are_numpys(random):
    """show: extremes, mean, deviation, counts; bins as wide as a power of two that begin at its multiples, with exact counts."""
    rng = np.random.default_rng(random.randrange(1 << 30))
    for dtype, (kind, bits) in {
        **FLOATS,
        "I8": ("i1", "u1"),
        "I32": ("i4", "u4"),
        "U16": ("u2", "u2"),
    }.items():
        values = (rng.normal(size=999) * 10).astype(kind)
        if dtype in FLOATS:
            values[:8] = [0, -0.0, np.nan, np.nan, np.inf, -np.inf, -np.inf, 0]
        stored({"w": (dtype, values.view(bits).reshape(27, 37))})
        got = asked("show", "m.safetensors", "w", "--json")["tensors"][0]["statistics"]
        wide = values.astype("f8")
        fine = wide[np.isfinite(wide)]
        assert (got["min"], got["max"]) == (fine.min(), fine.max()), (dtype, got)
        assert math.isclose(got["mean"], fine.mean(), rel_tol=1e-9, abs_tol=1e-12), (
            dtype,
            got["mean"],
            fine.mean(),
        )
        assert math.isclose(got["std"], fine.std(), rel_tol=1e-9), (dtype, got["std"], fine.std())
        assert (
            got["zeros"] == (wide == 0).sum()
            and got["finite"] == len(fine)
            and got.get("nan", 0) == np.isnan(wide).sum()
        )
        assert (
            got.get("positive_inf", 0) == (wide == np.inf).sum()
            and got.get("negative_inf", 0) == (wide == -np.inf).sum()
        )
        bins = got["histogram"]
        start, width, counts = bins["start"], bins["width"], bins["counts"]
        assert math.frexp(width)[0] == 0.5 and start % width == 0, (dtype, bins)
        assert np.array_equal(
            np.bincount(((fine - start) // width).astype(int), minlength=len(counts)), counts
        ), (dtype, bins)


# format's type: (numpy's, bits of an element)
EVERY = {
    "BOOL": (np.uint8, 8),
    "F4": (ml_dtypes.float4_e2m1fn, 4),
    "F6_E2M3": (ml_dtypes.float6_e2m3fn, 6),
    "F6_E3M2": (ml_dtypes.float6_e3m2fn, 6),
    "U8": (np.uint8, 8),
    "I8": (np.int8, 8),
    "F8_E5M2": (ml_dtypes.float8_e5m2, 8),
    "F8_E4M3": (ml_dtypes.float8_e4m3fn, 8),
    "F8_E8M0": (ml_dtypes.float8_e8m0fnu, 8),
    "F8_E4M3FNUZ": (ml_dtypes.float8_e4m3fnuz, 8),
    "F8_E5M2FNUZ": (ml_dtypes.float8_e5m2fnuz, 8),
    "I16": (np.int16, 16),
    "U16": (np.uint16, 16),
    "F16": (np.float16, 16),
    "BF16": (ml_dtypes.bfloat16, 16),
    "I32": (np.int32, 32),
    "U32": (np.uint32, 32),
    "F32": (np.float32, 32),
    "C64": (np.complex64, 64),
    "F64": (np.float64, 64),
    "I64": (np.int64, 64),
    "U64": (np.uint64, 64),
}
SHARES = [0.1, 1, 5, 25, 50, 75, 95, 99, 99.9]


def one_tensor(rng, dtype, kind):
    """Values as doubles (of complex numbers, magnitudes), and their bytes."""
    numpys, bits = EVERY[dtype]
    count = int(rng.choice([0, 8, 64, 800, 4096, 4104, 40000, 300000])) if kind != "few" else 16
    codes = rng.integers(0, 1 << min(bits, 63), count, dtype="u8")
    if kind == "normal":  # around zero, or far from it
        drawn = rng.normal(size=count) * 10.0 ** rng.integers(-3, 3) + rng.choice([0, 0, 1, 50])
        with np.errstate(all="ignore"):
            values = np.abs(drawn) if dtype[0] == "U" or dtype == "F8_E8M0" else drawn
            if dtype == "BOOL":
                values = values > 0
            array = values.astype(numpys)
        codes = array.view({4: "u1", 6: "u1"}.get(bits, f"u{bits // 8}")).astype("u8")
    elif kind == "zeros":
        codes = np.where(rng.random(count) < 0.5, codes % 2 << (bits - 1), 0).astype("u8")
    elif kind == "nan" and dtype in ("F32", "F16", "BF16", "F64", "F8_E5M2"):
        codes[:] = (1 << (bits - 1)) - 1
    if dtype == "BOOL":
        codes &= 1
    if bits in (4, 6):
        per = {4: 2, 6: 4}[bits]
        groups = codes.reshape(-1, per)
        packed = sum(groups[:, i] << np.uint64(bits * i) for i in range(per))
        data = packed.astype("<u8").view("u1").reshape(-1, 8)[:, : bits * per // 8].tobytes()
        array = codes.astype("u1").view(numpys)
    else:
        data = codes.astype(f"<u{bits // 8}").tobytes()
        array = np.frombuffer(data, numpys)
    with np.errstate(all="ignore"):
        wide = (
            np.hypot(*array.view("f4").astype("f8").reshape(-1, 2).T)
            if dtype == "C64"
            else array.astype("f8")
        )
        if dtype == "C64":
            wide[np.isnan(array)] = np.nan
    return wide, data


def near(got, want, relative, absolute=0.0):
    return (
        got is None
        and not np.isfinite(want)
        or got is not None
        and math.isclose(got, want, rel_tol=relative, abs_tol=absolute)
    )


@check
def reports_are_numpys(random):
    """report: statistics of every type as numpy calculates them; with one thread and with three; percentiles and bins as exact as said."""
    rng = np.random.default_rng(random.randrange(1 << 30))
    header, body, want = {}, [], {}
    offset = 0
    for i in range(220):
        dtype = list(EVERY)[i % len(EVERY)]
        wide, data = one_tensor(rng, dtype, ["normal", "codes", "zeros", "nan", "few"][i // len(EVERY) % 5])
        rows = 8 if len(wide) % 8 == 0 and i % 2 else 1
        header[f"t.{i}"] = {
            "dtype": dtype,
            "shape": [rows, len(wide) // rows],
            "data_offsets": [offset, offset + len(data)],
        }
        want[f"t.{i}"] = dtype, wide
        offset += len(data)
        body.append(data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    Path("r.safetensors").write_bytes(len(text).to_bytes(8, "little") + text + b"".join(body))
    got = asked("report", "r.safetensors", "--json", "-j3")
    assert got == asked("report", "r.safetensors", "--json", "-j1")
    assert len(got["tensors"]) == len(want)
    for tensor in got["tensors"]:
        dtype, wide = want[tensor["name"]]
        s = tensor["statistics"]
        fine = wide[np.isfinite(wide)]
        told = (tensor["name"], dtype, len(wide), s)
        assert s["exact"] and s["count"] == len(wide), told
        counts = np.isnan(wide), wide == np.inf, wide == -np.inf, wide == 0, (wide < 0) & np.isfinite(wide)
        names = "nan", "positive_inf", "negative_inf", "zero", "negative"
        assert [s[name] for name in names] == [int(c.sum()) for c in counts], told
        if not len(fine):
            assert s["min"] is None and s["histogram"]["counts"] == [], told
            continue
        assert (s["min"], s["max"]) == (fine.min(), fine.max()), told
        with np.errstate(all="ignore"):
            largest = np.abs(fine).max()
            exact = largest < 1e150  # squares of larger ones are beyond a double
            if exact:
                assert near(s["mean"], math.fsum(fine) / len(fine), 1e-12, 1e-14 * largest), told
                assert near(s["std"], fine.std(), 1e-9, 1e-12 * largest), told
                assert near(s["norm"], math.sqrt(math.fsum(fine * fine)), 1e-12), told
            percentiles = np.percentile(fine, SHARES)
        narrow = EVERY[dtype][1] <= 16
        for share, mine, theirs in zip(SHARES, s["percentiles"], percentiles):
            theirs = np.clip(theirs, -3.4028234e38, 3.4028234e38)
            if narrow or len(fine) <= 4096:
                assert near(mine, theirs, 2e-7, 1e-44), (told, share, theirs)
            elif dtype not in ("F64",) or 1e-30 < np.abs(fine).min() and largest < 1e30:
                at = share / 100 * (len(fine) - 1)
                ends = np.sort(fine)[[math.floor(at), math.ceil(at)]]
                assert (
                    min(e - abs(e) / 127 for e in ends) - 1e-38
                    <= mine
                    <= max(e + abs(e) / 127 for e in ends) + 1e-38
                ), (told, share, ends)
        bins = s["histogram"]
        start, width, counts = bins["start"], bins["width"], bins["counts"]
        assert 1 <= len(counts) <= 64 and sum(counts) == len(fine), told
        if math.isfinite(width) and math.isfinite(start) and exact and width > 1e-300:
            assert math.frexp(width)[0] == 0.5 and math.fmod(start, width) == 0, told
            if dtype not in ("I64", "U64", "F64") and largest < 3.4e38:
                placed = np.floor(fine / width) - start / width
                assert np.array_equal(np.bincount(placed.astype(int), minlength=len(counts)), counts), told


@check
def hashes_are_hashlibs(random):
    """hash: AutoV1 to V3 as the page of --help tells them."""
    rng = np.random.default_rng(random.randrange(1 << 30))
    for size in (10, 0x100000, 0x108000, 0x120000):
        reference.save_file({"a": rng.integers(0, 256, size, dtype="u1")}, "m.safetensors")
        data = Path("m.safetensors").read_bytes()
        got = asked("hash", "--json", "m.safetensors")
        begin = 8 + int.from_bytes(data[:8], "little")
        sha = lambda part: hashlib.sha256(part).hexdigest()
        wanted = (
            sha(data[0x100000:0x110000])[:8],
            sha(data)[:10],
            sha(data[begin:]),
            sha(data[begin:])[:12],
            sha(data),
        )
        assert (got["autov1"], got["autov2"], got["autov3"], got["autov3_short"], got["sha256"]) == wanted, (
            size,
            got,
        )


@check
def memory_is_summed_up(random):
    """mem: per type, overall, the largest; with --dtype every floating-point tensor cast, others as they are."""
    rng = np.random.default_rng(random.randrange(1 << 30))
    for _ in range(10):
        kinds = {"F32": "f4", "F16": "f2", "F64": "f8", "I64": "i8", "U8": "u1", "BOOL": "?"}
        tensors, types = {}, {}
        for i in range(12):
            types[f"t{i}"] = random.choice(list(kinds))
            tensors[f"t{i}"] = np.zeros(rng.integers(0, 9, rng.integers(0, 4)), kinds[types[f"t{i}"]])
        reference.save_file(tensors, "m.safetensors")
        got = asked("mem", "--json", "--dtype", "BF16", "m.safetensors")
        cast = {n: t.size * 2 if types[n][0] == "F" else t.nbytes for n, t in tensors.items()}
        total = {
            "tensors": 12,
            "parameters": sum(t.size for t in tensors.values()),
            "nbytes": sum(t.nbytes for t in tensors.values()),
            "cast_nbytes": sum(cast.values()),
        }
        assert got["total"] == total and got["largest_nbytes"] == max(t.nbytes for t in tensors.values()), (
            got,
            total,
        )
        for name, row in got["dtypes"].items():
            of = [n for n in tensors if types[n] == name]
            assert (row["tensors"], row["nbytes"], row["cast_nbytes"]) == (
                len(of),
                sum(tensors[n].nbytes for n in of),
                sum(cast[n] for n in of),
            )


@check
def differences_are_numpys(random):
    """diff: values by their bytes, with --atol and --rtol as numbers, NaN in the same place the same."""
    rng = np.random.default_rng(random.randrange(1 << 30))
    for k in range(30):
        kind = random.choice(["f4", "f8", "f2", "i4", "u1"])
        a = (rng.normal(size=40) * 50).astype("i4").astype(kind)
        b = a.copy()
        b[rng.integers(0, 40, 5)] += np.dtype(kind).type(random.choice([0, 1, 3]))
        if kind[0] == "f":
            a[3], b[3] = np.nan, random.choice([np.nan, np.nan, 1.0])
            b[5] = random.choice([np.inf, b[5]])
        reference.save_file({"t": a}, "a.safetensors")
        reference.save_file({"t": b}, "b.safetensors")
        atol, rtol = random.choice([0.0, 1.0, 2.5]), random.choice([0.0, 0.1])
        done = tool("diff", "a.safetensors", "b.safetensors", "--atol", atol, "--rtol", rtol)
        with np.errstate(invalid="ignore"):
            same = np.allclose(a.astype("f8"), b.astype("f8"), rtol=rtol, atol=atol, equal_nan=True)
        assert done.returncode == (0 if same else 1) and (done.stdout == "") == same, (
            kind,
            atol,
            rtol,
            a,
            b,
            done,
        )
        exact = tool("diff", "-q", "a.safetensors", "b.safetensors")
        assert exact.returncode == (0 if a.tobytes() == b.tobytes() else 1) and exact.stdout == "", (a, b)


@check
def metadata_is_changed_in_order(random):
    """meta: first --clear, then --import, then --set and --delete in the order given; all at once or not at all."""
    for _ in range(25):
        reference.save_file({"a": np.ones(3, "f4")}, "m.safetensors", {"old": "1", "k0": "was"})
        wanted, arguments = {"old": "1", "k0": "was"}, []
        if random.random() < 0.5:
            arguments, wanted = ["--clear"], {}
        if random.random() < 0.5:
            Path("i.json").write_text(json.dumps({"k1": "imported", "k2": "é\n"}))
            arguments += ["--import", "i.json"]
            wanted |= {"k1": "imported", "k2": "é\n"}
        for i in range(random.randrange(1, 6)):
            key = f"k{random.randrange(3)}"
            if random.random() < 0.6:
                arguments += ["--set", f"{key}=v={i}"]
                wanted[key] = f"v={i}"
            else:
                arguments += ["--delete", key]
                wanted.pop(key, None)
        done = tool("meta", "m.safetensors", *arguments)
        with reference.safe_open("m.safetensors", "np") as f:
            assert done.returncode == 0 and (f.metadata() or {}) == wanted, (
                arguments,
                wanted,
                f.metadata(),
                done,
            )
        before = promises.digest("m.safetensors")
        assert tool("meta", "m.safetensors", "--set", "good=1", "--set", "no value").returncode == 2
        assert promises.digest("m.safetensors") == before


@check
def copies_are_what_the_reference_writes(random):
    """cp: without options the same file; with casts, or of several files, the reference's order; one name twice is an error."""
    for seed in range(6):
        tensors = promises.model(count=9, metadata={"k": "v"}, seed=seed)
        tool("cp", "m.safetensors", "same.safetensors", "-f")
        assert promises.digest("same.safetensors") == promises.digest("m.safetensors")
        tool("cp", "m.safetensors", "cast.safetensors", "--cast", "F16", "-f")
        half = {n: t.astype("f2") if t.dtype.kind == "f" else t for n, t in tensors.items()}
        reference.save_file(half, "wanted.safetensors", {"k": "v"})
        assert promises.digest("cast.safetensors") == promises.digest("wanted.safetensors"), seed
        assert tool("split", "m.safetensors", "-o", f"s{seed}", "--max-shard-size", "200").returncode == 0
        tool("cp", f"s{seed}", "joined.safetensors", "-f")
        with reference.safe_open("joined.safetensors", "np") as f:
            assert {n: f.get_tensor(n).tobytes() for n in f.keys()} == {
                n: t.tobytes() for n, t in tensors.items()
            }
        done = tool("cp", "m.safetensors", "twice.safetensors", "--rename", "t1.w=t2.w")
        assert (
            done.returncode in (1, 2) and "t2.w" in done.stderr and not os.path.exists("twice.safetensors")
        ), done
        kept = promises.digest("cast.safetensors")
        assert (
            tool("cp", "m.safetensors", "cast.safetensors").returncode == 3
            and promises.digest("cast.safetensors") == kept
        )


@check
def other_names_are_found(random):
    """ls: other names are no tensors of the file, but every command finds them."""
    base = np.arange(12, dtype="f4").reshape(3, 4)
    views = {"rows": {"of": "base", "dtype": "F32", "shape": [2, 4], "stride": [4, 1], "offset": 4}}
    reference.save_file(
        {"base": base, "own": np.ones(2, "f4")},
        "m.safetensors",
        {"tied": "base", "sft.aliases": json.dumps(views)},
    )
    assert [t["name"] for t in asked("ls", "--json", "m.safetensors")["tensors"]] == ["base", "own"]
    for name, values in (("tied", base), ("rows", base[1:])):
        assert tool("get", "m.safetensors", name, "-o", f"{name}.npy").returncode == 0
        assert np.array_equal(np.load(f"{name}.npy"), values), name
        assert asked("show", "m.safetensors", name, "--json")["tensors"][0]["shape"] == list(values.shape)
        done = tool("cp", "m.safetensors", f"{name}.safetensors", "--select", name)
        assert done.returncode == 0, done
        assert np.array_equal(reference.load_file(f"{name}.safetensors")[name], values), name
        assert tool("convert", "m.safetensors", "-o", f"{name}.npz", "--select", name).returncode == 0
        assert np.array_equal(np.load(f"{name}.npz")[name], values), name
        assert tool("ls", "m.safetensors", "--aliases", "--filter", name).returncode == 0, name
    assert tool("get", "m.safetensors", "absent", "-o", "absent.npy").returncode == 1 and not os.path.exists(
        "absent.npy"
    )


@check
def measures_of_a_change_are_numpys(random):
    """diff --stat: share, norms, cosine, distance, units in the last place, powers of two; casts; renamed tensors."""
    rng = np.random.default_rng(random.randrange(1 << 30))
    shape = (37, 2111)  # more than one block
    for dtype, (kind, bits) in {**FLOATS, "I32": ("i4", "u4"), "U8": ("u1", "u1")}.items():
        a = (rng.normal(size=shape) * 40).astype(kind)
        moved = np.where(
            rng.random(shape) < 0.7, rng.normal(size=shape) * 2.0 ** rng.integers(-12, 4, shape), 0
        )
        b = (a.astype("f8") + moved).astype(kind)
        if dtype in FLOATS:
            a[0, :4], b[0, :4] = [np.nan, 1, np.inf, -0.0], [np.nan, -np.inf, np.inf, 0.0]
            a[1, :2], b[1, :2] = [1e-8, 0], [-1e-8, 5e-324]
        stored({"w": (dtype, a.view(bits))}, "a.safetensors")
        stored({"w": (dtype, b.view(bits))}, "b.safetensors")
        got = asked("diff", "--stat", "--json", "a.safetensors", "b.safetensors", status=1)["tensors"][0][
            "measures"
        ]
        x, y = a.astype("f8"), b.astype("f8")
        finite = np.isfinite(x) & np.isfinite(y)
        x, y = x[finite], y[finite]
        d = y - x
        assert got["elements"] == a.size and got["equal"] == (a.view(bits) == b.view(bits)).sum(), dtype
        assert got["not_finite"] == a.size - finite.sum(), dtype
        wanted = {
            "norm_a": np.linalg.norm(x),
            "norm_b": np.linalg.norm(y),
            "norm_change": np.linalg.norm(d),
            "relative": np.linalg.norm(d) / np.linalg.norm(x),
            "cosine": x @ y / np.linalg.norm(x) / np.linalg.norm(y),
        }
        for key, value in wanted.items():
            assert math.isclose(got[key], value, rel_tol=1e-9), (dtype, key, got[key], value)
        assert got["max_abs"] == abs(d).max(), (dtype, got["max_abs"])
        powers = np.floor(np.log2(abs(d[d != 0]))).astype(int).clip(-48, 15)
        counts, low = got["histogram"]["counts"], got["histogram"]["exponent"]
        assert [(powers == low + i).sum() for i in range(len(counts))] == counts and sum(counts) == len(
            powers
        ), dtype
        if dtype in FLOATS:
            codes = [v[finite].view(bits).astype("u8") for v in (a, b)]
            sign = np.uint64(1 << (8 * a.itemsize - 1))
            steps = [np.where(c & sign, -(c & ~sign).astype("O"), (c & ~sign).astype("O")) for c in codes]
            assert got["max_ulp"] == max(abs(p - q) for p, q in zip(*steps)), (dtype, got["max_ulp"])

    wide = rng.normal(size=shape).astype("f4")
    cast = wide.astype(ml_dtypes.bfloat16)
    stored({"w": ("F32", wide.view("u4"))}, "a.safetensors")
    for change in (False, True):
        other = cast.view("u2") ^ np.uint16(change)
        stored({"w": ("BF16", other)}, "b.safetensors")
        got = asked("diff", "--stat", "--json", "a.safetensors", "b.safetensors", status=1)
        assert got["tensors"][0]["measures"]["cast"] is not change, got
        assert (got["kind"] == "cast") is not change, got

    names = [f"layers.{i}.w" for i in range(8)]
    tensors = {name: rng.normal(size=(64, 48)).astype("f4") for name in names}
    order = random.sample(names, len(names))
    reference.save_file(tensors, "a.safetensors")
    reference.save_file({f"blk.{i}.w": tensors[n] for i, n in enumerate(order)}, "b.safetensors")
    got = asked("diff", "--stat", "--json", "a.safetensors", "b.safetensors", status=1)
    found = {t["name"]: (t["change"], t["new_name"]) for t in got["tensors"]}
    assert found == {n: ("name", f"blk.{i}.w") for i, n in enumerate(order)} and got["kind"] == "renamed", got
    near = {f"blk.{i}.w": tensors[n] * np.float32(1.01) + np.float32(1e-3) for i, n in enumerate(order)}
    reference.save_file(near, "b.safetensors")
    got = asked("diff", "--stat", "--json", "a.safetensors", "b.safetensors", status=1)
    assert {t["name"]: t["new_name"] for t in got["tensors"]} == {n: found[n][1] for n in names}, got
    assert {t["change"] for t in got["tensors"]} == {"values"}, got


@check
def planted_ranks_are_found(random):
    """diff --stat: the rank that a merged LoRA leaves in b - a; none where all of a matrix moved."""
    rng = np.random.default_rng(random.randrange(1 << 30))
    for kind, bits, dtype in ((ml_dtypes.bfloat16, "u2", "BF16"), ("f2", "u2", "F16"), ("f4", "u4", "F32")):
        for rank in (1, 8, 16, 64):
            a = (rng.normal(size=(192, 320)) * 0.02).astype(kind)
            delta = rng.normal(size=(192, rank)) @ rng.normal(size=(rank, 320)) * 0.01 / math.sqrt(rank)
            b = (a.astype("f4") + delta.astype("f4")).astype(kind)
            noise = (a.astype("f4") + rng.normal(size=a.shape) * 0.001).astype(kind)
            stored({"l": (dtype, a.view(bits)), "n": (dtype, a.view(bits))}, "a.safetensors")
            stored({"l": (dtype, b.view(bits)), "n": (dtype, noise.view(bits))}, "b.safetensors")
            got = asked("diff", "--stat", "--json", "a.safetensors", "b.safetensors", status=1)
            ranks = {t["name"]: t["measures"]["rank"] for t in got["tensors"]}
            assert ranks == {"l": rank, "n": None} and got["kind"] == "fine-tuned", (dtype, rank, got)
            stored({"l": (dtype, b.view(bits)), "n": (dtype, a.view(bits))}, "b.safetensors")
            got = asked("diff", "--stat", "--json", "a.safetensors", "b.safetensors", status=1)
            assert got["kind"] == "merged-lora" and f"{rank} at most" in got["reason"], (dtype, rank, got)
    # rows of an embedding that were trained: most of them are in none of the rows that are looked at
    for rows, wanted in ((1000, 8), (3000, None)):
        a = rng.normal(size=(rows, 256)).astype("f4")
        b = a.copy()
        b[rng.choice(rows, 8, replace=False)] += rng.normal(size=(8, 256)).astype("f4")
        for x, y in ((a, b), (np.ascontiguousarray(a.T), np.ascontiguousarray(b.T))):
            stored({"w": ("F32", x.view("u4"))}, "a.safetensors")
            stored({"w": ("F32", y.view("u4"))}, "b.safetensors")
            got = asked("diff", "--stat", "--json", "a.safetensors", "b.safetensors", status=1)
            rank = got["tensors"][0]["measures"]["rank"]
            assert got["kind"] == "fine-tuned", got
            assert rank == wanted, (x.shape, rank)


if __name__ == "__main__":
    sys.exit(promises.main())
