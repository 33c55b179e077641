# Record, verify, damage, verify; the data section stays; folders; beside the file.
try() { safetensors verify "$@"; echo "exit $?"; }
data() { safetensors hash --data "$1" | cut -c1-64; }
try small.safetensors
before=$(data small.safetensors)
try --record crc32c small.safetensors
[ "$before" = "$(data small.safetensors)" ] && echo "data stays"
try small.safetensors
try --record sha256 small.safetensors
try --record crc32c,sha256 -f --json small.safetensors
safetensors meta small.safetensors | cut -c1-40
try small.safetensors
try --json small.safetensors
# the same digests as those recorded while copying
safetensors cp layers.safetensors a --digests crc32c,sha256
safetensors cp layers.safetensors b --no-sync
safetensors verify --record crc32c,sha256 -q b
for k in sft.crc32c sft.sha256; do [ "$(safetensors meta a $k)" = "$(safetensors meta b $k)" ] && echo "$k agrees"; done
# digests of Python's own making
python3 - <<'END'
import hashlib, json, struct
data = open("b", "rb").read()
n = struct.unpack("<Q", data[:8])[0]
h = json.loads(data[8:8 + n])
meta = h.pop("__metadata__")
want = "".join(hashlib.sha256(data[8 + n + h[k]["data_offsets"][0]:8 + n + h[k]["data_offsets"][1]]).hexdigest() for k in sorted(h))
print(meta["sft.sha256"][8:] == want)
END
# one byte of one tensor
python3 - <<'END'
data = bytearray(open("b", "rb").read())
data[-3] ^= 1
data[-9000] ^= 128
open("b", "wb").write(data)
END
try b
try --json b
try -j1 a b small.safetensors
# digests that another program has left behind
safetensors cp small.safetensors stale
python3 - <<'END'
data = open("stale", "rb").read().replace(b'"ids"', b'"idz"')
open("stale", "wb").write(data)
END
try stale
# a folder: each file its own
try --record crc32c model
try model
python3 - <<'END'
data = bytearray(open("model/model-00002-of-00002.safetensors", "rb").read())
data[-1] ^= 255
open("model/model-00002-of-00002.safetensors", "wb").write(data)
END
try model
