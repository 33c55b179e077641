# A closed pipe, a full disk and a closed standard output are failures; the first has no need of words.
safetensors ls layers.safetensors | head -1
for i in 1 2 3 4 5 6 7 8; do cat layers.safetensors > l$i.safetensors; done
{ while [ ! -e GONE ]; do sleep 0.01; done; safetensors ls --json l?.safetensors; echo "exit $?" >&2; } | { exec <&-; : > GONE; }
[ ! -e /dev/full ] || { safetensors ls small.safetensors > /dev/full; echo "exit $?"; }
safetensors ls small.safetensors >&-
echo "exit $?"
