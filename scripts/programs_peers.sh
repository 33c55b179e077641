#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# programs_peers.sh [NAME,...] - real programs on the `safetensors` of PyPI and on ours (tests/peers/programs.py): all, or those
# that are named (programs, scripts or environments of tests/peers/programs). Part of `make test-peers`.
#
# build/programs: venv-* (tests/peers/programs/requirements-*.txt, 6 GB), reference (the pinned package alone), ours (./python with
# ./python/alias), work (what each program left), table.md.
set -u
cd "$(dirname "$0")/.." || exit 4
room=build/programs
list=tests/peers/programs
export PIP_DISABLE_PIP_VERSION_CHECK=1
scripts/venv.sh || exit 1
python=$PWD/build/venv/bin/python
mkdir -p "$room"
environment() { # NAME [SITE-PACKAGES BENEATH]
    local venv=$room/venv-$1
    if [ -f "$venv/.requirements" ] && cat "$list/requirements-$1"*.txt | cmp -s - "$venv/.requirements"; then
        return 0
    fi
    echo "programs: making $venv"
    [ -x "$venv/bin/python" ] || "$python" -m venv "$venv" || return 1
    if [ -n "${2:-}" ]; then
        echo "$2" >"$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/base.pth"
    fi
    # The frameworks of build/venv stay as they are.
    "$venv/bin/python" -m pip install --quiet -c tests/requirements.txt -r "$list/requirements-$1.txt" || return 1
    if [ -f "$list/requirements-$1-alone.txt" ]; then
        "$venv/bin/python" -m pip install --quiet --no-deps -r "$list/requirements-$1-alone.txt" || return 1
    fi
    cat "$list/requirements-$1"*.txt >"$venv/.requirements"
}
failed=0
environment torch "$("$python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')" || failed=1
for name in jax tensorflow paddle mindspore mlx; do
    environment "$name" || failed=1
done
pinned=$(grep '^safetensors==' tests/requirements.txt)
if [ ! -f "$room/reference/.$pinned" ]; then
    rm -rf "$room/reference"
    "$python" -m pip install --quiet --no-deps --target "$room/reference" "$pinned" || exit 1
    touch "$room/reference/.$pinned"
fi
rm -rf "$room/ours" "$room/source"
mkdir -p "$room/source"
cp -R python scripts src include "$room/source/"
mkdir -p "$room/source/web/dist"
cp web/dist/report.html "$room/source/web/dist/"
rm -rf "$room/source/python/build" "$room/source/python/amalgamation"
"$python" -m pip install --quiet --no-deps --no-build-isolation --no-index --target "$room/ours" \
    "$room/source/python" "$room/source/python/alias" || exit 1
rm -rf "$room/source"
least=41
[ $# -eq 0 ] || least=1
"$python" tests/peers/programs.py --ours "$room/ours" --reference "$room/reference" --venvs "$room" --only "${1:-}" \
    --least "$least" --table "$room/table.md" || failed=1
exit "$failed"
