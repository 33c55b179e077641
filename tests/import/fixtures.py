#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""fixtures.py --tool TOOL - the checked-in files of the real writers, converted; every value compared with the SHA-256
that make_fixtures.py recorded. Standard library only."""
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
    tool = os.path.abspath(parser.parse_args().tool)
    faults = compared = 0
    with tempfile.TemporaryDirectory() as folder:
        for name, want in json.loads((HERE / "fixtures.json").read_text()).items():
            out = pathlib.Path(folder) / "out.safetensors"
            r = subprocess.run([tool, "convert", HERE / name, "-o", out, "-f", "-q", "--verify"], capture_output=True)
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
            for command in ("ls", "show", "hash", "check", "scan"):
                if subprocess.run([tool, command, HERE / name], capture_output=True).returncode != 0:
                    print("FAULT", command, name)
                    faults += 1
            if subprocess.run([tool, "diff", HERE / name, out], capture_output=True).returncode not in (0, 1):
                print("FAULT diff", name)
                faults += 1
    print("%d tensors compared, %d faults" % (compared, faults))
    return 1 if faults or not compared else 0


if __name__ == "__main__":
    sys.exit(main())
