#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""recipes.py BUILD - the recipes of CONTRIBUTING.md work: each is followed word for word in a copy of src and include.

From every section "### Add ..." come the new files (```c blocks, named by their first comment) and the changes
(```diff blocks: "+++ path", then lines that are there, go, or come). What the changes concern is compiled with the
commands that ninja has for BUILD, linked in place of the old objects into a tool of its own, and that tool is tried.
Standard library only.
"""

import os
import pathlib
import re
import shlex
import shutil
import struct
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

ROOT = pathlib.Path(__file__).resolve().parents[2]
FIRST = re.compile(r"\A/\* SPDX[^\n]*\n \*\n \* (\S+\.[ch]) - ")


def recipes():
    """{title: [(kind, text)]} of CONTRIBUTING.md"""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    sections = re.findall(r"^### (Add [^\n]*)\n(.*?)(?=^###? |\Z)", text, re.S | re.M)
    return {t: re.findall(r"^```(c|diff)\n(.*?)^```$", body, re.S | re.M) for t, body in sections}


def change(tree, block):
    """Applies one ```diff block and returns the path of its file."""
    head, *lines = block.rstrip("\n").split("\n")
    path = tree / head.removeprefix("+++ ")
    old = "".join(line[1:] + "\n" for line in lines if line[0] in " -")
    new = "".join(line[1:] + "\n" for line in lines if line[0] in " +")
    text = path.read_text(encoding="utf-8")
    assert text.count(old) == 1, f"{head}: these lines are there {text.count(old)} times:\n{old}"
    path.write_text(text.replace(old, new), encoding="utf-8")
    return path


def follow(tree, steps):
    """Does what a recipe says; returns (changed paths, new paths)."""
    changed, new = set(), set()
    for kind, text in steps:
        if kind == "diff":
            changed.add(change(tree, text))
        else:
            path = tree / "src" / FIRST.match(text)[1]
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
            new.add(path)
    return changed, new


def commands(build):
    """({source: arguments of its compilation}, the tool's link) as ninja has them"""
    listed = subprocess.run(
        ["ninja", "-C", build, "-t", "commands", "safetensors"], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    compiles = {}
    for line in listed:
        words = line.split()
        if "-c" in words and words[-1].endswith(".c"):
            compiles[words[-1]] = shlex.split(line)
    link = shlex.split(listed[-1].split("&& ", 1)[1].rsplit(" && :", 1)[0])
    return compiles, link


def concerned(tree, changed, words):
    """The sources that a change of these files concerns: themselves, and whoever says one of the words."""
    out = {p for p in changed if p.suffix == ".c"}
    for path in (tree / "src").rglob("*.c"):
        if any(word in path.read_text(encoding="utf-8") for word in words):
            out.add(path)
    return sorted(out)


class Tree:
    """A copy of the sources, and how a tool is made of it and of what BUILD has."""

    def __init__(self, folder, build):
        self.path = pathlib.Path(folder)
        self.build = build
        self.compiles, self.link = commands(build)
        for name in ("src", "include"):
            shutil.copytree(ROOT / name, self.path / name)

    def compile(self, source):
        """Compiles one file as its namesake in BUILD is, or as a neighbour of its room; returns (old object, new)."""
        original = str(ROOT / source.relative_to(self.path))
        room = str(ROOT / "/".join(source.relative_to(self.path).parts[:2])) + os.sep
        known = original in self.compiles
        words = list(
            self.compiles[original if known else next(s for s in self.compiles if s.startswith(room))]
        )
        at = words.index("-o") + 1
        old = words[at] if known else None
        new = self.path / ("%s.o" % "_".join(source.relative_to(self.path).parts))
        words = [w.replace(f"-I{ROOT}/", f"-I{self.path}/") for w in words]
        words[at], words[-1] = str(new), str(source)
        for option in ("-MF", "-MT"):
            if option in words:
                del words[words.index(option) : words.index(option) + 2]
        words = [w for w in words if w not in ("-MD", "ccache")] + ["-O0", "-U_FORTIFY_SOURCE"]
        subprocess.run(words, cwd=self.build, check=True)
        return old, str(new)

    def make(self, sources):
        """The path of a tool in which these sources replace or join those of BUILD; src/cuda and src/mpi are in none."""
        sources = [s for s in sources if s.relative_to(self.path).parts[1] not in ("cuda", "mpi", "mpitool")]
        with ThreadPoolExecutor(2) as pool:
            objects = list(pool.map(self.compile, sources))
        replaced = {old: new for old, new in objects if old in self.link}
        link = [replaced.pop(word, word) for word in self.link]
        others = [new for _, new in objects if new not in link]
        tool = self.path / "safetensors"
        link[link.index("-o") + 1] = str(tool)
        at = link.index("-o")
        subprocess.run(link[:at] + others + link[at:], cwd=self.build, check=True)
        return str(tool)

    def says(self, *command):
        """What the command prints, without blanks; it must end with exit status 0."""
        run = subprocess.run(command, cwd=self.path, capture_output=True, text=True, check=False)
        assert run.returncode == 0, (command, run.returncode, run.stdout, run.stderr)
        return run.stdout.replace(" ", "")


def try_format(tree, steps):
    changed, new = follow(tree.path, steps)
    tool = tree.make(concerned(tree.path, changed | new, ["SFT_IMPORT_FORMAT_MAP"]))
    (tree.path / "toy.bin").write_bytes(b"TOYW" + struct.pack("<I3f", 3, 1, 2, 0.5))
    (tree.path / "short.bin").write_bytes(b"TOYW" + struct.pack("<I3f", 4, 1, 2, 0.5))
    assert "weights" in tree.says(tool, "ls", "toy.bin")
    tree.says(tool, "convert", "toy.bin", "-o", "toy.safetensors")
    assert "[1.0,2.0,0.5]" in tree.says(tool, "show", "--no-stats", "toy.safetensors", "weights[:]")
    assert "toy.bin:harmless(toyweights)" in tree.says(tool, "scan", "toy.bin")
    short = subprocess.run(
        [tool, "ls", "short.bin"], cwd=tree.path, capture_output=True, text=True, check=False
    )
    assert short.returncode == 1 and "toy-count" in short.stderr, short


def try_dtype(tree, steps):
    changed, _ = follow(tree.path, steps)
    script = ROOT / "scripts" / "generate_dtype_slots.py"
    before = (tree.path / "src/format/dtype.c").read_text()
    subprocess.run([sys.executable, script, tree.path], check=True)
    assert (tree.path / "src/format/dtype.c").read_text() != before
    words = ["SFT_DTYPE_COUNT", "SFT_DTYPE_MAP", "sft__format_dtype_bits_of"]
    tool = tree.make(concerned(tree.path, changed, words))
    header = b'{"t":{"dtype":"T8","shape":[3],"data_offsets":[0,3]}}'
    header += b" " * (-len(header) % 8)
    (tree.path / "t8.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + b"\1\2\xff")
    assert "T8" in tree.says(tool, "ls", "t8.safetensors")
    assert "[1,2,255]" in tree.says(tool, "show", "--no-stats", "t8.safetensors", "t[:]")
    tree.says(tool, "get", "t8.safetensors", "t", "-o", "t.npy", "--dtype", "F32")
    assert (tree.path / "t.npy").read_bytes().endswith(struct.pack("<3f", 1, 2, 255))
    names = re.findall(r'X\(SFT_\w+, \d+, "(\w+)"', (tree.path / "include/sft/dtype.h").read_text())
    assert len(names) >= 23
    for name in names:  # each is still found
        tree.says(tool, "mem", "--dtype", name, "t8.safetensors")


def try_command(tree, steps):
    changed, new = follow(tree.path, steps)
    tool = tree.make(concerned(tree.path, changed | new, []))
    model = ROOT / "examples" / "model"
    assert tree.says(tool, "count", str(model)) == "29\n"
    assert "count" in tree.says(tool, "help") and "Onlyheadersareread" in tree.says(tool, "count", "--help")
    assert "count" in tree.says(tool, "completion", "bash")


TRIED = {"Add a format": try_format, "Add a dtype": try_dtype, "Add a command": try_command}


def main():
    build = os.path.abspath(sys.argv[1])
    found = recipes()
    assert set(found) == set(TRIED), sorted(found)
    for title, steps in found.items():
        with tempfile.TemporaryDirectory() as folder:
            TRIED[title](Tree(os.path.realpath(folder), build), steps)
        print("%s: works" % title)


if __name__ == "__main__":
    main()
