#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""plan_peer.py --tool TOOL - layouts out of numbers against transformers' own plans (tp_plan): a small model of each family is
made by transformers, and each of its parameters must be cut along the dimension that the plan's style cuts (asked of
transformers itself), or be whole. What differs by design is listed here with its reason, and must differ. Then
save_pretrained's files of each model are cut and joined, byte for byte. Prints the counts; exit 1 on any difference.
"""

import argparse
import fnmatch
import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(os.path.dirname(HERE), "layout")]
import ffi  # noqa: E402

SMALL = {
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "vocab_size": 128,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
}
MOE = {"num_experts": 4, "num_local_experts": 4, "moe_intermediate_size": 40, "num_experts_per_tok": 2}
LATENT = {
    **MOE,
    "n_routed_experts": 4,
    "n_group": 1,
    "topk_group": 1,
    "first_k_dense_replace": 1,
    "num_key_value_heads": 8,
    "q_lora_rank": 16,
    "kv_lora_rank": 16,
    "qk_rope_head_dim": 8,
    "qk_nope_head_dim": 8,
    "v_head_dim": 8,
}
HEAD = {"head_dim": 8}
FAMILIES = {
    "llama": {"tie_word_embeddings": False, "attention_bias": True, "mlp_bias": True},
    "qwen2": {"tie_word_embeddings": True},
    "qwen3": {**HEAD, "tie_word_embeddings": False},
    "qwen3_moe": {**HEAD, **MOE},
    "mixtral": MOE,
    "deepseek_v3": LATENT,
    "glm4": {**HEAD, "attention_bias": True, "tie_word_embeddings": False},
    "gemma": HEAD,
    "gemma2": HEAD,
    "mistral": {},
    "phi": {"partial_rotary_factor": 0.5},
    "phi3": {},
}

# By design; (family, parameter): why. Ours is what follows.
DIFFERENT = {
    (
        "deepseek_v3",
        "*.self_attn.q_b_proj.weight",
    ): "the plan leaves attention whole, MindFormers and Megatron cut it: 0",
    ("deepseek_v3", "*.self_attn.kv_b_proj.weight"): "the same: 0",
    ("deepseek_v3", "*.self_attn.o_proj.weight"): "the same: 1",
    (
        "glm4",
        "*.mlp.gate_up_proj.weight",
    ): "the plan cuts across gate and up, and gathers them again: 0 in 2 blocks",
    ("phi3", "*.mlp.gate_up_proj.weight"): "the same: 0 in 2 blocks",
    (
        "phi3",
        "*.self_attn.qkv_proj.weight",
    ): "the plan cuts across heads, and gathers them again: 0 in 3 blocks",
}


def cut_of(entry):
    """ "0", "1 in 2 blocks" or "whole" of an entry of layout.json."""
    for dim, cut in enumerate(entry["cuts"]):
        if cut is None:
            continue
        blocks = cut.get("blocks") if isinstance(cut, dict) else None
        count = len(blocks) if isinstance(blocks, list) else blocks
        return "%d in %d blocks" % (dim, count) if count else str(dim)
    return "whole"


def wanted(peer, style, name, dims):
    """The same of the plan's style."""
    if style is None:
        return "whole"
    placement = peer.of(style, name.rsplit(".", 1)[-1], dims)
    if placement is None or not hasattr(placement, "dim") or placement.is_replicate():
        return "whole"
    dim = placement.dim % dims
    return "%d in 2 blocks" % dim if "packed" in style else str(dim)


def is_whole_norm(name):
    return name.endswith(("norm.weight", "norm.bias"))


def make(family):
    import torch
    import transformers

    config = transformers.AutoConfig.for_model(family, **{**SMALL, **FAMILIES[family]})
    torch.manual_seed(0)
    return transformers.AutoModelForCausalLM.from_config(config)


def compare(tool, family, model, folder, peer, tell):
    from transformers.distributed.parallel_utils import _get_parameter_plan

    os.makedirs(folder)
    names = dict(model.named_parameters())  # tied ones once
    ffi.write_file(
        os.path.join(folder, "model.safetensors"),
        {n: ("F32", tuple(t.shape), t.detach().numpy().tobytes()) for n, t in names.items()},
    )
    model.config.save_pretrained(folder)
    r = subprocess.run([tool, "layout", "make", folder, "--tp", "2"], capture_output=True, text=True)
    if r.returncode != 0:
        tell(family, r.stderr)
        return 0, 0
    entries = {e["name"]: e for e in json.loads(r.stdout)["tensors"]}
    explained = 0
    for name, t in names.items():
        style = _get_parameter_plan(name, model.tp_plan)
        want, got = wanted(peer, style, name, t.dim()), cut_of(entries[name])
        why = [w for (f, p), w in DIFFERENT.items() if f == family and fnmatch.fnmatch(name, p)]
        if why and (want == got or not why[0].endswith(": " + got)):
            tell(family, "%s: %s, transformers %s (%s)" % (name, got, want, why[0]))
        elif not why and want != got:
            tell(family, "%s: %s, transformers %s (%s)" % (name, got, want, style))
        explained += bool(why)
    return len(names), explained


def there_and_back(tool, family, model, tmp, tell):
    """Files as save_pretrained writes them."""
    folder, ranks, joined = (
        os.path.join(tmp, family + part) for part in ("_saved", "_ranks", "_joined.safetensors")
    )
    model.save_pretrained(folder)
    for text in ("dp=1,tp=4", "dp=2,tp=2,pp=2"):
        for command in (
            ["reshard", folder, "--target-layout", text, "-o", ranks, "--force"],
            ["join", ranks, "-o", joined, "--force"],
            ["diff", os.path.join(folder, "model.safetensors"), joined],
        ):
            r = subprocess.run([tool, *command], capture_output=True, text=True)
            if r.returncode != 0:
                tell(family, "%s: %s: %s%s" % (text, command[0], r.stdout[:200], r.stderr))
                return


def main():
    import transformers_peer

    p = argparse.ArgumentParser()
    p.add_argument("--tool", required=True)
    tool = os.path.abspath(p.parse_args().tool)
    peer = transformers_peer.Placements()
    faults, parameters, explained = [], 0, 0

    def tell(family, what):
        faults.append("%s: %s" % (family, what))

    with tempfile.TemporaryDirectory() as tmp:
        for family in FAMILIES:
            model = make(family)
            n, by_design = compare(tool, family, model, os.path.join(tmp, family), peer, tell)
            parameters, explained = parameters + n, explained + by_design
            there_and_back(tool, family, model, tmp, tell)
    for fault in faults[:20]:
        print(fault)
    print(
        "plans of transformers: %d families, %d parameters, %d differ by design, %d wrong"
        % (len(FAMILIES), parameters, explained, len(faults))
    )
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
