#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# tarball.sh FOLDER - the source tarball of the last commit, made again from itself under another umask, time zone and
# language, at another path: the same bytes, compressed less. Ends with status 77 where there is neither git nor packaging/files.
set -eu
folder=$1
cd "$(dirname "$0")/../.."
if [ ! -e packaging/files ] && ! git rev-parse --verify --quiet HEAD >/dev/null 2>&1; then
    echo "no commit: nothing to make a tarball of"
    exit 77
fi
name=libsafetensors-$(packaging/version.sh)
rm -rf "$folder"
mkdir -p "$folder/another/place"
SFT_TARBALL_LEVEL=1 packaging/tarball.sh "$folder/one" 2>/dev/null
tar -xf "$folder/one/$name.tar.gz" -C "$folder/another/place"
(
    umask 077
    TZ=Asia/Kathmandu LANG=de_DE.UTF-8 SFT_TARBALL_LEVEL=1 "$folder/another/place/$name/packaging/tarball.sh" "$folder/two"
)
cmp "$folder/one/$name.tar.gz" "$folder/two/$name.tar.gz"
cmp "$folder/one/$name.tar.xz" "$folder/two/$name.tar.xz"
"$folder/another/place/$name/packaging/files.sh" >"$folder/files"
(cd "$folder/another/place/$name" && find . -type f | sed 's|^\./||' | LC_ALL=C sort) | cmp - "$folder/files"
rm -rf "$folder"
