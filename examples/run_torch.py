# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Trains a small network and saves a step of its run every ten updates, behind the training. Kill it at any moment and
start it again: it resumes, and ends with the very loss of a run that was never killed.

    python run_torch.py RUN [UPDATES]
"""

import sys

import torch
from safetensors_c import Run
from safetensors_c.run import Batches

updates = int(sys.argv[2]) if len(sys.argv) > 2 else 200
torch.manual_seed(0)
data = torch.utils.data.TensorDataset(torch.randn(256, 8), torch.randn(256, 1))
loader = Batches(torch.utils.data.DataLoader(data, batch_size=16, shuffle=True))
model = torch.nn.Sequential(
    torch.nn.Linear(8, 32), torch.nn.Dropout(0.1), torch.nn.ReLU(), torch.nn.Linear(32, 1)
)
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, updates)
state = {"model": model, "optimizer": optimizer, "scheduler": scheduler, "loader": loader}

with Run(sys.argv[1], keep_last=3, keep_every=100, best="loss") as run:
    step, extra = run.resume(**state)
    last = extra["loss"] if extra else None
    if step:
        print(f"resumed at {step}, loss {last}", file=sys.stderr)
    with run.guard(every=10, **state) as guard:  # and when the job is told to end
        while step < updates:
            for x, y in loader:
                optimizer.zero_grad()
                loss = torch.nn.functional.mse_loss(model(x), y)
                loss.backward()
                optimizer.step()
                scheduler.step()
                step, last = step + 1, loss.item()
                guard.step(step, extra={"loss": last}, metrics={"loss": last})
                if step == updates:
                    break
print(f"step {step} loss {last.hex()}")
