# Patterns: what they match, and that none takes long.
python3 - <<'END'
import json, struct
names = ["a", "ab", "abc", "a]b", "a-b", "a[b", "a*b", "\u00e9\u00e8", "x.10.y", "x.9.y", "A" * 5000]
h = {n: {"dtype": "U8", "shape": [1], "data_offsets": [i, i + 1]} for i, n in enumerate(names)}
text = json.dumps(h).encode()
open("n.safetensors", "wb").write(struct.pack("<Q", len(text)) + text + bytes(len(names)))
END
try() { echo "$1: $(safetensors ls --names --filter "$1" n.safetensors | tr '\n' ' ')"; }
try 'a'
try 'a?'
try 'a*'
try '*b'
try 'a[]]b'
try 'a[!a-z]b'
try 'a[a-c]*'
try 'a\*b'
try 'a[b'
try '??'
try 'x.[0-9].y'
try 'x.*.y'
try '*[a-'
try ''
try "$(printf 'A*%.0s' $(seq 200))B"
