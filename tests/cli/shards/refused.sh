# What cannot be done is said, and leaves nothing behind.
try() { safetensors "$@"; echo "exit $?"; }
echo '{"layers.*.attn.q": "colwise"}' > plan.json
try split layers.safetensors
try split absent.safetensors -o out
try join model
try join model -o .hidden
try join model -o model
try join gap -o x.safetensors
try reshard model -o out
try reshard model --target-layout plan.json -o out
try reshard layers.safetensors --target-layout plan.json --ranks 2 -o out --name same
try slice layers.safetensors --layout plan.json --ranks 2 -o x.safetensors
try slice layers.safetensors --layout plan.json --ranks 2 --rank 2 -o x.safetensors
try split layers.safetensors -o out --task 3/2
try split layers.safetensors -o out --task 0/2
try split layers.safetensors -o out --memory 1KiB
try split layers.safetensors -o small.safetensors
try split layers.safetensors -o out --task finish
ls -A | grep -e '^out' -e '^x' -e part -e '^\.'
