# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The cases of the tests that ask scan and ls: each is (name, bytes, verdict of scan, word that the loader's error must hold or
None if it loads, arguments of ls), made by case() and run by program(). Bounds: 2 seconds and 256 MiB of address space beyond
the tool's own, one case at a time; nothing may be opened but the file, nothing written. Standard library only."""

import argparse
import json
import os
import pathlib
import re
import resource
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from scratch import in_memory, launch  # noqa: E402

in_memory()
D, U, H = "dangerous", "unknown", "harmless"
ANY = "*"
CASES = []
SANITIZED = (
    os.environ.get("SFT_SANITIZED") == "1"
)  # a tool under ASan: no limit of address space, and it is slow
LIMIT_SECONDS = 2.0 if not SANITIZED else 60.0
LIMIT_BYTES = 256 << 20


def case(name, data, verdict, error, *args):
    CASES.append((name, data, verdict, error, args))


# ---------------------------------------------------------------- running them


class Run:
    def __init__(self, tool, args, folder, again=4):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        most = None if SANITIZED else LIMIT_BYTES + (64 << 20)
        p = launch(most, [tool, *args], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        try:
            self.out, self.err = p.communicate(timeout=300)
        except subprocess.TimeoutExpired:
            p.kill()
            self.out, self.err = p.communicate()
        after = resource.getrusage(
            resource.RUSAGE_CHILDREN
        )  # the processor's time: whatever else the machine does
        self.seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        self.status = p.returncode
        if (
            self.seconds > LIMIT_SECONDS and args[0] in ("ls", "scan") and again > 0
        ):  # a busy machine adds to it
            self.seconds = min(self.seconds, Run(tool, args, folder, again - 1).seconds)


def check_case(tool, folder, item, faults, slow):
    name, data, verdict, error, args = item
    path = folder / "case.pt"
    path.write_bytes(data)
    scan = Run(tool, ["scan", "--json", "case.pt"], folder)
    load = Run(tool, ["ls", *args, "case.pt"], folder)
    got = "?"
    if scan.status not in (0, 1):
        faults.append("%s: scan exits with %d: %s" % (name, scan.status, scan.err[:200]))
    else:
        got = json.loads(scan.out)["verdict"]
        if verdict not in (ANY, got):
            faults.append("%s: scan says %s, not %s: %s" % (name, got, verdict, scan.out[:300]))
        if (got != H) != (scan.status == 1):
            faults.append("%s: %s, but exit status %d" % (name, got, scan.status))
    message = load.err.decode("utf-8", "replace").strip()
    places = [int(n) for n in re.findall(r"at byte (\d+)", message + scan.out.decode("utf-8", "replace"))]
    if got != "?":
        places += [f["offset"] for f in json.loads(scan.out)["findings"] if f.get("offset") is not None]
    if max(places, default=0) >= 1 << 63:  # below zero
        faults.append("%s: the place named is %d" % (name, max(places)))
    if error is None and load.status != 0:
        faults.append("%s: does not load: %s" % (name, message))
    elif error not in (None, "+") and (load.status not in (1, 3) or (error != ANY and error not in message)):
        faults.append("%s: load exits with %d, %r is not in %r" % (name, load.status, error, message[:200]))
    elif load.status not in (0, 1, 3) or load.status < 0:
        faults.append("%s: load exits with %d: %s" % (name, load.status, message))
    seconds = max(scan.seconds, load.seconds)
    slow.append((seconds, name))
    if seconds > LIMIT_SECONDS:
        faults.append("%s: %.1f seconds" % (name, seconds))
    left = set(os.listdir(folder)) - {"case.pt"}
    if left:
        faults.append("%s: left behind: %s" % (name, sorted(left)))
    return "%-42s scan %-9s  ls %d  %4.0f ms  %s" % (
        name[:42],
        got,
        load.status,
        seconds * 1000,
        message.split("\n")[0][-110:],
    )


def truncations(tool, folder, faults, sources, whole=()):
    """Every file cut at every byte, many files a run: each is refused with a sentence, none is taken. whole: (name,
    length) of what is a file again."""
    total = 0
    for name, data in sources.items():
        for start in range(0, len(data), 500):
            names = []
            for cut in range(start, min(len(data), start + 500)):
                p = folder / ("cut-%d.pt" % cut)
                p.write_bytes(data[:cut])
                names.append(p.name)
            for command in ("scan", "check"):
                r = Run(tool, [command, "--json", *names], folder)
                rows = [json.loads(line) for line in r.out.decode().splitlines()]
                if r.status not in (0, 1) or len(rows) != len(names):
                    faults.append(
                        "%s cut: %s exits with %d, %d answers: %s"
                        % (name, command, r.status, len(rows), r.err[-300:])
                    )
                for cut, row in zip(names, rows):
                    # zeros at the end of a tar may be missing
                    if (
                        command == "check"
                        and row["valid"]
                        and not (name == "tar" or "tar" in name)
                        and (name, int(cut[4:-3])) not in whole
                    ):
                        faults.append("%s: %s is taken" % (name, cut))
            total += len(names)
            for n in names:
                os.unlink(folder / n)
    return total


def save_seed(folder, name, data, longest):
    """A case as a seed of a fuzz target, if it is short."""
    folder.mkdir(parents=True, exist_ok=True)
    if len(data) <= longest:
        (folder / re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")).write_bytes(data)


def program(makers, corpus, cut, more=None):
    """The main of a test of one format: the cases of all makers, or corpus(folder) of them; then cut(tool, folder, faults) and
    more(tool, faults), which give the count of what they tried."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--tool")
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--corpus", type=pathlib.Path)
    args = parser.parse_args()
    for make in makers:
        make()
    if args.corpus:
        corpus(args.corpus)
        return 0
    tool = os.path.abspath(args.tool)
    faults, slow = [], []
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for item in CASES:
            line = check_case(tool, folder, item, faults, slow)
            if args.table:
                print(line)
        os.unlink(folder / "case.pt")
        cuts = cut(tool, folder, faults)
    others = more(tool, faults) if more else 0
    for f in faults:
        print("FAULT", f)
    print(
        "%d cases, %d cuts and changes, slowest %.2f s (%s), %d faults"
        % (len(CASES) + others, cuts, *max(slow), len(faults))
    )
    return 1 if faults else 0
