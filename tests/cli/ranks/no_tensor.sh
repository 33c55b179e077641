# A rank to which the layout gives no tensor has a file without tensors, whatever metadata the model has.
cat > layout.json <<'END'
{"format": "safetensors-layout", "version": 1, "mesh": {"axes": {"a": 2}}, "meshes": {"m2": {"axes": {"c": 2}, "first_rank": 2}},
 "tensors": [{"pattern": "*", "cuts": ["a"]}, {"name": "nothing", "mesh": "m2", "cuts": [null]}]}
END
python3 -c '
h = b"{\"__metadata__\":{\"format\":\"pt\"},\"t\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}"
open("m.safetensors", "wb").write(len(h).to_bytes(8, "little") + h + b"abcd")'
safetensors reshard m.safetensors --target-layout layout.json -o parts -q
echo "exit $?"
safetensors join parts -o back.safetensors -q && safetensors diff m.safetensors back.safetensors
echo "exit $?"
