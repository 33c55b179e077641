safetensors mem small.safetensors
safetensors mem --dtype F16 kinds.safetensors
safetensors mem --json --dtype BF16 small.safetensors
