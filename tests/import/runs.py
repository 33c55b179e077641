# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What the tests of conversions have in common: runs of the tool, counts of what was checked, the main. Standard library only."""

import argparse
import collections
import os
import subprocess
import sys
import tempfile

CHECKS = collections.Counter()
TOOL = None


def run(*args, want=0):
    """want: its exit status, or None for any."""
    r = subprocess.run([TOOL, *map(str, args)], capture_output=True, text=True, timeout=300)
    CHECKS["runs"] += 1
    assert want in (None, r.returncode), (args, r.returncode, want, r.stdout, r.stderr)
    return r


def program(*checks):
    """Each check with a directory of its own."""
    global TOOL
    parser = argparse.ArgumentParser()
    parser.add_argument("--tool", required=True)
    TOOL = os.path.abspath(parser.parse_args().tool)
    for check in checks:
        with tempfile.TemporaryDirectory() as tmp:
            check(tmp)
    print(", ".join(f"{n} {what}" for what, n in CHECKS.items()), "- no faults")
    sys.exit(0)
