#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""genuine.py --tool TOOL [--keep FOLDER] [--least N] - files that nobody made to attack: what the real libraries write
(writers/write_*.py) and what their packages carry as test data, through scan. Anything but harmless is counted by its rules.

A model that is a Python object (scikit-learn's and the like) has names that only its own library vouches for: unknown is the right
answer there, and so it is for programs (TorchScript, SavedModel's graph, Python) and for bytes of formats that nobody
knows. Exit 1 if a genuine file is dangerous and is not one of EXPECTED, or if there are fewer than --least files."""

import argparse
import collections
import fnmatch
import json
import pathlib
import sys
import tempfile

from compare import Tool
from writers import WRITERS, write

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
WRITERS = dict(WRITERS, classic="venv-import-classic", transformers="venv-checkpoint")
# Genuine, and rightly dangerous to load: what it would run.
EXPECTED = {
    "keras/lambda.*": "a Lambda layer holds code",
    "keras/*lambda*": "a Lambda layer holds code",
}
WEIGHTS = (
    ".pkl",
    ".pickle",
    ".pt",
    ".pth",
    ".npy",
    ".npz",
    ".h5",
    ".hdf5",
    ".keras",
    ".joblib",
    ".onnx",
    ".tflite",
    ".gguf",
    ".safetensors",
    ".ckpt",
    ".msgpack",
    ".pdparams",
    ".ubj",
    ".gz",
    ".bz2",
    ".xz",
    ".lzma",
)
PACKAGES = {
    "venv-import-classic": ("joblib", "sklearn", "numpy", "scipy", "xgboost", "lightgbm"),
    "venv-import-onnx-flax": ("onnx",),
    "venv-import-h5py": ("h5py",),
    "venv-import-tf": ("tensorflow", "tf_keras", "keras"),
    "venv": ("torch", "safetensors"),
}


def written(given, scratch):
    """(label, path) of what the writers write"""
    for name in given.only.split(",") if given.only else WRITERS:
        folder = ((given.keep or pathlib.Path(scratch) / "files") / name).absolute()
        folder.mkdir(parents=True, exist_ok=True)
        if not (folder / "expect.json").exists():
            why = write(name, given.build.absolute(), folder, WRITERS)
            if why:
                print("FAULT", name, "was not written:", why)
                continue
        for file in json.loads((folder / "expect.json").read_text(encoding="utf-8"))["files"]:
            path = folder / file
            pieces = (
                sorted(p for p in path.rglob("*") if p.is_file())
                if path.is_dir()
                else [path]
                if path.exists()
                else []
            )
            for piece in pieces:
                yield "%s/%s" % (name, piece.relative_to(folder)), piece


def carried(given):
    """(label, path) of data in installed packages"""
    for venv, packages in PACKAGES.items():
        for site in sorted((given.build / venv / "lib").glob("python3*/site-packages")):
            for package in packages:
                for path in sorted((site / package).rglob("*")):
                    if path.is_file() and path.suffix.lower() in WEIGHTS:
                        yield "package %s/%s" % (package, path.relative_to(site / package)), path


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tool", required=True)
    parser.add_argument("--build", default=ROOT / "build", type=pathlib.Path)
    parser.add_argument(
        "--keep",
        type=pathlib.Path,
        help="the folder of writers.py; what is there already is not written again",
    )
    parser.add_argument("--only")
    parser.add_argument("--least", type=int, default=300)
    parser.add_argument("--verbose", action="store_true")
    given = parser.parse_args()
    counts = collections.defaultdict(collections.Counter)
    rules, bad, judged = collections.defaultdict(list), [], 0
    with tempfile.TemporaryDirectory() as scratch:
        tool = Tool(given.tool, scratch)
        labels = {str(path): label for label, path in [*written(given, scratch), *carried(given)]}
        for file, verdict, findings in tool.scan(labels):
            label = labels.get(file, file or verdict)
            group = label.split("/")[0]
            counts[group][verdict] += 1
            judged += 1
            if verdict == "harmless":
                continue
            worst = [f for f in findings if f["verdict"] == verdict]
            for rule, subject in sorted(
                {(f["rule"], f["subject"] if f["rule"] == "global" else "") for f in worst}
            ):
                rules[verdict, rule, subject.split(".")[0]].append(label)
            if verdict != "unknown" and not any(fnmatch.fnmatch(label, p) for p in EXPECTED):
                bad.append(
                    "%s is %s: %s"
                    % (
                        label,
                        verdict,
                        ["%s %s: %s" % (f["rule"], f["subject"], f["message"]) for f in worst][:3],
                    )
                )
            if given.verbose:
                print("  %-9s %s %s" % (verdict, label, [(f["rule"], f["subject"][:60]) for f in worst][:3]))
    for text in bad:
        print("FALSE ALARM", text)
    print("%-9s %-18s %-22s %6s  %s" % ("verdict", "rule", "names of", "files", "such as"))
    for (verdict, rule, subject), found in sorted(rules.items(), key=lambda r: (r[0][0], -len(r[1]))):
        print(
            "%-9s %-18s %-22s %6d  %s" % (verdict, rule, subject[:22], len(found), ", ".join(found[:2])[:90])
        )
    print("%-22s %7s %9s %8s %10s" % ("from", "files", "harmless", "unknown", "dangerous"))
    for group, row in counts.items():
        print(
            "%-22s %7d %9d %8d %10d"
            % (group, sum(row.values()), row["harmless"], row["unknown"], row["dangerous"])
        )
    total = sum(counts.values(), collections.Counter())
    print(
        "genuine: %d files, %d harmless, %d unknown, %d dangerous, %d false alarms; slowest %.2f s"
        % (judged, total["harmless"], total["unknown"], total["dangerous"], len(bad), tool.slowest[0])
    )
    return 1 if bad or judged < max(given.least, len(labels)) else 0


if __name__ == "__main__":
    sys.exit(main())
