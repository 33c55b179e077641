# Metadata: kept, dropped, set; of several files; digests that the copy makes stale.
meta() { safetensors meta --json "$1"; }
safetensors cp meta.safetensors a && meta a
safetensors cp meta.safetensors b -m drop && meta b
safetensors cp meta.safetensors c -m drop -m x=1 -m 'y=a=b' -m z= && meta c
safetensors cp meta.safetensors d -m b=3 && meta d
python3 - <<'END'
import struct
t = b'{"__metadata__":{}}     '
open("none", "wb").write(struct.pack("<Q", len(t)) + t)
END
safetensors cp none e && cmp none e
mkdir two && cp model/model-00001-of-00002.safetensors two/a.safetensors
safetensors cp model/model-00002-of-00002.safetensors two/b.safetensors -m format=tf -m only=b
safetensors cp two both && meta both
safetensors cp small.safetensors recorded --digests crc32c,sha256 --reserve 512 --align 4096
safetensors show recorded | head -4
safetensors cp recorded same && meta same | cut -c1-60
safetensors cp recorded less -d ids && meta less
safetensors cp recorded fresh -d ids --digests crc32c && meta fresh
