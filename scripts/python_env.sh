#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# python_env.sh BASE-PYTHON FOLDER - a small environment for the tests of the Python package.
#
# FOLDER becomes a virtual environment whose packages are those of BASE-PYTHON, with ./python built and
# installed on top, as pip would for a user (so that safetensors_c.pth counts). BASE-PYTHON's own
# environment is left as it is. Does nothing when no source has changed since.
# SFT_WHEEL: a wheel that is installed instead of what ./python builds.
set -eu
cd "$(dirname "$0")/.."
base=$1
folder=$2
stamp=$(find python src include scripts/amalgamate.py scripts/python_env.sh web/dist/report.html -type f \
    ! -path '*/build/*' ! -path '*/amalgamation/*' ! -path '*.egg-info/*' ! -name '*.pyc' -print0 |
    sort -z | xargs -0 cksum | cksum)
if [ -n "${SFT_WHEEL:-}" ]; then
    stamp="wheel $(cksum <"$SFT_WHEEL")"
fi
if [ -f "$folder/.stamp" ] && [ "$(cat "$folder/.stamp")" = "$base $stamp" ]; then
    exit 0
fi
rm -rf "$folder"
"$base" -m venv --without-pip "$folder"
site=$("$folder/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
"$base" -c 'import sysconfig; print(sysconfig.get_path("purelib"))' >"$site/base.pth"
if [ -n "${SFT_WHEEL:-}" ]; then
    "$base" -m pip install --quiet --disable-pip-version-check --no-deps --no-index --target "$site" "$SFT_WHEEL"
else
    # A copy is built, so that nothing is written beside the sources.
    mkdir -p "$folder/source/web/dist"
    cp -R python scripts src include "$folder/source/"
    cp web/dist/report.html "$folder/source/web/dist/"
    rm -rf "$folder/source/python/build" "$folder/source/python/amalgamation"
    isolation=
    if "$base" -c 'import setuptools' 2>/dev/null; then
        isolation="--no-build-isolation --no-index" # nothing has to be fetched
    fi
    # shellcheck disable=SC2086
    SFT_NO_TOOL=1 "$base" -m pip install --quiet --disable-pip-version-check --no-deps $isolation \
        --target "$site" "$folder/source/python"
    rm -rf "$folder/source"
fi
printf '%s' "$base $stamp" >"$folder/.stamp"
