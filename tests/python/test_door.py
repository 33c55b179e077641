# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The one door: open_any opens what any opener of the library knows; the functions that mirror the reference go on refusing
what they refused."""

import json
import os
import subprocess
import sys
import zipfile

import numpy as np
import pytest
import safetensors_c as st
import safetensors_c.numpy as sn
from safetensors_c import distributed, open_any, safe_open

SHARDS = [np.arange(6, dtype="uint32").reshape(2, 3), np.arange(6, 12, dtype="uint32").reshape(2, 3)]


@pytest.fixture
def ranks(tmp_path):
    """A directory of two ranks: `w` is 4 x 3 and counts from 0."""
    base = tmp_path / "ranks"
    for rank, shard in enumerate(SHARDS):
        (base / f"rank_{rank}").mkdir(parents=True)
        sn.save_file({"w": shard}, base / f"rank_{rank}" / "n-1_2.safetensors")
    cut = {"name": "w", "cuts": [{"by": "x", "split": "chunk"}, None]}
    layout = {"format": "safetensors-layout", "version": 1, "mesh": {"axes": {"x": 2}}, "tensors": [cut]}
    (base / "layout.json").write_text(json.dumps(layout))
    return base


@pytest.fixture
def archive(tmp_path):
    path = tmp_path / "m.npz"
    np.savez(path, w=np.concatenate(SHARDS))
    return path


def check(handle):
    assert list(handle.keys()) == ["w"]
    assert np.array_equal(handle.get_tensor("w"), np.concatenate(SHARDS))


def test_any_format_and_any_place(ranks, archive, tmp_path):
    sn.save_file({"w": np.concatenate(SHARDS)}, tmp_path / "m.safetensors")
    for operand in (ranks, archive, tmp_path / "m.safetensors", archive.read_bytes()):
        with open_any(operand, "numpy") as f:
            check(f)
    with archive.open("rb") as file, open_any(file, "numpy") as f:
        check(f)
    with distributed.open_checkpoint(ranks) as f:
        check(f)


def test_functions_of_the_reference_refuse_other_formats(ranks, archive):
    for operand in (ranks, archive):
        with pytest.raises(st.SafetensorError):
            safe_open(operand, "numpy")
        with pytest.raises((st.SafetensorError, OSError)):
            sn.load_file(operand)
    with pytest.raises(st.SafetensorError):
        sn.load(archive.read_bytes())
    with pytest.raises(st.SafetensorError):
        st.deserialize(archive.read_bytes())
    with pytest.raises(st.SafetensorError):
        distributed.open_checkpoint(archive)


def test_what_no_opener_knows(tmp_path):
    path = tmp_path / "noise.bin"
    path.write_bytes(b"\x7f" * 64)
    with pytest.raises(st.SafetensorError, match="known weight format"):
        open_any(path, "numpy")
    with pytest.raises(FileNotFoundError):
        open_any(tmp_path / "absent", "numpy")
    with pytest.raises(st.SafetensorError, match="no checkpoint of many ranks"):
        distributed.open_checkpoint(tmp_path, step="1_2")
    with pytest.raises(st.SafetensorError, match="names the files: no step"):
        distributed.open_checkpoint("https://h/rank_{rank}.safetensors", layout="tp=2", step="1_2")


def test_paths_are_whole(archive, tmp_path):
    for inputs, output in ((f"{archive}\0.other", tmp_path / "o"), (archive, f"{tmp_path / 'o'}\0.evil")):
        with pytest.raises(ValueError, match="null byte"):
            st.convert(inputs, output)
    with pytest.raises(ValueError, match="null byte"):
        open_any(archive, key="w\0x")
    assert not (tmp_path / "o").exists()


@pytest.mark.parametrize(
    "wrong", [{"names": 1}, {"names": {}, "config": 1}, {"rename": "x"}, {"max_shard_size": 1.5}]
)
def test_arguments_of_other_types(archive, tmp_path, wrong):
    with pytest.raises((TypeError, st.SafetensorError)):
        st.convert(archive, tmp_path / "o.safetensors", **wrong)
    print(end="", flush=True)  # a number is no descriptor that would be read, and closed


def test_a_handle_is_no_list_of_paths(ranks, tmp_path):
    with (
        safe_open(ranks / "rank_0" / "n-1_2.safetensors", "np") as f,
        pytest.raises(TypeError, match="paths"),
    ):
        st.convert(f, tmp_path / "o.safetensors")


def test_a_rank_that_the_layout_does_not_have(ranks):
    with pytest.raises(st.SafetensorError, match="rank 7: the layout has 2 ranks, from 0"):
        distributed.load_part(ranks, ranks / "layout.json", 7)


def test_a_subinterpreter_does_not_wait_for_ever(tmp_path):
    """Python 3.11: a sentence; later: it works there, or Python refuses."""
    sn.save_file({"w": np.arange(3)}, tmp_path / "m")
    inside = (
        f"import safetensors_c as s; print(len(s.deserialize(open({str(tmp_path / 'm')!r}, 'rb').read())))"
    )
    code = f"""
try:
    import _xxsubinterpreters as i
except ImportError:
    import _interpreters as i
try:
    print(i.run_string(i.create(), {inside!r}))
except i.RunFailedError as e:
    print(e)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    if sys.version_info < (3, 12):
        assert "safetensors_c needs Python 3.12 or later in a subinterpreter" in done.stdout


def test_a_zip_archive_is_named_where_python_would_speak_of_a_circular_import(tmp_path):
    archive = tmp_path / "app.zip"
    folder = os.path.dirname(sn.__file__)
    with zipfile.ZipFile(archive, "w") as z:
        for name in sorted(os.listdir(folder)):
            if not os.path.isdir(os.path.join(folder, name)):
                z.write(os.path.join(folder, name), "safetensors_c/" + name)
    code = "import sys; sys.path.insert(0, sys.argv[1]); import safetensors_c"
    done = subprocess.run([sys.executable, "-I", "-c", code, str(archive)], capture_output=True, text=True)
    assert done.returncode == 1 and "which no Python loads from a zip archive: unpack it" in done.stderr
