#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# web.sh [--page FILE | --site OUT] - a copy of web/ in build/web with the packages of web/package-lock.json, its types checked; then
# the page of reports in FILE, or in OUT what of the site is made of web/src. scripts/site.sh makes the whole site.
set -eu
cd "$(dirname "$0")/.."
work=$PWD/build/web
mkdir -p "$work"
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
case ${1:-} in
    --page) node build.mjs "$2" ;;
    --site) node build.mjs --site "$2" ;;
esac
