#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# memory_group.sh TOOL FOLDER - every command that moves bytes, on a model of 192 MiB, in a control group that has
# 24 MiB of memory, page cache included: results are those from outside the group. Where no group can be made
# (no root, no memory controller) it says so and exits with 77.
set -u
tool=$1
work=$2/memory-group
v1=/sys/fs/cgroup/memory
v2=/sys/fs/cgroup
if mkdir "$v1/sft-$$" 2>/dev/null && echo 25165824 2>/dev/null >"$v1/sft-$$/memory.limit_in_bytes"; then
    group=$v1/sft-$$
elif [ -e $v2/cgroup.controllers ] && { echo +memory >$v2/cgroup.subtree_control; } 2>/dev/null &&
    mkdir "$v2/sft-$$" 2>/dev/null && echo 25165824 2>/dev/null >"$v2/sft-$$/memory.max"; then
    group=$v2/sft-$$
else
    rmdir "$v1/sft-$$" "$v2/sft-$$" 2>/dev/null
    echo "no memory group can be made here: not tested"
    exit 77
fi
trap 'rm -rf "$work"; for i in 1 2 3 4 5; do rmdir "$group" 2>/dev/null && break; sleep 0.2; done' EXIT
rm -rf "$work"
mkdir -p "$work/model"
failed=0
bad() {
    echo "FAILED: $1"
    failed=$((failed + 1))
}
inside() { # COMMAND...
    sh -c 'echo $$ >"$0/cgroup.procs" && exec "$@"' "$group" "$tool" "$@" >"$work/out" 2>"$work/err" ||
        bad "$* ends with $?: $(tail -n 1 "$work/err")"
}

python3 - "$work/model" <<'PY'
import json, random, struct, sys

random.seed(3)
shards, weight_map = 3, {}
for s in range(shards):
    name = f"model-{s + 1:05}-of-{shards:05}.safetensors"
    header, at = {}, 0
    for t in range(8):
        header[f"layer.{s}.{t}"] = {"dtype": "F32", "shape": [2048, 1024], "data_offsets": [at, at + (8 << 20)]}
        weight_map[f"layer.{s}.{t}"] = name
        at += 8 << 20
    text = json.dumps(header).encode()
    with open(f"{sys.argv[1]}/{name}", "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for _ in range(at >> 20):
            f.write(random.randbytes(1 << 20))
with open(f"{sys.argv[1]}/model.safetensors.index.json", "w") as f:
    json.dump({"metadata": {"total_size": shards * 8 * (8 << 20)}, "weight_map": weight_map}, f)
PY
content() {
    "$tool" hash --content "$1" | cut -d ' ' -f 1
}
wanted=$(content "$work/model")
[ ${#wanted} -ge 64 ] || bad "no digest: $wanted"
inside hash --content "$work/model"
[ "$(cut -d ' ' -f 1 "$work/out")" = "$wanted" ] || bad "hash: $(cat "$work/out")"
inside cp -q --digests crc32c,sha256 "$work/model" "$work/copy.safetensors"
inside verify -q "$work/copy.safetensors"
inside join -q --memory 4MiB "$work/model" -o "$work/joined.safetensors"
inside split -q --memory 4MiB --max-shard-size 50MB "$work/joined.safetensors" -o "$work/split"
inside convert "$work/model/model-00001-of-00003.safetensors" -o "$work/one.pt"
inside convert "$work/one.pt" -o "$work/one.safetensors"
inside cp -q --cast F16 "$work/model" "$work/half.safetensors"
"$tool" cp -q --cast F16 "$work/model" "$work/half-outside.safetensors"
for f in copy.safetensors joined.safetensors split; do
    [ "$(content "$work/$f")" = "$wanted" ] || bad "$f has other contents"
done
[ "$(content "$work/half.safetensors")" = "$(content "$work/half-outside.safetensors")" ] || bad "the cast differs"
[ "$(content "$work/one.safetensors")" = "$(content "$work/model/model-00001-of-00003.safetensors")" ] ||
    bad "the converted file has other contents"
echo "memory group: 9 commands within 24 MiB, $failed failed"
[ "$failed" -eq 0 ]
