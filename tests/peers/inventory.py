#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""inventory.py --tool TOOL [--build DIR] - the weights that well-known packages ship (requirements-inventory.txt, fifteen at most),
through ls, check, scan and convert, each compared with what its format's own library reads. pip downloads the wheels into the
build directory; they are read as archives, nothing of them is installed or imported, and nothing of them is kept in the tree.
Prints the table. Exit 1: a conversion that is WRONG, SILENT or MUTE, or a genuine file that scan calls dangerous."""

import argparse
import collections
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import zipfile

from compare import GOOD, KINDS, Tool, judge

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
# what a member is -> the library that reads it, and its environment
READERS = [
    (r"\.(pt|pth|jit|bin)$", "torch", "venv"),
    (r"\.onnx$", "onnx", "venv-import-onnx-flax"),
    (r"\.(npy|npz|pkl)$", "numpy", "venv"),
    (r"(\.tflite|\.index|saved_model\.pb)$", "tf", "venv-import-tf"),
    (r"\.safetensors$", "safetensors", "venv"),
    (r"\.mlmodel$|/weight\.bin$", "", ""),
]
BESIDE = re.compile(r"\.data-\d+-of-\d+$|\.onnx_data$")
FOREIGN = re.compile(
    r"/weight\.bin$|\.mlmodel$"
)  # CoreML's, which no library here reads: a sentence is wanted


def wheels(build):
    folder = build / "inventory"
    lines = [x.split("#")[0].strip() for x in (HERE / "requirements-inventory.txt").read_text().splitlines()]
    for name in filter(None, lines):
        plain = name.split("==")[0].replace("-", "[-_.]").lower()
        found = (
            [p for p in folder.glob("*.whl") if re.match(plain + "-", p.name.lower())]
            if folder.exists()
            else []
        )
        if not found:
            subprocess.run(
                [
                    sys.executable,
                    "-m",
                    "pip",
                    "download",
                    "--quiet",
                    "--disable-pip-version-check",
                    "--no-deps",
                    "--only-binary",
                    ":all:",
                    "--dest",
                    str(folder),
                    name,
                ],
                check=True,
            )
            found = [p for p in folder.glob("*.whl") if re.match(plain + "-", p.name.lower())]
        yield name, found[0]


def unpack(wheel, folder, most):
    """Members that are weights, as files; of hundreds of one kind, an even choice."""
    with zipfile.ZipFile(wheel) as z:
        names = [
            n
            for n in z.namelist()
            if not n.endswith("/")
            and ".." not in n
            and (BESIDE.search(n) or any(re.search(p, n) for p, _, _ in READERS))
        ]
        step = max(1, len(names) // most)
        for name in names[::step]:
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(z.read(name))
        return [n for n in names[::step] if not BESIDE.search(n)]


def kind_of(name):
    if FOREIGN.search(name):
        return "", ""
    return next((kind, venv) for pattern, kind, venv in READERS if re.search(pattern, name))


def expectations(build, folder, names):
    found = {}
    for kind, venv in sorted({kind_of(n) for n in names if kind_of(n)[0]}):
        python = build / venv / "bin" / "python"
        chosen = [n for n in names if kind_of(n)[0] == kind]
        env = dict(os.environ, PYTHONDONTWRITEBYTECODE="1", TF_CPP_MIN_LOG_LEVEL="3", CUDA_VISIBLE_DEVICES="")
        r = subprocess.run(
            [str(python), str(HERE / "writers" / "read_files.py"), kind, str(folder), *chosen],
            env=env,
            capture_output=True,
            text=True,
            timeout=600,
        )
        if r.returncode != 0:
            raise SystemExit("%s cannot read: %s" % (kind, r.stderr[-500:]))
        found.update(json.loads(r.stdout.splitlines()[-1]))
    for name in names:
        if not kind_of(name)[0]:
            found[name] = {
                "tensors": {},
                "not_converted": "weights of CoreML, which no library here reads",
                "foreign": True,
            }
    return found


def row_of(tool, path, entry):
    """(format, ls, check, verdict of scan, rules, what became of convert)"""
    status = {}
    for command in ("ls", "check"):
        code, _, _ = tool.run(command, *entry.get("options", ()), path)
        status[command] = "ok" if code == 0 else "no" if code == 1 else "exit %d" % code
    _, text, _ = tool.run("scan", "--json", path)
    lines = [json.loads(x) for x in text.splitlines() if x.startswith("{")]
    scanned = lines[0] if lines else {"verdict": "none", "findings": [], "format": "?"}
    rules = (
        sorted({f["rule"] for f in scanned["findings"] if f["verdict"] == scanned["verdict"]})
        if scanned["verdict"] != "harmless"
        else []
    )
    return (
        scanned.get("format", "?"),
        status["ls"],
        status["check"],
        scanned["verdict"],
        ",".join(rules),
        judge(tool, path, entry),
    )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tool", required=True)
    parser.add_argument("--build", default=ROOT / "build", type=pathlib.Path)
    parser.add_argument("--most", type=int, default=60, help="files of one package")
    given = parser.parse_args()
    build = given.build.absolute()
    counts, scans, tensors, faults, files = collections.Counter(), collections.Counter(), 0, [], 0
    print(
        "%-28s %-44s %-9s %-5s %-5s %-9s %-8s %7s"
        % ("package", "file", "format", "ls", "check", "scan", "convert", "tensors")
    )
    with tempfile.TemporaryDirectory(dir=build) as scratch:
        tool = Tool(given.tool, pathlib.Path(scratch) / "work")
        for package, wheel in wheels(build):
            folder = pathlib.Path(scratch) / package
            names = unpack(wheel, folder, given.most)
            expected = expectations(build, folder, names)
            summary = collections.Counter()
            for name in names:
                entry = expected[name]
                if "unread" in entry:
                    print("  not read by its own library: %s: %s" % (name, entry["unread"]))
                    entry = {"tensors": {}, "more": True}
                fmt, ls, check, verdict, rules, result = row_of(tool, folder / name, entry)
                kind = (
                    "MUTE" if entry.get("foreign") and "not a file of a known" in result.why else result.kind
                )
                files += 1
                tensors += result.tensors
                counts[kind] += 1
                scans[verdict] += 1
                if kind not in GOOD or verdict in ("dangerous", "none"):
                    faults.append(
                        "%s %s: %s, scan %s %s: %s" % (package, name, kind, verdict, rules, result.why)
                    )
                summary[
                    fmt,
                    ls,
                    check,
                    verdict + (" " + rules if rules else ""),
                    kind,
                    "" if len(names) > 12 else name[-44:],
                ] += 1
                if len(names) <= 12:
                    print(
                        "%-28s %-44s %-9s %-5s %-5s %-9s %-8s %7d  %s"
                        % (package, name[-44:], fmt[:9], ls, check, verdict, kind, result.tensors, rules)
                    )
            if len(names) > 12:
                for (fmt, ls, check, verdict, kind, _), n in sorted(summary.items()):
                    print(
                        "%-28s %-44s %-9s %-5s %-5s %-9s %-8s"
                        % (package, "%d files" % n, fmt, ls, check, verdict, kind)
                    )
    for text in faults:
        print("FAULT", text)
    print(
        "inventory: %d files, %d tensors; %s; scan: %s; %d faults; slowest %.2f s"
        % (
            files,
            tensors,
            ", ".join("%d %s" % (counts[k], k) for k in KINDS if counts[k]),
            ", ".join("%d %s" % (n, v) for v, n in scans.items()),
            len(faults),
            tool.slowest[0],
        )
    )
    return 1 if faults or not files else 0


if __name__ == "__main__":
    sys.exit(main())
