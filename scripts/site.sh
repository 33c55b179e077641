#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# site.sh [OUT] - the page as a site, in OUT (default build/site): index.html, site.js, site.css, worker.js,
# safetensors.wasm, safetensors-scan.wasm and licences, for any web server and below any path. Needs what npm.sh needs.
#
# The modules are made in build/npm (SFT_NPM_WORK names another folder), where the npm package has its own.
set -eu
cd "$(dirname "$0")/.."
root=$PWD
out=${1:-$root/build/site}
umask 022
work=${SFT_NPM_WORK:-$root/build/npm}
mkdir -p "$out" "$work"
out=$(cd "$out" && pwd)
others=$(ls -A "$out" | grep -Evx 'index\.html|site\.(js|css)|worker\.js|safetensors(-scan|-report)?\.wasm|LICENSE.*|THIRD-PARTY' | head -n 1 || true)
if [ -n "$others" ]; then
    echo "site: $out is made anew, and has what no site put there (\"$others\"): name another folder" >&2
    exit 2
fi
find "$out" -mindepth 1 -delete

packaging/compression.sh "$work/compression" "clang --target=wasm32-wasi -mbulk-memory -mnontrapping-fptoint -msign-ext" \
    llvm-ar "-fno-pic -Oz -I$root/wasm/native/compression"
SITE=1 COMPRESSION=$work/compression WORK=$work/site-objects wasm/build.sh "$out"
mv "$out/safetensors-report.wasm" "$out/safetensors.wasm"
scripts/web.sh --site "$out"
cp LICENSE LICENSE-APACHE LICENSE-MIT "$out/"
cat "$work"/compression/licenses/*.txt /usr/share/doc/wasi-libc/copyright >"$out/THIRD-PARTY"
chmod 644 "$out"/*
