# What is no description, or lacks something.
cd ranks
safetensors layout show plan.json
safetensors layout show ../small.safetensors
safetensors layout convert --to strategy plan.json --ranks 4
safetensors layout make ../small.safetensors --dp 2
safetensors layout turn plan.json
safetensors layout merge plan.json strategy.json
