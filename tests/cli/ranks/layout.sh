# What a description says, in text and JSON, and in our own form.
cd ranks
safetensors layout show --rank 1 strategy.json
safetensors layout show --ranks 4 plan.json
safetensors layout show --json --rank 3 strategy.json
safetensors layout convert strategy.json
safetensors layout show job --step -1_1
