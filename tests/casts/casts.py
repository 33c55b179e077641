#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""casts.py LIBRARY - sft_convert against torch's Tensor.to(), bit for bit, for every pair of types that
torch has: all inputs of 8 and 16 bits; for the others NaN, infinities, subnormals, overflow, ties, powers
of two and random bits. The types without casts in torch (F4, F6) against a rounding done here in exact
fractions. SHA-256 against hashlib and CRC32C against the table's, while we are at it.

Where torch disagrees with itself (its vector loops and its scalar loops differ on NaN and on floats beyond
an integer's range) the input is left out and counted. Results that C leaves undefined, and payloads of
NaN, depend on the processor that torch runs on: they are compared too, but count as failures only on the
kind of processor whose results docs/casts.md lists (x86-64 with AVX-512).

Every conversion runs once for each level of SFT_CPU that this processor has, with kernels above it left out: all
must give the same bytes, so what is compared with torch, and with the fractions, is every kernel. ml_dtypes,
where it is installed, is a second oracle for the small floats.
"""

import ctypes
import fractions
import hashlib
import os
import sys
import warnings

import numpy as np
import torch

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from crc32c import crc32c  # noqa: E402

warnings.filterwarnings("ignore")
torch.set_num_threads(1)

TYPES = dict(
    BOOL=torch.bool,
    U8=torch.uint8,
    I8=torch.int8,
    F8_E5M2=torch.float8_e5m2,
    F8_E4M3=torch.float8_e4m3fn,
    F8_E8M0=torch.float8_e8m0fnu,
    F8_E4M3FNUZ=torch.float8_e4m3fnuz,
    F8_E5M2FNUZ=torch.float8_e5m2fnuz,
    I16=torch.int16,
    U16=torch.uint16,
    F16=torch.float16,
    BF16=torch.bfloat16,
    I32=torch.int32,
    U32=torch.uint32,
    F32=torch.float32,
    C64=torch.complex64,
    F64=torch.float64,
    I64=torch.int64,
    U64=torch.uint64,
)
FLOATS = [n for n in TYPES if n[0] == "F" or n in ("BF16", "C64")]
INTS = dict(
    U8=(0, 2**8),
    I8=(-(2**7), 2**7),
    I16=(-(2**15), 2**15),
    U16=(0, 2**16),
    I32=(-(2**31), 2**31),
    U32=(0, 2**32),
    I64=(-(2**63), 2**63),
    U64=(0, 2**64),
)
RANDOM = 20000
LEVELS = ["portable", "sse4.2", "avx2", "avx512"]


class Cast(ctypes.Structure):
    """sft_cast"""

    _fields_ = [("to", ctypes.c_void_p), ("source", ctypes.c_void_p), ("flags", ctypes.c_uint32)]


class Library:
    def __init__(self, path):
        self.c = ctypes.CDLL(path)
        self.differ = set()
        self.without = self.levels()
        self.c.sft_dtype_find.restype = ctypes.c_void_p
        self.c.sft_dtype_find.argtypes = [ctypes.c_char_p, ctypes.c_size_t]
        self.c.sft_convert.argtypes = [
            ctypes.c_void_p,
            ctypes.c_void_p,
            ctypes.c_uint64,
            ctypes.POINTER(Cast),
            ctypes.c_void_p,
        ]
        self.c.sft_crc32c.restype = ctypes.c_uint32
        self.c.sft_crc32c.argtypes = [ctypes.c_uint32, ctypes.c_char_p, ctypes.c_size_t]

    def dtype(self, name):
        found = self.c.sft_dtype_find(name.encode(), len(name))
        assert found, name
        return found

    def levels(self):
        """What to leave out for each level of SFT_CPU: {level: bits of SFT_CONVERT_WITHOUT}."""
        without = {}
        for level in LEVELS:
            pool = ctypes.c_void_p()
            assert self.c.sft_pool_create(ctypes.byref(pool), 1, None, None) == 0
            assert self.c.sft_pool_set_cpu(pool, level.encode(), None) == 0
            without[level] = self.c.sft_pool_without(pool)
            self.c.sft_pool_free(pool)
        assert without["avx512"] == 0 and len(set(without.values())) == len(LEVELS), without
        return without

    def convert_as(self, level, to, source, count, out_bytes):
        name, data = source
        out = np.full(out_bytes, 0x55, dtype=np.uint8)
        cast = Cast(self.dtype(to), self.dtype(name), self.without[level] << 8)
        status = self.c.sft_convert(out.ctypes.data, data.ctypes.data, count, ctypes.byref(cast), None)
        assert status == 0, (to, name, status)
        return out

    def convert(self, to, source, count, out_bytes):
        """source: (name, uint8 array). At every level; what differs from the highest is noted."""
        source = source[0], np.ascontiguousarray(source[1])
        out = self.convert_as(LEVELS[-1], to, source, count, out_bytes)
        for level in LEVELS[:-1]:
            if not np.array_equal(self.convert_as(level, to, source, count, out_bytes), out):
                self.differ.add("%s -> %s at %s" % (source[0], to, level))
        return out

    def sha256(self, data):
        state = ctypes.create_string_buffer(256)
        digest = ctypes.create_string_buffer(32)
        self.c.sft_sha256_init(state)
        self.c.sft_sha256_update(state, ctypes.c_char_p(data), ctypes.c_size_t(len(data)))
        self.c.sft_sha256_final(state, digest)
        return digest.raw


def float32_inputs():
    rng = np.random.default_rng(1)
    values = []
    mantissas = [
        1.0,
        1 + 2**-8,
        1 + 2**-11,
        1.5,
        1 + 2**-9,
        1.0625,
        1.125,
        1.25,
        1.0625 + 2**-20,
        1.125 - 2**-20,
        1.75,
        1.875,
        1.9375,
        2 - 2**-23,
        1 + 3 * 2**-8,
        1 + 3 * 2**-11,
        1.3,
        1.7,
        1 + 2**-23,
        1.5 - 2**-23,
        1.5 + 2**-23,
        1.25 - 2**-23,
        1.25 + 2**-23,
    ]
    for e in range(-150, 128):
        values += [m * 2.0**e for m in mantissas]
    values += [
        0,
        1,
        2,
        127,
        128,
        129,
        255,
        256,
        257,
        32767,
        32768,
        65504,
        65519,
        65520,
        65535,
        65536,
        65537,
        2**24,
        2**24 + 2,
        2**31 - 128,
        2**31,
        2**32 - 256,
        2**32,
        2**33,
        2**62,
        2**63,
        2**63 - 2**39,
        2**64 - 2**40,
        2**64,
        2**65,
        0.5,
        1.5,
        2.5,
        0.99,
    ]
    for at in (6, 7.5, 28, 240, 248, 448, 464, 480, 57344, 61440, 65504, 65520):
        exact = np.float32(at)
        values += [exact, np.nextafter(exact, np.float32(np.inf)), np.nextafter(exact, np.float32(0))]
    values = np.array(values, dtype=np.float64).astype(np.float32)
    values = np.concatenate([values, -values]).view(np.uint32)
    special = np.array(
        [
            0x7F800000,
            0xFF800000,
            0x7FC00000,
            0xFFC00000,
            0x7F800001,
            0x7FFFFFFF,
            0xFFFFFFFF,
            1,
            0x80000001,
            0x007FFFFF,
            0x00400000,
            0x00400001,
            0x003FFFFF,
            0x00600000,
        ],
        np.uint32,
    )
    bits = np.concatenate([special, values, rng.integers(0, 2**32, RANDOM, dtype=np.uint32)])
    return bits[: len(bits) // 2 * 2]


def float64_inputs():
    rng = np.random.default_rng(2)
    base = float32_inputs().view(np.float32).astype(np.float64)
    parts = [base, base * (1 + 2**-50), base * (1 - 2**-50), base * (1 + 2.0**-24), base * (1 + 2.0**-25)]
    ties = []
    for bits in (1, 2, 3, 7, 10, 23):  # just beside the middle: shows rounding twice
        for e in range(-30, 30):
            for d in (2.0**-40, -(2.0**-40), 0, 2.0**-30, -(2.0**-30), 2.0**-26):
                ties += [(1 + k * 2.0 ** -(bits + 1) + d) * 2.0**e for k in (1, 3)]
    parts += [np.array(ties), -np.array(ties)]
    special = np.array(
        [
            0x7FF << 52,
            0xFFF << 52,
            0x7FF8 << 48,
            0xFFF8 << 48,
            0x7FF0000000000001,
            0x7FFFFFFFFFFFFFFF,
            0xFFFFFFFFFFFFFFFF,
            1,
            1 << 63 | 1,
        ],
        np.uint64,
    )
    return np.concatenate(
        [special, np.concatenate(parts).view(np.uint64), rng.integers(0, 2**64, RANDOM, dtype=np.uint64)]
    )


def integer_inputs(dtype):
    rng = np.random.default_rng(3)
    bits = np.dtype(dtype).itemsize * 8
    values = []
    for k in range(bits):
        for d in range(-3, 4):
            values += [2**k + d, -(2**k) + d]
    for k in range(3, bits - 1):
        for s in (2, 3, 7, 10, 23, 52):
            if k > s + 1:
                values += [
                    sign * (2**k + n * 2 ** (k - s - 1) + d)
                    for sign in (1, -1)
                    for n in (1, 3)
                    for d in (-1, 0, 1)
                ]
    values = np.array([v % 2**bits for v in values], dtype=dtype)
    return np.concatenate([values, rng.integers(0, 2**bits, RANDOM, dtype=dtype)])


def inputs(name):
    """Little-endian bytes of the inputs of a type; a multiple of 64 elements, so that torch takes all of
    them through its vector loops."""
    data = all_inputs(name)
    size = 64 * TYPES[name].itemsize
    return np.concatenate([data, data[: -len(data) % size]])


def all_inputs(name):
    size = TYPES[name].itemsize
    if name == "BOOL":
        return np.tile(np.array([0, 1], np.uint8), 600)
    if size == 1:
        return np.tile(np.arange(256, dtype=np.uint8), 5)
    if size == 2:
        return np.arange(65536, dtype=np.uint16).view(np.uint8)
    if name in ("F32", "C64"):
        return float32_inputs().view(np.uint8)
    if name == "F64":
        return float64_inputs().view(np.uint8)
    return integer_inputs(np.uint32 if size == 4 else np.uint64).view(np.uint8)


def raw(tensor):
    return tensor.contiguous().view(torch.uint8).numpy().reshape(-1, tensor.element_size())


def scalar_results(tensor, to, picks):
    return np.concatenate([raw(tensor[i : i + 1].clone().to(to)) for i in picks])


def soft_mask(name, to, tensor):
    """Inputs whose result C leaves undefined or whose result is a NaN."""
    if name not in FLOATS:
        return np.zeros(tensor.numel(), bool)
    real = tensor.real if name == "C64" else tensor
    value = real.to(torch.float64).numpy()
    nan = np.isnan(value)
    if to in INTS:
        low, high = INTS[to]
        with np.errstate(invalid="ignore"):
            return nan | ~((np.trunc(value) >= low) & (np.trunc(value) < high))
    return nan if to != "BOOL" else np.zeros(tensor.numel(), bool)


def compare_with_torch(library):
    strict = torch.backends.cpu.get_cpu_capability() == "AVX512"
    pairs = compared = left_out = soft = failed = 0
    for name in TYPES:
        data = inputs(name)
        tensor = torch.from_numpy(data.copy()).view(TYPES[name])
        count = tensor.numel()
        picks = np.unique(np.linspace(0, count - 1, 1500).astype(int))
        for to in TYPES:
            want = raw(tensor.to(TYPES[to]))
            got = library.convert(to, (name, data), count, want.size).reshape(want.shape)
            wrong = (want != got).any(axis=1)
            differs = np.zeros(count, bool)  # torch with itself
            differs[picks] = (scalar_results(tensor, TYPES[to], picks) != want[picks]).any(axis=1)
            undefined = soft_mask(name, to, tensor)
            pairs += 1
            compared += count
            left_out += int((wrong & differs).sum())
            wrong &= ~differs
            soft += int((wrong & undefined).sum())
            bad = wrong if strict else wrong & ~undefined
            if bad.any():
                failed += 1
                i = int(np.nonzero(bad)[0][0])
                size = TYPES[name].itemsize
                print(
                    "%s -> %s: %d of %d differ, first %s: torch %s, ours %s"
                    % (
                        name,
                        to,
                        int(bad.sum()),
                        count,
                        data[i * size : (i + 1) * size][::-1].tobytes().hex(),
                        want[i][::-1].tobytes().hex(),
                        got[i][::-1].tobytes().hex(),
                    )
                )
    print(
        "casts: %d pairs, %d inputs compared, %d left out (torch disagrees with itself), %d undefined in C "
        "or NaN that differ, %d pairs failed" % (pairs, compared, left_out, soft, failed)
    )
    return failed


SMALL = dict(F4=(1, 2, 1, 6.0), F6_E2M3=(3, 2, 1, 7.5), F6_E3M2=(2, 3, 3, 28.0))  # mantissa, exponent, bias


def small_values(name):
    mantissa, exponent, bias, _ = SMALL[name]
    values = []
    for code in range(1 << (mantissa + exponent)):
        e, m = code >> mantissa, code & ((1 << mantissa) - 1)
        values.append(
            m * 2.0 ** (1 - bias - mantissa) if e == 0 else (1 + m / (1 << mantissa)) * 2.0 ** (e - bias)
        )
    return values


def pack(codes, bits):
    total = 0
    out = bytearray()
    per = {4: 2, 6: 4}[bits]
    for i in range(0, len(codes), per):
        total = sum(int(c) << (bits * k) for k, c in enumerate(codes[i : i + per]))
        out += total.to_bytes(bits * per // 8, "little")
    return np.frombuffer(bytes(out), np.uint8)


def compare_small(library):
    """OCP MX: exact when loading; nearest, ties to even, saturating when storing; NaN to the largest."""
    failed = 0
    compared = 0
    for name, (mantissa, exponent, _, largest) in SMALL.items():
        bits = 1 + mantissa + exponent
        positive = small_values(name)
        codes = list(range(1 << bits)) * 4
        want = np.array(
            [positive[c & (len(positive) - 1)] * (-1 if c >= len(positive) else 1) for c in codes], np.float32
        )
        got = library.convert("F32", (name, pack(codes, bits)), len(codes), 4 * len(codes)).view(np.float32)
        failed += not (want.view(np.uint32) == got.view(np.uint32)).all()
        data = float32_inputs().view(np.float32)
        data = data[np.abs(data) < 1e6][: 8000 // 4 * 4]
        middles = np.array([(a + b) / 2 for a, b in zip(positive, positive[1:])], np.float32)
        middles = np.concatenate(
            [middles, np.nextafter(middles, np.float32(99)), np.nextafter(middles, np.float32(0)), positive]
        ).astype(np.float32)
        data = np.concatenate([data, middles, -middles, [np.inf, -np.inf, np.nan, largest * 2]]).astype(
            np.float32
        )
        data = np.concatenate([data, np.zeros(-len(data) % 4, np.float32)])
        want = []
        for value in data:
            sign = len(positive) if np.signbit(value) and not np.isnan(value) else 0
            if np.isnan(value) or abs(value) >= largest:
                want.append(sign | (len(positive) - 1))
                continue
            exact = fractions.Fraction(abs(float(value)))
            best = min(
                range(len(positive)), key=lambda c: (abs(fractions.Fraction(positive[c]) - exact), c & 1)
            )
            want.append(sign | best)
        got = library.convert(name, ("F32", data.view(np.uint8)), len(data), len(data) * bits // 8)
        same = bool((got == pack(want, bits)).all())
        compared += len(data) + len(codes)
        failed += not same
        print("%s: %d values, %s" % (name, len(data) + len(codes), "equal" if same else "DIFFER"))
    return failed


def compare_digests(library):
    rng = np.random.default_rng(4)
    failed = 0
    for n in list(range(0, 300)) + [511, 512, 513, 1023, 4096, 6144, 10000]:
        data = rng.integers(0, 256, n, dtype=np.uint8).tobytes()
        failed += library.sha256(data) != hashlib.sha256(data).digest()
        failed += library.c.sft_crc32c(0, data, n) != crc32c(data)
    big = rng.integers(0, 256, 10_000_019, dtype=np.uint8).tobytes()
    failed += library.sha256(big) != hashlib.sha256(big).digest()
    print("digests: 308 lengths, %d differ" % failed)
    return failed


def compare_ml_dtypes(library):
    """Rounding to small floats within their range, and all of their values, as jax's types have them."""
    try:
        import ml_dtypes
    except ImportError:
        print("ml_dtypes: not installed, not compared")
        return 0
    types = dict(
        F8_E5M2=ml_dtypes.float8_e5m2,
        F8_E4M3=ml_dtypes.float8_e4m3fn,
        F8_E4M3FNUZ=ml_dtypes.float8_e4m3fnuz,
        F8_E5M2FNUZ=ml_dtypes.float8_e5m2fnuz,
        BF16=ml_dtypes.bfloat16,
    )
    failed = 0
    values = float32_inputs().view(np.float32)
    for name, kind in types.items():
        size = np.dtype(kind).itemsize
        within = values[np.abs(values) <= float(ml_dtypes.finfo(kind).max)]
        got = library.convert(name, ("F32", within.view(np.uint8)), len(within), len(within) * size)
        want = np.ascontiguousarray(within.astype(kind)).view(np.uint8)
        codes = np.arange(1 << 8 * size, dtype="u%d" % size)
        loaded = library.convert("F32", (name, codes.view(np.uint8)), len(codes), 4 * len(codes))
        exact = codes.view(kind).astype(np.float32)
        nan = np.isnan(exact)
        same = np.array_equal(got, want) and np.array_equal(
            loaded.view(np.uint32)[~nan], exact.view(np.uint32)[~nan]
        )
        same = same and bool(np.isnan(loaded.view(np.float32)[nan]).all())
        failed += not same
        print(
            "%s: ml_dtypes, %d values, %s" % (name, len(within) + len(codes), "equal" if same else "DIFFER")
        )
    return failed


def processor_levels():
    """The levels whose kernels this processor runs; None where it does not tell."""
    try:
        with open("/proc/cpuinfo", encoding="ascii", errors="replace") as f:
            flags = next((line.split() for line in f if line.startswith("flags")), None)
    except OSError:
        return None
    needs = dict(portable=[], avx512=["avx512f", "avx512vl"], avx2=["avx2", "f16c"])
    needs["sse4.2"] = ["sse4_2"]
    return None if flags is None else [n for n in LEVELS if all(flag in flags for flag in needs[n])]


def compare_levels(library):
    has = processor_levels()
    for fault in sorted(library.differ):
        print("%s differs from the highest level" % fault)
    told = "unknown" if has is None else ", ".join(has)
    missing = [] if has is None else [n for n in LEVELS if n not in has]
    print(
        "levels: %s; not run, for this processor has them not: %s; %d conversions differ"
        % (told, ", ".join(missing) or "none", len(library.differ))
    )
    return len(library.differ)


def main():
    library = Library(sys.argv[1])
    failed = compare_with_torch(library) + compare_small(library) + compare_digests(library)
    failed += compare_ml_dtypes(library) + compare_levels(library)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
