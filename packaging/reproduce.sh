#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# reproduce.sh [--only PART,...] [FOLDER] - makes a release of the last commit twice (dist.sh) and compares all bytes.
#
# The first: from a clone in FOLDER/one (default build/reproduce), as whoever runs this. The second: from the first's
# source tarball, extracted at a path of another length, with another home, time zone, language and umask; by user
# and group 12345 if this runs as root. Prints a table, which also stands in FOLDER/table.md; exit status 1 if a file
# differs or is missing. FOLDER is made anew, and must be where another user may go (TMPDIR, too).
set -euo pipefail
only=()
if [ "${1:-}" = --only ]; then
    only=(--only "${2:?usage: reproduce.sh [--only PART,...] [FOLDER]}")
    shift 2
fi
cd "$(dirname "$0")/.."
folder=$(realpath -m "${1:-build/reproduce}")
rm -rf "$folder"
mkdir -p "$folder"
version=$(packaging/version.sh)
unset SFT_COMPRESSION MINISIGN_KEY SOURCE_DATE_EPOCH

if [ -e packaging/files ]; then
    mkdir "$folder/source"
    packaging/tarball.sh "$folder/source" >/dev/null
    mkdir "$folder/one"
    tar -xf "$folder/source/libsafetensors-$version.tar.gz" -C "$folder/one" --strip-components=1
else
    git clone -q . "$folder/one"
fi
echo "reproduce: the first, by $(id -un), in $folder/one"
"$folder/one/packaging/dist.sh" ${only[@]+"${only[@]}"} "$folder/first"

two=$folder/another/place/of-the-same-files
mkdir -p "$two" "$folder/home" "$folder/tmp"
tar -xf "$folder/first/libsafetensors-$version.tar.xz" -C "$two" --strip-components=1
as=()
if [ "$(id -u)" -eq 0 ]; then
    chown -R 12345:12345 "$folder/another" "$folder/home" "$folder/tmp"
    as=(setpriv --reuid=12345 --regid=12345 --clear-groups)
fi
# What tells programs of this machine where packages come from goes along; nothing else of the environment does.
keep=()
while IFS= read -r -d '' one; do
    case $one in WHEELS=* | PIP_* | npm_config_* | *_proxy=* | *_PROXY=* | SSL_CERT* | NODE_EXTRA_CA_CERTS=* | REQUESTS_CA*) keep+=("$one") ;; esac
done < <(env -0)
for file in .config/pip/pip.conf .pip/pip.conf .npmrc; do
    if [ -r "$HOME/$file" ]; then
        mkdir -p "$folder/home/$(dirname "$file")"
        cp -L "$HOME/$file" "$folder/home/$file"
    fi
done
if [ ${#as[@]} -gt 0 ]; then chown -R 12345:12345 "$folder/home"; fi
echo "reproduce: the second, ${as[0]:+by user 12345, }umask 077, Asia/Kathmandu, in $two"
(
    cd /
    umask 077
    ${as[@]+"${as[@]}"} env -i PATH="$PATH" HOME="$folder/home" TMPDIR="$folder/tmp" USER=somebody LOGNAME=somebody \
        TZ=Asia/Kathmandu LANG=de_DE.UTF-8 LC_ALL=C.UTF-8 ${keep[@]+"${keep[@]}"} \
        "$two/packaging/dist.sh" ${only[@]+"${only[@]}"} "$folder/another/second"
)
mv "$folder/another/second" "$folder/second"

python3 - "$folder" <<'EOT'
import hashlib
import os
import sys

folder = sys.argv[1]


def files(name):
    root, found = os.path.join(folder, name), {}
    for at, _, names in os.walk(root):
        for file in names:
            path = os.path.join(at, file)
            with open(path, "rb") as f:
                found[os.path.relpath(path, root)] = (os.path.getsize(path), hashlib.sha256(f.read()).hexdigest())
    return found


first, second = files("first"), files("second")
rows, bad = [], 0
for path in sorted({*first, *second}):
    a, b = first.get(path), second.get(path)
    same = a == b
    bad += not same
    rows.append((path, str((a or b)[0]), a[1] if a else "missing", "the same" if same else f"differs: {b[1] if b else 'missing'}"))
table = ["| file | bytes | SHA-256 of the first build | the second |", "|---|--:|---|---|"]
table += ["| " + " | ".join(row) + " |" for row in rows]
with open(os.path.join(folder, "table.md"), "w", encoding="utf-8") as f:
    f.write("\n".join(table) + "\n")
print("\n".join(table))
print(f"reproduce: {len(rows) - bad} of {len(rows)} files are the same")
sys.exit(bad > 0)
EOT
