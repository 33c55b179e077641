#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# sanitize.sh PYTHON - the extension's tests (test_core_*.py) with the extension and the library inside it
# built by gcc with AddressSanitizer and UndefinedBehaviorSanitizer. PYTHON has numpy, torch and pytest.
#
# The interpreter is not instrumented: its own leaks are not looked for, and the test that reads the
# resident size is left out, for freed memory stays in quarantine.
set -eu
cd "$(dirname "$0")/../.."
python=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp -R python scripts src include "$work/"
rm -rf "$work/python/build"
cd "$work/python"
CC=gcc SFT_CFLAGS="-fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer -g -O1" \
    SFT_LDFLAGS="-fsanitize=address,undefined" "$python" setup.py -q build_ext --inplace --force
LD_PRELOAD="$(gcc -print-file-name=libasan.so) $(gcc -print-file-name=libubsan.so)" \
    ASAN_OPTIONS=detect_leaks=0 PYTHONMALLOC=malloc PYTHONPATH="$work/python" PYTHONDONTWRITEBYTECODE=1 \
    "$python" -m pytest -q -p no:cacheprovider -k "not no_leaks" tests/test_core_*.py
