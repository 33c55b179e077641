# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Where we differ from the package `safetensors` on purpose: the list in docs/python.md, one test each.

What the framework modules do is tested beside them; here is the rest.
"""

from __future__ import annotations

import io
import json
import os
import struct
import threading

import pytest

np = pytest.importorskip("numpy")

import safetensors_c  # noqa: E402
from safetensors_c import SafetensorError, TensorSpec, deserialize, safe_open, serialize  # noqa: E402
from safetensors_c import numpy as sn  # noqa: E402


def file_of(header, data=b""):
    text = json.dumps(header).encode() if not isinstance(header, bytes) else header
    return struct.pack("<Q", len(text)) + text + data


def test_metadata_is_sorted():
    array = {"a": np.zeros(1, "u1")}
    one = sn.save(array, {str(i): "x" for i in range(50)})
    two = sn.save(array, {str(i): "x" for i in reversed(range(50))})
    assert one == two
    n = struct.unpack("<Q", one[:8])[0]
    names = list(json.loads(one[8 : 8 + n])["__metadata__"])
    assert names == sorted(names)


def test_empty_metadata_without_tensors_is_a_valid_file():
    data = sn.save({}, metadata={})
    assert sn.load(data) == {}
    assert safe_open(data, "np").metadata() == {}


def test_a_tensor_named_metadata_is_refused():
    with pytest.raises(SafetensorError):
        sn.save({"__metadata__": np.zeros(1)})


@pytest.mark.skipif(os.name != "posix", reason="modes of POSIX")
def test_mode_follows_umask_and_the_old_file(tmp_path):
    path = tmp_path / "t"
    old = os.umask(0o027)
    try:
        sn.save_file({"a": np.zeros(1)}, path)
        assert path.stat().st_mode & 0o777 == 0o640
        path.chmod(0o604)
        sn.save_file({"a": np.ones(1)}, path)
        assert path.stat().st_mode & 0o777 == 0o604
    finally:
        os.umask(old)


@pytest.mark.skipif(os.name != "posix", reason="symbolic links")
def test_a_symbolic_link_stays_one(tmp_path):
    (tmp_path / "real").write_bytes(b"x")
    (tmp_path / "link").symlink_to("real")
    sn.save_file({"a": np.ones(3)}, tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert sn.load_file(tmp_path / "real")["a"].sum() == 3


def test_what_is_no_file_is_not_renamed_over(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", "/dev/zero"):
        with pytest.raises((SafetensorError, OSError)):
            sn.save_file({"a": np.ones(3)}, path)
        assert not os.path.isfile(path)


def test_an_empty_dimension_slices(tmp_path):
    sn.save_file({"e": np.zeros((0, 3), "f4")}, tmp_path / "t")
    with safe_open(tmp_path / "t", "np") as f:
        assert f.get_slice("e")[:].shape == (0, 3)
        assert f.get_slice("e")[:, :2].shape == (0, 2)


def test_hazards_are_refused():
    entry = b'{"dtype":"U8","shape":[1],"data_offsets":[0,1]}'
    for header in (
        b'{"a":' + entry + b',"a":' + entry + b"}",
        b'{"__metadata__":{"k":"1","k":"2"},"a":' + entry + b"}",
        b'{"a":["U8",[1],[0,1]]}',
        b'{"a":{"dtype":{"U8":null},"shape":[1],"data_offsets":[0,1]}}',
    ):
        with pytest.raises(SafetensorError):
            deserialize(file_of(header, b"x"))
    assert deserialize(file_of(b'{"a":' + entry + b"}", b"x"))


def test_deserialize_takes_any_buffer_in_file_order():
    data = sn.save({"b": np.zeros(1, "f4"), "a": np.zeros(1, "f4"), "c": np.zeros(1, "i8")})
    for source in (data, bytearray(data), memoryview(data)):
        assert [name for name, _ in deserialize(source)] == ["c", "a", "b"]


def test_a_wrong_length_is_refused():
    spec = TensorSpec(dtype="float32", shape=[2], data_ptr=1, data_len=4)
    with pytest.raises(SafetensorError):
        serialize({"a": spec})


def test_errors_say_where():
    with pytest.raises(SafetensorError) as caught:
        safe_open(sn.save({"a": np.zeros(4)})[:-3], "np")
    error = caught.value
    assert "MetadataIncompleteBuffer" in str(error) and "incomplete metadata" in str(error)
    assert error.status == "SFT_E_COVERAGE" and error.offset is not None and error.tensor == "a"


def test_a_handle_is_a_mapping_and_can_be_closed(tmp_path):
    import pickle

    sn.save_file({"a": np.arange(3), "b": np.ones(2)}, tmp_path / "t", {"k": "v"})
    f = safe_open(tmp_path / "t", "np")
    assert len(f) == 2 and "a" in f and "z" not in f and sorted(f) == ["a", "b"]
    assert f["a"].tolist() == [0, 1, 2] and sorted(n for n, _ in f.items()) == ["a", "b"]
    assert len(list(f.values())) == 2 and f.get("z") is None
    meta = f.get_tensor_meta("b")
    data = (tmp_path / "t").read_bytes()
    assert data[meta.file_offset : meta.file_offset + meta.nbytes] == np.ones(2).tobytes()
    again = pickle.loads(pickle.dumps(f))
    assert again["a"].tolist() == [0, 1, 2]
    view = f["a"]
    assert not f.closed
    f.close()
    f.close()
    assert f.closed and view.tolist() == [0, 1, 2]
    for use in (f.keys, f.metadata, lambda: f["a"], lambda: len(f), f.get_tensors, lambda: f.get_slice("a")):
        with pytest.raises(SafetensorError, match="File is closed"):
            use()


def test_files_that_have_no_name():
    data = sn.save({"a": np.arange(3)})
    with safetensors_c._safe_open_handle(io.BytesIO(data), framework="np") as f:
        assert f["a"].tolist() == [0, 1, 2]


def test_one_handle_many_threads(tmp_path):
    arrays = {f"t{i}": np.full(1000, i) for i in range(50)}
    sn.save_file(arrays, tmp_path / "t")
    failures = []

    def work(f):
        try:
            for _ in range(20):
                for name, array in arrays.items():
                    assert np.array_equal(f.get_tensor(name), array)
                    assert f.get_slice(name)[10:20].sum() == array[10:20].sum()
        except BaseException as e:
            failures.append(e)

    for backend in ("mmap", "pread"):
        with safe_open(tmp_path / "t", "np", backend=backend) as f:
            threads = [threading.Thread(target=work, args=(f,)) for _ in range(8)]
            for t in threads:
                t.start()
            for t in threads:
                t.join()
    assert not failures, failures


def test_sharing_is_found_past_a_short_tensor():
    torch = pytest.importorskip("torch")
    from safetensors_c.torch import _find_shared_tensors, _remove_duplicate_names, save

    a = torch.zeros(10)
    tensors = {"a": a, "b": a[2:4], "c": a[5:8]}
    assert _find_shared_tensors(tensors) == [{"a", "b", "c"}]
    assert _remove_duplicate_names(tensors) == {"a": ["b", "c"]}
    square = torch.zeros(3, 4)
    with pytest.raises(RuntimeError, match="Some tensors share memory"):
        save({"x": square, "y": square.t()[1:]})


def test_the_callers_dicts_are_left_alone():
    pytest.importorskip("jax")
    import jax.numpy as jnp
    from safetensors_c import flax

    tensors = {"a": jnp.ones(2)}
    kept = dict(tensors)
    flax.save(tensors)
    assert tensors["a"] is kept["a"]
    numbers = flax.load(flax.save({"h": jnp.ones(2, dtype=jnp.bfloat16)}))
    assert numbers["h"].dtype == jnp.bfloat16


def test_tensorflow_scalars():
    tf = pytest.importorskip("tensorflow")
    from safetensors_c import tensorflow

    tensors = {"s": tf.constant(1.5)}
    loaded = tensorflow.load(tensorflow.save(tensors))
    assert float(loaded["s"]) == 1.5 and loaded["s"].shape == () and tf.is_tensor(tensors["s"])


def test_paddle_types():
    paddle = pytest.importorskip("paddle")
    import tempfile

    from safetensors_c import paddle as sp

    tensors = {
        "h": paddle.ones([2, 2], dtype=paddle.bfloat16),
        "c": paddle.to_tensor([1 + 2j], dtype="complex64"),
    }
    loaded = sp.load(sp.save(tensors))
    assert loaded["h"].dtype == paddle.bfloat16 and loaded["c"].dtype == paddle.complex64
    with tempfile.TemporaryDirectory() as directory:
        sp.save_file(tensors, directory + "/t")
        loaded = sp.load_file(directory + "/t")
    assert loaded["h"].dtype == paddle.bfloat16 and complex(loaded["c"][0]) == 1 + 2j


def test_what_may_not_be_read_is_no_missing_file(tmp_path):
    path = tmp_path / "closed"
    sn.save_file({"a": np.ones(3)}, path)
    path.chmod(0)
    tmp_path.chmod(0o755)
    child = os.fork()
    if child == 0:  # root may read everything
        code = 9
        try:
            os.chdir(tmp_path)
            if os.getuid() == 0:
                os.setuid(65534)
            sn.load_file("closed")
        except PermissionError as e:
            code = 0 if e.errno == 13 else 8
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
