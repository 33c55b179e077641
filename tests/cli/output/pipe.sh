# A closed pipe and a full disk are failures.
safetensors ls layers.safetensors | head -1
for i in 1 2 3 4 5 6 7 8; do cat layers.safetensors > l$i.safetensors; done
(safetensors ls --json l?.safetensors l?.safetensors l?.safetensors; echo "exit $?" >&2) | head -c 0
[ ! -e /dev/full ] || { safetensors ls small.safetensors > /dev/full; echo "exit $?"; }
safetensors ls small.safetensors >&-
echo "exit $?"
