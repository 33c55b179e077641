# SPDX-License-Identifier: Apache-2.0 OR MIT
"""safetensors_c.torch: results, messages, and what keyword arguments add."""

from __future__ import annotations

import io
import os

import pytest

torch = pytest.importorskip("torch")

from safetensors_c import SafetensorError, safe_open  # noqa: E402
from safetensors_c import torch as st  # noqa: E402

DTYPES = sorted(st._TYPES.items())


def bits(tensor):
    return tensor.contiguous().reshape(-1).view(torch.uint8)


def equal(a, b):
    return a.dtype == b.dtype and a.shape == b.shape and torch.equal(bits(a), bits(b))


def sample(code, shape=(4, 6)):
    size = st._SIZE[st._TYPES[code]]
    count = size
    for n in shape:
        count *= n
    raw = torch.randint(0, 2 if code == "BOOL" else 256, (count,), dtype=torch.uint8)
    return raw.view(st._TYPES[code]).reshape(shape)


@pytest.mark.parametrize("code,dtype", DTYPES)
@pytest.mark.parametrize("backend", ["mmap", "pread"])
def test_every_dtype_comes_back(tmp_path, code, dtype, backend):
    tensor = sample(code)
    path = tmp_path / "t.safetensors"
    st.save_file({"t": tensor, "empty": torch.empty((0, 2), dtype=dtype)}, path)
    loaded = st.load_file(path, backend=backend)
    assert equal(loaded["t"], tensor)
    assert loaded["empty"].dtype == dtype and list(loaded["empty"].shape) == [0, 2]
    again = st.load(st.save({"t": tensor}))
    assert equal(again["t"], tensor)
    with safe_open(path, "pt") as f:
        assert f.get_slice("t").get_dtype() == code


def test_scalars_and_order(tmp_path):
    path = tmp_path / "t.safetensors"
    tensors = {"b": torch.tensor(1.5), "a": torch.tensor(2, dtype=torch.int64), "c": torch.ones(3)}
    st.save_file(tensors, path)
    loaded = st.load_file(path)
    assert list(loaded) == ["a", "b", "c"]
    assert loaded["b"].shape == () and loaded["b"].item() == 1.5


def test_loaded_tensors_are_writable_and_private(tmp_path):
    path = tmp_path / "t.safetensors"
    st.save_file({"a": torch.ones(1000)}, path)
    before = path.read_bytes()
    first = st.load_file(path)["a"]
    first.zero_()
    assert path.read_bytes() == before
    assert torch.equal(st.load_file(path)["a"], torch.ones(1000))


def test_tensors_outlive_everything(tmp_path):
    path = tmp_path / "t.safetensors"
    st.save_file({"a": torch.arange(100000)}, path)
    a = st.load_file(path)["a"]
    os.remove(path)
    assert int(a.sum()) == 4999950000


@pytest.mark.parametrize(
    "tensors,error,text",
    [
        ([1], ValueError, "Expected a dict of [str, torch.Tensor] but received <class 'list'>"),
        ({"a": 1}, ValueError, "Key `a` is invalid, expected torch.Tensor but received <class 'int'>"),
        (
            {"a": torch.zeros(3, 3).to_sparse()},
            ValueError,
            "You are trying to save a sparse tensors: `['a']` which this library does not support."
            " You can make it a dense tensor before saving with `.to_dense()` but be aware this might"
            " make a much larger file than needed.",
        ),
        (
            {"a": torch.zeros(3, 4).t()},
            ValueError,
            "You are trying to save a non contiguous tensor: `a` which is not allowed. It either means you"
            " are trying to save tensors which are reference of each other in which case it's recommended to"
            " save only the full tensors, and reslice at load time, or simply call `.contiguous()` on your"
            " tensor to pack it before saving.",
        ),
        ({"a": torch.zeros(2, dtype=torch.complex128)}, KeyError, "torch.complex128"),
    ],
)
def test_refusals(tmp_path, tensors, error, text):
    for attempt in (lambda: st.save(tensors), lambda: st.save_file(tensors, tmp_path / "x")):
        with pytest.raises(error) as caught:
            attempt()
        assert str(caught.value) == text
    assert list(tmp_path.iterdir()) == []


def test_shared_memory_is_refused_with_the_known_text():
    a = torch.zeros(4, 4)
    with pytest.raises(RuntimeError) as caught:
        st.save({"a": a, "b": a[1:]})
    text = str(caught.value)
    assert "Some tensors share memory, this will lead to duplicate memory on disk" in text
    assert "A potential way to correctly save your model is to use `save_model`." in text


def test_shared_alias_shares_again(tmp_path):
    a = torch.randn(4, 6)
    tensors = {"a": a, "rows": a[1:3], "t": a.t()[2:4], "other": torch.ones(2)}
    path = tmp_path / "t.safetensors"
    st.save_file(tensors, path, metadata={"k": "v"}, shared="alias")
    loaded, metadata = st.load_file(path, with_metadata=True)
    assert set(loaded) == set(tensors) and metadata["k"] == "v"
    for name in tensors:
        assert torch.equal(loaded[name], tensors[name])
    loaded["a"].zero_()
    assert loaded["rows"].abs().sum() == 0 and loaded["t"].abs().sum() == 0
    assert set(st.load_file(path, aliases=False)) == {"a", "other"}
    assert set(st.load_file(path, select=["rows"])) == {"rows"}
    assert os.path.getsize(path) < a.nbytes + 8 + 1024


def test_shared_alias_without_a_whole_tensor(tmp_path):
    big = torch.arange(1000, dtype=torch.float32)
    tensors = {"x": big[1:5], "y": big[3:8], "z": big[2:6].view(torch.int32)}
    path = tmp_path / "t.safetensors"
    st.save_file(tensors, path, shared="alias")
    loaded = st.load_file(path)
    assert set(loaded) == {"x", "y", "z"}
    assert all(equal(loaded[n], tensors[n]) for n in tensors)
    loaded["x"][3] = -1
    assert loaded["y"][1] == -1
    assert os.path.getsize(path) < 1000  # the union of the views, not the storage


def test_shared_copy(tmp_path):
    a = torch.randn(4)
    st.save_file({"a": a, "b": a[1:]}, tmp_path / "t", shared="copy")
    loaded = st.load_file(tmp_path / "t")
    assert torch.equal(loaded["b"], a[1:])
    with pytest.raises(ValueError, match="shared is"):
        st.save_file({"a": a}, tmp_path / "t", shared="maybe")


@pytest.mark.parametrize(
    "change",
    [
        {"offset": 3},
        {"shape": [5]},
        {"stride": [4]},
        {"offset": -1},
        {"shape": [-1]},
        {"dtype": "F99"},
        {"of": "nobody"},
        {"shape": [1 << 61], "stride": [0]},
        {"shape": [2, 2]},
        {"stride": [1 << 62]},
    ],
)
def test_a_hostile_alias_never_leaves_its_tensor(tmp_path, change):
    import json

    entry = {"of": "a", "dtype": "F32", "shape": [2], "stride": [1], "offset": 0, **change}
    path = tmp_path / "t"
    st.save_file({"a": torch.zeros(4)}, path, {"sft.aliases": json.dumps({"v": entry})})
    if change.get("stride") == [0]:  # stays inside: a broadcast of one element
        assert st.load_file(path)["v"].untyped_storage().nbytes() < 1 << 20
        return
    with pytest.raises(SafetensorError):
        st.load_file(path)


def test_force_contiguous(tmp_path):
    a = torch.arange(12).reshape(3, 4).t()
    st.save_file({"a": a}, tmp_path / "t", force_contiguous=True)
    assert torch.equal(st.load_file(tmp_path / "t")["a"], a)
    assert torch.equal(st.load(st.save({"a": a}, force_contiguous=True))["a"], a)


def test_conjugated_and_negated_views_keep_their_values(tmp_path):
    z = torch.randn(4, dtype=torch.complex64)
    st.save_file({"z": z.conj()}, tmp_path / "t")
    assert torch.equal(st.load_file(tmp_path / "t")["z"], z.conj().resolve_conj())
    minus = z.conj().imag  # a view with the negative bit
    assert minus.is_neg()
    st.save_file({"m": minus}, tmp_path / "t", force_contiguous=True)
    assert torch.equal(st.load_file(tmp_path / "t")["m"], minus.resolve_neg())


def test_select_rename_dtype(tmp_path):
    path = tmp_path / "t"
    tensors = {"l.0.w": torch.randn(3), "l.1.w": torch.randn(3), "n": torch.arange(3)}
    st.save_file(tensors, path, {"format": "pt"})
    assert set(st.load_file(path, select="l.*")) == {"l.0.w", "l.1.w"}
    assert list(st.load_file(path, select=["n", "l.0.w"])) == ["n", "l.0.w"]
    assert set(st.load_file(path, select=lambda name: name.endswith("1.w"))) == {"l.1.w"}
    with pytest.raises(SafetensorError, match="File does not contain tensor nope"):
        st.load_file(path, select=["nope"])
    renamed = st.load_file(path, rename=lambda name: "model." + name)
    assert set(renamed) == {"model.l.0.w", "model.l.1.w", "model.n"}
    assert "x" in st.load_file(path, rename={"n": "x"})
    with pytest.raises(ValueError, match="to two tensors"):
        st.load_file(path, rename=lambda name: "same")
    half = st.load_file(path, dtype=torch.bfloat16)
    assert half["l.0.w"].dtype is torch.bfloat16 and half["n"].dtype is torch.int64
    assert torch.equal(half["l.0.w"], tensors["l.0.w"].bfloat16())
    assert st.load_file(path, dtype={"n": torch.float64})["n"].dtype is torch.float64
    assert st.load_file(path, dtype="float16")["l.1.w"].dtype is torch.float16


def test_blocks_are_no_numbers(tmp_path):
    path = tmp_path / "t"
    blocks = torch.arange(36, dtype=torch.uint8).reshape(2, 18)
    noted = {"gguf.tensors": '{"q": {"type": "Q4_0", "shape": [2, 32]}}'}
    st.save_file({"q": blocks, "u": blocks + 1, "w": torch.ones(2)}, path, noted)
    for refused in (
        lambda: st.load_file(path, dtype={"q": torch.float32}),
        lambda: st.load_into({"q": torch.zeros(2, 18)}, path, strict=False),
    ):
        with pytest.raises(SafetensorError, match="blocks of a quantised type"):
            refused()
    loaded = st.load_file(path, dtype={"q": torch.uint8, "u": torch.float32})
    assert torch.equal(loaded["q"], blocks) and torch.equal(loaded["u"], (blocks + 1).float())
    assert st.load_file(path, dtype=torch.float16)["q"].dtype is torch.uint8
    st.save_file({"q": blocks}, path, {"gguf.tensors": "[" * 100000})  # some other text
    assert st.load_file(path, dtype={"q": torch.float32})["q"].dtype is torch.float32


def test_metadata_from_load_file(tmp_path):
    st.save_file({"a": torch.ones(1)}, tmp_path / "t", {"format": "pt", "é": "ü\n"})
    _, metadata = st.load_file(tmp_path / "t", with_metadata=True)
    assert metadata == {"format": "pt", "é": "ü\n"}
    st.save_file({"a": torch.ones(1)}, tmp_path / "t")
    assert st.load_file(tmp_path / "t", with_metadata=True)[1] is None


def test_streams_and_buffers(tmp_path):
    tensors = {"a": torch.randn(5, 5), "b": torch.arange(3)}
    stream = io.BytesIO()
    st.save_file(tensors, stream, {"k": "v"})
    assert stream.getvalue() == st.save(tensors, {"k": "v"})
    data = stream.getvalue()
    for source in (data, bytearray(data), memoryview(data), io.BytesIO(data)):
        loaded = st.load_file(source)
        assert all(equal(loaded[n], tensors[n]) for n in tensors)
        assert torch.equal(
            st.load_file(source if not hasattr(source, "seek") else io.BytesIO(data), select=["b"])["b"],
            tensors["b"],
        )
    for source in (bytearray(data), memoryview(data)):
        assert equal(st.load(source)["a"], tensors["a"])


def test_load_into(tmp_path):
    path = tmp_path / "t"
    source = {"a": torch.randn(50, 5), "b": torch.randn(4), "c": torch.arange(6).reshape(2, 3)}
    st.save_file(source, path)
    target = {"a": torch.zeros(50, 5), "b": torch.zeros(8)[::2], "c": torch.zeros(2, 3)}
    addresses = {n: t.data_ptr() for n, t in target.items()}
    assert st.load_into(target, path) == ([], [])
    assert torch.equal(target["a"], source["a"]) and torch.equal(target["b"], source["b"])
    assert torch.equal(target["c"], source["c"].float())  # cast by copy_
    assert addresses == {n: t.data_ptr() for n, t in target.items()}
    with pytest.raises(KeyError, match="missing in the file: .'d'"):
        st.load_into({**target, "d": torch.zeros(1)}, path)
    assert st.load_into({"a": target["a"], "d": torch.zeros(1)}, path, strict=False) == (["d"], ["c", "b"])
    with pytest.raises(ValueError, match="has the shape"):
        st.load_into({"a": torch.zeros(2)}, path, strict=False)
    module = torch.nn.Linear(5, 3)
    st.save_file({"m.weight": torch.ones(3, 5), "m.bias": torch.ones(3)}, path)
    st.load_into(dict(module.named_parameters()), path, rename=lambda n: n[2:])
    assert torch.equal(module.weight, torch.ones(3, 5))


def test_save_stream_makes_one_tensor_at_a_time(tmp_path):
    plan = {f"t{i}": torch.empty(100, device="meta") for i in range(20)}
    alive = []

    def produce(name):
        import weakref

        assert sum(ref() is not None for ref in alive) <= 1
        tensor = torch.full((100,), float(name[1:]))
        alive.append(weakref.ref(tensor))
        return tensor

    path = tmp_path / "t"
    st.save_stream(plan, produce, path, {"k": "v"})
    wanted = {f"t{i}": torch.full((100,), float(i)) for i in range(20)}
    assert path.read_bytes() == st.save(wanted, {"k": "v"})
    with pytest.raises(ValueError, match="was planned as F32"):
        st.save_stream(plan, lambda name: torch.zeros(3), tmp_path / "bad")
    assert not (tmp_path / "bad").exists()


def test_a_failing_producer_leaves_the_old_file(tmp_path):
    path = tmp_path / "t"
    path.write_bytes(b"old")

    def produce(name):
        if name == "b":
            raise OSError("gone")
        return torch.ones(3)

    with pytest.raises(OSError, match="gone"):
        st.save_stream({"a": (torch.float32, [3]), "b": (torch.float32, [3])}, produce, path)
    assert path.read_bytes() == b"old" and os.listdir(tmp_path) == ["t"]


@pytest.mark.parametrize("kind", ["crc32c", "sha256"])
def test_digests_and_verify(tmp_path, kind):
    path = tmp_path / "t"
    tensors = {"a": torch.randn(1000), "b": torch.arange(10)}
    st.save_file(tensors, path, {"k": "v"}, digests=kind)
    loaded = st.load_file(path, verify=True)
    assert all(equal(loaded[n], tensors[n]) for n in tensors)
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    st.load_file(path)
    with pytest.raises(SafetensorError):
        st.load_file(path, verify=True)
    st.save_file(tensors, path)
    with pytest.raises(SafetensorError):
        st.load_file(path, verify=True)


def test_progress(tmp_path):
    seen = []
    tensors = {"a": torch.ones(100), "b": torch.ones(50)}
    path = tmp_path / "t"
    st.save_file(tensors, path, progress=lambda done, total: seen.append((done, total)))
    assert seen[-1][0] == seen[-1][1] >= 600 and seen == sorted(seen)  # the bytes of the file
    seen.clear()
    st.save_file(tensors, io.BytesIO(), progress=lambda done, total: seen.append((done, total)))
    assert seen == [(0, 600), (400, 600), (600, 600)]
    seen.clear()
    st.load_file(path, progress=lambda done, total: seen.append((done, total)))
    assert seen[0] == (0, 600) and seen[-1] == (600, 600)

    def stop(done, total):
        raise KeyboardInterrupt

    for target in (tmp_path / "new", io.BytesIO()):
        with pytest.raises(KeyboardInterrupt):
            st.save_file(tensors, target, progress=stop)
    assert os.listdir(tmp_path) == ["t"]


class Tied(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a = torch.nn.Linear(4, 4)
        self.b = self.a


def test_save_model_and_load_model(tmp_path):
    path = tmp_path / "m"
    model, notes = Tied(), {"k": "v"}
    st.save_model(model, path, metadata=notes)
    assert notes == {"k": "v"}
    with safe_open(path, "pt") as f:
        assert f.metadata() == {"k": "v", "b.weight": "a.weight", "b.bias": "a.bias"}
        assert f.keys() == ["a.bias", "a.weight"]
    other = Tied()
    assert st.load_model(other, path) == (set(), [])
    assert torch.equal(other.b.weight, model.a.weight)
    with pytest.raises(RuntimeError) as caught:
        st.load_model(torch.nn.Linear(4, 4), path)
    assert str(caught.value) == (
        "Error(s) in loading state_dict for Linear:"
        '\n    Missing key(s) in state_dict: "bias", "weight"'
        '\n    Unexpected key(s) in state_dict: "a.bias", "a.weight"'
    )
    strided = torch.nn.Linear(4, 3)
    strided.weight = torch.nn.Parameter(torch.zeros(4, 3).t())
    with pytest.raises(ValueError, match=r"Or use save_model\(..., force_contiguous=True\)"):
        st.save_model(strided, path, force_contiguous=False)


def test_helpers_that_programs_import():
    a = torch.arange(6, dtype=torch.float32).reshape(2, 3)
    array, owner = st._to_ndarray(a)
    assert array.tobytes() == a.numpy().tobytes() and array.ctypes.data == a.data_ptr()
    assert st._tobytes(a, "a") == a.numpy().tobytes()
    assert st._flatten({"a": a})["a"]["dtype"] == "float32"
    assert st._getdtype("BF16") is torch.bfloat16 and st._SIZE[torch.float64] == 8
    assert st.storage_ptr(a[1:]) == a.data_ptr() and st.storage_size(a[1:]) == 24
    assert st._end_ptr(a.t()) == a.data_ptr() + 24
    assert st._filter_shared_not_shared([{"x"}], {"x": a}) == [{"x"}]
    assert st._is_complete(a) and not st._is_complete(a[1:])
    assert st._view2torch([("a", {"dtype": "F32", "shape": [1], "data": bytearray(4)})])["a"] == 0
    keep = []
    assert st._flatten_as_ptr({"a": a}, keep)["a"].data_ptr == a.data_ptr() and keep
    assert st.safe_open is safe_open
