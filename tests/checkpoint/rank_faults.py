#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""rank_faults.py --tool TOOL - directories of ranks that would say something else than they hold: what convert leaves out and
renames stays one model, by a layout that says so; files in another rank's directory and names that would not be opened are
refused. Standard library only.
"""

import argparse
import json
import os
import shutil
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import ffi  # noqa: E402
import spaces  # noqa: E402
from spaces import check, run, whole  # noqa: E402

NORM, Q = "model.norm.weight", "model.layers.0.self_attn.q_proj.weight"


def made(base):
    """A model with states of its optimizer, and its ranks."""
    tensors = {}
    shapes = {"model.embed_tokens.weight": [16, 8], NORM: [8], "lm_head.weight": [16, 8]}
    for i in range(2):
        p = "model.layers.%d." % i
        shapes.update({p + "self_attn.%s_proj.weight" % x: [8, 8] for x in "qkvo"})
        shapes.update({p + "input_layernorm.weight": [8], p + "mlp.up_proj.weight": [8, 8]})
    for i, (name, shape) in enumerate(shapes.items()):
        tensors[name] = whole(shape, 1000 * i)
        tensors["adam_m." + name] = whole(shape, 1000 * i + 500000)
    os.makedirs(base)
    ffi.write_file(os.path.join(base, "model.safetensors"), tensors)
    with open(os.path.join(base, "config.json"), "w") as f:
        json.dump({"num_hidden_layers": 2, "num_attention_heads": 2, "hidden_size": 8}, f)
    return tensors


def joined(directory):
    out = os.path.join(os.path.dirname(directory), "joined.safetensors")
    r = run("join", directory, "-o", out, "--force")
    return (ffi.read_file(out)[0] if r.returncode == 0 else None), r


def opens(what, directory, want):
    got, r = joined(directory)
    check(what + ": join", got == want, r.stderr)
    for command in (("ls", directory), ("check", directory)):
        r = run(*command)
        check("%s: %s" % (what, command[0]), r.returncode == 0, r.stderr)
    layout = os.path.join(os.path.dirname(directory), "one.json")
    with open(layout, "w") as f:
        json.dump({"format": "safetensors-layout", "version": 1, "mesh": {"axes": {"tp": 2}},
                   "tensors": [{"pattern": "*", "whole": True}]}, f)  # fmt: skip
    out = os.path.join(os.path.dirname(directory), "part.safetensors")
    r = run("slice", directory, "--layout", layout, "--rank", "1", "-o", out, "--force")
    check(what + ": slice", r.returncode == 0 and ffi.read_file(out)[0] == want, r.stderr)


def convert(src, *options):
    out = src + "_converted"
    shutil.rmtree(out, ignore_errors=True)
    return out, run("convert", src, "-o", out, "--no-sync", *options)


def layouts(base):
    """What goes along fits what is written."""
    model, ranks = os.path.join(base, "model"), os.path.join(base, "ranks")
    tensors = made(model)
    lean = {n: t for n, t in tensors.items() if not n.startswith("adam")}
    named = {"q" if n == Q else n: t for n, t in tensors.items()}
    r = run("reshard", model, "--target-layout", "dp=1,tp=2,pp=2", "-o", ranks)
    check("reshard", r.returncode == 0, r.stderr)
    for what, options, want in (
        ("--drop", ("--drop", "adam_*"), lean),
        ("--select", ("--select", "model.*", "--select", "lm_head*"), lean),
        ("--rename", ("--rename", Q + "=q"), named),
        ("--drop and --rename", ("--drop", "adam_*", "--rename", "model.*=m.*"),
         {n.replace("model.", "m.", 1) if n.startswith("model.") else n: t for n, t in lean.items()}),
    ):  # fmt: skip
        out, r = convert(ranks, *options)
        check(what, r.returncode == 0 and "warning" not in r.stderr, r.stderr)
        opens(what, out, want)
    out, r = convert(ranks, "--rename", NORM + "=model.embed_tokens.weight")
    check("two tensors of one name on other ranks", r.returncode == 1 and not os.path.exists(out), r.stderr)
    check("and named", all(w in r.stderr for w in ("--rename", NORM, "embed_tokens")), r.stderr)
    out, r = convert(ranks, "--cast", "I64")
    same = [os.path.join(d, "layout.json") for d in (ranks, out)]
    check("--cast leaves the layout", open(same[0]).read() == open(same[1]).read(), r.stderr)
    shutil.rmtree(os.path.join(ranks, "rank_3"))
    out, r = convert(ranks, "--drop", "adam_*")
    _, r = joined(out)
    check("what a rank alone had is missed", r.returncode == 1 and "lm_head" in r.stderr, r.stderr)


def strategies(base):
    model, ranks = os.path.join(base, "model"), os.path.join(base, "job", "ranks")
    tensors = made(model)
    lean = {n: t for n, t in tensors.items() if not n.startswith("adam")}
    os.makedirs(os.path.dirname(ranks))
    for form, name in (("strategy", "s.ckpt"), ("strategy-json", "s.json")):
        file = os.path.join(base, name)
        r = run("layout", "make", model, "--tp", "2", "--pp", "2", "--to", form, "-o", file)
        r = run("reshard", model, "--target-layout", file, "-o", ranks)
        check(form, r.returncode == 0, r.stderr)
        os.remove(os.path.join(ranks, "layout.json"))
        for place in (os.path.join(ranks, "strategy"), os.path.join(base, "job", "strategy")):
            os.makedirs(place)
            shutil.copy(file, place)
            out, r = convert(ranks, "--drop", "adam_*")
            check(form, r.returncode == 0, r.stderr)
            inside = place.startswith(ranks)
            check(form + " that is left out is named", ("strategy/" + name in r.stderr) == inside, r.stderr)
            opens(form, out, lean)
            out, r = convert(ranks)
            check("nothing changed", os.path.exists(os.path.join(out, "strategy")) == inside, r.stderr)
            check("nothing changed", joined(out)[0] == tensors, r.stderr)
            shutil.rmtree(place)
        shutil.rmtree(ranks)


def patterns(base):
    model, ranks, file = (os.path.join(base, n) for n in ("model", "ranks", "layout.json"))
    tensors = made(model)
    layout = {
        "format": "safetensors-layout",
        "version": 1,
        "mesh": {"axes": {"tp": 2}},
        "tensors": [
            {"pattern": "*q_proj.weight", "cuts": ["tp", None]},
            {"module": "mlp.up_proj", "style": "colwise"},
            {"pattern": "q*", "cuts": [None, "tp"]},
        ],
    }
    with open(file, "w") as f:
        json.dump(layout, f)
    r = run("reshard", model, "--target-layout", file, "-o", ranks)
    shutil.copy(file, ranks)
    check("patterns", r.returncode == 0, r.stderr)
    new = {Q: "q", "model.layers.0.mlp.up_proj.weight": "q.up", "lm_head.weight": "q.head"}
    out, r = convert(
        ranks, "--drop", "adam_*", *(x for n, m in new.items() for x in ("--rename", n + "=" + m))
    )
    check("patterns", r.returncode == 0, r.stderr)
    opens("patterns", out, {new.get(n, n): t for n, t in tensors.items() if not n.startswith("adam")})


def of_ranks(base):
    """A file whose name says another rank than its directory."""
    model, ranks = os.path.join(base, "model"), os.path.join(base, "ranks")
    tensors = made(model)
    name = "rank_{rank}/net_rank_{rank}-1_20.safetensors"
    for numbers in ("tp=2", "dp=2"):
        r = run("reshard", model, "--target-layout", numbers, "-o", ranks, "--name", name)
        check(numbers, r.returncode == 0 and joined(ranks)[0] == tensors, r.stderr)
        files = [os.path.join(ranks, "rank_%d" % i, "net_rank_%d-1_20.safetensors" % i) for i in (0, 1)]
        own = os.path.join(ranks, "rank_1", "net_rank_0-1_20.safetensors")
        shutil.move(files[1], files[1] + ".kept")
        shutil.copy(files[0], own)
        _, r = joined(ranks)
        said = (
            r.returncode == 1
            and "directory of rank 1" in r.stderr
            and "net_rank_0-1_20.safetensors" in r.stderr
        )
        check("rank 0's file in rank_1", said, r.stderr)
        os.remove(own)
        shutil.move(files[1] + ".kept", os.path.join(ranks, "rank_0", "net_rank_1-1_20.safetensors"))
        shutil.move(files[0], own)
        _, r = joined(ranks)
        check("directories exchanged", r.returncode == 1 and "rank 1's by its name" in r.stderr, r.stderr)
        shutil.rmtree(ranks)
    for other in ("rank_7b_rank_{rank}", "rank_test", "net{rank}", "my-rank_{rank}_3"):
        r = run(
            "reshard",
            model,
            "--target-layout",
            "tp=2",
            "-o",
            ranks,
            "--name",
            "rank_{rank}/%s.safetensors" % other,
        )
        check(other, r.returncode == 0 and joined(ranks)[0] == tensors, r.stderr)
        shutil.rmtree(ranks)


def numbered(base):
    """Names that end in a number: it is the rank's where some of them are."""
    model, ranks = os.path.join(base, "model"), os.path.join(base, "ranks")
    tensors = made(model)

    def named(layout, *files):
        """files: of each directory the rank whose file is put there, and what it is called."""
        shutil.rmtree(ranks, ignore_errors=True)
        r = run(
            "reshard",
            model,
            "--target-layout",
            layout,
            "-o",
            ranks,
            "--name",
            "rank_{rank}/net{rank}.safetensors",
        )
        check("net{rank}", r.returncode == 0, r.stderr)
        for rank, (of, name) in enumerate(files):
            shutil.move(
                os.path.join(ranks, "rank_%d" % of, "net%d.safetensors" % of),
                os.path.join(ranks, "of_%d" % rank),
            )
        for rank, (of, name) in enumerate(files):
            shutil.move(
                os.path.join(ranks, "of_%d" % rank),
                os.path.join(ranks, "rank_%d" % rank, name + ".safetensors"),
            )
        return joined(ranks)

    for stem in ("net", "net_", "a_7b_"):
        _, r = named("tp=2", (1, stem + "1"), (0, stem + "0"))
        said = "directory of rank 0" in r.stderr and stem + "1.safetensors, which is rank 1's by" in r.stderr
        check("directories exchanged, %sN" % stem, r.returncode == 1 and said, r.stderr)
        got, r = named("tp=2", (0, stem + "5"), (1, stem + "5"))
        check("one number for all, %s5" % stem, got == tensors, r.stderr)
        got, r = named("tp=2", (0, stem + "20240102"), (1, stem + "20240103"))
        check("numbers that are no ranks, %s" % stem, got == tensors, r.stderr)
        got, r = named("tp=2", (0, stem + "0"), (1, stem + "1"))
        check("%sN" % stem, got == tensors, r.stderr)
    _, r = named("dp=2,tp=2", (0, "net0"), (1, "net1"), (2, "net2"), (3, "net3"))
    check("four ranks", r.returncode == 0, r.stderr)
    shutil.copy(os.path.join(ranks, "rank_1", "net1.safetensors"), os.path.join(ranks, "rank_2"))
    os.remove(os.path.join(ranks, "rank_2", "net2.safetensors"))
    _, r = joined(ranks)
    check(
        "another's file",
        r.returncode == 1 and "directory of rank 2 has net1.safetensors" in r.stderr,
        r.stderr,
    )
    shutil.rmtree(os.path.join(ranks, "rank_2"))
    got, r = joined(ranks)
    check("a rank that is gone", got == tensors, r.stderr)


def over_its_own(base):
    """One file over one of those that are read, by whatever way: the others would be a model no more."""
    model, ranks, link = (os.path.join(base, n) for n in ("model", "ranks", "link"))
    made(model)
    r = run("reshard", model, "--target-layout", "tp=2", "-o", ranks)
    before = {n: ffi.read_file(os.path.join(ranks, n, "model.safetensors")) for n in ("rank_0", "rank_1")}
    os.symlink(ranks, link)
    for place in (ranks, link):
        for rank in before:
            out = os.path.join(place, rank, "model.safetensors")
            for more in ((), ("-f",), ("-f", "--select", "model.*")):
                for command in (("join",), ("slice", "--layout", "tp=1", "-k", "0")):
                    r = run(*command, ranks, "-o", out, *more)
                    said = r.returncode == 2 and "is one of the files that are read" in r.stderr
                    check("%s over %s" % (command[0], out), said, r.stderr)
    after = {n: ffi.read_file(os.path.join(ranks, n, "model.safetensors")) for n in before}
    check("nothing is written", before == after)
    r = run(
        "join", os.path.join(model, "model.safetensors"), "-o", os.path.join(model, "model.safetensors"), "-f"
    )
    check("a model that is one file", r.returncode == 0, r.stderr)


def names(base):
    """reshard --name: what would not be opened again is not written."""
    model, ranks = os.path.join(base, "model"), os.path.join(base, "ranks")
    made(model)
    for name in ("rank_{rank}/x", "rank_{rank}/meta.json", "rank_{rank}/layout.json", "rank_{rank}/x.ckpt",
                 "rank_{rank}/.x.safetensors", "rank_{rank}/n_rank_0.safetensors", "x{rank}",
                 "rank_{rank}/x-{rank}_1.safetensors", "rank_{rank}/x-{rank}_{rank}.safetensors"):  # fmt: skip
        r = run("reshard", model, "--target-layout", "tp=2", "-o", ranks, "--name", name)
        check("--name " + name, r.returncode == 2 and "--name" in r.stderr and name in r.stderr, r.stderr)
        check("--name %s: nothing is written" % name, os.listdir(base) == ["model"], os.listdir(base))
    for name in ("rank_{rank}/x-1_{rank}.safetensors", "rank_{rank}/x-1_2.safetensors"):
        r = run("reshard", model, "--target-layout", "tp=2", "-o", ranks, "--name", name)
        check("--name " + name, r.returncode == 0 and joined(ranks)[0] is not None, r.stderr)
        shutil.rmtree(ranks)
        os.remove(os.path.join(base, "joined.safetensors"))


def unmatched(base):
    """Every tensor that no rule matches is named with its nearest rule."""
    file, out, back = (os.path.join(base, n + ".safetensors") for n in ("model", "out", "back"))
    tensors = {"model.layers.%d.self_attn.q_prj.weight" % i: whole([2, 2], i) for i in range(32)}
    tensors["adam_m.model.norm.weight"] = whole([2])
    ffi.write_file(file, {**tensors, "model.norm.weight": whole([2])})
    for source, target, options in ((file, out, ()), (out, back, ("--reverse-names",))):
        r = run("join", source, "-o", target, "--names", "llama-mindformers", "--json", *options)
        lines = [x for x in r.stderr.split("\n") if "no rule matches" in x]
        check(
            "20 sentences",
            r.returncode == 0 and len(lines) == 21 and "13 more tensors" in lines[-1],
            r.stderr,
        )
        check("with the nearest", all("(the nearest is for " in x for x in lines[:-1]), r.stderr)
        told = {x["name"]: x["nearest"] for x in json.loads(r.stdout)["names_unmatched"]}
        check("all in --json", sorted(told) == sorted(tensors), r.stdout)
        check("and nearest", all("q_proj" in told[n] for n in told if "q_prj" in n), r.stdout)
        check("of a state", ".norm" in told["adam_m.model.norm.weight"], r.stdout)
    for name, words in (
        ("LLAMA-MINDFORMERS", "the nearest are llama-mindformers"),
        ("phi", "these are llama-mindf"),
    ):
        r = run("join", file, "-o", back, "-f", "--names", name)
        check(name, r.returncode == 1 and words in r.stderr, r.stderr)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--tool", required=True)
    spaces.TOOL = os.path.abspath(p.parse_args().tool)
    for group in (layouts, strategies, patterns, of_ranks, numbered, over_its_own, names, unmatched):
        base = tempfile.mkdtemp(prefix="sft-rank-faults-")
        group(base)
        shutil.rmtree(base)
    for fault in spaces.FAULTS:
        print("FAILED:", fault)
    print("%d checks, %d failed" % (spaces.DONE, len(spaces.FAULTS)))
    return 1 if spaces.FAULTS else 0


if __name__ == "__main__":
    sys.exit(main())
