#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""torch_jax.py --library LIB [--count N] [--seed S] [--jax] - src/layout against PyTorch's DTensor (and JAX).

Random meshes, shapes and placements: the offset and size of every rank's part as
libsafetensors-checkpoint computes them, and as torch.distributed.tensor does (pure functions; no process
group). With --jax also PartitionSpec against NamedSharding.devices_indices_map on 8 host devices.
Prints the counts; exit 1 on any difference.
"""

import argparse
import ctypes
import itertools
import os
import random
import sys


class Mesh(ctypes.Structure):
    _fields_ = [
        ("axes", ctypes.POINTER(ctypes.c_uint64)),
        ("axis_count", ctypes.c_size_t),
        ("first_rank", ctypes.c_uint64),
        ("ranks", ctypes.POINTER(ctypes.c_uint64)),
        ("axis_names", ctypes.c_void_p),
    ]


class Shard(ctypes.Structure):
    _fields_ = [(name, ctypes.POINTER(ctypes.c_uint64)) for name in ("start", "count", "local")]


class Error(ctypes.Structure):
    _fields_ = [
        ("head", ctypes.c_uint64 * 6),
        ("tensor", ctypes.c_char * 112),
        ("message", ctypes.c_char * 352),
    ]


def numbers(values):
    return (ctypes.c_uint64 * max(len(values), 1))(*values)


class Layout:
    """A layout of the library, and its parts."""

    def __init__(self, lib, mesh, dims, text, names=None):
        self.lib, self.dims = lib, dims
        self.handle = ctypes.c_void_p()
        self.error = Error()
        axes = numbers(mesh)
        m = Mesh(axes, len(mesh), 0, None, None)
        if names is None:
            self.status = lib.test_layout_parse_placements(
                ctypes.byref(self.handle),
                text.encode(),
                ctypes.byref(m),
                ctypes.c_size_t(dims),
                None,
                ctypes.byref(self.error),
            )
        else:
            list_ = (ctypes.c_char_p * len(names))(*[n.encode() for n in names])
            self.status = lib.test_layout_parse_spec(
                ctypes.byref(self.handle),
                text.encode(),
                list_,
                ctypes.byref(m),
                ctypes.c_size_t(dims),
                ctypes.byref(self.error),
            )

    def part(self, shape, rank):
        """(status, local shape, start of the only box or None where the part is empty)"""
        local = numbers([0] * self.dims)
        s = numbers(shape)
        size = ctypes.c_size_t(self.dims)
        status = self.lib.sft_layout_local_shape(
            self.handle, s, size, ctypes.c_uint64(rank), local, ctypes.byref(self.error)
        )
        if status != 0:
            return status, None, None
        local = tuple(local[: self.dims])
        if 0 in local:
            return 0, local, None
        start, count, at = (numbers([0] * self.dims) for _ in range(3))
        box = Shard(start, count, at)
        status = self.lib.test_layout_shard_at(
            self.handle,
            s,
            size,
            ctypes.c_uint64(rank),
            ctypes.c_uint64(0),
            ctypes.byref(box),
            ctypes.byref(self.error),
        )
        return status, local, tuple(start[: self.dims])

    def __del__(self):
        self.lib.test_layout_free(self.handle)


def check_torch(lib, count, rng):
    from torch.distributed.tensor import Replicate, _utils
    from torch.distributed.tensor import Shard as S

    parts = uneven = empty = 0
    for case in range(count):
        mesh = [rng.randint(1, 5) for _ in range(rng.randint(1, 3))]
        dims = rng.randint(1, 3)
        shape = [rng.randint(0, 13) if rng.random() < 0.6 else rng.randint(1, 4) * 12 for _ in range(dims)]
        placements = [S(rng.randrange(dims)) if rng.random() < 0.75 else Replicate() for _ in mesh]
        text = ", ".join(str(p) if rng.random() < 0.5 else repr(p) for p in placements)
        layout = Layout(lib, mesh, dims, text)
        if layout.status != 0:
            return "case %d: %s: %s" % (case, text, layout.error.message.decode())
        for rank, coordinate in enumerate(itertools.product(*map(range, mesh))):
            want, offset = _utils._compute_local_shape_and_global_offset(
                shape, mesh, list(coordinate), placements
            )
            status, local, start = layout.part(shape, rank)
            parts += 1
            empty += 0 in want
            if status != 0 or local != tuple(want) or (start is not None and start != tuple(offset)):
                return "case %d: mesh %r shape %r %s rank %d: %r %r, torch has %r %r" % (
                    case,
                    mesh,
                    shape,
                    text,
                    rank,
                    local,
                    start,
                    want,
                    offset,
                )
        divides = all(shape[d] % product == 0 for d in range(dims) for product in [cut(mesh, placements, d)])
        uneven += not divides
    print(
        "DTensor: %d layouts, %d parts, %d %% uneven, %d empty parts, 0 different"
        % (count, parts, 100 * uneven // count, empty)
    )
    return None


def cut(mesh, placements, dim):
    product = 1
    for size, p in zip(mesh, placements):
        product *= size if getattr(p, "dim", None) == dim else 1
    return product


def check_jax(lib, count, rng):
    os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"
    import jax
    import numpy
    from jax.sharding import Mesh as JMesh
    from jax.sharding import NamedSharding
    from jax.sharding import PartitionSpec as P

    devices = jax.devices("cpu")
    parts = refused = 0
    for case in range(count):
        mesh = rng.choice([[8], [2, 4], [4, 2], [2, 2, 2], [1, 8], [2, 1, 4]])
        names = ["x", "y", "z"][: len(mesh)]
        dims = rng.randint(1, 3)
        free = rng.sample(names, len(names))
        entries = []
        for _ in range(rng.randint(0, dims)):
            taken = [free.pop() for _ in range(min(len(free), rng.choice([0, 1, 1, 2])))]
            entries.append(None if not taken else taken[0] if len(taken) == 1 else tuple(taken))
        shape = [8 * rng.randint(1, 3) if rng.random() < 0.9 else rng.randint(1, 9) for _ in range(dims)]
        spec = P(*entries)
        text = str(spec) if rng.random() < 0.5 else "P(%s)" % ", ".join(map(repr, entries))
        layout = Layout(lib, mesh, dims, text, names)
        if layout.status != 0:
            return "case %d: %s: %s" % (case, text, layout.error.message.decode())
        sharding = NamedSharding(JMesh(numpy.array(devices).reshape(mesh), names), spec)
        try:
            want = sharding.devices_indices_map(tuple(shape))
        except ValueError:
            want = None
        for rank, device in enumerate(devices):
            status, local, start = layout.part(shape, rank)
            if want is None:
                if status == 0:
                    return "case %d: %s of %r is accepted, jax refuses it" % (case, text, shape)
                refused += 1
                continue
            bounds = [s.indices(n) for s, n in zip(want[device], shape)]
            parts += 1
            if (
                status != 0
                or start != tuple(b[0] for b in bounds)
                or local != tuple(b[1] - b[0] for b in bounds)
            ):
                return "case %d: mesh %r shape %r %s rank %d: %r %r, jax has %r" % (
                    case,
                    mesh,
                    shape,
                    text,
                    rank,
                    local,
                    start,
                    bounds,
                )
    print("PartitionSpec: %d specs, %d parts, %d refused by both, 0 different" % (count, parts, refused))
    return None


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--library", required=True)
    arguments.add_argument("--count", type=int, default=2000)
    arguments.add_argument("--seed", type=int, default=1)
    arguments.add_argument("--jax", action="store_true")
    given = arguments.parse_args()
    lib = ctypes.CDLL(given.library)
    rng = random.Random(given.seed)
    fault = check_torch(lib, given.count, rng)
    if fault is None and given.jax:
        fault = check_jax(lib, given.count, rng)
    if fault is not None:
        print("torch_jax: seed %d: %s" % (given.seed, fault))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
