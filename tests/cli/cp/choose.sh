# Select, drop, rename, cast and order, planned and done.
safetensors cp layers.safetensors x --select 'layers.1?.*' --drop '*.bias' --rename 'layers.{}.*=h.{1}/{2}' --plan
safetensors cp layers.safetensors x -s 'layers.0.*' -s norm -r norm=final.norm -r '{}.attn.{}={}:*' --cast bf16 --cast '*norm=f64' --bytes -n
safetensors cp layers.safetensors x -s 'layers.0.*' -s norm -r norm=final.norm -r '{}.attn.{}={}:*' --cast bf16 --cast '*norm=f64'
safetensors ls --json x | python3 -c "import json,sys; print([(t['name'], t['dtype'], t['data_offsets']) for t in json.load(sys.stdin)['tensors']])"
safetensors show --no-stats x 'final.norm[:]' 'layers.0:q[0,:3]'
printf 'norm\nlayers.3.mlp.w\r\n\nnothing\nnorm\nembed.weight' > list
safetensors cp layers.safetensors y --order list
safetensors ls --json y | python3 -c "import json,sys; print([t['name'] for t in json.load(sys.stdin)['tensors']][:6])"
safetensors diff layers.safetensors y
safetensors cp small.safetensors z --order declared && cmp small.safetensors z
safetensors cp small.safetensors z -f --order reference
safetensors ls --json z | python3 -c "import json,sys; print([t['name'] for t in json.load(sys.stdin)['tensors']])"
safetensors cp --plan --json small.safetensors z -r 'we{}=x{}' -m drop
# a star in a name can be meant as it is
safetensors cp small.safetensors star -s ids -r 'ids=a\*b\=c' && safetensors ls --names star
safetensors cp star back -r 'a\*{}=\{}{1}' && safetensors ls --names back
