#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""hostile_shards.py --tool TOOL [--corpus FOLDER] - weights of Keras in shards (NAME.weights.json and its HDF5 files): indexes
that lie and that are no JSON; then index and shards, also those that Keras wrote (fixtures/keras), cut at every byte: each is
refused with a sentence. --corpus writes seeds for the fuzz target. Standard library only."""

import argparse
import json
import os
import pathlib
import sys
import tempfile

from hostile_hdf5 import F4, Image, compact, dataset, header, header1, link, space
from load_cases import LIMIT_SECONDS, Run, save_seed

HERE = pathlib.Path(__file__).resolve().parent
INDEX, FIRST, SECOND = "m.weights.json", "m_0.h5", "m_1.h5"
BATCH = 500


def shard(group, *names, block=None, old=False):
    """A file with the tensors `names` in a group of this name, in HDF5's newer or older form."""
    make = header1 if old else header
    image = Image(0 if old else 2).add("root", lambda at: make(link(group, at["group"])))
    image.add("group", lambda at: make(*(link(n, at[n]) for n in names)))
    for n in names:
        image.add(n, block or (header1(space(4), F4, compact()) if old else dataset(compact())))
    return image.build()


def index(**groups):
    return json.dumps(
        {"metadata": {"total_size": 48}, "weight_map": {"/" + k: v for k, v in groups.items()}}
    ).encode()


GOOD = index(a=[FIRST, SECOND], b=SECOND)
A, B = (
    shard("a", "0", "1"),
    Image()
    .add("root", lambda at: header(link("a", at["a"]), link("b", at["b"])))
    .add("a", lambda at: header(link("2", at["w"])))
    .add("b", lambda at: header(link("0", at["v"])))
    .add("w", dataset(compact()))
    .add("v", dataset(compact()))
    .build(),
)


def cases():
    """(name, index, first shard, second shard, words of the refusal; None: it is read)"""
    yield "good", GOOD, A, B, None
    yield (
        "older form",
        index(a=[FIRST], b=[SECOND]),
        shard("a", "0", old=True),
        shard("b", "0", old=True),
        None,
    )
    yield "one file", index(a=FIRST), A, B, None
    yield "the other's", GOOD, B, A, "index says"
    yield "same tensors twice", index(a=[FIRST, SECOND]), A, A, ""
    yield "no tensor of a group", index(a=[FIRST, SECOND], b=SECOND, c=FIRST), A, B, "index says"
    yield "a file that is not there", index(a=[FIRST, "m_7.h5"]), A, B, "m_7.h5"
    for path in (
        "../m_0.h5",
        "/etc/passwd",
        ".",
        "..",
        "",
        ".m_0.h5",
        "a/m_0.h5",
        "a\\m_0.h5",
        "C:m_0.h5",
        "m_0.h5\0",
    ):
        yield "a file called %r" % path, index(a=[path]), A, B, "outside"
    yield "the index names itself", index(a=[INDEX]), A, B, ""
    yield "a file twice", index(a=[FIRST, FIRST]), A, B, "twice"
    yield "no file", index(a=[]), A, B, "names no tensor"
    yield "lists in lists", index(a=[[FIRST]]), A, B, "no object of file names"
    yield "a number", index(a=[FIRST, 7]), A, B, "no object of file names"
    yield "not UTF-8", GOOD.replace(b"/a", b"/\xff"), A, B, "UTF-8"
    yield "deep", GOOD[:-1] + b', "x":' + b"[" * 5000 + b"]" * 5000 + b"}", A, B, ""
    yield "two weight_map", GOOD[:-1] + b', "weight_map": {"/a": "m_0.h5"}}', A, B, "twice"
    yield (
        "no comma between keys",
        GOOD.replace(b'}, "weight_map"', b'} "weight_map"'),
        A,
        B,
        "no object of file names",
    )
    yield "no comma between groups", GOOD.replace(b'], "/b"', b'] "/b"'), A, B, "no object of file names"
    yield "no comma between files", GOOD.replace(b'", "m_1', b'" "m_1'), A, B, "no object of file names"
    yield "a comma behind the last file", GOOD.replace(b'"]', b'",]'), A, B, "no object of file names"
    yield "a comma behind the last group", GOOD.replace(b'"}', b'",}'), A, B, "no object of file names"
    yield "a comma behind the last key", GOOD[:-1] + b",}", A, B, "no object of file names"
    yield "bytes behind it", GOOD + b"x", A, B, "no object of file names"
    yield "two of them", GOOD + GOOD, A, B, "no object of file names"
    yield "zeros behind it", GOOD + bytes(9), A, B, "no object of file names"
    yield "blanks behind it", GOOD + b" \n", A, B, None


def write(folder, files):
    folder.mkdir(exist_ok=True)
    for name, data in files:
        (folder / name).write_bytes(data)


def check_case(tool, folder, name, files, words, faults, slow):
    write(folder, files)
    for command in ("ls", "scan"):
        r = Run(tool, [command, INDEX], folder)
        slow.append((r.seconds, "%s of %s" % (command, name)))
        text = r.err.decode(errors="replace")
        if r.status not in (0, 1) or r.seconds > LIMIT_SECONDS:
            faults.append("%s of %s: exit %d, %.1f s: %s" % (command, name, r.status, r.seconds, text))
        elif command == "ls" and (r.status == 0) != (words is None):
            faults.append("%s: ls exits with %d: %s" % (name, r.status, text))
        elif command == "ls" and words not in (None, "") and words not in text:
            faults.append("%s: %r is not in %r" % (name, words, text))


def cuts(tool, folder, files, which, faults):
    """One file of the set cut at every byte, the others whole and linked; many directories a run."""
    name, data = files[which]
    dirs = [folder / str(i) for i in range(min(BATCH, len(data)))]
    write(folder / "whole", files)
    for d in dirs:
        d.mkdir()
        for other, _ in files:
            if other != name:
                os.link(folder / "whole" / other, d / other)
    for start in range(0, len(data), BATCH):
        lengths = range(start, min(len(data), start + BATCH))
        for d, n in zip(dirs, lengths):
            (d / name).write_bytes(data[:n])
        for command in ("check", "scan")[: 2 if which == 0 else 1]:
            names = ["%s/%s" % (d.name, files[0][0]) for d in dirs[: len(lengths)]]
            r = Run(tool, [command, "--json", *names], folder)
            rows = [json.loads(line) for line in r.out.decode().splitlines()]
            if r.status not in (0, 1) or len(rows) != len(names):
                faults.append(
                    "%s cut at %d and more: %s exits with %d, %d answers: %s"
                    % (name, start, command, r.status, len(rows), r.err[-300:])
                )
            faults += [
                "%s cut at %d is taken" % (name, start + i)
                for i, row in enumerate(rows)
                if command == "check" and row["valid"]
            ]
    return len(data)


def sets():
    """(label, files, which of them are cut): of Keras's own the index and the smallest of the shards."""
    yield "ours", [(INDEX, GOOD), (FIRST, A), (SECOND, B)], (0, 1, 2)
    real = HERE / "fixtures" / "keras"
    names = ["model.weights.json", *sorted(p.name for p in real.glob("*.h5"))]
    yield "keras", [(n, (real / n).read_bytes()) for n in names], (0, 1)


def corpus(folder):
    for name, text, first, second, _ in cases():
        save_seed(folder / "keras", name, text + first + second, 3000)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tool")
    parser.add_argument("--corpus", type=pathlib.Path)
    args = parser.parse_args()
    if args.corpus:
        corpus(args.corpus)
        return 0
    tool = os.path.abspath(args.tool)
    faults, slow, count, cut = [], [], 0, 0
    with tempfile.TemporaryDirectory() as name:
        for label, text, first, second, words in cases():
            check_case(
                tool,
                pathlib.Path(name) / "case",
                label,
                [(INDEX, text), (FIRST, first), (SECOND, second)],
                words,
                faults,
                slow,
            )
            count += 1
        for label, files, which in sets():
            for at in which:
                folder = pathlib.Path(name) / ("%s-%d" % (label, at))
                folder.mkdir()
                cut += cuts(tool, folder, files, at, faults)
    for f in faults[:20]:
        print("FAULT", f)
    print("%d cases, %d truncations, slowest %.2f s (%s), %d faults" % (count, cut, *max(slow), len(faults)))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
