#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# site.sh OUT - OUT/libsafetensors-VERSION-site.tar.gz, the page that opens models in a browser (scripts/site.sh): the same
# bytes wherever it is made with the same compilers, tar and gzip.
set -eu
out=${1:?usage: site.sh OUT}
mkdir -p "$out"
out=$(cd "$out" && pwd)
cd "$(dirname "$0")/.."
export LC_ALL=C TZ=UTC
umask 022
epoch=$(packaging/epoch.sh)
name=libsafetensors-$(packaging/version.sh)-site
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
scripts/site.sh "$work/$name"
tar -C "$work" --format=ustar --sort=name --mtime="@$epoch" --owner=0 --group=0 --numeric-owner -cf "$work/$name.tar" "$name"
gzip -9n <"$work/$name.tar" >"$work/gz"
mv "$work/gz" "$out/$name.tar.gz"
(cd "$out" && sha256sum "$name.tar.gz")
