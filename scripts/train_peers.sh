#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# train_peers.sh - training runs with the packages that people train with (tests/python/train), and trainings that are
# killed: each of three SFT_RUN_KILLS times (default 200) in at most SFT_RUN_SECONDS (default 300); then the packages' own
# tests of saving and resuming with ours plugged in: of those whose source on PyPI has tests, and of Lightning and
# transformers where SFT_LIGHTNING_SOURCE, SFT_TRANSFORMERS_SOURCE are checkouts of their repositories. Part of
# `make test-peers`. build/venv-train: tests/python/train/requirements.txt. Ends with "N passed, N failed".
set -u
cd "$(dirname "$0")/.." || exit 4
venv=build/venv-train
export PYTHONDONTWRITEBYTECODE=1
scripts/venv.sh tests/python/train/requirements.txt "$venv" || exit 1
scripts/python_env.sh "$PWD/$venv/bin/python" "$PWD/build/python-train-env" || exit 1
python=$PWD/build/python-train-env/bin/python
. scripts/count.sh
for file in tests/python/train/test_*.py; do
    run "$python" -m pytest -q -p no:cacheprovider "$file"
done
for model in mlp transformer lstm; do
    # What orphaned workers of killed trainings say of broken pipes is no news.
    run "$python" tests/python/run_kills.py "$model" "${SFT_RUN_KILLS:-200}" "$(date +%s)" "${SFT_RUN_SECONDS:-300}" \
        2>"build/run-kills-$model.txt"
done

# The source of PACKAGE==VERSION, as the requirements pin it, unpacked.
source_of() {
    pinned=$(grep "^$1==" tests/python/train/requirements.txt)
    directory=build/suites/$(echo "$pinned" | sed 's/==/-/')
    if [ ! -d "$directory" ]; then
        mkdir -p build/suites
        "$venv/bin/python" -m pip download --quiet --disable-pip-version-check --no-deps --no-build-isolation \
            --no-binary :all: --dest build/suites "$pinned" >&2 && tar -xzf "$directory.tar.gz" -C build/suites || return 1
    fi
    echo "$directory"
}
run "$python" tests/python/train/suites/run.py skorch "$(source_of skorch)"
run "$python" tests/python/train/suites/run.py accelerate "$(source_of accelerate)"
for package in LIGHTNING TRANSFORMERS; do
    source=SFT_${package}_SOURCE
    if [ -n "${!source:-}" ]; then
        run "$python" tests/python/train/suites/run.py "${package,,}" "${!source}"
    else
        echo "== not run: the tests of ${package,,}, which are not on PyPI ($source)"
    fi
done
counted
