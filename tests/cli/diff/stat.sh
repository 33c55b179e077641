# How far values moved; renamed tensors; what probably happened.
try() { safetensors diff --stat "$@"; echo "exit $?"; }
cat > make.py <<'EOF'
import json, random, struct
random.seed(5)
def put(path, tensors, meta=None):
    h, body = {"__metadata__": meta} if meta else {}, b""
    for name, (dtype, shape, data) in tensors.items():
        h[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(body), len(body) + len(data)]}
        body += data
    t = json.dumps(h).encode()
    open(path, "wb").write(struct.pack("<Q", len(t)) + t + body)
f = lambda v: struct.pack("<%df" % len(v), *v)
bf = lambda v: b"".join(struct.pack("<f", x)[2:] for x in v)  # of numbers that BF16 has
w = [random.randrange(-64, 64) / 64 for _ in range(32 * 48)]
n = [random.randrange(1, 8) / 8 for _ in range(40)]
near = [x + random.choice([0, 0, 0, 1 / 64, -1 / 128]) for x in w]
u, v = [random.choice([-8, -3, 1, 2, 7]) / 64 for _ in range(32)], [random.choice([-5, -1, 3, 8]) / 64 for _ in range(48)]
lora = [w[i * 48 + k] + u[i] * v[k] for i in range(32) for k in range(48)]
bits = bytearray(bf(n)); bits[6] ^= 1
shape = [32, 48]
put("base", {"l.w": ("F32", shape, f(w)), "n": ("BF16", [40], bf(n)), "i": ("U8", [4], b"abcd"), "z": ("F32", [0], b"")})
put("tuned", {"l.w": ("F32", shape, f(near)), "n": ("BF16", [40], bytes(bits)), "i": ("U8", [4], b"abcz"), "z": ("F32", [0], b"")})
put("lora", {"l.w": ("F32", shape, f(lora)), "n": ("BF16", [40], bf(n)), "i": ("U8", [4], b"abcd"), "z": ("F32", [0], b"")})
put("names", {"blk.\x1b[1m": ("F32", shape, f(w)), "n": ("BF16", [40], bf(n)), "i": ("U8", [4], b"abcd"), "e": ("F32", [0], b"")})
put("moved", {"blk": ("F32", shape, f(near)), "n": ("BF16", [40], bf(n)), "i": ("U8", [4], b"abcd"), "new": ("U8", [1], b"n")})
put("cast", {"l.w": ("BF16", shape, bf(w)), "n": ("F32", [40], f(n)), "i": ("U8", [4], b"abcd"), "z": ("BF16", [0], b"")})
put("rough", {"l.w": ("BF16", shape, bf([round(x * 4) / 4 for x in w])), "n": ("BF16", [40], bf(n)), "i": ("U8", [4], b"abcd"), "z": ("F32", [0], b"")})
put("q", {"l.qweight": ("I32", [4, 48], bytes(768)), "l.scales": ("F32", [48], bytes(192)), "n": ("BF16", [40], bf(n)), "i": ("U8", [4], b"abcd")})
put("meta", {"l.w": ("F32", shape, f(w)), "n": ("BF16", [40], bf(n)), "i": ("U8", [4], b"abcd"), "z": ("F32", [0], b"")}, {"k": "v"})
put("nans", {"l.w": ("F32", shape, f([float("nan")] * len(w))), "n": ("BF16", [40], bytes(80)), "i": ("U8", [4], b"abcd"), "z": ("F32", [0], b"")})
EOF
python3 make.py
try base base
try base tuned --ascii
try base lora
try base names
try base moved --ascii
try base cast
try base rough --ascii
try base q
try base meta
try base meta -m
try base nans
try nans base
try base tuned --values --ascii
try -q base tuned
try base tuned --no-values
try base lora --json
