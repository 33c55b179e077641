# Values as text: shortest forms, summaries, lines, sub-byte types; all of them in JSON.
python3 - <<'END'
import json, math, struct
parts = [("f32", "F32", [4], struct.pack("<4f", 0.1, math.nan, -math.inf, 1e-45)),
         ("f64", "F64", [3], struct.pack("<3d", 0.1, 1 / 3, -0.0)),
         ("f16", "F16", [3], struct.pack("<3e", 0.1, 65504, 6e-8)),
         ("bf16", "BF16", [2], bytes.fromhex("cd3d493f")),
         ("i64", "I64", [2], struct.pack("<2q", -2**63, 2**63 - 1)),
         ("u64", "U64", [1], struct.pack("<Q", 2**64 - 1)),
         ("c", "C64", [2], struct.pack("<4f", 1.5, -0.25, 0, math.inf)),
         ("f4", "F4", [2, 2], bytes([0x10, 0x7f])),
         ("f6", "F6_E2M3", [4], bytes([1, 2, 3])),
         ("scalar", "F32", [], struct.pack("<f", 3)),
         ("none", "F32", [0, 2], b""),
         ("big", "I32", [60, 70, 2], struct.pack("<8400i", *range(8400))),
         ("flat", "I32", [5000], struct.pack("<5000i", *range(5000))),
         ("wide", "U8", [2, 600], bytes(i % 251 for i in range(1200))),
         ("bits", "F4", [100, 20], bytes(i % 256 for i in range(1000)))]
header, body = {}, b""
for name, dtype, shape, data in parts:
    header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(body), len(body) + len(data)]}
    body += data
text = json.dumps(header).encode()
open("v.safetensors", "wb").write(struct.pack("<Q", len(text)) + text + body)
END
for t in f32 f64 f16 bf16 i64 u64 c f4 f6 scalar none big flat wide bits; do
    echo "$t"
    safetensors show --no-stats v.safetensors "$t[...]" | sed '1,/^slice/d'
done
safetensors show --no-stats --all v.safetensors "wide[:, :50]" | sed '1,/^slice/d'
safetensors show --no-stats --all v.safetensors 'big' | sed '1,/^$/d' | tr -cd '0-9,\n' | tr -d '\n' | cksum
python3 -c "print(','.join(map(str, range(8400))), end='')" | cksum
safetensors show --no-stats --json v.safetensors 'f32[:]' 'c[:]' 'big[3, ::30, 1]' 'bits[0]' 'scalar[]' > j.json
python3 -c "
import json
for t in json.load(open('j.json'))['tensors']: print(t['name'], t['slice'])"
