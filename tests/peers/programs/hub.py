# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The programs of Hugging Face's own tree, with tiny random models."""

from __future__ import annotations

import json
from pathlib import Path

import torch
from record import program

ENVIRONMENT = "torch"


def llama(**more):
    from transformers import LlamaConfig, LlamaForCausalLM

    keys = dict(
        vocab_size=64,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=32,
        tie_word_embeddings=False,
        bos_token_id=1,
        eos_token_id=2,
    )
    torch.manual_seed(1)
    return LlamaForCausalLM(LlamaConfig(**{**keys, **more}))


class Tied(torch.nn.Module):
    """Two layers of one weight, a layer apart, a buffer."""

    def __init__(self, width=16):
        super().__init__()
        torch.manual_seed(2)
        self.first = torch.nn.Linear(width, 8)
        self.second = torch.nn.Linear(8, width)
        self.again = torch.nn.Linear(width, 8)
        self.again.weight = self.first.weight
        self.register_buffer("steps", torch.arange(5))

    def forward(self, x):
        return self.second(self.first(x)) + 0 * self.again(x).sum()


@program("transformers", modules=("safetensors.torch",))
def transformers_(log):
    from transformers import AutoModelForCausalLM, BertConfig, BertForMaskedLM

    for kind in ("float32", "bfloat16", "float16"):
        model = llama().to(getattr(torch, kind))
        model.save_pretrained(f"whole-{kind}")
        log.tensors(kind, AutoModelForCausalLM.from_pretrained(f"whole-{kind}", dtype="auto").state_dict())
    llama().save_pretrained("sharded", max_shard_size="20KB")
    back, report = AutoModelForCausalLM.from_pretrained("sharded", output_loading_info=True)
    log.tensors("sharded", back.state_dict())
    log.value("report", sorted((k, sorted(v)) for k, v in report.items() if v))
    back = AutoModelForCausalLM.from_pretrained("sharded", low_cpu_mem_usage=True, device_map={"": "cpu"})
    log.tensors("device map", back.state_dict())
    llama(tie_word_embeddings=True).save_pretrained("tied")
    log.tensors("tied", AutoModelForCausalLM.from_pretrained("tied").state_dict())
    torch.manual_seed(3)
    bert = BertForMaskedLM(
        BertConfig(
            vocab_size=40, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=24
        )
    )
    bert.save_pretrained("bert")
    log.tensors("bert", BertForMaskedLM.from_pretrained("bert").state_dict())
    # Another head: missing and unexpected names; another size.
    from transformers import BertForSequenceClassification

    back, report = BertForSequenceClassification.from_pretrained("bert", output_loading_info=True)
    log.value("head", sorted((k, sorted(map(str, v))) for k, v in report.items() if v))
    log.call("size", BertForMaskedLM.from_pretrained, "bert", vocab_size=41)
    log.broken(
        "whole-float32/model.safetensors", lambda: AutoModelForCausalLM.from_pretrained("whole-float32")
    )
    index = Path("sharded/model.safetensors.index.json")
    shard = sorted(set(json.loads(index.read_text())["weight_map"].values()))[-1]
    log.broken(
        index.parent / shard,
        lambda: AutoModelForCausalLM.from_pretrained("sharded"),
        only={"cut", "empty", "unknown type"},
    )


@program("huggingface_hub", modules=("safetensors.torch",))
def huggingface_hub_(log):
    import huggingface_hub as hub

    model = Tied()
    for name in ("model", "sharded", "dict", "kept", "views", "overlap"):
        Path(name).mkdir()
    hub.save_torch_model(model, "model")
    hub.save_torch_model(model, "sharded", max_shard_size=600)
    hub.save_torch_state_dict(
        model.state_dict(),
        "dict",
        metadata={"a": "b", "z": "y"},
        filename_pattern="weights{suffix}.safetensors",
    )
    hub.save_torch_state_dict(model.state_dict(), "kept", shared_tensors_to_discard=["first.weight"])
    for where in ("model", "sharded", "kept"):
        fresh = Tied()
        with torch.no_grad():
            for p in fresh.parameters():
                p.zero_()
        log.value(f"{where} keys", hub.load_torch_model(fresh, where, strict=False))
        log.tensors(where, fresh.state_dict())
    log.tensors("file", hub.load_state_dict_from_file("model/model.safetensors"))
    parts = hub.split_torch_state_dict_into_shards(model.state_dict(), max_shard_size=300)
    log.value("split", (parts.is_sharded, parts.metadata, parts.filename_to_tensors))
    log.value("id", len(hub.get_torch_storage_id(torch.ones(3))))
    log.value("size", hub.get_torch_storage_size(torch.ones(7)[2:]))

    class Mixed(torch.nn.Module, hub.PyTorchModelHubMixin):
        def __init__(self, width: int = 4):
            super().__init__()
            torch.manual_seed(5)
            self.layer = torch.nn.Linear(width, 3)

    Mixed(6).save_pretrained("mixin")
    log.tensors("mixin", Mixed.from_pretrained("mixin").state_dict())
    log.call("mixin strict", Mixed.from_pretrained, "mixin", width=7)
    hub.export_folder_as_dduf("bundle.dduf", "model") if Path("model/model_index.json").exists() else None
    log.broken("model/model.safetensors", lambda: hub.load_torch_model(Tied(), "model"))
    log.call(
        "views",
        hub.save_torch_state_dict,
        {"a": torch.ones(4)[:2], "b": torch.ones(4).as_strided((2,), (2,))},
        "views",
    )
    base = torch.arange(6.0)
    log.call("overlap", hub.save_torch_state_dict, {"a": base[:4], "b": base[2:]}, "overlap")


@program("accelerate", modules=("safetensors.torch",))
def accelerate_(log):
    import accelerate
    from accelerate import Accelerator, init_empty_weights, load_checkpoint_and_dispatch
    from accelerate.utils import (  # noqa: F401 - that they can be imported is part of the promise
        load_checkpoint_in_model,
        load_offloaded_weights,
        load_state_dict,
        offload_state_dict,
        save,
    )

    model = Tied()
    accelerator = Accelerator(cpu=True)
    accelerator.save_model(model, "model", safe_serialization=True)
    accelerator.save_model(llama(), "sharded", max_shard_size="20KB")
    for where, made in (("model", Tied()), ("sharded", llama())):
        with torch.no_grad():
            for p in made.parameters():
                p.zero_()
        log.call(where, load_checkpoint_in_model, made, where)
        log.tensors(where, made.state_dict())
    with init_empty_weights():
        empty = llama()
    full = load_checkpoint_and_dispatch(empty, "sharded", device_map={"": "cpu"})
    log.tensors("dispatched", full.state_dict())
    with init_empty_weights():
        empty = llama()
    places = {
        "model.embed_tokens": "cpu",
        "model.layers.0": "cpu",
        "model.layers.1": "disk",
        "model.norm": "disk",
        "model.rotary_emb": "cpu",
        "lm_head": "disk",
    }
    off = load_checkpoint_and_dispatch(empty, "sharded", device_map=places, offload_folder="offload")
    ids = torch.arange(8).reshape(1, 8)
    log.tensors("offloaded", [off(ids).logits.detach(), full(ids).logits.detach()])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    prepared, optimizer = accelerator.prepare(model, optimizer)
    prepared(torch.ones(2, 16)).sum().backward()
    optimizer.step()
    accelerator.save_state("state", safe_serialization=True)
    before = {k: v.clone() for k, v in prepared.state_dict().items()}
    optimizer.step()
    accelerator.load_state("state")
    log.tensors("state", prepared.state_dict())
    log.value("state equal", all(torch.equal(before[k], v) for k, v in prepared.state_dict().items()))
    save({"a": torch.ones(3)}, "a.safetensors", safe_serialization=True)
    log.tensors("load_state_dict", load_state_dict("a.safetensors"))
    log.tensors(
        "mapped",
        load_state_dict(
            "sharded/" + sorted(p.name for p in Path("sharded").glob("*.safetensors"))[0],
            device_map={"": "cpu"},
        ),
    )
    log.value("version", accelerate.__version__)
    log.broken("a.safetensors", lambda: load_state_dict("a.safetensors"))
    for file in Path("state").glob("*.p*"):
        file.unlink()  # pickles of random states
    for file in Path("state").glob("*.bin"):
        file.unlink()


@program("peft", modules=("safetensors.torch",))
def peft_(log):
    from peft import IA3Config, LoraConfig, PeftModel, PromptTuningConfig, get_peft_model, load_peft_weights

    configs = {
        "lora": LoraConfig(r=4, target_modules=["q_proj", "v_proj"], init_lora_weights=False),
        "dora": LoraConfig(r=2, use_dora=True, target_modules=["q_proj"], modules_to_save=["lm_head"]),
        "ia3": IA3Config(target_modules=["k_proj"], feedforward_modules=[]),
        "prompt": PromptTuningConfig(num_virtual_tokens=3, task_type="CAUSAL_LM"),
        "embeddings": LoraConfig(r=2, target_modules=["embed_tokens"], init_lora_weights=False),
    }
    for name, config in configs.items():
        torch.manual_seed(4)
        model = get_peft_model(llama(), config)
        model.save_pretrained(name)
        log.tensors(name, load_peft_weights(name, device="cpu"))
        back = PeftModel.from_pretrained(llama(), name)
        log.tensors(f"{name} loaded", back.state_dict())
    torch.manual_seed(4)
    merged = get_peft_model(llama(), configs["lora"]).merge_and_unload()
    merged.save_pretrained("merged")
    log.broken("lora/adapter_model.safetensors", lambda: PeftModel.from_pretrained(llama(), "lora"))


@program("diffusers", modules=("safetensors.torch",))
def diffusers_(log):
    from diffusers import AutoencoderKL, DDPMPipeline, DDPMScheduler, UNet2DConditionModel, UNet2DModel
    from diffusers.models.model_loading_utils import load_state_dict
    from diffusers.training_utils import EMAModel

    torch.manual_seed(6)
    unet = UNet2DModel(
        sample_size=8,
        block_out_channels=(8, 16),
        layers_per_block=1,
        norm_num_groups=4,
        down_block_types=("DownBlock2D", "AttnDownBlock2D"),
        up_block_types=("AttnUpBlock2D", "UpBlock2D"),
    )
    unet.save_pretrained("unet")
    unet.save_pretrained("unet16", variant="fp16")
    unet.save_pretrained("sharded", max_shard_size="40KB")
    for where, more in (
        ("unet", {}),
        ("unet16", {"variant": "fp16"}),
        ("sharded", {}),
        ("unet", {"torch_dtype": torch.float16}),
        ("unet", {"low_cpu_mem_usage": False}),
    ):
        log.tensors(f"{where} {more}", UNet2DModel.from_pretrained(where, **more).state_dict())
    log.tensors("parallel", UNet2DModel.from_pretrained("sharded", disable_mmap=True).state_dict())
    DDPMPipeline(unet, DDPMScheduler()).save_pretrained("pipeline", safe_serialization=True)
    log.tensors("pipeline", DDPMPipeline.from_pretrained("pipeline").unet.state_dict())
    vae = AutoencoderKL(block_out_channels=(8,), norm_num_groups=4, latent_channels=2)
    vae.save_pretrained("vae")
    log.tensors("vae", AutoencoderKL.from_pretrained("vae").state_dict())
    ema = EMAModel(unet.parameters(), model_cls=UNet2DModel, model_config=unet.config)
    ema.save_pretrained("ema")
    log.tensors("ema", [p for p in EMAModel.from_pretrained("ema", UNet2DModel).shadow_params])
    from peft import LoraConfig

    cond = UNet2DConditionModel(
        sample_size=8,
        block_out_channels=(8, 16),
        layers_per_block=1,
        norm_num_groups=4,
        cross_attention_dim=8,
        attention_head_dim=2,
        down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"),
        up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"),
    )
    cond.add_adapter(
        LoraConfig(r=2, target_modules=["to_q", "to_v"], init_lora_weights=False), adapter_name="x"
    )
    cond.save_lora_adapter("lora", adapter_name="x")
    log.call("lora", cond.load_lora_adapter, "lora", adapter_name="y", prefix=None)
    log.tensors("lora", {k: v for k, v in cond.state_dict().items() if "lora" in k})
    log.tensors("state", load_state_dict("unet/diffusion_pytorch_model.safetensors"))
    log.broken("unet/diffusion_pytorch_model.safetensors", lambda: UNet2DModel.from_pretrained("unet"))
    log.broken(
        "vae/diffusion_pytorch_model.safetensors",
        lambda: load_state_dict("vae/diffusion_pytorch_model.safetensors"),
    )


@program("sentence-transformers", modules=("safetensors.torch",))
def sentence_transformers_(log):
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.models import Dense, Normalize, Pooling, Transformer
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

    words = Tokenizer(
        models.WordLevel(
            {w: i for i, w in enumerate("[PAD] [UNK] [CLS] [SEP] [MASK] a b c d e".split())},
            unk_token="[UNK]",
        )
    )
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    PreTrainedTokenizerFast(
        tokenizer_object=words,
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        mask_token="[MASK]",
    ).save_pretrained("base")
    torch.manual_seed(7)
    BertModel(
        BertConfig(
            vocab_size=10, hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=12
        )
    ).save_pretrained("base")
    part = Transformer("base")
    torch.manual_seed(8)
    dense = Dense(8, 4)
    model = SentenceTransformer(modules=[part, Pooling(8), dense, Normalize()], device="cpu")
    model.save("model", create_model_card=False)
    back = SentenceTransformer("model", device="cpu")
    log.tensors("model", back.state_dict())
    log.tensors(
        "vectors", [torch.tensor(model.encode(["a b", "c d e"])), torch.tensor(back.encode(["a b", "c d e"]))]
    )
    log.broken("model/2_Dense/model.safetensors", lambda: SentenceTransformer("model", device="cpu"))


@program("skorch", modules=("safetensors.torch",))
def skorch_(log):
    import numpy as np
    from skorch import NeuralNetRegressor
    from skorch.callbacks import Checkpoint

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(9)
            self.layer = torch.nn.Linear(3, 1)

        def forward(self, x):
            return self.layer(x)

    x = np.random.default_rng(0).normal(size=(20, 3)).astype("f4")
    net = NeuralNetRegressor(
        Net,
        max_epochs=2,
        verbose=0,
        train_split=None,
        optimizer=torch.optim.SGD,
        optimizer__momentum=0.9,
        callbacks=[
            Checkpoint(
                monitor=None,
                dirname="points",
                use_safetensors=True,
                f_pickle=None,
                f_optimizer=None,
                f_criterion=None,
            )
        ],
    )
    net.fit(x, x.sum(1, keepdims=True))
    net.save_params(f_params="net.safetensors", use_safetensors=True)
    other = NeuralNetRegressor(Net, verbose=0).initialize()
    other.load_params(f_params="net.safetensors", use_safetensors=True)
    log.tensors("net", other.module_.state_dict())
    log.call("optimizer", net.save_params, f_optimizer="o.safetensors", use_safetensors=True)
    log.broken("net.safetensors", lambda: other.load_params(f_params="net.safetensors", use_safetensors=True))
