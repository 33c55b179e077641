# Layouts are written for people and programs: what would deceive a terminal is escaped, and reads back the same.
printf '{"format":"safetensors-layout","version":1,"tensors":[{"name":"a\342\200\256b\177\302\233\363\240\201\201\345\255\227\\u0007","whole":true}]}' > plan.json
safetensors layout convert plan.json
safetensors layout convert plan.json -o again.json
safetensors layout convert again.json | cmp - again.json && echo same
