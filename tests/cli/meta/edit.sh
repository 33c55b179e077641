# Changes are one edit; data stays byte for byte; -v tells the way.
data() { python3 -c 'import sys; b = open(sys.argv[1], "rb").read(); print(b[8 + int.from_bytes(b[:8], "little"):].hex())' "$1"; }
data small.safetensors > before
safetensors meta -v small.safetensors --set license=mit --set 'empty=' --set 'eq=a=b' --delete note --delete nothing
safetensors meta small.safetensors
safetensors meta -v small.safetensors --set license=bsd
safetensors meta -v small.safetensors --set license=bsd
safetensors meta small.safetensors license
safetensors meta small.safetensors --set 'k=1' --set 'k=2' --delete k --set 'k=3'
safetensors meta --export small.safetensors > out.json
cat out.json
safetensors meta small.safetensors --clear
safetensors meta small.safetensors
echo "cleared"
safetensors meta small.safetensors --import out.json --set more=x
printf '%s' '{"piped": "yes \u00e9\ud83d\ude00\n"}' | safetensors meta small.safetensors --import -
safetensors meta --export small.safetensors
data small.safetensors | cmp - before && safetensors check small.safetensors
