# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The same random tensor sets written by the library and by the reference: byte for byte the same file.

Two differences are deliberate (docs/format.md): metadata keys come sorted, where the reference's order is
random (its own spelling of each pair is kept, the pairs are put in order, then bytes are compared); and an
empty metadata map without tensors is a valid file, where the reference writes broken text. The element
types that the reference cannot write from Python are read back by it instead.
Run by a Python that has safetensors and numpy.
"""

import argparse
import ctypes
import json
import random
import struct
import sys
import time

import generate
import numpy
import oracle
import safetensors
import safetensors.numpy

FRAMEWORK_NAMES = {
    "BOOL": "bool",
    "I8": "int8",
    "U8": "uint8",
    "I16": "int16",
    "U16": "uint16",
    "I32": "int32",
    "U32": "uint32",
    "I64": "int64",
    "U64": "uint64",
    "F16": "float16",
    "F32": "float32",
    "F64": "float64",
    "BF16": "bfloat16",
    "F8_E4M3": "float8_e4m3fn",
    "F8_E4M3FNUZ": "float8_e4m3fnuz",
    "F8_E5M2": "float8_e5m2",
    "F8_E5M2FNUZ": "float8_e5m2fnuz",
    "F8_E8M0": "float8_e8m0fnu",
    "F4": "float4_e2m1fn_x2",
    "C64": "complex64",
}


class Maker:
    def __init__(self, seed):
        self.r = random.Random(seed)
        self.g = generate.Generator(seed)

    def name(self, used):
        r = self.r
        if r.random() < 0.25:
            while True:
                s = "".join(
                    chr(
                        r.choice(
                            (
                                r.randrange(0, 0x20),
                                r.randrange(0x20, 0x80),
                                r.randrange(0x80, 0x800),
                                r.randrange(0x800, 0xD800),
                                r.randrange(0xE000, 0x10000),
                                r.randrange(0x10000, 0x110000),
                            )
                        )
                    )
                    for _ in range(r.randrange(1, 9))
                )
                if s not in used:
                    used.add(s)
                    return s
        return self.g.name(used)

    def tensors(self, dtypes):
        """[(name, dtype, shape, data)]"""
        r, used, out = self.r, set(), []
        few = r.sample(dtypes, min(len(dtypes), r.choice((1, 2, 4, 20))))
        for _ in range(r.choices((0, 1, 2, 3, 5, 9, 40), (1, 5, 5, 5, 5, 2, 0.5))[0]):
            dtype = r.choice(few)
            shape = self.g.shape(dtype)
            if dtype == "F4" and (not shape or shape[-1] % 2):
                shape.append(2)
            if shape and r.random() < 0.1:
                shape[r.randrange(len(shape))] = 0
            out.append((self.name(used), dtype, shape, r.randbytes(self.g.nbytes(dtype, shape))))
        r.shuffle(out)
        return out

    def metadata(self):
        r, used = self.r, set()
        count = r.choices((None, 0, 1, 2, 5), (4, 1, 3, 2, 1))[0]
        return None if count is None else {self.name(used): self.name(set()) for _ in range(count)}


def frame(tensors, metadata):
    parts = [struct.pack("<II", metadata is not None, len(metadata or ()))]
    for key, value in (metadata or {}).items():
        parts += [oracle.text(key.encode()), oracle.text(value.encode())]
    parts.append(struct.pack("<I", len(tensors)))
    for name, dtype, shape, data in tensors:
        parts += [
            oracle.text(name.encode()),
            oracle.text(dtype.encode()),
            struct.pack(f"<I{len(shape)}QQ", len(shape), *shape, len(data)),
            data,
        ]
    return b"".join(parts)


def written_by_reference(tensors, metadata):
    keep, specs = [], {}
    for name, dtype, shape, data in tensors:
        memory = ctypes.create_string_buffer(data, max(1, len(data)))
        keep.append(memory)
        if dtype == "F4":
            shape = shape[:-1] + [shape[-1] // 2]
        specs[name] = safetensors.TensorSpec(
            dtype=FRAMEWORK_NAMES[dtype], shape=shape, data_ptr=ctypes.addressof(memory), data_len=len(data)
        )
    return safetensors.serialize(specs, metadata)


def sorted_metadata(data):
    """The same file with the pairs of its metadata sorted by key, each spelt as it was."""
    (size,) = struct.unpack_from("<Q", data)
    text = data[8 : 8 + size].decode()
    start = '{"__metadata__":{'
    if not text.startswith(start):
        raise SystemExit(f"the reference writes metadata elsewhere: {text[:60]!r}")
    decoder, at, pairs = json.JSONDecoder(strict=True), len(start), []
    while text[at] != "}":
        at += text[at] == ","
        key, middle = decoder.raw_decode(text, at)
        _, end = decoder.raw_decode(text, middle + 1)
        pairs.append((key.encode(), text[at:end]))
        at = end
    pairs.sort()
    return data[:8] + (start + ",".join(p for _, p in pairs) + text[at:]).encode() + data[8 + size :]


def compare(tensors, metadata, answer):
    """None or what is wrong."""
    r = oracle.Record(answer)
    status = oracle.STATUS[r.u32()]
    r.u32(), r.u64(), r.raw()
    message = r.raw().decode()
    if status != "SFT_OK":
        return f"refused: {status}: {message}"
    ours = r.rest()
    if metadata is not None and not metadata and not tensors:
        return None if ours == struct.pack("<Q", 24) + b'{"__metadata__":{}}     ' else f"wrote {ours!r}"
    theirs = written_by_reference(tensors, metadata)
    if metadata and len(metadata) > 1:
        theirs = sorted_metadata(theirs)
    return None if ours == theirs else f"wrote\n  {ours[:400]!r}\nreference\n  {theirs[:400]!r}"


def read_back(tensors, answer):
    """None or what the reference finds other than what was given."""
    r = oracle.Record(answer)
    status = oracle.STATUS[r.u32()]
    r.u32(), r.u64(), r.raw(), r.raw()
    if status != "SFT_OK":
        return f"refused: {status}"
    got = {n: (i["dtype"], i["shape"], bytes(i["data"])) for n, i in safetensors.deserialize(r.rest())}
    want = {n: (d, s, b) for n, d, s, b in tensors}
    return None if got == want else f"read back {got!r}, wrote {want!r}"


def refusals(program):
    """What must not be written at all: (frame, status)."""
    one = ("F32", [1], b"1234")
    cases = [
        ("tensor called __metadata__", [("__metadata__", *one)], "SFT_E_ARG"),
        ("name twice", [("a", *one), ("b", *one), ("a", *one)], "SFT_E_DUPLICATE"),
        ("bytes that disagree", [("a", "F32", [2], b"1234")], "SFT_E_ARG"),
        ("half a byte", [("a", "F4", [3], b"12")], "SFT_E_SUBBYTE"),
        ("overflow", [("a", "F32", [2**32, 2**32], b"")], "SFT_E_OVERFLOW"),
    ]
    bad = []
    for label, tensors, wanted in cases:
        (answer,) = oracle.ask(program, "write", [frame(tensors, None)])
        got = oracle.STATUS[oracle.Record(answer).u32()]
        if got != wanted:
            bad.append(f"{label}: {got}, not {wanted}")
    return bad


def numpy_save(maker, program):
    """One set through safetensors.numpy.save as users call it."""
    arrays = {
        maker.name({"__metadata__"}) + str(i): numpy.arange(i * 6).reshape(2, 3, i).astype(t)
        for i, t in enumerate(("u1", "i2", "f4", "f8", "c8", "?", "u8", "f2"))
    }
    codes = {
        "uint8": "U8",
        "int16": "I16",
        "float32": "F32",
        "float64": "F64",
        "complex64": "C64",
        "bool": "BOOL",
        "uint64": "U64",
        "float16": "F16",
    }
    tensors = [(n, codes[a.dtype.name], list(a.shape), a.tobytes()) for n, a in arrays.items()]
    (answer,) = oracle.ask(program, "write", [frame(tensors, {"format": "np"})])
    return oracle.Record(answer[24:]).rest() == safetensors.numpy.save(arrays, {"format": "np"})


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--oracle", required=True, help="tests/peers/sft_oracle as built")
    parser.add_argument("--count", type=int, default=40_000)
    parser.add_argument("--seed", type=int, default=1, help="0: another one every time")
    args = parser.parse_args()
    args.seed = args.seed or time.time_ns() % 2**32
    print(f"safetensors {safetensors.__version__} as reference; seed {args.seed}", flush=True)
    maker, bad, done, start = Maker(args.seed), refusals(args.oracle), 0, time.monotonic()
    dtypes, kinds, sizes = list(FRAMEWORK_NAMES), {}, 0
    while done < args.count:
        sets = [(maker.tensors(dtypes), maker.metadata()) for _ in range(min(500, args.count - done))]
        done += len(sets)
        for (tensors, metadata), answer in zip(
            sets, oracle.ask(args.oracle, "write", [frame(*s) for s in sets])
        ):
            why = compare(tensors, metadata, answer)
            if why:
                bad.append(f"{why}\n  tensors {tensors!r:.600}\n  metadata {metadata!r:.300}")
            kind = (
                "no metadata"
                if metadata is None
                else f"{min(len(metadata), 2)}{'+' * (len(metadata) > 1)} keys"
            )
            kinds[kind] = kinds.get(kind, 0) + 1
            sizes += len(tensors)
    six = [maker.tensors(["F6_E2M3", "F6_E3M2", "F4", "U8"]) for _ in range(500)]
    for tensors, answer in zip(six, oracle.ask(args.oracle, "write", [frame(t, None) for t in six])):
        why = read_back(tensors, answer)
        if why:
            bad.append(why)
    if not numpy_save(maker, args.oracle):
        bad.append("safetensors.numpy.save wrote other bytes")
    for line in bad[:10]:
        print("DISAGREEMENT", line)
    print(
        f"{done:,} sets, {sizes:,} tensors written twice in {time.monotonic() - start:.1f} s; "
        f"{', '.join(f'{k}: {v:,}' for k, v in sorted(kinds.items()))}; "
        f"{len(six)} sets of 6-bit types read back; {len(bad)} disagreements"
    )
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
