# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A Python package as a warm benchmark server: the commands of sft_bench, a line in, nanoseconds out.

`wheel.py [MODULE]`: safetensors from PyPI, or safetensors_c, which has the same surface.

Everything is imported and warm before the clock runs; what is timed is what a user of the package would
write for the same result.
"""

import importlib
import os
import random
import sys
import time

import numpy as np

module = sys.argv[1] if len(sys.argv) > 1 else "safetensors"
safetensors = importlib.import_module(module)
arrays_of = importlib.import_module(module + ".numpy")
now = time.perf_counter_ns
safe_open = safetensors.safe_open
_cache = {}


def open_(path, n):
    n, start = int(n), now()
    for _ in range(n):
        with safe_open(path, framework="np"):
            pass
    return (now() - start) / n


def reject(path, n):
    n, start = int(n), now()
    for _ in range(n):
        try:
            with safe_open(path, framework="np"):
                raise SystemExit(f"{path}: accepted")
        except safetensors.SafetensorError:
            pass
    return (now() - start) / n


def judge(path):
    start = now()
    try:
        with safe_open(path, framework="np"):
            pass
    except safetensors.SafetensorError:
        pass
    return now() - start


def lookup(path, n):
    if path not in _cache:
        handle = safe_open(path, framework="np").__enter__()
        names = list(handle.keys())
        random.Random(1).shuffle(names)
        _cache[path] = handle, names
    handle, names = _cache[path]
    n, find = int(n), handle.get_slice
    names = (names * (n // len(names) + 1))[:n]
    start = now()
    for name in names:
        find(name)
    return (now() - start) / n


def tensor(path, name, n):
    n, start = int(n), now()
    for _ in range(n):
        with safe_open(path, framework="np") as f:
            f.get_tensor(name)
    return (now() - start) / n


def load(path):
    start = now()
    arrays = arrays_of.load_file(path)
    end = now()
    assert arrays
    return end - start


def slice_(path, name, ranges, _how, n):
    items = []
    for part in ranges.split(","):
        numbers = [int(x) if x.strip() else None for x in part.split(":")]
        items.append(slice(*numbers))
    items, n = tuple(items), int(n)
    stepped = any(i.step not in (None, 1) for i in items) and module == "safetensors"
    # The package hands out memory of the caller's own here; safetensors_c would hand out a view.
    backend = {} if module == "safetensors" else {"backend": "pread"}
    with safe_open(path, framework="np", **backend) as f:
        start = now()
        for _ in range(n):
            if stepped:  # the package has no steps: the whole tensor, then numpy
                np.ascontiguousarray(f.get_tensor(name)[items])
            else:
                f.get_slice(name)[items]
        return (now() - start) / n


def fresh(path, offset, size, n):
    """What Python needs at least for memory of its own with bytes of a file."""
    offset, size, n = int(offset), int(size), int(n)
    fd = os.open(path, os.O_RDONLY)
    start = now()
    for _ in range(n):
        array = np.empty(size, np.uint8)
        os.preadv(fd, [array], offset)
    end = now()
    os.close(fd)
    return (end - start) / n


def _settle(path):
    fd = os.open(path, os.O_RDONLY)
    os.fsync(fd)
    os.close(fd)
    os.unlink(path)


def save(path, mib, durability, _digests, _threads):
    size = int(mib) << 20
    if size not in _cache:
        data = np.frombuffer(np.random.default_rng(1).bytes(size), np.uint16)
        parts = data.reshape(64, -1, 1024)
        _cache[size] = {f"model.layers.{i:02d}.weight": parts[i] for i in range(64)}
    arrays = _cache[size]
    start = now()
    arrays_of.save_file(arrays, path)
    if durability == "durable":
        fd = os.open(path, os.O_RDONLY)
        os.fsync(fd)
        os.close(fd)
    end = now()
    _settle(path)
    return end - start


def edit(path, value, durability, _way):
    """Loading everything and saving it again is the only way it has."""
    start = now()
    with safe_open(path, framework="np") as f:
        metadata = {**(f.metadata() or {}), "note": value}
        arrays = {name: f.get_tensor(name) for name in f.keys()}
    arrays_of.save_file(arrays, path + ".edited", metadata)
    if durability == "durable":
        fd = os.open(path + ".edited", os.O_RDONLY)
        os.fsync(fd)
        os.close(fd)
    end = now()
    _settle(path + ".edited")
    return end - start


def peak():
    with open("/proc/self/status") as f:
        return next(int(line.split()[1]) for line in f if line.startswith("VmHWM:")) * 1024


COMMANDS = {
    "open": open_,
    "reject": reject,
    "judge": judge,
    "lookup": lookup,
    "tensor": tensor,
    "load": load,
    "slice": slice_,
    "fresh": fresh,
    "save": save,
    "edit": edit,
    "peak": peak,
}


def main():
    for line in sys.stdin:
        words = line.rstrip("\n").split("\t")
        print(f"{COMMANDS[words[0]](*words[1:]):.1f}", flush=True)


if __name__ == "__main__":
    main()
