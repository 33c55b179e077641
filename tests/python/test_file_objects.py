# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Objects with read() and write(), and descriptors: what they give is what counts, wherever it comes from."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import tempfile

import numpy as np
import pytest
import safetensors_c
import safetensors_c.numpy as sn

ARRAY = np.arange(12, dtype="f4").reshape(3, 4)
DATA = sn.save({"a": ARRAY})


def ways(make):
    """What each function that takes a file object reads of a new one."""
    with safetensors_c.safe_open(make(), "np") as f:
        yield f.get_tensor("a")
    yield sn.load_file(make())["a"]
    with safetensors_c.open_any(make(), "np") as f:
        yield f.get_tensor("a")
    with safetensors_c.stream(make(), framework="np") as s:
        yield dict(s)["a"]


@pytest.mark.parametrize("packer", [gzip, bz2, lzma])
def test_what_unpacks_gives_what_is_inside(tmp_path, packer):
    with packer.open(tmp_path / "x", "wb") as f:
        f.write(DATA)
    for got in ways(lambda: packer.open(tmp_path / "x")):
        np.testing.assert_array_equal(got, ARRAY)


def test_files_are_read_from_where_they_stand(tmp_path):
    (tmp_path / "x").write_bytes(b"sixteen of these" + DATA)

    def make(buffering):
        f = open(tmp_path / "x", "rb", buffering=buffering)
        f.seek(16)
        return f

    for buffering in (0, 4096):
        for got in ways(lambda: make(buffering)):  # noqa: B023
            np.testing.assert_array_equal(got, ARRAY)


@pytest.mark.parametrize("buffering", [0, 4096])
def test_plain_files_are_opened_by_their_descriptor(tmp_path, buffering):
    (tmp_path / "x").write_bytes(DATA)
    f = open(tmp_path / "x", "rb", buffering=buffering)
    with safetensors_c.safe_open(f, "np") as handle:
        np.testing.assert_array_equal(handle.get_tensor("a"), ARRAY)
    assert f.tell() == 0  # nothing was read through it
    with tempfile.NamedTemporaryFile() as t:
        t.write(DATA)
        t.seek(0)
        for got in ways(lambda: t):
            np.testing.assert_array_equal(got, ARRAY)
            t.seek(0)


def test_text_is_no_file_of_bytes(tmp_path):
    (tmp_path / "x").write_bytes(DATA)
    for function in (sn.load_file, lambda f: safetensors_c.safe_open(f, "np")):
        with open(tmp_path / "x", encoding="latin-1") as f, pytest.raises(TypeError):
            function(f)


def test_a_write_that_would_block_is_told():
    r, w = os.pipe()
    os.set_blocking(w, False)
    with os.fdopen(w, "wb", 0) as f, os.fdopen(r, "rb"), pytest.raises(BlockingIOError, match="not all"):
        sn.save_file({"a": np.zeros(100_000)}, f)


@pytest.mark.parametrize("count", [0, -1, 1 << 40])
def test_a_count_that_no_write_gives_is_told(count):
    class Odd:
        def write(self, data):
            return count

    with pytest.raises(OSError, match="returned"):
        sn.save_file({"a": ARRAY}, Odd())


def test_a_write_that_returns_nothing_has_taken_all():
    class Quiet(list):
        def write(self, data):
            self.append(bytes(data))

    kept = Quiet()
    sn.save_file({"a": ARRAY}, kept)
    np.testing.assert_array_equal(sn.load(b"".join(kept))["a"], ARRAY)
    np.testing.assert_array_equal(sn.load_file(io.BytesIO(b"".join(kept)))["a"], ARRAY)


@pytest.mark.parametrize("number", [2**32 + 1, 2**40, -1, -(2**32) + 1, 2**70])
def test_numbers_that_are_no_descriptors(number):
    spec = safetensors_c.TensorSpec(dtype="float32", shape=[3, 4], data_ptr=ARRAY.ctypes.data, data_len=48)
    with pytest.raises((ValueError, OverflowError)):
        safetensors_c.serialize_fd({"a": spec}, number)
    with pytest.raises((ValueError, OverflowError)):
        safetensors_c.Writer(number, {"a": spec})


def test_big_endian_numbers_are_not_put_as_others(tmp_path):
    spec = safetensors_c.TensorSpec(dtype="float32", shape=[3, 4], data_ptr=1, data_len=48)
    with safetensors_c.Writer(tmp_path / "x", {"a": spec}) as w:
        with pytest.raises(TypeError, match="big-endian"):
            w.put("a", ARRAY.astype(">f4"))
        w.put("a", ARRAY)
        w.finish()
    np.testing.assert_array_equal(sn.load_file(tmp_path / "x")["a"], ARRAY)
