get() { safetensors get cube.safetensors "$@" && python3 "$TESTS/npy.py" x.npy; rm -f x.npy; }
get bf --dtype F32 -o x.npy
get 'w[0,0]' -d F16 -o x.npy
get 'h[::2]' -d I8 -o x.npy
get f4 -d F32 -o x.npy
get e4 -d F32 -o x.npy
get f4 -o x.npy
get w -d F33 -o x.npy
get 'w[0,0]' -d BF16 -o x.npy
