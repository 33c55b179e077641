#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# check_all.sh - `make test` with warnings as errors, the pages in Chromium, then, each built once, Windows (compiled alone), clang, 32 bit, TSan and ASan+UBSan
# (scripts/ports.sh --short). Ends with what was left out and why, and
# "N passed, N failed" of the whole.
set -u
cd "$(dirname "$0")/.." || exit 4
mkdir -p build
logs=()
status=0

# step NAME COMMAND...: its output here and in build/ci-NAME.log
step() {
    local log=build/ci-$1.log start
    shift
    start=$(date +%s)
    logs+=("$log")
    echo "== $* (after $((start / 60 - began / 60)) minutes)"
    "$@" 2>&1 | tee "$log"
    [ "${PIPESTATUS[0]}" -eq 0 ] || status=1
    # Make's own line about a failed target may stand behind the result; a step without one has failed.
    grep -E '^[0-9]+ passed, [0-9]+ failed$' "$log" | tail -n 1 >"$log.result"
    [ -s "$log.result" ] || echo "0 passed, 1 failed" >"$log.result"
}

began=$(date +%s)
step test env WERROR=ON make test
step web make test-web
for port in mingw clang 32 tsan asan; do
    step "$port" sh -c "scripts/bootstrap.sh $port && scripts/ports.sh --short $port"
done

echo "== the whole"
echo "not run: s390x, windows, valgrind: make test-ports runs them; they need emulators, or hours"
grep -h '^not run: ' "${logs[@]}"
# What ctest, pytest and the compilers said of a failure, once more at the end.
grep -hE '^[[:space:]]*[0-9]+ - .*\((Failed|Timeout|Not Run|SEGFAULT|Subprocess aborted)\)|^FAILED |: (fatal )?error: ' "${logs[@]}" | head -40
passed=0 failed=0
for log in "${logs[@]}"; do
    read -r p _ f _ <"$log.result"
    echo "$(basename "$log" .log | cut -d- -f2): $p passed, $f failed"
    passed=$((passed + p)) failed=$((failed + f))
done
echo "minutes: $((($(date +%s) - began + 59) / 60))"
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ] || status=1
exit $status
