#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""hub_peer.py --tool TOOL - `safetensors split` against huggingface_hub's own sharding.

Random models (sizes around the limit, larger than it, empty tensors, names of any characters) are split by both: the
same files with the same tensors in them, the same index byte by byte. Needs huggingface_hub (2.4) and numpy.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import struct
import subprocess
import sys
import tempfile

from huggingface_hub.serialization._base import split_state_dict_into_shards_factory

WORDS = [
    "model.layers",
    "self_attn.q_proj",
    "weight",
    "h\u00e9llo",
    "\u6f22",
    "\U0001f600",
    'quo"te',
    "a\\b",
    "x\x7fy",
]


def model(rng: random.Random) -> list[tuple[str, int]]:
    """Names and numbers of bytes, in file order."""
    count = rng.choice([0, 1, 2, 5, 30])
    names: dict[str, int] = {}
    for i in range(count):
        name = f"{rng.choice(WORDS)}.{rng.choice(WORDS)}.{i}"
        names[name] = rng.choice([0, 1, 7, 10, 50, 99, 100, 101, 250, rng.randrange(400)])
    return list(names.items())


def write(path: str, tensors: list[tuple[str, int]]) -> None:
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    at = 0
    for name, size in tensors:
        header[name] = {"dtype": "U8", "shape": [size], "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header, separators=(",", ":")).encode()
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + bytes(i % 251 for i in range(at)))


def names_in(path: str) -> set[str]:
    with open(path, "rb") as f:
        return set(json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))) - {"__metadata__"}


def compare(tool: str, folder: str, rng: random.Random) -> None:
    tensors = model(rng)
    most = rng.choice([1, 50, 100, 101, 1000, 100000])
    source = os.path.join(folder, "m.safetensors")
    out = os.path.join(folder, "out")
    write(source, tensors)
    subprocess.run(["rm", "-rf", out], check=True)
    subprocess.run(
        [tool, "split", source, "-o", out, "--max-shard-size", str(most), "-q", "--no-sync"], check=True
    )
    order = json.loads(subprocess.run([tool, "ls", "--json", source], check=True, capture_output=True).stdout)
    sizes = dict(tensors)
    state = {t["name"]: sizes[t["name"]] for t in order["tensors"]}
    got = sorted(os.listdir(out))
    if not state:
        assert got == ["model.safetensors"], got
        return
    theirs = split_state_dict_into_shards_factory(
        state,
        get_storage_size=lambda size: size,
        get_storage_id=lambda size: None,
        filename_pattern="model{suffix}.safetensors",
        max_shard_size=most,
    )
    files = theirs.filename_to_tensors
    index = ["model.safetensors.index.json"] if theirs.is_sharded else []
    assert got == sorted([*files, *index]), (got, list(files), tensors, most)
    for name, held in files.items():
        assert names_in(os.path.join(out, name)) == set(held), (name, tensors, most)
    if theirs.is_sharded:
        want = json.dumps({"metadata": theirs.metadata, "weight_map": theirs.tensor_to_filename}, indent=2)
        with open(os.path.join(out, index[0]), encoding="utf-8") as f:
            text = f.read()
        assert text == want, (text, want)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--tool", required=True)
    parser.add_argument("--cases", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    rng = random.Random(args.seed)
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(args.cases):
            compare(os.path.abspath(args.tool), folder, rng)
    print(f"{args.cases} models, split as huggingface_hub does")
    return 0


if __name__ == "__main__":
    sys.exit(main())
