#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# sanitize.sh PYTHON [address|thread] - the extension, and the library inside it, under gcc's sanitizers.
# PYTHON has numpy, torch, pytest, setuptools and wheel.
#
# address (default): the extension's tests (test_core_*.py) under AddressSanitizer and
#   UndefinedBehaviorSanitizer. The interpreter is not instrumented: its own leaks are not looked for, and the
#   tests that read the resident size are left out, for freed memory stays in quarantine.
# thread: stress_threads.py under ThreadSanitizer. The interpreter's lock is seen by its pthread calls.
set -eu
cd "$(dirname "$0")/../.."
python=$1
kind=${2:-address}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/tests"
cp -R python scripts src include "$work/"
mkdir -p "$work/web/dist"
cp web/dist/report.html "$work/web/dist/"
cp -R tests/python "$work/tests/"
rm -rf "$work/python/build"
cd "$work/python"
export PYTHONPATH="$work/python" PYTHONDONTWRITEBYTECODE=1
build() {
    CC=gcc SFT_CFLAGS="$1 -fno-omit-frame-pointer -g -O1" SFT_LDFLAGS="$1" \
        "$python" setup.py -q build_ext --inplace --force
}
if [ "$kind" = thread ]; then
    build -fsanitize=thread
    # A fixed layout of memory: the detector knows no other.
    LD_PRELOAD="$(gcc -print-file-name=libtsan.so)" TSAN_OPTIONS=halt_on_error=1:exitcode=66 \
        setarch -R "$python" ../tests/python/stress_threads.py 20
    exit 0
fi
build "-fsanitize=address,undefined -fno-sanitize-recover=undefined"
LD_PRELOAD="$(gcc -print-file-name=libasan.so) $(gcc -print-file-name=libubsan.so)" \
    ASAN_OPTIONS=detect_leaks=0 PYTHONMALLOC=malloc \
    "$python" -m pytest -q -p no:cacheprovider -k "not no_leaks and not bounded" ../tests/python/test_core_*.py
