# SPDX-License-Identifier: Apache-2.0 OR MIT
"""save_tree and load_tree: what goes in comes out, types included; hostile metadata is an error."""

from __future__ import annotations

import json
import math
from collections import OrderedDict, namedtuple

import pytest

np = pytest.importorskip("numpy")
hypothesis = pytest.importorskip("hypothesis")

from hypothesis import strategies as some  # noqa: E402
from safetensors_c import SafetensorError, load_tree, save_tree  # noqa: E402
from safetensors_c import numpy as sn  # noqa: E402
from safetensors_c import tree as module  # noqa: E402


def same(a, b):
    if type(a) is not type(b):
        return False
    if isinstance(a, (dict,)):
        return list(a) == list(b) and all(same(a[k], b[k]) for k in a)
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b))
    if isinstance(a, np.ndarray):
        return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
    if isinstance(a, (float, np.floating)):
        return a == b and math.copysign(1, a) == math.copysign(1, b) or (a != a and b != b)
    if isinstance(a, complex):
        return same(a.real, b.real) and same(a.imag, b.imag)
    return a == b


def test_adam_comes_back(tmp_path):
    torch = pytest.importorskip("torch")
    model = torch.nn.Linear(3, 3)
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.randn(2, 3)).sum().backward()
    optimizer.step()
    tree = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": 1}
    save_tree(tree, tmp_path / "t")
    back = load_tree(tmp_path / "t")
    assert type(back["model"]) is OrderedDict and back["step"] == 1
    assert back["optimizer"]["param_groups"] == tree["optimizer"]["param_groups"]
    assert type(back["optimizer"]["param_groups"][0]["betas"]) is tuple
    for i, state in tree["optimizer"]["state"].items():
        for name, tensor in state.items():
            assert torch.equal(back["optimizer"]["state"][i][name], tensor)
    torch.optim.Adam(model.parameters()).load_state_dict(back["optimizer"])


def test_torch_values_and_sharing(tmp_path):
    torch = pytest.importorskip("torch")
    a = torch.randn(4, 6)
    tree = {"a": a, "again": [a], "t": a.t(), "size": a.shape, "dtype": torch.bfloat16}
    save_tree(tree, tmp_path / "t")
    back = load_tree(tmp_path / "t")
    assert back["a"] is back["again"][0]
    assert torch.equal(back["t"], a.t()) and type(back["size"]) is torch.Size
    assert back["dtype"] is torch.bfloat16
    back["a"].zero_()
    assert back["t"].abs().sum() == 0


leaves = (
    some.none()
    | some.booleans()
    | some.integers(-(1 << 70), 1 << 70)
    | some.floats()
    | some.complex_numbers()
    | some.text(alphabet=some.characters(exclude_categories=["Cs"]), max_size=5)
    | some.binary(max_size=5)
    | some.integers(0, 5).map(lambda n: np.arange(n, dtype="f4"))
    | some.floats(width=32).map(np.float32)
    | some.integers(0, 255).map(np.uint8)
)
keys = some.text(alphabet="ab.$#é", max_size=3) | some.integers() | some.booleans() | some.none()
trees = some.recursive(
    leaves,
    lambda inner: (
        some.lists(inner, max_size=4)
        | some.lists(inner, max_size=4).map(tuple)
        | some.dictionaries(some.text(alphabet="ab.$#é", max_size=3), inner, max_size=4)
        | some.dictionaries(keys, inner, max_size=4)
        | some.dictionaries(keys, inner, max_size=4).map(OrderedDict)
    ),
    max_leaves=20,
)


@hypothesis.given(trees)
@hypothesis.settings(max_examples=300, deadline=None, derandomize=True)
def test_any_tree_comes_back(tmp_path_factory, tree):
    path = tmp_path_factory.mktemp("tree") / "t"
    save_tree(tree, path)
    assert same(load_tree(path, "np"), tree)


def test_sets_and_metadata(tmp_path):
    save_tree({"s": {1, "a", (2, 3)}, "f": frozenset([1.5])}, tmp_path / "t", {"k": "v"})
    tree, rest = load_tree(tmp_path / "t", "np", with_metadata=True)
    assert tree == {"s": {1, "a", (2, 3)}, "f": frozenset([1.5])} and rest == {"k": "v"}
    save_tree([], tmp_path / "t", framework="np")
    assert load_tree(tmp_path / "t", "np") == []


def test_names_follow_the_path(tmp_path):
    a, b, c = (np.full(2, i) for i in range(3))
    save_tree({"x": {"y": a}, "x.y": b, "l": [c]}, tmp_path / "t")
    assert set(sn.load_file(tmp_path / "t")) == {"x.y", "x.y#2", "l.0"}
    back = load_tree(tmp_path / "t", "np")
    assert (back["x"]["y"] == 0).all() and (back["x.y"] == 1).all()


def test_refusals(tmp_path):
    point = namedtuple("point", "x")(1)
    loop: list = []
    loop.append(loop)
    deep: list = []
    for _ in range(300):
        deep = [deep]
    for tree, error, text in [
        ({"a": [point]}, TypeError, "at a.0"),
        ({"a": object()}, TypeError, "cannot keep <class 'object'>"),
        (loop, ValueError, "contains itself"),
        (deep, ValueError, "nested deeper than 200"),
        ({"a": {"b": ["\ud800"]}}, ValueError, r"lone surrogate \(at a.b.0\)"),
        ({"a": {"\ud800": 1}}, ValueError, r"lone surrogate \(at a\)"),
        ({(1, object()): 1}, TypeError, "cannot keep"),
        ({"m": np.ma.masked_array([1.0], [True])}, TypeError, "MaskedArray.*at m"),
        ({"n": -(10**4000)}, ValueError, "4000 digits.*at n"),
    ]:
        with pytest.raises(error, match=text):
            save_tree(tree, tmp_path / "t")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"version":2,"tree":1}',
        '{"version":1,"tree":1.5}',
        '{"version":1,"tree":{"$":"tensor","v":"nobody"}}',
        '{"version":1,"tree":{"$":"tensor"}}',
        '{"version":1,"tree":{"$":"exec","v":["x"]}}',
        '{"version":1,"tree":{"$":["x"],"v":[]}}',
        '{"version":1,"tree":{"$":"set","v":[[1]]}}',
        '{"version":1,"tree":{"$":"dict","v":[[[1],2]]}}',
        '{"version":1,"tree":{"$":"dict","v":[1]}}',
        '{"version":1,"tree":{"$":"int","v":"1_0"}}',
        '{"version":1,"tree":{"$":"int","v":"--1"}}',
        '{"version":1,"tree":{"$":"int","v":"' + "9" * 5000 + '"}}',
        '{"version":1,"tree":{"$":"float","v":1}}',
        '{"version":1,"tree":{"$":"float","v":"x"}}',
        '{"version":1,"tree":{"$":"complex","v":["1"]}}',
        '{"version":1,"tree":{"$":"bytes","v":"*"}}',
        '{"version":1,"tree":{"$":"numpy","dtype":"object","v":"1"}}',
        '{"version":1,"tree":{"$":"numpy","dtype":"int8","v":"300"}}',
        '{"version":1,"tree":{"$":"torch.dtype","v":"load"}}',
        '{"version":1,"tree":' + "[" * 5000 + "]" * 5000 + "}",
        '{"version":1,"tree":' + "[" * 300 + "]" * 300 + "}",
    ],
)
def test_malformed_trees_are_errors(tmp_path, text):
    if "torch" in text:
        pytest.importorskip("torch")
    sn.save_file({"a": np.zeros(1)}, tmp_path / "t", {module.KEY: text})
    with pytest.raises(SafetensorError):
        load_tree(tmp_path / "t", "np")


def test_a_file_without_a_tree(tmp_path):
    sn.save_file({"a": np.zeros(1)}, tmp_path / "t")
    with pytest.raises(SafetensorError, match="holds no tree"):
        load_tree(tmp_path / "t", "np")


def test_the_json_is_as_documented():
    text, tensors, framework = module.dump({"lr": 0.1, "s": {0: (np.zeros(1), None)}})
    assert json.loads(text) == {
        "version": 1,
        "tree": {
            "lr": {"$": "float", "v": "0.1"},
            "s": {
                "$": "dict",
                "v": [[0, {"$": "tuple", "v": [{"$": "tensor", "v": "s.0.0"}, None]}]],
            },
        },
    }
    assert list(tensors) == ["s.0.0"] and framework == "np"
