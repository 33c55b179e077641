#!/bin/bash -eu
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# build.sh - the fuzz targets as OSS-Fuzz and ClusterFuzzLite want them: compiled by $CC with $CFLAGS, linked by $CXX
# with $LIB_FUZZING_ENGINE; into $OUT, each with its seeds (NAME_seed_corpus.zip), dictionary and options. Reads $SRC
# (where libsafetensors lies) and $WORK, too. scripts/check_fuzz_build.sh runs it on Debian.
cd "$SRC/libsafetensors"

# What runs the targets has no libraries but libc's: compression is linked statically.
archive() {
    local found
    found=$("$CC" -print-file-name="lib$1.a")
    case $found in
        /*) echo "$found" ;;
        *)
            echo "build.sh: lib$1.a is missing" >&2
            exit 1
            ;;
    esac
}
zlib=$(archive z) bzip2=$(archive bz2) lzma=$(archive lzma)

# No build type: all flags are those of the environment, and assertions stay.
cmake -S . -B "$WORK/build" -G Ninja -DCMAKE_BUILD_TYPE=None \
    -DCMAKE_C_COMPILER="$CC" -DCMAKE_CXX_COMPILER="$CXX" -DCMAKE_C_FLAGS="$CFLAGS" -DCMAKE_CXX_FLAGS="$CXXFLAGS" \
    -DSFT_BUILD_FUZZ=ON -DSFT_FUZZING_ENGINE="$LIB_FUZZING_ENGINE" -DSFT_BUILD_TOOL=OFF -DSFT_BUILD_TESTS=OFF \
    -DSFT_BUILD_REMOTE=OFF -DSFT_MPI=OFF -DSFT_INSTALL=OFF \
    -DZLIB_LIBRARY_RELEASE="$zlib" -DBZIP2_LIBRARY_RELEASE="$bzip2" -DLIBLZMA_LIBRARY_RELEASE="$lzma"
cmake --build "$WORK/build" --target sft_fuzz_targets

for program in "$WORK"/build/fuzz/fuzz_*; do
    if [ ! -x "$program" ] || [ ! -f "$program" ]; then continue; fi
    name=$(basename "$program")
    target=${name#fuzz_}
    cp "$program" "$OUT/"
    if [ -d "fuzz/corpus/$target" ]; then
        rm -f "$OUT/${name}_seed_corpus.zip"
        zip -q -j -X "$OUT/${name}_seed_corpus.zip" "fuzz/corpus/$target"/*
    fi
    if [ -e "fuzz/$target.dict" ]; then cp "fuzz/$target.dict" "$OUT/$name.dict"; fi
    printf '[libfuzzer]\nmax_len = 8192\ntimeout = 10\nrss_limit_mb = 2048\n' >"$OUT/$name.options"
done
