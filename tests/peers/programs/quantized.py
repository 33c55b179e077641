# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Quantizers: tensors of unusual types, subclasses, packed states."""

from __future__ import annotations

import json
from pathlib import Path

import torch
from record import program

ENVIRONMENT = "torch"


@program("bitsandbytes", modules=("safetensors.torch",))
def bitsandbytes_(log):
    import bitsandbytes as bnb
    from safetensors.torch import load_file, save_file

    torch.manual_seed(1)
    for name, layer in {
        "nf4": bnb.nn.Linear4bit(64, 32, quant_type="nf4", compress_statistics=True),
        "fp4": bnb.nn.Linear4bit(
            64, 32, quant_type="fp4", compress_statistics=False, compute_dtype=torch.bfloat16
        ),
        "int8": bnb.nn.Linear8bitLt(64, 32, has_fp16_weights=False),
    }.items():
        layer = layer.to("cpu")
        layer(torch.ones(1, 64))
        state = layer.state_dict()
        log.tensors(f"{name} made", {k: v for k, v in state.items() if isinstance(v, torch.Tensor)})
        log.call(name, save_file, state, f"{name}.safetensors", {"format": "pt"})
        log.tensors(name, load_file(f"{name}.safetensors"))
        if name != "int8":
            loaded = load_file(f"{name}.safetensors")
            weight = bnb.nn.Params4bit.from_prequantized(
                loaded.pop("weight"),
                {k[7:]: v for k, v in loaded.items() if k.startswith("weight.")},
                device="cpu",
            )
            log.tensors(
                f"{name} dequantized", [bnb.functional.dequantize_4bit(weight.data, weight.quant_state)]
            )
    log.broken(
        "nf4.safetensors", lambda: load_file("nf4.safetensors"), only={"cut", "overlap", "unknown type"}
    )


@program("torchao", modules=("safetensors.torch",))
def torchao_(log):
    from safetensors import safe_open
    from safetensors.torch import load_file, save_file
    from torchao.prototype.safetensors.safetensors_support import (
        flatten_tensor_state_dict,
        unflatten_tensor_state_dict,
    )
    from torchao.quantization import (
        Float8WeightOnlyConfig,
        Int4WeightOnlyConfig,
        Int8WeightOnlyConfig,
        quantize_,
    )

    for name, make in {
        "float8": Float8WeightOnlyConfig,
        "int8": lambda: Int8WeightOnlyConfig(version=2),
        "int4": Int4WeightOnlyConfig,
    }.items():
        torch.manual_seed(2)
        net = torch.nn.Sequential(torch.nn.Linear(128, 128), torch.nn.Linear(128, 64)).to(torch.bfloat16)
        if log.call(f"{name} quantized", lambda: quantize_(net, make()) or True) is None:
            continue
        state = dict(net.state_dict())
        log.call(f"{name} as it is", save_file, state, f"{name}-raw.safetensors")  # tensors without storage
        flat = log.call(f"{name} flattened", flatten_tensor_state_dict, state)
        if flat is None:
            continue
        save_file(flat[0], f"{name}.safetensors", flat[1])
        with safe_open(f"{name}.safetensors", "pt") as f:
            metadata = f.metadata()
            log.value(f"{name} metadata", sorted(metadata.items()))
            tensors = {key: f.get_tensor(key) for key in f.keys()}
        log.tensors(f"{name} parts", tensors)
        back, left = unflatten_tensor_state_dict(tensors, metadata)
        log.value(f"{name} back", sorted((k, type(v).__name__, tuple(v.shape)) for k, v in back.items()))
        log.tensors(
            f"{name} dequantized",
            {
                k: v.dequantize() if hasattr(v, "dequantize") and type(v) is not torch.Tensor else v
                for k, v in back.items()
            },
        )
        log.value(f"{name} left", sorted(left))
    log.tensors("file", load_file("float8.safetensors"))


@program("compressed-tensors", modules=("safetensors.torch",))
def compressed_tensors_(log):
    from compressed_tensors.entrypoints.convert.convert_file import convert_file, validate_file
    from compressed_tensors.offload.cache.disk import DiskCache
    from compressed_tensors.utils import safetensors_load as loading
    from compressed_tensors.utils.mtp import save_mtp_tensors_to_checkpoint
    from hub import llama

    llama().save_pretrained("model", max_shard_size="20KB")
    files = loading.get_checkpoint_files("model")
    log.value("files", sorted(files))
    log.value("map", sorted(loading.get_weight_map(files).items()))
    log.value("mappings", sorted(loading.get_weight_mappings("model").items()))
    log.value("nested", sorted(loading.get_nested_weight_mappings("model", ["weight"]).items()))
    shard = sorted(p for p in files.values() if p.endswith(".safetensors"))[0]
    log.value("header", sorted(loading.get_safetensors_header(shard)))
    log.tensors("all", loading.load_tensors_from_inverse_weight_map({shard: []}, "cpu"))
    meta = loading.load_tensors_from_inverse_weight_map({shard: []}, "meta")
    log.value("meta", [(k, v.dtype, tuple(v.shape)) for k, v in meta.items()])
    log.call("absent", loading.load_tensors_from_inverse_weight_map, {shard: ["nothing.weight"]}, "cpu")

    class Halves:
        def validate(self, tensors):
            return tensors

        def process(self, tensors):
            return {k: v.half() for k, v in tensors.items()}

    log.value("valid", validate_file({shard: []}, [Halves()]))
    log.value("converted", convert_file({shard: []}, "half.safetensors", [Halves()]))
    Path("prefix").mkdir()
    log.tensors(
        "prefix",
        loading._fetch_and_save_prefix_tensors("model", "model.layers.1", "prefix", "extra.safetensors"),
    )
    log.call("mtp", save_mtp_tensors_to_checkpoint, "model", "prefix")
    Path("disk").mkdir()
    cache = log.call("disk", lambda: DiskCache(torch.device("cpu"), offload_dir="disk"))
    if cache is not None:
        meta = log.call("offload", cache.offload, torch.arange(6.0).reshape(2, 3))
        if meta is not None:
            log.tensors("onload", [cache.onload(meta)])
        for file in Path("disk").glob("*"):
            file.unlink()  # named by address
    log.broken(
        "half.safetensors",
        lambda: loading.load_tensors_from_inverse_weight_map({"half.safetensors": []}, "cpu"),
    )


@program("optimum-quanto", modules=("safetensors.torch",))
def optimum_quanto(log):
    from hub import llama
    from optimum.quanto import (
        QuantizedModelForCausalLM,
        freeze,
        qint4,
        qint8,
        quantization_map,
        quantize,
        requantize,
    )
    from safetensors.torch import load_file, save_file

    for name, kind in {"int8": qint8, "int4": qint4}.items():
        model = llama()
        quantize(model, weights=kind)
        freeze(model)
        state = model.state_dict()
        log.call(f"{name} saved", save_file, state, f"{name}.safetensors")
        if not Path(f"{name}.safetensors").exists():
            continue
        log.tensors(name, load_file(f"{name}.safetensors"))
        Path(f"{name}.json").write_text(json.dumps(quantization_map(model)))
        log.call(
            f"{name} again",
            lambda: requantize(
                llama(), load_file(f"{name}.safetensors"), json.loads(Path(f"{name}.json").read_text())
            ),
        )
    wrapped = log.call("wrapped", QuantizedModelForCausalLM.quantize, llama(), weights=qint8)
    if wrapped is not None:
        log.call("save_pretrained", wrapped.save_pretrained, "quantized")
        back = log.call("from_pretrained", QuantizedModelForCausalLM.from_pretrained, "quantized")
        if back is not None:
            log.tensors("quantized", [back(torch.arange(6).reshape(1, 6)).logits.detach()])


@program("optimum", modules=("safetensors.torch",))
def optimum_(log):
    from hub import llama
    from optimum.quanto.models.shared_dict import ShardedStateDict

    llama().save_pretrained("model", max_shard_size="20KB")
    index = json.loads(Path("model/model.safetensors.index.json").read_text())["weight_map"]
    state = ShardedStateDict("model", index)
    log.tensors("sharded", {k: state[k] for k in state})
    fresh = llama()
    log.value("load", fresh.load_state_dict(state))
    log.call("no such name", lambda: state["nothing"])
    shard = sorted(set(index.values()))[0]
    log.broken(f"model/{shard}", lambda: dict(ShardedStateDict("model", index)))


@program("auto-round", distribution="auto-round", modules=("safetensors.torch",))
def auto_round_(log):
    from auto_round.compressors.shard_writer import ShardWriter
    from hub import llama

    model = llama()
    model.config.save_pretrained("out")

    class Here(ShardWriter):
        output_dir = property(lambda self: "out")

    writer = Here(model, bits=4, max_shard_size="20KB")
    for name, module in model.named_modules():
        if not list(module.children()) and list(module.parameters()):
            writer.save_module(module, name)
    writer.finalize()
    shards = sorted(p.name for p in Path("out").glob("*.safetensors"))
    log.value("shards", shards)
    for shard in shards:
        log.value(shard, writer._read_shard_tensor_names(f"out/{shard}"))
    log.call("unreadable", writer._read_shard_tensor_names, "out/none")


@program("llmcompressor", modules=("safetensors.torch",))
def llmcompressor_(log):
    from hub import llama
    from llmcompressor.entrypoints.model_free.save_utils import find_config_path
    from llmcompressor.utils.dev import skip_weights_download

    llama().save_pretrained("model")
    log.value("config", find_config_path("model"))
    from transformers import LlamaForCausalLM

    with skip_weights_download(LlamaForCausalLM):
        made = log.call("skip", LlamaForCausalLM.from_pretrained, "model")
    log.value("names", sorted(made.state_dict()) if made is not None else None)
    from llmcompressor import model_free_ptq

    log.call(
        "ptq",
        model_free_ptq,
        "model",
        "fp8",
        scheme="FP8_DYNAMIC",
        ignore=["lm_head"],
        device="cpu",
        max_workers=1,
    )
    from safetensors.torch import load_file

    for file in sorted(Path("fp8").glob("*.safetensors")) if Path("fp8").exists() else []:
        log.tensors(file.name, load_file(file))
