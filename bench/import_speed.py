#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""import_speed.py [--build DIR] [--size MIB] [--only ROW,...] - how fast other formats become safetensors.

Each row makes one file with the format's own writer, converts it with the tool, and compares with the fastest of
cp, copy_file_range, and fallocate with two threads of pread and pwrite, on the same number of bytes, turn by turn in
the same minutes. Where elements become larger (dequantised ones) best copies what comes out: a pass over memory. Files
lie in the page cache; nothing waits for the disk (--no-sync). Prints a table, writes JSON.

--before TOOL: the tool of another commit takes its turn, too; then the copies are left out.

To add a row: a function that makes the file, and a Row in ROWS. Rows whose writer is not installed say so.
Needs numpy and torch (scripts/venv.sh) for most rows, h5py (bench/peers.sh) for those of HDF5.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import json
import os
import platform
import resource
import statistics
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

BLOCK = 1 << 20
LIMIT_MIB = 64


@dataclass
class Row:
    name: str
    make: Callable[[Path, int], Path]  # (folder, bytes) -> the file
    target: float  # of best
    options: list[str] = field(default_factory=list)  # of convert
    peer: Callable[[Path, Path], list[str]] | None = None  # a command that does the same


# ---------------------------------------------------------------- files


def tensors(size: int, each: int = 64 << 20) -> dict:
    import torch

    count = max(1, size // each)
    each = size // count // 4096 * 4096
    base = torch.randint(0, 256, (each,), dtype=torch.uint8)
    out = {}
    for i in range(count):
        t = base.clone()
        t[0] = i % 256
        out[f"layers.{i}.weight"] = t.view(torch.float32).reshape(-1, 1024)
    return out


def make_zip(folder: Path, size: int) -> Path:
    import torch

    path = folder / "model.pt"
    torch.save(tensors(size), path)
    return path


def make_legacy(folder: Path, size: int) -> Path:
    import torch

    path = folder / "legacy.pt"
    torch.save(tensors(size), path, _use_new_zipfile_serialization=False)
    return path


def make_views(folder: Path, size: int, dtype: str, turn: Callable) -> Path:
    import torch

    path = folder / "views.pt"
    kind = getattr(torch, dtype)
    item = torch.empty(0, dtype=kind).element_size()
    side = int((size / 4 / item) ** 0.5) // 256 * 256
    made = {}
    for i in range(4):
        base = torch.randint(0, 256, (side * side * item,), dtype=torch.uint8).view(kind)
        made[f"w.{i}"] = turn(base, side)
    torch.save(made, path)
    return path


def make_transposed(dtype: str) -> Callable[[Path, int], Path]:
    return lambda folder, size: make_views(folder, size, dtype, lambda t, n: t.reshape(n, n).t())


def make_channels_last(folder: Path, size: int) -> Path:
    return make_views(folder, size, "float32", lambda t, n: t.reshape(-1, 16, 16, 256).permute(0, 3, 1, 2))


def make_columns(folder: Path, size: int) -> Path:
    """Half of each row: runs of 2 n bytes."""
    return make_views(folder, 2 * size, "float32", lambda t, n: t.reshape(n, n)[:, : n // 2])


def make_hdf5(**options) -> Callable[[Path, int], Path]:
    def make(folder: Path, size: int) -> Path:
        import h5py
        import numpy

        path = folder / "model.h5"
        rng = numpy.random.default_rng(5)
        with h5py.File(path, "w") as f:
            for i in range(4):
                data = rng.integers(0, 200, (size // 4 // 4096, 1024), "i4")
                f.create_dataset(f"layer_{i}/vars/0", data=data, **options)
        return path

    return make


def make_npz(folder: Path, size: int) -> Path:
    import numpy

    path = folder / "model.npz"
    numpy.savez(path, **{name: t.numpy() for name, t in tensors(size).items()})
    return path


# The next write what the formats' packages write, field for field: those do not take files of this size, or not one
# after the other. tests/import compares the readers with the packages.


def make_gguf(folder: Path, size: int, kind: int = 0, block: int = 1, block_bytes: int = 4) -> Path:
    """size: of the tensors as F32."""
    import numpy

    each = 16 << 20  # elements
    count = max(1, size // 4 // each)
    head = b"GGUF" + struct.pack("<IQQ", 3, count, 1)
    key, value = b"general.architecture", b"llama"
    head += struct.pack("<Q", len(key)) + key + struct.pack("<IQ", 8, len(value)) + value
    nbytes = each // block * block_bytes
    for i in range(count):
        name = b"blk.%d.weight" % i
        head += (
            struct.pack("<Q", len(name))
            + name
            + struct.pack("<IQQIQ", 2, 4096, each // 4096, kind, i * nbytes)
        )
    blocks = numpy.random.default_rng(1).integers(0, 256, (each // block, block_bytes), dtype=numpy.uint8)
    if block > 1:  # scales that are ordinary numbers
        blocks[:, :2] = numpy.frombuffer(numpy.float16(0.01).tobytes(), numpy.uint8)
    if block_bytes == 144:
        blocks[:, 2:4] = blocks[:, :2]
    path = folder / "model.gguf"
    with open(path, "wb") as f:
        f.write(head + bytes(-len(head) % 32))
        for _ in range(count):
            f.write(blocks.data)
    return path


def varint(n: int) -> bytes:
    out = b""
    while n > 127:
        out += bytes([n & 127 | 128])
        n >>= 7
    return out + bytes([n])


def proto(number: int, value: int | bytes) -> bytes:
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def make_onnx(folder: Path, size: int, external: bool = False) -> Path:
    """raw_data in the model, or in a file beside it."""
    arrays = [t.numpy() for t in tensors(size).values()]
    path, at, parts = folder / "model.onnx", 0, []
    beside = open(folder / "model.onnx.data", "wb") if external else None
    for i, a in enumerate(arrays):
        one = b"".join(proto(1, d) for d in a.shape) + proto(2, 1) + proto(8, b"w%d" % i)
        if beside is not None:
            beside.write(a.data)
            where = {b"location": b"model.onnx.data", b"offset": b"%d" % at, b"length": b"%d" % a.nbytes}
            one += b"".join(proto(13, proto(1, k) + proto(2, v)) for k, v in where.items()) + proto(14, 1)
            at += a.nbytes
        else:
            one += varint(9 << 3 | 2) + varint(a.nbytes)
        parts.append((one, None if external else a))
    if beside is not None:
        beside.close()
    lengths = [len(one) + (a.nbytes if a is not None else 0) for one, a in parts]
    heads = [varint(5 << 3 | 2) + varint(n) for n in lengths]
    graph = sum(map(len, heads)) + sum(lengths)
    with open(path, "wb") as f:
        f.write(proto(1, 10) + varint(7 << 3 | 2) + varint(graph))
        for head, (one, a) in zip(heads, parts):
            f.write(head + one)
            if a is not None:
                f.write(a.data)
        f.write(proto(8, proto(2, 21)))
    return path


def make_mindspore(folder: Path, size: int) -> Path:
    path = folder / "model.ckpt"
    with open(path, "wb") as f:
        for name, t in tensors(size).items():
            a = t.numpy()
            inner = (
                b"".join(proto(1, d) for d in a.shape)
                + proto(2, b"Float32")
                + varint(3 << 3 | 2)
                + varint(a.nbytes)
            )
            value = proto(1, name.encode()) + varint(2 << 3 | 2) + varint(len(inner) + a.nbytes) + inner
            f.write(varint(1 << 3 | 2) + varint(len(value) + a.nbytes) + value)
            f.write(a.data)
    return path


def torch_pair(source: Path, target: Path) -> list[str]:
    code = (
        "import sys, torch; from safetensors.torch import save_file\n"
        "save_file(torch.load(sys.argv[1], weights_only=True), sys.argv[2])"
    )
    return [sys.executable, "-c", code, str(source), str(target)]


ROWS = [
    Row("pytorch zip", make_zip, 0.8, peer=torch_pair),
    Row("pytorch zip, verified", make_zip, 0.0, ["--verify"]),
    Row("pytorch legacy stream", make_legacy, 0.8),
    Row("transposed f32", make_transposed("float32"), 0.5),
    Row("transposed bf16", make_transposed("bfloat16"), 0.5),
    Row("transposed u8", make_transposed("uint8"), 0.5),
    Row("channels last f32", make_channels_last, 0.5),
    Row("column halves f32", make_columns, 0.5),
    Row("hdf5", make_hdf5(), 0.8),
    Row("hdf5 chunks", make_hdf5(chunks=True), 0.0),
    Row("hdf5 chunks, gzip", make_hdf5(chunks=True, compression="gzip", compression_opts=1), 0.0),
    Row("npz, stored", make_npz, 0.8),
    Row("gguf", make_gguf, 0.8),
    Row("onnx", make_onnx, 0.8),
    Row("onnx, external data", lambda folder, size: make_onnx(folder, size, True), 0.8),
    Row("mindspore", make_mindspore, 0.8),
    Row("gguf Q8_0 to f32", lambda folder, size: make_gguf(folder, size, 8, 32, 34), 0.5, ["--dequantize"]),
    Row(
        "gguf Q4_K to f32", lambda folder, size: make_gguf(folder, size, 12, 256, 144), 0.5, ["--dequantize"]
    ),
]


def made(make: Callable[[Path, int], Path], folder: Path, size: int) -> Path:
    """Runs make in a process of its own: what it allocates would count as its children's peak."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        said, code = "", 0
        try:
            said = str(make(folder, size))
        except ImportError as e:
            said, code = str(e), 1
        os.write(write, said.encode())
        os._exit(code)
    os.close(write)
    with open(read) as f:
        said = f.read()
    if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) != 0:
        raise ImportError(said)
    return Path(said)


# ---------------------------------------------------------------- measuring


def spawn(command: list[str]) -> tuple[float, int]:
    """Seconds and peak resident bytes of a command; RuntimeError if it fails."""
    start = time.perf_counter()
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    assert child.stderr is not None
    said = child.stderr.read()
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    seconds = time.perf_counter() - start
    if child.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: {said.decode(errors='replace').strip()}")
    return seconds, usage.ru_maxrss * 1024


def by_cp(source: Path, target: Path, size: int) -> None:
    subprocess.run(["cp", "--reflink=never", source, target], check=True)


def by_copy_file_range(source: Path, target: Path, size: int) -> None:
    with open(source, "rb") as a, open(target, "wb") as b:
        left = size
        while left > 0:
            n = os.copy_file_range(a.fileno(), b.fileno(), left)
            if n == 0:
                break
            left -= n


def by_two_threads(source: Path, target: Path, size: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    with open(source, "rb") as a, open(target, "wb") as b:
        libc.fallocate64(b.fileno(), 0, ctypes.c_int64(0), ctypes.c_int64(size))
        half = size // 2 // BLOCK * BLOCK

        def copy(first: int, end: int) -> None:
            room = bytearray(BLOCK)
            view = memoryview(room)
            for at in range(first, end, BLOCK):
                n = os.preadv(a.fileno(), [view[: min(BLOCK, end - at)]], at)
                os.pwrite(b.fileno(), view[:n], at)

        other = threading.Thread(target=copy, args=(half, size))
        other.start()
        copy(0, half)
        other.join()


def own_peak(command: list[str]) -> int:
    """Peak of a command's own memory in bytes: without the pages of files that it maps, which are the system's cache.
    Looked at every two milliseconds, so not in the run that is timed."""
    peak = 0
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        while process.poll() is None:
            with contextlib.suppress(OSError):
                for text in Path(f"/proc/{process.pid}/status").read_text().splitlines():
                    if text.startswith("RssAnon:"):
                        peak = max(peak, int(text.split()[1]) << 10)
            time.sleep(0.002)
    return peak


BEST = {"cp": by_cp, "copy_file_range": by_copy_file_range, "two threads": by_two_threads}


def measure(row: Row, options: argparse.Namespace, folder: Path) -> dict:
    tool = options.tool
    source = made(row.make, folder, options.size << 20)
    target = folder / "out.safetensors"
    copied = folder / "copy"
    spawn([tool, "convert", str(source), "-o", str(target), "--no-sync", *row.options])
    moved = target.stat().st_size
    model = folder / "bytes"  # what best copies: as many bytes as the result has
    if source.stat().st_size >= moved:
        model = source
        target.unlink()
    else:
        target.rename(model)
    ours: list[float] = []
    peaks: list[int] = []
    before: list[float] = []
    best: dict[str, list[float]] = {name: [] for name in BEST}
    for _ in range(options.turns):
        seconds, peak = spawn([tool, "convert", str(source), "-o", str(target), "--no-sync", *row.options])
        ours.append(seconds)
        peaks.append(peak)
        target.unlink()
        if options.before:
            words = [options.before, "convert", str(source), "-o", str(target), "--no-sync", *row.options]
            before.append(spawn(words)[0])
            target.unlink()
            continue
        for name, copy in BEST.items():
            start = time.perf_counter()
            copy(model, copied, moved)
            best[name].append(time.perf_counter() - start)
            copied.unlink()
    result = {
        "row": row.name,
        "bytes": moved,
        "seconds": ours,
        "peak_bytes": max(peaks),
        "best": best,
        "target": row.target,
    }
    result["own_peak_bytes"] = own_peak(
        [tool, "convert", str(source), "-o", str(target), "--no-sync", *row.options]
    )
    target.unlink()
    if options.before:
        result["before"] = before
    else:
        result["of_best"] = min(statistics.median(b) for b in best.values()) / statistics.median(ours)
    if row.peer is not None and not options.before:
        seconds, peak = spawn(row.peer(source, target))
        result["peer_seconds"] = seconds
        result["peer_peak_bytes"] = peak
        result["times_peer"] = seconds / statistics.median(ours)
        target.unlink()
    for path in folder.iterdir():
        path.unlink()
    return result


def make_many(folder: Path, size: int) -> Path:
    import torch

    path = folder / "many.pt"
    torch.save(
        {f"model.layers.{i // 10}.part.{i % 10}.weight": torch.zeros(2, 3) for i in range(10000)}, path
    )
    return path


def measure_listing(options: argparse.Namespace, folder: Path) -> dict:
    path = made(make_many, folder, 0)
    result = {"row": "ls of 10,000 tensors", "seconds": [], "target_seconds": 0.030}
    if options.before:
        result["before"] = []
    for _ in range(max(options.turns, 7)):
        result["seconds"].append(spawn([options.tool, "ls", str(path)])[0])
        if options.before:
            result["before"].append(spawn([options.before, "ls", str(path)])[0])
    path.unlink()
    return result


# ---------------------------------------------------------------- telling


def line(result: dict) -> str:
    seconds = statistics.median(result["seconds"])
    if "before" in result:
        ratios = sorted(b / n for n, b in zip(result["seconds"], result["before"]))
        return (
            f"{result['row']:24} {seconds * 1e3:9.1f} ms, before {statistics.median(result['before']) * 1e3:9.1f} ms;"
            f" before / now {statistics.median(ratios):.3f} ({ratios[0]:.3f} .. {ratios[-1]:.3f}), of minima"
            f" {min(result['before']) / min(result['seconds']):.3f}"
        )
    if "of_best" not in result:
        verdict = "met" if seconds <= result["target_seconds"] else "MISSED"
        return f"{result['row']:24} {seconds * 1e3:9.1f} ms, at most {result['target_seconds'] * 1e3:.0f}: {verdict}"
    rate = result["bytes"] / seconds / 1e9
    verdict = "" if result["target"] == 0 else "met" if result["of_best"] >= result["target"] else "MISSED"
    text = (
        f"{result['row']:24} {rate:6.2f} GB/s {result['of_best']:5.2f} of best"
        f" (at least {result['target']}: {verdict}), peak {result['peak_bytes'] / 2**20:.0f} MiB,"
        f" without mapped files {result['own_peak_bytes'] / 2**20:.0f}"
    )
    if "times_peer" in result:
        text += (
            f"; {result['times_peer']:.1f} times torch.load + save_file, which take"
            f" {result['peer_peak_bytes'] / 2**20:.0f} MiB"
        )
    return text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", default="build")
    parser.add_argument("--size", type=int, default=4096, help="MiB of tensor data")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--only", default="")
    parser.add_argument("--dir", help="where the files go; default: the build's folder")
    parser.add_argument("--json", help="default: BUILD/bench/import.json")
    parser.add_argument("--before", help="the tool of another commit")
    options = parser.parse_args()
    options.tool = str(Path(options.build, "safetensors").resolve())
    wanted = [w for w in options.only.split(",") if w]
    results = []
    with tempfile.TemporaryDirectory(dir=options.dir or options.build) as name:
        folder = Path(name)
        for row in ROWS:
            if wanted and not any(w in row.name for w in wanted):
                continue
            try:
                results.append(measure(row, options, folder))
            except ImportError as e:
                print(f"{row.name:24} not measured: {e}", flush=True)
                continue
            print(line(results[-1]), flush=True)
        if not wanted or "ls" in wanted:
            results.append(measure_listing(options, folder))
            print(line(results[-1]), flush=True)
    out = Path(options.json or Path(options.build, "bench", "import.json"))
    out.parent.mkdir(parents=True, exist_ok=True)
    machine = {
        "cpus": os.cpu_count(),
        "system": platform.platform(),
        "size_mib": options.size,
        "own_peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }
    out.write_text(json.dumps({"machine": machine, "results": results}, indent=1) + "\n")


if __name__ == "__main__":
    main()
