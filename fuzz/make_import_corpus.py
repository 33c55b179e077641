#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Writes the seeds of the import library's targets in fuzz/corpus, from the cases of tests/import/hostile.py and from
what real pickles hold. Run it by hand after a change; the seeds are checked in."""

import json
import os
import pickle
import re
import sys
import types

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "tests", "import"))
import hostile  # noqa: E402
import hostile_content  # noqa: E402
import hostile_walk  # noqa: E402
import scan_cases  # noqa: E402
from load_cases import CASES  # noqa: E402

LONGEST = 1200
ITEM, OBJECT = 496, 243  # bytes of the archives that fuzz_dcp.c makes
FEW = re.compile(r"opcode .. (alone|in a list)")


def put(target, name, data):
    folder = os.path.join(HERE, "corpus", target)
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")), "wb") as f:
        f.write(data)


def content():
    """The cases of hostile_content.py under the names that fuzz_content.c has, its first byte the name's number."""
    with open(os.path.join(HERE, "fuzz_content.c"), encoding="utf-8") as f:
        names = re.findall(r'"([^"]+)"', re.search(r"names\[\] = \{(.*?)\};", f.read(), re.S).group(1))
    for cases in (
        hostile_content.keras_cases,
        hostile_content.json_cases,
        hostile_content.template_cases,
        hostile_content.graph_cases,
        hostile_content.text_cases,
    ):
        cases()
    for i, (name, data, *_) in enumerate(scan_cases.CASES):
        if len(data) > LONGEST // 2:
            continue
        same = [n for n in names if n == name] or [
            n for n in names if n.rsplit(".", 1)[-1] == name.rsplit(".", 1)[-1]
        ]
        if same:
            put("content", f"{i:03}-{name}", bytes([names.index(same[0])]) + data)


def joblibs():
    """Small dumps of joblib, for the target of pickles alone."""
    fixtures = os.path.join(HERE, "..", "tests", "import", "fixtures")
    for name in sorted(os.listdir(fixtures)):
        if name.endswith(".joblib"):
            with open(os.path.join(fixtures, name), "rb") as f:
                put("paddle", name, f.read())


def checkpoints():
    """.metadata for the file of fuzz_dcp.c: two items of 496 bytes, and an object."""
    fields = {
        "metadata": [
            "Metadata",
            "TensorStorageMetadata",
            "TensorProperties",
            "ChunkStorageMetadata",
            "MetadataIndex",
            "BytesStorageMetadata",
        ],
        "filesystem": ["_StorageInfo"],
    }
    classes = {}
    for module in ("torch", "torch.distributed", "torch.distributed.checkpoint"):
        sys.modules[module] = types.ModuleType(module)
    for part, names in fields.items():
        module = types.ModuleType("torch.distributed.checkpoint." + part)
        sys.modules[module.__name__] = module
        for name in names:
            classes[name] = type(name, (), {"__module__": module.__name__})
            setattr(module, name, classes[name])

    class Dtype:
        def __reduce__(self):
            return "float32"

    sys.modules["torch"].float32 = Dtype()
    Dtype.__module__ = "torch"

    def make(name, **state):
        value = classes[name]()
        value.__dict__.update(state)
        return value

    classes["TensorProperties"].__getstate__ = lambda self: (sys.modules["torch"].float32, None, False)

    def tensor(shape, *boxes):
        chunks = [make("ChunkStorageMetadata", offsets=o, sizes=s) for o, s in boxes]
        return make("TensorStorageMetadata", properties=make("TensorProperties"), size=shape, chunks=chunks)

    def place(offset, length, path="__0_0.distcp"):
        return make("_StorageInfo", relative_path=path, offset=offset, length=length)

    def index(name, offset=None):
        return make("MetadataIndex", fqn=name, index=0, offset=offset)

    size = ITEM
    whole = {
        "w": tensor((2, 3), ((0, 0), (2, 3))),
        "v": tensor((2, 3), ((0, 0), (2, 3))),
        "n": make("BytesStorageMetadata"),
    }
    places = {
        index("w", (0, 0)): place(0, size),
        index("v", (0, 0)): place(size, size),
        index("n"): place(2 * size, OBJECT),
    }
    halves = {"w": tensor((4, 3), ((0, 0), (2, 3)), ((2, 0), (2, 3)))}
    seeds = {
        "whole": (whole, places),
        "halves": (halves, {index("w", (0, 0)): place(0, size), index("w", (2, 0)): place(size, size)}),
        "hole": (halves, {index("w", (0, 0)): place(0, size)}),
        "overlap": (halves, {index("w", (0, 0)): place(0, size), index("w", (2, 0)): place(9, size)}),
        "elsewhere": (whole, {index("w", (0, 0)): place(0, size, "../x")}),
    }
    for name, (tensors, storage) in seeds.items():
        data = pickle.dumps(
            make("Metadata", state_dict_metadata=tensors, planner_data={"w": ("w",)}, storage_data=storage), 4
        )
        put("dcp", name, data)


def exports():
    """Lists of weights for the archive of fuzz_pt2.c."""

    def entry(path, dtype, sizes, strides, offset=0):
        return {
            "path_name": path,
            "is_param": True,
            "use_pickle": False,
            "tensor_meta": {
                "dtype": dtype,
                "sizes": [{"as_int": n} for n in sizes],
                "requires_grad": True,
                "device": {"type": "cpu", "index": None},
                "strides": [{"as_int": n} for n in strides],
                "storage_offset": {"as_int": offset},
                "layout": 7,
            },
        }

    seeds = {
        "whole": {"w": entry("weight_0", 7, [4, 4], [4, 1]), "v": entry("weight_1", 13, [2, 64], [64, 1])},
        "views": {
            "w": entry("weight_1", 7, [4, 4], [1, 4]),
            "t": entry("weight_1", 7, [4, 4], [1, 4]),
            "x": entry("weight_1", 5, [], [], 3),
        },
        "none": {},
        "null": {"w": {"path_name": "weight_0", "use_pickle": True, "tensor_meta": None}},
        "elsewhere": {"w": entry("../weight_0", 7, [4], [1])},
    }
    for name, config in seeds.items():
        put("pt2", name, json.dumps({"config": config}).encode())


def main():
    content()
    joblibs()
    checkpoints()
    exports()
    pickles = {}

    def take(name, pkl, *rest):
        if len(pkl) <= LONGEST and not FEW.match(name):
            pickles[name] = pkl

    hostile.torch_pkl = take
    hostile.pickles()
    hostile.tensors()
    pickles["good"] = hostile.GOOD
    CASES.clear()
    hostile.zips()
    hostile.legacies()
    for name, data, *_ in CASES:
        if name.startswith(("legacy", "good legacy", "bare")):
            at = data.find(b"s.", data.find(b"little_endian"))
            if at > 0 and len(data) <= LONGEST:
                put("legacy", name, data[at + 2 :])
        elif len(data) <= LONGEST:
            put("zip", name, data)
    put("zip", "legacy", hostile.legacy(hostile.GOOD))
    for name, pkl in pickles.items():
        put("pickle", name, pkl)
    good = hostile.make_tar()
    parts, at = {}, 0
    while good[at]:
        size = int(good[at + 124 : at + 135], 8)
        parts[good[at : at + 100].rstrip(b"\0").decode()] = good[at + 512 : at + 512 + size]
        at += 512 + (size + 511) // 512 * 512
    order = [parts[n] for n in ("sys_info", "storages", "tensors", "pickle")]
    put("tar", "parts", b"\0" + b"".join(len(p).to_bytes(2, "little") for p in order[:3]) + b"".join(order))
    put("tar", "whole", b"\1" + good)
    for make in (
        hostile_walk.floor,
        hostile_walk.streams,
        hostile_walk.names,
        hostile_walk.containers,
        hostile_walk.nested,
        hostile_walk.joblib,
    ):
        make()
    put("scan", "opened", b"\xfe" + hostile.GOOD)
    for i, (name, data, *_) in enumerate(hostile_walk.CASES):
        if len(data) <= LONGEST and "bomb" not in name:
            put("scan", name, data)
            if i % 4 == 0:
                put("scan", name + " in a zip", b"\xff" + data)


if __name__ == "__main__":
    main()
