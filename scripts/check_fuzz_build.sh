#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# check_fuzz_build.sh [FOLDER] - .clusterfuzzlite/build.sh as ClusterFuzzLite's image would call it, but by this machine's
# clang: libFuzzer and ASan. Then every program runs FUZZ_SECONDS (default 5) from its zipped seeds, alone in a
# directory, and must load no shared library but libc's and C++'s. Exit status 1 for a finding, or if a target of fuzz/ is missing.
set -euo pipefail
cd "$(dirname "$0")/.."
work=$(realpath -m "${1:-build/fuzz-build}")
rm -rf "$work"
mkdir -p "$work/src/libsafetensors" "$work/out" "$work/work" "$work/run"
packaging/files.sh | tar --verbatim-files-from -cf - -T - | tar -xf - -C "$work/src/libsafetensors"
# The flags of OSS-Fuzz's base image for address.
export CC=clang CXX=clang++ LIB_FUZZING_ENGINE=-fsanitize=fuzzer SANITIZER=address FUZZING_ENGINE=libfuzzer
export CFLAGS="-O1 -fno-omit-frame-pointer -gline-tables-only -Wno-error -DFUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION -fsanitize=address -fsanitize-address-use-after-scope -fsanitize=fuzzer-no-link"
export CXXFLAGS="$CFLAGS" SRC="$work/src" OUT="$work/out" WORK="$work/work"
bash -eu .clusterfuzzlite/build.sh >"$work/build.log" 2>&1 || { tail -n 30 "$work/build.log" >&2; exit 1; }

bad=0 count=0 total=0
for source in fuzz/fuzz_*.c; do
    name=$(basename "$source" .c)
    program=$OUT/$name
    if [ ! -x "$program" ]; then
        echo "$name: MISSING"
        bad=1
        continue
    fi
    others=$(ldd "$program" | awk '{ print $1 }' | grep -vE '^(linux-vdso|libc|libm|libdl|librt|libpthread|libgcc_s|libstdc\+\+|libresolv)\.so|ld-linux' || true)
    [ -z "$others" ] || { echo "$name: needs $others"; bad=1; }
    mkdir -p "$work/run/$name/seeds" "$work/run/$name/new"
    (cd "$work/run/$name/seeds" && python3 -m zipfile -e "$OUT/${name}_seed_corpus.zip" .)
    arguments=(-max_total_time="${FUZZ_SECONDS:-5}" -print_final_stats=1)
    while read -r key _ value; do
        case $key in max_len | timeout | rss_limit_mb) arguments+=("-$key=$value") ;; esac
    done <"$program.options"
    [ ! -e "$program.dict" ] || arguments+=(-dict="$program.dict")
    status=0
    (cd "$work/run/$name" && "$program" "${arguments[@]}" new seeds) >"$work/run/$name.log" 2>&1 || status=$?
    executions=$(sed -n 's/^stat::number_of_executed_units: *//p' "$work/run/$name.log")
    echo "$name: $(find "$work/run/$name/seeds" -type f | wc -l) seeds, ${executions:-0} executions, $([ $status -eq 0 ] && echo 'no finding' || echo "FINDING (status $status)")"
    [ $status -eq 0 ] || bad=1
    count=$((count + 1)) total=$((total + ${executions:-0}))
done
echo "check_fuzz_build: $count targets, $total executions"
exit $bad
