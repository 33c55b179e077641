#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# compression.sh OUT CC AR [CFLAGS] - the readers of zlib, bzip2 and xz as static libraries for another machine.
#
# CC and AR may be several words ("python -m ziglang cc -target aarch64-linux-musl", "emcc"). The sources are Debian's
# source packages, patches applied, as the archive of this machine has them and as apt has verified them; they stay
# in build/compression (SFT_COMPRESSION names another folder), and are fetched again when that is removed. Only what
# libsafetensors-import calls is compiled: inflate and CRC-32, BZ2_bzDecompress, lzma_auto_decoder.
#
# OUT/lib: libz.a libbz2.a liblzma.a; OUT/include; OUT/licenses; OUT/sources.txt: packages, versions, SHA-256.
# Does nothing when OUT was made by the same script, compiler and sources.
set -eu
here=$(cd "$(dirname "$0")/.." && pwd)
[ $# -ge 3 ] || { sed -n '4,5s/^# //p' "$0" >&2; exit 2; }
mkdir -p "$1"
out=$(cd "$1" && pwd)
read -ra cc <<<"$2"
read -ra ar <<<"$3"
read -ra cflags <<<"-O2 -g0 -DNDEBUG -fPIC -fvisibility=hidden -w ${4:-}"
sources=${SFT_COMPRESSION:-$here/build/compression}
packages=(zlib bzip2 xz-utils)

# Debian's source packages, with apt's configuration as it is but for a list of its own with deb-src in it.
fetch() {
    local apt=$sources/apt options file
    for file in apt-get dpkg-source; do
        if ! command -v "$file" >/dev/null; then
            echo "compression: $file is needed (Debian: apt, dpkg-dev)" >&2
            exit 2
        fi
    done
    rm -rf "$sources"
    mkdir -p "$apt/parts" "$apt/lists/partial" "$apt/cache/archives/partial" "$sources/tree"
    for file in /etc/apt/sources.list.d/{debian,ubuntu}.sources; do
        if [ -e "$file" ]; then sed 's/^Types:.*/Types: deb-src/' "$file" >"$apt/parts/${file##*/}"; fi
    done
    if [ -e /etc/apt/sources.list ]; then
        sed -n 's/^deb /deb-src /p' /etc/apt/sources.list >"$apt/parts/classic.list"
    fi
    options=(-qq -o Dir::Etc::SourceList=/dev/null -o "Dir::Etc::SourceParts=$apt/parts" -o "Dir::State::Lists=$apt/lists"
        -o "Dir::Cache=$apt/cache" -o APT::Sandbox::User=root -o Debug::NoLocking=true)
    (
        cd "$sources"
        apt-get "${options[@]}" update
        apt-get "${options[@]}" source --download-only "${packages[@]}"
        for file in *.dsc; do
            name=$(sed -n 's/^Source: //p' "$file")
            dpkg-source --no-check -x "$file" "tree/$name" >/dev/null
        done
        for name in "${packages[@]}"; do [ -d "tree/$name" ]; done
        for file in *.dsc; do
            printf '%s %s\n' "$(sed -n 's/^Source: //p' "$file")" "$(sed -n 's/^Version: //p' "$file")"
        done >versions.txt
        sha256sum -- *.tar.* *.dsc >>versions.txt
    ) >"$sources.log" 2>&1 || {
        cat "$sources.log" >&2
        rm -rf "$sources"
        echo "compression: the source packages ${packages[*]} could not be fetched" >&2
        exit 1
    }
    rm -rf "$apt" "$sources.log"
}

mkdir -p "$(dirname "$sources")"
(
    flock 9
    [ -e "$sources/versions.txt" ] || fetch
) 9>"$sources.lock"

stamp=$(printf '%s\n' "$2" "$3" "${4:-}" | cat - "$0" "$sources/versions.txt" | sha256sum)
if [ -f "$out/.stamp" ] && [ "$(cat "$out/.stamp")" = "$stamp" ]; then
    exit 0
fi
rm -rf "$out"
mkdir -p "$out/lib" "$out/include/lzma" "$out/licenses" "$out/objects"

# library NAME FOLDER SOURCE...: compiled with flags, in its folder by relative names, so that no path is kept
library() {
    local name=$1
    cd "$2"
    shift 2
    mkdir -p "$out/objects/$name"
    # shellcheck disable=SC2016
    printf '%s\0' "$@" | xargs -0 -P "${JOBS:-$(nproc)}" -I{} sh -c '
        source=$1 folder=$2; shift 2
        "$@" -c "$source" -o "$folder/$(printf %s "${source%.c}" | tr / _).o"' \
        - {} "$out/objects/$name" "${cc[@]}" "${cflags[@]}" "${flags[@]}"
    "${ar[@]}" rcsD "$out/lib/lib$name.a" "$out/objects/$name"/*.o
}

tree=$sources/tree
flags=(-DHAVE_HIDDEN -Dfdopen=fdopen) # zlib before 1.3.1 takes macOS for a system that has none
library z "$tree/zlib" adler32.c crc32.c inffast.c inflate.c inftrees.c zutil.c
cp "$tree/zlib/zlib.h" "$tree/zlib/zconf.h" "$out/include/"

# Without stdio it asks for a function that is called when its own invariants fail.
printf '%s\n' 'void abort(void);' 'void bz_internal_error(int code);' \
    'void bz_internal_error(int code) { (void)code; abort(); }' >"$tree/bzip2/internal_error.c"
flags=(-DBZ_NO_STDIO)
library bz2 "$tree/bzip2" blocksort.c bzlib.c compress.c crctable.c decompress.c huffman.c randtable.c internal_error.c
cp "$tree/bzip2/bzlib.h" "$out/include/"

flags=(-D_GNU_SOURCE -DLZMA_API_STATIC -DTUKLIB_SYMBOL_PREFIX=lzma_ -DHAVE_VISIBILITY=0)
flags+=(-DHAVE_{STDBOOL,INTTYPES,STDINT,STRING,LIMITS}_H -DHAVE_{DECODERS,LZIP_DECODER} -DHAVE_CHECK_{CRC32,CRC64,SHA256})
flags+=(-DHAVE_DECODER_{X86,ARM,ARMTHUMB,ARM64,POWERPC,SPARC,IA64,DELTA,LZMA1,LZMA2})
flags+=(-I{api,common,check,lz,rangecoder,lzma,delta,simple} -I../common)
library lzma "$tree/xz-utils/src/liblzma" check/{check,crc32_fast,crc32_table,crc64_fast,crc64_table,sha256}.c \
    common/{common,alone_decoder,auto_decoder,lzip_decoder,stream_decoder,block_decoder,block_header_decoder}.c \
    common/{block_util,filter_common,filter_decoder,filter_flags_decoder,index_hash,stream_flags_common}.c \
    common/{stream_flags_decoder,vli_decoder,vli_size}.c delta/delta_{common,decoder}.c lz/lz_decoder.c \
    lzma/lzma{,2}_decoder.c simple/simple_{coder,decoder}.c simple/{arm,armthumb,arm64,ia64,powerpc,sparc,x86}.c
cp "$tree/xz-utils/src/liblzma/api/lzma.h" "$out/include/"
cp "$tree/xz-utils/src/liblzma/api/lzma"/*.h "$out/include/lzma/"

for name in "${packages[@]}"; do cp "$tree/$name/debian/copyright" "$out/licenses/$name.txt"; done
cp "$sources/versions.txt" "$out/sources.txt"
rm -rf "$out/objects"
echo "$stamp" >"$out/.stamp"
