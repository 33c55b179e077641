#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""curl_numbers.py CC HEADER - what src/remote/http/curl.h says of libcurl is what curl's own header says: every number, the places
of the fields, and that the calls are there. Exit status 77 where there is no <curl/curl.h>."""

import re
import subprocess
import sys


def compiles(compiler, text):
    done = subprocess.run(
        [compiler, "-std=gnu11", "-Werror=implicit", "-fsyntax-only", "-xc", "-"],
        input=text,
        text=True,
        capture_output=True,
    )
    return done.stderr if done.returncode else ""


def main():
    compiler, header = sys.argv[1:]
    head = "#include <curl/curl.h>\n#include <stddef.h>\n"
    if compiles(compiler, head):
        print("there is no <curl/curl.h>")
        return 77
    with open(header, encoding="utf-8") as f:
        text = f.read()
    numbers = re.findall(r"^    (CURL\w+) = (-?\d+)\b", text, re.M)
    calls = re.findall(r"^    X\((\w+), ", text, re.M)
    lines = [f'_Static_assert({name} == {number}, "{name}");' for name, number in numbers]
    for kind, field, like in (
        ("CURLMsg", "easy_handle", "struct { int a; void *b; }, b"),
        ("CURLMsg", "data", "struct { int a; void *b; union { void *c; int d; } e; }, e"),
        ("struct curl_sockaddr", "addr", "struct { int a[3]; unsigned b; short c; }, c"),
        ("curl_version_info_data", "version_num", "struct { int a; const char *b; unsigned c; }, c"),
    ):
        lines.append(f'_Static_assert(offsetof({kind}, {field}) == offsetof({like}), "{kind}.{field}");')
    lines.append(
        '_Static_assert(sizeof(CURLcode) == sizeof(int) && sizeof(curl_socket_t) == sizeof(int), "int");'
    )
    lines += [f"const void *const a_{name} = (const void *)curl_{name};" for name in calls]
    faults = compiles(compiler, head + "\n".join(lines) + "\n")
    print(faults or f"{len(numbers)} numbers and {len(calls)} calls are curl's")
    return 1 if faults or len(numbers) < 60 or len(calls) < 19 else 0


if __name__ == "__main__":
    sys.exit(main())
