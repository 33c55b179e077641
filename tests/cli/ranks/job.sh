# A folder of ranks is one model; the newest step is not complete.
cd ranks
safetensors ls job
safetensors resume-point job
safetensors ls --step "$(safetensors resume-point job 2> /dev/null)" job
safetensors resume-point --json job | sed "s,\"path\": \"[^\"]*\",PATH,g"
safetensors check --step -1_2 job
