safetensors check small.safetensors misaligned.safetensors
safetensors check --strict small.safetensors misaligned.safetensors hostile.safetensors
echo "exit $?"
safetensors check -q small.safetensors bad/dtype.safetensors
