#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""gguf_split.py --tool TOOL - GGUF models in several files, as gguf-split names and marks them: the first opens all as one
catalog, another alone says what it is; what is missing or does not belong is an error that names it. Standard library only."""

import argparse
import json
import os
import pathlib
import struct
import subprocess
import sys
import tempfile

F32, Q8_0 = 0, 8


def text(s):
    return struct.pack("<Q", len(s)) + s.encode()


def shard(tensors, no, count, total, more=()):
    """tensors: (name, elements, type). no None: a file that is no part of a set."""
    values = [(k, struct.pack("<I", 8) + text(v)) for k, v in more]
    if no is not None:
        values += [
            ("split.no", struct.pack("<IH", 2, no)),
            ("split.count", struct.pack("<IH", 2, count)),
            ("split.tensors.count", struct.pack("<Ii", 5, total)),
        ]
    out = (
        b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(values)) + b"".join(text(k) + v for k, v in values)
    )
    data = b""
    for name, n, kind in tensors:
        out += text(name) + struct.pack("<IQIQ", 1, n, kind, len(data))
        raw = bytes((i + len(name)) % 251 for i in range(4 * n if kind == F32 else n // 32 * 34))
        data += raw + bytes(-len(raw) % 32)
    return out + bytes(-len(out) % 32) + data


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tool", required=True)
    tool = os.path.abspath(parser.parse_args().tool)
    sets = [[("a", 8, F32), ("q.1", 64, Q8_0)], [("b", 32, F32)], [("q.2", 32, Q8_0), ("c", 3, F32)]]
    total = sum(map(len, sets))
    with tempfile.TemporaryDirectory() as name:
        tmp = pathlib.Path(name)

        def put(number, raw, count=3):
            (tmp / ("m-%05d-of-%05d.gguf" % (number, count))).write_bytes(raw)

        def run(*args, code=0):
            r = subprocess.run([tool, *map(str, args)], cwd=tmp, capture_output=True, text=True)
            assert r.returncode == code, (args, r.returncode, r.stdout, r.stderr)
            return r.stdout + r.stderr

        def good():
            for i, tensors in enumerate(sets):
                put(i + 1, shard(tensors, i, 3, total, [("general.name", "m")] if i == 0 else []))

        first = "m-00001-of-00003.gguf"
        good()
        names = [t[0] for part in sets for t in part]
        assert [t["name"] for t in json.loads(run("ls", "--json", first))["tensors"]] == names
        run("convert", first, "-o", "out.safetensors", "--verify", "-q")
        head = (tmp / "out.safetensors").read_bytes()
        header = json.loads(head[8 : 8 + struct.unpack("<Q", head[:8])[0]])
        assert sorted(set(header) - {"__metadata__"}) == sorted(names)
        blocks = json.loads(header["__metadata__"]["gguf.tensors"])
        assert sorted(blocks) == ["q.1", "q.2"], blocks
        for part in sets:
            for t, n, kind in part:
                begin, end = header[t]["data_offsets"]
                at = 8 + struct.unpack("<Q", head[:8])[0]
                assert head[at + begin : at + end] == bytes((i + len(t)) % 251 for i in range(end - begin)), t
        assert "shard 2 of 3" in run("ls", "m-00002-of-00003.gguf")
        (tmp / "renamed.gguf").write_bytes((tmp / first).read_bytes())
        assert "shard 1 of 3" in run("ls", "renamed.gguf")
        alone = shard(sets[0], None, 0, 0)
        (tmp / "whole.gguf").write_bytes(alone)
        assert "shard" not in run("ls", "whole.gguf")

        def refused(words, code=1):
            said = run("ls", first, code=code)
            assert words in said, (words, said)
            good()

        (tmp / "m-00002-of-00003.gguf").unlink()
        refused("m-00002-of-00003.gguf")
        put(2, shard(sets[1], 0, 3, total))
        refused("shard 2 of 3")
        put(2, shard(sets[1], 1, 4, total))
        refused("shard 2 of 3")
        put(2, alone)
        refused("shard 2 of 3")
        put(2, b"GGUF")
        refused("m-00002-of-00003.gguf")
        put(2, shard(sets[0], 1, 3, total))
        refused("twice")
        put(2, shard(sets[1] + [("d", 1, F32)], 1, 3, total))
        refused("split.tensors.count")
        put(1, shard(sets[0], 0, 3, total + 1))
        refused("split.tensors.count")
        (tmp / "m-00001-of-00001.gguf").write_bytes(shard(sets[0], 0, 1, 2))
        assert len(json.loads(run("ls", "--json", "m-00001-of-00001.gguf"))["tensors"]) == 2
    print("GGUF in shards: done")
    return 0


if __name__ == "__main__":
    sys.exit(main())
