safetensors ls --tree layers.safetensors | head -12
python3 - <<'END'
import json, struct
names = ["a", "a.b", "a.b.c", "a..d", "." * 300, "." * 299 + "x", "x.y.z.1", "x.y.z.2", "x.y.z.10"]
h = {n: {"dtype": "U8", "shape": [1], "data_offsets": [i, i + 1]} for i, n in enumerate(names)}
text = json.dumps(h).encode()
open("dots.safetensors", "wb").write(struct.pack("<Q", len(text)) + text + bytes(len(names)))
END
safetensors ls --tree dots.safetensors
