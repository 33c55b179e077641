# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The cases of the tests that ask scan: each is (name of the file, bytes, verdict, rule that must be among the findings or
None, rule that must not be), made by case() and run by program(). Bounds of each: 2 seconds of processor time, 256 MiB.
A case with cut=True is also cut at every byte. Standard library only."""

import argparse
import json
import os
import pathlib
import resource
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from scratch import in_memory, launch  # noqa: E402

in_memory()
D, U, H = "dangerous", "unknown", "harmless"
SANITIZED = os.environ.get("SFT_SANITIZED") == "1"
LIMIT_SECONDS = 2.0 if not SANITIZED else 60.0
LIMIT_BYTES = 256 << 20
CASES = []
CUT = {}


def case(name, data, verdict, rule=None, cut=False, without=None):
    data = data if isinstance(data, bytes) else data.encode()
    CASES.append((name, data, verdict, rule, without))
    if cut:
        CUT[name] = data


def js(value):
    return json.dumps(value).encode()


def scan(tool, *paths):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    most = None if SANITIZED else LIMIT_BYTES + (256 << 20)
    command = [tool, "scan", "-v", "--json", *map(str, paths)]
    p = launch(most, command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        out, err = p.communicate(timeout=300)
    except subprocess.TimeoutExpired:  # its status says that it was killed
        p.kill()
        out, err = p.communicate()
    run = subprocess.CompletedProcess(p.args, p.returncode, out, err)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = (
        after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    )  # whatever else the machine does
    results = [json.loads(line) for line in run.stdout.splitlines()]
    return run, results, seconds


def check_cases(tool, work, keep):
    bad = 0
    for i, (name, data, verdict, rule, without) in enumerate(CASES):
        path = work / f"case{i:04}" / name
        path.parent.mkdir(parents=True)
        path.write_bytes(data)
        run, results, seconds = scan(tool, path)
        for _ in range(4):  # a busy machine's seconds are long: the least of them counts
            if seconds > LIMIT_SECONDS:
                seconds = min(seconds, scan(tool, path)[2])
        got = (
            results[0]
            if results
            else {"verdict": f"status {run.returncode}: {run.stderr.decode()}", "findings": []}
        )
        rules = {f["rule"] for f in got["findings"]}
        if got["verdict"] == H and got["format"] == "unknown":
            bad += 1
            print(f"{path}: harmless, but nothing says what it is", file=sys.stderr)
        right = (
            got["verdict"] == verdict
            or (verdict == "not-dangerous" and got["verdict"] in (H, U))
            or (verdict == "not-harmless" and got["verdict"] in (U, D))
        )
        status = {H: 0}.get(got["verdict"], 1)
        if (
            not right
            or (rule is not None and rule not in rules)
            or without in rules
            or run.returncode != status
            or seconds > LIMIT_SECONDS
        ):
            bad += 1
            print(
                f"{path}: {got['verdict']} {sorted(rules)}, status {run.returncode}, {seconds:.2f} s; expected "
                f"{verdict} {rule}",
                file=sys.stderr,
            )
        if keep is None:
            shutil.rmtree(path.parent)
    return bad


def check_cuts(tool, work):
    """No cut crashes the tool, and none of a file that acts is harmless once what acts is whole."""
    bad = 0
    for name, data in CUT.items():
        folder = work / "cuts"
        folder.mkdir()
        paths = []
        for n in range(min(len(data), 3000)):
            path = folder / f"{n:04}-{name}"
            path.write_bytes(data[:n])
            paths.append(path)
        for at in range(0, len(paths), 250):
            part = paths[at : at + 250]
            run, results, _ = scan(tool, *part)
            if run.returncode not in (0, 1) or len(results) != len(part):
                bad += 1
                print(
                    f"{name} cut at {at} to {at + len(part)}: status {run.returncode}, {len(results)} results",
                    file=sys.stderr,
                )
        shutil.rmtree(folder)
    return bad


def program(makers, *checks):
    """The main of a test: the cases of all makers, the cuts, then each check(tool, work), which returns its faults."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--tool", required=True)
    parser.add_argument("--keep")
    args = parser.parse_args()
    for make in makers:
        make()
    work = pathlib.Path(args.keep or tempfile.mkdtemp(prefix="sft-scan-"))
    work.mkdir(parents=True, exist_ok=True)
    try:
        bad = check_cases(args.tool, work, args.keep) + check_cuts(args.tool, work)
        bad += sum(check(args.tool, work) for check in checks)
    finally:
        if args.keep is None:
            shutil.rmtree(work)
    print(f"{len(CASES)} cases, {sum(min(len(d), 3000) for d in CUT.values())} cuts, {bad} faults")
    return bad != 0
