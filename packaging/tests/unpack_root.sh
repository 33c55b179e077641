#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# root.sh FOLDER SUITE ARCHITECTURE PACKAGE... - a Debian root of these packages and what they depend on, unpacked in
# FOLDER: nothing of it is run or configured, so it needs neither root nor the machine of its architecture. Enough for a
# shell, a Python and what is tried with them. Does nothing when FOLDER is there with the same packages.
#
# In it: chroot, or qemu-user with -L for another architecture.
set -eu
[ $# -ge 3 ] || { sed -n '4,6s/^# //p' "$0" >&2; exit 2; }
mkdir -p "$1"
root=$(cd "$1" && pwd)
suite=$2 architecture=$3
shift 3
wanted="$suite $architecture base-files dash bash coreutils libc-bin tar gzip sed grep util-linux $*"
if [ -f "$root/.packages" ] && [ "$(cat "$root/.packages")" = "$wanted" ]; then
    exit 0
fi
rm -rf "$root"
apt=$root.apt
rm -rf "$apt"
mkdir -p "$root" "$apt/parts" "$apt/lists/partial" "$apt/cache/archives/partial"
: >"$apt/status"
mirror=$(cat /etc/apt/sources.list.d/debian.sources /etc/apt/sources.list 2>/dev/null |
    sed -n 's/^URIs: *\([^ ]*\).*/\1/p; s/^deb \(\[[^]]*\] \)\{0,1\}\([^ ]*\) .*/\2/p' | head -n 1)
printf 'Types: deb\nURIs: %s\nSuites: %s\nComponents: main\nSigned-By: %s\n' "$mirror" "$suite" \
    /usr/share/keyrings/debian-archive-keyring.gpg >"$apt/parts/debian.sources"
options=(-qq -o Dir::Etc::SourceList=/dev/null -o "Dir::Etc::SourceParts=$apt/parts" -o "Dir::State::Lists=$apt/lists"
    -o "Dir::State::Status=$apt/status" -o "Dir::Cache=$apt/cache" -o "APT::Architecture=$architecture"
    -o "APT::Architectures=$architecture" -o APT::Sandbox::User=root -o Debug::NoLocking=true
    -o Acquire::Languages=none -o Acquire::Check-Valid-Until=false) # a mirror of unstable may be behind; it is signed all the same
apt-get "${options[@]}" update
read -ra packages <<<"${wanted#* * }"
apt-get "${options[@]}" -y --no-install-recommends --download-only install "${packages[@]}" >"$apt/log"
for folder in bin sbin lib lib64; do
    mkdir -p "$root/usr/$folder"
    ln -s "usr/$folder" "$root/$folder"
done
mkdir -p "$root"/{tmp,proc,dev,root,etc,var/tmp,home}
chmod 1777 "$root/tmp"
for package in "$apt/cache/archives"/*.deb; do
    dpkg-deb --fsys-tarfile "$package" | tar -x --keep-directory-symlink -C "$root" --exclude='./dev/*' \
        --exclude='./usr/share/doc/*' --exclude='./usr/share/man/*' --exclude='./usr/share/locale/*'
done
# What their scripts would have made.
if [ -d "$root/usr/share/ca-certificates" ]; then
    mkdir -p "$root/etc/ssl/certs"
    find "$root/usr/share/ca-certificates" -name '*.crt' -exec cat {} + >"$root/etc/ssl/certs/ca-certificates.crt"
fi
[ -e "$root/usr/bin/sh" ] || ln -s dash "$root/usr/bin/sh"
printf 'root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/nonexistent:/bin/sh\n' >"$root/etc/passwd"
printf 'root:x:0:\nnogroup:x:65534:\n' >"$root/etc/group"
printf '127.0.0.1 localhost\n' >"$root/etc/hosts"
rm -rf "$apt"
echo "$wanted" >"$root/.packages"
