#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# test_fresh_root.sh [FOLDER] - `make demo` and `make test` on a machine that has nothing: a minimal Debian
# root made by debootstrap in FOLDER (default build/fresh-root), with make alone added, the source
# tarball of the last commit inside, and this machine's own package configuration (apt sources and keys, pip
# configuration, certificates) copied in. Needs root. SUITE: the release (default: this machine's).
# KEEP=1 keeps the root and uses it again. Environment variables that configure pip and proxies are passed.
set -eu
cd "$(dirname "$0")/.."
root=$(realpath -m "${1:-build/fresh-root}")
suite=${SUITE:-$(. /etc/os-release && echo "$VERSION_CODENAME")}
[ "$(id -u)" -eq 0 ] || { echo "fresh-root: needs root" >&2; exit 2; }

unmount() {
    # Everything that is mounted below the root, the deepest first.
    awk -v root="$root/" 'index($2, root) == 1 { print $2 }' /proc/mounts | sort -r | while read -r each; do
        umount -l "$each" 2>/dev/null || true
    done
}
trap unmount EXIT
unmount

if [ ! -e "$root/etc/debian_version" ] || [ "${KEEP:-0}" != 1 ]; then
    rm -rf --one-file-system "$root"
    mkdir -p "$root"
    # The first Debian archive that this machine uses.
    mirror=$(cat /etc/apt/sources.list.d/debian.sources /etc/apt/sources.list 2>/dev/null |
        sed -n 's/^URIs: *\([^ ]*\).*/\1/p; s/^deb \(\[[^]]*\] \)\{0,1\}\([^ ]*\) .*/\2/p' | head -n 1)
    echo "fresh-root: debootstrap $suite into $root"
    debootstrap --variant=minbase --include=make,ca-certificates "$suite" "$root" "$mirror" >"$root.log" 2>&1 ||
        { tail -n 20 "$root.log"; exit 1; }
fi

# This machine's package configuration: the archive, how to reach it, where wheels come from.
rm -rf "$root/etc/apt/sources.list" "$root/etc/apt/sources.list.d"
mkdir -p "$root/etc/apt/sources.list.d" "$root/etc/apt/apt.conf.d"
for file in /etc/apt/sources.list /etc/apt/sources.list.d/debian.sources; do
    if [ -e "$file" ]; then cp -L "$file" "$root$file"; fi
done
for file in /etc/apt/apt.conf.d/*; do
    if grep -qiE 'acquire|proxy' "$file" 2>/dev/null; then cp -L "$file" "$root$file"; fi
done
for file in /etc/apt/apt.conf /etc/resolv.conf /etc/hosts /etc/pip.conf /etc/ssl/certs/ca-certificates.crt; do
    if [ -e "$file" ]; then
        mkdir -p "$root$(dirname "$file")"
        cp -L "$file" "$root$file"
    fi
done
if [ -d /usr/local/share/ca-certificates ]; then
    mkdir -p "$root/usr/local/share"
    cp -rL /usr/local/share/ca-certificates "$root/usr/local/share/"
fi
for file in "$HOME/.pip/pip.conf" "$HOME/.config/pip/pip.conf"; do
    if [ -e "$file" ]; then
        mkdir -p "$root/root/.config/pip"
        cp -L "$file" "$root/root/.config/pip/pip.conf"
    fi
done
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
mount --make-rslave "$root/dev"
# Folders of wheels that pip's configuration names (file:// or plain paths) are shown at the same place.
for path in $({ pip config list 2>/dev/null; env | grep '^PIP_' || true; } | tr " '\"=" '\n' |
    sed -n 's|^file://||; s|/simple/*$||; /^\/.*/p' | sort -u); do
    if [ -d "$path" ]; then
        mkdir -p "$root$path"
        mount --bind "$path" "$root$path"
        mount -o remount,bind,ro "$root$path"
    fi
done

echo "fresh-root: the source tarball"
rm -rf "$root/project" "$root.source"
mkdir "$root/project"
packaging/tarball.sh "$root.source" >"$root.log"
tar -xf "$root.source/libsafetensors-$(packaging/version.sh).tar.gz" -C "$root/project" --strip-components=1

pass=$(env | grep -E '^(PIP_|https?_proxy=|HTTPS?_PROXY=|no_proxy=|NO_PROXY=|SSL_CERT|REQUESTS_CA)' || true)
inside() {
    # shellcheck disable=SC2046
    IFS='
'
    # shellcheck disable=SC2086
    chroot "$root" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C $pass "$@"
    unset IFS
}
echo "fresh-root: make demo"
inside sh -c 'cd /project && make demo' | tee "$root.demo.log" | tail -n 15
grep -q '^demo: done' "$root.demo.log"
echo "fresh-root: make test"
inside sh -c 'cd /project && make test' | tee "$root.test.log" | tail -n 25
tail -n 1 "$root.test.log" | grep -qE '^[1-9][0-9]* passed, 0 failed$'
echo "fresh-root: demo and test passed in a minimal $suite root"
