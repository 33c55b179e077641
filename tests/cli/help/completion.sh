# The bash script is bash, and completes commands, options, choices and words.
safetensors completion bash > bash.txt
bash -n bash.txt || echo "not bash"
cat > ask.sh <<'END'
. ./bash.txt
compopt() { :; }
ask() {
    COMP_WORDS=("$@")
    COMP_CWORD=$(($# - 1))
    _safetensors
    echo "${COMPREPLY[*]}"
}
ask safetensors comp
ask safetensors completion --col
ask safetensors completion --color a
ask safetensors completion z
ask safetensors help --m
END
bash ask.sh
safetensors completion zsh | sed -n 1p
safetensors completion fish | grep -c '^complete -c safetensors' | awk '{ print ($1 > 10) }'
safetensors completion tcsh
if command -v zsh > /dev/null; then safetensors completion zsh > z; zsh -n z || echo "not zsh"; fi
if command -v fish > /dev/null; then safetensors completion fish > f; fish -n f || echo "not fish"; fi
