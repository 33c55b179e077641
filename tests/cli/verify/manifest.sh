# Digests beside the file.
try() { safetensors verify "$@"; echo "exit $?"; }
cp hostile.safetensors before
try --record crc32c,sha256 --manifest hostile.safetensors layers.safetensors
cmp before hostile.safetensors
try hostile.safetensors layers.safetensors
try --record crc32c --manifest hostile.safetensors
try --record crc32c --manifest -f hostile.safetensors
python3 -c "
import json
j = json.load(open('hostile.safetensors.digests.json'))
print(j['schema'], j['file'], j['size'], sorted(j['tensors'].values(), key=str)[0])"
printf x | dd of=hostile.safetensors bs=1 seek=745 conv=notrunc 2> dd.txt
try hostile.safetensors
try --manifest hostile.safetensors
try --record md5 hostile.safetensors
try --record crc32c - < small.safetensors
try - < small.safetensors
try nowhere bad/short.safetensors
try --json bad/short.safetensors
try empty.safetensors
try --record crc32c empty.safetensors
try empty.safetensors
