# sha256sum is the oracle: names with anything in them, both ways; files without a size are read to their end.
printf one > "$(printf 'tab\there')"
printf two > "$(printf 'line\nbreak')"
printf three > 'back\slash'
printf four > "$(printf 'both\\\n')x"
printf five > "$(printf 'red\033[31m')"
printf six > "$(printf 'byte\377')"
printf seven > "$(printf 'return\rhere')"
mkdir named && cd named && mv ../tab* ../line* ../back* ../both* ../red* ../byte* ../return* .
safetensors hash --whole * > ../ours
sha256sum * > ../theirs
cmp ../ours ../theirs && sha256sum --quiet -c ../ours && echo equal
cd ..
sum() { cut -d ' ' -f 1; }
[ ! -r /proc/version ] || [ "$(safetensors hash --whole /proc/version | sum)" = "$(sha256sum < /proc/version | sum)" ] || echo proc
mkfifo pipe
(cat small.safetensors small.safetensors > pipe) & safetensors hash --whole pipe | sum
cat small.safetensors small.safetensors | safetensors hash --whole -
cat small.safetensors small.safetensors | sha256sum
: > empty
safetensors hash --whole empty
