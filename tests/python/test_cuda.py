# SPDX-License-Identifier: Apache-2.0 OR MIT
"""safetensors_c.cuda against the stand-in for the driver (tests/cuda/standin.h): what lies on the device is what lies in the
file, capsules say what the tensors are, nothing is left behind, no misuse.

Libraries are those of the build directory, which the tests run in; SAFETENSORS_CUDA_LIBRARY names another.
"""

from __future__ import annotations

import ctypes
import gc
import os

import numpy as np
import pytest
import safetensors_c.numpy as st
from safetensors_c import SafetensorError, _core, cuda, safe_open

LIBRARY = os.environ.get("SAFETENSORS_CUDA_LIBRARY") or os.path.join(os.getcwd(), "libsafetensors-cuda.so.0")
STANDIN = os.path.join(os.getcwd(), "tests", "cuda", "libcuda_standin.so")


class Config(ctypes.Structure):
    _fields_ = [("seed", ctypes.c_uint32), ("devices", ctypes.c_uint32), ("memory_bytes", ctypes.c_uint64),
                ("pinned_bytes", ctypes.c_uint64), ("fail_call", ctypes.c_uint64), ("fail_result", ctypes.c_int),
                ("integrated", ctypes.c_int), ("lazy", ctypes.c_int)]  # fmt: skip


class Report(ctypes.Structure):
    _fields_ = [("calls", ctypes.c_uint64), ("faults", ctypes.c_uint64), ("first", ctypes.c_char * 160)]
    _fields_ += [(name, ctypes.c_uint64) for name in ("device_live", "pinned_live", "streams_live", "events_live",
                                                      "contexts_live", "copies", "pinned_peak")]  # fmt: skip
    _fields_ += [("failed", ctypes.c_char * 48)]


class Standin:
    def __init__(self):
        self.library = ctypes.CDLL(STANDIN)

    def reset(self, **config):
        given = {
            "seed": 7,
            "devices": 2,
            "memory_bytes": 1 << 30,
            "pinned_bytes": 1 << 28,
            "lazy": 1,
            **config,
        }
        self.library.standin_reset(ctypes.byref(Config(**given)))

    def report(self):
        r = Report()
        self.library.standin_report_get(ctypes.byref(r))
        return r

    def peek(self, address, size):
        room = ctypes.create_string_buffer(max(size, 1))
        got = self.library.standin_peek(ctypes.c_uint64(address), ctypes.c_size_t(size), room)
        assert got or size == 0
        return room.raw[:size]


@pytest.fixture
def gpu(monkeypatch):
    assert os.path.exists(LIBRARY) and os.path.exists(STANDIN), "run in the build directory"
    monkeypatch.setenv("SAFETENSORS_CUDA_LIBRARY", LIBRARY)
    standin = Standin()
    standin.reset()
    yield standin
    gc.collect()
    r = standin.report()
    assert r.faults == 0, r.first
    left = (r.device_live, r.pinned_live, r.streams_live, r.events_live, r.contexts_live)
    assert left == (0, 0, 0, 0, 0), left


@pytest.fixture
def model(tmp_path):
    rng = np.random.default_rng(3)
    tensors = {"t%02d" % i: rng.standard_normal((i + 1, 1000)).astype("f4") for i in range(20)}
    tensors["large"] = rng.integers(0, 255, (20 << 20,), dtype="u1")
    tensors["none"] = np.zeros((0, 4), "i2")
    tensors["scalar"] = np.array(3, "i8")
    st.save_file(tensors, tmp_path / "m.safetensors")
    return tmp_path / "m.safetensors", tensors


def test_everything(gpu, model):
    path, tensors = model
    steps = []
    with cuda.Device(1, driver=STANDIN) as device:
        there = device.load(path, progress=lambda done, total: steps.append((done, total)))
        assert device.info()["held_bytes"] > 20 << 20
    assert sorted(there) == sorted(tensors)
    for name, tensor in there.items():
        assert gpu.peek(tensor.address, tensor.nbytes) == tensors[name].tobytes(), name
        assert tensor.shape == tensors[name].shape and tensor.device == 1
        assert tensor.__dlpack_device__() == (2, 1)
    assert {t.dtype for t in there.values()} == {"F32", "U8", "I16", "I64"}
    told = cuda.statistics(there["large"])
    assert told["bytes_copied"] >= sum(t.nbytes for t in tensors.values()) and told["bytes_direct"] == 0
    total = sum(t.nbytes for t in tensors.values())
    assert (
        steps == sorted(steps) and 0 <= steps[0][0] and steps[-1][0] <= steps[-1][1] and steps[0][1] >= total
    )


def test_names_and_slices(gpu, model):
    path, tensors = model
    wanted = {"t07": (slice(2, 6), slice(None, None, 3)), "large": slice(5, 100000), "t03": 2}
    with cuda.Device(driver=STANDIN) as device, safe_open(path, "np") as f:
        there = device.load(f, ["t07", "large", "t03", "scalar", "none"], slices=wanted)
    assert list(there) == ["t07", "large", "t03", "scalar", "none"]
    for name, tensor in there.items():
        part = tensors[name][wanted.get(name, ...)]
        assert tensor.shape == part.shape, name
        assert gpu.peek(tensor.address, tensor.nbytes) == part.tobytes(), name
    assert cuda.statistics(there["t07"])["bytes_read"] < 1 << 20  # of 20 MiB


def test_a_run_stages_what_lies_on_a_device(gpu, model, tmp_path):
    path, tensors = model
    options = {
        "keep_last": 0,
        "keep_every": 0,
        "keep_best": 0,
        "keep_seconds": 0,
        "shard_bytes": 1 << 30,
        "arenas": 1,
    }
    options.update({"flags": 0, "best": None, "mode": "min", "durable": False, "sha256": False})
    options.update({"group": None, "timeout_ms": 1000})
    with cuda.Device(driver=STANDIN) as device:
        there = device.load(path)
        run = _core._Run(path=tmp_path / "run", device=_core._cuda_open(0, STANDIN), **options)
        given = [
            (
                name,
                t.dtype,
                list(t.shape),
                0,
                t.address if t.nbytes else 0,
                t.nbytes,
                0x10000 if t.nbytes else 0,
            )
            for name, t in there.items()
        ]
        here = np.arange(5.0)
        given.append(("here", "F64", [5], 0, here.ctypes.data, here.nbytes, 0))
        ticket = run.save(1, 0, given, [], [], [], [])
        assert run.wait(ticket, 60_000)
        large = there["large"]
        for step, stream in ((2, 1), (3, 2)):  # what is still being computed there is waited for
            produced = (
                ctypes.c_void_p(stream),
                ctypes.c_uint64(large.address),
                ctypes.c_size_t(large.nbytes),
                step,
            )
            assert gpu.library.standin_produce(*produced) == 0
            ticket = run.save(
                step, 0, [entry for entry in given if entry[0] == "large"], [], [], [], [], stream
            )
            assert run.wait(ticket, 60_000)
        run.close()
        del run
    for step in (2, 3):
        saved = st.load_file(tmp_path / "run" / f"step-00000000{step}" / "model.safetensors")
        assert set(saved["large"].tobytes()) == {step}
    saved = st.load_file(tmp_path / "run" / "step-000000001" / "model.safetensors")
    assert saved.keys() == {*tensors, "here"}
    for name, tensor in tensors.items():
        assert saved[name].tobytes() == tensor.tobytes(), name


class DlTensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
                ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
                ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
                ("byte_offset", ctypes.c_uint64)]  # fmt: skip


class DlManaged(ctypes.Structure):
    _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("manager", ctypes.c_void_p),
                ("deleter", ctypes.CFUNCTYPE(None, ctypes.c_void_p)), ("flags", ctypes.c_uint64), ("tensor", DlTensor)]  # fmt: skip


def look(capsule, name):
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return get(capsule, name)


def test_capsules(gpu, model):
    path, tensors = model
    device = cuda.Device(driver=STANDIN)
    there = device.load(path, ["t05", "scalar"])
    device.close()
    t = there["t05"]
    del there
    capsule = t.__dlpack__(max_version=(1, 1))
    old = t.as_bytes().__dlpack__()
    address = t.address
    del t, device
    gc.collect()
    got = DlManaged.from_address(look(capsule, b"dltensor_versioned"))
    assert (got.major, got.tensor.device_type, got.tensor.device_id) == (1, 2, 0)
    assert (got.tensor.code, got.tensor.bits, got.tensor.lanes) == (2, 32, 1)
    assert (
        got.tensor.shape[: got.tensor.ndim] == [6, 1000]
        and got.tensor.data + got.tensor.byte_offset == address
    )
    assert gpu.peek(address, 24000) == tensors["t05"].tobytes()  # the capsules keep it
    raw = DlTensor.from_address(look(old, b"dltensor"))
    assert (raw.code, raw.bits, raw.ndim, raw.shape[0]) == (1, 8, 1, 24000)
    # what a consumer does: it renames the capsule and calls the deleter when it is done
    rename = ctypes.pythonapi.PyCapsule_SetName
    rename.argtypes = [ctypes.py_object, ctypes.c_char_p]
    taken = b"used_dltensor_versioned"
    assert rename(capsule, taken) == 0
    pointer = ctypes.addressof(got)
    del capsule
    got.deleter(pointer)
    del old
    assert gpu.report().device_live == 0


def test_refusals(gpu, model, tmp_path):
    path, _ = model
    with pytest.raises(SafetensorError, match="device") as e:
        cuda.Device(7, driver=STANDIN)
    assert e.value.status is not None
    with pytest.raises(SafetensorError, match="no CUDA driver"):
        cuda.Device(driver=tmp_path / "none.so")
    with cuda.Device(driver=STANDIN, memory=1 << 20) as device:
        with pytest.raises(SafetensorError):
            device.load(path)
        with pytest.raises((SafetensorError, KeyError)):
            device.load(path, ["nobody"])
        with pytest.raises((SafetensorError, IndexError, TypeError)):
            device.load(path, ["t01"], slices={"t01": "x"})
        t = device.load(path, ["t01"])["t01"]
        with pytest.raises(BufferError):
            t.__dlpack__(copy=True)
        with pytest.raises(BufferError):
            t.__dlpack__(dl_device=(1, 0))
    with pytest.raises(SafetensorError, match="closed"):
        device.load(path)


def test_an_exception_of_progress_ends_the_load(gpu, model):
    path, _ = model

    def stop(done, total):
        raise RuntimeError("enough")

    with cuda.Device(driver=STANDIN) as device:
        with pytest.raises(RuntimeError, match="enough"):
            device.load(path, progress=stop)


def test_without_the_library(monkeypatch, tmp_path):
    monkeypatch.setenv("SAFETENSORS_CUDA_LIBRARY", str(tmp_path / "none.so"))
    with pytest.raises(SafetensorError, match="needs libsafetensors-cuda"):
        cuda.Device()


def test_failing_calls_of_the_driver(gpu, model):
    """Every call to the driver fails in turn: an error, nothing left on the device."""
    path, _ = model
    failed = 0
    for n in range(1, 400):
        gpu.reset(fail_call=n, fail_result=2)
        try:
            with cuda.Device(driver=STANDIN) as device:
                device.load(path, ["t00", "t19", "scalar"])
        except (SafetensorError, MemoryError):
            failed += 1
        gc.collect()
        r = gpu.report()
        if r.failed != b"cuCtxPushCurrent_v2":  # a context that cannot be entered takes what it holds with it
            assert r.faults == 0, (n, r.failed, r.first)
            assert (r.device_live, r.pinned_live, r.contexts_live) == (0, 0, 0), (n, r.failed)
        if r.calls < n:
            break
    assert failed > 10
    gpu.reset()
