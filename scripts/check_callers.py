#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""check_callers.py - no function without a user. Standard library only.

A function declared in include/sft is used by the tool (src/cli, src/mpitool), the package (python/src), an
example (examples), the C++ wrapper (sft.hpp) or another library than its own: by name, or through the entry for
it in a table of its library. Tests and the library's own rooms do not count.

An internal function (sft__...) that a header of src declares is used in src: tests, fuzzers and benchmarks alone are
no users.

KNOWN and TESTED hold the functions that still have no user. They may only shrink: a name in them that has a user, or
is not declared any more, is a fault too. Prints every fault and exits 1. `--self-test` proves that rules can fail.
"""

import os
import re
import sys
from collections import defaultdict

# Headers and rooms of the extension libraries; everything else is the core's.
LIBRARIES = {
    "checkpoint": (
        "layout mindspore checkpoint layout_set job names checkpoint_open checkpoint_group dedupe run".split(),
        ["layout", "checkpoint"],
    ),
    "import": (["import"], ["import"]),
    "remote": (["remote"], ["remote"]),
    "cuda": (["cuda"], ["cuda"]),
    "mpi": (["mpi"], ["mpi"]),
}
CORE = ["base", "fs", "format", "io", "catalog", "move"]
KNOWN = set()
# Internal functions that only tests call, and why they stay.
TESTED = {
    "sft__layout_ms_form": "tests see which form was recognised",
}

DECLARED = re.compile(r"\bSFT_API\b([^;{]*?)\b(sft_[a-z0-9_]+)\s*\(")
TABLE = re.compile(r"struct\s+sft_\w+_api\s*\{(.*?)\}\s*sft_", re.S)
NAMED = re.compile(r"\.([a-z0-9_]+)\s*=\s*(sft_[a-z0-9_]+)\b")
ENTRY = re.compile(r"\(\*([a-z0-9_]+)\)\s*\(")
LOOKED_UP = re.compile(r'"(sft_[a-z0-9_]+_api_get)"')
MEMBER = re.compile(r"(?:->|\.)\s*([a-z0-9_]+)\b(?!\s*=[^=])")
NAME = re.compile(r"\bsft_[a-z0-9_]+\b")


def code_of(text):
    """The text without comments and literals."""
    return re.sub(r"/\*.*?\*/|//[^\n]*|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'", " ", text, flags=re.S)


def library_of(path):
    """The library that a header or a source belongs to; None for a user of all of them."""
    parts = path.split("/")
    if path.startswith("include/sft/") and path.endswith(".h"):
        stem = parts[-1][:-2]
        return next((name for name, (heads, _) in LIBRARIES.items() if stem in heads), "core")
    if parts[0] == "src":
        if parts[1] in CORE:
            return "core"
        return next((name for name, (_, rooms) in LIBRARIES.items() if parts[1] in rooms), None)
    return None


def check(files, known):
    declared = {}
    entries = defaultdict(set)
    used = defaultdict(set)
    members = set()
    for path, text in files:
        code = code_of(text)
        library = library_of(path)
        if path.startswith("include/sft/") and path.endswith(".h"):
            for m in DECLARED.finditer(code):
                declared[m.group(2)] = library
            for entry in ENTRY.findall(" ".join(TABLE.findall(code))):
                entries["sft_" + entry].add(entry)
                entries["sft_%s_%s" % (library, entry)].add(entry)
            continue
        for name in set(NAME.findall(code)):
            used[name].add(library)
        for entry, name in NAMED.findall(code) if library is not None else []:
            entries[name].add(entry)
        if library is None:
            for name in LOOKED_UP.findall(text):
                used[name].add(None)
            members.update(MEMBER.findall(code))
    faults = []
    lonely = set()
    for name, library in declared.items():
        by_name = used[name] - {library}
        if not by_name and not entries[name] & members:
            lonely.add(name)
    for name in sorted(lonely - known):
        faults.append("%s is public and nothing uses it" % name)
    for name in sorted(known - lonely):
        faults.append("%s is used or gone: take it out of KNOWN" % name)
    return faults, len(declared), len(lonely)


INTERNAL = re.compile(r"\bsft__\w+")


def check_internal(files, known):
    """Of clang-formatted code: what stands at the margin and is followed by a parenthesis declares or defines."""
    declared, used = {}, set()
    for path, text in files:
        if not path.startswith("src/"):
            continue
        for line in code_of(text).split("\n"):
            for m in INTERNAL.finditer(line):
                if line[0] in " #" or not line[m.end() :].startswith("("):
                    used.add(m.group(0))
                elif path.endswith(".h"):
                    declared.setdefault(m.group(0), path)
    lonely = set(declared) - used
    faults = [
        "%s (%s) is called by tests alone, or by nothing" % (n, declared[n])
        for n in sorted(lonely - set(known))
    ]
    faults += ["%s is called or gone: take it out of TESTED" % n for n in sorted(set(known) - lonely)]
    return faults, len(declared)


def read(root):
    for directory in ("include/sft", "src", "python/src", "examples"):
        for base, _, names in os.walk(os.path.join(root, directory)):
            for name in names:
                if name.endswith((".c", ".h", ".hpp", ".cpp")):
                    path = os.path.join(base, name)
                    with open(path, encoding="utf-8") as f:
                        yield os.path.relpath(path, root).replace(os.sep, "/"), f.read()


def self_test():
    files = [
        (
            "include/sft/read.h",
            "SFT_API int sft_by_tool(void);\nSFT_API int sft_by_test(void);\n"
            "SFT_API SFT_MUST_CHECK sft_status\nsft_by_library(int a,\n int b);\n"
            "SFT_API int sft_said(void); /* SFT_API int sft_not(void); */",
        ),
        (
            "include/sft/remote.h",
            "SFT_API int sft_remote_a(void);\nSFT_API int sft_remote_b(void);\n"
            "typedef struct sft_remote_api {\n int (*a)(void);\n int (*remote_b)(void);\n} sft_remote_api;\n"
            "SFT_API int sft_remote_api_get(void);",
        ),
        (
            "src/cli/a.c",
            'void f(void) { sft_by_tool(); api->a(); /* sft_said() */ } x = "sft_remote_api_get";',
        ),
        (
            "src/remote/a.c",
            "static t api = {.a = sft_remote_a, .remote_b = sft_remote_b}; int g = sft_by_library(1, 2);",
        ),
        ("src/io/a.c", 'int sft_by_test(void) { return sft_said("sft_by_test"); }'),
        ("tests/unit/a.c", ""),
    ]
    faults, declared, lonely = check(files, {"sft_said", "sft_by_tool", "sft_gone"})
    wanted = [
        "sft_by_test is public",
        "sft_remote_b is public",
        "sft_by_tool is used or gone",
        "sft_gone is used or gone",
    ]
    assert (declared, lonely) == (7, 3), (declared, lonely)
    assert len(faults) == len(wanted), faults
    for want in wanted:
        assert any(want in fault for fault in faults), (want, faults)
    files = [
        ("src/io/a.h", "void sft__io_a(int a,\n    int b);\nstatus\nsft__io_b(void);\nvoid sft__io_c(void);"),
        ("src/io/a.c", "void sft__io_a(int a,\n    int b) {\n    sft__io_c();\n}\nvoid sft__io_b(void) {\n}"),
        ("tests/unit/a.c", "void f(void) {\n    sft__io_a(1, 2);\n}"),
    ]
    faults, declared = check_internal(files, {"sft__io_b": "", "sft__io_c": ""})
    assert declared == 3 and len(faults) == 2, faults
    assert "sft__io_a (src/io/a.h) is called by tests alone" in faults[0], faults
    assert "sft__io_c is called or gone" in faults[1], faults
    print("check_callers: self-test passed")
    return 0


def main():
    if "--self-test" in sys.argv:
        return self_test()
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    files = list(read(root))
    faults, declared, lonely = check(files, KNOWN)
    more, internal = check_internal(files, TESTED)
    faults += more
    for fault in faults:
        print(fault)
    print(
        "%d public functions, %d without a user; %d internal ones, %d without; %d faults"
        % (declared, lonely, internal, len(TESTED), len(faults))
    )
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
