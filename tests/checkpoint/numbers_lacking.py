#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""numbers_lacking.py --tool TOOL - ranks that numbers (dp=2,tp=2,pp=2) cut and of which whole stages, or groups of experts, are
gone: what `slice --partial` gives each rank of other numbers is what from_numbers.py calculates of the tensors that are there, and
the layers that are gone are named; where the number of layers cannot be known it is refused. Standard library only.
"""

import argparse
import json
import os
import shutil
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import ffi  # noqa: E402
import from_numbers  # noqa: E402
import spaces  # noqa: E402
from from_numbers import Model, numbers, part, text  # noqa: E402
from spaces import check, run  # noqa: E402


def ranks_of(p):
    return p["dp"] * p["tp"] * p["cp"] * p["pp"]


def cut(model, p, out, gone, config):
    """Ranks without those that are gone. config: more of it, or None for none at all."""
    from_numbers.cut_into(model, text(p), out, config)
    for rank in gone:
        shutil.rmtree(os.path.join(out, "rank_%d" % rank))


def there(model, p, gone):
    """Names that the ranks which are left hold."""
    left = [r for r in range(ranks_of(p)) if r not in gone]
    return {n for n in model.tensors if any(part(model, n, p, r) is not None for r in left)}


def slices(what, model, source, gone, out, target, *more):
    """(rank, what it got or None, standard error) of each rank of the target."""
    file = os.path.join(out, "part.safetensors")
    for rank in range(ranks_of(target)):
        r = run("slice", out, "--source-layout", text(source), "--layout", text(target), "-k", str(rank), "--partial", "-o", file,
                "--force", *more)  # fmt: skip
        check(what, r.returncode in (0, 1), r.stderr)
        yield rank, ffi.read_file(file)[0] if r.returncode == 0 else None, r.stderr


def every_part_is_right(model, source, gone, out, target, config, *more):
    what = "%s %s without %s, as %s, config %s:" % (
        os.path.basename(model.folder), text(source), gone, text(target), config)  # fmt: skip
    cut(model, source, out, gone, config)
    names = there(model, source, gone)
    for rank, got, said in slices(what, model, source, gone, out, target, *more):
        want = {n: part(model, n, target, rank) for n in names}
        want = {n: t for n, t in want.items() if t is not None}
        if want:
            check(what, got == want, "rank %d: %s %s" % (rank, sorted({*want} ^ {*(got or {})})[:3], said))
        else:
            check(what, got is None and "nothing is written" in said, "rank %d: %s" % (rank, said))


def refused(model, source, gone, out, target, config, *words):
    what = "%s without %s, as %s, must be refused:" % (text(source), gone, text(target))
    cut(model, source, out, gone, config)
    for _, got, said in slices(what, model, source, gone, out, target):
        check(what, got is None and all(w in said for w in words), said)
    r = run("reshard", out, "--source-layout", text(source), "--target-layout", text(target), "--partial",
            "-o", out + "_no")  # fmt: skip
    check(what, r.returncode == 1 and not os.path.exists(out + "_no"), r.stderr)


def stages(tmp):
    out = os.path.join(tmp, "ranks")
    untied = {"tie_word_embeddings": False}
    llama, tied = Model("llama", os.path.join(tmp, "llama")), Model("qwen2", os.path.join(tmp, "qwen2"))
    two, four = numbers(tp=2, pp=2), numbers(pp=4)
    for target in (numbers(pp=2), numbers(tp=2, pp=4), numbers(pp=2, vpp=2), numbers(tp=4)):
        every_part_is_right(llama, two, [2, 3], out, target, untied)
        every_part_is_right(llama, two, [0, 1], out, target, untied)
        every_part_is_right(llama, two, [0, 1], out, target, {})
        every_part_is_right(tied, two, [2, 3], out, target, {})
        every_part_is_right(tied, two, [0, 1], out, target, {})
        for gone in ([1], [1, 2], [0, 2]):
            every_part_is_right(llama, four, gone, out, target, {})
            # The last stage is there, which has the last layer; heads are known to none without config.json.
            if target["tp"] == 1:
                every_part_is_right(llama, four, gone, out, target, None)
    for source, gone in ((two, [2, 3]), (four, [3]), (four, [1, 3])):
        refused(llama, source, gone, out, numbers(pp=2), None, "how many layers", "num_hidden_layers")
        every_part_is_right(llama, source, gone, out, numbers(dp=2), None)
    config = os.path.join(tmp, "given.json")
    with open(config, "w") as f:
        json.dump({**llama.config, **untied}, f)
    every_part_is_right(llama, two, [2, 3], out, numbers(pp=2), None, "--config", config)
    # Names and choices between the two do not hide what is gone.
    cut(llama, two, out, [2, 3], None)
    for more in (("--select", "model.*"), ("--names", "qwen3-mindformers")):
        for _, got, said in slices("layers that are gone:", llama, two, [2, 3], out, numbers(pp=2), *more):
            check("layers that are gone, %s:" % more[0], got is None and "how many layers" in said, said)
    # What is gone is named, and counted.
    cut(llama, two, out, [2, 3], untied)
    r = run(
        "join", out, "--layout", text(two), "--partial", "-o", os.path.join(out, "j.safetensors"), "--json"
    )
    said = all('"model.layers.%d.*" is left out' % n in r.stderr for n in (2, 3)) and "stage 1" in r.stderr
    check("layers that are gone are named:", r.returncode == 0 and said, r.stderr)
    check("and counted:", json.loads(r.stdout).get("tensors_left_out") == 2, r.stdout)


def ties(tmp):
    """Whether the last stage has the embeddings, too, its own files would say."""
    out = os.path.join(tmp, "ranks")
    model, source, target = Model("llama", os.path.join(tmp, "ties")), numbers(pp=2), numbers(pp=4)
    cut(model, source, out, [1], {})
    for rank, got, said in slices("ties:", model, source, [1], out, target):
        want = {n: part(model, n, target, rank) for n in there(model, source, [1])}
        want = {n: t for n, t in want.items() if t is not None}
        good = got == want if want else got is None
        check("ties, rank %d:" % rank, good and (rank != 3 or "tie_word_embeddings" in said), said)


def experts(tmp):
    out = os.path.join(tmp, "ranks")
    for family in ("qwen3_moe", "mixtral"):
        model, source = Model(family, os.path.join(tmp, family)), numbers(dp=4, ep=4)
        for gone in ([3], [0, 2]):
            for config in (None, {}):
                every_part_is_right(model, source, gone, out, numbers(dp=2, ep=2), config)
    # Without the router nothing counts them.
    cut(model, source, out, [2, 3], None)
    for _, got, said in slices(
        "experts:", model, source, [2, 3], out, numbers(dp=2, ep=2), "--drop", "*.gate.weight"
    ):
        check("experts that nothing counts:", got is None and "how many experts" in said, said)


def by_layout(tmp):
    """A layout.json names all tensors: what is gone is known by name."""
    out = os.path.join(tmp, "ranks")
    model, source, target = Model("llama", os.path.join(tmp, "named")), numbers(pp=2), numbers(pp=2)
    shutil.rmtree(out, ignore_errors=True)
    r = run("reshard", model.folder, "--target-layout", text(source), "-o", out)
    check("a layout.json:", r.returncode == 0, r.stderr)
    shutil.rmtree(os.path.join(out, "rank_1"))
    file = os.path.join(tmp, "part.safetensors")
    for more in ((), ("--drop", "model.norm.weight")):
        r = run("slice", out, "--layout", text(target), "-k", "0", "--partial", "-o", file, "--force", *more)
        got = ffi.read_file(file)[0] if r.returncode == 0 else None
        want = {n: t for n in model.tensors if (t := part(model, n, target, 0)) is not None}
        check("named by a layout.json:", got == want, r.stderr)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--tool", required=True)
    spaces.TOOL = os.path.abspath(p.parse_args().tool)
    with tempfile.TemporaryDirectory() as tmp:
        stages(tmp)
        ties(tmp)
        experts(tmp)
        by_layout(tmp)
    for fault in spaces.FAULTS[:20]:
        print(fault)
    print("numbers of ranks that are gone: %d checks, %d wrong" % (spaces.DONE, len(spaces.FAULTS)))
    return 1 if spaces.FAULTS else 0


if __name__ == "__main__":
    sys.exit(main())
