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
from run_parts import SCHEDULERS, Position, network, same, train
from safetensors_c import Run, SafetensorError
from torch import nn

HERE = Path(__file__).resolve().parent

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
