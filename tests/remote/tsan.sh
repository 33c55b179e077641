#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# tsan.sh TOOL - libsafetensors-remote under ThreadSanitizer: the probe, built so in a folder of its own, against
# nginx (HTTP/1.1, HTTP/2 with TLS) and the hostile server: loads and hashes with four threads over one sft_remote,
# caches, retries, changes in the middle, downloads. TOOL is an ordinary build of the command.
set -eu
tool=$(realpath "$1")
cd "$(dirname "$0")/../.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cmake -S . -B "$work" -DSFT_BUILD_TESTS=ON -DSFT_SANITIZE=thread -DCMAKE_BUILD_TYPE=RelWithDebInfo >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
cmake --build "$work" --target remote_probe -j2 >"$work/log" 2>&1 || { tail -50 "$work/log"; exit 1; }
# A fixed layout of memory: the detector knows no other.
export TSAN_OPTIONS=halt_on_error=1:exitcode=66
setarch -R python3 tests/remote/test_nginx.py --probe "$work/tests/remote/remote_probe" --tool "$tool" \
    data threads misbehaving
setarch -R python3 tests/remote/test_hostile.py --probe "$work/tests/remote/remote_probe" --tool "$tool" \
    misbehaviour several pinned caches fetched uneven s3 tls
