# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The library and the reference (the PyPI package) judge the same generated files.

Run by a Python that has safetensors and numpy. Fails (exit 1) on any disagreement that is not one of the
hazards of docs/format.md; a hazard counts only if our status and message say so and a second reading of the
header with Python's json finds it. Everything both accept must be equal: names, dtypes, shapes, places,
bytes, metadata, order.

  verdicts.py --oracle build/tests/peers/sft_oracle            in memory, 250,000 inputs
  verdicts.py --tool build/safetensors --count 10000           files in a folder, through `check --json`
"""

import argparse
import collections
import json
import os
import pathlib
import struct
import subprocess
import sys
import tempfile
import time

import generate
import oracle
import safetensors

VARIANTS = [
    ("HeaderTooSmall", "header too small"),
    ("HeaderTooLarge", "header too large"),
    ("InvalidHeaderLength", "invalid header length"),
    ("InvalidHeader", "invalid UTF-8 in header"),
    ("InvalidHeaderDeserialization", "invalid JSON in header"),
    ("InvalidOffset", "invalid offset for tensor"),
    ("TensorInvalidInfo", "invalid shape, data type, or offset"),
    ("MetadataIncompleteBuffer", "incomplete metadata"),
    ("ValidationOverflow", "overflow computing buffer size"),
    ("MisalignedSlice", "The slice is slicing for subbytes"),
]
# The container is checked in one order by everybody, so these answers are known to the letter. Elsewhere a
# file may have several faults, and which one is named first is a matter of taste.
EXACT = {
    "HeaderTooSmall": {"SFT_E_TOO_SMALL"},
    "HeaderTooLarge": {"SFT_E_HEADER_TOO_LARGE"},
    "InvalidHeaderLength": {"SFT_E_HEADER_PAST_END"},
}
CONTAINER = set().union(*EXACT.values())
LEAST_PER_VARIANT = 1000
LEAST_ACCEPTED = 0.4
RANK_LIMIT = 1024


def variant_of(message):
    text = message.split(": ", 1)[1]
    for name, start in VARIANTS:
        if text.startswith(start):
            return name
    raise SystemExit(f"the reference says something new: {message!r}")


def reference(data):
    """(variant or None, {name: info})"""
    try:
        return None, dict(safetensors.deserialize(data))
    except safetensors.SafetensorError as e:
        return variant_of(str(e)), None


class Pairs(list):
    """A JSON object as the list of its members: nothing is lost when a key comes twice."""

    def twice(self):
        return len({k for k, _ in self}) != len(self)


def hazards_in(data):
    """Which of the refused hazards a header has, read with Python's json. The reference accepted it."""
    size = struct.unpack_from("<Q", data)[0]
    root = json.loads(data[8 : 8 + size].decode(), object_pairs_hook=Pairs, parse_int=str, parse_float=str)
    found = set()
    if root.twice():
        found.add("tensor name twice")
    for key, value in root:
        if key == "__metadata__":
            if value is not None and value.twice():
                found.add("metadata key twice")
        elif not isinstance(value, Pairs):
            found.add("entry as array")
        else:
            fields = dict(value)
            if isinstance(fields["dtype"], Pairs):
                found.add("dtype as object")
            if len(fields["shape"]) > RANK_LIMIT:
                found.add("rank above the limit")
    return found


# What we must say for each: status, and a word of the message.
HAZARDS = {
    "tensor name twice": ("SFT_E_DUPLICATE", "tensor"),
    "metadata key twice": ("SFT_E_DUPLICATE", "metadata"),
    "entry as array": ("SFT_E_SCHEMA", "entry must be an object"),
    "dtype as object": ("SFT_E_SCHEMA", "dtype must be a string"),
    "rank above the limit": ("SFT_E_LIMIT", "dimensions"),
}


def hazard_of(data, status, message):
    """The hazard that explains our refusal, or None."""
    for hazard in sorted(hazards_in(data)):
        wanted, word = HAZARDS[hazard]
        if status == wanted and word in message:
            return hazard
    return None


def read_by_reference(path):
    """Metadata and file order, which only safe_open tells."""
    with safetensors.safe_open(path, framework="np") as f:
        return f.metadata(), f.offset_keys()


def difference(data, ours, theirs, path):
    """None, or how two accepting answers differ."""
    with open(path, "wb") as f:
        f.write(data)
    metadata, order = read_by_reference(path)
    size = struct.unpack_from("<Q", data)[0]
    if ours.header_bytes != size:
        return f"header bytes {ours.header_bytes}, file says {size}"
    if ours.metadata != metadata:
        return f"metadata {ours.metadata!r}, reference {metadata!r}"
    if len(ours.tensors) != len(theirs):
        return f"{len(ours.tensors)} tensors, reference {len(theirs)}"
    places, at = [], 8 + size
    for name, dtype, shape, offset, nbytes, borrowed, borrowed_size in ours.tensors:
        info = theirs.get(name)
        if info is None:
            return f"tensor {name!r} unknown to the reference"
        if dtype != info["dtype"] or shape != info["shape"]:
            return f"{name!r}: {dtype} {shape}, reference {info['dtype']} {info['shape']}"
        if offset != at or data[offset : offset + nbytes] != info["data"]:
            return f"{name!r}: bytes at {offset} + {nbytes} are not the reference's"
        if borrowed_size != nbytes or (nbytes and borrowed != offset):
            return f"{name!r}: borrowed {borrowed_size} at {borrowed}, should be {nbytes} at {offset}"
        at += nbytes
        places.append((offset, nbytes, name))
    # Several empty tensors at one place come from the reference in random order.
    ranks = {name: (offset, nbytes) for offset, nbytes, name in places}
    if [ranks[n] for n in order] != [p[:2] for p in places]:
        return f"order {[p[2] for p in places]!r}, reference {order!r}"
    return None


class Judge:
    """Counts agreements, keeps disagreements."""

    def __init__(self, save):
        self.table = collections.Counter()
        self.hazards = collections.Counter()
        self.bad = []
        self.strict = 0
        self.save = pathlib.Path(save)

    def fail(self, data, label, why):
        self.save.mkdir(parents=True, exist_ok=True)
        path = self.save / f"disagreement-{len(self.bad):04d}-{label}.safetensors"
        path.write_bytes(data)
        self.bad.append(f"{path}: {why}")
        if len(self.bad) <= 40:
            print("DISAGREEMENT", self.bad[-1], flush=True)

    def verdict(self, data, label, status, message, offset, variant):
        """Compares two verdicts; True if both accept."""
        accepted = status == "SFT_OK"
        hazard = None
        if variant is None and not accepted:
            hazard = hazard_of(data, status, message)
            if hazard is None:
                self.fail(data, label, f"refused, the reference accepts: {status}: {message}")
            else:
                self.hazards[hazard] += 1
        elif variant is not None and accepted:
            self.fail(data, label, f"accepted, the reference says {variant}")
        elif variant is not None and (variant in EXACT or status in CONTAINER):
            if status not in EXACT.get(variant, ()):
                self.fail(data, label, f"{status} where the reference says {variant}: {message}")
        if not accepted and (
            not message or "\n" in message or (offset is not None and offset > len(data) + 8)
        ):
            self.fail(data, label, f"bad error record: offset {offset}, message {message!r}")
        self.table[(variant or "accepted", f"hazard: {hazard}" if hazard else status)] += 1
        return accepted and variant is None

    def report(self, seed, count, seconds):
        rows = collections.Counter()
        for (variant, _), n in self.table.items():
            rows[variant] += n
        print(f"\n{'reference says':<30}{'we say':<34}{'inputs':>9}")
        for variant in ["accepted"] + [v for v, _ in VARIANTS]:
            cells = sorted(((n, s) for (v, s), n in self.table.items() if v == variant), reverse=True)
            for i, (n, status) in enumerate(cells):
                print(f"{variant if i == 0 else '':<30}{status:<34}{n:>9,}")
        accepted = rows["accepted"] / max(1, count)
        print(
            f"\nseed {seed}: {count:,} inputs in {seconds:.1f} s; the reference accepts {accepted:.1%}; "
            f"{sum(self.hazards.values()):,} refused as hazards; {len(self.bad):,} unexplained"
            + (f"; {self.strict:,} pass the strict reading too" if self.strict else "")
        )
        return rows, accepted


def in_memory(args, judge):
    maker = generate.Generator(args.seed)
    done = 0
    with tempfile.TemporaryDirectory(dir=args.scratch) as folder:
        path = os.path.join(folder, "x.safetensors")
        while done < args.count:
            batch = [maker.make() for _ in range(min(2000, args.count - done))]
            done += len(batch)
            try:
                answers = oracle.ask(args.oracle, "verdict", [data for data, _ in batch])
                strict = oracle.ask(args.oracle, "strict", [data for data, _ in batch])
            except oracle.Crash as crash:
                judge.fail(crash.frame or b"", "crash", str(crash))
                return done
            for (data, label), answer, strict_answer in zip(batch, answers, strict):
                ours = oracle.Verdict(answer)
                if strict_answer == answer:
                    judge.strict += ours.ok
                elif oracle.Verdict(strict_answer).ok:
                    judge.fail(data, label, "the strict reading accepts more, or something else")
                variant, theirs = reference(data)
                offset = None if ours.offset == oracle.NO_OFFSET else ours.offset
                if judge.verdict(data, label, ours.status, ours.message, offset, variant):
                    why = difference(data, ours, theirs, path)
                    if why:
                        judge.fail(data, label, why)
    return done


def through_tool(args, judge):
    maker = generate.Generator(args.seed)
    with tempfile.TemporaryDirectory(dir=args.scratch) as folder:
        batch = [maker.make() for _ in range(args.count)]
        paths = [os.path.join(folder, f"{i:05d}.safetensors") for i in range(args.count)]
        for (data, _), path in zip(batch, paths):
            pathlib.Path(path).write_bytes(data)
        done = subprocess.run([args.tool, "check", "--json", *paths], capture_output=True, check=False)
        if done.returncode not in (0, 1):
            judge.fail(b"", "tool", f"exit {done.returncode}: {done.stderr[-300:]!r}")
            return args.count
        lines = [json.loads(line) for line in done.stdout.decode().splitlines()]
        if [x["file"] for x in lines] != paths:
            judge.fail(b"", "tool", f"{len(lines)} lines for {args.count} files, or in another order")
            return args.count
        refused = 0
        for (data, label), path, line in zip(batch, paths, lines):
            try:
                read_by_reference(path)
                variant = None
            except safetensors.SafetensorError as e:
                variant = variant_of(str(e))
            error = line["error"] or {}
            status = error.get("status") or "SFT_OK"
            if not status.startswith("SFT_"):
                judge.fail(data, label, f"no status name: {status!r}")
            if line["valid"] != (status == "SFT_OK") or not isinstance(line["warnings"], list):
                judge.fail(data, label, f"valid and error contradict each other: {line!r}")
            refused += not line["valid"]
            judge.verdict(data, label, status, error.get("message"), error.get("offset"), variant)
        if (done.returncode == 1) != (refused > 0):
            judge.fail(b"", "tool", f"exit {done.returncode} with {refused} invalid files")
    return args.count


def large_headers(args, judge):
    """The cap itself, and headers of about its size that are full of something."""
    cap = generate.CAP
    one = b'{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]%s}}'
    cases = {
        "blanks to the cap": b"{}" + b" " * (cap - 2),
        "blanks to the cap and one": b"{}" + b" " * (cap - 1),
        "blanks in front": b" " * (cap - 2) + b"{}",
        "ones in an ignored array": one % (b',"x":[' + b"1," * 20_000_000 + b"1]"),
        "a long ignored string": one % (b',"x":"' + b"a" * 60_000_000 + b'"'),
        "an unclosed string": b'{"' + b"a" * 60_000_000,
        "brackets": b"[" * 50_000_000,
        "a long metadata value": b'{"__metadata__":{"k":"' + "é".encode() * 20_000_000 + b'"}}',
    }
    for label, text in cases.items():
        data = struct.pack("<Q", len(text)) + text + (b"x" if b'"U8"' in text[:40] else b"")
        variant, theirs = reference(data)
        (answer,) = oracle.ask(args.oracle, "verdict", [data])
        ours = oracle.Verdict(answer)
        both = judge.verdict(data, "large", ours.status, ours.message, None, variant)
        if both and (len(ours.tensors), len(ours.metadata or ())) != (len(theirs), "metadata" in label):
            judge.fail(data, "large", f"{label}: another content")
        print(f"header of {len(text):>11,} bytes, {label:<28} {variant or 'accepted':<30} {ours.status}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--oracle", help="tests/peers/sft_oracle as built")
    what.add_argument("--tool", help="the safetensors command as built")
    parser.add_argument("--count", type=int, default=250_000)
    parser.add_argument("--seed", type=int, default=1, help="0: another one every time")
    parser.add_argument("--save", default="peers-failures", help="where inputs in dispute are kept")
    parser.add_argument("--scratch", default="/dev/shm" if os.path.isdir("/dev/shm") else None)
    args = parser.parse_args()
    args.seed = args.seed or time.time_ns() % 2**32
    print(f"safetensors {safetensors.__version__} as reference; seed {args.seed}", flush=True)
    judge, start = Judge(args.save), time.monotonic()
    count = through_tool(args, judge) if args.tool else in_memory(args, judge)
    rows, accepted = judge.report(args.seed, count, time.monotonic() - start)
    ok = not judge.bad
    if accepted < LEAST_ACCEPTED:
        print(f"too few accepted: {accepted:.1%}")
        ok = False
    if args.oracle:
        least = LEAST_PER_VARIANT if args.count >= 100_000 else 1
        for variant, _ in VARIANTS:
            if rows[variant] < least:
                print(f"{variant} came up {rows[variant]} times only")
                ok = False
        large_headers(args, judge)
        ok = ok and not judge.bad
    print("ok" if ok else "FAILED")
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
