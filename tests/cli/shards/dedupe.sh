# A folder of ranks without its replicas, and back; by bytes; what it costs; what cannot be done.
try() { safetensors "$@"; echo "exit $?"; }
echo '{"layers.*.attn.q": "colwise", "layers.*.mlp.w": "rowwise", "embed": "colwise"}' > plan.json
safetensors reshard layers.safetensors --target-layout plan.json --ranks 3 -o three -q
cat > layout.json <<'JSON'
{"format": "safetensors-layout", "version": 1, "mesh": {"axes": {"dp": 2, "tp": 2}}, "tensors": [
  {"pattern": "*.q", "cuts": ["tp", null]}, {"pattern": "*.w", "cuts": [null, "tp"]}, {"pattern": "*", "whole": true}]}
JSON
safetensors reshard layers.safetensors --target-layout layout.json -o full
safetensors dedupe full -o few
find few -type f | sort
safetensors diff layers.safetensors few
safetensors expand few -o again -v
for r in 0 1 2 3; do cmp full/rank_$r/model.safetensors again/rank_$r/model.safetensors && echo same; done
safetensors dedupe full -o even --rule balanced --json
safetensors ls even/rank_0 | head -3
safetensors dedupe three -o none --rule balanced --plan | tail -1 | sed 's/, "key".*//'
try dedupe full
try dedupe full -o full
try dedupe model -o out
try dedupe full/rank_0/model.safetensors -o out
try expand absent -o out
try expand few -o out --task finish
try dedupe full -o few
ls -A | grep -e '^out' -e none -e '^\.'
