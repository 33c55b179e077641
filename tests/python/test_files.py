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
import time

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


@linux
@pytest.mark.parametrize("many", [False, True])
def test_slices_of_a_file_that_is_cut_short_meanwhile_are_errors_and_no_signal(tmp_path, many):
    """Another process cuts the file and makes it whole, over and over: every slice that is copied is right, or refused."""
    array = np.arange(4096 * 256, dtype="f4").reshape(4096, 256)
    sn.save_file({"a": array, "x": np.zeros(1)}, tmp_path / "t")
    reader = """
        import sys, numpy as np
        from safetensors_c import SafetensorError, safe_open
        held = [safe_open(sys.argv[1], "np") for _ in range(int(sys.argv[2]))]
        f, whole, rng = safe_open(sys.argv[1], "np"), np.arange(4096 * 256, dtype="f4").reshape(4096, 256), np.random.default_rng(1)
        s, good, refused = f.get_slice("a"), 0, 0
        assert np.array_equal(s[:, 3:9], whole[:, 3:9])
        print("open", flush=True)
        for i in range(1500):
            c, w, r, n = (int(rng.integers(x)) for x in (200, 56, 2000, 2000))
            index = [(slice(None), slice(c, c + 5 + w)), (slice(r, r + n + 2), slice(c, c + 4)), (slice(r, None, 3), slice(None, 40)),
                     (slice(r, None, -1 - n % 3), slice(c, c + 8)), (slice(None), slice(None, None, 2)), (slice(None), slice(c, c + 1))][i % 6]
            try:
                got = s[index] # rows side by side would be lent, not copied
            except SafetensorError:
                refused += 1
                continue
            right = whole[index]
            # what came while the other end wrote is zeros or right, nothing else
            assert got.shape == right.shape and ((got == right) | (got == 0)).all()
            good += 1
        print(good, refused)
    """
    p = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(reader), str(tmp_path / "t"), "80" if many else "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    data = (tmp_path / "t").read_bytes()
    rng = np.random.default_rng(2)
    assert p.stdout.readline() == "open\n", p.communicate()
    with open(tmp_path / "t", "r+b", buffering=0) as file:
        while p.poll() is None:
            file.truncate(int(rng.integers(len(data))))
            file.seek(0)
            file.write(data)
            time.sleep(rng.random() * 0.004)
    out, err = p.communicate()
    assert p.returncode == 0, (p.returncode, err)
    good, refused = map(int, out.split())
    assert good + refused == 1500 and good > 0


def test_slices_out_of_a_mapping_are_what_numpy_says(path):
    whole = np.arange(4096 * 64, dtype="f4").reshape(4096, 64)
    s = safe_open(path, "np").get_slice("a")
    rng = np.random.default_rng(3)
    for _ in range(300):
        a, b, c, d = (int(x) for x in (*rng.integers(0, 4097, 2), *rng.integers(0, 65, 2)))
        index = (slice(min(a, b), max(a, b), int(rng.integers(1, 4))), slice(min(c, d), max(c, d)))
        assert np.array_equal(np.asarray(s[index]), whole[index])
    for index in ((slice(None), slice(3, 9)), (slice(5, 4000, 7), slice(0, 64)), (slice(None), 7)):
        assert np.array_equal(np.asarray(s[index]), whole[index])


@pytest.mark.parametrize("framework", ["np", "pt"])
@pytest.mark.parametrize("width", [300, 511, 512, 1023, 1024, 5000])
def test_narrow_slices_of_any_distance_are_what_numpy_says(tmp_path, framework, width):
    """Runs near each other are read with what is between them, those further apart copied one by one, 256 a time."""
    whole = np.random.default_rng(width).integers(0, 256, (3, 259, width), dtype="u1")
    sn.save_file({"a": whole}, tmp_path / "t")
    s = safe_open(tmp_path / "t", framework).get_slice("a")
    for part in (1, 2, 7, 8, 63, 64, 65, width // 2, width - 1):
        for first in (0, 1, width - part):
            columns = slice(first, first + part)
            for index in (
                (slice(None), slice(None), columns),
                (slice(None), slice(1, None, 2), columns),
                (1, slice(None), columns),
                (slice(None), 258, columns),
                (slice(None, None, 2), slice(256, 259), columns),
            ):
                assert np.array_equal(np.asarray(s[index]), whole[index]), (index, part)
        index = (
            slice(None, None, -1),
            slice(None, None, -3),
            slice(None, part),
        )  # torch has no negative steps
        assert framework == "pt" or np.array_equal(np.asarray(s[index]), whole[index])


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


def test_a_kill_or_ctrl_c_leaves_the_old_file_or_the_new_one(tmp_path):
    import random
    import signal
    import subprocess
    import sys
    import time

    import numpy as np
    import safetensors_c.numpy as sn

    whole = set()
    for value in (1, 2):
        sn.save_file({"x": np.full((1500, 1500), value, "f4")}, tmp_path / "x")
        whole.add((tmp_path / "x").read_bytes())
    program = """
import sys
import numpy as np
import safetensors_c.numpy as sn
tensors = {"x": np.full((1500, 1500), int(sys.argv[2]), "f4")}
print("begun", flush=True)
while True:
    sn.save_file(tensors, sys.argv[1])
"""
    for turn in range(10):
        command = [sys.executable, "-c", program, str(tmp_path / "x"), str(1 + turn % 2)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        process.stdout.readline()
        time.sleep(random.random() * 0.2)
        process.send_signal(signal.SIGINT if turn % 3 == 0 else signal.SIGKILL)
        process.wait()
        process.stdout.close()
        assert (tmp_path / "x").read_bytes() in whole
        assert [p.name for p in tmp_path.iterdir() if not p.name.startswith(".")] == ["x"]
