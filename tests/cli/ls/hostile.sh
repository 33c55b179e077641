# Whatever stands in a file, no control byte reaches the terminal; the runner looks for them.
safetensors ls hostile.safetensors
safetensors ls --tree hostile.safetensors
safetensors ls --names hostile.safetensors
safetensors ls --json hostile.safetensors
safetensors check --strict hostile.safetensors
safetensors check --strict --json hostile.safetensors
safetensors meta hostile.safetensors
safetensors meta --json hostile.safetensors
safetensors meta --export hostile.safetensors
safetensors meta hostile.safetensors "$(printf 'no\033[31mkey')"
safetensors ls "$(printf 'no\033[31mfile\342\200\256')"
safetensors "$(printf '\033[31m')"
safetensors ls "--$(printf '\033[31m')"
safetensors get hostile.safetensors "$(printf 'no\033[31mtensor')" -o x.npy
safetensors get hostile.safetensors "$(printf 'del\177')[\033]" -o x.npy
safetensors check bad/esc.safetensors
