#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# demo.sh TOOL - real work on examples/model, a small transformer, each command printed before it runs.
# Works on copies in build/demo. Every step's exit status is checked: a step that does not end as it
# should ends the demo with exit 1.
set -u
cd "$(dirname "$0")/.." || exit 4
tool=$(realpath "${1:-build/safetensors}")
work=build/demo
rm -rf "$work"
mkdir -p "$work"
cp -r examples/model "$work/model"
cp tests/import/fixtures/checkpoint.pt "$work/checkpoint.pt"
chmod -R u+w "$work"
cd "$work" || exit 4

say() {
    printf '\n## %s\n' "$*"
}
# step WANTED-STATUS COMMAND...: prints the command as one would type it, runs it, checks the status
step() {
    local wanted=$1 status word
    shift
    printf '$ safetensors'
    for word in "$@"; do # quoted as one would type it
        case $word in
            *[!A-Za-z0-9_./=,:-]*) printf " '%s'" "$word" ;;
            *) printf ' %s' "$word" ;;
        esac
    done
    printf '\n'
    "$tool" "$@"
    status=$?
    if [ "$status" -ne "$wanted" ]; then
        echo "demo: exit status $status, wanted $wanted" >&2
        exit 1
    fi
    if [ "$wanted" -ne 0 ]; then
        printf '(exit status %d)\n' "$status"
    fi
}
same() { # two files that must be equal
    cmp -s "$1" "$2" || { echo "demo: $1 and $2 differ" >&2; exit 1; }
    echo "$1 and $2 are the same, byte for byte"
}

say "What is in the model? A folder of shards is one catalog."
step 0 ls --fold model
say "Are its files valid?"
step 0 check model
say "One tensor: facts, statistics, values"
step 0 show model 'model.layers.0.self_attn.q_proj.weight'
say "A slice: the values of two rows; and every second row from the end, 8 columns, into a NumPy file"
step 0 show --no-stats model 'model.embed_tokens.weight[0:2, :6]'
step 0 get model 'model.embed_tokens.weight[::-2, :8]' -o rows.npy --dtype F32
printf 'rows.npy has %s bytes\n' "$(wc -c <rows.npy)"

say "All shards into one file, with digests of every tensor and room for notes"
step 0 cp model one.safetensors --digests crc32c --reserve 512
step 0 hash one.safetensors
say "Are the two the same model? Different files, same tensors: no difference is printed"
step 0 diff model one.safetensors

say "Metadata: set, read, and what it cost"
step 0 meta -v one.safetensors --set license=apache-2.0 --set trained_on=nothing
step 0 meta one.safetensors license
step 0 verify one.safetensors

say "One bit flips on the disk ..."
cp one.safetensors damaged.safetensors
size=$(wc -c <damaged.safetensors)
python3 - damaged.safetensors $((size / 2)) <<'PY' 2>/dev/null || printf '\377' | dd of=damaged.safetensors bs=1 seek=$((size / 2)) conv=notrunc 2>/dev/null
import sys
with open(sys.argv[1], "r+b") as f:
    f.seek(int(sys.argv[2]))
    byte = f.read(1)[0]
    f.seek(int(sys.argv[2]))
    f.write(bytes([byte ^ 0x10]))
PY
step 0 check damaged.safetensors
step 1 verify damaged.safetensors
step 1 diff one.safetensors damaged.safetensors

say "Broken files are named, with the place"
head -c $((size - 1000)) one.safetensors >short.safetensors
step 1 check short.safetensors
printf 'version https://git-lfs.github.com/spec/v1\noid sha256:0000\nsize 16060522496\n' >pointer.safetensors
step 1 check pointer.safetensors

say "Write: the first layer only, as F16, renamed"
step 0 cp one.safetensors layer0.safetensors --select 'model.layers.0.*' \
    --rename 'model.layers.0.*=first.*' --cast F16
step 0 ls layer0.safetensors

say "A PyTorch checkpoint, without PyTorch; and a pickle that would run a command"
step 0 ls checkpoint.pt
step 0 convert checkpoint.pt -o checkpoint.safetensors
step 0 diff checkpoint.pt checkpoint.safetensors
printf "cos\nsystem\n(S'echo hello'\ntR." >evil.pkl
step 1 scan evil.pkl

say "Shards of a size; then cut anew for three ranks, one of them as it would load its part, and back to one file"
step 0 split one.safetensors -o shards --max-shard-size 100kB
step 0 diff one.safetensors shards
cat >plan.json <<'JSON'
{"format": "safetensors-layout", "version": 1, "mesh": {"axes": {"tp": 3}}, "tensors": [
  {"pattern": "*.mlp.down_proj.weight", "cuts": [null, {"by": "tp", "split": "balanced"}]},
  {"pattern": "*.mlp.*", "cuts": [{"by": "tp", "split": "balanced"}, null]},
  {"pattern": "*", "whole": true}]}
JSON
step 0 reshard one.safetensors --target-layout plan.json -o ranks
step 0 slice one.safetensors --layout plan.json --rank 2 -o rank2.safetensors
step 0 diff rank2.safetensors ranks/rank_2/model.safetensors
step 0 join ranks -o whole.safetensors
step 0 diff one.safetensors whole.safetensors
printf '\ndemo: done, everything as it should be\n'
