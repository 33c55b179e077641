#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The reference package's own Python tests, unmodified, on ours.

    reference_suite.py --python PYTHON [--version 0.9.0rc1] [--json FILE] [--tests DIRECTORY]

PYTHON: an environment with safetensors-c and the frameworks, without the package `safetensors` of PyPI
(the alias distribution may be there). The sdist of the reference is fetched with pip, unpacked into a
temporary directory and its tests run there with SAFETENSORS_C=1. A pytest plugin fails the run when a module
of the reference was loaded. Ends with a table; exit status 0 when every failure is one of EXPLAINED.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tarfile
import tempfile
import xml.etree.ElementTree as ElementTree
from pathlib import Path

# Test of the reference -> the listed difference (docs/python.md) that makes it fail. Anything else fails the run.
EXPLAINED: dict[str, str] = {
    f"test_paddle_comparison::WithOpenCase::{name}": "needs a paddle that was built with CUDA"
    for name in ("test_paddle_slice_gpu", "test_paddle_tensor_gpu")
}

PLUGIN = """
import sys


def pytest_sessionfinish(session, exitstatus):
    rust = sys.modules.get("safetensors._safetensors_rust")
    import safetensors, safetensors_c, safetensors_c._core
    assert safetensors.safe_open is safetensors_c.safe_open
    assert rust is None or rust is safetensors_c._core, rust
    try:
        with open("/proc/self/maps") as maps:
            loaded = [line for line in maps if "_safetensors_rust" in line]
    except OSError:
        loaded = []
    assert not loaded, loaded
    files = {getattr(m, "__file__", None) or "" for n, m in list(sys.modules.items()) if n.startswith("safetensors")}
    assert all("safetensors_c" in f or f == "" for f in files if "site-packages/safetensors/" not in f), files
    print("\\nreference_suite: safetensors._safetensors_rust was never loaded")
"""

# pip wants metadata before it keeps an sdist; this stands in for the Rust build backend.
BACKEND = """
import pathlib


def get_requires_for_build_wheel(config_settings=None):
    return []


get_requires_for_build_sdist = get_requires_for_build_wheel


def prepare_metadata_for_build_wheel(directory, config_settings=None):
    info = pathlib.Path(directory) / "safetensors-0.dist-info"
    info.mkdir()
    text = "Metadata-Version: 2.1\\nName: safetensors\\nVersion: VERSION\\n"
    (info / "METADATA").write_text(text)
    return info.name


def build_wheel(*args, **kwargs):
    raise RuntimeError("only metadata is wanted")
"""


def fetch(python: str, version: str, directory: Path) -> Path:
    """The unpacked sdist."""
    stub = directory / "backend"
    stub.mkdir()
    (stub / "maturin.py").write_text(BACKEND.replace("VERSION", version))
    command = [python, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", ":all:"]
    command += ["--no-build-isolation", "--dest", str(directory), f"safetensors=={version}"]
    subprocess.run(command, check=True, env={**os.environ, "PYTHONPATH": str(stub)})
    archive = next(directory.glob("safetensors-*.tar.gz"))
    with tarfile.open(archive) as tar:
        tar.extractall(directory, filter="data")
    return directory / archive.name[: -len(".tar.gz")]


def run_tests(python: str, root: Path, directory: Path) -> tuple[list[dict[str, str]], bool, str]:
    """(rows, whether every process proved that the reference was not loaded, all output)."""
    bindings = root / "bindings" / "python"
    plugin = directory / "plugin"
    plugin.mkdir()
    (plugin / "sft_reference_plugin.py").write_text(PLUGIN)
    environment = {**os.environ, "SAFETENSORS_C": "1", "PYTHONPATH": str(plugin)}
    environment["TF_CPP_MIN_LOG_LEVEL"] = "3"
    rows: list[dict[str, str]] = []
    proven, output = True, ""
    for file in sorted((bindings / "tests").glob("test_*.py")):  # a process each: frameworks do not mix well
        report = directory / f"{file.stem}.xml"
        command = [python, "-X", "faulthandler", "-m", "pytest", "-q", "-p", "sft_reference_plugin"]
        command += ["-p", "no:cacheprovider", f"--junitxml={report}", str(file.relative_to(bindings))]
        done = subprocess.run(command, cwd=bindings, env=environment, text=True, capture_output=True)
        output += done.stdout + done.stderr
        if not report.exists():
            reason = f"the process ended with status {done.returncode}"
            rows.append({"file": file.stem, "test": file.stem, "state": "failed", "reason": reason})
            continue
        proven = proven and "safetensors._safetensors_rust was never loaded" in done.stdout
        rows += table(report, file.stem)
    return rows, proven, output


def table(report: Path, file: str) -> list[dict[str, str]]:
    rows = []
    for case in ElementTree.parse(report).getroot().iter("testcase"):
        state, reason = "passed", ""
        for child in case:
            if child.tag in ("failure", "error", "skipped"):
                state = "skipped" if child.tag == "skipped" else "failed"
                reason = (child.get("message") or "").splitlines()[0] if child.get("message") else ""
        owner = (case.get("classname") or "").split(".")[-1]
        parts = (
            [file, owner, case.get("name") or ""]
            if owner not in ("", file)
            else [file, case.get("name") or ""]
        )
        rows.append({"file": file, "test": "::".join(parts), "state": state, "reason": reason})
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--version", default="0.9.0rc1")
    parser.add_argument("--json")
    parser.add_argument("--tests", help="an unpacked sdist instead of fetching one")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        if arguments.tests:
            root = directory / "sdist"
            subprocess.run(["cp", "-R", arguments.tests, str(root)], check=True)
        else:
            root = fetch(arguments.python, arguments.version, directory)
        rows, never, output = run_tests(arguments.python, root, directory)
    print(f"tests of safetensors {arguments.version}, unmodified, on safetensors_c")
    print(f"{'file':<28} {'passed':>7} {'skipped':>8} {'failed':>7}")
    for file in sorted({row["file"] for row in rows}) + [""]:
        mine = [r["state"] for r in rows if not file or r["file"] == file]
        counts = [mine.count(s) for s in ("passed", "skipped", "failed")]
        print(f"{file or 'all':<28} {counts[0]:>7} {counts[1]:>8} {counts[2]:>7}")
    bad = 0
    for row in rows:
        if row["state"] == "passed":
            continue
        why = EXPLAINED.get(row["test"]) if row["state"] == "failed" else row["reason"]
        bad += row["state"] == "failed" and why is None
        print(f"{row['state']}: {row['test']}: {why or row['reason']}")
    print("the reference's extension module was never loaded" if never else output[-3000:])
    if arguments.json:
        Path(arguments.json).write_text(json.dumps({"version": arguments.version, "tests": rows}, indent=1))
    passed = sum(r["state"] == "passed" for r in rows)
    good = not bad and never and passed > 0
    if bad:
        print(output[-20000:])
    print(f"reference suite: {'ok' if good else 'NOT ok'}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
