#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""array_write.py --tool TOOL - GGUF and npz through safetensors and back are the same; what a format cannot hold is
refused and leaves nothing behind. Standard library only."""

import argparse
import json
import math
import os
import pathlib
import struct
import subprocess
import sys
import tempfile
import zipfile

HERE = pathlib.Path(__file__).resolve().parent / "fixtures"


def content(path):
    """Data, tensors and metadata; the notes of GGUF decoded, for their order is that of the file."""
    data = path.read_bytes()
    n = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + n])
    notes = {k: json.loads(v) for k, v in header.get("__metadata__", {}).items() if k.startswith("gguf.")}
    header.get("__metadata__", {}).update(notes)
    return header, data[8 + n :]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tool", required=True)
    tool = os.path.abspath(parser.parse_args().tool)
    with tempfile.TemporaryDirectory() as name:
        tmp = pathlib.Path(name)

        def convert(source, target, *args, refused=None):
            r = subprocess.run(
                [tool, "convert", source, "-o", tmp / target, "-q", *args], capture_output=True, text=True
            )
            if refused is None:
                assert r.returncode == 0, (source, args, r.stderr)
            else:
                assert r.returncode != 0 and refused in r.stderr, (source, args, r.stderr)
            return tmp / target

        for fixture, end in (("types.gguf", "gguf"), ("numpy.npz", "npz")):
            first = convert(HERE / fixture, end + ".safetensors")
            made = convert(first, "made." + end, "--verify")
            second = convert(made, end + "2.safetensors")
            assert content(first) == content(second), fixture
            again = convert(made, "again-" + end, "--to", end)
            assert made.read_bytes() == again.read_bytes(), fixture
            convert(made, "made." + end, refused="exist")
        assert zipfile.ZipFile(tmp / "made.npz").testzip() is None
        plan = json.loads(
            subprocess.run(
                [tool, "convert", first, "-o", tmp / "plan.npz", "--plan", "--json"],
                capture_output=True,
                check=True,
            ).stdout
        )
        assert len(plan["plan"]) == plan["tensors"] and not (tmp / "plan.npz").exists()
        arch = ["-m", "general.architecture=x"]
        before = sorted(os.listdir(tmp))
        convert(first, "no.gguf", *arch, refused="GGUF has no type")
        convert(first, "no.gguf", "--cast", "*=f32", refused="general.architecture")
        convert(first, "no.gguf", "--select", "t.f4", *arch, "-m", "a:u8=300", refused="is no u8")
        convert(
            first, "no.gguf", "--select", "t.f4", *arch, "--rename", "t.f4=" + "n" * 64, refused="63 bytes"
        )
        convert(first, "no.npz", "--cast", "bf16", refused="no type BF16")
        convert(first, "no.npz", "-m", "a=b", refused="no room for metadata")
        assert sorted(os.listdir(tmp)) == before, "something was left behind"
        (tmp / "m.json").write_text(json.dumps({"general.architecture": "x", "a:f32": "0.5", "b": "1"}))
        made = convert(first, "m.gguf", "--select", "t.f4", "--metadata-json", tmp / "m.json", "-m", "b=2")
        shown = json.loads(
            subprocess.run([tool, "meta", "--json", made], capture_output=True, check=True).stdout
        )
        text = json.dumps(shown)
        for part in ('"a": "0.5"', '"b": "2"', "u32", "f32"):
            assert part in text, (part, text)
        # numbers are the nearest doubles: a text of 17 digits comes back as the number that it was made of
        numbers = [math.ldexp(1 + 7919 * i % 4096 / 4096 + i * 2.0**-50, 23 * i - 1070) for i in range(90)]
        numbers += [
            5e-324,
            2.2250738585072014e-308,
            1.7976931348623157e308,
            0.1,
            1e22,
            1e23,
            9007199254740993.0,
        ]
        (tmp / "r.json").write_text(json.dumps({"general.architecture": "x", "r:[f64]": json.dumps(numbers)}))
        made = convert(first, "r.gguf", "--select", "t.f4", "--metadata-json", tmp / "r.json").read_bytes()
        at = made.index(b"\1\0\0\0\0\0\0\0r\x09\0\0\0\x0c\0\0\0") + 17 + 8
        assert list(struct.unpack_from("<%dd" % len(numbers), made, at)) == numbers
    return 0


if __name__ == "__main__":
    sys.exit(main())
