# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The handle: what it is opened from, what it tells, how it is closed; and errors as places."""

from __future__ import annotations

import io
import json
import os
import pathlib
import pickle
import struct

import numpy as np
import pytest
from safetensors_c import SafetensorError, TensorSpec, _core, safe_open, serialize

A = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
B = np.arange(5, dtype=np.int16)


def spec(array):
    return TensorSpec(
        dtype=array.dtype.name,
        shape=array.shape,
        data_ptr=array.ctypes.data,
        data_len=array.nbytes,
        owner=array,
    )


def image(tensors=None, metadata=None):
    return serialize({k: spec(v) for k, v in (tensors or {"b": B, "a": A}).items()}, metadata)


def raw(header, data=b"", length=None):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + data


@pytest.fixture
def path(tmp_path):
    p = tmp_path / "x.safetensors"
    p.write_bytes(image(metadata={"k": "v"}))
    return p


def test_names_and_mapping(path):
    with safe_open(path, "np") as f:
        assert f.keys() == ["a", "b"] and f.offset_keys() == ["a", "b"] and list(f) == ["a", "b"]
        assert len(f) == 2 and "a" in f and "c" not in f and 5 not in f
        assert f.metadata() == {"k": "v"}
        assert np.array_equal(f["a"], A) and np.array_equal(f.get_tensor(name="b"), B)
        assert [n for n, t in f.items()] == f.offset_keys() and len(f.values()) == 2
        assert f.get("zz") is None and f.get("zz", 7) == 7 and np.array_equal(f.get("b"), B)
        with pytest.raises(KeyError):
            f["zz"]
        meta = f.get_tensor_meta("b")
        assert (meta.dtype, meta.shape, meta.nbytes, meta.name) == ("I16", [5], 10, "b")
        start, end = meta.data_offsets
        assert path.read_bytes()[meta.file_offset :][: end - start] == B.tobytes()
        assert "a" in repr(f.get_slice("a")) and "2 tensors" in repr(f)
    assert f.closed and repr(f) == "<safe_open, closed>"


def test_absent_and_empty_metadata(tmp_path):
    for given in (None, {}):
        with safe_open(image(metadata=given), "np") as f:
            assert f.metadata() == given


def test_closed_handle(path):
    f = safe_open(str(path), "np")
    part = f.get_slice("a")
    f.close()
    f.close()
    calls = [
        f.keys,
        f.offset_keys,
        f.metadata,
        f.get_tensors,
        f.items,
        f.explain,
        lambda: len(f),
        lambda: "a" in f,
    ]
    calls += [lambda: f["a"], lambda: f.get_tensor("a"), lambda: f.get_slice("a"), lambda: pickle.dumps(f)]
    for call in calls:
        with pytest.raises(SafetensorError, match="File is closed") as e:
            call()
        assert e.value.status == "SFT_E_STATE"
    assert np.array_equal(part[:], A)  # a slice keeps the file


@pytest.mark.parametrize("backend", ["mmap", "pread"])
def test_sources(path, tmp_path, backend):
    data = path.read_bytes()
    with open(path, "rb") as opened:
        sources = [str(path), path, data, bytearray(data), memoryview(data), io.BytesIO(data), opened]
        for source in sources:
            with safe_open(source, "np", backend=backend) as f:
                tensors = f.get_tensors()
                assert np.array_equal(tensors["a"], A) and tensors["a"].flags.writeable
                tensors["a"][:] = 0
    assert path.read_bytes() == data and data == image(metadata={"k": "v"})


def test_shards(tmp_path):
    (tmp_path / "m-1.safetensors").write_bytes(image({"a": A}))
    (tmp_path / "m-2.safetensors").write_bytes(image({"b": B}))
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {"a": "m-1.safetensors", "b": "m-2.safetensors"}}))
    for source in (tmp_path, index):
        for backend in ("mmap", "pread"):
            with safe_open(source, "np", backend=backend) as f:
                tensors = f.get_tensors()
                assert np.array_equal(tensors["a"], A) and np.array_equal(tensors["b"], B)
                assert f.get_tensor_meta("b").file.endswith("m-2.safetensors")
                assert list(f.get_tensors(["b"])) == ["b"]


def test_pickle(path):
    f = safe_open(str(path), "np", backend="pread")
    g = pickle.loads(pickle.dumps(f))
    assert np.array_equal(g["a"], A) and g.__reduce__()[1] == f.__reduce__()[1]
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(safe_open(io.BytesIO(path.read_bytes()), "np"))


def test_explain(path):
    (told,) = safe_open(path, "np").explain()
    assert told["strategy"] in ("read", "direct") and told["reason"] and told["path"] == str(path)


BAD = {
    "HeaderTooSmall": b"abc",
    "HeaderTooLarge": raw(b"{}", length=10**9),
    "InvalidHeaderLength": raw(b"{}", length=100),
    "InvalidHeader": raw(b'{"\xff":1}'),
    "InvalidHeaderDeserialization": raw(b"{a}"),
    "InvalidOffset": raw({"t": {"dtype": "F32", "shape": [1], "data_offsets": [4, 8]}}, bytes(8)),
    "TensorInvalidInfo": raw({"t": {"dtype": "F32", "shape": [2], "data_offsets": [0, 4]}}, bytes(4)),
    "ValidationOverflow": raw(
        {"t": {"dtype": "F32", "shape": [2**62, 32], "data_offsets": [0, 4]}}, bytes(4)
    ),
    "MetadataIncompleteBuffer": raw({"t": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}, bytes(9)),
    "MisalignedSlice": raw({"t": {"dtype": "F4", "shape": [3], "data_offsets": [0, 1]}}, bytes(1)),
}


@pytest.mark.parametrize("variant", BAD)
def test_bad_headers(variant, tmp_path):
    p = tmp_path / "bad"
    p.write_bytes(BAD[variant])
    with pytest.raises(SafetensorError) as e:
        safe_open(p, "np")
    assert str(e.value).startswith("Error while deserializing header: ") and variant in str(e.value)
    assert e.value.status.startswith("SFT_E_") and e.value.detail
    if variant in ("InvalidOffset", "TensorInvalidInfo"):
        assert e.value.tensor == "t" and 8 <= e.value.offset < len(BAD[variant])
    again = pickle.loads(pickle.dumps(e.value))
    assert (str(again), again.status, again.tensor) == (str(e.value), e.value.status, e.value.tensor)
    with pytest.raises(SafetensorError, match=f"^Error while deserializing: .*{variant}"):
        _core.deserialize(BAD[variant])


def test_wrong_arguments(path, tmp_path):
    for arguments, kind, text in [
        (("zz",), SafetensorError, "framework zz is invalid"),
        (("np", "zz"), SafetensorError, "device zz is invalid"),
        (("np", "cuda"), SafetensorError, "Device cuda:0 is not supported for framework numpy"),
        (("pt", "mps:1"), SafetensorError, "only mps or mps:0 is supported"),
        (("pt", "cuda:x"), ValueError, "invalid digit found in string"),
        ((5,), TypeError, "argument 'framework': 'int' object is not an instance of 'str'"),
        ((), TypeError, "missing 1 required positional argument: 'framework'"),
        (("np", "cpu", "mmap"), TypeError, "takes from 2 to 3 positional arguments but 4 were given"),
    ]:
        with pytest.raises(kind, match=text):
            safe_open(path, *arguments)
    with pytest.raises(SafetensorError, match='backend "q" is invalid'):
        safe_open(path, "np", backend="q")
    with pytest.raises(FileNotFoundError) as e:
        safe_open("notafile", "np")
    assert str(e.value) == "No such file or directory: notafile"
    with pytest.raises(SafetensorError, match="File does not contain tensor zz"):
        safe_open(path, "np").get_tensor("zz")
    with pytest.raises(FileNotFoundError):
        safe_open("a\0b", "np")
    if os.name == "posix" and os.geteuid() != 0:
        path.chmod(0)
        with pytest.raises(PermissionError):
            safe_open(path, "np")


def test_nothing_is_imported():
    import subprocess
    import sys

    code = "import sys, safetensors_c; assert not {'numpy', 'torch', 'jax'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
    assert pathlib.Path(_core.__file__).name.startswith("_core")
