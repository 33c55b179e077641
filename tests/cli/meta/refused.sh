# Nothing is changed when anything is wrong.
cp small.safetensors before
try() { safetensors meta small.safetensors "$@"; echo "exit $?"; cmp small.safetensors before; }
try --set novalue
try key --set a=b
try --set "bad=$(printf '\377')"
bad() { printf "$1" > bad.json; try --import bad.json; }
bad '{"a": 1}'
bad '{"a": "b",}'
bad '{"a": "b"} x'
bad '["a"]'
bad '{"a": "\\ud800"}'
bad '{"a": "\\x"}'
bad '{"a": "b'
bad '{"a": "\377"}'
bad '{"a": "\001"}'
bad '{"a": "1", "b": "2", "\u0061": "1"}'
bad ''
try --import nothing.json
safetensors meta bad/dtype.safetensors --set a=b; echo "exit $?"
safetensors meta nothing --set a=b; echo "exit $?"
safetensors meta - --set a=b < small.safetensors; echo "exit $?"
safetensors meta model --set a=b; echo "exit $?"
safetensors meta model --export; echo "exit $?"
