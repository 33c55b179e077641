#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# run.sh CASE SOURCE BUILD WORK - builds and runs the example as a user would; one ctest case per CASE.
#   stage            install into WORK/stage (DESTDIR, an odd prefix and libdir), then move the tree
#   files            everything that should be installed is there, and nothing outside the prefix
#   uninstall        `make uninstall` below the same DESTDIR leaves no file and no folder of ours
#   system           for the prefix /usr: the distribution's folder of libraries, plain paths for pkg-config, no run path
#   pkgconfig        cc `pkg-config --cflags --libs`, shared
#   pkgconfig-static the same, --static, no shared library in sight
#   find_package, find_package-shared, add_subdirectory, fetchcontent
#   amalgamation     cc open_slice_write.c sft.c -pthread
#   cpp              c++ with sft.hpp, C++17 and C++20
#   open_anything    the example that opens whatever it is given, by all libraries
#   own_source       the example with a source of its own
#   stream           the example that streams a model: the checksums are those that a save records
# The written file is compared with what it must be by check_output.py.
set -eu
case_=$1
source=$2
build=$3
work=$4
cc=${CC:-cc}
prefix=/opt/sft-odd
# where a distribution would put it: lib/x86_64-linux-gnu, lib64
arch=$($cc -print-multiarch 2>/dev/null || true)
libdir=${arch:+lib/$arch}
libdir=${libdir:-lib64}
moved=$work/moved
here=$source/tests/package
model=$source/examples/model
tensor=model.embed_tokens.weight
flags="-O1 -Wall -Wextra -Werror -std=c11"
mkdir -p "$work"

run_example() { # program
    local out
    out=$(mktemp -d)
    "$1" "$model" $tensor "$out/rows.safetensors"
    python3 "$here/check_output.py" "$model" $tensor "$out/rows.safetensors"
    rm -rf "$out"
}
use_stage() {
    export PKG_CONFIG_PATH=$moved/$libdir/pkgconfig
    [ -e "$PKG_CONFIG_PATH/libsafetensors.pc" ] || { echo "not staged"; exit 1; }
}
cmake_case() { # example folder, more arguments
    local folder=$1
    shift
    rm -rf "$work/$case_"
    cmake -S "$source/examples/$folder" -B "$work/$case_" -G Ninja -DCMAKE_BUILD_TYPE=Release "$@" >"$work/$case_.log" 2>&1 ||
        { cat "$work/$case_.log"; exit 1; }
    cmake --build "$work/$case_" --target open_slice_write >"$work/$case_.log" 2>&1 || { cat "$work/$case_.log"; exit 1; }
    run_example "$work/$case_/open_slice_write"
}

case $case_ in
    stage)
        rm -rf "$work/stage" "$moved" "$work/stage-build"
        # Its own configuration: the prefix is baked into nothing, which the move below proves. Little optimisation:
        # how fast it is is not asked, and this is half of the compiler's time.
        cmake -S "$source" -B "$work/stage-build" -G Ninja -DCMAKE_INSTALL_PREFIX=$prefix \
            -DCMAKE_INSTALL_LIBDIR=$libdir -DSFT_BUILD_TESTS=OFF -DSFT_BUILD_EXAMPLES=OFF \
            -DSFT_BUILD_BENCH=OFF -DCMAKE_BUILD_TYPE=Release -DCMAKE_C_FLAGS_RELEASE="-O1 -DNDEBUG" >"$work/stage.log" 2>&1 || { cat "$work/stage.log"; exit 1; }
        cmake --build "$work/stage-build" >"$work/stage.log" 2>&1 || { cat "$work/stage.log"; exit 1; }
        DESTDIR=$work/stage cmake --install "$work/stage-build" >"$work/stage.log" 2>&1 || { cat "$work/stage.log"; exit 1; }
        mv "$work/stage$prefix" "$moved"
        ;;
    files)
        faults=0
        for file in include/sft/sft.h include/sft/extend.h include/sft/sft.hpp bin/safetensors \
            $libdir/libsafetensors.a $libdir/libsafetensors.so $libdir/pkgconfig/libsafetensors.pc \
            $libdir/cmake/safetensors/safetensors-config.cmake share/man/man1/safetensors.1 \
            share/man/man1/safetensors-check.1 share/bash-completion/completions/safetensors \
            share/zsh/site-functions/_safetensors share/fish/vendor_completions.d/safetensors.fish; do
            [ -s "$moved/$file" ] || { echo "not installed: $file"; faults=1; }
        done
        # Nothing beside the prefix, no path of this machine in what is text.
        left=$(find "$work/stage" -type f | head -n 5)
        [ -z "$left" ] || { echo "outside the prefix: $left"; faults=1; }
        if grep -rIlE "$(printf '%s' "$source" | sed 's/[.[\*^$]/\\&/g')" "$moved"; then
            echo "the files above name the source folder"
            faults=1
        fi
        "$moved/bin/safetensors" --version
        exit $faults
        ;;
    uninstall)
        rm -rf "$work/uninstall"
        DESTDIR=$work/uninstall cmake --install "$work/stage-build" >"$work/uninstall.log"
        [ -e "$work/uninstall$prefix/bin/safetensors" ]
        make -s -C "$source" uninstall BUILD="$work/stage-build" DESTDIR="$work/uninstall" >"$work/uninstall.log"
        left=$(find "$work/uninstall" ! -type d -o -name sft -o -name '*safetensors*')
        [ -z "$left" ] || { echo "left behind: $left"; exit 1; }
        ;;
    system)
        rm -rf "$work/system"
        cmake -S "$source" -B "$work/system" -G Ninja -DCMAKE_INSTALL_PREFIX=/usr >"$work/system.log" 2>&1 ||
            { cat "$work/system.log"; exit 1; }
        # On Debian that is lib/ARCH, elsewhere lib or lib64: what CMake says that it is.
        found=$(sed -n 's/^CMAKE_INSTALL_LIBDIR:PATH=//p' "$work/system/CMakeCache.txt")
        [ ! -e /etc/debian_version ] || [ -z "$arch" ] || [ "$found" = "lib/$arch" ] || { echo "libraries in $found"; exit 1; }
        for file in "$work/system"/libsafetensors*.pc; do
            for line in prefix=/usr "libdir=\${prefix}/$found" "includedir=\${prefix}/include"; do
                grep -qxF "$line" "$file" || { echo "$file has no line $line"; exit 1; }
            done
        done
        # (what a program needs in the build folder, CMake takes out when it installs)
        if grep -n 'ORIGIN' "$work/system/build.ninja"; then
            echo "run path above"
            exit 1
        fi
        ;;
    pkgconfig)
        use_stage
        # shellcheck disable=SC2046,SC2086
        $cc $flags "$source/examples/open_slice_write.c" -o "$work/$case_" $(pkg-config --cflags --libs libsafetensors)
        LD_LIBRARY_PATH=$moved/$libdir run_example "$work/$case_"
        ldd "$work/$case_" | grep -q . && readelf -d "$work/$case_" | grep -q 'libsafetensors.so.0' ||
            { echo "not linked with the shared library"; exit 1; }
        ;;
    pkgconfig-static)
        use_stage
        mkdir -p "$work/static-only"
        cp "$moved/$libdir/libsafetensors.a" "$work/static-only/"
        # shellcheck disable=SC2046,SC2086
        $cc $flags "$source/examples/open_slice_write.c" -o "$work/$case_" -L"$work/static-only" \
            $(pkg-config --static --cflags --libs-only-l --libs-only-other libsafetensors)
        run_example "$work/$case_"
        ;;
    find_package) cmake_case with_find_package -DCMAKE_PREFIX_PATH="$moved" ;;
    find_package-shared) cmake_case with_find_package -DCMAKE_PREFIX_PATH="$moved" -DBUILD_SHARED_LIBS=ON ;;
    add_subdirectory) # in a project whose warnings are errors
        cmake_case with_add_subdirectory -DSFT_SOURCE="$source" -DCMAKE_C_FLAGS="-Wall -Wextra -pedantic -Werror" ;;
    fetchcontent) cmake_case with_fetchcontent ;;
    amalgamation)
        rm -rf "$work/$case_"
        python3 "$source/scripts/amalgamate.py" --out "$work/$case_"
        cd "$work/$case_"
        # The sources alone, plain flags: not one warning.
        $cc -c -O2 -Wall -Wextra -Werror sft.c -pthread
        if command -v clang >/dev/null 2>&1; then
            clang -c -O1 -Wall -Wextra -Werror sft.c -pthread -o clang.o
        fi
        # In a project that has the two files, <sft/sft.h> is "sft.h".
        sed 's|<sft/sft.h>|"sft.h"|' "$source/examples/open_slice_write.c" >open_slice_write.c
        # shellcheck disable=SC2086
        $cc $flags open_slice_write.c sft.o -o open_slice_write -pthread
        run_example ./open_slice_write
        if printf 'int main(void){return 0;}\n' | $cc -m32 -x c - -o m32 2>/dev/null; then
            include=""
            [ -e /usr/include/asm ] || include="-isystem /usr/include/x86_64-linux-gnu"
            # shellcheck disable=SC2086
            $cc $flags -m32 $include open_slice_write.c sft.c -o open_slice_write32 -pthread
            run_example ./open_slice_write32
            echo "and with -m32"
        fi
        # C++ programs may include sft.h.
        printf '#include "sft.h"\nint main() { return sft_version()[0] == 0; }\n' >cpp.cpp
        ${CXX:-c++} -std=c++11 -Wall -Wextra -Werror cpp.cpp sft.o -o cpp -pthread
        ./cpp
        ;;
    cpp)
        use_stage
        for standard in 17 20; do
            # shellcheck disable=SC2046
            ${CXX:-c++} -std=c++$standard -O1 -Wall -Wextra -Werror "$source/examples/cpp_to_f32.cpp" \
                -o "$work/cpp$standard" $(pkg-config --cflags --libs libsafetensors)
            LD_LIBRARY_PATH=$moved/$libdir "$work/cpp$standard" "$model" "$work/f32-$standard.safetensors" | tail -n 1
            python3 "$here/check_output.py" --f32 "$model" "$work/f32-$standard.safetensors"
            if LD_LIBRARY_PATH=$moved/$libdir "$work/cpp$standard" "$work/no-such" "$work/x" 2>"$work/cpp.err"; then
                echo "no error for a missing file"
                exit 1
            fi
            grep -q SFT_E_ "$work/cpp.err"
        done
        ;;
    own_source)
        "$build/examples/example_own_source" "$model/model-00001-of-00002.safetensors" >"$work/own_source.txt"
        cat "$work/own_source.txt"
        # 8 + N bytes of header are read to open it, and at most a page besides.
        header=$(python3 -c 'import struct,sys; print(8+struct.unpack("<Q",open(sys.argv[1],"rb").read(8))[0])' \
            "$model/model-00001-of-00002.safetensors")
        read_bytes=$(sed -n 's/.*; \([0-9]*\) bytes read to open it/\1/p' "$work/own_source.txt")
        [ "$read_bytes" -ge "$header" ] && [ "$read_bytes" -le $((header + 4096)) ]
        ;;
    open_anything)
        example=$build/examples/example_open_anything
        "$build/safetensors" convert -q -f "$model" -o "$work/m.pt"
        printf 'abcdefgh' >"$work/two.f32"
        "$example" "$model" >"$work/opened.txt"
        "$example" "$work/m.pt" >"$work/opened-pt.txt"
        head -n 1 "$work/opened.txt" "$work/opened-pt.txt"
        [ "$(head -n 1 "$work/opened.txt")" = safetensors ]
        head -n 1 "$work/opened-pt.txt" | grep -q "PyTorch zip"
        sed 1d "$work/opened.txt" | sort >"$work/a.txt"
        sed 1d "$work/opened-pt.txt" | sort | cmp - "$work/a.txt"
        "$example" "$work/two.f32" | grep -q "^floats  F32  8 bytes"
        if "$example" "$work/no-such" 2>"$work/opened.err"; then
            echo "no error for a missing file"
            exit 1
        fi
        grep -q "no-such" "$work/opened.err"
        ;;
    load_many)
        "$build/examples/example_load_many" "$model" '*' >"$work/loaded.txt"
        tail -1 "$work/loaded.txt"
        [ "$(tail -1 "$work/loaded.txt")" = "the same memory" ]
        # both loads say the same, and the digests are those that a stream finds
        half=$((($(wc -l <"$work/loaded.txt") - 1) / 2))
        [ "$(head -n "$half" "$work/loaded.txt")" = "$(sed '$d' "$work/loaded.txt" | tail -n "$half")" ]
        "$build/examples/example_stream_checksums" "$model" 2>/dev/null | sed '$d' | cut -c1-8 | sort >"$work/a.txt"
        head -n "$((half - 1))" "$work/loaded.txt" | cut -c1-8 | sort >"$work/b.txt"
        cmp "$work/a.txt" "$work/b.txt"
        ;;
    stream)
        "$build/examples/example_stream_checksums" "$model" >"$work/streamed.txt"
        tail -1 "$work/streamed.txt"
        "$build/safetensors" cp -q -f "$model" "$work/digests.safetensors" --digests crc32c
        recorded=$("$build/safetensors" meta "$work/digests.safetensors" sft.crc32c)
        # eight digits for the names and shapes, then eight for each tensor in the order of names
        [ "${recorded#????????}" = "$(sed '$d' "$work/streamed.txt" | LC_ALL=C sort -k2 | cut -c1-8 | tr -d '\n')" ]
        ;;
    run)
        # killed at moments that nobody chose, and resumed, they end as if they had never been killed
        for name in train_and_resume run_in_full; do
            train="$build/examples/example_$name"
            rm -rf "$work/run-a" "$work/run-b"
            "$train" "$work/run-a" 2000 >"$work/run-a.txt" 2>/dev/null
            kills=0
            for wait in 0.011 0.023 0.037 0.052 0.071 0.093 0.118 0.146; do
                timeout -s KILL "$wait" "$train" "$work/run-b" 2000 >/dev/null 2>&1 || kills=$((kills + 1))
            done
            "$train" "$work/run-b" 2000 >"$work/run-b.txt"
            echo "$name: $kills kills"
            [ "$kills" -gt 0 ]
            cmp "$work/run-a.txt" "$work/run-b.txt"
            "$build/safetensors" run verify "$work/run-b"
        done
        rm -rf "$work/run-a" "$work/run-b"
        ;;
    *)
        echo "no case $case_"
        exit 2
        ;;
esac
