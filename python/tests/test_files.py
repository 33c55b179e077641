# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What becomes of open handles: many of them, pickled and copied ones, files that are replaced, unlinked or cut short
under them. Handles behind the first 64 have no descriptor of their own (park_posix.c): every case is tried with both.
"""
from __future__ import annotations

import copy
import os
import pickle
import subprocess
import sys
import textwrap

import numpy as np
import pytest

import safetensors_c.numpy as sn
from safetensors_c import SafetensorError, safe_open

linux = pytest.mark.skipif(sys.platform != "linux", reason="descriptors of Linux")
WAYS = [(f, b) for f in ("np", "pt") for b in ("mmap", "pread")]


def descriptors():
    return len(os.listdir("/proc/self/fd"))


@pytest.fixture(params=["few", "many"])
def path(request, tmp_path):
    """A file, to be opened while few or many handles are open."""
    array = np.arange(4096 * 64, dtype="f4").reshape(4096, 64)
    sn.save_file({"a": array, "b": np.arange(3)}, tmp_path / "t")
    sn.save_file({"x": np.zeros(1)}, tmp_path / "x")
    held = [safe_open(tmp_path / "x", "np") for _ in range(70 if request.param == "many" else 0)]
    yield tmp_path / "t"
    del held


def check(f, name="a"):
    whole = np.arange(4096 * 64, dtype="f4").reshape(4096, 64)
    assert (np.asarray(f.get_tensor(name)) == whole).all()
    assert (np.asarray(f.get_slice(name)[:, 3:5]) == whole[:, 3:5]).all()
    assert (np.asarray(f.get_slice(name)[7:9]) == whole[7:9]).all()
    assert (np.asarray(f.get_tensors([name], owned=True)[name]) == whole).all()
    assert f.get_tensor_meta(name).nbytes == whole.nbytes


@linux
@pytest.mark.parametrize("framework", ["np", "pt"])
def test_1100_handles_with_1024_descriptors(tmp_path, framework):
    sn.save_file({"a": np.arange(64, dtype="f4").reshape(8, 8)}, tmp_path / "t")
    code = f"""
    import os, resource
    resource.setrlimit(resource.RLIMIT_NOFILE, (1024, 1024))
    import numpy as np
    from safetensors_c import safe_open
    handles = [safe_open({str(tmp_path / "t")!r}, {framework!r}) for _ in range(1100)]
    slices = [f.get_slice("a") for f in handles]
    assert len(os.listdir("/proc/self/fd")) < 100
    for f in handles:
        assert float(f.get_tensor("a")[7][7]) == 63
        f.close()
    for s in slices:
        assert float(s[3:5, 1:3][1][1]) == 34 and s[:, ::2].shape == (8, 4)
    del slices, s
    before = len(os.listdir("/proc/self/fd"))
    assert before < 10 + 64, before
    safe_open({str(tmp_path / "t")!r}, {framework!r}, backend="pread").get_tensor("a")
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@linux
def test_descriptors_come_back(tmp_path):
    sn.save_file({"a": np.zeros(3)}, tmp_path / "t")
    before = descriptors()
    for _ in range(3):
        handles = [safe_open(tmp_path / "t", "np") for _ in range(200)]
        assert descriptors() - before <= 64
        del handles
        assert descriptors() == before


@pytest.mark.parametrize(("framework", "backend"), WAYS)
@pytest.mark.parametrize("how", ["replaced", "unlinked"])
def test_a_file_that_is_gone_stays_readable(path, framework, backend, how):
    f = safe_open(path, framework, backend=backend)
    if how == "replaced":
        sn.save_file({"a": np.zeros((2, 2))}, path)
    else:
        path.unlink()
    check(f)
    again = copy.deepcopy(f)
    f.close()
    check(again)
    assert again.keys() == ["a", "b"]


@pytest.mark.parametrize(("framework", "backend"), WAYS)
@pytest.mark.parametrize("gone", [False, True])
@pytest.mark.parametrize("touched", [False, True])
def test_a_file_cut_short_is_an_error(path, framework, backend, gone, touched):
    f = safe_open(path, framework, backend=backend)
    s = f.get_slice("a")
    if touched:
        check(f)
    with open(path, "r+b") as file:
        if gone:
            path.unlink()
        file.truncate(5000)
        for read in (
            lambda: f.get_tensor("a"),
            lambda: f.get_tensors(),
            lambda: f.get_tensors(owned=True),
            lambda: s[:, 3:5],
            lambda: s[4000:4001],
            lambda: s[...],
            lambda: list(s),
            lambda: f.load_into({"a": np.zeros((4096, 64), "f4")}),
        ):
            with pytest.raises(SafetensorError):
                np.asarray(read()).sum()


@pytest.mark.parametrize("backend", ["mmap", "pread"])
def test_pickles_open_the_file_they_were_made_of(path, monkeypatch, backend):
    monkeypatch.chdir(path.parent)
    f = safe_open("t", "np", backend=backend)
    monkeypatch.chdir("/")
    data = pickle.dumps(f)
    check(pickle.loads(data))
    assert repr(f).startswith("<safe_open 't'")
    sn.save_file({"a": np.zeros((2, 2))}, path)
    check(copy.copy(f))  # the one that is open
    for pickled in (data, pickle.dumps(f)):
        with pytest.raises(SafetensorError, match="replaced or changed"):
            pickle.loads(pickled)
    fresh = safe_open(path, "np")
    assert pickle.loads(pickle.dumps(fresh)).get_tensor("a").shape == (2, 2)


def test_a_pickle_of_a_folder_knows_its_files(tmp_path):
    for i in (1, 2):
        sn.save_file({f"t{i}": np.full(3, i)}, tmp_path / f"model-0000{i}-of-00002.safetensors")
    data = pickle.dumps(safe_open(tmp_path, "np"))
    assert pickle.loads(data).get_tensor("t2").tolist() == [2, 2, 2]
    sn.save_file({"t2": np.full(3, 5)}, tmp_path / "model-00002-of-00002.safetensors")
    with pytest.raises(SafetensorError, match="replaced or changed"):
        pickle.loads(data)
