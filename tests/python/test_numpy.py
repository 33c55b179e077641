# SPDX-License-Identifier: Apache-2.0 OR MIT
"""safetensors_c.numpy: layouts, byte orders, ml_dtypes, and what keyword arguments add."""

from __future__ import annotations

import io
import subprocess
import sys

import pytest

np = pytest.importorskip("numpy")

from safetensors_c import SafetensorError, safe_open  # noqa: E402
from safetensors_c import numpy as sn  # noqa: E402

ml_dtypes = pytest.importorskip("ml_dtypes")


def sample(dtype, shape=(4, 6)):
    dtype = np.dtype(dtype)
    raw = np.random.default_rng(1).integers(0, 256, (*shape, dtype.itemsize), dtype=np.uint8)
    if dtype.kind == "b":
        raw &= 1
    if dtype.name == "float4_e2m1fn":
        raw &= 15
    return raw.view(dtype).reshape(shape)


ALL = [np.dtype(t) for t in sn._TYPES.values()] + [
    np.dtype(getattr(ml_dtypes, name)) for name in sn._ML_TYPES.values()
]


@pytest.mark.parametrize("dtype", ALL, ids=str)
def test_every_dtype_comes_back(tmp_path, dtype):
    array = sample(dtype)
    path = tmp_path / "t"
    sn.save_file({"a": array, "empty": array[:0]}, path)
    for backend in ("mmap", "pread"):
        loaded = sn.load_file(path, backend=backend)
        assert loaded["a"].dtype == dtype and loaded["a"].tobytes() == array.tobytes()
        assert loaded["empty"].shape == (0, 6)
    loaded = sn.load(sn.save({"a": array}))
    assert loaded["a"].dtype == dtype and loaded["a"].tobytes() == array.tobytes()


def test_the_address_of_an_array_is_the_one_that_numpy_tells():
    class Mine(np.ndarray):
        pass

    arrays = [sample(t) for t in ALL] + [
        np.zeros(()),
        np.zeros((0, 3)),
        np.ones(8)[2:],
        np.ones((4, 4)).T,
        np.ones(3).view(Mine),
    ]
    arrays.append(np.broadcast_to(np.float32(1), (2, 3)))
    assert [sn._core._array_address(a) for a in arrays] == [a.ctypes.data for a in arrays]
    with pytest.raises(AttributeError):
        sn._core._array_address([1])


def test_a_type_is_told_apart_whatever_came_before():
    for _ in range(2):  # the second time it is known
        for code in "<f4", ">f4", "<i8", ">i8":
            array = np.arange(3).astype(code)
            loaded = sn.load(sn.save({"a": array}))["a"]
            assert loaded.dtype == np.dtype(code).newbyteorder("<") and loaded.tolist() == [0, 1, 2]
    for i in range(100):  # types that no file has are not kept for ever
        with pytest.raises(SafetensorError):
            sn.save({"a": np.zeros(1, dtype=[(f"f{i}", "u1")])})
    assert len(sn._NAMES) <= 64


@pytest.mark.parametrize("dtype", ["<f4", ">f4", ">i8", "<c8", ">c8", ">u2"])
@pytest.mark.parametrize(
    "layout",
    [
        lambda a: a,
        np.asfortranarray,
        lambda a: a.T,
        lambda a: a[::2, 1::2],
        lambda a: a[::-1],
        lambda a: np.broadcast_to(a[0], (3, 6)),
        lambda a: a[1, 2],
        lambda a: a[:, None, :0],
    ],
)
def test_any_layout_and_byte_order_is_saved_right(tmp_path, dtype, layout):
    array = layout(np.arange(24).reshape(4, 6).astype(dtype))
    before = np.array(array)
    sn.save_file({"a": array}, tmp_path / "t")
    loaded = sn.load_file(tmp_path / "t")["a"]
    assert loaded.shape == np.shape(array) and np.array_equal(loaded, before)
    assert np.array_equal(sn.load(sn.save({"a": array}))["a"], before)
    assert np.array_equal(array, before)


def test_loaded_arrays_are_writable_and_private(tmp_path):
    sn.save_file({"a": np.ones(1000)}, tmp_path / "t")
    before = (tmp_path / "t").read_bytes()
    for backend in ("mmap", "pread"):
        a = sn.load_file(tmp_path / "t", backend=backend)["a"]
        a[:] = 0
        assert (tmp_path / "t").read_bytes() == before
    assert sn.load(before)["a"].flags.writeable


def test_refusals():
    with pytest.raises(AttributeError):
        sn.save({"a": [1, 2]})
    for array in (np.zeros(2, dtype=np.complex128), np.array(["x"]), np.array([None])):
        with pytest.raises(SafetensorError, match="Unknown dtype"):
            sn.save({"a": array})
    with pytest.raises(ValueError, match="even last dimension"):
        sn.save({"a": np.zeros(3, dtype=ml_dtypes.float4_e2m1fn)})


def test_options(tmp_path):
    path = tmp_path / "t"
    arrays = {"l.0": np.random.rand(3).astype("f4"), "l.1": np.zeros(2), "n": np.arange(3)}
    sn.save_file(arrays, path, {"k": "v"}, digests="crc32c")
    loaded, metadata = sn.load_file(path, with_metadata=True, verify=True)
    assert metadata["k"] == "v" and set(loaded) == set(arrays)
    assert set(sn.load_file(path, select="l.*", rename=lambda n: n[2:])) == {"0", "1"}
    half = sn.load_file(path, dtype="bfloat16")
    assert half["l.0"].dtype == ml_dtypes.bfloat16 and half["n"].dtype == np.int64
    assert sn.load_file(path, dtype={"n": np.float32})["n"].dtype == np.float32
    sn.save_file(
        {"q": np.zeros((2, 18), "u1")},
        tmp_path / "q",
        {"gguf.tensors": '{"q": {"type": "Q4_0", "shape": [2, 32]}}'},
    )
    for refused in (
        lambda: sn.load_file(tmp_path / "q", dtype={"q": "f4"}),
        lambda: sn.load_into({"q": np.zeros((2, 18))}, tmp_path / "q"),
    ):
        with pytest.raises(SafetensorError, match="blocks of a quantised type"):
            refused()
    stream = io.BytesIO()
    sn.save_file(arrays, stream)
    assert stream.getvalue() == sn.save(arrays)
    assert np.array_equal(sn.load_file(stream.getvalue())["n"], arrays["n"])
    seen = []
    sn.save_file(arrays, path, progress=lambda done, total: seen.append(done / total))
    assert seen[-1] == 1


def test_load_into(tmp_path):
    path = tmp_path / "t"
    source = {"a": np.random.rand(5, 5), "b": np.arange(4), "h": sample(ml_dtypes.bfloat16)}
    sn.save_file(source, path)
    target = {
        "a": np.zeros((5, 5)),
        "b": np.zeros((2, 4))[0:1].reshape(4)[...],
        "h": np.zeros((4, 6), dtype=ml_dtypes.bfloat16),
    }
    assert sn.load_into(target, path) == ([], [])
    assert np.array_equal(target["a"], source["a"]) and np.array_equal(target["b"], source["b"])
    assert target["h"].tobytes() == source["h"].tobytes()
    strided = np.zeros((5, 10))
    sn.load_into({"a": strided[:, ::2]}, path, strict=False)
    assert np.array_equal(strided[:, ::2], source["a"]) and not strided[:, 1::2].any()
    frozen = np.zeros((5, 5))
    frozen.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        sn.load_into({"a": frozen}, path, strict=False)


def test_save_stream(tmp_path):
    plan = {"a": (np.float32, (2, 3)), "b": np.zeros(4, dtype=ml_dtypes.float8_e5m2)}
    made = {"a": np.ones((2, 3), "f4"), "b": np.ones(4, dtype=ml_dtypes.float8_e5m2)}
    sn.save_stream(plan, made.__getitem__, tmp_path / "t")
    assert (tmp_path / "t").read_bytes() == sn.save(made)


def test_aliases_of_torch_are_views_here(tmp_path):
    torch = pytest.importorskip("torch")
    from safetensors_c import torch as st

    a = torch.randn(4, 6)
    st.save_file({"a": a, "t": a.t()[1:3], "e": a[:, :0]}, tmp_path / "t", shared="alias")
    loaded = sn.load_file(tmp_path / "t")
    assert np.array_equal(loaded["t"], a.t()[1:3].numpy()) and loaded["e"].shape == (4, 0)
    loaded["a"][:] = 0
    assert not loaded["t"].any()


def test_slices_do_as_numpy_does(tmp_path):
    a = np.arange(60).reshape(3, 4, 5)
    sn.save_file({"a": a}, tmp_path / "t")
    with safe_open(tmp_path / "t", "np") as f:
        s = f.get_slice("a")
        for index in [
            (0,),
            (slice(None, None, 2),),
            (-1, slice(1, 3)),
            (..., 2),
            (slice(2, 0, -1), ..., slice(-3, None)),
        ]:
            assert np.array_equal(s[index], a[index]), index


def test_import_takes_no_framework():
    code = (
        "import sys, safetensors_c\n"
        "safetensors_c.safe_open, safetensors_c.install\n"
        "bad = [m for m in ('numpy', 'torch', 'typing', 'json', 'ctypes') if m in sys.modules]\n"
        "sys.exit(str(bad) if bad else 0)"
    )
    subprocess.run(
        [sys.executable, "-I", "-S", "-c", f"import sys; sys.path[:] = {sys.path!r}\n{code}"], check=True
    )
