# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The guard of a run: what is saved when the job is told to end, and after an exception, is exact; and workers of a training
that was killed hold nothing of the run."""

import contextlib
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
def test_told_to_end_after_the_last_step(tmp_path):
    model, history = nn.Linear(2, 2), []
    with Run(tmp_path) as run:
        with pytest.raises(SystemExit) as left, run.guard(every=7, model=model) as guard:
            for step in range(1, 11):
                history.append(step)
                guard.step(step, extra={"seen": history})
            history.append(99)
            os.kill(os.getpid(), signal.SIGTERM)
        assert left.value.code == 143
        assert run.resume(model=model) == (10, {"seen": list(range(1, 11))})


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


# ---------------------------------------------------------------- forked children


def held_of(run, pid="self"):
    """What a process has open below a directory."""
    found = []
    for number in os.listdir(f"/proc/{pid}/fd"):
        try:
            link = os.readlink(f"/proc/{pid}/fd/{number}")
        except OSError:
            continue
        if link.startswith(str(run)):
            found.append(link[len(str(run)) :])
    return found


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc")
def test_a_forked_child_holds_nothing_of_a_step_that_is_being_written(tmp_path):
    """Among what the child keeps are files that the program itself has open in the run's directory."""
    tensor = torch.zeros(8 << 20)
    with Run(tmp_path) as run, open(tmp_path / "train.log", "w", encoding="utf-8"):
        for step in range(1, 100):
            run.save(step, extra=tensor, replace=True)
            while run.poll()["pending"] and not any(".sft-part/" in name for name in held_of(tmp_path)):
                pass
            reader, writer = os.pipe()
            child = os.fork()
            if child == 0:
                try:
                    os.write(writer, "\n".join(held_of(tmp_path)).encode() or b"none")
                finally:
                    os._exit(0)
            os.close(writer)
            during = any(".sft-part/" in name for name in held_of(tmp_path))
            with os.fdopen(reader) as f:
                held = f.read()
            os.waitpid(child, 0)
            # the directory of the run itself, and a file without a name that becomes `latest`, cost nothing
            assert [n for n in held.splitlines() if n and not n.startswith("/#")] == ["/train.log"]
            if during:
                break
        assert during, "no fork came while a file was being written"


STUCK = """
import os, sys, time, torch
from safetensors_c import Run
from safetensors_c.run import Batches

class Stuck(torch.utils.data.Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, i):
        if i == 3:
            time.sleep(600)
        return torch.zeros(1)

with Run(sys.argv[1]) as run:
    run.save(1, extra=torch.zeros(1 << 20))
    loader = torch.utils.data.DataLoader(Stuck(), num_workers=1)
    batches = iter(Batches(loader))
    for _ in range(3):
        next(batches)
    children = open(f"/proc/self/task/{os.getpid()}/children").read().split()
    print(*children, flush=True)
    next(batches)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc")
def test_a_worker_that_outlives_its_training_holds_nothing_of_the_run(tmp_path):
    with open(tmp_path / "said", "w+", encoding="utf-8") as said:
        job = subprocess.Popen(
            [sys.executable, "-c", STUCK, str(tmp_path / "run")], stdout=said, start_new_session=True
        )
        workers = []
        while not workers and job.poll() is None:
            time.sleep(0.02)
            workers = (tmp_path / "said").read_text().split()
        try:
            job.kill()
            job.wait()
            for worker in workers:
                os.kill(int(worker), 0)  # lives
                assert [
                    name for name in held_of(tmp_path / "run", worker) if "step-" in name or "lock" in name
                ] == []
            with Run(tmp_path / "run") as run:
                assert run.resume().step in (0, 1)
                run.save(2)
            assert any(os.path.exists(f"/proc/{worker}") for worker in workers)
        finally:
            for worker in workers:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(worker), signal.SIGKILL)
