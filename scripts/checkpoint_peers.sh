#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# checkpoint_peers.sh - layouts and folders of many ranks against those who make them: DTensor and DCP of PyTorch, JAX's
# PartitionSpec, plans of transformers, shards of huggingface_hub, names of MindFormers, and MindSpore's strategies,
# saved jobs and readers.
# SCALE (default 1): how many times the 2,000 random meshes per peer. Part of `make test-peers`; needs a finished build.
#
# build/venv-checkpoint: tests/checkpoint/requirements-peers.txt; build/venv-import-mindspore. Ends with "N passed, N failed".
set -u
cd "$(dirname "$0")/.." || exit 4
build=${BUILD:-build}
count=$((2000 * ${SCALE:-1}))
tool=$PWD/$build/safetensors
library=$PWD/$build/tests/layout/liblayout_ffi.so
export PYTHONDONTWRITEBYTECODE=1 JAX_PLATFORMS=cpu
. scripts/count.sh
if scripts/venv.sh tests/checkpoint/requirements-peers.txt build/venv-checkpoint; then
    python=$PWD/build/venv-checkpoint/bin/python
    run "$python" tests/layout/torch_jax.py --library "$library" --count "$count" --jax
    run "$python" tests/layout/transformers_peer.py --library "$library" --count "$count"
    run "$python" tests/checkpoint/plan_peer.py --tool "$tool"
    run "$python" tests/checkpoint/dcp_peer.py --tool "$tool"
    run "$python" tests/checkpoint/hub_peer.py --tool "$tool"
    rm -rf "$build/mindformers" && mkdir -p "$build/mindformers/models"
    run "$python" tests/checkpoint/mindformers_peer.py --make --models "$build/mindformers/models"
    run "$python" -m pip download --quiet --no-deps --dest "$build/mindformers" -r tests/checkpoint/requirements-mindformers.txt
else
    failed=$((failed + 6))
fi
if scripts/venv.sh tests/import/requirements-mindspore.txt build/venv-import-mindspore; then
    python=$PWD/build/venv-import-mindspore/bin/python
    run "$python" tests/checkpoint/mindspore_peer.py --library "$library" --tool "$tool" --count "$count" --jobs 60
    run "$python" tests/checkpoint/coverage_table.py --tool "$tool" --mindspore --out "$build/coverage-table.md"
    run "$python" tests/checkpoint/rank_files.py --tool "$tool" --mindspore
    run "$python" tests/checkpoint/numbers_mindspore_peer.py --tool "$tool" --count $((count / 20))
    run "$python" tests/checkpoint/mindformers_layout_peer.py --tool "$tool" --wheel "$build"/mindformers/*.whl
    run "$python" tests/checkpoint/mindformers_peer.py --tool "$tool" --models "$build/mindformers/models" --wheel "$build"/mindformers/*.whl
else
    failed=$((failed + 6))
fi
counted
