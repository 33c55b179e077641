# "-" is standard input, a file or a pipe.
safetensors ls --totals - < small.safetensors
cat small.safetensors | safetensors ls --totals -
cat small.safetensors | safetensors check -
safetensors check - < bad/dtype.safetensors
safetensors ls --json - < empty.safetensors
printf '' | safetensors check --json -
safetensors meta - note < small.safetensors
# Other formats too, by a pipe and by a file: what the file itself gives.
python3 "$TESTS/torch_file.py"
for command in "ls --json" "check --strict" "hash" "scan --json" "get --format raw -o -"; do
  case $command in get*) tensor=$(safetensors ls --json model.pt | python3 -c 'import json, sys; print(json.load(sys.stdin)["tensors"][0]["name"])') ;; *) tensor= ;; esac
  for file in small.safetensors model.pt; do
    case $command in get*) [ $file = model.pt ] || continue ;; esac
    safetensors $command $file $tensor 2>&1 | sed "s/$file/NAME/g" > DIRECT
    cat $file | safetensors $command - $tensor 2>&1 | sed "s/standard input/NAME/g; s/\"-\"/\"NAME\"/g; s/^-/NAME/; s/\"stream\"/\"NAME\"/g" > PIPE
    safetensors $command - $tensor 2>&1 < $file | sed "s/standard input/NAME/g; s/\"-\"/\"NAME\"/g; s/^-/NAME/; s/\"stream\"/\"NAME\"/g" > GIVEN
    [ -s DIRECT ] && cmp DIRECT PIPE && cmp DIRECT GIVEN && echo "$command, $file: the same"
  done
done
cat small.safetensors | safetensors diff - small.safetensors && echo "no difference"
cat model.pt | safetensors cp - copy.safetensors && safetensors diff copy.safetensors model.pt && echo "no difference"
cat evil.pt | safetensors scan - | head -1
cat small.safetensors | safetensors check --strict - -
for command in "convert - -o new.safetensors" "dedupe - -o new" "expand - -o new" "layout show -" "resume-point -"; do
  safetensors $command < small.safetensors
  echo "$command: $?"
done
# What lies there under the names that standard input has in messages is not it, nor are the digests beside that.
for name in descriptor stream ./-; do
  cp plain.safetensors $name
  safetensors verify --record crc32c --manifest $name
  safetensors cp -f - copy.safetensors < small.safetensors && cmp copy.safetensors small.safetensors && echo "not $name"
  cat small.safetensors | safetensors verify -
done
safetensors verify - < small.safetensors
