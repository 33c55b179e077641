# Wrong usage, damaged models, outputs that are there; nothing is left behind.
try() { safetensors report "$@"; echo "exit $?"; }
try small.safetensors
try small.safetensors --json -o x.html
try small.safetensors --sample 10 --stats none -o s.html
try
try small.safetensors cube.safetensors -o x.html
try small.safetensors -o x.html --stats all
try nowhere.safetensors -o x.html
try bad/short.safetensors -o x.html
try small.safetensors -o small.safetensors --force
try small.safetensors -o model
try small.safetensors -o nowhere/x.html
: >there.html
try small.safetensors -o there.html
try small.safetensors -o there.html --force
ls x.html 2>/dev/null
grep -c '<script type="application/json" id="sft-summary">' there.html
try small.safetensors -o ""
mkdir model2
cp small.safetensors model2/model.safetensors
try model2 -o model2/model.safetensors.index.json
try model2/model.safetensors -o model2/page.html
ls model2
echo '{"weight_map": {"weight": "model.safetensors", "ids": "model.safetensors", "scale": "model.safetensors"}}' >model2/model.safetensors.index.json
ln -s model2/model.safetensors.index.json link.html
try model2 -f -o link.html
ln -s nowhere dangling.html
try model2 -o dangling.html
ls nowhere 2>/dev/null
# what was left out is among the findings
python3 "$TESTS/torch_file.py"
safetensors report evil.pt --allow-opaque --json 2>/dev/null | python3 -c 'import json, sys
print([(f["from"], f["level"]) for f in json.load(sys.stdin)["findings"]][:1])'
