#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# root.sh make FOLDER SUITE [PACKAGE...] - a clean minimal Debian root with these packages in FOLDER.
# root.sh run FOLDER COMMAND...          - runs COMMAND in it as root, with an environment of its own.
# root.sh remove FOLDER
#
# Needs root and mmdebstrap. The bare root of a suite is made once and kept as build/roots/SUITE.tar (SFT_ROOTS names
# another folder). There are no device nodes in a root: `run` shows a few of the machine's and /proc in a
# mount namespace of its own, which ends with the command. Of the environment SFT_*, SOURCE_DATE_EPOCH,
# DEB_BUILD_OPTIONS and what configures proxies and pip go in; apt's configuration of this machine is the root's.
# BIND="/outside:/inside ..." shows more folders, read-only unless ":rw" follows.
set -eu
self=$(cd "$(dirname "$0")" && pwd)/$(basename "$0")
what=${1:?what}
root=$(realpath -m "${2:?folder}")
cd "$(dirname "$0")/../.."
shift 2
roots=${SFT_ROOTS:-build/roots}

inside() { # a namespace was made for this: mounts are seen here alone
    local each path from to mode
    mkdir -p "$root/dev" "$root/proc"
    mount -t tmpfs -o mode=755 none "$root/dev"
    for each in null zero full random urandom tty; do
        : >"$root/dev/$each"
        mount --bind "/dev/$each" "$root/dev/$each"
    done
    mkdir "$root/dev/shm" "$root/dev/pts"
    mount -t tmpfs -o mode=1777 none "$root/dev/shm"
    mount -t devpts -o newinstance,ptmxmode=0666 none "$root/dev/pts"
    ln -s pts/ptmx "$root/dev/ptmx"
    ln -s /proc/self/fd "$root/dev/fd"
    mount -t proc none "$root/proc"
    for each in ${BIND:-}; do
        IFS=: read -r from to mode <<<"$each"
        mkdir -p "$root$to"
        mount --bind "$from" "$root$to"
        [ "$mode" = rw ] || mount -o remount,bind,ro "$root$to"
    done
    # Folders of wheels that pip's configuration names are shown at the same place.
    for path in $(env | sed -n 's/^PIP_FIND_LINKS=//p'); do
        if [ -d "$path" ]; then
            mkdir -p "$root$path"
            mount --bind "$path" "$root$path"
        fi
    done
    local kept=()
    while IFS= read -r each; do kept+=("$each"); done < <(env | grep -E \
        '^(SFT_|SOURCE_DATE_EPOCH=|DEB_BUILD_OPTIONS=|PIP_|https?_proxy=|HTTPS?_PROXY=|no_proxy=|NO_PROXY=|SSL_CERT)')
    exec chroot "$root" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 TERM=dumb \
        DEBIAN_FRONTEND=noninteractive "${kept[@]}" "$@"
}

case $what in
    make)
        suite=${1:?suite}
        shift
        mkdir -p "$roots"
        if [ ! -s "$roots/$suite.tar" ]; then
            # The first Debian archive that this machine uses; its keys are this machine's.
            mirror=$(cat /etc/apt/sources.list.d/debian.sources /etc/apt/sources.list 2>/dev/null |
                sed -n 's/^URIs: *\([^ ]*\).*/\1/p; s/^deb \(\[[^]]*\] \)\{0,1\}\([^ ]*\) .*/\2/p' | head -n 1)
            nice mmdebstrap --mode=root --variant=minbase --include=ca-certificates "$suite" "$roots/$suite.new" \
                "$mirror" --format=tar >"$roots/$suite.log" 2>&1 || { tail -n 20 "$roots/$suite.log" >&2; exit 1; }
            mv "$roots/$suite.new" "$roots/$suite.tar"
        fi
        [ ! -e "$root" ] || rm -rf --one-file-system "$root"
        mkdir -p "$root"
        tar -xf "$roots/$suite.tar" -C "$root" --exclude='./dev/*'
        for file in /etc/apt/apt.conf /etc/resolv.conf /etc/hosts /etc/pip.conf /etc/ssl/certs/ca-certificates.crt; do
            if [ -e "$file" ]; then
                mkdir -p "$root$(dirname "$file")"
                cp -L --remove-destination "$file" "$root$file"
            fi
        done
        for file in /etc/apt/apt.conf.d/*; do
            if grep -qiE 'acquire|proxy' "$file" 2>/dev/null; then cp -L "$file" "$root$file"; fi
        done
        # No service starts in a root.
        printf '#!/bin/sh\nexit 101\n' >"$root/usr/sbin/policy-rc.d"
        chmod 755 "$root/usr/sbin/policy-rc.d"
        if [ $# -gt 0 ]; then
            "$self" run "$root" sh -ec 'apt-get update -qq && apt-get install -y --no-install-recommends "$@"' sh "$@" \
                >"$root.log" 2>&1 || { tail -n 20 "$root.log" >&2; exit 1; }
        fi
        ;;
    run) exec unshare --mount --propagation private --pid --fork --kill-child "$self" inside "$root" "$@" ;;
    inside) inside "$@" ;;
    remove) rm -rf --one-file-system "$root" "$root.log" ;;
    *)
        echo "root: make, run or remove" >&2
        exit 2
        ;;
esac
