# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Whose memory it is: views outlive their handle, writes stay private, nothing leaks, threads may share."""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
import time

import numpy as np
import pytest
from safetensors_c import SafetensorError, _core, safe_open, serialize, serialize_file
from test_core_open import image, spec

torch = pytest.importorskip("torch")

TENSORS = {f"t{i}": np.full((i % 7, 33), i, dtype=np.float32) for i in range(50)}


@pytest.fixture
def path(tmp_path):
    p = tmp_path / "x.safetensors"
    p.write_bytes(image(TENSORS))
    return p


@pytest.mark.parametrize("framework", ["np", "pt"])
@pytest.mark.parametrize("backend", ["mmap", "pread"])
def test_views_outlive_the_handle(path, framework, backend):
    with safe_open(path, framework, backend=backend) as f:
        tensors = f.get_tensors()
        one, part = f.get_tensor("t6"), f.get_slice("t6")[1:3]
    del f
    gc.collect()
    path.unlink()
    for name, tensor in tensors.items():
        assert np.array_equal(np.asarray(tensor), TENSORS[name])
    del tensors
    gc.collect()
    assert np.array_equal(np.asarray(one), TENSORS["t6"]) and np.array_equal(
        np.asarray(part), TENSORS["t6"][1:3]
    )


@pytest.mark.parametrize("framework", ["np", "pt"])
def test_writes_stay_private_and_shared(path, framework):
    before = path.read_bytes()
    f, g = safe_open(path, framework), safe_open(path, framework)
    first = f.get_tensor("t6")
    first[:] = -1
    assert (f.get_tensor("t6") == -1).all()  # the same memory every time
    assert np.array_equal(np.asarray(g.get_tensor("t6")), TENSORS["t6"])  # another handle has its own
    assert path.read_bytes() == before


def test_a_replaced_file_is_no_matter(path, tmp_path):
    f = safe_open(path, "np")
    other = tmp_path / "other"
    other.write_bytes(b"nothing")
    other.replace(path)
    assert np.array_equal(f.get_tensor("t6"), TENSORS["t6"])


@pytest.mark.parametrize("backend", ["mmap", "pread"])
def test_a_file_cut_short_is_an_error(path, backend):
    f = safe_open(path, "np", backend=backend)
    with open(path, "r+b") as g:
        g.truncate(200)
    with pytest.raises(SafetensorError) as e:
        f.get_tensors()
    assert e.value.status in ("SFT_E_TRUNCATED", "SFT_E_CHANGED")


def resident():
    with open("/proc/self/statm") as f:
        return int(f.read().split()[1]) * os.sysconf("SC_PAGESIZE")


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_no_leaks(path):
    data = path.read_bytes()

    def work():
        for framework in ("np", "pt"):
            for backend in ("mmap", "pread"):
                with safe_open(path, framework, backend=backend) as f:
                    f.get_tensors()
                    f.get_slice("t6")[::2, 3]
                    dict(f.items())
                    f.metadata()
                    f.get_tensor_meta("t3").shape  # noqa: B018
                    for call in (lambda: f["zz"], lambda: f.get_slice("t6")[99]):
                        with pytest.raises((KeyError, IndexError, SafetensorError)):
                            call()
        with pytest.raises(SafetensorError):
            safe_open(data[:-1], "np")
        _core.deserialize(data)
        serialize({k: spec(v) for k, v in TENSORS.items()}, {"a": "b"})

    counted = [None, np.dtype("float32"), torch.float32, _core.safe_open, np.ndarray]
    for _ in range(20):
        work()
    gc.collect()
    refs, size = [sys.getrefcount(o) for o in counted], resident()
    for _ in range(80):
        work()
    gc.collect()
    assert resident() - size < 4 << 20
    if not hasattr(sys, "_is_gil_enabled"):
        assert all(abs(sys.getrefcount(o) - r) < 60 for o, r in zip(counted, refs))


def test_eight_threads_on_one_handle(path):
    errors = []
    f = {
        "np": safe_open(path, "np"),
        "pt": safe_open(path, "pt"),
        "pread": safe_open(path, "np", backend="pread"),
    }
    start = threading.Barrier(8)

    def work(seed):
        try:
            start.wait()
            for i in range(60):
                name = f"t{(seed * 7 + i) % 50}"
                for handle in f.values():
                    assert np.array_equal(np.asarray(handle.get_tensor(name)), TENSORS[name])
                    assert np.array_equal(np.asarray(handle.get_slice(name)[...]), TENSORS[name])
                if i % 20 == 0:
                    assert len(f["pread"].get_tensors()) == 50 and len(f["pt"].get_tensors()) == 50
        except BaseException as e:  # told by the test
            errors.append(e)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert not errors


def test_closing_under_readers(path):
    for _ in range(20):
        f = safe_open(path, "np")
        wrong = []

        def read():
            try:
                while True:
                    assert np.array_equal(f.get_tensor("t6"), TENSORS["t6"])
            except SafetensorError as e:
                if "File is closed" not in str(e):
                    wrong.append(e)
            except BaseException as e:  # told by the test
                wrong.append(e)

        threads = [threading.Thread(target=read) for _ in range(4)]
        [t.start() for t in threads]
        time.sleep(0.002)
        f.close()
        [t.join() for t in threads]
        assert not wrong


BIG = np.arange(6 << 20, dtype=np.float32)  # 24 MiB: work for the pool


@pytest.fixture
def big(tmp_path):
    p = tmp_path / "big.safetensors"
    serialize_file({"x": spec(BIG), "y": spec(BIG[::-1].copy())}, p)
    return p


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_the_pool_in_a_child(big):
    def whole():
        with safe_open(big, "np", backend="pread") as f:
            return np.array_equal(f.get_tensors()["x"], BIG)

    assert whole()
    child = os.fork()
    if child == 0:
        os._exit(0 if whole() else 1)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            assert status == 0
            return
        time.sleep(0.01)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    pytest.fail("the child did not end")


def test_progress_and_its_exceptions(big, tmp_path):
    told = []
    with safe_open(big, "np") as f:
        f.get_tensors(owned=True, progress=lambda done, total: told.append((done, total)))

        def stop(done, total):
            raise ZeroDivisionError

        tensors = {"x": np.empty_like(BIG)}
        for call in (
            lambda: f.get_tensors(owned=True, progress=stop),
            lambda: f.load_into(tensors, progress=stop),
        ):
            with pytest.raises(ZeroDivisionError):
                call()
    assert told and all(0 <= done <= total for done, total in told)
    target = tmp_path / "stopped.safetensors"
    with pytest.raises(ZeroDivisionError):
        serialize_file({"x": spec(BIG)}, target, progress=stop)
    assert sorted(os.listdir(tmp_path)) == ["big.safetensors"]


@pytest.mark.parametrize("framework", ["np", "pt"])
@pytest.mark.filterwarnings("ignore:overflow")
@pytest.mark.parametrize("dtype", ["float32", "float16", "int32"])
def test_load_into(big, framework, dtype):
    with safe_open(big, framework) as f:
        if framework == "np":
            into = {"x": np.empty(BIG.shape, dtype)}
        else:
            into = {"x": torch.empty(BIG.shape, dtype=getattr(torch, dtype))}
        f.load_into(into)
        assert np.array_equal(np.asarray(into["x"]), BIG.astype(dtype))
        for bad in (
            np.empty(3, "f4"),
            np.empty(2 * BIG.size, "f4")[::2],
            np.broadcast_to(np.float32(0), BIG.shape),
        ):
            with pytest.raises(SafetensorError, match="cannot load into the tensor for x"):
                f.load_into({"x": bad})
        with pytest.raises(SafetensorError, match="File does not contain tensor"):
            f.load_into({"zz": into["x"]})


def test_load_into_many(tmp_path):
    path = tmp_path / "many.safetensors"
    rng = np.random.default_rng(5)
    tensors = {f"t{i}": rng.standard_normal((i % 7, 1 + 997 * (i % 3))).astype("f4") for i in range(60)}
    tensors["large"] = rng.standard_normal((3 << 20) + 1).astype("f4")
    serialize_file({n: spec(t) for n, t in tensors.items()}, path)
    dtypes = ["f4", "f2", "f8", "f4"]
    with safe_open(path, "np") as f:
        into = {n: np.zeros(t.shape, dtypes[i % 4]) for i, (n, t) in enumerate(tensors.items())}
        f.load_into(into)
        for name, array in into.items():
            assert np.array_equal(array, tensors[name].astype(array.dtype)), name
        shared = np.zeros(tensors["t4"].shape, "f4")  # one place for several: the last one stays
        same = [n for n, t in tensors.items() if t.shape == shared.shape]
        assert len(same) > 1
        f.load_into({n: shared for n in same})
        assert np.array_equal(shared, tensors[same[-1]])
        with pytest.raises(SafetensorError):  # no digest is recorded
            f.load_into(into, verify=True)
        f.load_into({})


def test_verified_on_the_way(tmp_path):
    path = tmp_path / "digests.safetensors"
    tensors = {"a": BIG, "b": np.arange(1001, dtype="f4")}
    serialize_file({n: spec(t) for n, t in tensors.items()}, path, digests=["crc32c"])
    with safe_open(path, "np") as f:
        got = f.get_tensors(verify=True)
        assert all(np.array_equal(got[n], t) for n, t in tensors.items())
        into = {n: np.zeros_like(t) for n, t in tensors.items()}
        f.load_into(into, verify=True)
        assert all(np.array_equal(into[n], t) for n, t in tensors.items())
        end = f.get_tensor_meta("a").data_offsets[1]
    data = bytearray(path.read_bytes())
    data[8 + int.from_bytes(data[:8], "little") + end - 1] ^= 1
    path.write_bytes(data)
    with safe_open(path, "np") as f:
        assert np.array_equal(f.get_tensors(["b"], verify=True)["b"], tensors["b"])
        for call in (lambda: f.get_tensors(verify=True), lambda: f.load_into(into, verify=True)):
            with pytest.raises(SafetensorError) as e:
                call()
            assert e.value.status == "SFT_E_MISMATCH" and e.value.tensor == "a"


def test_strategies(big):
    with safe_open(big, "np") as f:
        for strategy in ("auto", "map", "read", "direct"):
            assert np.array_equal(f.get_tensors(["x"], strategy=strategy)["x"], BIG)
        with pytest.raises(ValueError, match="none of: auto, map, read, direct"):
            f.get_tensors(strategy="zz")


# ------------------------------------------------------------------ memory that is used again


def slices_of(tmp_path, mib=3):
    rows = np.arange(mib << 18, dtype=np.float32).reshape(-1, 1024)
    p = tmp_path / "rows.safetensors"
    p.write_bytes(image({"w": rows}))
    return rows, safe_open(p, "np", backend="pread").get_slice("w")


def test_pages_that_nobody_uses_serve_the_next_slice(tmp_path):
    rows, part = slices_of(tmp_path)
    first = part[0:300]
    at = first.ctypes.data
    view = first[5]
    del first
    second = part[300:600]  # the first is still looked at
    assert second.ctypes.data != at and np.array_equal(view, rows[5])
    del view
    third = part[1:301]
    assert third.ctypes.data == at
    assert np.array_equal(third, rows[1:301]) and np.array_equal(second, rows[300:600])
    del third
    assert part[0:280].ctypes.data == at  # a little smaller
    small = part[0:80]
    assert small.ctypes.data != at  # 1.2 MB for 320 KB would be waste
    assert np.array_equal(small, rows[:80])


def test_used_pages_carry_nothing_over(tmp_path):
    rows, part = slices_of(tmp_path)
    seen = []
    for i in range(60):
        count = 64 + i * 37 % 600
        start = i * 11 % (len(rows) - count)
        array = part[start : start + count : 1 + i % 3]
        assert np.array_equal(array, rows[start : start + count : 1 + i % 3])
        array[:] = -1
        seen.append(array)
        if i % 5:
            seen.pop(i % len(seen))
    assert all((array == -1).all() for array in seen)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_unused_pages_are_bounded(tmp_path):
    _, part = slices_of(tmp_path, 160)
    before = resident()
    kept = [part[i << 10 : (i + 8) << 10] for i in range(0, 32, 8)] + [part[:]]
    assert resident() - before > 250 << 20
    del kept
    gc.collect()
    assert resident() - before < 90 << 20  # 64 MiB, and what the system has at hand


def test_threads_take_and_return_pages(tmp_path):
    rows, part = slices_of(tmp_path)
    wrong = []

    def work(me):
        for i in range(150):
            start = (me * 31 + i) % 400
            array = part[start : start + 70 + me % 4 * 60]
            if not np.array_equal(array, rows[start : start + len(array)]):
                wrong.append((me, i))
            array[:] = me

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


# ---------------------------------------------------------------- load() of bytes, saves in pieces


def counter(name):
    with open("/proc/self/io") as f:
        return dict(line.split(": ") for line in f.read().splitlines())[name]


@pytest.mark.skipif(sys.platform != "linux", reason="counts of Linux")
def test_bytes_loaded_again_and_again_come_into_the_same_pages():
    import resource

    import safetensors_c.numpy as sn

    data = sn.save({str(i): np.full(1 << 21, i, "u1") for i in range(12)})
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        loaded = sn.load(data)
        faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
        assert all(loaded[str(i)][-1] == i for i in range(12))
        del loaded
    assert faults < 1000, faults  # 6,144 pages


@pytest.mark.parametrize("framework", ["numpy", "torch"])
def test_bytes_of_many_sizes(framework):
    module = pytest.importorskip("safetensors_c." + framework)
    import safetensors_c.numpy as sn

    rng = np.random.default_rng(1)
    sizes = [
        0,
        1,
        3,
        64,
        65,
        1 << 16,
        (1 << 20) + 1,
        (4 << 20) - 64,
        4 << 20,
        (9 << 20) + 5,
        7,
        3 << 20,
        3 << 20,
        2,
    ]
    tensors = {f"{i:02}": rng.integers(0, 255, n, dtype="u1") for i, n in enumerate(sizes)}
    tensors["scalar"] = np.array(7.0)
    tensors.update({f"small{i}": np.full((i % 3, 5), i, "i2") for i in range(400)})
    data = bytearray(sn.save(tensors))
    loaded = module.load(data)
    data[:] = bytes(len(data))  # copies, all of them
    assert len(loaded) == len(tensors)
    for name, tensor in tensors.items():
        array = np.asarray(loaded[name])
        assert array.shape == tensor.shape and array.dtype == tensor.dtype and (array == tensor).all(), name
        if array.size:
            loaded[name][...] = 0  # writable, and nobody else's
    kept = loaded["09"]
    del loaded
    kept[:] = 1
    assert int(kept.sum()) == len(kept)


@pytest.mark.skipif(sys.platform != "linux", reason="counts of Linux")
def test_a_save_writes_in_pieces(tmp_path):
    import safetensors_c.numpy as sn

    tensors = {str(i): np.ones(5 << 20, "u1") for i in range(6)}
    tensors.update({f"s{i}": np.ones(1000, "u1") for i in range(3000)})
    before = int(counter("syscw"))
    sn.save_file(tensors, tmp_path / "t")
    calls = int(counter("syscw")) - before
    assert 33 << 20 > calls * (256 << 10) and calls >= 66, calls  # 33 MB by at most 512 KiB
    loaded = sn.load_file(tmp_path / "t")
    assert all((loaded[name] == tensor).all() for name, tensor in tensors.items())
