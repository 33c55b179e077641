#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# musl_python.sh FOLDER - a CPython for musl in FOLDER, compiled from Debian's source package by the compiler of the wheels
# (build/venv-wheels), since no registry has one: small, for tests alone. Started by musl's loader. About 5 minutes on 2 cores.
set -eu
folder=$(realpath -m "${1:?usage: musl_python.sh FOLDER}")
[ ! -e "$folder/done" ] || exit 0
cd "$(dirname "$0")/../.."
work=$PWD/build/musl-python-source
build=$(python3.11 -c "import sys; print(sys.executable)") # of the same version: it compiles the library's files
zig="$PWD/build/venv-wheels/bin/python -m ziglang"
export ZIG_GLOBAL_CACHE_DIR="$PWD/build/zig" ZIG_LOCAL_CACHE_DIR="$PWD/build/zig"
apt=$work/apt
mkdir -p "$apt/parts" "$apt/lists/partial" "$apt/cache/archives/partial"
sed 's/^Types:.*/Types: deb-src/' /etc/apt/sources.list.d/debian.sources >"$apt/parts/debian.sources"
options=(-qq -o Dir::Etc::SourceList=/dev/null -o "Dir::Etc::SourceParts=$apt/parts" -o "Dir::State::Lists=$apt/lists"
    -o "Dir::Cache=$apt/cache" -o APT::Sandbox::User=root -o Debug::NoLocking=true)
cd "$work"
if ! ls python3.11_*.orig.tar.* >/dev/null 2>&1; then
    apt-get "${options[@]}" update
    apt-get "${options[@]}" source --download-only python3.11 || true # Debian's own changes are not needed
fi
rm -rf source
mkdir source
tar -xf python3.11_*.orig.tar.* --strip-components=1 -C source
cd source
# preadv2 and pwritev2: in the headers, not in the musl that starts it. Position-independent, or `environ` would be a copy that musl does not know.
CC="$zig cc -target x86_64-linux-musl" CXX="$zig c++ -target x86_64-linux-musl" AR="$zig ar" RANLIB="$zig ranlib" READELF="$(command -v readelf)" \
    CFLAGS="-O1 -g0 -fPIC -fno-sanitize=undefined -Wno-date-time" LDFLAGS=-dynamic ./configure --host=x86_64-linux-musl --build=x86_64-linux-gnu --prefix="$folder" \
    --with-build-python="$build" --without-ensurepip --disable-ipv6 --disable-test-modules --without-doc-strings \
    ac_cv_file__dev_ptmx=no ac_cv_file__dev_ptc=no ac_cv_func_preadv2=no ac_cv_func_pwritev2=no >configure.log 2>&1 || { tail -n 20 configure.log; exit 1; }
make -j "${JOBS:-2}" LINKFORSHARED="-pie -Xlinker -export-dynamic" >make.log 2>&1 || { tail -n 20 make.log; exit 1; }
rm -rf "$folder"
make install LINKFORSHARED="-pie -Xlinker -export-dynamic" COMPILEALL_OPTS=-q >install.log 2>&1 || { tail -n 20 install.log; exit 1; }
touch "$folder/done"
