# Every command has help and a manual page of its own; words that are nearly right are recognised.
safetensors --version
for c in $(safetensors help | sed -n '/^Commands/,/^Operands/s/^  \([a-z][a-z-]*\) .*/\1/p'); do
    safetensors "$c" --help > help.txt && head -1 help.txt
    safetensors help "$c" | cmp - help.txt
    safetensors help --man "$c" > man.txt
    head -2 man.txt | tail -1
    awk 'length > 96 { print "too wide: " $0 }' help.txt
done
safetensors help --man | sed -n 2p
