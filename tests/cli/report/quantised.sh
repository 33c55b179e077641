# Quantised weights: the shape and the parameters that a model computes with; what fits no rule is left as it is.
cat > go.py <<'GO'
import json, struct, subprocess
sizes = {"I32": 4, "F16": 2, "BF16": 2, "U8": 1, "I8": 1, "F32": 4, "F8_E4M3": 1, "F8_E8M0": 1, "I64": 8, "U32": 4}
def report(tensors, meta=None, config=None):
    header, body = {"__metadata__": meta or {}}, b""
    for name, (dtype, shape, *data) in tensors.items():
        n = sizes[dtype]
        for d in shape:
            n *= d
        part = data[0] if data else bytes(n)
        assert len(part) == n, name
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(body), len(body) + n]}
        body += part
    text = json.dumps(header).encode()
    open("q.safetensors", "wb").write(struct.pack("<Q", len(text)) + text + body)
    open("config.json", "w").write(config or "{}")
    told = json.loads(subprocess.run(["safetensors", "report", "--json", "--stats", "none", "q.safetensors"], check=True, capture_output=True).stdout)
    for q in told.get("quantised", []):
        print(q["name"], q["scheme"], q["shape"], q["bits"], [told["tensors"][i]["name"] for i in q["members"]])
    print(told["totals"]["parameters"], told["totals"].get("logical_parameters"))

gptq = {"a.qweight": ("I32", [16, 64]), "a.qzeros": ("I32", [1, 8]), "a.scales": ("F16", [1, 64]), "norm.weight": ("F16", [7])}
report({**gptq, "a.g_idx": ("I32", [128])})
report(gptq, config='{"quantization_config": {"quant_method": "gptq", "bits": 4}}')
report(gptq)  # nobody says how many bits
report({"a.qweight": ("I32", [128, 8]), "a.qzeros": ("I32", [1, 8]), "a.scales": ("F16", [1, 64])})  # AWQ
state = b'{"quant_type": "nf4", "blocksize": 64, "dtype": "bfloat16", "shape": [64, 32]}'
report({"b.weight": ("U8", [1024, 1]), "b.weight.absmax": ("F32", [32]), "b.weight.quant_map": ("F32", [16]),
        "b.weight.quant_state.bitsandbytes__nf4": ("U8", [len(state)], state)})
report({"b.weight": ("U8", [1000, 1]), "b.weight.absmax": ("F32", [32]),
        "b.weight.quant_state.bitsandbytes__fp4": ("U8", [len(state)], state)})  # another shape
report({"c.weight": ("I8", [6, 5]), "c.SCB": ("F32", [6]), "d.weight": ("I8", [6, 5])})
report({"e.gate_up_proj_blocks": ("U8", [2, 4, 3, 16]), "e.gate_up_proj_scales": ("U8", [2, 4, 3])})
report({"f.weight": ("U8", [4, 16]), "f.weight_scale": ("F8_E4M3", [4, 2]), "f.weight_scale_2": ("F32", []), "f.input_scale": ("F32", [])})
report({"g.weight_packed": ("U8", [4, 16]), "g.weight_scale": ("U8", [4, 1])})
report({"h.weight_packed": ("I32", [4, 2]), "h.weight_scale": ("BF16", [4, 1]), "h.weight_shape": ("I64", [2], struct.pack("<2q", 4, 16))})
report({"h.weight_packed": ("I32", [4, 2]), "h.weight_scale": ("BF16", [4, 1]), "h.weight_shape": ("I64", [2], struct.pack("<2q", -1, 2**62))})
report({"i.weight": ("F8_E4M3", [4, 8]), "i.weight_scale_inv": ("F32", [1, 1])})
types = {"0.weight": json.dumps({"_type": "Int4Tensor"}), "1.weight": json.dumps({"_type": "Float8Tensor"}), "2.weight": "{"}
report({f"{i}._weight_{p}": (d, s) for i, d in enumerate(("U8", "F8_E4M3", "U8")) for p, d, s in (("qdata", d, [4, 8]), ("scale", "BF16", [4, 1]))}, types)
blocks = {"w": {"type": "Q4_K", "shape": [2, 256]}, "v": {"type": "Q8_0", "shape": [32]}, "gone": {"type": "Q8_0", "shape": [32]}, "u": {"type": "what", "shape": [9]}}
report({"w": ("U8", [2, 144]), "v": ("U8", [34]), "u": ("U8", [9])}, {"gguf.tensors": json.dumps(blocks)})
report({"w": ("U8", [2, 144])}, {"gguf.tensors": '{"w": {"type": "Q4_K", "shape": [4294967295, 4294967295, 4294967295]}, "w": {"ty'})
print("near misses")
report({**gptq, "a.g_idx": ("I32", [60])})
report({**gptq, "a.scales": ("I64", [1, 64]), "a.g_idx": ("I32", [128])})
report({**gptq, "a.scales": ("F16", [999, 64]), "a.g_idx": ("I32", [128])})
report({"a.qweight": ("I32", [128, 8]), "a.qzeros": ("F32", [3]), "a.scales": ("F16", [1, 64])})
report({"b.weight": ("U8", [1024, 1]), "b.weight.absmax": ("F32", [32]), "b.weight.quant_state.bitsandbytes__nf4": ("U8", [4], b"what")})
report({"i.weight": ("F8_E4M3", [4, 8]), "i.weight_scale": ("I64", [7, 7, 7])})
report({"i.weight": ("F8_E4M3", [4, 8]), "i.weight_scale": ("F32", [100000])})
report({"i.weight": ("F8_E8M0", [4, 8]), "i.weight_scale": ("F32", [])})
print("other storage, three dimensions, an odd number")
state = lambda shape: json.dumps({"shape": shape}).encode()
for shape, dtype, n in (([64, 32], "BF16", 512), ([4, 8, 32], "U8", 512), ([3, 5], "U8", 8)):
    report({"b.weight": (dtype, [n, 1]), "b.weight.absmax": ("F32", [32]), "b.weight.quant_state.bitsandbytes__nf4": ("U8", [len(state(shape))], state(shape))})
GO
python3 go.py
