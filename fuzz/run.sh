#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# run.sh [TARGET...] - runs the libFuzzer targets one after the other: FUZZ_SECONDS each (default 60), with
# what earlier runs found in build/fuzz-work and the checked-in corpus as seeds. FUZZ_RUNS instead gives a
# number of executions. FUZZ_JOBS: processes per target (default 1). A finding is kept in
# build/fuzz-work/TARGET-findings, and the exit status is 1. Ends with one line per target.
set -u
cd "$(dirname "$0")/.." || exit 4
seconds=${FUZZ_SECONDS:-60}
processes=${FUZZ_JOBS:-1}
work=$PWD/build/fuzz-work
mkdir -p build "$work"
cmake --preset fuzz >build/fuzz-configure.log 2>&1 && cmake --build --preset fuzz -j "${JOBS:-$(nproc)}" >build/fuzz-build.log 2>&1 || {
    tail -n 20 build/fuzz-configure.log build/fuzz-build.log
    exit 1
}
[ $# -gt 0 ] || set -- $(cd fuzz && ls fuzz_*.c | sed 's/^fuzz_//; s/\.c$//')
bad=0
summary=""
for target in "$@"; do
    mkdir -p "$work/$target" "$work/$target-findings"
    arguments=(-print_final_stats=1 -rss_limit_mb=2048 -timeout=10 -max_len=8192
        -artifact_prefix="$work/$target-findings/")
    if [ -n "${FUZZ_RUNS:-}" ]; then
        arguments+=(-runs="$FUZZ_RUNS")
    else
        arguments+=(-max_total_time="$seconds")
    fi
    [ ! -e "fuzz/$target.dict" ] || arguments+=(-dict="fuzz/$target.dict")
    seeds=()
    [ ! -d "fuzz/corpus/$target" ] || seeds=("fuzz/corpus/$target")
    pids=()
    for ((i = 0; i < processes; i++)); do
        "build/fuzz/fuzz/fuzz_$target" "${arguments[@]}" "$work/$target" ${seeds[@]+"${seeds[@]}"} \
            >"$work/$target-$i.log" 2>&1 &
        pids+=($!)
    done
    status=0
    for pid in "${pids[@]}"; do
        wait "$pid" || status=1
    done
    executions=$(sed -n 's/^stat::number_of_executed_units: *//p' "$work/$target"-[0-9]*.log | awk '{ n += $1 } END { print n + 0 }')
    coverage=$(sed -n 's/.* cov: \([0-9]*\) ft: \([0-9]*\) .*/\1 edges, \2 features/p' "$work/$target-0.log" | tail -n 1)
    if [ "$status" -ne 0 ]; then
        bad=1
        grep -hE 'ERROR|SUMMARY|Test unit written' "$work/$target"-[0-9]*.log | head -n 5
    fi
    line="$target: $executions executions, $coverage, $([ "$status" -eq 0 ] && echo 'no finding' || echo 'FINDING')"
    echo "$line"
    summary+="$line"$'\n'
done
printf '%s' "$summary" >"$work/summary.txt"
exit $bad
