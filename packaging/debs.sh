#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# debs.sh OUT - Debian's source package and binary packages of the last commit (or of the source tarball that this
# lies in) for this release of Debian: OUT/*.dsc, *.orig.tar.xz, *.debian.tar.xz, *.deb. The same bytes from any
# folder and by any user with the same build dependencies.
#
# `scripts/bootstrap.sh debs` installs what is needed. SFT_DEB_CHECK=1 runs the unit tests, too. SFT_DEB_LOG: a file
# that gets the log. The .changes and .buildinfo files, which hold the time of the build, go to OUT only with
# SFT_DEB_UPLOAD=1.
set -eu
out=${1:?usage: debs.sh OUT}
mkdir -p "$out"
out=$(cd "$out" && pwd)
cd "$(dirname "$0")/.."
umask 022
export LC_ALL=C.UTF-8 TZ=UTC
SOURCE_DATE_EPOCH=$(packaging/epoch.sh)
export SOURCE_DATE_EPOCH
version=$(packaging/version.sh)
name=libsafetensors-$version
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

if [ -e packaging/files ] && [ -e "$out/$name.tar.xz" ]; then
    cp "$out/$name.tar.xz" "$work/" # a release: this lies in what was extracted from it
else
    packaging/tarball.sh "$work" >/dev/null
fi
mv "$work/$name.tar.xz" "$work/libsafetensors_$version.orig.tar.xz"
rm -f "$work/$name.tar.gz"
tar -xf "$work/libsafetensors_$version.orig.tar.xz" -C "$work"
cd "$work/$name"
cp -R packaging/debian debian

options="parallel=${JOBS:-$(nproc)}"
[ "${SFT_DEB_CHECK:-0}" = 1 ] || options="$options nocheck"
# What a caller's environment may say of compilers has no say, nor has a Python of the caller's own in the path.
if ! env -u CC -u CFLAGS -u CPPFLAGS -u CXXFLAGS -u LDFLAGS -u BUILD -u MAKEFLAGS -u MFLAGS -u MAKELEVEL -u DESTDIR \
    PATH=/usr/sbin:/usr/bin:/sbin:/bin DEB_BUILD_OPTIONS="${DEB_BUILD_OPTIONS:-} $options" \
    dpkg-buildpackage --no-sign -ui >"$work/log" 2>&1; then
    tail -n 60 "$work/log" >&2
    exit 1
fi
cd "$work"
[ -z "${SFT_DEB_LOG:-}" ] || cp log "$SFT_DEB_LOG"
if [ "${SFT_DEB_UPLOAD:-0}" != 1 ]; then rm -f ./*.changes ./*.buildinfo; fi
for file in *.dsc *.orig.tar.* *.debian.tar.* *.deb *.ddeb *.changes *.buildinfo; do
    if [ -e "$file" ]; then mv "$file" "$out/"; fi
done
cd "$out"
sha256sum ./*.dsc ./*.tar.xz ./*.deb | sed 's|\./||'
