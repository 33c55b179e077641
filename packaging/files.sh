#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# files.sh [PATTERN...] - the files of the source, one a line: git's in a checkout, those of packaging/files (written
# by tarball.sh) in a source tarball. A pattern is one of the shell's, matched against the whole path: '*.c'.
set -eu
cd "$(dirname "$0")/.."
if [ -e packaging/files ]; then
    cat packaging/files
else
    git -c core.quotePath=false ls-files
fi | while IFS= read -r path; do
    [ $# -gt 0 ] || printf '%s\n' "$path"
    for pattern in "$@"; do
        # shellcheck disable=SC2254
        case $path in $pattern)
            printf '%s\n' "$path"
            break
            ;;
        esac
    done
done
