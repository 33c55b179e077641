#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# contained.sh TOOL PYTHON - scan, ls and convert of files that would run os.system or name files elsewhere, under strace: no program is
# executed, no process made, no socket opened, and no file opened but the one named, what the loader of
# the tool itself reads before it starts, and (convert) the output and its folder.
set -eu
tool=$(realpath "$1")
here=$(cd "$(dirname "$0")" && pwd)
python=$2
command -v strace >/dev/null || { echo "strace is missing: run scripts/bootstrap.sh test"; exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
"$python" - "$here" <<'PY'
import sys
sys.path.insert(0, sys.argv[1])
import hostile
evil = ("e", b"cposix\nsystem\n" + hostile.text("touch hacked") + b"\x85R")
body = hostile.state(("w", hostile.tensor()), evil)
open("evil.pt", "wb").write(hostile.torch_zip(body))
open("evil-legacy.pt", "wb").write(hostile.legacy(body))
open("evil-tar.pt", "wb").write(hostile.make_tar({"files": {"pickle": hostile.state(("w", hostile.text("100") + b"Q"), evil)}}))
PY
faults=0
trace() { # name, expected status, arguments
    local name=$1 want=$2 status=0
    shift 2
    strace -f -qq -o "$name.trace" "$tool" "$@" >"$name.out" 2>&1 || status=$?
    if [ "$status" -ne "$want" ]; then
        echo "$name: exit $status, not $want"
        cat "$name.out"
        faults=$((faults + 1))
    fi
    # the first execve is the tool itself
    if sed 1d "$name.trace" | grep -E '\b(execve|execveat|fork|vfork|socket|connect|bind|ptrace|memfd_create)\(' ||
        grep -E '\bclone3?\(' "$name.trace" | grep -v CLONE_THREAD; then
        echo "$name: the calls above"
        faults=$((faults + 1))
    fi
    if grep -E '\b(open|openat|openat2|creat|mkdir|unlink|rename|link|symlink)[a-z0-9]*\(' "$name.trace" |
        grep -vE '"(/etc/ld\.so\.[a-z]+|(/usr)?/lib[^"]*\.so[^"]*|/sys/[^"]*|/proc/[^"]*)"' |
        grep -vE "\"(\./)?(evil[a-z-]*\.(pt|onnx|h5|index)|state[^\"]*|way|evil[a-z-]*\.(pt|h5)/(pytorch_model[a-z.]*|\.)|\.|out[^\"]*|\.out[^\"]*|$work[^\"]*)\"" |
        grep -vE 'O_TMPFILE|"/proc/self/fd'; then
        echo "$name: opened what is above"
        faults=$((faults + 1))
    fi
}
for file in evil evil-legacy evil-tar; do
    trace "scan-$file" 1 scan "$file.pt"
    trace "ls-$file" 1 ls "$file.pt"
    trace "convert-$file" 0 convert "$file.pt" -o "out-$file.safetensors" --allow-opaque -q --verify
    [ -s "out-$file.safetensors" ] || { echo "$file: no output"; faults=$((faults + 1)); }
done
# External data of an ONNX model that leads elsewhere: the model and its folder are opened, what it names never.
"$python" - "$here" <<'PY'
import os, sys
sys.path.insert(0, sys.argv[1])
import hostile_proto as h
os.makedirs("model")
os.mkfifo("model/pipe")
os.symlink("/etc/passwd", "model/link")
os.symlink("/etc", "model/way")
for name, location in (("absolute", "/etc/passwd"), ("up", "../evil.pt"), ("link", "link"), ("way", "way/passwd"), ("pipe", "pipe")):
    open("model/evil-%s.onnx" % name, "wb").write(h.onnx_model(h.external(location)))
PY
cd model
for name in absolute up link way pipe; do
    trace "../onnx-$name" 1 ls "evil-$name.onnx"
    if grep -E 'open[a-z0-9]*\(.*(passwd|evil\.pt|"link"|"pipe")' "../onnx-$name.trace"; then
        echo "onnx-$name: opened what is above"
        faults=$((faults + 1))
    fi
done
# TensorFlow: a shard that is a link, a state file that names something above its folder.
"$python" - "$here" <<'PY'
import os, sys
sys.path.insert(0, sys.argv[1])
import hostile_tf as h
open("evil-tf.index", "wb").write(h.bundle(("w", h.entry())))
os.symlink("/etc/passwd", "evil-tf.data-00000-of-00001")
os.mkdir("state")
open("state/checkpoint", "w").write('model_checkpoint_path: "../../evil"\n')
PY
trace ../tf-shard 1 ls evil-tf.index
trace ../tf-state 1 ls state
if grep -E 'open[a-z0-9]*\(.*(passwd|evil-tf\.data|"\.\.|/evil)' ../tf-shard.trace ../tf-state.trace; then
    echo "tf: opened what is above"
    faults=$((faults + 1))
fi
cd ..
# HDF5 files by h5py whose data, links or sources lie in other files (/etc/hostname, other.h5).
for name in external external-link virtual; do
    cp "$here/fixtures/hdf5-$name.h5" "evil-$name.h5"
    trace "scan-hdf5-$name" 1 scan "evil-$name.h5"
    trace "ls-hdf5-$name" 1 ls "evil-$name.h5"
    trace "convert-hdf5-$name" 0 convert "evil-$name.h5" -o "out-$name.safetensors" --allow-opaque -q --verify
    if grep -E 'open[a-z0-9]*\(.*(hostname|other)' ./*"hdf5-$name.trace"; then
        echo "hdf5-$name: opened what is above"
        faults=$((faults + 1))
    fi
done
[ ! -e hacked ] || { echo "it ran"; faults=$((faults + 1)); }
echo "$faults faults"
[ "$faults" -eq 0 ]
