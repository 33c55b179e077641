# SPDX-License-Identifier: Apache-2.0 OR MIT
"""run_peers.py --mib MIB --rounds N --folder FOLDER --out JSON [--svg SVG]: what saving and resuming a training costs, beside
torch.save, torch's distributed checkpoints (async_save), Lightning's AsyncCheckpointIO and accelerate's save_state.

The state is that of a model with AdamW: a third weights, two thirds moments, all float32. Every measurement is a process of its
own, and contenders take turns. Method and table: docs/performance/runs.md.
"""

import argparse
import json
import math
import os
import pathlib
import platform
import random
import shutil
import statistics
import subprocess
import sys
import threading
import time

SAVERS = ("Run.save", "DCP async_save", "Lightning AsyncCheckpointIO", "accelerate save_state", "torch.save")
READERS = ("Run.resume", "torch.load", "torch.load, mmap", "DCP load", "accelerate load_state")
WIDTH = 1024  # a layer is 4 MiB of weights and 8 MiB of moments


# ---------------------------------------------------------------- the training


def training(mib, stateful):
    import torch
    from torch import nn

    layers = max(1, mib // 12)
    model = nn.Sequential(*(nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(layers)))
    optimizer = torch.optim.AdamW(model.parameters(), foreach=True)
    if stateful:
        for p in model.parameters():
            p.grad = torch.ones_like(p)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    return model, optimizer


def change(model, optimizer):
    """As an update does: every byte is another one."""
    import torch

    with torch.no_grad():
        for p in model.parameters():
            for x in (p, optimizer.state[p]["exp_avg"], optimizer.state[p]["exp_avg_sq"]):
                x.add_(0.001)


class Small:
    """Updates of a network whose state is in the caches: what a save behind takes from them is processor time."""

    def __init__(self):
        import torch
        from torch import nn

        torch.set_num_threads(1)
        self.model = nn.Sequential(*(nn.Sequential(nn.Linear(256, 256), nn.ReLU()) for _ in range(4)))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01)
        self.x = torch.randn(64, 256)

    def rate(self, ended, least=0.0):
        """Updates a second until `ended()`."""
        begun, n = time.perf_counter(), 0
        while not ended() or time.perf_counter() - begun < least:
            self.optimizer.zero_grad()
            self.model(self.x).square().mean().backward()
            self.optimizer.step()
            n += 1
        return n / (time.perf_counter() - begun)


# ---------------------------------------------------------------- contenders


def saver(name, folder, model, optimizer):
    """(save(step): a function that waits until it is done, close)."""
    import torch

    if name == "Run.save":
        from safetensors_c import Run

        run = Run(folder, keep_last=1)

        def ours(step):
            return run.save(step, model=model, optimizer=optimizer).committed.result

        return ours, run.close
    if name == "torch.save":

        def plain(step):
            whole = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
            torch.save(whole, folder / "state.pt")
            return lambda: None

        return plain, lambda: None
    if name == "DCP async_save":
        import torch.distributed.checkpoint as dcp
        from torch.distributed.checkpoint.state_dict import get_state_dict

        def dcp_save(step):
            m, o = get_state_dict(model, optimizer)
            return dcp.async_save({"model": m, "optimizer": o}, checkpoint_id=folder / "dcp").result

        return dcp_save, lambda: None
    if name == "accelerate save_state":
        from accelerate import Accelerator

        accelerator = Accelerator(cpu=True)
        accelerator.prepare(model, optimizer)

        def state(step):
            accelerator.save_state(str(folder / "state"))
            return lambda: None

        return state, lambda: None
    return lightning(folder, model, optimizer)


def lightning(folder, model, optimizer):
    from lightning.pytorch.plugins.io import AsyncCheckpointIO, TorchCheckpointIO

    class Waiting(TorchCheckpointIO):
        """Says when the file is there."""

        def save_checkpoint(self, checkpoint, path, storage_options=None):
            super().save_checkpoint(checkpoint, path, storage_options)
            done.set()

    done = threading.Event()
    plugin = AsyncCheckpointIO(Waiting())

    def save(step):
        done.clear()
        whole = {"state_dict": model.state_dict(), "optimizer_states": [optimizer.state_dict()]}
        plugin.save_checkpoint(whole, str(folder / "state.ckpt"))
        return done.wait

    return save, plugin.teardown


def reader(name, folder, model, optimizer):
    import torch

    if name == "Run.resume":
        from safetensors_c import Run

        with Run(folder, read_only=True) as run:
            assert run.resume(model=model, optimizer=optimizer).step > 0
    elif name.startswith("torch.load"):
        whole = torch.load(folder / "state.pt", weights_only=True, mmap="mmap" in name)
        model.load_state_dict(whole["model"])
        optimizer.load_state_dict(whole["optimizer"])
    elif name == "DCP load":
        import torch.distributed.checkpoint as dcp
        from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict

        m, o = get_state_dict(model, optimizer)
        dcp.load({"model": m, "optimizer": o}, checkpoint_id=folder / "dcp")
        set_state_dict(model, optimizer, model_state_dict=m, optim_state_dict=o)
    else:
        from accelerate import Accelerator

        accelerator = Accelerator(cpu=True)
        accelerator.prepare(model, optimizer)
        accelerator.load_state(str(folder / "state"))


# ---------------------------------------------------------------- one measurement, in a process of its own


def flush(folder):
    for path in pathlib.Path(folder).rglob("*"):
        if path.is_file():
            fd = os.open(path, os.O_RDONLY)
            os.fsync(fd)
            os.close(fd)


class Memcpy:
    """The state into touched memory, by two threads."""

    def __init__(self, model, optimizer):
        import torch

        self.state = [
            x for p in model.parameters() for x in (p.detach(), *optimizer.state[p].values()) if x.dim()
        ]
        self.copies = [torch.ones_like(x) for x in self.state]

    def seconds(self):
        import torch

        torch.set_num_threads(2)
        begun = time.perf_counter()
        for a, b in zip(self.copies, self.state):
            a.copy_(b)
        took = time.perf_counter() - begun
        torch.set_num_threads(1)
        return took


def save_once(name, folder, mib):
    """Four saves: the first one takes memory, and pays for it; of the others the medians."""
    model, optimizer = training(mib, True)
    small = Small()
    copy = Memcpy(model, optimizer) if name == "Run.save" else None
    save, close = saver(name, folder, model, optimizer)
    out = {"stall": [], "written": [], "beside": [], "memcpy": []}
    for step in range(1, 5):
        change(model, optimizer)
        begun = time.perf_counter()
        wait = save(step)
        stalled = time.perf_counter() - begun
        ended = threading.Event()
        waiter = threading.Thread(target=lambda wait=wait, ended=ended: (wait(), ended.set()))
        waiter.start()
        beside = small.rate(ended.is_set)
        waiter.join()
        if name != "Run.save":  # which has flushed
            flush(folder)
        written = time.perf_counter() - begun
        if step == 1:
            first = stalled
            continue
        out["stall"].append(stalled)
        out["written"].append(written)
        if written > 1.5 * stalled:  # else nothing happened behind
            out["beside"].append(beside / small.rate(lambda: True, least=1.0))
        if copy is not None:
            change(model, optimizer)
            out["memcpy"].append(copy.seconds())
    close()
    return {"first stall": first, **{key: statistics.median(values) for key, values in out.items() if values}}


def memory(field):
    for line in open("/proc/self/status", encoding="ascii"):
        if line.startswith(field):
            return int(line.split()[1]) / 1024
    raise KeyError(field)


def read_once(name, folder, mib):
    import torch

    reading = {"Run.resume": "safetensors_c", "accelerate load_state": "accelerate"}
    __import__(reading.get(name, "torch.distributed.checkpoint.state_dict"))
    torch.set_num_threads(2)
    change(*training(12, True))  # brings what torch imports late
    before = memory("VmRSS")
    model, optimizer = training(mib, False)
    begun = time.perf_counter()
    reader(name, folder, model, optimizer)
    seconds = time.perf_counter() - begun
    change(model, optimizer)  # what was only mapped is read now
    ready = time.perf_counter() - begun
    held = sum(x.nbytes for p in model.parameters() for x in (p, *optimizer.state[p].values())) / 2**20
    return {"resume": seconds, "ready": ready, "more": memory("VmHWM") - before - held}


# ---------------------------------------------------------------- all of them


def folder_of(base, name):
    where = {"DCP load": SAVERS[1], "accelerate load_state": SAVERS[3], "Run.resume": SAVERS[0]}
    where = where.get(name, "torch.save" if name.startswith("torch.load") else name)
    return pathlib.Path(base) / where.replace(" ", "-").lower()


def in_cache(folder, wanted):
    """Every file of the folder is in the page cache, or none."""
    for path in pathlib.Path(folder).rglob("*"):
        if path.is_file():
            with open(path, "rb", buffering=0) as file:
                if wanted:
                    while file.read(1 << 24):
                        pass
                else:
                    os.fsync(file.fileno())
                    os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def once(name, args):
    """One measurement, in a process of its own."""
    folder = str(folder_of(args.folder, name))
    command = [sys.executable, __file__, "--one", name, "--mib", str(args.mib), "--folder", folder]
    ended = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if ended.returncode != 0:
        sys.exit(f"{name} failed")
    print(name, ended.stdout.splitlines()[-1], file=sys.stderr)
    return json.loads(ended.stdout.splitlines()[-1])


def measure(args):
    rows = {name: {} for name in (*SAVERS, *READERS)}

    def keep(name, values, before=""):
        for key, value in values.items():
            rows[name].setdefault(before + key, []).append(value)

    for _ in range(args.rounds):
        for name in random.sample(SAVERS, len(SAVERS)):
            folder = folder_of(args.folder, name)
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            keep(name, once(name, args))
        for name in random.sample(READERS, len(READERS)):
            for cached in (True, False):
                in_cache(folder_of(args.folder, name), cached)
                keep(name, once(name, args), "" if cached else "cold ")
    return rows


def table(rows, mib):
    def of(name, key):
        return statistics.median(rows[name][key]) if rows[name].get(key) else math.nan

    copy = of("Run.save", "memcpy")
    lines = [
        "| save | stall, s | of a memcpy | first stall, s | on the disk, s | updates beside |",
        "|---" * 6 + "|",
    ]
    for name in SAVERS:
        stall, beside = of(name, "stall"), of(name, "beside")
        beside = "" if math.isnan(beside) else f"{beside:.2f}"
        lines.append(
            f"| {name} | {stall:.3f} | {stall / copy:.2f} | {of(name, 'first stall'):.3f} | {of(name, 'written'):.2f} | {beside} |"
        )
    lines += [
        "",
        "| resume | s | times ours | from the device, s | times ours | ... and every tensor written to once, s | memory beside the state, MiB |",
        "|---" * 7 + "|",
    ]
    for name in READERS:
        cells = []
        for key in ("resume", "cold resume"):
            cells += [f"{of(name, key):.3f}", f"{of(name, key) / of('Run.resume', key):.1f}"]
        lines.append(
            f"| {name} | {' | '.join(cells)} | {of(name, 'cold ready'):.3f} | {of(name, 'more'):.0f} |"
        )
    return "\n".join([f"{mib} MiB of AdamW state; a memcpy of it by two threads: {copy:.3f} s", "", *lines])


def chart(rows, mib):
    """Bars of seconds: the stall of a save, and a resume."""
    import plots
    from chart import STYLE

    out, y = [], 30
    for title, names, key in (
        ("Training stands still for a save (s)", SAVERS, "stall"),
        ("Resuming, from the device, every tensor ready (s)", READERS, "cold ready"),
    ):
        out.append(plots.text(16, y, title, 15))
        y += 14
        values = [statistics.median(rows[n][key]) for n in names]
        for i, (name, value) in enumerate(zip(names, values)):
            wide = max(2.0, 380 * value / max(values))
            out.append(plots.text(222, y + 15, name, 13, "end"))
            kind = "bar" if i == 0 else "slow"
            out.append(f'<rect class="{kind}" x="232" y="{y}" width="{wide:.1f}" height="20" rx="2"/>')
            out.append(plots.text(240 + wide, y + 15, f"{value:.2f}", 12))
            y += 28
        y += 26
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 720 {y}" width="720" role="img">'
    what = f"<desc>{mib} MiB of AdamW state, {platform.machine()}, {os.cpu_count()} cores; docs/performance/runs.md</desc>"
    return f'{head}{what}<style>{STYLE}</style><rect class="card" width="719" height="{y - 1}" rx="6"/>{"".join(out)}</svg>\n'


def main():
    args = argparse.ArgumentParser()
    args.add_argument("--mib", type=int, default=768)
    args.add_argument("--rounds", type=int, default=3)
    args.add_argument("--folder", default="build/run_peers")
    args.add_argument("--out", default="build/run_peers.json")
    args.add_argument("--svg")
    args.add_argument("--one", help="(for itself) this measurement alone")
    args = args.parse_args()
    if args.one:
        measured = save_once if args.one in SAVERS else read_once
        print(json.dumps(measured(args.one, pathlib.Path(args.folder), args.mib)))
        return
    before = os.getloadavg()[0]
    rows = measure(args)
    load = [before, os.getloadavg()[0]]
    result = {"mib": args.mib, "rounds": args.rounds, "load": load, "cores": os.cpu_count(), "rows": rows}
    pathlib.Path(args.out).write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    if args.svg:
        pathlib.Path(args.svg).write_text(chart(rows, args.mib), encoding="utf-8")
    shutil.rmtree(args.folder, ignore_errors=True)
    print(table(rows, args.mib))


if __name__ == "__main__":
    main()
