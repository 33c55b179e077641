# SPDX-License-Identifier: Apache-2.0 OR MIT
"""safetensors_c.mindspore with MindSpore itself: every element type, its own files both ways, networks, trees, damage."""

import ctypes
import json

import mindspore as ms
import ml_dtypes
import numpy as np
import pytest
from safetensors_c import SafetensorError, distributed, load_tree, safe_open, save_tree
from safetensors_c import mindspore as ours
from safetensors_c import numpy as of_numpy

TYPES = "bool_ uint8 int8 uint16 int16 uint32 int32 uint64 int64 float16 float32 float64 complex64 bfloat16".split()
SHAPES = [(), (0, 3), (5,), (2, 3, 4)]


def raw(tensor):
    """The bytes of a tensor, whatever its type."""
    array = tensor.asnumpy()
    return bytes((ctypes.c_ubyte * array.nbytes).from_address(array.ctypes.data)) if array.nbytes else b""


def tensors(seed=0):
    rng = np.random.default_rng(seed)
    out = {}
    for name in TYPES:
        for shape in SHAPES:
            values = rng.integers(0, 2 if name == "bool_" else 100, shape)
            out[f"{name}.{len(shape)}.{shape}"] = ms.Tensor(
                np.asarray(values, np.float32), dtype=getattr(ms, name)
            )
    for name in ("float8_e4m3fn", "float8_e5m2"):
        for shape in SHAPES:
            tensor = ms.Tensor(np.zeros(shape, np.float32), dtype=getattr(ms, name))
            if tensor.size:
                ctypes.memmove(tensor.data_ptr(), rng.bytes(tensor.size), tensor.size)
            out[f"{name}.{shape}"] = tensor
    return out


def same(a, b):
    assert list(a) == list(b)
    for name, x in a.items():
        assert x.dtype == b[name].dtype and tuple(x.shape) == tuple(b[name].shape), name
        assert raw(x) == raw(b[name]), name


def by_name(values):
    return dict(sorted(values.items()))


@pytest.mark.parametrize("backend", ["mmap", "pread"])
def test_every_type_comes_back(tmp_path, backend):
    path, given = tmp_path / "x.safetensors", tensors()
    ours.save_file(given, path, {"k": "v"})
    loaded, metadata = ours.load_file(path, backend=backend, with_metadata=True)
    same(by_name(given), by_name(loaded))
    assert metadata == {"k": "v"}
    same(by_name(given), by_name(ours.load(ours.save(given))))
    with safe_open(path, "ms") as f:
        same(by_name(given), by_name({name: f.get_tensor(name) for name in f.keys()}))
        assert f.get_slice("float32.3.(2, 3, 4)")[1:, ::2].shape == (1, 2, 4)


def test_bytes_are_those_that_other_frameworks_write(tmp_path):
    given = tensors(1)
    ours.save_file(given, tmp_path / "a")
    theirs = of_numpy.load_file(tmp_path / "a")
    assert {str(theirs[n].dtype) for n in given if n.startswith("float8_e4")} == {"float8_e4m3fn"}
    for name, tensor in given.items():
        assert theirs[name].tobytes() == raw(tensor), name
    of_numpy.save_file(theirs, tmp_path / "b")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    bf16 = {"x": np.arange(4, dtype=ml_dtypes.bfloat16)}
    of_numpy.save_file(bf16, tmp_path / "c")
    assert ours.load_file(tmp_path / "c")["x"].dtype == ms.bfloat16


class Net(ms.nn.Cell):
    def __init__(self, width=4):
        super().__init__()
        self.one = ms.nn.Dense(3, width)
        self.two = ms.nn.Dense(width, 2)

    def construct(self, x):
        return self.two(ms.ops.relu(self.one(x)))


def test_mindspores_own_files_both_ways(tmp_path):
    net, other, third = Net(), Net(), Net()
    ms.save_checkpoint(net, str(tmp_path / "theirs"), format="safetensors")
    assert ours.load_into(other, tmp_path / "theirs.safetensors") == ([], [])
    ours.save_file(other, tmp_path / "ours.safetensors")
    found = ms.load_checkpoint(str(tmp_path / "ours.safetensors"), format="safetensors")
    assert ms.load_param_into_net(third, found) == ([], [])
    x = ms.Tensor(np.ones((5, 3), np.float32))
    assert raw(net(x)) == raw(other(x)) == raw(third(x))


def test_a_trained_network_goes_on_from_its_file(tmp_path):
    x = ms.Tensor(np.linspace(0, 1, 12, dtype=np.float32).reshape(4, 3))

    def train(net, optimizer, steps):
        step = ms.value_and_grad(lambda: net(x).pow(2).sum(), None, optimizer.parameters)
        losses = []
        for _ in range(steps):
            loss, gradients = step()
            optimizer(gradients)
            losses.append(float(loss))
        return losses

    net = Net()
    optimizer = ms.nn.Adam(net.trainable_params(), 0.01)
    ours.save_file(optimizer, tmp_path / "begin")
    train(net, optimizer, 3)
    ours.save_file(optimizer, tmp_path / "middle")  # its parameters are the net's, its moments and its step
    rest = train(net, optimizer, 4)
    other = Net()
    again = ms.nn.Adam(other.trainable_params(), 0.01)
    ours.load_into(again, tmp_path / "middle")
    assert train(other, again, 4) == rest


def test_what_does_not_fit_is_named(tmp_path):
    ours.save_file(Net(), tmp_path / "net")
    wide, kept = Net(5), Net()
    with pytest.raises(
        SafetensorError, match=r"`one.(bias|weight)` is Float32 \[4.* in the file, Float32 \[5.* in the net"
    ):
        ours.load_into(wide, tmp_path / "net")
    before = [raw(p) for p in kept.get_parameters()]
    some = {"one.weight": ms.Tensor(np.zeros((4, 3), np.float32)), "three": ms.Tensor(np.float32(1))}
    ours.save_file(some, tmp_path / "some")
    with pytest.raises(SafetensorError, match=r"\['one.bias'.*are missing, and it has no \['three'\]"):
        ours.load_into(kept, tmp_path / "some")
    assert before == [raw(p) for p in kept.get_parameters()]
    missing, unexpected = ours.load_into(kept, tmp_path / "some", strict=False)
    assert unexpected == ["three"] and missing == ["one.bias", "two.weight", "two.bias"]
    assert not kept.one.weight.asnumpy().any()
    ours.load_into(kept, tmp_path / "net", rename={"one.weight": "one.weight"})
    half = {"one.weight": ms.Tensor(np.zeros((4, 3), np.float16))}
    ours.save_file(half, tmp_path / "half")
    with pytest.raises(SafetensorError, match="Float16.*Float32"):
        ours.load_into(kept, tmp_path / "half", strict=False)
    assert ours.load_file(tmp_path / "net", dtype="F16")["one.weight"].dtype == ms.float16
    with pytest.raises(ValueError, match="mindspore.Tensor"):
        ours.save_file({"x": np.zeros(3)}, tmp_path / "x")


def test_one_processes_part_of_a_model_of_many_ranks(tmp_path):
    """Two ranks' files into one network of three ranks' shapes, read by ranges, under other names."""
    whole = {
        "a.weight": np.arange(72, dtype=np.float32).reshape(12, 6),
        "a.bias": np.arange(12, dtype=np.float32),
    }

    def layout(parts):
        cuts = [{"name": "a.weight", "cuts": ["x", None]}, {"name": "a.bias", "cuts": ["x"]}]
        return {"format": "safetensors-layout", "version": 1, "mesh": {"axes": {"x": parts}}, "tensors": cuts}

    for rank in range(2):
        part = {name: value[6 * rank : 6 * rank + 6] for name, value in whole.items()}
        (tmp_path / f"rank_{rank}").mkdir()
        of_numpy.save_file(part, tmp_path / f"rank_{rank}" / "net.safetensors")
    (tmp_path / "layout.json").write_text(json.dumps(layout(2)))
    rules = {"format": "safetensors.names/1", "rules": [{"from": "a.{p*}", "to": "one.{p*}"}]}
    target = layout(3)
    for tensor in target["tensors"]:
        tensor["name"] = tensor["name"].replace("a.", "one.")
    for rank in range(3):
        net = ms.nn.Dense(6, 4)
        named = {f"one.{name}": p for name, p in net.parameters_dict().items()}
        part = distributed.load_part(tmp_path, target, rank, framework="ms", names=rules)
        assert ours.load_into(named, part) == ([], [])
        assert np.array_equal(net.weight.asnumpy(), whole["a.weight"][4 * rank : 4 * rank + 4])
        assert np.array_equal(net.bias.asnumpy(), whole["a.bias"][4 * rank : 4 * rank + 4])


def test_types_that_one_side_lacks(tmp_path):
    with pytest.raises(SafetensorError, match="HiFloat8"):
        ours.save_file({"x": ms.Tensor([1.0], ms.hifloat8)}, tmp_path / "x")
    for save in (
        lambda x: ours.save_file({"x": x}, tmp_path / "x"),
        lambda x: ours.save({"x": ms.Parameter(x)}),
    ):
        with pytest.raises(
            SafetensorError, match="Int4"
        ):  # NumPy has it as whole bytes, which would come back as such
            save(ms.Tensor(np.zeros((3, 4), np.float32), dtype=ms.qint4x2))
    assert not (tmp_path / "x").exists()
    of_numpy.save_file({"x": np.zeros(4, ml_dtypes.float8_e8m0fnu)}, tmp_path / "y")
    with pytest.raises(SafetensorError, match="F8_E8M0"):
        ours.load_file(tmp_path / "y")


def test_trees_and_streams(tmp_path):
    tree = {
        "net": {"w": ms.Tensor([1.5, 2.5])},
        "step": 3,
        "lr": 0.1,
        "b": (ms.Tensor([1], ms.bfloat16), None),
    }
    save_tree(tree, tmp_path / "tree")
    loaded = load_tree(tmp_path / "tree", "ms")
    assert loaded["step"] == 3 and loaded["lr"] == 0.1 and loaded["b"][1] is None
    assert raw(loaded["net"]["w"]) == raw(tree["net"]["w"]) and loaded["b"][0].dtype == ms.bfloat16
    given = tensors(2)
    ours.save_stream(given, given.__getitem__, tmp_path / "s")
    same(by_name(given), by_name(ours.load_file(tmp_path / "s")))


def test_a_changed_byte_is_found(tmp_path):
    ours.save_file(Net(), tmp_path / "net", digests="crc32c")
    data = bytearray((tmp_path / "net").read_bytes())
    data[-1] ^= 1
    (tmp_path / "net").write_bytes(data)
    with pytest.raises(SafetensorError, match="CRC32C differs.*damage in bytes"):
        ours.load_into(Net(), tmp_path / "net", verify=True)


def test_what_is_no_tensor_is_named(tmp_path):
    with pytest.raises(ValueError, match="`x`: expected a mindspore.Tensor, received .*ndarray"):
        ours.save_file({"x": np.zeros(2)}, tmp_path / "x.safetensors")
    with pytest.raises(TypeError, match="a dict of tensors or a Cell is wanted, not list"):
        ours.save_file([{"name": "x"}], tmp_path / "x.safetensors")
    with pytest.raises(TypeError, match="`x`: expected a mindspore.Tensor"):
        ours.load_into(
            {"x": ms.Parameter(ms.Tensor(np.zeros(2, np.float32)))}, {"x": np.zeros(2, np.float32)}
        )
    assert not list(tmp_path.iterdir())


def test_two_parameters_of_one_name_are_an_error_that_names_it(tmp_path):
    ours.save_file(ms.nn.Dense(3, 2), tmp_path / "net")
    net = ms.nn.SequentialCell([ms.nn.Dense(3, 2), ms.nn.Dense(3, 2)])
    for p in net.get_parameters():
        p.name = p.name.split(".")[-1]
    with pytest.raises(ValueError, match="two parameters are called `weight`"):
        ours.save_file(net, tmp_path / "both")
    assert not (tmp_path / "both").exists()
    with pytest.raises(ValueError, match="two parameters are called `weight`"):
        ours.load_into(net, tmp_path / "net")
    one = ms.nn.Dense(3, 2)
    shared = ms.nn.SequentialCell([one, one])  # one parameter, twice
    ours.save_file(shared, tmp_path / "shared")
    assert ours.load_into(shared, tmp_path / "shared") == ([], [])


def test_what_is_loaded_from_a_dict_is_a_copy():
    """Of every type that a Parameter has; what trains then changes neither the dict nor a second network."""
    given, other = ({n: t for n, t in tensors(s).items() if "float8" not in n} for s in (0, 1))
    source = {n: ms.Parameter(t, name=n) if i % 2 else t for i, (n, t) in enumerate(given.items())}
    before = {n: raw(t) for n, t in source.items()}
    nets = [{n: ms.Parameter(ms.Tensor(t), name=n) for n, t in other.items()} for _ in range(2)]
    for net in nets:
        assert ours.load_into(net, source) == ([], [])
        assert {n: raw(p) for n, p in net.items()} == before
        assert all(p.dtype == source[n].dtype and p.shape == source[n].shape for n, p in net.items())
    for p in nets[0].values():
        if p.size:
            ctypes.memset(p.data_ptr(), 0, p.asnumpy().nbytes)
    assert {n: raw(t) for n, t in source.items()} == before == {n: raw(p) for n, p in nets[1].items()}
    assert before != {n: raw(p) for n, p in nets[0].items()}
