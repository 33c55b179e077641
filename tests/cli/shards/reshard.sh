# From a whole model to ranks, to another number of ranks, and back; one rank's part alone.
echo '{"layers.*.attn.q": "colwise", "layers.*.mlp.w": "rowwise", "embed": "colwise"}' > plan.json
safetensors reshard layers.safetensors --target-layout plan.json --ranks 3 -o three
find three -type f | sort
safetensors reshard three --target-layout plan.json --ranks 5 -o five --verify
safetensors reshard five --target-layout plan.json --ranks 3 -o again --no-sync -j 1 --memory 8MiB
diff -r three again && echo same ranks
safetensors join five -o joined.safetensors
safetensors diff layers.safetensors joined.safetensors
safetensors slice five --layout plan.json --ranks 3 --rank 2 -o part.safetensors
cmp part.safetensors three/rank_2/model.safetensors && echo same part
for k in 2 1 3; do safetensors reshard three --target-layout plan.json --ranks 5 -o tasks --task $k/3; done
diff -r five tasks && echo same tasks
safetensors reshard three --target-layout plan.json --ranks 2 -o named --name 'tp{rank}.safetensors' --json
ls -a named
safetensors join three -o unified --unified --part-size 4KiB
ls unified
python3 -c "
import json
text = open('unified/param_name_map.json').read()
print(text == json.dumps(json.loads(text), indent=4), json.loads(text)['metadata'])"
safetensors join unified -o whole.safetensors -q && safetensors diff layers.safetensors whole.safetensors
