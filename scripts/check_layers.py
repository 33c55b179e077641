#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""check_layers.py - the rules of the house that a machine can check. Standard library only.

  - a file of src/ROOM includes its own room, rooms before it in RANKS, and <sft/...>
  - src/cli includes only <sft/...> and its own room (its files.c: src/fs, the one home of the file system);
    extension libraries may include src/base and src/fs too, and of the core's other rooms what LENT names
  - src/format includes no header that opens, maps, reads or prints anything: none of src/fs either
  - public headers include only <sft/...> and <stddef.h>, <stdint.h> (sft.hpp: any standard header)
  - platform headers (unistd.h, windows.h ...) only in *_posix.c, *_win.c, *_linux.c
  - every source file opens with the SPDX line and says what it is (at least two more comment lines)
  - no banned function is called; no file is longer than LONGEST lines
  - no directory of src holds more than CROWDED files
  - no more functions of a room than WIDE says have over PARAMETERS parameters: the numbers only shrink
  - no line is longer than WIDEST columns, none ends in blanks, none holds a tab (Makefile excepted)

Prints every offence as FILE:LINE: text and exits 1; exits 0 with a count otherwise.
`--self-test` proves that each rule can fail.
"""

import os
import re
import sys
import tempfile

RANKS = ["base", "fs", "format", "io", "catalog", "move"]
GROUND = ["base", "fs"]
# Lent by the core to the extension libraries of its version (the node SFT_PRIVATE of src/libsafetensors.map).
LENT = ["io/reader.h", "move/loop.h"]
# Rooms of other libraries: the rooms besides their own, and single headers, that they may include. Layouts are
# arithmetic.
EXTENSIONS = {
    "import": GROUND + LENT,
    "remote": GROUND,
    "cuda": GROUND + LENT,
    "mpi": GROUND,
    "mpitool": ["cli"],
    "layout": ["base"],
    "checkpoint": GROUND + ["layout"] + LENT,
}
ALONE = list(EXTENSIONS) + ["cli"]
LONGEST = 900
CROWDED = 25
PARAMETERS = 6
WIDE = {"catalog": 1, "move": 5, "checkpoint": 9, "import": 3, "mpi": 2}
DEFINED = re.compile(
    r"^[A-Za-z_][\w\s*]*?\b(?!if|for|while|switch)(\w+)\(((?:[^(){};]|\([^(){};]*\))*)\)\s*\{", re.M
)
WIDEST = 110
FORMAT_BANNED = {
    "stdio.h",
    "unistd.h",
    "fcntl.h",
    "errno.h",
    "time.h",
    "dirent.h",
    "signal.h",
    "pthread.h",
    "windows.h",
    "locale.h",
}
PLATFORM = {
    "unistd.h",
    "fcntl.h",
    "windows.h",
    "dirent.h",
    "pthread.h",
    "io.h",
    "direct.h",
    "winternl.h",
    "winioctl.h",
    "sched.h",
    "dlfcn.h",
}
# The two seams of the base room: lock types by value, and the text of GetLastError numbers.
PLATFORM_FILES = {"platform.h", "thread.h", "error.c"}
PUBLIC_ALLOWED = {"stddef.h", "stdint.h"}
BANNED = (
    "strcpy strcat sprintf vsprintf strtok gets atoi atol atoll atof scanf sscanf fscanf vscanf "
    "vsscanf vfscanf strtol strtoul strtoll strtoull strtod strtof strtold rand srand random "
    "alloca setlocale tmpnam mktemp isalpha isdigit isalnum isspace isupper islower toupper "
    "tolower isprint ispunct iscntrl isxdigit strerror strcasecmp strncasecmp strncpy strncat "
    "system popen"
).split()
BANNED_LIBRARY = "abort exit _exit quick_exit atexit signal sigaction printf puts putchar perror \
fprintf vprintf vfprintf setenv putenv assert_fail".split()
# The tool prints and exits, so the second list is not for it; from the first it may use these.
CLI_ALLOWED = {"strtod", "strerror", "strncat"}

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
CALL = re.compile(r"(?<![\w.>])(" + "|".join(BANNED) + r")\s*\(")
CALL_LIBRARY = re.compile(r"(?<![\w.>])(" + "|".join(BANNED_LIBRARY) + r")\s*\(")
SOURCE = (".c", ".h", ".hpp", ".cpp")


def strip_code(text):
    """Comments and literals become blanks, line breaks stay."""
    out = []
    pattern = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)
    last = 0
    for m in pattern.finditer(text):
        out.append(text[last : m.start()])
        out.append(re.sub(r"[^\n]", " ", m.group(0)))
        last = m.end()
    out.append(text[last:])
    return "".join(out)


def wide_functions(text):
    """Lines where functions of more than PARAMETERS parameters are defined, of stripped code."""
    lines = []
    for m in DEFINED.finditer(text):
        depth = commas = 0
        for c in m.group(2):
            depth += (c == "(") - (c == ")")
            commas += c == "," and depth == 0
        commas -= m.group(2).rstrip().endswith("...")  # arguments of a format are no parameters
        if commas >= PARAMETERS:
            lines.append(text.count("\n", 0, m.start(1)) + 1)
    return lines


class Checker:
    def __init__(self, root):
        self.root = root
        self.wide = {}
        self.faults = []
        self.files = 0

    def fault(self, path, line, text):
        self.faults.append("%s:%d: %s" % (os.path.relpath(path, self.root), line, text))

    def walk(self, directory):
        for base, directories, names in os.walk(os.path.join(self.root, directory)):
            directories.sort()
            for name in sorted(names):
                if name.endswith(SOURCE):
                    yield os.path.join(base, name)

    def opening(self, path, lines):
        if not lines or "SPDX-License-Identifier: Apache-2.0 OR MIT" not in lines[0]:
            self.fault(path, 1, "must open with the SPDX line")
            return
        said = 0
        for line in lines[1:10]:
            if re.match(r"\s*(\*|//)\s*\w", line):
                said += 1
            elif "*/" in line:
                break
        if said < 1:
            self.fault(path, 1, "the opening comment must say what the file is")

    def shape(self, path, lines):
        if len(lines) > LONGEST:
            self.fault(path, len(lines), "longer than %d lines" % LONGEST)
        for number, line in enumerate(lines, 1):
            if len(line) > WIDEST:
                self.fault(path, number, "longer than %d columns" % WIDEST)
            if "\t" in line:
                self.fault(path, number, "tab")
            if line != line.rstrip():
                self.fault(path, number, "blanks at the end of the line")

    def includes(self, path, room, text):
        name = os.path.basename(path)
        platform_file = re.search(r"_(posix|win|linux)\.[ch]$", name) or name in PLATFORM_FILES
        for number, line in enumerate(text.split("\n"), 1):
            m = INCLUDE.match(line)
            if not m:
                continue
            kind, what = m.groups()
            first = what.split("/")[0]
            if kind == "<":
                if first == "sft" and "/" in what:
                    continue
                if room == "format" and (what in FORMAT_BANNED or what.startswith("sys/")):
                    self.fault(path, number, "src/format may not include <%s>" % what)
                if room in RANKS and what in PLATFORM and not platform_file:
                    self.fault(path, number, "<%s> belongs into a *_posix.c or *_win.c file" % what)
                if room in RANKS and (what.startswith("sys/") and not platform_file):
                    self.fault(path, number, "<%s> belongs into a *_posix.c or *_win.c file" % what)
                continue
            if room in ALONE:
                if room == "cli" and first == "fs" and name == "files.c":
                    continue
                if "/" in what and first != room and not {first, what} & set(EXTENSIONS.get(room, [])):
                    self.fault(path, number, 'src/%s may include only <sft/...>, not "%s"' % (room, what))
                continue
            if first not in RANKS or "/" not in what:
                self.fault(path, number, 'private headers are included as "room/name.h", not "%s"' % what)
            elif RANKS.index(first) > RANKS.index(room):
                self.fault(path, number, "%s is above %s" % (first, room))
            elif room == "format" and first == "fs":
                self.fault(path, number, 'src/format may not include "%s"' % what)

    def calls(self, path, room, text):
        code = strip_code(text)
        for number, line in enumerate(code.split("\n"), 1):
            for m in CALL.finditer(line):
                if room == "cli" and m.group(1) in CLI_ALLOWED:
                    continue
                self.fault(path, number, "%s is banned" % m.group(1))
            if room != "cli" and not line.lstrip().startswith("#"):
                for m in CALL_LIBRARY.finditer(line):
                    self.fault(path, number, "%s is banned in the library" % m.group(1))

    def public(self, path, text):
        for number, line in enumerate(text.split("\n"), 1):
            m = INCLUDE.match(line)
            if not m:
                continue
            kind, what = m.groups()
            if kind == '"':
                self.fault(path, number, "public headers include with <...>")
            elif what.startswith("sft/") or path.endswith(".hpp"):
                continue
            elif what not in PUBLIC_ALLOWED:
                self.fault(
                    path, number, "public headers need only <stddef.h> and <stdint.h>, not <%s>" % what
                )

    def crowds(self):
        for base, directories, names in os.walk(os.path.join(self.root, "src")):
            directories.sort()
            if len(names) > CROWDED:
                self.fault(base, 1, "%d files, more than %d: make sub-rooms" % (len(names), CROWDED))

    def run(self):
        self.crowds()
        for directory in ("src", "include", "tests", "examples", "bench", "fuzz"):
            for path in self.walk(directory):
                with open(path, encoding="utf-8") as f:
                    text = f.read()
                lines = text.split("\n")
                self.files += 1
                self.opening(path, lines)
                self.shape(path, lines)
                parts = os.path.relpath(path, self.root).split(os.sep)
                if directory == "src":
                    room = parts[1] if len(parts) > 2 else ""
                    if room not in RANKS and room not in ALONE:
                        self.fault(path, 1, "src/%s is no room of this house" % room)
                        continue
                    self.includes(path, room, text)
                    self.calls(path, room, text)
                    for line in wide_functions(strip_code(text)):
                        self.wide.setdefault(room, []).append((path, line))
                elif directory == "include":
                    self.public(path, text)
        for room, places in sorted(self.wide.items()):
            for path, line in places[WIDE.get(room, 0) :]:
                self.fault(path, line, "more than %d parameters: make a structure of them" % PARAMETERS)
        return self.faults


GOOD = "/* SPDX-License-Identifier: Apache-2.0 OR MIT\n *\n * a file\n * of a test\n */\n"
CASES = [
    ("src/base/a.c", '#include "format/header.h"\n', "above"),
    ("src/fs/a.c", '#include "format/header.h"\n', "above"),
    ("src/fs/a.c", '#include "io/source.h"\n', "above"),
    ("src/format/a.c", '#include "fs/file.h"\n', "may not include"),
    ("src/layout/a.c", '#include "fs/file.h"\n', "only <sft/...>"),
    ("src/format/a.c", "#include <stdio.h>\n", "may not include"),
    ("src/format/a.c", "#include <sys/stat.h>\n", "may not include"),
    ("src/io/a.c", "#include <unistd.h>\n", "belongs into"),
    ("src/io/a.c", '#include "a.h"\n', "room/name.h"),
    ("src/cli/a.c", '#include "base/text/buf.h"\n', "only <sft/...>"),
    ("src/cli/a.c", '#include "fs/file.h"\n', "only <sft/...>"),
    ("src/remote/a.c", '#include "catalog/catalog.h"\n', "only <sft/...>"),
    ("src/remote/a.c", '#include "import/import.h"\n', "only <sft/...>"),
    ("src/remote/a.c", '#include "move/loop.h"\n', "only <sft/...>"),
    ("src/cuda/a.c", '#include "move/watch.h"\n', "only <sft/...>"),
    ("src/attic/a.c", "", "no room"),
    ("src/base/a.c", "void f(char *a) { strcpy(a, a); }\n", "banned"),
    ("src/base/a.c", "void f(void) { abort(); }\n", "banned in the library"),
    ("src/cli/a.c", "int f(char *a) { return atoi(a); }\n", "banned"),
    ("include/sft/a.h", "#include <stdio.h>\n", "need only"),
    ("src/base/a.c", "\n" * 1000, "longer than 900"),
    ("src/base/a.c", "/*" + "x" * 120 + "*/\n", "columns"),
    ("src/base/a.c", "\tint x;\n", "tab"),
    ("src/cuda/a.c", "int f(int a, int b, int c,\n      int d, int e, int g, int h) {\n}\n", "parameters"),
    ("src/cuda/a.c", "int f(int a, int b, int c, int d, int e, int g, int h, ...) {\n}\n", "parameters"),
    ("src/base/a.c", "int x; \n", "blanks"),
]
INNOCENT = [
    ("src/cuda/a.c", "int f(int a, int b, int c, int d, int e, int g, ...) {\n}\n"),
    (
        "src/io/a.c",
        '#include "base/text/buf.h"\n#include "fs/file.h"\n#include <string.h>\n#include <sft/sft.h>\n',
    ),
    ("src/io/a_posix.c", "#include <unistd.h>\n#include <sys/stat.h>\n"),
    ("src/cli/a.c", '#include "cli.h"\n#include <stdio.h>\nvoid f(void) { printf("strcpy(a)"); }\n'),
    ("src/base/a.c", "/* strcpy(a, b) */\nint x_strcpy(void);\n"),
    ("src/fs/a_posix.c", '#include "base/text/buf.h"\n#include "fs/file.h"\n#include <fcntl.h>\n'),
    ("src/import/a.c", '#include "base/text/buf.h"\n#include "fs/output/publish.h"\n#include "import/b.h"\n'),
]


def self_test():
    bad = 0
    for path, body, want in CASES:
        with tempfile.TemporaryDirectory() as root:
            full = os.path.join(root, path)
            os.makedirs(os.path.dirname(full))
            with open(full, "w", encoding="utf-8") as f:
                f.write(GOOD + body)
            faults = Checker(root).run()
            if not any(want in fault for fault in faults):
                print("self-test: %r in %s was not noticed (%s)" % (body[:40], path, faults))
                bad += 1
    for path, body in INNOCENT:
        with tempfile.TemporaryDirectory() as root:
            full = os.path.join(root, path)
            os.makedirs(os.path.dirname(full))
            with open(full, "w", encoding="utf-8") as f:
                f.write(GOOD + body)
            faults = Checker(root).run()
            if faults:
                print("self-test: false alarm: %s" % faults)
                bad += 1
    with tempfile.TemporaryDirectory() as root:
        os.makedirs(os.path.join(root, "src/base"))
        with open(os.path.join(root, "src/base/a.c"), "w", encoding="utf-8") as f:
            f.write("int x;\n")
        if not Checker(root).run():
            print("self-test: a file without an opening was not noticed")
            bad += 1
    with tempfile.TemporaryDirectory() as root:
        os.makedirs(os.path.join(root, "src/base"))
        for number in range(CROWDED + 1):
            with open(os.path.join(root, "src/base/a%d.c" % number), "w", encoding="utf-8") as f:
                f.write(GOOD)
        if len(Checker(root).run()) != 1:
            print("self-test: a crowded directory was not noticed")
            bad += 1
    print("self-test: %d cases, %d failed" % (len(CASES) + len(INNOCENT) + 2, bad))
    return 1 if bad else 0


def main():
    if "--self-test" in sys.argv:
        return self_test()
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    checker = Checker(root)
    faults = checker.run()
    for fault in faults:
        print(fault)
    print("%d files, %d faults" % (checker.files, len(faults)))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
