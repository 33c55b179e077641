#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# bootstrap.sh [build|test|bench|fuzz|ports|PORT|wheels|debs|npm|site|abi|dist] - installs what this Debian or Ubuntu machine lacks.
#
# With root or passwordless sudo it calls apt-get; otherwise it prints the exact command and exits 2.
# When nothing is missing it only looks (no network, a few milliseconds).
# A cmake older than 3.25 in the distribution is answered by one from PyPI in build/tools.
set -eu
cd "$(dirname "$0")/.."
goal=${1:-build}
PATH="$PWD/build/tools/bin:$PATH"

missing=""
lack() { missing="$missing $1"; }
need_command() { command -v "$1" >/dev/null 2>&1 || lack "$2"; }
# need_file PACKAGE PATTERN...: the package is missing unless some pattern names a file
need_file() {
    package=$1
    shift
    for file in "$@"; do
        if [ -e "$file" ]; then return 0; fi
    done
    lack "$package"
}

cmake_is_old() {
    v=$(cmake --version 2>/dev/null | sed -n '1s/^cmake version \([0-9]*\)\.\([0-9]*\).*/\1 \2/p')
    [ -n "$v" ] || return 1
    # shellcheck disable=SC2086
    set -- $v
    [ "$1" -lt 3 ] || { [ "$1" -eq 3 ] && [ "$2" -lt 25 ]; }
}

look_build() {
    need_command gcc gcc
    need_file libc6-dev /usr/include/stdio.h
    need_command cmake cmake
    need_command ninja ninja-build
    if ! command -v pkg-config >/dev/null 2>&1; then lack pkg-config; fi
    need_file libcurl4-openssl-dev /usr/include/*/curl/curl.h /usr/include/curl/curl.h /usr/local/include/curl/curl.h
    need_file zlib1g-dev /usr/include/zlib.h /usr/local/include/zlib.h
    need_file libbz2-dev /usr/include/bzlib.h /usr/local/include/bzlib.h
    need_file liblzma-dev /usr/include/lzma.h /usr/local/include/lzma.h
    need_file libcmocka-dev /usr/include/cmocka.h /usr/local/include/cmocka.h
    need_command python3 python3
    if cmake_is_old; then
        python3 -c 'import ensurepip, venv' >/dev/null 2>&1 || lack python3-venv
    fi
}

look_test() {
    look_build
    need_command g++ g++
    python3 -c 'import ensurepip, venv' >/dev/null 2>&1 || lack python3-venv
    python3 -c 'import os, sys, sysconfig; sys.exit(not os.path.exists(sysconfig.get_path("include") + "/Python.h"))' \
        >/dev/null 2>&1 || lack python3-dev
    need_command strace strace
    # libsafetensors-mpi is built where these are; its tests run mpirun.
    need_command mpirun openmpi-bin
    need_file libopenmpi-dev /usr/lib/*/openmpi/include/mpi.h /usr/include/mpi.h /usr/include/*/mpi.h /usr/local/include/mpi.h
    # Two machines of namespaces for the tests of redirects.
    [ -x /usr/sbin/ip ] || [ -x /sbin/ip ] || need_command ip iproute2
    # /usr/sbin is not in everybody's path
    [ -x /usr/sbin/nginx ] || need_command nginx nginx-light
    need_command openssl openssl
    need_file ca-certificates /etc/ssl/certs/ca-certificates.crt
}

look_m32() {
    # The metapackage gcc-multilib conflicts with cross compilers; that of the version does not.
    version=$(gcc -dumpversion 2>/dev/null) && version=-${version%%.*}
    need_file "gcc$version-multilib" /usr/lib/gcc/x86_64-linux-gnu/*/32/libgcc.a
}

look_mingw() {
    need_command x86_64-w64-mingw32-gcc gcc-mingw-w64-x86-64
}

look_windows() {
    look_mingw
    need_command wine wine # the command; it brings wine64
}

look_s390x() {
    need_command s390x-linux-gnu-gcc gcc-s390x-linux-gnu
    need_file libc6-dev-s390x-cross /usr/s390x-linux-gnu/include/stdio.h
    need_command qemu-s390x qemu-user
}

# The build dependencies of packaging/debian/control, and what makes source packages.
look_debs() {
    look_build
    need_file build-essential /usr/share/doc/build-essential
    need_command dpkg-buildpackage dpkg-dev
    need_command dh debhelper
    need_command dh_python3 dh-python
    need_file pybuild-plugin-pyproject /usr/share/doc/pybuild-plugin-pyproject
    python3 -c 'import os, sys, sysconfig; sys.exit(not os.path.exists(sysconfig.get_path("include") + "/Python.h"))' \
        >/dev/null 2>&1 || lack python3-dev
    need_file python3-setuptools /usr/lib/python3/dist-packages/setuptools
    need_file python3-wheel /usr/lib/python3/dist-packages/wheel
    need_file libopenmpi-dev /usr/lib/*/openmpi/include/mpi.h
    need_command xz xz-utils
}

look_ports() {
    look_test
    need_command valgrind valgrind
    need_command clang clang
    look_m32
    look_windows
    look_s390x
}

# What the wheels' compiler, packages from PyPI and the site inside need; the sources of zlib, bzip2 and xz come from the archive.
look_wheels() {
    look_npm
    python3 -c 'import ensurepip, venv' >/dev/null 2>&1 || lack python3-venv
    python3 -c 'import os, sys, sysconfig; sys.exit(not os.path.exists(sysconfig.get_path("include") + "/Python.h"))' \
        >/dev/null 2>&1 || lack python3-dev
    need_command dpkg-source dpkg-dev
    need_command flock util-linux
    need_command xz xz-utils
}

look_test_wheels() {
    look_wheels
    need_command mmdebstrap mmdebstrap
    need_command qemu-aarch64 qemu-user
    need_command wine wine
    need_command osslsigncode osslsigncode
    need_command openssl openssl
}

look_abi() {
    need_command abidiff abigail-tools
}

# A release: what its parts need, to compare the ABI, and to sign.
look_dist() {
    look_test
    look_abi
    need_command git git
    need_command xz xz-utils
    need_command minisign minisign
    for part in wheels debs npm; do # site: as npm
        if command -v "look_$part" >/dev/null; then "look_$part"; fi
    done
}

# The WebAssembly module and its package; test-wasm needs a browser, too. A Node that is there is kept, whoever's it is.
look_npm() {
    need_command git git
    need_command clang clang
    need_command wasm-ld lld
    need_command llvm-ar llvm
    need_command wasm-opt binaryen
    need_file wasi-libc /usr/include/wasm32-wasi/stdio.h
    need_file libclang-rt-dev-wasm32 /usr/lib/clang/*/lib/wasi/libclang_rt.builtins-wasm32.a \
        /usr/lib/llvm-*/lib/clang/*/lib/wasi/libclang_rt.builtins-wasm32.a
    need_command dpkg-source dpkg-dev
    need_command node nodejs
    need_command npm npm
}

case $goal in
    build) look_build ;;
    test) look_test ;;
    wheels) look_wheels ;;
    test-wheels) look_test_wheels ;;
    bench)
        look_test
        need_command curl curl
        need_command aria2c aria2
        ;;
    fuzz)
        look_test
        need_command clang clang
        need_file libclang-rt-14-dev /usr/lib/clang/*/lib/linux/libclang_rt.fuzzer-x86_64.a \
            /usr/lib/llvm-*/lib/clang/*/lib/linux/libclang_rt.fuzzer-*.a
        ;;
    ports) look_ports ;;
    asan | tsan | sanitize) look_test ;;
    valgrind)
        look_test
        need_command valgrind valgrind
        ;;
    clang)
        look_test
        need_command clang clang
        ;;
    32)
        look_test
        look_m32
        ;;
    mingw)
        look_test
        look_mingw
        ;;
    windows)
        look_test
        look_windows
        ;;
    s390x)
        look_test
        look_s390x
        ;;
    coverage)
        look_test
        need_command gcovr gcovr
        ;;
    npm) look_npm ;;
    test-wasm)
        look_test
        look_npm
        need_command chromium chromium
        ;;
    site) look_npm ;;
    test-web)
        look_npm
        need_command chromium chromium
        ;;
    fresh-root) need_command debootstrap debootstrap ;;
    debs) look_debs ;;
    test-debs)
        look_debs
        need_command mmdebstrap mmdebstrap
        need_command lintian lintian
        need_command reprotest reprotest
        need_command unshare util-linux
        ;;
    test-recipes)
        look_build
        python3 -c 'import ensurepip, venv' >/dev/null 2>&1 || lack python3-venv
        ;;
    dist) look_dist ;;
    abi)
        look_build
        look_abi
        ;;
    *)
        echo "bootstrap: unknown goal '$goal'" >&2
        exit 2
        ;;
esac

as_root=""
if [ "$(id -u)" -ne 0 ]; then
    if command -v sudo >/dev/null 2>&1 && sudo -n true 2>/dev/null; then
        as_root="sudo -n"
    else
        as_root="none"
    fi
fi

if [ -n "$missing" ]; then
    # The same name may have been added twice.
    # shellcheck disable=SC2086
    missing=$(printf '%s\n' $missing | sort -u | tr '\n' ' ' | sed 's/ $//')
    command="apt-get install -y --no-install-recommends $missing"
    if ! command -v apt-get >/dev/null 2>&1; then
        echo "bootstrap: please install these (Debian's names): $missing" >&2
        exit 2
    fi
    if [ "$as_root" = none ]; then
        echo "bootstrap: something is missing and there is no right to install it; please run" >&2
        echo "    sudo apt-get update && sudo $command" >&2
        exit 2
    fi
    echo "bootstrap: installing $missing"
    # Package lists may be absent (fresh machine) or stale: update only when the first try fails.
    # shellcheck disable=SC2086
    if ! $as_root env DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 $command >/dev/null 2>&1; then
        $as_root apt-get update -qq || true
        if ! $as_root env DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 $command >bootstrap.log 2>&1; then
            tail -n 20 bootstrap.log >&2
            rm -f bootstrap.log
            echo "bootstrap: this failed: $command" >&2
            exit 2
        fi
        rm -f bootstrap.log
    fi
fi

if cmake_is_old; then
    echo "bootstrap: $(cmake --version | head -n 1) is older than 3.25, taking one from PyPI"
    python3 -m venv build/tools
    build/tools/bin/pip install --quiet "cmake>=3.25,<4"
fi
