# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Random tensor dicts through ours and through the package `safetensors`, in both directions.

Examples per test: SFT_EXAMPLES (default 60). SFT_SEED=1 makes new inputs each run; otherwise they are the
same every time. Skipped for a framework that is not installed.
"""

from __future__ import annotations

import os

import pytest

hypothesis = pytest.importorskip("hypothesis")
safetensors = pytest.importorskip("safetensors")
np = pytest.importorskip("numpy")

import safetensors_c  # noqa: E402

if safetensors.safe_open is safetensors_c.safe_open:
    pytest.skip("safetensors is ours here: nothing to compare with", allow_module_level=True)

import safetensors.numpy  # noqa: E402
import safetensors_c.numpy  # noqa: E402
from hypothesis import strategies as some  # noqa: E402

EXAMPLES = int(os.environ.get("SFT_EXAMPLES", "60"))
settings = hypothesis.settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize=not os.environ.get("SFT_SEED"),
    database=None,
    suppress_health_check=list(hypothesis.HealthCheck),
)

names = some.text(alphabet=some.characters(exclude_categories=["Cs"]), max_size=8).filter(
    lambda n: n != "__metadata__"
)
shapes = some.lists(some.integers(0, 4), max_size=4).map(tuple)
metadata = some.none() | some.dictionaries(names, names, min_size=1, max_size=3)
one_key = some.none() | some.dictionaries(names, names, min_size=1, max_size=1)
seeds = some.integers(0, 2**32 - 1)


def random_bytes(seed, count, boolean):
    data = np.random.default_rng(seed).integers(0, 256, count, dtype=np.uint8)
    return data & 1 if boolean else data


def numpy_array(dtype, shape, seed):
    dtype = np.dtype(dtype)
    count = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    return random_bytes(seed, count, dtype.kind == "b").view(dtype).reshape(shape)


def numpy_dicts(dtypes):
    entry = some.tuples(some.sampled_from(dtypes), shapes, seeds).map(lambda t: numpy_array(*t))
    return some.dictionaries(names, entry, max_size=5)


def same(a, b, raw):
    return list(map(str, sorted(a))) == list(map(str, sorted(b))) and all(raw(a[n]) == raw(b[n]) for n in a)


def compare(directory, tensors, notes, ours, theirs, framework, raw, theirs_loads_bytes=True):
    """Bytes of saves equal; what either wrote both read, by all ways, to the same."""
    mine = ours.save(dict(tensors), metadata=notes)
    if notes is None or len(notes) < 2:  # the reference orders two keys anew on every run
        assert mine == theirs.save(dict(tensors), metadata=notes)
    path = directory / "ours"
    ours.save_file(dict(tensors), path, metadata=notes)
    assert path.read_bytes() == mine
    other = directory / "theirs"
    theirs.save_file(dict(tensors), other, metadata=notes)
    for file in (path, other):
        loaded = ours.load_file(file)
        assert same(loaded, tensors, raw)
        assert same(theirs.load_file(file), loaded, raw)
        assert same(ours.load_file(file, backend="pread"), loaded, raw)
        assert same(ours.load(file.read_bytes()), loaded, raw)
        if theirs_loads_bytes:
            assert same(theirs.load(file.read_bytes()), loaded, raw)
        with safetensors_c.safe_open(file, framework) as a, safetensors.safe_open(file, framework) as b:
            assert a.keys() == b.keys() and sorted(a.offset_keys()) == sorted(b.offset_keys())
            assert a.metadata() == b.metadata()
            for name in b.keys():
                assert raw(a.get_tensor(name)) == raw(b.get_tensor(name))
                assert a.get_slice(name).get_shape() == b.get_slice(name).get_shape()
                assert a.get_slice(name).get_dtype() == b.get_slice(name).get_dtype()


def raw_numpy(a):
    a = np.asarray(a)
    return a.dtype.name, a.shape, a.tobytes()


NUMPY_TYPES = [np.dtype(t) for t in safetensors_c.numpy._TYPES.values()]


@hypothesis.given(numpy_dicts(NUMPY_TYPES), metadata)
@settings
def test_numpy(tmp_path_factory, tensors, notes):
    directory = tmp_path_factory.mktemp("d")
    compare(directory, tensors, notes, safetensors_c.numpy, safetensors.numpy, "np", raw_numpy)


@hypothesis.given(numpy_dicts([np.dtype(t) for t in ("f4", "i8", "u1", "?")]), seeds)
@settings
def test_deserialize(tensors, seed):
    data = safetensors.numpy.save(tensors)
    mine, other = dict(safetensors_c.deserialize(data)), dict(safetensors.deserialize(data))
    assert mine == other and all(type(v["data"]) is bytearray for v in mine.values())


index_parts = some.integers(-5, 5) | some.slices(5) | some.just(slice(None))


@hypothesis.given(seeds, shapes, some.lists(index_parts, max_size=3).map(tuple))
@settings
def test_numpy_slices(tmp_path_factory, seed, shape, index):
    """Where the reference slices, ours gives the same; where it refuses, ours does as NumPy, or refuses."""
    array = numpy_array("i4", shape, seed)
    path = tmp_path_factory.mktemp("d") / "t"
    safetensors.numpy.save_file({"a": array}, path)
    with safetensors_c.safe_open(path, "np") as a, safetensors.safe_open(path, "np") as b:
        try:
            expected = array[index]
        except IndexError:
            expected = None
        try:
            theirs = b.get_slice("a")[index]
        except BaseException:  # its panics derive from BaseException
            theirs = None
        if theirs is not None and expected is not None:
            if not np.array_equal(theirs, expected) or theirs.shape != np.shape(expected):
                theirs = None  # a slice that the reference gets wrong
        try:
            ours = a.get_slice("a")[index]
        except (safetensors_c.SafetensorError, IndexError, OverflowError, TypeError, ValueError):
            ours = None
        if ours is not None:
            assert expected is not None and raw_numpy(ours) == raw_numpy(expected)
        assert not (theirs is not None and expected is not None and ours is None), index


# ---------------------------------------------------------------- torch

torch = pytest.importorskip("torch")


def raw_torch(t):
    return (
        str(t.dtype),
        tuple(t.shape),
        bytes(t.contiguous().reshape(-1).view(torch.uint8).numpy()) if t.numel() else b"",
    )


def torch_dicts(codes, module):
    def make(entry):
        code, shape, seed = entry
        dtype = module._TYPES[code]
        count = module._SIZE[dtype] * int(np.prod(shape, dtype=np.int64))
        data = torch.from_numpy(random_bytes(seed, count, code == "BOOL").copy())
        return data.view(dtype).reshape(shape) if count else torch.empty(shape, dtype=dtype)

    entry = some.tuples(some.sampled_from(codes), shapes, seeds).map(make)
    return some.dictionaries(names, entry, max_size=5)


import safetensors.torch  # noqa: E402
import safetensors_c.torch  # noqa: E402

# What the reference's load(bytes) lacks is compared through files.
TORCH_CODES = [c for c in safetensors_c.torch._TYPES if c not in ("F4", "F8_E8M0")]
ODD_CODES = [c for c in ("F8_E8M0", "F32") if c in safetensors_c.torch._TYPES]


@hypothesis.given(torch_dicts(TORCH_CODES, safetensors_c.torch), metadata)
@settings
def test_torch(tmp_path_factory, tensors, notes):
    directory = tmp_path_factory.mktemp("d")
    compare(directory, tensors, notes, safetensors_c.torch, safetensors.torch, "pt", raw_torch)


@hypothesis.given(torch_dicts(ODD_CODES, safetensors_c.torch), one_key)
@settings
def test_torch_dtypes_that_the_reference_cannot_load_from_bytes(tmp_path_factory, tensors, notes):
    directory = tmp_path_factory.mktemp("d")
    compare(
        directory,
        tensors,
        notes,
        safetensors_c.torch,
        safetensors.torch,
        "pt",
        raw_torch,
        theirs_loads_bytes=False,
    )


state_dicts = some.lists(
    some.tuples(
        some.sampled_from(["w", "x", "y"]),  # storage
        some.integers(0, 6),
        some.integers(1, 6),
        some.sampled_from([1, 2]),
    ),
    min_size=1,
    max_size=6,
)


@hypothesis.given(state_dicts)
@settings
def test_sharing_verdicts(parts):
    storages = {name: torch.arange(12.0) for name in "wxy"}
    tensors = {
        f"{name}{i}": storages[name][start : start + count * step : step]
        for i, (name, start, count, step) in enumerate(parts)
    }

    def verdict(module):
        try:
            return module.save(tensors)
        except (RuntimeError, ValueError) as e:
            return type(e), str(e).split(":")[0]

    assert verdict(safetensors_c.torch) == verdict(safetensors.torch)
    mine = [s for s in safetensors_c.torch._find_shared_tensors(tensors) if len(s) > 1]
    other = [s for s in safetensors.torch._find_shared_tensors(tensors) if len(s) > 1]
    assert set().union(*other) <= set().union(*mine) and bool(mine) == bool(other)


# ---------------------------------------------------------------- the others, where they install


def test_flax():
    jax = pytest.importorskip("jax")
    pytest.importorskip("flax")
    import ml_dtypes
    import safetensors.flax
    import safetensors_c.flax

    jax.config.update("jax_enable_x64", True)
    kinds = [t for t in NUMPY_TYPES] + [np.dtype(ml_dtypes.bfloat16)]
    _frame(kinds, safetensors_c.flax, safetensors.flax, "flax", jax.numpy.asarray)


def test_tensorflow():
    tf = pytest.importorskip("tensorflow")
    import ml_dtypes
    import safetensors.tensorflow
    import safetensors_c.tensorflow

    kinds = [t for t in NUMPY_TYPES] + [np.dtype(ml_dtypes.bfloat16)]

    def convert(a):  # the reference cannot save scalars of tensorflow
        return tf.convert_to_tensor(a if a.ndim else a.reshape(1))

    _frame(kinds, safetensors_c.tensorflow, safetensors.tensorflow, "tf", convert)


def _frame(kinds, ours, theirs, framework, convert):
    import tempfile
    from pathlib import Path

    basic = [k for k in kinds if k.name != "bfloat16"]

    @hypothesis.given(numpy_dicts(basic), one_key)
    @settings
    def run(tensors, notes):
        made = {n: convert(a) for n, a in tensors.items()}
        with tempfile.TemporaryDirectory() as directory:
            compare(Path(directory), made, notes, ours, theirs, framework, raw_numpy)

    run()

    @hypothesis.given(numpy_dicts(kinds), one_key)
    @settings
    def with_bfloat16(tensors, notes):
        made = {n: convert(a) for n, a in tensors.items()}
        with tempfile.TemporaryDirectory() as directory:
            compare(
                Path(directory), made, notes, ours, theirs, framework, raw_numpy, theirs_loads_bytes=False
            )

    with_bfloat16()


def test_paddle():
    paddle = pytest.importorskip("paddle")
    import tempfile
    from pathlib import Path

    import safetensors.paddle
    import safetensors_c.paddle

    kinds = [np.dtype(k) for k in ("f8", "f4", "f2", "i8", "i4", "i2", "i1", "u1", "?")]

    def raw(t):
        return str(t.dtype), tuple(t.shape), t.numpy().tobytes()

    @hypothesis.given(numpy_dicts(kinds), one_key)
    @settings
    def run(arrays, notes):
        tensors = {n: paddle.to_tensor(a) for n, a in arrays.items() if a.size}
        with tempfile.TemporaryDirectory() as name:
            directory = Path(name)
            mine = safetensors_c.paddle.save(tensors, notes)
            assert mine == safetensors.paddle.save(tensors, notes)
            safetensors_c.paddle.save_file(tensors, directory / "t", notes)
            assert (directory / "t").read_bytes() == mine
            assert same(safetensors_c.paddle.load_file(directory / "t"), tensors, raw)
            assert same(safetensors_c.paddle.load(mine), tensors, raw)
            assert same(safetensors.paddle.load(mine), tensors, raw)

    run()
