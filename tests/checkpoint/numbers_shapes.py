#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""numbers_shapes.py --tool TOOL - ranks of which a part is cut otherwise than the numbers (dp=2,tp=2) say, as where the optimizer
alone is sharded among replicas (ZeRO-1): tensors that go together have shapes that do, or it is refused with both; and stages
without layers. Standard library only.
"""

import argparse
import os
import re
import shutil
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import ffi  # noqa: E402
import from_numbers  # noqa: E402
import spaces  # noqa: E402
from from_numbers import Model, accepted, contradicted, cut_into, product, take  # noqa: E402
from spaces import check, run  # noqa: E402

STATES = ("adam_m.", "adam_v.")


def half(tensor, which):
    """Rows of it, if they divide."""
    rows = tensor[1][0]
    return take(tensor, 0, [(rows // 2 * which, rows // 2 * (which + 1))]) if rows % 2 == 0 else tensor


def change(out, ranks, what):
    """what(name, tensor, rank): another tensor."""
    for rank in range(ranks):
        file = os.path.join(out, "rank_%d" % rank, "model.safetensors")
        tensors, metadata = ffi.read_file(file)
        ffi.write_file(file, {n: what(n, t, rank) for n, t in tensors.items()}, metadata)


def states(tmp):
    out = os.path.join(tmp, "ranks")
    for family in ("llama", "qwen3_moe", "deepseek_v3", "mindformers2"):
        model = Model(family, os.path.join(tmp, family), STATES)
        for numbers_text, ranks, tp in (("dp=2", 2, 1), ("dp=2,tp=2", 4, 2)):
            for config in (None, {}):
                cut_into(model, numbers_text, out, config)
                accepted("states beside their parameters", out, numbers_text, model.tensors)
                change(
                    out, ranks, lambda n, t, r, tp=tp: half(t, r // tp) if n.startswith("adam") else t
                )  # ZeRO-1
                contradicted(out, numbers_text, 'tensor "adam_', "its parameter", "--optimizer-parallel")
    model = Model("llama", os.path.join(tmp, "other"), STATES)
    cut_into(model, "tp=2", out, {})
    change(out, 2, lambda n, t, r: model.tensors[n] if n.startswith("adam") else t)
    name = "adam_m.lm_head.weight"
    contradicted(out, "tp=2", name, "[128, 48]", "[64, 48]", 'parameter "lm_head.weight"')
    cut_into(model, "tp=2", out, {})
    change(out, 2, lambda n, t, r: (t[0], t[1][::-1], t[2]) if n.startswith("adam") else t)  # transposed
    contradicted(out, "tp=2", name, "its parameter")
    # Replicas that were removed: the state and its parameter are of different ranks.
    for rule in ("mindspore", "balanced"):
        shutil.rmtree(out)
        r = run("reshard", model.folder, "--target-layout", "dp=2,tp=2", "-o", out)
        lean = out + "_" + rule
        r = run("dedupe", out, "-o", lean, "--rule", rule)
        check("dedupe:", r.returncode == 0, r.stderr)
        for file in ("layout.json", "dedupe.json"):
            os.remove(os.path.join(lean, file))
        accepted("states without replicas", lean, "dp=2,tp=2", model.tensors)
        change(lean, 4, lambda n, t, r: half(t, 0) if n.startswith("adam") else t)
        contradicted(lean, "dp=2,tp=2", 'tensor "adam_', "its parameter")
    # States alone, and single numbers beside parameters, contradict nothing.
    cut_into(model, "dp=2", out, None)
    for rank in range(2):
        file = os.path.join(out, "rank_%d" % rank, "model.safetensors")
        tensors, metadata = ffi.read_file(file)
        ffi.write_file(file, {n: t for n, t in tensors.items() if n.startswith("adam")}, metadata)
    want = {n: t for n, t in model.tensors.items() if n.startswith("adam")}
    accepted("states alone", out, "dp=2", want)
    # A model of its own.
    odd = {n: half(t, 0) if n == name else t for n, t in model.tensors.items()}
    ffi.write_file(os.path.join(model.folder, "model.safetensors"), odd)
    from_numbers.refused(model.folder, "tp=2", name, "[32, 48]", "[64, 48]")


def whole_ones(tmp):
    """Norms, biases and experts' rows that are cut in halves."""
    out = os.path.join(tmp, "ranks")
    for family, pattern, more in (
        ("llama", r"norm", {"hidden_size": 48}),
        ("llama", r"layers\.3\.post_attention_layernorm", {}),
        ("llama", r"model\.norm", {}),
        ("mindformers1", r"norm", {}),
        ("mindformers2", r"final_layernorm", {}),
        ("phi", r"\.bias$", {}),
        ("phi", r"(dense|fc2)\.bias$", {}),
        ("phi", r"fc1\.bias$", {}),
        ("qwen2", r"q_proj\.bias$", {}),
        ("mixtral", r"\.experts\.", {}),
        ("qwen3_moe", r"\.experts\.", {"moe_intermediate_size": from_numbers.INNER}),
    ):
        folder = os.path.join(tmp, "%s_%d" % (family, product(map(ord, pattern)) % 9973))
        model = Model(family, folder)
        for config in (None, more):
            cut_into(model, "dp=2", out, config)
            accepted("what is whole", out, "dp=2", model.tensors)
            change(out, 2, lambda n, t, r, p=pattern: half(t, r) if re.search(p, n) else t)
            contradicted(out, "dp=2", "tensor ")
    # Heads have norms of their own size, and others' models are not known.
    model = Model("qwen3", os.path.join(tmp, "qwen3"))
    for config in (None, {}, {"model_type": "another", "hidden_size": 40}):
        cut_into(model, "tp=2", out, config)
        accepted("norms of heads", out, "tp=2", model.tensors)


def empty_ends(tmp):
    """Stages without layers: the first and the last one have something else, and those between nothing."""
    llama, tied = Model("llama", os.path.join(tmp, "ends")), Model("qwen2", os.path.join(tmp, "ends_tied"))
    for model in (llama, tied):
        for pp, offset in ((2, [2, -2]), (2, [-2, 2]), (4, [-1, 1, 1, -1])):
            from_numbers.there_and_back(model, from_numbers.numbers(tp=2, pp=pp, offset=offset), tmp)
    for text in (
        "pp=4,offset=1:-1:1:-1",
        "pp=4,offset=0:1:-1:0",
        "pp=2,offset=3:-3",
        "pp=2,vpp=2,offset=1:-1/0:0",
    ):
        from_numbers.refused(llama.folder, text, "4 layers", "without layers")


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--tool", required=True)
    spaces.TOOL = os.path.abspath(p.parse_args().tool)
    with tempfile.TemporaryDirectory() as tmp:
        states(tmp)
        whole_ones(tmp)
        empty_ends(tmp)
    for fault in spaces.FAULTS[:20]:
        print(fault)
    print("shapes of ranks: %d checks, %d wrong" % (spaces.DONE, len(spaces.FAULTS)))
    return 1 if spaces.FAULTS else 0


if __name__ == "__main__":
    sys.exit(main())
