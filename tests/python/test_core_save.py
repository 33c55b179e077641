# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Saving: TensorSpec, bytes, files, descriptors, digests; and what is refused."""

from __future__ import annotations

import os
import threading

import numpy as np
import pytest
from safetensors_c import SafetensorError, TensorSpec, _core, safe_open, serialize, serialize_file
from test_core_open import A, B, image, spec

NAMES = "bool int8 uint8 int16 uint16 int32 uint32 int64 uint64 float16 float32 float64 complex64"


def test_spec():
    s = TensorSpec(dtype="float32", shape=(2, 3), data_ptr=16, data_len=24)
    assert (s.dtype, s.shape, s.data_ptr, s.data_len) == ("F32", [2, 3], 16, 24)
    assert repr(s) == "TensorSpec(dtype='F32', shape=[2, 3], data_ptr=16, data_len=24)"
    f4 = TensorSpec(dtype="float4_e2m1fn_x2", shape=[2, 3], data_ptr=16, data_len=6)
    assert (f4.dtype, f4.shape) == ("F4", [2, 6])
    good = {"dtype": "float32", "shape": [1], "data_ptr": 1, "data_len": 4}
    for change, kind, text in [
        ({"dtype": "zz"}, SafetensorError, 'Unknown dtype "zz". Supported dtypes: bool, int8,'),
        ({"dtype": 3}, TypeError, "argument 'dtype': 'int' object is not an instance of 'str'"),
        ({"shape": 5}, TypeError, "argument 'shape': 'int' object is not an instance of 'Sequence'"),
        ({"shape": ["a"]}, TypeError, "argument 'shape': 'str' object cannot be interpreted as an integer"),
        ({"shape": [-1]}, OverflowError, "can't convert negative int to unsigned"),
        ({"shape": [2**64]}, OverflowError, "int too big to convert"),
        ({"data_ptr": -1}, OverflowError, "can't convert negative int to unsigned"),
        ({"more": 1}, TypeError, "got an unexpected keyword argument 'more'"),
        ({"dtype": "float4_e2m1fn_x2", "shape": [2**63]}, SafetensorError, "F4 last-dim 9223372036854775808"),
    ]:
        with pytest.raises(kind, match=text):
            TensorSpec(**{**good, **change})
    with pytest.raises(
        TypeError, match="missing 4 required keyword arguments: 'dtype', 'shape', 'data_ptr', and"
    ):
        TensorSpec()
    with pytest.raises(TypeError, match="takes 0 positional arguments but 4 were given"):
        TensorSpec("float32", [1], 1, 4)


def test_bytes_equal_the_reference():
    reference = pytest.importorskip("safetensors")
    arrays = {f"n{i}": np.arange(i, dtype=dtype) for i, dtype in enumerate(NAMES.split())}
    arrays["scalar"] = np.array(2.5)
    arrays['odd "name" \n é'] = np.zeros((0, 4), np.int8)

    def specs(module):
        return {
            k: module.TensorSpec(dtype=v.dtype.name, shape=v.shape, data_ptr=v.ctypes.data, data_len=v.nbytes)
            for k, v in arrays.items()
        }

    for metadata in (None, {"a": "b"}):
        ours, theirs = serialize(specs(_core), metadata), reference.serialize(specs(reference), metadata)
        assert ours == theirs
    assert {n: (d["dtype"], d["shape"], bytes(d["data"])) for n, d in _core.deserialize(ours)} == {
        n: (d["dtype"], d["shape"], bytes(d["data"])) for n, d in reference.deserialize(ours)
    }


def test_file_and_descriptor(tmp_path):
    specs = {"a": spec(A), "b": spec(B)}
    want = image(metadata={"x": "1", "y": "2"})
    target = tmp_path / "x.safetensors"
    serialize_file(specs, target, {"y": "2", "x": "1"})
    assert target.read_bytes() == want
    if os.name == "posix":
        umask = os.umask(0)
        os.umask(umask)
        assert target.stat().st_mode & 0o777 == 0o666 & ~umask
    with pytest.raises(FileExistsError):
        serialize_file(specs, target, new_only=True)
    link = tmp_path / "link"
    link.symlink_to(target)
    serialize_file({"a": spec(A)}, link, durable=True, data_alignment=4096)
    assert link.is_symlink()
    with safe_open(target, "np") as f:
        assert f.get_tensor_meta("a").file_offset % 4096 == 0
    read, write = os.pipe()
    got = []
    reader = threading.Thread(target=lambda: got.append(open(read, "rb").read()))
    reader.start()
    _core.serialize_fd(specs, write, {"x": "1", "y": "2"})
    os.close(write)
    reader.join()
    assert got == [want]


@pytest.mark.parametrize("sidecar", [False, True])
def test_digests(tmp_path, sidecar):
    target = tmp_path / "x.safetensors"
    serialize_file({"a": spec(A), "b": spec(B)}, target, digests=["crc32c", "sha256"], sidecar=sidecar)
    with safe_open(target, "np") as f:
        assert f.verify()["checked"] == 2
        at = f.get_tensor_meta("b").file_offset
    with open(target, "r+b") as f:
        f.seek(at)
        f.write(b"\xff")
    with pytest.raises(SafetensorError) as e:
        safe_open(target, "np").verify()
    assert e.value.status == "SFT_E_MISMATCH" and e.value.tensor == "b"
    with pytest.raises(SafetensorError) as e:
        safe_open(image(), "np").verify()
    assert e.value.status == "SFT_E_NOT_FOUND"
    with pytest.raises(ValueError, match="none of: crc32c, sha256"):
        serialize({}, digests="md5")


def test_refusals(tmp_path):
    good = spec(A)
    short = TensorSpec(dtype="float32", shape=[7], data_ptr=A.ctypes.data, data_len=24)
    for arguments, kind, text in [
        (
            ({"a": short},),
            SafetensorError,
            "Error while serializing: invalid shape, data type, or offset for tensor",
        ),
        (({"__metadata__": good},), SafetensorError, "Error while serializing: "),
        (({"a": {}},), TypeError, "argument 'tensor_dict': 'dict' object is not an instance of 'TensorSpec'"),
        (({1: good},), TypeError, "argument 'tensor_dict': 'int' object is not an instance of 'str'"),
        (([],), TypeError, "argument 'tensor_dict': 'list' object is not an instance of 'dict'"),
        (({"a": good}, [1]), TypeError, "argument 'metadata': 'list' object is not an instance of 'dict'"),
        (({"a": good}, {"a": 1}), TypeError, "argument 'metadata': 'int' object is not an instance of 'str'"),
        ((), TypeError, r"serialize\(\) missing 1 required positional argument: 'tensor_dict'"),
    ]:
        with pytest.raises(kind, match=text):
            serialize(*arguments)
    with pytest.raises(SafetensorError, match="Error while serializing: I/O error: ") as e:
        serialize_file({"a": good}, tmp_path / "no" / "where")
    assert e.value.status
    with pytest.raises(TypeError, match="expected str, bytes or os.PathLike object, not int"):
        serialize_file({"a": good}, 5)
    assert not os.listdir(tmp_path)


def test_nothing_at_all():
    for metadata in (None, {}, {"a": ""}):
        data = serialize({}, metadata)
        with safe_open(data, "np") as f:
            assert f.metadata() == metadata and f.get_tensors() == {} and f.keys() == []
