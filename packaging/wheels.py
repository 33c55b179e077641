#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""wheels.py OUT [TARGET...] - wheels of python/ and python/alias for every target, and their source distributions.

The compiler is clang as ziglang (PyPI) ships it, which brings the headers and libraries of all targets: glibc 2.17, musl,
mingw-w64 and macOS. The extension uses the stable ABI of CPython 3.11 alone, so that Python.h of whatever Python runs this
will do, with pyconfig.h of this folder. zlib, bzip2 and xz are compiled in (compression.sh), libcurl is found at run time.

SFT_SITE names the archive of the page that opens models in a browser (site.sh): its files lie in share/libsafetensors/site of
the environment that a wheel is installed in, where the command beside looks for them.

Everything is built from the source distribution. Its archive and the wheels are packed here: sorted names, modes 644 and 755,
the time SOURCE_DATE_EPOCH.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import importlib.util
import io
import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import time
import zipfile
from typing import NamedTuple

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
BUILD = os.path.join(ROOT, "build", "wheels")
EPOCH = int(os.environ["SOURCE_DATE_EPOCH"])
ZIG_FOLDER = os.path.dirname(importlib.util.find_spec("ziglang").origin)
ZIG = os.path.join(ZIG_FOLDER, "zig")
LICENSES = ("LICENSE", "LICENSE-APACHE", "LICENSE-MIT")
LINUX = "-Wl,-s -Wl,-z,relro,-z,now"
MUSL = LINUX + " -dynamic"  # a program without a dynamic linker could not open libcurl

COMPILE = {
    "linux": "-fPIC -fomit-frame-pointer",
    "windows": "-fomit-frame-pointer",
    "darwin": "-fPIC -Werror=unguarded-availability",  # of what later systems alone have
}


class Target(NamedTuple):
    triple: str  # zig's
    system: str  # setup.py's
    tags: str
    link: str = "-Wl,-s"


TARGETS = {
    "manylinux-x86_64": Target(
        "x86_64-linux-gnu.2.17", "linux", "manylinux_2_17_x86_64.manylinux2014_x86_64", link=LINUX
    ),
    "manylinux-aarch64": Target(
        "aarch64-linux-gnu.2.17",
        "linux",
        "manylinux_2_17_aarch64.manylinux2014_aarch64",
        link=LINUX,
    ),
    "musllinux-x86_64": Target("x86_64-linux-musl", "linux", "musllinux_1_2_x86_64", link=MUSL),
    "musllinux-aarch64": Target("aarch64-linux-musl", "linux", "musllinux_1_2_aarch64", link=MUSL),
    "windows-x86_64": Target("x86_64-windows-gnu", "windows", "win_amd64"),
    "macos-x86_64": Target("x86_64-macos.10.13", "darwin", "macosx_10_13_x86_64"),
    "macos-arm64": Target("aarch64-macos.11.0", "darwin", "macosx_11_0_arm64"),
}


def run(command: list[str], cwd: str = ROOT, **environment: str) -> None:
    done = subprocess.run(
        command, cwd=cwd, env={**os.environ, **environment}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    if done.returncode != 0:
        sys.stdout.buffer.write(done.stdout[-20000:])
        raise SystemExit(f"wheels: this failed: {' '.join(command)}")


def files_of(folder: str) -> list[str]:
    """Relative names of all files below, sorted."""
    return sorted(
        os.path.relpath(os.path.join(path, name), folder).replace(os.sep, "/")
        for path, _folders, names in os.walk(folder)
        for name in names
    )


def tree() -> str:
    """A copy of the sources that the Python packages are made of, and of nothing that lies beside them."""
    out = os.path.join(BUILD, "tree")
    shutil.rmtree(out, ignore_errors=True)
    names = subprocess.run(
        [
            os.path.join(HERE, "files.sh"),
            "python/*",
            "src/*",
            "include/*",
            "scripts/amalgamate.py",
            "web/dist/report.html",
        ],
        check=True,
        capture_output=True,
        text=True,
    ).stdout.splitlines()
    for name in names:
        os.makedirs(os.path.dirname(os.path.join(out, name)), exist_ok=True)
        shutil.copyfile(os.path.join(ROOT, name), os.path.join(out, name))
    return out


def source_distribution(folder: str, out: str) -> str:
    """The sdist of a folder with setuptools' own files, packed again; returns where it is unpacked."""
    made = os.path.join(BUILD, "sdist", os.path.basename(folder))
    shutil.rmtree(made, ignore_errors=True)
    os.makedirs(made)
    code = "import sys; from setuptools import build_meta; build_meta.build_sdist(sys.argv[1])"
    run([sys.executable, "-c", code, made], cwd=folder)
    (archive,) = os.listdir(made)
    with tarfile.open(os.path.join(made, archive)) as tar:
        tar.extractall(made)  # our own; Debian 12 has no filters yet
    unpacked = os.path.join(made, archive.removesuffix(".tar.gz"))
    for name in LICENSES:
        shutil.copy(os.path.join(ROOT, name), unpacked)
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name in files_of(unpacked):
            with open(os.path.join(unpacked, name), "rb") as f:
                data = f.read()
            entry = tarfile.TarInfo(os.path.basename(unpacked) + "/" + name)
            entry.size, entry.mode, entry.mtime = len(data), 0o644, EPOCH
            tar.addfile(entry, io.BytesIO(data))
    with open(os.path.join(out, archive), "wb") as f, gzip.GzipFile("", "wb", 9, f, EPOCH) as packer:
        packer.write(packed.getvalue())
    return unpacked


def python_headers() -> str:
    """Python.h and its kin of the Python that runs this, with the pyconfig.h beside this file; the library for Windows."""
    out = os.path.join(BUILD, "python")
    shutil.rmtree(out, ignore_errors=True)
    include = sysconfig.get_path("include")
    if not os.path.exists(os.path.join(include, "Python.h")):
        raise SystemExit("wheels: Python.h is missing (Debian: python3-dev)")
    shutil.copytree(include, out, ignore=shutil.ignore_patterns("pyconfig*.h"))
    shutil.copy(os.path.join(HERE, "pyconfig.h"), out)
    from abi3info import DATAS, FUNCTIONS

    lines = ["LIBRARY python3.dll", "EXPORTS"]
    for table, kind in ((FUNCTIONS, ""), (DATAS, " DATA")):
        lines += [
            f"  {symbol.name}{kind}"
            for symbol, row in table.items()
            if (row.added.major, row.added.minor) <= (3, 11)
        ]
    definition = os.path.join(out, "python3.def")
    with open(definition, "w", encoding="ascii") as f:
        f.write("\n".join([*lines[:2], *sorted(lines[2:])]) + "\n")
    run([ZIG, "dlltool", "-m", "i386:x86-64", "-d", definition, "-l", os.path.join(out, "libpython3.a")])
    return out


def pack(wheel: str, out: str, tags: str | None, licenses: str | None) -> str:
    """A wheel as setuptools made it becomes the one that is given away."""
    with zipfile.ZipFile(wheel) as z:
        # not the import library that Windows' linker puts beside the module
        content = {name: z.read(name) for name in z.namelist() if not name.endswith(("/", ".lib"))}
    (record,) = [name for name in content if name.endswith(".dist-info/RECORD")]
    del content[record]
    info = os.path.dirname(record)
    parts = os.path.basename(wheel).removesuffix(".whl").split("-")
    if tags is not None:
        parts[-1] = tags
        lines = [
            line
            for line in content[info + "/WHEEL"].decode().splitlines()
            if line and not line.startswith("Tag:")
        ]
        lines += [f"Tag: {parts[-3]}-{parts[-2]}-{tag}" for tag in tags.split(".")]
        content[info + "/WHEEL"] = ("\n".join(lines) + "\n").encode()
    texts = {name: os.path.join(ROOT, name) for name in LICENSES}
    if licenses is not None:
        texts |= {name: os.path.join(licenses, name) for name in os.listdir(licenses)}
        texts["zig.txt"] = os.path.join(ZIG_FOLDER, "LICENSE")  # of what compilers add to a program
        if parts[-1].startswith("win"):
            texts["mingw-w64.txt"] = os.path.join(ZIG_FOLDER, "lib/libc/mingw/COPYING")
    for name, path in texts.items():
        with open(path, "rb") as f:
            content[f"{info}/licenses/{name}"] = f.read()
    head, body = content[f"{info}/METADATA"].decode().split("\n\n", 1)
    if tuple(map(int, head.split("\n")[0].split(": ")[1].split("."))) >= (2, 4):
        told = {
            line.removeprefix("License-File: ")
            for line in head.split("\n")
            if line.startswith("License-File: ")
        }
        head += "".join(f"\nLicense-File: {name}" for name in sorted(texts.keys() - told))
        content[f"{info}/METADATA"] = f"{head}\n\n{body}".encode()
    if licenses is not None:  # the command is inside
        share = info.removesuffix(".dist-info") + ".data/data/share/libsafetensors/site/"
        with tarfile.open(os.environ["SFT_SITE"]) as tar:
            for entry in filter(tarfile.TarInfo.isfile, tar):
                content[share + os.path.basename(entry.name)] = tar.extractfile(entry).read()
    rows = [f"{record},,"]
    for name, data in content.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        rows.append(f"{name},sha256={digest},{len(data)}")
    content[record] = ("\n".join(sorted(rows)) + "\n").encode()
    target = os.path.join(out, "-".join(parts) + ".whl")
    # What describes the wheel comes last, as PEP 427 recommends.
    order = sorted(content, key=lambda name: (name.startswith(info), name == record, name))
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as z:
        for name in order:
            entry = zipfile.ZipInfo(name, time.gmtime(max(EPOCH, 315532800))[:6])
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.create_system = 3
            executable = "/scripts/" in name or name.endswith((".so", ".pyd"))
            entry.external_attr = (0o100755 if executable else 0o100644) << 16
            z.writestr(entry, content[name])
    return target


def build(name: str, source: str, headers: str, out: str) -> str:
    target = TARGETS[name]
    work = os.path.join(BUILD, name)
    shutil.rmtree(work, ignore_errors=True)
    shutil.copytree(source, os.path.join(work, "source"))
    compiler = [ZIG, "cc", "-target", target.triple]
    compression = os.path.join(BUILD, "compression-" + name)
    run([os.path.join(HERE, "compression.sh"), compression, " ".join(compiler), ZIG + " ar"])
    run(
        [sys.executable, "setup.py", "-q", "bdist_wheel", "--dist-dir", work],
        cwd=os.path.join(work, "source"),
        SFT_SYSTEM=target.system,
        SFT_CC=" ".join(compiler),
        SFT_PYTHON=headers,
        SFT_ARCHIVES=compression,
        SFT_CFLAGS="-g0 -DNDEBUG -fstack-protector-strong " + COMPILE[target.system],
        SFT_LDFLAGS=target.link,
    )
    (made,) = [each for each in os.listdir(work) if each.endswith(".whl")]
    return pack(os.path.join(work, made), out, target.tags, os.path.join(compression, "licenses"))


def alias(source: str, out: str) -> str:
    work = os.path.join(BUILD, "alias")
    shutil.rmtree(work, ignore_errors=True)
    os.makedirs(work)
    code = "import sys; from setuptools import build_meta; build_meta.build_wheel(sys.argv[1])"
    run([sys.executable, "-c", code, work], cwd=source)
    (made,) = os.listdir(work)
    return pack(os.path.join(work, made), out, None, None)


def main() -> None:
    out, *names = sys.argv[1:]
    for name in names:
        if name not in TARGETS:
            raise SystemExit(f"wheels: {name}: the targets are {', '.join(TARGETS)}")
    os.makedirs(BUILD, exist_ok=True)
    os.makedirs(out, exist_ok=True)
    for old in os.listdir(out):
        if old.startswith("safetensors") and old.endswith((".whl", ".tar.gz")):
            os.remove(os.path.join(out, old))
    python = os.path.join(tree(), "python")
    alias(source_distribution(os.path.join(python, "alias"), out), out)
    source = source_distribution(python, out)
    headers = python_headers()
    for name in names or TARGETS:
        start = time.monotonic()
        made = build(name, source, headers, out)
        print(
            f"{os.path.basename(made)}: {os.path.getsize(made)} bytes, {time.monotonic() - start:.0f} s",
            flush=True,
        )


if __name__ == "__main__":
    main()
