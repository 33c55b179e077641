#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""write_transformers.py FOLDER - directories of tiny models by transformers, as save_pretrained, torch.save and the tokenizers
leave them. For genuine.py: no tensors are compared."""

import os
import sys
import warnings

os.environ["HF_HUB_OFFLINE"] = "1"
import torch
import transformers
from expect import Files
from transformers import AutoConfig, AutoModel, GenerationConfig

warnings.filterwarnings("ignore")
transformers.logging.set_verbosity_error()
files = Files("transformers " + transformers.__version__)
small = {
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "vocab_size": 99,
    "max_position_embeddings": 64,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "d_model": 16,
    "n_embd": 16,
    "n_layer": 2,
    "n_head": 2,
    "d_ff": 32,
    "num_layers": 2,
    "num_heads": 2,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 32,
    "decoder_ffn_dim": 32,
    "dim": 16,
    "hidden_dim": 32,
    "n_layers": 2,
    "n_heads": 2,
    "d_kv": 8,
    "pad_token_id": 0,
}
for kind in (
    "llama",
    "qwen2",
    "qwen3",
    "mistral",
    "gpt2",
    "bert",
    "roberta",
    "distilbert",
    "t5",
    "opt",
    "gemma",
    "phi3",
    "whisper",
    "vit",
    "clip",
    "mixtral",
):
    try:
        known = AutoConfig.for_model(kind)
        config = AutoConfig.for_model(kind, **{k: v for k, v in small.items() if hasattr(known, k)})
        model = AutoModel.from_config(config)
        if sum(p.numel() for p in model.parameters()) > 3e7:
            raise ValueError("not tiny")
    except Exception as e:
        files.skip(kind, e)
        continue
    folder = files.path(kind)
    model.save_pretrained(folder)
    GenerationConfig(max_length=20).save_pretrained(folder)
    torch.save(model.state_dict(), folder / "pytorch_model.bin")
    optimizer = torch.optim.AdamW(model.parameters())
    torch.save(optimizer.state_dict(), folder / "optimizer.pt")
    torch.save(torch.optim.lr_scheduler.StepLR(optimizer, 3).state_dict(), folder / "scheduler.pt")
    torch.save({"python": (3, (1, 2), None), "cpu": torch.get_rng_state()}, folder / "rng_state.pth")
    (folder / "README.md").write_text(
        "---\nlicense: mit\n---\n# A model\nWords about it.\n", encoding="utf-8"
    )
    for path in sorted(folder.iterdir()):
        files.add("%s/%s" % (kind, path.name))
for kind in ("sharded",):
    config = AutoConfig.for_model("gpt2", n_embd=32, n_layer=4, n_head=2, vocab_size=300)
    AutoModel.from_config(config).save_pretrained(files.path(kind), max_shard_size="50KB")
    for path in sorted(files.path(kind).iterdir()):
        files.add("%s/%s" % (kind, path.name))
sys.exit(files.close())
