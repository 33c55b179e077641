# Nothing appears, nothing is lost.
try() { safetensors get "$@"; echo "exit $?"; }
echo old > old.npy
try small.safetensors weight -o old.npy
cat old.npy
try small.safetensors weight
try small.safetensors weight -o out
try small.safetensors weigth -o out.npy
try small.safetensors 'weigth[0]' -o out.npy
try small.safetensors 'weight[2]' -o out.npy
try small.safetensors 'weight[0:1:0]' -o out.npy
try small.safetensors 'weight[a]' -o out.npy
try small.safetensors 'weight[..., ...]' -o out.npy
try small.safetensors 'weight[0,0,0]' -o out.npy
try small.safetensors weight -o none/out.npy
try small.safetensors weight -f --format raw -o small.safetensors
mkdir dir && try small.safetensors weight --format npy -o dir
try small.safetensors weight --format raw -f -o /dev/zero
try bad/short.safetensors weight -o out.npy
try nothing weight -o out.npy
( ulimit -f 0; safetensors get small.safetensors weight -o - > FULL; echo "exit $?" )
rm FULL
ls out* 2>/dev/null
safetensors check small.safetensors
safetensors get small.safetensors weight -f -v -o old.npy && python3 "$TESTS/npy.py" old.npy
safetensors get model c --format raw -f -o model/model-00001-of-00002.safetensors; echo "exit $?"
safetensors check model
