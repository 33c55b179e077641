# What cannot be compared.
try() { safetensors diff "$@"; echo "exit $?"; }
try small.safetensors
try small.safetensors nowhere
try bad/short.safetensors small.safetensors
try - - < small.safetensors
try - small.safetensors < small.safetensors
try small.safetensors small.safetensors --atol -1
try small.safetensors small.safetensors --rtol nan
