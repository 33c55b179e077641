# A copy without options is the file again, byte for byte; shards become one; streams and pipes.
for f in small plain empty kinds cube hostile layers; do
    safetensors cp $f.safetensors copy && cmp $f.safetensors copy && rm copy
done
safetensors cp - copy < layers.safetensors && cmp layers.safetensors copy
safetensors cp layers.safetensors - | cmp - layers.safetensors
cat layers.safetensors | safetensors cp - - | cmp - layers.safetensors
safetensors cp model one.safetensors
safetensors ls --names one.safetensors
safetensors cp model/model.safetensors.index.json again.safetensors && cmp one.safetensors again.safetensors
safetensors cp --json meta.safetensors sorted.safetensors
safetensors meta sorted.safetensors
# several blocks, several threads, the same bytes
python3 - <<'END'
import json, struct
n = 3 << 20
h = {"a": {"dtype": "U8", "shape": [n - 6], "data_offsets": [0, n - 6]}, "b": {"dtype": "F4", "shape": [4, 3], "data_offsets": [n - 6, n]}}
t = json.dumps(h, separators=(",", ":")).encode()
t += b" " * (-len(t) % 8)
open("big", "wb").write(struct.pack("<Q", len(t)) + t + bytes(i * i % 251 for i in range(n)))
END
for j in 1 2 5; do safetensors cp -j $j big copy$j --no-sync && cmp big copy$j; done
