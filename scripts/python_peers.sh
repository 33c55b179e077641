#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# python_peers.sh - the Python package against everything heavy: the reference's own tests, those of skorch,
# huggingface_hub, accelerate and peft, tiny models through transformers and its kin, and the differential
# tests with 1,000 examples each and every framework. Part of `make test-peers`.
#
# build/venv-python: tests/python/requirements-peers.txt, from which the package `safetensors` is taken out;
# build/reference: that package alone, for comparisons. REFERENCE: its version. SFT_WHEEL: a wheel that is tested instead of
# what the sources give; `safetensors` is then its command, too, if SFT_TOOL names it. Ends with "N passed, N failed".
set -u
cd "$(dirname "$0")/.." || exit 4
venv=build/venv-python
reference=$PWD/build/reference
version=${REFERENCE:-0.9.0rc1}
if [ -n "${SFT_WHEEL:-}" ]; then
    SFT_WHEEL=$(realpath "$SFT_WHEEL") # scripts/python_env.sh reads it
    export SFT_WHEEL
    folder=python-wheel-env
else
    folder=python-peers-env
fi
export TF_CPP_MIN_LOG_LEVEL=3 PYTHONDONTWRITEBYTECODE=1
scripts/venv.sh tests/python/requirements-peers.txt "$venv" || exit 1
"$venv/bin/python" -m pip uninstall --quiet --yes safetensors 2>/dev/null
if [ ! -f "$reference/.$version" ]; then
    rm -rf "$reference"
    "$venv/bin/python" -m pip install --quiet --no-deps --target "$reference" "safetensors==$version" || exit 1
    touch "$reference/.$version"
fi
scripts/python_env.sh "$PWD/$venv/bin/python" "$PWD/build/$folder" || exit 1
python=$PWD/build/$folder/bin/python
. scripts/count.sh
pytest=("$python" -m pytest -q -p no:cacheprovider)
run "$python" tests/python/reference_suite.py --python "$python" --version "$version"
run "$python" tests/python/compare_api.py --reference "$reference" --version "$version"
run env SAFETENSORS_C=1 "${pytest[@]}" tests/python/peer_round_trips.py
run "$python" tests/python/peer_suites.py --python "$python" --reference "$reference"
# A process for each framework: some of them do not bear each other.
for test in numpy deserialize slices torch sharing flax tensorflow paddle; do
    run env PYTHONPATH="$reference" SFT_EXAMPLES="${SFT_EXAMPLES:-1000}" SFT_SEED=1 \
        "${pytest[@]}" tests/python/test_differential.py -k "test_$test or $test"
done
for test in tensorflow paddle callers "not (tensorflow or paddle or callers)"; do
    run env SAFETENSORS_C=1 "${pytest[@]}" tests/python/test_differences.py -k "$test"
done
run "${pytest[@]}" tests/python/test_types.py
# MindSpore needs an older NumPy than all the others.
if scripts/venv.sh tests/python/mindspore/requirements.txt build/venv-mindspore &&
    scripts/python_env.sh "$PWD/build/venv-mindspore/bin/python" "$PWD/build/python-mindspore-env"; then
    run env SFT_TOOL="${SFT_TOOL:-$PWD/build/safetensors}" build/python-mindspore-env/bin/python -m pytest -q -p no:cacheprovider tests/python/mindspore
    run build/python-mindspore-env/bin/python tests/checkpoint/guide.py --tool "${SFT_TOOL:-build/safetensors}" --doc docs/mindspore.md
else
    echo "the tests of MindSpore could not run"
    failed=$((failed + 1))
fi
counted
