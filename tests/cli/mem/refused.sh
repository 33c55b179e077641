safetensors mem --dtype F17 small.safetensors
safetensors mem missing.safetensors
safetensors fetch small.safetensors
safetensors fetch http://example.org/model.safetensors
safetensors ls --offline hf://org/model
