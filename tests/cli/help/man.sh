# The manual pages are sound troff.
for c in '' $(safetensors help | sed -n '/^Commands/,/^Operands/s/^  \([a-z][a-z-]*\) .*/\1/p'); do
    safetensors help --man $c > page.1
    grep -c '^\.SH' page.1
    if command -v groff > /dev/null; then groff -man -Tutf8 -ww -z page.1; fi
done
