# SPDX-License-Identifier: Apache-2.0 OR MIT
"""open_any and convert: files that torch and numpy wrote give what torch and numpy load; GGUF, directories, trees.

The readers are those of the installed package: no library beside it is there to be found.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import pickle
import subprocess
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import safetensors_c
import safetensors_c.numpy as ours
import safetensors_c.torch
import torch
from safetensors_c import SafetensorError, convert, open_any, safe_open

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FIXTURES = os.path.join(ROOT, "tests", "import", "fixtures")


def same(a, b):
    assert a.dtype == b.dtype and a.shape == b.shape, (a.dtype, a.shape, b.dtype, b.shape)
    a, b = (t.detach().cpu().contiguous() if isinstance(t, torch.Tensor) else t for t in (a, b))
    if isinstance(a, torch.Tensor):
        a, b = (t.reshape(-1).view(torch.uint8).numpy() for t in (a, b))
    return a.tobytes() == b.tobytes()


def state():
    torch.manual_seed(5)
    embedding = torch.randn(50, 16)
    return {
        "embed.weight": embedding,
        "head.weight": embedding,
        "turned": torch.randn(7, 9).t(),
        "part": torch.randn(100)[10:40],
        "half": torch.randn(33).to(torch.bfloat16),
        "f8": torch.randn(8).to(torch.float8_e4m3fn),
        "long": torch.arange(5),
        "flag": torch.tensor([True, False]),
        "nan": torch.tensor([float("nan"), -0.0]),
        "scalar": torch.tensor(3.5),
        "none": torch.zeros(0, 4),
        "complex": torch.randn(3, dtype=torch.complex64),
        "big": torch.randn(300, 1000),
    }


@pytest.fixture(params=["zip", "legacy"])
def torch_file(request, tmp_path):
    path = tmp_path / "model.bin"
    tensors = state()
    if request.param == "legacy":
        del tensors["f8"]  # torch cannot load what it writes here: an untyped storage
    torch.save(
        {"state_dict": tensors, "epoch": 3}, path, _use_new_zipfile_serialization=request.param == "zip"
    )
    return path


def test_a_torch_file_like_a_safetensors_file(torch_file):
    expected = torch.load(torch_file, weights_only=True)["state_dict"]
    with open_any(torch_file) as f:
        # The other name of a tensor finds it, and is no key, as after Hugging Face's conversion.
        assert set(f.keys()) == set(expected) - {"head.weight"} and "head.weight" in f
        for name, tensor in expected.items():
            assert same(f[name], tensor), name
        everything = f.get_tensors()
        assert all(same(everything[name], expected[name]) for name in everything)
        owned = f.get_tensors(owned=True)
        assert all(same(owned[name], expected[name]) for name in owned)
        assert same(f.get_slice("turned")[1:3, ::2], expected["turned"][1:3, ::2])
        assert same(f.get_slice("big")[5:7], expected["big"][5:7])
        meta = f.get_tensor_meta("embed.weight")
        assert (meta.dtype, meta.shape) == ("F32", [50, 16])
        again = pickle.loads(pickle.dumps(f))
        assert same(again["big"], expected["big"])
        assert dict(f.stream()).keys() == set(f.keys())
        with ThreadPoolExecutor(4) as pool:
            names = f.keys() * 4
            assert all(same(t, expected[n]) for n, t in zip(names, pool.map(f.get_tensor, names)))
    with pytest.raises(SafetensorError, match="closed"):
        f.keys()
    with open_any(torch_file, dedup="keep") as f:
        assert set(f.keys()) == set(expected)


def test_numpy_and_sources(tmp_path):
    arrays = {
        "a": np.arange(12, dtype=">f4").reshape(3, 4),
        "b": np.asfortranarray(np.eye(5)),
        "c": np.int8(3),
    }
    np.savez(tmp_path / "plain.npz", **arrays)
    np.savez_compressed(tmp_path / "packed.npz", **arrays)
    for name in ("plain.npz", "packed.npz"):
        data = (tmp_path / name).read_bytes()
        for source in (tmp_path / name, data, io.BytesIO(data), open(tmp_path / name, "rb")):
            with open_any(source, "np") as f:
                for key, value in arrays.items():
                    value = np.asarray(value)
                    assert same(f[key], np.array(value, dtype=value.dtype.newbyteorder("="), order="C")), key
                assert f.keys() == ["a", "b", "c"]
            if hasattr(source, "close"):
                source.close()


def test_gguf():
    with open(os.path.join(FIXTURES, "arrays.json"), encoding="utf-8") as f:
        expected = json.load(f)
    assert expected
    path = os.path.join(FIXTURES, "types.gguf")
    with open_any(path, "np") as raw, open_any(path, "np", dequantize=True) as floats:
        noted = json.loads(raw.metadata()["gguf.tensors"])
        turned = 0
        for name, what in noted.items():
            assert raw[name].dtype == np.uint8
            if floats[name].dtype == np.float32:
                assert list(floats[name].shape) == what["shape"] and np.isfinite(floats[name]).all()
                turned += 1
        assert turned == len(noted) >= 3
        if __import__("importlib").util.find_spec("gguf"):
            import gguf  # pylint: disable=import-outside-toplevel,import-error

            for tensor in gguf.GGUFReader(path).tensors:
                if floats[tensor.name].dtype == np.float32:
                    assert np.array_equal(
                        gguf.dequantize(tensor.data, tensor.tensor_type), floats[tensor.name]
                    )


def test_safetensors_too(tmp_path):
    ours.save_file({"a": np.arange(3)}, tmp_path / "a.safetensors", metadata={"k": "v"})
    for source in (tmp_path / "a.safetensors", (tmp_path / "a.safetensors").read_bytes()):
        with open_any(source, "np") as f:
            assert f.metadata() == {"k": "v"} and f["a"].tolist() == [0, 1, 2]
    with open_any(tmp_path, "np") as f:  # a directory
        assert f.keys() == ["a"]


def test_a_folder_of_shards(tmp_path):
    parts = {
        "pytorch_model-00001-of-00002.bin": ["turned", "half"],
        "pytorch_model-00002-of-00002.bin": ["big"],
    }
    whole = state()
    hub = tmp_path / "hub"
    hub.mkdir()
    for file, names in parts.items():
        torch.save({n: whole[n] for n in names}, hub / file)
    where = {n: file for file, names in parts.items() for n in names}
    index = {"metadata": {"total_size": 0}, "weight_map": where}
    (hub / "pytorch_model.bin.index.json").write_text(json.dumps(index))
    with open_any(hub) as f:
        assert sorted(f.keys()) == sorted(where) and all(same(f[n], whole[n]) for n in where)
    report = convert(hub, tmp_path / "out", verify=True)
    assert (report["files"], report["tensors"], report["verified"]) == (2, 3, 3)
    with safe_open(tmp_path / "out", "pt") as f:
        assert sorted(f.keys()) == sorted(where) and all(same(f[n], whole[n]) for n in where)


def test_convert(torch_file, tmp_path):
    expected = torch.load(torch_file, weights_only=True)["state_dict"]
    out = tmp_path / "out.safetensors"
    seen = []
    report = convert(torch_file, out, verify=True, progress=lambda done, total: seen.append((done, total)))
    assert report["tensors"] == len(expected) - 1 == report["verified"] and report["aliases"] == 1
    assert report["format"] == "torch-" + ("zip" if torch_file.read_bytes()[:2] == b"PK" else "legacy")
    assert seen[-1][0] == seen[-1][1] == 2 * report["data_bytes"]
    loaded, metadata = safetensors_c.torch.load_file(out, with_metadata=True)
    assert metadata == {"format": "pt", "head.weight": "embed.weight"}
    assert all(same(loaded[n], expected[n]) for n in loaded) and len(loaded) == report["tensors"]
    with pytest.raises(FileExistsError):
        convert(torch_file, out)
    convert(
        torch_file,
        out,
        replace=True,
        select="*.weight",
        rename={"embed.weight": "e"},
        dtype="bf16",
        metadata={"k": "v"},
    )
    loaded, metadata = safetensors_c.torch.load_file(out, with_metadata=True)
    assert (
        list(loaded) == ["e"]
        and same(loaded["e"], expected["embed.weight"].to(torch.bfloat16))
        and metadata["k"] == "v"
    )
    for dtype in (torch.float16, np.float16, np.dtype("float16"), "float16", "F16"):
        convert(torch_file, out, replace=True, select=["big", "long"], dtype=dtype)
        loaded = safetensors_c.torch.load_file(out)
        assert same(loaded["big"], expected["big"].half()) and same(loaded["long"], expected["long"])
    convert(torch_file, out, replace=True, drop=lambda n: n != "long", dtype={"long": "int32"})
    assert same(safetensors_c.torch.load_file(out)["long"], expected["long"].int())
    plan = convert(torch_file, tmp_path / "none.safetensors", plan=True, max_shard_size="100KB")
    assert len(plan["plan"]) == plan["tensors"] and not (tmp_path / "none.safetensors").exists()
    assert {t["from_name"] for t in plan["plan"]} == set(expected) - {"head.weight"}
    report = convert(torch_file, tmp_path / "cut.safetensors", max_shard_size="100KB")
    assert report["files"] == len(list(tmp_path.glob("cut-*.safetensors"))) > 1
    with safe_open(tmp_path / "cut.safetensors.index.json", "pt") as f:
        assert same(f["big"], expected["big"])


def test_convert_tells_what_it_does_not_find(torch_file, tmp_path):
    out = tmp_path / "out.safetensors"
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        convert(
            torch_file,
            out,
            select=(n for n in ("big", "Big")),
            rename={"big": "b", "bog": "c"},
            dtype={"long": "I32", "nobody": "F16"},
        )
    assert [(w.filename, str(w.message)) for w in told] == [
        (__file__, f"{word}: {name!r} is no tensor of the input")
        for word, name in (("select", "Big"), ("rename", "bog"), ("dtype", "nobody"))
    ]
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        convert(torch_file, out, replace=True, select="*", drop="x.*", dtype=torch.float16)
        convert(
            torch_file,
            out,
            replace=True,
            select=["embed.weight", "head.weight"],
            rename={"head.weight": "h"},
            drop=lambda n: False,
        )
    assert [str(w.message) for w in told] == ["drop: 'x.*' is no tensor of the input"]
    assert list(safetensors_c.torch.load_file(out)) == ["embed.weight"]


def test_convert_into_others(tmp_path):
    tensors = {k: v for k, v in state().items() if k not in ("half", "f8")}
    safetensors_c.torch.save_file(
        {k: v.clone().contiguous() for k, v in tensors.items()}, tmp_path / "a.safetensors"
    )
    assert convert(tmp_path / "a.safetensors", tmp_path / "a.pt", verify=True)["verified"] == len(tensors)
    loaded = torch.load(tmp_path / "a.pt", weights_only=True)
    assert all(same(loaded[n], tensors[n]) for n in tensors)
    convert(tmp_path / "a.safetensors", tmp_path / "a.npz")
    with np.load(tmp_path / "a.npz") as f:
        assert all(same(f[n], tensors[n].contiguous().numpy()) for n in tensors)
    convert(
        tmp_path / "a.safetensors",
        tmp_path / "x",
        to="gguf",
        select="big",
        metadata={"general.architecture": "x"},
    )
    with open_any(tmp_path / "x") as f:
        assert same(f["big"], tensors["big"]) and f.metadata()["general.architecture"] == "x"
    with pytest.raises(SafetensorError) as caught:
        convert(
            tmp_path / "a.safetensors",
            tmp_path / "y.gguf",
            select="flag",
            metadata={"general.architecture": "x"},
        )
    assert caught.value.status == "SFT_E_UNSUPPORTED" and "flag" in str(caught.value)
    assert not (tmp_path / "y.gguf").exists()
    with pytest.raises(ValueError, match="without shards"):
        convert(tmp_path / "a.safetensors", tmp_path / "y.npz", max_shard_size=1)
    with pytest.raises(ValueError, match="none of"):
        convert(tmp_path / "a.safetensors", tmp_path / "y", to="zip")


def test_an_optimizer_there_and_back(tmp_path):
    """Train, keep, convert, come back, and train on: bit for bit as if nothing had been between."""

    def fresh():
        torch.manual_seed(1)
        model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, amsgrad=True)
        schedulers = [
            torch.optim.lr_scheduler.StepLR(optimizer, 3),
            torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9),
        ]
        return model, optimizer, schedulers

    def train(model, optimizer, schedulers, steps):
        for i in steps:
            x = torch.randn(4, 8, generator=torch.Generator().manual_seed(i))
            optimizer.zero_grad()
            model(x).square().mean().backward()
            optimizer.step()
            for s in schedulers:
                s.step()

    straight = fresh()
    train(*straight, range(8))
    model, optimizer, schedulers = fresh()
    train(model, optimizer, schedulers, range(4))
    kept = {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "schedulers": [s.state_dict() for s in schedulers],
    }
    torch.save(kept, tmp_path / "a.pt")
    convert(tmp_path / "a.pt", tmp_path / "a.safetensors", tree=True)
    for load in (lambda: safetensors_c.load_tree(tmp_path / "a.safetensors"), lambda: back(tmp_path)):
        loaded = load()
        model, optimizer, schedulers = fresh()
        model.load_state_dict(loaded["model"])
        optimizer.load_state_dict(loaded["optimizer"])
        for s, d in zip(schedulers, loaded["schedulers"]):
            s.load_state_dict(d)
        train(model, optimizer, schedulers, range(4, 8))
        assert all(same(a, b) for a, b in zip(model.parameters(), straight[0].parameters()))
        assert schedulers[0].get_last_lr() == straight[2][0].get_last_lr()


def back(tmp_path):
    convert(tmp_path / "a.safetensors", tmp_path / "b.pt", replace=True)
    return torch.load(tmp_path / "b.pt", weights_only=True)


class Runs:
    def __reduce__(self):
        return os.mkdir, ("runs-was-here",)


def test_nothing_is_executed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    torch.save({"w": torch.ones(3), "x": Runs(), "args": argparse.Namespace(a=1)}, "bad.pt")
    with pytest.raises(SafetensorError) as caught:
        open_any("bad.pt")
    assert caught.value.status == "SFT_E_UNSUPPORTED" and "mkdir" in str(caught.value)
    with pytest.warns(UserWarning, match="left out.*mkdir"), open_any("bad.pt", allow_opaque=True) as f:
        assert f.keys() == ["w"] and same(f["w"], torch.ones(3))
    report = convert("bad.pt", "good.safetensors", allow_opaque=True)
    assert report["tensors"] == 1 and any("mkdir" in why for _, why in report["left_out_parts"])
    assert sorted(os.listdir(".")) == ["bad.pt", "good.safetensors"]


def test_errors(tmp_path):
    with pytest.raises(FileNotFoundError):
        open_any(tmp_path / "none.pt")
    (tmp_path / "text").write_text("hello, this is no weight file at all")
    with pytest.raises(SafetensorError) as caught:
        open_any(tmp_path / "text")
    assert caught.value.status == "SFT_E_FORMAT" and "known weight format" in str(caught.value)
    torch.save({"a": torch.ones(3)}, tmp_path / "a.pt")
    data = (tmp_path / "a.pt").read_bytes()
    for cut in range(1, len(data), 61):
        with pytest.raises(SafetensorError):
            open_any(data[:cut])
    with pytest.raises(SafetensorError) as caught:
        open_any(tmp_path / "a.pt", key="b")
    assert caught.value.status == "SFT_E_NOT_FOUND"
    with pytest.raises(ValueError, match="dedup"):
        open_any(tmp_path / "a.pt", dedup="all")
    with pytest.raises(TypeError, match="key"):
        open_any(tmp_path / "a.pt", key=3)
    with pytest.raises(ZeroDivisionError):
        convert(tmp_path / "a.pt", tmp_path / "o.safetensors", select=lambda n: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        convert(tmp_path / "a.pt", tmp_path / "o.safetensors", progress=lambda a, b: 1 / 0)
    with pytest.raises(ValueError, match="unknown dtype"):
        convert(tmp_path / "a.pt", tmp_path / "o.safetensors", dtype="f99")
    with pytest.raises(ValueError, match="max_shard_size"):
        convert(tmp_path / "a.pt", tmp_path / "o.safetensors", max_shard_size="5 apples")
    with pytest.raises(SafetensorError) as caught:
        convert([tmp_path / "a.pt", tmp_path / "a.pt"], tmp_path / "o.safetensors")
    assert caught.value.status == "SFT_E_DUPLICATE" and caught.value.tensor == "a"
    assert not list(tmp_path.glob("o*"))
    np.save(tmp_path / "z.npy", np.ones(3, dtype=np.complex128))
    with open_any(tmp_path / "z.npy", "np") as f, pytest.raises(SafetensorError):
        f["arr_0"]  # pylint: disable=pointless-statement


def test_the_package_alone(tmp_path):
    """What `pip install` of the package gives, where no library of ours is: other formats, conversions, checkpoints."""
    np.savez_compressed(tmp_path / "a.npz", a=np.arange(1000))
    ranks = tmp_path / "ranks"
    ranks.mkdir()
    ours.save_file({"a": np.arange(4)}, ranks / "model.safetensors")
    script = (
        "import safetensors_c as s, safetensors_c.distributed as d\n"
        "print(s.open_any('a.npz', 'np')['a'].sum())\n"
        "s.convert('a.npz', 'a.safetensors')\n"
        "print(s.safe_open('a.safetensors', 'np')['a'].sum())\n"
        "print(d.open_checkpoint('ranks')['a'].tolist())\n"
        "print('libsafetensors' in open('/proc/self/maps').read(), s.__file__)\n"
    )
    env = {k: v for k, v in os.environ.items() if not k.startswith(("SAFETENSORS", "LD_"))}
    done = subprocess.run(
        [sys.executable, "-c", script], env=env, capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert done.stdout.splitlines()[:3] == ["499500", "499500", "[0, 1, 2, 3]"]
    assert done.stdout.splitlines()[3].startswith("False ")


def test_safetensors_files_never_wait_for_it(tmp_path):
    ours.save_file({"a": np.arange(3)}, tmp_path / "a.safetensors")
    script = (
        "import safetensors_c as s, sys\nf = s.safe_open(sys.argv[1], 'np'); f['a']\n"
        "print('curl' in open('/proc/self/maps').read(), 'safetensors_c._convert' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "a.safetensors")],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "False False\n"


VIEWED = {
    "a.weight": np.array([[0x3F80, 0x4000]], "<u2"),
    "a.bias": np.array([0xC000], "<u2"),
    "step": np.array([3], "<i8"),
}


@pytest.mark.parametrize("dtype", ["BF16", "bf16", "bfloat16", torch.bfloat16])
def test_view_as_says_what_elements_are(tmp_path, dtype):
    np.savez(tmp_path / "m.npz", **{n: v.view("V2") if v.dtype == "<u2" else v for n, v in VIEWED.items()})
    wanted = {
        n: torch.from_numpy(v).view(torch.bfloat16 if v.dtype == "<u2" else torch.int64)
        for n, v in VIEWED.items()
    }
    with open_any(tmp_path / "m.npz", view_as={"a.*": dtype}) as f:
        got = {n: f.get_tensor(n) for n in f.keys()}
        assert f.get_slice("a.weight").get_dtype() == "BF16"
        assert torch.equal(f.get_slice("a.weight")[:, 1:], wanted["a.weight"][:, 1:])
        again = pickle.loads(pickle.dumps(f))  # what it was told goes with it
        assert torch.equal(again.get_tensor("a.bias"), wanted["a.bias"])
    assert all(same(got[n], wanted[n]) for n in wanted) and len(got) == 3
    with open_any((tmp_path / "m.npz").read_bytes(), view_as={"a.*": dtype}) as f:
        assert torch.equal(f.get_tensor("a.bias"), wanted["a.bias"])
    convert(tmp_path / "m.npz", tmp_path / "m.safetensors", view_as={"a.*": dtype})
    assert all(
        same(t, wanted[n]) for n, t in safetensors_c.torch.load_file(tmp_path / "m.safetensors").items()
    )
    convert(tmp_path / "m.npz", tmp_path / "m.pt", view_as={"*": "F16", "a.*": dtype, "step": "F64"})
    assert torch.load(tmp_path / "m.pt")["a.bias"].dtype == torch.bfloat16  # the last glob that fits


def test_view_as_is_refused_or_told(tmp_path):
    path = tmp_path / "m.npz"
    np.savez(path, **VIEWED)
    for wrong, error in (
        ({"a.*": "F99"}, ValueError),
        ({"a.*": 7}, ValueError),
        ("a.*=BF16", TypeError),
        ({7: "BF16"}, TypeError),
        ([("a.*", "BF16")], TypeError),
        ({"a.*": "F32"}, SafetensorError),
        ({"a.*": ""}, ValueError),
    ):
        with pytest.raises(error):
            open_any(path, view_as=wrong)
        with pytest.raises(error):
            convert(path, tmp_path / "out.safetensors", view_as=wrong)
    assert os.listdir(tmp_path) == ["m.npz"]
    with pytest.warns(UserWarning, match="'b.\\*' fits no tensor"):
        open_any(path, view_as={"a.*": "BF16", "b.*": "BF16"})
    with pytest.warns(UserWarning, match="'b.\\*' fits no tensor"):
        convert(path, tmp_path / "out.safetensors", view_as={"b.*": "BF16"})
    safetensors_c.torch.save_file({"a": torch.ones(2)}, tmp_path / "s.safetensors")
    with pytest.warns(UserWarning, match="fits no tensor"):  # safetensors say their types
        assert (
            open_any(tmp_path / "s.safetensors", view_as={"*": "BF16"}).get_tensor("a").dtype == torch.float32
        )
    with open_any(path, view_as=None) as f, open_any(path, view_as={}) as g:
        assert f.get_slice("a.bias").get_dtype() == g.get_slice("a.bias").get_dtype() == "U16"


def test_slices_of_other_names(tmp_path):
    """Tied weights have one tensor and another name; slices take both, as get_tensor does, and keys() has one."""
    weight = torch.arange(12.0).reshape(3, 4)
    torch.save({"embed": weight, "head": weight, "own": torch.ones(2)}, tmp_path / "m.pt")
    with open_any(tmp_path / "m.pt") as f:
        assert len(f.keys()) == 2 and "head" in f and "embed" in f
        for name in ("embed", "head"):
            piece = f.get_slice(name)
            assert piece.get_shape() == [3, 4] and torch.equal(piece[1:, :2], weight[1:, :2])
            assert torch.equal(f.get_tensor(name), weight)
        with pytest.raises(SafetensorError):
            f.get_slice("absent")
