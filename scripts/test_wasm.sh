#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# test_wasm.sh [TARBALL] - the npm package that packaging/npm.sh made in build/npm: its tests in Node and in
# Chromium, beside the native tool and numpy; then the tarball, installed in an empty folder.
#
# SFT_TOOL (default build/safetensors) and SFT_PYTHON (default build/venv/bin/python) are what it is compared with.
set -eu
cd "$(dirname "$0")/.."
root=$PWD
package=$root/build/npm/package
tarball=${1:-$(ls "$root"/build/dist-npm/libsafetensors-wasm-*.tgz)}
export SFT_ROOT="$root"
export SFT_TOOL="${SFT_TOOL:-$root/build/safetensors}"
export SFT_PYTHON="${SFT_PYTHON:-$root/build/venv/bin/python}"
for file in "$SFT_TOOL" "$SFT_PYTHON"; do
    [ -x "$file" ] || { echo "test_wasm: there is no $file" >&2; exit 2; }
done

(cd "$package" && node --test test/*.test.mjs)

# As a user gets it: no sources, no node_modules, types that compile.
clean=$(mktemp -d)
trap 'rm -rf "$clean"' EXIT
cd "$clean"
printf '{ "name": "clean", "private": true, "type": "module" }\n' >package.json
for file in LICENSE LICENSE-APACHE LICENSE-MIT README.md THIRD-PARTY; do
    tar -tzf "$tarball" "package/$file" >/dev/null || { echo "the tarball lacks $file"; exit 1; }
done
npm install --ignore-scripts --no-audit --no-fund --offline --loglevel=error "$tarball" >/dev/null
cat >smoke.mts <<'END'
import { openSync, saveSync, type Tensor } from '@libsafetensors/wasm';
const model = openSync(saveSync({ a: { shape: [2], data: new Float32Array([1, 2]) } }));
const tensor: Tensor = model.read('a');
if (tensor.data[1] !== 2) throw new Error('wrong');
console.log('the tarball works');
END
cp smoke.mts smoke.cts
node "$package/node_modules/typescript/bin/tsc" --strict --module nodenext --target es2022 --lib es2022,dom \
    --types node --typeRoots "$package/node_modules/@types" smoke.mts smoke.cts
[ "$(node smoke.mjs)" = "the tarball works" ]
[ "$(node smoke.cjs)" = "the tarball works" ]
echo "the tarball, installed in an empty folder: import, require and types work"
