#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""scanner_corpora.py --tool TOOL [--build DIR] - what other scanners of pickles know, as far as their packages hold it:
picklescan, fickling, modelscan, modelaudit (requirements-corpora.txt). pip downloads their source packages into the
build directory. They are read as data: sources through ast, samples as bytes; nothing of them is imported, run or unpickled.

samples: files of their tests; what is malicious, their paths say. streams: literal bytes of their tests that name something
dangerous, by pickletools.genops. names: every module and name of their lists, as eighteen forms of a pickle written here. None of
these may be called harmless. Prints the table; exit 1 if one is."""

import argparse
import ast
import collections
import pathlib
import pickletools
import re
import subprocess
import sys
import tarfile
import tempfile

import streams
from compare import Tool

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
MALICIOUS = re.compile(
    r"malicious|attack|exploit|evil|bypass|injection|decode_exec|nested_pickle|simple_nested|obfuscated|dill_func|"
    r"path_traversal"
)
BENIGN = re.compile(
    r"/safe_|benign|model_card|/edge_cases/|model_weights|agpl_model|mixed_model|embeddings\.npy"
)
# Samples whose path says malicious and that a loader runs nothing of, each with the reason.
DISPUTED = {
    "tests/assets/scenarios/security_scenarios/mixed_malicious_model/config.json": "an address in a text, which no loader calls",
    "tests/assets/samples/safetensors/malicious_import.safetensors": "a text in the metadata, which no loader runs",
    "tests/assets/samples/pickles/simple_nested.pkl": "the pickle inside names nothing",
}
LISTS = re.compile(
    r"unsafe_globals|SUSPICIOUS_GLOBALS|UNSAFE_IMPORTS|DANGEROUS_IMPORTS|_DANGEROUS_FUNCTION_EXPORT_ALIASES|"
    r"DANGEROUS_BUILTINS",
    re.I,
)
# Names on a list of theirs that are known to run nothing (as rebuilding functions of arrays and tensors), each with the reason.
SPARED = {}


def download(build):
    folder = build / "corpora"
    wanted = [x.split("#")[0].strip() for x in (HERE / "requirements-corpora.txt").read_text().splitlines()]
    found = []
    for name in filter(None, wanted):
        path = folder / (name.replace("==", "-") + ".tar.gz")
        if not path.exists():
            subprocess.run(
                [
                    sys.executable,
                    "-m",
                    "pip",
                    "download",
                    "--quiet",
                    "--disable-pip-version-check",
                    "--no-deps",
                    "--no-binary",
                    ":all:",
                    "--dest",
                    str(folder),
                    name,
                ],
                check=True,
            )
        found.append(path)
    return found


def members(path):
    """(name, bytes) of regular files; the archive is never unpacked."""
    with tarfile.open(path) as t:
        for m in t:
            if m.isfile() and m.size < 32 << 20:
                yield m.name.split("/", 1)[-1], t.extractfile(m).read()


def texts(node):
    """The constant texts of a list, set, tuple or a call around one."""
    if isinstance(node, ast.Constant):
        return [node.value] if isinstance(node.value, str) else []
    if isinstance(node, (ast.List, ast.Set, ast.Tuple)):
        return [t for e in node.elts for t in texts(e)]
    if isinstance(node, ast.Call):
        return [t for e in node.args for t in texts(e)]
    return []


def table(node, found):
    """{module: "*" or names}, or a set of modules and dotted names"""
    if isinstance(node, ast.Dict):
        for key, value in zip(node.keys, node.values):
            if not isinstance(key, ast.Constant) or not isinstance(key.value, str):
                continue
            if isinstance(value, ast.Dict):  # by severity, or module: {...}
                table(value, found)
                continue
            names = texts(value)
            if all(re.fullmatch(r"\*|[\w.]+", n) for n in names):
                found.update((key.value, "anything" if n == "*" else n) for n in names)
            else:  # a module and a sentence about it
                found.add((key.value, "anything"))
        return
    for text in texts(node):
        module, _, name = text.rpartition(".")
        found.add((module, name) if module and text[0].islower() and name else (text, "anything"))


def constant_bytes(node):
    """A literal, or a sum of literals."""
    if isinstance(node, ast.Constant) and isinstance(node.value, bytes):
        return node.value
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        left, right = constant_bytes(node.left), constant_bytes(node.right)
        return left + right if left is not None and right is not None else None
    return None


def read_source(text, names, literals):
    innocent = set()
    named = set()
    for node in ast.walk(ast.parse(text)):
        data = constant_bytes(node)
        if data is not None:
            literals.add(data)
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if any(LISTS.search(getattr(t, "id", "")) for t in targets):
                table(node.value, named)
        if isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values):
                if isinstance(key, ast.Constant) and key.value == "unsafe_globals":
                    table(value, named)
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Global" and len(node.args) == 3:
            pair = tuple(a.value for a in node.args[:2] if isinstance(a, ast.Constant))
            level = getattr(node.args[2], "attr", "")
            if len(pair) == 2:
                (named if level == "Dangerous" else innocent).add(pair)
    names |= named - innocent


def names_in(data):
    """The names of a stream, by pickletools, which executes nothing."""
    found, strings = set(), []
    try:
        for op, argument, _ in pickletools.genops(data):
            if isinstance(argument, str):
                strings.append(argument)
            if op.name in ("GLOBAL", "INST"):
                found.add(tuple(argument.split(" ", 1)))
            elif op.name == "STACK_GLOBAL" and len(strings) > 1:
                found.add((strings[-2], strings[-1]))
    except Exception:
        pass
    return found


def corpus(path):
    """(samples, names, literal streams) of one source package"""
    samples, names, literals = [], set(), set()
    for name, data in members(path):
        if name.endswith(".py"):
            try:
                read_source(data.decode("utf-8"), names, literals)
            except (SyntaxError, UnicodeDecodeError):
                continue
        elif "/assets/" in name and not name.endswith((".md", ".txt")):
            samples.append((name, data))
    return samples, {p for p in names if p not in SPARED and all(p)}, literals


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tool", required=True)
    parser.add_argument("--build", default=ROOT / "build", type=pathlib.Path)
    parser.add_argument("--verbose", action="store_true")
    given = parser.parse_args()
    rows, harmless, alarms = [], [], []
    packages = {path.name[: -len(".tar.gz")]: corpus(path) for path in download(given.build)}
    everything = set().union(*(names for _, names, _ in packages.values()))
    with tempfile.TemporaryDirectory(dir=given.build) as scratch:
        tool = Tool(given.tool, scratch)
        for package, (samples, names, literals) in packages.items():
            cases = {
                "samples": [],
                "samples, benign": [],
                "samples, not judged": [],
                "streams": [],
                "names": [],
            }
            for name, data in samples:
                kind = (
                    "samples"
                    if MALICIOUS.search(name) and name not in DISPUTED
                    else "samples, benign"
                    if BENIGN.search(name)
                    else "samples, not judged"
                )
                cases[kind].append((name, data, pathlib.PurePath(name).suffix))
            for data in literals:
                if names_in(data) & everything:
                    cases["streams"].append((repr(data)[:70], data, ".pkl"))
            for module, name in sorted(names):
                cases["names"] += [
                    ("%s.%s, %s" % (module, name, form), make(module, name), ".pkl")
                    for form, make in streams.FORMS.items()
                ]
            for kind, listed in cases.items():
                if not listed:
                    continue
                folder = pathlib.Path(scratch) / package / kind.replace(", ", "-").replace(" ", "-")
                folder.mkdir(parents=True)
                paths = {}
                for i, (label, data, suffix) in enumerate(listed):
                    path = folder / ("%05d%s" % (i, suffix))
                    path.write_bytes(data)
                    paths[str(path)] = label
                counts = collections.Counter()
                for file, verdict, findings in tool.scan(paths):
                    counts[verdict] += 1
                    label = paths.get(file, file)
                    worst = [f for f in findings if f["verdict"] == verdict]
                    if verdict == "harmless" and kind in ("samples", "streams", "names"):
                        harmless.append("%s %s: %s" % (package, kind, label))
                    if verdict != "harmless" and kind == "samples, benign":
                        alarms.append(
                            "%s: %s is %s: %s"
                            % (
                                package,
                                label,
                                verdict,
                                ["%s %s" % (f["rule"], f["subject"]) for f in worst][:3],
                            )
                        )
                    if given.verbose and kind.startswith("samples"):
                        print(
                            "  %-9s %s %s"
                            % (verdict, label, [(f["rule"], f["subject"][:40]) for f in worst][:3])
                        )
                if sum(counts.values()) != len(listed):
                    harmless.append(
                        "%s %s: %d files have no verdict"
                        % (package, kind, len(listed) - sum(counts.values()))
                    )
                rows.append((package, kind, len(listed), counts))
    for text in harmless:
        print("HARMLESS", text)
    for text in alarms:
        print("ALARM", text)
    print("%-20s %-20s %7s %10s %8s %9s" % ("package", "what", "files", "dangerous", "unknown", "harmless"))
    for package, kind, count, counts in rows:
        print(
            "%-20s %-20s %7d %10d %8d %9d"
            % (package, kind, count, counts["dangerous"], counts["unknown"], counts["harmless"])
        )
    bad = sum(count for _, kind, count, _ in rows if kind in ("samples", "streams", "names"))
    print(
        "scanner_corpora: %d malicious inputs, %d called harmless; %d false alarms"
        % (bad, len(harmless), len(alarms))
    )
    return 1 if harmless or not bad else 0


if __name__ == "__main__":
    sys.exit(main())
