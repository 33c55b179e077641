# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Run: what is damaged, forged, of another model, unknown or in use by another process is named, and nothing is taken from it."""

import contextlib
import copy
import json
import os
import re
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from run_parts import SCHEDULERS, network, same, train
from safetensors_c import Run, SafetensorError
from torch import nn

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from crc32c import crc32c_hex  # noqa: E402


def flip(file):
    data = bytearray(file.read_bytes())
    data[-3] ^= 1
    os.unlink(file)
    file.write_bytes(data)


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
