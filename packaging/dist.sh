#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# dist.sh [--only PART,...] [OUT] - everything of a release, in OUT (default build/dist, made anew):
# the source tarball; from the tarball, extracted elsewhere, the npm package, the site, the Python wheels (which have
# the site inside), and the Debian packages; libsafetensors-VERSION.cdx.json, what is inside (CycloneDX); SHA256SUMS; SHA256SUMS.minisig, if a key is given.
#
# PART: tarball npm site wheels debs (the tarball is always made). A part that is asked for and fails, fails all.
# MINISIGN_KEY: minisign's secret key (docs/RELEASING.md); its password, if it has one, is read from the terminal: at the
# beginning, when the key is tried, and at the end.
# A key without the public one beside it (FILE.pub for FILE.key) is refused: what is signed is verified at once.
# WHEELS: the targets of wheels.sh, instead of all. ALLOW_CHANGES=1: the checkout may have changes; they are not in the release. KEEP=1: what was extracted stays.
#
# The same commit gives the same bytes (packaging/reproduce.sh tries it), with the same tools: bootstrap.sh dist
# installs Debian's, packaging/requirements*.txt pin those of PyPI.
set -euo pipefail
parts="npm site wheels debs"
usage() {
    sed -n '4s/^# //p' "$0" >&2
    exit 2
}
out=
while [ $# -gt 0 ]; do
    case $1 in
        --only)
            [ $# -ge 2 ] || usage
            parts=${2//,/ }
            shift
            ;;
        -*) usage ;;
        *)
            [ -z "$out" ] || usage
            out=$1
            ;;
    esac
    shift
done
for part in $parts; do
    case $part in tarball | npm | site | wheels | debs) ;; *) usage ;; esac
done
began=$SECONDS
from=$PWD
umask 022
cd "$(dirname "$0")/.."
case ${out:=$PWD/build/dist} in /*) ;; *) out=$from/$out ;; esac

if [ ! -e packaging/files ] && [ -n "$(git status --porcelain)" ] && [ "${ALLOW_CHANGES:-0}" != 1 ]; then
    echo "dist: there are changes that no commit has (git status); a release is made of a commit. ALLOW_CHANGES=1 goes on" >&2
    exit 1
fi
public=
if [ -n "${MINISIGN_KEY:-}" ]; then
    case $MINISIGN_KEY in /*) ;; *) MINISIGN_KEY=$from/$MINISIGN_KEY ;; esac
    public=${MINISIGN_KEY%.key}.pub
    for file in "$MINISIGN_KEY" "$public"; do
        [ -r "$file" ] || { echo "dist: $file cannot be read: the secret key's file is NAME.key, the public one's NAME.pub" >&2; exit 2; }
    done
    command -v minisign >/dev/null || { echo "dist: minisign is needed to sign (scripts/bootstrap.sh dist)" >&2; exit 2; }
    tried=$(mktemp) # before an hour of work
    if ! minisign -S -s "$MINISIGN_KEY" -m "$tried" >/dev/null || ! minisign -V -q -p "$public" -m "$tried"; then
        rm -f "$tried" "$tried.minisig"
        echo "dist: $MINISIGN_KEY does not sign what $public verifies" >&2
        exit 2
    fi
    rm -f "$tried" "$tried.minisig"
fi

SOURCE_DATE_EPOCH=$(packaging/epoch.sh)
export SOURCE_DATE_EPOCH
version=$(packaging/version.sh)
others=$(ls -A "$out" 2>/dev/null | grep -v -e safetensors -e '^SHA256SUMS' | head -n 1 || true)
if [ -n "$others" ]; then
    echo "dist: $out is made anew, and has what no release put there (\"$others\"): name another folder" >&2
    exit 2
fi
rm -rf "$out"
mkdir -p "$out"
out=$(cd "$out" && pwd)
work=$(mktemp -d "${TMPDIR:-/tmp}/libsafetensors-dist.XXXXXX")
if [ "${KEEP:-0}" != 1 ]; then trap 'rm -rf "$work"' EXIT; fi

# part NAME COMMAND...: its output in a log, of which a failure shows the end
part() {
    local name=$1 start=$SECONDS
    shift
    if ! "$@" >"$work/$name.log" 2>&1; then
        tail -n 40 "$work/$name.log" >&2
        cp "$work/$name.log" "$out.$name.log"
        if [ -s "$out.$name.log" ]; then
            echo "dist: $name failed: all of its output is in $out.$name.log" >&2
        else
            echo "dist: $name failed, and there is no output of it; is there room? $(df -h "$work" | tail -n 1)" >&2
        fi
        exit 1
    fi
    rm -f "$out.$name.log"
    echo "dist: $name, $((SECONDS - start)) s"
}

part tarball packaging/tarball.sh "$out"
part recipes packaging/recipes.sh "$out"
tar -xf "$out/libsafetensors-$version.tar.gz" -C "$work"
cd "$work/libsafetensors-$version"
export SFT_COMPRESSION=${SFT_COMPRESSION:-$work/compression}
for name in $parts; do
    [ "$name" != tarball ] || continue
    if [ ! -x "packaging/$name.sh" ]; then
        echo "dist: packaging/$name.sh is missing" >&2
        exit 1
    fi
    # shellcheck disable=SC2086
    case $name in
        wheels) part wheels packaging/wheels.sh "$out" ${WHEELS:-} ;;
        *) part "$name" "packaging/$name.sh" "$out" ;;
    esac
done
part sbom python3 packaging/sbom.py "$out" --sources "$SFT_COMPRESSION/versions.txt"

cd "$out"
find . -type f ! -name 'SHA256SUMS*' | LC_ALL=C sort | sed 's|^\./||' | tr '\n' '\0' | xargs -0 sha256sum >"$work/sums"
mv "$work/sums" SHA256SUMS
if [ -n "$public" ]; then
    minisign -S -s "$MINISIGN_KEY" -m SHA256SUMS -t "libsafetensors $version, epoch $SOURCE_DATE_EPOCH" \
        -c "signature of libsafetensors $version"
    minisign -V -q -p "$public" -m SHA256SUMS || { rm -f SHA256SUMS.minisig; exit 1; }
    echo "dist: SHA256SUMS is signed, and the signature holds"
else
    echo "dist: not signed: MINISIGN_KEY names no key"
fi
sha256sum --quiet -c SHA256SUMS
cat SHA256SUMS
echo "dist: $(wc -l <SHA256SUMS) files, $(du -ch -- * | tail -n 1 | cut -f1) in $out, $((SECONDS - began)) s"
