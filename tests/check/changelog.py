#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""changelog.py [--released VERSION] - CHANGELOG.md is in the form of Keep a Changelog 1.1. Standard library only.

  - "# Changelog", then "## [Unreleased]", then "## [X.Y.Z] - YYYY-MM-DD" (" [YANKED]" may follow): versions and
    dates fall, no version is there twice, and none is above the one of include/sft/types.h
  - in each at most one "### " of Added, Changed, Deprecated, Removed, Fixed, Security, in this order, none empty;
    "#### " for areas, none twice in one kind; entries begin with "- ", further lines are indented

--released VERSION: that version has its section, it is the newest, and nothing is unreleased (a release is made of it).
`--self-test` proves that rules can fail.
"""

from __future__ import annotations

import datetime
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
KINDS = ["Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"]
VERSION = re.compile(r"\[(\d+\.\d+\.\d+)\] - (\d{4}-\d{2}-\d{2})( \[YANKED\])?$")


def number(version: str) -> list[int]:
    return [int(part) for part in version.split(".")]


def faults_of(text: str, current: str, released: str | None = None) -> list[str]:
    faults: list[str] = []
    versions: list[tuple[str, str]] = []
    section = kind = ""
    kinds: list[str] = []
    areas: set[str] = set()
    entries: dict[str, int] = {}
    lines = text.splitlines()
    fault = lambda line, what: faults.append(f"CHANGELOG.md:{line}: {what}")
    if not lines or lines[0] != "# Changelog":
        fault(1, 'does not begin with "# Changelog"')
    for at, line in enumerate(lines, 1):
        if line.startswith("## "):
            title, kind, kinds = line[3:], "", []
            m = VERSION.match(title)
            if title == "[Unreleased]":
                if section:
                    fault(at, "[Unreleased] is not the first")
                section = title
            elif m is None:
                fault(at, f'"{title}" is neither [Unreleased] nor [X.Y.Z] - YYYY-MM-DD')
                section = title
            else:
                section = m[1]
                try:
                    datetime.date.fromisoformat(m[2])
                except ValueError:
                    fault(at, f"{m[2]} is no date")
                if number(m[1]) > number(current):
                    fault(at, f"{m[1]} is above the version of the sources, {current}")
                if versions and (number(m[1]) >= number(versions[-1][0]) or m[2] > versions[-1][1]):
                    fault(at, f"{m[1]} of {m[2]} is behind {versions[-1][0]} of {versions[-1][1]}")
                versions.append((m[1], m[2]))
        elif line.startswith("### "):
            kind, areas = line[4:], set()
            if not section:
                fault(at, f'"{kind}" belongs to no version')
            if kind not in KINDS:
                fault(at, f'"{kind}" is none of {", ".join(KINDS)}')
            elif kind in kinds:
                fault(at, f'"{kind}" is there twice in {section}')
            elif kinds and kinds[-1] in KINDS and KINDS.index(kind) < KINDS.index(kinds[-1]):
                fault(at, f'"{kind}" stands behind "{kinds[-1]}"')
            kinds.append(kind)
            entries[f"{section}/{kind}"] = 0
        elif line.startswith("#### "):
            if line[5:] in areas:
                fault(at, f'"{line[5:]}" is there twice in {section}, {kind}')
            areas.add(line[5:])
            if not kind:
                fault(at, f'"{line[5:]}" belongs to no kind')
        elif line.startswith("#") and at > 1:
            fault(at, "a heading of another level")
        elif kind and line.startswith("- "):
            entries[f"{section}/{kind}"] += 1
        elif kind and line.strip() and not re.match(r"  +\S|\[[^\]]+\]: ", line):
            fault(at, 'is neither an entry ("- ") nor indented under one')
    faults += [f"CHANGELOG.md: {where} has no entry" for where, count in entries.items() if count == 0]
    if not any(line == "## [Unreleased]" for line in lines):
        faults.append("CHANGELOG.md: there is no [Unreleased]")
    if released is not None:
        left = sum(count for where, count in entries.items() if where.startswith("[Unreleased]"))
        if left:
            faults.append(f"CHANGELOG.md: {left} entries are under [Unreleased]")
        if not versions or versions[0][0] != released:
            faults.append(
                f"CHANGELOG.md: the newest version is {versions[0][0] if versions else 'none'}, not {released}"
            )
    return faults


def self_test() -> int:
    good = (
        "# Changelog\n\n## [Unreleased]\n\nWords.\n\n### Added\n#### Tool\n- One\n  more.\n\n"
        "## [0.2.0] - 2027-02-01\n### Added\n- Two\n### Fixed\n- Three\n\n## [0.1.0] - 2026-12-01\n### Added\n- Four\n"
    )
    done = good.replace("### Added\n#### Tool\n- One\n  more.\n\n", "")
    assert faults_of(good, "0.2.0") == [], faults_of(good, "0.2.0")
    assert faults_of(done, "0.2.0", "0.2.0") == [], faults_of(done, "0.2.0", "0.2.0")
    for old, new in (
        ("# Changelog\n", "# Changes\n"),
        ("## [Unreleased]", "## Unreleased: 0.3.0"),
        ("2027-02-01", "2027-02-30"),
        ("2027-02-01", "2026-02-01"),
        ("[0.1.0]", "[0.2.0]"),
        ("[0.2.0]", "[0.3.0]"),
        ("## [0.2.0] -", "## 0.2.0 -"),
        ("### Fixed", "### Mended"),
        ("### Fixed", "### Added"),
        ("### Added\n- Two\n### Fixed", "### Fixed\n- Two\n### Added"),
        ("- Three", ""),
        ("- Three", "Three"),
        ("#### Tool\n", "#### Tool\n- x\n#### Tool\n"),
        ("- Four", "# Four"),
    ):
        assert old in good and faults_of(good.replace(old, new, 1), "0.2.0"), (old, new)
    assert faults_of(good, "0.2.0", "0.2.0") and faults_of(done, "0.2.0", "0.1.0")
    print("changelog: self-test passed")
    return 0


def main() -> int:
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    released = sys.argv[2] if sys.argv[1:2] == ["--released"] else None
    with open(os.path.join(ROOT, "include/sft/types.h"), encoding="utf-8") as f:
        current = re.search(r'SFT_VERSION_STRING "([^"]+)"', f.read())[1]
    with open(os.path.join(ROOT, "CHANGELOG.md"), encoding="utf-8") as f:
        faults = faults_of(f.read(), current, released)
    for fault in faults:
        print(fault)
    print(f"{len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
