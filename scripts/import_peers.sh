#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# import_peers.sh - the import library against writers that the ordinary tests do not install: onnx and flax, mindspore,
# paddlepaddle, h5py and keras, tensorflow, torchao. Each makes its files afresh, the tool converts them, the values are those that the writer's own library
# loads; mindspore loads what the tool writes, 528 MiB in two pieces included. Part of `make test-peers`.
#
# tests/peers/writers.py then has more than a thousand files written by all of them, with every option and type, and judges each.
#
# build/venv-import-*: tests/import/requirements-*.txt, tests/peers/requirements-*.txt (6 GB in all). Ends with "N passed, N failed".
set -u
cd "$(dirname "$0")/.." || exit 4
build=${BUILD:-build}
tool=$PWD/$build/safetensors
work=$(mktemp -d "$build/import-peers.XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT
export PYTHONDONTWRITEBYTECODE=1 JAX_PLATFORMS=cpu
. scripts/count.sh
peer() { # NAME OF ITS REQUIREMENTS, WRITERS...
    local venv=build/venv-import-$1
    local python=$PWD/$venv/bin/python
    if ! scripts/venv.sh "tests/import/requirements-$1.txt" "$venv"; then
        failed=$((failed + 1))
        return
    fi
    shift
    for writer in "$@"; do
        mkdir -p "$work/$writer"
        run "$python" "tests/import/make_$writer.py" "$work/$writer"
        run python3 tests/import/fixtures.py --tool "$tool" "$work/$writer"
    done
}
peer onnx-flax onnx flax
peer mindspore mindspore
peer paddle paddle paddle_static
peer hdf5 hdf5 keras_shards
peer h5py2 h5py
peer tf tf tflite
peer arrow arrow
for more in classic h5py; do
    scripts/venv.sh "tests/peers/requirements-$more.txt" "build/venv-import-$more" || failed=$((failed + 1))
done
scripts/venv.sh tests/checkpoint/requirements-peers.txt build/venv-checkpoint || failed=$((failed + 1)) # transformers, for genuine.py
run python3 tests/peers/writers.py --tool "$tool" --strict --least 600 --keep "$work/peers"
run python3 tests/peers/genuine.py --tool "$tool" --keep "$work/peers"
run python3 tests/peers/inventory.py --tool "$tool"
# torchao and joblib over the torch and numpy of build/venv
if scripts/venv.sh tests/import/requirements-torch-family.txt build/venv-import-torch-family; then
    site=$(build/venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
    echo "$site" > "$(build/venv-import-torch-family/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/torch.pth"
    run build/venv-import-torch-family/bin/python tests/import/torchao_oracle.py --tool "$tool"
    mkdir -p "$work/joblib"
    run build/venv-import-torch-family/bin/python tests/import/make_joblib.py "$work/joblib"
    run python3 tests/import/fixtures.py --tool "$tool" "$work/joblib"
else
    failed=$((failed + 1))
fi
run python3 tests/peers/scanner_corpora.py --tool "$tool"
run python3 tests/peers/scan_holdout.py --tool "$tool"
python=$PWD/build/venv-import-mindspore/bin/python
if [ -x "$python" ]; then
    run "$python" tests/import/mindspore_oracle.py --tool "$tool"
    run "$python" tests/import/mindspore_oracle.py --tool "$tool" --large
fi
counted
