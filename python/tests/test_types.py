# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The types: _core.pyi names exactly what the extension has; mypy, where it is installed, has no complaint."""

from __future__ import annotations

import ast
import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest
import safetensors_c
from safetensors_c import _core

FOLDER = Path(safetensors_c.__file__).parent
STUB = ast.parse((FOLDER / "_core.pyi").read_text())


def public(names):
    return {n for n in names if not n.startswith("__")}


def test_the_package_says_that_it_is_typed():
    assert (FOLDER / "py.typed").exists()


def test_the_stub_names_what_the_extension_has():
    names = set()
    for node in STUB.body:
        if isinstance(node, (ast.ClassDef, ast.FunctionDef)):
            names.add(node.name)
        elif isinstance(node, ast.AnnAssign):
            names.add(node.target.id)
    assert public(names) == public(vars(_core))


@pytest.mark.parametrize("node", [n for n in STUB.body if isinstance(n, ast.ClassDef)], ids=lambda n: n.name)
def test_the_stub_names_the_members_of_each_class(node):
    names = {n.name for n in node.body if isinstance(n, ast.FunctionDef)}
    if node.name == "SafetensorError":
        error = _core.SafetensorError("x")
        assert error.status is None and error.offset is None and error.tensor is None
        return
    actual = vars(getattr(_core, node.name))
    assert public(names) == public(actual)
    for special in ("__len__", "__contains__", "__iter__", "__getitem__", "__enter__", "__exit__"):
        assert (special in names) == (special in actual), special


@pytest.mark.skipif(importlib.util.find_spec("mypy") is None, reason="mypy is not installed")
def test_mypy():
    command = [sys.executable, "-m", "mypy", "--python-version", "3.10", "--ignore-missing-imports"]
    command += ["--cache-dir", "/dev/null", "-p", "safetensors_c"]
    done = subprocess.run(command, text=True, capture_output=True, cwd=FOLDER.parent)
    assert done.returncode == 0, done.stdout
