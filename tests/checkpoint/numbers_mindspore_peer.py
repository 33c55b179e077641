#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""numbers_mindspore_peer.py --tool TOOL [--count N] [--seed S] - strategies out of numbers against MindSpore itself: random
families, dp, tp, pp, virtual stages and optimizer sharding; the model is cut by `reshard` with the numbers of one, MindSpore's
transform_checkpoints makes the ranks of another out of them by the two strategies that `layout make` wrote, and each tensor of
each rank must have the bytes that `reshard` gives it. Its unified_safetensors makes the model of the first ranks, and its
load_distributed_checkpoint the ranks of a single stage out of complete weights that `join --unified` wrote: the same bytes again. Faults of MindSpore 2.10 that are kept out of it: it writes arrays that are
not contiguous (a tensor that is cut along columns, and put together of nothing else) as they lie in memory; it wants numbers of
devices that divide one another, and more than one in a stage; and it leaves tied embeddings out of the last stage's ranks where
they must be put together (counted). Prints the counts; exit 1 on any difference.
"""

import argparse
import os
import random
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import ffi  # noqa: E402
import from_numbers  # noqa: E402


def pick(rng):
    pp = rng.choice((1, 1, 2, 4))
    vpp = 2 if pp == 2 and rng.random() < 0.3 else 1
    optimizer = rng.random() < 0.5
    return from_numbers.numbers(
        dp=rng.choice((1, 2, 4)) if pp == 1 else 2,
        tp=rng.choice((1, 2, 4)),
        pp=pp,
        vpp=vpp,
        offset=[1, -1] if pp == 2 and vpp == 1 and rng.random() < 0.3 else None,
        vocab=rng.random() < 0.7,
        optimizer=optimizer,
        threshold=rng.choice((0, 1000, 5000)) if optimizer else 0,
    )


class Tool:
    def __init__(self, path):
        self.path = path

    def __call__(self, *args):
        r = subprocess.run([self.path, *args], capture_output=True, text=True)
        if r.returncode != 0:
            raise ValueError("%s: %s" % (args[0], r.stderr))


def cut(tool, model, p, folder):
    """The ranks' files by reshard, and the strategy."""
    with open(folder + ".txt", "w") as f:
        f.write(from_numbers.text(p))
    strategy = folder + ".ckpt"
    tool(
        "layout",
        "make",
        model.folder,
        "--parallel-config",
        folder + ".txt",
        "--to",
        "strategy",
        "-o",
        strategy,
    )
    tool("reshard", model.folder, "--target-layout", from_numbers.text(p), "-o", folder)
    return strategy


def tensors_of(folder):
    out = {}
    for name in os.listdir(folder):
        if name.endswith(".safetensors"):
            out.update(ffi.read_file(os.path.join(folder, name))[0])
    return out


def whole_and_parts(tool, ms, model, strategies, target, tmp):
    """By unified_safetensors and load_distributed_checkpoint: what differs, and how many ranks the second made."""
    here, there = os.path.join(tmp, "source"), os.path.join(tmp, "target")
    unified, complete, loaded = (os.path.join(tmp, n) for n in ("unified", "complete", "loaded"))
    ms.unified_safetensors(here, strategies[0], unified, max_process_num=1)
    got = tensors_of(unified)
    wrong = ["unified: %s" % n for n in {*got, *model.tensors} if got.get(n) != model.tensors.get(n)]
    tool("join", here, "--layout", strategies[0], "--unified", "-o", complete)
    if target["pp"] > 1:  # its predict_strategy is of one stage
        return wrong, 0
    ms.load_distributed_checkpoint(
        None, predict_strategy=strategies[1], format="safetensors", unified_safetensors_dir=complete,
        dst_safetensors_dir=loaded, max_process_num=1)  # fmt: skip
    ranks = target["dp"] * target["tp"]
    for rank in range(ranks):
        want, got = (
            tensors_of(os.path.join(there, "rank_%d" % rank)),
            tensors_of(os.path.join(loaded, "rank_%d" % rank)),
        )
        wrong += ["loaded, rank %d: %s" % (rank, n) for n in {*want, *got} if want.get(n) != got.get(n)]
    return wrong, ranks


def case(tool, ms, model, source, target, tmp):
    """Names of tensors that differ, how many tied ones MindSpore left out, and how many ranks it loaded."""
    here, there, theirs = (os.path.join(tmp, n) for n in ("source", "target", "theirs"))
    strategies = cut(tool, model, source, here), cut(tool, model, target, there)
    ranks = [p["dp"] * p["tp"] * p["pp"] for p in (source, target)]
    for rank in range(ranks[0]):
        os.rename(
            os.path.join(here, "rank_%d" % rank, "model.safetensors"),
            os.path.join(here, "rank_%d" % rank, "x_rank_%d.safetensors" % rank),
        )
    os.remove(os.path.join(here, "layout.json"))
    ms.transform_checkpoints(here, theirs, "y", *strategies, output_format="safetensors")
    wrong, lost = [], 0
    for rank in range(ranks[1]):
        want, _ = ffi.read_file(os.path.join(there, "rank_%d" % rank, "model.safetensors"))
        got, _ = ffi.read_file(os.path.join(theirs, "rank_%d" % rank, "y%d.safetensors" % rank))
        for name in {*want, *got}:
            if name not in got and model.tied and "embed" in name and target["pp"] > 1:
                lost += 1
            elif want.get(name) != got.get(name):
                wrong.append("rank %d: %s" % (rank, name))
    more, loaded = whole_and_parts(tool, ms, model, strategies, target, tmp)
    return wrong + more, lost, loaded


def main():
    import mindspore
    import numpy
    from mindspore.parallel import transform_safetensors

    theirs = transform_safetensors.save_file

    def save_contiguous(tensors, *more, **how):
        theirs({n: numpy.ascontiguousarray(t) for n, t in tensors.items()}, *more, **how)

    transform_safetensors.save_file = save_contiguous
    said = os.fdopen(os.dup(1), "w")  # MindSpore's processes draw bars
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    p = argparse.ArgumentParser()
    p.add_argument("--tool", required=True)
    p.add_argument("--count", type=int, default=40)
    p.add_argument("--seed", type=int, default=1)
    a = p.parse_args()
    tool, rng = Tool(os.path.abspath(a.tool)), random.Random(a.seed)
    families = [f for f in from_numbers.FAMILIES if f not in from_numbers.BLOCKS]
    faults, sharded, left_out, loaded = [], 0, 0, 0
    with tempfile.TemporaryDirectory() as tmp:
        models = {f: from_numbers.Model(f, os.path.join(tmp, f)) for f in families}
        for i in range(a.count):
            family, source, target = rng.choice(families), pick(rng), pick(rng)
            sharded += source["optimizer"] or target["optimizer"]
            work = os.path.join(tmp, "case")
            os.makedirs(work)
            try:
                wrong, lost, made = case(tool, mindspore, models[family], source, target, work)
            except Exception as e:  # of theirs, too: each is a difference
                wrong, lost, made = ["%s: %s" % (type(e).__name__, str(e)[:300])], 0, 0
            left_out += lost
            loaded += made
            if wrong:
                faults.append(
                    "case %d, %s, %s to %s: %s"
                    % (i, family, from_numbers.text(source), from_numbers.text(target), wrong[:2])
                )
            shutil.rmtree(work)
    for fault in faults[:20]:
        print(fault, file=said)
    print(
        "strategies of numbers: %d cases, %d with optimizer sharding, %d ranks loaded, %d tied embeddings that MindSpore leaves out, %d different"
        % (a.count, sharded, loaded, left_out, len(faults)),
        file=said,
    )
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
