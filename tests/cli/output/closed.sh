# Standard output that is closed or full: every command that had something to say ends with 3 and a sentence; without
# the sentence where the reader of a pipe went away, as he knows. What writes files and says nothing does not care.
printf '{"format":"safetensors-layout","version":1,"tensors":[{"name":"a","whole":true}]}' > layout.json
mkfifo GONE
try() {
  for way in closed gone full; do
    case $way in
      closed) safetensors "$@" >&- 2> ERR; status=$? ;;
      gone) : < GONE & # opens it for reading, and ends: after the wait nobody has that end open
            exec 4> GONE
            wait $!
            safetensors "$@" 2> ERR >&4; status=$?
            exec 4>&- ;;
      full) status=$( { ( ulimit -f 0; safetensors "$@" 2>&1 > FULL; echo $? >&3 ) | cat > ERR; } 3>&1 ); rm FULL ;;
    esac
    case "$way $status: $(cat ERR)" in
      "gone 3: ") ;;
      closed*" 3: safetensors: standard output: "* | full*" 3: safetensors: standard output: "*) ;;
      *) echo "$* ($way): exit $status, $(cat ERR)" ;;
    esac
  done
}
try ls small.safetensors
try show small.safetensors
try check small.safetensors
try get small.safetensors ids -o - --format raw
try meta small.safetensors
try meta small.safetensors note
try diff small.safetensors small.safetensors --json
try hash small.safetensors
try mem small.safetensors
try layout show layout.json
try layout convert layout.json
try completion bash
try help
try ls --help
try --version
try scan small.safetensors
try cp small.safetensors -
try cp --dry-run small.safetensors copy.safetensors
try slice --json --help
safetensors cp small.safetensors quiet.safetensors >&-
echo "nothing to say: $?"
