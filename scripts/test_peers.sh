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
passed=0
failed=0
run() {
    printf '== %s\n' "$*"
    if "$python" "$@"; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
    fi
}
mkdir -p "$build/peers-failures"
run tests/peers/verdicts.py --oracle "$oracle" --seed 0 --count $((250000 * scale)) --save "$build/peers-failures"
run tests/peers/writer.py --oracle "$oracle" --seed 0 --count $((40000 * scale))
run tests/peers/slices.py --oracle "$oracle" --seed 0 --count $((100000 * scale))
if BUILD=$build scripts/import_peers.sh; then
    passed=$((passed + 1))
else
    failed=$((failed + 1))
fi
if BUILD=$build scripts/checkpoint_peers.sh; then
    passed=$((passed + 1))
else
    failed=$((failed + 1))
fi
if scripts/python_peers.sh; then
    passed=$((passed + 1))
else
    failed=$((failed + 1))
fi
if scripts/train_peers.sh; then # trainings, killed and resumed, with the packages that people train with
    passed=$((passed + 1))
else
    failed=$((failed + 1))
fi
if scripts/programs_peers.sh; then # real programs, once with PyPI's package and once with ours
    passed=$((passed + 1))
else
    failed=$((failed + 1))
fi
if [ -x "$build/tests/remote/remote_probe" ] && scripts/venv.sh tests/remote/requirements.txt build/venv-remote; then
    python=$PWD/build/venv-remote/bin/python
    run tests/remote/test_peers.py --probe "$PWD/$build/tests/remote/remote_probe" --tool "$PWD/$build/safetensors"
else
    echo "the tests of URLs against moto and huggingface_hub could not run"
    failed=$((failed + 1))
fi
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
