#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""coverage_table.py --tool TOOL [--mindspore] [--out FILE] - every command on checkpoints of ranks that lack something,
have too much, or are called otherwise: exit status and sentence, as a table. Standard library only; the directories are
made here, element by element, and what a command writes is compared with the truth.

With --mindspore its unified_safetensors is given the same directories (where it takes a strategy): its verdict stands in
the last column. It decides nothing: it passes over a missing name in silence, for one.
"""

import argparse
import json
import os
import shutil
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import ffi  # noqa: E402
import spaces  # noqa: E402
from spaces import box, check, layout_item, part, put, run, save, strategy, whole  # noqa: E402

ROWS = []
MINDSPORE = None
BASE = ""
LOAD = 4  # a busy machine takes so many times as long


# ---------------------------------------------------------------- a job of two stages, four ranks each


def job():
    """(truth, ranks, strategies of the stages): dp 2 x mp 2 in each stage; one embedding in both."""
    truth = {
        "emb": whole([8, 4]),
        "first": whole([8, 2], 100),
        "norm0": whole([6], 200),
        "last": whole([4, 4], 300),
        "norm1": whole([6], 400),
        "head": whole([8, 2], 500),
        "global_step": whole([1], 7),
    }
    ranks, items = [], [{}, {}]
    for r in range(8):
        stage, (dp, mp) = r // 4, divmod(r % 4, 2)
        tensors = {"emb": part(truth["emb"], [(mp, 2), (0, 1)])}
        if stage == 0:
            tensors["first"] = box(
                truth["first"], [mp * 4 + dp * 2, 0], [2, 2]
            )  # and by dp, in the optimizer
            tensors["norm0"] = truth["norm0"]
        else:
            tensors["last"] = part(truth["last"], [(dp, 2), (mp, 2)])
            tensors["norm1"] = truth["norm1"]
            tensors["head"] = part(truth["head"], [(mp, 2), (0, 1)])
        tensors["global_step"] = truth["global_step"]
        ranks.append(tensors)
    for stage in (0, 1):
        items[stage]["emb"] = layout_item([2, 2], [0, -1])
    items[0].update(first=layout_item([2, 2], [0, -1], 2, 2), norm0=layout_item([2, 2], [-1]))
    items[1].update(
        last=layout_item([2, 2], [1, 0]), norm1=layout_item([2, 2], [-1]), head=layout_item([2, 2], [0, -1])
    )
    return truth, ranks, [strategy(items[s], s) for s in (0, 1)]


def name_of(r, step="1_2"):
    return os.path.join("rank_%d" % r, "net_rank_%d-%s.safetensors" % (r, step))


class Place:
    """A checkpoint with its strategy beside it, as MindFormers leaves them."""

    def __init__(self, base, ranks, strategies, name=name_of):
        self.base = base
        self.folder = os.path.join(base, "checkpoint")
        self.merged = os.path.join(base, "merged.ckpt")
        os.makedirs(self.folder)
        for r, tensors in enumerate(ranks):
            if tensors is not None:
                save(os.path.join(self.folder, name(r)), tensors, {"format": "ms"})
        for stage, text in enumerate(strategies):
            put(os.path.join(base, "strategy", "s%d.json" % stage), text)
        r = run("layout", "merge", os.path.join(base, "strategy"), "-o", self.merged)
        assert r.returncode == 0, r.stderr
        put(
            os.path.join(base, "target.json"),
            {
                "format": "safetensors-layout",
                "version": 1,
                "mesh": {"axes": {"x": 2}},
                "tensors": [{"name": "emb", "cuts": ["x", None]}, {"name": "head", "cuts": ["x", None]}],
            },
        )

    def out(self, name):
        path = os.path.join(self.base, name)
        shutil.rmtree(path, ignore_errors=True)
        if os.path.exists(path):
            os.unlink(path)
        return path

    def commands(self):
        """{command: arguments}; each is run on the same directory."""
        target = os.path.join(self.base, "target.json")
        return {
            "ls": ["ls", self.folder],
            "show": ["show", self.folder],
            "check": ["check", self.folder],
            "show NAME": ["show", self.folder, "emb"],
            "check --digests": ["check", "--digests", self.folder],
            "get": ["get", self.folder, "emb[0:1]", "-o", self.out("row.npy")],
            "mem": ["mem", self.folder],
            "meta": ["meta", self.folder],
            "hash": ["hash", "--content", self.folder],
            "hash --whole": ["hash", "--whole", self.folder],
            "hash --tensors": ["hash", "--tensors", self.folder],
            "verify --replicas": ["verify", "--replicas", self.folder],
            "verify --same": ["verify", "--same", self.folder, self.folder],
            "diff": ["diff", self.folder, self.folder],
            "cp": ["cp", self.folder, self.out("cp.safetensors")],
            "cp --select": ["cp", "--select", "emb", self.folder, self.out("one.safetensors")],
            "cp --plan": ["cp", "--plan", self.folder, self.out("plan.safetensors")],
            "convert": ["convert", self.folder, "-o", self.out("model.pt")],
            "join": ["join", "--no-sync", self.folder, "-o", self.out("join.safetensors")],
            "join --unified": ["join", "--no-sync", "--unified", self.folder, "-o", self.out("unified")],
            "split": ["split", "--no-sync", self.folder, "-o", self.out("split")],
            "split --max-shard-size": [
                "split",
                "--no-sync",
                "--max-shard-size",
                "100",
                self.folder,
                "-o",
                self.out("many"),
            ],
            "reshard": [
                "reshard",
                "--no-sync",
                self.folder,
                "--target-layout",
                target,
                "-o",
                self.out("reshard"),
            ],
            "slice": [
                "slice",
                "--no-sync",
                self.folder,
                "--layout",
                target,
                "-k",
                "1",
                "-o",
                self.out("slice.safetensors"),
            ],
            "dedupe": ["dedupe", "--no-sync", self.folder, "-o", self.out("dedupe")],
            "expand": ["expand", "--no-sync", self.folder, "-o", self.out("expand")],
            "resume-point": ["resume-point", self.folder],
        }

    def mindspore(self):
        """Its verdict on the whole, as one line."""
        if MINDSPORE is None:
            return ""
        out = self.out("mindspore")
        try:
            MINDSPORE.unified_safetensors(self.folder, self.merged, out)
        except Exception as error:  # whatever it raises is its verdict
            return "%s: %s" % (type(error).__name__, " ".join(str(error).split())[:90])
        names = set()
        for file in os.listdir(out):
            if file.endswith(".safetensors"):
                names |= set(ffi.read_file(os.path.join(out, file))[0])
        return "%d tensors" % len(names)


def sentence(r):
    lines = [line for line in (r.stderr + r.stdout).splitlines() if ": " in line and ": ok" not in line]
    text = lines[0].replace(os.path.dirname(BASE) + "/", "") if lines else ""
    return text.split("safetensors: ", 1)[-1][:180]


def row(case, command, r, verdict):
    ROWS.append((case, command, r.returncode, sentence(r) if r.returncode or r.stderr else "", verdict))


def whole_of(place, command):
    """What the command wrote, as one model; None: it writes none."""
    written = {
        "cp": "cp.safetensors",
        "join": "join.safetensors",
        "join --unified": "unified",
        "split": "split",
        "split --max-shard-size": "many",
        "convert": "model.pt",
        "reshard": "reshard",
        "dedupe": "dedupe",
        "expand": "expand",
    }.get(command)
    if written is None:
        return None
    path = os.path.join(place.base, written)
    out = place.out("read-back.safetensors")
    r = run("cp", path, out)
    check("%s opens again" % command, r.returncode == 0, r.stderr[:300])
    return ffi.read_file(out)[0] if r.returncode == 0 else {}


def passes(case, place, truth, words=(), but=()):
    """Every command takes it, and what is written is the truth. but: commands that another line is about."""
    verdict = place.mindspore()
    for command, arguments in place.commands().items():
        if command in but:
            continue
        r = run(*arguments)
        row(case, command, r, verdict)
        check(
            "%s: %s" % (case, command),
            r.returncode == 0 and all(w in r.stderr for w in words),
            "exit %d %s" % (r.returncode, r.stderr[:300]),
        )
        got = whole_of(place, command) if r.returncode == 0 else None
        check("%s: %s: values" % (case, command), got is None or got == truth, repr(sorted(got or {})))


def fails(case, place, words, but=(), partial=None):
    """Every command refuses it with these words, and writes nothing. partial: what --partial gives all the same."""
    verdict = place.mindspore()
    for command, arguments in place.commands().items():
        if command in but:
            continue
        r = run(*arguments)
        row(case, command, r, verdict)
        check(
            "%s: %s" % (case, command),
            r.returncode == 1 and all(w in r.stderr + r.stdout for w in words),
            "exit %d %s" % (r.returncode, (r.stderr + r.stdout)[:400]),
        )
        if "-o" in arguments or command == "cp":
            check("%s: %s wrote nothing" % (case, command), not os.path.exists(arguments[-1]))
    if partial is not None:
        accept(case, place, partial, verdict)


def accept(case, place, truth, verdict):
    for command in ("ls", "check", "cp", "join", "join --unified", "split", "reshard"):
        arguments = place.commands()[command]
        r = run(*arguments, "--partial")
        row(case, command + " --partial", r, verdict)
        check(
            "%s: %s --partial" % (case, command),
            r.returncode == 0 and "left out" in r.stderr + r.stdout,
            "exit %d %s" % (r.returncode, (r.stderr + r.stdout)[:300]),
        )
        got = whole_of(place, command)
        check(
            "%s: %s --partial: values" % (case, command), got is None or got == truth, repr(sorted(got or {}))
        )
    r = run("join", "--no-sync", "--json", "--partial", place.folder, "-o", place.out("join.safetensors"))
    check(
        "%s: JSON says so" % case,
        json.loads(r.stdout or "{}").get("tensors_left_out", 0) > 0,
        r.stdout + r.stderr,
    )
    r = run("ls", "--json", "--partial", place.folder)
    check(
        "%s: ls --json says so" % case,
        json.loads(r.stdout or "{}").get("left_out"),
        r.stdout[:300] + r.stderr,
    )


# ---------------------------------------------------------------- the cases


def nothing(base):
    truth, ranks, strategies = job()
    passes("nothing is missing", Place(base, ranks, strategies), truth)


def missing_stage(base):
    truth, ranks, strategies = job()
    place = Place(base, ranks[:4] + [None] * 4, strategies)
    rest = {n: t for n, t in truth.items() if n not in ("last", "norm1", "head")}
    fails("a stage is missing", place, ["no file holds it", "ranks 4-7", "2 more tensors"], partial=rest)
    place = Place(os.path.join(base, "first"), [None] * 4 + ranks[4:], strategies)
    fails("the first stage is missing", place, ["first", "ranks 0-3", "which have no file"])


def missing_rank(base):
    truth, ranks, strategies = job()
    place = Place(base, ranks[:1] + [None] + ranks[2:], strategies)
    fails(
        "a rank is missing",
        place,
        ["first", "[4:6, 0:2]", "rank 1's", "it has no file"],
        partial={n: t for n, t in truth.items() if n != "first"},
    )
    for tensors in ranks:
        tensors.pop("first", None)  # what only one rank has
    del strategies[0]["parallel_layout_item"]["first"]
    place = Place(os.path.join(base, "replica"), ranks[:1] + [None] + ranks[2:], strategies)
    del truth["first"]
    passes("a rank is missing, replicas stand in", place, truth, but=("show", "check", "resume-point"))
    r = run("ls", place.folder)
    check("and it is said", "rank 1 has no file" in r.stderr, r.stderr)


def missing_tensor(base):
    truth, ranks, strategies = job()
    for r in range(4, 8):
        del ranks[r]["head"]
    fails(
        "a tensor is missing",
        Place(base, ranks, strategies),
        ["head", "no file holds it", "ranks 4-7"],
        partial={n: t for n, t in truth.items() if n != "head"},
    )


def elsewhere(base):
    """On a rank that the layout does not give it to: a half would pass as whole there."""
    truth, ranks, strategies = job()
    half = ranks[4]["head"]
    for r in range(4, 8):
        del ranks[r]["head"]
    ranks[0]["head"] = half
    fails("a tensor on a rank of another stage", Place(base, ranks, strategies), ["head", "not to rank 0"])


def hole(base):
    truth, ranks, strategies = job()
    del ranks[6]["last"]
    fails(
        "a part is missing",
        Place(base, ranks, strategies),
        ["last", "[2:4, 0:2]", "rank 6's"],
        partial={n: t for n, t in truth.items() if n != "last"},
    )


def wrong_dtype(base):
    _, ranks, strategies = job()
    dtype, shape, data = ranks[5]["last"]
    ranks[5]["last"] = ("I32", shape, data)
    fails("a rank has another dtype", Place(base, ranks, strategies), ["last", "another dtype"])


def wrong_shape(base):
    _, ranks, strategies = job()
    ranks[7]["norm1"] = whole([5])
    fails("a rank has another shape", Place(base, ranks, strategies), ["norm1", "rank 7", "another shape"])


def foreign_layout(base):
    truth, ranks, strategies = job()
    for text in strategies:
        items = text["parallel_layout_item"]
        text["parallel_layout_item"] = {"model.%s.weight" % n: v for n, v in items.items()}
    place = Place(base, ranks, strategies)
    fails("a layout of other names", place, ["none of the layout's", "nearest name"])
    # the target's: what fits nothing would give the whole model to every rank
    one = os.path.join(base, "one.safetensors")
    save(one, truth)
    target = os.path.join(base, "foreign.json")
    put(
        target,
        {
            "format": "safetensors-layout",
            "version": 1,
            "mesh": {"axes": {"x": 2}},
            "tensors": [{"name": "model.head.weight", "cuts": ["x", None]}],
        },
    )
    out = os.path.join(base, "out")
    for command, more in (
        ("reshard", ["--target-layout", target, "-o", out]),
        ("slice", ["--layout", target, "-k", "0", "-o", out + ".safetensors"]),
    ):
        r = run(command, one, *more)
        row("a target layout of other names", command, r, "")
        check(
            "foreign target: " + command,
            r.returncode == 1
            and "model.head.weight" in r.stderr
            and '"head"' in r.stderr
            and not os.path.exists(more[-1]),
            "exit %d %s" % (r.returncode, r.stderr[:300]),
        )
        r = run(command, one, "--allow-replicated", "--json", *more)
        row("a target layout of other names", command + " --allow-replicated", r, "")
        told = json.loads(r.stdout or "{}")
        check(
            "foreign target: %s goes on" % command,
            r.returncode == 0
            and "7 of 7 tensors" in r.stderr
            and told["tensors_unmatched"] == 7
            and told["entries_unmatched"] == 1
            and told["bytes_unmatched"] == sum(len(t[2]) for t in truth.values()),
            r.stderr + r.stdout,
        )
    put(
        target,
        {
            "format": "safetensors-layout",
            "version": 1,
            "mesh": {"axes": {"x": 2}},
            "tensors": [{"name": "head", "cuts": ["x", None]}, {"name": "tail", "cuts": ["x"]}],
        },
    )
    r = run("reshard", one, "--target-layout", target, "-o", out + "2")
    row("a target layout of some names", "reshard", r, "")
    check(
        "what does not fit is counted",
        r.returncode == 0 and "6 of 7 tensors" in r.stderr and "1 of 2 entries" in r.stderr,
        r.stderr,
    )
    check("and what was written opens", run("ls", out + "2").returncode == 0, run("ls", out + "2").stderr)


def seed_names(base):
    truth, ranks, strategies = job()
    for i, (what, name) in enumerate(
        (
            ("rank_N/qwen2_7b_rank_N", lambda r: "rank_%d/qwen2_7b_rank_%d.safetensors" % (r, r)),
            ("rank_N/qwen2_7b_N", lambda r: "rank_%d/qwen2_7b_%d.safetensors" % (r, r)),
            ("rank_N/net-1_N", lambda r: "rank_%d/net-1_%d.safetensors" % (r, r)),
            ("rank_N/net", lambda r: "rank_%d/net.safetensors" % r),
        )
    ):
        place = Place(os.path.join(base, str(i)), ranks, strategies, name)
        passes("names " + what, place, truth, but=("resume-point",))
    r = run(
        "reshard",
        "--no-sync",
        place.folder,
        "--target-layout",
        os.path.join(place.base, "target.json"),
        "-o",
        place.out("named"),
        "--name",
        "rank_{rank}/qwen2_7b_rank_{rank}.safetensors",
    )
    check("reshard --name writes them", r.returncode == 0, r.stderr)
    check("and they open", run("ls", os.path.join(place.base, "named")).returncode == 0)
    for bad, word in (
        ("rank_{rank}/{prefix}-{epoch}_{step}.safetensors", "{epoch}"),
        ("rank_{rank}/{name}.safetensors", "{name}"),
        ("rank_{rank}/{.safetensors", "{"),
        ("model.safetensors", "{rank}"),
    ):
        r = run(
            "reshard",
            place.folder,
            "--target-layout",
            os.path.join(place.base, "target.json"),
            "-o",
            place.out("named"),
            "--name",
            bad,
        )
        row("names that would not open", "reshard --name " + bad, r, "")
        check(
            "reshard --name " + bad,
            r.returncode == 2 and word in r.stderr and not os.path.exists(os.path.join(place.base, "named")),
            r.stderr,
        )
    r = run(
        "reshard",
        "--no-sync",
        place.folder,
        "--target-layout",
        os.path.join(place.base, "target.json"),
        "-o",
        place.out("named"),
        "--name",
        "model-{rank}.safetensors",
    )
    row("names that would not open", "reshard --name model-{rank}.safetensors", r, "")
    check(
        "names that do not open are told",
        r.returncode == 0 and "do not open as one model" in r.stderr,
        r.stderr,
    )


def flat_steps(base):
    old, new = {"w": whole([4, 2]), "step": whole([1], 2)}, {"w": whole([4, 2], 50), "step": whole([1], 4)}
    save(os.path.join(base, "flat", "qwen-3_2.safetensors"), old)
    save(os.path.join(base, "flat", "qwen-3_10.safetensors"), new)
    flat = os.path.join(base, "flat")
    for what, options, truth in (("the newest", (), new), ("a step", ("--step", "3_2"), old)):
        for command in ("cp", "join"):
            out = os.path.join(base, "out.safetensors")
            r = run(command, *options, "-f", flat, *(["-o", out] if command == "join" else [out]))
            row("flat steps: " + what, command, r, "")
            check(
                "flat steps: %s: %s" % (what, command),
                r.returncode == 0 and ffi.read_file(out)[0] == truth,
                r.stderr,
            )
        for command in ("ls", "show", "check", "hash"):
            r = run(command, *options, flat)
            row("flat steps: " + what, command, r, "")
            check("flat steps: %s: %s" % (what, command), r.returncode == 0, r.stderr)
    r = run("ls", "--step", "9_9", flat)
    check("flat steps: none of the name", r.returncode == 1 and "9_9" in r.stderr, r.stderr)
    r = run("ls", "--step", "0", flat)
    check(
        "flat steps: the end of a number is no step", r.returncode == 1 and "ends in 0" in r.stderr, r.stderr
    )
    r = run("resume-point", flat)
    row("flat steps: the newest", "resume-point", r, "")
    check("flat steps: resume-point", r.stdout == "-3_10\n", r.stdout + r.stderr)
    path = os.path.join(flat, "qwen-3_10.safetensors")
    os.truncate(path, os.path.getsize(path) - 1)
    r = run("resume-point", flat)
    check(
        "flat steps: a torn one is skipped", r.stdout == "-3_2\n" and "-3_10" in r.stderr, r.stdout + r.stderr
    )
    save(os.path.join(flat, "qwen-3_10.safetensors"), new)
    put(os.path.join(flat, "meta.json"), {"last_epoch": 3, "last_step": 2})
    r = run("resume-point", flat)
    check("flat steps: meta.json", r.stdout == "-3_2\n", r.stdout + r.stderr)
    save(os.path.join(flat, "other-3_10.safetensors"), new)
    r = run("ls", flat)
    row("flat steps: two of one step", "ls", r, "")
    check(
        "flat steps: two of one step", r.returncode == 1 and "several files of one step" in r.stderr, r.stderr
    )
    shards = os.path.join(base, "shards")  # no steps: one model in files that are called so
    save(os.path.join(shards, "net-0_1.safetensors"), {"a": whole([2])})
    save(os.path.join(shards, "net-0_2.safetensors"), {"b": whole([3])})
    r = run("cp", "-f", shards, os.path.join(base, "out.safetensors"))
    check(
        "shards that are called like steps",
        r.returncode == 0 and set(ffi.read_file(os.path.join(base, "out.safetensors"))[0]) == {"a", "b"},
        r.stderr,
    )
    one = os.path.join(base, "one")
    save(os.path.join(one, "net-1_1.safetensors"), {"a": whole([2])})
    check("--step of one file", run("ls", "--step", "1_1", one).returncode == 0)
    r = run("ls", "--step", "1_2", one)
    check("--step that it is not", r.returncode == 1 and "1_2" in r.stderr, r.stderr)


def trainer(base):
    """Hugging Face's Trainer: a staging folder and a state that was cut short are no steps; a model in pytorch_model.bin is one."""
    model = os.path.join(base, "m.safetensors")
    save(model, {"a": whole([2])})
    for step in ("checkpoint-1", "checkpoint-2", "tmp-checkpoint-3"):
        os.makedirs(os.path.join(base, "run", step))
        shutil.copy(model, os.path.join(base, "run", step, "model.safetensors"))
        put(os.path.join(base, "run", step, "trainer_state.json"), {"global_step": int(step[-1])})
    at = os.path.join(base, "run")
    r = run("resume-point", at)
    check(
        "trainer: a staging folder",
        r.stdout == "checkpoint-2\n" and "tmp-checkpoint-3 is skipped" in r.stderr,
        r.stdout + r.stderr,
    )
    os.truncate(os.path.join(at, "checkpoint-2", "trainer_state.json"), 9)
    r = run("resume-point", at)
    check(
        "trainer: a state cut short",
        r.stdout == "checkpoint-1\n" and "checkpoint-2 is skipped" in r.stderr,
        r.stdout + r.stderr,
    )
    put(os.path.join(at, "checkpoint-2", "trainer_state.json"), {"global_step": 2})
    save(os.path.join(at, "checkpoint-2", "model.safetensors"), {})
    r = run("resume-point", at)
    check(
        "trainer: a model without a tensor",
        r.stdout == "checkpoint-1\n" and "without a tensor" in r.stderr,
        r.stdout + r.stderr,
    )
    os.unlink(os.path.join(at, "checkpoint-2", "model.safetensors"))
    r = run("resume-point", at)
    check(
        "trainer: no model",
        r.stdout == "checkpoint-1\n" and "checkpoint-2 is skipped" in r.stderr,
        r.stdout + r.stderr,
    )
    r = run("convert", model, "-o", os.path.join(at, "checkpoint-2", "model.pt"))
    check("trainer: convert", r.returncode == 0, r.stderr)
    os.rename(
        os.path.join(at, "checkpoint-2", "model.pt"), os.path.join(at, "checkpoint-2", "pytorch_model.bin")
    )
    r = run("resume-point", at)
    check("trainer: pytorch_model.bin", r.stdout == "checkpoint-2\n", r.stdout + r.stderr)
    # the states beside the weights: torch.save writes no empty file; notes and markers may be empty
    for name, good in (
        ("optimizer.pt", False),
        ("scheduler.pt", False),
        ("rng_state_0.pth", False),
        ("optimizer.bin", False),
        ("global_step2/mp_rank_00_model_states.pt", False),
        ("done", True),
        ("vocab.bin", True),
        ("global_step2/latest", True),
    ):
        path = os.path.join(at, "checkpoint-2", name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        for data, chosen in ((b"", good), (b"PK", True)):
            with open(path, "wb") as f:
                f.write(data)
            r = run("resume-point", at)
            check(
                "trainer: %s of %d bytes" % (name, len(data)),
                r.stdout == "checkpoint-%d\n" % (2 if chosen else 1)
                and (chosen or os.path.basename(name) + " is empty" in r.stderr),
                r.stdout + r.stderr,
            )
        os.unlink(path)


def half_steps(base):
    truth, ranks, strategies = job()
    place = Place(base, ranks, strategies)
    for r in range(4):
        save(os.path.join(place.folder, name_of(r, "2_2")), ranks[r], {"format": "ms"})
    fails("half a step", place, ["different steps"], but=("resume-point",))
    r = run("resume-point", place.folder)
    row("half a step", "resume-point", r, place.mindspore())
    check(
        "half a step: resume-point",
        r.stdout == "-1_2\n" and "-2_2 is skipped" in r.stderr and "ranks 4-7" in r.stderr,
        r.stdout + r.stderr,
    )
    r = run("ls", "--step", "2_2", place.folder)
    row("half a step", "ls --step 2_2", r, "")
    check("half a step: asked for", r.returncode == 1 and "no file holds it" in r.stderr, r.stderr)
    for r in range(8):  # only the half is left: nothing complete
        os.unlink(os.path.join(place.folder, name_of(r)))
    r = run("resume-point", place.folder)
    row("half a step alone", "resume-point", r, "")
    check("half a step alone", r.returncode == 1 and r.stdout == "", r.stdout + r.stderr)
    for r in range(8):  # every second rank has a file of another job
        name = name_of(r, "2_2")
        shutil.rmtree(os.path.join(place.folder, "rank_%d" % r))
        save(
            os.path.join(
                place.folder,
                name
                if r % 2 == 0
                else os.path.join(os.path.dirname(name), "other_rank_%d-2_2.safetensors" % r),
            ),
            ranks[r],
            {"format": "ms"},
        )
    fails("files of two jobs", place, ["different jobs", "other_rank_1-2_2"], but=("resume-point",))
    r = run("resume-point", place.folder)
    check(
        "files of two jobs: resume-point",
        r.returncode == 1 and "different jobs" in r.stderr,
        r.stdout + r.stderr,
    )
    for r in range(8):
        for name in os.listdir(os.path.join(place.folder, "rank_%d" % r)):
            os.unlink(os.path.join(place.folder, "rank_%d" % r, name))
    strategy_there = os.path.join(base, "strategy")
    os.rename(strategy_there, os.path.join(base, "moved"))
    for r in range(8):
        save(os.path.join(place.folder, name_of(r, "2_2")), ranks[r], {"format": "ms"})
    r = run("resume-point", place.folder)
    check("no layout, no step", r.returncode == 1 and "a layout is needed" in r.stderr, r.stderr)
    r = run("resume-point", place.folder, "--layout", os.path.join(base, "moved"))
    row("a layout from elsewhere", "resume-point --layout", r, "")
    check("resume-point --layout", r.stdout == "-2_2\n", r.stdout + r.stderr)
    r = run("resume-point", place.folder, "--layout", os.path.join(base, "nowhere"))
    check(
        "resume-point --layout of nothing",
        r.returncode == 3 and "nowhere" in r.stderr,
        "%d %s" % (r.returncode, r.stderr),
    )


def extra_ranks(base):
    _, ranks, strategies = job()
    place = Place(base, ranks + [ranks[0]], strategies)
    fails("a rank too many", place, ["rank 8", "8 ranks"])
    beyond = os.path.join(place.folder, "rank_18446744073709551616")
    os.rename(os.path.join(place.folder, "rank_8"), beyond)
    fails("a rank beyond all numbers with another's file", place, ["rank 8's by its name"])
    for file in os.listdir(beyond):
        os.rename(
            os.path.join(beyond, file), os.path.join(beyond, file.replace("rank_8", "rank_" + beyond[-20:]))
        )
    fails("a rank beyond all numbers", place, ["rank 1000000000000000000", "8 ranks"])
    place = Place(os.path.join(base, "stage"), ranks, strategies)
    r = run("ls", place.folder, "--layout", os.path.join(base, "stage", "strategy", "s1.json"))
    row("the strategy of the second stage alone", "ls", r, "")
    check(
        "the strategy of the second stage alone", r.returncode == 1 and "gives nothing" in r.stderr, r.stderr
    )


def own_layout(base):
    """Patterns promise no names: a stage of which no rank has a file, and ranks without replicas."""
    truth = {"a.w": whole([4, 2]), "b.w": whole([4, 2], 50)}
    layout = {
        "format": "safetensors-layout",
        "version": 1,
        "meshes": {"early": {"axes": {"x": 2}}, "late": {"axes": {"x": 2}, "first_rank": 2}},
        "tensors": [
            {"pattern": "a.*", "mesh": "early", "cuts": ["x", None]},
            {"pattern": "b.*", "mesh": "late", "cuts": ["x", None]},
        ],
    }
    folder = os.path.join(base, "own")
    for r in range(4):
        n = "ab"[r // 2] + ".w"
        save(
            os.path.join(folder, "rank_%d" % r, "model.safetensors"),
            {n: part(truth[n], [(r % 2, 2), (0, 1)])},
        )
    put(os.path.join(folder, "layout.json"), layout)
    for verb in ("ls", "check"):
        check("patterns: " + verb, run(verb, folder).returncode == 0, run(verb, folder).stderr)
    moved = os.path.join(base, "moved")
    for gone in ("rank_2", "rank_3"):
        os.renames(os.path.join(folder, gone), os.path.join(moved, gone))
    for verb in ("ls", "check", "hash"):
        r = run(verb, folder)
        row("a stage that only patterns name", verb, r, "")
        check(
            "patterns: a stage is missing: " + verb,
            r.returncode == 1 and "ranks 2-3" in r.stderr + r.stdout,
            r.stderr,
        )
    r = run("ls", "--partial", folder)
    check("patterns: --partial", r.returncode == 0 and "2-3" in r.stderr, r.stderr)
    # check of a directory above finds the layout inside
    r = run("check", base)
    check("check of a directory above", r.returncode == 1 and "ranks 2-3" in r.stdout, r.stdout + r.stderr)
    os.unlink(os.path.join(folder, "layout.json"))
    r = run("check", folder)
    row("no layout", "check", r, "")
    check(
        "check without a layout says what it cannot know",
        r.returncode == 0 and "nobody tells" in r.stderr,
        r.stderr,
    )


def hostile(base):
    """Layouts of very many ranks, meshes and names: an answer within two seconds."""
    folder = os.path.join(base, "hostile")
    for r in range(40):
        save(
            os.path.join(folder, "rank_%d" % (r + 7), "model.safetensors"),
            {"w": whole([2, 2]), "v": whole([2])},
        )
    own = {"format": "safetensors-layout", "version": 1}
    for what, layout in (
        ("2^31 ranks", dict(own, mesh={"axes": {"x": 2**31}}, tensors=[{"name": "w", "cuts": ["x", None]}])),
        (
            "2^31 ranks, a pattern",
            dict(own, mesh={"axes": {"x": 2**31}}, tensors=[{"pattern": "q*", "cuts": ["x"]}]),
        ),
        (
            "far away",
            dict(
                own, mesh={"axes": {"x": 2}, "first_rank": 2**63}, tensors=[{"pattern": "w", "cuts": ["x"]}]
            ),
        ),
        (
            "many names",
            dict(
                own,
                mesh={"axes": {"x": 2**20}},
                tensors=[{"name": "w", "cuts": ["x", None]}]
                + [{"name": "n%d" % i, "cuts": ["x"]} for i in range(100000)],
            ),
        ),
        (
            "many meshes",
            dict(
                own,
                meshes={"m%d" % i: {"axes": {"x": 2**20}, "first_rank": i} for i in range(20000)},
                tensors=[{"pattern": "w%d*" % i, "mesh": "m%d" % i, "cuts": ["x"]} for i in range(20000)],
            ),
        ),
        (
            "long lists",
            dict(
                own,
                meshes={
                    "m%d" % i: {"axes": {"x": 1000}, "ranks": list(range(10**6, 10**6 + 1000))}
                    for i in range(500)
                },
                tensors=[
                    {"pattern": "w%d*" % (i % 500), "mesh": "m%d" % i, "cuts": ["x"]} for i in range(500)
                ],
            ),
        ),
    ):
        put(os.path.join(folder, "layout.json"), layout)
        for options in ((), ("--partial",)):
            start = time.monotonic()
            r = run("ls", *options, folder)
            seconds = time.monotonic() - start
            check(
                "hostile: %s %s" % (what, options),
                r.returncode in (0, 1) and (r.returncode == 1 or options),
                "exit %d %s" % (r.returncode, r.stderr[:300]),
            )
            check("hostile: %s %s: time" % (what, options), seconds < 2 * LOAD, "%.1f s" % seconds)


# ---------------------------------------------------------------- the table


def table():
    out = ["| case | command | exit | sentence | MindSpore unified_safetensors |", "|---|---|---|---|---|"]
    for cells in ROWS:
        out.append("| %s |" % " | ".join(str(c).replace("|", "\\|") for c in cells))
    return "\n".join(out) + "\n"


def main():
    global MINDSPORE, BASE
    p = argparse.ArgumentParser()
    p.add_argument("--tool", required=True)
    p.add_argument("--mindspore", action="store_true")
    p.add_argument("--out")
    a = p.parse_args()
    spaces.TOOL = os.path.abspath(a.tool)
    if a.mindspore:
        os.environ.setdefault("GLOG_v", "4")
        import mindspore as MINDSPORE  # noqa: F811
    for case in (
        nothing,
        missing_stage,
        missing_rank,
        missing_tensor,
        elsewhere,
        hole,
        wrong_dtype,
        wrong_shape,
        foreign_layout,
        seed_names,
        flat_steps,
        trainer,
        half_steps,
        extra_ranks,
        own_layout,
        hostile,
    ):
        top = tempfile.mkdtemp(prefix="sft-table-")
        BASE = os.path.join(top, "x")
        case(BASE)
        shutil.rmtree(top)
    if a.out:
        with open(a.out, "w", encoding="utf-8") as f:
            f.write(table())
    else:
        print(table())
    for fault in spaces.FAULTS:
        print("FAILED:", fault)
    print("%d rows, %d checks, %d failed" % (len(ROWS), spaces.DONE, len(spaces.FAULTS)))
    return 1 if spaces.FAULTS else 0


if __name__ == "__main__":
    sys.exit(main())
