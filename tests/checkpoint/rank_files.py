#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""rank_files.py --tool TOOL [--mindspore] - what goes with the files of ranks: MindSpore's crc_num (compared, and left out where tensors
change), digests recorded in them, the hyper parameters of join --unified, and what reshard -f leaves of an older model.
Names and meta.json of what reshard writes. What convert makes of a directory of ranks, or of steps, file by file. Standard library only: crc_num is computed here with zlib, as MindSpore does. With --mindspore it judges itself: files
that it saved with crc_check, and what it says of ours.
"""

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
import zlib

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import ffi  # noqa: E402
import spaces  # noqa: E402
from coverage_table import Place, job  # noqa: E402
from spaces import check, put, run, save, whole  # noqa: E402


def crc_num(tensors):
    """mindspore.train.serialization: chained over the sorted names, the name and then the bytes."""
    n = 0
    for name in sorted(tensors):
        n = zlib.crc32(tensors[name][2], zlib.crc32(name.encode(), n))
    return str(n)


def metadata_of(path):
    return ffi.read_file(path)[1] or {}


def flip(path):
    with open(path, "r+b") as f:
        f.seek(-1, os.SEEK_END)
        last = f.read(1)[0]
        f.seek(-1, os.SEEK_END)
        f.write(bytes([last ^ 1]))


def crc(base):
    tensors = {"b.é": whole([3, 50], 9), "a": whole([70000]), "c": whole([0]), "a.b": ("I8", (5,), b"abcde")}
    one = os.path.join(base, "one.safetensors")
    save(one, tensors, {"format": "ms", "crc_num": crc_num(tensors)})
    r = run("verify", one)
    check("crc_num that fits", r.returncode == 0 and ": ok" in r.stdout, r.stdout + r.stderr)
    check("as JSON", json.loads(run("verify", "--json", one).stdout)["verified"] is True)
    gold = {
        "a": ("I32", (1,), b"\7\0\0\0"),
        "w": ("F32", (4,), bytes.fromhex("0000803f000000400000404000008040")),
    }
    two = os.path.join(base, "two.safetensors")
    save(two, gold, {"crc_num": "3071086405"})  # what MindSpore 2.10 wrote for these
    check("MindSpore's own number", run("verify", two).returncode == 0, run("verify", two).stderr)
    counted = {
        "b": ("BOOL", (), b"\1"),
        "epoch_num": ("I64", (), (3).to_bytes(8, "little")),
        "lr": ("F32", (), bytes.fromhex("0000003f")),
        "w": ("F32", (3,), bytes.fromhex("0000803f") * 3),
    }
    save(two, counted, {"crc_num": "881937637"})  # append_dict={"epoch_num": 3, "lr": 0.5, "b": True}
    check("MindSpore's own number of scalars", run("verify", two).returncode == 0, run("verify", two).stderr)
    counted["epoch_num"] = ("I64", (), (4).to_bytes(8, "little"))
    save(two, counted, {"crc_num": "881937637"})
    check("another scalar", run("verify", two).returncode == 1)
    for what, options, kept in (
        ("a plain copy", (), True),
        ("cast", ("--cast", "a.b=I16"), False),
        ("select", ("--select", "a*"), False),
        ("drop", ("--drop", "c"), False),
        ("rename", ("--rename", "a=z"), False),
        ("order", ("--order", "declared"), True),
    ):
        out = os.path.join(base, "out.safetensors")
        r = run("cp", "-f", *options, one, out)
        check(
            "cp, %s: crc_num" % what, r.returncode == 0 and ("crc_num" in metadata_of(out)) == kept, r.stderr
        )
        check("cp, %s: and said" % what, kept or "crc_num" in r.stderr, r.stderr)
        check("cp, %s: verify" % what, run("verify", out).returncode == (0 if kept else 1))
    r = run("split", "--no-sync", one, "-o", os.path.join(base, "split"), "--max-shard-size", "1KB")
    check(
        "split",
        r.returncode == 0
        and not any(
            "crc_num" in metadata_of(os.path.join(base, "split", f))
            for f in os.listdir(os.path.join(base, "split"))
            if f.endswith(".safetensors")
        ),
        r.stderr,
    )
    r = run("split", "--no-sync", one, "-o", os.path.join(base, "same"))
    check(
        "split into one file keeps it",
        metadata_of(os.path.join(base, "same", "model.safetensors")).get("crc_num") == crc_num(tensors),
        r.stderr,
    )
    target = os.path.join(base, "target.json")
    put(
        target,
        {
            "format": "safetensors-layout",
            "version": 1,
            "mesh": {"axes": {"x": 2}},
            "tensors": [{"name": "a", "cuts": ["x"]}],
        },
    )
    check(
        "reshard",
        run(
            "reshard", "--no-sync", one, "--target-layout", target, "-o", os.path.join(base, "two")
        ).returncode
        == 0,
    )
    check(
        "reshard: no crc_num",
        "crc_num" not in metadata_of(os.path.join(base, "two", "rank_1", "model.safetensors")),
    )
    r = run(
        "slice",
        "--no-sync",
        one,
        "--layout",
        target,
        "-k",
        "0",
        "-o",
        os.path.join(base, "slice.safetensors"),
    )
    check(
        "slice: no crc_num",
        r.returncode == 0 and "crc_num" not in metadata_of(os.path.join(base, "slice.safetensors")),
    )
    flip(one)
    r = run("verify", one)
    check("a flipped bit", r.returncode == 1 and "crc_num" in r.stderr, r.stdout + r.stderr)
    for bad in ("", "x", "-1", "99999999999", str(2**32 + int(crc_num(gold)))):
        save(two, gold, {"crc_num": bad})
        check("crc_num %r" % bad, run("verify", two).returncode == 1)


def digests(base):
    truth, ranks, strategies = job()
    place = Place(base, ranks, strategies)
    r = run("verify", place.folder)
    check("no digests at all", r.returncode == 1 and "no digests" in r.stderr, r.stderr)
    r = run("verify", "--record", "crc32c", place.folder)
    check(
        "recorded in every rank's file",
        r.returncode == 0 and r.stdout.count("recorded") == 8,
        r.stdout + r.stderr,
    )
    r = run("verify", place.folder)
    check(
        "verify of the directory sees them",
        r.returncode == 0 and r.stdout.count(": ok") == 8,
        r.stdout + r.stderr,
    )
    path = os.path.join(place.folder, "rank_6", "net_rank_6-1_2.safetensors")
    flip(path)
    r = run("verify", place.folder)
    check(
        "and a flipped bit in one",
        r.returncode == 1 and "rank_6" in r.stdout and "damaged" in r.stdout and r.stdout.count(": ok") == 7,
        r.stdout + r.stderr,
    )
    flip(path)
    shutil.rmtree(os.path.join(place.folder, "rank_1"))
    r = run("verify", place.folder)
    check(
        "a rank is missing: no digest tells that",
        r.returncode == 1 and "rank 1's" in r.stderr,
        r.stdout + r.stderr,
    )
    for r in range(8):
        save(
            os.path.join(place.folder, "rank_%d" % r, "net_rank_%d-1_2.safetensors" % r),
            ranks[r],
            {"format": "ms", "crc_num": crc_num(ranks[r])},
        )
    r = run("verify", place.folder)
    check("crc_num of every rank", r.returncode == 0 and r.stdout.count(": ok") == 8, r.stdout + r.stderr)
    flip(path)
    r = run("verify", place.folder)
    check(
        "a flipped bit",
        r.returncode == 1 and "rank_6" in r.stderr and "crc_num" in r.stderr,
        r.stdout + r.stderr,
    )


def of_names(base):
    """What metadata say of tensors by their names, or of parts of them, goes where it is still so; else it is named."""
    whole_file = os.path.join(base, "whole.safetensors")
    part = json.dumps({"schema": 1, "aliases": {"v": {"of": "a", "dtype": "U8", "shape": [2], "offset": 0}}})
    save(
        whole_file,
        {"a": whole([4]), "b": whole([2])},
        {"sft.aliases": part, "sft.tree": "{}", "gguf.tensors": "{}", "tied": "a", "author": "me"},
    )
    target, rules, out = (os.path.join(base, n) for n in ("target.json", "rules.json", "out.safetensors"))
    put(
        target,
        {
            "format": "safetensors-layout",
            "version": 1,
            "mesh": {"axes": {"x": 2}},
            "tensors": [{"name": "a", "cuts": ["x"]}],
        },
    )
    put(rules, {"format": "safetensors.names/1", "otherwise": "keep", "rules": [{"from": "a", "to": "z"}]})
    ranks = os.path.join(base, "cut")
    for what, args, result, kept in (
        ("slice", ("slice", whole_file, "--layout", target, "-k", "1", "-o", out), out, {"tied", "author"}),
        (
            "reshard",
            ("reshard", whole_file, "--target-layout", target, "-o", ranks),
            os.path.join(ranks, "rank_1", "model.safetensors"),
            {"tied", "author"},
        ),
        ("join --names", ("join", "-f", whole_file, "--names", rules, "-o", out), out, {"author"}),
        ("convert --names", ("convert", "-f", whole_file, "--names", rules, "-o", out), out, {"author"}),
    ):
        r = run(*args)
        left = {"sft.aliases", "sft.tree", "gguf.tensors", "tied"} - kept
        check(
            "%s: metadata" % what,
            r.returncode == 0 and set(metadata_of(result)) == kept,
            "%s %s" % (metadata_of(result), r.stderr),
        )
        check("%s: said" % what, all('metadata "%s" is left out' % k in r.stderr for k in left), r.stderr)


def unified(base):
    """The layout that lies beside the ranks says what is no parameter."""
    truth, ranks, strategies = job()
    place = Place(base, ranks, strategies)
    out = os.path.join(base, "unified")
    for options in ((), ("--layout", os.path.join(base, "strategy"))):
        shutil.rmtree(out, ignore_errors=True)
        r = run("join", "--no-sync", "--unified", *options, place.folder, "-o", out)
        check("join --unified %s" % (options,), r.returncode == 0, r.stderr)
        hyper = os.path.join(out, "hyper_param.safetensors")
        check(
            "hyper parameters lie apart",
            os.path.exists(hyper) and set(ffi.read_file(hyper)[0]) == {"global_step"},
        )
        with open(os.path.join(out, "param_name_map.json"), encoding="utf-8") as f:
            check("and not in the map", set(json.load(f)["weight_map"]) == set(truth) - {"global_step"})
        shutil.rmtree(out)
        rename = {name: "the/" + name for name in truth}
        r = run("join", "--no-sync", "--unified", *options, place.folder, "-o", out, "--rename", "*=the/*")
        check("renamed", r.returncode == 0, r.stderr)
        check("hyper parameters of renamed ones", set(ffi.read_file(hyper)[0]) == {rename["global_step"]})
        with open(os.path.join(out, "param_name_map.json"), encoding="utf-8") as f:
            names = {rename[name] for name in set(truth) - {"global_step"}}
            check("and the map has their names", set(json.load(f)["weight_map"]) == names)


def layout_of(ranks):
    return {
        "format": "safetensors-layout",
        "version": 1,
        "mesh": {"axes": {"x": ranks}},
        "tensors": [{"name": "w", "cuts": ["x", None]}],
    }


def fewer(base):
    """reshard -f to fewer ranks: the older model goes, nothing else does."""
    truth = {"w": whole([24, 2]), "n": whole([3], 100)}
    other = {"w": whole([24, 2], 500), "n": whole([3], 700)}
    source, newer = os.path.join(base, "a.safetensors"), os.path.join(base, "b.safetensors")
    save(source, truth)
    save(newer, other)
    for n in (8, 4, 2):
        put(os.path.join(base, "%d.json" % n), layout_of(n))
    out = os.path.join(base, "out")

    def reshard(n, file, *options):
        return run(
            "reshard",
            "--no-sync",
            file,
            "--target-layout",
            os.path.join(base, "%d.json" % n),
            "-o",
            out,
            *options,
        )

    check("to eight", reshard(8, source).returncode == 0)
    run("verify", "--record", "crc32c", "--manifest", os.path.join(out, "rank_7", "model.safetensors"))
    put(os.path.join(out, "rank_6", "notes.txt"), "mine")
    r = reshard(4, newer)
    check(
        "to four, not forced", r.returncode == 1 and "rank_" in r.stderr, "%d %s" % (r.returncode, r.stderr)
    )
    check("and nothing has changed", spaces.read_back(out)[0] == truth)
    r = reshard(4, newer, "-f")
    check("to four", r.returncode == 0, r.stderr)
    check("the new model and no other", spaces.read_back(out)[0] == other, spaces.read_back(out)[1].stderr)
    check(
        "older ranks are gone",
        sorted(n for n in os.listdir(out) if n[:5] == "rank_")
        == ["rank_0", "rank_1", "rank_2", "rank_3", "rank_6"],
    )
    check("what is not the model's stays", os.listdir(os.path.join(out, "rank_6")) == ["notes.txt"])
    # another name for the files: both would lie in one directory
    r = reshard(4, source, "-f", "--name", "rank_{rank}/q_rank_{rank}.safetensors")
    check("under another name", r.returncode == 0 and spaces.read_back(out)[0] == truth, r.stderr)
    check("one file for each rank", os.listdir(os.path.join(out, "rank_2")) == ["q_rank_2.safetensors"])
    # not proven: a rank of which the layout knows nothing, a torn one, no layout
    stranger = os.path.join(out, "rank_9", "model.safetensors")
    save(stranger, other)
    for what in ("a stranger", "no layout"):
        r = reshard(2, newer, "-f")
        check(
            "%s is not removed" % what,
            r.returncode == 1 and "nothing proves" in r.stderr and os.path.exists(stranger),
            "%d %s" % (r.returncode, r.stderr),
        )
        if what == "a stranger":
            os.unlink(os.path.join(out, "layout.json"))
    shutil.rmtree(out)
    check("to four again", reshard(4, source).returncode == 0)
    os.truncate(os.path.join(out, "rank_3", "model.safetensors"), 40)
    r = reshard(2, newer, "-f")
    check(
        "a torn model proves nothing",
        r.returncode == 1 and os.path.exists(os.path.join(out, "rank_3", "model.safetensors")),
        "%d %s" % (r.returncode, r.stderr),
    )
    outside = os.path.join(base, "outside")
    shutil.rmtree(out)
    check("to four once more", reshard(4, source).returncode == 0)
    os.rename(os.path.join(out, "rank_3"), outside)
    os.symlink(outside, os.path.join(out, "rank_3"))
    r = reshard(2, newer, "-f")
    check(
        "through a link nothing is removed",
        os.path.exists(os.path.join(outside, "model.safetensors")),
        r.stderr,
    )
    check(
        "and what does not open is told",
        r.returncode != 0 and "rank 3" in r.stderr,
        "%d %s" % (r.returncode, r.stderr),
    )
    # a plan touches nothing
    shutil.rmtree(out)
    reshard(4, source)
    before = sorted(os.path.join(d, f) for d, _, files in os.walk(out) for f in files)
    check(
        "--plan",
        reshard(2, newer, "-f", "--plan").returncode == 0
        and before == sorted(os.path.join(d, f) for d, _, files in os.walk(out) for f in files),
    )


def peer(base):
    """MindSpore saves, we verify and copy; it loads the copies with its own check on."""
    import mindspore as ms
    import numpy as np

    def loads(path):
        try:
            return set(ms.load_checkpoint(path, crc_check=True, format="safetensors"))
        except ValueError as error:  # "the crc check has failed"
            return str(error)

    os.makedirs(base)
    rng = np.random.default_rng(1)
    for case in range(12):
        named = {
            "layer-%d.é%d" % (i, rng.integers(9)): rng.integers(0, 99, rng.integers(1, 900)).astype(
                [np.float32, np.int8, np.float16, np.int64][i % 4]
            )
            for i in range(int(rng.integers(1, 9)))
        }
        path = os.path.join(base, "ms%d" % case)
        counted = {"epoch_num": case, "step_num": 10**case % 9999991, "rate": 0.5 * case, "last": case == 11}
        ms.save_checkpoint(
            [{"name": n, "data": ms.Tensor(v)} for n, v in named.items()],
            path,
            crc_check=True,
            format="safetensors",
            append_dict=counted,
        )
        path += ".safetensors"
        os.chmod(path, 0o600)
        r = run("verify", path)
        check("MindSpore's file %d" % case, r.returncode == 0, r.stderr)
        out = os.path.join(base, "out.safetensors")
        first = sorted(named)[0]
        named.update(counted)
        for what, options, left in (
            ("copy", (), set(named)),
            ("drop", ("--drop", first), set(named) - {first}),
            ("rename", ("--rename", first + "=zz"), set(named) - {first} | {"zz"}),
        ):
            r = run("cp", "-f", *options, path, out)
            if what == "drop" and len(named) == 1:
                check(
                    "nothing is left to be copied", r.returncode != 0 or ffi.read_file(out)[0] == {}, r.stderr
                )
                continue
            got = loads(out)
            check(
                "MindSpore takes the %s %d" % (what, case),
                r.returncode == 0 and got == left,
                "%s %s" % (got, r.stderr),
            )
        flip(path)
        check("MindSpore finds the flipped bit", "crc check" in loads(path), str(loads(path)))
        check("and so do we", run("verify", path).returncode == 1)


def tree_of(directory):
    return sorted(
        os.path.relpath(os.path.join(d, f), directory) for d, _, files in os.walk(directory) for f in files
    )


def converted(base):
    """convert DIR: every file of every rank and step under its name, without a layout."""
    src, out = os.path.join(base, "job"), os.path.join(base, "out")
    truth = {}
    for rank, step in ((0, "1_20"), (1, "1_20"), (1, "2_5"), (10, "1_20")):
        name = "rank_%d/net_rank_%d-%s" % (rank, rank, step)
        tensors = {"w": whole([4, 3], rank), "adam_m.w": whole([4, 3], 50 + rank), "step": whole([1], rank)}
        save(os.path.join(base, "one.safetensors"), tensors)
        os.makedirs(os.path.join(src, "rank_%d" % rank), exist_ok=True)
        path = os.path.join(src, name + ".ckpt")
        r = run("convert", "-f", os.path.join(base, "one.safetensors"), "--to", "ckpt", "-o", path)
        check("a .ckpt is made", r.returncode == 0, r.stderr)
        truth[name + ".safetensors"] = tensors
    meta = '{"last_epoch": 1, "last_step": 20, "last_ckpt_file": "net_rank_0-1_20.ckpt", "note": "a.ckpt"}'
    put(os.path.join(src, "rank_0", "meta.json"), meta)
    put(os.path.join(src, "rank_1", "net-graph.meta"), "graph")
    put(os.path.join(src, "strategy", "ckpt_strategy_rank_0.ckpt"), "any bytes")
    put(os.path.join(src, "logs", "a.log"), "x")

    def same(what, directory, wanted, others=()):
        check(what + ": the files", tree_of(directory) == sorted([*wanted, *others]), str(tree_of(directory)))
        for name, tensors in wanted.items():
            path = os.path.join(directory, name)
            got = ffi.read_file(path) if os.path.exists(path) else None
            check("%s: %s" % (what, name), got == (tensors, {"format": "ms"}), str(got)[:200])

    beside = ["rank_0/meta.json", "strategy/ckpt_strategy_rank_0.ckpt"]
    for options in (("--plan",), ("--dry-run",)):
        r = run("convert", src, "-o", out, *options)
        check("a plan writes nothing", r.returncode == 0 and not os.path.exists(out), r.stderr)
    r = run("convert", src, "-o", out, "--no-sync", "--verify", "--json")
    told = json.loads(r.stdout) if r.returncode == 0 else {}
    same("ranks", out, truth, beside)
    left = sorted(p["subject"] for p in told.get("left_out_parts", []))
    check("what stays behind is named", left == ["logs", "rank_1/net-graph.meta"], str(told))
    check("and on standard error", all(n in r.stderr for n in left), r.stderr)
    for name in beside:
        with open(os.path.join(src, name), "rb") as a, open(os.path.join(out, name), "rb") as b:
            told = a.read().replace(b"net_rank_0-1_20.ckpt", b"net_rank_0-1_20.safetensors")
            check("carried along: " + name, told == b.read())
    r = run("convert", src, "-o", out)
    check("never over a model without -f", r.returncode == 3 and "is there" in r.stderr, r.stderr)
    r = run("convert", src, "-o", out, "-f", "--no-sync")
    same("replaced", out, truth, beside)
    r = run("convert", src, "-o", src)
    check("not into itself", r.returncode == 2 and "read" in r.stderr, "%d %s" % (r.returncode, r.stderr))

    r = run("convert", src, "-o", out + "2", "--no-sync", "--drop", "adam*", "--drop", "nothing")
    check("a pattern that nothing matches is named", '"nothing"' in r.stderr, r.stderr)
    few = {n: {k: t[k] for k in t if k != "adam_m.w"} for n, t in truth.items()}
    same("without the optimizer", out + "2", few, beside[:1])
    check("a strategy that cannot be read is named", "warning: left out: " + beside[1] in r.stderr, r.stderr)
    r = run("convert", src, "-o", out + "2", "-f", "--no-sync", "--cast", "w=I64", "--rename", "adam_m.*=m.*")
    wide = {
        n: {
            "w": ("I64", t["w"][1], b"".join(t["w"][2][i : i + 4] + bytes(4) for i in range(0, 48, 4))),
            "m.w": t["adam_m.w"],
            "step": t["step"],
        }
        for n, t in truth.items()
    }
    same("cast and renamed", out + "2", wide, beside[:1])
    r = run("convert", src, "-o", out + "3", "--rename", "adam_m.w=w")
    check("two tensors of one name", r.returncode == 1 and not os.path.exists(out + "3"), r.stderr)
    r = run("convert", src, "-o", out + "3", "--select", "nothing")
    check("nothing is left", r.returncode == 1 and not os.path.exists(out + "3"), r.stderr)
    for options in (
        ("--names", "llama-mindformers"),
        ("--max-shard-size", "1KB"),
        ("--metadata", "a=b"),
    ):
        r = run("convert", src, "-o", out + "3", *options)
        check("refused: " + options[0], r.returncode == 2 and options[0] in r.stderr, r.stderr)
    run("convert", src, "-o", out + "6", "--no-sync")
    for name in truth:
        run("verify", "--record", "crc32c", os.path.join(out + "6", name))
    for options, kept in ((("--rename", "w=v", "--drop", "step"), True), (("--cast", "w=I64"), False)):
        r = run("convert", out + "6", "-o", out + "7", "-f", "--no-sync", *options)
        for name in truth:
            v = run("verify", os.path.join(out + "7", name))
            check("digests go with %s" % options[0], v.returncode == (0 if kept else 1), v.stderr)
        check("digests that do not are told", kept or "verify --record" in r.stderr, r.stderr)
    r = run("convert", src, "-o", out + ".safetensors")
    check("one file: join is named", r.returncode == 2 and "join" in r.stderr, r.stderr)

    shutil.copy(
        os.path.join(out, "rank_0/net_rank_0-1_20.safetensors"),
        os.path.join(src, "rank_0", "net_rank_0-1_20.safetensors"),
    )
    r = run("convert", src, "-o", out + "3")
    check("two of one name", r.returncode == 1 and "rank_0/net_rank_0-1_20" in r.stderr, r.stderr)
    os.unlink(os.path.join(src, "rank_0", "net_rank_0-1_20.safetensors"))
    with open(os.path.join(src, "rank_10/net_rank_10-1_20.ckpt"), "r+b") as f:
        f.truncate(40)
    r = run("convert", src, "-o", out + "3")
    check(
        "a file that is cut is named, nothing is written",
        r.returncode != 0 and "rank_10/net_rank_10-1_20.ckpt" in r.stderr and not os.path.exists(out + "3"),
        r.stderr,
    )

    flat = os.path.join(base, "flat")
    os.makedirs(flat)
    for step in ("1_3", "1_20"):
        shutil.copy(
            os.path.join(src, "rank_0/net_rank_0-1_20.ckpt"), os.path.join(flat, "net-%s.ckpt" % step)
        )
    put(os.path.join(flat, "meta.json"), {"last_epoch": 1})
    r = run("convert", flat, "-o", out + "4", "--no-sync")
    one = truth["rank_0/net_rank_0-1_20.safetensors"]
    same("steps", out + "4", {"net-1_3.safetensors": one, "net-1_20.safetensors": one}, ["meta.json"])
    put(os.path.join(base, "empty", "rank_0", "notes.txt"), "x")
    r = run("convert", os.path.join(base, "empty"), "-o", out + "5")
    check("no weights", r.returncode == 1 and "no rank" in r.stderr, "%d %s" % (r.returncode, r.stderr))


def converted_and_killed(base):
    """A convert of ranks that is killed: nothing is there; other options are refused; the same command ends it."""
    src, out = os.path.join(base, "job"), os.path.join(base, "out")
    stage = os.path.join(base, ".out.sft-part")
    big = {"w": ("U8", (24 << 20,), random.Random(3).randbytes(24 << 20)), "b": whole([3])}
    save(os.path.join(base, "one.safetensors"), big)
    for rank in range(3):
        os.makedirs(os.path.join(src, "rank_%d" % rank))
        path = os.path.join(src, "rank_%d" % rank, "n-1_1.ckpt")
        run("convert", os.path.join(base, "one.safetensors"), "--to", "ckpt", "-o", path, "--no-sync")
    killed = 0
    for _ in range(50):
        p = subprocess.Popen(
            [spaces.TOOL, "convert", src, "-o", out], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        until = time.monotonic() + 30
        while p.poll() is None and not os.path.exists(stage) and time.monotonic() < until:
            time.sleep(0.0005)
        time.sleep(0.01)
        p.kill()
        p.wait()
        if os.path.exists(stage) and not os.path.exists(out):
            killed += 1
            break
        shutil.rmtree(out, ignore_errors=True)
    check("a run was killed at its work", killed == 1)
    r = run("convert", src, "-o", out, "--drop", "b")
    check(
        "not with other options",
        r.returncode == 1 and not os.path.exists(out),
        "%d %s" % (r.returncode, r.stderr),
    )
    r = run("convert", src, "-o", out)
    names = ["rank_%d/n-1_1.safetensors" % k for k in range(3)]
    check("the same command ends it", r.returncode == 0 and tree_of(out) == names, r.stderr)
    check("and nothing is lost", all(ffi.read_file(os.path.join(out, n))[0] == big for n in names))
    check("nothing is left behind", not os.path.exists(stage))


def ckpt_value(name, kind, dims, content):
    """One Value of a .ckpt, as mindspore/train/checkpoint.proto describes it."""

    def part(number, data):
        return bytes([number << 3 | 2, len(data)]) + data

    tensor = b"".join(bytes([1 << 3, d]) for d in dims) + part(2, kind.encode()) + part(3, content)
    return part(1, part(1, name.encode()) + part(2, tensor))


def texts(base):
    """A .ckpt's texts, which are no tensors, are named by whatever puts the ranks together."""
    for rank in range(3):
        put(os.path.join(base, "src", "rank_%d" % rank, "net_rank_%d-1_2.ckpt" % rank), "")
        with open(os.path.join(base, "src", "rank_%d" % rank, "net_rank_%d-1_2.ckpt" % rank), "wb") as f:
            f.write(ckpt_value("w", "Float32", [8], whole([8], 10 * rank)[2]))
            f.write(ckpt_value("note", "str", [0], b"hello"))
            f.write(ckpt_value("last", "str", [0], b"hello") if rank == 2 else b"")
    src, layout, one = (os.path.join(base, name) for name in ("src", "layout.json", "one.json"))
    for ranks, path in ((3, layout), (1, one)):
        put(path, {**layout_of(ranks), "tensors": [{"name": "w", "cuts": ["x"]}]})
    commands = {
        "join": ["--layout", layout],
        "reshard": ["--source-layout", layout, "--target-layout", one],
        "ls": ["--layout", layout],
    }
    for name, options in commands.items():
        out = ["--no-sync", "-o", os.path.join(base, name)] if name != "ls" else []
        r = run(name, src, *options, *out)
        check("%s goes on" % name, r.returncode == 0, r.stderr)
        told = [line for line in r.stderr.splitlines() if "left out: note" in line]
        check("%s names a text" % name, len(told) == 1 and "rank_0" in told[0], r.stderr)
        check("and another of one rank", r.stderr.count("left out: last") == 1, r.stderr)
    one = os.path.join(src, "rank_0", "net_rank_0-1_2.ckpt")
    r = run("verify", one)
    check("verify says what records digests", r.returncode == 1 and "--manifest" in r.stderr, r.stderr)
    r = run("verify", "--record", "crc32c", one)
    check("inside is refused", r.returncode != 0 and "no safetensors file" in r.stderr, r.stderr)
    run("verify", "--record", "crc32c", "--manifest", one)
    r = run("verify", one)
    check("beside it is compared", r.returncode == 0, r.stderr)


def named(base):
    """reshard --name with what the source's names say; meta.json beside files of a step."""
    job_dir, out = os.path.join(base, "job"), os.path.join(base, "out")
    truth = {"w": whole([8, 2]), "n": whole([3], 100)}
    for n in (4, 2, 1):
        put(os.path.join(base, "%d.json" % n), layout_of(n))
    save(os.path.join(base, "a.safetensors"), truth)

    def reshard(source, n, pattern, *options):
        layout = os.path.join(base, "%d.json" % n)
        return run(
            "reshard",
            "--no-sync",
            source,
            "--target-layout",
            layout,
            "-o",
            out,
            "-f",
            "--name",
            pattern,
            *options,
        )

    def check_meta(what, n, name, epoch, step):
        for rank in range(n):
            path = os.path.join(out, "rank_%d" % rank, "meta.json")
            told = json.load(open(path)) if os.path.exists(path) else None
            wanted = {"last_epoch": epoch, "last_step": step, "last_ckpt_file": name % rank}
            check("%s: meta.json of rank %d" % (what, rank), told == wanted, str(told))

    r = run(
        "reshard", os.path.join(base, "a.safetensors"), "--target-layout", os.path.join(base, "4.json"), "-o", job_dir,
        "--name", "rank_{rank}/my-net_rank_{rank}_7-03_020.safetensors",
    )  # fmt: skip
    check("names that are told in full", r.returncode == 0, r.stderr)
    r = reshard(job_dir, 2, "rank_{rank}/{prefix}_rank_{rank}_{task}-{epoch}_{step}.safetensors")
    name = "my-net_rank_%d_7-03_020.safetensors"
    check("as the source's", r.returncode == 0 and sorted(tree_of(out)) == sorted(
        ["layout.json"] + ["rank_%d/%s" % (k, f) for k in range(2) for f in ("meta.json", name % k)]
    ), r.stderr + str(tree_of(out)))  # fmt: skip
    check_meta("as the source's", 2, name, 3, 20)
    check("and it is the same model", spaces.read_back(out)[0] == truth)
    r = run("resume-point", out)
    check("the step is found", r.returncode == 0 and r.stdout == "-03_020\n", r.stdout + r.stderr)
    r = reshard(job_dir, 4, "rank_{rank}/other_rank_{rank}-{epoch}_21.safetensors")
    check_meta("a later step", 4, "other_rank_%d-03_21.safetensors", 3, 21)
    check("the older model went", not any("my-net" in f for f in tree_of(out)), str(tree_of(out)))
    r = reshard(job_dir, 2, "rank_{rank}/{prefix}.safetensors")
    check(
        "to fewer ranks, without a step: no meta.json speaks of what went",
        tree_of(out) == ["layout.json", "rank_0/my-net.safetensors", "rank_1/my-net.safetensors"],
        str(tree_of(out)) + r.stderr,
    )
    for source, pattern, word in (
        (os.path.join(base, "a.safetensors"), "{epoch}", "{epoch}"),
        (os.path.join(base, "a.safetensors"), "{task}", "{task}"),
        (job_dir, "{tasks}", "{tasks}"),
        (job_dir, "{", "{"),
    ):
        r = reshard(source, 2, "rank_{rank}/x%s.safetensors" % pattern)
        check(
            "refused: " + pattern, r.returncode == 2 and word in r.stderr, "%d %s" % (r.returncode, r.stderr)
        )
    for what, file, prefix, epoch in (
        ("no rank", "net-1_5.safetensors", "net", "1"),
        ("two steps in the name", "net-1_5-2_6.safetensors", "net-1_5", "2"),
        ("a rank alone", "rank_0-4_5.safetensors", None, "4"),
        ("a rank that is none", "x_rank_a-4_5.safetensors", "x_rank_a", "4"),
        ("no step", "net-1_.safetensors", "net-1_", None),
        ("no step, either", "net_5.safetensors", "net_5", None),
    ):
        path = os.path.join(base, "one", file)
        save(path, truth)
        r = reshard(path, 1, "rank_{rank}/{prefix}.{epoch}.safetensors")
        if prefix is None or epoch is None:
            check(what, r.returncode == 2 and "have nothing" in r.stderr, "%d %s" % (r.returncode, r.stderr))
        else:
            wanted = "rank_0/%s.%s.safetensors" % (prefix, epoch)
            check(what, r.returncode == 0 and wanted in tree_of(out), r.stderr + str(tree_of(out)))

    for what, numbered in (("NAME_N", "q_7b_%d"), ("NAME-1_N", "q_7b-1_%d"), ("NAMEN", "q%d")):
        ranks = os.path.join(base, "numbered", what)
        shutil.copytree(job_dir, ranks)
        for k in range(4):
            d = os.path.join(ranks, "rank_%d" % k)
            os.rename(os.path.join(d, name % k), os.path.join(d, numbered % k + ".safetensors"))
        r = reshard(ranks, 2, "rank_{rank}/{prefix}.safetensors")
        wanted = "rank_1/%s.safetensors" % numbered.replace("_%d", "").replace("%d", "")
        check(what, r.returncode == 0 and wanted in tree_of(out), r.stderr + str(tree_of(out)))
        r = reshard(ranks, 2, "rank_{rank}/{step}.safetensors")
        check(what + ": no step", r.returncode == 2 and "{step}" in r.stderr, r.stderr)

    small, full = os.path.join(base, "small"), os.path.join(base, "full")
    put(os.path.join(job_dir, "rank_0", "meta.json"), '{"last_ckpt_file": "%s", "more": 1}' % (name % 0))
    put(os.path.join(job_dir, "rank_1", "meta.json"), '{"last_epoch": 9, "last_step": 9}')
    os.unlink(os.path.join(job_dir, "rank_2", "meta.json"))
    for command, source, target in (("dedupe", job_dir, small), ("expand", small, full)):
        r = run(command, "--no-sync", source, "-o", target)
        check(command, r.returncode == 0, r.stderr)
        got = []
        for k in range(3):
            path = os.path.join(target, "rank_%d" % k, "meta.json")
            got.append(json.load(open(path)) if os.path.exists(path) else None)
        wanted = [
            {"last_ckpt_file": name % 0, "more": 1},
            {"last_epoch": 3, "last_step": 20, "last_ckpt_file": name % 1},
            None,
        ]
        check(command + ": meta.json", got == wanted, str(got))


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--tool", required=True)
    p.add_argument("--mindspore", action="store_true")
    a = p.parse_args()
    spaces.TOOL = os.path.abspath(a.tool)
    os.environ.setdefault("GLOG_v", "4")
    for group in (crc, digests, of_names, unified, fewer, converted, converted_and_killed, texts, named) + (
        (peer,) if a.mindspore else ()
    ):
        base = tempfile.mkdtemp(prefix="sft-rank-files-")
        group(os.path.join(base, "x"))
        shutil.rmtree(base)
    for fault in spaces.FAULTS:
        print("FAILED:", fault)
    print("%d checks, %d failed" % (spaces.DONE, len(spaces.FAULTS)))
    return 1 if spaces.FAULTS else 0


if __name__ == "__main__":
    sys.exit(main())
