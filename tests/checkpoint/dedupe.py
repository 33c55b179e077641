#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""dedupe.py --tool TOOL - folders of ranks without their replicas, and back. Standard library only. Who keeps what by
MindSpore's rule is worked out here a second time, from the groups of ranks; the tool's files are read by this program's
own reader.
"""

import argparse
import filecmp
import json
import os
import random
import shutil
import struct
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import ffi  # noqa: E402
import spaces  # noqa: E402
from spaces import check, layout_item, part, product, put, strategy, whole  # noqa: E402

# ---------------------------------------------------------------- the oracle


def coordinates(device, dev):
    out = []
    for n in reversed(dev):
        out.insert(0, device % n)
        device //= n
    return out


def digits(dev, tensor_map, size, device):
    """(per dimension (part, parts), number of the part) of a device; size: of optimizer sharding, by the free axes from
    the right."""
    at = coordinates(device, dev)
    cuts = [(0, 1) if m == -1 else (at[len(dev) - 1 - m], dev[len(dev) - 1 - m]) for m in tensor_map]
    if size > 1:
        free = [i for i in range(len(dev)) if len(dev) - 1 - i not in tensor_map]
        place = 0
        for i in free:
            place = place * dev[i] + at[i]
        first, parts = cuts[0]
        cuts[0] = (first * size + place % size, parts * size)
    return cuts


def groups_of(dev, tensor_map, size):
    """Groups of devices that hold the same part."""
    out = {}
    for device in range(product(dev)):
        out.setdefault(tuple(digits(dev, tensor_map, size, device)), []).append(device)
    return sorted(tuple(g) for g in out.values())


def kept_by_turn(items):
    """{name: (dev, map, size)} -> {rank: names}, the i-th parameter of a group by its member i % len."""
    turn, kept = {}, {}
    for name in sorted(items):
        for group in groups_of(*items[name]):
            i = turn.get(group, 0)
            turn[group] = i + 1
            kept.setdefault(group[i % len(group)], set()).add(name)
    return kept


# ---------------------------------------------------------------- folders


def run(*args):
    quick = ["--no-sync"] if args[0] in ("dedupe", "expand") else []
    return spaces.run(*args, *quick)


def save_ranks(folder, ranks, metadata=None):
    """Files as the usual writers make them, with the tensors in the order given."""
    for r, tensors in enumerate(ranks):
        header, at = ({"__metadata__": metadata} if metadata else {}), 0
        for name, (dtype, shape, data) in tensors.items():
            header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [at, at + len(data)]}
            at += len(data)
        text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
        text += b" " * (-len(text) % 8)
        path = os.path.join(folder, "rank_%d" % r, "net_rank_%d-1_2.safetensors" % r)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as f:
            f.write(struct.pack("<Q", len(text)) + text + b"".join(data for _, _, data in tensors.values()))


def ranks_of(items, truth, extra):
    """One set of tensors for each rank."""
    ranks = product(next(iter(items.values()))[0])
    return [dict({n: part(truth[n], digits(*items[n], r)) for n in items}, **extra(r)) for r in range(ranks)]


def rank_file(folder, r):
    where = os.path.join(folder, "rank_%d" % r)
    return os.path.join(where, sorted(os.listdir(where))[0])


def names_of(folder, count):
    return {r: set(ffi.read_file(rank_file(folder, r))[0]) for r in range(count)}


def same_files(a, b):
    found = []
    for base, _, files in os.walk(a):
        found += [
            os.path.relpath(os.path.join(base, f), a) for f in files if f != "layout.json"
        ]  # ours is worded anew
    return [
        f
        for f in found
        if not os.path.exists(os.path.join(b, f))
        or not filecmp.cmp(os.path.join(a, f), os.path.join(b, f), shallow=False)
    ]


def good(what, *args):
    r = run(*args)
    check(what, r.returncode == 0, "exit %d %s" % (r.returncode, r.stderr.strip()[:300]))
    return r


def bad(what, words, *args, status=1):
    r = run(*args)
    check(
        what,
        r.returncode == status and all(w in r.stderr for w in words),
        "exit %d %r" % (r.returncode, r.stderr.strip()[:400]),
    )


def random_items(rng):
    dev = rng.choice([[4], [2, 2], [2, 3], [2, 2, 2], [4, 2], [3, 2, 2], [16]])
    items, truth = {}, {}
    for i in range(rng.randint(3, 9)):
        dims = rng.randint(1, 3)
        axes = rng.sample(range(len(dev)), rng.randint(0, min(dims, len(dev))))
        tensor_map = axes + [-1] * (dims - len(axes))
        rng.shuffle(tensor_map)
        free = [dev[i] for i in range(len(dev)) if len(dev) - 1 - i not in tensor_map]
        size = 0
        if axes and free and free[-1] > 1 and rng.random() < 0.5:
            size = free[-1] if rng.random() < 0.5 else product(free)
        name = rng.choice(["w", "layers.%d", "b-%d", "é%d"]) + str(i)
        name = name.replace("%d", str(rng.randint(0, 20)))
        items[name] = (dev, tensor_map, size)
        cuts = digits(dev, tensor_map, size, 0)
        truth[name] = whole([parts * rng.randint(1, 3) for _, parts in cuts], i * 1000)
    return items, truth


def step_of(dev, tensor_map, size):
    """What MindSpore calls the step: the stride of the innermost free axis."""
    free = [i for i in range(len(dev)) if len(dev) - 1 - i not in tensor_map]
    return product(dev[free[-1] + 1 :]) if size else 0


# ---------------------------------------------------------------- tests


def by_turn(base, rng, count):
    """Random jobs: what is kept, what the files are, that the whole is the same, that all comes back."""
    for case in range(count):
        items, truth = random_items(rng)
        where = os.path.join(base, "turn%d" % case)
        ranks = ranks_of(items, truth, lambda r: {"global_step": whole([1], 7), "rng": whole([2], 10 * r)})
        absent = (
            rng.choice(sorted(items)) if len(items) > 3 else None
        )  # in the layout, in no file: its turn passes
        for r in ranks:
            r.pop(absent, None)
        metadata = {"format": "ms", "remove_redundancy": "False"} if case % 2 else {"format": "ms"}
        save_ranks(os.path.join(where, "full"), ranks, metadata=metadata)
        layout = strategy(
            {n: layout_item(dev, m, step_of(dev, m, size), size) for n, (dev, m, size) in items.items()}
        )
        put(os.path.join(where, "strategy", "ckpt_strategy_rank_0.json"), layout)
        partial = ["--partial"] if absent else []
        if absent:
            bad(
                "case %d: a name of the layout that no file has" % case,
                ["no file holds it"],
                "dedupe",
                os.path.join(where, "full"),
                "-o",
                os.path.join(where, "few"),
            )
        good(
            "case %d: dedupe" % case,
            "dedupe",
            *partial,
            os.path.join(where, "full"),
            "-o",
            os.path.join(where, "few"),
        )
        want = kept_by_turn(items)
        extra = {"global_step", "rng"}
        got = names_of(os.path.join(where, "few"), len(ranks))
        check(
            "case %d: who keeps what" % case,
            all(got[r] == (want.get(r, set()) - {absent}) | extra for r in range(len(ranks))),
            repr((items, got, want)),
        )
        for r, tensors in enumerate(ranks):
            there, meta = ffi.read_file(rank_file(os.path.join(where, "few"), r))
            check(
                "case %d: bytes and metadata" % case,
                all(tensors[n] == v for n, v in there.items())
                and meta == {"format": "ms", "remove_redundancy": "True"},
                repr(meta),
            )
        one, two = (
            run("hash", "--content", *partial, os.path.join(where, f)).stdout.split() for f in ("full", "few")
        )
        check("case %d: the same model" % case, one[:1] == two[:1] != [], "%r %r" % (one, two))
        good(
            "case %d: expand" % case,
            "expand",
            *partial,
            os.path.join(where, "few"),
            "-o",
            os.path.join(where, "again"),
        )
        check(
            "case %d: byte for byte" % case,
            not same_files(os.path.join(where, "full"), os.path.join(where, "again")),
        )
        # twice changes nothing, and without the record the layout tells what each rank had
        good(
            "case %d: once more" % case,
            "dedupe",
            *partial,
            os.path.join(where, "few"),
            "-o",
            os.path.join(where, "fewer"),
        )
        check(
            "case %d: nothing is left to be removed" % case,
            names_of(os.path.join(where, "fewer"), len(ranks)) == got,
        )
        os.remove(os.path.join(where, "few", "dedupe.json"))
        good(
            "case %d: expand by layout" % case,
            "expand",
            *partial,
            os.path.join(where, "few"),
            "-o",
            os.path.join(where, "by"),
        )
        for r, tensors in enumerate(ranks):
            check(
                "case %d: by layout" % case,
                ffi.read_file(rank_file(os.path.join(where, "by"), r))
                == (tensors, {"format": "ms", "remove_redundancy": "False"}),
            )
        shutil.rmtree(where)


def published(base):
    """The result that MindSpore's own test of 16 devices expects, with other names."""
    dev = [4, 4]
    items = {"embed": (dev, [0, -1], 0), "dense.bias": (dev, [0], 0)}
    items.update({"norm%d" % i: (dev, [-1], 0) for i in range(3)})
    items.update({"opt%d" % i: (dev, [0, -1], 4) for i in range(5)})
    truth = {
        n: whole([16, 2] if len(m) == 2 else [8], 100 * i) for i, (n, (_, m, _)) in enumerate(items.items())
    }
    save_ranks(os.path.join(base, "full"), ranks_of(items, truth, lambda r: {}))
    put(
        os.path.join(base, "strategy", "s.json"),
        strategy({n: layout_item(d, m, 4 if s else 0, s) for n, (d, m, s) in items.items()}),
    )
    good("16 ranks", "dedupe", os.path.join(base, "full"), "-o", os.path.join(base, "few"))
    got = names_of(os.path.join(base, "few"), 16)
    opt = {"opt%d" % i for i in range(5)}
    check("16 ranks: optimizer-sharded ones stay", all(opt <= got[r] for r in range(16)))
    check(
        "16 ranks: by name, first the bias, then the embedding",
        [r for r in got if "dense.bias" in got[r]] == [0, 1, 2, 3]
        and [r for r in got if "embed" in got[r]] == [4, 5, 6, 7],
        repr(got),
    )
    check(
        "16 ranks: norms to 0, 1, 2",
        [sorted(n for n in got[r] if n[:4] == "norm") for r in range(4)]
        == [["norm0"], ["norm1"], ["norm2"], []],
    )


def balanced(base):
    """Few holders first, then large ones; ties go to the lowest rank; what no layout names has one holder too."""
    sizes = {"p": ([0, 1], 8), "q": ([0, 1], 6), "r": ([0], 10), "s": ([0, 1, 2, 3], 4), "t": ([2, 3], 2)}
    truth = {n: whole([size], 50 * i) for i, (n, (_, size)) in enumerate(sizes.items())}
    layout = {
        "format": "safetensors-layout",
        "version": 1,
        "meshes": {n: {"axes": {"x": len(on)}, "ranks": on} for n, (on, _) in sizes.items()},
        "tensors": [{"name": n, "mesh": n, "cuts": [None]} for n in sizes],
    }
    ranks = [{n: truth[n] for n, (on, _) in sizes.items() if r in on} for r in range(4)]
    save_ranks(os.path.join(base, "full"), ranks)
    put(os.path.join(base, "full", "layout.json"), layout)
    r = good(
        "by bytes",
        "dedupe",
        os.path.join(base, "full"),
        "-o",
        os.path.join(base, "few"),
        "--rule",
        "balanced",
        "--json",
    )
    got = names_of(os.path.join(base, "few"), 4)
    check(
        "by bytes: r 0, t 2, p 1, q 0 or 1, s 3",
        got == {0: {"r"}, 1: {"p", "q"}, 2: {"t"}, 3: {"s"}},
        repr(got),
    )
    told = json.loads(r.stdout)
    check(
        "by bytes: what is told",
        told["replicas_removed"] == 6
        and told["bytes_removed"] == 4 * (8 + 6 + 3 * 4 + 2)
        and told["bytes_compared"] == told["bytes_removed"],
        r.stdout,
    )
    good("by bytes: expand", "expand", os.path.join(base, "few"), "-o", os.path.join(base, "again"))
    check("by bytes: byte for byte", not same_files(os.path.join(base, "full"), os.path.join(base, "again")))
    # what is not named
    ranks = [{"a": whole([4], 10 * i), "n": whole([5]), "m": whole([3])} for i in range(3)]
    save_ranks(os.path.join(base, "loose"), ranks)
    put(
        os.path.join(base, "loose", "layout.json"),
        {
            "format": "safetensors-layout",
            "version": 1,
            "mesh": {"axes": {"x": 3}},
            "tensors": [{"name": "a", "cuts": ["x"]}],
        },
    )
    for rule, want in (
        ("balanced", {0: {"a", "n"}, 1: {"a", "m"}, 2: {"a"}}),
        ("mindspore", {r: {"a", "n", "m"} for r in range(3)}),
    ):
        few = os.path.join(base, "loose-" + rule)
        good("not named: " + rule, "dedupe", os.path.join(base, "loose"), "-o", few, "--rule", rule)
        check("not named: who keeps what", names_of(few, 3) == want, repr(names_of(few, 3)))
        good("not named: expand", "expand", few, "-o", few + "-again")
        check("not named: byte for byte", not same_files(os.path.join(base, "loose"), few + "-again"))


def random_balance(base, rng, count):
    """No rank keeps more than the ideal share and the largest part; nothing is lost."""
    for case in range(count):
        items, truth = random_items(rng)
        where = os.path.join(base, "even%d" % case)
        items = {n: (dev, [-1] * len(m), 0) for n, (dev, m, _) in items.items()}
        ranks = ranks_of(items, truth, lambda r: {})
        save_ranks(os.path.join(where, "full"), ranks)
        put(
            os.path.join(where, "strategy", "s.json"),
            strategy({n: layout_item(d, m) for n, (d, m, _) in items.items()}),
        )
        good(
            "even %d" % case,
            "dedupe",
            os.path.join(where, "full"),
            "-o",
            os.path.join(where, "few"),
            "--rule",
            "balanced",
        )
        load = [
            sum(len(t[2]) for t in ffi.read_file(rank_file(os.path.join(where, "few"), r))[0].values())
            for r in range(len(ranks))
        ]
        total, largest = sum(load), max(len(t[2]) for t in truth.values())
        check("even %d: bounded" % case, max(load) <= total / len(ranks) + largest, repr(load))
        check("even %d: all is there" % case, total == sum(len(t[2]) for t in truth.values()))
        shutil.rmtree(where)


def patch(path, name):
    """Changes one byte of a tensor."""
    with open(path, "r+b") as f:
        n = struct.unpack("<Q", f.read(8))[0]
        begin, end = json.loads(f.read(n))[name]["data_offsets"]
        f.seek(8 + n + end - 1)
        f.write(b"\x77")
    return end - begin


def refused(base):
    dev = [2, 2]
    items = {"w": (dev, [0, -1], 0), "n": (dev, [-1], 0)}
    truth = {"w": whole([4, 3]), "n": whole([6], 9)}
    full, few = os.path.join(base, "full"), os.path.join(base, "few")
    ranks = ranks_of(items, truth, lambda r: {"rng": whole([1], r)})
    save_ranks(full, ranks, metadata={"format": "ms", "crc_num": "5"})
    put(
        os.path.join(base, "strategy", "s.json"),
        strategy({n: layout_item(d, m) for n, (d, m, _) in items.items()}),
    )
    size = patch(rank_file(full, 3), "w")
    bad("replicas that differ", ['"w"', "ranks 1 and 3", "byte %d" % (size - 1)], "dedupe", full, "-o", few)
    check(
        "nothing is written then",
        not os.path.exists(few) and not [f for f in os.listdir(base) if f.startswith(".few")],
    )
    patch(rank_file(full, 2), "n")
    bad("of several differences the first by name", ['"n"', "ranks"], "dedupe", full, "-o", few, "-j", "4")
    r = good("believed", "dedupe", full, "-o", few, "--no-compare")
    check(
        "crc_num goes where tensors do",
        all(
            ("crc_num" in ffi.read_file(rank_file(few, k))[1])
            == (len(ffi.read_file(rank_file(few, k))[0]) == 3)
            for k in range(4)
        ),
        r.stderr,
    )
    shutil.rmtree(few)
    save_ranks(full, ranks)
    bad(
        "rank-local values are no replicas",
        ['"rng"', "ranks 0 and"],
        "dedupe",
        full,
        "-o",
        few,
        "--rule",
        "balanced",
    )
    bad("no such rule", ["--rule"], "dedupe", full, "-o", few, "--rule", "x", status=2)
    bad("no folder of ranks", ["no checkpoint of many ranks"], "dedupe", rank_file(full, 0), "-o", few)
    bad("no output", ["-o"], "dedupe", full, status=2)
    # a rank that is not there: replicas stand in, and expand makes it
    shutil.rmtree(os.path.join(full, "rank_0"))
    good("a missing rank", "dedupe", full, "-o", few)
    got = {r: set(ffi.read_file(rank_file(few, r))[0]) for r in (1, 2, 3)}
    check(
        "the next of the group keeps its part",
        got == {1: {"n", "w", "rng"}, 2: {"w", "rng"}, 3: {"rng"}},
        repr(got),
    )
    os.remove(os.path.join(few, "dedupe.json"))
    good("a missing rank is made", "expand", few, "-o", os.path.join(base, "made"))
    made = ffi.read_file(os.path.join(base, "made", "rank_0", "net_rank_0-1_2.safetensors"))[0]
    check("it has its parts", made["w"] == ranks[0]["w"] and made["n"] == ranks[0]["n"], repr(made))
    shutil.rmtree(os.path.join(full, "rank_2"))
    bad("a part that nobody has", ['"w"'], "dedupe", full, "-o", os.path.join(base, "x"))


def records(base):
    """dedupe.json is input like any other."""
    truth = {"w": whole([4])}
    few = os.path.join(base, "few")
    save_ranks(os.path.join(base, "full"), [truth, truth])
    put(
        os.path.join(base, "full", "layout.json"),
        {
            "format": "safetensors-layout",
            "version": 1,
            "mesh": {"axes": {"x": 2}},
            "tensors": [{"name": "w", "cuts": [None]}],
        },
    )
    good("two ranks", "dedupe", os.path.join(base, "full"), "-o", few)
    with open(os.path.join(few, "dedupe.json"), encoding="utf-8") as f:
        record = json.load(f)
    check(
        "the record",
        record["rule"] == "mindspore"
        and record["names"] == ["w"]
        and record["order"] == "declared"
        and [f["rank"] for f in record["files"]] == [0, 1]
        and record["files"][1].get("tensors") is None,
        repr(record),
    )

    def broken(what, words, change):
        copy = json.loads(json.dumps(record))
        change(copy)
        put(os.path.join(few, "dedupe.json"), copy)
        bad(what, words, "expand", few, "-o", os.path.join(base, "x"))
        check(what + ": nothing appears", not os.path.exists(os.path.join(base, "x")))

    broken("version", ["version 1"], lambda j: j.update(version=2))
    broken("numbers of names", ["number of a name"], lambda j: j["files"][0].update(tensors=[1]))
    broken("negative", ["number of a name"], lambda j: j["files"][0].update(tensors=[-1]))
    broken("a name that is nowhere", ['"v"'], lambda j: j.update(names=["v"]))
    broken("a way out", ["../x"], lambda j: j["files"][0].update(file="../x.safetensors"))
    broken("an absolute one", ["/x"], lambda j: j["files"][0].update(file="/x.safetensors"))
    broken("two of one name", ["rank_1"], lambda j: j["files"][0].update(file=j["files"][1]["file"]))
    broken("no files", ["files"], lambda j: j.pop("files"))
    broken("a rank is not listed", ["rank 1"], lambda j: j["files"].pop(1))
    broken("nothing is listed", ["rank 0"], lambda j: j.update(files=[]))
    broken(
        "a name with a NUL",
        ["the name of its file"],
        lambda j: j["files"][0].update(file="rank_0/a\0b.safetensors"),
    )
    broken("no tensors", ["tensors"], lambda j: j["files"][0].pop("tensors"))
    broken("metadata", ["metadata"], lambda j: j["files"][0].update(metadata={"a": 1}))
    put(os.path.join(few, "dedupe.json"), '{"format": ')
    bad("half a record", ["dedupe.json"], "expand", few, "-o", os.path.join(base, "x"))
    for other in ("[1]", "[]", "1", "{}", '{"format": "other"}', '{"format": ["safetensors-dedupe"]}'):
        put(os.path.join(few, "dedupe.json"), other)
        bad(
            "no record: " + other,
            ["dedupe.json", "safetensors-dedupe"],
            "expand",
            few,
            "-o",
            os.path.join(base, "x"),
        )
    os.remove(os.path.join(few, "dedupe.json"))
    good("none", "expand", few, "-o", os.path.join(base, "y"))
    check("by layout then", ffi.read_file(rank_file(os.path.join(base, "y"), 1))[0] == truth)


def beside(base):
    """Weights beside the ranks stay behind, and are named by every command that writes the ranks anew: also where they are called as the
    ranks' own files. What the ranks are made of is not."""
    truth = {"w": whole([4])}
    full, plan = os.path.join(base, "full"), os.path.join(base, "plan.json")
    layout = {
        "format": "safetensors-layout",
        "version": 1,
        "mesh": {"axes": {"x": 2}},
        "tensors": [{"name": "w", "cuts": ["x"]}],
    }
    put(plan, layout)
    one = os.path.join(base, "one.safetensors")
    spaces.save(one, truth)
    good("ranks", "reshard", one, "--target-layout", plan, "--ranks", "2", "-o", full)
    runs = [
        ("join", full, "-o"),
        ("reshard", full, "--target-layout", plan, "--ranks", "2", "-o"),
        ("dedupe", full, "-o"),
        ("expand", full, "-o"),
    ]

    def told(when):
        said = []
        for i, args in enumerate(runs):
            r = good(
                "%s, %s" % (args[0], when),
                *args,
                os.path.join(base, "%s-%d%s" % (when, i, ".safetensors" if i == 0 else "")),
            )
            said.append(
                sorted(
                    line.split("left out: ")[1].split(":")[0]
                    for line in r.stderr.splitlines()
                    if "left out: " in line
                )
            )
        return said

    check("nothing beside them", told("alone") == [[]] * 4)
    shutil.copy(one, os.path.join(full, "model.safetensors"))
    os.makedirs(os.path.join(full, "rank_1_old"))
    shutil.copy(one, os.path.join(full, "rank_1_old", "model.safetensors"))
    put(os.path.join(full, "config.json"), {})
    names = told("beside")
    check(
        "a model and a directory beside them", names == [["model.safetensors", "rank_1_old"]] * 4, repr(names)
    )


def tasks_and_kills(base, rng):
    """The engine of the other commands: tasks in any order, a run that is killed goes on."""
    dev = [2, 2]
    items = {"w%d" % i: (dev, [0, -1] if i % 2 else [-1, -1], 0) for i in range(6)}
    truth = {n: whole([256, 1024], i) for i, n in enumerate(items)}
    full, one = os.path.join(base, "full"), os.path.join(base, "one")
    save_ranks(full, ranks_of(items, truth, lambda r: {}))
    put(
        os.path.join(base, "strategy", "s.json"),
        strategy({n: layout_item(d, m) for n, (d, m, _) in items.items()}),
    )
    good("at once", "dedupe", full, "-o", one, "--verify", "--memory", "8MiB", "-j", "2")
    for k in (3, 1, 2):
        good(
            "task %d" % k,
            "dedupe",
            full,
            "-o",
            os.path.join(base, "tasks"),
            "--task",
            "%d/3" % k,
            *(["--no-compare"] if k != 3 else []),
        )
    check("the same by tasks", not same_files(one, os.path.join(base, "tasks")))
    r = good("the plan", "dedupe", full, "-o", os.path.join(base, "no"), "--plan")
    lines = [json.loads(line) for line in r.stdout.splitlines()]
    check(
        "the plan has a line for each file",
        [x.get("file") for x in lines[:6]]
        == ["rank_%d/net_rank_%d-1_2.safetensors" % (k, k) for k in range(4)]
        + ["dedupe.json", "layout.json"],
        r.stdout,
    )
    check(
        "and one for all",
        lines[-1]["replicas_removed"] == 3 * 3 + 3 * 2 and not os.path.exists(os.path.join(base, "no")),
    )
    for i in range(6):
        out = os.path.join(base, "killed")
        p = subprocess.Popen([spaces.TOOL, "dedupe", full, "-o", out, "--no-sync"], stdout=subprocess.DEVNULL)
        try:
            p.wait(rng.random() * 0.02)
        except subprocess.TimeoutExpired:
            p.kill()
            p.wait()
        check("a kill leaves nothing half done", not os.path.exists(out) or not same_files(one, out))
        good("goes on", "dedupe", full, "-o", out, "-f")
        check("the same after a kill", not same_files(one, out))
        shutil.rmtree(out)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--tool", required=True)
    p.add_argument("--cases", type=int, default=12)
    p.add_argument("--seed", type=int, default=1)
    a = p.parse_args()
    spaces.TOOL = os.path.abspath(a.tool)
    rng = random.Random(a.seed)
    base = tempfile.mkdtemp(prefix="sft-dedupe-")
    by_turn(base, rng, a.cases)
    published(os.path.join(base, "published"))
    balanced(os.path.join(base, "balanced"))
    random_balance(base, rng, a.cases // 2)
    refused(os.path.join(base, "refused"))
    records(os.path.join(base, "records"))
    beside(os.path.join(base, "beside"))
    tasks_and_kills(os.path.join(base, "tasks"), rng)
    shutil.rmtree(base)
    print("%d checks, %d failed" % (spaces.DONE, len(spaces.FAULTS)))
    for fault in spaces.FAULTS[:20]:
        print("  " + fault[:800])
    return 1 if spaces.FAULTS else 0


if __name__ == "__main__":
    sys.exit(main())
