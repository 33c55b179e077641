# SPDX-License-Identifier: Apache-2.0 OR MIT
"""run_kills.py MODEL KILLS SEED [SECONDS]: a training is killed with SIGKILL at random moments, inside saves too, and resumed; the
loss of every step is compared, bit for bit, with that of a training that was never killed. After SECONDS no further
training is begun: what is printed says how many kills it came to.

Each training is forked from this process, which has imported torch and done nothing else with it.
"""

import os
import random
import shutil
import signal
import sys
import tempfile
import time

import numpy as np
import torch
import torch._dynamo  # optimizers want it, which takes longer than the training
from safetensors_c.run import Batches, Run
from torch import nn

STEPS = 40


class Noisy(torch.utils.data.Dataset):
    """Items with noise from the random states of the worker."""

    def __init__(self, make):
        self.make = make

    def __len__(self):
        return 36

    def __getitem__(self, i):
        x, y = self.make(i)
        return x + 0.01 * torch.rand(x.shape) * random.random() if x.is_floating_point() else x, y


def loader_of(make):
    return Batches(torch.utils.data.DataLoader(Noisy(make), batch_size=4, shuffle=True, num_workers=2))


def item(i, shape):
    x = torch.sin(torch.arange(int(np.prod(shape)), dtype=torch.float32) * (i + 1)).reshape(shape)
    return x, x.sum() % 3


def mlp():
    model = nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Dropout(0.3), nn.BatchNorm1d(64), nn.Linear(64, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    state = {
        "model": model,
        "optimizer": optimizer,
        "scheduler": torch.optim.lr_scheduler.StepLR(optimizer, 7, 0.9),
        "loader": loader_of(lambda i: item(i, (8,))),
    }

    def update(x, y):
        x = x * (0.5 + random.random()) + np.random.rand()
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x)[:, 0], y)
        loss.backward()
        optimizer.step()
        state["scheduler"].step()
        return loss

    return state, update


class Transformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(11, 16)
        self.layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.1, batch_first=True)
        self.head = nn.Linear(16, 11, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, x):
        return self.head(self.layer(self.embed(x)))


def transformer():
    model = Transformer()
    optimizer = torch.optim.AdamW(model.named_parameters(), lr=3e-3)
    ema = torch.optim.swa_utils.AveragedModel(
        model, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.9)
    )
    state = {
        "model": model,
        "optimizer": optimizer,
        "scheduler": torch.optim.lr_scheduler.LambdaLR(optimizer, lambda n: min(1.0, (n + 1) / 20)),
        "ema": ema,
        "loader": loader_of(lambda i: (torch.arange(12) * (i + 3) % 11, torch.tensor(i % 3))),
    }

    def update(x, y):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x[:, :-1]).flatten(0, 1), x[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        state["scheduler"].step()
        ema.update_parameters(model)
        with torch.no_grad():
            return loss + 0 * y.sum() + ema.module.embed.weight.sum()

    return state, update


class Lstm(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(4, 16, 2, dropout=0.2, batch_first=True)
        self.head = nn.Linear(16, 1)

    def forward(self, x):
        return self.head(self.lstm(x)[0][:, -1])


def lstm():
    model = Lstm()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2, amsgrad=True)
    schedulers = torch.optim.lr_scheduler
    warm = schedulers.LinearLR(optimizer, 0.1, total_iters=10)
    chained = schedulers.ChainedScheduler(
        [schedulers.ExponentialLR(optimizer, 0.99), schedulers.CosineAnnealingLR(optimizer, 40)]
    )
    state = {
        "model": model,
        "optimizer": optimizer,
        "scheduler": schedulers.SequentialLR(
            optimizer, [warm, schedulers.CosineAnnealingWarmRestarts(optimizer, 9)], [10]
        ),
        "chained": chained,
        "loader": loader_of(lambda i: item(i, (5, 4))),
    }

    def update(x, y):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x)[:, 0], y)
        loss.backward()
        optimizer.step()
        state["scheduler"].step()
        chained.step()
        return loss

    return state, update


def train(make, directory, log):
    torch.manual_seed(1)
    random.seed(2)
    np.random.seed(3)
    state, update = make()
    out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    with Run(directory, keep_last=2) as run:
        step, _ = run.resume(**state)
        while step < STEPS:
            for batch in state["loader"]:
                loss = update(*batch)
                step += 1
                os.write(out, f"{step} {loss.item().hex()}\n".encode())
                if step % 2 == 0:
                    run.save(step, **state, metrics={"loss": loss})
                if step == STEPS:
                    break


def start(make, directory, log):
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.setsid()
            train(make, directory, log)
            status = 0
        except BaseException:
            import traceback

            traceback.print_exc()
        finally:
            os._exit(status)
    return child


def losses(log):
    found = {}
    if os.path.exists(log):
        for line in open(log):
            if line.endswith("\n"):
                step, loss = line.split()
                assert found.setdefault(int(step), loss) == loss, (
                    f"step {step}: {loss}, before {found[int(step)]}"
                )
    return found


def finish(child):
    status = os.waitpid(child, 0)[1]
    assert status == 0, f"a training ended with status {status}"


def main():
    make, kills, seed = globals()[sys.argv[1]], int(sys.argv[2]), int(sys.argv[3])
    torch.set_num_threads(1)
    chance = random.Random(seed)
    place = tempfile.mkdtemp()
    began = time.monotonic()
    finish(start(make, f"{place}/whole", f"{place}/whole.log"))
    duration = time.monotonic() - began
    expected = losses(f"{place}/whole.log")
    assert sorted(expected) == list(range(1, STEPS + 1))
    resumed = done = 0
    end = began + float(sys.argv[4]) if len(sys.argv) > 4 else float("inf")
    while done < kills and (done == 0 or time.monotonic() < end):
        directory, log = f"{place}/run", f"{place}/run.log"
        while True:
            child = start(make, directory, log)
            if done < kills:
                time.sleep(chance.uniform(0.1, 0.9) * duration)
                ended, status = os.waitpid(child, os.WNOHANG)
                assert status == 0, f"a training ended with status {status}"
                if not ended:
                    os.kill(child, signal.SIGKILL)
                    os.waitpid(child, 0)
                    done += 1
                    resumed += os.path.isdir(directory) and any(
                        n.startswith("step-") for n in os.listdir(directory)
                    )
                    continue
            else:
                finish(child)
            break
        found = losses(log)
        for step, loss in found.items():
            assert expected[step] == loss, f"step {step}: {loss}, never killed {expected[step]}"
        assert len(found) == STEPS, f"{len(found)} of {STEPS} steps"
        shutil.rmtree(directory)
        os.unlink(log)
    shutil.rmtree(place)
    assert done < 3 or resumed > 0, "every kill came before the first step was saved"
    assert done > 0, "nothing was killed"
    print(
        f"{sys.argv[1]}, seed {seed}: {done} of {kills} kills, {resumed} with steps to resume from, {STEPS} losses equal"
    )


if __name__ == "__main__":
    main()
