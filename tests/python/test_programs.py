# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What programs do with the package beside calling it: they iterate over slices, ask handles for their truth,
replace functions of its modules, hand it tensors that have no memory, import its private names, look into its
directory. Each as with `safetensors`; compare_api.py compares the rest name by name.
"""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import pytest

torch = pytest.importorskip("torch")
np = pytest.importorskip("numpy")

import safetensors_c  # noqa: E402
import safetensors_c.numpy as sn  # noqa: E402
import safetensors_c.torch as st  # noqa: E402
from safetensors_c import SafetensorError, safe_open  # noqa: E402

WAYS = [(f, b) for f in ("pt", "np") for b in ("mmap", "pread")]


@pytest.fixture
def path(tmp_path):
    tensors = {
        "a": torch.arange(12.0).reshape(3, 4),
        "empty": torch.zeros(0, 4),
        "flat": torch.arange(3),
        "scalar": torch.tensor(3.0),
        "wide": torch.zeros(2, 0),
    }
    st.save_file(tensors, tmp_path / "t")
    return tmp_path / "t"


# ---------------------------------------------------------------- slices and handles as objects


@pytest.mark.parametrize(("framework", "backend"), WAYS)
def test_rows_of_a_slice(path, framework, backend):
    with safe_open(path, framework, backend=backend) as f:
        whole = f.get_tensor("a")
        rows = list(f.get_slice("a"))
        assert len(rows) == 3 and all((row == whole[i]).all() for i, row in enumerate(rows))
        assert [i for i, _ in enumerate(f.get_slice("flat"))] == [0, 1, 2]
        first, second, third = f.get_slice("flat")
        assert (int(first), int(second), int(third)) == (0, 1, 2)
        assert list(f.get_slice("empty")) == []
        assert [tuple(row.shape) for row in f.get_slice("wide")] == [(0,), (0,)]
        assert 2 in f.get_slice("flat") and 7 not in f.get_slice("flat")
        if framework == "pt":
            assert torch.equal(torch.stack(list(f.get_slice("a"))), whole)
    assert [int(row) for row in f_after_close(path, framework, backend)] == [0, 1, 2]


def f_after_close(path, framework, backend):
    with safe_open(path, framework, backend=backend) as f:
        return f.get_slice("flat")


def test_no_rows_in_a_scalar(path):
    with safe_open(path, "pt") as f:
        assert list(f.get_slice("scalar")) == []  # torch's IndexError ends it
    with (
        safe_open(path, "np") as f,
        pytest.raises(SafetensorError, match="more slicing indexes than dimensions"),
    ):
        list(f.get_slice("scalar"))


@pytest.mark.parametrize(("framework", "backend"), WAYS)
def test_slices_and_handles_are_true(path, tmp_path, framework, backend):
    sn.save_file({}, tmp_path / "none")
    f = safe_open(path, framework, backend=backend)
    assert all(bool(f.get_slice(name)) for name in f.keys())
    nothing = safe_open(tmp_path / "none", framework, backend=backend)
    assert nothing and len(nothing) == 0
    nothing.close()
    assert nothing


# ---------------------------------------------------------------- replaced functions


class Call(Exception):
    """A replaced function was called."""


def three(tensors, filename, metadata=None):
    raise Call("save_file", sorted(tensors), str(filename), metadata)


def test_save_model_calls_the_save_file_of_its_module(monkeypatch, tmp_path):
    model = torch.nn.Linear(2, 3)
    monkeypatch.setattr(st, "save_file", three)
    for force in (True, False):
        with pytest.raises(Call) as e:
            st.save_model(model, tmp_path / "m", {"k": "v"}, force_contiguous=force)
        assert e.value.args == ("save_file", ["bias", "weight"], str(tmp_path / "m"), {"k": "v"})


def test_load_model_calls_the_load_file_of_its_module(monkeypatch):
    model = torch.nn.Linear(2, 3)
    state = {name: tensor + 1 for name, tensor in model.state_dict().items()}
    seen = []

    def load_file(filename, device="cpu", *, backend="mmap"):
        seen.append((filename, device, backend))
        return state

    monkeypatch.setattr(st, "load_file", load_file)
    assert st.load_model(model, "nowhere", backend="pread") == (set(), [])
    assert seen == [("nowhere", "cpu", "pread")] and torch.equal(model.bias, state["bias"])


class Stub:
    """As much of a handle as the reference's load_file needs."""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return None

    def get_tensors(self):
        return {"stub": 1}


@pytest.mark.parametrize("name", ["torch", "numpy"])
def test_load_file_opens_with_the_safe_open_of_its_module(monkeypatch, name):
    module = {"torch": st, "numpy": sn}[name]
    seen = []

    def opened(*args, **kwargs):
        seen.append((args, kwargs))
        return Stub()

    monkeypatch.setattr(module, "safe_open", opened)
    assert module.load_file("nowhere", backend="pread") == {"stub": 1}
    wanted = {"framework": "pt", "device": "cpu"} if name == "torch" else {"framework": "np"}
    assert seen == [(("nowhere",), {**wanted, "backend": "pread"})]


def test_a_safe_open_that_passes_on_changes_nothing(monkeypatch, path, tmp_path):
    monkeypatch.setattr(st, "safe_open", lambda *a, **k: safe_open(*a, **k))
    a = torch.arange(4.0)
    st.save_file({"a": a, "b": a[1:3]}, tmp_path / "shared", shared="alias")
    assert sorted(st.load_file(tmp_path / "shared")) == ["a", "b"]
    tensors, metadata = st.load_file(path, with_metadata=True)
    assert len(tensors) == 5 and metadata is None


@pytest.mark.parametrize("name", ["torch", "numpy"])
def test_save_calls_the_serializers_of_its_module(monkeypatch, tmp_path, name):
    module = {"torch": st, "numpy": sn}[name]
    tensors = {"a": torch.zeros(2) if name == "torch" else np.zeros(2, "f4")}
    seen = []

    def serialize_file(tensor_dict, filename, metadata=None):
        seen.append((list(tensor_dict), str(filename), metadata))

    monkeypatch.setattr(module, "serialize_file", serialize_file)
    monkeypatch.setattr(module, "serialize", lambda tensor_dict, metadata=None: bytearray(b"bytes"))
    module.save_file(tensors, tmp_path / "m", {"k": "v"})
    assert seen == [(["a"], str(tmp_path / "m"), {"k": "v"})]
    data = module.save(tensors)
    assert data == b"bytes" and type(data) is bytes
    monkeypatch.setattr(module, "deserialize", lambda data: [])
    assert module.load(b"") == {}


def test_the_helpers_are_looked_up_when_they_are_needed(monkeypatch, tmp_path):
    monkeypatch.setattr(st, "_find_shared_tensors", lambda tensors: [])
    a = torch.zeros(4)
    assert len(st.load(st.save({"a": a, "b": a}))) == 2  # not found, not refused
    monkeypatch.undo()
    other = torch.arange(2.0)
    monkeypatch.setattr(st, "_to_ndarray", lambda tensor: (other.numpy(), other))
    assert torch.equal(st.load(st.save({"a": torch.zeros(2)}))["a"], other)
    monkeypatch.setattr(st, "_view2torch", lambda flat: len(flat))
    assert st.load(sn.save({"a": np.zeros(1)})) == 1


@pytest.mark.parametrize("name", ["flax", "tensorflow"])
def test_the_others_call_numpy(monkeypatch, tmp_path, name):
    pytest.importorskip({"flax": "jax"}.get(name, name))
    from importlib import import_module

    module = import_module(f"safetensors_c.{name}")
    monkeypatch.setattr(sn, "save_file", three)
    with pytest.raises(Call):
        module.save_file({}, tmp_path / "m")
    monkeypatch.setattr(sn, "load", lambda data: {"k": np.zeros(1)})
    assert list(module.load(b"")) == ["k"]
    monkeypatch.setattr(module, "safe_open", lambda *a, **k: Stub())
    assert module.load_file("nowhere") == {"stub": 1}


# ---------------------------------------------------------------- tensors without memory


class Wrapper(torch.Tensor):
    @staticmethod
    def __new__(cls, inner):
        made = torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)
        made.inner = inner
        return made

    @classmethod
    def __torch_dispatch__(cls, function, types, args, kwargs=None):
        args = [a.inner if isinstance(a, Wrapper) else a for a in args]
        out = function(*args, **(kwargs or {}))
        return Wrapper(out) if isinstance(out, torch.Tensor) else out


@pytest.mark.filterwarnings("ignore:TypedStorage is deprecated")
@pytest.mark.parametrize("kind", ["wrapper", "zero"])
def test_a_tensor_without_storage_is_named(tmp_path, kind):
    tensor = Wrapper(torch.zeros(3)) if kind == "wrapper" else torch._efficientzerotensor((3,))
    with pytest.raises(RuntimeError, match="invalid python storage"):
        st.storage_ptr(tensor)
    tensors = {"good": torch.zeros(2), "layers.0.bad": tensor}
    module = torch.nn.Module()
    module.state_dict = lambda *a, **k: dict(tensors)
    for call in (
        lambda: st.save(tensors),
        lambda: st.save_file(tensors, tmp_path / "t"),
        lambda: st.save_model(module, tmp_path / "t"),
        lambda: st._find_shared_tensors(tensors),
        lambda: st._remove_duplicate_names(tensors),
    ):
        with pytest.raises(RuntimeError, match="invalid python storage") as e:
            call()
        assert "`layers.0.bad`" in str(e.value)
    assert not (tmp_path / "t").exists()


def test_a_dtensor_is_named(tmp_path):
    import torch.distributed as dist
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Replicate, distribute_tensor

    code = dist.is_initialized()
    if not code:
        dist.init_process_group("gloo", init_method=f"file://{tmp_path}/group", rank=0, world_size=1)
    try:
        tensor = distribute_tensor(torch.zeros(2, 3), init_device_mesh("cpu", (1,)), [Replicate()])
        with pytest.raises(RuntimeError, match="invalid python storage.*`w`.*DTensor"):
            st.save_file({"w": tensor}, tmp_path / "t")
    finally:
        if not code:
            dist.destroy_process_group()


def test_a_released_storage_is_named(tmp_path):
    tensor = torch.zeros(4)
    tensor.untyped_storage().resize_(0)
    assert st.storage_ptr(tensor) == 0
    with pytest.raises(SafetensorError, match="invalid shape, data type, or offset for tensor `gone`"):
        st.save_file({"gone": tensor}, tmp_path / "t")


@pytest.mark.parametrize("backend", ["mmap", "pread"])
def test_fake_tensors_under_fake_tensor_mode(path, backend):
    from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

    st.save_file({"f8": torch.zeros(3).to(torch.float8_e4m3fn)}, str(path) + "8")
    with FakeTensorMode():
        loaded = st.load_file(path, backend=backend)
        loaded.update(st.load_file(str(path) + "8", backend=backend))
        with safe_open(path, "pt", backend=backend) as f:
            loaded["one"] = f.get_tensor("a")
            loaded["part"] = f.get_slice("a")[1:]
        loaded["bytes"] = st.load(path.read_bytes())["a"]
    assert all(type(t) is FakeTensor for t in loaded.values())
    assert loaded["part"].shape == (2, 4) and loaded["f8"].dtype is torch.float8_e4m3fn
    assert type(st.load_file(path, backend=backend)["a"]) is torch.Tensor


# ---------------------------------------------------------------- private names, directories, paths


def test_duplicate_names_come_in_a_defaultdict():
    a = torch.zeros(4)
    removed = st._remove_duplicate_names({"a": a, "b": a})
    assert removed == {"a": ["b"]} and removed["c"] == []


def test_private_names():
    for name in (
        "_float8_e4m3fn",
        "_float8_e5m2",
        "_float8_e8m0",
        "_float4_e2m1_x2",
        "defaultdict",
        "os",
        "sys",
    ):
        assert hasattr(st, name), name
    assert st._float8_e4m3fn is torch.float8_e4m3fn


def test_paths_that_are_not_utf8(tmp_path):
    name = os.fsdecode(os.fsencode(tmp_path) + b"/\xff\xfe.safetensors")
    try:
        open(name, "wb").close()
    except OSError:
        pytest.skip("this file system has no such names")
    st.save_file({"a": torch.arange(3)}, name)
    assert st.load_file(name)["a"].tolist() == [0, 1, 2]
    with safe_open(name, "np") as f:
        assert f.get_tensor("a").tolist() == [0, 1, 2]
        assert f.get_tensor_meta("a").file == name and f.explain()[0]["path"] == name
    with safetensors_c.Writer(
        name, {"b": safetensors_c.TensorSpec(dtype="uint8", shape=[1], data_ptr=0, data_len=1)}
    ) as writer:
        writer.put("b", b"\x07")
        writer.finish()
    assert sn.load_file(name)["b"].tolist() == [7]
    with pytest.raises(FileNotFoundError):
        st.load_file(name + "none")


@pytest.mark.skipif(sys.platform != "linux", reason="limits of Linux")
def test_a_memory_error_says_how_much(tmp_path):
    size = 1 << 40
    header = f'{{"a":{{"dtype":"U8","shape":[{size}],"data_offsets":[0,{size}]}}}}'.encode()
    with open(tmp_path / "t", "wb") as f:
        f.write(len(header).to_bytes(8, "little") + header)
        try:
            f.truncate(8 + len(header) + size)
        except OSError:
            pytest.skip("this file system has no files of that size")
    code = f"""
    import resource, safetensors_c
    resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
    f = safetensors_c.safe_open({str(tmp_path / "t")!r}, "np", backend="pread")
    for call in (lambda: f.get_tensor("a"), f.get_tensors, lambda: f.get_slice("a")[1:]):
        try:
            call()
        except MemoryError as e:
            assert str(e).startswith("cannot allocate 10995"), e
        else:
            raise AssertionError
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_directory_of_the_package_while_installed():
    code = """
    import importlib.resources, importlib.util, inspect, os, pkgutil
    import safetensors_c
    safetensors_c.install()
    import safetensors
    names = {m.name for m in pkgutil.iter_modules(safetensors.__path__)}
    assert {"torch", "numpy", "flax", "tensorflow", "paddle", "mlx"} <= names, names
    files = importlib.resources.files("safetensors")
    assert files.joinpath("py.typed").is_file() and files.joinpath("torch.py").is_file()
    assert pkgutil.get_data("safetensors", "py.typed") == b""
    assert os.path.isfile(safetensors.__file__) and safetensors.__spec__.submodule_search_locations
    assert "safetensors_c" in inspect.getsource(safetensors)
    assert importlib.util.find_spec("safetensors.nonsense") is None
    import safetensors.torch
    assert safetensors.torch is __import__("safetensors_c.torch").torch  # not the file that is shown
    assert safetensors._safetensors_rust is safetensors_c._core
    assert {"PrefetchLoader", "safe_open", "load_tree"} <= set(dir(safetensors))
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
