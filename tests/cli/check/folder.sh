safetensors check model
safetensors check gap
echo "exit $?"
safetensors check --json escape
echo "exit $?"
mkdir none && safetensors check none
