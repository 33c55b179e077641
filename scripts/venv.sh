#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# venv.sh [REQUIREMENTS [FOLDER]] - a Python environment with exactly the pinned packages.
#
# Default: tests/requirements.txt into build/venv. Does nothing when the folder already has them.
# Exit 1 when it cannot be made; the tests that need it then fail and say so.
set -eu
cd "$(dirname "$0")/.."
requirements=${1:-tests/requirements.txt}
venv=${2:-build/venv}

if [ -f "$venv/.requirements" ] && cmp -s "$requirements" "$venv/.requirements"; then
    exit 0
fi
echo "venv: making $venv from $requirements"
if [ ! -x "$venv/bin/python" ]; then
    rm -rf "$venv"
    mkdir -p "$(dirname "$venv")"
    python3 -m venv "$venv"
fi
try=1
until "$venv/bin/python" -m pip install --quiet --disable-pip-version-check -r "$requirements"; do
    if [ "$try" -ge 3 ]; then
        echo "venv: could not install $requirements into $venv" >&2
        exit 1
    fi
    try=$((try + 1))
    sleep 5
done
cp "$requirements" "$venv/.requirements"
