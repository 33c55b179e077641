# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Tiny models through transformers, accelerate, peft, skorch, huggingface_hub and torch's own checkpoints.

Run in an environment where `safetensors` is ours (SAFETENSORS_C=1 or the alias distribution); the first test
makes sure of it. Every comparison is bit for bit. Nothing is downloaded.
"""

from __future__ import annotations

import json
import os
import sys

import pytest

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
torch = pytest.importorskip("torch")


def bits(tensor):
    return tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8)


def assert_equal(a, b):
    assert list(a) == list(b) or sorted(a) == sorted(b)
    for name in a:
        assert a[name].dtype == b[name].dtype and a[name].shape == b[name].shape, name
        assert torch.equal(bits(a[name]), bits(b[name])), name


def files(directory, suffix=".safetensors"):
    return sorted(p.name for p in directory.iterdir() if p.name.endswith(suffix))


def test_safetensors_is_ours():
    import safetensors
    import safetensors.torch
    import safetensors_c
    import safetensors_c.torch

    assert safetensors.safe_open is safetensors_c.safe_open
    assert safetensors.torch.load_file is safetensors_c.torch.load_file


@pytest.fixture(scope="module")
def tiny():
    transformers = pytest.importorskip("transformers")
    config = transformers.LlamaConfig(
        vocab_size=64,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=32,
        tie_word_embeddings=False,
    )
    torch.manual_seed(1)
    return transformers.LlamaForCausalLM(config)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_transformers(tmp_path, tiny, dtype):
    kind = getattr(torch, dtype)
    model = tiny.to(kind)
    model.save_pretrained(tmp_path)
    assert files(tmp_path) == ["model.safetensors"]
    back = type(model).from_pretrained(tmp_path, dtype=kind)
    assert_equal(model.state_dict(), back.state_dict())
    if kind is torch.float32:  # .to() above rounds a buffer that is not saved
        ids = torch.arange(8).reshape(1, 8)
        assert torch.equal(model.eval()(ids).logits, back.eval()(ids).logits)


def test_transformers_sharded(tmp_path, tiny):
    model = tiny.to(torch.float32)
    model.save_pretrained(tmp_path, max_shard_size="40KB")
    assert len(files(tmp_path)) > 2
    index = json.loads((tmp_path / "model.safetensors.index.json").read_text())
    assert set(index["weight_map"].values()) == set(files(tmp_path))
    back = type(model).from_pretrained(tmp_path)
    assert_equal(model.state_dict(), back.state_dict())


def test_transformers_tied_weights(tmp_path):
    transformers = pytest.importorskip("transformers")
    config = transformers.GPT2Config(vocab_size=64, n_positions=16, n_embd=16, n_layer=2, n_head=2)
    model = transformers.GPT2LMHeadModel(config)
    model.save_pretrained(tmp_path)
    back = transformers.GPT2LMHeadModel.from_pretrained(tmp_path)
    assert back.lm_head.weight.data_ptr() == back.transformer.wte.weight.data_ptr()
    assert_equal(model.state_dict(), back.state_dict())


def test_transformers_bert_and_vision(tmp_path):
    transformers = pytest.importorskip("transformers")
    bert = transformers.BertModel(
        transformers.BertConfig(
            vocab_size=50, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=24
        )
    )
    bert.save_pretrained(tmp_path / "bert")
    assert_equal(bert.state_dict(), transformers.BertModel.from_pretrained(tmp_path / "bert").state_dict())
    vit = transformers.ViTModel(
        transformers.ViTConfig(
            hidden_size=16,
            num_hidden_layers=1,
            num_attention_heads=2,
            intermediate_size=24,
            image_size=8,
            patch_size=4,
        )
    )
    vit.save_pretrained(tmp_path / "vit")
    assert_equal(vit.state_dict(), transformers.ViTModel.from_pretrained(tmp_path / "vit").state_dict())


def test_transformers_trainer_checkpoint(tmp_path, tiny):
    transformers = pytest.importorskip("transformers")
    pytest.importorskip("accelerate")
    model = tiny.to(torch.float32)
    data = [{"input_ids": torch.arange(8), "labels": torch.arange(8)} for _ in range(4)]
    arguments = transformers.TrainingArguments(
        output_dir=str(tmp_path),
        max_steps=2,
        save_steps=1,
        report_to=[],
        use_cpu=True,
        logging_steps=1,
        per_device_train_batch_size=2,
    )
    transformers.Trainer(model=model, args=arguments, train_dataset=data).train()
    assert (tmp_path / "checkpoint-2" / "model.safetensors").exists()
    back = type(model).from_pretrained(tmp_path / "checkpoint-2")
    assert_equal(model.state_dict(), back.state_dict())
    again = transformers.Trainer(model=type(model)(model.config), args=arguments, train_dataset=data)
    again.train(resume_from_checkpoint=str(tmp_path / "checkpoint-1"))


def test_accelerate(tmp_path, tiny):
    accelerate = pytest.importorskip("accelerate")
    from accelerate import load_checkpoint_and_dispatch
    from accelerate.utils import load_state_dict

    model = tiny.to(torch.float32)
    accelerate.Accelerator(cpu=True).save_model(model, tmp_path / "whole")
    accelerate.Accelerator(cpu=True).save_model(model, tmp_path / "parts", max_shard_size="40KB")
    assert len(files(tmp_path / "parts")) > 2
    assert_equal(load_state_dict(str(tmp_path / "whole" / "model.safetensors")), model.state_dict())
    for part in ("whole", "parts"):
        with accelerate.init_empty_weights():
            empty = type(model)(model.config)
        loaded = load_checkpoint_and_dispatch(empty, tmp_path / part, device_map={"": "cpu"})
        assert_equal(loaded.state_dict(), model.state_dict())


def test_accelerate_states_and_offload(tmp_path, tiny):
    accelerate = pytest.importorskip("accelerate")
    accelerator = accelerate.Accelerator(cpu=True)
    model = accelerator.prepare(tiny.to(torch.float32))
    wanted = {n: t.clone() for n, t in model.state_dict().items()}
    accelerator.save_state(tmp_path / "state")
    assert "model.safetensors" in files(tmp_path / "state")
    with torch.no_grad():
        for p in model.parameters():
            p.zero_()
    accelerator.load_state(tmp_path / "state")
    assert_equal(model.state_dict(), wanted)
    accelerator.save_model(model, tmp_path / "whole")
    from accelerate.utils import OffloadedWeightsLoader

    index = {
        name: {
            "safetensors_file": str(tmp_path / "whole" / "model.safetensors"),
            "weight_name": name,
            "dtype": "float32",
        }
        for name in wanted
    }
    lazy = OffloadedWeightsLoader(index=index, save_folder=str(tmp_path))
    assert_equal({n: lazy[n] for n in lazy}, wanted)


def test_peft(tmp_path, tiny):
    peft = pytest.importorskip("peft")
    import copy

    base = tiny.to(torch.float32)
    model = peft.get_peft_model(
        copy.deepcopy(base), peft.LoraConfig(r=4, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM")
    )
    with torch.no_grad():
        for name, p in model.named_parameters():
            if "lora_" in name:
                p.normal_()
    model.save_pretrained(tmp_path)
    assert files(tmp_path) == ["adapter_model.safetensors"]
    back = peft.PeftModel.from_pretrained(copy.deepcopy(base), tmp_path)
    assert_equal(model.state_dict(), back.state_dict())
    merged = back.merge_and_unload()
    merged.save_pretrained(tmp_path / "merged")
    again = type(base).from_pretrained(tmp_path / "merged")
    assert_equal(merged.state_dict(), again.state_dict())


def test_huggingface_hub(tmp_path, tiny):
    hub = pytest.importorskip("huggingface_hub")
    model = tiny.to(torch.float32)
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    hub.save_torch_model(model, tmp_path / "a", max_shard_size="40KB")
    other = type(model)(model.config)
    hub.load_torch_model(other, tmp_path / "a")
    assert_equal(model.state_dict(), other.state_dict())
    hub.save_torch_state_dict(model.state_dict(), tmp_path / "b")
    loaded = hub.load_state_dict_from_file(tmp_path / "b" / "model.safetensors")
    assert_equal(loaded, model.state_dict())

    class Mixed(torch.nn.Module, hub.PyTorchModelHubMixin):
        def __init__(self, size: int = 4):
            super().__init__()
            self.layer = torch.nn.Linear(size, size)
            self.same = self.layer

    mixed = Mixed(3)
    mixed.save_pretrained(tmp_path / "mixed")
    assert_equal(Mixed.from_pretrained(tmp_path / "mixed").state_dict(), mixed.state_dict())


def test_skorch(tmp_path):
    skorch = pytest.importorskip("skorch")
    import numpy as np
    from skorch.callbacks import Checkpoint, LoadInitState, TrainEndCheckpoint

    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(40, 4)).astype("f4"), rng.integers(0, 2, 40)

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))

        def forward(self, x):
            return self.layers(x).softmax(-1)

    end = TrainEndCheckpoint(dirname=str(tmp_path / "end"), use_safetensors=True, f_optimizer=None)
    best = Checkpoint(dirname=str(tmp_path / "best"), use_safetensors=True, f_optimizer=None, monitor=None)
    net = skorch.NeuralNetClassifier(Net, max_epochs=2, callbacks=[end, best], verbose=0)
    net.fit(x, y)
    from safetensors import safe_open

    for checkpoint in (tmp_path / "end" / "train_end_params.pt", tmp_path / "best" / "params.pt"):
        with safe_open(checkpoint, "pt") as f:  # the name says .pt, use_safetensors says what is in it
            assert_equal({n: f.get_tensor(n) for n in f.keys()}, dict(net.module_.state_dict()))
    net.save_params(f_params=str(tmp_path / "p.safetensors"), use_safetensors=True)
    other = skorch.NeuralNetClassifier(Net, verbose=0).initialize()
    other.load_params(f_params=str(tmp_path / "p.safetensors"), use_safetensors=True)
    assert_equal(other.module_.state_dict(), net.module_.state_dict())
    again = skorch.NeuralNetClassifier(
        Net, max_epochs=0, verbose=0, callbacks=[LoadInitState(best, use_safetensors=True)]
    )
    again.fit(x, y)
    assert_equal(again.module_.state_dict(), net.module_.state_dict())
    import io

    buffer = io.BytesIO()
    net.save_params(f_params=buffer, use_safetensors=True)
    buffer.seek(0)
    other.load_params(f_params=buffer, use_safetensors=True)
    assert_equal(other.module_.state_dict(), net.module_.state_dict())
    with pytest.raises(ValueError, match="safetensors"):
        net.save_params(f_optimizer=str(tmp_path / "o.safetensors"), use_safetensors=True)


def test_torch_distributed_checkpoint(tmp_path):
    storage = pytest.importorskip("torch.distributed.checkpoint.hf_storage")
    import torch.distributed.checkpoint as checkpoint

    wanted = {"a": torch.randn(6, 4), "b": torch.arange(5, dtype=torch.bfloat16)}
    checkpoint.save(wanted, storage_writer=storage.HuggingFaceStorageWriter(path=str(tmp_path)), no_dist=True)
    assert files(tmp_path)
    loaded = {n: torch.zeros_like(t) for n, t in wanted.items()}
    checkpoint.load(loaded, storage_reader=storage.HuggingFaceStorageReader(path=str(tmp_path)), no_dist=True)
    assert_equal(loaded, wanted)


def test_flax_and_tensorflow_files_are_torch_files(tmp_path):
    import safetensors.torch

    a = torch.randn(3, 4)
    safetensors.torch.save_file({"a": a}, tmp_path / "t")
    if pytest.importorskip("jax"):
        import safetensors.flax

        loaded = safetensors.flax.load_file(tmp_path / "t")
        safetensors.flax.save_file(loaded, tmp_path / "j")
        assert (tmp_path / "j").read_bytes() == (tmp_path / "t").read_bytes()


def test_the_reference_was_never_loaded():
    rust = sys.modules.get("safetensors._safetensors_rust")
    assert rust is None or rust is sys.modules["safetensors_c._core"]
    with open("/proc/self/maps") as maps:
        assert "_safetensors_rust" not in maps.read()
