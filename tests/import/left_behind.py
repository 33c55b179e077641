#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""left_behind.py --tool TOOL - what a directory holds beside its model is named; what is chosen is chosen from all shards.

Directories of weights with other weights in them, conversions with --select, --drop, --rename and --cast over
several files, metadata that several inputs have, names of outputs. Needs torch and safetensors.
"""

import json
import os
import shutil

import torch
from runs import CHECKS, program, run
from safetensors import safe_open
from safetensors.torch import load_file, save_file

X = torch.arange(3.0)
SHARDS = ["pytorch_model-00001-of-00002.bin", "pytorch_model-00002-of-00002.bin"]


def save_shards(folder, shards):
    os.makedirs(folder, exist_ok=True)
    for name, state in zip(SHARDS, shards):
        torch.save(state, os.path.join(folder, name))
    with open(os.path.join(folder, "pytorch_model.bin.index.json"), "w") as f:
        json.dump(
            {"metadata": {}, "weight_map": {n: s for s, state in zip(SHARDS, shards) for n in state}}, f
        )
    return folder


def behind(tmp):
    """Other weights of a directory are named, wherever its model goes."""
    folder = save_shards(os.path.join(tmp, "S"), [{"a": X}, {"b": X + 1}])
    others = [
        "adapter_model.bin",
        "diffusion_pytorch_model.bin",
        "flax_model.msgpack",
        "pytorch_model-00003-of-00003.bin",
        "pytorch_model.bin",
        "weights.gguf",
    ]
    for name in others:
        torch.save({name: X}, os.path.join(folder, name))
    os.mkdir(os.path.join(folder, "1_Dense"))
    save_file({"d": X}, os.path.join(folder, "1_Dense", "model.safetensors"))
    os.mkdir(os.path.join(folder, "onnx"))  # holds none
    want = sorted(others + ["1_Dense"])
    outputs = [
        (folder, os.path.join(tmp, "out")),
        (folder, os.path.join(tmp, "out.npz")),
        (folder, os.path.join(tmp, "out.pt")),
        (os.path.join(folder, "pytorch_model.bin.index.json"), os.path.join(tmp, "out.safetensors")),
    ]
    for source, out in outputs:
        r = run("convert", source, "-o", out, "--json")
        report = json.loads(r.stdout)
        assert sorted(p["subject"] for p in report["left_out_parts"]) == want and report["left_out"] == 0, (
            report
        )
        assert all(f"left out: {name}: " in r.stderr for name in want), r.stderr
        CHECKS["weights left behind"] += len(want)
    alone = os.path.join(tmp, "alone")
    os.mkdir(alone)
    torch.save({"a": X}, os.path.join(alone, "pytorch_model.bin"))
    assert "left out" not in run("convert", alone, "-o", os.path.join(tmp, "alone.out")).stderr
    torch.save({"a": X}, os.path.join(alone, "adapter_model.bin"))
    assert (
        "left out: adapter_model.bin: " in run("convert", alone, "-o", os.path.join(tmp, "alone.out2")).stderr
    )
    assert "left out" not in run("convert", alone, "-o", alone).stderr  # there it stays
    save_file({"x": X}, os.path.join(alone, "extra.safetensors"))
    os.rename(os.path.join(alone, "model.safetensors"), os.path.join(tmp, "aside.safetensors"))
    run("convert", os.path.join(alone, "pytorch_model.bin"), "-o", os.path.join(tmp, "alone.out4"))
    assert (
        "left out: adapter_model.bin: " in run("convert", alone, "-o", os.path.join(tmp, "alone.out5")).stderr
    )
    os.remove(os.path.join(alone, "extra.safetensors"))
    # split and join of safetensors: the same model in another format, and models of their own below.
    model = os.path.join(tmp, "out")
    torch.save({"a": X}, os.path.join(model, "pytorch_model.bin"))
    os.mkdir(os.path.join(model, "2_Dense"))
    torch.save({"a": X}, os.path.join(model, "2_Dense", "pytorch_model.bin"))
    for verb, where in (
        ("split", ["-o", os.path.join(tmp, "split")]),
        ("join", ["-o", os.path.join(tmp, "joined.safetensors")]),
    ):
        told = run(verb, model, *where).stderr
        assert "left out: pytorch_model.bin: " in told and "left out: 2_Dense: " in told, (verb, told)
    # A directory under the name of a configuration file, and a link to one.
    os.mkdir(os.path.join(alone, "vocab.json"))
    os.symlink("vocab.json", os.path.join(alone, "merges.txt"))
    told = run("convert", alone, "-o", os.path.join(tmp, "alone.out3")).stderr
    assert told.count("a directory: not carried along") == 2, told


def other_kinds(tmp):
    """Weights of any name are found by their bytes, models in directories below by their files' names; what is neither is not named."""
    import numpy as np
    import torch.distributed.checkpoint as dcp

    model = os.path.join(tmp, "model")
    os.mkdir(model)
    torch.save({"a": X}, os.path.join(model, "pytorch_model.bin"))
    want = [
        "UP.PT",
        "noending",
        "weights.v2",
        "optimizer.pt",
        "x.npy",
        "X.NPZ",
        "b.GGUF",
        "m.onnx_data",
        "__3_0.distcp",
        "ck-2.data-00000-of-00001",
        "inner",
    ]
    for name in want[:4]:
        torch.save({name: X}, os.path.join(model, name))
    np.save(os.path.join(model, "x.npy"), np.ones(3))
    for name in want[5:-1]:
        with open(os.path.join(model, name), "wb") as f:
            f.write(b"whatever")
    save_file({"i": X}, os.path.join(model, "inner"))
    dcp.save({"m": X}, checkpoint_id=os.path.join(model, "D"))
    below = {
        "sm": "saved_model.pb",
        "tf": "ckpt-1.data-00000-of-00002",
        "ds": "mp_rank_00_model_states.pt",
        "z.zarr": "0",
        "orbax": "_CHECKPOINT_METADATA",
    }
    for folder, name in below.items():
        os.mkdir(os.path.join(model, folder))
        with open(os.path.join(model, folder, name), "wb"):
            pass
    # Genuine neighbours that hold no weights.
    for name, data in {
        "config.json": b"{}",
        "README.md": b"# model",
        "notes.txt": b"text",
        "picture.png": b"\x89PNG\r\n\x1a\n",
        "vocab.bin": b"\x80\x02.",
        "list.dat": b"\x81\xa1a\x01",
        "empty": b"",
        "spiece.model": b"\x0a\x0e\x0a\x05<unk>\x15\0\0\0\0\x18\x02",
        "a.data": b"x",
    }.items():
        with open(os.path.join(model, name), "wb") as f:
            f.write(data)
    os.mkdir(os.path.join(model, "runs"))
    os.mkfifo(os.path.join(model, "pipe"))
    for out, more in ("o", []), ("o.npz", []), ("c", ["--no-config"]):
        r = run("convert", model, "-o", os.path.join(tmp, out), "--json", *more)
        parts = [p["subject"] for p in json.loads(r.stdout)["left_out_parts"]]
        if out == "o":  # configuration travels there, and this could be a pickle
            parts.remove("vocab.bin")
        assert sorted(parts) == sorted([*want, "D", *below]), (out, parts)
        assert all(r.stderr.count(f"left out: {name}: ") == 1 for name in parts), r.stderr
        assert all(
            n not in r.stderr
            for n in ("notes", "picture", "list.dat", "empty", "spiece", "README", "runs", "pipe")
        ), r.stderr
        CHECKS["weights left behind"] += len(parts)
    # Of a model its own data is not named, but an older one beside it.
    own = os.path.join(model, "D")
    assert "left out" not in run("convert", own, "-o", os.path.join(tmp, "own.safetensors")).stderr
    torch.save({"b": X}, os.path.join(own, "old.pt"))
    assert "left out: old.pt: " in run("convert", own, "-o", os.path.join(tmp, "own2.safetensors")).stderr


def two_models(tmp):
    """Of a directory with safetensors and with PyTorch's files every command takes the safetensors, and names the others."""
    for kind, sharded in ("one", False), ("sharded", True):
        folder = os.path.join(tmp, "two-" + kind)
        os.mkdir(folder)
        if sharded:
            save_shards(folder, [{"a": X}, {"b": X + 1}])
        else:
            torch.save({"a": X}, os.path.join(folder, "pytorch_model.bin"))
        there = sorted(n for n in os.listdir(folder) if n.endswith(".bin"))
        save_file({"a": X + 100, "c": X}, os.path.join(folder, "model.safetensors"))
        for name, verb, more in (
            ("o", "convert", []),
            ("o.npz", "convert", []),
            ("o.pt", "convert", []),
            ("shards", "convert", ["--max-shard-size", "12"]),
            ("some", "convert", ["-s", "*"]),
            ("split", "split", []),
            ("joined", "join", []),
            ("copy", "cp", None),
        ):
            out = os.path.join(tmp, kind + name)
            if more is None:
                run(verb, folder, out)
            else:
                told = run(verb, folder, "-o", out, *more).stderr
                assert all(f"left out: {n}: " in told for n in there) and "model.safetensors" not in told, (
                    told
                )
            if name.endswith((".npz", ".pt")):
                run("convert", out, "-o", out + ".safetensors")
                out += ".safetensors"
            run("diff", folder, out)
            CHECKS["commands on two models"] += 1
        told = run("convert", folder, "-o", folder, "-f", want=1).stderr  # which one is meant?
        assert "name " + ("its index" if sharded else "the file") in told, told
        named = os.path.join(tmp, kind + "-named.safetensors")
        run(
            "convert",
            os.path.join(folder, "pytorch_model.bin" + (".index.json" if sharded else "")),
            "-o",
            named,
        )
        assert set(load_file(named)) == ({"a", "b"} if sharded else {"a"}) and load_file(named)["a"][0] == 0
        # Safetensors that do not open are an error, not a reason to take others; in place they are made anew.
        with open(os.path.join(folder, "model.safetensors"), "w") as f:
            f.write("torn")
        run("convert", folder, "-o", os.path.join(tmp, kind + "-torn"), want=1)
        os.remove(os.path.join(folder, "model.safetensors"))
        run("convert", folder, "-o", folder)
        assert set(load_file(os.path.join(folder, "model.safetensors"))) == {"a"} if not sharded else True
        run("convert", folder, "-o", folder, want=1)


def documents(tmp):
    """Every command that writes a model says in --json what stays behind, as convert does."""
    x = torch.ones(3)
    nested, model, layout = (
        os.path.join(tmp, "nested.pt"),
        os.path.join(tmp, "model"),
        os.path.join(tmp, "layout.json"),
    )
    torch.save(
        {"model": {"a": x, "t": x}, "optimizer": {"state": {0: {"m": x + 3}}, "param_groups": []}}, nested
    )
    shards = {
        "model-00001-of-00002.safetensors": {"a": x, "orphan": x + 2},
        "model-00002-of-00002.safetensors": {"b": x + 1},
    }
    os.mkdir(model)
    for k, (name, state) in enumerate(shards.items()):
        save_file(
            state, os.path.join(model, name), {"format": "pt", "k": str(k), **({"z": "1"} if k else {})}
        )
    with open(os.path.join(model, "model.safetensors.index.json"), "w") as f:
        json.dump(
            {
                "metadata": {"total_size": 24},
                "weight_map": {n: s for s, state in shards.items() for n in state if n != "orphan"},
            },
            f,
        )
    torch.save({"u": x}, os.path.join(model, "pytorch_model.bin"))
    with open(layout, "w") as f:
        json.dump(
            {
                "format": "safetensors-layout",
                "version": 1,
                "mesh": {"axes": {"tp": 1}},
                "tensors": [{"name": "a", "whole": True}],
            },
            f,
        )
    commands = {
        "convert": ["-o", "c.safetensors"],
        "cp": ["cp.safetensors"],
        "split": ["-o", "sp"],
        "join": ["-o", "j.safetensors"],
        "slice": ["-o", "sl.safetensors", "--layout", layout, "-k", "0"],
        "reshard": ["-o", "rs", "--target-layout", layout],
    }
    for verb, args in commands.items():
        for plan in ["--plan"], []:
            for source, aliases, left, parts in (
                (nested, 1, 1, {"optimizer"}),
                (model, 0, 1, {"orphan", "pytorch_model.bin", "k"}),
            ):
                out = [
                    os.path.join(tmp, "d", a)
                    if not os.path.isabs(a) and not a.startswith("-") and a != "0"
                    else a
                    for a in args
                ]
                os.makedirs(os.path.join(tmp, "d"), exist_ok=True)
                if verb == "convert" and source == model:
                    out[-1] = os.path.join(tmp, "d", "folder")
                r = run(verb, source, *out, "--json", "-q", *plan)
                told = json.loads(r.stdout.splitlines()[-1])
                got = {p["subject"] for p in told["left_out_parts"]}
                parts = (
                    parts | {"z"} if verb in ("slice", "reshard") and source == model else parts
                )  # which keep the first file's
                parts = (
                    parts - {"k"} if verb == "convert" and plan else parts
                )  # whose plan is of tensors alone
                assert told["aliases"] == aliases and told["left_out"] == left and got == parts, (
                    verb,
                    plan,
                    source,
                    told,
                )
                CHECKS["documents"] += 1
                shutil.rmtree(os.path.join(tmp, "d"))
    names = os.path.join(tmp, "names.json")
    with open(names, "w") as f:
        json.dump({"format": "safetensors.names/1", "otherwise": "keep", "rules": [{"drop": "b"}]}, f)
    told = json.loads(
        run("join", model, "-o", os.path.join(tmp, "j.safetensors"), "--names", names, "--json").stdout
    )
    assert told["left_out"] == 2, told


def chosen(tmp):
    """--select, --drop, --rename and --cast of a sharded directory: as if it were one file."""
    states = [{"a": X, "t": None, "a2": X + 2}, {"b": X + 1, "t2": X + 5}]
    states[0]["t"] = states[0]["a"]
    folder = save_shards(os.path.join(tmp, "H"), states)
    values = {n: t for s in states for n, t in s.items()}
    whole = os.path.join(tmp, "whole.pt")
    torch.save(values, whole)
    cases = [
        [],
        ["-s", "a"],
        ["-s", "t"],
        ["-s", "b", "-s", "a2"],
        ["-d", "b", "-d", "t2"],
        ["-r", "a=b", "-r", "b=a"],
        ["-r", "*=p.*"],
        ["-c", "f16"],
        ["-d", "t"],
        ["-d", "a"],
        ["-s", "nope"],
        ["-r", "a=b"],
        ["-r", "b=t"],
        ["-r", "a=x", "-r", "b=x"],
        ["-r", "t=b"],
        ["-c", "a=f16"],
    ]
    for options in cases:
        one = os.path.join(tmp, "one.safetensors")
        r = run("convert", whole, "-o", one, "-f", *options, want=None)
        out = os.path.join(tmp, "chosen")
        run("convert", folder, "-o", out, "--verify", *options, want=r.returncode)
        if r.returncode != 0:
            assert not os.path.exists(out), options
            CHECKS["choices refused"] += 1
            continue
        run("check", out)
        run("diff", one, out)
        names = [json.loads(run("ls", "--json", f).stdout) for f in (one, out)]
        got = [
            ({t["name"] for t in n["tensors"]}, {a["name"]: a["of"] for a in n.get("aliases", [])})
            for n in names
        ]
        assert got[0] == got[1], (options, got)
        for name in sorted(os.listdir(out)):
            os.remove(os.path.join(out, name))
        os.rmdir(out)
        CHECKS["choices over shards"] += 1


def trees(tmp):
    """A tree that does not name all tensors is not the way back; directories of other formats become directories."""
    states = [{"a": X, "t": X + 2}, {"b": X + 1}]
    folder = save_shards(os.path.join(tmp, "T"), states)
    values = {n: t for s in states for n, t in s.items()}
    kept = os.path.join(tmp, "kept")
    run("convert", folder, "-o", kept, "--tree")
    for source in kept, folder:
        out = os.path.join(tmp, "back.pt")
        r = run(
            "convert",
            source,
            "-o",
            out,
            "-f",
            "--json",
            "--verify",
            *(["--tree"] if source == folder else []),
        )
        assert [p["subject"] for p in json.loads(r.stdout)["left_out_parts"]] == ["sft.tree"], r.stdout
        got = torch.load(out, weights_only=True)
        assert set(got) == set(values) and all(torch.equal(got[n], t) for n, t in values.items()), got
    run("convert", kept, "-o", os.path.join(tmp, "no"), want=1)
    run("cp", kept, os.path.join(tmp, "one.safetensors"))
    with safe_open(os.path.join(tmp, "one.safetensors"), "pt") as f:
        assert "sft.tree" not in f.metadata() and set(f.keys()) == set(values)
    assert "sft.tree" in run("join", kept, "-o", os.path.join(tmp, "joined.safetensors")).stderr
    for name, more in zip(
        sorted(n for n in os.listdir(kept) if n.endswith(".safetensors")),
        (["--set", "k=1"], ["--set", "k=2", "--delete", "sft.tree"]),
    ):
        run("meta", os.path.join(kept, name), *more)
    told = run("join", kept, "-o", os.path.join(tmp, "joined.safetensors"), "-f").stderr
    assert '"k" is left out' in told and '"sft.tree" is left out' in told, told
    with safe_open(os.path.join(tmp, "joined.safetensors"), "pt") as f:
        assert f.metadata() == {"format": "pt"}, f.metadata()
    part = os.path.join(tmp, "part.safetensors")
    save_file(
        {"w": X, "z": X + 1},
        part,
        {"sft.tree": json.dumps({"version": 1, "tree": {"w": {"$": "tensor", "v": "w"}}})},
    )
    told = run("convert", part, "-o", os.path.join(tmp, "part.pt"), want=1).stderr
    assert '"z"' in told and "does not name" in told and not os.path.exists(os.path.join(tmp, "part.pt")), (
        told
    )
    plain, again = os.path.join(tmp, "plain"), os.path.join(tmp, "again")
    run("convert", folder, "-o", plain)
    run("convert", plain, "-o", again, "--verify")
    run("diff", plain, again)
    assert sorted(os.listdir(again)) == sorted(os.listdir(plain))
    CHECKS["trees and directories"] += 7


def collected(tmp):
    """What several GGUF files say of their blocks and metadata is put together."""
    blocks = {
        "q4": (torch.arange(72, dtype=torch.uint8).reshape(2, 36), {"type": "Q4_0", "shape": [2, 64]}),
        "q8": (torch.arange(102, dtype=torch.uint8).reshape(3, 34), {"type": "Q8_0", "shape": [3, 32]}),
    }
    inputs = []
    for name, (data, said) in blocks.items():
        path = os.path.join(tmp, name + ".safetensors")
        own = (
            {"n": "7", "gguf.types": json.dumps({"n": "u32", "arr." + name: "[string]"})}
            if name == "q4"
            else {"n": "8", "gguf.types": json.dumps({"n": "u64", "arr." + name: "[string]"})}
        )
        save_file(
            {name: data},
            path,
            {
                "general.architecture": "llama",
                "arr." + name: '["a"]',
                "gguf.tensors": json.dumps({name: said}),
                **own,
            },
        )
        inputs.append(os.path.join(tmp, name + ".gguf"))
        run("convert", path, "-o", inputs[-1], "--verify")
    out, back = os.path.join(tmp, "both.safetensors"), os.path.join(tmp, "both.gguf")
    for order in inputs, inputs[::-1]:
        r = run("convert", *order, "-o", out, "-f", "--json")
        parts = json.loads(r.stdout)["left_out_parts"]
        assert [p["subject"] for p in parts] == ["n"], parts
        with safe_open(out, "pt") as f:
            metadata = f.metadata()
        assert json.loads(metadata["gguf.tensors"]) == {n: said for n, (_, said) in blocks.items()}, metadata
        first = "u32" if order is inputs else "u64"
        assert json.loads(metadata["gguf.types"]) == {
            "n": first,
            "arr.q4": "[string]",
            "arr.q8": "[string]",
        }, metadata
        run("convert", out, "-o", back, "-f", "--verify")
        got = load_file(out)
        assert all(torch.equal(got[n], data) for n, (data, _) in blocks.items())
        run("convert", *order, "-o", out, "-f", "-r", "q*=blk.*")
        with safe_open(out, "pt") as f:
            assert set(json.loads(f.metadata()["gguf.tensors"])) == {"blk.4", "blk.8"}
        CHECKS["metadata of several files"] += 3


def no_parts(tmp):
    """A key leads to nothing in a file whose format has no parts."""
    source = os.path.join(tmp, "parts.safetensors")
    save_file({"a": X}, source, {"general.architecture": "x"})
    for to in "npz", "gguf", "ckpt":
        path = os.path.join(tmp, "parts." + to)
        run("convert", source, "-o", path)
        for verb in ["ls", path], ["convert", path, "-o", os.path.join(tmp, "parts.out")]:
            assert 'no part "foo"' in run(*verb, "--key", "foo", want=1).stderr
        run("ls", path, "--key", ".")
        CHECKS["formats"] += 1
    torch.save({"m": {"a": X}}, os.path.join(tmp, "parts.pt"))
    run("ls", os.path.join(tmp, "parts.pt"), "--key", "m")


def own_format(tmp):
    """`format` is left out only where it says which framework wrote the file."""
    source, plain = os.path.join(tmp, "fmt.safetensors"), os.path.join(tmp, "fmt.gguf")
    for value, stays in ("mine", True), ("pt", False), ("np", False):
        save_file({"a": X}, source, {"format": value, "general.architecture": "x"})
        run("convert", source, "-o", plain, "-f")
        run("convert", plain, "-o", os.path.join(tmp, "again.gguf"), "-f")
        run("convert", os.path.join(tmp, "again.gguf"), "-o", os.path.join(tmp, "fmt.back.safetensors"), "-f")
        with safe_open(os.path.join(tmp, "fmt.back.safetensors"), "pt") as f:
            assert f.metadata() == {"general.architecture": "x", **({"format": value} if stays else {})}, (
                f.metadata()
            )
        told = run("convert", source, "-o", os.path.join(tmp, "fmt.npz"), "-f").stderr
        named = set(
            told.rsplit(":", 1)[-1].strip().split(", ")
        )  # in the order of the file, which the writer chooses
        assert named == {"general.architecture", *(["format"] if stays else [])}, told
        CHECKS["formats"] += 1


def digests(tmp):
    """Both kinds of recorded digests are named where a cast leaves them out."""
    source, recorded = (os.path.join(tmp, n) for n in ("d.safetensors", "recorded.safetensors"))
    save_file({"a": X}, source)
    run("cp", source, recorded, "--digests", "crc32c,sha256")
    for args in ["convert", recorded, "-o", source], ["cp", recorded, source]:
        told = json.loads(run(*args, "-c", "f16", "-f", "--json").stdout)
        assert sorted(p["subject"] for p in told["left_out_parts"]) == ["sft.crc32c", "sft.sha256"], told
        CHECKS["digests left out"] += 2


def other_names(tmp):
    """Names of tied tensors of a PyTorch file go through split, join, slice and reshard; parts are told. And `format` of two inputs."""
    x = torch.arange(16.0).reshape(4, 4)
    source, layout = os.path.join(tmp, "tied.pt"), os.path.join(tmp, "tied.json")
    torch.save({"lm_head": x, "embed": x, "c": x + 1, "v": x[0:1]}, source)
    with open(layout, "w") as f:
        json.dump(
            {
                "format": "safetensors-layout",
                "version": 1,
                "mesh": {"axes": {"tp": 2}},
                "tensors": [{"name": "embed", "cuts": ["tp", None]}],
            },
            f,
        )
    one, two, ranks = (os.path.join(tmp, n) for n in ("tied.safetensors", "again.safetensors", "tied.ranks"))
    for args in (
        ["split", source, "-o", os.path.join(tmp, "tied.split"), "--max-shard-size", "64"],
        ["join", source, "-o", one],
        ["join", "--unified", source, "-o", os.path.join(tmp, "tied.unified")],
        ["reshard", source, "--target-layout", layout, "-o", ranks],
        ["join", ranks, "-o", two],
        ["slice", source, "--layout", layout, "-k", "1", "-o", os.path.join(tmp, "tied.slice.safetensors")],
    ):
        run(*args)
        out = args[args.index("-o") + 1]
        listed = run("ls", "--aliases", "--json", out).stdout if out != ranks else ""
        assert out == ranks or [(a["name"], a["of"]) for a in json.loads(listed)["aliases"]] == [
            ("lm_head", "embed")
        ], (args, listed)
        CHECKS["other names"] += 1
    with safe_open(one, "pt") as f:
        assert f.metadata()["lm_head"] == "embed", f.metadata()
    plain = os.path.join(tmp, "plain.safetensors")
    save_file({"p": X}, plain, {"format": "pt"})
    for inputs in ([source, plain], [plain, source]):
        run("convert", *inputs, "-o", os.path.join(tmp, "both.safetensors"), "-f")
        with safe_open(os.path.join(tmp, "both.safetensors"), "pt") as f:
            assert f.metadata()["format"] == "pt" and "p" in f.keys() and "c" in f.keys()


def empty_keys(tmp):
    """The empty text is a key like others: a part of names wherever it stands."""
    import pickle

    import numpy as np

    x = torch.ones(3)
    cases = [
        ({"": {"a": x}, "a": x + 1}, [".a", "a"]),
        ({"": {"b": x}}, [".b"]),
        ({"a": {"": {"b": x}}, "": {"": {"": x + 1}}}, ["..", "a..b"]),
        ({"": x}, [""]),
        ({"": [x, {"k": x + 1}]}, [".0", ".1.k"]),
        ([x, [x + 1]], ["0", "1.0"]),
        (x, ["tensor"]),
        ({"": {"_parameters": {"w": x}}}, [".w"]),
        ({"_parameters": {"w": x}}, ["w"]),
        ({"a.": x, "a": {"": x + 1}}, None),
    ]
    for k, (value, names) in enumerate(cases):
        for write in torch.save, lambda v, f: pickle.dump(v, open(f, "wb")):
            numpy = write is not torch.save
            if numpy and not isinstance(value, (dict, list)) or numpy and k == 9:
                continue
            source = os.path.join(tmp, f"empty-{k}" + (".pkl" if numpy else ".pt"))
            turn = lambda v: (
                {n: turn(t) for n, t in v.items()}
                if isinstance(v, dict)
                else [turn(t) for t in v]
                if isinstance(v, list)
                else np.asarray(v)
            )
            write(turn(value) if numpy else value, source)
            listed = run("ls", "--json", source, want=0 if names else 1)
            assert (
                names is None or sorted(t["name"] for t in json.loads(listed.stdout)["tensors"]) == names
            ), (value, listed.stdout)
            CHECKS["empty keys"] += 1
            if names and not numpy and k < 7:
                tree, back = source + ".safetensors", source + ".back.pt"
                run("convert", source, "-o", tree, "--tree", "--verify")
                run("convert", tree, "-o", back, "--verify")
                assert str(torch.load(back, weights_only=True)) == str(value), source
                CHECKS["empty keys"] += 1


def texts(tmp):
    """An entry of the metadata whose text is the name of a tensor says nothing where sft.aliases does."""
    x = torch.arange(6.0).reshape(2, 3)
    source, out, copy = (os.path.join(tmp, n) for n in ("texts.pt", "texts.safetensors", "copy.safetensors"))
    torch.save({"lm_head": x, "embed": x, "part": x[0:1], "c": x + 1}, source)
    entries = ["-m", "lm_head=c", "-m", "part=c", "-m", "other=c"]
    run("convert", source, "-o", out, "--dedup", "alias", *entries)
    run("convert", source, "-o", copy, "--dedup", "alias")
    run("cp", copy, copy, "-f", *entries)
    for path in out, copy:
        listed = json.loads(run("ls", "--aliases", "--json", path).stdout)["aliases"]
        assert {a["name"]: a["of"] for a in listed} == {"lm_head": "embed", "part": "embed", "other": "c"}, (
            listed
        )
        for name, value in ("lm_head", x), ("part", x[0:1]), ("other", x + 1):
            raw = os.path.join(tmp, "value.raw")
            run("get", path, name, "-o", raw, "-f")
            with open(raw, "rb") as f:
                assert f.read() == value.numpy().tobytes(), (path, name)
            CHECKS["names and texts"] += 1


def compared(tmp):
    """diff asks both models for every name, other names too."""
    x = torch.arange(12.0)
    y = x + 1
    values = {
        "tied": {"a": x, "t": x, "b": y},
        "apart": {"a": x, "t": x.clone(), "b": y},
        "other": {"a": x, "t": y.clone(), "b": y.clone()},
        "elsewhere": {"a": x, "t": y, "b": y},
        "part": {"a": x, "t": x[:3], "b": y},
        "later": {"a": x, "t": x[1:4], "b": y},
        "none": {"a": x, "b": y},
    }
    files = {}
    for what, value in values.items():
        source = os.path.join(tmp, what + ".pt")
        torch.save(value, source)
        files[what] = [source]
        for how in "hf", "alias", "keep":
            files[what].append(os.path.join(tmp, f"{what}.{how}.safetensors"))
            run("convert", source, "-o", files[what][-1], "--dedup", how)
    same = [{"tied", "apart"}, {"other", "elsewhere"}]
    for a, of_a in files.items():
        for b, of_b in files.items():
            equal = a == b or {a, b} in same
            for x_file in of_a:
                for y_file in of_b[:: 1 if equal else 2]:
                    r = run("diff", "--json", x_file, y_file, want=None)
                    changes = [t["name"] for t in json.loads(r.stdout)["tensors"]]
                    if (
                        "none" in (a, b) and a != b
                    ):  # another name that one has alone is told, a tensor is a difference
                        assert (
                            changes == ["t"]
                            and r.returncode == 1
                            or '"t" first' in r.stderr
                            and r.returncode == 0
                        ), (x_file, y_file, r)
                    else:
                        assert r.returncode == (0 if equal else 1) and changes == ([] if equal else ["t"]), (
                            x_file,
                            y_file,
                            r,
                        )
                    CHECKS["pairs compared"] += 1


def casts(tmp):
    """Values that a type cannot hold are counted for each tensor, as torch and Python's whole numbers tell them."""
    wide = torch.cat(
        [
            torch.randn(70000, dtype=torch.float64) * 1e5,
            torch.tensor([1e300, -1e300, 3.0, float("inf"), float("nan")], dtype=torch.float64),
        ]
    )
    whole = torch.cat([torch.randint(-400, 400, (70000,)), torch.tensor([2**62, -(2**63), 255, 256, -1])])
    turned = torch.tensor([1 + 2j, 3 + 0j, 0 - 0j, 1e-30j])
    state = {
        "wide": wide,
        "whole": whole,
        "turned": turned,
        "cut": torch.tensor([255.9, -0.9, 256.0, -1.0, float("nan")]),
        "kept": X,
    }
    source = os.path.join(tmp, "w.pt")
    torch.save(state, source)
    half = wide.half()
    want = {
        "wide": int((wide.isfinite() & ~half.isfinite()).sum()),
        "whole": sum(not 0 <= v < 256 for v in whole.tolist()),
        "turned": int((turned.imag != 0).sum()),
        "cut": 2,
    }
    casts = ["-c", "wide=F16", "-c", "whole=U8", "-c", "turned=F32", "-c", "cut=U8", "-c", "kept=F16"]
    for out in (os.path.join(tmp, "w.safetensors"), os.path.join(tmp, "w.npz"), os.path.join(tmp, "w.gguf")):
        chosen = (
            casts
            if not out.endswith("gguf")
            else ["-c", "wide=F16", "--select", "wide", "--metadata", "general.architecture=llama"]
        )
        r = run("convert", source, "-o", out, "--json", "--verify", *chosen)
        told = {p["subject"]: p["message"] for p in json.loads(r.stdout)["left_out_parts"]}
        assert set(told) == (set(want) if chosen is casts else {"wide"}), (out, told)
        assert all(
            f" {want[n]} values" in f" {text}" and f'tensor "{n}": {text}' in r.stderr
            for n, text in told.items()
        ), (told, want)
    plain = os.path.join(tmp, "p.safetensors")
    run("convert", source, "-o", plain)
    r = run("cp", plain, os.path.join(tmp, "q.safetensors"), "--json", *casts)
    assert {p["subject"] for p in json.loads(r.stdout)["left_out_parts"]} == set(want), r.stdout
    for name, dtype in (("wide", "F16"), ("whole", "U8"), ("turned", "F32"), ("cut", "U8"), ("kept", "F16")):
        r = run("get", plain, name, "-d", dtype, "-o", os.path.join(tmp, f"{name}.npy"))
        assert (f"{want[name]} values" if name in want else "") in r.stderr and (
            name in want or r.stderr == ""
        ), r.stderr
    same = torch.tensor([2**63 - 1, 2**63 - 2, -1])  # numbers of 64 bits that no F64 is
    save_file({"s": same}, plain)
    assert "1 values" in run("get", plain, "s", "-d", "U64", "-o", os.path.join(tmp, "s.npy")).stderr


def tasks(tmp):
    """Configuration files travel once, with the task that publishes, whichever it is."""
    model = os.path.join(tmp, "model")
    os.mkdir(model)
    save_file(
        {f"t{i}": torch.full((100,), float(i)) for i in range(6)}, os.path.join(model, "model.safetensors")
    )
    for name in ("config.json", "README.md"):
        with open(os.path.join(model, name), "w") as f:
            f.write(name)
    for k, (verb, order) in enumerate(
        [("split", ["1/2", "2/2"]), ("split", ["2/2", "1/2"]), ("join", ["2/2", "1/2"])]
    ):
        out = os.path.join(tmp, f"out{k}")
        more = ["--max-shard-size", "1kB"] if verb == "split" else ["--unified"]
        there = []
        for task in order:
            run(verb, model, "-o", out, "--task", task, *more)
            there.append(
                sorted(set(os.listdir(out)) & {"config.json", "README.md"}) if os.path.isdir(out) else []
            )
        assert there[0] == [] and there[1] == ["README.md", "config.json"], (verb, order, there)
        with open(os.path.join(out, "config.json")) as f:
            assert f.read() == "config.json"


def outputs(tmp):
    """Names that promise something else, places that are directories, inputs that are damaged."""
    source = os.path.join(tmp, "o.pt")
    torch.save({"a": X, "b": X + 1}, source)
    for name in "x.safetensors.index.json", "model.json":
        for verb, where in ("convert", ["-o", os.path.join(tmp, name)]), ("cp", [os.path.join(tmp, name)]):
            assert "JSON" in run(verb, source, *where, want=2).stderr and not os.path.exists(
                os.path.join(tmp, name)
            )
    there = os.path.join(tmp, "there")
    os.mkdir(there)
    before = sorted(os.listdir(tmp))
    for more in [], ["--max-shard-size", "12"], ["--plan"]:
        assert "a directory" in run("convert", source, "-o", there, *more, want=3).stderr
        assert sorted(os.listdir(tmp)) == before and not os.listdir(there)
    path = os.path.join(tmp, "crc.safetensors")
    save_file({"w": X}, path, {"crc_num": "55"})
    for to in "safetensors", "npz":
        out = os.path.join(tmp, "crc.out." + to)
        assert "crc_num" in run("convert", path, "-o", out, "--verify", want=1).stderr and not os.path.exists(
            out
        )
        run("convert", path, "-o", out)
    # What a run that was killed has left is told where its directory is read.
    for name in ".o.safetensors.0123abcd.tmp", ".o.safetensors.tmp.0123456789abcdef":
        with open(os.path.join(there, name), "wb"):
            pass
    with open(os.path.join(there, ".o.safetensors.0123abcx.tmp"), "wb"):
        pass
    save_file({"w": X}, os.path.join(there, "model.safetensors"))
    told = run("ls", there).stderr
    assert told.count("has not finished") == 2 and "abcx" not in told, told
    torch.save({"__metadata__": X, "b": X}, source)
    assert "__metadata__" in run("check", source).stdout
    run("convert", source, "-o", os.path.join(tmp, "m.safetensors"), want=1)
    run("convert", source, "-o", os.path.join(tmp, "m.safetensors"), "-r", "__metadata__=m")
    CHECKS["outputs"] += 12


def no_names(tmp):
    """A text of another format, or of an entry that was no record, does not become another name of a tensor."""
    st, gguf = os.path.join(tmp, "n.safetensors"), os.path.join(tmp, "n.gguf")
    save_file({"w": X, "general.name": X + 1}, st, {"lm": "w", "x": "q", "y": "none"})
    out = os.path.join(tmp, "n.out")
    said = [{"subject": "general.basename", "count": 0}]

    def parts(r):
        return [
            {k: p[k] for k in ("subject", "count")}
            for p in json.loads(r.stdout)["left_out_parts"]
            if "its text is a tensor's name" in p["message"]
        ]

    r = run(
        "convert",
        st,
        "-o",
        gguf,
        "-m",
        "general.architecture=llama",
        "-m",
        "general.basename=w",
        "-m",
        "general.url=none",
        "--json",
    )
    assert json.loads(r.stdout)["left_out"] == 1 and "lm" not in run("meta", gguf).stdout, (
        r.stdout
    )  # another name: named, and not there
    for command in ["convert", gguf, "-o", out], ["cp", gguf, out]:
        r = run(*command, "-f", "--json")
        assert parts(r) == said and json.loads(r.stdout).get("aliases", 0) == 0, r.stdout
        assert "general.basename" in r.stderr, r.stderr
        assert json.loads(run("ls", "--aliases", "--json", out).stdout).get("aliases", []) == [], out
        with safe_open(out, "pt") as f:
            assert f.metadata()["general.url"] == "none" and "general.basename" not in f.metadata(), (
                f.metadata()
            )
        run("convert", out, "-o", out + ".pt", "-f")
        assert sorted(torch.load(out + ".pt")) == ["general.name", "w"], out
        CHECKS["texts"] += 1
    for command in ["join", gguf, "-o", out], ["split", gguf, "-o", out + ".d"]:
        assert 'metadata "general.basename": its text is' in run(*command, "-f").stderr, command
        CHECKS["texts"] += 1
    run("convert", gguf, "-o", out + ".gguf")  # a text like any other there
    with open(gguf, "rb") as a, open(out + ".gguf", "rb") as b:
        assert a.read() == b.read()
    # What a safetensors file records stays; what a new name would make of a text does not
    for command in ["cp", st, out], ["convert", st, "-o", out]:
        for options, names, left in (
            ([], {"lm": "w"}, []),
            (["-r", "w=q"], {"lm": "q"}, [{"subject": "x", "count": 0}]),
            (["-r", "w=none"], {"lm": "none"}, [{"subject": "y", "count": 0}]),
        ):
            r = run(*command, "-f", "--json", *options)
            listed = json.loads(run("ls", "--aliases", "--json", out).stdout)["aliases"]
            assert parts(r) == left and {a["name"]: a["of"] for a in listed} == names, (
                command,
                options,
                r.stdout,
                listed,
            )
            CHECKS["texts"] += 1


if __name__ == "__main__":
    program(
        behind,
        other_kinds,
        two_models,
        documents,
        chosen,
        trees,
        collected,
        no_parts,
        own_format,
        digests,
        other_names,
        empty_keys,
        texts,
        no_names,
        compared,
        casts,
        tasks,
        outputs,
    )
