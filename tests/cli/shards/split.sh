# Split by Hugging Face's rule and joined again: the same tensors, in the same bytes.
safetensors split layers.safetensors -o shards --max-shard-size 3KB
ls -a shards
python3 - <<'END'
import json, os
index = json.load(open("shards/model.safetensors.index.json"))
print(index["metadata"], len(index["weight_map"]))
print(open("shards/model.safetensors.index.json").read()[:120])
END
safetensors check shards
safetensors join shards -o joined.safetensors
safetensors diff layers.safetensors joined.safetensors
safetensors split layers.safetensors -o one
ls one
safetensors split hostile.safetensors -o odd --max-shard-size 4 -q && python3 - <<'END'
import json
text = open("odd/model.safetensors.index.json").read()
index = json.loads(text)
print(text == json.dumps(index, indent=2), len(index["weight_map"]))
END
safetensors split empty.safetensors -o nothing && ls nothing
safetensors split layers.safetensors -o shards --max-shard-size 3KB; echo "exit $?"
safetensors split layers.safetensors -o shards --max-shard-size 3KB -f --json
ls -a . shards | grep sft-part
safetensors split layers.safetensors -o planned --max-shard-size 6KB --plan | sed 's/"key": "[0-9a-f]\{64\}"/"key": KEY/'
ls planned; echo "exit $?"
