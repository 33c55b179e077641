#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""make_joblib.py FOLDER - dumps by the installed joblib, plain and compressed, of every protocol, and joblib.json: what joblib.load
makes of them. Made with joblib 1.6.0 and numpy 2.4.6 (requirements-torch-family.txt)."""

import hashlib
import json
import pathlib
import sys

import joblib
import numpy

NAMES = {
    "float64": "F64",
    "float32": "F32",
    "float16": "F16",
    "int64": "I64",
    "int32": "I32",
    "int16": "I16",
    "int8": "I8",
    "uint64": "U64",
    "uint32": "U32",
    "uint16": "U16",
    "uint8": "U8",
    "bool": "BOOL",
    "complex64": "C64",
}


def rows(tree, prefix=""):
    found = {}
    items = tree.items() if isinstance(tree, dict) else enumerate(tree)
    for key, value in items:
        if isinstance(value, (dict, list, tuple)):
            found.update(rows(value, "%s%s." % (prefix, key)))
        elif isinstance(value, numpy.ndarray) and value.dtype.name in NAMES:
            little = numpy.ascontiguousarray(value.astype(value.dtype.newbyteorder("<")))
            digest = hashlib.sha256(little.tobytes()).hexdigest()
            found[prefix + str(key)] = [NAMES[value.dtype.name], list(value.shape), digest]
    return found


def main():
    folder = pathlib.Path(sys.argv[1])
    rng = numpy.random.RandomState(4)
    content = {}
    state = {
        "n": 3,
        "text": "x",
        "objects": numpy.array([1, "a", None, numpy.ones(2)], dtype=object),
        "words": numpy.array(["a", "bc"]),
        "empty": numpy.zeros((0, 3)),
        "scalar": numpy.array(2.5),
        "number": numpy.float32(3),
        "records": numpy.zeros(2, dtype=[("a", "f8"), ("b", "i4")]),
        "tied": {},
        "layers": [],
    }
    for name in NAMES:
        data = rng.randint(0, 2 if name == "bool" else 256, 24 * numpy.dtype(name).itemsize).astype(
            numpy.uint8
        )
        state[name] = data.view(name).reshape(4, 6)
    state["fortran"] = numpy.asfortranarray(state["float64"])
    state["big"] = state["float32"].astype(">f4")
    state["turned"] = state["int16"].T
    state["tied"]["again"] = state["float64"]
    state["layers"] = [{"w": rng.rand(3, 2), "b": rng.rand(2)}, (rng.rand(2), 5)]

    def put(name, value, **how):
        joblib.dump(value, folder / name, **how)
        content[name + " --allow-opaque --dedup keep"] = rows(joblib.load(folder / name))

    for protocol in range(6):
        put("joblib%d.joblib" % protocol, state, protocol=protocol)
    for kind in ("zlib", "gzip", "bz2", "xz", "lzma"):
        put("joblib-%s.joblib" % kind, state, compress=(kind, 3))
    joblib.dump(state["float64"], folder / "joblib-alone.joblib")
    content["joblib-alone.joblib"] = {"tensor": rows({"x": state["float64"]})["x"]}
    (folder / "joblib.json").write_text(
        json.dumps(content, indent=1, sort_keys=True) + "\n", encoding="utf-8"
    )
    print(
        "joblib", joblib.__version__, len(content), "files,", sum(len(v) for v in content.values()), "tensors"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
