# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Patterns of names: one grammar for the library, the package and the tool. The cases are those of the unit test."""

from __future__ import annotations

import ast
import os
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest
import safetensors_c.numpy as sn
from safetensors_c import _convert, _core

TABLE = Path(__file__).parents[2] / "tests" / "unit" / "patterns.inc"
ROWS = [
    (ast.literal_eval("b" + pattern), ast.literal_eval("b" + name), fits == "1")
    for pattern, name, fits in re.findall(r'^\{(".*"), (".*"), ([01])\},$', TABLE.read_text(), re.MULTILINE)
]


def is_text(row):
    try:
        return all(part.decode() is not None for part in row[:2])
    except UnicodeDecodeError:
        return False


TEXTS = [(pattern.decode(), name.decode(), fits) for pattern, name, fits in filter(is_text, ROWS)]


def test_the_table_was_read():
    assert len(ROWS) == TABLE.read_text().count("},") and len(TEXTS) >= 30


@pytest.mark.parametrize("pattern, name, fits", TEXTS)
def test_the_package_follows_the_table(pattern, name, fits, tmp_path):
    assert _core._glob(pattern, [name]) == [name] * fits
    sn.save_file({name: np.zeros(1), "else": np.zeros(1)}, tmp_path / "t.safetensors")
    assert (name in sn.load_file(tmp_path / "t.safetensors", select=pattern)) == fits
    assert _convert._matcher(pattern)(name) == fits
    assert len(_convert._unmet([name], select=pattern)) == (not fits)


@pytest.mark.skipif("SFT_TOOL" not in os.environ, reason="SFT_TOOL names no tool")
@pytest.mark.parametrize("pattern, name, fits", TEXTS)
def test_the_tool_follows_the_table(pattern, name, fits, tmp_path):
    sn.save_file({name: np.zeros(1)}, tmp_path / "t.safetensors")
    command = [os.environ["SFT_TOOL"], "ls", "--json", "--filter", pattern, tmp_path / "t.safetensors"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, '"dtype"' in done.stdout) == ((0, True) if fits else (1, False)), done


def test_names_are_kept_in_order_and_as_they_are():
    names = ["b", "a.1", "\udc80", "a.2"]
    assert _core._glob("*", iter(names)) == names
    assert _core._glob("a.*", names) == ["a.1", "a.2"]
    assert _core._glob("?", names) == ["b"]
    with pytest.raises(TypeError, match="'name'"):
        _core._glob("*", ["a", 1])
    with pytest.raises(TypeError, match="'pattern'"):
        _core._glob(b"*", ["a"])
    with pytest.raises(TypeError):
        _core._glob("*", None)
    with pytest.raises(ZeroDivisionError):
        _core._glob("*", (1 / 0 for _ in range(2)))
