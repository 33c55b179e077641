# Wrong usage is 2, says what is wrong, and never guesses.
try() { safetensors "$@"; echo "exit $?"; }
try
try lss
try --nothing
try help nothing
try completion
try completion bash extra
try completion bash --colour
try completion bash --color=pink
try completion bash --color
try completion bash --quiet=yes
try completion bash --qui
try completion bash -z
try completion -- --color
