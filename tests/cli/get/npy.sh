# Whole tensors and slices, as numpy sees them. w is 4 x 3 x 5, filled 0, 1, 2 ...
get() { safetensors get cube.safetensors "$1" -o "$2" && python3 "$TESTS/npy.py" "$2"; }
get 'w[0]' name.npy
get 'w[0:2, 1, ::-2]' a.npy
get 'w[..., -1]' b.npy
get 'w[3,2,4]' c.npy
get 'w[1:1]' d.npy
get 'w[::-1, 0:1, 0]' e.npy
get h f.npy
get bf g.npy
get e4 h.npy
safetensors get kinds.safetensors scalar -o s.npy && python3 "$TESTS/npy.py" s.npy
safetensors get kinds.safetensors none -o n.npy && python3 "$TESTS/npy.py" n.npy
safetensors get kinds.safetensors b -o k.npy && python3 "$TESTS/npy.py" k.npy
safetensors get model 'c[1]' -o m.npy && python3 "$TESTS/npy.py" m.npy
