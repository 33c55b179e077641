# SFT_CPU leaves out features of the processor: every digest stays what it is; a word that it does not know is wrong usage.
head -c 3000000 /dev/zero | tr '\0' 'k' > data
python3 - <<'END'
import json, struct
data = open("data", "rb").read()
head = json.dumps({"a": {"dtype": "U8", "shape": [2999999], "data_offsets": [0, 2999999]},
                   "b": {"dtype": "U8", "shape": [1], "data_offsets": [2999999, 3000000]}}).encode()
open("file.safetensors", "wb").write(struct.pack("<Q", len(head)) + head + data)
END
safetensors hash --all --json file.safetensors > want
for cpu in portable sse4.2 avx2 avx512 -sha -crc32 avx2,-clmul,-vpclmul ""; do
  SFT_CPU=$cpu safetensors hash --all --json file.safetensors | cmp - want && echo "hash '$cpu' same"
  SFT_CPU=$cpu safetensors cp --digests crc32c file.safetensors "to$cpu.safetensors"
  SFT_CPU=portable safetensors verify "to$cpu.safetensors"
  cmp "to$cpu.safetensors" toportable.safetensors
done
SFT_CPU=fast safetensors hash --whole file.safetensors > out
echo "exit $?"
