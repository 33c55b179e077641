#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""make_model.py [FOLDER] - makes examples/model: a small transformer laid out as on a model hub.

Needs numpy and the PyPI package safetensors 0.8.0 (tests/requirements.txt): the shards are written by the
reference implementation, not by this project. Deterministic: numpy's PCG64 with a fixed seed, cut to
bfloat16 by rounding to nearest even. Llama's names and shapes, 3 layers, tied embeddings, 248 KB.
"""

import json
import os
import sys

import numpy as np
from safetensors import TensorSpec, serialize_file

HIDDEN, LAYERS, HEADS, KV_HEADS, INNER, VOCAB = 64, 3, 4, 2, 128, 256
SHARD_BYTES = 136_000


def bf16(array):
    bits = np.ascontiguousarray(array, dtype="<f4").view("<u4").astype(np.uint64)
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
    return rounded.astype("<u2")


def tensors():
    rng = np.random.Generator(np.random.PCG64(20260101))

    def matrix(rows, columns):
        return bf16(rng.standard_normal((rows, columns)) * (2 / (rows + columns)) ** 0.5), "bfloat16"

    def ones(n):
        return (1 + 0.02 * rng.standard_normal(n)).astype("<f4"), "float32"

    kv = HIDDEN * KV_HEADS // HEADS
    yield "model.embed_tokens.weight", matrix(VOCAB, HIDDEN)
    for layer in range(LAYERS):
        p = "model.layers.%d." % layer
        yield p + "input_layernorm.weight", ones(HIDDEN)
        yield p + "mlp.down_proj.weight", matrix(HIDDEN, INNER)
        yield p + "mlp.gate_proj.weight", matrix(INNER, HIDDEN)
        yield p + "mlp.up_proj.weight", matrix(INNER, HIDDEN)
        yield p + "post_attention_layernorm.weight", ones(HIDDEN)
        yield p + "self_attn.k_proj.weight", matrix(kv, HIDDEN)
        yield p + "self_attn.o_proj.weight", matrix(HIDDEN, HIDDEN)
        yield p + "self_attn.q_proj.weight", matrix(HIDDEN, HIDDEN)
        yield p + "self_attn.v_proj.weight", matrix(kv, HIDDEN)
    yield "model.norm.weight", ones(HIDDEN)


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    folder = sys.argv[1] if len(sys.argv) > 1 else os.path.join(here, "model")
    os.makedirs(folder, exist_ok=True)
    shards, size, total = [{}], 0, 0
    for name, (data, dtype) in tensors():
        if size + data.nbytes > SHARD_BYTES:
            shards.append({})
            size = 0
        shards[-1][name] = (data, dtype)
        size += data.nbytes
        total += data.nbytes
    weight_map = {}
    for i, shard in enumerate(shards, 1):
        file = "model-%05d-of-%05d.safetensors" % (i, len(shards))
        specs = {
            name: TensorSpec(
                dtype=dtype, shape=list(data.shape), data_ptr=data.ctypes.data, data_len=data.nbytes
            )
            for name, (data, dtype) in shard.items()
        }
        serialize_file(specs, os.path.join(folder, file), metadata={"format": "pt"})
        os.chmod(os.path.join(folder, file), 0o644)
        weight_map.update(dict.fromkeys(shard, file))
    index = {"metadata": {"total_size": total}, "weight_map": dict(sorted(weight_map.items()))}
    with open(os.path.join(folder, "model.safetensors.index.json"), "w", encoding="utf-8") as f:
        f.write(json.dumps(index, indent=2) + "\n")
    config = {
        "architectures": ["LlamaForCausalLM"],
        "hidden_act": "silu",
        "hidden_size": HIDDEN,
        "intermediate_size": INNER,
        "max_position_embeddings": 128,
        "model_type": "llama",
        "num_attention_heads": HEADS,
        "num_hidden_layers": LAYERS,
        "num_key_value_heads": KV_HEADS,
        "rms_norm_eps": 1e-05,
        "tie_word_embeddings": True,
        "torch_dtype": "bfloat16",
        "vocab_size": VOCAB,
    }
    with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as f:
        f.write(json.dumps(config, indent=2) + "\n")


if __name__ == "__main__":
    main()
