# Every file beneath a directory, the worst last; links out of it are named, those of Hugging Face's cache are read.
python3 "$TESTS/torch_file.py"
mkdir -p dir/sub/.hidden hub/models--a--b/blobs hub/models--a--b/snapshots/1/sub outside
cp model.pt dir/a.pt
cp evil.pt dir/b.pt
head -c 700 model.pt > dir/c.pt
cp model.pt dir/sub/.hidden/d.pt
cp evil.pt outside/e.pt
ln -s ../outside/e.pt dir/out.pt
ln -s sub/.hidden/d.pt dir/inside.pt
ln -s nothing dir/broken.pt
ln -s ../outside dir/away
ln -s sub dir/within
mkfifo dir/pipe
safetensors scan --strict dir
echo "directory: $?"
safetensors scan --strict dir/ --json | cut -c 1-80
safetensors scan --strict dir/sub
echo "sub: $?"
cp model.pt hub/models--a--b/blobs/0123
cp model.pt hub/models--a--b/blobs/4567
ln -s ../../blobs/0123 hub/models--a--b/snapshots/1/model.pt
ln -s ../../../blobs/4567 hub/models--a--b/snapshots/1/sub/model.pt
ln -s ../../../../../outside/e.pt hub/models--a--b/snapshots/1/sub/out.pt
safetensors scan --strict hub/models--a--b/snapshots/1
echo "snapshot: $?"
safetensors scan hub
echo "cache: $?"
mkdir empty
safetensors scan empty
echo "empty: $?"
safetensors scan dir/sub --sarif | grep -c '"uri"'
test ! -e ran && echo nothing ran
