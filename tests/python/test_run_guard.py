# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The guard of a run: what is saved when the job is told to end, and after an exception, is exact; and workers of a training
that was killed hold nothing of the run."""

import os
import signal
import subprocess
import sys
import time
import warnings

import pytest
import torch
from safetensors_c import Run
from test_run import network, train
from torch import nn

LOOP = """
import sys, time, torch
from safetensors_c import Run
model = torch.nn.Linear(2, 2)
with Run(sys.argv[1]) as run:
    with run.guard(model=model) as guard:
        for step in range(1, 1000):
            with torch.no_grad():
                model.weight.add_(1)
            guard.step(step, extra=float(model.weight[0, 0]))
            print(step, flush=True)
            time.sleep(0.01)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_a_guard_saves_when_the_job_is_told_to_end(tmp_path):
    job = subprocess.Popen([sys.executable, "-c", LOOP, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    job.stdout.readline()
    job.send_signal(signal.SIGUSR1)
    for _ in range(20):
        last = int(job.stdout.readline())
    job.send_signal(signal.SIGTERM)
    last = int((job.communicate(timeout=60)[0].split() or [last])[-1])
    assert job.returncode == 143
    with Run(tmp_path) as run:
        steps = [s["step"] for s in run.steps()]
        model = nn.Linear(2, 2)
        step, extra = run.resume(model=model)
        assert len(steps) == 2 and step in (last, last + 1) and model.weight[0, 0].item() == extra


def test_a_guard_saves_an_exact_step_or_none(tmp_path):
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    state = {"model": model, "optimizer": optimizer}
    before = signal.getsignal(signal.SIGTERM)
    with Run(tmp_path) as run:
        with pytest.raises(KeyError), run.guard(every=2, **state) as guard:
            for step in (1, 2, 3):
                train(model, optimizer, 1)
                guard.step(step, extra=step)
            torch.manual_seed(99)  # is undone: the state is that of the end of step 3
            raise KeyError
        assert signal.getsignal(signal.SIGTERM) is before
        train_from_3 = train_after(run, state)
        assert [s["step"] for s in run.steps()] == [2, 3] and train_from_3 == train_after(run, state)
        with pytest.warns(UserWarning, match="middle of the update after step 4"), pytest.raises(KeyError):
            with run.guard(**state) as guard:
                train(model, optimizer, 1)
                guard.step(4)
                train(model, optimizer, 1)
                raise KeyError
        assert [s["step"] for s in run.steps()] == [2, 3]


def train_after(run, state):
    run.resume(**state)
    return train(state["model"], state["optimizer"], 2)


class PastVersions(torch.optim.SGD):
    """Writes where torch counts nothing, as optimizers with kernels of their own do."""

    @torch.no_grad()
    def step(self, closure):
        with torch.enable_grad():
            loss = closure()
        for group in self.param_groups:
            for p in group["params"]:
                p.data.sub_(p.grad, alpha=group["lr"])
        return loss


class Smoothed(nn.Module):
    """Puts another tensor in the place of its buffer, and keeps one that is not saved."""

    def __init__(self):
        super().__init__()
        self.inner = network()
        self.register_buffer("mean", torch.zeros(()))
        self.register_buffer("seen", torch.zeros(()), persistent=False)

    def forward(self, x):
        self.seen = self.seen + 1
        return self.inner(x)


def step_of(state):
    train(state["model"], state["optimizer"], 1)


def other_buffer(state):
    state["model"].mean = state["model"].mean * 1


def hyper_parameter(state):
    state["optimizer"].param_groups[0]["lr"] = 0.7


def parameter(state):
    state["model"].inner[0].weight = nn.Parameter(torch.zeros(8, 5))


def average(state):
    state["ema"].update_parameters(state["model"])


def in_inference_mode(state):
    with torch.inference_mode():
        state["model"].mean = state["model"].mean * 1


def forward(state):
    state["model"](torch.zeros(2, 5))


@pytest.mark.parametrize("make", [PastVersions, torch.optim.AdamW, torch.optim.LBFGS])
@pytest.mark.parametrize(
    "what", [step_of, other_buffer, hyper_parameter, parameter, average, in_inference_mode, forward]
)
def test_a_guard_notices_that_an_update_has_begun(tmp_path, make, what):
    model = Smoothed()
    state = {
        "model": model,
        "optimizer": make(model.parameters(), lr=0.1),
        "ema": torch.optim.swa_utils.AveragedModel(model),
    }
    whole = what is forward  # writes nothing that is saved
    with Run(tmp_path) as run:
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            with pytest.raises(KeyError), run.guard(**state) as guard:
                for step in (1, 2):
                    step_of(state)
                    forward(state)
                    guard.step(step)
                what(state)
                raise KeyError
        assert [s["step"] for s in run.steps()] == [2] * whole
        assert any("middle of the update after step 2" in str(w.message) for w in said) is not whole
    assert not state["optimizer"]._optimizer_step_pre_hooks


def test_a_step_of_a_guard_makes_no_state_of_the_model(tmp_path):
    """What it costs is looks at tensors, however the optimizer keeps its states."""
    model = network()
    optimizer = torch.optim.AdamW(model.parameters())
    made = []
    hook = optimizer.register_state_dict_pre_hook(lambda *ignored: made.append("optimizer"))
    model.state_dict = lambda *a, **k: made.append("model") or nn.Module.state_dict(model, *a, **k)
    with Run(tmp_path) as run, run.guard(every=3, model=model, optimizer=optimizer) as guard:
        for step in (1, 2, 3):
            assert made == []
            guard.step(step)
        assert made == ["model", "optimizer"]
    hook.remove()
