# A closed pipe, a full disk and a closed standard output are failures; the first has no need of words.
safetensors ls layers.safetensors | head -1
for i in 1 2 3 4 5 6 7 8; do cat layers.safetensors > l$i.safetensors; done
{ while [ ! -e GONE ]; do sleep 0.01; done; safetensors ls --json l?.safetensors; echo "exit $?" >&2; } | { exec <&-; : > GONE; }
( ulimit -f 0; safetensors ls small.safetensors > FULL; echo "exit $?" )
rm FULL
safetensors ls small.safetensors >&-
echo "exit $?"
