safetensors check --json small.safetensors bad/short.safetensors nothing.safetensors bad/zip.safetensors
echo "exit $?"
safetensors check --json --strict misaligned.safetensors
