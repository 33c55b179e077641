#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""chosen.py --tool TOOL [--count N] [--seed S] - --select, --drop, --rename and --cast of split, join, reshard and slice.

Random models with random choices: what is written is what the reference package reads of the source, chosen by fnmatch, cast by
torch's Tensor.to(), cut by hand. Then what is refused and what is told. Needs torch and safetensors (tests/requirements.txt).
"""

import argparse
import fnmatch
import json
import os
import random
import subprocess
import sys
import tempfile

import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

TOOL = ""
CHECKS = 0
CASTS = {
    "F16": torch.float16,
    "bf16": torch.bfloat16,
    "F64": torch.float64,
    "I32": torch.int32,
    "F8_E4M3": torch.float8_e4m3fn,
    "F32": torch.float32,
}


def run(*arguments, status=0):
    r = subprocess.run([TOOL, *arguments], capture_output=True, text=True)
    assert r.returncode == status, (arguments, r.returncode, r.stderr)
    return r.stderr


def same(got, truth, what):
    global CHECKS
    CHECKS += 1
    assert set(got) == set(truth), (what, sorted(set(got) ^ set(truth)))
    for name, value in truth.items():
        assert got[name].dtype == value.dtype and got[name].shape == value.shape, (what, name)
        a, b = (x.contiguous().reshape(-1).view(torch.uint8) for x in (got[name], value))
        assert torch.equal(a, b), (what, name)


def model(rng):
    kinds = [torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.uint8]
    out = {}
    for layer in range(rng.randint(1, 3)):
        for name in ("attn.q", "attn.k", "mlp.up", "norm"):
            for prefix in ("", "adam_m."):
                shape = (
                    [rng.randint(1, 3) * 4, rng.choice([1, 3, 8, 129])]
                    if name != "norm"
                    else [rng.randint(0, 3) * 4]
                )
                value = torch.randn(shape) * 100
                out[f"{prefix}h.{layer}.{name}.weight"] = value.to(rng.choice(kinds))
    return out


def choice(rng):
    """Options, and what they make of a model."""
    select = rng.choice([[], ["h.*"], ["*q*", "*norm*"], ["adam_m.*", "h.0.*"]])
    drop = rng.choice([[], ["adam_*"], ["*.norm.weight"], ["h.1*"]])
    rename = rng.choice([None, ("h.", "layers.")])
    cast = rng.choice(
        [None, ("*", "F16"), ("*.mlp.*", "F64"), ("h.*", "bf16"), ("*q*", "F8_E4M3"), ("*", "I32")]
    )
    options = [w for p in select for w in ("--select", p)] + [w for p in drop for w in ("--drop", p)]
    if rename is not None:
        options += ["--rename", f"{rename[0]}*={rename[1]}*"]
    if cast is not None:
        options += ["--cast", "=".join(cast)]

    def of(tensors):
        out = {}
        for name, value in tensors.items():
            if select and not any(fnmatch.fnmatchcase(name, p) for p in select):
                continue
            if any(fnmatch.fnmatchcase(name, p) for p in drop):
                continue
            if cast is not None and fnmatch.fnmatchcase(name, cast[0]):
                value = value.to(CASTS[cast[1]])
            if rename is not None and name.startswith(rename[0]):
                name = rename[1] + name[len(rename[0]) :]
            out[name] = value
        return out

    return options, of


def part(value, axis, ranks, rank):
    """As --target-layout cuts: even shares, the first dimension or the second."""
    n = value.shape[axis]
    return value.narrow(axis, n * rank // ranks, n * (rank + 1) // ranks - n * rank // ranks)


def random_models(base, rng, count):
    for i in range(count):
        d = os.path.join(base, str(i))
        os.mkdir(d)
        tensors = model(rng)
        options, of = choice(rng)
        truth = of(tensors)
        save_file(tensors, f"{d}/m.safetensors", {"format": "pt", "note": "kept"})
        if not truth:
            assert "no tensor is left" in run(
                "join", f"{d}/m.safetensors", "-o", f"{d}/j", *options, status=1
            )
            continue
        run("split", f"{d}/m.safetensors", "-o", f"{d}/s", "--max-shard-size", "3000", "--no-sync", *options)
        split = {}
        for file in os.listdir(f"{d}/s"):
            if file.endswith(".safetensors"):
                split.update(load_file(f"{d}/s/{file}"))
        same(split, truth, (i, "split", options))
        run("split", f"{d}/m.safetensors", "-o", f"{d}/whole", "--max-shard-size", "2000", "--no-sync")
        run("join", f"{d}/whole", "-o", f"{d}/j.safetensors", "--no-sync", *options)
        same(load_file(f"{d}/j.safetensors"), truth, (i, "join", options))
        with safe_open(f"{d}/j.safetensors", "pt") as f:
            assert (f.metadata() or {}).get("note") == "kept", f.metadata()
        run("cp", f"{d}/m.safetensors", f"{d}/c.safetensors", *options)
        same(load_file(f"{d}/c.safetensors"), truth, (i, "cp", options))
        os.makedirs(f"{d}/job/rank_0")
        save_file(tensors, f"{d}/job/rank_0/net_rank_0-1_2.safetensors", {"format": "pt"})
        run("convert", f"{d}/job", "-o", f"{d}/converted", "--no-sync", *options)
        same(load_file(f"{d}/converted/rank_0/net_rank_0-1_2.safetensors"), truth, (i, "convert", options))
        cut = [n for n, v in truth.items() if v.dim() == 2 and v.shape[0] % 4 == 0]
        if cut:
            axis = rng.choice([0, 1]) if all(truth[n].shape[1] % 2 == 0 for n in cut) else 0
            layout = {"format": "safetensors-layout", "version": 1, "mesh": {"axes": {"x": 2}},
                      "tensors": [{"name": n, "cuts": ["x", None] if axis == 0 else [None, "x"]} for n in cut]}  # fmt: skip
            with open(f"{d}/layout.json", "w") as f:
                json.dump(layout, f)
            run(
                "reshard",
                f"{d}/m.safetensors",
                "--target-layout",
                f"{d}/layout.json",
                "-o",
                f"{d}/r",
                "--no-sync",
                *options,
            )
            run(
                "slice",
                f"{d}/m.safetensors",
                "--layout",
                f"{d}/layout.json",
                "-k",
                "1",
                "-o",
                f"{d}/k.safetensors",
                *options,
            )
            for rank in range(2):
                wanted = {n: part(v, axis, 2, rank) if n in cut else v for n, v in truth.items()}
                same(load_file(f"{d}/r/rank_{rank}/model.safetensors"), wanted, (i, "reshard", rank, options))
            same(load_file(f"{d}/k.safetensors"), wanted, (i, "slice", options))
            run("join", f"{d}/r", "-o", f"{d}/back.safetensors", "--no-sync")
            same(load_file(f"{d}/back.safetensors"), truth, (i, "ranks joined"))


def told(base):
    global CHECKS
    path, out = os.path.join(base, "t.safetensors"), os.path.join(base, "o.safetensors")
    save_file({"a": torch.tensor([1e30, 1.0]), "b": torch.ones(3), "c": torch.ones(2)}, path)
    for options, words in (
        (["--select", "x*"], '--select "x*" matches no tensor'),
        (["--rename", "a=b"], "b"),
        (["--cast", "a=F5"], "unknown element type"),
        (["--cast", "a=F16"], "a"),
    ):
        r = subprocess.run([TOOL, "join", "-f", path, "-o", out, *options], capture_output=True, text=True)
        assert words in r.stderr, (options, r.stderr)
        assert (r.returncode == 0) == (options[1] == "a=F16"), (options, r.returncode)
        CHECKS += 1
    r = subprocess.run(
        [TOOL, "join", "-f", path, "-o", out, "--cast", "a=F16", "--json"], capture_output=True, text=True
    )
    assert json.loads(r.stdout)["left_out_parts"], r.stdout  # 1e30 is no float16
    run("cp", path, path + ".d", "--digests", "crc32c")
    for options in (
        ["--select", "a"],
        ["--cast", "b=F64"],
        ["--rename", "a=z"],
        ["--drop", "a", "--record", "sha256"],
    ):
        err = run("join", "-f", path + ".d", "-o", out, *options)
        with safe_open(out, "pt") as f:
            recorded = {k for k in (f.metadata() or {}) if k.startswith("sft.")}
        assert recorded == ({"sft.sha256"} if "--record" in options else set()) or "crc32c" in str(
            recorded
        ), recorded
        assert bool(recorded) == ("--cast" not in options), (options, recorded)
        assert recorded or "recorded digests do not fit" in err, err
        if recorded:
            run("verify", out)
        CHECKS += 1


def resumed(base):
    """What a run that was killed has left is not taken for another choice."""
    global CHECKS
    path, out = os.path.join(base, "big.safetensors"), os.path.join(base, "big")
    save_file({"a": torch.randn(1 << 24), "b": torch.randn(1 << 24)}, path)
    for first, second in (
        (["--cast", "a=F16"], ["--cast", "a=BF16"]),
        (
            ["--rename", "a=x", "--drop", "b", "--cast", "*=F16"],
            ["--rename", "b=x", "--drop", "a", "--cast", "*=F16"],
        ),
    ):
        run("split", path, "-o", out, "--task", "1/2", "--no-sync", *first)
        err = run("split", path, "-o", out, "--task", "2/2", "--no-sync", *second, status=3)
        assert "restart" in err, err
        run("split", path, "-o", out, "--task", "2/2", "--no-sync", *first)
        got = load_file(os.path.join(out, "model.safetensors"))
        source = load_file(path)
        if "--rename" in first:
            same(got, {"x": source["a"].half()}, "tasks")
        else:
            same(got, {"a": source["a"].half(), "b": source["b"]}, "tasks")
        subprocess.run(["rm", "-r", out], check=True)
        CHECKS += 1


def main():
    global TOOL
    parser = argparse.ArgumentParser()
    parser.add_argument("--tool", required=True)
    parser.add_argument("--count", type=int, default=25)
    parser.add_argument("--seed", type=int, default=None)
    args = parser.parse_args()
    TOOL = os.path.abspath(args.tool)
    seed = args.seed if args.seed is not None else random.randrange(1 << 30)
    print("seed", seed)
    torch.manual_seed(seed)
    with tempfile.TemporaryDirectory() as base:
        random_models(base, random.Random(seed), args.count)
        told(base)
        resumed(base)
    print(CHECKS, "checks")


if __name__ == "__main__":
    sys.exit(main())
