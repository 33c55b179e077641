#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# check_format.sh [--fix] - the layout of C and Python is what the pinned clang-format and ruff make of it.
#
# Both come from tests/requirements.txt in build/venv. --fix writes; without it each file that differs is
# named and the exit status is 1.
set -eu
cd "$(dirname "$0")/.."
bin=${SFT_FORMAT_BIN:-build/venv/bin}
if [ "${1:-}" = --fix ]; then
    packaging/files.sh '*.c' '*.h' '*.hpp' '*.cpp' | xargs "$bin/clang-format" -i
    "$bin/ruff" check --quiet --fix .
    exec "$bin/ruff" format --quiet .
fi
status=0
packaging/files.sh '*.c' '*.h' '*.hpp' '*.cpp' | xargs -n 64 -P 2 "$bin/clang-format" --dry-run -Werror || status=1
"$bin/ruff" check --quiet --no-cache . || status=1
"$bin/ruff" format --quiet --no-cache --diff . || status=1
[ "$status" -eq 0 ] || echo "check_format: run 'make format'" >&2
exit "$status"
