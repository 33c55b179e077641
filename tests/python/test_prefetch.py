# SPDX-License-Identifier: Apache-2.0 OR MIT
"""safe_open.prefetch: what can be checked without a CUDA device; the reference's own suite has the rest."""

from __future__ import annotations

import gc
import threading
import time

import pytest

torch = pytest.importorskip("torch")

from safetensors_c import SafetensorError, safe_open  # noqa: E402
from safetensors_c import torch as st  # noqa: E402
from safetensors_c._prefetch import PrefetchLoader, _jobs  # noqa: E402

TENSORS = {f"t{i}": torch.full((8, 4), float(i)) for i in range(20)}


@pytest.fixture
def path(tmp_path):
    st.save_file({**TENSORS, "s": torch.tensor(1.0)}, tmp_path / "t")
    return tmp_path / "t"


def threads_end(most):
    until = time.monotonic() + 120
    while threading.active_count() > most and time.monotonic() < until:
        time.sleep(0.02)
    return threading.active_count() <= most


def loader_of(path, plan=None, threads=3, place=lambda t: t.clone()):
    with safe_open(path, "pt") as f:
        return PrefetchLoader(_jobs(f, plan), place, threads)


def test_every_tensor_once_and_after_the_handle_is_closed(path):
    with loader_of(path) as loader:
        assert len(loader) == 21 and loader.names()[0] == "s"
        first = loader.take("t7")
        rest = dict(loader)
        assert torch.equal(first, TENSORS["t7"]) and len(rest) == 20 and "t7" not in rest
        assert all(torch.equal(rest[n], t) for n, t in TENSORS.items() if n != "t7")
        assert rest["s"].shape == () and dict(loader) == {}
        with pytest.raises(SafetensorError, match="already delivered"):
            loader.take("t7")
        with pytest.raises(SafetensorError, match="not in the prefetch plan"):
            loader.take("nope")
    with pytest.raises(SafetensorError, match="closed"):
        loader.take("t1")


def test_plans(path):
    with loader_of(path, {"t1": slice(1, 3), "t2": slice(2, 2), "t3": slice(-2, None)}) as loader:
        got = dict(loader)
    assert [tuple(got[n].shape) for n in ("t1", "t2", "t3")] == [(2, 4), (0, 4), (2, 4)]
    with safe_open(path, "pt") as f:
        for plan, text in [
            ({"nope": None}, "does not contain"),
            ({"t1": slice(0, 3, 2)}, "step 1"),
            ({"t1": slice(0, 3, 0)}, "invalid prefetch plan slice"),
            ({"t1": slice(0, 10)}, "out of range"),
            ({"t1": slice("a", 1)}, "must be integers"),
            ({"t1": 3}, "None or a slice"),
            ({"s": slice(0, 1)}, "0-d"),
            ({1: None}, "keys must be tensor names"),
            ({}, "selects no tensors"),
        ]:
            with pytest.raises(SafetensorError, match=text):
                _jobs(f, plan)
        with pytest.raises(SafetensorError, match="cuda devices, not cpu"):
            f.prefetch()
        with pytest.raises(SafetensorError, match="cuda devices, not meta"):
            f.prefetch(device="meta")
    with safe_open(path, "np") as f, pytest.raises(SafetensorError, match='framework="pt"'):
        f.prefetch(device="cuda")
    f = safe_open(path, "pt")
    f.close()
    with pytest.raises(SafetensorError, match="closed"):
        f.prefetch(device="cuda")


def test_a_failure_reaches_who_waits(path):
    def place(tensor):
        raise RuntimeError("no room")

    loader = loader_of(path, place=place)
    with pytest.raises(SafetensorError, match="no room"):
        loader.take("t0")
    with pytest.raises(SafetensorError, match="no room"):
        list(loader)


def test_close_wakes_a_waiting_thread_and_ends_the_readers(path):
    gate = threading.Event()

    def place(tensor):
        gate.wait(120)
        return tensor

    before = threading.active_count()
    loader = loader_of(path, place=place)
    seen = []

    def wait():
        try:
            loader.take("t0")
        except SafetensorError as e:
            seen.append(str(e))

    waiter = threading.Thread(target=wait)
    waiter.start()
    time.sleep(0.05)
    loader.close()
    waiter.join(120)
    assert seen == ["prefetch loader closed"]
    gate.set()
    assert threads_end(before)


def test_a_dropped_loader_ends_its_readers(path):
    before = threading.active_count()
    loader = loader_of(path, place=lambda t: time.sleep(0.3) or t)
    del loader
    gc.collect()
    assert threads_end(before), "readers still run"


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_on_a_device(path):
    with safe_open(path, "pt", device="cuda:0") as f, f.prefetch() as loader:
        got = dict(loader)
    assert all(got[n].is_cuda and torch.equal(got[n].cpu(), t) for n, t in TENSORS.items())
