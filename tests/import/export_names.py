#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Names on their way into other formats: many aliases, aliases that another input has, names that a
format's own reader would refuse, files under one name, files of no tensors. Standard library only.

    python3 export_names.py --tool build/safetensors
"""

import argparse
import json
import os
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

TOOL = ""


def save(path: str, names: list[str], metadata: dict[str, str] | None = None) -> None:
    header: dict[str, object] = {"__metadata__": metadata} if metadata else {}
    for i, name in enumerate(names):
        header[name] = {"dtype": "I32", "shape": [1], "data_offsets": [4 * i, 4 * i + 4]}
    text = json.dumps(header).encode()
    data = struct.pack(f"<{len(names)}i", *range(len(names)))
    Path(path).write_bytes(struct.pack("<Q", len(text)) + text + data)


def load(path: str) -> tuple[dict[str, int], dict[str, str]]:
    raw = Path(path).read_bytes()
    size = struct.unpack("<Q", raw[:8])[0]
    header = json.loads(raw[8 : 8 + size])
    metadata = header.pop("__metadata__", {})
    at = {name: 8 + size + t["data_offsets"][0] for name, t in header.items()}
    return {name: struct.unpack_from("<i", raw, p)[0] for name, p in at.items()}, metadata


def expect(status: int, words: str, *args: str) -> None:
    done = subprocess.run([TOOL, *args], capture_output=True, text=True, timeout=300, check=False)
    if done.returncode != status or words not in done.stdout + done.stderr:
        short = " ".join(a[:60] for a in args)
        got = f"exit {done.returncode}, {status} was expected, with {words!r}"
        sys.exit(f"{short}: {got}:\n{done.stderr}")


def many_aliases() -> None:
    for count in 1, 7, 8, 64, 4096:
        names = [f"a{i}" for i in range(count)]
        save("many.safetensors", names, {f"b{i}": f"a{i}" for i in range(count)})
        expect(0, "", "convert", "many.safetensors", "-o", "many.pt", "--force", "--verify")
        expect(0, "", "convert", "many.pt", "-o", "k.safetensors", "--force", "--dedup", "keep")
        values, _ = load("k.safetensors")
        want = {f"{x}{i}": i for x in "ab" for i in range(count)}
        if values != want:
            sys.exit(f"{count} aliases: {len(values)} names, {len(want)} were expected")
        args = ["--force", "--max-shard-size", "8"]
        expect(0, "", "convert", "many.pt", "-o", "k.safetensors", *args)
        for path in ["k.safetensors"] if count == 1 else Path(".").glob("k-0*.safetensors"):
            values, metadata = load(str(path))
            metadata.pop("format")
            if {k: v for v, k in metadata.items()} != {n: "b" + n[1:] for n in values}:
                sys.exit(f"{path}: other aliases than those of its tensors")
            os.unlink(path)


def aliases_of_another() -> None:
    save("one.safetensors", ["a", "c"], {"b": "a"})
    save("two.safetensors", ["b"])
    for name in "one", "two":
        expect(0, "", "convert", f"{name}.safetensors", "-o", f"{name}.pt")
    for order in ["one.pt", "two.pt"], ["two.pt", "one.pt"]:
        expect(1, "two inputs have this name", "convert", *order, "-o", "both.safetensors")
    assert not os.path.exists("both.safetensors")
    # the name of an alias, given to a tensor
    expect(0, "", "convert", "one.pt", "-o", "renamed.safetensors", "--rename", "a=b", "--force")
    values, metadata = load("renamed.safetensors")
    assert "b" in values and metadata == {"format": "pt"}, (values, metadata)
    expect(
        1,
        "another name of a different one",
        "convert",
        "one.pt",
        "-o",
        "renamed.safetensors",
        "--rename",
        "c=b",
        "--force",
    )


def names_of_formats() -> None:
    no_member = ["../x", "/x", "a\\b", "C:x", "a\tb", "nul\0z", "\x7f", "x" * 70000]
    refused = {
        "npz": no_member,
        "ckpt": ["", "x" * 70000],
        "pt": ["x" * 70000],
    }
    for form, names in refused.items():
        for name in names:
            save("name.safetensors", [name])
            for more in [], ["--verify"]:
                expect(1, "", "convert", "name.safetensors", "-o", "name." + form, *more)
                assert not os.path.exists("name." + form)
    for form in "npz", "ckpt", "pt":
        for name in "a/b", "..x", "x..", "é", "con", "a b", '"', "n" if form == "npz" else "n\n":
            save("name.safetensors", [name])
            args = ["-o", "name." + form, "--verify", "--force"]
            expect(0, "", "convert", "name.safetensors", *args)
            expect(0, "", "convert", "name." + form, "-o", "back.safetensors", "--force")
            assert load("back.safetensors")[0] == {name: 0}, (form, name)


def files_of_one_name() -> None:
    """What conversions would lose: two files that become one, inputs under the outputs' names."""
    for folder in "bins", "out":
        os.mkdir(folder)
    for name, file in ("a", "pytorch_model-1.bin"), ("b", "model-1.bin"):
        save(name + ".safetensors", [name])
        expect(0, "", "convert", name + ".safetensors", "-o", "bins/" + file, "--to", "pt")
    index = {"weight_map": {"a": "pytorch_model-1.bin", "b": "model-1.bin"}}
    Path("bins/pytorch_model.bin.index.json").write_text(json.dumps(index))
    for more in [], ["--force"]:
        expect(1, "both become model-1.safetensors", "convert", "bins", "-o", "out", *more)
        assert os.listdir("out") == []
    save("m.safetensors", [f"t{i}" for i in range(4)])
    size = ["--max-shard-size", "8", "--force"]
    expect(1, "another model lies there", "convert", "m.safetensors", "-o", "m.safetensors", *size)
    os.mkdir("shards")
    expect(0, "", "convert", "m.safetensors", "-o", "shards/m.safetensors", *size)
    shards = ["shards/m-00001-of-00002.safetensors", "shards/m-00002-of-00002.safetensors"]
    before = [load(path) for path in shards]
    expect(3, "is read", "convert", *shards, "-o", "shards/m.safetensors", *size)
    assert [load(path) for path in shards] == before
    expect(0, "", "convert", *shards, "-o", shards[0], "--force")
    assert len(load(shards[0])[0]) == 4


def no_folders() -> None:
    os.mkdir("nothing")
    for source in "nothing", "nowhere":
        expect(3, "", "convert", source, "-o", "made")
        assert not os.path.exists("made")
    os.mkdir("there")
    expect(3, "", "convert", "nothing", "-o", "there")
    assert os.path.isdir("there")
    for name in "-", "":
        expect(2, "says where to", "convert", "none.safetensors", "-o", name)


def no_tensors() -> None:
    save("none.safetensors", [])
    for form in "npz", "pt", "ckpt", "safetensors.safetensors":
        expect(1, "no tensors", "convert", "none.safetensors", "-o", "none." + form, "--verify")
        assert not os.path.exists("none." + form)


def main() -> None:
    global TOOL
    parser = argparse.ArgumentParser()
    parser.add_argument("--tool", required=True)
    TOOL = os.path.abspath(parser.parse_args().tool)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        many_aliases()
        aliases_of_another()
        names_of_formats()
        files_of_one_name()
        no_tensors()
        no_folders()
        os.chdir("/")
    print("ok")


if __name__ == "__main__":
    main()
