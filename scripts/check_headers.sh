#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# check_headers.sh [HEADER FOLDER] - every public header compiles alone, in every language that may
# include it: C99, C11, C23, C++11, C++17, C++20, with gcc and (where there is one) clang; sft.hpp as
# C++17 and C++20. Warnings are errors. Prints each failure and exits 1.
set -u
cd "$(dirname "$0")/.." || exit 4
folder=${1:-include}
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
faults=0
done_count=0

try() { # compiler, standard, language, header, more flags
    local compiler=$1 standard=$2 language=$3 header=$4
    shift 4
    printf '#include <sft/%s>\n' "$header" >"$tmp/alone.$language"
    if ! "$compiler" -std="$standard" -Wall -Wextra -Wpedantic -Wshadow -Wundef -Werror "$@" -fsyntax-only \
        -I"$folder" "$tmp/alone.$language" >"$tmp/log" 2>&1; then
        echo "$header fails alone with $compiler -std=$standard"
        head -n 12 "$tmp/log"
        faults=$((faults + 1))
    fi
    done_count=$((done_count + 1))
}

for header in "$folder"/sft/*.h; do
    header=$(basename "$header")
    for compiler in gcc clang; do
        command -v $compiler >/dev/null 2>&1 || continue
        for standard in c99 c11 c2x; do
            try $compiler $standard c "$header" -Wstrict-prototypes
        done
    done
    for compiler in g++ clang++; do
        command -v $compiler >/dev/null 2>&1 || continue
        for standard in c++11 c++17 c++20; do
            try $compiler $standard cpp "$header"
        done
    done
done
for header in "$folder"/sft/*.hpp; do
    [ -e "$header" ] || continue
    for compiler in g++ clang++; do
        command -v $compiler >/dev/null 2>&1 || continue
        for standard in c++17 c++20; do
            try $compiler $standard cpp "$(basename "$header")"
        done
    done
done
echo "$done_count compilations, $faults faults"
[ "$faults" -eq 0 ] && [ "$done_count" -gt 0 ]
