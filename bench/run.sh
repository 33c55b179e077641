#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# run.sh [quick|full] [OPTION...] - the benchmark table, its JSON (build/bench/results.json) and the README's chart
# (build/bench/chart.svg; docs/chart.svg is a copy). Needs a finished build and the Python environment of
# scripts/venv.sh (or SFT_PEERS_PYTHON); installs the peers by bench/peers.sh. BENCH_DIR: where the files go (default
# build/bench; it wants 14 GiB of room on the disk that is to be measured, the full mode 45). Options are those of
# bench/run.py: --only W4,W6, --budget 25m, --keep.
set -eu
cd "$(dirname "$0")/.."
build=${BUILD:-build}
python=${SFT_PEERS_PYTHON:-build/venv/bin/python}
mode=default
case ${1:-} in
    quick | default | full)
        mode=$1
        shift
        ;;
esac
bench/peers.sh "$python" "$build"
exec "$python" bench/run.py --build "$build" --dir "${BENCH_DIR:-$build/bench}" --mode "$mode" "$@"
