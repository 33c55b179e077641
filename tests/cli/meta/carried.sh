# Digests of one file are not carried into another; the file's own, and all other entries, are.
cp layers.safetensors a.safetensors
safetensors cp -q small.safetensors b.safetensors
safetensors verify -q --record crc32c,sha256 a.safetensors 2> /dev/null
safetensors meta a.safetensors -q --set k=v
safetensors meta a.safetensors --export > a.json
safetensors meta b.safetensors --import a.json
echo '{"crc_num": "7", "DCP_SHARDING_INFO": "{}", "more": "1"}' | safetensors meta b.safetensors --import -
safetensors meta b.safetensors
safetensors meta a.safetensors --clear --import a.json
safetensors verify -q a.safetensors && safetensors meta a.safetensors --export | cmp - a.json
echo "exit $?"
