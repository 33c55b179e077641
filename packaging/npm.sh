#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# npm.sh OUT - OUT/libsafetensors-wasm-VERSION.tgz, the npm package: the same bytes wherever it is made with the same
# compilers and Node. Needs clang, lld, llvm, wasi-libc, binaryen, node and npm (scripts/bootstrap.sh npm).
#
# It is made in build/npm (SFT_NPM_WORK names another folder), where the tests run, too: scripts/test_wasm.sh.
set -eu
out=${1:?usage: npm.sh OUT}
mkdir -p "$out"
out=$(cd "$out" && pwd)
cd "$(dirname "$0")/.."
export LC_ALL=C TZ=UTC
umask 022
work=${SFT_NPM_WORK:-$PWD/build/npm}
SOURCE_DATE_EPOCH=$(packaging/epoch.sh)
export SOURCE_DATE_EPOCH
mkdir -p "$work/package"

packaging/compression.sh "$work/compression" "clang --target=wasm32-wasi -mbulk-memory -mnontrapping-fptoint -msign-ext" \
    llvm-ar "-fno-pic -Oz -I$PWD/wasm/native/compression"

# Sources of the package, those of old runs gone.
find "$work/package" -mindepth 1 -maxdepth 1 ! -name node_modules -exec rm -rf {} +
cp -R wasm/. "$work/package/"
rm -rf "$work/package/native" "$work/package/build.sh"
COMPRESSION=$work/compression WORK=$work/objects wasm/build.sh "$work/package/dist"
cp LICENSE LICENSE-APACHE LICENSE-MIT "$work/package/"
cat "$work"/compression/licenses/*.txt /usr/share/doc/wasi-libc/copyright >"$work/package/THIRD-PARTY"

cd "$work/package"
stamp=$(sha256sum package.json package-lock.json)
if [ ! -e node_modules ] || [ "$(cat "$work/npm.stamp" 2>/dev/null)" != "$stamp" ]; then
    npm ci --ignore-scripts --no-audit --no-fund --loglevel=error >/dev/null
    echo "$stamp" >"$work/npm.stamp"
fi
node scripts/build.mjs
npm pack --ignore-scripts --pack-destination "$out" --loglevel=error >/dev/null
(cd "$out" && sha256sum libsafetensors-wasm-*.tgz)
