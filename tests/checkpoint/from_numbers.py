#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""from_numbers.py --tool TOOL - layouts out of numbers alone (dp=2,tp=4,pp=2): small models of every family that the rules know
are cut by `reshard`, each file of a rank compared with boxes that are calculated here, joined by the same numbers alone,
and compared with the model, byte for byte; the same through MindSpore's strategy; and what must be refused, with the
numbers and the name. Standard library only.
"""

import argparse
import json
import os
import random
import re
import shutil
import struct
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import ffi  # noqa: E402
import spaces  # noqa: E402
from spaces import check, run  # noqa: E402

# ---------------------------------------------------------------- models

HIDDEN, INNER, HEADS, KEYS, HD, VOCAB, LAYERS, EXPERTS = 48, 96, 8, 4, 8, 64, 4, 4
BASE = {
    "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS,
    "num_key_value_heads": KEYS,
    "hidden_size": HIDDEN,
    "head_dim": HD,
    "vocab_size": VOCAB,
    "intermediate_size": INNER,
}
Q, KV = HEADS * HD, KEYS * HD

# What a tensor is: its shape, and how tensor parallelism cuts it. None: whole; a number: this dimension; (dimension, sizes):
# this dimension, each of the segments by itself. "vocabulary": dimension 0, unless vocab-parallel=no; "pipeline": only
# where there are stages, too.
ATTENTION = {
    "self_attn.q_proj.weight": ((Q, HIDDEN), 0),
    "self_attn.k_proj.weight": ((KV, HIDDEN), 0),
    "self_attn.v_proj.weight": ((KV, HIDDEN), 0),
    "self_attn.o_proj.weight": ((HIDDEN, Q), 1),
}
BIASES = {
    "self_attn.q_proj.bias": ((Q,), 0),
    "self_attn.k_proj.bias": ((KV,), 0),
    "self_attn.v_proj.bias": ((KV,), 0),
}
MLP = {
    "mlp.gate_proj.weight": ((INNER, HIDDEN), 0),
    "mlp.up_proj.weight": ((INNER, HIDDEN), 0),
    "mlp.down_proj.weight": ((HIDDEN, INNER), 1),
}
HEAD_NORMS = {"self_attn.q_norm.weight": ((HD,), None), "self_attn.k_norm.weight": ((HD,), None)}
NORMS = {"input_layernorm.weight": ((HIDDEN,), None), "post_attention_layernorm.weight": ((HIDDEN,), None)}
MORE_NORMS = {
    "pre_feedforward_layernorm.weight": ((HIDDEN,), None),
    "post_feedforward_layernorm.weight": ((HIDDEN,), None),
}
LATENT = {
    "self_attn.q_a_proj.weight": ((16, HIDDEN), None),
    "self_attn.q_a_layernorm.weight": ((16,), None),
    "self_attn.q_b_proj.weight": ((Q, 16), 0),
    "self_attn.kv_a_proj_with_mqa.weight": ((20, HIDDEN), None),
    "self_attn.kv_a_layernorm.weight": ((16,), None),
    "self_attn.kv_b_proj.weight": ((2 * Q, 16), 0),
    "self_attn.o_proj.weight": ((HIDDEN, Q), 1),
}


def experts(pattern, gate, up, down):
    out = {}
    for e in range(EXPERTS):
        out[pattern % e + gate] = ((INNER, HIDDEN), 0)
        out[pattern % e + up] = ((INNER, HIDDEN), 0)
        out[pattern % e + down] = ((HIDDEN, INNER), 1)
    return out


EXPERT_LAYER = {
    "mlp.gate.weight": ((EXPERTS, HIDDEN), None),
    **experts("mlp.experts.%d.", "gate_proj.weight", "up_proj.weight", "down_proj.weight"),
}
ENDS = {
    "model.embed_tokens.weight": ((VOCAB, HIDDEN), "vocabulary"),
    "model.norm.weight": ((HIDDEN,), None),
    "lm_head.weight": ((VOCAB, HIDDEN), "vocabulary"),
}
TIED = {k: v for k, v in ENDS.items() if k != "lm_head.weight"}
LAYER1 = {
    "attention.wo.weight": ((HIDDEN, Q), 1),
    "feed_forward.w2.weight": ((HIDDEN, INNER), 1),
    "attention_norm.weight": ((HIDDEN,), None),
    "ffn_norm.weight": ((HIDDEN,), None),
}
ENDS1 = {
    "model.tok_embeddings.embedding_weight": ((VOCAB, HIDDEN), "pipeline"),
    "model.norm_out.weight": ((HIDDEN,), None),
    "lm_head.weight": ((VOCAB, HIDDEN), "pipeline"),
}
CORE_ENDS = {
    "embedding.word_embeddings.weight": ((VOCAB, HIDDEN), "vocabulary"),
    "decoder.final_layernorm.weight": ((HIDDEN,), None),
    "output_layer.weight": ((VOCAB, HIDDEN), "vocabulary"),
}
FUSED = {
    "self_attn.qkv_proj.weight": ((Q + 2 * KV, HIDDEN), (0, (Q, KV, KV))),
    "self_attn.o_proj.weight": ((HIDDEN, Q), 1),
    "mlp.gate_up_proj.weight": ((2 * INNER, HIDDEN), (0, (INNER, INNER))),
    "mlp.down_proj.weight": ((HIDDEN, INNER), 1),
}
CORE_NORMS = {"input_layernorm.weight": ((HIDDEN,), None), "pre_mlp_layernorm.weight": ((HIDDEN,), None)}
CORE_EXPERTS = {
    "mlp.router.weight": ((EXPERTS, HIDDEN), None),
    "mlp.router.expert_bias": ((EXPERTS,), None),
    **experts("mlp.experts.%d.", "gating.weight", "hidden.weight", "linear_fc2.weight"),
    "mlp.shared_experts.linear_fc1.weight": ((2 * INNER, HIDDEN), None),
    "mlp.shared_experts.linear_fc2.weight": ((HIDDEN, INNER), None),
}

# name: (config, prefix of layers, a layer, what is outside)
FAMILIES = {
    "llama": ({}, "model.layers.%d.", {**ATTENTION, **MLP, **NORMS}, ENDS),
    "qwen2": (
        {"tie_word_embeddings": True},
        "model.layers.%d.",
        {**ATTENTION, **BIASES, **MLP, **NORMS},
        TIED,
    ),
    "qwen3": ({}, "model.layers.%d.", {**ATTENTION, **HEAD_NORMS, **MLP, **NORMS}, ENDS),
    "qwen3_moe": (
        {"num_experts": EXPERTS},
        "model.layers.%d.",
        {**ATTENTION, **HEAD_NORMS, **EXPERT_LAYER, **NORMS},
        ENDS,
    ),
    "stacked": (
        {"num_experts": EXPERTS},
        "model.layers.%d.",
        {
            **ATTENTION,
            **NORMS,
            "mlp.gate.weight": ((EXPERTS, HIDDEN), None),
            "mlp.experts.gate_up_proj": ((EXPERTS, 2 * INNER, HIDDEN), (1, (INNER, INNER))),
            "mlp.experts.down_proj": ((EXPERTS, HIDDEN, INNER), 2),
        },
        ENDS,
    ),
    "mixtral": (
        {"num_local_experts": EXPERTS},
        "model.layers.%d.",
        {
            **ATTENTION,
            **NORMS,
            "block_sparse_moe.gate.weight": ((EXPERTS, HIDDEN), None),
            **experts("block_sparse_moe.experts.%d.", "w1.weight", "w3.weight", "w2.weight"),
        },
        ENDS,
    ),
    "deepseek_v3": (
        {"n_routed_experts": EXPERTS, "num_key_value_heads": HEADS},
        "model.layers.%d.",
        {
            **LATENT,
            **EXPERT_LAYER,
            **NORMS,
            "mlp.gate.e_score_correction_bias": ((EXPERTS,), None),
            "mlp.shared_experts.gate_proj.weight": ((INNER, HIDDEN), 0),
            "mlp.shared_experts.up_proj.weight": ((INNER, HIDDEN), 0),
            "mlp.shared_experts.down_proj.weight": ((HIDDEN, INNER), 1),
        },
        ENDS,
    ),
    "glm4": (
        {},
        "model.layers.%d.",
        {
            **ATTENTION,
            **BIASES,
            **NORMS,
            "mlp.gate_up_proj.weight": FUSED["mlp.gate_up_proj.weight"],
            "mlp.down_proj.weight": ((HIDDEN, INNER), 1),
            "post_self_attn_layernorm.weight": ((HIDDEN,), None),
            "post_mlp_layernorm.weight": ((HIDDEN,), None),
        },
        ENDS,
    ),
    "phi3": ({}, "model.layers.%d.", {**FUSED, **NORMS}, ENDS),
    "phi": (
        {},
        "model.layers.%d.",
        {
            **{k: v for k, v in ATTENTION.items() if "o_proj" not in k},
            **BIASES,
            "self_attn.dense.weight": ((HIDDEN, Q), 1),
            "self_attn.dense.bias": ((HIDDEN,), None),
            "mlp.fc1.weight": ((INNER, HIDDEN), 0),
            "mlp.fc1.bias": ((INNER,), 0),
            "mlp.fc2.weight": ((HIDDEN, INNER), 1),
            "mlp.fc2.bias": ((HIDDEN,), None),
            "input_layernorm.weight": ((HIDDEN,), None),
            "input_layernorm.bias": ((HIDDEN,), None),
        },
        {
            "model.embed_tokens.weight": ((VOCAB, HIDDEN), "vocabulary"),
            "model.final_layernorm.weight": ((HIDDEN,), None),
            "lm_head.weight": ((VOCAB, HIDDEN), "vocabulary"),
            "lm_head.bias": ((VOCAB,), "vocabulary"),
        },
    ),
    "gemma2": ({}, "model.layers.%d.", {**ATTENTION, **MLP, **NORMS, **MORE_NORMS}, TIED),
    "telechat2": (
        {"num_hidden_layers": None, "n_layer": LAYERS, "num_attention_heads": None, "n_head": HEADS},
        "transformer.h.%d.",
        {
            "self_attention.query.weight": ((Q, HIDDEN), 0),
            "self_attention.key_value.weight": ((2 * KV, HIDDEN), 0),
            "self_attention.dense.weight": ((HIDDEN, Q), 1),
            "self_attention.dense.bias": ((HIDDEN,), None),
            **MLP,
            **NORMS,
        },
        {
            "transformer.word_embeddings.weight": ((VOCAB, HIDDEN), "vocabulary"),
            "transformer.ln_f.weight": ((HIDDEN,), None),
            "lm_head.weight": ((VOCAB, HIDDEN), "vocabulary"),
        },
    ),
    "mindformers1": (
        {},
        "model.layers.%d.",
        {
            "attention.wq.weight": ((Q, HIDDEN), 0),
            "attention.wk.weight": ((KV, HIDDEN), 0),
            "attention.wv.weight": ((KV, HIDDEN), 0),
            "attention.wq.bias": ((Q,), 0),
            "feed_forward.w1.weight": ((INNER, HIDDEN), 0),
            "feed_forward.w3.weight": ((INNER, HIDDEN), 0),
            **LAYER1,
        },
        ENDS1,
    ),
    "mindformers1_fused": (
        {},
        "model.layers.%d.",
        {
            "attention.w_qkv.weight": ((Q + 2 * KV, HIDDEN), 0),
            "feed_forward.w_gate_hidden.weight": ((2 * INNER, HIDDEN), 0),
            **LAYER1,
        },
        ENDS1,
    ),
    "mindformers2": (
        {},
        "decoder.layers.%d.",
        {
            "self_attention.linear_qkv.weight": ((Q + 2 * KV, HIDDEN), 0),
            "self_attention.linear_qkv.bias": ((Q + 2 * KV,), 0),
            "self_attention.linear_proj.weight": ((HIDDEN, Q), 1),
            "self_attention.q_layernorm.weight": ((HD,), None),
            "mlp.linear_fc1.weight": ((2 * INNER, HIDDEN), 0),
            "mlp.linear_fc2.weight": ((HIDDEN, INNER), 1),
            **CORE_NORMS,
        },
        CORE_ENDS,
    ),
    "mindformers2_glm4": (
        {},
        "decoder.layers.%d.",
        {
            "self_attention.linear_q.weight": ((Q, HIDDEN), 0),
            "self_attention.linear_k.weight": ((KV, HIDDEN), 0),
            "self_attention.linear_v.weight": ((KV, HIDDEN), 0),
            "self_attention.linear_proj.weight": ((HIDDEN, Q), 1),
            "mlp.linear_fc1.weight": FUSED["mlp.gate_up_proj.weight"],
            "mlp.linear_fc2.weight": ((HIDDEN, INNER), 1),
            "post_self_attn_layernorm.weight": ((HIDDEN,), None),
            "post_mlp_layernorm.weight": ((HIDDEN,), None),
            **CORE_NORMS,
        },
        CORE_ENDS,
    ),
    "mindformers2_latent": (
        {"num_experts": EXPERTS, "num_key_value_heads": HEADS},
        "decoder.layers.%d.",
        {
            "self_attention.linear_qkv.weight": ((36, HIDDEN), None),
            "self_attention.q_layernorm.weight": ((16,), None),
            "self_attention.linear_qb.weight": ((Q, 16), 0),
            "self_attention.linear_kvb.weight": ((2 * Q, 16), 0),
            "self_attention.linear_proj.weight": ((HIDDEN, Q), 1),
            "mlp.linear_fc1.weight": ((2 * INNER, HIDDEN), 0),
            "mlp.linear_fc2.weight": ((HIDDEN, INNER), 1),
            "mlp.experts.weight1": ((EXPERTS * HIDDEN, 2 * INNER), None),
            "mlp.experts.weight2": ((EXPERTS * INNER, HIDDEN), None),
            **CORE_NORMS,
        },
        CORE_ENDS,
    ),
    "mindformers2_moe": (
        {"num_experts": EXPERTS, "num_key_value_heads": HEADS},
        "decoder.layers.%d.",
        {
            "self_attention.linear_q_down_proj.weight": ((16, HIDDEN), None),
            "self_attention.linear_q_up_proj.weight": ((Q, 16), 0),
            "self_attention.linear_kv_down_proj.weight": ((20, HIDDEN), None),
            "self_attention.linear_kv_up_proj.weight": ((2 * Q, 16), 0),
            "self_attention.kv_layernorm.weight": ((16,), None),
            "self_attention.linear_proj.weight": ((HIDDEN, Q), 1),
            **CORE_EXPERTS,
            **CORE_NORMS,
        },
        CORE_ENDS,
    ),
}
STATES = (
    "adam_m.",
    "adam_v.",
    "max_exp_avg_sq.",
    "muon_m.",
    "vhat.",
    "lamb_m.",
    "lamb_v.",
    "accum.",
    "stat.",
)
LAST = re.compile(r"(norm|norm_out|final_layernorm|ln_f|lm_head|output_layer)\.(weight|bias)$")
# Of these a strategy cannot speak: parts of parts.
BLOCKS = ("phi3", "glm4", "mindformers2_glm4", "stacked")


def product(values):
    n = 1
    for v in values:
        n *= v
    return n


class Model:
    def __init__(self, family, folder, states=()):
        config, prefix, layer, ends = FAMILIES[family]
        self.config = {k: v for k, v in {**BASE, **config}.items() if v is not None}
        self.what = {}  # name: (shape, cut, layer or None)
        for name, (shape, cut) in ends.items():
            self.what[name] = (shape, cut, None)
        for i in range(LAYERS):
            for name, (shape, cut) in layer.items():
                self.what[prefix % i + name] = (shape, cut, i)
        for name, what in list(self.what.items()):
            self.what.update({state + name: what for state in states})
        rng = random.Random(family)
        self.tensors = {n: ("U16", s, rng.randbytes(2 * product(s))) for n, (s, _, _) in self.what.items()}
        self.tied = not any("lm_head" in n or "output_layer" in n for n in self.what)
        self.folder = folder
        os.makedirs(folder)
        ffi.write_file(os.path.join(folder, "model.safetensors"), self.tensors)
        with open(os.path.join(folder, "config.json"), "w") as f:
            json.dump(self.config, f)


# ---------------------------------------------------------------- the oracle


def take(tensor, dim, ranges):
    """Indices of one dimension."""
    dtype, shape, data = tensor
    inner = 2 * product(shape[dim + 1 :])
    out = bytearray()
    for i in range(product(shape[:dim])):
        for a, b in ranges:
            out += data[(i * shape[dim] + a) * inner : (i * shape[dim] + b) * inner]
    return dtype, (*shape[:dim], sum(b - a for a, b in ranges), *shape[dim + 1 :]), bytes(out)


def ranges(size, cut, index, parts):
    """Of one dimension: [(begin, end)] of one of equal parts of each segment."""
    out, at = [], 0
    for n in cut[1] if isinstance(cut, tuple) else (size,):
        out.append((at + n // parts * index, at + n // parts * (index + 1)))
        at += n
    return out


def stage_of_layers(p):
    """The stage of each layer."""
    runs = p["pp"] * p["vpp"]
    sizes = [LAYERS // runs + (p["offset"][i] if p["offset"] else 0) for i in range(runs)]
    return [i % p["pp"] for i, n in enumerate(sizes) for _ in range(n)]


def part(model, name, p, rank):
    """What the rank holds of it; None: nothing."""
    shape, cut, layer = model.what[name]
    devices = p["dp"] * p["tp"] * p["cp"]
    stage, device = divmod(rank, devices)
    if layer is not None:
        here = stage_of_layers(p)[layer] == stage
    elif LAST.search(name):
        here = stage == p["pp"] - 1
    else:
        here = stage == 0 or (model.tied and stage == p["pp"] - 1)
    if not here:
        return None
    tensor = model.tensors[name]
    expert = re.search(r"experts\.(\d+)\.", name)
    if p["ep"] > 1 and expert:
        return tensor if int(expert.group(1)) // (EXPERTS // p["ep"]) == device % p["ep"] else None
    if p["ep"] > 1 and re.search(r"experts\.(gate_up_proj|down_proj|weight1|weight2)$", name):
        return take(tensor, 0, ranges(shape[0], 0, device % p["ep"], p["ep"]))
    if cut == "pipeline" and p["vocab"]:
        cut = 0 if p["pp"] > 1 else None
    if cut in ("vocabulary", "pipeline"):
        cut = 0 if p["vocab"] else None
    tp = device % p["tp"]
    if cut is not None:
        dim = cut[0] if isinstance(cut, tuple) else cut
        tensor = take(tensor, dim, ranges(shape[dim], cut, tp, p["tp"]))
    else:
        dim = None
    others = [i for i, axis in enumerate(("dp", "cp", "tp")) if p[axis] > 1 and (axis != "tp" or cut is None)]
    parts = product(p[("dp", "cp", "tp")[i]] for i in others)
    if (
        p["optimizer"]
        and parts > 1
        and tensor[1][0] % parts == 0
        and len(model.tensors[name][2]) >= p["threshold"]
    ):
        at = (device // p["tp"] // p["cp"], device // p["tp"] % p["cp"], tp)
        index = 0
        for i in others:
            index = index * p[("dp", "cp", "tp")[i]] + at[i]
        tensor = take(tensor, 0, ranges(tensor[1][0], 0, index, parts))
    return tensor


def text(p):
    out = ",".join("%s=%d" % (k, p[k]) for k in ("dp", "tp", "pp"))
    for k in ("cp", "ep", "vpp"):
        out += ",%s=%d" % (k, p[k]) if p[k] > 1 else ""
    out += ",offset=" + ":".join(map(str, p["offset"])) if p["offset"] else ""
    out += "" if p["vocab"] else ",vocab-parallel=no"
    return out + (",optimizer-parallel,optimizer-threshold=%d" % p["threshold"] if p["optimizer"] else "")


def numbers(**more):
    return {
        **{"dp": 1, "tp": 1, "pp": 1, "cp": 1, "ep": 1, "vpp": 1},
        **{"offset": None, "vocab": True, "optimizer": False, "threshold": 0},
        **more,
    }


# ---------------------------------------------------------------- there and back


def compare(what, model, p, out):
    for rank in range(p["dp"] * p["tp"] * p["cp"] * p["pp"]):
        got, _ = ffi.read_file(os.path.join(out, "rank_%d" % rank, "model.safetensors"))
        want = {n: t for n, t in ((n, part(model, n, p, rank)) for n in model.tensors) if t is not None}
        wrong = [n for n in {*want, *got} if want.get(n) != got.get(n)]
        check(what, not wrong, "rank %d: %s" % (rank, sorted(wrong)[:3]))


def there_and_back(model, p, tmp):
    what = "%s %s:" % (os.path.basename(model.folder), text(p))
    out, joined = os.path.join(tmp, "ranks"), os.path.join(tmp, "joined.safetensors")
    shutil.rmtree(out, ignore_errors=True)
    r = run("reshard", model.folder, "--target-layout", text(p), "-o", out)
    check(what, r.returncode == 0 and "warning" not in r.stderr, r.stderr)
    if r.returncode != 0:
        return
    compare(what, model, p, out)
    r = run("join", out, "-o", joined, "--force")
    check(
        what + " by layout.json,", r.returncode == 0 and ffi.read_file(joined)[0] == model.tensors, r.stderr
    )
    os.remove(os.path.join(out, "layout.json"))
    shutil.copy(os.path.join(model.folder, "config.json"), out)
    r = run("join", out, "-o", joined, "--force", "--layout", text(p))
    if p["optimizer"]:
        check(what, r.returncode != 0 and "optimizer" in r.stderr, r.stderr)
    else:
        check(
            what + " by numbers,", r.returncode == 0 and ffi.read_file(joined)[0] == model.tensors, r.stderr
        )


def by_strategy(model, p, tmp):
    what = "strategy of %s %s:" % (os.path.basename(model.folder), text(p))
    for form in ("strategy", "strategy-json"):
        file, out = os.path.join(tmp, "s." + form), os.path.join(tmp, "ranks_" + form)
        args = ["--%s=%d" % (k, p[k]) for k in ("dp", "tp", "pp", "cp", "ep", "vpp")]
        r = run("layout", "make", model.folder, *args, "--to", form, "-o", file, "--force")
        check(what, r.returncode == 0, r.stderr)
        shutil.rmtree(out, ignore_errors=True)
        r = run("reshard", model.folder, "--target-layout", file, "-o", out)
        check(what, r.returncode == 0, r.stderr)
        if r.returncode == 0:
            compare(what, model, p, out)


def families(tmp):
    for family in FAMILIES:
        model = Model(family, os.path.join(tmp, family), STATES if "mindformers" in family else ())
        for p in (
            numbers(tp=4),
            numbers(dp=2, tp=2, pp=2),
            numbers(tp=2, pp=4, vocab=False),
            numbers(tp=2, cp=2, pp=2, offset=[1, -1]),
            numbers(tp=2, pp=2, vpp=2),
            numbers(dp=2, tp=2, ep=2) if "experts" in str(FAMILIES[family][2]) else numbers(dp=3),
        ):
            there_and_back(model, p, tmp)
        if "fused" not in family and family not in BLOCKS:
            by_strategy(model, numbers(dp=2, tp=2, pp=2), tmp)
            there_and_back(model, numbers(dp=2, tp=2, pp=2, optimizer=True), tmp)
            there_and_back(model, numbers(dp=2, tp=2, cp=2, optimizer=True, threshold=4096), tmp)
    wide = Model("mixtral", os.path.join(tmp, "wide"))
    there_and_back(wide, numbers(dp=2, tp=2, ep=4), tmp)


# ---------------------------------------------------------------- what must be refused


def refused(folder, numbers_text, *words):
    r = run("reshard", folder, "--target-layout", numbers_text, "-o", folder + "_no")
    said = r.returncode not in (0, None) and r.returncode > 0 and all(w in r.stderr for w in words)
    check("%s must be refused:" % numbers_text, said and not os.path.exists(folder + "_no"), r.stderr)


def bad_input(tmp):
    folder = os.path.join(tmp, "bad")
    Model("llama", folder)
    key = "model.layers.0.self_attn.k_proj.weight"
    refused(folder, "dp=1,tp=8", key, "4 heads of keys and values (num_key_value_heads)", "tp 8")
    refused(folder, "dp=1,tp=3", "model.embed_tokens.weight", "size 64", "tp 3")
    refused(folder, "dp=1,tp=2,pp=5", "4 layers", "pp 5", "more stages than layers")
    refused(folder, "dp=1,pp=3", "4 layers", "pp 3", "offset=")
    refused(folder, "dp=1,pp=2,vpp=3", "4 layers", "pp 2", "vpp 3")
    refused(folder, "pp=2,offset=1:0", "4 layers", "offsets")
    refused(folder, "pp=4,offset=2:-1:-1:0", "4 layers", "without layers")
    refused(folder, "pp=2,offset=1:0:0", "3 offsets")
    refused(folder, "dp=2,tp=2,ep=3", "ep 3", "4 ranks of a stage")
    for wrong in ("dp=0", "dp=2,dp=2", "dp=2,tq=2", "dp=2,", "dp=2 ", "dp=99999999999", "dp=65536,tp=65536", "dp=2,offset=:",
                  "dp=1,pp=1,vocab-parallel=maybe"):  # fmt: skip
        refused(folder, wrong, "layout")
    os.remove(os.path.join(folder, "config.json"))
    refused(folder, "dp=1,tp=2", "num_attention_heads is not known", "q_proj")
    for config, words in (
        ("{", ["config.json"]),
        ('{"num_hidden_layers": -1}', ["num_hidden_layers"]),
        ('{"num_hidden_layers": 4.5}', ["num_hidden_layers"]),
        ('{"num_attention_heads": 99999999}', ["num_attention_heads"]),
    ):
        with open(os.path.join(folder, "config.json"), "w") as f:
            f.write(config)
        refused(folder, "dp=1,tp=2", *words)
    experts_of = os.path.join(tmp, "bad_experts")
    model = Model("mixtral", experts_of)
    refused(
        experts_of, "dp=3,ep=3", "4 experts", "ep 3", "model.layers.0.block_sparse_moe.experts.0.w1.weight"
    )
    refused(os.path.join(tmp, "stacked"), "dp=3,ep=3", "mlp.experts.gate_up_proj", "size 4", "ep 3")
    odd = dict(model.tensors)
    for name, shape in (
        ("model.layers.1.mystery.weight", (4, 4)),
        ("model.visual.conv", (2, 2)),
        ("a", (2,)),
        ("b", (3,)),
    ):
        odd[name] = ("U16", shape, bytes(2 * product(shape)))
    odd["global_step"] = ("U16", (1,), b"\1\0")
    ffi.write_file(os.path.join(experts_of, "model.safetensors"), odd)
    refused(experts_of, "dp=2", "no rule", "model.layers.1.mystery.weight", "model.visual.conv", "4 names")
    r = run("layout", "show", "dp=2,tp=2")
    check("numbers are no layout to show:", r.returncode != 0 and "layout make" in r.stderr, r.stderr)


# ---------------------------------------------------------------- numbers that the ranks do not bear out


def cut_into(model, numbers_text, out, config):
    shutil.rmtree(out, ignore_errors=True)
    r = run("reshard", model.folder, "--target-layout", numbers_text, "-o", out)
    check("to be contradicted:", r.returncode == 0, r.stderr)
    os.remove(os.path.join(out, "layout.json"))
    if config is not None:
        with open(os.path.join(out, "config.json"), "w") as f:
            json.dump({**model.config, **config}, f)


def contradicted(out, numbers_text, *words):
    joined = os.path.join(out, "joined.safetensors")
    if os.path.exists(joined):
        os.remove(joined)
    for more in ((), ("--partial",)):
        r = run("join", out, "--layout", numbers_text, "-o", joined, *more)
        said = r.returncode == 1 and all(w in r.stderr for w in words) and not os.path.exists(joined)
        check("%s are not what is there:" % numbers_text, said, "%r %s" % (words, r.stderr))


def accepted(what, out, numbers_text, want=None):
    joined = os.path.join(out, "joined.safetensors")
    r = run("join", out, "--layout", numbers_text, "-o", joined, "--force")
    same = r.returncode == 0 and (want is None or ffi.read_file(joined)[0] == want)
    check("%s, %s, must be taken:" % (what, numbers_text), same, r.stderr)


def in_any_order(tmp):
    """Numbers are numbers whichever comes first; where a file is called so, it is the file."""
    folder, made = os.path.join(tmp, "order"), []
    Model("llama", folder)
    items = [
        "vocab-parallel=no",
        "offset=1:-1",
        "optimizer-threshold=1",
        "optimizer-parallel",
        "tp=2",
        "pp=2",
    ]
    for i in range(len(items)):
        out = os.path.join(tmp, "order_%d.safetensors" % i)
        r = run("slice", folder, "--layout", ",".join(items[i:] + items[:i]), "--rank", "1", "-o", out)
        check("numbers in another order, %s first:" % items[i], r.returncode == 0, r.stderr)
        made.append(open(out, "rb").read() if r.returncode == 0 else i)
    check("are the same", made == made[:1] * len(items), "")
    name = os.path.join(tmp, "vocab-parallel=no,tp=2")
    for what, code in (("dp=2", 0), ("nothing", 1)):
        with open(name, "w") as f:
            f.write(what)
        layout, out = os.path.basename(name), name + ".safetensors"
        r = subprocess.run(
            [spaces.TOOL, "slice", folder, "--layout", layout, "--rank", "1", "-o", out],
            cwd=tmp, capture_output=True, text=True)  # fmt: skip
        check("a file that is called so:", r.returncode == code, r.stderr)
    os.remove(name)


def by_config(tmp):
    model, out = Model("llama", os.path.join(tmp, "whose")), os.path.join(tmp, "whose_ranks")
    whole, halves, quarters = "[128, 48]", "[32, 48]", "[16, 48]"
    cut_into(model, "dp=2", out, {})
    contradicted(out, "tp=2", whole, "[64, 48]", "vocab_size")
    left = {
        "vocab_size": None,
        "intermediate_size": INNER,
        "num_attention_heads": HEADS,
        "num_key_value_heads": KEYS,
    }
    for known, *words in (
        ("intermediate_size", "mlp.down_proj.weight", "[48, 192]", "[48, 96]"),
        ("num_attention_heads", "self_attn.o_proj.weight", "[48, 128]", "[48, 64]"),
        ("num_key_value_heads", "self_attn.k_proj.weight", "[64, 48]", "[32, 48]"),
    ):
        cut_into(model, "dp=2", out, {**{k: None for k in left}, known: left[known]})
        contradicted(out, "tp=2", known, *words)
    cut_into(model, "tp=2", out, {})
    contradicted(out, "dp=2", halves, "[64, 48]", "vocab_size")
    contradicted(out, "pp=2", halves, "[64, 48]", "vocab_size")
    cut_into(model, "tp=4", out, {})
    contradicted(out, "dp=2,tp=2", "[32, 48]", "[64, 48]", "vocab_size")
    contradicted(out, "dp=4", quarters, "[64, 48]", "vocab_size")
    cut_into(model, "tp=2,vocab-parallel=no", out, {})
    contradicted(out, "tp=2", whole, "[64, 48]", "vocab_size")
    accepted("vocabulary", out, "tp=2,vocab-parallel=no", model.tensors)
    cut_into(model, "tp=2", out, {"hidden_size": 64})
    contradicted(out, "tp=2", "[64, 48]", "[64, 64]", "hidden_size")
    cut_into(model, "tp=2", out, {"vocab_size": 60})
    accepted("a vocabulary that was filled up", out, "tp=2", model.tensors)
    for own, words in (
        (
            {"vocab_size": 7, "intermediate_size": 7},
            None,
        ),  # of a model that is not of ranks heads alone count
        ({"num_attention_heads": 4, "num_key_value_heads": 2}, ["[32, 48]", "num_attention_heads"]),
        ({"model_type": "qwen3", "head_dim": None}, None),
        ({"model_type": "llama", "head_dim": None}, ["config.json makes it"]),
    ):
        with open(os.path.join(model.folder, "config.json"), "w") as f:
            json.dump({**model.config, **own}, f)
        if words is not None:
            refused(model.folder, "tp=2", *words)
            continue
        r = run("layout", "make", model.folder, "--tp", "2", "-o", "-")
        check("%s in config.json of a model:" % own, r.returncode == 0, r.stderr)
    with open(os.path.join(model.folder, "config.json"), "w") as f:
        json.dump(model.config, f)
    for other in (
        {"model_type": "another", "hidden_size": 64, "intermediate_size": 7},
        {"intermediate_size": [1, 2]},
        {"head_dim": None, "hidden_size": 64, "kv_lora_rank": 4, "vocab_size": None, "model_type": "another"},
    ):
        cut_into(model, "tp=2", out, other)
        accepted("%s in config.json" % other, out, "tp=2", model.tensors)


def by_ranks(tmp):
    model, out = Model("llama", os.path.join(tmp, "which")), os.path.join(tmp, "which_ranks")
    for there, given, words in (
        ("tp=2,pp=2", "dp=4", ["replicas", "pipeline stages", "pp=2"]),
        ("dp=2,pp=2", "dp=4", ["replicas", "pipeline stages", "pp=2"]),
        ("pp=4", "dp=2,pp=2", ["replicas", "pp=4"]),
        ("tp=4", "dp=4", ["ranks 0 and 1 hold other values", "dp=4", "larger tp"]),
        ("tp=4", "dp=2,tp=2", ["ranks 0 and 2 hold other values"]),
        ("tp=2", "cp=2,dp=1", ["hold other values"]),
        ("dp=2", "tp=2", ["same values", "dp=2,tp=1"]),
        ("dp=4", "tp=4", ["same values", "dp=4,tp=1"]),
        ("dp=2,tp=2", "tp=4", ["same values", "dp=2,tp=2"]),
        ("dp=2,tp=2", "dp=4", ["hold other values"]),
        ("tp=2", "pp=2", ["ranks 0 and 1 have it", "a layer is of one"]),
        ("dp=2", "pp=2", ["a layer is of one"]),
        ("dp=2,tp=2", "tp=2,pp=2", ["a layer is of one"]),
    ):
        cut_into(model, there, out, None)
        contradicted(out, given, *words)
        accepted("its own numbers", out, there, model.tensors)


def honest(tmp):
    """Zeros, values that come again, replicas that drifted, replicas that were removed, a rank that is not there: no contradiction."""
    folder, out = os.path.join(tmp, "zeros"), os.path.join(tmp, "zeros_ranks")
    model = Model("llama", folder)
    zeros = {n: ("U16", s, bytes(2 * product(s))) for n, (_, s, _) in model.tensors.items()}
    ffi.write_file(os.path.join(folder, "model.safetensors"), zeros)
    cut_into(model, "tp=2", out, None)
    accepted("zeros", out, "tp=2", zeros)
    # Values that come again and again: with sizes of config.json everything must be the same to contradict.
    periodic = {
        n: ("U16", s, d if "embed" in n else (struct.pack("<4H", *range(4)) * product(s))[: 2 * product(s)])
        for n, (_, s, d) in model.tensors.items()
    }
    ffi.write_file(os.path.join(folder, "model.safetensors"), periodic)
    cut_into(model, "tp=2", out, None)
    contradicted(out, "tp=2", "same values")  # nobody can tell
    cut_into(model, "tp=2", out, {})
    accepted("values that come again and again, of the sizes of config.json", out, "tp=2", periodic)
    rng = random.Random(3)
    floats = {}
    for n, (_, s, _) in model.tensors.items():
        values = [rng.gauss(0, 0.02) for _ in range(product(s))]
        floats[n] = ("F32", s, struct.pack("<%df" % len(values), *values))
    ffi.write_file(os.path.join(folder, "model.safetensors"), floats)
    cut_into(model, "dp=2,tp=2", out, None)
    for rank in (2, 3):
        file = os.path.join(out, "rank_%d" % rank, "model.safetensors")
        tensors, metadata = ffi.read_file(file)
        for n, (_, s, data) in tensors.items():
            values = struct.unpack("<%df" % product(s), data)
            tensors[n] = ("F32", s, struct.pack("<%df" % len(values), *(v * 1.01 + 1e-9 for v in values)))
        ffi.write_file(file, tensors, metadata)
    accepted("replicas that drifted", out, "dp=2,tp=2")
    contradicted(out, "tp=4", "same values", "dp=2,tp=2")
    cut_into(model, "tp=4", out, None)
    contradicted(out, "dp=2,tp=2", "hold other values")
    drifted(folder, model, out)
    ffi.write_file(os.path.join(folder, "model.safetensors"), floats)
    cut_into(model, "dp=2,tp=2,pp=2", out, None)
    shutil.rmtree(os.path.join(out, "rank_2"))
    accepted("a replica that is not there", out, "dp=2,tp=2,pp=2", floats)
    shutil.rmtree(out)
    r = run("reshard", folder, "--target-layout", "dp=2,tp=2,pp=2", "-o", out)
    for rule in ("mindspore", "balanced"):
        lean = out + "_" + rule
        r = run("dedupe", out, "-o", lean, "--rule", rule)
        check("dedupe:", r.returncode == 0, r.stderr)
        os.remove(os.path.join(lean, "layout.json"))
        accepted("ranks without replicas", lean, "dp=2,tp=2,pp=2", floats)
        os.remove(os.path.join(lean, "dedupe.json"))
        accepted("ranks without replicas and their list", lean, "dp=2,tp=2,pp=2", floats)


def drifted(folder, model, out):
    """Replicas whose values are off by their last bit, of other types."""
    rng = random.Random(4)
    for dtype, width, make in (
        ("F64", 8, lambda: struct.pack("<d", rng.gauss(0, 0.02))),
        ("F8_E4M3", 1, lambda: bytes([rng.randrange(16, 112) | rng.randrange(2) << 7])),
        ("F8_E5M2", 1, lambda: bytes([rng.randrange(16, 120) | rng.randrange(2) << 7])),
    ):
        tensors = {
            n: (dtype, s, b"".join(make() for _ in range(product(s))))
            for n, (_, s, _) in model.tensors.items()
        }
        ffi.write_file(os.path.join(folder, "model.safetensors"), tensors)
        cut_into(model, "dp=2", out, None)
        change(out, 1, lambda n, s, d, w=width: bytes(b ^ (i % w == 0) for i, b in enumerate(d)))
        accepted("replicas of %s that drifted" % dtype, out, "dp=2", None)
        cut_into(model, "tp=2", out, None)
        contradicted(out, "dp=2", "hold other values")


def change(out, rank, what):
    file = os.path.join(out, "rank_%d" % rank, "model.safetensors")
    tensors, metadata = ffi.read_file(file)
    ffi.write_file(file, {n: (t, s, what(n, s, d)) for n, (t, s, d) in tensors.items()}, metadata)


def one_kind(tmp):
    """Of every family each kind of tensor (a name without its layer and expert) that is cut, whole on every rank instead, and the
    others cut: refused with its name, with a config.json and without one. What is cut as it should be is taken."""
    out = os.path.join(tmp, "kinds_ranks")
    for family in FAMILIES:
        model = Model(family, os.path.join(tmp, "kinds_" + family))
        needed = family in ("phi3", "stacked")
        kinds = {}
        for name, (_, cut, _) in model.what.items():
            if cut is not None and cut != "pipeline":
                kinds.setdefault(re.sub(r"^.*\.\d+\.", "", name), []).append(name)
        for config in ({},) if needed else (None, {}):
            cut_into(model, "tp=2", out, config)
            accepted(family, out, "tp=2", model.tensors)
            files = [os.path.join(out, "rank_%d" % r, "model.safetensors") for r in range(2)]
            parts = [ffi.read_file(file) for file in files]
            for kind, names in sorted(kinds.items()):
                for file, (tensors, metadata) in zip(files, parts):
                    whole = {n: model.tensors[n] for n in names}
                    ffi.write_file(file, {**tensors, **whole}, metadata)
                contradicted(out, "tp=2", kind)
    # With sizes of config.json, and one kind of which it says none.
    latent = Model("deepseek_v3", os.path.join(tmp, "kinds_shared"))
    cut_into(latent, "tp=2", out, {"moe_intermediate_size": INNER, "n_shared_experts": 1})
    accepted("shared experts", out, "tp=2", latent.tensors)
    cut_into(latent, "tp=2", out, {"moe_intermediate_size": INNER, "n_shared_experts": 2})
    contradicted(out, "tp=2", "shared_experts", "[48, 96]", "[48, 192]", "n_shared_experts")


def floats_of(model, seed):
    """Its tensors as a training leaves them: norms are about 1, biases small, all matrices about 0."""
    rng, out = random.Random(seed), {}
    for n, (_, s, _) in model.tensors.items():
        at, far = (1, 0.3) if "norm" in n and n.endswith("weight") else (0, 0.02)
        values = [rng.gauss(at, far) for _ in range(product(s))]
        out[n] = ("F32", s, struct.pack("<%df" % len(values), *values))
    return out


def to_bf16(data, bits):
    """The upper halves of F32, off by some of their last bits."""
    words = struct.unpack("<%dI" % (len(data) // 4), data)
    return struct.pack("<%dH" % len(words), *((w >> 16) ^ (bits >> i % 7 & 1) for i, w in enumerate(words)))


def norms_of_another(tmp):
    """Among the ranks of tp one of another model of the same shapes: what each rank holds whole tells. Ranks whose norms are off by
    their last bits are of one model."""
    for family in ("llama", "phi3", "qwen3_moe", "mindformers1", "mindformers2"):
        model = Model(family, os.path.join(tmp, "norms_" + family))
        out = os.path.join(tmp, "norms_ranks")
        file = os.path.join(model.folder, "model.safetensors")
        tensors = {}
        for seed in (1, 2):
            ffi.write_file(file, floats_of(model, seed))
            cut_into(model, "tp=2", out, {})
            files = [os.path.join(out, "rank_%d" % rank, "model.safetensors") for rank in range(2)]
            tensors[seed] = [ffi.read_file(f)[0] for f in files]
        accepted("one model", out, "tp=2")
        ffi.write_file(files[0], tensors[1][0])
        contradicted(out, "tp=2", "ranks 0 and 1 hold other values")
        ffi.write_file(
            files[1], {n: t if "norm" in n else tensors[1][1][n] for n, t in tensors[2][1].items()}
        )
        contradicted(out, "tp=2", "norm", "ranks 0 and 1 hold other values", "holds all of it")
        for rank in range(2):
            half = {n: ("BF16", s, to_bf16(d, rank * 0x55)) for n, (_, s, d) in tensors[1][rank].items()}
            ffi.write_file(files[rank], half)
        accepted("norms that are off by their last bits", out, "tp=2")


def copy_rank(source, a, out, b):
    shutil.copy(*(os.path.join(d, "rank_%d" % r, "model.safetensors") for d, r in ((source, a), (out, b))))


def mixed(tmp):
    """Files of ranks that are copied over others', of another model, parts that are whole, layers that nobody has."""
    folder, out = os.path.join(tmp, "mixed"), os.path.join(tmp, "mixed_ranks")
    model, other = Model("llama", folder), Model("qwen3_moe", os.path.join(tmp, "other"))
    for numbers_text, a, b in (("tp=2", 0, 1), ("tp=4", 2, 3), ("tp=2,pp=2", 2, 3)):
        for config in (None, {}):
            cut_into(model, numbers_text, out, config)
            copy_rank(out, a, out, b)
            contradicted(out, numbers_text, "ranks %d and %d hold different parts" % (a, b), "same values")
    foreign = out + "_foreign"
    for numbers_text, ranks in (("dp=2,tp=2", range(4)), ("dp=2,tp=1,pp=2", range(4))):
        cut_into(model, numbers_text, foreign, None)
        for rank in ranks:
            change(foreign, rank, lambda n, s, d: d[::-1])
            cut_into(model, numbers_text, out, {})
            copy_rank(foreign, rank, out, rank)
            contradicted(out, numbers_text, "hold other values", "replicas", "other steps")
    norms_of_another(tmp)
    # Mixtral's experts are of intermediate_size, whatever else its config.json says.
    mixtral, mixtral_out = Model("mixtral", os.path.join(tmp, "mixtral_sizes")), out + "_mixtral"
    cut_into(mixtral, "tp=2", mixtral_out, {"model_type": "mixtral", "moe_intermediate_size": 40})
    accepted("experts of intermediate_size", mixtral_out, "tp=2", mixtral.tensors)
    cut_into(mixtral, "tp=2", mixtral_out, {"model_type": "mixtral", "intermediate_size": INNER * 2})
    contradicted(mixtral_out, "tp=2", "experts.0", "(intermediate_size)")
    # Experts that tp cuts, given as those of ep; and the other way round.
    experts_out = out + "_experts"
    for config, words in (
        (None, ("ranks 0 and 1 have it", "cut by tp")),
        ({"moe_intermediate_size": INNER}, ("[48, 48]", "[48, 96]", "moe_intermediate_size")),
        ({}, ("[48, 48]", "[48, 96]", "(intermediate_size)")),
    ):
        cut_into(other, "tp=2", experts_out, config)
        contradicted(experts_out, "tp=2,ep=2", "experts.0", *words)
        accepted("experts that tp cuts", experts_out, "tp=2", other.tensors)
    cut_into(other, "tp=2,ep=2", experts_out, {"moe_intermediate_size": INNER * 2})
    contradicted(experts_out, "tp=2,ep=2", "experts.0", "[48, 96]", "[48, 192]", "moe_intermediate_size")
    odd = {"time_step_limit": [0.0, float("inf"), -float("inf")], "x": float("nan")}
    cut_into(model, "tp=2", out, {"num_experts": 0, **odd})
    accepted("no experts in config.json", out, "tp=2", model.tensors)
    # Embeddings: parts as if they were whole, whole ones as if they were parts.
    cut_into(model, "tp=2", out, None)
    contradicted(out, "tp=2,vocab-parallel=no", "lm_head", "hold other values", "by vocab-parallel")
    cut_into(model, "tp=2,vocab-parallel=no", out, None)
    contradicted(out, "tp=2", "lm_head", "same values", "vocab-parallel=no")
    # Filled up to a multiple of the vocabulary: not what each rank has of it, times the ranks.
    filled = Model("llama", os.path.join(tmp, "filled"))
    rng = random.Random(5)
    for name in ("model.embed_tokens.weight", "lm_head.weight"):
        filled.tensors[name] = ("U16", (256, HIDDEN), rng.randbytes(512 * HIDDEN))
    ffi.write_file(os.path.join(filled.folder, "model.safetensors"), filled.tensors)
    cut_into(filled, "tp=2", out, {"vocab_size": 128})
    accepted("embeddings of twice the vocabulary", out, "tp=2", filled.tensors)
    cut_into(filled, "tp=2,vocab-parallel=no", out, {"vocab_size": 256})
    contradicted(out, "tp=2", "[512, 48]", "vocab_size")
    for name in ("model.embed_tokens.weight", "lm_head.weight"):
        filled.tensors[name] = ("U16", (128, HIDDEN), rng.randbytes(256 * HIDDEN))
    ffi.write_file(os.path.join(filled.folder, "model.safetensors"), filled.tensors)
    cut_into(filled, "tp=2,vocab-parallel=no", out, {"vocab_size": 128})
    contradicted(out, "tp=2", "lm_head", "same values", "vocab-parallel=no")
    # A head of keys on two ranks each.
    cut_into(model, "tp=4", out, None)
    keys = {}
    for rank in range(4):
        change(
            out,
            rank,
            lambda n, s, d, r=rank: keys.setdefault((n, r // 2), d) if "k_proj" in n or "v_proj" in n else d,
        )
    contradicted(out, "tp=4", "k_proj", "heads of keys that several ranks hold")
    for numbers_text in ("tp=2", "dp=2,pp=2"):
        cut_into(model, numbers_text, out, None)
        for rank in range(4 if "dp" in numbers_text else 2):
            file = os.path.join(out, "rank_%d" % rank, "model.safetensors")
            tensors, metadata = ffi.read_file(file)
            ffi.write_file(file, {n: t for n, t in tensors.items() if ".layers.1." not in n}, metadata)
        joined = os.path.join(out, "joined.safetensors")
        r = run("join", out, "--layout", numbers_text, "-o", joined)
        check(
            "a layer that no rank has:",
            r.returncode == 1 and "no tensor of layer 1 is there" in r.stderr,
            r.stderr,
        )
        r = run("join", out, "--layout", numbers_text, "-o", joined, "--partial")
        check("a layer that no rank has, --partial:", r.returncode == 0, r.stderr)


def not_there(tmp):
    """Ranks without a file for which nobody stands in: they have experts of their own, or replicas were removed."""
    out = os.path.join(tmp, "lacking")
    joined = os.path.join(out, "joined.safetensors")
    for family in ("qwen3_moe", "stacked"):
        model = Model(family, os.path.join(tmp, "lack_" + family))
        config = {"moe_intermediate_size": INNER}
        for numbers_text, gone in (
            ("dp=2,ep=2", [1]),
            ("dp=2,ep=2", [0]),
            ("dp=4,ep=2", [1, 3]),
            ("dp=2,pp=2,ep=2", [3]),
        ):
            cut_into(model, numbers_text, out, config)
            for rank in gone:
                shutil.rmtree(os.path.join(out, "rank_%d" % rank))
            r = run("join", out, "--layout", numbers_text, "-o", joined)
            said = r.returncode == 1 and any(
                w in r.stderr for w in ("nobody stands in", "no tensor of expert")
            )
            check("experts that are not there:", said and not os.path.exists(joined), r.stderr)
            r = run("join", out, "--layout", numbers_text, "-o", joined, "--partial")
            check("experts that are not there, --partial:", r.returncode == 0, r.stderr)
        cut_into(model, "dp=4,ep=2", out, config)
        shutil.rmtree(os.path.join(out, "rank_3"))
        accepted("a replica of experts that is not there", out, "dp=4,ep=2", model.tensors)
    stacked = Model("stacked", os.path.join(tmp, "lack_counts"))
    for there, given in (
        ("dp=2,ep=2", "dp=2"),
        ("dp=2", "dp=2,ep=2"),
        ("dp=2,tp=2,ep=4", "dp=2,tp=2,ep=2"),
        ("tp=2,ep=2", "tp=2"),
        ("tp=2", "tp=2,ep=2"),
    ):
        for config in (None, {"moe_intermediate_size": INNER}):
            if config is None and "ep" not in there and "ep" not in given:
                continue
            cut_into(stacked, there, out, config)
            contradicted(out, given, "experts")
        accepted("experts in one tensor", out, there, stacked.tensors)
    cut_into(stacked, "dp=2,ep=2", out, None)
    accepted("experts in one tensor without a config.json", out, "dp=2,ep=2", stacked.tensors)
    dense = Model("llama", os.path.join(tmp, "lack_dense"))
    ranks = os.path.join(tmp, "lack_ranks")
    for rule in ("mindspore", "balanced"):
        for file in (None, {"pattern": "*", "whole": True}):
            shutil.rmtree(out, ignore_errors=True)
            shutil.rmtree(ranks, ignore_errors=True)
            r = run("reshard", dense.folder, "--target-layout", "dp=4", "-o", ranks)
            r = run("dedupe", ranks, "--layout", "dp=4", "-o", out, "--rule", rule)
            check("dedupe:", r.returncode == 0, r.stderr)
            for name in ("dedupe.json", "layout.json"):
                os.remove(os.path.join(out, name))
            layout = "dp=4"
            if file is not None:
                layout = os.path.join(tmp, "whole.json")
                with open(layout, "w") as f:
                    json.dump(
                        {
                            "format": "safetensors-layout",
                            "version": 1,
                            "mesh": {"axes": {"dp": 4}},
                            "tensors": [file],
                        },
                        f,
                    )
            accepted("replicas that were removed", out, layout, dense.tensors)
            os.remove(joined)
            shutil.rmtree(os.path.join(out, "rank_1"))
            r = run("join", out, "--layout", layout, "-o", joined)
            said = r.returncode == 1 and "ranks 1 have no file" in r.stderr and not os.path.exists(joined)
            check("replicas that were removed, and a rank:", said, r.stderr)
    cut_into(dense, "dp=2", out, None)
    for rank in range(2):
        file = os.path.join(out, "rank_%d" % rank, "model.safetensors")
        tensors, metadata = ffi.read_file(file)
        ffi.write_file(file, {**tensors, "rng_state": ("U8", (2,), b"ab")}, metadata)
    r = run("join", out, "--layout", "dp=2", "-o", joined)
    check("names are counted once:", '"rng_state" are cut' in r.stderr and "(1 name)" in r.stderr, r.stderr)
    for more in (("--drop", "rng*"), ("--select", "model*", "--select", "lm_head*")):
        r = run("join", out, "--layout", "dp=2", "-o", joined, "--force", *more)
        same = r.returncode == 0 and ffi.read_file(joined)[0] == dense.tensors
        check("names that are left out:", same, r.stderr)
    # Numbers of --config go before those of a file that lies there.
    fused = Model("phi3", os.path.join(tmp, "lack_fused"))
    good, bad = os.path.join(tmp, "good.json"), os.path.join(tmp, "bad.json")
    for file, more in ((good, {}), (bad, {"hidden_size": 64})):
        with open(file, "w") as f:
            json.dump({**fused.config, **more}, f)
    cut_into(fused, "tp=2", out, None)
    r = run("join", out, "--layout", "tp=2", "-o", joined)
    check("heads are not known:", r.returncode == 1 and "config.json is needed" in r.stderr, r.stderr)
    r = run("join", out, "--layout", "tp=2", "-o", joined, "--config", good)
    check("--config:", r.returncode == 0 and ffi.read_file(joined)[0] == fused.tensors, r.stderr)
    cut_into(fused, "tp=2", out, {})
    r = run("join", out, "--layout", "tp=2", "-o", joined, "--config", bad, "--force")
    check("--config of another model:", r.returncode == 1 and "hidden_size" in r.stderr, r.stderr)


def layers(tmp):
    folder, out = os.path.join(tmp, "layers"), os.path.join(tmp, "layers_ranks")
    model = Model("llama", folder)
    for said, words in (
        (8, ["num_hidden_layers is 8", "4 layers"]),
        (2, ["num_hidden_layers is 2", "4 layers"]),
    ):
        with open(os.path.join(folder, "config.json"), "w") as f:
            json.dump({**model.config, "num_hidden_layers": said}, f)
        refused(folder, "pp=2", *words)
        os.remove(os.path.join(folder, "config.json"))
        yaml = "use_parallel: True\nparallel_config:\n  pipeline_stage: 2\nmodel:\n  model_config:\n    num_%s: %d\n"
        for name in ("layers", "hidden_layers"):
            with open(out + ".yaml", "w") as f:
                f.write(yaml % (name, said))
            refused(folder, out + ".yaml", *words, "parallel configuration")
        with open(out + ".yaml", "w") as f:
            f.write(yaml % ("layers", 4) + "    num_hidden_layers: %d\n" % said)
        refused(folder, out + ".yaml", "num_layers", "4 and %d" % said)
    with open(os.path.join(folder, "config.json"), "w") as f:
        json.dump({**model.config, "num_hidden_layers": 3, "num_nextn_predict_layers": 1}, f)
    r = run("layout", "make", folder, "--pp", "3", "-o", "-")
    check("layers that predict:", r.returncode == 0 and '"stage2"' in r.stdout, r.stderr)
    with open(os.path.join(folder, "config.json"), "w") as f:
        json.dump({**model.config, "num_layers": 3}, f)
    refused(folder, "pp=2", "num_hidden_layers is 4", "num_layers 3")
    os.remove(os.path.join(folder, "config.json"))
    cut_into(model, "dp=2", out, None)
    with open(os.path.join(out, "config.json"), "w") as f:
        json.dump({**model.config, "num_hidden_layers": 5}, f)
    joined = os.path.join(out, "joined.safetensors")
    r = run("join", out, "--layout", "dp=2", "-o", joined)
    check("a layer that is missing:", r.returncode == 1 and "num_hidden_layers is 5" in r.stderr, r.stderr)
    r = run("join", out, "--layout", "dp=2", "-o", joined, "--partial")
    check("a layer that is missing, --partial:", r.returncode == 0, r.stderr)
    for heads, words in (
        (6, ["q_proj", "64 rows", "6 whole heads"]),
        (4, ["k_proj", "4 heads", "of 8", "have 16"]),
    ):
        with open(out + ".yaml", "w") as f:
            f.write("parallel_config:\n  model_parallel: 2\nmodel:\n  model_config:\n    num_heads: %d\n" % heads
                    + "    n_kv_heads: 4\n")  # fmt: skip
        refused(folder, out + ".yaml", *words)


# ---------------------------------------------------------------- configurations

YAML = """# a configuration
seed: 42
use_parallel: True
train_dataset: &train_dataset
  sizes:
    - 12 # of samples
    - {a: 1, "b": [2, 3]}
  data_path:
  - '1, # 2'
  - "/a: b"
  strategy: [[1, 2],
    [3,
  4]]
callbacks:
- type: MFLossMonitor
- type: CheckpointMonitor
  prefix: "x"   # y
other: *train_dataset
parallel_config:
  data_parallel: &dp 2
  model_parallel: 2
  pipeline_stage: 2   # stages
  use_seq_parallel: True
  micro_batch_num: *dp
parallel:
  enable_parallel_optimizer: True
  pipeline_config:
    pipeline_interleave: True
  parallel_optimizer_config:
    parallel_optimizer_threshold: 1
    optimizer_weight_shard_size: 256
model:
  model_config:
    num_layers: 4
    pp_interleave_num: 2
    offset: [[0, 0], [0, 0]]
"""


def configurations(tmp):
    folder, file = os.path.join(tmp, "llama"), os.path.join(tmp, "train.yaml")

    def made(yaml, *args):
        with open(file, "w", encoding="utf-8") as f:
            f.write(yaml)
        return run("layout", "make", folder, *(args or ("--parallel-config", file)))

    want = run("layout", "make", folder, "--dp=2", "--tp=2", "--pp=2", "--vpp=2")
    yaml = YAML.replace("enable_parallel_optimizer: True", "enable_parallel_optimizer: False")
    quoted = yaml.replace("parallel_config:", "'parallel_config':").replace("  offset:", '  "offset":')
    quoted = quoted.replace("'parallel_config':", '"parallel_config":').replace(
        "  model_parallel:", "  'model_parallel':"
    )
    for text in (
        yaml, yaml.replace("\n", "\r\n"), yaml.replace("[[0, 0], [0, 0]]", "0"),
        yaml.replace("num_layers: 4", "num_query_groups: null\n    multi_query_group_num: 4\n    num_layers: 4"), "---\n" + yaml, quoted, "\ufeff" + yaml,
    ):  # fmt: skip
        got = made(text)
        check("a configuration:", got.returncode == 0 and got.stdout == want.stdout, got.stderr)
    shutil.rmtree(os.path.join(tmp, "ranks"))
    made(YAML)
    r = run("reshard", folder, "--target-layout", file, "-o", os.path.join(tmp, "ranks"))
    check("a configuration as a layout:", r.returncode == 0, r.stderr)
    if r.returncode == 0:
        p = numbers(dp=2, tp=2, pp=2, vpp=2, optimizer=True, threshold=1024)
        compare(
            "a configuration as a layout:",
            Model("llama", os.path.join(tmp, "llama2")),
            p,
            os.path.join(tmp, "ranks"),
        )
    for old, new, words in (
        ("model_parallel: 2", "model_parallel: two", ["line 21", "number"]),
        ("model_parallel: 2", "model_parallel: 0", ["line 21"]),
        ("model_parallel: 2", "model_parallel: *dp", ["line 21", "value on this line"]),
        ("model_parallel: 2", "model_parallel: 2\n  model_parallel: 4", ["line 22", "twice"]),
        ("model_parallel: 2", "tensor_parallel: 2", ["line 21", "parallel_config"]),
        ("model_parallel: 2", "<<: *train_dataset", ["line 21"]),
        ("model_parallel: 2", "\tmodel_parallel: 2", ["line 21", "tab"]),
        ("  model_parallel: 2", "   model_parallel: 2", ["line 21", "parallel_config"]),
        ("  model_parallel: 2", " model_parallel: 2", ["line 21", "indented neither"]),
        ("model_parallel: 2", "model_parallel:\n    2", ["line 21"]),
        (
            "parallel_config:\n",
            "parallel_config: {data_parallel: 2}\nold_config:\n",
            ["line 19", "lines of their own"],
        ),
        (
            "parallel_config:\n",
            "parallel_config: {\n  data_parallel: 2}\nold_config:\n",
            ["line 19", "lines of"],
        ),
        (
            "parallel_config:\n",
            "parallel_config: *train_dataset\nold_config:\n",
            ["line 19", "lines of their own"],
        ),
        ("parallel_config:\n", "parallel_config: wrong\nold_config:\n", ["line 19", "lines of their own"]),
        ("parallel_config:\n", "old_config:\n", ["says nothing of ranks"]),
        ("parallel_config:\n", "parallel_config:\nparallel_config:\n", ["line 20", "twice"]),
        (
            "parallel:\n  enable",
            "parallel: {enable_parallel_optimizer: False}\nold:\n  enable",
            ["line 25", "lines of"],
        ),
        (
            "  pipeline_config:",
            "  pipeline_config: {pipeline_interleave: True}\n  old:",
            ["line 27", "lines of"],
        ),
        ("model:\n", "model: {model_config: {offset: [1, -1]}}\nold:\n", ["lines of their own"]),
        ("[[0, 0], [0, 0]]", "[[0, 0],\n [0, 0]]", ["line 36", "one line"]),
        ("use_parallel: True", "use_parallel: False", ["line 3", "use_parallel"]),
        ("use_parallel: True", "use_parallel: maybe", ["line 3"]),
        ("seed: 42", "seed: |\n  42", ["line 2"]),
        ("seed: 42", 'seed: "42', ["line 2", "quote"]),
        ("seed: 42", "seed: ]", ["line 2", "bracket"]),
        ("seed: 42", "seed: [", ["bracket"]),
        ("seed: 42", "a line", ["line 2", "neither"]),
        ("seed: 42", "seed: 42\n---", ["line 3"]),
        ("num_layers: 4", "num_layers: 5", ["num_hidden_layers is 5", "4 in the model"]),
        ("num_layers: 4", "num_heads: 4", ["num_attention_heads is 4", "8 in the model"]),
        ("[[0, 0], [0, 0]]", "[[0, 0], [0, 1]]", ["4 layers", "offsets"]),
        ("[[0, 0], [0, 0]]", "[0, 0, 0]", ["3 offsets"]),
        ("[[0, 0], [0, 0]]", "[0, x]", ["line 36"]),
        ("  pipeline_config:\n  ", "", ["line 27", "stands in", "pipeline_config"]),
        (
            "  parallel_optimizer_config:\n    parallel_optimizer_threshold: 1\n  ",
            "  parallel_optimizer_threshold: 1\n",
            ["line 29", "stands in parallel_optimizer_config"],
        ),
        (
            "  pipeline_config:",
            "  optimizer_weight_shard_size: 2\n  pipeline_config:",
            ["optimizer_weight_shard_size 2", "4 ranks"],
        ),
        ("num_layers: 4", "num_query_groups: 8", ["num_key_value_heads is 8", "4 in the model"]),
        ("num_layers: 4", "n_head: 16", ["num_attention_heads is 16", "8 in the model"]),
        ("num_layers: 4", "multi_query_group_num: 8", ["num_key_value_heads is 8", "4 in the model"]),
        (
            "num_layers: 4",
            "n_kv_heads: 4\n    multi_query_group_num: 2",
            ["multi_query_group_num", "4 and 2"],
        ),
        ("num_layers: 4", "n_kv_heads: 4\n    num_query_groups: 8", ["num_query_groups", "4 and 8"]),
        ("shard_size: 256", "shard_size: 2", ["optimizer_weight_shard_size 2", "4 ranks"]),
    ):
        assert old in YAML
        got = made(YAML.replace(old, new))
        check(
            "%r must be refused:" % new,
            got.returncode > 0 and all(w in got.stderr for w in words),
            got.stderr or got.stdout[:99],
        )
    for n in range(len(YAML)):  # cut off anywhere: an answer, or an error
        if n % 7 == 0:
            check("cut off:", made(YAML[:n]).returncode in (0, 1, 2, 3), "at %d" % n)
    out = run("layout", "make", folder, "--dp=2", "--tp=2", "--pp=2", "--vpp=2", "-o", "-")
    check("-o -:", out.returncode == 0 and out.stdout == want.stdout and not os.path.exists("-"), out.stderr)
    deep = "use_parallel: True\n" + "".join(" " * i + "a:\n" for i in range(60))
    check("deep:", "32 levels" in made(deep).stderr)
    got = made(YAML, "--parallel-config", file, "--tp", "2")
    check("numbers twice:", got.returncode > 0 and "--parallel-config" in got.stderr, got.stderr)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--tool", required=True)
    spaces.TOOL = os.path.abspath(p.parse_args().tool)
    with tempfile.TemporaryDirectory() as tmp:
        families(tmp)
        bad_input(tmp)
        in_any_order(tmp)
        by_config(tmp)
        by_ranks(tmp)
        honest(tmp)
        one_kind(tmp)
        mixed(tmp)
        not_there(tmp)
        layers(tmp)
        configurations(tmp)
    for fault in spaces.FAULTS[:20]:
        print(fault)
    print("numbers: %d checks, %d wrong" % (spaces.DONE, len(spaces.FAULTS)))
    return 1 if spaces.FAULTS else 0


if __name__ == "__main__":
    sys.exit(main())
