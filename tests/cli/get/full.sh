# No room for the output: said, exit status 3, the old file intact, nothing left behind.
echo old > out.bin
(ulimit -f 1; safetensors get layers.safetensors embed.weight -f -o out.bin; echo "exit $?")
(ulimit -f 1; safetensors get layers.safetensors embed.weight -o new.npy; echo "exit $?")
(ulimit -f 1; cp layers.safetensors l.safetensors 2> /dev/null; safetensors meta layers.safetensors --set a=b; echo "exit $?")
cat out.bin
ls new.npy* 2> /dev/null
safetensors check layers.safetensors
