# The worst exit status of many operands counts.
safetensors check small.safetensors > /dev/null; echo "valid: $?"
safetensors check small.safetensors bad/dtype.safetensors > /dev/null; echo "one invalid: $?"
safetensors check nothing bad/dtype.safetensors small.safetensors > /dev/null 2>&1; echo "one missing: $?"
safetensors ls bad/dtype.safetensors; echo "ls invalid: $?"
safetensors ls nothing small.safetensors > /dev/null; echo "ls missing: $?"
safetensors ls --bad > /dev/null 2>&1; echo "usage: $?"
safetensors meta small.safetensors nokey; echo "no key: $?"
safetensors ls /dev/zero; echo "device: $?"
