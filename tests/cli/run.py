#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""run.py - runs the golden cases of tests/cli; see README.md there. Standard library only.

usage: run.py --tool PATH [--update] [--jobs N] [THEME/CASE ...]
"""

import argparse
import concurrent.futures
import difflib
import os
import re
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
CONTROL = re.compile(rb"[\x00-\x09\x0b-\x1f\x7f]")
LONGEST = 300  # seconds of one run: many small processes on a busy machine
CONTROL_UTF8 = re.compile("[\u0080-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]")
VERSION = re.compile(rb"(safetensors )\d+\.\d+\.\d+")
COLOUR = re.compile(rb"\x1b\[[0-9;]*m")


def cases(wanted):
    for base, folders, names in os.walk(HERE):
        folders.sort()
        for name in sorted(names):
            if name.endswith(".sh") and base != HERE:
                case = os.path.relpath(os.path.join(base, name[:-3]), HERE)
                if not wanted or case in wanted or case.split(os.sep)[0] in wanted:
                    yield case


def read(path, otherwise=b""):
    try:
        with open(path, "rb") as f:
            return f.read()
    except FileNotFoundError:
        return otherwise


def write(path, data, otherwise=b""):
    if data == otherwise:
        if os.path.exists(path):
            os.remove(path)
        return
    with open(path, "wb") as f:
        f.write(data)


def run(case, tool, fixtures, scratch):
    """Returns (stdout, stderr, exit status as bytes, list of faults)."""
    script = os.path.join(HERE, case + ".sh")
    folder = os.path.join(scratch, case.replace(os.sep, "__"))
    shutil.copytree(fixtures, folder, symlinks=True)
    home = os.path.join(scratch, "bin")
    env = {
        "PATH": home + os.pathsep + os.environ.get("PATH", ""),
        "HOME": folder,
        "LC_ALL": "C.UTF-8",
        "TERM": "xterm",
        "PYTHONDONTWRITEBYTECODE": "1",
        "TESTS": HERE,
    }
    for name in (
        "SystemRoot",
        "ASAN_OPTIONS",
        "UBSAN_OPTIONS",
        "LD_LIBRARY_PATH",
        "PYENV_ROOT",
        "PYENV_VERSION",
    ):
        if name in os.environ:
            env[name] = os.environ[name]
    try:
        done = subprocess.run(
            ["sh", script],
            cwd=folder,
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=LONGEST,
        )
    except subprocess.TimeoutExpired:
        return b"", b"", b"timeout\n", ["took more than %d seconds" % LONGEST]
    faults = []
    text = read(script)
    for what, data in (("standard output", done.stdout), ("standard error", done.stderr)):
        if b"# allow: binary" in text:
            continue
        seen = COLOUR.sub(b"", data) if b"# allow: colour" in text else data
        if CONTROL.search(seen) or CONTROL_UTF8.search(seen.decode("utf-8", "replace")):
            faults.append("control or deceptive character on " + what)
    leftover = [n for n in os.listdir(folder) if ".tmp" in n]
    if leftover:
        faults.append("left behind: %s" % ", ".join(sorted(leftover)))
    places = sorted((folder.encode(), os.path.realpath(folder).encode()), key=len, reverse=True)
    out, err = done.stdout, done.stderr
    for place in places:
        out, err = out.replace(place, b"$DIR"), err.replace(place, b"$DIR")
    out = VERSION.sub(rb"\1$VERSION", out)
    shutil.rmtree(folder, ignore_errors=True)
    return out, err, b"%d\n" % done.returncode, faults


def show(name, wanted, got):
    old = wanted.decode("utf-8", "backslashreplace").splitlines()
    new = got.decode("utf-8", "backslashreplace").splitlines()
    for line in list(difflib.unified_diff(old, new, "expected " + name, "got " + name, lineterm=""))[:40]:
        print("    " + line)


def judge(case, result, update, quiet):
    out, err, status, faults = result
    base = os.path.join(HERE, case)
    parts = (("out", out, b""), ("err", err, b""), ("exit", status, b"0\n"))
    if update:
        for suffix, data, otherwise in parts:
            write(base + "." + suffix, data, otherwise)
    wrong = [(s, read(base + "." + s, o), d) for s, d, o in parts if read(base + "." + s, o) != d]
    if wrong or faults:
        print("FAIL " + case)
        for suffix, wanted, got in wrong[:0] if quiet else wrong:
            show(suffix, wanted, got)
        for fault in faults:
            print("    " + fault)
    return not wrong and not faults


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tool", required=True)
    parser.add_argument("--update", action="store_true")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("cases", nargs="*")
    args = parser.parse_args()
    todo = list(cases(args.cases))
    if not todo:
        print("no such case")
        return 1
    with tempfile.TemporaryDirectory() as scratch:
        fixtures = os.path.join(scratch, "fixtures")
        subprocess.run([sys.executable, os.path.join(HERE, "fixtures.py"), fixtures], check=True)
        os.mkdir(os.path.join(scratch, "bin"))
        os.symlink(os.path.abspath(args.tool), os.path.join(scratch, "bin", "safetensors"))
        os.symlink(sys.executable, os.path.join(scratch, "bin", "python3"))
        with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
            results = pool.map(lambda c: run(c, args.tool, fixtures, scratch), todo)
            good = []
            for case, result in zip(todo, results):  # many failures have one cause: show a few
                good.append(judge(case, result, args.update, good.count(False) >= 5))
    print("%d golden runs, %d failed" % (len(good), good.count(False)))
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
