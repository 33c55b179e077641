#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Real programs on `safetensors` of PyPI and on ours: what they write, load, return and raise is compared.

    programs.py --ours DIRECTORY --reference DIRECTORY --venvs DIRECTORY [--only NAME,...] [--table FILE]

The directories are what `pip install --target` leaves of ./python with ./python/alias, and of the pinned package:
the one that is first in PYTHONPATH is the program's `safetensors`, in child processes too. Each program (programs/*.py)
runs once with each, in a directory of the same name. Files are compared byte for byte (but for the order of the
metadata's keys, which the reference draws by lot), results by representation, tensors by type, shape and bytes,
exceptions by class and text. What differs is run again with the reference: what then differs from itself is no
difference. Expected differences are listed below, each with its reason.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent / "programs"

# (program, label or file): why it differs. Docs: python.md, "Differences".
EXPECTED: dict[tuple[str, str], str] = {
    ("torchao", "float8 as it is"): "a tensor without storage is refused with its name",
    ("torchao", "int8 as it is"): "a tensor without storage is refused with its name",
    ("tensorflow", "scalar"): "scalars of TensorFlow can be saved",
    ("sharded by hand", "directory"): "the sentence says what is wrong with the path",
    ("sharded by hand", "load directory"): "a directory of shards is a model",
    ("sharded by hand", "load device"): "torch's own error where it has no CUDA",
}


def scripts() -> list[tuple[str, str, str]]:
    """(environment, script, program) of every @program, found without importing anything."""
    found = []
    for path in sorted(HERE.glob("*.py")):
        tree = ast.parse(path.read_text())
        group = next(
            (
                n.value.value
                for n in tree.body
                if isinstance(n, ast.Assign) and n.targets[0].id == "ENVIRONMENT"
            ),
            None,
        )
        for node in tree.body:
            for mark in getattr(node, "decorator_list", []):
                if isinstance(mark, ast.Call) and getattr(mark.func, "id", "") == "program":
                    names = {
                        k.arg: ast.literal_eval(k.value) for k in mark.keywords if k.arg == "environment"
                    }
                    found.append((names.get("environment", group), path.stem, mark.args[0].value))
    return found


def run(python: Path, package: str, script: str, name: str, work: Path) -> dict:
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    result = work.parent / f"{work.name}.json"
    result.unlink(missing_ok=True)
    environment = {
        **os.environ,
        "PYTHONPATH": package,
        "PYTHONDONTWRITEBYTECODE": "1",
        "HOME": str(work.parent / "home"),
        "PYTHONHASHSEED": "0",
    }
    environment.pop("SAFETENSORS_C", None)
    command = [str(python), str(HERE / "one.py"), script, name, str(work), str(result)]
    done = subprocess.run(command, env=environment, text=True, capture_output=True, timeout=900)
    (work.parent / f"{work.name}.log").write_text(done.stdout + done.stderr)
    if not result.exists():
        return {
            "state": f"died: {done.returncode}: {(done.stderr.strip().splitlines() or [''])[-1][:200]}",
            "rows": [],
            "errors": 0,
            "library": {},
        }
    return json.loads(result.read_text())


def header(data: bytes):
    size = int.from_bytes(data[:8], "little")
    return list(json.loads(data[8 : 8 + size]).items()), size


def same_file(a: Path, b: Path) -> bool:
    one, two = a.read_bytes(), b.read_bytes()
    if one == two:
        return True
    try:
        (left, m), (right, n) = header(one), header(two)
    except (ValueError, AttributeError):
        return False
    # The order of tensors counts, that of the metadata's keys does not.
    return left == right and m == n and one[8 + m :] == two[8 + n :]


def words(value):
    """The text of an error without the two things that ours says otherwise (docs/python.md, "Errors"): it ends with the
    name of the reference's variant, and what is wrong with the JSON is told in the words of another parser."""
    if not isinstance(value, list):
        return value
    out = [
        re.sub(r" \((Invalid|Header|Metadata|Tensor|Validation|Misaligned)\w+\)$", "", text) for text in value
    ]
    return [
        re.sub(r"(deserializing( header)?: invalid (JSON|UTF-8) in header): .*", r"\1", text, flags=re.S)
        for text in out
    ]


def compare(a: dict, b: dict, first: Path, second: Path) -> set[str]:
    """Labels and files that differ between two runs."""
    out = set()
    if a["state"] != b["state"]:
        out.add("state")
    one, two = dict(a["rows"]), dict(b["rows"])
    out |= {label for label in one.keys() | two.keys() if words(one.get(label)) != words(two.get(label))}
    files = {p.relative_to(d).as_posix() for d in (first, second) for p in d.rglob("*") if p.is_file()}
    for name in files:
        if not (
            (first / name).is_file() and (second / name).is_file() and same_file(first / name, second / name)
        ):
            out.add(f"file {name}")
    return out


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    for name in ("ours", "reference", "venvs"):
        parser.add_argument(f"--{name}", required=True, type=lambda text: Path(text).absolute())
    parser.add_argument("--only", default="")
    parser.add_argument("--least", type=int, default=0, help="fail if fewer programs were compared")
    parser.add_argument("--table", type=Path, help="write the table as Markdown")
    arguments = parser.parse_args()
    only = set(filter(None, arguments.only.split(",")))
    room = arguments.venvs / "work"
    (room / "home").mkdir(parents=True, exist_ok=True)
    bad, compared, rows = 0, 0, []
    print(
        f"{'program':<24} {'version':<12} {'values':>6} {'errors':>6} {'files':>5}  {'reference':<9} {'ours':<9} equal"
    )
    for group, script, name in scripts():
        if only and name not in only and script not in only and group not in only:
            continue
        python = arguments.venvs / f"venv-{group}" / "bin" / "python"
        work = room / name.replace(" ", "-").replace("/", "-")
        kept = {}
        results = {}
        for side, package in (("reference", arguments.reference), ("ours", arguments.ours)):
            results[side] = run(python, str(package), script, name, work)
            kept[side] = work.with_name(f"{work.name}.{side}")
            shutil.rmtree(kept[side], ignore_errors=True)
            work.rename(kept[side])
            for end in ("log", "json"):
                if work.with_name(f"{work.name}.{end}").exists():
                    work.with_name(f"{work.name}.{end}").rename(work.with_name(f"{work.name}.{side}.{end}"))
        one, two = results["reference"], results["ours"]
        different = compare(one, two, kept["reference"], kept["ours"])
        excused = {d for d in different if (name, d) in EXPECTED}
        different -= excused
        if different:
            again = run(python, str(arguments.reference), script, name, work)
            different -= compare(one, again, kept["reference"], work)
        wrong = []
        if one["state"] != "ran":
            wrong.append(f"reference {one['state']}")
        if not one["rows"] or one.get("lacking"):
            wrong.append(f"nothing to compare {one.get('lacking', '')}")
        if not one["library"].get("reference") or one["library"].get("ours"):
            wrong.append(f"the reference's run had {one['library']}")
        if not two["library"].get("ours") or two["library"].get("reference"):
            wrong.append(f"our run had {two['library']}")
        wrong += sorted(different)
        compared += 1
        bad += bool(wrong)
        files = sum(1 for p in kept["reference"].rglob("*") if p.is_file())
        state = [r["state"].split(":")[0] for r in (one, two)]
        verdict = "NO" if wrong else f"yes ({len(excused)} listed)" if excused else "yes"
        row = [name, one.get("package", "?"), len(one["rows"]), one["errors"], files, *state, verdict]
        rows.append(row)
        print(
            f"{row[0]:<24} {row[1]:<12} {row[2]:>6} {row[3]:>6} {row[4]:>5}  {row[5]:<9} {row[6]:<9} {row[7]}",
            flush=True,
        )
        theirs, mine = dict(map(tuple_of, one["rows"])), dict(map(tuple_of, two["rows"]))
        for text in wrong[:40]:
            print(f"    {text}")
            if text in theirs or text in mine:
                print(f"        reference: {theirs.get(text)}\n        ours:      {mine.get(text)}")
            elif text == "state":
                print(f"        reference: {one['state']}\n        ours:      {two['state']}")
    if arguments.table:
        head = ["program", "version", "values", "errors", "files", "reference", "ours", "equal"]
        lines = ["| " + " | ".join(map(str, r)) + " |" for r in [head, ["---"] * len(head), *rows]]
        arguments.table.write_text("\n".join(lines) + "\n")
    print(f"programs: {compared - bad} of {compared} equal")
    return 1 if bad or compared < arguments.least else 0


def tuple_of(row):
    return row[0], str(row[1])


if __name__ == "__main__":
    sys.exit(main())
