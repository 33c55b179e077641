# The same weights in one file and in two ranks; equal replicas.
cd ranks
safetensors verify --same --step -1_2 whole.safetensors job
safetensors verify --same --json --step -1_2 whole.safetensors job ../small.safetensors
safetensors verify --replicas --step -1_1 job
safetensors verify --replicas whole.safetensors
safetensors verify --same job
safetensors diff --step -1_2 whole.safetensors job
