# What cannot be shown: unknown names, wrong ranges, damaged files; names are escaped; a closed pipe is silent.
try() { safetensors show "$@"; echo "exit $?"; }
try small.safetensors nothing
try small.safetensors 'weight[9]'
try small.safetensors 'weight[x]'
try small.safetensors 'weight[0,0,0]'
try small.safetensors 'z*'
try bad/short.safetensors
try nowhere.safetensors weight
try kinds.safetensors 'f4[0, 1]'
try
try hostile.safetensors 'red*' 'tag*' --no-stats
try --json hostile.safetensors 'c1*' --no-stats
{ safetensors show cube.safetensors w --all; echo "exit $?" >&2; } | head -1
try layers.safetensors layers.3.attn.p
try model/model.safetensors.index.json d
cp small.safetensors model/extra.safetensors
try model a --no-stats
safetensors hash --content model
safetensors diff model model
