#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""writers.py --tool TOOL [--only NAME[,NAME]] [--keep FOLDER] - files by the real libraries, with every option and type, each
written by writers/write_NAME.py in the environment of that library, converted by the tool and compared with what the
library loads from them.

Kinds: equal (bit for bit), named (equal, and what safetensors cannot hold is named), refused (with a sentence). Faults: MUTE
(refused without a word about what the file is), SILENT (something is missing and nobody said so), WRONG. Tensors in are
tensors out and tensors named. --strict: exit status 1 for any fault, and if there are less than --least files."""

import argparse
import collections
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import warnings

from compare import GOOD, KINDS, Tool, judge

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
# writer -> the environment that scripts/import_peers.sh makes for it
WRITERS = {
    "numpy": "venv",
    "gguf": "venv",
    "torch": "venv",
    "dcp": "venv",
    "onnx": "venv-import-onnx-flax",
    "flax": "venv-import-onnx-flax",
    "hdf5": "venv-import-hdf5",
    "h5py": "venv-import-h5py",
    "keras": "venv-import-hdf5",
    "tf": "venv-import-tf",
    "paddle": "venv-import-paddle",
    "mindspore": "venv-import-mindspore",
    "joblib": "venv-import-classic",
    "arrow": "venv-import-classic",
}


def write(name, build, folder, writers=WRITERS):
    """Runs a writer; what went wrong, or an empty text."""
    python = build / writers[name] / "bin" / "python"
    if not python.exists():
        return "no environment %s: scripts/import_peers.sh makes it" % writers[name]
    env = dict(
        os.environ,
        PYTHONDONTWRITEBYTECODE="1",
        JAX_PLATFORMS="cpu",
        TF_CPP_MIN_LOG_LEVEL="3",
        CUDA_VISIBLE_DEVICES="",
        PYTHONWARNINGS="ignore",
        KERAS_BACKEND="numpy" if name == "keras" else "tensorflow",
    )
    script = "hdf5" if name == "h5py" else name
    r = subprocess.run(
        [str(python), str(HERE / "writers" / ("write_%s.py" % script)), str(folder)],
        env=env,
        cwd=str(folder),
        capture_output=True,
        text=True,
        timeout=900,
    )
    if r.returncode != 0 or not (folder / "expect.json").exists():
        return "exit %d: %s" % (r.returncode, r.stderr.strip()[-800:])
    return ""


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tool", required=True)
    parser.add_argument("--build", default=ROOT / "build", type=pathlib.Path)
    parser.add_argument("--only", default=",".join(WRITERS))
    parser.add_argument(
        "--keep", type=pathlib.Path, help="write here; what is there already is not written again"
    )
    parser.add_argument("--least", type=int, default=0)
    parser.add_argument("--strict", action="store_true")
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("--table", type=pathlib.Path, help="every file, its kind and why")
    given = parser.parse_args()
    warnings.filterwarnings("ignore")
    table, counts, broken, tensors, named = [], collections.defaultdict(collections.Counter), 0, 0, 0
    with tempfile.TemporaryDirectory() as scratch:
        tool = Tool(given.tool, scratch)
        for name in given.only.split(","):
            folder = ((given.keep or pathlib.Path(scratch) / "files") / name).absolute()
            folder.mkdir(parents=True, exist_ok=True)
            if not (folder / "expect.json").exists():
                why = write(name, given.build.absolute(), folder)
                if why:
                    print("FAULT", name, "was not written:", why)
                    broken += 1
                    continue
            content = json.loads((folder / "expect.json").read_text(encoding="utf-8"))
            if content.get("not_written"):
                print(
                    "%s: %d forms are not written by this version"
                    % (content["library"], len(content["not_written"]))
                )
            for skipped in content.get("not_written", []) if given.verbose else []:
                print("  not written:", skipped)
            for file, entry in sorted(content["files"].items()):
                verdict = judge(tool, folder / file, entry)
                counts[content["library"]][verdict.kind] += 1
                tensors += verdict.tensors
                named += verdict.left_out
                table.append(
                    (
                        name,
                        file,
                        verdict.kind,
                        len(entry["tensors"]),
                        verdict.tensors,
                        verdict.left_out,
                        verdict.why,
                    )
                )
                if verdict.kind not in GOOD:
                    print("%s %s/%s: %s" % (verdict.kind, name, file, verdict.why))
    if given.table:
        given.table.write_text("".join("\t".join(map(str, row)) + "\n" for row in table), encoding="utf-8")
    total = collections.Counter()
    print("%-28s" % "library" + "".join("%9s" % k for k in KINDS))
    for library, row in counts.items():
        print("%-28s" % library + "".join("%9d" % row[k] for k in KINDS))
        total.update(row)
    print("%-28s" % "all" + "".join("%9d" % total[k] for k in KINDS))
    faults = broken + sum(total[k] for k in KINDS if k not in GOOD)
    print(
        "writers: %d files, %d tensors equal, %d left out by name, %d faults; slowest %.2f s (%s)"
        % (len(table), tensors, named, faults, tool.slowest[0], tool.slowest[1][-80:])
    )
    return 1 if broken or not table or (given.strict and (faults or len(table) < given.least)) else 0


if __name__ == "__main__":
    sys.exit(main())
