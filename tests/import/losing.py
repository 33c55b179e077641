#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""losing.py --tool TOOL - tensors in = tensors out + tensors named.

Checkpoints of the shapes that trainers write, saved by the installed torch: what a conversion holds, what it
names on standard error and in JSON, and what --key gets. Needs torch and safetensors (tests/requirements.txt).
"""

import fnmatch
import http.server
import json
import os
import shutil
import sys
import threading
import zlib

import numpy
import torch
from runs import CHECKS, program, run
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import nn

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from crc32c import crc32c  # noqa: E402


def tensors_in(value, at=""):
    """Name -> tensor, of everything."""
    if isinstance(value, torch.Tensor):
        return {at: value}
    items = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, (list, tuple))
        else ()
    )
    found = {}
    for key, part in items:
        found.update(tensors_in(part, f"{at}.{key}" if at else str(key)))
    return found


def training():
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))
    optimizer = torch.optim.AdamW(model.parameters())
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2)
    model(torch.ones(2, 3)).sum().backward()
    optimizer.step()
    scheduler.step()
    return model.state_dict(), optimizer.state_dict(), scheduler.state_dict()


def clones(state, front=""):
    return {front + k: v.clone() for k, v in state.items()}


def shapes():
    """(what it is, checkpoint, part that is taken alone or None for all, parts that are named)."""
    model, optimizer, scheduler = training()
    other = clones(model)
    rng = {"cpu": torch.get_rng_state(), "cuda": [torch.get_rng_state()]}
    average = clones(model, "module.")
    fp32 = {"fp32_flat": [torch.ones(9)], "state": {0: {"exp_avg": torch.ones(9)}}, "param_groups": []}
    yield "issue 18: two models", {"model1": other, "model": model}, None, []
    yield "a GAN", {"generator": model, "discriminator": other}, None, []
    yield (
        "a GAN in training",
        {"generator": model, "discriminator": other, "optim_g": optimizer, "epoch": 3},
        None,
        [],
    )
    yield (
        "DINO",
        {
            "student": model,
            "teacher": other,
            "optimizer": optimizer,
            "dino_loss": {"center": torch.ones(1, 4)},
        },
        None,
        [],
    )
    yield "two models and an average", {"model": model, "model1": other, "ema": clones(model)}, None, []
    yield (
        "student, teacher and an average",
        {"student": model, "teacher": other, "ema": clones(model)},
        None,
        [],
    )
    for word in (
        "lr_head",
        "opt_embed",
        "meta_embeddings",
        "metric_net",
        "hyper_network",
        "config_encoder",
        "best_net",
    ):
        yield f"{word} is weights", {"model": model, word: other}, None, []
    for word in "opt_state", "lr_schedulers", "meta_data", "metrics", "hyper_parameters", "optim_head":
        yield f"{word} is none", {"model": model, word: {"x": torch.ones(2)}}, "model", [word]
    yield (
        "HiFi-GAN, discriminators",
        {"mpd": model, "msd": other, "optim_g": optimizer, "optim_d": optimizer, "steps": 1},
        None,
        [],
    )
    yield (
        "MoCo, SimSiam: ImageNet example",
        {
            "epoch": 1,
            "arch": "resnet50",
            "state_dict": average,
            "best_acc1": torch.tensor(71.5),
            "optimizer": optimizer,
        },
        "state_dict",
        ["best_acc1", "optimizer"],
    )
    yield (
        "Lightning",
        {
            "epoch": 1,
            "global_step": 2,
            "pytorch-lightning_version": "2.6",
            "state_dict": model,
            "loops": {"fit_loop": {"state_dict": {}}},
            "callbacks": {"EarlyStopping": {"best_score": torch.tensor(0.5)}},
            "optimizer_states": [optimizer],
            "lr_schedulers": [scheduler],
            "hyper_parameters": {"weight": torch.ones(2)},
        },
        "state_dict",
        ["callbacks", "optimizer_states", "hyper_parameters"],
    )
    yield (
        "Detectron2",
        {"model": model, "optimizer": optimizer, "scheduler": scheduler, "iteration": 9},
        "model",
        ["optimizer"],
    )
    yield (
        "timm",
        {
            "epoch": 1,
            "arch": "x",
            "state_dict": model,
            "optimizer": optimizer,
            "version": 2,
            "amp_scaler": {"scale": torch.tensor(2.0)},
            "state_dict_ema": other,
            "metric": 1.0,
        },
        "state_dict",
        ["optimizer", "amp_scaler", "state_dict_ema"],
    )
    yield "model and ema behind module.", {"model": model, "ema": average}, "model", ["ema"]
    yield "BasicSR", {"params": model, "params_ema": other}, "params_ema", ["params"]
    yield (
        "StyleGAN2",
        {"g": model, "d": other, "g_ema": clones(model), "g_optim": optimizer, "d_optim": optimizer},
        None,
        [],
    )
    yield "an ema of another model", {"model": model, "ema": {"x": torch.ones(2)}}, None, []
    yield (
        "DeepSpeed, ZeRO-1",
        {
            "module": model,
            "optimizer": None,
            "lr_scheduler": scheduler,
            "param_shapes": [],
            "global_steps": 3,
        },
        "module",
        [],
    )
    yield (
        "DeepSpeed, ZeRO-3 with frozen weights",
        {"module": model, "optimizer": None, "frozen_param_fragments": {"a": torch.ones(3)}},
        None,
        [],
    )
    yield "DeepSpeed, optimizer's states", {"optimizer_state_dict": fp32, "ds_version": "0.15"}, None, []
    yield (
        "Megatron",
        {
            "model": model,
            "optimizer": {"optimizer": optimizer, "fp32": [torch.ones(2)]},
            "rng_state": [rng],
            "iteration": 1,
            "args": {"x": torch.ones(1)},
        },
        "model",
        ["optimizer", "rng_state", "args"],
    )
    yield "Megatron, virtual stages", {"model0": model, "model1": other, "optimizer": optimizer}, None, []
    yield "an optimizer alone", optimizer, None, []
    yield "random states alone", rng, None, []
    yield (
        "weights and what belongs to them",
        {"state_dict": model, "mean": torch.ones(3), "std": torch.ones(3)},
        None,
        [],
    )
    yield "a part nobody knows", {"model": model, "codebook": {"w": torch.ones(4)}}, None, []
    yield "state dict and model", {"state_dict": model, "model": other}, None, []
    yield "flat", model, None, []
    yield "names of nothing", {"": torch.ones(2), "b": torch.ones(3)}, None, []
    yield "numbered", [model, other], None, []


def one(tmp, what, checkpoint, alone, named):
    source, out = os.path.join(tmp, "in.pt"), os.path.join(tmp, "out.safetensors")
    torch.save(checkpoint, source)
    r = run("convert", source, "-o", out, "-f", "--dedup", "keep", "--verify", "--json")
    report = json.loads(r.stdout)
    everything = tensors_in(checkpoint)
    expected = tensors_in(checkpoint[alone]) if alone else everything
    got = load_file(out)
    assert set(got) == set(expected), (what, set(got) ^ set(expected))
    for name, tensor in expected.items():
        assert torch.equal(got[name], tensor), (what, name)
    assert sorted(p["subject"] for p in report["left_out_parts"]) == sorted(named), (what, report)
    assert report["left_out"] == sum(p["count"] for p in report["left_out_parts"]), (what, report)
    # Each tensor once in a part: optimizers that are one object in two parts count in both.
    assert report["tensors"] + report["left_out"] == len(everything), (what, report, len(everything))
    assert report["unused_bytes"] == 0, (what, report)
    plain = run("convert", source, "-o", out, "-f").stderr
    listed = run("ls", source).stderr
    for name in named:
        assert f"left out: {name}: " in plain and f'--key "{name}"' in plain, (what, plain)
        assert f"left out: {name}: " in listed, (what, listed)
        part = os.path.join(tmp, "part.safetensors")
        run("convert", source, "-o", part, "-f", "--key", name, "--dedup", "keep")
        want = tensors_in(checkpoint[name], "")
        assert len(load_file(part)) == len(want), (what, name)
    assert plain.count("left out") == len(named), (what, plain)
    CHECKS["checkpoints"] += 1
    CHECKS["tensors"] += len(expected)
    CHECKS["named parts"] += len(named)


def several(tmp):
    """What each of several inputs leaves out is told, not only what the last one does."""
    model, optimizer, _ = training()
    paths = []
    for i in range(2):
        paths.append(os.path.join(tmp, f"{i}.pt"))
        torch.save({"state_dict": clones(model, f"m{i}."), f"optimizer_{i}": optimizer}, paths[-1])
    r = run("convert", *paths, "-o", os.path.join(tmp, "both.safetensors"), "--json")
    report = json.loads(r.stdout)
    assert [p["subject"] for p in report["left_out_parts"]] == ["optimizer_0", "optimizer_1"], report
    assert report["left_out"] == 2 * len(tensors_in(optimizer)), report
    for to in ("npz", "pt", "ckpt"):
        report = json.loads(
            run(
                "convert",
                paths[0],
                "-o",
                os.path.join(tmp, "one." + to),
                "--json",
                "--cast",
                "F32",
                "--cast",
                "*num_batches*=I32",
            ).stdout
        )
        assert [p["subject"] for p in report["left_out_parts"]] == ["optimizer_0"], report
        assert report["left_out"] == len(tensors_in(optimizer)), (to, report)
    report = json.loads(run("cp", paths[0], os.path.join(tmp, "cp.safetensors"), "--json").stdout)
    assert report["left_out"] == len(tensors_in(optimizer)) == report["left_out_parts"][0]["count"], report
    CHECKS["several inputs, other outputs"] += 5


def nothing(tmp):
    """An output of nothing, or under a name that promises something else, is refused; nothing is written."""
    source, out = os.path.join(tmp, "n.pt"), os.path.join(tmp, "n.safetensors")
    for value in ({"a": 1}, [], {"lr": 0.1, "betas": (0.9, 0.99)}):
        torch.save(value, source)
        r = run("convert", source, "-o", out, want=1)
        assert "no tensors" in r.stderr and not os.path.exists(out), r.stderr
        run("convert", source, "-o", os.path.join(tmp, "n.npz"), want=1)
        assert not os.path.exists(os.path.join(tmp, "n.npz"))
    run("convert", source, "-o", out, "--tree")  # a tree of numbers is worth a file
    os.remove(out)
    torch.save({"w": torch.ones(2)}, source)
    r = run("convert", source, "-o", out, "--drop", "*", want=1)
    assert "left out" in r.stderr and not os.path.exists(out), r.stderr
    for ending in (
        ".h5",
        ".hdf5",
        ".keras",
        ".onnx",
        ".msgpack",
        ".pdparams",
        ".arrow",
        ".tflite",
        ".bin",
        ".pkl",
        ".npy",
        ".pdiparams",
        ".H5",
        ".Bin",
    ):
        target = os.path.join(tmp, "o" + ending)
        r = run("convert", source, "-o", target, want=2)
        assert "cannot be written" in r.stderr and ".npz" in r.stderr and not os.path.exists(target), r.stderr
        r = run("cp", source, target, want=2)
        assert not os.path.exists(target), r.stderr
        run("convert", source, "-o", target, "--to", "safetensors")
        assert set(load_file(target)) == {"w"}
        CHECKS["endings"] += 1
    run("convert", source, "-o", os.path.join(tmp, "upper.PT"))
    assert torch.load(os.path.join(tmp, "upper.PT"), weights_only=True)["w"].sum() == 2


def digests(tmp):
    """Recorded digests go with the bytes that they are of, under the names that these have now, or are left out with a word."""
    torch.manual_seed(2)
    tensors = {"a": torch.randn(5), "b": torch.randn(5), "c": torch.arange(4)}
    bare, source = os.path.join(tmp, "bare.safetensors"), os.path.join(tmp, "recorded.safetensors")
    save_file(tensors, bare, {"kept": "yes"})
    checksum = os.path.join(tmp, "checksum.safetensors")
    save_file(tensors, checksum, {"crc_num": "55"})  # MindSpore's, of all tensors
    run("cp", bare, source, "--digests", "crc32c,sha256")
    out = os.path.join(tmp, "after.safetensors")
    changes = {
        "same": ([], {"a": "a", "b": "b", "c": "c"}),
        "renamed": (["--rename", "a=z"], {"z": "a", "b": "b", "c": "c"}),
        "swapped": (["--rename", "a=b", "--rename", "b=a"], {"b": "a", "a": "b", "c": "c"}),
        "dropped": (["--drop", "b"], {"a": "a", "c": "c"}),
        "cast": (["--cast", "bf16"], None),
    }
    for verb in "cp", "convert":
        for what, (options, names) in changes.items():
            where = [source, out] if verb == "cp" else [source, "-o", out]
            r = run(verb, *where, "-f", *options)
            with safe_open(out, "pt") as f:
                metadata = f.metadata()
            assert metadata["kept"] == "yes"
            told = run(verb, checksum, *where[1:], "-f", *options).stderr
            with safe_open(out, "pt") as f:
                assert ("crc_num" in (f.metadata() or {})) == (what == "same") == ("crc_num" not in told), (
                    verb,
                    what,
                    told,
                )
            run(verb, *where, "-f", *options)
            if names is None:
                assert (
                    "sft.crc32c" not in metadata and "sft.sha256" not in metadata and "digests" in r.stderr
                ), (verb, what)
                run("verify", out, want=1)
                continue
            assert "digests" not in r.stderr, (verb, what, r.stderr)
            run("verify", out)
            want = [
                "%08x" % crc32c(bytes(tensors[names[n]].view(torch.uint8).numpy())) for n in sorted(names)
            ]
            assert metadata["sft.crc32c"][8:] == "".join(want), (verb, what)
            CHECKS["digests handed on"] += len(want)
    # Two inputs: all have digests, or one has none.
    other = os.path.join(tmp, "other.safetensors")
    save_file({"x": torch.randn(3)}, other)
    r = run("convert", source, other, "-o", out, "-f")
    assert "digests" in r.stderr
    run("verify", other, "--record", "crc32c")
    r = run("convert", source, other, "-o", out, "-f")
    run("verify", out)
    assert "sft.sha256" in r.stderr and "sft.crc32c" not in r.stderr, r.stderr
    run("convert", source, other, "-o", os.path.join(tmp, "cut"), "--max-shard-size", "24")
    for part in sorted(p for p in os.listdir(tmp) if p.startswith("cut-")):
        run("verify", os.path.join(tmp, part))
    # Damage that was there before is seen afterwards: the digest is not made anew.
    data = bytearray(open(source, "rb").read())
    data[-1] ^= 1
    open(source, "wb").write(data)
    run("convert", source, "-o", out, "-f", "--rename", "a=z")
    run("verify", out, want=1)
    # Digests that fit no tensor are not handed on.
    with safe_open(source, "pt") as f:
        metadata = f.metadata()
    save_file({"a": torch.ones(2)}, source, metadata)
    for verb, where in ("cp", [source, out]), ("convert", [source, "-o", out]):
        assert "digests" in run(verb, *where, "-f").stderr
    # Other formats have no room for digests and metadata, some none for other names: told.
    for to in "npz", "ckpt", "pt":
        report = json.loads(run("convert", source, "-o", os.path.join(tmp, "told." + to), "--json").stdout)
        parts = {
            p["subject"]: p["message"] for p in report["left_out_parts"]
        }  # the reference writes metadata in any order
        assert set(parts) == {"sft.crc32c", "sft.sha256", "metadata"}, report
        assert report["left_out"] == 0 and "kept" in parts["metadata"], report
        tied = torch.ones(3)
        torch.save({"a": tied, "b": tied}, os.path.join(tmp, "tied.pt"))
        report = json.loads(
            run("convert", os.path.join(tmp, "tied.pt"), "-o", os.path.join(tmp, "t." + to), "--json").stdout
        )
        assert (report["aliases"], report["left_out"]) == ((1, 0) if to == "pt" else (0, 1)), (to, report)
        report = json.loads(
            run(
                "convert",
                os.path.join(tmp, "tied.pt"),
                "-o",
                os.path.join(tmp, "t." + to),
                "--json",
                "-f",
                "--dedup",
                "keep",
            ).stdout
        )
        assert (report["tensors"], report["left_out"]) == (2, 0), (to, report)


def overlaps(tmp):
    """Views that share bytes without being the same tensor: all of them arrive, and what that costs is told."""
    base = torch.arange(1000.0)
    source, out = os.path.join(tmp, "views.pt"), os.path.join(tmp, "views.safetensors")
    value = {
        "base": base,
        "tail": base[900:],
        "square": base[:100].view(10, 10).t(),
        "same": base,
        "apart": torch.ones(3),
    }
    torch.save(value, source)
    for more in [], ["--dedup", "first"]:
        report = json.loads(run("convert", source, "-o", out, "-f", "--json", "--verify", *more).stdout)
        (note,) = report["notes"]
        assert (
            "800 bytes" in note["message"] and "2 tensors" in note["message"] and not report["left_out_parts"]
        ), report
        assert report["left_out"] == 0 and report["tensors"] == 4 and report["aliases"] == 1, report
        got = load_file(out)
        for name in set(value) - {"same"}:
            assert torch.equal(got[name], value[name].contiguous()), name
    told = run("convert", source, "-o", out, "-f").stderr
    assert "800 bytes" in told and "left out" not in told, told
    for more in ["--tree"], ["--dedup", "alias"]:  # one storage stays one
        r = run("convert", source, "-o", out, "-f", "--json", "--verify", *more)
        report = json.loads(r.stdout)
        assert (report["tensors"], report["aliases"], report["left_out_parts"]) == (2, 3, []), report
        assert set(load_file(out)) == {"base", "apart"} and "left out" not in r.stderr, r.stderr
        for name in value:
            assert torch.equal(value_of(out, name, tmp).reshape(value[name].shape), value[name]), (more, name)
        run("convert", out, "-o", out + ".pt", "-f", "--verify")
        got = torch.load(out + ".pt", weights_only=True)
        assert list(got) == list(value) or "--tree" not in more
        assert all(torch.equal(got[n], value[n]) for n in value)
        assert len({got[n].untyped_storage().data_ptr() for n in value if n != "apart"}) == 1
        run(
            "convert",
            source,
            "-o",
            out + ".npz",
            "-f",
            "--verify",
            *more[-1:] if more == ["--tree"] else more,
        )
    halves = torch.arange(10.0)
    for name, value in ("halves", {"a": halves[:5], "b": halves[5:]}), ("tied", {"a": halves, "b": halves}):
        torch.save(value, source)
        r = run("convert", source, "-o", out, "-f")
        assert "left out" not in r.stderr, (name, r.stderr)
    CHECKS["overlapping views"] += 4


def listed(path):
    """Names of a file: tensors, and other names with what they are of."""
    found = json.loads(run("ls", "--json", path).stdout)
    return {t["name"] for t in found["tensors"]}, {a["name"]: a["of"] for a in found.get("aliases", [])}


def value_of(path, name, tmp):
    """What the file has under a name, as the tool's own reader gives it."""
    out = os.path.join(tmp, "value.npy")
    run("get", path, name, "-o", out, "-f")
    return torch.from_numpy(numpy.load(out))


def linked(tmp):
    """(source, name -> value, bare storages): names that share bytes, in every form that a file records."""
    embed, base = torch.randn(4, 3), torch.arange(8.0)
    tied = {
        "lm_head.weight": embed,
        "model.embed.weight": embed,
        "model.n": torch.ones(3),
        "model.again": embed,
    }
    path = os.path.join(tmp, "linked.pt")
    torch.save(tied, path)
    yield path, {k: v.clone() for k, v in tied.items()}, set()
    run("convert", path, "-o", os.path.join(tmp, "linked.safetensors"))
    yield os.path.join(tmp, "linked.safetensors"), {k: v.clone() for k, v in tied.items()}, set()
    parts = {"part": base[3:5], "turned": base.as_strided((4, 2), (1, 4)), "all": base}
    entries = {
        n: {
            "of": "base",
            "dtype": "F32",
            "shape": list(v.shape),
            "stride": list(v.stride()),
            "offset": v.storage_offset(),
        }
        for n, v in parts.items()
    }
    path = os.path.join(tmp, "parts.safetensors")
    save_file(
        {"base": base, "b": torch.ones(2)},
        path,
        {"sft.aliases": json.dumps(entries), "tied": "b", "format": "b"},
    )
    yield path, {"base": base, "b": torch.ones(2), "tied": torch.ones(2), **parts}, set()
    raw = base.view(torch.uint8).clone()
    del entries["all"]
    for e in entries.values():
        e["of"] = "sft.storage.x"
    path = os.path.join(tmp, "bare.safetensors")
    save_file({"sft.storage.x": raw, "b": torch.ones(2)}, path, {"sft.aliases": json.dumps(entries)})
    yield (
        path,
        {"b": torch.ones(2), "sft.storage.x": raw, **{n: parts[n] for n in entries}},
        {"sft.storage.x"},
    )


def names(tmp):
    """Every name of the input is a tensor or another name of the output, was left out on request, or is named."""
    verbs = {
        "cp": lambda source, out, *o: run("cp", source, out, "-f", "--json", *o),
        **{
            to: (
                lambda source, out, *o, to=to: run(
                    "convert", source, "-o", out, "--to", to, "-f", "--json", "--verify", *o
                )
            )
            for to in ("safetensors", "npz", "pt", "ckpt", "gguf")
        },
    }
    for source, values, bare in linked(tmp):
        tensors, others = listed(source)
        assert tensors | set(others) == set(values), (source, tensors, others)
        every = sorted(set(values) - bare)  # nobody can ask for bytes that only other names show
        asked = [[]] + [["-d", n] for n in every] + [["-s", n] for n in every]
        asked += [["-r", f"{n}=new.{n}"] for n in every] + [
            ["-r", "*=x.*"],
            ["-c", "bf16"],
            ["-d", "m*"],
            ["-s", "*t"],
        ]
        for verb, make in verbs.items():
            for options in asked:
                want = {n: n for n in every}  # its name in the output
                if options[:1] == ["-d"]:
                    want = {n: n for n in every if not fnmatch.fnmatchcase(n, options[1])}
                elif options[:1] == ["-s"]:
                    want = {n: n for n in every if fnmatch.fnmatchcase(n, options[1])}
                elif options[:1] == ["-r"]:
                    old, new = options[1].split("=")
                    want = {n: "x." + n if old == "*" else new if n == old else n for n in every}
                cast = options[:1] == ["-c"]
                if not want or (cast and verb == "npz"):
                    continue
                out = os.path.join(tmp, "names." + ("safetensors" if verb == "cp" else verb))
                more = ["-m", "general.architecture=x"] if verb == "gguf" else []
                report = json.loads(make(source, out, *options, *more).stdout)
                told = {p["subject"] for p in report["left_out_parts"] if p["count"]}
                now, also = listed(out)
                missing = set(want.values()) - now - set(also) - told
                assert not missing and not (now | set(also)) - set(want.values()) - {"tensor"} - bare, (
                    verb,
                    source,
                    options,
                    missing,
                    now,
                    also,
                    told,
                )
                if verb in ("cp", "safetensors", "pt"):
                    assert not told, (verb, options, told)
                assert report["tensors"] == len(now) or verb == "pt", (verb, options, report, now)
                if verb in ("cp", "safetensors"):
                    assert report["aliases"] == len(also), (verb, options, report, also)
                left = len(every) - len(want)
                if not bare:
                    assert report["tensors"] + report["aliases"] + report["left_out"] == len(every), (
                        verb,
                        source,
                        options,
                        report,
                    )
                    assert report["left_out"] == left + len(told), (verb, options, report)
                for old, name in list(want.items())[:: 1 if verb in ("cp", "safetensors", "pt") else 3]:
                    if name in now | set(also) and not cast:
                        assert torch.equal(
                            value_of(out, name, tmp).reshape(values[old].shape), values[old]
                        ), (verb, options, name)
                CHECKS["name x option x output"] += 1
    # A type for one name of a tensor, and not for the other.
    for verb in "cp", "safetensors", "pt":
        source = os.path.join(tmp, "linked.pt")
        where = (
            [source, os.path.join(tmp, "n.x.safetensors")]
            if verb == "cp"
            else [source, "-o", os.path.join(tmp, "n." + verb)]
        )
        r = run("cp" if verb == "cp" else "convert", *where, "-f", "-c", "lm_head.weight=bf16", want=1)
        assert "another name of the same tensor" in r.stderr, r.stderr
        # What is said of a pattern that fits nothing.
        r = run(
            "cp" if verb == "cp" else "convert", *where, "-f", "-c", "nope=f16", "-r", "nope=z", "-d", "nope"
        )
        assert r.stderr.count("matches no tensor") == 3, (verb, r.stderr)
    # Two names that would become one; metadata under the name of an alias.
    r = run(
        "convert",
        os.path.join(tmp, "linked.pt"),
        "-o",
        os.path.join(tmp, "n.safetensors"),
        "-f",
        "-r",
        "model.n=model.again",
        want=1,
    )
    assert "model.again" in r.stderr
    for where in (
        ["cp", source, os.path.join(tmp, "n.safetensors")],
        ["convert", source, "-o", os.path.join(tmp, "n.safetensors")],
    ):
        run(*where, "-f", "-m", "model.again=said")
        assert listed(os.path.join(tmp, "n.safetensors"))[1]["model.again"] == "lm_head.weight"
        with safe_open(os.path.join(tmp, "n.safetensors"), "pt") as f:
            assert f.metadata()["model.again"] == "said"
    r = run("cp", source, os.path.join(tmp, "n.safetensors"), "-f", "-m", "drop")
    assert "other names of tensors" in r.stderr and listed(os.path.join(tmp, "n.safetensors"))[1] == {}, (
        r.stderr
    )
    # In .pt they share storages again.
    run("convert", os.path.join(tmp, "parts.safetensors"), "-o", os.path.join(tmp, "n.pt"), "-f")
    got = torch.load(os.path.join(tmp, "n.pt"), weights_only=True)
    assert len({got[n].untyped_storage().data_ptr() for n in ("base", "part", "turned", "all")}) == 1
    run("convert", os.path.join(tmp, "bare.safetensors"), "-o", os.path.join(tmp, "n.pt"), "-f")
    got = torch.load(os.path.join(tmp, "n.pt"), weights_only=True)
    assert (
        set(got) == {"b", "part", "turned"}
        and got["part"].untyped_storage().data_ptr() == got["turned"].untyped_storage().data_ptr()
    )
    assert got["turned"].tolist() == [[0, 4], [1, 5], [2, 6], [3, 7]], got


def small_print(tmp):
    """Refusals and warnings that say whose they are."""
    out = os.path.join(tmp, "small.safetensors")
    ck, plain = os.path.join(tmp, "small-ck.pt"), os.path.join(tmp, "small-plain.pt")
    torch.save(
        {
            "model": {"w": torch.ones(2)},
            "optimizer": {"state": {0: {"m": torch.ones(2)}}, "param_groups": []},
        },
        ck,
    )
    torch.save({"v": torch.ones(2)}, plain)
    for order in [ck, plain], [plain, ck]:
        r = run("convert", *order, "-o", out, "-f")
        assert "small-ck.pt)" in r.stderr and "small-plain" not in r.stderr, r.stderr
    torch.save({"__metadata__": torch.ones(2), "w": torch.ones(3)}, plain)
    assert "rename it" in run("convert", plain, "-o", out, "-f", want=1).stderr
    run("convert", plain, "-o", out, "-f", "-r", "__metadata__=m")
    source = os.path.join(tmp, "blocks.safetensors")
    save_file(
        {"q": torch.zeros(2, 18, dtype=torch.uint8)},
        source,
        {"gguf.tensors": json.dumps({"q": {"type": "Q4_0", "shape": [2, 32]}})},
    )
    for where in ["cp", source, out], ["convert", source, "-o", out]:
        assert "quantised" in run(*where, "-f", "-c", "q=f32", want=1).stderr
    npy = os.path.join(tmp, "blocks.npy")
    for dtype, want in ("F32", 1), ("I16", 1), ("U8", 0):
        told = run("get", source, "q", "-d", dtype, "-o", npy, want=want).stderr
        assert os.path.exists(npy) == (want == 0) and ("quantised" in told) == (want == 1), told
    model = os.path.join(tmp, "odd")
    os.mkdir(model)
    torch.save({"w": torch.ones(2)}, os.path.join(model, "pytorch_model.bin"))
    os.symlink("nowhere", os.path.join(model, "special_tokens_map.json"))
    os.mkfifo(os.path.join(model, "added_tokens.json"))
    r = run("convert", model, "-o", os.path.join(tmp, "odd-out"))
    assert (
        "special_tokens_map.json: warning: a link to nothing" in r.stderr
        and "added_tokens.json: warning: no regular file" in r.stderr
    ), r.stderr
    CHECKS["refusals and warnings"] += 11


def described(tmp):
    """What the metadata say of a tensor goes on under its name, and not where it says too much."""
    raw = torch.arange(36, dtype=torch.uint8).reshape(2, 18)
    source, out = os.path.join(tmp, "said.safetensors"), os.path.join(tmp, "said-out.safetensors")
    save_file(
        {"q": raw, "w": torch.ones(2, 32)},
        source,
        {
            "gguf.tensors": json.dumps({"q": {"type": "Q4_0", "shape": [2, 32]}}),
            "onnx:w": "{}",
            "tflite:q": "{}",
            "flax:gone": "x",
            "general.architecture": "llama",
        },
    )
    for verb in "cp", "convert":
        where = [source, out] if verb == "cp" else [source, "-o", out]
        said = []
        for options in [], ["-r", "*=n.*"], ["-d", "q"], ["-c", "f16"]:
            r = run(verb, *where, "-f", *options)
            with safe_open(out, "pt") as f:
                said.append((f.metadata(), r.stderr))
        (same, _), (renamed, _), (dropped, _), (cast, told) = said
        assert same["onnx:w"] == "{}" and json.loads(same["gguf.tensors"])["q"]["type"] == "Q4_0"
        assert (
            renamed["onnx:n.w"] == "{}" and renamed["tflite:n.q"] == "{}" and renamed["flax:gone"] == "x"
        ), renamed
        assert json.loads(renamed["gguf.tensors"]) == {"n.q": {"type": "Q4_0", "shape": [2, 32]}}, renamed
        assert "gguf.tensors" not in dropped and "tflite:q" not in dropped and dropped["onnx:w"] == "{}", (
            dropped
        )
        assert "onnx:w" not in cast and "onnx:w" in told and "q" in cast["gguf.tensors"], (cast, told)
        run(verb, *where, "-f", "-r", "*=n.*")
        run("convert", out, "-o", os.path.join(tmp, "said.gguf"), "-f")
        assert (
            "Q4_0"
            in json.loads(run("ls", "--json", os.path.join(tmp, "said.gguf")).stdout)["metadata"][
                "gguf.tensors"
            ]
        )
        CHECKS["metadata about tensors"] += 7


def checksums(tmp):
    """--verify into every format looks at the checksums that the input has stored."""
    x = torch.arange(6.0)
    for ending in "pt", "npz", "safetensors":
        source = os.path.join(tmp, "sums." + ending)
        if ending == "pt":
            torch.save({"w": x, "v": x + 1}, source)
        elif ending == "npz":
            numpy.savez(source, w=x.numpy(), v=(x + 1).numpy())
        else:
            save_file({"w": x, "v": x + 1}, os.path.join(tmp, "plain.safetensors"))
            run("cp", os.path.join(tmp, "plain.safetensors"), source, "--digests", "crc32c")
        for damaged in False, True:
            if damaged:
                data = bytearray(open(source, "rb").read())
                data[data.find((x + 1).numpy().tobytes())] ^= 1
                open(source, "wb").write(data)
            for to in "safetensors", "npz", "pt", "ckpt", "gguf":
                out = os.path.join(tmp, "sums-out." + to)
                more = ["-m", "general.architecture=x"] if to == "gguf" else []
                if os.path.exists(out):
                    os.remove(out)
                r = run("convert", source, "-o", out, "--verify", *more, want=int(damaged))
                assert damaged != os.path.exists(out) and damaged != ("verified" in r.stdout), (ending, to, r)
                CHECKS["checksums of inputs"] += 1


def views(tmp):
    """numpy saves bfloat16 as two bytes without a type: --view-as says what they are."""
    bf16 = torch.randn(3, 4).to(torch.bfloat16)
    f8 = torch.randn(5).to(torch.float8_e4m3fn)
    source, out = os.path.join(tmp, "view.npz"), os.path.join(tmp, "view.safetensors")
    numpy.savez(
        source,
        **{
            "w.bf": bf16.view(torch.uint16).numpy().view("V2"),
            "w.f8": f8.view(torch.uint8).numpy().view("V1"),
            "n": numpy.arange(3, dtype="<i4"),
        },
    )
    options = ["--view-as", "w.bf=bf16", "--view-as", "*.f8=F8_E4M3"]
    for verb, where in ("convert", [source, "-o", out]), ("cp", [source, out]):
        run(verb, *where, "-f", *options)
        got = load_file(out)
        assert got["w.bf"].dtype == torch.bfloat16 and torch.equal(
            got["w.bf"].view(torch.uint16), bf16.view(torch.uint16)
        ), verb
        assert got["w.f8"].dtype == torch.float8_e4m3fn and torch.equal(
            got["w.f8"].view(torch.uint8), f8.view(torch.uint8)
        ), verb
        assert got["n"].tolist() == [0, 1, 2]
        CHECKS["views"] += 2
    listed = {
        t["name"]: t["dtype"] for t in json.loads(run("ls", "--json", source, *options).stdout)["tensors"]
    }
    assert listed == {"w.bf": "BF16", "w.f8": "F8_E4M3", "n": "I32"}, listed
    assert load_file(out)["w.bf"].float().sum() == bf16.float().sum()
    r = run("convert", source, "-o", os.path.join(tmp, "none.safetensors"), "--view-as", "n=BF16", want=1)
    assert "another size" in r.stderr and not os.path.exists(os.path.join(tmp, "none.safetensors")), r.stderr
    run("convert", source, "-o", os.path.join(tmp, "none.safetensors"), "--view-as", "n=what", want=2)
    assert "matches no tensor" in run("ls", source, "--view-as", "zzz=BF16").stderr
    assert "matches no tensor" in run("ls", out, "--view-as", "n=F32").stderr  # safetensors say their types


class Server(http.server.BaseHTTPRequestHandler):
    """Files of one directory, whole and in ranges; 404 for the rest."""

    root = None

    def log_message(self, *_):
        pass

    def do_HEAD(self):
        self.answer(False)

    def do_GET(self):
        self.answer(True)

    def answer(self, body):
        path = os.path.join(self.root, os.path.basename(self.path))
        if not os.path.isfile(path):
            self.send_response(404)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        with open(path, "rb") as f:
            data = f.read()
        wanted = self.headers.get("Range")
        first, last = (
            (int(x) if x else len(data) - 1 for x in wanted[6:].split("-")) if wanted else (0, len(data) - 1)
        )
        part = data[first : last + 1]
        self.send_response(206 if wanted else 200)
        if wanted:
            self.send_header("Content-Range", f"bytes {first}-{first + len(part) - 1}/{len(data)}")
        self.send_header("Accept-Ranges", "bytes")
        self.send_header("ETag", f'"{len(data)}-{zlib.crc32(data)}"')
        self.send_header("Content-Length", str(len(part)))
        self.end_headers()
        if body:
            self.wfile.write(part)


def beside(tmp):
    """Configuration and tokenizer files travel into directories; programs and pickles are named and stay."""
    model = os.path.join(tmp, "model")
    os.mkdir(model)
    torch.save({"a": torch.ones(4), "b": torch.zeros(4)}, os.path.join(model, "pytorch_model.bin"))
    torch.save({"x": 1}, os.path.join(model, "training_args.bin"))
    travel = [
        "config.json",
        "generation_config.json",
        "tokenizer.json",
        "tokenizer_config.json",
        "special_tokens_map.json",
        "vocab.txt",
        "merges.txt",
        "preprocessor_config.json",
        "spiece.model",
        "README.md",
        "LICENSE",
    ]
    for name in travel + ["modeling_own.py", "model.py", "state.pkl", "notes.dat"]:
        with open(os.path.join(model, name), "wb") as f:
            f.write(os.urandom(40))
    os.mkdir(os.path.join(model, "vocab.json"))  # a directory of that name does not
    with open(os.path.join(tmp, "secret"), "w", encoding="ascii") as f:
        f.write("of the user, not of the model")
    os.symlink(os.path.join(tmp, "secret"), os.path.join(model, "added_tokens.json"))

    def same(folder, *weights):
        assert sorted(os.listdir(folder)) == sorted([*travel, *weights]), (folder, os.listdir(folder))
        for name in travel:
            with open(os.path.join(model, name), "rb") as a, open(os.path.join(folder, name), "rb") as b:
                assert a.read() == b.read(), (folder, name)
        CHECKS["files carried along"] += len(travel)

    def out(name):
        return os.path.join(tmp, name)

    r = run("convert", model, "-o", out("c"))
    same(out("c"), "model.safetensors")
    for name in "modeling_own.py", "model.py", "state.pkl", "training_args.bin":
        assert f"{name}: warning: " in r.stderr or f"left out: {name}: PyTorch zip" in r.stderr, (
            name,
            r.stderr,
        )
        assert r.stderr.count(name) == 1, r.stderr
    assert "added_tokens.json: warning: a link that leads out" in r.stderr, r.stderr
    assert "notes.dat" not in r.stderr and "pytorch_model.bin" not in r.stderr, r.stderr
    run("split", out("c"), "-o", out("s"), "--max-shard-size", "16")
    same(
        out("s"),
        "model-00001-of-00002.safetensors",
        "model-00002-of-00002.safetensors",
        "model.safetensors.index.json",
    )
    run("split", os.path.join(out("c"), "model.safetensors"), "-o", out("s1"))
    same(out("s1"), "model.safetensors")
    os.mkdir(out("j"))
    run("join", out("s"), "-o", os.path.join(out("j"), "model.safetensors"))
    same(out("j"), "model.safetensors")
    for verb, *options in ("convert",), ("split",), ("split", "--plan"):
        run(verb, model if verb == "convert" else out("c"), "-o", out("none"), "--no-config", *options)
        if "--plan" not in options:
            assert all(n.startswith("model") for n in os.listdir(out("none"))), os.listdir(out("none"))
            shutil.rmtree(out("none"))
    # Not over a file that is there; told if its bytes differ.
    with open(os.path.join(out("c"), "config.json"), "w") as f:
        f.write("mine")
    r = run("convert", model, "-o", out("c"), "-f")
    assert (
        r.stderr.count("stays as it is") == 1 and open(os.path.join(out("c"), "config.json")).read() == "mine"
    ), r.stderr
    # A file of another name takes nothing along, and gets nothing.
    run("convert", os.path.join(model, "pytorch_model.bin"), "-o", out("alone.safetensors"))
    assert not os.path.exists(out("config.json"))

    Server.root = out("j")
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_address[1]}/model.safetensors"
    run("fetch", url, "-o", out("f"))
    got = set(os.listdir(out("f")))
    assert {
        "config.json",
        "tokenizer.json",
        "vocab.txt",
        "README.md",
        "LICENSE",
        "model.safetensors",
    } <= got, got
    for name in got:
        with open(os.path.join(out("j"), name), "rb") as a, open(os.path.join(out("f"), name), "rb") as b:
            assert a.read() == b.read(), name
    run("fetch", url, "-o", out("f0"), "--no-config")
    assert os.listdir(out("f0")) == ["model.safetensors"]
    server.shutdown()
    server.server_close()


def conversions(tmp):
    for what, checkpoint, alone, named in shapes():
        one(tmp, what, checkpoint, alone, named)


if __name__ == "__main__":
    program(
        conversions,
        several,
        nothing,
        digests,
        beside,
        overlaps,
        names,
        described,
        small_print,
        checksums,
        views,
    )
