#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# check_release.sh vX.Y.Z - may this commit become that release? Before the tag is made, and again by release.yml.
#
# The version of the sources is the tag's and is nowhere another; CHANGELOG.md has its section and nothing unreleased,
# and keepachangelog reads it; Debian's changelog has it; every change is committed; the ABI is the last release's
# or the soname is another. Prints each fault; exit status 1 if there is one.
# shellcheck disable=SC2317 # functions are called by check
set -uo pipefail
cd "$(dirname "$0")/.." || exit 4
tag=${1:?usage: check_release.sh vX.Y.Z}
version=${tag#v}
[[ $tag =~ ^v[0-9]+\.[0-9]+\.[0-9]+$ ]] || { echo "check_release: \"$tag\" is no tag of a release: vX.Y.Z" >&2; exit 2; }
bad=0
# check WHAT COMMAND..., which may be one of the functions below
check() {
    local what=$1 output
    shift
    if output=$("$@" 2>&1); then
        echo "good: $what"
    else
        echo "BAD:  $what"
        printf '%s\n' "$output" | sed 's/^/      /'
        bad=1
    fi
}
is() { [ "$1" = "$2" ] || { echo "$1"; return 1; }; }
parses() {
    scripts/venv.sh packaging/requirements-release.txt build/venv-release &&
        build/venv-release/bin/python -c '
import sys, keepachangelog
found = keepachangelog.to_dict("CHANGELOG.md")
sys.exit(0 if sys.argv[1] in found else f"keepachangelog finds {sorted(found)}")' "$version"
}
debian() { sed -n '1s/^libsafetensors (\([^-)]*\).*/\1/p' packaging/debian/changelog 2>/dev/null; }
before() { git tag --list 'v[0-9]*' --sort=-version:refname | grep -vx "$tag" | head -n 1; }

check "the version of the sources is $version" is "$(packaging/version.sh)" "$version"
check "no file says another version" python3 scripts/check_version.py
check "CHANGELOG.md has $version and nothing unreleased" python3 tests/check/changelog.py --released "$version"
check "keepachangelog reads it" parses
check "Debian's changelog has $version" is "$(debian)" "$version"
check "every change is committed" is "$(git status --porcelain)" ""
old=$(before)
if [ -n "$old" ]; then
    check "programs built with $old run with $version" scripts/check_abi.sh "$old"
else
    echo "good: there is no release before: no ABI to keep"
fi
exit $bad
