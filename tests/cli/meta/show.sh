safetensors meta meta.safetensors
safetensors meta meta.safetensors nested a
safetensors meta meta.safetensors a nothing
echo "exit $?"
safetensors meta --json meta.safetensors
safetensors meta --export meta.safetensors
safetensors meta --export plain.safetensors
python3 - <<'END'
import json, struct
text = json.dumps({"__metadata__": {"long": "x" * 1000, "lines": "a\nb"}}).encode()
open("long.safetensors", "wb").write(struct.pack("<Q", len(text)) + text)
END
safetensors meta long.safetensors
safetensors meta -v long.safetensors | wc -c | tr -d ' '
safetensors meta --raw long.safetensors lines
safetensors meta model
