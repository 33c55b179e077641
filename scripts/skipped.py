#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""skipped.py JUNIT - the tests that a ctest run skipped, each with the last line it printed, which says why.

JUNIT is what `ctest --output-junit` wrote: on the terminal ctest names such tests only. Standard library only.
"""

import sys
import xml.etree.ElementTree as tree

for case in tree.parse(sys.argv[1]).getroot().iter("testcase"):
    if case.find("skipped") is not None or case.get("status") in ("notrun", "disabled"):
        lines = [line.strip() for line in (case.findtext("system-out") or "").splitlines() if line.strip()]
        print("%s: %s" % (case.get("name"), lines[-1] if lines else "it gives no reason"))
