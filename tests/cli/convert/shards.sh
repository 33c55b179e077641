# Shards: all of them or none; the index last.
python3 "$TESTS/torch_file.py"
safetensors convert model.pt -o out.safetensors --max-shard-size 24
ls out*
cat out.safetensors.index.json
rm out*
mkdir out-00003-of-00003.safetensors
safetensors convert model.pt -o out.safetensors --max-shard-size 24
echo "third in the way: $?"
ls -d out*
