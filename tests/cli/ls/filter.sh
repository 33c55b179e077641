safetensors ls --names --filter '*.1[01].*' layers.safetensors
safetensors ls --totals -F '*.bias' -F norm layers.safetensors
safetensors ls --names --sort name layers.safetensors | head -9
safetensors ls --null small.safetensors | tr '\0' '|'; echo
safetensors ls --filter nothing layers.safetensors
