# A whole checkpoint, there and back.
python3 "$TESTS/torch_file.py"
safetensors convert model.pt --tree -o out.safetensors
safetensors meta -v out.safetensors
safetensors convert out.safetensors -o back.pt --verify
safetensors ls back.pt
safetensors convert back.pt --tree -o again.safetensors -q
cmp out.safetensors again.safetensors && echo equal
safetensors convert out.safetensors --drop state_dict.b -o none.safetensors
echo "the tree needs it: $?"
safetensors convert evil.pt --tree -o none.safetensors
echo "no place in the tree: $?"
