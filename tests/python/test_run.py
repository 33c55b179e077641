# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Run: what is saved comes back, bit for bit and in place; what is damaged, of another model or unknown is named."""

import contextlib
import copy
import io
import json
import os
import pickle
import random
import re
import signal
import subprocess
import sys
import time
import warnings
from collections import OrderedDict
from pathlib import Path

import numpy as np
import pytest
import safetensors_c
import torch
from safetensors_c import Run, SafetensorError
from safetensors_c.run import Batches
from torch import nn

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from crc32c import crc32c_hex  # noqa: E402

SCHEDULERS = torch.optim.lr_scheduler


def network(sparse=False):
    torch.manual_seed(0)
    if sparse:
        return nn.Sequential(
            nn.Embedding(7, 4, sparse=True), nn.Flatten(), nn.Linear(12, 3).requires_grad_(False)
        )
    return nn.Sequential(nn.Linear(5, 8, bias=False), nn.Dropout(0.2), nn.Tanh(), nn.Linear(8, 3, bias=False))


def train(model, optimizer, steps, scheduler=None, sparse=False):
    losses = []
    for _ in range(steps):
        x = torch.randint(0, 7, (6, 3)) if sparse else torch.randn(6, 5)

        def closure(x=x):
            optimizer.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            return loss

        losses.append(optimizer.step(closure).item())
        if scheduler is not None:
            scheduler.step(*([losses[-1]] if isinstance(scheduler, SCHEDULERS.ReduceLROnPlateau) else []))
    return losses


def same(a, b):
    """Trees are equal, tensors bit for bit."""
    if isinstance(a, torch.Tensor):
        return a.dtype == b.dtype and a.shape == b.shape and torch.equal(a, b)
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    if isinstance(a, (list, tuple)):
        return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
    return a == b and type(a) is type(b)


OPTIMIZERS = [
    (name, {})
    for name, cls in vars(torch.optim).items()
    if isinstance(cls, type) and issubclass(cls, torch.optim.Optimizer) and cls is not torch.optim.Optimizer
] + [
    ("Adam", {"fused": True}),
    ("AdamW", {"foreach": True, "amsgrad": True}),
    ("AdamW", {"lr": torch.tensor(0.01), "foreach": False}),
    ("SGD", {"fused": True, "lr": 0.1, "momentum": 0.9}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True}),
    ("Adagrad", {"fused": True}),
    ("RMSprop", {"centered": True, "momentum": 0.5}),
    ("Adadelta", {"maximize": True}),
    ("LBFGS", {"line_search_fn": "strong_wolfe", "max_iter": 3}),
]


@pytest.mark.parametrize(
    "name, how", OPTIMIZERS, ids=[f"{n}-{'-'.join(h) or 'plain'}" for n, h in OPTIMIZERS]
)
@pytest.mark.parametrize("before", [0, 3])
def test_every_optimizer_goes_on_bit_for_bit(tmp_path, name, how, before):
    sparse = name == "SparseAdam"

    def make():
        model = network(sparse)
        trained = [(n, p) for n, p in model.named_parameters() if p.requires_grad]
        return model, getattr(torch.optim, name)(trained, **copy.deepcopy(how))

    model, optimizer = make()
    train(model, optimizer, before, sparse=sparse)
    with Run(tmp_path / "run", durable=False) as run:
        run.save(before, model=model, optimizer=optimizer).committed.result(30)
        expected = train(model, optimizer, 4, sparse=sparse)
        for trained in (0, 1):  # into fresh objects, and into such that have a state
            model2, optimizer2 = make()
            train(model2, optimizer2, trained, sparse=sparse)
            addresses = [p.data_ptr() for p in model2.parameters()]
            assert run.resume(model=model2, optimizer=optimizer2) == (before, None)
            assert addresses == [p.data_ptr() for p in model2.parameters()]
            assert train(model2, optimizer2, 4, sparse=sparse) == expected
            assert same(optimizer.state_dict(), optimizer2.state_dict())


def test_capturable_steps_stay_tensors(tmp_path):
    model = network()
    optimizer = torch.optim.AdamW(model.parameters(), capturable=True)
    for p in model.parameters():
        optimizer.state[p] = {
            "step": torch.tensor(4.0),
            "exp_avg": torch.ones_like(p),
            "exp_avg_sq": torch.ones_like(p),
        }
    with Run(tmp_path) as run:
        run.save(1, model=model, optimizer=optimizer)
        run.wait()
        other = torch.optim.AdamW(model.parameters())
        run.resume(model=model, optimizer=other)
    assert same(optimizer.state_dict(), other.state_dict()) and other.param_groups[0]["capturable"] is True


def scheduler_makers():
    s = SCHEDULERS
    yield "LambdaLR", lambda o: s.LambdaLR(o, lambda n: 0.9**n)
    yield "MultiplicativeLR", lambda o: s.MultiplicativeLR(o, lambda n: 0.9)
    yield "StepLR", lambda o: s.StepLR(o, 2)
    yield "MultiStepLR", lambda o: s.MultiStepLR(o, [2, 4])
    yield "ConstantLR", lambda o: s.ConstantLR(o)
    yield "LinearLR", lambda o: s.LinearLR(o)
    yield "ExponentialLR", lambda o: s.ExponentialLR(o, 0.9)
    yield "PolynomialLR", lambda o: s.PolynomialLR(o)
    yield "CosineAnnealingLR", lambda o: s.CosineAnnealingLR(o, 5)
    yield "CosineAnnealingWarmRestarts", lambda o: s.CosineAnnealingWarmRestarts(o, 2)
    yield "CyclicLR", lambda o: s.CyclicLR(o, 0.01, 0.1, 3)
    yield "OneCycleLR", lambda o: s.OneCycleLR(o, 0.1, 20)
    yield "ReduceLROnPlateau", lambda o: s.ReduceLROnPlateau(o, patience=0)
    yield "SWALR", lambda o: torch.optim.swa_utils.SWALR(o, 0.05, 3)
    yield "SequentialLR", lambda o: s.SequentialLR(o, [s.ConstantLR(o), s.ExponentialLR(o, 0.5)], [2])
    yield "ChainedScheduler", lambda o: s.ChainedScheduler([s.ConstantLR(o), s.ExponentialLR(o, 0.5)])


@pytest.mark.parametrize("make_scheduler", [pytest.param(make, id=name) for name, make in scheduler_makers()])
def test_every_scheduler(tmp_path, make_scheduler):
    def make():
        model = network()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        return {"model": model, "optimizer": optimizer, "scheduler": make_scheduler(optimizer)}

    state = make()
    train(state["model"], state["optimizer"], 3, state["scheduler"])
    with Run(tmp_path, durable=False) as run:
        run.save(3, **state)
        run.wait()
        expected = train(state["model"], state["optimizer"], 5, state["scheduler"])
        other = make()
        run.resume(**other)
    assert train(other["model"], other["optimizer"], 5, other["scheduler"]) == expected
    assert [g["lr"] for g in other["optimizer"].param_groups] == [
        g["lr"] for g in state["optimizer"].param_groups
    ]


def test_scaler_average_and_several(tmp_path):
    model, other = nn.ModuleDict({"a": network()}), network()
    first = torch.optim.Adam(model.parameters())
    second = torch.optim.SGD(other.parameters(), lr=0.1, momentum=0.5)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=1)
    average = torch.optim.swa_utils.AveragedModel(other, use_buffers=True)
    train(model["a"], first, 2)
    train(other, second, 2)
    scaler.scale(torch.ones((), requires_grad=True)).backward()
    average.update_parameters(other)
    state = {
        "model": {"gen": model, "disc": other},
        "optimizer": {"gen": first, "disc": second},
        "scaler": scaler,
        "ema": average,
    }
    with Run(tmp_path) as run:
        run.save(7, **state).committed.result(30)
        model2, other2 = nn.ModuleDict({"a": network()}), network()
        state2 = {
            "model": {"gen": model2, "disc": other2},
            "optimizer": {
                "gen": torch.optim.Adam(model2.parameters()),
                "disc": torch.optim.SGD(other2.parameters(), lr=0.3),
            },
            "scaler": torch.amp.GradScaler("cpu"),
            "ema": torch.optim.swa_utils.AveragedModel(other2, use_buffers=True),
        }
        run.resume(**state2)
    assert same(model.state_dict(), model2.state_dict()) and same(other.state_dict(), other2.state_dict())
    assert same(scaler.state_dict(), state2["scaler"].state_dict())
    assert same(average.state_dict(), state2["ema"].state_dict())
    for key in ("gen", "disc"):
        assert same(state["optimizer"][key].state_dict(), state2["optimizer"][key].state_dict())
    assert "optimizer.gen/exp_avg.gen.a.0.weight" in everything(tmp_path / "step-000000007")


def everything(step):
    names = {}
    for file in Path(step).glob("*.safetensors"):
        with safetensors_c.safe_open(file, "pt") as f:
            names.update({k: f.get_tensor(k) for k in f.keys()})
    return names


def test_names_on_the_disk_and_groups_in_another_order(tmp_path):
    model = network()
    groups = [{"params": [model[0].weight], "lr": 0.5}, {"params": [model[3].weight]}]
    optimizer = torch.optim.AdamW(groups, lr=0.1)
    train(model, optimizer, 2)
    with Run(tmp_path) as run:
        run.save(
            2,
            model=model,
            optimizer=optimizer,
            files={"config.json": "{}"},
            metrics={"val_loss": torch.tensor(0.5)},
        )
        run.wait()
        step = tmp_path / "step-000000002"
        names = everything(step)
        assert {
            "0.weight",
            "3.weight",
            "optimizer.exp_avg.0.weight",
            "optimizer.step.3.weight",
        } <= names.keys()
        assert set(safetensors_c.torch.load_file(step / "model.safetensors")) == {"0.weight", "3.weight"}
        state = json.loads((step / "state.json").read_text())["state"]
        assert state["optimizer"]["groups"][0]["lr"] == {"$": "float", "v": "0.5"}
        assert state["optimizer"]["groups"][1]["params"] == ["3.weight"]
        assert (step / "config.json").read_text() == "{}"
        assert run.steps()[0]["metric"] == ("val_loss", 0.5)
        for file in step.iterdir():  # no pickle
            with pytest.raises((pickle.UnpicklingError, ValueError, EOFError, KeyError)):
                pickle.load(io.BytesIO(file.read_bytes()))
        other = torch.optim.AdamW([{**groups[1]}, {**groups[0], "lr": 0.1}], lr=0.3)
        run.resume(model=model, optimizer=other)
        assert [g["lr"] for g in other.param_groups] == [0.1, 0.5]
        for p in model.parameters():
            assert same(optimizer.state[p], other.state[p])
        one = torch.optim.AdamW(model.parameters())
        with pytest.raises(SafetensorError, match="0.weight"):
            run.resume(model=model, optimizer=one)


class Tied(nn.Module):
    def __init__(self, tie=True):
        super().__init__()
        self.embed = nn.Embedding(5, 4)
        self.head = nn.Linear(4, 5, bias=False)
        if tie:
            self.head.weight = self.embed.weight
        self.note = {"n": 1}

    def get_extra_state(self):
        return self.note

    def set_extra_state(self, note):
        self.note = note


def test_tied_weights_and_what_modules_say_of_themselves(tmp_path):
    model = Tied()
    model.note = {"n": 2, "t": (1.5, torch.arange(3))}
    with Run(tmp_path) as run:
        run.save(1, model=model)
        run.wait()
        assert [n for n in everything(tmp_path / "step-000000001") if "weight" in n] == ["embed.weight"]
        other, apart = Tied(), Tied(tie=False)
        run.resume(model=other)
        assert other.head.weight is other.embed.weight and torch.equal(other.embed.weight, model.embed.weight)
        assert same(other.note, model.note)
        run.resume(model=apart)
        assert torch.equal(apart.head.weight, model.embed.weight) and torch.equal(
            apart.embed.weight, model.embed.weight
        )
    loaded = safetensors_c.torch.load_model(
        Tied_without_note(), tmp_path / "step-000000001" / "model.safetensors"
    )
    assert loaded == (set(), [])


class Amax(nn.Module):
    """Its extra state is a tensor, whose length changes."""

    def __init__(self, history=()):
        super().__init__()
        self.w = nn.Parameter(torch.ones(2))
        self.history = list(history)

    def get_extra_state(self):
        return torch.tensor(self.history, dtype=torch.float64)

    def set_extra_state(self, state):
        self.history = state.tolist()


def test_extra_states_that_are_tensors(tmp_path):
    def made(*history):
        inner = Amax(history)
        return {
            "model": nn.ModuleDict({"a": inner, "b": Amax(history[1:])}),
            "ema": torch.optim.swa_utils.AveragedModel(Amax(history)),
            "teacher": torch.compile(Amax(history)),
        }

    with Run(tmp_path) as run:
        run.save(1, **made(1.0, 2.0, 3.0)).committed.result()
        for history in ((), (7.0, 7.0, 7.0)):
            back = made(*history)
            run.resume(**back)
            assert back["model"]["a"].history == [1, 2, 3] and back["model"]["b"].history == [2, 3]
            assert back["ema"].module.history == [1, 2, 3]
            assert back["teacher"]._orig_mod.history == [1, 2, 3]
        assert "a._extra_state" not in safetensors_c.torch.load_file(
            tmp_path / "step-000000001" / "model.safetensors"
        )


class Saves(nn.Linear):
    def __init__(self):
        super().__init__(2, 2)
        self.k = torch.rand(()).item()

    def _save_to_state_dict(self, destination, prefix, keep_vars):
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination[prefix + "k"] = torch.tensor(self.k, dtype=torch.float64)

    def _load_from_state_dict(self, state, prefix, *more):
        self.k = state.pop(prefix + "k").item()
        super()._load_from_state_dict(state, prefix, *more)


class Overrides(nn.Linear):
    def __init__(self):
        super().__init__(2, 2)
        self.k = torch.rand(()).item()

    def state_dict(self, *args, **kwargs):
        return {**super().state_dict(*args, **kwargs), "k": self.k}

    def load_state_dict(self, state, strict=True):
        self.k = state["k"]
        return super().load_state_dict({k: v for k, v in state.items() if k != "k"}, strict)


class Hooks(nn.Linear):
    def __init__(self):
        super().__init__(2, 2)
        self.k = torch.rand(()).item()
        self.register_state_dict_post_hook(
            lambda me, d, prefix, _: d.update({f"{prefix}k": torch.tensor(me.k)})
        )
        self.register_load_state_dict_pre_hook(
            lambda me, d, prefix, *_: setattr(me, "k", d.pop(f"{prefix}k").item())
        )


@pytest.mark.parametrize("kind", [Saves, Overrides, Hooks])
def test_what_state_dict_says_beside_memory(tmp_path, kind):
    saved, back, ema = kind(), kind(), kind()
    with Run(tmp_path) as run:
        run.save(1, model=torch.compile(saved) if kind is Saves else saved, ema=saved)
        run.wait()
        run.resume(model=back, ema=ema)
    assert back.k == ema.k == saved.k
    assert torch.equal(back.weight, saved.weight) and torch.equal(ema.bias, saved.bias)


def test_what_no_module_takes_back_is_an_error(tmp_path):
    one = nn.Linear(2, 2)
    one.register_state_dict_post_hook(lambda me, d, prefix, _: d.update({"k": torch.ones(2)}))
    with Run(tmp_path) as run:
        run.save(1, model=one)
        run.wait()
        with pytest.raises(SafetensorError, match='(?s)`k` is not taken back.*Unexpected key.* "k"'):
            run.resume(model=one)


def test_parameters_of_no_module_that_is_given(tmp_path):
    model, criterion = nn.Linear(2, 2), nn.Linear(2, 1)
    optimizer = torch.optim.Adam([*model.named_parameters(), *criterion.named_parameters("criterion")])
    criterion(model(torch.ones(1, 2))).sum().backward()
    optimizer.step()
    with Run(tmp_path) as run:
        with pytest.raises(ValueError, match=r"`criterion\.weight` is of no module that is given"):
            run.save(1, model=model, optimizer=optimizer)
        whole = {"model": model, "optimizer": optimizer, "criterion": criterion}
        run.save(1, **whole)
        run.wait()
        kept = criterion.weight.clone()
        with torch.no_grad():
            criterion.weight.zero_()
        run.resume(**whole)
        assert torch.equal(criterion.weight, kept)


def test_names_that_meet_and_names_of_metadata(tmp_path):
    w = nn.Parameter(torch.ones(2))

    def of(**parts):
        module = nn.Module()
        for name, part in parts.items():
            setattr(module, name, part)
        return module

    clash = {"a": of(b=of(w=w)), "a.b": of(w=nn.Parameter(torch.zeros(2)))}
    inner = of(_orig_mod=of(w=w))
    inner._orig_mod.v = nn.Parameter(torch.zeros(2))
    inner.v = nn.Parameter(torch.ones(2))
    lone = nn.Module()
    lone._parameters["\ud800"] = w
    with Run(tmp_path) as run:
        for given, text in (
            ({"model": clash}, "`a.b.w`"),
            ({"ema": of(net=inner)}, "`net.v`"),
            ({"ema.a": of(w=w), "ema": {"a": of(w=w)}}, "'ema.a'"),
            ({"model": lone}, "lone surrogate"),
            ({"rng": {"cuda.aug": torch.Generator()}}, "'cuda.aug' is taken"),
        ):
            with pytest.raises(ValueError, match=text):
                run.save(1, **given)
        assert run.steps() == []
        tied = of(a=w, format=w, sft=of(sha256=w, crc32c=w), z=w)
        run.save(1, model=tied).committed.result()
        with safetensors_c.safe_open(tmp_path / "step-000000001" / "model.safetensors", "pt") as f:
            assert f.metadata()["format"] == "pt" and f.metadata()["z"] == "a"
        run.resume(model=tied)
        run.save(2, rng=True).committed.result()
        with pytest.raises(SafetensorError, match="nothing was saved as rng.aug"):
            run.resume(rng={"aug": torch.Generator()})


class Keyed(torch.optim.Optimizer):
    def __init__(self, parameters, key):
        super().__init__(parameters, {"lr": 1})
        for p in parameters:
            self.state[p][key] = torch.ones(2)

    def step(self):
        pass


def test_keys_of_optimizer_states_are_texts(tmp_path):
    model = network()
    with Run(tmp_path) as run:
        for key in (0, None, True, 1.5, (1, 2), b"x"):
            with pytest.raises(TypeError, match=re.escape(f"at optimizer.state.0.weight.{key!r}")):
                run.save(1, model=model, optimizer=Keyed([model[0].weight], key))


def test_an_epoch_that_is_left_is_begun_anew(tmp_path):
    """Steps per epoch by break: a training that goes on, and one that is resumed, see the same batches."""

    def epoch(batches, most):
        out = []
        for batch in batches:
            out.append(batch.tolist())
            if len(out) == most:
                break
        return out

    for save_inside in (False, True):
        torch.manual_seed(2)
        batches = Batches(torch.utils.data.DataLoader(torch.arange(12), batch_size=2, shuffle=True))
        place = tmp_path / str(save_inside)
        with Run(place) as run:
            epoch(batches, 3)
            expected = []
            if save_inside:
                for batch in batches:
                    if expected:
                        expected.append(batch.tolist())
                    else:
                        expected.append(None)
                        run.save(1, loader=batches).committed.result()
                expected = [expected[1:]]
            else:
                run.save(1, loader=batches).committed.result()
            expected += [epoch(batches, 3), epoch(batches, 9)]
            torch.manual_seed(3)
            again = Batches(torch.utils.data.DataLoader(torch.arange(12), batch_size=2, shuffle=True))
            old = iter(again)
            next(old)
            run.resume(loader=again)
            old.close()
            lengths = (9, 3, 9) if save_inside else (3, 9)
            assert [epoch(again, most) for most in lengths] == expected


def Tied_without_note():
    model = Tied()
    model.__class__ = type("Plain", (nn.Module,), {})
    return model


def test_prefixes_of_wrappers_are_stripped(tmp_path):
    model = network()
    with Run(tmp_path) as run:
        optimizer = torch.optim.Adam(model.parameters())
        train(model, optimizer, 1)
        run.save(1, model=nn.DataParallel(torch.compile(model)), optimizer=optimizer)
        run.wait()
        names = everything(tmp_path / "step-000000001")
        assert "0.weight" in names and not any("module." in n or "_orig_mod" in n for n in names)
        other = network()
        run.resume(model=torch.compile(other), optimizer=torch.optim.Adam(other.parameters()))
        assert same(other.state_dict(), model.state_dict())


def test_what_does_not_change_is_stored_once(tmp_path):
    model = network()
    model[0].weight.requires_grad_(False)
    with Run(tmp_path) as run:
        for step in (1, 2):
            run.save(step, model=model)
            with torch.no_grad():
                model[3].weight.add_(1)
        run.wait()
        assert run.poll()["linked"] > 0
        other = network()
        run.resume(model=other)
        assert torch.equal(other[0].weight, model[0].weight)


def test_extra_comes_back_as_it_was(tmp_path):
    shared = torch.arange(6)[::2]
    extra = {
        "epoch": 3,
        "big": 2**90,
        "lr": 0.1,
        "nan": float("inf"),
        "pair": (1, b"\0\1", None, True, 1 + 2j),
        "order": OrderedDict([(2, "two"), ((1, "x"), shared)]),
        "again": shared,
        "set": {3, 1},
        "$": {"$": 1},
        "empty": torch.empty(0, 3),
        "bf16": torch.ones(2, dtype=torch.bfloat16),
        "scalar": np.float32(0.1),
        "dtype": torch.float16,
        "size": torch.Size([1, 2]),
    }
    array = np.arange(6, dtype=np.uint64).reshape(2, 3).T
    with Run(tmp_path) as run:
        run.save(1, extra={**extra, "array": array}, rng=False)
        run.wait()
        step, got = run.resume()
    back = got.pop("array")
    assert step == 1 and type(back) is np.ndarray and back.dtype == array.dtype and (back == array).all()
    assert same(got, extra) and got["again"] is got["order"][1, "x"]


def test_random_states(tmp_path):
    mine = {"g": torch.Generator().manual_seed(3), "n": np.random.default_rng(4), "p": random.Random(5)}

    def draw():
        return [
            random.random(),
            np.random.rand(),
            np.random.randn(),
            torch.rand(()).item(),
            torch.rand((), generator=mine["g"]).item(),
            mine["n"].normal(),
            mine["p"].gauss(0, 1),
        ]

    draw()
    with Run(tmp_path) as run:
        run.save(1, rng=mine)
        expected = [draw(), draw()]
        run.wait()
        run.resume(rng=mine)
        assert [draw(), draw()] == expected
        run.resume(rng=False)
        assert draw() != expected[0]
        run.save(2, rng=False)
        with pytest.warns(UserWarning, match="step 2 holds no random states"):
            run.resume()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            run.resume(rng=False)


def test_what_nobody_asks_for_is_told(tmp_path):
    model = torch.nn.Linear(2, 2)
    optimizer = torch.optim.AdamW(model.parameters())
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 3)
    whole = {"model": model, "optimizer": optimizer, "scheduler": scheduler, "loaders": {"a": Position()}}
    with Run(tmp_path) as run:
        run.save(1, **whole)
        run.wait()
        with pytest.warns(UserWarning, match=r"step 1 holds more than is asked for: scheduler, loaders\.a"):
            run.resume(model=model, optimizer=optimizer)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            run.resume(**whole)
            run.resume(model=model)  # to look at it: no training goes on
        run.save(2, model=model, optimizer={"one": optimizer, "two": optimizer}, rng=False)
        run.wait()
        with pytest.warns(UserWarning, match=r"step 2 holds more than is asked for: optimizer\.two"):
            run.resume(model=model, optimizer={"one": optimizer}, rng=False)


class Position:
    """What torchdata's StatefulDataLoader looks like."""

    def __init__(self):
        self.at = {"workers": [{"rng": np.arange(3)}, {"seen": 0}]}

    def state_dict(self):
        return self.at

    def load_state_dict(self, state):
        self.at = state


def test_loaders_and_samplers(tmp_path):
    loader, sampler = Position(), torch.utils.data.DistributedSampler(range(9), 3, 0)
    loader.at["workers"][1]["seen"] = 5
    sampler.set_epoch(4)
    with Run(tmp_path) as run:
        run.save(1, loader=loader, sampler=sampler, nothing=None)
        run.wait()
        loader2, sampler2 = Position(), torch.utils.data.DistributedSampler(range(9), 3, 0)
        run.resume(loader=loader2, sampler=sampler2)
        assert sampler2.epoch == 4 and loader2.at["workers"][1] == {"seen": 5}
        assert type(loader2.at["workers"][0]["rng"]) is np.ndarray
        with pytest.raises(TypeError, match="at loader.*Batches"):
            run.save(2, loader=torch.utils.data.DataLoader(range(3)))


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("own", [False, True])
def test_batches_of_a_plain_loader(tmp_path, workers, own):
    def make():
        generator = torch.Generator().manual_seed(1) if own else None
        data = torch.utils.data.DataLoader(
            torch.arange(10), batch_size=2, shuffle=True, num_workers=workers, generator=generator
        )
        return Batches(data)

    def rest(batches, epochs):
        out = []
        for _ in range(epochs):
            out.append([(b.tolist(), torch.rand(()).item()) for b in batches])
        return out

    for taken in (0, 2, 5):
        batches = make()
        torch.manual_seed(8)
        rest(batches, 1)
        at = iter(batches)
        for _ in range(taken):
            next(at)
        with Run(tmp_path / str(taken)) as run:
            run.save(1, loader=batches)
            expected = [[(b.tolist(), torch.rand(()).item()) for b in at], *rest(batches, 2)]
            run.wait()
            batches = make()
            run.resume(loader=batches)
            if taken == 0:  # an iterator of which nothing was taken is an epoch that has not begun
                expected = expected[1:] if not expected[0] else expected
            assert rest(batches, 3)[: len(expected)] == expected


# ---------------------------------------------------------------- bad input


def flip(file):
    data = bytearray(file.read_bytes())
    data[-3] ^= 1
    os.unlink(file)
    file.write_bytes(data)


def shuffled(**more):
    return Batches(torch.utils.data.DataLoader(torch.arange(20), 4, shuffle=True, **more))


@pytest.mark.parametrize("at", [1, 2, 5, 7])
def test_what_is_drawn_before_the_first_batch(tmp_path, at):
    def go_on(batches, run, step):
        seen, iterator = [], iter(batches)
        while step < 9:
            noise = torch.randn(2).tolist()
            try:
                batch = next(iterator)
            except StopIteration:
                iterator = iter(batches)
                batch = next(iterator)
            step += 1
            seen.append((noise, batch.tolist()))
            if step == at and run is not None:
                run.save(step, loader=batches)
        return seen

    torch.manual_seed(0)
    with Run(tmp_path) as run:
        whole = go_on(shuffled(), run, 0)
        run.wait()
        torch.manual_seed(1)
        batches = shuffled()
        run.resume(loader=batches)
        assert go_on(batches, None, at) == whole[at:]


@pytest.mark.parametrize("at", [3, 7])
def test_batches_of_workers_that_persist(tmp_path, at):
    def go_on(batches, run, step, epoch):
        seen = []
        while epoch < 3:
            for batch in batches:
                step += 1
                seen.append(batch.tolist())
                torch.rand(1)
                if step == at and run is not None:
                    run.save(step, loader=batches, extra=epoch)
            epoch += 1
        return seen

    torch.manual_seed(0)
    with Run(tmp_path) as run:
        whole = go_on(shuffled(num_workers=1, persistent_workers=True), run, 0, 0)
        run.wait()
        torch.manual_seed(1)
        batches = shuffled(num_workers=1, persistent_workers=True)
        step, epoch = run.resume(loader=batches)
        assert go_on(batches, None, step, epoch) == whole[at:]


@pytest.mark.parametrize(
    "name", ["model.safetensors", "state.safetensors", "optimizer.safetensors", "state.json"]
)
def test_a_damaged_step_is_passed_over(tmp_path, name):
    model = network()
    optimizer = torch.optim.Adam(model.parameters())
    with Run(tmp_path) as run:
        for step in (1, 2):
            train(model, optimizer, 1)
            run.save(step, model=model, optimizer=optimizer, extra=step)
            if step == 1:
                expected = copy.deepcopy(model.state_dict())
        run.wait()
        flip(tmp_path / "step-000000002" / name)
        with pytest.warns(UserWarning, match="step-000000002 was passed over"):
            assert run.resume(model=model, optimizer=optimizer) == (1, 1)
        assert same(dict(model.state_dict()), dict(expected))
        assert [s["verified"] for s in run.steps(verify=True)] == [True, False]
        flip(tmp_path / "step-000000001" / name)
        with pytest.raises(SafetensorError) as caught, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            run.resume(model=model, optimizer=optimizer)
        assert caught.value.status == "SFT_E_NOT_FOUND"


def forge(step, change):
    """Changes state.json of a step, and the digests with it, so that only its form is wrong."""
    state = json.loads((step / "state.json").read_text())
    change(state["state"])
    data = json.dumps(state).encode()
    (step / "state.json").write_bytes(data)
    manifest = json.loads((step / "manifest.json").read_text())
    manifest["files"]["state.json"] = {"size": len(data), "crc32c": crc32c_hex(data)}
    manifest.pop("crc32c")
    seal(step, manifest)


def seal(step, manifest):
    text = json.dumps(manifest, indent=2)[:-2] + ",\n"
    (step / "manifest.json").write_text(text + f'  "crc32c": "{crc32c_hex(text.encode())}"\n}}\n')


FORGED = [
    ("model", value)
    for value in (None, 1, [], "x", {}, {"tied": [], "other": {}}, {"tied": {"a": 1}, "other": {}})
]
FORGED += [("model", {"$": "counter", "v": [["a", "b"]]}), ("model", {"$": "tensor", "v": "0.weight"})]
FORGED += [
    ("optimizer", value) for value in (None, [], {"groups": [1], "state": {}}, {"groups": [{}], "state": {}})
]
FORGED += [
    ("optimizer", {"groups": [{"params": [[]]}], "state": {}}),
    ("optimizer", {"groups": [], "state": {"a": 1}}),
]
FORGED += [
    ("scheduler", value)
    for value in (None, 1, "x", {"$": "tensor"}, {"$": "numpy", "dtype": "float32", "v": "1"})
]
FORGED += [
    ("extra", {"$": "tensor"}),
    ("rng.torch", {"$": "tensor"}),
    ("rng.python", {"$": "tuple", "v": [3, [1], None]}),
]
FORGED += [("processes", value) for value in ("x", [], {"count": "a"}, {"count": 2, "differ": 5})]
FORGED += [
    ("ema", value) for value in (None, {"tensors": {"weight": 1}, "other": {}}, {"tensors": {}, "other": []})
]


@pytest.mark.parametrize(("name", "value"), FORGED)
def test_a_state_in_another_form_is_an_error_with_its_name(tmp_path, name, value):
    """What was made so on purpose, with right digests: an error of ours, whatever lies there."""
    model, ema = torch.nn.Linear(3, 2), torch.nn.Linear(1, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    given = {"model": model, "optimizer": optimizer, "scheduler": scheduler, "ema": ema}
    with Run(tmp_path / "run") as run:
        run.save(1, **given, extra=[1])
    forge(tmp_path / "run" / "step-000000001", lambda state: state.update({name: value}))
    with Run(tmp_path / "run", read_only=True) as run:
        assert run.steps(verify=True)[0]["verified"]
        with pytest.raises(SafetensorError, match=re.escape(name.partition(".")[0]) + "|sft.tree|tensor"):
            run.resume(**given)


def test_the_texts_of_a_step_are_compared_before_it_is_used(tmp_path):
    model = torch.nn.Linear(3, 2)
    with Run(tmp_path / "run") as run:
        for step in (1, 2, 3, 4):
            run.save(step, model=model, extra=step, files={"config.json": "{}"}).committed.result()
    steps = [tmp_path / "run" / f"step-{n:09d}" for n in (1, 2, 3, 4)]
    (steps[3] / "config.json").write_text("[]")
    text = (steps[2] / "state.json").read_text()
    (steps[2] / "state.json").write_text(text.replace('"extra": 3', '"extra": 7'))
    assert text != (steps[2] / "state.json").read_text()
    with Run(tmp_path / "run") as run:
        with pytest.warns(UserWarning, match="passed over: config.json is damaged") as told:
            assert run.resume(model=model) == (2, 2)
        assert any("state.json is damaged" in str(w.message) for w in told)


def test_links_and_empty_manifests_are_no_steps(tmp_path):
    model = torch.nn.Linear(3, 2)
    with Run(tmp_path / "run") as run:
        for step in (1, 2, 3):
            run.save(step, model=model).committed.result()
    steps = [tmp_path / "run" / f"step-{n:09d}" for n in (1, 2, 3)]
    (steps[2] / "manifest.json").rename(tmp_path / "elsewhere")
    (steps[2] / "manifest.json").symlink_to(tmp_path / "elsewhere")
    manifest = json.loads((steps[1] / "manifest.json").read_text())
    seal(steps[1], {**{k: v for k, v in manifest.items() if k != "crc32c"}, "files": {}})
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "run" / "latest").unlink()
    (tmp_path / "run" / "latest").symlink_to(tmp_path / "secret")
    with Run(tmp_path / "run") as run:
        with pytest.warns(UserWarning, match="manifest.json is a link") as told:
            assert run.resume(model=model).step == 1
        assert any("does not list state.json" in str(w.message) for w in told)
        run.save(4, model=model).committed.result()
    assert (tmp_path / "secret").read_text() == "secret"
    assert (tmp_path / "run" / "latest").read_text() == "step-000000004\n"


def test_a_file_of_another_step_is_no_part_of_this_one(tmp_path):
    """Whole, of the same size, with right digests of its own, but not the one that the manifest means."""
    model = torch.nn.Linear(3, 2)
    with Run(tmp_path / "run") as run:
        for step in (1, 2, 3):
            with torch.no_grad():
                model.weight.fill_(step)
            run.save(step, model=model).committed.result()
    steps = [tmp_path / "run" / f"step-{n:09d}" for n in (1, 2, 3)]
    data = (steps[0] / "model.safetensors").read_bytes()
    (steps[2] / "model.safetensors").unlink()
    (steps[2] / "model.safetensors").write_bytes(data)
    with (
        Run(tmp_path / "run") as run,
        pytest.warns(UserWarning, match="model.safetensors is damaged, or another"),
    ):
        assert run.resume(model=model).step == 2
    assert model.weight[0, 0] == 2
    manifest = (steps[1] / "manifest.json").read_bytes()
    (steps[1] / "manifest.json").write_bytes(manifest + b" ")
    with Run(tmp_path / "run") as run, pytest.warns(UserWarning, match="its own digest is wrong"):
        assert run.resume(model=model).step == 1


def test_states_are_nobody_elses_memory(tmp_path):
    def made(value):
        w = torch.full((3,), value, requires_grad=True)
        return w, torch.optim.SGD([("w", w)], 0.1, momentum=0.9)

    w, optimizer = made(0.0)
    w.sum().backward()
    optimizer.step()
    with Run(tmp_path / "run") as run:
        run.save(1, optimizer=optimizer)
        other, again = made(7.0)
        assert run.resume(optimizer=again).step == 1
    assert other.tolist() == [7, 7, 7]
    assert torch.equal(again.state[other]["momentum_buffer"], optimizer.state[w]["momentum_buffer"])


def test_names_that_are_there_twice_and_empty_groups(tmp_path):
    one, two = torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)
    both = torch.optim.Adam([*one.named_parameters(), *two.named_parameters()])
    empty = [{"params": [], "lr": 0.1}, {"params": [], "lr": 0.2}]
    with Run(tmp_path / "run") as run:
        with pytest.raises(ValueError, match="two of its parameters are called `weight`"):
            run.save(1, model=one, ema=two, optimizer=both)
        optimizer = torch.optim.SGD([{"params": one.parameters(), "lr": 0.3}, *empty], lr=1)
        run.save(2, model=one, optimizer=optimizer)
        for group in optimizer.param_groups:
            group["lr"] = 9
        run.resume(model=one, optimizer=optimizer)
        assert [g["lr"] for g in optimizer.param_groups] == [0.3, 0.1, 0.2]
        for step in (2**64, 2**53, -1):
            with pytest.raises(ValueError, match="a step is a number"):
                run.save(step, model=one)
        assert [s["step"] for s in run.steps()] == [2]
        run.save(3, extra={"x": np.zeros((0, 3))})
        assert run.resume().extra["x"].shape == (0, 3)


def test_tying_that_the_step_does_not_know(tmp_path):
    class Two(torch.nn.Module):
        def __init__(self, tie):
            super().__init__()
            self.a, self.b = torch.nn.Linear(2, 2, bias=False), torch.nn.Linear(2, 2, bias=False)
            if tie:
                self.b.weight = self.a.weight

    class Wide(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("wide", torch.arange(3.0).reshape(1, 3).expand(4, 3))

    with Run(tmp_path / "run") as run:
        run.save(1, model=Two(False)).committed.result()
        with pytest.raises(
            SafetensorError, match="`b.weight` and `a.weight` are one tensor of the model, and two here"
        ):
            run.resume(model=Two(True))
        run.save(2, model=Wide()).committed.result()
        wide = Wide()
        wide.wide[:1].fill_(7)
        assert wide.wide.eq(7).all() and run.resume(model=wide).step == 2
        assert wide.wide.tolist() == [[0, 1, 2]] * 4 and wide.wide.stride() == (0, 1)
        other = Wide()
        other.wide = torch.arange(12.0).reshape(4, 3)
        run.save(3, model=other).committed.result()
        with pytest.raises(SafetensorError, match="it is expanded, and what was saved is not"):
            run.resume(model=wide)


def test_a_batch_sampler_of_the_programs_own(tmp_path):
    def made():
        g = torch.Generator().manual_seed(3)
        data = torch.arange(24)
        sampler = torch.utils.data.RandomSampler(data, generator=g)
        return Batches(
            torch.utils.data.DataLoader(data, batch_sampler=torch.utils.data.BatchSampler(sampler, 4, False))
        )

    def rest(batches, epochs):
        return [x.tolist() for _ in range(epochs) for x in batches]

    for begun in (0, 2):
        whole = made()
        list(whole)
        taken = iter(whole)
        for _ in range(begun):
            next(taken)
        with Run(tmp_path / f"run{begun}") as run:
            run.save(1, loader=whole)
            expected = [x.tolist() for x in taken] + rest(whole, 2)
            other = made()
            run.resume(loader=other)
            assert rest(other, 3) == expected


def test_an_entry_that_is_there_twice_and_very_many(tmp_path):
    model = torch.nn.Linear(3, 2)
    with Run(tmp_path / "run") as run:
        run.save(1, model=model)
        run.save(2, model=model)
    step = tmp_path / "run" / "step-000000002"
    forge(step, lambda state: state.update({f"k{i}": i for i in range(20_000)}))
    with Run(tmp_path / "run") as run:
        assert run.resume(model=model).step == 2
    manifest = json.loads((step / "manifest.json").read_text())
    data = (step / "state.json").read_text().replace('"k0":', '"k1":').encode()
    (step / "state.json").write_bytes(data)
    manifest["files"]["state.json"] = {"size": len(data), "crc32c": crc32c_hex(data)}
    manifest.pop("crc32c")
    seal(step, manifest)
    with Run(tmp_path / "run") as run, pytest.warns(UserWarning, match='"k1" is there twice'):
        assert run.resume(model=model).step == 1


def test_a_step_of_another_model_is_named(tmp_path):
    model = network()
    optimizer = torch.optim.Adam(model.parameters())
    train(model, optimizer, 1)
    with Run(tmp_path) as run:
        run.save(1, model=model, optimizer=optimizer)
        run.wait()
        for other, status, words in (
            (nn.Sequential(nn.Linear(5, 9, bias=False)), "SFT_E_SHAPE", "`0.weight` is .8, 5.*is .9, 5"),
            (nn.Sequential(nn.Linear(5, 8)), "SFT_E_NOT_FOUND", "`0.bias`"),
            (nn.Sequential(nn.Linear(5, 8, bias=False)), "SFT_E_NOT_FOUND", "`3.weight`"),
            (network().half(), "SFT_E_DTYPE", "`0.weight` is F32"),
        ):
            with pytest.raises(SafetensorError, match=words) as caught:
                run.resume(model=other)
            assert caught.value.status == status
        with pytest.raises(SafetensorError, match="scheduler"):
            run.resume(model=model, scheduler=SCHEDULERS.ConstantLR(optimizer))
        with pytest.raises(SafetensorError, match="ema"):
            run.resume(model=model, ema=network())


class Marked(torch.Tensor):
    pass


def with_buffer(x):
    module = nn.Module()
    module.register_buffer("b", x)
    return module


def test_what_is_unknown_is_refused_with_its_path(tmp_path):
    model = network()
    ragged = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)])
    with Run(tmp_path) as run:
        for given, path in (
            ({"extra": {"a": [1, object()]}}, "extra.a.1"),
            ({"extra": {"f": lambda: 0}}, "extra.f"),
            ({"extra": torch.eye(3).to_sparse()}, "extra"),
            ({"extra": np.array(["a"])}, "extra"),
            ({"model": object()}, "model"),
            ({"model": model, "optimizer": object()}, "optimizer"),
            ({"scheduler": 3}, "scheduler"),
            ({"rng": {"x": 3}}, "rng.x"),
            ({"model": nn.LazyLinear(3)}, "model.weight"),
            ({"extra": {"m": np.ma.masked_array([1.0], [True])}}, "extra.m"),
            ({"extra": [np.matrix([1.0])]}, "extra.0"),
            ({"extra": [torch.zeros(2).as_subclass(Marked)]}, "extra.0"),
            ({"extra": {"n": ragged}}, "extra.n"),
            ({"model": with_buffer(ragged)}, "model.b"),
            ({"model": with_buffer(torch.eye(3).to_sparse())}, "model.b"),
        ):
            with pytest.raises(TypeError, match=f"at {path}"):
                run.save(1, **given)
        deep = 1
        for _ in range(118):
            deep = [deep]
        for given, path in (
            ({"extra": {"n": 10**4000}}, "extra.n"),
            ({"extra": {"deep": [deep, [(1, (2, {3: deep}))]]}}, "extra.deep.1.0.1.1.3"),
        ):
            with pytest.raises(ValueError, match=f"at {path}"):
                run.save(1, **given)
        with pytest.raises(ValueError, match="optimizer: parameter 0 of group 0 has no name"):
            run.save(1, optimizer=torch.optim.SGD(model.parameters(), lr=1))
        assert run.resume(model=model) == (0, None) and run.steps() == []


def test_two_processes_a_closed_run_and_a_step_that_is_there(tmp_path):
    run = Run(tmp_path)
    code = f"import safetensors_c; safetensors_c.Run({str(tmp_path)!r})"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert ended.returncode == 1 and "SafetensorError" in ended.stderr
    handle = run.save(1, extra=1)
    assert handle.staged.done() and handle.staged.result() is None
    assert handle.committed.wait(30) and handle.committed.exception() is None
    with pytest.raises(FileExistsError):
        run.save(1, extra=2)
    run.save(1, extra=3, replace=True)
    run.wait()
    with Run(tmp_path, read_only=True) as reader:
        assert reader.resume() == (1, 3)
    last = run.save(2)
    run.close()
    run.close()
    assert last.committed.done() and last.committed.exception() is None
    with pytest.raises(SafetensorError, match="closed"):
        run.save(3)


@pytest.mark.parametrize("how", ["collected", "at the end"])
def test_an_error_behind_of_a_run_that_nobody_closes_is_shown(tmp_path, how):
    code = f"""
import gc, resource, torch
from safetensors_c import Run
run = Run({str(tmp_path)!r})
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, -1))
run.save(1, extra=torch.ones(1000))
if {how == "collected"}:
    del run
    gc.collect()
"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "OSError" in ended.stderr and "large" in ended.stderr
    assert not (tmp_path / "step-000000001").exists()


def test_what_is_raised_while_waiting_is_no_error_of_the_save(tmp_path):
    def alarm(*ignored):
        raise TimeoutError("mine")

    run = Run(tmp_path)
    old = signal.signal(signal.SIGALRM, alarm)
    try:
        handle = run.save(1, extra=torch.ones(20_000_000))
        signal.setitimer(signal.ITIMER_REAL, 0.001)
        with contextlib.suppress(TimeoutError):
            handle.committed.wait()
            time.sleep(0.01)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)
    other = run.save(2, extra=1)
    for timeout in (float("nan"), -1):
        with pytest.raises(ValueError, match="timeout is a number of seconds"):
            other.committed.wait(timeout)
    with pytest.raises(TypeError):
        other.committed.wait("x")
    assert other.committed.exception() is None
    assert handle.committed.exception() is None
    run.close()


def test_an_error_behind_is_raised_by_the_next_save(tmp_path):
    resource = pytest.importorskip("resource")
    run = Run(tmp_path)
    run.save(1, extra=1)
    run.wait()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
    try:
        handle = run.save(2, extra=torch.ones(1000))
        assert isinstance(handle.committed.exception(30), OSError)
        with pytest.raises(OSError, match="large"):  # however often it is asked for
            handle.committed.result()
        with pytest.raises(OSError, match="large"):
            for step in range(3, 300):
                run.save(step, extra=torch.ones(1000))
                time.sleep(0.05)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    run.save(300, extra=4).committed.result(30)
    assert [s["step"] for s in run.steps()] == [1, 300]
    run.save(301, extra=5)
    run.close()
    with Run(tmp_path) as run:
        assert run.resume() == (301, 5)
        for kept in (True, False):
            resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
            try:
                handle = run.save(400 + kept, extra=torch.ones(1000))
                handle = handle if kept else None
                with pytest.raises(OSError, match="large"):
                    run.close()
            finally:
                resource.setrlimit(resource.RLIMIT_FSIZE, limits)
            run = Run(tmp_path)
        run.close()
    with Run(tmp_path) as run:  # told by a save: not again by close, though its handle lives
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
        try:
            handle = run.save(500, extra=torch.ones(1000))
            with pytest.raises(OSError, match="large"):
                run.wait()
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        run.save(501, extra=6)
    assert isinstance(handle.committed.exception(), OSError)


def test_rules(tmp_path):
    with Run(tmp_path, keep_last=1, keep_every=4, best="loss") as run:
        for step, loss in enumerate([5, 4, 1, 3, 2, 6, 7], 1):
            run.save(step, metrics={"loss": loss})
        run.wait()
        assert [s["step"] for s in run.steps()] == [3, 4, 7]
    with Run(tmp_path, keep_last=1) as run:
        assert run.prune() == 2


# ---------------------------------------------------------------- exactness


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.parametrize("model", ["mlp", "transformer", "lstm"])
def test_a_training_that_is_killed_ends_as_one_that_never_was(model, tmp_path):
    """SFT_RUN_KILLS: how often each is killed (3)."""
    kills, seed = os.environ.get("SFT_RUN_KILLS", "3"), str(time.time_ns() % 2**31)
    command = [sys.executable, str(HERE / "run_kills.py"), model, kills, seed]
    # Into a file: a worker whose training was killed while it started may outlive it, and would hold a pipe open.
    with open(tmp_path / "said", "w+", encoding="utf-8") as said:
        ended = subprocess.Popen(command, stdout=said, stderr=said, start_new_session=True)
        try:
            status = ended.wait()
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(ended.pid, signal.SIGKILL)
        said.seek(0)
        text = said.read()
    assert status == 0, f"seed {seed}\n{text}"
    print(text)


def test_the_example_is_killed_and_resumes(tmp_path):
    example = HERE.parents[1] / "examples" / "run_torch.py"
    command = [sys.executable, str(example)]
    whole = subprocess.run([*command, tmp_path / "whole", "90"], capture_output=True, text=True, check=True)
    job = subprocess.Popen(
        [*command, tmp_path / "run", "90"], stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL
    )
    while job.poll() is None and not (tmp_path / "run" / "step-000000020").exists():
        time.sleep(0.005)
    job.kill()
    job.wait()
    again = subprocess.run([*command, tmp_path / "run", "90"], capture_output=True, text=True, check=True)
    assert again.stdout == whole.stdout and again.stdout.startswith("step 90 loss ")
    assert "resumed at" in again.stderr
