# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Slices: Python's meaning of steps and negative bounds, the reference's sentences for what is outside."""

from __future__ import annotations

import random

import numpy as np
import pytest
from safetensors_c import SafetensorError, safe_open
from test_core_open import image

SHAPE = (6, 1, 5, 4)
A = np.arange(120, dtype=np.int32).reshape(SHAPE)


@pytest.fixture(scope="module", params=["mmap", "pread"])
def part(request, tmp_path_factory):
    p = tmp_path_factory.mktemp("s") / "x.safetensors"
    p.write_bytes(image({"a": A, "e": np.zeros((0, 3), np.float32), "s": np.array(3.5)}))
    with safe_open(p, "np", backend=request.param) as f:
        yield {name: f.get_slice(name) for name in f.keys()}


def random_index(rng):
    items = []
    for size in SHAPE[: rng.randrange(len(SHAPE) + 1)]:
        if rng.random() < 0.3:
            items.append(rng.randrange(-size, size))
        else:
            low = rng.choice([None, rng.randrange(-size - 2, size)])
            high = rng.choice([None, rng.randrange(-size - 2, size + 1)])
            items.append(slice(low, high, rng.choice([None, 1, 1, 2, 3, -1, -2])))
    if rng.random() < 0.2:
        items.append(Ellipsis)
    return items[0] if len(items) == 1 and rng.random() < 0.5 else tuple(items)


def test_against_numpy(part):
    rng = random.Random(7)
    for _ in range(2000):
        index = random_index(rng)
        got = part["a"][index]
        assert isinstance(got, np.ndarray) and got.flags.writeable and got.flags.c_contiguous
        assert got.shape == A[index].shape and np.array_equal(got, A[index]), index


def test_kinds(part):
    assert part["a"].get_shape() == list(SHAPE) and part["a"].shape == SHAPE
    assert part["a"].get_dtype() == part["a"].dtype == "I32" and len(part["a"]) == 6
    assert part["a"][[]].shape == (0, 1, 5, 4)
    assert part["a"][np.int64(2), False].shape == (5, 4)
    assert part["a"][np.array(2)].shape == (1, 5, 4)

    class One:  # as a tensor of one integer, whatever its shape is
        shape = (1,)

        def __index__(self):
            return 3

    assert np.array_equal(part["a"][One()], A[3])
    assert part["s"][()] == 3.5 and part["s"][...].shape == ()
    for whole in (slice(None), Ellipsis, (slice(None), slice(None))):
        assert part["e"][whole].shape == (0, 3)
    with pytest.raises(TypeError):
        len(part["s"])


ERRORS = [
    ((slice(None), -2), "Invalid index -2 for dimension 1 of size 1"),
    ([0, 1], "Non empty lists are not implemented"),
    (
        6,
        r"Error during slicing \[6\] with shape \[6, 1, 5, 4\]: index 6 out of bounds for tensor dimension #0 of size 6",
    ),
    (slice(None, 20), r"slicing \[:20\] with .*: index 19 out of bounds for tensor dimension #0 of size 6"),
    (slice(6, 2), r"slicing \[6:2\] with .*: index 6 out of bounds"),
    ((0, 0, 0, 0, 0), "more slicing indexes than dimensions in tensor"),
    ((0, None), "Unsupported slice index at position 1: expected slice, int, or ellipsis"),
    (1.5, "Unsupported slice index at position 0"),
    (np.array([0]), "Unsupported slice index at position 0"),
    (slice(None, None, 0), "Slice step must be a positive integer, got 0"),
    (2**70, "Unsupported slice index"),
    ((Ellipsis, Ellipsis), r"Only one ellipsis \(\.\.\.\) is allowed in slice index"),
]


@pytest.mark.parametrize("index, text", ERRORS)
def test_errors(part, index, text):
    with pytest.raises(SafetensorError, match=text):
        part["a"][index]


def test_what_fails_in_a_bound_is_told(part):
    class Bad:
        def __index__(self):
            raise ZeroDivisionError

    for index in (Bad(), slice(Bad(), None), slice(None, None, Bad())):
        with pytest.raises(ZeroDivisionError):
            part["a"][index]
    with pytest.raises(TypeError):
        part["a"][1.5:2]
