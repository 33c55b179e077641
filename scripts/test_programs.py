#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""test_programs.py BUILD TARGETS - which of the targets the tests run that `ctest -N` lists on standard input.

ctest tells the command of a test only when its program is there; CTestTestfile.cmake tells it before. TARGETS: one
of ninja's targets a line. Standard library only.
"""

import os
import pathlib
import re
import sys

build = os.path.realpath(sys.argv[1])
known = set(pathlib.Path(sys.argv[2]).read_text().split("\n"))
listed = set(re.findall(r"^ +Test +#\d+: (\S+)", sys.stdin.read(), flags=re.M))
wanted = set()
for file in pathlib.Path(build).rglob("CTestTestfile.cmake"):
    for name, command in re.findall(
        r"^add_test\((?:\[=*\[)?(\S+?)(?:\]=*\])? (.*)\)$", file.read_text(), flags=re.M
    ):
        if name in listed:
            wanted |= {os.path.relpath(word, build) for word in re.findall(r'"(/[^"]*)"', command)}
print(*sorted(wanted & known))
