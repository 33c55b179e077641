#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""check_homes.py [BUILD] - each thing has one home. Standard library and nm only.

  - an internal name sft__... begins with the name of a room, and no type of that kind is defined in two files
  - with BUILD: each global symbol of src/ROOM is sft__ROOM_..., sft_... (public) or, in the tool, cli_...,
    and is defined by one object (twins for different systems are never compiled together)
  - what HOMES lists (docs/ARCHITECTURE.md: "exactly one home") is done in its home alone, in C and in Python;
    SECOND names the other places and says why. A home or second home that holds nothing is
    a fault: patterns and exceptions cannot go stale

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


# What has one home: what it looks like in code, the files (or rooms) that hold it, and a line that must be found.
# The list of docs/ARCHITECTURE.md, and what it is made of.
class Home:
    def __init__(self, what, pattern, homes, sample, python=None):
        self.what, self.pattern, self.homes, self.sample = what, re.compile(pattern), homes, sample
        self.python = (
            re.compile(python) if python else None
        )  # what it looks like in Python; it has no home there


HOMES = [
    Home(
        "path containment",
        r"\brealpath\s*\(|\bSYS_openat2\b|\bGetFinalPathNameByHandleW?\s*\(",
        ["src/fs/"],
        "if (realpath(a, b) == NULL) {",
    ),
    Home(
        "directory listing",
        r"\b(opendir|fdopendir|readdir|scandir|FindFirstFileW?)\s*\(",
        ["src/fs/file_"],
        "DIR *d = opendir(path);",
    ),
    Home(
        "atomic publication: renaming in a directory",
        r"\brename(at2?)?\s*\(|\bMoveFileEx",
        ["src/fs/output/", "python/src/old_glibc.h"],  # there: the functions that an old C library lacks
        "return rename(a, b);",
    ),
    Home(
        "atomic publication: files without a name, second names",
        r"\bO_TMPFILE\b|\blinkat\s*\(|\bmkstemp\s*\(",
        ["src/fs/output/"],
        "linkat(a, b, c, d, 0);",
    ),
    Home(
        "atomic publication: making bytes durable",
        r"\b(fsync|fdatasync)\s*\(|\bFlushFileBuffers",
        ["src/fs/"],
        "if (fsync(fd) != 0) {",
    ),
    Home(
        "journal",
        r'\bjournal_head\b|\bJOURNAL_\w+|"sft-job ',
        ["src/checkpoint/stage/journal.c"],
        "typedef struct journal_head {",
    ),
    Home(
        "choice of a read strategy",
        r"\bsft__fs_(system|cached)\s*\(",
        ["src/fs/", "src/io/reader.c"],
        "const int percent = sft__fs_cached(fd, size);",
    ),
    Home(
        "choice of a read strategy: looking whether pages are cached",
        r"\bmincore\s*\(|\bpreadv2\s*\(",
        ["src/fs/", "python/src/old_glibc.h"],
        "mincore(p, n, v);",
    ),
    Home(
        "direct reads",
        r"\bO_DIRECT\b|\bFILE_FLAG_NO_BUFFERING\b|\bsft__fs_(open|read)_direct\s*\(",
        ["src/fs/", "src/io/reader.c"],
        "fd = open(path, O_RDONLY | O_DIRECT);",
    ),
    Home(
        "the block loop",
        r"\bsft_pool_run\s*\(|\bsft__base_pool_add\s*\(",
        ["src/base/thread/pool.", "src/move/loop.c"],
        "sft_pool_run(pool, n, work, &w);",
    ),
    Home(
        "glob grammar",
        r"(?m)^\w[\w\s*]*(glob|wildcard)_match\s*\([^;{]*\)\s*\{|\bfnmatch\s*\(",
        ["src/base/text/names.c"],
        "static bool glob_match(const char *a, const char *b) {",
        r"\bfnmatch\b|\bimport glob\b",
    ),
    Home(
        "JSON reader",
        r"\*\w+ [!=]= ':'[^;]{0,60}\bsft__base_json_|"
        r"\bsft__base_json_(?:read|is|blank|decode)\([^}]{0,200}\*\w+ [!=]= ':'",
        ["src/base/text/"],
        "p = sft__base_json_blank(p);\n if (*p != ':') {",
    ),
    Home(
        "JSON writer",
        r"'\\\\',\s*'u'" + r'|"\\\\u(00"|%04x)',
        ["src/base/text/"],
        'printf("\\\\u%04x", unit);',
    ),
    Home(
        "hex digits",
        r'"0123456789abcdef"|- \'a\' \+ 10\b',
        ["src/base/"],
        'static const char d[] = "0123456789abcdef";',
    ),
    Home(
        "decimal digits",
        r"(?m)^\w[\w\s*]*is_digit\s*\([^;{]*\)\s*\{",
        ["src/base/text/"],
        "static bool is_digit(char c) {",
    ),
    Home(
        "natural order",
        r"(?m)^\w[\w\s*]*natural_(compare|order)\s*\([^;{]*\)\s*\{|\bstrverscmp\s*\(",
        ["src/base/text/names.c"],
        "int natural_order(const char *a, const char *b) {",
        r"re\.split\(r?.[^)]*\\d\+",
    ),
    Home(
        "options reader",
        r"\bmemcpy\((?:[^;]*\bstruct_size\s*<|&have, given\b)",
        ["src/base/options.c"],
        "memcpy(&o, given, given->struct_size < sizeof o ? given->struct_size : sizeof o);",
    ),
    Home(
        "dtype facts",
        r'\bSFT_DTYPE_MAP\s*\(|"(BF16|F8_E\w+|F6_E\w+)"',
        ["src/format/dtype.c"],
        '{"BF16", 2, 1},',
        r'"(BF16|F8_E\w+|F6_E\w+)"\s*:',
    ),
    Home(
        "digests' descriptions",
        r"\b\w*(crc32c|sha256_update|feed)\s*\([^;]*(->|\.)(name_len|dtype->name)\b",
        ["src/move/digest_tensor.c"],
        "crc = sft_crc32c(crc, t->name, t->name_len);",
    ),
]
# Second homes. What stays says why. One that is empty is a fault, too.
SECOND = {
    "journal": {"src/remote/disk/staging.c": "a download's: sums of blocks, where a job's has lines of text"},
    "direct reads": {"src/cuda/gds.c": "cuFile reads by a descriptor of its own"},
    "the block loop": {
        "src/cli/look/hash.c": "rounds whose results are merged in order, over public reads",
        "src/cli/work.c": "rounds whose results are merged in order, over public reads",
        "src/checkpoint/run/queue.c": "touches fresh memory: nothing is read, and nothing can fail",
        "src/checkpoint/open/url_ranks.c": "waits for the answers of servers: files are opened, no blocks are moved",
        "src/move/load/stream.c": "a stream is pulled",
        "python/src/bytes.c": "copies between two places in memory: it reads nothing",
    },
    "JSON reader": {
        "src/import/content/json.c": "looks into each level of what it scans",
        "src/import/paddle/paddle_names.c": "looks at keys at any depth of a program, in one pass",
    },
    "JSON writer": {
        "src/cli/ui/json.c": "the tool's: it includes no private headers",
        "src/cli/ui/text.c": "the tool's: text that is no line of output",
        "src/import/graph/exported.c": "looks for escapes, writes none",
    },
    "hex digits": {
        "src/cli/work.c": "the tool's: it includes no private headers",
        "src/import/walk/walk_text.c": "digits of any base up to 36",
    },
    "dtype facts": {"src/import/gguf/gguf_types.c": "GGUF's name of a type"},
    "digests' descriptions": {
        "src/checkpoint/group/group_parts.c": "what processes compare, not what is recorded",
        "src/cli/look/hash.c": "a SHA-256; sft_digest_describe is a CRC32C",
        "src/move/write/set.c": "of entries that are no tensors yet",
    },
}


def code_of(text):
    """The text without comments; strings stay."""
    return re.sub(r"/\*.*?\*/|//[^\n]*", lambda m: re.sub(r"[^\n]", " ", m.group(0)), text, flags=re.S)


def sources(root):
    for top in ("src", "python/src", "python/safetensors_c"):
        for base, directories, names in os.walk(os.path.join(root, top)):
            directories.sort()
            for name in sorted(names):
                if name.endswith((".c", ".h", ".py")):
                    path = os.path.join(base, name)
                    with open(path, encoding="utf-8") as f:
                        yield os.path.relpath(path, root).replace(os.sep, "/"), f.read()


def check_homes(path, code, seen):
    """Where a file does what has its home elsewhere. Notes in `seen` what each home and second home holds."""
    faults = []
    for home in HOMES:
        pattern = home.python if path.endswith(".py") else home.pattern
        for m in pattern.finditer(code) if pattern else []:
            if any(path.startswith(h) for h in home.homes):
                seen.add(home.what)
                continue
            second = next((s for s in SECOND.get(home.what, {}) if path.startswith(s)), None)
            if second is not None:
                seen.add((home.what, second))
                continue
            line = code.count("\n", 0, m.start()) + 1
            faults.append("%s:%d: %s has its home in %s" % (path, line, home.what, ", ".join(home.homes)))
    return faults


def check_seen(seen):
    """Homes that hold nothing, and second homes that are empty by now."""
    faults = ["%s has no home: is its pattern right?" % h.what for h in HOMES if h.what not in seen]
    for what, places in SECOND.items():
        faults += [
            "%s holds no %s any more: take it out of SECOND" % (p, what)
            for p in places
            if (what, p) not in seen
        ]
    return faults


def check_text(files, seen):
    faults = []
    types = defaultdict(set)
    rooms = re.compile(r"\bsft__(?!(?:%s)(?:_|\b))\w+" % "|".join(ROOMS))
    kinds = re.compile(
        r"\b(struct|enum|union)\s+(sft__\w+)\s*\{|()\}\s*(sft__\w+);|()\btypedef\b[^;{}]*\b(sft__\w+);"
        r"|()\btypedef\b[^;{}]*\(\*(sft__\w+)\)"
    )
    for path, text in files:
        if path.endswith(".py"):
            faults += check_homes(path, text, seen)
            continue
        code = code_of(text)
        for m in rooms.finditer(code):
            faults.append("%s: %s names no room" % (path, m.group(0)))
        for m in kinds.finditer(code):
            name = m.group(2) or m.group(4) or m.group(6) or m.group(8)
            types[(m.group(1) or "type") + " " + name].add(TWIN.sub("", path))
        faults += check_homes(path, code, seen)
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
    faults, _ = check_text(text, set())
    wanted = [
        "sft__nowhere_f names no room",
        "hex digits has its home",
        "struct sft__base_x is",
        "type sft__base_x is",
    ]
    for want in wanted:
        assert any(want in fault for fault in faults), (want, faults)
    assert len(faults) == len(wanted), faults
    for home in HOMES:
        for path, want in (("src/attic/a.c", home.what + " has its home"), (home.homes[0] + "a.c", None)):
            faults = [f for f in check_homes(path, code_of(home.sample), set()) if home.what in f]
            assert bool(faults) == (want is not None), (home.what, path, faults)
        assert not check_homes("src/attic/a.c", code_of("/* %s */" % home.sample.replace("*", "")), set()), (
            home.what
        )
    for home, sample in (("glob grammar", "import fnmatch"), ("dtype facts", 'X = {"BF16": 2}')):
        assert any(home in f for f in check_homes("python/safetensors_c/a.py", sample, set())), home
    full = {h.what for h in HOMES} | {(what, p) for what, places in SECOND.items() for p in places}
    assert check_seen(full) == []
    for lost in full:
        assert len(check_seen(full - {lost})) == 1, lost
    print("check_homes: self-test passed")


def main():
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    seen = set()
    faults, count = check_text(sources(root), seen)
    faults += check_seen(seen)
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
