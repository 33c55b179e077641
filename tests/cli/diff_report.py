#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The page of `safetensors diff --report`, read back: diff_report.py --tool TOOL. Changes are planted - a merged LoRA, one bit,
another name, a cast, noise, metadata, quantised blocks - and every measure is compared with NumPy's. Kills and a file system that
takes no more leave the older page as it was."""

import argparse
import itertools
import json
import os
import random
import resource
import signal
import struct
import subprocess
import sys
import tempfile
import time

import ml_dtypes
import numpy as np
from safetensors.numpy import save_file

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import report_page  # noqa: E402

CODES = {"float32": np.int32, "float16": np.int16, "bfloat16": np.int16, "float64": np.int64}
LAYERS, WIDTH = 6, 96


def base_of(rng, dtype):
    out = {"model.embed_tokens.weight": rng.normal(0, 0.02, (300, WIDTH))}
    for k in range(LAYERS):
        at = "model.layers.%d." % k
        for name in ("q", "k", "v", "o"):
            out[at + "self_attn.%s_proj.weight" % name] = rng.normal(0, 0.02, (WIDTH, WIDTH))
        out[at + "mlp.up_proj.weight"] = rng.normal(0, 0.02, (2 * WIDTH, WIDTH))
        out[at + "input_layernorm.weight"] = 1 + rng.normal(0, 0.1, WIDTH)
    out["model.norm.weight"] = np.ones(WIDTH)
    return {name: value.astype(dtype) for name, value in out.items()}


class Case:
    def __init__(self, tool):
        self.tool = tool
        self.compared = 0

    def run(self, *arguments, status=1, **more):
        done = subprocess.run([self.tool, "diff", *arguments], capture_output=True, **more)
        assert done.returncode == status, (done.returncode, arguments, done.stderr[-2000:])
        return done

    def page(self, a, b, *more, meta=(None, None), status=1):
        save_file(a, "a.safetensors", metadata=meta[0])
        save_file(b, "b.safetensors", metadata=meta[1])
        self.run("a.safetensors", "b.safetensors", "--report", "d.html", "-f", *more, status=status)
        page = report_page.load_diff("d.html")
        told = json.loads(
            self.run("a.safetensors", "b.safetensors", "--stat", "--json", *more, status=status).stdout
        )
        for key in ("reason", "models", "tally", "renamed", "overall", "metadata"):
            assert page[key] == told[key], key
        self.rows_are_numpys(page, a, b)
        return page

    def kind(self, a, b):
        save_file(a, "a.safetensors")
        save_file(b, "b.safetensors")
        told = json.loads(self.run("a.safetensors", "b.safetensors", "--stat", "--json").stdout)
        self.reason = told["reason"]
        return told["kind"]

    def rows_are_numpys(self, page, a, b):
        assert {r["name"] for r in page["rows"] if r["a"]} == set(a)
        assert {r.get("new_name", r["name"]) for r in page["rows"] if r["b"]} == set(b)
        for r in page["rows"]:
            x = a.get(r["name"]) if r["a"] else None
            y = b.get(r.get("new_name", r["name"])) if r["b"] else None
            if x is None or y is None:
                assert r["change"] == ("removed" if y is None else "added")
            elif x.dtype == y.dtype and x.tobytes() == y.tobytes():
                assert r["change"] == ("name" if "new_name" in r else "same"), r
                assert "measures" not in r
            else:
                assert r["change"] == ("values" if x.dtype == y.dtype else "type"), r
                self.measures_are_numpys(r, x, y)

    def measures_are_numpys(self, row, x, y):
        m = row["measures"]
        p, q = x.astype(np.float64).ravel(), y.astype(np.float64).ravel()
        good = np.isfinite(p) & np.isfinite(q)
        same = (
            p == q
            if x.dtype != y.dtype
            else x.ravel().view(CODES[x.dtype.name]) == y.ravel().view(CODES[y.dtype.name])
        )
        assert (m["equal"], m["not_finite"]) == (int(same.sum()), int((~good).sum())), (row["name"], m)
        p, q = p[good], q[good]
        d = q - p
        near = lambda got, want: abs(got - want) <= 1e-11 * abs(want)  # noqa: E731
        assert near(m["norm_a"], np.linalg.norm(p)) and near(m["norm_b"], np.linalg.norm(q))
        assert near(m["norm_change"], np.linalg.norm(d)) and near(m["max_abs"], np.abs(d).max(initial=0))
        assert (
            near(m["relative"], np.linalg.norm(d) / np.linalg.norm(p))
            and abs(row["moved"] - m["relative"]) <= 1e-6 * m["relative"]
        )
        if not p.any() or not q.any():
            assert np.isnan(m["cosine"])
        else:
            assert abs(m["cosine"] - p @ q / np.linalg.norm(p) / np.linalg.norm(q)) < 1e-11
        exponents = np.frexp(np.abs(d[d != 0]))[1] - 1
        low, counts = m["histogram"]["exponent"], m["histogram"]["counts"]
        wanted = np.bincount(np.clip(exponents, -48, 15) + 48, minlength=64)
        assert sum(counts) == (d != 0).sum() and list(wanted[low + 48 : low + 48 + len(counts)]) == counts, (
            m,
            wanted,
        )
        if x.dtype == y.dtype:
            code = CODES[x.dtype.name]
            steps = [v.view(code).astype(object) for v in (x.ravel()[good], y.ravel()[good])]
            sign = int(np.iinfo(code).min)
            u, v = (np.array([int(c) if c >= 0 else sign - int(c) for c in s], dtype=object) for s in steps)
            assert m["max_ulp"] == max(abs(v - u), default=0), (row["name"], m)
            assert "cast" not in m
        else:
            assert "max_ulp" not in m and m["cast"] == (x.astype(y.dtype).tobytes() == y.tobytes())
        self.compared += 1


def lora(case, rng):
    for dtype in (np.float32, ml_dtypes.bfloat16):
        a = base_of(rng, dtype)
        b = dict(a)
        for name in a:
            if "q_proj" in name or "v_proj" in name:
                delta = rng.normal(0, 0.1, (WIDTH, 8)) @ rng.normal(0, 0.1, (8, WIDTH))
                b[name] = (a[name].astype(np.float64) + delta).astype(dtype)
        # rows of an embedding that moved beside it are of no low rank that speaks of a LoRA
        a["embed"] = rng.normal(0, 1, (400, 128)).astype(dtype)
        b["embed"] = a["embed"].copy()
        b["embed"][:30] = rng.normal(0, 1, (30, 128))
        page = case.page(a, b)
        assert (page["change"], page["rank"]) == ("merged-lora", 8), page["reason"]
        del a["embed"], b["embed"]
        page = case.page(a, b)
        assert (page["change"], page["rank"]) == ("merged-lora", 8), page["reason"]
        ranks = {r["name"]: r["measures"]["rank"] for r in page["rows"] if "rank" in r.get("measures", ())}
        assert len(ranks) == 2 * LAYERS and set(ranks.values()) == {8}, ranks
        assert page["overall"]["moved"] == 2 * LAYERS and page["overall"]["tensors"] == len(a)
        deltas = [(a[n].astype(np.float64), b[n].astype(np.float64)) for n in ranks]
        want = np.sqrt(sum(((q - p) ** 2).sum() for p, q in deltas) / sum((p**2).sum() for p, _ in deltas))
        assert abs(page["overall"]["relative"] - want) < 1e-10


def ranks(case, rng):
    """Merged LoRAs of every size in every type: singular values of b - a by NumPy that stand out of what rounding leaves."""
    precision = {np.float64: 52, np.float32: 23, np.float16: 10, ml_dtypes.bfloat16: 7}
    found = dict.fromkeys(precision, 0)
    sizes = [(200, 180, rank, 1.0) for rank in (1, 4, 16, 64)]
    sizes += [(128, 700, 48, 0.25), (65, 512, 24, 0.25), (300, 300, 96, 0.25)]  # near the limit in every way
    runs = [(*size[:3], 10.0**-x) for size in sizes for x in np.arange(1, 7, size[3])]
    for dtype, (rows, columns, rank, scale) in itertools.product(precision, runs):
        a = rng.normal(0, 0.02, (rows, columns)).astype(dtype)
        lora = rng.normal(0, 1, (rows, rank)) @ rng.normal(0, 1, (rank, columns))
        b = (a.astype(np.float64) + 0.02 * scale / np.sqrt(rank) * lora).astype(dtype)
        if a.tobytes() == b.tobytes():
            continue
        save_file({"w": a}, "a.safetensors")
        save_file({"w": b}, "b.safetensors")
        told = json.loads(case.run("a.safetensors", "b.safetensors", "--stat", "--json").stdout)
        got = told["tensors"][0]["measures"].get("rank")
        p, q = a.astype(np.float64), b.astype(np.float64)
        ulp = np.exp2(np.frexp(q)[1] - 1.0 - precision[dtype])
        noise = np.sqrt(np.mean(ulp**2) / 12) * (np.sqrt(rows) + np.sqrt(columns))
        if np.linalg.svd(q - p, compute_uv=False)[rank - 1] > 6 * noise:
            assert (got, told["kind"]) == (rank, "merged-lora"), (dtype, rank, scale, told["reason"])
            found[dtype] += 1
        else:
            assert got is None or got <= rank, (dtype, rank, scale, got)
    assert found[np.float64] == 96 and all(n >= 15 for n in found.values()), found


def one_bit(case, rng):
    for dtype in (np.float16, ml_dtypes.bfloat16, np.float32, np.float64):
        a = base_of(rng, dtype)
        b = dict(a)
        name = "model.layers.3.self_attn.k_proj.weight"
        flipped = a[name].copy()
        flipped.view(CODES[np.dtype(dtype).name])[17, 5] ^= 1
        b[name] = flipped
        page = case.page(a, b)
        changed = [r for r in page["rows"] if r["change"] != "same"]
        assert [r["name"] for r in changed] == [name] and changed[0]["measures"]["max_ulp"] == 1
        assert (
            changed[0]["measures"]["equal"] == WIDTH * WIDTH - 1
            and sum(changed[0]["measures"]["histogram"]["counts"]) == 1
        )


def renamed(case, rng):
    a = base_of(rng, np.float32)
    b = {n.replace("self_attn", "attention"): v for n, v in a.items()}
    page = case.page(a, b)
    assert (page["change"], page["renamed"]) == ("renamed", 4 * LAYERS)
    assert all(
        r["new_name"] == r["name"].replace("self_attn", "attention") for r in page["rows"] if "new_name" in r
    )
    b["head"] = b.pop("model.embed_tokens.weight") + rng.normal(0, 1e-4, (300, WIDTH)).astype(np.float32)
    page = case.page(a, b)
    (row,) = [r for r in page["rows"] if r["change"] == "values"]
    assert (row["name"], row["new_name"]) == ("model.embed_tokens.weight", "head")
    twins = {n: rng.normal(0, 1, (512, 512)).astype(np.float32) for n in "vu"}
    twins["w"] = twins["v"].copy()
    twins["w"][300, 100] += 1  # in no sample
    v, w = twins["v"], twins["w"]
    assert case.kind({"ema.w": v, "model.w": w}, {"a.w": w, "b.w": v}) == "renamed"
    rows = case.page({"x": v}, {"y": w, "z": v})["rows"]
    assert {(r["name"], r.get("new_name"), r["change"]) for r in rows} == {
        ("x", "z", "name"),
        ("y", None, "added"),
    }, rows


def cast(case, rng):
    a = base_of(rng, np.float32)
    b = {n: v.astype(ml_dtypes.bfloat16) for n, v in a.items()}
    page = case.page(a, b)
    assert page["change"] == "cast" and "F32 to BF16" in page["reason"]
    assert all(r["measures"]["cast"] for r in page["rows"]) and page["overall"]["moved"] == 0
    # the other way: of numbers that BF16 lacks nothing is called changed; of both ways some
    page = case.page(b, a)
    assert page["change"] == "cast" and page["overall"]["moved"] == 0, page["reason"]
    assert page["reason"].endswith(
        "from F32 to BF16; every value of the first model is what casting the second's gives"
    )
    assert not all(r["measures"]["cast"] for r in page["rows"])
    names = list(a)
    mixed = [
        {n: m[n] for m, ns in zip(two, (names[::2], names[1::2])) for n in ns} for two in ((a, b), (b, a))
    ]
    page = case.page(*mixed)
    assert page["change"] == "cast" and "every value of one model" in page["reason"], page["reason"]
    a["model.norm.weight"] = a["model.norm.weight"] + np.float32(0.1)
    b["model.norm.weight"] = b["model.norm.weight"] + ml_dtypes.bfloat16(0.2)
    assert case.page(b, a)["change"] == "fine-tuned"
    a = base_of(rng, np.float32)
    half = {n: v.astype(np.float16) for n, v in a.items()}
    half["model.norm.weight"] = (a["model.norm.weight"] * 1.5).astype(np.float16)
    assert case.page(a, half)["change"] != "cast"
    # F64 to F16 by one rounding, as NumPy does, or through F32, as PyTorch does; both have the values between
    halves = np.arange(1, 0x7BFF, dtype=np.uint16).view(np.float16).astype(np.float64)
    middle = (halves[:-1] + halves[1:]) / 2
    a = {
        "w": np.concatenate(
            [middle * (1 + 2.0**-40), -middle * (1 - 2.0**-40), [65519.99999999, 65520, 1e300]]
        )
    }
    with np.errstate(over="ignore"):
        once = a["w"].astype(np.float16)
        twice = a["w"].astype(np.float32).astype(np.float16)
    assert (once != twice).sum() > 30000
    for half in once, twice:
        assert case.kind(a, {"w": half}) == "cast" and case.kind({"w": half}, a) == "cast"
        for i in rng.integers(0, half.size - 1, 10):
            other = half.copy()
            other.view(np.uint16)[i] += 2
            assert case.kind(a, {"w": other}) != "cast", (i, a["w"][i])
    # NaN are NaN, whichever bits a library gives them
    a = {"w": np.array([1, np.nan, -np.nan, 2], np.float32)}
    for dtype in (ml_dtypes.bfloat16, np.float16, ml_dtypes.float8_e5m2, np.float64):
        for nan in np.array([np.nan, -np.nan]).astype(dtype):
            b = {"w": np.array([1, nan, nan, 2], dtype)}
            assert case.kind(a, b) == "cast" and case.kind(b, a) == "cast", dtype
        b["w"][1] = 1
        assert case.kind(a, b) != "cast", dtype
    # a tensor that is called like what quantizers add is none where nothing else changed
    a = {"w": np.ones(5, np.float32)}
    assert case.kind(a, {**a, "gate_scales": np.ones(5, np.float32)}) == "other", case.reason


def adapter(case, rng):
    """A LoRA beside what it was made for, as PEFT, diffusers and kohya name it, is no model to compare with."""
    a = base_of(rng, np.float32)
    for names in (
        ("base_model.model.x.q_proj.lora_A.weight", "base_model.model.x.q_proj.lora_B.weight"),
        ("unet.to_q.lora.down.weight", "unet.to_q.lora.up.weight"),
        ("lora_unet_x.lora_down.weight", "lora_unet_x.lora_up.weight", "lora_unet_x.alpha"),
    ):
        b = {n: rng.normal(0, 1, (4, 7)).astype(np.float32) for n in names}
        page = case.page(a, b)
        assert page["change"] == "other" and page["reason"].startswith(
            "the second model is a LoRA: none of its %d tensors" % len(names)
        ), page["reason"]
    page = case.page(a, {**a, **b})
    assert page["reason"] == "3 tensors are in one model alone, none have other types or shapes"
    page = case.page(a, {**a, "head": np.ones(2, np.float32)})
    assert page["reason"] == "1 tensor is in one model alone, none have other types or shapes"


def tuned(case, rng):
    for dtype in (np.float32, ml_dtypes.bfloat16):
        a = base_of(rng, dtype)
        b = {
            n: (v.astype(np.float64) + rng.normal(0, 1e-3, v.shape)).astype(dtype) if "norm" not in n else v
            for n, v in a.items()
        }
        b["model.layers.%d.extra" % LAYERS] = np.zeros(3, np.float32)
        del b["model.layers.0.mlp.up_proj.weight"]
        page = case.page(a, b)
        assert page["change"] == "fine-tuned" and page["tally"]["added"] == page["tally"]["removed"] == 1
    odd = np.array([np.nan, np.inf, -0.0, 0.0, 1e-45, 3e38, -3e38, 1.0], np.float32)
    with np.errstate(all="ignore"):
        case.page(
            {"x": odd, "y": odd},
            {"x": odd[::-1].copy(), "y": np.array([1, 2, 0, -0.0, -1e-45, 2e38, 3e38, 1], np.float32)},
        )


def pruned(case, rng):
    """Nothing changed but to 0: by magnitude, two of four, whole tensors. What was tuned as well is not called so."""

    def smallest(v, share):
        return np.where(
            np.abs(v.astype(np.float64)) <= np.quantile(np.abs(v.astype(np.float64)), share), 0, 1
        )

    def two_of_four(v, _):
        quads = np.abs(v.astype(np.float64)).reshape(-1, 4)
        return (quads.argsort(axis=1).argsort(axis=1) >= 2).reshape(v.shape)

    def matrices(model):
        return [n for n, v in model.items() if v.ndim == 2]

    for dtype in (np.float32, ml_dtypes.bfloat16, np.float16, np.float64):
        a = base_of(rng, dtype)
        for way, share in (smallest, 0.3), (smallest, 0.5), (two_of_four, 0.5):
            # negative values times 0 are -0
            b = {n: v * way(v, share).astype(dtype) if n in matrices(a) else v for n, v in a.items()}
            page = case.page(a, b)
            assert page["change"] == "pruned" and page["overall"]["moved"] == len(matrices(a)), page["reason"]
            zeros = [sum((m[n] == 0).sum() for n in matrices(a)) for m in (a, b)]
            size = sum(a[n].size for n in matrices(a))
            assert (
                "%.3g%% of their values are 0, %.3g%% were; none of them"
                % (
                    100 * zeros[1] / size,
                    100 * zeros[0] / size,
                )
                in page["reason"]
            ), (page["reason"], zeros, size)
        # pruned, then tuned: what is left, one tensor, one value
        for part in ("left", "tensor", "value"):
            c = dict(b)
            name = matrices(a)[3]
            if part == "left":
                c = {n: (v * dtype(1.01)).astype(dtype) for n, v in b.items()}
            elif part == "tensor":
                c["model.norm.weight"] = (a["model.norm.weight"] * dtype(1.01)).astype(dtype)
            else:
                c[name] = b[name].copy()
                at = np.argwhere(b[name] != 0)[-1]
                c[name][tuple(at)] *= dtype(2)
            assert case.page(a, c)["change"] == "fine-tuned", part
        # the other way, and zeros whose sign alone changed
        assert case.page(b, a)["change"] not in ("pruned", "merged-lora")
        signs = {n: np.where(v == 0, -v, v).astype(dtype) for n, v in b.items()}
        page = case.page(b, signs)
        assert page["change"] == "zero-signs" and page["reason"] == (
            "%d of %d tensors changed, and only the signs of zeros (%s values)"
            % (len(matrices(a)), len(a), format(sum((b[n] == 0).sum() for n in b), ","))
        ), page["reason"]
        # pruned once more: of one matrix only zeros have another sign
        once_more = {**a, "model.embed_tokens.weight": b["model.embed_tokens.weight"]}
        c = {**b, "model.embed_tokens.weight": signs["model.embed_tokens.weight"]}
        assert case.page(once_more, c)["change"] == "pruned"
    a = base_of(rng, np.float32)
    b = dict(a)
    name = "model.layers.2.mlp.up_proj.weight"
    b[name] = np.zeros_like(a[name])
    page = case.page(a, b)
    assert page["change"] == "pruned" and "; 1 of them is 0 everywhere" in page["reason"], page["reason"]
    # codes of quantised weights, packed ones, indices and truths are no weights; F8 are, whatever their scale
    for dtype in (np.uint8, np.int8, np.int16, np.int32, np.int64, np.uint64, bool):
        a = {"codes": rng.integers(1, 120, (64, 64)).astype(dtype)}
        b = {"codes": (a["codes"] * (rng.random((64, 64)) > 0.3)).astype(dtype)}
        assert case.kind(a, b) == "other", dtype
    for dtype in (ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2):
        a = {"w": rng.normal(0, 1, (64, 64)).astype(dtype), "w_scale": np.ones(64, np.float32)}
        b = dict(a, w=(a["w"] * (rng.random((64, 64)) > 0.3).astype(dtype)).astype(dtype))
        assert case.kind(a, b) == "pruned", dtype


def signs(case, rng):
    """Only the signs of zeros are others: also beside NaN that are the same, and of complex numbers. Other NaN are none of them."""
    for dtype in (
        np.float32,
        np.float64,
        np.float16,
        ml_dtypes.bfloat16,
        ml_dtypes.float8_e4m3fn,
        np.complex64,
    ):
        a = rng.normal(0, 1, (20, 30)).astype(dtype)
        a[3] = 0
        b = a.copy()
        b[3] = -b[3]
        assert case.kind({"w": a}, {"w": b}) == "zero-signs", dtype
        zeros = np.zeros(9, dtype)
        assert case.kind({"w": zeros}, {"w": -zeros}) == "zero-signs", dtype
        c = b.copy()
        c[0, 0] *= dtype(2)
        assert case.kind({"w": a}, {"w": c}) != "zero-signs", dtype
        if dtype is not np.complex64:
            a[5], b[5], c[5] = np.nan, np.nan, -np.nan
            assert case.kind({"w": a}, {"w": b}) == "zero-signs", dtype
            c[0, 0] = a[0, 0]
            assert case.kind({"w": a}, {"w": c}) == "other" and "only where numbers are NaN" in case.reason
            c[6, 0] = np.nan  # where a is a number
            assert case.kind({"w": a}, {"w": c}) == "other" and "only where numbers are NaN" in case.reason
    for dtype, bits, sign in (("F4", 4, 0x88), ("F6_E2M3", 6, 0x20), ("F6_E3M2", 6, 0x20)):
        for name, data in (("a", bytes(64 * bits // 8)), ("b", bytes([sign]) + bytes(64 * bits // 8 - 1))):
            header = json.dumps(
                {"w": {"dtype": dtype, "shape": [64], "data_offsets": [0, len(data)]}}
            ).encode()
            with open(name + ".safetensors", "wb") as f:
                f.write(len(header).to_bytes(8, "little") + header + data)
        done = case.run("a.safetensors", "b.safetensors", "--stat", "--json")
        told = json.loads(done.stdout)
        assert (done.returncode, told["kind"], told["same"]) == (1, "zero-signs", False), told
        assert told["tensors"][0]["measures"]["equal"] == 64 - bin(sign).count("1"), told
    floats = rng.normal(0, 1, (20, 30)).astype(np.float32)
    assert case.kind({"w": floats}, {"w": floats.view(np.int32)}) == "other", case.reason
    truths = np.ones(9, np.uint8)
    assert case.kind({"w": truths.view(bool)}, {"w": (truths + 1).view(bool)}) == "other"


def metadata(case, rng):
    a = {"w": rng.normal(0, 1, 10)}
    page = case.page(a, a, meta=({"k": "v", "gone": "\u202e<"}, {"k": "w", "new": "</script>"}), status=0)
    assert (page["change"], page["metadata_changes"]) == ("metadata", 3) and page["same"]
    assert sorted((m["key"], m["a"], m["b"]) for m in page["metadata"]) == [
        ("gone", "\u202e<", None),
        ("k", "v", "w"),
        ("new", None, "</script>"),
    ]
    case.page(a, a, "--metadata", meta=({"k": "v"}, {}), status=1)
    case.page({}, {}, status=0)
    save_file({}, "a.safetensors", metadata={"long": "x" * 3000000, "k": "v"})
    save_file({}, "b.safetensors", metadata={"long": "y" * 2000000, "k": "w"})
    command = ("a.safetensors", "b.safetensors", "--report", "d.html", "-f", "--max-size", "1MB")
    told = case.run(*command, status=0).stderr
    page = report_page.load_diff("d.html")
    assert b"left out: parts of 2 values of metadata" in told, told
    (long,) = [m for m in page["metadata"] if m["key"] == "long"]
    assert os.path.getsize("d.html") <= 1000000 and len(page["left_out"]) == 1
    assert (
        len(long["a"]) + long["a_cut"] == 3000000
        and len(long["b"]) + long["b_cut"] == 2000000
        and len(long["a"]) > 1000
    )
    # tensors leave most of the room to them: the longest are cut, by no more than is needed
    command = (*command[:-1], "4MB")
    case.run(*command, status=0)
    page = report_page.load_diff("d.html")
    (long,) = [m for m in page["metadata"] if m["key"] == "long"]
    assert 3990000 < os.path.getsize("d.html") <= 4000000 and long.get("b_cut", 0) < 200000 < long["a_cut"], (
        long
    )


def other_formats(case, rng):
    """A GGUF file of Q8_0 against its source, and a .npz against safetensors."""
    a = {"blk.%d.w" % k: rng.normal(0, 1, (8, 64)).astype(np.float32) for k in range(4)}
    save_file(a, "a.safetensors")
    body, infos = b"", b""
    for name, v in a.items():
        blocks = v.reshape(-1, 32)
        scale = np.abs(blocks).max(1) / 127
        codes = np.round(blocks / scale[:, None]).astype(np.int8)
        data = b"".join(s.astype(np.float16).tobytes() + c.tobytes() for s, c in zip(scale, codes))
        infos += struct.pack("<Q", len(name)) + name.encode() + struct.pack("<IQQIQ", 2, 64, 8, 8, len(body))
        body += data + bytes(-len(data) % 32)
    head = b"GGUF" + struct.pack("<IQQ", 3, len(a), 0) + infos
    with open("q.gguf", "wb") as f:
        f.write(head + bytes(-len(head) % 32) + body)
    case.run("a.safetensors", "q.gguf", "--report", "d.html", "-f")
    page = report_page.load_diff("d.html")
    assert page["change"] == "quantized" and [m["format"] for m in page["models"]] == ["safetensors", "gguf"]
    assert [(r["change"], r["b"]["dtype"], r["b"]["shape"]) for r in page["rows"]] == [
        ("type", "U8", [8, 68])
    ] * 4
    case.run("q.gguf", "q.gguf", "--report", "d.html", "-f", status=0)
    np.savez("n.npz", **{k: v + 1 for k, v in a.items()})
    case.run("n.npz", "a.safetensors", "--report", "d.html", "-f")
    assert report_page.load_diff("d.html")["tally"]["values"] == 4
    os.mkdir("dir")
    save_file(a, "dir/model.safetensors")
    case.run("dir", "a.safetensors", "--report", "dir/d.html", status=0)
    assert report_page.load_diff("dir/d.html")["same"]
    case.run("dir", "a.safetensors", "--report", "dir/model.safetensors", "-f", status=2)
    case.run("a.safetensors", "dir", "--report", "dir/model.safetensors", "-f", status=2)


def older_stays(case, rng):
    a = {"w.%d" % k: rng.normal(0, 1, (256, 256)).astype(np.float32) for k in range(200)}
    save_file(a, "a.safetensors")
    save_file({n: v + np.float32(0.001) for n, v in a.items()}, "b.safetensors")
    command = [case.tool, "diff", "a.safetensors", "b.safetensors", "--report", "k.html", "-f"]
    old = b"the older page"
    random.seed(5)
    begin = time.monotonic()
    subprocess.run(command, stdout=subprocess.DEVNULL, check=False)
    whole = time.monotonic() - begin
    new = open("k.html", "rb").read()
    seen = {True: 0, False: 0}
    for k in range(40):
        with open("k.html", "wb") as f:
            f.write(old)
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        time.sleep(random.uniform(0, whole))
        process.send_signal(signal.SIGKILL if k % 2 else signal.SIGTERM)
        process.wait()
        now = open("k.html", "rb").read()
        assert now in (old, new), len(now)
        seen[now == old] += 1
    assert seen[True] > 5, seen
    with open("k.html", "wb") as f:
        f.write(old)

    def little():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (50000, 50000))

    before = set(os.listdir("."))
    done = case.run(*command[2:], status=3, preexec_fn=little)
    assert b"cannot write" in done.stderr and open("k.html", "rb").read() == old
    assert set(os.listdir(".")) == before
    return "%d of 40 kills left the older page, the others came too late" % seen[True]


def wide(case, rng):
    """Whole numbers that doubles have not, and steps that need 64 bits."""
    a = {"i": np.full(4, 2**60, np.int64), "u": np.full(4, 2**63, np.uint64), "f": np.array([2.0, 1.0])}
    b = {"i": a["i"] + 100, "u": a["u"] - np.uint64(3), "f": np.array([-2.0, 1.0])}
    save_file(a, "a.safetensors")
    save_file(b, "b.safetensors")
    told = json.loads(case.run("a.safetensors", "b.safetensors", "--stat", "--json").stdout)
    measures = {t["name"]: t["measures"] for t in told["tensors"]}
    assert measures["i"]["max_abs"] == 100 and measures["i"]["norm_change"] == 200, measures["i"]
    assert measures["u"]["max_abs"] == 3 and measures["u"]["norm_change"] == 6, measures["u"]
    steps = 2 * int(np.array(2.0).view(np.int64))
    assert int(measures["f"]["max_ulp"]) == steps >= 2**63, (measures["f"], steps)


def runs(case, rng):
    """Sizes that no stretch of the measuring divides, with runs that are equal, of any bits: NaN, infinities, denormals."""
    for dtype in (np.float16, ml_dtypes.bfloat16, np.float32, np.float64):
        code = np.dtype(CODES[np.dtype(dtype).name])
        a, b = {}, {}
        for n in (1, 3, 511, 513, 1027, 70001):
            # beyond its middle exponents the squares of F64 are lost
            bits = rng.integers(0, 256, n * code.itemsize, np.uint8).view(code)
            value = (
                bits.view(dtype)
                if code.itemsize < 8
                else rng.normal(0, 1, n) * 2.0 ** rng.integers(-99, 99, n)
            )
            value[rng.integers(0, n, n // 9)] = np.inf
            other = value.copy()
            end = n // 2 + 1
            other[n // 3 : end] = rng.permutation(value[n // 3 : end])
            other[n // 3] = 1
            a["w.%d" % n], b["w.%d" % n] = value, other
        with np.errstate(all="ignore"):
            case.page(a, b)


def extreme(case, rng):
    """Squares that doubles do not have: of F64 and C128, whatever is large or small, in one block and in several."""
    assert np.finfo(np.longdouble).max > np.longdouble(1e300) ** 2
    far = lambda e, n=70000: rng.normal(0, 1, n) * 10.0**e  # noqa: E731
    near = lambda v: v * (1 + rng.normal(0, 1e-3, v.size))  # noqa: E731
    lone = np.ones(200000)
    lone[150000] = 1 + 2**-52
    odd = far(200, 300)
    odd[:3] = [np.nan, np.inf, -np.inf]
    pairs = {
        "large": (large := far(200), near(large)),
        "small": (small := far(-200), near(small)),
        "less": (less := far(-320), less[::-1].copy()),
        "one ulp of small ones": (v := np.full(9, 1e-150), np.nextafter(v, 1)),
        "one ulp": (np.ones(200000), lone),
        "up": (far(-200), far(200)),
        "down": (far(200), far(-200)),
        "across": (np.array([1.7e308, 1.0]), np.array([-1.7e308, 1.0])),
        "zeros, then large": (np.r_[np.zeros(65536), far(160, 10)], np.r_[np.zeros(65536), far(160, 10)]),
        "large, then small": (v := np.r_[far(250), far(-250), far(0)], near(v)),
        "small, then large": (v := np.r_[far(-250), far(0), far(250)], near(v)),
        "of zero": (np.zeros(5), far(-200, 5)),
        "to zero": (far(-200, 5), np.zeros(5)),
        "odd": (odd, near(odd)),
        "greatest": (np.full(100, 1.7e308), np.full(100, 1.6e308)),
        "mixed": (far(200).astype(np.float64), far(30).astype(np.float32)),
        "complex": (v := far(200) + 1j * far(-200), v * (1 + 1e-3j)),
    }
    with np.errstate(all="ignore"):
        for name, (x, y) in pairs.items():
            np.savez("a.npz", w=x)
            np.savez("b.npz", w=y)
            done = json.loads(case.run("a.npz", "b.npz", "--stat", "--values", "--json").stdout)
            text = (
                case.run("a.npz", "b.npz", "--stat", "--values").stdout
                + case.run("a.npz", "b.npz", "--stat").stdout
            )
            text = (
                text.replace(b"infinite", b"")
                .replace(b": inf and", b"")
                .replace(b": nan and", b"")
                .replace(b" and nan", b"")
            )
            assert b"inf" not in text and b"nan" not in text, text
            (told,) = done["tensors"]
            parts = lambda v: v.view(np.float64) if v.dtype == np.complex128 else v  # noqa: E731
            p, q = (parts(v).astype(np.longdouble) for v in (x, y))
            good = np.isfinite(p) & np.isfinite(q)
            p, q = p[good], q[good]
            square = lambda v: (v * v).sum()  # noqa: E731
            d = q - p
            wanted = {
                "norm_a": np.sqrt(square(p)),
                "norm_b": np.sqrt(square(q)),
                "norm_change": np.sqrt(square(d)),
                "relative": np.sqrt(square(d)) / np.sqrt(square(p)),
                "cosine": (p * q).sum() / np.sqrt(square(p)) / np.sqrt(square(q)),
                "max_abs": abs(d).max(),
            }
            for measures in (told["measures"], done["overall"] if x.dtype == y.dtype == np.float64 else {}):
                for key in wanted.keys() & measures.keys():
                    want, got = wanted[key], measures[key]
                    if not np.isfinite(np.float64(want)):
                        assert got is None, (name, key, got)
                    else:
                        least = 1e-13 if key == "cosine" else 1e-323
                        assert abs(got - want) <= 1e-11 * abs(want) + least, (name, key, got, want)
            if x.dtype == y.dtype:
                first = told["values"]["first_values"]
                k = told["values"]["first"]
                if np.isfinite(x[k]) and np.isfinite(y[k]):
                    as_told = lambda v: [v.real, v.imag] if isinstance(v, complex) else v  # noqa: E731
                    assert first == [as_told(x[k].item()), as_told(y[k].item())], (name, first)
            case.run("a.npz", "b.npz", "--report", "d.html", "-f")
            (row,) = report_page.load_diff("d.html")["rows"]
            for key in wanted:
                got, want = row["measures"][key], told["measures"][key]
                assert got == want or (want is None and not np.isfinite(got)), (name, key, got, want)
            case.compared += 1


def whole(case, rng):
    """A page that fits is whole, however its names and metadata share the room."""
    a = {rng.bytes(20).hex(): np.zeros(1, np.float32) for _ in range(3000)}
    b = {name: value + (k % 7 == 0) for k, (name, value) in enumerate(a.items())}
    meta = [{"k%d" % k: "v%d" % (k + more) for k in range(3000)} for more in (0, 1)]
    save_file(a, "a.safetensors", metadata=meta[0])
    save_file(b, "b.safetensors", metadata=meta[1])
    pages = []
    for most in (10**9, None):
        most = most or len(pages[0]) + 2000
        done = case.run("a.safetensors", "b.safetensors", "--report", "-", "--max-size", str(most))
        assert b"left out" not in done.stderr, done.stderr
        pages.append(done.stdout)
    assert pages[0] == pages[1]
    with open("d.html", "wb") as f:
        f.write(pages[0])
    page = report_page.load_diff("d.html")
    assert len(page["rows"]) == 3000 and len(page["metadata"]) == 3000 and page["left_out"] == []


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tool", required=True)
    tool = os.path.abspath(parser.parse_args().tool)
    case = Case(tool)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for seed, part in enumerate(
            (
                lora,
                one_bit,
                pruned,
                renamed,
                cast,
                adapter,
                tuned,
                metadata,
                other_formats,
                wide,
                runs,
                extreme,
                whole,
                older_stays,
                ranks,
                signs,
            )
        ):
            said = part(case, np.random.default_rng(seed))
            print(part.__name__, "as planted" if said is None else said)
        os.chdir("/")
    print("%d tensors measured as NumPy does" % case.compared)
    assert case.compared > 100


if __name__ == "__main__":
    main()
