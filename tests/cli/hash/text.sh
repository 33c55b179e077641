# Lines that sha256sum reads, blocks for people, any file with --whole alone, faults.
safetensors hash small.safetensors
safetensors hash --whole *.safetensors model/*.safetensors > SUMS
sha256sum -c SUMS | grep -vc ': OK$'
cp small.safetensors 'back\slash'
safetensors hash --whole 'back\slash' bad/zip.safetensors | sha256sum -c
safetensors hash --tensors hostile.safetensors | sed 's/^[0-9a-f]*//'
safetensors hash --auto --tensors model
safetensors hash --whole - < small.safetensors
try() { safetensors hash "$@"; echo "exit $?"; }
try bad/short.safetensors small.safetensors --data
try nowhere
try --whole nowhere
