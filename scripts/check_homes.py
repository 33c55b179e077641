#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""check_homes.py [BUILD] - each thing has one home. Standard library and nm only.

  - an internal name sft__... begins with the name of a room, and no type of that kind is defined in two files
  - with BUILD: each global symbol of src/ROOM is sft__ROOM_..., sft_... (public) or, in the tool, cli_...,
    and is defined by one object (twins for different systems are never compiled together)
  - what HOMES lists is done in the named places alone

Prints every offence and exits 1; exits 0 with a count otherwise. `--self-test` proves that rules can fail.
"""

import os
import re
import subprocess
import sys
from collections import defaultdict

ROOMS = "base fs format io catalog move layout checkpoint import remote cuda mpi".split()
PROGRAMS = {"cli": "cli_", "mpitool": "main"}
TWIN = re.compile(r"_(posix|win|linux|x86|arm)\b")
# What has one home: what it looks like in code, and the files (or rooms) that may hold it.
HOMES = [
    ("renaming in a directory", r"\brename(at2?)?\s*\(|\bMoveFileEx", ["src/fs/output/", "src/cli/sys_"]),
    ("making bytes durable", r"\b(fsync|fdatasync)\s*\(|\bFlushFileBuffers", ["src/fs/"]),
    ("looking whether pages are cached", r"\bmincore\s*\(|\bpreadv2\s*\(", ["src/fs/"]),
    (
        "options of callers with other headers",
        r"\bmemcpy\([^;]*\bstruct_size\s*<",
        ["src/base/options.c"],
    ),
    ("hex digits", r'"0123456789abcdef"', ["src/base/", "src/cli/work.c"]),
]


def code_of(text):
    """The text without comments; strings stay."""
    return re.sub(r"/\*.*?\*/|//[^\n]*", lambda m: re.sub(r"[^\n]", " ", m.group(0)), text, flags=re.S)


def sources(root):
    for base, folders, names in os.walk(os.path.join(root, "src")):
        folders.sort()
        for name in sorted(names):
            if name.endswith((".c", ".h")):
                path = os.path.join(base, name)
                with open(path, encoding="utf-8") as f:
                    yield os.path.relpath(path, root).replace(os.sep, "/"), f.read()


def check_text(files):
    faults = []
    types = defaultdict(set)
    rooms = re.compile(r"\bsft__(?!(?:%s)(?:_|\b))\w+" % "|".join(ROOMS))
    kinds = re.compile(
        r"\b(struct|enum|union)\s+(sft__\w+)\s*\{|()\}\s*(sft__\w+);|()\btypedef\b[^;{}]*\b(sft__\w+);"
        r"|()\btypedef\b[^;{}]*\(\*(sft__\w+)\)"
    )
    for path, text in files:
        code = code_of(text)
        for m in rooms.finditer(code):
            faults.append("%s: %s names no room" % (path, m.group(0)))
        for m in kinds.finditer(code):
            name = m.group(2) or m.group(4) or m.group(6) or m.group(8)
            types[(m.group(1) or "type") + " " + name].add(TWIN.sub("", path))
        for what, pattern, homes in HOMES:
            if any(path.startswith(home) for home in homes):
                continue
            for m in re.finditer(pattern, code):
                line = code.count("\n", 0, m.start()) + 1
                faults.append("%s:%d: %s has its home in %s" % (path, line, what, ", ".join(homes)))
    for name, where in sorted(types.items()):
        if len(where) > 1:
            faults.append("%s is defined in %s" % (name, " and ".join(sorted(where))))
    return faults, len(types)


def check_symbols(build, root):
    faults = []
    homes = defaultdict(set)
    rooms = {}
    for base, _, names in os.walk(build):
        room = re.search(r"/src/(\w+)(/|$)", base.replace(os.sep, "/"))
        for name in names if room else []:
            path = os.path.join(base, name)
            # what is left behind by an earlier build has no source: it has moved or gone
            if name.endswith(".o") and os.path.exists(os.path.join(root, path[path.index("/src/") + 1 : -2])):
                rooms[path] = room.group(1)
    if not rooms:
        return ["no objects below %s" % build], 0
    command = ["nm", "-g", "-A", "--defined-only", *rooms]
    for line in subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines():
        path, words = line.rsplit(":", 1)
        words = words.split()
        if len(words) != 3 or words[1] in "wWVu" or re.match(r"_|DW\.", words[2]):
            continue
        room, symbol = rooms[path], words[2]
        homes[symbol].add(path[path.index("/src/") + 1 :])
        good = (PROGRAMS[room], "main") if room in PROGRAMS else ("sft__%s_" % room, "sft_")
        if not symbol.startswith(good) or (symbol.startswith("sft__") and not symbol.startswith(good[0])):
            faults.append("%s is defined in src/%s" % (symbol, room))
    for symbol, where in sorted(homes.items()):
        if len(where) > 1 and symbol != "main":
            faults.append("%s is defined by %s" % (symbol, " and ".join(sorted(where))))
    return faults, len(homes)


def self_test():
    text = [
        ("src/base/a.h", "typedef struct sft__base_x {\n} sft__base_x;"),
        ("src/fs/b.h", "typedef struct sft__base_x {\n} sft__base_x; /* sft__lost in a comment */"),
        ("src/io/c.c", 'void sft__nowhere_f(void);\nstatic const char d[] = "0123456789abcdef";'),
        ("src/io/d_posix.c", "struct sft__io_t {\n int a; };"),
        ("src/io/d_win.c", "struct sft__io_t {\n int a; };"),
    ]
    faults, _ = check_text(text)
    wanted = [
        "sft__nowhere_f names no room",
        "hex digits has its home",
        "struct sft__base_x is",
        "type sft__base_x is",
    ]
    for want in wanted:
        assert any(want in fault for fault in faults), (want, faults)
    assert len(faults) == len(wanted), faults
    print("check_homes: self-test passed")


def main():
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    faults, count = check_text(sources(root))
    symbols = 0
    if len(sys.argv) > 1:
        more, symbols = check_symbols(sys.argv[1], root)
        faults += more
    for fault in faults:
        print(fault)
    print("%d types, %d symbols, %d faults" % (count, symbols, len(faults)))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
