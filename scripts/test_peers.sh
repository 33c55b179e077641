#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# test_peers.sh - the comparisons with the reference package at length, with inputs that are new on every
# run (seed 0), after those of `make test`. SCALE (default 10): how many times the usual number.
# Ends with "N passed, N failed"; inputs in dispute are kept in build/peers-failures.
set -u
cd "$(dirname "$0")/.." || exit 4
build=${BUILD:-build}
scale=${SCALE:-10}
scripts/venv.sh || exit 1
cmake -S . -B "$build" -G Ninja -DSFT_BUILD_TESTS=ON >/dev/null && cmake --build "$build" -j "${JOBS:-$(nproc)}" -- --quiet || exit 1
python=$PWD/build/venv/bin/python
oracle=$PWD/$build/tests/peers/sft_oracle
. scripts/count.sh
mkdir -p "$build/peers-failures"
run "$python" tests/peers/verdicts.py --oracle "$oracle" --seed 0 --count $((250000 * scale)) --save "$build/peers-failures"
run "$python" tests/peers/writer.py --oracle "$oracle" --seed 0 --count $((40000 * scale))
run "$python" tests/peers/slices.py --oracle "$oracle" --seed 0 --count $((100000 * scale))
run env BUILD="$build" scripts/import_peers.sh
run env BUILD="$build" scripts/checkpoint_peers.sh
run scripts/python_peers.sh
run scripts/train_peers.sh # trainings, killed and resumed, with the packages that people train with
run scripts/programs_peers.sh # real programs, once with PyPI's package and once with ours
if [ -x "$build/tests/remote/remote_probe" ] && scripts/venv.sh tests/remote/requirements.txt build/venv-remote; then
    python=$PWD/build/venv-remote/bin/python
    run "$python" tests/remote/test_peers.py --probe "$PWD/$build/tests/remote/remote_probe" --tool "$PWD/$build/safetensors"
else
    echo "the tests of URLs against moto and huggingface_hub could not run"
    failed=$((failed + 1))
fi
counted
