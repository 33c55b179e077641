#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# peers.sh TEST_PYTHON FOLDER - Python environments for the benchmarks' contenders, below FOLDER:
#   bench-venv       the peers of bench/requirements.txt
#   bench-venv-rc    the release candidate of bench/requirements-rc.txt
#   bench-venv-ours  this tree's Python package, if there is one
# Each sees the packages of TEST_PYTHON (scripts/venv.sh) behind its own. What does not install is said and
# leaves an empty place; the exit status is 0 all the same.
set -u
cd "$(dirname "$0")/.."
tests_python=$1
folder=$2
site='import sysconfig; print(sysconfig.get_paths()["purelib"])'

make_venv() { # NAME
    [ -x "$folder/$1/bin/python" ] && return 0
    python3 -m venv "$folder/$1" || return 1
    "$tests_python" -c "$site" >"$("$folder/$1/bin/python" -c "$site")/zz-tests.pth"
}

fill() { # NAME REQUIREMENTS
    make_venv "$1" || return 0
    if cmp -s "$2" "$folder/$1/.requirements"; then return 0; fi
    complete=yes
    grep -v '^#' "$2" >"$folder/$1/.wanted"
    while read -r package; do
        if ! "$folder/$1/bin/python" -m pip install --quiet --disable-pip-version-check --timeout 60 \
            "$package" >"$folder/$1/pip.log" 2>&1 </dev/null; then
            echo "peers: $package does not install: $(grep -i error "$folder/$1/pip.log" | tail -n 1)"
            complete=no
        fi
    done <"$folder/$1/.wanted"
    if [ $complete = yes ]; then cp "$2" "$folder/$1/.requirements"; fi
}

mkdir -p "$folder"
fill bench-venv bench/requirements.txt
fill bench-venv-rc bench/requirements-rc.txt
if [ -f python/pyproject.toml ]; then
    make_venv bench-venv-ours
    state=$(find python src include scripts/amalgamate.py -type f \( -name '*.[ch]' -o -name '*.py' -o -name '*.toml' \) \
        ! -path '*/build/*' ! -path '*/amalgamation/*' -exec cksum {} + | sort | cksum)
    if [ "$state" != "$(cat "$folder/bench-venv-ours/.state" 2>/dev/null)" ]; then
        if "$folder/bench-venv-ours/bin/python" -m pip install --quiet --disable-pip-version-check \
            --force-reinstall --no-deps ./python >"$folder/bench-venv-ours/pip.log" 2>&1 </dev/null; then
            echo "$state" >"$folder/bench-venv-ours/.state"
        else
            echo "peers: ./python does not install: $(grep -i error "$folder/bench-venv-ours/pip.log" | tail -n 1)"
        fi
    fi
fi
exit 0
