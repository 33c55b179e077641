# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Converters, mergers, trainers and small libraries around torch and NumPy."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import torch
from record import program

ENVIRONMENT = "torch"


def word_tokenizer(size=12):
    from tokenizers import Tokenizer, models, pre_tokenizers

    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefghijklmnopqrstuvwxyz"][:size]
    tokenizer = Tokenizer(models.WordLevel({w: i for i, w in enumerate(words)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    return tokenizer


def hf_model(where, **more):
    from hub import llama
    from transformers import PreTrainedTokenizerFast

    model = llama(**more)
    model.save_pretrained(where)
    PreTrainedTokenizerFast(
        tokenizer_object=word_tokenizer(), pad_token="[PAD]", unk_token="[UNK]"
    ).save_pretrained(where)
    return model


@program("mergekit", modules=("safetensors.torch",))
def mergekit_(log):
    from hub import llama
    from mergekit.config import MergeConfiguration
    from mergekit.io import LazyTensorLoader, ShardedTensorIndex, TensorWriter
    from mergekit.merge import MergeOptions, run_merge

    hf_model("one")
    torch.manual_seed(9)
    other = llama()
    with torch.no_grad():
        for p in other.parameters():
            p.add_(torch.randn_like(p) / 10)
    other.save_pretrained("two", max_shard_size="20KB")
    for name in ("one", "two"):
        loader = LazyTensorLoader(ShardedTensorIndex.from_disk(name))
        log.tensors(name, {k: loader.get_tensor(k) for k in sorted(loader.index.tensor_paths)})
    writer = TensorWriter("written", max_shard_size=6000)
    for i in range(6):
        writer.save_tensor(f"t{i}", torch.arange(float(i * 300)).reshape(-1, 3), clone=True)
    writer.finalize()
    shared = TensorWriter("shared")
    base = torch.arange(10.0)
    shared.save_tensor("a", base[:6])
    shared.save_tensor("b", base[4:])
    log.call("shared", shared.finalize)
    for method, more in {"linear": {}, "slerp": {"base_model": "one", "parameters": {"t": 0.4}}}.items():
        text = {
            "merge_method": method,
            "models": [
                {"model": "one", "parameters": {"weight": 0.6}},
                {"model": "two", "parameters": {"weight": 0.4}},
            ],
            "dtype": "float32",
            **more,
        }
        options = MergeOptions(copy_tokenizer=False, lazy_unpickle=True, write_model_card=False)
        log.call(
            f"{method} merged", lambda: run_merge(MergeConfiguration.model_validate(text), method, options)
        )
        if Path(method).exists():
            loader = LazyTensorLoader(ShardedTensorIndex.from_disk(method))
            log.tensors(method, {k: loader.get_tensor(k) for k in sorted(loader.index.tensor_paths)})
    log.broken("one/model.safetensors", lambda: ShardedTensorIndex.from_disk("one"))


@program("gguf", modules=("safetensors",))
def gguf_(log):
    """A converter as llama.cpp's: names and shapes from safe_open, tensors one after the other, half or raw."""
    import gguf
    from safetensors import safe_open

    hf_model("model")
    parts = sorted(Path("model").glob("*.safetensors"))
    arch = gguf.MODEL_ARCH.LLAMA
    names = gguf.get_tensor_name_map(arch, 2)
    writer = gguf.GGUFWriter("out.gguf", "llama")
    writer.add_block_count(2)
    for part in parts:
        with safe_open(part, framework="pt", device="cpu") as f:
            log.value("metadata", f.metadata())
            for name in f.keys():
                piece = f.get_slice(name)
                new = names.get_name(name, try_suffixes=(".weight",))
                log.value(name, (new, piece.get_shape(), piece.get_dtype()))
                data = f.get_tensor(name)
                half = piece[: piece.get_shape()[0] // 2]
                log.tensors(f"{name} half", [half])
                writer.add_tensor(new, data.numpy() if data.ndim == 1 else data.to(torch.float16).numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    log.tensors("read", {t.name: np.array(t.data) for t in gguf.GGUFReader("out.gguf").tensors})
    local = log.call("own reader", lambda: gguf.utility.SafetensorsLocal(parts[0]))
    if local is not None:
        log.value("own reader names", sorted(local.tensors))


@program("onnx-safetensors", modules=("safetensors",))
def onnx_safetensors_(log):
    import onnx
    import onnx_safetensors

    rng = np.random.default_rng(1)
    weights = {
        "w": rng.normal(size=(4, 3)).astype("f4"),
        "b": rng.normal(size=(3,)).astype("f4"),
        "k": np.arange(5, dtype="i8"),
    }
    graph = onnx.helper.make_graph(
        [
            onnx.helper.make_node("MatMul", ["x", "w"], ["y0"]),
            onnx.helper.make_node("Add", ["y0", "b"], ["y"]),
        ],
        "g",
        [onnx.helper.make_tensor_value_info("x", 1, [None, 4])],
        [onnx.helper.make_tensor_value_info("y", 1, [None, 3])],
        [onnx.numpy_helper.from_array(v, k) for k, v in weights.items()],
    )
    model = onnx.helper.make_model(graph)
    onnx_safetensors.save_file(model, "weights.safetensors")
    onnx_safetensors.save_model(model, "external.onnx", external_data="external.safetensors")
    raw = onnx_safetensors.save(model)
    Path("bytes.safetensors").write_bytes(raw)
    for name, back in {
        "file": onnx_safetensors.load_file(model, "weights.safetensors"),
        "bytes": onnx_safetensors.load(model, raw),
        "external": onnx_safetensors.load_file_as_external_data(model, "weights.safetensors"),
    }.items():
        log.value(name, [t.name for t in back.graph.initializer])
        if name != "external":
            log.tensors(name, {t.name: onnx.numpy_helper.to_array(t) for t in back.graph.initializer})
    log.tensors(
        "replaced",
        {t.name: onnx.numpy_helper.to_array(t) for t in onnx.load("external.onnx").graph.initializer},
    )
    log.call("whole", onnx_safetensors.save_safetensors_model, model, "whole.safetensors")
    log.broken("weights.safetensors", lambda: onnx_safetensors.load_file(model, "weights.safetensors"))


@program("model2vec", modules=("safetensors.numpy",))
def model2vec_(log):
    from model2vec import StaticModel

    vectors = np.random.default_rng(2).normal(size=(12, 6)).astype("f4")
    model = StaticModel(vectors, word_tokenizer(), {"normalize": True})
    model.save_pretrained("model")
    back = StaticModel.from_pretrained("model")
    log.tensors("embedding", [back.embedding, back.encode(["a b", "c"])])
    log.tensors("half", [StaticModel.from_pretrained("model", quantize_to="float16").embedding])
    log.tensors("smaller", [StaticModel.from_pretrained("model", dimensionality=3).embedding])
    StaticModel(
        vectors[:5], word_tokenizer(), {}, weights=np.ones(12), token_mapping=np.arange(12) % 5
    ).save_pretrained("mapped")
    log.tensors("mapped", [StaticModel.from_pretrained("mapped").encode(["a b"])])
    log.broken("model/model.safetensors", lambda: StaticModel.from_pretrained("model"))


@program("curated-transformers", modules=("safetensors.torch",))
def curated_transformers_(log):
    from curated_transformers.repository.file import LocalFile
    from curated_transformers.util.serde.checkpoint import ModelCheckpointType
    from hub import llama

    llama().save_pretrained("model")
    load = ModelCheckpointType.SAFE_TENSORS.loader
    log.tensors("path", next(iter(load([LocalFile("model/model.safetensors")]))))

    class Bytes(LocalFile):
        path = None

    log.tensors("bytes", next(iter(load([Bytes("model/model.safetensors")]))), ordered=False)
    log.broken("model/model.safetensors", lambda: next(iter(load([LocalFile("model/model.safetensors")]))))
    log.broken("model/model.safetensors", lambda: next(iter(load([Bytes("model/model.safetensors")]))))


@program("litgpt", modules=("safetensors.torch",))
def litgpt_(log):
    from litgpt.scripts.convert_hf_checkpoint import convert_hf_checkpoint

    hf_model("checkpoint/Llama-2-7b-hf", num_key_value_heads=4)
    where = Path("checkpoint/Llama-2-7b-hf")
    if log.call("convert", lambda: convert_hf_checkpoint(where, debug_mode=True) or True) is None:
        log.call("convert with progress", convert_hf_checkpoint, where)
    made = where / "lit_model.pth"
    if made.exists():
        state = torch.load(made, weights_only=True)
        log.tensors("converted", state.get("model", state))
        made.unlink()
    log.broken(
        where / "model.safetensors",
        lambda: convert_hf_checkpoint(where, debug_mode=True),
        only={"cut", "empty", "page of HTML"},
    )


@program("gliner", modules=("safetensors.torch",))
def gliner_(log):
    from gliner.model import BaseGLiNER
    from hub import Tied
    from safetensors import safe_open
    from safetensors.torch import save_file

    state = Tied().state_dict()
    base = torch.arange(20.0)
    state["part"], state["strided"] = base[5:10], torch.arange(6.0).reshape(2, 3).t()
    tensors, metadata = BaseGLiNER._prepare_safetensors_state_dict(state)
    save_file(tensors, "model.safetensors", metadata=metadata or None)
    log.value("metadata", metadata)
    with safe_open("model.safetensors", framework="pt", device="cpu") as f:
        log.value("read", f.metadata())
        loaded = {key: f.get_tensor(key) for key in f.keys()}
    log.tensors("loaded", loaded)


@program("setfit", modules=("safetensors.torch",))
def setfit_(log):
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.models import StaticEmbedding
    from setfit import SetFitModel
    from setfit.modeling import SetFitHead

    torch.manual_seed(3)
    body = SentenceTransformer(modules=[StaticEmbedding(word_tokenizer(), embedding_dim=8)], device="cpu")
    model = SetFitModel(model_body=body, model_head=SetFitHead(8, 2, device="cpu"))
    log.call("save", model.save_pretrained, "model")
    back = log.call("load", SentenceTransformer, "model", device="cpu")
    log.tensors("body", back.state_dict() if back is not None else {"none": torch.ones(1)})
    for file in Path("model").glob("*.pkl"):
        file.unlink()
    for file in Path("model").glob("README.md"):
        file.unlink()


@program("torch dcp", distribution="torch", modules=("safetensors.torch",))
def torch_dcp(log):
    import torch.distributed.checkpoint as dcp
    from hub import llama
    from torch.distributed.checkpoint import HuggingFaceStorageReader, HuggingFaceStorageWriter

    state = llama().state_dict()
    dcp.save(state, storage_writer=HuggingFaceStorageWriter(path="out"), no_dist=True)
    index = {k: i % 2 + 1 for i, k in enumerate(state)}
    dcp.save(
        state, storage_writer=HuggingFaceStorageWriter(path="two", fqn_to_index_mapping=index), no_dist=True
    )
    log.call(
        "consolidated",
        lambda: dcp.save(
            state,
            storage_writer=HuggingFaceStorageWriter(
                path="whole", save_distributed=True, enable_consolidation=True
            ),
            no_dist=True,
        ),
    )
    for where in ("out", "two", "whole"):
        fresh = {k: torch.zeros_like(v) for k, v in state.items()}
        loaded = log.call(
            where,
            lambda: (
                dcp.load(fresh, storage_reader=HuggingFaceStorageReader(path=where), no_dist=True) or True
            ),
        )
        log.value(f"{where} loaded", loaded)
        log.tensors(where, fresh)
    file = sorted(Path("out").glob("*.safetensors"))[0]
    fresh = {k: torch.zeros_like(v) for k, v in state.items()}

    def again():
        try:
            dcp.load(fresh, storage_reader=HuggingFaceStorageReader(path="out"), no_dist=True)
        except dcp.api.CheckpointException as error:  # its text holds a traceback; what is in it counts
            raise next(iter(error.failures.values()))[0] from None
        return True

    log.broken(file, again, only={"cut", "empty", "header too large"})


@program("lightning", modules=("safetensors.torch",))
def lightning_(log):
    """A module that keeps its weights as safetensors through the hooks of a checkpoint plugin."""
    from lightning.fabric.plugins.io import TorchCheckpointIO
    from lightning.pytorch import LightningModule, Trainer
    from safetensors.torch import load_file, save_file

    class Safe(TorchCheckpointIO):
        def save_checkpoint(self, checkpoint, path, storage_options=None):
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            save_file(checkpoint["state_dict"], path, {"epoch": str(checkpoint["epoch"])})

        def load_checkpoint(self, path, map_location=None, **more):
            return {
                "state_dict": load_file(path),
                "pytorch-lightning_version": "2.0.0",
                "epoch": 0,
                "global_step": 0,
                "loops": {},
            }

    class Module(LightningModule):
        def __init__(self):
            super().__init__()
            torch.manual_seed(4)
            self.layer = torch.nn.Linear(4, 2)

        def training_step(self, batch, _):
            return self.layer(batch).sum()

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), 0.1)

    model = Module()
    trainer = Trainer(
        max_epochs=1,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        plugins=[Safe()],
    )
    trainer.fit(model, torch.utils.data.DataLoader(torch.ones(8, 4), batch_size=4))
    trainer.save_checkpoint("last.safetensors", weights_only=True)
    log.tensors("trained", load_file("last.safetensors"))
    fresh = Module()
    log.value(
        "keys",
        fresh.load_state_dict(
            trainer.strategy.checkpoint_io.load_checkpoint("last.safetensors")["state_dict"]
        ),
    )
    log.tensors("fresh", fresh.state_dict())


@program("ctranslate2", modules=("safetensors",))
def ctranslate2_(log):
    from ctranslate2.converters import TransformersConverter

    hf_model("model")
    done = log.call(
        "convert", lambda: TransformersConverter("model", low_cpu_mem_usage=True).convert("out", force=True)
    )
    log.value("converted", done)
    import ctranslate2.converters.transformers as module

    log.value("names", [n for n in dir(module) if "safe" in n.lower()])
    from safetensors import SafetensorError, safe_open

    log.value("error", [base.__name__ for base in SafetensorError.__mro__])
    with safe_open("model/model.safetensors", "numpy") as f:
        log.tensors("numpy", {k: f.get_tensor(k) for k in f.keys()})


@program("sharded by hand", distribution="torch", modules=("safetensors.torch", "safetensors.numpy"))
def by_hand(log):
    """What scripts in many repositories do: shards and an index by hand, slices by rank, bytes over a pipe, fork."""
    import multiprocessing

    from safetensors import deserialize, safe_open, serialize, serialize_file
    from safetensors.numpy import load as load_np
    from safetensors.numpy import save as save_np
    from safetensors.torch import load, load_file, save, save_file

    torch.manual_seed(5)
    tensors = {f"layers.{i}.{n}": torch.rand(8, 6) for i in range(3) for n in ("q", "k", "v")}
    map_ = {}
    for i in range(3):
        name = f"model-{i + 1:05d}-of-00003.safetensors"
        part = {k: v for k, v in tensors.items() if k.startswith(f"layers.{i}.")}
        save_file(part, name, {"format": "pt"})
        map_ |= dict.fromkeys(part, name)
    Path("model.safetensors.index.json").write_text(
        json.dumps({"metadata": {"total_size": 9 * 192}, "weight_map": map_})
    )
    ranks = []
    for rank in range(4):
        mine = {}
        for name, file in map_.items():
            with safe_open(file, "pt", device="cpu") as f:
                rows = f.get_slice(name)
                step = rows.get_shape()[0] // 4
                mine[name] = rows[rank * step : (rank + 1) * step]
        ranks.append(log.tensors(f"rank {rank}", mine))
    log.value("whole", all(torch.equal(torch.cat([r[n] for r in ranks]), tensors[n]) for n in tensors))
    raw = save(tensors)
    log.tensors("bytes", load(raw), ordered=False)
    log.tensors(
        "numpy", load_np(save_np({"a": np.arange(6).reshape(2, 3), "h": np.ones(2, "f2")})), ordered=False
    )
    log.value("deserialize", sorted((n, t["dtype"], t["shape"], len(t["data"])) for n, t in deserialize(raw)))
    log.value(
        "serialize",
        log.call("serialize", serialize, {"a": {"dtype": "uint8", "shape": [3], "data": b"abc"}}, None),
    )
    log.call(
        "wrong size", serialize_file, {"a": {"dtype": "float32", "shape": [3], "data": b"abc"}}, "x", None
    )
    with multiprocessing.get_context("fork").Pool(2) as pool:
        log.value("fork", pool.map(count_of, sorted(set(map_.values()))))
    for label, arguments in {
        "no tensor": ({"a": 1}, "f"),
        "no dict": ([torch.ones(1)], "f"),
        "no name": ({1: torch.ones(1)}, "f"),
        "metadata": ({"a": torch.ones(1)}, "f", {"a": 1}),
        "directory": ({"a": torch.ones(1)}, "."),
        "no directory": ({"a": torch.ones(1)}, "none/f"),
        "sparse": ({"a": torch.eye(3).to_sparse()}, "f"),
        "strided": ({"a": torch.ones(3, 2).t()}, "f"),
        "meta": ({"a": torch.ones(2, device="meta")}, "f"),
    }.items():
        log.call(label, save_file, *arguments)
    for label, arguments in {
        "no file": ("none",),
        "directory": (".",),
        "device": (file, "cuda:0"),
        "device 2": (file, "nothing"),
    }.items():
        log.call(f"load {label}", load_file, *arguments)
    with safe_open(file, "pt") as f:
        log.call("no such name", f.get_tensor, "nothing")
        log.call("no such slice", f.get_slice, "nothing")
        log.call("too many", lambda: f.get_slice(name)[0, 0, 0, 0])
        log.call("beyond", lambda: f.get_slice(name)[100])
        log.value("odd", log.call("odd", lambda: f.get_slice(name)["a"]))
    os.truncate(file, 100)
    log.call("cut", load_file, file)


def count_of(name):
    from safetensors import safe_open

    with safe_open(name, "np") as f:
        return {k: float(f.get_tensor(k).sum()) for k in sorted(f.keys())}
