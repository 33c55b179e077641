# One object per operand and line, good for any JSON reader.
safetensors ls --json small.safetensors empty.safetensors
safetensors ls --json hostile.safetensors kinds.safetensors > out.json
python3 - <<'END'
import json
for line in open("out.json", encoding="utf-8"):
    o = json.loads(line)
    print(sorted(o), o["schema"], o["file"], len(o["tensors"]))
    print(ascii([t["name"] for t in o["tensors"]]), ascii(o["metadata"]))
END
