# Recorded digests: right ones, a damaged byte, ones of other tensors, none.
python3 - <<'END'
import json, struct

def crc32c(data):
    crc = 0xffffffff
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82f63b78 if crc & 1 else 0)
    return crc ^ 0xffffffff

def describe(name, shape):
    return (struct.pack("<Q", len(name)) + name.encode() + b"U8\0" + struct.pack("<Q", len(shape)) +
            b"".join(struct.pack("<Q", d) for d in shape))

data = {"b": bytes(range(10)), "a": b"hello"}
text = "%08x" % crc32c(b"".join(describe(n, [len(data[n])]) for n in sorted(data)))
text += "".join("%08x" % crc32c(data[n]) for n in sorted(data))

def write(path, digests, damage=None):
    header, body = {"__metadata__": {"sft.crc32c": digests}}, b""
    for n, d in data.items():
        header[n] = {"dtype": "U8", "shape": [len(d)], "data_offsets": [len(body), len(body) + len(d)]}
        body += d
    body = bytearray(body)
    if damage is not None:
        body[damage] ^= 1
    h = json.dumps(header).encode()
    h += b" " * (-len(h) % 8)
    open(path, "wb").write(struct.pack("<Q", len(h)) + h + body)

write("good.safetensors", text)
write("damaged.safetensors", text, damage=12)
write("stale.safetensors", "00000000" + text[8:])
END
safetensors check --digests good.safetensors damaged.safetensors stale.safetensors small.safetensors
echo "exit $?"
safetensors check --json --digests damaged.safetensors
safetensors check damaged.safetensors
