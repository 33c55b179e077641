#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""fixtures.py --tool TOOL [FOLDER] - files of the real writers (by default those that are checked in), converted; every
value compared with the SHA-256 that the make_*.py recorded beside them in *.json. Standard library only."""

import argparse
import hashlib
import json
import os
import pathlib
import struct
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent / "fixtures"


def read(path):
    data = path.read_bytes()
    n = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8 : 8 + n])
    metadata = header.pop("__metadata__", {})
    rows = {}
    for name, t in header.items():
        begin, end = t["data_offsets"]
        rows[name] = [t["dtype"], t["shape"], hashlib.sha256(data[8 + n + begin : 8 + n + end]).hexdigest()]
    return rows, metadata


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tool", required=True)
    parser.add_argument("folder", nargs="?", default=HERE, type=pathlib.Path)
    given = parser.parse_args()
    tool = os.path.abspath(given.tool)
    here = given.folder
    wanted = {}
    for listing in sorted(here.glob("*.json")):
        wanted.update(json.loads(listing.read_text(encoding="utf-8")))
    faults = compared = 0
    with tempfile.TemporaryDirectory() as folder:
        for name, want in wanted.items():
            if "refused" in want:
                none = pathlib.Path(folder) / "none.safetensors"
                r = subprocess.run([tool, "convert", here / name, "-o", none], capture_output=True, text=True)
                if r.returncode == 0 or want["refused"] not in r.stderr or none.exists():
                    print("FAULT", name, "is not refused:", r.stdout, r.stderr)
                    faults += 1
                r = subprocess.run([tool, "check", here / name], capture_output=True, text=True)
                if r.returncode != 1 or want["refused"] not in r.stdout + r.stderr:
                    print("FAULT check", name, "exits with", r.returncode, r.stdout, r.stderr)
                    faults += 1
                continue
            out = pathlib.Path(folder) / "out.safetensors"
            name, *extra = name.split(" ")  # a file, and options of the conversion
            r = subprocess.run(
                [tool, "convert", here / name, "-o", out, "-f", "-q", "--verify", *extra], capture_output=True
            )
            if r.returncode != 0:
                print("FAULT", name, r.stderr.decode())
                faults += 1
                continue
            have, metadata = read(out)
            for key, row in want.items():
                compared += 1
                if have.get(key, have.get(metadata.get(key))) != row:
                    print("FAULT", name, key, have.get(key), "want", row)
                    faults += 1
            for command in ("ls", "show", "hash", "check", *(["scan"] if not name.endswith(".json") else [])):
                more = extra if command != "scan" else ["--allow-unknown"]
                if subprocess.run([tool, command, here / name, *more], capture_output=True).returncode != 0:
                    print("FAULT", command, name)
                    faults += 1
            if subprocess.run(
                [tool, "diff", here / name, out, *extra], capture_output=True
            ).returncode not in (0, 1):
                print("FAULT diff", name)
                faults += 1
    print("%d tensors compared, %d faults" % (compared, faults))
    return 1 if faults or not compared else 0


if __name__ == "__main__":
    sys.exit(main())
