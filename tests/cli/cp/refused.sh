# What is refused leaves nothing, and what was there stays.
try() { safetensors cp "$@"; echo "exit $?"; }
cp small.safetensors keep
cp layers.safetensors other
try layers.safetensors other
try small.safetensors ./small.safetensors
try small.safetensors small.safetensors -f -m x=1
safetensors meta small.safetensors x
try layers.safetensors x -r '*=same'
try layers.safetensors x -r 'layers.{}.attn.q=layers.{}.mlp.w'
try layers.safetensors x -r 'layers.*'
try layers.safetensors x -r 'a=*'
try layers.safetensors x -s nothing
try layers.safetensors x -d '*'
try layers.safetensors x -d 'nothing' -r 'nor=x'
try bad/short.safetensors y
try nowhere y
try keep model
try keep /dev/zero
try keep nofolder/x
try keep - --json
try keep - --digests crc32c
try keep y --digests md5
try keep y -m what
try keep y --align 3
try keep y --order nolist
try keep y -r 'weight=__metadata__'
try keep
cmp layers.safetensors other
( ulimit -f 0; safetensors cp layers.safetensors - > FULL; echo "exit $?" )
rm FULL
{ while [ ! -e GONE ]; do sleep 0.01; done; safetensors cp layers.safetensors -; } | { exec <&-; : > GONE; }
rm GONE
ls
