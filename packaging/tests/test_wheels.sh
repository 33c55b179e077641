#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# test_wheels.sh OUT [ROW...] - installs the wheels of OUT (packaging/wheels.sh) in clean roots and tries them with smoke.py: pip,
# pipx and uv; Debian with Python 3.11, 3.13 and 3.14; arm64 by qemu; musl; Windows by wine; and what goes wrong: no libcurl,
# an old one, a Python, a C library or a processor that is too old, folders that cannot be written.
# Needs root, and what `scripts/bootstrap.sh test-wheels` installs. A line a row, then "N passed, N failed".
set -u
out=$(realpath "${1:?usage: test_wheels.sh OUT [ROW...]}")
shift
cd "$(dirname "$0")/../.." || exit 4
only=$*
here=packaging/tests
bin=$PWD/build/venv-wheels/bin
roots=$PWD/build/roots
work=$PWD/build/wheels-test
numpy=$PWD/build/numpy
fixtures=tests/import/fixtures
rm -rf "$work"
mkdir -p "$work" "$numpy" "$roots"
scripts/venv.sh packaging/requirements-wheels.txt build/venv-wheels || exit 1 # wheels may be another folder's
passed=0 failed=0
export PIP_DISABLE_PIP_VERSION_CHECK=1 PYTHONDONTWRITEBYTECODE=1

# shellcheck disable=SC2086
wheel() { ls "$out"/safetensors_c-*-cp311-abi3-$1.whl; }
manylinux=$(wheel 'manylinux_2_17_x86_64*')
musllinux=$(wheel 'musllinux_*_x86_64')

# row NAME FUNCTION...: what it prints last is the row's text
row() {
    local name=$1
    shift
    case " $only " in
        "  " | *" $name "*) ;;
        *) return ;;
    esac
    if "$@" >"$work/$name.log" 2>&1; then
        passed=$((passed + 1))
        printf '%s: %s\n' "$name" "$(tail -n 1 "$work/$name.log")"
    else
        failed=$((failed + 1))
        printf '%s: FAILED (%s)\n' "$name" "$work/$name.log"
        tail -n 15 "$work/$name.log" | sed 's/^/    /'
    fi
}

# says STATUS TEXT COMMAND...: the command ends with this status, and one of its lines holds this text, which is printed
says() {
    local wanted=$1 text=$2 status said
    shift 2
    said=$("$@" 2>&1)
    status=$?
    printf '%s\n' "$said"
    [ "$status" -eq "$wanted" ] || { echo "exit status $status, not $wanted"; return 1; }
    printf '%s\n' "$said" | grep -F -m 1 -- "$text" || { echo "nothing like: $text"; return 1; }
}

# numpy_wheel PYTHON PLATFORM...: NumPy for another system, into build/numpy
numpy_wheel() {
    local version=$1 platforms=()
    shift
    while [ $# -gt 0 ]; do
        platforms+=(--platform "$1")
        shift
    done
    "$bin/pip" download -q --no-deps --only-binary=:all: --python-version "$version" "${platforms[@]}" -d "$numpy" "numpy==2.3.5"
}

save_one="import sys, safetensors_c as s
w = s.Writer(sys.argv[1], {'a': s.TensorSpec(dtype='F32', shape=[1], data_ptr=0, data_len=4)})
w.put('a', bytes(4)); w.finish()"

# ---------------------------------------------------------------- this machine
with_pip() {
    local start
    python3 -m venv "$work/venv"
    start=$(date +%s%N)
    "$work/venv/bin/pip" install -q --no-index "$manylinux"
    "$work/venv/bin/python" -c "$save_one; print(len(s.safe_open(sys.argv[1], 'np')))" "$work/one.safetensors" || return 1
    "$work/venv/bin/safetensors" ls "$work/one.safetensors" || return 1
    echo "pip install of the wheel, first load and first command: $((($(date +%s%N) - start) / 1000000)) ms"
}

with_pipx() {
    export PIPX_HOME="$work/pipx" PIPX_BIN_DIR="$work/pipx/bin" PIPX_MAN_DIR="$work/pipx/man"
    "$bin/pipx" run --spec "$manylinux" safetensors --version || return 1
    "$bin/pipx" install "$manylinux" || return 1
    "$PIPX_BIN_DIR/safetensors" ls "$fixtures/checkpoint.pt" || return 1
    echo "pipx run --spec WHEEL safetensors; pipx install"
}

with_uv() {
    export UV_TOOL_DIR="$work/uv" UV_TOOL_BIN_DIR="$work/uv/bin" UV_CACHE_DIR="$work/uv/cache" UV_PYTHON_DOWNLOADS=never
    "$bin/uv" tool install --offline --no-index "$manylinux" || return 1
    "$UV_TOOL_BIN_DIR/safetensors" ls "$fixtures/checkpoint.pt" || return 1
    "$bin/uv" tool run --offline --no-index --from "$manylinux" safetensors --version || return 1
    echo "uv tool install WHEEL; uv tool run --from WHEEL safetensors"
}

with_alias() {
    "$work/venv/bin/pip" install -q --no-index --find-links "$out" "$out"/safetensors-*-py3-none-any.whl || return 1
    "$work/venv/bin/python" -c "import safetensors; print(safetensors.__file__, safetensors.__version__)"
}

# ---------------------------------------------------------------- Debian
debian() { # SUITE PACKAGE...
    local suite=$1 root=$roots/wheels-$1
    shift
    if [ "$suite" = sid ]; then
        "$here/unpack_root.sh" "$root" "$suite" amd64 python3 python3-venv ca-certificates "$@" || return 1
    elif [ ! -e "$root/usr/bin/python3" ]; then
        "$here/root.sh" make "$root" "$suite" python3-venv ca-certificates "$@" || return 1
    fi
    rm -rf "$root/try"
    mkdir "$root/try"
    cp "$out"/*.whl "$here/smoke.py" "$root/try/"
    cp -r "$fixtures" "$root/try/fixtures"
}

in_debian() { # SUITE PYTHON SMOKE-OPTION...
    local suite=$1 version=$2
    shift 2
    numpy_wheel "$version" manylinux_2_27_x86_64 manylinux2014_x86_64
    cp "$numpy"/numpy-*-cp"${version/./}"-*manylinux*x86_64.whl "$roots/wheels-$suite/try/"
    "$here/root.sh" run "$roots/wheels-$suite" sh -ec '
        python3 -m venv /try/venv
        PIP_FIND_LINKS= /try/venv/bin/pip install -q --no-index --find-links /try "safetensors-c[numpy]"
        /try/venv/bin/python /try/smoke.py /try/fixtures /try/venv/bin/safetensors "$@"' sh "$@"
}

bookworm() { debian bookworm libcurl4 && in_debian bookworm 3.11; }
trixie() { debian trixie && in_debian trixie 3.13 --no-url; }
sid() { debian sid libcurl4t64 libstdc++6 && in_debian sid 3.14; }

no_libcurl() { # trixie's root has none
    says 3 "needs libcurl 7.85 or later (install libcurl4, libcurl or curl" "$here/root.sh" run "$roots/wheels-trixie" \
        /try/venv/bin/safetensors ls http://127.0.0.1:1/m.safetensors &&
        says 1 "needs libcurl 7.85 or later (install libcurl4, libcurl or curl" "$here/root.sh" run "$roots/wheels-trixie" \
            /try/venv/bin/python -c 'import safetensors_c as s; s.safe_open("http://127.0.0.1:1/m.safetensors", "np")'
}

old_libcurl() { # bullseye's is 7.74
    debian bullseye libcurl4 || return 1
    "$here/root.sh" run "$roots/wheels-bullseye" sh -ec "cd /try && rm -rf w && mkdir w && cd w && python3 -m zipfile -e ../$(basename "$manylinux") ." || return 1
    local command
    command=$(cd "$roots/wheels-bullseye" && ls try/w/*.data/scripts/safetensors)
    chmod 755 "$roots/wheels-bullseye/$command"
    "$here/root.sh" run "$roots/wheels-bullseye" "/$command" ls /try/fixtures/checkpoint.pt || return 1
    says 3 "needs libcurl 7.85" "$here/root.sh" run "$roots/wheels-bullseye" "/$command" ls http://127.0.0.1:1/m.safetensors
}

old_python() { # bullseye's is 3.9
    says 1 "not a supported wheel on this platform" "$here/root.sh" run "$roots/wheels-bullseye" sh -c \
        'python3 -m venv /try/venv && /try/venv/bin/pip install --no-index /try/'"$(basename "$manylinux")"
    cp "$out"/safetensors_c-*.tar.gz "$roots/wheels-bullseye/try/"
    says 1 "safetensors-c needs Python 3.10 or later; this is 3.9" "$here/root.sh" run "$roots/wheels-bullseye" sh -c \
        '/try/venv/bin/pip install --no-index --no-build-isolation /try/safetensors_c-*.tar.gz'
}

old_glibc() { # what pip says where the system's own word is that it is not of that kind
    mkdir -p "$work/old"
    echo 'def manylinux_compatible(major, minor, arch): return False' >"$work/old/_manylinux.py"
    says 1 "not a supported wheel on this platform" env PYTHONPATH="$work/old" "$work/venv/bin/pip" install --no-index \
        --force-reinstall "$manylinux"
}

# In trixie's root, by somebody who may write in /tmp alone; HOME is a folder of root's.
unprivileged() {
    "$here/root.sh" run "$roots/wheels-trixie" setpriv --reuid=65534 --regid=65534 --clear-groups env HOME=/try/readonly "$@"
}

not_writable() {
    mkdir -p "$roots/wheels-trixie/try/readonly"
    says 3 "ermission denied" unprivileged /try/venv/bin/safetensors convert /try/fixtures/checkpoint.pt -o /try/readonly/new.safetensors &&
        says 1 "ermission denied" unprivileged /try/venv/bin/python -c "$save_one" /try/readonly/one.safetensors
}

no_site_packages() { # an environment of somebody else's
    says 1 "ermission denied" unprivileged env PIP_NO_CACHE_DIR=1 /try/venv/bin/pip install --no-index --force-reinstall --no-deps \
        "/try/$(basename "$manylinux")"
}

readonly_home() {
    unprivileged /try/venv/bin/python /try/smoke.py /try/fixtures /try/venv/bin/safetensors --no-url
}

no_avx2() {
    local cpu
    for cpu in core2duo Nehalem SandyBridge; do
        qemu-x86_64 -cpu "$cpu" "$tool" convert "$fixtures/checkpoint.pt" -o "$work/$cpu.safetensors" -f &&
            qemu-x86_64 -cpu "$cpu" "$tool" cp "$work/$cpu.safetensors" "$work/$cpu-f16.safetensors" --cast F16 --digests sha256 -f || return 1
        "$tool" verify "$work/$cpu-f16.safetensors" || return 1
    done
    cmp "$work/core2duo-f16.safetensors" "$work/SandyBridge-f16.safetensors" || return 1
    SFT_CPU=portable "$tool" verify "$work/core2duo-f16.safetensors" || return 1
    says 2 "SFT_CPU" env SFT_CPU=nothing "$tool" verify "$work/core2duo-f16.safetensors" || return 1
    qemu-x86_64 -cpu Nehalem "$work/venv/bin/python" "$here/smoke.py" "$PWD/$fixtures" --no-numpy --no-url || return 1
    echo "the same bytes on core2duo, Nehalem and SandyBridge (qemu-user), SFT_CPU=portable too"
}

# ---------------------------------------------------------------- other machines
arm64() {
    local root=$roots/bookworm-arm64 site=$roots/bookworm-arm64/try/site
    "$here/unpack_root.sh" "$root" bookworm arm64 python3 python3-venv ca-certificates libcurl4 libstdc++6 || return 1
    rm -rf "$root/try"
    mkdir "$root/try"
    numpy_wheel 3.11 manylinux_2_27_aarch64 manylinux2014_aarch64
    "$bin/pip" install -q --no-index --no-deps --target "$site" --only-binary=:all: --python-version 3.11 \
        --platform manylinux_2_27_aarch64 --platform manylinux2014_aarch64 \
        "$(wheel 'manylinux_2_17_aarch64*')" "$numpy"/numpy-*-cp311-*aarch64.whl || return 1
    qemu-aarch64 -L "$root" "$site/bin/safetensors" ls "$fixtures/checkpoint.pt" || return 1
    PYTHONPATH=$site PYTHONHOME=$root/usr qemu-aarch64 -L "$root" "$root/usr/bin/python3.11" "$here/smoke.py" "$PWD/$fixtures" \
        qemu-aarch64 -L "$root" "$site/bin/safetensors"
}

musl() {
    local root=$roots/musl site=$work/musl/site command loader
    "$here/unpack_root.sh" "$root" bookworm amd64 musl || return 1
    loader=$(ls "$root"/lib/ld-musl-x86_64.so.1)
    "$bin/pip" install -q --no-index --no-deps --target "$site" --only-binary=:all: --python-version 3.11 \
        --platform musllinux_1_2_x86_64 "$musllinux" || return 1
    command=$(ls "$site/bin/safetensors")
    "$loader" "$command" ls "$fixtures/checkpoint.pt" || return 1
    "$loader" "$command" convert "$fixtures/checkpoint.pt" -o "$work/musl/m.safetensors" || return 1
    "$loader" "$command" check "$work/musl/m.safetensors" || return 1
    "$tool" diff "$work/musl/m.safetensors" "$fixtures/checkpoint.pt" || return 1
    says 1 "(in xz or lzma)" "$loader" "$command" scan "$fixtures/joblib-xz.joblib" || return 1
    says 3 "needs libcurl 7.85" "$loader" "$command" ls http://127.0.0.1:1/m.safetensors || return 1
    echo "the command, with musl's loader $(dpkg-deb --version >/dev/null; "$loader" 2>&1 | sed -n 's/^Version //p')"
}

musl_python() { # without NumPy, whose modules are called as Debian's Python for musl does not look for them
    local root=$roots/musl site=$work/musl/site python=$PWD/build/musl-python loader=$roots/musl/lib/ld-musl-x86_64.so.1
    "$here/musl_python.sh" "$python" || return 1
    PYTHONPATH=$site "$loader" "$python/bin/python3.11" "$here/smoke.py" "$PWD/$fixtures" "$loader" "$site/bin/safetensors" --no-numpy --no-url
}

wine_command() {
    local site=$work/windows/site
    export WINEDEBUG=-all WINEPREFIX=$PWD/build/wineprefix
    "$bin/pip" install -q --no-index --no-deps --target "$site" --only-binary=:all: --python-version 3.13 --platform win_amd64 \
        "$(wheel win_amd64)" || return 1
    wineboot -i >/dev/null 2>&1
    wine "$site/bin/safetensors.exe" ls "$fixtures/checkpoint.pt" || return 1
    wine "$site/bin/safetensors.exe" convert "$fixtures/checkpoint.pt" -o "$work/windows/m.safetensors" || return 1
    "$tool" diff "$work/windows/m.safetensors" "$fixtures/checkpoint.pt" || return 1
    says 1 "(in xz or lzma)" wine "$site/bin/safetensors.exe" scan "$fixtures/joblib-xz.joblib" || return 1
    says 3 "needs libsafetensors-remote, which this build of the tool does not have" wine "$site/bin/safetensors.exe" ls http://127.0.0.1:1/m.safetensors || return 1
    echo "the command, with $(wine --version)"
}

wine_python() {
    local site=$work/windows/site python=$PWD/build/windows-python
    export WINEDEBUG=-all WINEPREFIX=$PWD/build/wineprefix
    "$here/windows_python.sh" "$python" || return 1
    says 1 "reading from a URL is not possible on Windows yet" env PYTHONPATH="Z:${site//\//\\}" wine "$python/python.exe" -c \
        'import safetensors_c as s; s.safe_open("http://127.0.0.1:1/m.safetensors", "np")' </dev/null || return 1
    # Without NumPy, for which wine 8's C library lacks complex numbers; through pipes, since it gives Python no handle of a file.
    WINEPATH=$site/bin PYTHONPATH="Z:${site//\//\\}" wine "$python/python.exe" "$here/smoke.py" "Z:${PWD//\//\\}\\tests\\import\\fixtures" \
        "Z:${site//\//\\}\\bin\\safetensors.exe" --no-numpy --no-url </dev/null 2>&1 | cat
    [ "${PIPESTATUS[0]}" -eq 0 ]
}

if [ ! -x "$work/venv/bin/safetensors" ] && [ -n "$only" ]; then only="pip $only"; fi
row pip with_pip
tool=$work/venv/bin/safetensors
row alias with_alias
row pipx with_pipx
row uv with_uv
row bookworm bookworm
row trixie trixie
row sid sid
row arm64 arm64
row musl musl
row musl-python musl_python
row wine wine_command
row wine-python wine_python
row no-libcurl no_libcurl
row old-libcurl old_libcurl
row old-python old_python
row old-glibc old_glibc
row no-avx2 no_avx2
row not-writable not_writable
row no-site-packages no_site_packages
row readonly-home readonly_home
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
