#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""check_errors_doc.py - docs/errors.md lists every status of sft/types.h with its number, and the exit
status that src/cli/fail.c gives it. Prints each disagreement and exits 1. Standard library only."""

import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as f:
        return f.read()


def exits():
    """What cli_status_of() answers, read from its switch."""
    body = re.search(r"int cli_status_of\(.*?\n}\n", read("src/cli/fail.c"), re.S).group(0)
    names = dict(re.findall(r"\b(CLI_\w+) = (\d+)", read("src/cli/cmd.h")))
    out, pending = {}, []
    for m in re.finditer(r"case (SFT_\w+):|default:|return (CLI_\w+);", body):
        if m.group(2):
            for name in pending:
                out[name] = names[m.group(2)]
            pending = []
        else:
            pending.append(m.group(1) or "default")
    return out


def main():
    faults = []
    known = {
        name: int(number)
        for name, number in re.findall(r"^\s*X\((SFT_\w+), (\d+), \"", read("include/sft/types.h"), re.M)
    }
    rows = re.findall(r"^\| (\d+) \| `(SFT_\w+)` \| (.+?) \| (\d+) \|$", read("docs/errors.md"), re.M)
    documented = {}
    for number, name, _, exit_status in rows:
        if name in documented:
            faults.append("%s is documented twice" % name)
        documented[name] = (int(number), exit_status)
    table = exits()
    for name, number in known.items():
        if name not in documented:
            faults.append("%s (%d) is not documented" % (name, number))
            continue
        if documented[name][0] != number:
            faults.append("%s is %d, documented as %d" % (name, number, documented[name][0]))
        want = table.get(name, table["default"])
        if documented[name][1] != want:
            faults.append("%s ends the tool with %s, documented as %s" % (name, want, documented[name][1]))
    for name in documented:
        if name not in known:
            faults.append("%s is documented, but does not exist" % name)
    if len(set(known.values())) != len(known) or len(known) < 40:
        faults.append("sft/types.h: %d statuses, numbers not unique or list not understood" % len(known))
    for fault in faults:
        print(fault)
    print("%d statuses, %d faults" % (len(known), len(faults)))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
