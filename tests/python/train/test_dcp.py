# SPDX-License-Identifier: Apache-2.0 OR MIT
"""torch.distributed.checkpoint through safetensors_c.dcp: saved by 4 processes, loaded by 4, 2 and 3, and read by others; killed
while it saves, full disks, damage."""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import signal
import subprocess
import time

import pytest

torch = pytest.importorskip("torch")
import test_run_group as jobs  # noqa: E402
import torch.distributed.checkpoint as dcp  # noqa: E402
from safetensors_c import Run, SafetensorError, distributed  # noqa: E402
from safetensors_c.dcp import StepWriter, StorageReader, StorageWriter  # noqa: E402

jobs_worker = os.path.join(os.path.dirname(os.path.abspath(__file__)), "dcp_worker.py")


@pytest.fixture(autouse=True)
def worker(monkeypatch):
    monkeypatch.setattr(jobs, "WORKER", jobs_worker)


@pytest.mark.parametrize("how", ["save", "asynchronous"])
def test_other_numbers_of_processes(tmp_path, how):
    path = tmp_path / "step"
    (files,) = [f["files"] for f in jobs.job(4, how, path) if f["files"]]
    assert files == ["dcp.json", *(f"shard-{r:05d}-model-00001-of-00001.safetensors" for r in range(1, 5))]
    assert os.listdir(tmp_path) == ["step"]
    for size in (2, 3) if how == "save" else (4,):
        facts = jobs.job(size, "load", path)
        assert len(facts) == size and all(f["wrong"] == [] and f["extra"] for f in facts)
    with distributed.open_checkpoint(path) as whole:
        assert whole.get_slice("model.0.weight").get_shape() == [13, 7]
    with open(path / "dcp.json", encoding="utf-8") as f:
        assert json.load(f)["objects"]["extra.text"] == "a"


@pytest.mark.parametrize("kind, where", [("object", "(at f.g)"), ("complex128", "(at f)")])
def test_what_a_step_cannot_hold(tmp_path, kind, where):
    for f in jobs.job(2, "refuse", tmp_path / "step", kind):
        assert where in f["error"] and kind in f["error"] and not f["there"]


def test_a_step_of_a_run(tmp_path):
    path = tmp_path / "run"
    facts = jobs.job(2, "step", path)
    for rank in (0, 1):
        latest, again, odd, behind = [f for f in facts if f["rank"] == rank]
        assert latest["latest"] == (None if rank else "step-000000002")
        assert re.search("FileExistsError.*step 2 is there already", again["error"]), again
        assert "(at f.g)" in odd["error"]
        assert "not for async_save" in behind["error"]
    with Run(path, read_only=True) as run:
        found = [(s["step"], s["verified"], s["processes"], s["metric"]) for s in run.steps(verify=True)]
        with pytest.raises(SafetensorError, match="step 2: nothing was saved as model="):
            run.resume(model=torch.nn.Linear(7, 13), step=2)
    assert found == [(1, 1, 2, None), (2, 1, 2, ("loss", 0.5)), (5, 1, 2, None)]
    for size in (1, 2, 3):
        for f in jobs.job(size, "load", path / "step-000000002"):
            assert f["wrong"] == [] and f["extra"]
    with distributed.open_checkpoint(path / "step-000000002") as whole:
        assert whole.get_slice("model.0.weight").get_shape() == [13, 7]
    state = path / "step-000000002" / "state.json"
    state.write_bytes(state.read_bytes().replace(b'"a"', b'"b"'))
    (fact,) = jobs.job(1, "why", path / "step-000000002")
    assert "state.json" in fact["problem"]
    state.write_bytes(state.read_bytes().replace(b'"b"', b'"a"'))
    for name in ("shard-00001-model-00001-of-00001.safetensors", "manifest.json", "state.json"):
        (path / "step-000000002" / name).rename(tmp_path / "away")
        (fact,) = jobs.job(1, "why", path / "step-000000002")
        assert name in fact["problem"], fact
        (tmp_path / "away").rename(path / "step-000000002" / name)
    assert jobs.job(1, "why", path / "step-000000002")[0]["problem"] is None


def test_tensors_that_are_conjugated_or_negative_lazily(tmp_path):
    x = torch.randn(2000, dtype=torch.complex64)
    given = {"conj": x.conj(), "neg": x.conj().imag, "both": x.reshape(40, 50).conj().t()}
    with Run(tmp_path / "run") as run:
        dcp.save(given, storage_writer=StepWriter(run, 1), no_dist=True)
    dcp.save(given, storage_writer=StorageWriter(tmp_path / "plain"), no_dist=True)
    for place in (tmp_path / "run" / "step-000000001", tmp_path / "plain"):
        state = {name: torch.zeros_like(t.resolve_conj().resolve_neg()) for name, t in given.items()}
        dcp.load(state, storage_reader=StorageReader(place), no_dist=True)
        for name, t in given.items():
            assert torch.equal(state[name], t), name


def test_tied_tensors_are_stored_each(tmp_path):
    weight = torch.randn(5, 4)
    given = {"embed": weight, "nested": {"head": weight}, "part": weight[:2]}
    dcp.save(given, storage_writer=StorageWriter(tmp_path / "plain"), no_dist=True)
    state = {"embed": torch.zeros(5, 4), "nested": {"head": torch.zeros(5, 4)}, "part": torch.zeros(2, 4)}
    dcp.load(state, storage_reader=StorageReader(tmp_path / "plain"), no_dist=True)
    assert torch.equal(state["embed"], weight) and torch.equal(state["nested"]["head"], weight)
    assert torch.equal(state["part"], weight[:2])


def test_killed_at_random_moments(tmp_path):
    """20 kills of one of two processes within dcp.save: no torn checkpoint is read, no committed one is lost or changed."""
    dice = random.Random(16)
    committed = within = 0
    for kill in range(20):
        store, processes = jobs.start_alone(2, "train", tmp_path)
        lines = [p.stdout.readline() + p.stdout.readline() for p in processes]  # both have saved one
        time.sleep(dice.uniform(0, 0.3))
        dead = kill % 2
        processes[dead].send_signal(signal.SIGKILL)
        facts = []
        for p, line in zip(processes, lines):
            out, err = p.communicate(timeout=60)
            facts += jobs.told(line + out)
            assert p.returncode in (-signal.SIGKILL, 3), err
        for f in facts:
            if "at" in f:
                assert f["at"] >= committed and not any(f["problems"]), (kill, f)
        assert [f["rank"] for f in facts if "error" in f] == [1 - dead]
        committed = max([committed, *(f["committed"] for f in facts if "committed" in f)])
        within += any(name.startswith(".step-") for name in os.listdir(tmp_path))
        del store
    (found,) = [f["problems"] for f in jobs.job(1, "check", tmp_path)]
    assert len(found) >= committed >= 20 and not any(found.values())
    assert within >= 1
    print(f"{len(found)} checkpoints, {within} of 20 kills left a part of one")


@contextlib.contextmanager
def small_disk(path):
    path.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=3m", "none", str(path)], capture_output=True, text=True
    )
    if done.returncode != 0:
        pytest.skip(f"may not mount a small disk: {done.stderr.strip()}")
    try:
        yield path
    finally:
        subprocess.run(["umount", str(path)], check=True)


def test_a_full_disk(tmp_path):
    with small_disk(tmp_path / "disk") as path:
        facts = jobs.job(2, "full", path)
    for rank in (0, 1):
        _, error, left, first, _, third = [f for f in facts if f["rank"] == rank]
        assert "no space left on device" in error["error"].lower() and "step-2" in error["error"]
        assert left["there"] == [".step-2.sft-part", "step-1"] and left["left"] == []
        assert first["problem"] is third["problem"] is None


def test_damage_is_named(tmp_path):
    facts = [f for f in jobs.job(2, "damaged", tmp_path) if "name" in f]
    names = {f["name"] for f in facts} - {None}
    assert len(names) == 3 and len(facts) > 2 * 3 * 40
    for f in facts:
        if f["name"] is None:
            assert f["problem"] is None
        else:
            assert f"/{f['name']}" in (f["problem"] or "") and "step" in f["problem"], f
            if f["at"] == "missing":
                assert f"{f['name']} is missing" in f["problem"]
