# SPDX-License-Identifier: Apache-2.0 OR MIT
"""torch.distributed.checkpoint through safetensors_c.dcp: saved by 4 processes, loaded by 4, 2 and 3, and read by others."""

from __future__ import annotations

import json
import os

import pytest

torch = pytest.importorskip("torch")
import test_run_group as jobs  # noqa: E402
from safetensors_c import distributed  # noqa: E402

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


def test_objects_that_trees_do_not_know(tmp_path):
    for f in jobs.job(2, "refuse", tmp_path / "step"):
        assert "(at f.g)" in f["error"] and "object" in f["error"] and not f["there"]
