#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""folders.py --tool TOOL - a folder of PyTorch shards with their index is one model to every command, as a folder of
safetensors is; indexes that lie are told. Standard library only."""

import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent / "fixtures"
INDEX = "pytorch_model.bin.index.json"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tool", required=True)
    tool = os.path.abspath(parser.parse_args().tool)
    with tempfile.TemporaryDirectory() as name:
        tmp = pathlib.Path(name)
        hub = tmp / "hub"
        hub.mkdir()

        def run(*args, code=0):
            r = subprocess.run([tool, *map(str, args)], capture_output=True, text=True, timeout=300)
            assert r.returncode in ((0,) if code == 0 else (1, 3)), (args, r.returncode, r.stderr)
            return r.stdout if code == 0 else r.stderr

        def index(**files):
            text = {"metadata": {"total_size": 1}, "weight_map": files}
            (hub / INDEX).write_text(json.dumps(text))

        # Two shards of numpy's fixture, written as PyTorch files.
        flat = tmp / "flat.safetensors"
        run("convert", HERE / "numpy.npz", "-o", flat, "-q")
        names = [t["name"] for t in json.loads(run("ls", "--json", flat))["tensors"]]
        names = [n for n in names if "/" not in n and "*" not in n and "[" not in n]
        half = len(names) // 2
        shards = {
            "pytorch_model-00001-of-00002.bin": names[:half],
            "pytorch_model-00002-of-00002.bin": names[half:],
        }
        for file, part in shards.items():
            run("convert", flat, "-o", hub / file, "--to", "pt", "-q", *(f"--select={n}" for n in part))
        where = {n: file for file, part in shards.items() for n in part}
        index(**where)
        whole = tmp / "whole.safetensors"
        run("cp", flat, whole, *(f"--select={n}" for n in names))
        for model in (hub, hub / INDEX):
            listed = json.loads(run("ls", "--json", model))["tensors"]
            assert sorted(t["name"] for t in listed) == sorted(names)
            run("diff", whole, model)
            run("check", model)
        assert run("hash", "--json", hub).count("content") == run("hash", "--json", whole).count("content")
        run("get", hub, names[-1], "-o", tmp / "a.bin")
        run("get", whole, names[-1], "-o", tmp / "b.bin")
        assert (tmp / "a.bin").read_bytes() == (tmp / "b.bin").read_bytes()
        run("show", hub, names[0])
        run("cp", hub, tmp / "copy.safetensors")
        run("diff", whole, tmp / "copy.safetensors")
        run("convert", hub / INDEX, "-o", tmp / "one.safetensors", "-q", "--verify")
        run("diff", whole, tmp / "one.safetensors")
        run("convert", hub, "-o", tmp / "out", "-q", "--verify")
        run("diff", whole, tmp / "out")
        for size in (64, 1 << 20):  # files of another size are cut from the whole model, not from each shard
            run("convert", hub, "-o", tmp / f"cut{size}", "-q", "--verify", "--max-shard-size", size)
            run("diff", whole, tmp / f"cut{size}")
            written = {f.name for f in (tmp / f"cut{size}").glob("*.safetensors")}
            places = tmp / f"cut{size}" / "model.safetensors.index.json"
            assert written == (
                set(json.loads(places.read_text())["weight_map"].values())
                if size == 64
                else {"model.safetensors"}
            ), written
        run("convert", hub, "-o", tmp / "one.pt", "-q", "--verify")
        run("diff", whole, tmp / "one.pt")

        def refused(text, **files):
            index(**files)
            for model in (hub, hub / INDEX):
                err = run("ls", model, code=1)
                assert text in err, (files, err)
                run("check", model, code=1)

        refused(".", **{names[0]: "../hub/pytorch_model-00001-of-00002.bin"})
        refused("names", **{**where, names[0]: "none.bin"})
        refused(INDEX, **{names[0]: INDEX})  # an index that names itself
        refused("index says", **{**where, "more": "pytorch_model-00001-of-00002.bin"})
        refused("nothing of it", **dict(list(where.items())[1:]))
        refused("index says", **{**where, names[0]: where[names[-1]]})
        os.mkfifo(hub / "pipe.bin")
        refused("pipe.bin", **{names[0]: "pipe.bin"})
        (hub / INDEX).write_text('{"weight_map": {')
        run("ls", hub, code=1)
        (hub / INDEX).unlink()
        run("ls", hub, code=1)
        os.rename(hub / "pytorch_model-00001-of-00002.bin", hub / "pytorch_model.bin")
        assert len(json.loads(run("ls", "--json", hub))["tensors"]) == half
        keras = tmp / "keras"
        shutil.copytree(HERE / "keras", keras)
        path = keras / "model.weights.json"
        good = json.loads(path.read_text())

        def weights(text=None, **change):
            path.write_text(json.dumps(good | {"weight_map": good["weight_map"] | change}))
            if text is not None:
                err = run("ls", path, code=1)
                assert text in err, (change, err)

        two = good["weight_map"]["/layers/dense/vars"]
        assert len(two) == 2
        weights("nothing of it", **{"/layers/dense/vars": two[:1]})
        weights("names it twice", **{"/layers/dense/vars": two + two[:1]})
        weights("index says", **{"/layers/none/vars": two})
        weights("outside", **{"/layers/dense/vars": ["../keras/model_00000.weights.h5", two[1]]})
        weights("which the index names", **{"/layers/dense/vars": [*two, "model_00007.weights.h5"]})
        weights("no object of file names", **{"/layers/dense/vars": [two]})
        weights(
            **{"/layers/batch_normalization/vars": good["weight_map"]["/layers/batch_normalization/vars"][0]}
        )
        assert len(json.loads(run("ls", "--json", path))["tensors"]) == 8
    return 0


if __name__ == "__main__":
    sys.exit(main())
