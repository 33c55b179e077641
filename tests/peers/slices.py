# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Random slices of random tensors, read by the library and by numpy.

From memory, through a descriptor and through a mapping; packed and into strided destinations (any order of
dimensions, gaps, negative strides, guard bytes on both sides); ranges, steps, negatives, numbers far outside,
indexes, ellipsis, empty results, scalars; sub-byte types against a bit-by-bit model.
Run by a Python that has numpy.
"""

import argparse
import collections
import random
import struct
import sys
import time

import numpy as np
import oracle
from numpy.lib.stride_tricks import as_strided

GUARD, PACKED, FILL = 24, 0xFFFFFFFF, 0xEE
TYPES = {
    "U8": (8, 1),
    "BF16": (16, 1),
    "F32": (32, 1),
    "C64": (64, 1),
    "I64": (64, 1),
    "F4": (4, 2),
    "F6_E2M3": (6, 4),
}
FAR = [2**31, 2**32 + 1, 2**62, 2**63 - 1, -(2**31), -(2**62), -(2**63) + 1]
BEYOND = [2**63, 2**64, 2**70, -(2**63), -(2**64)]


def file_of(dtype, shape, data):
    text = '{"w":{"dtype":"%s","shape":[%s],"data_offsets":[0,%d]}}' % (
        dtype,
        ",".join(map(str, shape)),
        len(data),
    )
    text += " " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text.encode() + data


class Case:
    """One question: a tensor, a slice as text and as a Python index, a destination."""

    def __init__(self, r):
        self.r = r
        self.dtype = r.choices(list(TYPES), (3, 3, 4, 2, 2, 2, 1))[0]
        self.bits, self.block = TYPES[self.dtype]
        rank = r.choices((0, 1, 2, 3, 4, 5, 7), (1, 5, 7, 5, 3, 1, 0.5))[0]
        top = 9 if rank < 4 else 4
        self.shape = [r.randrange(1, top) for _ in range(rank)]
        if rank == 2 and r.random() < 0.1:
            self.shape = [r.randrange(1, 40), r.randrange(1, 400)]
        if r.random() < 0.05 and rank:
            self.shape[r.randrange(rank)] = 0
        if self.block > 1:
            while not rank or np.prod(self.shape, dtype=np.int64) % self.block:
                self.shape = [r.choice((1, 2, 3, 4, 6, 8)) for _ in range(max(1, rank))]
                rank = len(self.shape)
        self.count = int(np.prod(self.shape, dtype=np.int64))
        self.data = r.randbytes(self.count * self.bits // 8)
        self.beyond = False
        self.text, self.index = self.slices()
        self.via = r.randrange(3)

    def bound(self, n):
        r, x = self.r, self.r.random()
        if x < 0.3:
            return None
        if x < 0.93:
            return r.randrange(-n - 2, n + 3)
        if x < 0.99:
            return r.choice(FAR)
        self.beyond = True
        return r.choice(BEYOND)

    def item(self, n):
        r = self.r
        x = r.random()
        if x < 0.2:
            i = r.randrange(-n, n) if n and r.random() < 0.95 else r.choice((n, -n - 1, 2**40))
            return str(i), i
        if x < 0.3:
            return ":", slice(None)
        start, stop = self.bound(n), self.bound(n)
        step = r.choices(
            (None, 1, 2, 3, -1, -2, -5, 100, -100, 0, 2**62, -(2**63) + 1),
            (8, 3, 3, 1, 4, 2, 1, 0.5, 0.5, 0.15, 0.2, 0.2),
        )[0]
        if r.random() < 0.7 and n and (step is None or abs(step) < 10):  # one that chooses something
            start, stop = sorted((r.randrange(-1, n), r.randrange(1, n + 1)))
            start, stop = (max(start, 0), stop) if (step or 1) > 0 else (stop, start if start >= 0 else None)
        text = f"{'' if start is None else start}:{'' if stop is None else stop}"
        if step is not None or r.random() < 0.1:
            text += f":{'' if step is None else step}"
        return text, slice(start, stop, step)

    def slices(self):
        r, rank = self.r, len(self.shape)
        use = r.choices((rank, r.randrange(rank + 1), rank + 1), (6, 4, 0.15))[0]
        head = r.randrange(use + 1) if r.random() < 0.25 else None
        dims = list(range(use)) if head is None else list(range(head)) + list(range(rank - use + head, rank))
        items = [self.item(self.shape[d] if 0 <= d < rank else 3) for d in dims]
        if head is not None:
            items.insert(head, ("...", Ellipsis))
            if r.random() < 0.02:
                items.append(("...", Ellipsis))
        gap = r.choice(("", "", " ", "  "))
        return (gap + "," + gap).join(t for t, _ in items), tuple(i for _, i in items)

    # ------------------------------------------------------------ what numpy says

    def expected(self):
        """(status or None, elements as an index array)"""
        flat = np.arange(self.count).reshape(self.shape)
        for i in self.index:
            if isinstance(i, slice) and i.step == 0:
                return "SFT_E_ARG", None
        if self.index.count(Ellipsis) > 1 or len([i for i in self.index if i is not Ellipsis]) > len(
            self.shape
        ):
            return "SFT_E_ARG", None
        try:
            return None, np.asarray(flat[self.index])
        except IndexError:
            return "SFT_E_RANGE", None

    def cuts_a_byte(self, chosen):
        """Whether a longest run of neighbours begins or ends inside a block of the type."""
        c = chosen.reshape(-1)
        if self.block == 1 or c.size == 0:
            return False
        breaks = np.flatnonzero(np.diff(c) != 1) + 1
        starts = c[np.concatenate(([0], breaks))]
        ends = c[np.concatenate((breaks - 1, [c.size - 1]))] + 1
        return bool((starts % self.block).any() or (ends % self.block).any())

    def packed(self, chosen):
        c = chosen.reshape(-1)
        if self.bits >= 8:
            return np.frombuffer(self.data, f"V{self.bits // 8}")[c].tobytes()
        bits = np.unpackbits(np.frombuffer(self.data, np.uint8), bitorder="little").reshape(-1, self.bits)
        return np.packbits(bits[c].reshape(-1), bitorder="little").tobytes()

    # ------------------------------------------------------------ the destination

    def destination(self, chosen):
        """Fills the fields of the frame; self.want is the whole destination afterwards."""
        r = self.r
        size = self.bits // 8
        self.strides, self.short = None, False
        if chosen is None:
            self.before, self.room, total, self.want = GUARD, 1 << 16, (1 << 16) + 2 * GUARD, None
            return total
        if self.block > 1 or r.random() < 0.5:
            body = self.packed(chosen)
            self.before, self.room = GUARD, len(body)
            self.want = bytes([FILL]) * GUARD + body + bytes([FILL]) * GUARD
        else:
            self.strided(chosen, size)
        total = self.room + 2 * GUARD
        if self.room and r.random() < 0.03:
            self.room -= 1
            self.short = True
        return total

    def strided(self, chosen, size):
        r, strides, step = self.r, [0] * chosen.ndim, size
        for d in r.sample(range(chosen.ndim), chosen.ndim):
            step += r.choice((0, 0, 0, size, 1, 3 * size, 64))
            strides[d] = step * r.choice((1, 1, 1, -1))
            step *= max(1, chosen.shape[d])
        below = sum(-s * (n - 1) for s, n in zip(strides, chosen.shape) if s < 0 and n > 0)
        span = sum(abs(s) * (n - 1) for s, n in zip(strides, chosen.shape)) + size if chosen.size else 0
        if not chosen.size:
            below = 0
        self.strides, self.before, self.room = strides, GUARD + below, span
        buffer = np.full(span + 2 * GUARD, FILL, np.uint8)
        if chosen.size:
            view = np.ndarray((1,), f"V{size}", buffer, self.before)
            view = as_strided(view, chosen.shape, strides)
            view[...] = np.frombuffer(self.data, f"V{size}")[chosen]
        self.want = buffer.tobytes()

    def frame(self):
        self.status, self.chosen = self.expected()
        total = self.destination(self.chosen)
        strides = [] if self.strides is None else self.strides
        return b"".join(
            (
                struct.pack("<I", self.via),
                oracle.text(file_of(self.dtype, self.shape, self.data)),
                oracle.text(self.text.encode()),
                struct.pack("<I", PACKED if self.strides is None else len(strides)),
                struct.pack(f"<{len(strides)}q", *strides),
                struct.pack("<QQQ", self.before, self.room, total),
            )
        )

    # ------------------------------------------------------------ the comparison

    def check(self, answer):
        """(what came out, None or what is wrong)"""
        r = oracle.Record(answer)
        status = oracle.STATUS[r.u32()]
        r.u32(), r.u64(), r.raw()
        message = r.raw().decode()
        wanted = self.status
        if self.beyond and status == "SFT_E_ARG":
            return "number beyond 64 bits refused", None
        if wanted is None and self.cuts_a_byte(self.chosen):
            wanted = "SFT_E_SUBBYTE"
        elif wanted is None and self.short:
            wanted = "SFT_E_ARG"
        if status != (wanted or "SFT_OK"):
            return "", f"{status} ({message}), not {wanted or 'SFT_OK'}"
        if wanted:
            return wanted, None
        shape, nbytes = list(r.many64(r.u32())), r.u64()
        if shape != list(self.chosen.shape) or nbytes != self.chosen.size * self.bits // 8:
            return "", f"shape {shape}, {nbytes} bytes; numpy says {self.chosen.shape}"
        if r.rest() != self.want:
            return "", f"bytes {r.rest()[:200]!r}, not {self.want[:200]!r}"
        kind = "empty" if not self.chosen.size else "strided" if self.strides is not None else "packed"
        return f"{kind}{', sub-byte' if self.block > 1 else ''}", None

    def __str__(self):
        return (
            f"{self.dtype} {self.shape} [{self.text}] via {self.via} strides {self.strides} "
            f"room {self.room}{' (short)' if self.short else ''}"
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--oracle", required=True, help="tests/peers/sft_oracle as built")
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1, help="0: another one every time")
    args = parser.parse_args()
    args.seed = args.seed or time.time_ns() % 2**32
    print(f"numpy {np.__version__}; seed {args.seed}", flush=True)
    r, done, bad, start = random.Random(args.seed), 0, 0, time.monotonic()
    kinds = collections.Counter()
    while done < args.count:
        cases = [Case(r) for _ in range(min(2000, args.count - done))]
        done += len(cases)
        for case, answer in zip(cases, oracle.ask(args.oracle, "slice", [c.frame() for c in cases])):
            kind, why = case.check(answer)
            kinds[kind] += 1
            if why:
                bad += 1
                if bad <= 20:
                    print(f"DISAGREEMENT {case}: {why}")
    for kind, n in kinds.most_common():
        print(f"{kind or 'wrong':<34}{n:>9,}")
    print(f"{done:,} slices in {time.monotonic() - start:.1f} s, {bad} disagreements")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
