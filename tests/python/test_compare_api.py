# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The table of compare_api.py against the package `safetensors` that is installed beside ours."""

from __future__ import annotations

import importlib.metadata
import os
import sys

import pytest
from compare_api import compare

PINNED = "0.8.0"


def reference() -> str | None:
    try:
        return importlib.metadata.version("safetensors")
    except importlib.metadata.PackageNotFoundError:
        return None


@pytest.mark.skipif(reference() != PINNED, reason=f"safetensors {PINNED} is not installed")
@pytest.mark.skipif(
    not any(os.path.exists(f"{p}/safetensors_c.pth") for p in sys.path), reason="ours is not installed"
)
def test_every_row_is_equal_or_expected():
    pytest.importorskip("torch")
    rows, wrong = compare(None, PINNED)
    assert rows > 1900
    assert not wrong, "\n".join(wrong)
