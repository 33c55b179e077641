safetensors get small.safetensors weight -o w.bin && od -An -t f4 w.bin
safetensors get small.safetensors 'ids[::-1]' -o - | od -An -t d8
safetensors get small.safetensors ids --format npy -o ids && python3 "$TESTS/npy.py" ids
safetensors get small.safetensors ids --format raw -o ids.npy -f && od -An -t d8 ids.npy
safetensors get cube.safetensors f4 -o f4.raw && od -An -t x1 f4.raw
cat small.safetensors | safetensors get - 'ids[1:3]' -o - | od -An -t d8
safetensors get layers.safetensors embed.weight -o - | head -c 1 | od -An -t x1
# A link is written through, permissions stay.
echo old > real.bin && chmod 640 real.bin && ln -s real.bin link.bin
safetensors get small.safetensors scale -f -o link.bin
[ -h link.bin ] && od -An -t x1 real.bin && ls -l real.bin | cut -c1-10
