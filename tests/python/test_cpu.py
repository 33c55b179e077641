# SPDX-License-Identifier: Apache-2.0 OR MIT
"""SFT_CPU: the package leaves out what it says and warns once of a word that is none."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

LEVELS = ["portable", "sse4.2", "avx2", "avx512"]
SAVE = """
import hashlib, numpy as np, pathlib, sys
from safetensors_c import _core, numpy as sn
a = {"small": np.arange(999, dtype="f4"), "big": np.arange(4 << 20, dtype="f4")}
path = pathlib.Path(sys.argv[1])
sn.save_file(a, path, digests=["crc32c", "sha256"])
print(_core._without(), hashlib.sha256(path.read_bytes()).hexdigest())
"""


def python(cpu, code, *words, options=()):
    env = {k: v for k, v in os.environ.items() if k not in ("SFT_CPU", "PYTHONWARNINGS")}
    env.update({} if cpu is None else {"SFT_CPU": cpu})
    return subprocess.run(
        [sys.executable, *options, "-c", code, *words], env=env, capture_output=True, text=True
    )


def without(cpu):
    done = python(cpu, "from safetensors_c import _core; print(_core._without())")
    assert done.returncode == 0 and done.stderr == "", done.stderr
    return int(done.stdout)


def test_features_are_left_out():
    assert without(None) == without("") == without("avx512") == 0
    bits = [without(level) for level in LEVELS]
    for more, fewer in zip(bits, bits[1:]):
        assert more != fewer and more & fewer == fewer
    single = [without("-" + word) for word in ("crc32", "clmul", "sha", "avx2", "vpclmul", "avx512")]
    assert len(set(single)) == len(single) and all(single)
    assert without("avx2,-sha") == bits[2] | single[2]


def test_bytes_are_the_same(tmp_path):
    told = {cpu: python(cpu, SAVE, str(tmp_path / "t")) for cpu in (None, *LEVELS, "-sha", "avx2,-clmul")}
    assert all(done.returncode == 0 for done in told.values()), [done.stderr for done in told.values()]
    assert len({done.stdout.split()[1] for done in told.values()}) == 1
    assert told["portable"].stdout.split()[0] != "0"


@pytest.mark.parametrize("cpu", ["fast", "portable,fast", "-fast"])
def test_an_unknown_word_is_a_warning(cpu):
    done = python(cpu, "import safetensors_c; from safetensors_c import _core; print(_core._without())")
    assert done.returncode == 0 and done.stdout == "0\n"
    assert done.stderr.count("RuntimeWarning: SFT_CPU: ") == 1 and "fast" in done.stderr
    assert "nothing is left out" in done.stderr
    done = python(cpu, "import safetensors_c", options=["-W", "error::RuntimeWarning"])
    assert done.returncode == 1 and "RuntimeWarning: SFT_CPU: " in done.stderr
