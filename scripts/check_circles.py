#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""check_circles.py BUILD - the files of a room call each other in one direction. Standard library and nm only.

A source file leans on another one of its room if its object needs a symbol that the other object defines. Files
that lean on each other in a ring can only be read together: such a circle is a fault, unless it lies where KNOWN
says. KNOWN may only shrink: a place in it that has no circle any more is a fault too.

Prints every fault (with --all, every circle) and exits 1; exits 0 with a count otherwise. `--self-test` proves that it
finds them.
"""

import os
import re
import subprocess
import sys
from collections import defaultdict

# Where circles remain: beginnings of paths below src.
KNOWN = "catalog/ cli/ import/ io/ move/kernels/convert move/load/ remote/".split()


def circles(needs):
    """The strongly connected components of more than one node (Tarjan, without recursion)."""
    order, low, on, stack, found = {}, {}, set(), [], []
    for start in sorted(needs):
        work = [(start, iter(sorted(needs[start])))] if start not in order else []
        while work:
            node, rest = work[-1]
            if node not in order:
                order[node] = low[node] = len(order)
                stack.append(node)
                on.add(node)
            for other in rest:
                if other not in order:
                    work.append((other, iter(sorted(needs.get(other, ())))))
                    break
                if other in on:
                    low[node] = min(low[node], order[other])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == order[node]:
                    ring = []
                    while not ring or ring[-1] != node:
                        ring.append(stack.pop())
                        on.discard(ring[-1])
                    if len(ring) > 1:
                        found.append(" ".join(sorted(ring)))
    return sorted(found)


def leanings(objects):
    """objects: (file, symbols defined, symbols needed); the files of its own room that each file needs."""
    home = {symbol: path for path, defined, _ in objects for symbol in defined}
    needs = defaultdict(set)
    for path, _, needed in objects:
        for symbol in needed:
            other = home.get(symbol)
            if other and other != path and other.split("/")[0] == path.split("/")[0]:
                needs[path].add(other)
                needs.setdefault(other, set())
    return needs


def read(root, build):
    paths = {}
    for base, _, names in os.walk(build):
        for name in names:
            path = os.path.join(base, name).replace(os.sep, "/")
            if "/src/" in path and re.search(r"\.c\.o(bj)?$", name):
                file = re.sub(r"\.c\.o(bj)?$", "", path[path.rindex("/src/") + 5 :])
                if os.path.exists(os.path.join(root, "src", file + ".c")):  # else an older build left it
                    paths[path] = file
    objects = {file: (set(), set()) for file in paths.values()}
    if paths:
        shown = subprocess.run(["nm", "-g", "-A", *paths], capture_output=True, text=True, check=True).stdout
        for line in shown.splitlines():
            path, words = line.rsplit(":", 1)
            words = words.split()
            objects[paths[path]][words[-2] == "U"].add(words[-1])
    return [(file, *symbols) for file, symbols in objects.items()]


def verdict(found, known):
    faults, seen = [], set()
    for ring in found:
        where = {next((k for k in known if file.startswith(k)), None) for file in ring.split()}
        seen |= where
        if None in where:
            faults.append("these files call each other in a ring: " + ring)
    faults += ["no circle is left in %s: take it out of KNOWN" % k for k in known if k not in seen]
    return faults


def self_test():
    objects = [
        ("io/a", {"a"}, {"b", "memcpy"}),
        ("io/b", {"b"}, {"c"}),
        ("io/c", {"c"}, {"a", "d"}),
        ("io/d", {"d"}, {"e"}),
        ("move/e", {"e"}, {"a"}),
        ("fs/f", {"f"}, {"g"}),
        ("fs/g", {"g"}, {"f"}),
    ]
    found = circles(leanings(objects))
    assert found == ["fs/f fs/g", "io/a io/b io/c"], found
    assert verdict(found, ["fs/", "io/"]) == []
    assert verdict(found, ["fs/"]) == ["these files call each other in a ring: io/a io/b io/c"]
    assert verdict(found, ["fs/", "io/", "move/"]) == ["no circle is left in move/: take it out of KNOWN"]
    print("check_circles: self-test passed")
    return 0


def main():
    if "--self-test" in sys.argv:
        return self_test()
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    objects = read(root, sys.argv[1])
    found = circles(leanings(objects))
    faults = verdict(found, KNOWN)
    if not objects:
        faults.append("no objects below %s" % sys.argv[1])
    for fault in found if "--all" in sys.argv else faults:
        print(fault)
    print("%d objects, %d circles, %d faults" % (len(objects), len(found), len(faults)))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
