#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# run_import.sh [READER...] - fuzzes the readers of the import library (all targets that include import_check.h) under
# ASan and UBSan, FUZZ_RUNS executions each (default 10,000,000), FUZZ_SECONDS at most (default 7,200), FUZZ_JOBS of
# them side by side (default 1), inputs of at most FUZZ_MAX_LEN bytes (default: the largest seed, 1,024 at least). What is
# found is merged into build/fuzz-import/READER/corpus, which the next run begins with; FUZZ_FRESH=1 begins with the
# checked-in seeds alone.
# FUZZ_ENTROPIC=1: inputs with rare features are changed more often, which takes a quarter of the time.
# Targets of one reader (reader_check.h) are two to five times as fast as those that ask every reader and scan.
# An execution has 10 seconds, a process 2 GiB. Findings stay in build/fuzz-import/READER/findings.
#
# Ends with a table (also in build/fuzz-import/table.md): coverage as (edges, features) after 10^5, 10^6 ... executions,
# and how many of the edges the last tenth of the executions found.
# Exit status 1: a finding, or a run that ended early.
set -u
cd "$(dirname "$0")/.." || exit 4
runs=${FUZZ_RUNS:-10000000}
seconds=${FUZZ_SECONDS:-7200}
most=${FUZZ_JOBS:-1}
work=$PWD/build/fuzz-import
# shellcheck disable=SC2046
[ $# -gt 0 ] || set -- $(grep -l '"import_check.h"' fuzz/fuzz_*.c | sed 's/.*fuzz_//; s/\.c$//')
mkdir -p "$work"
# Short stacks of allocations, blocks as they come: a fifth of the time is theirs otherwise. What is found shows its own stack all the same.
export ASAN_OPTIONS=${ASAN_OPTIONS:-malloc_context_size=1:quarantine_size_mb=8:max_malloc_fill_size=0}
if ! { cmake --preset fuzz && cmake --build --preset fuzz -j "${JOBS:-$(nproc)}" --target "${@/#/fuzz_}"; } \
    >"$work/build.log" 2>&1; then
    tail -n 20 "$work/build.log"
    exit 1
fi

count() { # files in a FOLDER
    find "$1" -type f | wc -l
}

longest() { # READER: bytes
    find "fuzz/corpus/$1" -type f -printf '%s\n' | sort -n | awk '{ n = $1 } END { print (n > 1024 ? n : 1024) }'
}

fuzz_one() { # READER: leaves log, status, found (the merged corpus' size)
    local reader=$1 here=$work/$1 target=$PWD/build/fuzz/fuzz/fuzz_$1
    local limits=(-rss_limit_mb=2048 -timeout=10 -max_len="${FUZZ_MAX_LEN:-$(longest "$reader")}" -artifact_prefix="$here/findings/"
        -entropic="${FUZZ_ENTROPIC:-0}")
    rm -rf "$here/new" "$here/merged"
    [ -z "${FUZZ_FRESH:-}" ] || rm -rf "$here/corpus"
    mkdir -p "$here/new" "$here/merged" "$here/corpus" "$here/findings"
    count "$here/corpus" >"$here/kept"
    "$target" "${limits[@]}" -print_final_stats=1 -runs="$runs" -max_total_time="$seconds" \
        "$here/new" "$here/corpus" "fuzz/corpus/$reader" >"$here/log" 2>&1
    echo $? >"$here/status"
    if "$target" "${limits[@]}" -merge=1 "$here/merged" "$here/corpus" "$here/new" >"$here/merge.log" 2>&1; then
        rm -rf "$here/corpus" "$here/new"
        mv "$here/merged" "$here/corpus"
    fi
}

# The last coverage that is printed at or before a number of executions.
row() { # READER
    local here=$work/$1
    awk -v reader="$1" -v want="$runs" -v status="$(cat "$here/status")" -v kept="$(cat "$here/kept")" \
        -v corpus="$(count "$here/corpus")" -v findings="$(count "$here/findings")" '
        /^#[0-9]+/ && / cov: / {
            n = substr($1, 2) + 0
            for (i = 1; i < NF; i++) {
                if ($i == "cov:") { edges = $(i + 1) }
                if ($i == "ft:") { features = $(i + 1) }
            }
            for (p = 5; p <= 9; p++) {
                if (n <= 10 ^ p) { at[p] = "(" edges ", " features ")" }
            }
            if (n <= want * 0.9) { before = edges }
        }
        /^stat::number_of_executed_units:/ { done = $2 }
        /^stat::average_exec_per_sec:/ { speed = $2 }
        END {
            line = "| `fuzz_" reader "` | " done + 0 " | " speed + 0 " |"
            for (p = 5; p <= 7; p++) { line = line " " (done >= 10 ^ p ? at[p] : "-") " |" }
            early = done < want && findings == 0 ? " (ended early)" : ""
            grown = edges > 0 ? sprintf("%.1f %%", 100 * (edges - before) / edges) : "-"
            print line " (" edges ", " features ") | " grown " | " kept " to " corpus " | " findings early " |"
            exit status != 0 || findings != 0 || done < want
        }' "$here/log"
}

running=0
for reader in "$@"; do
    if [ "$running" -ge "$most" ]; then
        wait -n
        running=$((running - 1))
    fi
    fuzz_one "$reader" &
    running=$((running + 1))
done
wait
bad=0
{
    echo "| target | executions | a second | (edges, features) after 10^5 | 10^6 | 10^7 | at the end | last tenth | corpus | findings |"
    echo "|---|---|---|---|---|---|---|---|---|---|"
    for reader in "$@"; do
        row "$reader" || echo "$reader" >>"$work/bad"
    done
} >"$work/table.md"
if [ -e "$work/bad" ]; then
    bad=1
    while read -r reader; do
        grep -hE 'ERROR|SUMMARY|Test unit written' "$work/$reader/log" | head -n 5
    done <"$work/bad"
    rm "$work/bad"
fi
cat "$work/table.md"
exit $bad
