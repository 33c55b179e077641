# What is no description, or lacks something.
cd ranks
safetensors layout show plan.json
safetensors layout show ../small.safetensors
safetensors layout convert --to strategy job/layout.json
safetensors layout turn plan.json
safetensors layout merge plan.json strategy.json
