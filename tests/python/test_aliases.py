# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Other names that the metadata record: "alias": "tensor", and views in sft.aliases. They can be asked for; keys() has none."""

import json

import pytest

torch = pytest.importorskip("torch")

import safetensors_c.torch as st  # noqa: E402
from safetensors_c import SafetensorError, safe_open  # noqa: E402

BASE = torch.arange(8.0)
SHOWN = {
    "part": BASE[3:5],
    "turned": BASE.as_strided((4, 2), (1, 4)),
    "repeated": BASE[2:3].expand(3),
    "none": BASE[:0],
    "all": BASE,
    "tied": torch.ones(2),
}


@pytest.fixture
def path(tmp_path):
    entries = {
        n: {
            "of": "base",
            "dtype": "F32",
            "shape": list(t.shape),
            "stride": list(t.stride()),
            "offset": t.storage_offset(),
        }
        for n, t in SHOWN.items()
        if n != "tied"
    }
    wrong = {
        "past": {"of": "base", "dtype": "F32", "shape": [9], "stride": [1], "offset": 0},
        "huge": {
            "of": "base",
            "dtype": "F32",
            "shape": [2**40, 2**40],
            "stride": [2**61, 1],
            "offset": 2**61,
        },
        "lost": {"of": "nobody", "dtype": "F32", "shape": [1], "stride": [1], "offset": 0},
        "b": {"of": "base", "dtype": "F32", "shape": [1], "stride": [1], "offset": 0},
        "short": {"of": "base", "dtype": "F32", "shape": [1, 1], "stride": [1], "offset": 0},
        "form": 7,
    }
    name = str(tmp_path / "a.safetensors")
    metadata = {
        "sft.aliases": json.dumps({**entries, **wrong}),
        "tied": "b",
        "format": "b",
        "sft.x": "b",
        "b": "base",
    }
    st.save_file({"base": BASE, "b": torch.ones(2)}, name, metadata)
    return name


@pytest.mark.parametrize("framework", ["pt", "numpy"])
@pytest.mark.parametrize("backend", ["mmap", "pread"])
def test_asked_for(path, framework, backend):
    with safe_open(path, framework, backend=backend) as f:
        assert list(f.keys()) == ["b", "base"] and len(f.offset_keys()) == 2
        for name, want in SHOWN.items():
            assert torch.equal(torch.as_tensor(f.get_tensor(name)), want), name
            piece = f.get_slice(name)
            assert piece.get_shape() == list(want.shape)
            assert torch.equal(torch.as_tensor(piece[:]), want)
            assert len(want) == 0 or torch.equal(torch.as_tensor(piece[1:]), want[1:]), name
            assert name in f
            one = f.get_tensors([name])
            assert list(one) == [name] and torch.equal(torch.as_tensor(one[name]), want)
        got = f.get_tensors([*SHOWN, "b"])
        assert set(got) == {*SHOWN, "b"}
        assert all(torch.equal(torch.as_tensor(got[n]), SHOWN.get(n, torch.ones(2))) for n in got)
        for name in "past", "huge", "lost", "short", "form", "format", "sft.x":
            assert name not in f
            with pytest.raises(SafetensorError):
                f.get_tensor(name)
        assert f.get_tensor("b").shape == (2,)  # a tensor comes before an alias of its name


def test_stream_and_into(path):
    with safe_open(path, "pt") as f:
        for name, got in f.stream(["turned", "part", "tied", "base"]):
            assert torch.equal(got, SHOWN.get(name, BASE)), name
        into = {n: torch.zeros(t.shape) for n, t in SHOWN.items()}
        f.load_into(into)
        assert all(torch.equal(into[n], SHOWN[n]) for n in SHOWN)


def test_load_file(path, tmp_path):
    one = str(tmp_path / "tied.safetensors")
    st.save_file({"embed": BASE}, one, {"head": "embed"})
    assert set(st.load_file(one)) == {"embed"}
    assert torch.equal(st.load_file(one, select=["head"])["head"], BASE)
    with pytest.raises(SafetensorError):
        st.load_file(one, select=["head"], aliases=False)
    with pytest.raises(SafetensorError):
        st.load_file(one, select=["heat"])
