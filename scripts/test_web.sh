#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# test_web.sh [--build | --site OUT] - the report page and the site: types, unit tests, whether web/dist/report.html is what
# its sources make, and Chromium with pictures in build/web-pictures; and reports of build/safetensors (SFT_TOOL: of another
# tool), if there is one; ends with "N passed, N failed". --build: only writes web/dist/report.html. --site: only what of the site is made of web/src, in OUT.
#
# Packages are those of web/package-lock.json, in build/web, where a copy of the sources is worked on.
set -eu
cd "$(dirname "$0")/.."
root=$PWD
work=$root/build/web
mkdir -p "$work"
if [ $# -eq 0 ]; then scripts/site.sh; fi

find "$work" -mindepth 1 -maxdepth 1 ! -name node_modules ! -name npm.stamp -exec rm -rf {} +
cp -R web/. "$work/"
mkdir "$work/wasm"
cp -R wasm/src "$work/wasm/"
cd "$work"
stamp=$(sha256sum package.json package-lock.json)
if [ ! -e node_modules ] || [ "$(cat npm.stamp 2>/dev/null)" != "$stamp" ]; then
    npm ci --ignore-scripts --no-audit --no-fund --loglevel=error >/dev/null
    echo "$stamp" >npm.stamp
fi
npm run --silent check
if [ "${1:-}" = --site ]; then
    node build.mjs --site "$2"
    exit
fi
if [ "${1:-}" = --build ]; then
    node build.mjs "$root/web/dist/report.html"
    exit
fi
node build.mjs "$work/made.html"
if ! cmp made.html "$root/web/dist/report.html"; then
    echo "test_web: web/dist/report.html is not what web/src makes: run make site" >&2
    exit 1
fi
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
