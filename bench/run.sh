#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# run.sh [quick|full] - the benchmark table and its JSON (build/bench/results.json). Needs a finished build
# and the Python environment of scripts/venv.sh. BENCH_DIR: where the files go (default build/bench; it
# wants 4 GiB of room on the disk that is to be measured).
set -eu
cd "$(dirname "$0")/.."
build=${BUILD:-build}
exec build/venv/bin/python bench/run.py --build "$build" --dir "${BENCH_DIR:-$build/bench}" \
    --mode "${1:-default}"
