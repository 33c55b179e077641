#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# coverage.sh - lines and branches of src/ that the tests reach: a table, and pages in build/coverage/html.
# Fails if a test fails, or if a line of src/format was not reached.
set -u
cd "$(dirname "$0")/.." || exit 4
jobs=${JOBS:-$(nproc)}
mkdir -p build
rm -rf build/coverage # counters of an earlier build do not fit this one
cmake --preset coverage >build/coverage.log 2>&1 && cmake --build --preset coverage -j "$jobs" >>build/coverage.log 2>&1 || {
    grep -E 'error|FAILED' build/coverage.log | head
    exit 1
}
bad=0
ctest --test-dir build/coverage -j "$jobs" --output-on-failure -LE 'check|package|oracle|bench|cli' >>build/coverage.log 2>&1 || bad=1
grep -E 'tests passed' build/coverage.log | tail -n 1
# The golden runs count for coverage only: where they limit the size of files, gcov complains on stderr.
ctest --test-dir build/coverage -L cli >>build/coverage.log 2>&1 || true
mkdir -p build/coverage/html
common=(--root . --object-directory build/coverage --filter src/ --exclude-unreachable-branches --gcov-ignore-parse-errors -j "$jobs")
gcovr "${common[@]}" --html-details build/coverage/html/index.html --json build/coverage/coverage.json \
    --txt build/coverage/coverage.txt build/coverage >/dev/null || bad=1
cat build/coverage/coverage.txt
gcovr --root . -a build/coverage/coverage.json --filter src/format/ --fail-under-line 100 >build/coverage/format.txt || {
    echo "coverage: src/format is not covered completely:"
    cat build/coverage/format.txt
    bad=1
}
exit $bad
