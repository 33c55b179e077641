#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The own tests of skorch, huggingface_hub, accelerate and peft that touch safetensors, unmodified, on ours.

    peer_suites.py --python PYTHON --reference DIRECTORY [--sdists DIRECTORY] [--only NAME]

PYTHON: the environment of the peers with safetensors-c. DIRECTORY: the package `safetensors` of PyPI, as
`pip install --target` leaves it. The sdists of the installed versions are fetched with pip. Each selection
runs twice, with SAFETENSORS_C=1 and with the reference; what fails with both (no network, no GPU) is listed,
what fails with ours alone makes the run fail.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tarfile
import tempfile
import xml.etree.ElementTree as ElementTree
from pathlib import Path

# Package: [(arguments of pytest, from the sdist's root)]
SUITES: dict[str, list[list[str]]] = {
    "skorch": [["skorch/tests", "-k", "safetensors"]],
    "huggingface_hub": [
        ["tests/test_serialization.py"],
        ["tests/test_dduf.py"],
        ["tests/test_hub_mixin_pytorch.py", "-k", "save or load or safetensors or shared"],
    ],
    "accelerate": [
        ["tests/test_modeling_utils.py", "-k", "safetensors or load_checkpoint or load_state or offload"],
        ["tests/test_accelerator.py", "-k", "save or load or safe"],
        ["tests/test_offload.py"],
        ["tests/test_state_checkpointing.py", "-k", "safetensors or save or load"],
    ],
    "peft": [
        ["tests/test_custom_models.py", "-k", "save_pretrained and MLP and LoRA"],
    ],
}

CHECK = """
import sys
def pytest_sessionfinish(session, exitstatus):
    rust = sys.modules.get("safetensors._safetensors_rust")
    assert rust is None or rust is sys.modules["safetensors_c._core"]
    assert "_safetensors_rust" not in open("/proc/self/maps").read()
    if "safetensors" in sys.modules:
        assert sys.modules["safetensors"].__version__.startswith("0.8.0+c")
    print("\\npeer_suites: on safetensors_c alone")
"""


def version_of(python: str, package: str) -> str:
    code = f"import importlib.metadata as m; print(m.version({package!r}))"
    return subprocess.run([python, "-c", code], check=True, text=True, capture_output=True).stdout.strip()


def sdist(python: str, package: str, directory: Path, given: str | None) -> Path:
    version = version_of(python, package)
    archives = list(Path(given).glob(f"{package}-{version}.tar.gz")) if given else []
    if not archives:
        command = [python, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", ":all:"]
        subprocess.run([*command, "--dest", str(directory), f"{package}=={version}"], check=True)
        archives = list(directory.glob(f"{package}-*.tar.gz"))
    with tarfile.open(archives[0]) as tar:
        tar.extractall(directory / "src", filter="data")
    root = directory / "src" / archives[0].name[: -len(".tar.gz")]
    if (root / "src").is_dir():  # the installed package is tested, not the one beside the tests
        (root / "src").rename(root / "src.aside")
    if (root / "tests").is_dir():  # some sdists leave out the empty file that makes it a package
        (root / "tests" / "__init__.py").touch()
    return root


def outcomes(
    python: str, root: Path, arguments: list[str], environment: dict[str, str], ours: bool
) -> tuple[dict[str, str], str]:
    with tempfile.TemporaryDirectory() as name:
        report = Path(name) / "report.xml"
        (Path(name) / "sft_peer_plugin.py").write_text(CHECK)
        command = [
            python,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            f"--junitxml={report}",
            "-o",
            "addopts=",
        ]
        if ours:
            environment = {**environment, "PYTHONPATH": name}
            command += ["-p", "sft_peer_plugin"]
        done = subprocess.run(
            [*command, *arguments], cwd=root, env=environment, text=True, capture_output=True, timeout=1800
        )
        found: dict[str, str] = {}
        if report.exists():
            for case in ElementTree.parse(report).getroot().iter("testcase"):
                state = "passed"
                for child in case:
                    if child.tag in ("failure", "error", "skipped"):
                        state = "skipped" if child.tag == "skipped" else "failed"
                found[f"{case.get('classname')}::{case.get('name')}"] = state
        return found, done.stdout + done.stderr


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--reference", required=True)
    parser.add_argument("--sdists")
    parser.add_argument("--only")
    arguments = parser.parse_args()
    base = {
        **os.environ,
        "HF_HUB_OFFLINE": "1",
        "TF_CPP_MIN_LOG_LEVEL": "3",
        "TOKENIZERS_PARALLELISM": "false",
    }
    base["CUDA_VISIBLE_DEVICES"] = ""
    bad = 0
    print(f"{'tests':<70} {'passed':>7} {'skipped':>8} {'failed':>7} {'only ours':>10}")
    for package, runs in SUITES.items():
        if arguments.only not in (None, package):
            continue
        with tempfile.TemporaryDirectory() as name:
            root = sdist(arguments.python, package, Path(name), arguments.sdists)
            for run in runs:
                ours, output = outcomes(arguments.python, root, run, {**base, "SAFETENSORS_C": "1"}, True)
                failed = sorted(t for t, s in ours.items() if s == "failed")
                theirs: dict[str, str] = {}
                if failed:
                    environment = {**base, "SAFETENSORS_C": "0", "PYTHONPATH": arguments.reference}
                    theirs, _ = outcomes(arguments.python, root, run, environment, False)
                alone = [t for t in failed if theirs.get(t) != "failed"]
                proven = "peer_suites: on safetensors_c alone" in output
                states = list(ours.values())
                counts = [states.count(s) for s in ("passed", "skipped", "failed")]
                title = f"{package} {' '.join(run)}"
                print(f"{title[:70]:<70} {counts[0]:>7} {counts[1]:>8} {counts[2]:>7} {len(alone):>10}")
                for test in failed:
                    print(f"    {'ONLY OURS' if test in alone else 'with both'}: {test}")
                if alone or not proven or not counts[0]:
                    bad += 1
                    print(output[-6000:])
    print(f"peer suites: {'ok' if not bad else 'NOT ok'}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
