# Without a tensor: files, totals, metadata with JSON set out; --all for what is long.
safetensors show small.safetensors
safetensors show meta.safetensors
safetensors show empty.safetensors
safetensors show model
safetensors show hostile.safetensors
python3 - <<'END'
import json, struct
nested = {"tags": {str(i): i for i in range(50)}, "e": {}, "l": [], "deep": [[1, [2, {"k": "a\"b\u202e\u00e9"}]]],
          "n": [-1.5e3, None, True, "\x7f"]}
meta = {"big": json.dumps(nested, ensure_ascii=False), "text": "x" * 3000, "almost": '{"a": 1,}', "number": "12"}
head = json.dumps({"__metadata__": meta}).encode()
open("long.safetensors", "wb").write(struct.pack("<Q", len(head)) + head)
END
safetensors show long.safetensors
safetensors show --all long.safetensors | wc
