#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""turned.py --tool TOOL - arrays in Fortran order, larger than the conversion's blocks and panels, of every size of
element, with sides that are no multiples of anything: converted, cast and exported, against element by element.
Standard library only."""

import argparse
import contextlib
import json
import os
import pathlib
import random
import signal
import struct
import subprocess
import tempfile
import zipfile

KINDS = {"|u1": ("U8", 1), "<i2": ("I16", 2), "<f4": ("F32", 4), "<i8": ("I64", 8)}


def npy(kind, shape, fortran, data):
    head = repr({"descr": kind, "fortran_order": fortran, "shape": shape}).encode()
    head += b" " * (-(11 + len(head)) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head + data


def turned(data, size, rows, columns):
    """Row-major bytes of what lies column by column."""
    out = bytearray(len(data))
    for byte in range(size):
        for row in range(rows):
            out[row * columns * size + byte : (row + 1) * columns * size : size] = data[
                row * size + byte :: rows * size
            ]
    return bytes(out)


def run_until(command, ready):
    """Starts the tool; it runs when this returns and ready(its number) was true, or has ended."""
    run = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    while run.poll() is None:
        with contextlib.suppress(OSError):
            if ready(run.pid):
                break
    return run


def maps(path):
    return lambda pid: str(path) in pathlib.Path(f"/proc/{pid}/maps").read_text()


def cut_meanwhile(tool, tmp, *verify):
    """A file that is cut short while it is mapped, in the first or the second pass: an error, no signal, and nothing
    is left behind."""
    source, target = tmp / "cut.npy", tmp / "cut" / "out.safetensors"
    target.parent.mkdir(exist_ok=True)
    side = 8192
    head = npy("|u1", (side, side), True, b"")
    command = [tool, "convert", source, "-o", target, "-q", "--no-sync", "-j", "1", *verify]
    for _ in range(20):
        source.write_bytes(head + b"\1" * side**2)
        with run_until(command, (lambda _: target.exists()) if verify else maps(source)) as run:
            os.truncate(source, len(head) + 4096)
            said = run.stderr.read()
        if run.returncode == 0:  # it was faster
            target.unlink()
            continue
        assert run.returncode == 3 and "cut short" in said, (run.returncode, said)
        assert list(target.parent.iterdir()) == []
        return
    raise AssertionError("20 conversions ended before their file was cut")


def killed_meanwhile(tool, tmp):
    """The signal of a page that is lost, sent by somebody: it kills, and nothing is published."""
    source, target = tmp / "cut.npy", tmp / "killed.safetensors"
    source.write_bytes(npy("|u1", (8192, 8192), True, bytes(8192**2)))
    command = [tool, "convert", source, "-o", target, "-q", "--no-sync", "-j", "1"]
    for _ in range(20):
        with run_until(command, maps(source)) as run:
            run.send_signal(signal.SIGBUS)
        if run.returncode == 0:
            target.unlink()
            continue
        assert run.returncode == -signal.SIGBUS and not target.exists(), run.returncode
        return
    raise AssertionError("20 conversions ended before they were killed")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tool", required=True)
    tool = os.path.abspath(parser.parse_args().tool)
    rng = random.Random(5)
    with tempfile.TemporaryDirectory() as name:
        tmp = pathlib.Path(name)
        want = {}
        with zipfile.ZipFile(tmp / "in.npz", "w") as z:
            for i, (kind, (_, size)) in enumerate(KINDS.items()):
                rows, columns = 2047 + i, 10007 // size
                data = rng.randbytes(rows * columns * size)
                if kind == "<f4":  # numbers that BF16 has
                    data = b"".join(b"\0\0" + data[k : k + 1] + b"\x40" for k in range(rows * columns))
                z.writestr(f"{kind[1:]}.npy", npy(kind, (rows, columns), True, data))
                want[kind[1:]] = turned(data, size, rows, columns)
                plain = rng.randbytes(3000017 * size)
                z.writestr(f"plain.{kind[1:]}.npy", npy(kind, (3000017,), False, plain))
                want["plain." + kind[1:]] = plain
        for n, options in enumerate(
            (["--verify"], ["-j", "1"], ["-j", "7", "--verify"], ["--cast", "f4=BF16", "--verify"])
        ):
            out = tmp / f"{n}.safetensors"
            subprocess.run(
                [tool, "convert", tmp / "in.npz", "-o", out, "-q", "--no-sync", *options], check=True
            )
            data = out.read_bytes()
            start = 8 + int.from_bytes(data[:8], "little")
            header = json.loads(data[8:start])
            header.pop("__metadata__", None)
            assert header.keys() == want.keys()
            for key, entry in header.items():
                expected = want[key]
                if entry["dtype"] == "BF16":
                    odd = bytearray(len(expected) // 2)
                    odd[::2], odd[1::2] = expected[2::4], expected[3::4]
                    expected = bytes(odd)
                begin, end = entry["data_offsets"]
                assert data[start + begin : start + end] == expected, (options, key)
        subprocess.run(
            [tool, "convert", tmp / "in.npz", "-o", tmp / "out.npz", "-q", "--no-sync"], check=True
        )
        with zipfile.ZipFile(tmp / "out.npz") as z:
            for key, expected in want.items():
                assert z.read(f"{key}.npy").endswith(expected), key
        if os.path.exists("/proc/self/maps"):
            cut_meanwhile(tool, tmp)
            cut_meanwhile(tool, tmp, "--verify")
            killed_meanwhile(tool, tmp)
    print("arrays of 4 sizes, turned and plain, 5 ways; cut short and killed meanwhile")


if __name__ == "__main__":
    main()
