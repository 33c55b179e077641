#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""check_readme.py TOOL [--update] - the tour in README.md is what the tool does.

Every block that opens with ```console is run line by line in one scratch folder that holds a copy of
examples/model: each line that begins with "$ " is a shell command, the lines after it are what it must
print (standard output and error together). A line "..." stands for any number of lines. Prints each
difference and exits 1. --update writes what was printed into README.md (blocks with "..." stay).
Standard library only.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
README = os.path.join(ROOT, "README.md")


def steps(block):
    """[(command, expected lines)]"""
    out = []
    for line in block.rstrip("\n").split("\n"):
        if line.startswith("$ "):
            out.append((line[2:], []))
        elif out:
            out[-1][1].append(line)
    return out


def matches(want, got):
    pattern = "\n".join(re.escape(line) if line != "..." else r"(?:[^\n]*(?:\n|$))*?[^\n]*" for line in want)
    return re.fullmatch(pattern, "\n".join(got)) is not None


def main():
    tool = os.path.abspath(sys.argv[1])
    update = "--update" in sys.argv
    with open(README, encoding="utf-8") as f:
        text = f.read()
    blocks = list(re.finditer(r"^```console\n(.*?)^```$", text, re.S | re.M))
    faults = commands = 0
    with tempfile.TemporaryDirectory() as scratch:
        shutil.copytree(os.path.join(ROOT, "examples", "model"), os.path.join(scratch, "model"))
        shutil.copy(os.path.join(ROOT, "tests", "import", "fixtures", "checkpoint.pt"), scratch)
        os.mkdir(os.path.join(scratch, ".bin"))
        os.symlink(tool, os.path.join(scratch, ".bin", "safetensors"))
        env = {
            "PATH": os.path.join(scratch, ".bin") + os.pathsep + os.environ["PATH"],
            "HOME": scratch,
            "LC_ALL": "C.UTF-8",
            "COLUMNS": "100",
        }
        new = text
        for block in blocks:
            rewritten = ""
            for command, want in steps(block.group(1)):
                run = subprocess.run(
                    ["sh", "-c", command],
                    cwd=scratch,
                    env=env,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    check=False,
                )
                got = run.stdout.decode("utf-8", "replace").rstrip("\n").split("\n")
                got = [] if got == [""] else got
                while want and want[-1] == "":
                    want.pop()
                commands += 1
                if not matches(want, got):
                    faults += 1
                    if not update:
                        print(
                            "$ %s\n--- README.md says\n%s\n--- the tool says\n%s"
                            % (command, "\n".join(want), "\n".join(got))
                        )
                keep = want if "..." in want else got
                rewritten += "$ %s\n" % command + "".join(line + "\n" for line in keep)
            new = new.replace(block.group(1), rewritten)
    if update:
        with open(README, "w", encoding="utf-8") as f:
            f.write(new)
        return 0
    print("%d commands, %d differ" % (commands, faults))
    return 1 if faults or commands < 8 else 0


if __name__ == "__main__":
    sys.exit(main())
