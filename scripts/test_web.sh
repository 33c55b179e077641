#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# test_web.sh - the page of reports and the site: types, unit tests, whether web/dist/report.html is what its sources make, and
# Chromium with pictures in build/web-pictures; and pages of build/safetensors (SFT_TOOL: of another tool), if there is one.
# Ends with "N passed, N failed".
set -eu
cd "$(dirname "$0")/.."
root=$PWD
scripts/site.sh
made=$root/build/report.html
scripts/web.sh --page "$made"
if ! cmp "$made" web/dist/report.html; then
    echo "test_web: web/dist/report.html is not what web/src makes: run make site" >&2
    exit 1
fi
cd build/web
node build.mjs --modules obj
rm -rf "$root/build/web-pictures"
tool=${SFT_TOOL:-$root/build/safetensors}
if ! "$tool" report --help >/dev/null 2>&1; then tool=""; fi
export SFT_SITE="$root/build/site" SFT_TOOL="$tool" SFT_ROOT="$root" SFT_PICTURES="$root/build/web-pictures"
passed=0 failed=0
for file in test/*.test.mjs; do # one after the other, as Node 18 can, too
    echo "== $file"
    node --test "$file" >test.log 2>&1 || failed=$((failed + 1)) # of a file that says nothing, too
    cat test.log
    count() { sed -n "s/^[^ ]* $1 \([0-9]*\)\$/\1/p" test.log; }
    of_file=$(count fail)
    of_pass=$(count pass)
    passed=$((passed + ${of_pass:-0}))
    if [ "${of_file:-0}" -gt 0 ]; then failed=$((failed + of_file - 1)); fi
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
