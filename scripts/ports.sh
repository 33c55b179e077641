#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# ports.sh [--short] PORT... - builds and tests on other targets and under other tools: asan (with UBSan),
# tsan, sanitize (both), valgrind, clang, 32, s390x, mingw (compiles for Windows), windows (and runs); all: each but mingw. --short: what make check-all has
# time for. One line with the counts per port, the same lines kept in build/ports.txt; then what was left
# out and why, and "N passed, N failed" of all ports; exit 1 if any failed. What is missing on this machine
# fails.
set -u
cd "$(dirname "$0")/.." || exit 4
jobs=${JOBS:-$(nproc)}
mkdir -p build
bad=0 short=0 passed_all=0 failed_all=0
left_out=()

record() {
    echo "$*" | tee -a build/ports.txt
}

# count PASSED FAILED
count() {
    passed_all=$((passed_all + $1))
    failed_all=$((failed_all + $2))
    [ "$2" -eq 0 ] || bad=1
}

# not_run PORT WHAT: WHY
not_run() {
    left_out+=("$1: $2")
}

# programs FOLDER CTEST-ARGUMENTS...: what ninja has to make for these tests alone
programs() {
    local folder=$1
    shift
    ninja -C "$folder" -t targets all | sed -n 's/: .*//p' >"$folder/targets.txt"
    ctest --test-dir "$folder" -N "$@" | scripts/test_programs.py "$folder" "$folder/targets.txt"
}

# port NAME PRESET CTEST-ARGUMENTS...: builds what these tests run, or everything with all=1
port() {
    local name=$1 preset=$2 log start
    shift 2
    start=$(date +%s)
    log=build/port-$name.log
    # shellcheck disable=SC2046
    if ! cmake --preset "$preset" >"$log" 2>&1 ||
        ! ninja -C "build/$preset" -j "$jobs" $([ "${all:-0}" = 1 ] || programs "build/$preset" "$@") >>"$log" 2>&1; then
        grep -E 'error|FAILED' "$log" | head -n 20
        record "$name: does not build (see $log)"
        count 0 1
        return
    fi
    local built=$(($(date +%s) - start))
    ctest --test-dir "build/$preset" -j "$jobs" --output-on-failure --output-junit ctest.xml "$@" >>"$log" 2>&1
    local failed total line
    read -r failed total < <(sed -n 's/^[0-9]*% tests passed, \([0-9]*\) tests\{0,1\} failed out of \([0-9]*\).*/\1 \2/p' "$log" | tail -n 1)
    if [ -z "${total:-}" ]; then
        tail -n 20 "$log"
        record "$name: no tests ran (see $log)"
        count 0 1
        return
    fi
    [ "$failed" -eq 0 ] || grep -A40 -E '\*\*\*Failed|\*\*\*Timeout|\*\*\*Exception' "$log" | head -n 200
    while read -r line; do
        not_run "$name" "$line"
    done < <(scripts/skipped.py "build/$preset/ctest.xml")
    count $((total - failed)) "$failed"
    record "$name: $((total - failed)) passed, $failed failed (build $built s, tests $(($(date +%s) - start - built)) s)"
}

run_asan() {
    export ASAN_OPTIONS=detect_leaks=1:abort_on_error=1:strict_string_checks=1
    export UBSAN_OPTIONS=print_stacktrace=1
    # The sanitizer opens libraries in the caller's stead, whose search path it has not; hostile inputs are not
    # limited in address space and time.
    export LD_LIBRARY_PATH=$PWD/build/asan SFT_SANITIZED=1
    not_run asan "check, package, oracle: rules of the sources, installed libraries and Python packages are those of make test"
    if [ "$short" = 1 ]; then
        not_run asan "fault, cli, remote, stress, mpi: make test-asan runs them, make check-all leaves them to it"
        port asan asan -L 'unit|hostile|conformance'
    else
        not_run asan "fault_kill: it counts system calls, of which the sanitizer's allocator makes some of its own"
        port asan asan -LE 'check|package|oracle|bench' -E fault_kill
    fi
    unset LD_LIBRARY_PATH SFT_SANITIZED ASAN_OPTIONS UBSAN_OPTIONS
}

run_tsan() {
    export LD_LIBRARY_PATH=$PWD/build/tsan TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1
    not_run tsan "all but unit and stress: what they start has one thread, or the same threads as these"
    port tsan tsan -L 'unit|stress'
    unset LD_LIBRARY_PATH TSAN_OPTIONS
}

run_valgrind() {
    # The ordinary build; unit tests under memcheck, no leak of any kind allowed.
    local log=build/port-valgrind.log failed=0 total=0 name
    : >"$log"
    cmake --preset default >>"$log" 2>&1 && cmake --build --preset default -j "$jobs" >>"$log" 2>&1 || {
        record "valgrind: does not build (see $log)"
        count 0 1
        return
    }
    for name in build/tests/unit_*; do
        [ -x "$name" ] && [ -f "$name" ] || continue
        total=$((total + 1))
        if ! (cd build/tests && valgrind --quiet --error-exitcode=9 --leak-check=full --show-leak-kinds=all \
            --errors-for-leak-kinds=definite,indirect,possible --fair-sched=yes "../../$name") >>"$log" 2>&1; then
            echo "valgrind: $name failed (see $log)"
            failed=$((failed + 1))
        fi
    done
    count $((total - failed)) "$failed"
    record "valgrind: $((total - failed)) passed, $failed failed"
}

run() {
    case $1 in
        asan) run_asan ;;
        tsan) run_tsan ;;
        sanitize)
            run_asan
            run_tsan
            ;;
        valgrind) run_valgrind ;;
        clang)
            if [ "$short" = 1 ]; then
                not_run clang "all but unit: other tests see the same code as with gcc"
                all=1 port clang clang -L unit
            else
                not_run clang "package, oracle: as with gcc"
                all=1 port clang clang -LE 'package|oracle|bench'
            fi
            ;;
        32)
            not_run m32 "the extension libraries, the tool's and Python's tests: their libraries are not here for 32 bit"
            port m32 m32 -L unit
            ;;
        s390x)
            not_run s390x "all but unit: what the emulator can run without libraries of that machine"
            port s390x s390x -L unit
            ;;
        mingw)
            if cmake --preset windows -B build/mingw -DSFT_BUILD_TESTS=OFF -DCMAKE_BUILD_TYPE=Debug >build/port-mingw.log 2>&1 &&
                ninja -C build/mingw -j "$jobs" >>build/port-mingw.log 2>&1; then
                count 1 0
                record "mingw: libraries and tool compile for Windows"
            else
                grep -E 'error|FAILED' build/port-mingw.log | head -n 20
                count 0 1
                record "mingw: does not build (see build/port-mingw.log)"
            fi
            not_run mingw "all tests: make test-windows has them, which needs wine"
            ;;
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

if [ "${1:-}" = --short ]; then
    short=1
    shift
fi
[ $# -gt 0 ] || set -- all
for each in "$@"; do
    run "$each"
done
for each in ${left_out[@]+"${left_out[@]}"}; do
    echo "not run: $each"
done
echo "$passed_all passed, $failed_all failed"
exit $bad
