#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""check_readme.py TOOL [--cc CC LIBRARY] [--python PYTHON] [--update] - README.md and docs/tour.md do what they show.

In one scratch directory that holds a copy of examples/model and a PyTorch checkpoint:
  - of both pages, every block that opens with ```console is run line by line: each line that begins with "$ " is
    a shell command, the lines after it are what it must print (standard output and error together). A line "..."
    stands for any number of lines. --update writes what was printed into the page (blocks with "..." stay);
  - of README.md, every line of the ```sh block must end with exit status 0;
  - with --cc, README.md's ```c block is compiled against LIBRARY (libsafetensors.a) and must run;
  - with --python, its ```python block must run, and nothing else is looked at.
README.md must name "make demo" and "make test" within its first 60 lines. Prints each difference and exits 1.
Standard library only.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
README = os.path.join(ROOT, "README.md")
PAGES = (README, os.path.join(ROOT, "docs", "tour.md"))


def read(path):
    with open(path, encoding="utf-8") as f:
        return f.read()


def blocks(text, kind):
    return [m.group(1) for m in re.finditer(r"^```%s\n(.*?)^```$" % kind, text, re.S | re.M)]


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


class Scratch:
    def __init__(self, folder, tool):
        self.folder = folder
        shutil.copytree(os.path.join(ROOT, "examples", "model"), os.path.join(folder, "model"))
        shutil.copy(os.path.join(ROOT, "tests", "import", "fixtures", "checkpoint.pt"), folder)
        os.mkdir(os.path.join(folder, ".bin"))
        os.symlink(tool, os.path.join(folder, ".bin", "safetensors"))
        self.env = {
            "PATH": os.path.join(folder, ".bin") + os.pathsep + os.environ["PATH"],
            "HOME": folder,
            "LC_ALL": "C.UTF-8",
            "COLUMNS": "100",
        }

    def run(self, *command):
        """(exit status, what was printed)"""
        run = subprocess.run(
            command,
            cwd=self.folder,
            env=self.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
        )
        return run.returncode, run.stdout.decode("utf-8", "replace").rstrip("\n")

    def must(self, *command):
        """0 if the command ends with exit status 0, else 1 and what it said"""
        status, said = self.run(*command)
        if status != 0:
            print("exit status %d: %s\n%s" % (status, " ".join(command), said))
        return status != 0


def tour(page, scratch, update):
    """(commands, faults) of the ```console blocks of one page"""
    text = new = read(page)
    faults = commands = 0
    for block in blocks(text, "console"):
        rewritten = ""
        for command, want in steps(block):
            got = scratch.run("sh", "-c", command)[1].split("\n")
            got = [] if got == [""] else got
            while want and want[-1] == "":
                want.pop()
            commands += 1
            if not matches(want, got):
                faults += 1
                if not update:
                    print(
                        "$ %s\n--- %s says\n%s\n--- the tool says\n%s"
                        % (command, os.path.relpath(page, ROOT), "\n".join(want), "\n".join(got))
                    )
            keep = want if "..." in want else got
            rewritten += "$ %s\n" % command + "".join(line + "\n" for line in keep)
        new = new.replace(block, rewritten)
    if update:
        with open(page, "w", encoding="utf-8") as f:
            f.write(new)
    return commands, 0 if update else faults


def compiled(scratch, cc, library):
    """1 if README's C program does not compile or run"""
    source, program = os.path.join(scratch.folder, "readme.c"), os.path.join(scratch.folder, "readme")
    with open(source, "w", encoding="utf-8") as f:
        f.write(blocks(read(README), "c")[0])
    include = os.path.join(ROOT, "include")
    flags = ["-std=c11", "-Wall", "-Wextra", "-Werror", "-I" + include]
    return scratch.must(cc, *flags, source, library, "-pthread", "-lm", "-o", program) or scratch.must(
        program
    )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("tool")
    parser.add_argument("--cc", nargs=2, metavar=("CC", "LIBRARY"))
    parser.add_argument("--python")
    parser.add_argument("--update", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        scratch = Scratch(folder, os.path.abspath(options.tool))
        if options.python:
            return int(scratch.must(options.python, "-c", blocks(read(README), "python")[0]))
        commands = faults = 0
        for page in PAGES:
            counts = tour(page, scratch, options.update)
            commands, faults = commands + counts[0], faults + counts[1]
        for name in os.listdir(folder):
            if name.startswith(("one.", "shards", "rows.", "checkpoint.safetensors")):
                path = os.path.join(folder, name)
                (shutil.rmtree if os.path.isdir(path) else os.remove)(path)
        for line in blocks(read(README), "sh")[0].splitlines():
            commands += 1
            faults += scratch.must("sh", "-c", line)
        if options.cc:
            faults += compiled(scratch, *(os.path.abspath(p) if "/" in p else p for p in options.cc))
    head = read(README).split("\n")[:60]
    for command in ("make demo", "make test"):
        if not any(line.startswith(command) for line in head):
            print("README.md: no %s within the first 60 lines" % command)
            faults += 1
    print("%d commands, %d differ" % (commands, faults))
    return 1 if faults or commands < 16 else 0


if __name__ == "__main__":
    sys.exit(main())
