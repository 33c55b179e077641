# Casts of whole files against values computed here; values that do not fit are counted.
python3 - <<'END'
import json, struct
v = [0.0, 1.5, -2.0, 70000.0, 1e-9, 3.3, float("inf"), float("nan")]
n = 50000
h = {"a": {"dtype": "F32", "shape": [8 * n], "data_offsets": [0, 32 * n]}, "i": {"dtype": "I32", "shape": [2], "data_offsets": [32 * n, 32 * n + 8]}}
t = json.dumps(h).encode()
open("f", "wb").write(struct.pack("<Q", len(t)) + t + struct.pack("<8f", *v) * n + struct.pack("<2i", 7, -1))
END
safetensors cp f half --cast F16
safetensors cp f half8 --cast F8_E4M3 -j 1
safetensors cp f wide --cast '*=F64'
safetensors cp f bits --cast 'a=BOOL' --cast 'i=U8'
safetensors show --no-stats half 'a[:8]' 'i[:]'
safetensors show --no-stats half8 'a[:8]'
safetensors show --no-stats wide 'a[-8:]' 'i[:]'
safetensors show --no-stats bits 'a[:8]' 'i[:]'
safetensors show --no-histogram bits a
try() { safetensors cp "$@"; echo "exit $?"; }
try small.safetensors x --cast F99
try small.safetensors x --cast 'ids='
try kinds.safetensors x --cast 'b=F4'
