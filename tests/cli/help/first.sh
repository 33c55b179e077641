# What the name alone advises can be typed as it stands, with one's own file.
python3 "$TESTS/torch_file.py"
safetensors 2>&1 | sed -n 's/^  \(safetensors .*[^ ]\)  *#.*/\1/p' >three.txt
sed 's/MODEL/model.safetensors/; s/FILE/model/g' three.txt >try.sh
# The last one first: it makes the file.
sed '1!G;h;$!d' try.sh | while read -r line; do
    echo "$line"
    eval "$line"
    echo "exit $?"
done
