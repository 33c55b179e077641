# "-" is standard input, a file or a pipe.
safetensors ls --totals - < small.safetensors
cat small.safetensors | safetensors ls --totals -
cat small.safetensors | safetensors check -
safetensors check - < bad/dtype.safetensors
safetensors ls --json - < empty.safetensors
printf '' | safetensors check --json -
safetensors meta - note < small.safetensors
