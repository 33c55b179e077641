# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The types: _core.pyi names exactly what the extension has; mypy, where it is installed, has no complaint."""

from __future__ import annotations

import ast
import importlib.util
import pickle
import subprocess
import sys
from pathlib import Path

import pytest
import safetensors_c
from safetensors_c import _core

DIRECTORY = Path(safetensors_c.__file__).parent
STUB = ast.parse((DIRECTORY / "_core.pyi").read_text())


def public(names):
    return {n for n in names if not n.startswith("__")}


def test_the_package_says_that_it_is_typed():
    assert (DIRECTORY / "py.typed").exists()


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
    names |= {n.target.id for n in node.body if isinstance(n, ast.AnnAssign)}
    if node.name == "SafetensorError":
        error = _core.SafetensorError("x")
        assert error.status is None and error.offset is None and error.tensor is None
        return
    actual = vars(getattr(_core, node.name))
    assert public(names) == public(actual)
    for special in ("__len__", "__contains__", "__iter__", "__getitem__", "__enter__", "__exit__"):
        assert (special in names) == (special in actual), special


def test_element_types_have_one_table():
    from safetensors_c import numpy, torch

    for code, name, bits in _core._dtypes:
        spec = {"shape": [8], "data_ptr": 0, "data_len": bits}
        assert _core.TensorSpec(dtype=code, **spec).dtype == code
        assert name is None or _core.TensorSpec(dtype=name, **spec).dtype == code
    named = {code for code, name, _ in _core._dtypes if name is not None}
    assert set(torch._TYPES) == named == set(numpy._TYPES) | set(numpy._ML_TYPES)
    assert all(dtype.itemsize == torch._SIZE[dtype] for dtype in torch._TYPES.values())


@pytest.mark.parametrize("name", ["torch", "numpy"])
def test_functions_of_a_framework_can_be_pickled(name):
    module = importlib.import_module(f"safetensors_c.{name}")
    for function in (module.load_file, module.load_into, module.save_stream, module.save_file):
        assert pickle.loads(pickle.dumps(function)) == function


@pytest.mark.skipif(importlib.util.find_spec("mypy") is None, reason="mypy is not installed")
def test_mypy():
    command = [sys.executable, "-m", "mypy", "--python-version", "3.10", "--ignore-missing-imports"]
    command += ["--cache-dir", "/dev/null", "-p", "safetensors_c"]
    done = subprocess.run(command, text=True, capture_output=True, cwd=DIRECTORY.parent)
    assert done.returncode == 0, done.stdout
