#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""hidden.py --tool TOOL - tensors in places that are no items of the tree: keys, attributes, factories, objects, masks.

Each is in the output, or named (with --allow-opaque), or the file is refused with a word about it: in every mode the tensors
in are the tensors out and the tensors named. Needs torch, numpy and safetensors (tests/requirements.txt).
"""

import collections
import functools
import json
import os
import pickle

import numpy
import runs
import torch
from runs import CHECKS, program
from safetensors.torch import load_file

run = functools.partial(runs.run, want=None)  # each check looks at the status itself


def tensor(start):
    return torch.arange(6.0).reshape(2, 3) + start


def ordered(**attributes):
    made = collections.OrderedDict(w=tensor(0))
    for name, value in attributes.items():
        setattr(made, name, value)
    return made


def parameter():
    made = torch.nn.Parameter(tensor(0))
    made.extra = tensor(1)
    return made


def recursive():
    inner = []
    made = (inner, tensor(4))
    inner.append(made)
    return made


def cases():
    """(name, what is saved, names that arrive, names that are told of, both with --allow-opaque)."""
    own = tensor(5)
    yield "a key", {tensor(1): 1, "a": tensor(2)}, ["a"], ["(key)"]
    yield "a key of the value", {tensor(1): tensor(3), "a": tensor(2)}, ["a"], ["#0", "(key)"]
    yield "a tuple as a key", {("k", tensor(1)): 3, "a": tensor(2)}, ["a"], ["(key).1"]
    yield "a set as a key", {frozenset([own]): 3, "a": tensor(2)}, ["a"], ["(key).0"]
    yield "a key deep inside", {"b": [{"c": {tensor(1): 3}}], "a": tensor(2)}, ["a"], ["b.0.c.(key)"]
    yield "a key that is an item, too", {own: 1, "a": own}, ["a"], []
    yield "a key of the same bytes", {own.view(2, 3): 1, "a": own}, ["a"], ["(key)"]
    yield (
        "keys of other types",
        {(1, 2): tensor(1), None: [tensor(3), tensor(4)], "a": tensor(2)},
        ["a"],
        ["#0", "#1.0", "#1.1"],
    )
    yield "an attribute", ordered(extra=tensor(9)), ["w"], ["extra"]
    yield (
        "_metadata",
        ordered(_metadata=collections.OrderedDict(x={"version": 1, "buf": tensor(9)})),
        ["w"],
        ["_metadata.x.buf"],
    )
    yield "_metadata without tensors", ordered(_metadata=collections.OrderedDict(x={"version": 1})), ["w"], []
    yield "a set", {"s": {own}, "a": tensor(2)}, ["a", "s.0"], []
    yield (
        "a deque",
        {"d": collections.deque([tensor(0), tensor(1)]), "e": collections.deque([tensor(2)], 3)},
        ["d.0", "d.1", "e.0"],
        [],
    )
    yield "a counter", collections.Counter({"a": tensor(1)}), ["a"], []
    yield "attributes of a parameter", {"p": parameter()}, ["p", "p.extra"], []
    yield (
        "what an optimizer is keyed by",
        {"model": {"w": own}, "optimizer": {"state": {parameter(): {"m": tensor(3)}}, "param_groups": []}},
        ["w"],
        ["optimizer"],
    )
    yield (
        "an attribute of the model's",
        {
            "model": ordered(_metadata={"b": tensor(1)}),
            "optimizer": {"state": {}, "param_groups": [tensor(4)]},
        },
        ["w"],
        ["model._metadata.b", "optimizer"],
    )
    yield "a tuple that holds itself", {"a": own, "t": recursive()}, ["a", "t.1"], []  # opcode POP
    yield (
        "masked arrays",
        {"m": numpy.ma.masked_array(numpy.arange(4.0), [0, 1, 0, 1]), "a": own},
        ["a", "m.data", "m.mask"],
        [],
    )
    yield (
        "arrays of objects",
        {"o": numpy.array([numpy.ones(2), numpy.ones(3)], dtype=object), "a": own},
        ["a"],
        ["o", "o.0", "o.1"],
    )


def one(tmp, name, value, arrive, told):
    source, out = os.path.join(tmp, "in.pt"), os.path.join(tmp, "out.safetensors")
    if os.path.exists(out):
        os.remove(out)
    for protocol in 2, 4:
        torch.save(value, source, pickle_protocol=protocol)
        parts = sum(1 for n in told if n == "optimizer")  # named with its --key, and no reason to refuse
        for more in [], ["--key", "."]:
            r = run("convert", source, "-o", out, "-f", "--json", *more)
            refused = len(told) > (parts if more == [] else 0)
            assert r.returncode == (1 if refused else 0), (name, more, r)
            assert not refused or "tensor" in r.stderr or "numpy-pickle" in r.stderr, (name, r.stderr)
            listed = run("ls", source, *more)
            assert listed.returncode == r.returncode, (name, listed)
        r = run("convert", source, "-o", out, "-f", "--json", "--allow-opaque", "--verify")
        assert r.returncode == 0, (name, r)
        report = json.loads(r.stdout)
        assert sorted(load_file(out)) == sorted(arrive), (name, sorted(load_file(out)))
        assert sorted(p["subject"] for p in report["left_out_parts"]) == sorted(told), (name, report)
        assert report["unused_bytes"] == 0, (
            name,
            report,
        )  # all bytes are used, by what arrives or by what is named
        CHECKS["tensors that arrive"] += len(arrive)
        CHECKS["tensors that are named"] += len(told)
    CHECKS["cases"] += 1


def trees(tmp):
    """--tree: what cannot be kept is refused; with --allow-opaque it is null and named, but not all of it."""
    source, out = os.path.join(tmp, "tree.pt"), os.path.join(tmp, "tree.safetensors")
    refused = [
        {tensor(1): 1, "a": tensor(2)},
        ordered(extra=tensor(9)),
        {"a": torch.empty(3, device="meta")},
        ordered(_metadata={"b": tensor(1)}),
        {"d": collections.deque([tensor(0)])},
        collections.defaultdict(functools.partial(dict, a=tensor(1)), b=tensor(2)),
    ]
    for value in refused:
        torch.save(value, source)
        r = run("convert", source, "-o", out, "--tree")
        assert r.returncode == 1 and not os.path.exists(out), (value, r)
        CHECKS["trees"] += 1
    module = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3))
    for value in {"a": torch.empty(3, device="meta")}, module:
        torch.save(value, source)
        r = run("convert", source, "-o", out, "--tree", "--allow-opaque")
        assert r.returncode == 1 and "none of them" in r.stderr and not os.path.exists(out), r
    torch.save({"m": module, "a": tensor(1), "d": collections.deque([tensor(2), tensor(3)])}, source)
    r = run("convert", source, "-o", out, "--tree", "--allow-opaque", "--json")
    names = {p["subject"] for p in json.loads(r.stdout)["left_out_parts"]}
    assert {"m." + n for n in module.state_dict()} <= names, names
    assert sorted(load_file(out)) == ["a", "d.0", "d.1"], r
    CHECKS["trees"] += 3


def files(tmp):
    """Pickles that torch did not write: masked arrays; magic numbers as text."""
    source, out = os.path.join(tmp, "f.pkl"), os.path.join(tmp, "f.safetensors")
    masked = numpy.ma.masked_array(
        numpy.asfortranarray(numpy.arange(6).reshape(2, 3)), numpy.eye(2, 3, dtype=bool)
    )
    masked.fill_value = 77
    for protocol in range(6):
        with open(source, "wb") as f:
            pickle.dump({"m": masked, "w": numpy.ones(2)}, f, protocol)
        assert run("convert", source, "-o", out, "-f").returncode == 0
        got = load_file(out)
        assert sorted(got) == ["m.data", "m.fill_value", "m.mask", "w"], sorted(got)
        assert numpy.array_equal(got["m.data"].numpy(), masked.data) and int(got["m.fill_value"]) == 77
        assert numpy.array_equal(got["m.mask"].numpy(), masked.mask)
        CHECKS["masked arrays"] += 1
    state = torch.nn.Linear(2, 3).state_dict()
    for protocol in range(1, 6):
        torch.save(state, source, pickle_protocol=protocol, _use_new_zipfile_serialization=False)
        assert run("convert", source, "-o", out, "-f", "--verify").returncode == 0, protocol
        got = load_file(out)
        assert set(got) == set(state) and all(torch.equal(got[n], state[n]) for n in got), protocol
        CHECKS["legacy streams"] += 1


def every_case(tmp):
    for case in cases():
        one(tmp, *case)


if __name__ == "__main__":
    program(every_case, trees, files)
