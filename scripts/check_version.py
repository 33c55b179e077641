#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""check_version.py - the version has one home, include/sft/types.h. Standard library only.

  - the three numbers and the text there say the same, and packaging/version.sh prints it
  - no other file says another: fields of manifests (package.json, vcpkg.json, pyproject.toml, CMake's project(),
    conanfile.py, meson.build), the first entry of Debian's changelog, names of our packages and files with a version
    in documents, recipes and scripts (libsafetensors-1.2.3, libsafetensors/1.2.3, safetensors-c==1.2.3, and the alias's 0.8.0+c1.2.3)
  - CMakeLists.txt and python/pyproject.toml hold none at all: they read the home

Prints every offence and exits 1; exits 0 with a count otherwise. `--self-test` proves that rules can fail.
CHANGELOG.md tells of all versions: tests/check/changelog.py reads that.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys

HOME = "include/sft/types.h"
NUMBER = r"(\d+\.\d+\.\d+)"
# Names that are ours alone, and what may stand between them and a version. Debian's revision may follow.
NAMED = re.compile(
    r"(?:lib(?:safetensors)(?:0|-dev)?|safetensors[-_]c|safetensors-tools|@libsafetensors/wasm|libsafetensors-wasm)"
    r"(?:[-_/@ ]| ?==? ?|_v)v?" + NUMBER + r"(?![\d.]*%)"
)
ALIAS = re.compile(
    r"\d+\.\d+\.\d+\+c" + NUMBER
)  # the alias distribution's, of the reference's version and ours
FIELDS = [  # what a file is called, what its version looks like
    (r"(^|/)(package|vcpkg)\.json$", r'^ ? ?\t?"version[a-z-]*": *"' + NUMBER),
    (r"(^|/)pyproject\.toml$", r'^version *= *"' + NUMBER + r'"'),
    (r"(^|/)conanfile\.py$", r"^ *version *= *[\"']" + NUMBER),
    (r"(^|/)meson\.build$", r"^ +version *: *'" + NUMBER),
    (r"^packaging/.*/CMakeLists\.txt$|^CMakeLists\.txt$", r"project\([^)]*\bVERSION +" + NUMBER),
    (r"^packaging/debian/changelog$", r"\Alibsafetensors \((?:\d+:)?" + NUMBER),
    (r"^tests/cli/", r'"name": "safetensors scan", "version": "' + NUMBER),
    (r"\.spdx$|\.cff$", r"^version: *\"?" + NUMBER),
]
FIELDS = [(re.compile(name), re.compile(field, re.M)) for name, field in FIELDS]
READERS = {"CMakeLists.txt", "python/pyproject.toml"}  # read the home
LEFT_OUT = re.compile(
    r"^(CHANGELOG\.md|scripts/check_version\.py|tests/check/.*|docs/records/.*|docs/performance/.*"
    r"|fuzz/corpus/.*|tests/(import|fuzz|conformance)/.*)$"
)
TEXT = re.compile(
    r"(\.(md|txt|sh|py|pyi|toml|json|cmake|in|yml|yaml|wrap|build|js|mjs|cjs|ts|rb|cff|out)$)|(^|/)[^.]*$"
)


def offences(path: str, text: str, version: str) -> list[str]:
    found = []
    patterns = [field for name, field in FIELDS if name.search(path)] + [NAMED, ALIAS]
    for pattern in patterns:
        for m in pattern.finditer(text):
            line = text.count("\n", 0, m.start(1)) + 1
            if m[1] != version:
                found.append(f"{path}:{line}: says {m[1]}, {HOME} says {version}")
            elif path in READERS and pattern not in (NAMED, ALIAS):
                found.append(f"{path}:{line}: holds a version: it has its home in {HOME}")
    return found


def home(text: str) -> tuple[str, list[str]]:
    numbers = re.findall(r"(?m)^#define SFT_VERSION_(?:MAJOR|MINOR|PATCH) +(\d+)$", text)
    string = re.search(r'(?m)^#define SFT_VERSION_STRING "([^"]*)"$', text)
    version = string[1] if string else ""
    if len(numbers) != 3 or ".".join(numbers) != version:
        return version, [f"{HOME}: the numbers say {'.'.join(numbers)}, the text {version or 'nothing'}"]
    return version, []


def self_test() -> int:
    good = (
        "#define SFT_VERSION_MAJOR  1\n#define SFT_VERSION_MINOR  2\n#define SFT_VERSION_PATCH  3\n"
        '#define SFT_VERSION_STRING "1.2.3"\n'
    )
    assert home(good) == ("1.2.3", [])
    assert home(good.replace("PATCH  3", "PATCH  4"))[1] and home(good.replace("STRING", "STR"))[1]
    bad = {
        "wasm/package.json": '{\n  "version": "1.2.4",\n',
        "packaging/vcpkg/vcpkg.json": '{\n  "version-semver": "1.2.4"\n',
        "python/alias/pyproject.toml": 'version = "0.8.0+c1.2.4"\n',
        "packaging/conan/conanfile.py": '    version = "1.2.4"\n',
        "packaging/meson/meson.build": "project('x', 'c',\n  version: '1.2.4')\n",
        "packaging/debian/changelog": "libsafetensors (1.2.4-1) unstable; urgency=medium\n",
        "CMakeLists.txt": "project(x VERSION 1.2.4 LANGUAGES C)\n",
        "tests/cli/scan/a.out": '{"name": "safetensors scan", "version": "1.2.4"}\n',
        "docs/packages.md": "`conan create`: libsafetensors/1.2.4 is made\n",
        "README.md": "pip install safetensors-c==1.2.4\n",
        "packaging/a.sh": "tar xf libsafetensors-1.2.4.tar.xz\n",
        "packaging/b.sh": "dpkg -i libsafetensors0_1.2.4-1_amd64.deb\n",
        "packaging/c.sh": "pip install safetensors_c-1.2.4-cp311-abi3.whl\n",
        "wasm/README.md": "npm install @libsafetensors/wasm@1.2.4\n",
    }
    for path, text in bad.items():
        assert len(offences(path, text, "1.2.3")) == 1, (path, offences(path, text, "1.2.3"))
        assert len(offences(path, text.replace("1.2.4", "1.2.3"), "1.2.3")) == (path in READERS), path
    for text in ("safetensors==0.8.0", "safetensors 0.9.0", "libsafetensors.so.0.1.0"):
        assert not offences("docs/a.md", text, "1.2.3"), text
    assert not offences(
        "packaging/debian/changelog", "libsafetensors (1.2.3-1) u\n\nlibsafetensors (1.2.2-1) u\n", "1.2.3"
    )
    print("check_version: self-test passed")
    return 0


def main() -> int:
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
    with open(HOME, encoding="utf-8") as f:
        version, faults = home(f.read())
    printed = subprocess.run(["packaging/version.sh"], capture_output=True, text=True).stdout.strip()
    if printed != version:
        faults.append(f"packaging/version.sh prints {printed or 'nothing'}, {HOME} says {version}")
    files = subprocess.run(
        ["packaging/files.sh"], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    count = 0
    for path in files:
        if path == HOME or LEFT_OUT.match(path) or not TEXT.search(path) or not os.path.isfile(path):
            continue
        with open(path, encoding="utf-8", errors="replace") as f:
            faults += offences(path, f.read(), version)
        count += 1
    for fault in faults:
        print(fault)
    print(f"version {version or 'unknown'}: {count} files, {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
