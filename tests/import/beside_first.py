#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""beside_first.py --tool TOOL - configuration and tokenizer files are in place before weights get their names, for every command
that takes them along. Needs torch (tests/requirements.txt).
"""

import http.server
import json
import os
import resource
import subprocess
import threading

import runs
import torch
from losing import Server
from runs import CHECKS, program, run


def beside_first(tmp):
    """What lies beside the weights is in place before these get their names: a run that ends between leaves nothing that opens."""
    model, one = os.path.join(tmp, "model"), os.path.join(tmp, "one")
    for folder in model, one, os.path.join(tmp, "there"):
        os.mkdir(folder)
    for folder, shards in (model, 2), (one, 1):
        names = (
            [f"pytorch_model-{i + 1:05}-of-{shards:05}.bin" for i in range(shards)]
            if shards > 1
            else ["pytorch_model.bin"]
        )
        for name in names:
            torch.save({name: torch.ones(4)}, os.path.join(folder, name))
        if shards > 1:
            with open(os.path.join(folder, "pytorch_model.bin.index.json"), "w", encoding="ascii") as f:
                json.dump({"metadata": {}, "weight_map": {name: name for name in names}}, f)
        with open(os.path.join(folder, "config.json"), "w", encoding="ascii") as f:
            f.write("{}")
        with open(os.path.join(folder, "tokenizer.json"), "w", encoding="ascii") as f:
            f.write("x" * 300000)
    run("convert", one, "-o", os.path.join(tmp, "st"))
    run("convert", model, "-o", os.path.join(tmp, "shards"))
    with open(os.path.join(tmp, "there", "notes.txt"), "w", encoding="ascii") as f:
        f.write("of the user")
    Server.root = os.path.join(tmp, "st")
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_address[1]}/model.safetensors"
    there = os.path.join(tmp, "there")

    def limit():  # of a file's size: as a disk that is full after the weights
        resource.setrlimit(resource.RLIMIT_FSIZE, (100000, 100000))

    for number, (verb, source, out) in enumerate(
        [("convert", model, "c"), ("convert", one, "c"), ("convert", one, there), ("fetch", url, "f")]
    ):
        out = out if out.startswith(there) else os.path.join(tmp, f"{out}{number}")
        options = ["--max-shard-size", "16"] if verb == "split" else []
        r = subprocess.run(
            [runs.TOOL, verb, source, "-o", out, *options],
            capture_output=True,
            text=True,
            preexec_fn=limit,
            timeout=120,
        )
        assert r.returncode not in (0, 1, 2), (verb, source, out, r)
        folder = os.path.dirname(out) if out.endswith(".safetensors") else out
        left = os.listdir(folder) if os.path.isdir(folder) else []
        weights = [
            name
            for name in left
            if not name.startswith(".") and (name.endswith(".safetensors") or name.endswith(".index.json"))
        ]
        assert not weights, (verb, source, out, left, r.stderr)
        r = subprocess.run(
            [runs.TOOL, verb, source, "-o", out, *options], capture_output=True, text=True, timeout=120
        )
        assert r.returncode == 0, (verb, source, out, r)
        left = os.listdir(folder)
        assert {"config.json", "tokenizer.json"} <= set(left) and any(
            name.endswith(".safetensors") for name in left
        ), (verb, left)
        assert not any(name.startswith(".") for name in left), (verb, left)
        for name in left if folder == there else []:
            if name != "notes.txt":
                os.remove(os.path.join(folder, name))
        CHECKS["files carried along first"] += 1
    # What is not taken along is listed, too.
    with open(os.path.join(one, "modeling_own.py"), "w", encoding="ascii") as f:
        f.write("x = 1")
    os.symlink("/etc/passwd", os.path.join(one, "merges.txt"))
    report = json.loads(run("convert", one, "-o", os.path.join(tmp, "listed"), "--json", "-q").stdout)
    assert sorted(part["subject"] for part in report["left_out_parts"]) == [
        "merges.txt",
        "modeling_own.py",
    ], report
    server.shutdown()
    server.server_close()


if __name__ == "__main__":
    program(beside_first)
