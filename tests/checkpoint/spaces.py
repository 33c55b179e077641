#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""spaces.py --tool TOOL - checkpoints of many ranks as folders that the tool reads as one model; what is missing, mixed,
in conflict or hostile; resume points. Standard library only. Folders are made here, element by element: value i of a
tensor is its linear index, so that a misplaced one is seen. The oracle of the cuts is written here too.
"""

import argparse
import itertools
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import ffi  # noqa: E402

TOOL = ""
FAULTS = []
DONE = 0


def check(what, condition, more=""):
    global DONE
    DONE += 1
    if not condition:
        FAULTS.append("%s %s" % (what, more))


def run(*args):
    return subprocess.run([TOOL, *args], capture_output=True, text=True)


# ---------------------------------------------------------------- tensors, element by element


def product(values):
    n = 1
    for v in values:
        n *= v
    return n


def whole(shape, base=0):
    return ("U32", tuple(shape), struct.pack("<%dI" % product(shape), *range(base, base + product(shape))))


def box(tensor, start, count):
    """A box of a tensor, one element after the other."""
    dtype, shape, data = tensor
    size = ffi.SIZES[dtype]
    out = bytearray()
    for index in itertools.product(*(range(a, a + n) for a, n in zip(start, count))):
        at = 0
        for i, n in zip(index, shape):
            at = at * n + i
        out += data[at * size : at * size + size]
    return dtype, tuple(count), bytes(out)


def part(tensor, cuts):
    """cuts: per dimension (part, parts), even."""
    start, count = [], []
    for n, (i, parts) in zip(tensor[1], cuts):
        assert n % parts == 0
        start.append(i * (n // parts))
        count.append(n // parts)
    return box(tensor, start, count)


def read_back(folder, *options):
    """(tensors as the tool reads them from the folder, standard error)"""
    out = os.path.join(os.path.dirname(folder.rstrip("/")), "out.safetensors")
    r = run("cp", "-f", *options, folder, out)
    return (ffi.read_file(out)[0] if r.returncode == 0 else None), r


def equal(what, folder, truth, *options):
    got, r = read_back(folder, *options)
    check(what, got == truth, "exit %d %s" % (r.returncode, r.stderr.strip()[:300]))


def refused(what, folder, words, *options, status=1):
    r = run("ls", *options, folder)
    check(
        what,
        r.returncode == status and all(w in r.stderr for w in words),
        "exit %d, %r" % (r.returncode, r.stderr.strip()[:300]),
    )


def put(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as f:
        f.write(text if isinstance(text, str) else json.dumps(text))


def save(path, tensors, metadata=None):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    ffi.write_file(path, tensors, metadata)


# ---------------------------------------------------------------- MindSpore, by rank


def layout_item(dev, tensor_map, step=0, size=0):
    return {
        "dev_matrix": dev,
        "tensor_map": tensor_map,
        "field": 0,
        "opt_weight_shard_step": step,
        "opt_weight_shard_size": size,
    }


def strategy(items, stage=0):
    return {
        "current_stage": stage,
        "parallel_layout_item": items,
        "parallel_strategy_item": {"op%d" % stage: {"stage": stage, "parallel_strategy": [[1, 1]]}},
    }


def job4():
    """dp 2 x mp 2: w by mp, and by dp in the optimizer; q by both; n not cut; step a number of each rank."""
    truth = {"w": whole([8, 4]), "q": whole([4, 4], 100), "n": whole([6], 50), "global_step": whole([1], 7)}
    ranks = []
    for r in range(4):
        dp, mp = divmod(r, 2)
        ranks.append(
            {
                "w": box(truth["w"], [mp * 4 + dp * 2, 0], [2, 4]),
                "q": part(truth["q"], [(dp, 2), (mp, 2)]),
                "n": truth["n"],
                "global_step": truth["global_step"],
            }
        )
    items = {
        "w": layout_item([2, 2], [0, -1], 2, 2),
        "q": layout_item([2, 2], [1, 0]),
        "n": layout_item([2, 2], [-1]),
    }
    return truth, ranks, strategy(items)


def save_ranks(folder, ranks, step="1_2", metadata=None):
    for r, tensors in enumerate(ranks):
        save(os.path.join(folder, "rank_%d" % r, "net_rank_%d-%s.safetensors" % (r, step)), tensors, metadata)


def mindspore_ranks(base):
    truth, ranks, layout = job4()
    folder = os.path.join(base, "checkpoint")
    save_ranks(folder, ranks, metadata={"format": "ms", "crc_num": "1"})
    put(os.path.join(base, "s.json"), layout)
    options = ("--layout", os.path.join(base, "s.json"))
    refused("no layout, no whole", folder, ["layout", "hint", "--layout"])
    equal("four ranks are one model", folder, truth, *options)
    put(os.path.join(base, "strategy", "ckpt_strategy_rank_0.json"), layout)
    equal("a strategy beside the folder is found", folder, truth)
    for verb in (
        ["ls"],
        ["check"],
        ["show"],
        ["hash", "--content"],
        ["get", "--output", os.path.join(base, "x.npy")],
    ):
        r = run(*verb, *options, folder, *(["w"] if verb[0] == "get" else []))
        check("%s takes the folder" % verb[0], r.returncode == 0, r.stderr[:300])
    r = run("ls", "--json", folder)
    check(
        "the whole shape is told",
        {t["name"]: t["shape"] for t in json.loads(r.stdout)["tensors"]}
        == {n: list(t[1]) for n, t in truth.items()},
        r.stdout[:200],
    )
    save(os.path.join(base, "single.safetensors"), truth)
    one, two = (
        run("hash", "--content", p).stdout.split()[0]
        for p in (os.path.join(base, "single.safetensors"), folder)
    )
    check("the content hash does not depend on the layout", one == two, "%s %s" % (one, two))
    check(
        "verify --same says so",
        run("verify", "--same", folder, os.path.join(base, "single.safetensors")).returncode == 0,
    )
    check("diff says so", run("diff", folder, os.path.join(base, "single.safetensors")).returncode == 0)
    return folder, truth, ranks


def many_ranks(base):
    """More ranks than files may be open at first."""
    folder = os.path.join(base, "many")
    truth = {"w": whole([300, 2])}
    save_ranks(folder, [{"w": part(truth["w"], [(r, 300), (0, 1)])} for r in range(300)])
    put(
        os.path.join(folder, "layout.json"),
        {
            "format": "safetensors-layout",
            "version": 1,
            "mesh": {"axes": {"x": 300}},
            "tensors": [{"name": "w", "placements": "Shard(0)"}],
        },
    )
    out = os.path.join(base, "many.safetensors")
    r = subprocess.run(
        ["sh", "-c", 'ulimit -S -n 64; exec "$0" cp "$1" "$2"', TOOL, folder, out],
        capture_output=True,
        text=True,
    )
    check("300 ranks", r.returncode == 0 and ffi.read_file(out)[0] == truth, r.stderr[:300])
    r = run("layout", "show", folder)
    check("the layout of a folder", r.returncode == 0 and "Shard(0)" in r.stdout, r.stdout + r.stderr)


def missing_and_conflicting(base):
    folder, truth, ranks = mindspore_ranks(base)
    # de-duplicated: n is on rank 2 alone
    for r in (0, 1, 3):
        del ranks[r]["n"]
    for r in (1, 2, 3):
        del ranks[r]["global_step"]
    save_ranks(folder, ranks, metadata={"format": "ms", "remove_redundancy": "True"})
    equal("de-duplicated ranks are the same model", folder, truth)
    check("replicas are equal", run("verify", "--replicas", folder).returncode == 0)
    keep = dict(ranks[2])
    del ranks[2]["q"]
    save_ranks(folder, ranks)
    refused("a part that nobody has is named", folder, ['"q"', "[2:4, 0:2]"])
    ranks[2] = keep
    save_ranks(folder, ranks)
    shutil.rmtree(os.path.join(folder, "rank_2"))
    refused("a rank that is missing, with what only it has", folder, ['"'])
    truth, ranks, _ = job4()
    bad = bytearray(ranks[3]["n"][2])
    bad[5] ^= 1
    ranks[3]["n"] = ("U32", ranks[3]["n"][1], bytes(bad))
    save_ranks(folder, ranks)
    check("an unequal replica is opened", run("ls", folder).returncode == 0)
    r = run("verify", "--replicas", folder)
    check(
        "and found by verify --replicas",
        r.returncode == 1 and '"n"' in r.stderr and "byte 5" in r.stderr,
        r.stderr,
    )
    truth, ranks, _ = job4()
    ranks[1]["n"] = whole([5])
    save_ranks(folder, ranks)
    refused("another shape on one rank", folder, ['"n"', "rank 1"])
    truth, ranks, _ = job4()
    save_ranks(folder, ranks)
    save(os.path.join(folder, "rank_1", "net_rank_1-2_1.safetensors"), ranks[1])
    refused("mixed steps", folder, ["different steps"])
    equal("a step can be asked for", folder, truth, "--step", "-1_2")
    refused("one that nobody has", folder, ["9_9"], "--step", "9_9")


def replicas_stand_in(base):
    """A rank is missing altogether, and all that it had lies on others too."""
    truth = {"w": whole([8, 4]), "n": whole([3], 90)}
    ranks = [{"w": part(truth["w"], [(r % 2, 2), (0, 1)]), "n": truth["n"]} for r in range(4)]
    folder = os.path.join(base, "replicas")
    save_ranks(folder, ranks)
    put(
        os.path.join(folder, "layout.json"),
        {
            "format": "safetensors-layout",
            "version": 1,
            "mesh": {"axes": {"dp": 2, "tp": 2}},
            "tensors": [{"name": "w", "cuts": ["tp", None]}],
        },
    )
    shutil.rmtree(os.path.join(folder, "rank_1"))
    equal("replicas stand in for a missing rank", folder, truth)
    shutil.rmtree(os.path.join(folder, "rank_3"))
    refused("until the last one is gone", folder, ['"w"', "[4:8, 0:4]"])


def pipeline(base):
    """Two stages; an embedding of both, cut differently; a parameter called a-b; strategies to be merged."""
    truth = {"emb": whole([8, 4]), "a-b": whole([4, 2], 200), "late": whole([6], 300)}
    ranks = [
        {"emb": part(truth["emb"], [(r % 2, 2), (0, 1)]), "a-b": part(truth["a-b"], [(r % 2, 2), (0, 1)])}
        for r in range(2)
    ]
    ranks += [
        {"emb": part(truth["emb"], [(0, 1), (r % 2, 2)]), "late": part(truth["late"], [(r % 2, 2)])}
        for r in range(2)
    ]
    first = strategy({"emb": layout_item([2], [0, -1]), "a-b": layout_item([2], [0, -1])}, 0)
    second = strategy({"emb": layout_item([2], [-1, 0]), "late": layout_item([2], [0])}, 1)
    folder = os.path.join(base, "stages", "checkpoint")
    stages = os.path.join(base, "stages", "strategy")
    save_ranks(folder, ranks)
    put(os.path.join(stages, "s0.json"), first)
    put(os.path.join(stages, "s1.json"), second)
    put(os.path.join(stages, "s1_again.json"), second)
    equal("stages are merged", folder, truth)
    merged = os.path.join(base, "merged.ckpt")
    check("layout merge", run("layout", "merge", stages, "-f", "-o", merged).returncode == 0)
    equal("by a merged strategy", folder, truth, "--layout", merged)
    own = os.path.join(base, "own.json")
    check("layout convert", run("layout", "convert", merged, "-f", "-o", own).returncode == 0)
    equal("and by our own form of it", folder, truth, "--layout", own)
    r = run("layout", "show", "--json", merged)
    check(
        "layout show",
        json.loads(r.stdout)["ranks"] == 4 and len(json.loads(r.stdout)["tensors"]) == 4,
        r.stdout[:300],
    )
    del ranks[0]["emb"]
    save_ranks(folder, ranks)
    equal("a part of one stage is taken from the other", folder, truth)
    del ranks[2]["emb"]
    save_ranks(folder, ranks)
    refused("a part that no stage has whole", folder, ['"emb"', "no file holds the box"])
    changed = strategy({"emb": layout_item([2], [-1, -1]), "late": layout_item([2], [0])}, 1)
    put(os.path.join(stages, "s1_again.json"), changed)
    refused("two strategies of one stage disagree", folder, ["emb"])
    refused(
        "the strategy of one stage for the ranks of two",
        folder,
        ["rank 3", "2 ranks"],
        "--layout",
        os.path.join(stages, "s0.json"),
    )
    os.unlink(os.path.join(stages, "s1_again.json"))
    os.rename(os.path.join(stages, "s0.json"), os.path.join(stages, "s1_more.json"))
    put(os.path.join(stages, "s1_more.json"), second)
    refused("a stage is missing", folder, ["stage 0"])


def checkpoint_files(base):
    """Ranks in MindSpore's own .ckpt, through the import library."""
    truth, ranks, layout = job4()
    folder = os.path.join(base, "old")

    def varint(v):
        out = b""
        while v > 127:
            out += bytes([v & 127 | 128])
            v >>= 7
        return out + bytes([v])

    def field(number, data):
        return varint(number << 3 | 2) + varint(len(data)) + data

    for r, tensors in enumerate(ranks):
        text = b""
        for name, (_, shape, data) in tensors.items():
            body = b"".join(b"\x08" + varint(n) for n in shape) + field(2, b"UInt32") + field(3, data)
            text += field(1, field(1, name.encode()) + field(2, body))
        path = os.path.join(folder, "rank_%d" % r, "net-1_2.ckpt")
        os.makedirs(os.path.dirname(path))
        with open(path, "wb") as f:
            f.write(text)
    put(os.path.join(base, "s.json"), layout)
    if run("ls", os.path.join(folder, "rank_0", "net-1_2.ckpt")).returncode == 0:
        equal("ranks in .ckpt files", folder, truth, "--layout", os.path.join(base, "s.json"))
    else:  # a build without a reader for them
        refused("ranks in .ckpt files", folder, ["net-1_2.ckpt"], "--layout", os.path.join(base, "s.json"))
    save(os.path.join(folder, "rank_1", "net-1_3.safetensors"), ranks[1])
    refused("two formats", folder, ["rank"], "--layout", os.path.join(base, "s.json"))


# ---------------------------------------------------------------- MindSpore, complete


def complete(base):
    truth = {"a": whole([4, 2]), "b": whole([3], 20), "c": whole([2], 40), "global_step": whole([1], 9)}
    for style, names in (
        ("part", ["part0.safetensors", "part1.safetensors"]),
        ("model", ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"]),
    ):
        for nested in (True, False):
            folder = os.path.join(base, "complete-%s-%s" % (style, nested))
            save(os.path.join(folder, names[0]), {"a": truth["a"], "c": truth["c"]}, {"format": "ms"})
            save(os.path.join(folder, names[1]), {"b": truth["b"]}, {"format": "ms"})
            weights = {"a": names[0], "b": names[1], "c": names[0]}
            put(
                os.path.join(folder, "param_name_map.json"),
                {"metadata": {"total_size": 60}, "weight_map": weights} if nested else weights,
            )
            equal("complete weights without hyper parameters", folder, {n: truth[n] for n in "abc"})
            save(
                os.path.join(folder, "hyper_param.safetensors"),
                {"global_step": truth["global_step"], "a": whole([1])},
            )
            equal("complete weights (%s, nested %s)" % (style, nested), folder, truth)
            equal("by the name of the map", os.path.join(folder, "param_name_map.json"), truth)
    save(os.path.join(folder, "stale.safetensors"), {"a": whole([9])})
    equal("a file that the map does not name is left out", folder, truth)
    of_rank = {"a": whole([4, 2], 7)}
    save(os.path.join(folder, "rank_0", "net.safetensors"), of_rank)
    refused(
        "complete weights beside ranks",
        folder,
        ["directories of ranks and complete weights", "param_name_map.json"],
    )
    equal("complete weights beside ranks, by the map", os.path.join(folder, "param_name_map.json"), truth)
    rules = {"format": "safetensors-layout", "version": 1, "mesh": {"axes": {"dp": 1}}}
    put(os.path.join(base, "one.json"), {**rules, "tensors": [{"name": "a", "whole": True}]})
    equal("ranks beside complete weights", folder, of_rank, "--layout", os.path.join(base, "one.json"))
    shutil.rmtree(os.path.join(folder, "rank_0"))
    for bad in (
        "../x.safetensors",
        "/etc/x.safetensors",
        "a\\b.safetensors",
        "C:x.safetensors",
        "NUL.safetensors",
        "./x.safetensors",
    ):
        put(os.path.join(folder, "param_name_map.json"), {"a": bad})
        refused("a map that leads out: %s" % bad, folder, ["param_name_map.json: file name"])
    put(os.path.join(folder, "param_name_map.json"), {"a": names[0], "nobody": names[1]})
    refused("a name that the file lacks", folder, ["nobody"])
    put(os.path.join(folder, "param_name_map.json"), {"a": "absent.safetensors"})
    refused("a file that is not there", folder, ["absent"])
    r = run("join", folder, "-o", os.path.join(base, "none.safetensors"))
    said = "absent.safetensors is not there, but param_name_map.json places" in r.stderr
    check("a file that is not there, by its map", r.returncode == 1 and said, r.stderr)
    put(os.path.join(folder, "param_name_map.json"), {"a": 3})
    refused("no file name", folder, ["a"])
    if os.name == "posix":
        link = os.path.join(folder, "link.safetensors")
        save(os.path.join(base, "outside.safetensors"), {"a": truth["a"]})
        os.symlink(os.path.join(base, "outside.safetensors"), link)
        put(os.path.join(folder, "param_name_map.json"), {"a": "link.safetensors"})
        refused("a link out of the folder", folder, ["link"])


# ---------------------------------------------------------------- files that tell their boxes


def sharding(offsets):
    return {
        "format": "pt",
        "DCP_VERSION": "1.0",
        "DCP_SHARDING_INFO": json.dumps({n: {"saved_offsets": list(o)} for n, o in offsets.items()}),
    }


def dcp(base):
    truth = {
        "w": whole([4, 6]),
        "s": ("F32", (), struct.pack("<f", 2.5)),
        "b": ("BOOL", (3,), b"\1\0\1"),
        "i": ("I64", (4,), struct.pack("<4q", -1, 2, -3, 2**40)),
        "e": ("F8_E4M3", (2, 2), b"\x11\x22\x33\x44"),
    }
    folder = os.path.join(base, "dcp")

    def shards(skip=()):
        shutil.rmtree(folder, ignore_errors=True)
        boxes = [
            {"w": ([0, 0], [4, 2]), "s": ([], []), "i": ([0], [1]), "b": ([0], [3])},
            {"w": ([0, 2], [3, 4]), "i": ([1], [3]), "e": ([0, 0], [2, 2])},
            {"w": ([3, 2], [1, 4]), "e": ([0, 0], [2, 2]), "i": ([4], [0])},
        ]
        for i, one in enumerate(boxes):
            one = {n: b for n, b in one.items() if (i, n) not in skip}
            save(
                os.path.join(folder, "shard-0000%d-model-00001-of-00001.safetensors" % (i + 1)),
                {n: box(truth[n], *b) for n, b in one.items()},
                sharding({n: b[0] for n, b in one.items()}),
            )

    shards()
    equal("scalar, bool, integers, f8, an empty shard, uneven boxes", folder, truth)
    own = os.path.join(base, "own.json")
    check(
        "its layout in our form",
        run("layout", "convert", folder, "-f", "-o", own).returncode == 0
        and len(json.load(open(own, encoding="utf-8"))["tensors"]) == 5,
    )
    shards(skip=((1, "e"),))
    equal("a replica is missing", folder, truth)
    shards(skip=((1, "w"),))
    refused("a hole", folder, ['"w"', "no file holds the box"])
    r = run("ls", folder)
    check("its box is told", "[0:3, 2:6]" in r.stderr, r.stderr)
    shards()
    path = os.path.join(folder, "shard-00002-model-00001-of-00001.safetensors")
    save(
        path,
        {"w": box(truth["w"], [0, 1], [3, 5]), "i": box(truth["i"], [1], [3])},
        sharding({"w": [0, 1], "i": [1]}),
    )
    refused("boxes overlap", folder, ['"w"', "overlap"])
    save(path, {"w": whole([3]), "i": box(truth["i"], [1], [3])}, sharding({"w": [0], "i": [1]}))
    refused("other dimensions", folder, ['"w"'])
    save(path, {"w": box(truth["w"], [0, 2], [3, 4])}, sharding({"x": [0, 2]}))
    refused("a tensor without offsets", folder, ['"w"', "saved_offsets"])
    save(path, {"w": box(truth["w"], [0, 2], [3, 4])}, {"DCP_SHARDING_INFO": "{"})
    refused("broken sharding information", folder, ["DCP_SHARDING_INFO"])
    save(path, {"w": box(truth["w"], [0, 2], [3, 4])}, sharding({"w": [0, 2**63]}))
    refused("offsets beyond everything", folder, ['"w"'])
    shards()
    save(os.path.join(folder, "a.safetensors"), {"other": whole([3])})
    equal("a plain file first among shards is a part, as for PyTorch", folder, dict(truth, other=whole([3])))
    save(os.path.join(folder, "model.safetensors"), {"w": truth["w"]})
    refused("the whole beside its shards", folder, ['"w"', "overlap"])
    check("check says so, too", run("check", folder).returncode == 1)


def skipped_shards(base):
    """What the names of PyTorch's shards count and the folder does not have."""
    folder = os.path.join(base, "skipped")
    own = [(s, 1, 1) for s in (1, 2)] + [(3, 1, 2), (3, 2, 2)]
    for what, names, told in (
        ("all", [(1, 1, 1), (2, 1, 1), (3, 1, 1)], ""),
        ("ours: each rank counts its own files", own, ""),
        ("a file of each rank, another of one alone", [(1, 1, 2), (2, 1, 2), (2, 2, 2)], ""),
        ("one in the middle", [(1, 1, 1), (3, 1, 1)], "skip shard 2:"),
        ("the first, and some", [(2, 1, 1), (9, 1, 1)], "skip shards 1, 3-8:"),
        ("the first file of all ranks", [(1, 2, 2), (2, 2, 2)], "skip file 1 of 2:"),
        ("the last files", [(1, 1, 4), (2, 2, 4)], "skip files 3-4 of 4:"),
        ("both", [(1, 1, 3), (3, 1, 3), (3, 3, 3)], "skip shard 2; file 2 of 3:"),
        ("far apart", [(1, 1, 1), (999999999999999999, 1, 1)], "skip shards 2-999999999999999998:"),
        ("many counts", [(1, i, i) for i in range(2, 200)], "skip file 1 of 2; files 1-2 of 3"),
    ):
        shutil.rmtree(folder, ignore_errors=True)
        for i, name in enumerate(names):
            save(
                os.path.join(folder, "shard-%05d-model-%05d-of-%05d.safetensors" % name),
                {"t%d" % i: whole([3])},
                sharding({"t%d" % i: [0]}),
            )
        for command in (["ls"], ["check"], ["join", "-f", "-o", os.path.join(base, "skipped.safetensors")]):
            r = run(*command, folder)
            text = r.stdout + r.stderr
            check(
                "names: %s, %s" % (what, command[0]),
                r.returncode == 0 and told in text and ("of the files skip" in text) == bool(told),
                text[-300:],
            )


def topology(base):
    truth = {"w": whole([4, 6]), "n'\"": whole([5], 70), "s": ("F32", (), struct.pack("<f", 1.5))}
    folder = os.path.join(base, "topology")
    files = ["rank0.safetensors", "rank1.safetensors"]
    save(os.path.join(folder, files[0]), {"w": box(truth["w"], [0, 0], [4, 2]), "s": truth["s"]})
    save(os.path.join(folder, files[1]), {"w": box(truth["w"], [0, 2], [4, 4]), "n'\"": truth["n'\""]})
    tensors = {
        "w": {
            "type": "Distributed",
            "shape": [4, 6],
            "dtype": "U32",
            "chunks": [
                {"offsets": [0, 0], "shape": [4, 2], "filename_index": 0},
                {"offsets": [0, 2], "shape": [4, 4], "filename_index": 1},
            ],
        },
        "n'\"": {"type": "Shared", "shape": [5], "dtype": "U32", "filename_indices": [1]},
        "s": {"type": "Shared", "shape": [], "dtype": "F32", "filename_indices": [0]},
    }
    description = {"tensors": tensors, "filenames": files, "world_size": 2}
    put(os.path.join(folder, "topology.json"), description)
    equal("topology.json", folder, truth)
    equal("by its name", os.path.join(folder, "topology.json"), truth)
    tensors["w"]["chunks"][1]["shape"] = [4, 3]
    put(os.path.join(folder, "topology.json"), description)
    refused("file and description disagree", folder, ['"w"'])
    tensors["w"]["chunks"][1]["shape"] = [4, 4]
    del tensors["s"]
    put(os.path.join(folder, "topology.json"), description)
    refused("a tensor that is not described", folder, ['"s"', "does not say so"])
    description["filenames"] = ["../rank0.safetensors", files[1]]
    put(os.path.join(folder, "topology.json"), description)
    refused("a file outside the folder", folder, [])
    description["filenames"] = ["rank0.bin", files[1]]
    put(os.path.join(folder, "topology.json"), description)
    refused("a file that is no safetensors file", folder, ["rank0.bin", "description"])


def mindformers(base):
    truth = {"a": whole([6]), "it's": whole([4, 4], 60), "step": ("I32", (), struct.pack("<i", 3))}
    root = os.path.join(base, "mf")
    folder = os.path.join(root, "iteration_00000012")
    files = ["net-model-0000000-0000002.safetensors", "net-model-0000001-0000002.safetensors"]
    save(
        os.path.join(folder, files[0]),
        {"a": box(truth["a"], [0], [3]), "it's": box(truth["it's"], [0, 0], [4, 2]), "step": truth["step"]},
    )
    save(
        os.path.join(folder, files[1]),
        {"a": box(truth["a"], [3], [3]), "it's": box(truth["it's"], [0, 2], [4, 2])},
    )

    def entry(shape, chunks):
        return {
            "properties": {
                "dtype": "UInt32",
                "replica_id": 0,
                "allow_shape_mismatch": False,
                "allow_to_save": True,
            },
            "global_shape": shape,
            "axis_fragmentations": [1] * len(shape),
            "layout": {},
            "chunk": [{"global_offset": o, "local_shape": s} for o, s in chunks],
        }

    def where(file):
        return [{"file_name": files[file], "storage_rank": file}]

    description = {
        "state_dict_metadata": {
            "a": entry([6], [([0], [3]), ([3], [3])]),
            "step": entry([], [([], [])]),
            "it's": entry([4, 4], [([0, 0], [4, 2]), ([0, 2], [4, 2])]),
        },
        "storage_data": {
            str(("a", (0,))): where(0),
            str(("a", (3,))): where(1),
            str(("step", ())): where(0),
            str(("it's", (0, 0))): where(0),
            str(("it's", (0, 2))): where(1),
        },
    }
    put(os.path.join(folder, "metadata.json"), description)
    equal("MindFormers 2.0", folder, truth)
    put(os.path.join(root, "latest_checkpointed_iteration.txt"), "12")
    equal("by its tracker", root, truth)
    put(os.path.join(folder, "common.json"), {"step_num": 12})
    r = run("resume-point", "--json", root)
    check(
        "its resume point",
        r.returncode == 0 and json.loads(r.stdout)["chosen"]["step"] == 12,
        r.stdout + r.stderr,
    )
    shutil.copytree(folder, os.path.join(root, "iteration_00000013"))
    r = run("resume-point", root)
    check(
        "what the tracker does not name yet",
        r.stdout == "iteration_00000012\n" and "tracker" in r.stderr,
        r.stderr,
    )
    for text, rc in (("abc", 1), ("", 1), ("12x", 1), ("release", 0), ("12\n", 0), ("13", 0)):
        put(os.path.join(root, "latest_checkpointed_iteration.txt"), text)
        r = run("resume-point", root)
        check(
            "a tracker of %r" % text,
            r.returncode == rc and (rc == 0 or (r.stdout == "" and "no number" in r.stderr)),
            r.stdout + r.stderr,
        )
    put(os.path.join(root, "latest_checkpointed_iteration.txt"), "12")
    description["state_dict_metadata"]["a"]["global_shape"] = [7]
    put(os.path.join(folder, "metadata.json"), description)
    refused("chunks end before the tensor", folder, ['"a"'])
    description["state_dict_metadata"]["a"]["global_shape"] = [6]
    for key in ("('a', (1,))", "('a' (0,))", "(a, (0,))", "('a', (0,)", "('a', (-1,))", "('\\n', (0,))", ""):
        bad = dict(description, storage_data=dict(description["storage_data"], **{key: where(0)}))
        put(os.path.join(folder, "metadata.json"), bad)
        refused("key %r" % key, folder, [])


# ---------------------------------------------------------------- resume points


def resume(base):
    truth, ranks, layout = job4()
    root = os.path.join(base, "job")
    folder = os.path.join(root, "checkpoint")
    put(os.path.join(root, "strategy", "s.json"), layout)

    def point(*options):
        r = run("resume-point", *options, folder)
        return r.stdout.strip(), r

    for step in ("9_9", "10_1"):
        save_ranks(folder, ranks, step)
    check("steps are numbers", point()[0] == "-10_1", point()[1].stderr)
    for r in range(4):
        put(
            os.path.join(folder, "rank_%d" % r, "meta.json"),
            {"last_epoch": 10 if r != 1 else 9, "last_step": 1 if r != 1 else 9, "last_ckpt_file": "x"},
        )
    name, r = point()
    check(
        "the least of the ranks' meta.json counts",
        name == "-9_9" and "meta.json" in r.stderr,
        name + r.stderr,
    )
    put(os.path.join(folder, "rank_1", "meta.json"), "{")
    check("a broken one does not", point()[0] == "-10_1")
    os.unlink(os.path.join(folder, "rank_2", "net_rank_2-10_1.safetensors"))
    name, r = point()
    check("a rank without the step", name == "-9_9" and "no file holds the box" in r.stderr, name + r.stderr)
    path = os.path.join(folder, "rank_0", "net_rank_0-9_9.safetensors")
    os.truncate(path, os.path.getsize(path) - 1)
    name, r = point()
    check("nothing is complete", name == "" and r.returncode == 1, name)
    check("and JSON says why", len(json.loads(run("resume-point", "--json", folder).stdout)["skipped"]) == 2)
    for r in range(4):
        os.unlink(os.path.join(folder, "rank_%d" % r, "meta.json"))
    save_ranks(folder, ranks, "11_1")
    save(os.path.join(folder, "rank_3", "net_rank_3_1-11_1.safetensors"), ranks[3])
    name, r = point()
    check("two files of one step on a rank", name == "" and "several files" in r.stderr, name + r.stderr)
    trainer = os.path.join(base, "trainer")
    for step in (500, 1000, 1500):
        save(os.path.join(trainer, "checkpoint-%d" % step, "model.safetensors"), truth)
        if step != 1500:
            put(os.path.join(trainer, "checkpoint-%d" % step, "trainer_state.json"), {"global_step": step})
    r = run("resume-point", trainer)
    check("Trainer", r.stdout == "checkpoint-1000\n" and "checkpoint-1500" in r.stderr, r.stdout + r.stderr)
    for text in ("[]", "null", "1", "{"):
        with open(os.path.join(trainer, "checkpoint-1500", "trainer_state.json"), "w") as f:
            f.write(text)
        r = run("resume-point", trainer)
        check(
            "a trainer's state of " + text,
            r.stdout == "checkpoint-1000\n" and "trainer_state.json" in r.stderr,
            r.stdout + r.stderr,
        )
    put(os.path.join(trainer, "checkpoint-1500", "trainer_state.json"), {})
    model = os.path.join(trainer, "checkpoint-1500", "model.safetensors")
    for name, good in (
        ("optimizer", False),
        ("optimizer_0", False),
        ("scheduler", False),
        ("adapter_model", True),
        ("optimized", True),
    ):
        there = os.path.join(trainer, "checkpoint-1500", name + ".safetensors")
        os.rename(model, there)
        r = run("resume-point", trainer)
        check(
            "a step of %s.safetensors alone" % name,
            r.stdout == "checkpoint-%d\n" % (1500 if good else 1000)
            and good == ("state of an optimizer" not in r.stderr),
            r.stdout + r.stderr,
        )
        os.rename(there, model)
    save(os.path.join(trainer, "checkpoint-1500", "optimizer.safetensors"), {"state.w": truth["w"]})
    r = run("resume-point", trainer)
    check(
        "a model beside its optimizer",
        r.stdout == "checkpoint-1500\n" and r.stderr == "",
        r.stdout + r.stderr,
    )
    fewer = os.path.join(base, "fewer")
    for step, keep in ((1, len(truth)), (2, len(truth)), (3, len(truth) - 1)):
        save(os.path.join(fewer, "net-1_%d.safetensors" % step), dict(list(truth.items())[:keep]))
        save(
            os.path.join(fewer, "steps", "step_%d" % step, "model.safetensors"),
            dict(list(truth.items())[:keep]),
        )
    for folder, names in ((fewer, ("-1_3", "-1_2")), (os.path.join(fewer, "steps"), ("step_3", "step_2"))):
        r = run("resume-point", folder)
        said = "%s: it has %d tensors, %s before it has %d" % (names[0], len(truth) - 1, names[1], len(truth))
        check(
            "fewer tensors than the step before",
            r.stdout == names[0] + "\n" and r.returncode == 0 and said in r.stderr,
            r.stdout + r.stderr,
        )
        chosen = json.loads(run("resume-point", "--json", folder).stdout)["chosen"]
        check("and JSON says so", chosen["complete"] and "before it" in chosen["warning"], chosen)
    os.unlink(os.path.join(fewer, "net-1_3.safetensors"))
    r = run("resume-point", fewer)
    check("as many tensors as before", r.stdout == "-1_2\n" and r.stderr == "", r.stdout + r.stderr)
    counted = os.path.join(base, "counted")
    for step, files in ((1, (1, 2, 3)), (2, (1, 3))):
        for i in files:
            save(
                os.path.join(counted, "checkpoint-%d" % step, "model-%05d-of-00003.safetensors" % i),
                {"t%d" % i: truth["w"]},
            )
        put(os.path.join(counted, "checkpoint-%d" % step, "trainer_state.json"), {"global_step": step})
    r = run("resume-point", counted)
    check(
        "names that count more files than there are",
        r.stdout == "checkpoint-1\n" and "model-00002-of-00003.safetensors is not there" in r.stderr,
        r.stdout + r.stderr,
    )
    for command in ("ls", "check", "mem", "join", "convert", "split", "show"):
        into = (
            ("-o", os.path.join(base, "counted-" + command))
            if command in ("join", "convert", "split")
            else ()
        )
        for step in (1, 2):
            r = run(command, os.path.join(counted, "checkpoint-%d" % step), *into)
            check(
                "%s of them, step %d" % (command, step),
                r.returncode == step - 1
                and ("model-00002-of-00003.safetensors is not there" in r.stdout + r.stderr) == (step == 2),
                r.stdout + r.stderr,
            )
    parts = os.path.join(base, "parts")
    for name in ("mp_rank_00", "mp_rank_01", "Shard-2", "tp_1", "RANK_7"):
        save(os.path.join(parts, name, "model.safetensors"), truth)
    r = run("resume-point", parts)
    check("parts of a model are no steps", r.returncode == 1 and r.stdout == "", r.stdout + r.stderr)
    save(os.path.join(parts, "step_3", "model.safetensors"), truth)
    save(os.path.join(parts, "chapter-4", "model.safetensors"), truth)
    r = run("resume-point", parts)
    check("but steps beside them are", r.stdout == "chapter-4\n", r.stdout + r.stderr)
    flat = os.path.join(base, "flat")
    for step in ("9_1", "10_01"):
        save(os.path.join(flat, "net-%s.safetensors" % step), truth)
    r = run("resume-point", flat)
    check(
        "a step is named as its file writes it",
        r.stdout == "-10_01\n" and run("ls", "--step=" + r.stdout.strip(), flat).returncode == 0,
        r.stdout + r.stderr,
    )
    save(os.path.join(flat, "net-10_1.safetensors"), truth)
    r = run("resume-point", flat)
    check(
        "a step that is written in two ways is none",
        r.stdout == "-9_1\n" and "in two ways" in r.stderr and "several files" in run("ls", flat).stderr,
        r.stdout + r.stderr,
    )
    put(os.path.join(flat, "..layout.json.sft-older.tmp5f2-0"), "{}")
    save(os.path.join(flat, ".net.tmpl-0.safetensors"), truth)
    r = run("resume-point", flat)
    check(
        "what a killed run left is named",
        r.stderr.count("has not finished") == 1 and "5f2-0" in r.stderr,
        r.stderr,
    )
    check("no steps at all", run("resume-point", os.path.join(root, "strategy")).returncode == 1)


# ---------------------------------------------------------------- what is read is not written over


def over_read(base):
    """A layout, rules for names, an order: exit status 2, and they stay; the source alone may be replaced by one file."""
    d = os.path.join(base, "over")
    plan = {"t*": "colwise"}
    rules = {"format": "safetensors.names/1", "rules": [{"from": "t{i}", "to": "u{i}"}]}

    def fresh():
        shutil.rmtree(d, ignore_errors=True)
        save(
            os.path.join(d, "m.safetensors"),
            {"t%d" % i: ("F32", [8, 8], struct.pack("<64f", *[i] * 64)) for i in range(3)},
        )
        for name, what in (
            ("plan", plan),
            ("plan.json", plan),
            ("rules", rules),
            ("order", ["t2", "t1"]),
            ("data", {"k": "v"}),
        ):
            put(os.path.join(d, name), what)
        os.symlink("plan", os.path.join(d, "link"))
        return {name: open(os.path.join(d, name), "rb").read() for name in os.listdir(d)}

    def tool(*args):
        return subprocess.run([TOOL, *args], capture_output=True, text=True, cwd=d)

    for args, status in (
        (("slice", "m.safetensors", "-k", "0", "-r", "2", "--layout", "plan", "-o", "plan"), 2),
        (("slice", "m.safetensors", "-k", "0", "-r", "2", "--layout", "plan", "-o", "link"), 2),
        (("slice", "m.safetensors", "-k", "0", "-r", "2", "--layout", "plan.json", "-o", "plan.json"), 2),
        (("join", "m.safetensors", "-o", "plan.json"), 2),
        (("join", "m.safetensors", "-o", "x.index.json"), 2),
        (("join", "m.safetensors", "--names", "rules", "-o", "./rules"), 2),
        (("cp", "m.safetensors", "order", "--order", "order"), 2),
        (("convert", "m.safetensors", "--metadata-json", "data", "-o", "data"), 2),
        (("join", "m.safetensors", "-o", "m.safetensors"), 0),
        (("join", "m.safetensors", "-o", "plan"), 0),
        (("slice", "m.safetensors", "-k", "0", "-r", "2", "--layout", "plan", "-o", "data"), 0),
    ):
        before = fresh()
        r = tool(*args, "-f")
        after = {name: open(os.path.join(d, name), "rb").read() for name in os.listdir(d)}
        check(
            "written over what is read: " + " ".join(args),
            r.returncode == status and (status == 0 or after == before),
            r.stdout + r.stderr,
        )
    fresh()
    layout = os.path.join(d, "out", "layout.json")
    first = tool("reshard", "m.safetensors", "--target-layout", "plan", "-r", "2", "-o", "out")
    with open(layout) as f:
        before = f.read()
    r = tool("reshard", "m.safetensors", "--target-layout", "out/layout.json", "-o", "out", "-f")
    check(
        "a layout in the directory that is written",
        first.returncode == 0 and r.returncode == 2 and open(layout).read() == before,
        first.stderr + r.stderr,
    )
    r = tool("reshard", "m.safetensors", "--target-layout", "plan", "-r", "2", "-o", "out", "-f")
    check("and one from elsewhere", r.returncode == 0, r.stderr)
    put(
        os.path.join(d, "two"),
        {
            "format": "safetensors-layout",
            "version": 1,
            "mesh": {"axes": {"dp": 2, "tp": 2}},
            "tensors": [{"name": "t0", "cuts": ["tp", None]}, {"pattern": "t*", "whole": True}],
        },
    )
    tool("reshard", "m.safetensors", "--target-layout", "two", "-o", "four")
    for rank in (1, 3):
        shutil.rmtree(os.path.join(d, "four", "rank_%d" % rank))
    r = tool("cp", "--partial", "four", "some.safetensors")
    check(
        "ranks that are read are not left out",
        r.returncode == 0 and "carried" not in r.stderr and '"t0" is left out' in r.stderr,
        r.stderr,
    )
    shutil.copytree(os.path.join(d, "four", "rank_0"), os.path.join(d, "four", "other"))
    r = tool("cp", "-f", "--partial", "four", "some.safetensors")
    check(
        "and what else has weights is",
        r.returncode == 0 and r.stderr.count("carried") == 1 and "other:" in r.stderr,
        r.stderr,
    )
    tool("reshard", "m.safetensors", "--target-layout", "two", "-o", "dup")
    files = [os.path.join("dup", "rank_%d" % k, "model.safetensors") for k in range(4)]
    r = tool("dedupe", "dup", "-o", "none")
    check("dedupe without digests", r.returncode == 0 and "digests" not in r.stderr, r.stderr)
    tool("verify", "--record", "crc32c", *files)
    for more, said in (((), True), (("--record", "crc32c"), False)):
        r = tool("dedupe", "dup", "-o", "less" + "".join(more), *more)
        check(
            "dedupe of files with digests",
            r.returncode == 0 and said == ("do not go with what is written" in r.stderr),
            r.stderr,
        )
    r = tool("expand", "less", "-o", "more")
    check(
        "which expand gives back",
        r.returncode == 0
        and tool("verify", "more").returncode == 0
        and all(
            "sft.crc32c" in tool("meta", f).stdout
            and tool("meta", f).stdout == tool("meta", f.replace("dup", "more", 1)).stdout
            for f in files
        ),
        r.stderr,
    )


# ---------------------------------------------------------------- somebody's files in a staging directory


def staging(base):
    """They go nowhere and nothing of them goes, whatever is begun, ended or restarted; without them the same command ends."""
    d = os.path.join(base, "staging")
    out = os.path.join(d, "out")

    def tool(*args):
        return subprocess.run([TOOL, *args], capture_output=True, text=True, cwd=d)

    split = ("split", "m.safetensors", "-o", "out", "--max-shard-size", "300")
    reshard = ("reshard", "m.safetensors", "--target-layout", "plan", "-r", "2", "-o", "out")
    join = ("join", "m.safetensors", "-o", "out.safetensors")
    for command, there, stage in (
        (split, False, ".out.sft-part"),
        (split, True, "out/.sft-part"),
        (reshard, False, ".out.sft-part"),
        (join, False, ".out.safetensors.sft-part"),
    ):
        for theirs in ("notes", "notes.json", "sub/f", "rank_0/notes", "x.safetensors"):
            for begun in (False, True):
                shutil.rmtree(d, ignore_errors=True)
                save(
                    os.path.join(d, "m.safetensors"),
                    {"t%d" % i: ("F32", [8, 8], struct.pack("<64f", *[i] * 64)) for i in range(4)},
                )
                put(os.path.join(d, "plan"), {"t*": "colwise"})
                if there:
                    put(os.path.join(out, "other"), {})
                if begun:
                    tool(*command, "--task", "1/4")
                if begun and not os.path.isdir(os.path.join(d, stage)):  # of one unit: done already
                    continue
                file = os.path.join(d, stage, theirs)
                put(file, {"a": 1})
                before = open(file, "rb").read()
                for more in ((), ("-f",), ("--task", "2/4"), ("--restart",)):
                    lost = more == ("--restart",) and (
                        not begun or theirs.endswith(".json") or theirs.endswith("x.safetensors")
                    )
                    r = tool(*command, *more) if not lost else None
                    good = r is None or (
                        r.returncode == 3
                        and "is no file of this job" in r.stderr
                        and theirs in r.stderr.replace("\\", "/")
                        or theirs == "sub/f"
                        and "sub" in r.stderr
                        or theirs == "rank_0/notes"
                        and "rank_0" in r.stderr
                    )
                    check(
                        "%s in %s, %s %s" % (theirs, stage, command[0], more),
                        good
                        and os.path.exists(file)
                        and open(file, "rb").read() == before
                        and not os.path.exists(os.path.join(out, theirs)),
                        r and r.stdout + r.stderr,
                    )
                os.unlink(file)
                if "/" in theirs and not os.listdir(os.path.dirname(file)):
                    os.rmdir(os.path.dirname(file))
                r = tool(*command) if not begun else tool(*command, "--task", "1/1")
                check("and without it", r.returncode == 0, r.stdout + r.stderr)


# ---------------------------------------------------------------- what others wrote


def fixtures(base):
    """Small files of MindSpore 2.10 and of four PyTorch 2.13 processes (make_fixtures.py): values are linear indexes."""
    here = os.path.join(os.path.dirname(os.path.abspath(__file__)), "fixtures")
    folder = os.path.join(base, "fixtures")
    shutil.copytree(here, folder)
    bases = {"w": ([8, 4], 0), "q": ([4, 4], 100), "n": ([6], 200), "u": ([10, 3], 300)}

    def numbers(name, dtype, form):
        shape, first = bases[name]
        return (
            dtype,
            tuple(shape),
            struct.pack("<%d%s" % (product(shape), form), *range(first, first + product(shape))),
        )

    truth = {n: numbers(n, "I32", "i") for n in "wqn"}
    truth["step"] = ("I32", (1,), struct.pack("<i", 7))
    ms = os.path.join(folder, "mindspore")
    strategy = ("--layout", os.path.join(ms, "strategy.ckpt"))
    equal("MindSpore's de-duplicated ranks", os.path.join(ms, "checkpoint"), truth, *strategy)
    equal("MindSpore's unified weights", os.path.join(ms, "unified"), truth)
    equal("what MindSpore sliced of them", os.path.join(ms, "sliced"), truth, *strategy)
    equal(
        "PyTorch's shards",
        os.path.join(folder, "dcp"),
        {
            "w": numbers("w", "F32", "f"),
            "q": numbers("q", "F32", "f"),
            "u": numbers("u", "I32", "i"),
            "n": numbers("n", "I64", "q"),
            "scalar": ("F32", (), struct.pack("<f", 2.5)),
        },
    )
    os.unlink(os.path.join(folder, "dcp", "shard-00004-model-00001-of-00001.safetensors"))
    refused("without the last shard", os.path.join(folder, "dcp"), ["no file holds the box"])


def main():
    global TOOL
    p = argparse.ArgumentParser()
    p.add_argument("--tool", required=True)
    TOOL = os.path.abspath(p.parse_args().tool)
    for group in (
        many_ranks,
        missing_and_conflicting,
        replicas_stand_in,
        pipeline,
        checkpoint_files,
        complete,
        dcp,
        skipped_shards,
        topology,
        mindformers,
        resume,
        over_read,
        staging,
        fixtures,
    ):
        base = tempfile.mkdtemp(prefix="sft-space-")
        group(base)
        shutil.rmtree(base)
    for fault in FAULTS:
        print("FAILED:", fault)
    print("%d checks, %d failed" % (DONE, len(FAULTS)))
    return 1 if FAULTS else 0


if __name__ == "__main__":
    sys.exit(main())
