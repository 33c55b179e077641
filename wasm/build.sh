#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# build.sh OUT [clang|emcc] - the core, the import readers and native/ as WebAssembly: OUT/safetensors.wasm, and
# OUT/safetensors-scan.wasm, which has sft_scan alone. SITE=1: OUT/safetensors-report.wasm in place of the first, which has
# the tool's report, too.
#
# clang: with wasi-libc and the linker of LLVM (Debian: clang lld wasi-libc libclang-rt-dev-wasm32 binaryen).
# The loops over bytes and names are compiled for speed, what decides and waits for size.
# COMPRESSION names a folder with include/ and lib/ of zlib, bzip2 and liblzma (packaging/compression.sh).
set -eu
cd "$(dirname "$0")/.."
out=$1
how=${2:-clang}
work=${WORK:-build/wasm/$how}
jobs=${JOBS:-2}
mkdir -p "$work/obj" "$out"

# Rooms of the core and of the import library without their *_posix.c, *_win.c and *_linux.c, and what native/ stands for.
sources=$(find src/base src/fs src/format src/io src/catalog src/move src/import -name '*.c' |
    grep -Ev '_(posix|win|linux)\.c$|src/fs/copy\.c|digest_crc32c\.c' | LC_ALL=C sort)
if [ -n "${SITE:-}" ]; then
    sources="$sources $(find src/cli/report src/cli/ui src/cli/operands src/cli/look/odd.c src/cli/work.c -name '*.c' \
        ! -name page.c ! -name model.c | LC_ALL=C sort)"
fi
fast='wasm/native/report|src/cli/(report|look/odd|ui/text)|src/format/|src/move/kernels/grid|src/move/kernels/convert_pair|src/catalog/catalog|src/base/text/str|src/base/text/json_string|src/base/text/utf8'

common="-std=c11 -Iinclude -Isrc -Iwasm/native -DSFT_BUILDING -D_GNU_SOURCE -DNDEBUG -D_FILE_OFFSET_BITS=64
    -fno-strict-aliasing -ffunction-sections -fdata-sections -fvisibility=hidden -ffp-contract=off
    -ffile-prefix-map=$PWD=. -Wall -Wextra -Wno-sign-conversion"
have="-DSFT_HAVE_ZLIB=0 -DSFT_HAVE_BZIP2=0 -DSFT_HAVE_LZMA=0"
libs=""
if [ -n "${COMPRESSION:-}" ]; then
    have="-DSFT_HAVE_ZLIB=1 -DSFT_HAVE_BZIP2=1 -DSFT_HAVE_LZMA=1 -I$COMPRESSION/include"
    libs="-L$COMPRESSION/lib -lz -lbz2 -llzma"
fi
case $how in
    clang)
        cc="${LAUNCHER:-} clang --target=wasm32-wasi -mcpu=mvp -mbulk-memory -mnontrapping-fptoint -msign-ext -msimd128
            -Iwasm/native/include"
        ;;
    emcc) cc="${LAUNCHER:-} emcc -mbulk-memory -mnontrapping-fptoint -msign-ext -msimd128" ;;
esac

{
    echo "all:"
    for source in $sources wasm/native/*.c; do
        object=$work/obj/$(echo "$source" | tr / _).o
        level=${SMALL:--Oz}
        if echo "$source" | grep -Eq "$fast"; then level=${FAST:--O2}; fi
        echo "all: $object"
        echo "$object: $source $work/flags"
        echo "	@\$(CC) $level -MMD -c $source -o $object"
    done
    echo "-include $work/obj/*.d"
} >"$work/Makefile"
# Blanks and line breaks become one blank.
# shellcheck disable=SC2086,SC2116
flags=$(echo $cc $common $have)
if [ "$flags" != "$(cat "$work/flags" 2>/dev/null)" ]; then echo "$flags" >"$work/flags"; fi
make -s -j "$jobs" -f "$work/Makefile" CC="$flags" all

# As a library, so that only what is called comes in.
rm -f "$work/libsft.a"
llvm-ar rcsD "$work/libsft.a" "$work"/obj/src_*.o
common_objects=$(find "$work/obj" -name 'wasm_*.o' ! -name '*_model.c.o' ! -name '*_scan.c.o' ! -name '*_report.c.o' | LC_ALL=C sort)

# link NAME OBJECT... The stack lies first: when it runs over, the module traps instead of writing over its data.
link() {
    name=$1
    shift
    case $how in
        clang)
            # shellcheck disable=SC2086
            clang --target=wasm32-wasi -nostartfiles $common_objects "$@" "$work/libsft.a" $libs -o "$work/$name" \
                -Wl,--no-entry -Wl,--gc-sections -Wl,--strip-all -Wl,-O3 -Wl,-z,stack-size=1048576 \
                -Wl,--stack-first -Wl,--max-memory=4294967296 -Wl,--initial-memory=4194304
            ;;
        emcc)
            # shellcheck disable=SC2086
            emcc -Oz $common_objects "$@" "$work/libsft.a" $libs -o "$work/$name" --no-entry -sSTANDALONE_WASM \
                -sALLOW_MEMORY_GROWTH -sMAXIMUM_MEMORY=4GB -sTOTAL_STACK=1MB -sERROR_ON_UNDEFINED_SYMBOLS=0
            ;;
    esac
    wasm-opt -Oz --enable-simd --enable-bulk-memory --enable-nontrapping-float-to-int --enable-sign-ext \
        --strip-debug --strip-producers "$work/$name" -o "$out/$name"
}
native=$work/obj/wasm_native
if [ -n "${SITE:-}" ]; then
    link safetensors-report.wasm "${native}_model.c.o" "${native}_report.c.o" &
else
    link safetensors.wasm "${native}_model.c.o" &
fi
link safetensors-scan.wasm "${native}_scan.c.o"
wait $!
