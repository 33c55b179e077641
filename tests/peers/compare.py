# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The tool on one file, judged by what the file's own library says of it. Standard library only; for writers.py,
inventory.py and genuine.py."""

import collections
import hashlib
import json
import os
import pathlib
import re
import shutil
import struct
import subprocess
import time

KINDS = ("equal", "named", "refused", "MUTE", "SILENT", "WRONG")
GOOD = KINDS[:3]
# What a reader of safetensors says of bytes that it does not know: no sentence about the file.
MUTE = re.compile(
    r"header length is|header is not|longer than the file|too short for a header|invalid header|not a file of a known",
    re.I,
)
Verdict = collections.namedtuple("Verdict", "kind why tensors left_out")


def read(path):
    """{name: [dtype, shape, sha256]} of a safetensors file, and its metadata."""
    data = pathlib.Path(path).read_bytes()
    n = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8 : 8 + n])
    metadata = header.pop("__metadata__", {})
    found = {}
    for name, t in header.items():
        begin, end = t["data_offsets"]
        found[name] = [t["dtype"], t["shape"], hashlib.sha256(data[8 + n + begin : 8 + n + end]).hexdigest()]
    return found, metadata


class Tool:
    def __init__(self, path, work):
        self.path = os.path.abspath(path)
        self.work = pathlib.Path(work)
        self.slowest = (0.0, "")

    def run(self, *args, limit=120):
        """(exit status, standard output, standard error); -1: it took longer than the limit"""
        begun = time.monotonic()
        try:
            r = subprocess.run([self.path, *map(str, args)], capture_output=True, timeout=limit)
            status, out, err = (
                r.returncode,
                r.stdout.decode("utf-8", "replace"),
                r.stderr.decode("utf-8", "replace"),
            )
        except subprocess.TimeoutExpired:
            status, out, err = -1, "", "no answer within %d s" % limit
        self.slowest = max(self.slowest, (time.monotonic() - begun, " ".join(map(str, args))))
        return status, out, err

    def convert(self, path, options=()):
        """(exit status, tensors, metadata, report, standard error, files left behind)"""
        folder = self.work / "out"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        out = folder / "o.safetensors"
        status, text, err = self.run("convert", path, "-o", out, "--json", "--verify", "--no-sync", *options)
        tensors, metadata = ({}, {})
        report = {}
        if status == 0:
            report = json.loads(text.splitlines()[-1])
            for piece in sorted(folder.rglob("*.safetensors")):
                found, more = read(piece)
                tensors.update(found)
                metadata.update(more)
        return status, tensors, metadata, report, err, [p.name for p in folder.iterdir()] if status else []

    def scan(self, paths, *options):
        """[(path, verdict, findings)] of files, by one call for each hundred"""
        found = []
        paths = list(map(str, paths))
        for i in range(0, len(paths), 100):
            status, text, err = self.run("scan", "--json", *options, *paths[i : i + 100], limit=600)
            rows = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
            found += [(r["file"], r["verdict"], r["findings"]) for r in rows if "verdict" in r]
            if status not in (0, 1):
                found.append(
                    ("", "exit %d" % status, [{"rule": "", "subject": "", "message": err.strip()[-300:]}])
                )
        return found


def sentence(err):
    """The last thing that was said."""
    lines = [x for x in err.strip().splitlines() if x.strip()]
    said = [x for x in lines if "hint:" not in x and "warning:" not in x]
    return (said or lines or [""])[-1]


def names_of(report, err, path):
    """What a report lists as left out, and what standard error says, without the path of the file."""
    parts = report.get("left_out_parts", [])
    said = {str(part.get("subject", "")) for part in parts}
    text = err.replace(str(path), "") + "\n" + "\n".join(str(part.get("message", "")) for part in parts)
    return said, text


def is_named(name, said, text):
    if not name or name == "*":
        return bool(said)
    if any(s == name or s.startswith(name + ".") or s.endswith(("." + name, "/" + name)) for s in said):
        return True
    return re.search(r"(?<![\w'])%s(?![\w'])" % re.escape(name), text) is not None


def compare(want, have, metadata):
    """(wrong, missing, extra) names"""
    wrong, missing, taken = [], [], set()
    for name, answers in want.items():
        if name == "*":
            continue
        key = name if name in have else metadata.get(name)
        if key not in have:
            missing.append(name)
            continue
        taken.add(key)
        if have[key] not in answers:
            wrong.append("%s is %s, not %s" % (name, have[key][:2], [a[:2] for a in answers][:3]))
    rest = [k for k in have if k not in taken]
    if "*" in want:
        fits = [k for k in rest if have[k] in want["*"]]
        if fits:
            rest = [k for k in rest if k != fits[0]]
        elif rest:
            wrong.append("%s is %s, not %s" % (rest[0], have[rest[0]][:2], [a[:2] for a in want["*"]]))
            rest = rest[1:]
        else:
            missing.append("*")
    return wrong, missing, rest


def unlisted(entry, have):
    """Files whose library does not tell the names of their tensors: all values, in any order."""
    wrong = []
    if "values" in entry:
        got = sorted(row[2] for row in have.values())
        wrong += (
            []
            if got == sorted(entry["values"])
            else [
                "%d values, %d of the library's %d"
                % (len(got), len(set(got) & set(entry["values"])), len(entry["values"]))
            ]
        )
    return wrong


def judge(tool, path, entry):
    """entry: {"tensors": {name: rows}, "named": [...], "options": [...], "not_converted": why, "parts": [...]}"""
    status, have, metadata, report, err, left = tool.convert(path, entry.get("options", ()))
    if status != 0:
        said = sentence(err)
        if status == -1 or status < 0 or status >= 3:
            return Verdict("WRONG", "exit %d: %s" % (status, said), 0, 0)
        if left:
            return Verdict("WRONG", "refused, but left %s" % left, 0, 0)
        if not said:
            return Verdict("SILENT", "exit %d without a word" % status, 0, 0)
        return Verdict(
            "MUTE" if MUTE.search(said) and not entry.get("not_converted") else "refused", said, 0, 0
        )
    if entry.get("not_converted"):
        return Verdict(
            "WRONG", "converted, but it has %s: %s" % (entry["not_converted"], sorted(have)[:3]), 0, 0
        )
    said, text = names_of(report, err, path)
    wrong, missing, rest = compare(entry["tensors"], have, metadata)
    wrong += unlisted(entry, have)
    loose = [
        n
        for n in missing + list(entry.get("named", []))
        if not is_named(n, said, text) and n not in have and not any(k.startswith(n + ".") for k in have)
    ]
    parts = tuple(n + "." for n in list(entry["tensors"]) + list(entry.get("named", [])))
    extra = [k for k in rest if not k.startswith(parts) and k not in entry.get("named", ())]
    if wrong:
        return Verdict("WRONG", "; ".join(wrong[:3]), len(have), len(said))
    if report.get("tensors", len(have)) != len(have):
        return Verdict(
            "WRONG",
            "the report counts %s tensors, the file has %d" % (report["tensors"], len(have)),
            len(have),
            0,
        )
    if loose:
        return Verdict("SILENT", "neither there nor named: %s" % loose[:4], len(have), len(said))
    if extra and not entry.get("more"):
        return Verdict(
            "WRONG", "tensors that the library does not have: %s" % extra[:4], len(have), len(said)
        )
    kind = "named" if missing or entry.get("named") else "equal"
    return Verdict(kind, "; ".join(sorted(said))[:200], len(have), len(said))
