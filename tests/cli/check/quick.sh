# Devices, pipes, sparse giants: an answer at once.
mkfifo pipe
safetensors check /dev/zero pipe /dev/urandom
python3 -c '
import os
with open("huge.safetensors", "wb") as f: f.truncate(1 << 40)
with open("huge2.safetensors", "wb") as f:
    f.write((99999999).to_bytes(8, "little")); f.truncate(1 << 40)
'
safetensors check huge.safetensors huge2.safetensors
rm huge*
