#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# tool_docs.sh TOOL FOLDER - man pages and shell completions, written by the tool from its own tables.
set -eu
tool=$1
folder=$2
mkdir -p "$folder/man1" "$folder/completion"
"$tool" help --man >"$folder/man1/safetensors.1"
commands=$("$tool" help | sed -n '/^Commands/,/^$/s/^  \([a-z][a-z-]*\) .*/\1/p')
[ -n "$commands" ]
for command in $commands; do
    "$tool" help --man "$command" >"$folder/man1/safetensors-$command.1"
done
"$tool" completion bash >"$folder/completion/safetensors.bash"
"$tool" completion zsh >"$folder/completion/_safetensors"
"$tool" completion fish >"$folder/completion/safetensors.fish"
