#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""reference.py FILE... - compares the verdicts of the conformance cases with safetensors 0.8.0.

The reference must agree with each case's `want`, or with its `reference` line where there is one. Cases
with `strict` or `limit` are compared only if they have that line.
"""

import sys

import safetensors
from read_cases import cases


def main():
    compared = faults = 0
    for path in sys.argv[1:]:
        for case in cases(path):
            if case["ours"] and "reference" not in case:
                continue
            try:
                safetensors.deserialize(case["file"])
                accepts, why = True, ""
            except safetensors.SafetensorError as e:
                accepts, why = False, str(e)
            compared += 1
            if accepts != case.get("reference", case["want"]):
                faults += 1
                print(
                    f"{path}:{case['line']}: {case['name']}: reference {'accepts' if accepts else 'rejects'} {why}"
                )
    print(f"{compared} verdicts compared with safetensors {safetensors.__version__}, {faults} differ")
    return 1 if faults or not compared else 0


if __name__ == "__main__":
    sys.exit(main())
