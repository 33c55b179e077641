#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""mindformers_layout_peer.py --tool TOOL --wheel WHEEL [--count N] [--seed S] - layouts out of numbers against MindFormers 2.1:

  stages       LayerSetting itself (its class alone, which needs numpy) gives each layer its stage, for random numbers of layers,
               stages, runs and offsets; what it refuses must be refused
  parameters   the class that gpt_layer_specs and moe_module_specs give each module, and the axis_fragmentations that this
               class's sharded_state_dict, or the layouts that its shard(), names for weight and bias

Nothing of the wheel is imported: whole packages want an accelerator's release of MindSpore. Prints the counts; exit 1 on any
difference.
"""

import argparse
import ast
import json
import os
import random
import subprocess
import sys
import tempfile
import types
import zipfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import ffi  # noqa: E402

CORE = "mindformers/parallel_core/training_graph/"


def parsed(wheel, path):
    with zipfile.ZipFile(wheel) as z:
        return ast.parse(z.read(path))


def classes(tree):
    return {n.name: n for n in tree.body if isinstance(n, ast.ClassDef)}


def method(cls, name):
    return next((n for n in cls.body if isinstance(n, ast.FunctionDef) and n.name == name), None)


# ---------------------------------------------------------------- stages


def layer_setting(wheel):
    """(layers, pp, vpp, offset) -> the stage of each layer, by MindFormers' own class; ValueError: refused."""
    import numpy as np

    cls = classes(parsed(wheel, CORE + "transformer/utils.py"))["LayerSetting"]
    context = {"pipeline_interleave": True, "pipeline_scheduler": "1f1b"}
    quiet = types.SimpleNamespace(info=lambda *a: None, warning=lambda *a: None)
    names = {
        "np": np,
        "ms": types.SimpleNamespace(get_auto_parallel_context=context.__getitem__),
        "logger": quiet,
        "is_legacy_model": lambda: True,
    }
    exec(compile(ast.Module([cls], []), "LayerSetting", "exec"), names)  # their arithmetic is the oracle
    swap = types.SimpleNamespace(swap=False)

    def stages(layers, pp, vpp, offset):
        config = types.SimpleNamespace(
            pipeline_stage=pp, gradient_aggregation_group=1, swap=swap, recompute=True
        )
        return [int(i) for i in names["LayerSetting"](layers, offset, config, vpp).pp_ids]

    return stages


def model_of(folder, layers):
    os.makedirs(folder, exist_ok=True)
    names = ["decoder.layers.%d.input_layernorm.weight" % i for i in range(layers)]
    ffi.write_file(os.path.join(folder, "model.safetensors"), {n: ("U8", (1,), b"x") for n in names})
    with open(os.path.join(folder, "config.json"), "w") as f:
        json.dump({"num_hidden_layers": layers}, f)


def ours(tool, folder, text):
    """The stage of each layer; None: refused."""
    out = os.path.join(folder, "layout.txt")
    with open(out, "w") as f:
        f.write(text)
    r = subprocess.run(
        [tool, "layout", "make", folder, "--parallel-config", out], capture_output=True, text=True
    )
    os.remove(out)
    if r.returncode != 0:
        return None
    found = json.loads(r.stdout)
    first = {name: m.get("first_rank", 0) for name, m in found.get("meshes", {}).items()}
    return [first[e["mesh"]] if "mesh" in e else 0 for e in found["tensors"]]


def compare_stages(tool, wheel, rng, count, tmp, faults):
    stages = layer_setting(wheel)
    done, refused = 0, 0
    for _ in range(count):
        pp, vpp = rng.randint(1, 5), rng.choice((1, 1, 2, 3))
        runs = pp * vpp
        layers = rng.randint(runs, 4 * runs + 3)
        rest = layers % runs
        offset = [0] * runs
        for _ in range(rest):
            offset[rng.randrange(runs)] += 1
        if rng.random() < 0.3 and runs > 1:
            a, b = rng.sample(range(runs), 2)
            offset[a] += 1
            offset[b] -= 1
        if rng.random() < 0.2:
            offset[rng.randrange(runs)] += rng.choice((1, -1))
        rows = [offset[i * pp : i * pp + pp] for i in range(vpp)]
        given = 0 if not any(offset) else (rows[0] if vpp == 1 else rows)
        try:
            want = stages(layers, pp, vpp, given)
        except ValueError:
            want = None
        folder = os.path.join(tmp, "layers_%d" % layers)
        model_of(folder, layers)
        text = "dp=1,pp=%d,vpp=%d" % (pp, vpp)
        if given != 0:
            text += ",offset=" + "/".join(":".join(map(str, row)) for row in rows)
        got = ours(tool, folder, text)
        if runs == 1 and any(offset):
            continue  # MindFormers does not look at the offset of one stage
        done, refused = done + 1, refused + (want is None)
        if got != want:
            faults.append("%d layers, %s: %s, MindFormers %s" % (layers, text, got, want))
    return done, refused


# ---------------------------------------------------------------- parameters


def specs(wheel):
    """{module: names of classes}, of all specs"""
    found = {}
    for path in ("base_models/gpt/gpt_layer_specs.py", "base_models/gpt/moe_module_specs.py"):
        for call in ast.walk(parsed(wheel, CORE + path)):
            if not isinstance(call, ast.Call):
                continue
            where = getattr(call.func, "id", "")
            for keyword in call.keywords:
                if keyword.arg and keyword.arg.startswith("linear_") and isinstance(keyword.value, ast.Name):
                    found.setdefault((where, path, keyword.arg), set()).add(keyword.value.id)
    return found


def weight_cut(wheel, name):
    """The dimension of a weight that the class fragments by tp; None: none."""
    all_classes = classes(parsed(wheel, CORE + "tensor_parallel/layers.py"))
    cuts = []
    for node in ast.walk(method(all_classes[name], "sharded_state_dict")):
        if not isinstance(node, (ast.Assign, ast.keyword)):
            continue
        target = node.targets[0] if isinstance(node, ast.Assign) else node
        named = "axis_fragmentations" in (getattr(target, "arg", ""), getattr(target, "id", ""))
        if named and len(getattr(node.value, "elts", ())) == 2:
            cuts.append([not isinstance(e, ast.Constant) for e in node.value.elts])
    return next((c.index(True) for c in cuts if any(c)), None)


def bias_cut(wheel, name):
    """The same of a bias, in the layouts of shard(): the third that the forward function with bias takes."""
    all_classes = classes(parsed(wheel, CORE + "tensor_parallel/layers.py"))
    for node in ast.walk(method(all_classes[name], "shard")):
        if (
            isinstance(node, ast.keyword)
            and node.arg == "in_strategy"
            and len(getattr(node.value, "elts", ())) >= 3
        ):
            bias = node.value.elts[2]
            if isinstance(bias, ast.Call) and len(bias.args) == 1:
                return 0 if ast.literal_eval(bias.args[0]) == "tp" else None
    raise ValueError(name)


# Of ours; (class of submodules, module): the parameter.
PARAMETERS = {
    ("SelfAttentionSubmodules", "linear_qkv"): "self_attention.linear_qkv",
    ("SelfAttentionSubmodules", "linear_proj"): "self_attention.linear_proj",
    ("MLASelfAttentionSubmodules", "linear_q_proj"): "self_attention.linear_q_proj",
    ("MLASelfAttentionSubmodules", "linear_q_down_proj"): "self_attention.linear_q_down_proj",
    ("MLASelfAttentionSubmodules", "linear_q_up_proj"): "self_attention.linear_q_up_proj",
    ("MLASelfAttentionSubmodules", "linear_kv_down_proj"): "self_attention.linear_kv_down_proj",
    ("MLASelfAttentionSubmodules", "linear_kv_up_proj"): "self_attention.linear_kv_up_proj",
    ("MLASelfAttentionSubmodules", "linear_proj"): "self_attention.linear_proj",
    ("MLASelfAttentionSubmodulesConcatenated", "linear_qkv"): "self_attention.linear_qkv",
    ("MLASelfAttentionSubmodulesConcatenated", "linear_qb"): "self_attention.linear_qb",
    ("MLASelfAttentionSubmodulesConcatenated", "linear_kvb"): "self_attention.linear_kvb",
    ("MLASelfAttentionSubmodulesConcatenated", "linear_proj"): "self_attention.linear_proj",
    ("MLPSubmodules", "linear_fc1"): "mlp.linear_fc1",
    ("MLPSubmodules", "linear_fc2"): "mlp.linear_fc2",
}


def compare_parameters(tool, wheel, tmp, faults):
    wanted = {}
    for (where, path, module), names in specs(wheel).items():
        ours_is = PARAMETERS.get((where, module))
        if ours_is is None:
            continue
        if "moe" in path:
            ours_is = ours_is.replace("mlp.", "mlp.shared_experts.")
        group = where if where.startswith("MLA") else "rest"
        for name in names:
            for leaf, cut in (("weight", weight_cut(wheel, name)), ("bias", bias_cut(wheel, name))):
                wanted.setdefault(group, {})["decoder.layers.0.%s.%s" % (ours_is, leaf)] = cut
    wanted["rest"]["embedding.word_embeddings.weight"] = weight_cut(wheel, "VocabParallelEmbedding")
    wanted["rest"]["output_layer.weight"] = weight_cut(wheel, "ColumnParallelLinear")
    done = 0
    for group, cuts in wanted.items():
        folder = os.path.join(tmp, group)
        model_of(folder, 1)
        shapes = {n: (64, 64) if n.endswith("weight") else (64,) for n in cuts}
        tensors = {n: ("U8", s, bytes(64 ** len(s))) for n, s in shapes.items()}
        ffi.write_file(os.path.join(folder, "model.safetensors"), tensors)
        with open(os.path.join(folder, "config.json"), "w") as f:
            json.dump({"num_hidden_layers": 1, "num_attention_heads": 8}, f)
        r = subprocess.run([tool, "layout", "make", folder, "--tp", "4"], capture_output=True, text=True)
        if r.returncode != 0:
            faults.append("%s: %s" % (group, r.stderr))
            continue
        for entry in json.loads(r.stdout)["tensors"]:
            got = next((i for i, cut in enumerate(entry["cuts"]) if cut is not None), None)
            done += 1
            if got != cuts[entry["name"]]:
                faults.append("%s %s: %s, MindFormers %s" % (group, entry["name"], got, cuts[entry["name"]]))
    return done


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--tool", required=True)
    p.add_argument("--wheel", required=True)
    p.add_argument("--count", type=int, default=600)
    p.add_argument("--seed", type=int, default=1)
    a = p.parse_args()
    tool, faults = os.path.abspath(a.tool), []
    with tempfile.TemporaryDirectory() as tmp:
        done, refused = compare_stages(tool, a.wheel, random.Random(a.seed), a.count, tmp, faults)
        parameters = compare_parameters(tool, a.wheel, tmp, faults)
    for fault in faults[:20]:
        print(fault)
    print(
        "layouts of MindFormers: %d pipelines (%d refused by both), %d parameters, %d different"
        % (done, refused, parameters, len(faults))
    )
    if refused < done // 20 or parameters < 20:
        print("too little was compared")
        return 1
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
