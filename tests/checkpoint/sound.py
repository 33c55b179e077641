#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""sound.py --tool TOOL - new digests are made of no source whose own record says that it is damaged: every command that writes and
records, over sources that record crc32c, sha256 or MindSpore's crc_num, sound and damaged. The records are made here (hashlib,
zlib, a table for CRC32C), none by the tool. Standard library only.
"""

import argparse
import hashlib
import json
import os
import shutil
import struct
import sys
import tempfile
import zlib

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "fault"))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import scene  # noqa: E402
from crc32c import crc32c_hex  # noqa: E402

FAULTS = []
CHECKS = 0


def check(good, *what):
    global CHECKS
    CHECKS += 1
    if not good:
        FAULTS.append(what)
        print("FAULT", *[str(w)[:400] for w in what])


def sha256(data):
    return hashlib.sha256(data).hexdigest()


def sidecar(path, tensors, kind, digest):
    scene.put(
        path + ".digests.json",
        json.dumps(
            {
                "schema": 1,
                "file": os.path.basename(path),
                "size": os.path.getsize(path),
                "tensors": {k: {kind: digest(v)} for k, v in tensors.items()},
            }
        ),
    )


def inside(tensors, digest):
    text = b""
    for name in sorted(tensors):
        text += (
            struct.pack("<Q", len(name)) + name.encode() + b"U8\0" + struct.pack("<QQ", 1, len(tensors[name]))
        )
    return crc32c_hex(text) + "".join(digest(tensors[name]) for name in sorted(tensors))


def crc_num(tensors):
    crc = 0
    for name, value in tensors.items():
        crc = zlib.crc32(value, zlib.crc32(name.encode(), crc))
    return str(crc)


def put_file(path, tensors, record):
    keys = {"crc32c": crc32c_hex, "sha256": sha256}
    if record.startswith("inside "):
        kind = record[7:]
        scene.put(path, scene.weights(tensors, {"sft." + kind: inside(tensors, keys[kind])}))
        return
    scene.put(path, scene.weights(tensors, {"crc_num": crc_num(tensors)} if record == "crc_num" else None))
    if record.startswith("beside "):
        sidecar(path, tensors, record[7:], keys[record[7:]])


def flip(path, at=-1):
    with open(path, "r+b") as f:
        f.seek(at, 2)
        byte = f.read(1)
        f.seek(at, 2)
        f.write(bytes([byte[0] ^ 1]))


LAYOUT = {
    "format": "safetensors-layout",
    "version": 1,
    "mesh": {"axes": {"tp": 2}},
    "tensors": [{"name": "t0", "cuts": ["tp"]}, {"pattern": "t*", "whole": True}],
}
MODEL = scene.model(7, 1200, 6)


def write_file(d, record):
    put_file(os.path.join(d, "src.safetensors"), MODEL, record)
    return "src.safetensors", "src.safetensors"


def write_shards(d, record):
    names = sorted(MODEL)
    halves = [names[:3], names[3:]]
    files = ["model-%05d-of-00002.safetensors" % (i + 1) for i in range(2)]
    for file, half in zip(files, halves):
        put_file(os.path.join(d, "src", file), {n: MODEL[n] for n in half}, record)
    scene.put(
        os.path.join(d, "src", "model.safetensors.index.json"),
        json.dumps(
            {"metadata": {"total_size": 7200}, "weight_map": {n: f for f, h in zip(files, halves) for n in h}}
        ),
    )
    return "src", "src/" + files[1]


def write_ranks(d, record):
    for r in range(2):
        part = dict(MODEL, t0=MODEL["t0"][600 * r : 600 * r + 600])
        put_file(os.path.join(d, "src", "rank_%d" % r, "model.safetensors"), part, record)
    scene.put(os.path.join(d, "src", "layout.json"), json.dumps(LAYOUT))
    return "src", "src/rank_1/model.safetensors"


SOURCES = [write_file, write_shards, write_ranks]
RECORDS = ["inside crc32c", "inside sha256", "beside crc32c", "beside sha256", "crc_num"]
# (command, the options that record, what is written, sources)
WRITERS = [
    (["split", "{}", "-o", "out", "--max-shard-size", "2500"], "--record", "out", SOURCES),
    (["join", "{}", "-o", "out.safetensors"], "--record", "out.safetensors", SOURCES),
    (["join", "{}", "-o", "out", "--unified", "--part-size", "2500"], "--record", "out", SOURCES),
    (["reshard", "{}", "-o", "out", "--target-layout", "layout.json"], "--record", "out", SOURCES),
    (
        ["slice", "{}", "-o", "out.safetensors", "--layout", "layout.json", "-k", "1"],
        "--record",
        "out.safetensors",
        SOURCES,
    ),
    (["dedupe", "{}", "-o", "out", "--no-compare"], "--record", "out", [write_ranks]),
    (["expand", "{}", "-o", "out"], "--record", "out", [write_ranks]),
    (["cp", "{}", "out.safetensors"], "--digests", "out.safetensors", SOURCES),
    (["cp", "{}", "out.safetensors", "--cast", "I16"], "--digests", "out.safetensors", SOURCES),
]


def all_writers(tool, base):
    for args, option, out, sources in WRITERS:
        for source in sources:
            for record in RECORDS:
                for new in ("crc32c", "sha256"):
                    for damaged in (False, True):
                        d = os.path.join(base, "w")
                        shutil.rmtree(d, ignore_errors=True)
                        operand, file = source(d, record)
                        scene.put(os.path.join(d, "layout.json"), json.dumps(LAYOUT))
                        if damaged:
                            flip(os.path.join(d, file))
                        one(
                            tool,
                            d,
                            [a.format(operand) for a in args] + [option, new],
                            out,
                            damaged,
                            (source.__name__, record),
                        )


def one(tool, d, args, out, damaged, what):
    p = scene.run(tool, *args, cwd=d)
    there = os.path.exists(os.path.join(d, out))
    if damaged:
        named = '"t5"' in p.stderr or "crc_num" in p.stderr
        check(p.returncode == 1 and named and not there, what, args, p.returncode, there, p.stderr)
        left = [n for n in os.listdir(d) if "sft-part" in n]
        check(not left, what, args, "left behind:", left)
        return
    check(p.returncode == 0 and there, what, args, p.returncode, p.stderr)
    p = scene.run(tool, "verify", out, cwd=d)
    check(p.returncode == 0 and "ok" in p.stdout, what, args, "verify:", p.stdout, p.stderr)


def neighbours(tool, base):
    """What must go on working: other tensors than the damaged one, records of other tensors, plans, and no new digests."""
    d = os.path.join(base, "n")

    def fresh(source=write_file, record="inside crc32c", damage=True):
        shutil.rmtree(d, ignore_errors=True)
        operand, file = source(d, record)
        if damage:
            flip(os.path.join(d, file))
        return operand

    def must(status, *args):
        p = scene.run(tool, *args, cwd=d)
        check(p.returncode == status, args, p.returncode, p.stderr)
        return p

    for source in (write_file, write_shards):
        operand = fresh(source)
        must(0, "cp", operand, "some.safetensors", "-s", "t1", "--digests", "sha256")
        must(0, "verify", "some.safetensors")
        must(1, "cp", operand, "that.safetensors", "-s", "t5", "--digests", "sha256")
        must(0, "cp", operand, "all.safetensors")
        must(1, "verify", "all.safetensors")
        must(0, "split", operand, "-o", "plan", "--record", "crc32c", "--plan")
    operand = fresh()
    must(1, "cp", operand, "bare.safetensors", "--metadata", "drop", "--digests", "sha256")
    with open(os.path.join(d, operand), "rb") as f:
        p = scene.run(tool, "cp", "-", "in.safetensors", "--digests", "sha256", cwd=d, stdin=f)
    check(p.returncode == 1 and '"t5"' in p.stderr, "a pipe", p.returncode, p.stderr)
    must(0, "verify", "-f", "--record", "sha256", operand)  # who says that the bytes are right
    must(0, "cp", operand, "o.safetensors", "--digests", "crc32c")
    for source in (write_file, write_shards):  # a record of other tensors is told, and compared with nothing
        for damage in (False, True):
            operand = fresh(source, damage=damage)
            path = (
                os.path.join(d, operand, "model-00001-of-00002.safetensors")
                if source is write_shards
                else os.path.join(d, operand)
            )
            tensors = scene.read_weights(path)
            scene.put(path, scene.weights(tensors, {"sft.crc32c": "0" * (8 + 8 * len(tensors))}))
            p = must(
                int(damage and source is write_shards), "cp", operand, "s.safetensors", "--digests", "sha256"
            )
            check(
                "other names" in p.stderr, operand, "nothing is said of a record of other tensors:", p.stderr
            )


def tasks(tool, base):
    """Of a damaged source nothing is published, whichever tensor it is, however few units there are."""
    d = os.path.join(base, "t")
    for source in SOURCES:
        for damaged in (None, "t0", "t2", "t5"):
            shutil.rmtree(d, ignore_errors=True)
            operand, _ = source(d, "beside sha256")
            for folder, _, names in os.walk(d):
                for name in names if damaged else ():
                    path = os.path.join(folder, name)
                    if name.endswith(".safetensors") and damaged in scene.read_weights(path):
                        with open(path, "rb") as f:
                            data = f.read()
                        at = data.index(scene.read_weights(path)[damaged])
                        flip(path, at - len(data))
            for size in ("2500", "1GB"):
                results = [
                    scene.run(
                        tool,
                        "split",
                        operand,
                        "-o",
                        "out",
                        "--max-shard-size",
                        size,
                        "--record",
                        "crc32c",
                        "--task",
                        t,
                        cwd=d,
                    ).returncode
                    for t in ("1/3", "2/3", "3/3", "finish")
                ]
                there = os.path.exists(os.path.join(d, "out"))
                what = (source.__name__, damaged, size, results, there)
                check(there == (damaged is None) and (1 in results) == (damaged is not None), *what)
                scene.run(
                    tool,
                    "split",
                    operand,
                    "-o",
                    "out",
                    "--max-shard-size",
                    size,
                    "--task",
                    "1/1",
                    "-f",
                    cwd=d,
                )
                shutil.rmtree(os.path.join(d, "out"), ignore_errors=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tool", required=True)
    tool = os.path.abspath(parser.parse_args().tool)
    with tempfile.TemporaryDirectory(prefix="sft-sound-") as base:
        all_writers(tool, base)
        neighbours(tool, base)
        tasks(tool, base)
    print("%d checks, %d faults" % (CHECKS, len(FAULTS)))
    return 1 if FAULTS else 0


if __name__ == "__main__":
    sys.exit(main())
