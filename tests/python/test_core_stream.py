# SPDX-License-Identifier: Apache-2.0 OR MIT
"""safe_open.stream() and safetensors_c.stream()."""

import gc
import os
import signal
import threading
import time

import numpy
import pytest
import safetensors_c
from safetensors_c import SafetensorError, safe_open, stream
from safetensors_c import numpy as st


@pytest.fixture
def model(tmp_path):
    """A file of several types and sizes, an empty tensor and a scalar among them."""
    rng = numpy.random.default_rng(7)
    tensors = {"t%02d" % i: rng.standard_normal((i + 1, 300)).astype("f4") for i in range(20)}
    tensors["large"] = rng.integers(0, 255, (12 << 20,), dtype="u1")
    tensors["none"] = numpy.zeros((0, 4), "i2")
    tensors["scalar"] = numpy.array(3, "i8")
    path = tmp_path / "m.safetensors"
    st.save_file(tensors, path)
    return path, tensors


def same(got, tensors):
    assert sorted(got) == sorted(tensors)
    for name, tensor in tensors.items():
        assert got[name].dtype == tensor.dtype
        assert numpy.array_equal(got[name], tensor), name


def test_all_tensors_come_once(model):
    path, tensors = model
    for order in ("file", "given", "any"):
        same(dict(stream(path, framework="np", order=order)), tensors)
    # a budget below the largest tensor, which then comes in parts
    same(dict(stream(path, framework="np", memory=1 << 20)), tensors)
    with safe_open(path, "np") as f:
        names = [name for name, _ in f.stream()]
        assert names == f.offset_keys()
        same(dict(f.stream()), tensors)


def test_parts_that_come_in_any_order(tmp_path):
    """Parts of several tensors, read at once: each lands in its own tensor, whichever is there first."""
    rng = numpy.random.default_rng(1)
    sizes = [(300 << 10) * (1 + i % 5) + i for i in range(16)]
    tensors = {"x%02d" % i: rng.integers(0, 255, (n,), "u1") for i, n in enumerate(sizes)}
    path = tmp_path / "parts.safetensors"
    st.save_file(tensors, path)
    for _ in range(100):
        same(dict(stream(path, framework="np", order="any", memory=1 << 20)), tensors)


def test_names_and_slices_in_the_given_order(model):
    path, tensors = model
    names = ["t07", "large", "t01", "scalar", "none"]
    slices = {"t07": (slice(2, 6), slice(None, None, 3)), "large": slice(5, 100000, 7)}
    pairs = list(stream(path, names, framework="np", order="given", slices=slices))
    assert [name for name, _ in pairs] == names
    for name, tensor in pairs:
        assert numpy.array_equal(tensor, tensors[name][slices.get(name, ...)]), name


def test_torch_tensors_are_memory_of_their_own(model):
    torch = pytest.importorskip("torch")
    path, tensors = model
    kept = {}
    for name, tensor in stream(path):
        assert isinstance(tensor, torch.Tensor)
        tensor.add_(1)  # writable, and nobody else's
        kept[name] = tensor
        gc.collect()
    for name, tensor in kept.items():
        assert numpy.array_equal(tensor.numpy(), tensors[name] + tensors[name].dtype.type(1))


def test_many_files_and_folders(tmp_path):
    parts = []
    for i in range(3):
        tensors = {"p%d.%d" % (i, k): numpy.full((50, 3), 10 * i + k, "f8") for k in range(4)}
        st.save_file(tensors, tmp_path / ("part%d.safetensors" % i))
        parts.append(tensors)
    everything = {k: v for part in parts for k, v in part.items()}
    same(dict(stream(tmp_path, framework="np")), everything)
    files = sorted(tmp_path.glob("*.safetensors"))
    with stream(files, framework="np") as s:
        same(dict(s), everything)
    with stream(files, framework="np") as s:
        next(s)
        s.close()
        with pytest.raises(StopIteration):
            next(s)
    with pytest.raises(ValueError):
        stream(files, ["p0.0"])


@pytest.mark.skipif(not hasattr(os, "posix_fadvise"), reason="needs a way to empty the page cache")
def test_slices_of_a_cold_file_are_numpys(tmp_path):
    """Large enough to be read past the page cache, where the file system can."""
    rng = numpy.random.default_rng(11)
    tensors = {
        "t%d" % i: rng.standard_normal((2048, 3000 + 7 * i)).astype(t)
        for i, t in enumerate(("f4", "f2", "f8", "f4"))
    }
    st.save_file(tensors, tmp_path / "cold")
    with open(tmp_path / "cold", "rb") as f:
        os.fsync(f.fileno())
        for _ in range(4):
            os.posix_fadvise(f.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            cuts = {}
            for name, tensor in tensors.items():
                (top, bottom), (left, right) = (
                    sorted(rng.choice(n, 2, replace=False).tolist()) for n in tensor.shape
                )
                rows = (slice(None), slice(top, bottom), slice(None, None, 3))[rng.integers(3)]
                cuts[name] = (rows, slice(left, right))
            with safe_open(tmp_path / "cold", "np") as handle:
                same(dict(handle.stream(slices=cuts)), {name: t[cuts[name]] for name, t in tensors.items()})


def test_leaving_early_and_closing(model):
    path, tensors = model
    with stream(path, framework="np") as s:
        name, tensor = next(s)
    assert numpy.array_equal(tensor, tensors[name])  # outlives the stream
    with pytest.raises(SafetensorError, match="the stream is closed"):
        next(s)
    for _ in stream(path, framework="np"):
        break
    f = safe_open(path, "np")
    s = f.stream()
    f.close()
    same(dict(s), tensors)  # the stream keeps the file


def test_a_failure_is_that_of_its_tensor(model):
    path, tensors = model
    with safe_open(path, "np", backend="pread") as f:
        last = f.offset_keys()[-1]
        s = f.stream(order="given", memory=1 << 20)
        os.truncate(path, os.path.getsize(path) - 1)
        with pytest.raises(SafetensorError) as e:
            for _ in s:
                pass
        assert e.value.tensor in tensors and e.value.status
        assert last in tensors
        with pytest.raises(SafetensorError, match="the stream is closed"):
            next(s)


def test_recorded_digests_are_compared(tmp_path):
    path = tmp_path / "d.safetensors"
    tensors = {"a": numpy.arange(5000, dtype="i4"), "b": numpy.arange(70000, dtype="i4")}
    with pytest.raises(SafetensorError):
        st.save_file(tensors, path)
        list(stream(path, framework="np", verify=True))  # none are recorded
    st.save_file(tensors, path, digests="crc32c")
    same(dict(stream(path, framework="np", verify=True)), tensors)
    data = bytearray(path.read_bytes())
    data[-100] ^= 1
    path.write_bytes(data)
    with pytest.raises(SafetensorError) as e:
        list(stream(path, framework="np", verify=True))
    assert e.value.tensor == ("b" if data[-4:] == tensors["b"].tobytes()[-4:] else "a")


def test_wrong_arguments(model):
    path, _ = model
    with pytest.raises(ValueError):
        stream(path, order="sideways")
    with pytest.raises(TypeError):
        stream(path, slices=[1])
    with pytest.raises(SafetensorError, match="nothere"):
        stream(path, ["nothere"])
    with pytest.raises(SafetensorError):
        stream(path, ["t01"], slices={"t01": (0, 0, 0)})
    with pytest.raises(TypeError):
        type(stream(path))()


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
@pytest.mark.parametrize("what", ["load", "save"])
def test_interrupt_is_clean(tmp_path, what):
    """A real SIGINT in the middle: KeyboardInterrupt, and no partial file."""
    big = numpy.zeros((256 << 20,), "u1")
    path = tmp_path / "big.safetensors"
    st.save_file({"x": big}, path)
    hit = []  # one signal raises, those behind it find that done: none can reach the lines that clear up

    def once(number, frame):
        if not hit:
            hit.append(number)
            raise KeyboardInterrupt

    def interrupt():
        time.sleep(0.02)
        while not hit:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.01)

    before = signal.signal(signal.SIGINT, once)
    thread = threading.Thread(target=interrupt)
    try:
        with pytest.raises(KeyboardInterrupt):
            thread.start()
            while True:  # until one is hit
                if what == "load":
                    with safe_open(path, "np", backend="pread") as f:
                        f.get_tensors(owned=True)
                else:
                    st.save_file({"x": big}, tmp_path / "out.safetensors")
    finally:
        hit.append(0)
        thread.join()
        signal.signal(signal.SIGINT, before)
    left = sorted(p.name for p in tmp_path.iterdir())
    assert left in (["big.safetensors"], ["big.safetensors", "out.safetensors"])
    if len(left) == 2:  # the whole one of a turn before
        assert safetensors_c.safe_open(tmp_path / "out.safetensors", "np").keys() == ["x"]
