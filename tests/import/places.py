#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""places.py --tool TOOL - every place of a tensor in a pickle, and every form that protocols have for its bytes.

A tensor may be at several places: each is a name of it, or is told. Keys that are no names, keys that lead to
two parts, storages, views that share bytes of which no tensor has all; arrays of protocols 0 to 5, and as
Python 2 wrote them. Needs torch and safetensors (tests/requirements.txt).
"""

import collections
import json
import os
import pickle
import warnings

import numpy
import torch
from runs import CHECKS, program, run
from safetensors import safe_open
from safetensors.torch import load_file

warnings.filterwarnings("ignore")  # of what torch is about to leave
X = torch.arange(6.0).reshape(2, 3)


def convert(source, out, *more, want=0):
    r = run("convert", source, "-o", out, "-f", "--json", *more, want=want)
    return json.loads(r.stdout) if want == 0 else r.stderr


def same(a, b):
    a, b = (t.contiguous().view(torch.uint8) if t.dtype == torch.float8_e4m3fn else t for t in (a, b))
    return a.dtype == b.dtype and torch.equal(a, b)


def names_of(path):
    found = json.loads(run("ls", "--json", path).stdout)
    return {t["name"] for t in found["tensors"]}, {a["name"]: a["of"] for a in found.get("aliases", [])}


# ---------------------------------------------------------------- keys


class Keyed(collections.OrderedDict):
    """Attributes of a dict are state that a pickle keeps."""


def nameless():
    """(what, value with a second place of X that has no name, path by which it is told)."""
    inner = {"w": X}
    yield "None", {None: X, "b": X}, "#0"
    yield "a tuple", {("x", 1): X, "b": X}, "#0"
    yield "bytes", {b"x": X, "b": X}, "#0"
    yield "a number", {"b": X, 1.5: X}, "#1"
    yield "True", {"b": X, True: X}, "#1"
    yield "a dtype", {"b": X, torch.float32: X}, "#1"
    yield "an array beside it", {"b": X, "more": {None: {"c": X}}}, "more.#0.c"
    yield "a part, first", {None: inner, "b": inner}, "#0.w"
    yield "a part, last", {"b": inner, None: inner}, "#1"
    yield "a list below", {"b": X, None: [3, X]}, "#1.1"
    attribute = collections.OrderedDict(b=X)
    attribute.also = X
    yield "an attribute", attribute, "also"


def keys(tmp):
    source, out = os.path.join(tmp, "keys.pt"), os.path.join(tmp, "keys.safetensors")
    for what, value, path in nameless():
        torch.save(value, source)
        told = convert(source, out, want=1)
        assert f'tensor "{path}"' in told and "another place" in told, (what, told)
        report = convert(source, out, "--allow-opaque")
        assert path in [p["subject"] for p in report["left_out_parts"]], (what, report)
        assert report["left_out"] == len(report["left_out_parts"]) and report["tensors"] == 1, (what, report)
        if what != "an attribute":
            report = convert(source, out, "--tree", *(["--allow-opaque"] if "dtype" in what else []))
            assert report["tensors"] == 1 and report["aliases"] == 1, (what, report)
        CHECKS["places without a name"] += 1
    # A part that is not taken may have as many places as it likes, and a tensor that is none of two is one.
    torch.save({"model": {"w": X}, "optimizer": {"state": {None: X}, "param_groups": []}}, source)
    assert convert(source, out)["tensors"] == 1
    # A text of numpy is a text.
    for key in numpy.str_("k"), numpy.str_("ü€😀"), numpy.array(["ab", "c"])[1]:
        torch.save({key: X, "z": X, "n": {key: X + 1}}, source)
        report = convert(source, out, "--verify")
        assert (report["tensors"], report["aliases"], report["left_out"]) == (2, 1, 0), report
        tensors, others = names_of(out)
        assert tensors | set(others) == {str(key), "z", "n." + str(key)}, (tensors, others)
        convert(source, out, "--tree")
        convert(out, out + ".pt", "--verify")
        assert list(torch.load(out + ".pt", weights_only=True)) == [str(key), "z", "n"]
        for protocol in 0, 1, 2, 4:
            with open(source, "wb") as f:
                pickle.dump({key: X.numpy(), "z": X.numpy()}, f, protocol)
            assert str(key) in names_of(source)[0] | set(names_of(source)[1]), protocol
        CHECKS["texts of numpy"] += 1


def parts(tmp):
    """A key that leads to two parts is refused with both; what another part uses is not unused."""
    source, out = os.path.join(tmp, "parts.pt"), os.path.join(tmp, "parts.safetensors")
    cases = [
        ({"a.b": {"c": X}, "a": {"b": {"c": X + 1}}}, "a.b", ['["a.b"]', '["a"]["b"]']),
        ({"a": {"b": {"c": X + 1}}, "a.b": {"c": X}}, "a.b.c", ['["a.b"]["c"]', '["a"]["b"]["c"]']),
        ({1: {"w": X}, "1": {"w": X + 1}}, "1", ["[1]", '["1"]']),
        ({"m": [{"w": X}], "m.0": {"w": X + 1}}, "m.0", ['["m"][#0]', '["m.0"]']),
    ]
    for value, key, both in cases:
        torch.save(value, source)
        told = convert(source, out, "--key", key, want=1)
        assert all(b in told for b in both) and not os.path.exists(out), told
        report = convert(source, out, "--tree")
        assert report["tensors"] == 2, report
        os.remove(out)
        CHECKS["keys with two parts"] += 1
    shared = {"c": X}
    torch.save({"a.b": shared, "a": {"b": shared}, "a.b.d": 7}, source)  # one part, whatever leads to it
    assert convert(source, out, "--key", "a.b")["tensors"] == 1
    torch.save({"a.b": {"step": 1}, "a": {"b": {"c": X}}}, source)  # one of them holds tensors
    assert convert(source, out, "--key", "a.b")["tensors"] == 1
    half = torch.ones(1000)
    torch.save(
        {
            "a": {"w": X},
            "b": {"w": X + 1, "q": torch.quantize_per_tensor(X, 0.1, 0, torch.qint8)},
            "c": [half[:10]],
            "d": X,
        },
        source,
    )
    for key in "a", "b", "c", "d":
        report = convert(source, out, "--key", key, "--verify")
        assert report["unused_bytes"] == 3960 and report["left_out_parts"] == [], (key, report)
    convert(source, out, "--key", "e", want=1)


def met(tmp):
    """Trees whose names meet go to PyTorch and back, and are compared."""
    source, out = os.path.join(tmp, "met.pt"), os.path.join(tmp, "met.safetensors")
    for value in (
        {"a.b": X, "a": {"b": X + 1}},
        {1: X, "1": X + 1},
        [{"x": X, "x#2": X + 1}, {"0.x": X}],
        {"0": {"x": X}, 0: [X, {"x": X + 1}]},
    ):
        torch.save(value, source)
        convert(source, out, "--tree", "--verify")
        convert(out, out + ".pt", "--verify")
        got = torch.load(out + ".pt", weights_only=True)
        assert str(got) == str(value), (got, value)
        CHECKS["trees whose names meet"] += 1


# ---------------------------------------------------------------- storages


def storages(tmp):
    source, out = os.path.join(tmp, "storages.pt"), os.path.join(tmp, "storages.safetensors")
    for storage in X.untyped_storage(), X.storage():
        torch.save({"z": storage, "a": X + 1}, source)
        assert convert(source, out)["tensors"] == 2
        told = convert(source, out + ".tree", "--tree", want=1)
        assert 'tensor "z"' in told and "storage" in told, told
        report = convert(source, out, "--tree", "--allow-opaque")
        assert [p["subject"] for p in report["left_out_parts"]] == ["z"] and report["unused_bytes"] == 0, (
            report
        )
        CHECKS["storages in trees"] += 1


def shared(tmp):
    """Views of a storage of which no tensor has all: with --tree and --dedup alias they stay views of one."""
    source, out = os.path.join(tmp, "shared.pt"), os.path.join(tmp, "shared.safetensors")
    base, cube = torch.arange(100.0), torch.arange(24.0).reshape(4, 6)
    small = torch.arange(100, dtype=torch.uint8)
    values = {
        "a chain": (
            {"a": base[:40], "b": base[30:70], "c": base[60:90].view(5, 6), "d": base[35:38]},
            1,
            360,
        ),
        "columns": ({"left": cube[:, :4], "right": cube[:, 2:]}, 1, 96),
        "two storages": (
            {"a": base[:40], "b": base[30:70], "c": cube[:2].t(), "d": cube[1:], "e": X},
            3,
            280 + 96 + 24,
        ),
        "two types": ({"a": small[:40], "b": small[30:70].view(torch.float8_e4m3fn)}, 1, 70),
        "ties": ({"a": base[:40], "b": base[30:70], "a2": base[:40]}, 1, 280),
    }
    for what, (value, stored, data) in values.items():
        torch.save(value, source)
        report = convert(source, out)
        assert report["aliases"] == ("a2" in value) and len(report["notes"]) == 1, (what, report)
        for how in "--tree", "--dedup=alias":
            report = convert(source, out, how, "--verify")
            assert (report["tensors"], report["data_bytes"], report["notes"]) == (stored, data, []), (
                what,
                report,
            )
            tensors, others = names_of(out)
            assert set(others) >= set(value) - {"e"}, (what, others)
            convert(out, out + ".pt", "--verify")
            got = torch.load(out + ".pt", weights_only=True)
            assert set(got) == set(value), (what, list(got))
            for name, tensor in value.items():
                assert same(got[name], tensor), (what, name)
            places = collections.defaultdict(set)
            for name, tensor in value.items():
                places[tensor.untyped_storage().data_ptr()].add(got[name].untyped_storage().data_ptr())
            assert all(len(p) == 1 for p in places.values()) and len(places) == stored, (what, places)
            CHECKS["shared storages"] += 1
    apart = torch.zeros(1000)  # most of it is nobody's: they stay two
    torch.save({"a": apart[::900], "b": apart[50::900]}, source)
    report = convert(source, out, "--dedup", "alias")
    assert (report["tensors"], report["data_bytes"]) == (2, 16), report
    # What only other names show has no name that --rename, --select, --drop or --cast could mean.
    torch.save(values["a chain"][0], source)
    convert(source, out, "--dedup", "alias")
    after = os.path.join(tmp, "after.safetensors")
    for verb, where in ("cp", [out, after]), ("convert", [out, "-o", after]):
        run(verb, *where, "-f", "--rename", "*=p.*")
        assert names_of(after) == ({"sft.storage.0"}, {"p." + n: "sft.storage.0" for n in "abcd"}), verb
        run(verb, *where, "-f", "--select", "[ab]")
        assert names_of(after) == ({"sft.storage.0"}, {n: "sft.storage.0" for n in "ab"}), verb
        run(verb, *where, "-f", "--drop", "[cds]*")
        assert names_of(after) == ({"sft.storage.0"}, {n: "sft.storage.0" for n in "ab"}), verb
        run(verb, *where, "-f", "--cast", "*=f64")
        assert names_of(after) == (set("abcd"), {}), verb
        assert torch.equal(load_file(after)["c"], base[60:90].view(5, 6).double()), verb
        os.remove(after)
        run(verb, *where, "-f", "--select", "sft.*", want=1)
        assert not os.path.exists(after)
        CHECKS["hidden storages"] += 5
    # A tensor that is called so is a tensor.
    torch.save({"sft.storage.0": base[:40], "b": base[30:70]}, source)
    assert convert(source, out, "--dedup", "alias")["tensors"] == 2


# ---------------------------------------------------------------- bytes


class Python2(pickle._Pickler):
    """Bytes as the strings of Python 2: lines of protocol 0, short and long ones of the others."""

    dispatch = dict(pickle._Pickler.dispatch)

    def save_string(self, value):
        if self.proto == 0:
            self.write(b"S" + repr(value)[1:].encode() + b"\n")
        elif len(value) < 256:
            self.write(b"U" + bytes([len(value)]) + value)
        else:
            self.write(b"T" + len(value).to_bytes(4, "little") + value)
        self.memoize(value)

    dispatch[bytes] = save_string


def arrays(tmp):
    source, out = os.path.join(tmp, "arrays.pkl"), os.path.join(tmp, "arrays.safetensors")
    rng = numpy.random.default_rng(1)
    value = {
        "none": numpy.zeros((0, 3)),
        "few": rng.standard_normal((2, 3)),
        "more": rng.integers(0, 255, 400, "u1"),
        "many": rng.standard_normal(30000),
        "columns": numpy.asfortranarray(rng.standard_normal((3, 50)).astype("f4")),
        "big": rng.standard_normal(40).astype(">f8"),
        "all": numpy.arange(256, dtype="u1"),
        "scalar": numpy.float64(3),
    }
    for protocol in range(6):
        for pickler in (pickle._Pickler, Python2) if protocol < 3 else (pickle._Pickler,):
            with open(source, "wb") as f:
                pickler(f, protocol).dump(value)
            convert(source, out, "--verify")
            got = load_file(out)
            assert set(got) == set(value) - {"scalar"}, (protocol, pickler, list(got))
            for name, tensor in got.items():
                assert numpy.array_equal(tensor.numpy(), value[name]), (protocol, pickler, name)
            convert(source, out, "--tree")
            with safe_open(out, "pt") as f:
                assert json.loads(f.metadata()["sft.tree"])["tree"]["scalar"]["v"] == "3.0"
            CHECKS["arrays"] += len(got)
    torch.save({"none": numpy.zeros((0, 3)), "w": X}, source)  # protocol 2: bytes() is a call
    convert(source, out, "--verify")
    assert load_file(out)["none"].shape == (0, 3)
    torch.save({"a": X}, source, _use_new_zipfile_serialization=False)
    with open(source, "rb") as f:
        data = f.read()
    with open(source, "wb") as f:  # a line without an end
        at = data.index(b"X\x01\0\0\0a")
        f.write(data[:at] + b"V" + b"x" * (1 << 20))
    assert "ends early" in run("convert", source, "-o", out, "-f", want=1).stderr


def tree_types(tmp):
    """What a tree holds otherwise than the file did: parameters by a note, types that safetensors has not by null."""
    source, out = os.path.join(tmp, "types.pt"), os.path.join(tmp, "types.safetensors")
    cases = (
        ({"p": torch.nn.Parameter(X)}, 1),
        ({"r": X.clone().requires_grad_(), "p": [torch.nn.Parameter(X + 1)], "x": X}, 2),
        ({"x": X}, 0),
    )
    for value, count in cases:
        torch.save(value, source)
        notes = convert(source, out, "--tree")["notes"]
        assert [n["count"] for n in notes if "need a gradient" in n["message"]] == [count][:count], notes
        CHECKS["parameters in trees"] += 1
    torch.save({"c": X.to(torch.complex128), "h": {"a": X}}, source)
    for options, want in ([], 1), (["--tree"], 1), (["--tree", "--allow-opaque"], 0):
        told = run("convert", source, "-o", out, "-f", *options, want=want).stderr
        assert "C128" in told and ("left out: c: tree: a tensor of type C128" in told) == (want == 0), told
    with safe_open(out, "pt") as f:
        assert list(f.keys()) == ["h.a"] and json.loads(f.metadata()["sft.tree"])["tree"] == {
            "c": None,
            "h": {"a": {"$": "tensor", "v": "h.a"}},
        }
    assert "give one or ask for the other" in convert(
        source, out, "--tree", "--allow-opaque", "-m", "sft.tree=x", want=2
    )


if __name__ == "__main__":
    program(keys, parts, met, storages, shared, arrays, tree_types)
