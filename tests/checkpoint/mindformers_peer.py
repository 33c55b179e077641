#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""mindformers_peer.py --tool TOOL --models DIR - the rules for names that come with the library against MindFormers' own.

  --make       (with transformers) small random models as their configurations make them, saved by save_pretrained
  otherwise    (with mindspore, and MindFormers' wheel) every name by the convert_name and weight_mapping
               of MindFormers' model classes, fused weights by its weight_converters, byte for byte; and back to the names and
               bytes that they were

Of the wheel the modules with the tables and converters are loaded, not the packages around them, which want an accelerator's
release of MindSpore. Prints the counts; exit 1 on any difference.
"""

import argparse
import importlib.abc
import importlib.util
import os
import subprocess
import sys
import types
import zipfile

# rules: (model type of transformers, module and class of MindFormers, fused)
CASES = {
    "qwen2-mindformers2": ("qwen2", "qwen2", "Qwen2PreTrainedModel", False),
    "qwen3-mindformers": ("qwen3", "qwen3", "Qwen3PreTrainedModel", False),
    "qwen3-mindformers-fused": ("qwen3", "qwen3", "Qwen3PreTrainedModel", True),
    "qwen3-moe-mindformers": ("qwen3_moe", "qwen3_moe", "Qwen3MoePreTrainedModel", False),
    "glm4-mindformers": ("glm4", "glm4", "Glm4PreTrainedModel", False),
    "glm4-moe-mindformers": ("glm4_moe", "glm4_moe", "Glm4MoePreTrainedModel", False),
    "deepseek3-mindformers": ("deepseek_v3", "deepseek3", "DeepseekV3PreTrainedModel", False),
    "telechat3-mindformers": (
        "qwen3",
        "telechat3",
        "TeleChat3PreTrainedModel",
        False,
    ),  # its names are Qwen3's
    "telechat3-moe-mindformers": ("deepseek_v3", "telechat3_moe", "TeleChat3MoePreTrainedModel", False),
}
SMALL = dict(
    vocab_size=96,
    hidden_size=32,
    intermediate_size=48,
    num_hidden_layers=3,
    num_attention_heads=4,
    num_key_value_heads=2,
    head_dim=8,
    pad_token_id=0,
    tie_word_embeddings=False,
)
MORE = {
    "qwen3_moe": dict(num_experts=4, num_experts_per_tok=2, moe_intermediate_size=16, mlp_only_layers=[0]),
    "glm4_moe": dict(
        n_routed_experts=4, num_experts_per_tok=2, moe_intermediate_size=16, first_k_dense_replace=1
    ),
    "deepseek_v3": dict(
        n_routed_experts=4,
        num_experts_per_tok=2,
        moe_intermediate_size=16,
        first_k_dense_replace=1,
        n_group=2,
        topk_group=1,
        num_key_value_heads=4,
        q_lora_rank=12,
        kv_lora_rank=8,
        qk_rope_head_dim=4,
        qk_nope_head_dim=8,
        v_head_dim=8,
    ),
}


def make(directory):
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    torch.manual_seed(1)
    for kind in sorted({case[0] for case in CASES.values()}):
        config = AutoConfig.for_model(kind, **{**SMALL, **MORE.get(kind, {})})
        model = AutoModelForCausalLM.from_config(config)
        with torch.no_grad():
            for p in model.state_dict().values():
                p.normal_()
        model.save_pretrained(os.path.join(directory, kind))


REAL = ("parallel_core.utils.model_mixin", "checkpoint.converter.convert_op")


class Wheel(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds MindFormers: the modules with tables and converters are its own, all other ones give an empty class for every name."""

    def __init__(self, root):
        self.root = root

    def find_spec(self, name, path, target=None):
        if name.split(".")[0] != "mindformers":
            return None
        inside = name.partition(".")[2]
        if inside in REAL or (inside.startswith("models.") and inside.endswith(".utils")):
            return importlib.util.spec_from_file_location(
                name, os.path.join(self.root, *name.split(".")) + ".py"
            )
        return importlib.util.spec_from_loader(name, self, is_package=True)

    def create_module(self, spec):
        return Package(spec.name)

    def exec_module(self, module):
        pass


class Package(types.ModuleType):
    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        made = type(name, (), {})
        setattr(self, name, made)
        return made


def mindformers(wheel):
    """{name of the rules: the class of the model}"""
    sys.meta_path.insert(0, Wheel(wheel))
    importlib.import_module("mindformers.parallel_core.utils.model_mixin").is_legacy_model = lambda: (
        False
    )  # 2.x
    modules = {rules: f"mindformers.models.{case[1]}.utils" for rules, case in CASES.items()}
    return {rules: getattr(importlib.import_module(modules[rules]), CASES[rules][2]) for rules in CASES}


def theirs(cls, fused, tensors):
    """MindFormers' names and bytes for the tensors of a model."""
    if not fused:
        return {cls().convert_name(name): value for name, value in tensors.items()}
    out = {}
    for op in cls.weight_converters:
        if hasattr(op, "num_query_groups"):
            op.num_attention_heads, op.num_query_groups, op.kv_channels = 4, 2, 8
            op.hidden_size, op.tensor_model_parallel_size, op.optimizer_parallel_size = 32, 1, 1
        for layer in range(3) if "{}" in op.hf_names[0] else [None]:
            names = [n if layer is None else n.format(layer) for n in op.hf_names]
            weights = op._hf_to_mf([tensors[n] for n in names])
            out.update(zip([n if layer is None else n.format(layer) for n in op.mf_names], weights))
    return out


def compare(tool, directory, wheel):
    from safetensors.numpy import load_file

    unpacked = os.path.join(directory, "mindformers-wheel")
    zipfile.ZipFile(wheel).extractall(unpacked)
    classes = mindformers(unpacked)
    tensors_seen = failed = 0
    for rules, (kind, _, _, fused) in CASES.items():
        source = os.path.join(directory, kind)
        out, back = (os.path.join(directory, rules + end) for end in (".safetensors", "-back.safetensors"))
        config = os.path.join(source, "config.json")
        subprocess.run([tool, "join", "-f", source, "-o", out, "--names", rules], check=True)
        index = os.path.join(source, "model.safetensors.index.json")
        alike = os.path.join(directory, rules + "-converted.safetensors")
        given = index if os.path.exists(index) else os.path.join(source, "model.safetensors")
        subprocess.run([tool, "convert", "-f", given, "-o", alike, "--names", rules], check=True)
        subprocess.run(
            [tool, "join", "-f", out, "-o", back, "--names", rules, "--reverse-names", "--config", config],
            check=True,
        )
        tensors = {}
        for name in os.listdir(source):
            if name.endswith(".safetensors"):
                tensors.update(load_file(os.path.join(source, name)))
        wanted, got, again = theirs(classes[rules], fused, tensors), load_file(out), load_file(back)
        pairs = (("there", wanted, got), ("back", tensors, again), ("convert", wanted, load_file(alike)))
        for what, one, other in pairs:
            wrong = sorted(set(one) ^ set(other))
            wrong += [n for n in one if n in other and one[n].tobytes() != other[n].tobytes()]
            if wrong:
                print(f"{rules}, {what}: {len(wrong)} differ, {wrong[:4]}")
                failed += 1
        tensors_seen += len(got)
    print(f"{len(CASES)} sets of rules, {tensors_seen} tensors there and back, {failed} differ")
    return failed


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tool")
    parser.add_argument("--models", required=True)
    parser.add_argument("--wheel")
    parser.add_argument("--make", action="store_true")
    args = parser.parse_args()
    if args.make:
        make(args.models)
    else:
        sys.exit(1 if compare(os.path.abspath(args.tool), args.models, args.wheel) else 0)


if __name__ == "__main__":
    main()
