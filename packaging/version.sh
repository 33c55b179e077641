#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# version.sh - prints the version. Its home is include/sft/types.h: CMake, setup.py and the packages read it there.
# version.sh set X.Y.Z - writes it there, and into the few files that must hold it as text (scripts/check_version.py
# finds one that was forgotten). Debian's changelog and CHANGELOG.md are written by hand: docs/RELEASING.md.
set -eu
cd "$(dirname "$0")/.."
home=include/sft/types.h
old=$(sed -n 's/^#define SFT_VERSION_STRING "\([^"]*\)"$/\1/p' "$home")
if [ $# -eq 0 ]; then
    echo "$old"
    exit 0
fi
new=${2:-}
case $new in *[!0-9.]*) new= ;; esac # a second line, too
if [ "$1" != set ] || ! printf '%s\n' "$new" | grep -qE '^(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)$'; then
    echo "usage: version.sh [set X.Y.Z]" >&2
    exit 2
fi
# edit SCRIPT FILE: sed -i is not the same everywhere
edit() {
    if [ -e "$2" ]; then
        sed "$1" "$2" >"$2.new"
        cat "$2.new" >"$2" # keeps the mode
        rm "$2.new"
    fi
}
rest=${new#*.}
edit "s/^\(#define SFT_VERSION_MAJOR  \).*/\1${new%%.*}/; s/^\(#define SFT_VERSION_MINOR  \).*/\1${rest%.*}/
s/^\(#define SFT_VERSION_PATCH  \).*/\1${rest#*.}/; s/^\(#define SFT_VERSION_STRING \).*/\1\"$new\"/" "$home"
from=$(printf '%s' "$old" | sed 's/\./\\./g')
edit "s/+c$from\"/+c$new\"/; s/safetensors-c==$from\"/safetensors-c==$new\"/" python/alias/pyproject.toml
edit "s/+c$from\`/+c$new\`/" docs/switching.md
edit "s/\(\"name\": \"safetensors scan\", \"version\": \"\)$from\"/\1$new\"/" tests/cli/scan/verdicts.out
edit "s/^\( *\"version[a-z-]*\": *\"\)$from\"/\1$new\"/" wasm/package.json
edit "s/^\( *\"version[a-z-]*\": *\"\)$from\"/\1$new\"/" packaging/vcpkg/vcpkg.json
echo "$new"
