#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Is the strategy that AUTO chooses the right one?

matrix.py SFT_BENCH FOLDER [--mib N] [--reps N] [--threads N] [--json FILE]

Every strategy in every cell of {cold, warm} x {1 file, 64 files} x {whole, rows, columns}, interleaved;
medians, and AUTO against the best fixed one that it may choose. map is shown beside them: "whole" maps,
populates and copies nothing, the others copy out of the mapping, where a file cut short is a signal. Files are made in FOLDER, at least 60 MiB of space more than asked, and
removed.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys

STRATEGIES = ("auto", "read", "direct", "map")


class Server:
    def __init__(self, program: str) -> None:
        self.process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, *words: object) -> float:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write("\t".join(str(w) for w in words) + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            sys.exit("the benchmark program ended")
        return float(answer)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    parser.add_argument("folder")
    parser.add_argument("--mib", type=int, default=1024)
    parser.add_argument("--reps", type=int, default=5)
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--json")
    args = parser.parse_args()
    base = os.path.join(args.folder, f"sft-matrix-{os.getpid()}")
    server = Server(args.program)
    server.ask("prewarm", args.mib * 2)
    results = []
    try:
        for files in (1, 64):
            folder = os.path.join(base, str(files))
            os.makedirs(folder)
            tensors = 16 if files == 1 else 2
            rows = args.mib * 64 // (files * tensors)
            server.ask("matrix_make", folder, files, tensors, rows)
            for cache in ("cold", "warm"):
                for what in ("whole", "rows", "columns"):
                    times: dict[str, list[float]] = {s: [] for s in STRATEGIES}
                    for _ in range(args.reps):
                        for s in STRATEGIES:
                            times[s].append(server.ask("matrix", folder, cache, what, s, args.threads) / 1e6)
                    medians = {s: statistics.median(times[s]) for s in STRATEGIES}
                    best = min(medians["read"], medians["direct"])
                    ratio = medians["auto"] / best
                    results.append(
                        {
                            "files": files,
                            "cache": cache,
                            "what": what,
                            "milliseconds": times,
                            "auto_to_best": ratio,
                        }
                    )
                    print(
                        f"{files:3} files {cache} {what:8}"
                        + "".join(f" {s} {medians[s]:8.1f}" for s in STRATEGIES)
                        + f"  auto/best {ratio:.2f}"
                    )
                    sys.stdout.flush()
    finally:
        shutil.rmtree(base, ignore_errors=True)
    if args.json:
        with open(args.json, "w", encoding="utf-8") as f:
            json.dump({"mib": args.mib, "threads": args.threads, "cells": results}, f, indent=1)


if __name__ == "__main__":
    main()
