# A PyTorch file into safetensors: texts, plan, JSON, what is refused.
python3 "$TESTS/torch_file.py"
safetensors convert model.pt -o out.safetensors
safetensors ls out.safetensors
safetensors convert model.pt -o out.safetensors
echo "exists: $?"
safetensors convert model.pt -f -o out.safetensors --verify --rename w=v --drop b --cast f16
safetensors ls out.safetensors
safetensors convert model.pt -o none.safetensors --plan
safetensors convert model.pt -o none.safetensors --plan --json
safetensors convert model.pt -o again.safetensors --json
safetensors convert model.pt
echo "no output: $?"
safetensors convert model.pt -o none.safetensors --key optimizer
echo "no such part: $?"
safetensors convert evil.pt -o none.safetensors
echo "hostile: $?"
safetensors convert evil.pt -o kept.safetensors --allow-opaque
echo "left out: $?"
printf 'version https://git-lfs.github.com/spec/v1\n' > lfs.pt
safetensors convert lfs.pt -o none.safetensors
echo "pointer: $?"
for f in ran none.safetensors; do test ! -e $f || echo $f; done
