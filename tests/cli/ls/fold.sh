# Numbers fold where dtype and shape agree, and only to sets that are really there.
safetensors ls --fold layers.safetensors
safetensors ls --tree --fold layers.safetensors
safetensors ls --fold --sort size --si layers.safetensors
python3 - <<'END'
import json, struct
names = ["e.%d.%d" % (i, k) for i in range(3) for k in range(4)] + ["p.0.1", "p.1.0", "p.1.1"]
names += ["z.01", "z.02", "n.%d" % 10**18, "n.7"] + ["s.%d" % (3 * i) for i in range(9)] + ["a.0.b", "a.1.b", "a.3.b"]
h = {n: {"dtype": "U8", "shape": [1], "data_offsets": [i, i + 1]} for i, n in enumerate(names)}
text = json.dumps(h).encode()
open("odd.safetensors", "wb").write(struct.pack("<Q", len(text)) + text + bytes(len(names)))
END
safetensors ls --fold odd.safetensors
