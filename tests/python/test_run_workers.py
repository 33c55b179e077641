# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The guard of a run whose loader has workers: a signal to all processes of the job, as SLURM sends it, reaches these too."""

import os
import signal
import subprocess
import sys
import time

import pytest
import torch
from safetensors_c import Run
from torch import nn

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="signals to a session")

JOB = """
import os, sys, time, torch
from safetensors_c import Run
from safetensors_c.run import Batches

slow_batch, slow_update, last = float(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4])

class Data(torch.utils.data.Dataset):
    def __len__(self):
        return 1000

    def __getitem__(self, i):
        time.sleep(slow_batch)
        return torch.ones(2)

model = torch.nn.Linear(2, 2)
torch.nn.init.zeros_(model.weight)
loader = Batches(torch.utils.data.DataLoader(Data(), shuffle=True, num_workers=2))
step = 0
with Run(sys.argv[1], durable=False) as run, run.guard(model=model, loader=loader) as guard:
    for batch in loader:
        with torch.no_grad():
            model.weight[0].add_(1)
            os.write(1, b"%d\\n" % (step + 1))  # in the midst of an update
            time.sleep(slow_update)
            model.weight[1].add_(1)
        step += 1
        guard.step(step, extra=step)
        if step == last:
            break
os.write(1, b"went on\\n")
"""


def run_job(place, name, slow_batch, slow_update, at, last=1000):
    """A job whose processes all get a signal when update `at` has begun."""
    command = [sys.executable, "-c", JOB, str(place), *map(str, (slow_batch, slow_update, last))]
    job = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    for line in job.stdout:
        if int(line) == at:
            os.killpg(job.pid, name)
            break
    out, err = job.communicate(timeout=300)
    model = nn.Linear(2, 2)
    with Run(place, read_only=True) as run:
        step, extra = run.resume(model=model)
        steps = [s["step"] for s in run.steps()]
    assert extra == step and torch.equal(model.weight, torch.full((2, 2), float(step)))
    return job.returncode, steps, out, err


# In the midst of an update, and where, after a short one, the loader waits for its next batch.
MOMENTS = [(0.001, 0.3, 2), (0.001, 0.02, 9), (0.6, 0.0, 2)]


@pytest.mark.parametrize("slow_batch, slow_update, at", MOMENTS)
def test_sigterm_to_all_processes(tmp_path, slow_batch, slow_update, at):
    code, steps, _, err = run_job(tmp_path, signal.SIGTERM, slow_batch, slow_update, at)
    assert code == 143 and len(steps) == 1 and steps[0] >= at, err


@pytest.mark.parametrize("slow_batch, slow_update, at", MOMENTS)
def test_training_goes_on_after_sigusr1_to_all_processes(tmp_path, slow_batch, slow_update, at):
    code, steps, out, err = run_job(tmp_path, signal.SIGUSR1, slow_batch, slow_update, at, at + 4)
    assert code == 0 and out.endswith("went on\n") and len(steps) == 1 and steps[0] >= at, err


class Dies(torch.utils.data.Dataset):
    def __len__(self):
        return 9

    def __getitem__(self, i):
        if i == 5:
            time.sleep(1)  # what it made before is with the training
            os._exit(3)
        return torch.ones(1)


def test_a_worker_that_dies_by_itself_is_an_error_as_before(tmp_path):
    model, step = nn.Linear(1, 1), 0
    with Run(tmp_path) as run:
        with pytest.raises(RuntimeError, match="DataLoader worker"), run.guard(model=model) as guard:
            assert "Workers" in repr(signal.getsignal(signal.SIGCHLD))
            for _ in torch.utils.data.DataLoader(Dies(), num_workers=1):
                step += 1
                guard.step(step)
        assert "Workers" not in repr(signal.getsignal(signal.SIGCHLD))
        assert [s["step"] for s in run.steps()] == [step]


def test_the_error_of_a_worker_waits_for_the_save_that_a_signal_asks_for(tmp_path):
    """Of workers that do not outlive SIGUSR1."""
    with Run(tmp_path) as run:
        with (
            pytest.raises(RuntimeError, match="DataLoader worker"),
            run.guard(model=nn.Linear(1, 1)) as guard,
        ):
            batches = iter(torch.utils.data.DataLoader(range(90), num_workers=1, batch_size=1))
            next(batches)
            os.kill(os.getpid(), signal.SIGUSR1)
            batches._workers[0].kill()
            while guard._workers.error is None:
                time.sleep(0.01)
            guard.step(7)
        run.wait()
        assert [s["step"] for s in run.steps()] == [7]
