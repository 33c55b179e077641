#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# ports.sh PORT... - builds and tests on other targets and under other tools: sanitize (ASan+UBSan, then
# TSan), valgrind, clang, 32, s390x, windows; all: each of them. One line with the counts per port, the
# same lines kept in build/ports.txt; exit 1 if any failed. What is missing on this machine fails.
set -u
cd "$(dirname "$0")/.." || exit 4
jobs=${JOBS:-$(nproc)}
mkdir -p build
bad=0

record() {
    echo "$*" | tee -a build/ports.txt
}

# port NAME PRESET CTEST-ARGUMENTS...
port() {
    local name=$1 preset=$2 log start
    shift 2
    start=$(date +%s)
    log=build/port-$name.log
    if ! cmake --preset "$preset" >"$log" 2>&1 || ! cmake --build --preset "$preset" -j "$jobs" >>"$log" 2>&1; then
        grep -E 'error|FAILED' "$log" | head -n 20
        record "$name: does not build (see $log)"
        bad=1
        return
    fi
    ctest --test-dir "build/$preset" -j "$jobs" --output-on-failure "$@" >>"$log" 2>&1
    local summary
    summary=$(grep -E 'tests passed,|No tests were found' "$log" | tail -n 1)
    case $summary in
        100%*) ;;
        *)
            grep -A40 -E '\*\*\*Failed|\*\*\*Timeout|\*\*\*Exception' "$log" | head -n 60
            bad=1
            ;;
    esac
    record "$name: $summary ($(($(date +%s) - start)) s)"
}

run() {
    case $1 in
        sanitize)
            export ASAN_OPTIONS=detect_leaks=1:abort_on_error=1:strict_string_checks=1
            export UBSAN_OPTIONS=print_stacktrace=1
            # The sanitizer opens libraries in the caller's stead, whose search path it has not; hostile inputs are not
            # limited in address space and time.
            export LD_LIBRARY_PATH=$PWD/build/asan SFT_SANITIZED=1
            # fault_kill counts system calls, of which the sanitizer's allocator makes some of its own.
            port asan asan -LE 'check|package|oracle|bench' -E fault_kill
            export LD_LIBRARY_PATH=$PWD/build/tsan TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1
            port tsan tsan -L 'unit|stress'
            unset LD_LIBRARY_PATH SFT_SANITIZED
            ;;
        valgrind)
            # The ordinary build; unit tests under memcheck, no leak of any kind allowed.
            local log=build/port-valgrind.log failed=0 total=0 name
            : >"$log"
            cmake --preset default >>"$log" 2>&1 && cmake --build --preset default -j "$jobs" >>"$log" 2>&1 || {
                record "valgrind: does not build (see $log)"
                bad=1
                return
            }
            for name in build/tests/unit_*; do
                [ -x "$name" ] && [ -f "$name" ] || continue
                total=$((total + 1))
                if ! (cd build/tests && valgrind --quiet --error-exitcode=9 --leak-check=full --show-leak-kinds=all \
                    --errors-for-leak-kinds=definite,indirect,possible --fair-sched=yes "../../$name") >>"$log" 2>&1; then
                    echo "valgrind: $name failed (see $log)"
                    failed=$((failed + 1))
                    bad=1
                fi
            done
            record "valgrind: $((total - failed)) programs clean, $failed not, out of $total"
            ;;
        clang) port clang clang -LE 'package|oracle|bench' ;;
        32) port m32 m32 -L unit ;;
        s390x) port s390x s390x -L unit ;;
        windows)
            export WINEDEBUG=-all WINEPREFIX=$PWD/build/wineprefix
            wineboot -i >/dev/null 2>&1
            port windows windows -L 'unit|windows'
            ;;
        all)
            : >build/ports.txt
            for each in sanitize valgrind clang 32 s390x windows; do
                run $each
            done
            ;;
        *)
            echo "ports: no port '$1'" >&2
            exit 2
            ;;
    esac
}

[ $# -gt 0 ] || set -- all
for each in "$@"; do
    run "$each"
done
if [ "$bad" -eq 0 ]; then
    echo "ports: all passed"
else
    echo "ports: some failed" >&2
fi
exit $bad
