#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""check_wheels.py FOLDER - reads the wheels in FOLDER back, and has auditwheel, abi3audit and twine read them.

Of each: RECORD tells every file's digest; there is the site for `view`, one extension and one command, of the right machine, which need no
library and no version of the C library that the wheel's tag does not promise, and the extension exports PyInit__core alone
and leaves nothing but Python's own names to be found anywhere.
Prints a line for each wheel; exit 1 with every fault.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import os
import platform
import re
import struct
import subprocess
import sys
import tempfile
import zipfile

GLIBC = (2, 17)
MACHINES = {"x86_64": 62, "aarch64": 183}
GLIBC_LIBRARIES = re.compile(r"(libc|libpthread|libm|libdl|librt|ld-linux[-\w]*)\.so\.\d+")
WINDOWS_LIBRARIES = re.compile(
    r"(kernel32|advapi32|shell32|ntdll|ws2_32|python3|api-ms-win-crt-[-\w]+)\.dll", re.IGNORECASE
)


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

    def unversioned(self) -> list[str]:
        """What must be found, and may be of any version: a C library with versions has no part in it."""
        at = next((offset for kind, offset, _size, _link in self.sections if kind == 0x6FFFFFFF), None)
        out = []
        for kind, offset, size, link in self.sections:
            for i in range(size // 24) if kind == 11 and at is not None else ():
                name, info, _other, section = struct.unpack_from("<IBBH", self.data, offset + 24 * i)
                version = struct.unpack_from("<H", self.data, at + 2 * i)[0] & 0x7FFF
                if section == 0 and info >> 4 == 1 and version < 2:
                    out.append(self.text(link, name))
        return out


def newest(versions: list[str]) -> str:
    return max(versions, key=lambda v: [int(x) for x in re.findall(r"[0-9]+", v)], default="no version")


def check_elf(data: bytes, platform: str, extension: bool) -> tuple[list[str], str]:
    elf = Elf(data)
    machine = platform.split("_", 3)[3]
    faults = [] if elf.machine == MACHINES[machine] else [f"is for machine {elf.machine}"]
    musl = platform.startswith("musllinux")
    if not elf.needed():
        faults.append("is linked statically: it cannot open libcurl")
    faults += [
        f"needs {n}" for n in elf.needed() if not (n == "libc.so" if musl else GLIBC_LIBRARIES.fullmatch(n))
    ]
    for version in elf.versions():
        number = re.fullmatch(r"GLIBC_(\d+)\.(\d+)(?:\.\d+)?", version)
        if musl or number is None or (int(number[1]), int(number[2])) > GLIBC:
            faults.append(f"needs {version}")
    python = re.compile("_?Py") if extension else re.compile("(?!)")
    faults += [f"needs {n}, which no library of its has" for n in elf.unversioned() if not python.match(n)]
    if extension:
        faults += [f"exports {n}" for n in elf.exported() if n != "PyInit__core"]
    return faults, ", ".join(sorted(elf.needed())) + ("" if musl else "; " + newest(elf.versions()))


def check_pe(data: bytes, _platform: str, extension: bool) -> tuple[list[str], str]:
    import pefile

    pe = pefile.PE(data=data)
    needed = sorted({entry.dll.decode() for entry in pe.DIRECTORY_ENTRY_IMPORT})
    faults = [] if pe.FILE_HEADER.Machine == 0x8664 else [f"is for machine {pe.FILE_HEADER.Machine:#x}"]
    faults += [f"needs {name}" for name in needed if not WINDOWS_LIBRARIES.fullmatch(name)]
    exported = (
        [e.name.decode() for e in pe.DIRECTORY_ENTRY_EXPORT.symbols]
        if hasattr(pe, "DIRECTORY_ENTRY_EXPORT")
        else []
    )
    if extension and exported != ["PyInit__core"]:
        faults.append(f"exports {exported}")
    if pe.OPTIONAL_HEADER.DllCharacteristics & 0x160 != 0x160:
        faults.append("lacks address space randomization (64 bit) or no-execute")
    short = sorted({re.sub(r"api-ms-win-crt-.*", "the C library", name) for name in needed})
    return faults, ", ".join(short)


def uleb(data: bytes, at: int) -> tuple[int, int]:
    """A number of LEB128, and where the next begins."""
    value = shift = 0
    while True:
        value |= (data[at] & 127) << shift
        shift += 7
        at += 1
        if data[at - 1] < 128:
            return value, at


def macho_exported(trie: bytes) -> list[str]:
    """The names in a Mach-O's tree of what it gives."""
    out, todo = [], [(0, "")] if trie else []
    while todo:
        at, prefix = todo.pop()
        size, at = uleb(trie, at)
        out += [prefix] if size else []
        at += size
        count, at = trie[at], at + 1
        for _ in range(count):
            end = trie.index(b"\0", at)
            child, following = uleb(trie, end + 1)
            todo.append((child, prefix + trie[at:end].decode()))
            at = following
    return out


def macho_anywhere(opcodes: bytes) -> list[str]:
    """The names that dyld is told to bind to whatever library has them (BIND_SPECIAL_DYLIB_FLAT_LOOKUP), or to no library."""
    out, at, name, library = [], 0, "", 1
    while at < len(opcodes):
        code, low = opcodes[at] & 0xF0, opcodes[at] & 15
        at += 1
        if code == 0x10:
            library = low
        elif code == 0x20:
            library, at = uleb(opcodes, at)
        elif code == 0x30:
            library = 0
        elif code == 0x40:
            end = opcodes.index(b"\0", at)
            name, at = opcodes[at:end].decode(), end + 1
        elif code in (0x60, 0x70, 0x80):
            _, at = uleb(opcodes, at)
        elif code in (0x90, 0xA0, 0xB0, 0xC0):
            out += [name] if library == 0 else []
            for _ in range({0xA0: 1, 0xC0: 2}.get(code, 0)):
                _, at = uleb(opcodes, at)
    return out


def check_macho(data: bytes, platform: str, extension: bool) -> tuple[list[str], str]:
    """A little-endian 64-bit Mach-O: processor, minimal system, libraries, exports, what is bound how, signature."""
    _system, major, minor, machine = platform.split("_", 3)
    _magic, cpu, _sub, kind, count, _size = struct.unpack_from("<IIIIII", data)
    faults = (
        [] if cpu == {"x86_64": 0x01000007, "arm64": 0x0100000C}[machine] else [f"is for processor {cpu:#x}"]
    )
    if kind not in ((6, 8) if extension else (2,)):
        faults.append(f"is of kind {kind}")
    at, needed, minimum, signed, tables = 32, [], None, False, None
    for _ in range(count):
        command, size = struct.unpack_from("<II", data, at)
        if command & 0x7FFFFFFF in (0xC, 0x18, 0x1F):
            start = at + struct.unpack_from("<I", data, at + 8)[0]
            needed.append(data[start : data.index(b"\0", start)].decode())
        elif command == 0x24:
            minimum = struct.unpack_from("<I", data, at + 8)[0]
        elif command == 0x32:
            minimum = struct.unpack_from("<I", data, at + 12)[0]
        elif command == 0x80000022:
            pairs = struct.unpack_from("<10I", data, at + 8)  # rebase, bind, weak, lazy, export
            tables = [data[o : o + n] for o, n in zip(pairs[::2], pairs[1::2], strict=True)]
        elif command == 0x1D:
            offset = struct.unpack_from("<I", data, at + 8)[0]
            signed = data[offset : offset + 4] == b"\xfa\xde\x0c\xc0"
        at += size
    if minimum is None or (minimum >> 16, minimum >> 8 & 255) > (int(major), int(minor)):
        faults.append(f"is for macOS {minimum and (minimum >> 16, minimum >> 8 & 255)} or later")
    faults += [f"needs {name}" for name in needed if name != "/usr/lib/libSystem.B.dylib"]
    if tables is None:
        faults.append("has no LC_DYLD_INFO_ONLY")
    else:
        python = re.compile("__?Py") if extension else re.compile("(?!)")
        anywhere = macho_anywhere(tables[1]) + macho_anywhere(tables[3])
        faults += [f"needs {n}, which no library of its has" for n in anywhere if not python.match(n)]
        own = {"_PyInit__core", "___dso_handle", "__mh_dylib_header"}  # the linker's are two of them
        faults += [f"exports {n}" for n in macho_exported(tables[4]) if extension and n not in own]
    if machine == "arm64" and not signed:
        faults.append("has no signature, not even an ad hoc one")
    text = f"macOS {minimum >> 16}.{minimum >> 8 & 255}" if minimum else "?"
    return faults, ", ".join(needed) + "; " + text + (", signed ad hoc" if signed else "")


def check_record(z: zipfile.ZipFile) -> list[str]:
    (record,) = [name for name in z.namelist() if name.endswith(".dist-info/RECORD")]
    rows = {row[0]: row[1:] for row in csv.reader(io.StringIO(z.read(record).decode()))}
    faults = [f"{name} is not in RECORD" for name in z.namelist() if name not in rows]
    for name, (digest, size) in rows.items():
        if name == record:
            continue
        data = z.read(name)
        is_digest = "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        if (digest, size) != (is_digest, str(len(data))):
            faults.append(f"{name} is not what RECORD says")
    return faults


def check(path: str) -> tuple[list[str], str]:
    tag = os.path.basename(path).removesuffix(".whl").split("-")[-1].split(".")[0]
    with zipfile.ZipFile(path) as z:
        faults = check_record(z)
        if tag == "any":
            return faults, "Python alone"
        inside = {
            "extension": [n for n in z.namelist() if n.endswith((".so", ".pyd"))],
            "command": [
                n
                for n in z.namelist()
                if n.endswith((".data/scripts/safetensors", ".data/scripts/safetensors.exe"))
            ],
        }
        if not any(n.endswith(".data/data/share/libsafetensors/site/index.html") for n in z.namelist()):
            faults.append("has no site for `safetensors view`")
        how = check_pe if tag.startswith("win") else check_macho if tag.startswith("macos") else check_elf
        told = []
        for what, names in inside.items():
            if len(names) != 1:
                faults.append(f"one {what} was expected, found {names}")
                continue
            more, text = how(z.read(names[0]), tag, what == "extension")
            faults += [f"{names[0]} {fault}" for fault in more]
            told.append(f"{what} needs {text}")
    return faults, "; ".join(told)


def tool(*command: str) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-m", *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout


def main() -> int:
    folder = sys.argv[1]
    made = sorted(
        n for n in os.listdir(folder) if n.startswith("safetensors") and n.endswith((".whl", ".tar.gz"))
    )
    paths = [os.path.join(folder, name) for name in made]
    faults = []
    for path in paths:
        if path.endswith(".whl"):
            found, told = check(path)
            faults += [f"{os.path.basename(path)}: {fault}" for fault in sorted(set(found))]
            print(f"{os.path.basename(path)}: {os.path.getsize(path)} bytes; {told}")
    binary = [path for path in paths if path.endswith(".whl") and not path.endswith("-any.whl")]
    status, text = tool("twine", "check", "--strict", *paths)
    print(f"twine check: {text.count('PASSED')} of {len(paths)} passed")
    faults += [] if status == 0 else [text]
    status, text = tool("abi3audit", "--strict", *binary)
    print(f"abi3audit: {'passed' if status == 0 else 'failed'}")
    faults += [] if status == 0 else [text]
    for path in binary:
        tags = os.path.basename(path).removesuffix(".whl").split("-")[-1].split(".")
        # auditwheel knows the policies of the system that it runs on alone.
        if not (tags[0].startswith("manylinux") and tags[0].endswith("_" + platform.machine())):
            continue
        _status, text = tool("auditwheel", "show", path)
        good = f'"{tags[0]}"' in text
        print(f"auditwheel show: {tags[0] if good else text}")
        with tempfile.TemporaryDirectory() as out:
            status, text = tool("auditwheel", "repair", "--plat", tags[0], "-w", out, path)
            good = (
                good
                and status == 0
                and not [
                    n
                    for n in zipfile.ZipFile(os.path.join(out, os.listdir(out)[0])).namelist()
                    if ".libs/" in n
                ]
            )
        faults += [] if good else [f"auditwheel: {os.path.basename(path)}: {text}"]
    for fault in faults:
        print("check_wheels: " + fault, file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
