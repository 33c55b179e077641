#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# check_symbols.sh STATIC_LIBRARY SHARED_LIBRARY [HEADER NEEDED] - what the built libraries define, export and need.
#
#   1. every global symbol of the static library starts with sft_
#   2. the shared library exports only sft_[a-z0-9]...: nothing private, nothing foreign; but for the extension
#      libraries of the same version what src/*.h mark SFT_API, all of it with the version SFT_PRIVATE_...
#   3. the public headers' functions are all exported, and nothing else is
#   4. the shared library needs libc (libpthread, libm, the loader) alone
#   5. src/format needs nothing but mem*, str*n* and private helpers: no I/O (nor src/fs), no allocation of its own
#   6. the stripped shared library has at most SIZE_LIMIT bytes (default 324,000, which is said of gcc)
# For an extension library: HEADER is its public header (3), NEEDED a pattern of the libraries it may need (4);
# 5 and 6 are the core's. Prints each offence and exits 1.
set -u
static=$1
shared=$2
extension=${3:-}
needed=${4:-}
cd "$(dirname "$0")/.." || exit 4
LIMIT=${SIZE_LIMIT:-324000}
faults=0
fault() {
    echo "$*"
    faults=$((faults + 1))
}
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

# 1
nm -g --defined-only "$static" | awk 'NF == 3 { print $3 }' | sort -u >"$tmp/defined"
[ -s "$tmp/defined" ] || fault "no symbols in $static"
while read -r name; do
    fault "static library: global symbol $name does not start with sft_"
done < <(grep -v '^sft_' "$tmp/defined")

# 2
nm -D --defined-only "$shared" | awk 'NF == 3 && $2 != "A" && $3 !~ /@SFT_PRIVATE/ { sub(/@.*/, "", $3); print $3 }' |
    sort -u >"$tmp/exported"
if [ -z "$extension" ]; then
    nm -D --defined-only "$shared" | awk '$3 ~ /@SFT_PRIVATE/ { sub(/@.*/, "", $3); print $3 }' | sort -u >"$tmp/private"
    find src -name '*.h' -exec cat {} + | tr '\n' ' ' | grep -oE 'SFT_API [^;{(]*\bsft__[a-z0-9_]+ *\(' |
        grep -oE 'sft__[a-z0-9_]+ *\(' | tr -d ' (' | sort -u >"$tmp/lent"
    while read -r name; do
        fault "shared library: $name is exported privately and not marked so in src, or the other way round"
    done < <(comm -3 "$tmp/private" "$tmp/lent" | tr -d '\t')
fi
while read -r name; do
    fault "shared library: exports $name"
done < <(grep -vE '^sft_[a-z0-9]' "$tmp/exported")

# 3
if [ -n "$extension" ]; then
    headers=$extension
else
    # the extension libraries' headers are theirs
    headers=$(printf '%s\n' include/sft/*.h | grep -vE '/(import|remote|cuda|mpi|layout|mindspore|checkpoint|layout_set|job|names|checkpoint_open|checkpoint_group|dedupe|run)\.h$')
fi
# shellcheck disable=SC2086
cat $headers | tr '\n' ' ' | grep -oE 'SFT_API[^;{]*' | grep -oE '\bsft_[a-z0-9_]+ *\(' |
    grep -oE 'sft_[a-z0-9_]+' | sort -u >"$tmp/mentioned"
# shellcheck disable=SC2086
cat $headers | tr '\n' ' ' | grep -oE 'SFT_API[^;{]*\(' | sed -E 's/\(.*//' |
    grep -oE 'sft_[a-z0-9_]+ *$' | tr -d ' ' | sort -u >"$tmp/declared"
while read -r name; do
    fault "declared in a public header, but not exported: $name"
done < <(comm -23 "$tmp/declared" "$tmp/exported")
while read -r name; do
    fault "exported, but declared in no public header: $name"
done < <(comm -13 "$tmp/mentioned" "$tmp/exported")

# 4
if command -v readelf >/dev/null 2>&1; then
    while read -r name; do
        fault "shared library needs $name"
    done < <(readelf -d "$shared" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' |
        grep -vE "^(libc|libpthread|libm${needed:+|$needed})\.so|^ld-|^ld64|^libgcc_s")
    readelf -d "$shared" | grep -qE 'BIND_NOW|NOW' || fault "shared library: not linked with -z now"
    readelf -lW "$shared" | grep -q 'GNU_RELRO' || fault "shared library: no RELRO"
    readelf -lW "$shared" | awk '/GNU_STACK/ { print $(NF-1) }' | grep -q 'E' && fault "executable stack"
fi

if [ -n "$extension" ]; then
    echo "$(wc -l <"$tmp/defined") symbols defined, $(wc -l <"$tmp/exported") exported, $faults faults"
    [ "$faults" -eq 0 ]
    exit
fi

# 5
# Object names inside the archive are unique per file of src/format.
objects=$(cd src/format && ls ./*.c 2>/dev/null | sed 's|^\./||; s|$|.o|')
mkdir "$tmp/format"
for object in $objects; do
    (cd "$tmp/format" && ar x "$static" "$object") || fault "no $object in $static"
done
if [ -n "$objects" ]; then
    while read -r name; do
        fault "src/format needs $name"
    done < <(nm -u "$tmp"/format/*.o | awk 'NF == 2 { print $2 }' | sort -u | sed 's/^sft__fs_/src\/fs: &/' |
        grep -vE '^(sft_|(mem(cpy|move|set|cmp|chr)|bcmp)$|mem(cpy|move|set)_chk$|__mem(cpy|move|set)_chk$|str(len|ncmp|cmp|chr)$|__stack_chk_fail|_GLOBAL_OFFSET_TABLE_$|__gcov|__asan|__ubsan|__tsan)')
fi

# 6
strip --strip-all -o "$tmp/stripped.so" "$shared"
size=$(wc -c <"$tmp/stripped.so")
[ "$size" -le "$LIMIT" ] || fault "stripped shared library: $size bytes, limit $LIMIT"

echo "$(wc -l <"$tmp/defined") symbols defined, $(wc -l <"$tmp/exported") exported, $size bytes stripped, $faults faults"
[ "$faults" -eq 0 ]
