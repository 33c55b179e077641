#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# tarball.sh OUT - OUT/libsafetensors-VERSION.tar.gz and .tar.xz of the last commit: the same bytes wherever, whenever
# and by whomever they are made with the same tar, gzip and xz. In an extracted tarball it makes that tarball again.
#
# Two files are added: packaging/epoch, the time of everything inside, and packaging/files, the list of the files;
# with them a tarball needs no git. SFT_TARBALL_LEVEL: another level of both compressions, for tests.
set -eu
out=${1:?usage: tarball.sh OUT}
mkdir -p "$out"
out=$(cd "$out" && pwd)
cd "$(dirname "$0")/.."
export LC_ALL=C TZ=UTC
umask 022
epoch=$(packaging/epoch.sh)
name=libsafetensors-$(packaging/version.sh)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/$name/packaging"

if [ -e packaging/files ]; then
    tar --verbatim-files-from -cf - -T packaging/files | tar -xf - -C "$work/$name"
else
    changed=$(git status --porcelain --untracked-files=no | wc -l)
    [ "$changed" -eq 0 ] || echo "tarball: $changed changed files: the tarball has them as they were committed" >&2
    # What a user may have configured has no say.
    git -c core.autocrlf=false -c core.attributesFile=/dev/null -c tar.umask=0022 archive --format=tar HEAD |
        tar -xf - -C "$work/$name"
    (cd "$work/$name" && { find . -type f -o -type l; printf './packaging/epoch\n./packaging/files\n'; }) |
        sed 's|^\./||' | sort >"$work/files"
    mv "$work/files" "$work/$name/packaging/files"
    echo "$epoch" >"$work/$name/packaging/epoch"
fi
# Modes are git's: what is a program, and nothing else.
find "$work/$name" -type f -perm /111 -exec chmod 755 {} +
find "$work/$name" -type f ! -perm /111 -exec chmod 644 {} +
sed "s|^|$name/|" "$work/$name/packaging/files" >"$work/list"
tar -C "$work" --format=ustar --mtime="@$epoch" --owner=0 --group=0 --numeric-owner \
    --verbatim-files-from -cf "$work/$name.tar" -T "$work/list"
gzip "-${SFT_TARBALL_LEVEL:-9}n" <"$work/$name.tar" >"$work/gz"
xz "-${SFT_TARBALL_LEVEL:-6}" -T1 -c "$work/$name.tar" >"$work/xz"
mv "$work/gz" "$out/$name.tar.gz"
mv "$work/xz" "$out/$name.tar.xz"
(cd "$out" && sha256sum "$name.tar.gz" "$name.tar.xz")
