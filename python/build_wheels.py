#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""build_wheels.py [--out FOLDER] [--sdist SDIST] - wheels for old Linux systems, x86_64 and aarch64.

Builds with the C compiler of ziglang (PyPI), which brings glibc 2.17 and both processors' back ends, for the
limited API of CPython 3.11; needs Python 3.11 or later with its headers, setuptools, wheel and ziglang.
Each wheel is then read: the extension must be of the right machine, need no symbol of a later glibc than
2.17, no library but libc, libpthread, libm, libdl and the loader, and export PyInit__core alone; else exit 1.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import struct
import subprocess
import sys
import tarfile
import tempfile
import zipfile

HERE = os.path.dirname(os.path.abspath(__file__))
GLIBC = (2, 17)
MACHINES = {"x86_64": 62, "aarch64": 183}
ALLOWED = re.compile(r"^(libc|libpthread|libm|libdl|librt|ld-linux[-\w]*)\.so\.\d+$")


class Elf:
    """The few tables of a 64-bit little-endian ELF file that tell what it needs and gives."""

    def __init__(self, data: bytes) -> None:
        if data[:6] != b"\x7fELF\x02\x01":
            raise SystemExit("not a 64-bit little-endian ELF file")
        self.data = data
        self.machine = struct.unpack_from("<H", data, 18)[0]
        table, size, count = (struct.unpack_from("<Q", data, 40)[0], *struct.unpack_from("<HH", data, 58))
        fields = [struct.unpack_from("<IIQQQQIIQQ", data, table + i * size) for i in range(count)]
        self.sections = [(f[1], f[4], f[5], f[6]) for f in fields]  # type, offset, size, link

    def text(self, section: int, offset: int) -> str:
        start = self.sections[section][1] + offset
        return self.data[start : self.data.index(b"\0", start)].decode()

    def needed(self) -> list[str]:
        return [
            self.text(link, struct.unpack_from("<Q", self.data, at + 8)[0])
            for kind, offset, size, link in self.sections
            if kind == 6
            for at in range(offset, offset + size, 16)
            if struct.unpack_from("<Q", self.data, at)[0] == 1
        ]

    def versions(self) -> list[str]:
        """Names like GLIBC_2.17 that the dynamic linker must find."""
        out = []
        for kind, offset, _size, link in self.sections:
            if kind != 0x6FFFFFFE:
                continue
            at = offset
            while True:
                _version, count, _file, aux, step = struct.unpack_from("<HHIII", self.data, at)
                one = at + aux
                for _ in range(count):
                    _hash, _flags, _other, name, following = struct.unpack_from("<IHHII", self.data, one)
                    out.append(self.text(link, name))
                    one += following
                if step == 0:
                    break
                at += step
        return out

    def exported(self) -> list[str]:
        out = []
        for kind, offset, size, link in self.sections:
            if kind == 11:
                for at in range(offset, offset + size, 24):
                    name, info, _other, section = struct.unpack_from("<IBBH", self.data, at)
                    if section not in (0, 0xFFF1) and info >> 4 in (1, 2):
                        out.append(self.text(link, name))
        return out


def check(wheel: str, machine: str) -> None:
    with zipfile.ZipFile(wheel) as z:
        names = [n for n in z.namelist() if n.endswith(".so")]
        if len(names) != 1:
            raise SystemExit(f"{wheel}: one extension was expected, found {names}")
        elf = Elf(z.read(names[0]))
    faults = []
    if elf.machine != MACHINES[machine]:
        faults.append(f"is for machine {elf.machine}")
    faults += [f"needs {n}" for n in elf.needed() if not ALLOWED.match(n)]
    for version in elf.versions():
        number = re.fullmatch(r"GLIBC_(\d+)\.(\d+)(?:\.\d+)?", version)
        if number is None or (int(number[1]), int(number[2])) > GLIBC:
            faults.append(f"needs {version}")
    faults += [f"exports {n}" for n in elf.exported() if n != "PyInit__core"]
    if faults:
        raise SystemExit(f"{wheel}: {names[0]} " + ", ".join(sorted(set(faults))))
    print(
        f"{os.path.basename(wheel)}: {os.path.getsize(wheel)} bytes, needs {', '.join(elf.needed())}, "
        f"{max(elf.versions(), key=lambda v: [int(x) for x in re.findall(r'[0-9]+', v)], default='no version')}"
    )


def build(source: str, machine: str, out: str) -> str:
    compiler = f"{sys.executable} -m ziglang cc -target {machine}-linux-gnu.{GLIBC[0]}.{GLIBC[1]}"
    environment = dict(
        os.environ,
        CC=compiler,
        LDSHARED=f"{compiler} -shared",
        CFLAGS="-O2 -g0 -fPIC -DNDEBUG",
        SFT_LDFLAGS="-Wl,-s",
        _PYTHON_HOST_PLATFORM=f"linux-{machine}",
    )
    tag = f"manylinux_{GLIBC[0]}_{GLIBC[1]}_{machine}.manylinux2014_{machine}"
    with tempfile.TemporaryDirectory() as work:
        shutil.copytree(source, os.path.join(work, "p"))
        for left in ("build", "dist"):
            shutil.rmtree(os.path.join(work, "p", left), ignore_errors=True)
        subprocess.run(
            [
                sys.executable,
                "setup.py",
                "-q",
                "bdist_wheel",
                "--plat-name",
                f"linux_{machine}",
                "--dist-dir",
                os.path.join(work, "dist"),
            ],
            cwd=os.path.join(work, "p"),
            env=environment,
            check=True,
        )
        (name,) = os.listdir(os.path.join(work, "dist"))
        plain = os.path.join(work, "dist", name)
        done = subprocess.run(
            [sys.executable, "-m", "wheel", "tags", "--remove", "--platform-tag", tag, plain],
            check=True,
            capture_output=True,
            text=True,
        ).stdout.split()[-1]
        target = os.path.join(out, os.path.basename(done))
        shutil.move(os.path.join(work, "dist", done), target)
    return target


def main() -> None:
    arguments = argparse.ArgumentParser(description="build and check wheels for old Linux systems")
    arguments.add_argument("--out", default=os.path.join(HERE, "dist"))
    arguments.add_argument("--sdist", help="an sdist to build from; made anew otherwise")
    arguments.add_argument("--machine", choices=sorted(MACHINES), action="append")
    options = arguments.parse_args()
    os.makedirs(options.out, exist_ok=True)
    with tempfile.TemporaryDirectory() as work:
        sdist = options.sdist
        if sdist is None:
            subprocess.run(
                [sys.executable, "setup.py", "-q", "sdist", "--dist-dir", work], cwd=HERE, check=True
            )
            sdist = os.path.join(work, next(n for n in os.listdir(work) if n.endswith(".tar.gz")))
            shutil.copy(sdist, options.out)
        with tarfile.open(sdist) as archive:
            archive.extractall(os.path.join(work, "x"), filter="data")
        (root,) = os.listdir(os.path.join(work, "x"))
        for machine in options.machine or sorted(MACHINES):
            check(build(os.path.join(work, "x", root), machine, options.out), machine)


if __name__ == "__main__":
    main()
