#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# test.sh [CTEST ARGUMENT...] - the whole test run behind `make test`.
#
# Builds everything, makes the Python environment with the pinned peers, runs ctest and ends with the
# line "N passed, N failed". SFT_NO_PEERS=1 leaves out the tests that compare with the Python packages
# (label oracle) and says so. Reads BUILD (default build), WERROR (default OFF), JOBS.
set -u
cd "$(dirname "$0")/.." || exit 4
build=${BUILD:-build}
jobs=${JOBS:-$(nproc)}
PATH="$PWD/build/tools/bin:$PATH"
export PATH

more=()
if [ "${SFT_NO_PEERS:-0}" = 1 ]; then
    echo "not run: SFT_NO_PEERS=1: the comparisons with the Python packages (label oracle) are left out"
    more+=(-LE oracle)
else
    scripts/venv.sh || echo "test: no Python environment: the tests of label oracle will fail" >&2
fi

cmake -S . -B "$build" -G Ninja -DSFT_WERROR="${WERROR:-OFF}" -DSFT_BUILD_TESTS=ON \
    -DSFT_BUILD_EXAMPLES=ON -DSFT_BUILD_BENCH=ON >"$build-configure.log" 2>&1 || {
    cat "$build-configure.log"
    rm -f "$build-configure.log"
    echo "0 passed, 1 failed"
    exit 1
}
rm -f "$build-configure.log"
if ! cmake --build "$build" -j "$jobs" -- --quiet; then
    echo "the build failed"
    echo "0 passed, 1 failed"
    exit 1
fi

log="$build/ctest.log"
ctest --test-dir "$build" --output-on-failure --output-junit ctest.xml -j "$jobs" ${more[@]+"${more[@]}"} "$@" 2>&1 | tee "$log"
status=${PIPESTATUS[0]}

# "98% tests passed, 2 tests failed out of 100"
read -r failed total < <(sed -n 's/^[0-9]*% tests passed, \([0-9]*\) tests\{0,1\} failed out of \([0-9]*\).*/\1 \2/p' "$log")
if [ -z "${total:-}" ]; then
    echo "ctest gave no summary"
    echo "0 passed, 1 failed"
    exit 1
fi
scripts/skipped.py "$build/ctest.xml" | sed 's/^/not run: /'
echo "$((total - failed)) passed, $failed failed"
[ "$failed" -eq 0 ] || exit 1
exit "$status"
