# allow: colour
# Colour is asked for, or there is none: this output is no terminal.
safetensors ls small.safetensors | head -1
safetensors ls --color=always plain.safetensors
NO_COLOR=1 safetensors ls --color=auto plain.safetensors
NO_COLOR=1 safetensors check --color=always plain.safetensors bad/dtype.safetensors
safetensors check --color=never plain.safetensors
