safetensors ls small.safetensors
safetensors ls --long kinds.safetensors empty.safetensors
