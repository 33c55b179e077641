#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# test_recipes.sh [PART...] - each recipe with the source tarball and the program of packaging/tests/consumer. Parts:
#   fetchcontent   CMake FetchContent from the tarball, its digest checked; another digest is refused
#   meson          the wrap, the tarball in subprojects/packagecache; and dependency() on an installed library
#   conan          conan create of the checkout's recipe and of the release's: static, shared, without other formats
#   vcpkg          the manifest is valid JSON of vcpkg's fields; the portfile run with stand-ins for vcpkg's functions
#   destdir        make install DESTDIR= and uninstall, with the prefix /usr
# Results are a table in build/package-tests/recipes.md.
set -eu
cd "$(dirname "$0")/../.."
here=$PWD
made=$here/build/package-tests
work=$here/build/recipes
table=$made/recipes.md
mkdir -p "$made" "$work"
version=$(packaging/version.sh)
name=libsafetensors-$version
venv=$here/build/venv-recipes
scripts/venv.sh packaging/requirements-recipes.txt build/venv-recipes
export PATH="$venv/bin:$PATH"
export CMAKE_BUILD_PARALLEL_LEVEL=${JOBS:-2}

say() { # recipe, what, test, result
    printf '| %s | %s | %s | %s |\n' "$@" | tee -a "$table"
}
quietly() { "$@" >"$work/log" 2>&1 || { tail -n 40 "$work/log" >&2; echo "test_recipes: failed: $*" >&2; exit 1; }; }
if [ ! -e "$made/tarballs/.made" ]; then
    rm -rf "$made/tarballs"
    packaging/tarball.sh "$made/tarballs"
    touch "$made/tarballs/.made"
fi
quietly packaging/recipes.sh "$made" "$made/tarballs"
rm -rf "$work/$name-recipes"
tar -xf "$made/$name-recipes.tar.gz" -C "$work"
recipes=$work/$name-recipes

part_fetchcontent() {
    rm -rf "$work/fetch"
    mkdir -p "$work/fetch"
    # As a user would have it, but for the address.
    sed "s|https://[^ ]*/\($name.tar.gz\)|file://$made/tarballs/\1|" "$recipes/cmake/safetensors.cmake" >"$work/fetch/safetensors.cmake"
    cp packaging/tests/consumer/consumer.c "$work/fetch/"
    cat >"$work/fetch/CMakeLists.txt" <<'END'
cmake_minimum_required(VERSION 3.25)
project(consumer C)
include(safetensors.cmake)
add_executable(consumer consumer.c)
target_link_libraries(consumer PRIVATE safetensors::safetensors)
END
    quietly cmake -S "$work/fetch" -B "$work/fetch/build" -G Ninja -DCMAKE_BUILD_TYPE=Release
    quietly cmake --build "$work/fetch/build" --target consumer
    say "CMake FetchContent" "URL of the release tarball, SHA-256" "built and run" "$("$work/fetch/build/consumer" "$work/fetch")"
    sed -i 's/SHA256=..../SHA256=0000/' "$work/fetch/safetensors.cmake"
    if cmake -S "$work/fetch" -B "$work/fetch/other" -G Ninja >"$work/log" 2>&1; then
        echo "test_recipes: a tarball with another digest was taken" >&2
        exit 1
    fi
    grep -qi 'hash' "$work/log"
    say "CMake FetchContent" "another digest" "configured" "refused"
}

part_meson() {
    rm -rf "$work/meson"
    mkdir -p "$work/meson"
    cp -R "$recipes/meson/subprojects" "$work/meson/"
    mkdir "$work/meson/subprojects/packagecache"
    cp packaging/tests/consumer/consumer.c "$work/meson/"
    cp "$made/tarballs/$name.tar.xz" "$work/meson/subprojects/packagecache/"
    cat >"$work/meson/meson.build" <<'END'
project('consumer', 'c')
executable('consumer', 'consumer.c', dependencies: [dependency('libsafetensors'), dependency('libsafetensors-import')],
  c_args: '-DSFT_CONSUMER_IMPORT')
END
    quietly meson setup "$work/meson/build" "$work/meson" --wrap-mode=forcefallback --buildtype=release
    quietly meson compile -C "$work/meson/build" -j 2 consumer
    say "Meson wrap" "tarball in packagecache, SHA-256; core and import" "built and run with Meson $(meson --version)" \
        "$("$work/meson/build/consumer" "$work/meson")"
}

part_conan() {
    export CONAN_HOME=$work/conan-home
    rm -rf "$CONAN_HOME"
    quietly conan profile detect
    # Nothing comes from elsewhere.
    quietly conan remote disable '*'
    local options said
    for options in "shared=False" "shared=True" "with_import=False" "compression=none"; do
        quietly conan create packaging/conan -o "&:$options" --build=missing
        said=$(grep -o 'consumer: .*' "$work/log" | tail -n 1)
        say "Conan $(conan --version | sed 's/.* //')" "recipe of the source, -o $options" "conan create, test_package" "$said"
    done
    quietly conan remove -c "libsafetensors/*"
    sed -i "s|https://[^ ]*/\($name.tar.gz\)|file://$made/tarballs/\1|" "$recipes/conan/conandata.yml"
    quietly conan create "$recipes/conan" --version "$version" -o "&:with_tool=True"
    said=$(grep -o 'consumer: .*' "$work/log" | tail -n 1)
    say "Conan $(conan --version | sed 's/.* //')" "recipe of the release: tarball, SHA-256; -o with_tool=True" "conan create, test_package" "$said"
}

part_vcpkg() {
    python3 - "$recipes/vcpkg/libsafetensors/vcpkg.json" <<'END'
import json
import re
import sys

port = json.load(open(sys.argv[1]))
known = {"name", "version", "description", "license", "supports", "dependencies", "default-features", "features"}
assert set(port) <= known, set(port) - known
assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", port["name"])
for name, feature in port["features"].items():
    assert set(feature) <= {"description", "dependencies", "supports"} and feature["description"], name
    for needed in feature.get("dependencies", []):
        for other in needed.get("features", []) if isinstance(needed, dict) else []:
            assert needed["name"] != port["name"] or other in port["features"], other
assert set(port["default-features"]) <= set(port["features"])
for f in (port, *port["features"].values()):
    names = [d if isinstance(d, str) else d["name"] for d in f.get("dependencies", [])]
    assert names == sorted(names), names
END
    local linkage features shared
    for linkage in static dynamic; do
        features="import;remote;tool"
        shared=OFF
        if [ "$linkage" = dynamic ]; then
            shared=ON
            features=import
        fi
        rm -rf "$work/vcpkg-$linkage"
        mkdir -p "$work/vcpkg-$linkage"
        quietly cmake -DPORT_FOLDER="$recipes/vcpkg/libsafetensors" -DTARBALLS="$made/tarballs" -DWORK="$work/vcpkg-$linkage" \
            -DLINKAGE=$linkage "-DFEATURES=$features" -P packaging/tests/vcpkg/run_port.cmake
        # One kind of library, as the triplet says.
        if [ $linkage = static ]; then
            if find "$work/vcpkg-$linkage/packages" -name '*.so*' | grep .; then exit 1; fi
        else
            if find "$work/vcpkg-$linkage/packages" -name '*.a' | grep .; then exit 1; fi
        fi
        quietly cmake -S packaging/tests/consumer -B "$work/vcpkg-$linkage/consumer" -G Ninja -DWITH_IMPORT=ON \
            -DBUILD_SHARED_LIBS=$shared -DCMAKE_PREFIX_PATH="$work/vcpkg-$linkage/packages"
        quietly cmake --build "$work/vcpkg-$linkage/consumer"
        say "vcpkg port" "$linkage, features $(echo "$features" | tr ';' ' ')" "portfile with stand-ins for vcpkg's functions" \
            "$("$work/vcpkg-$linkage/consumer/consumer" "$work")"
    done
    # Both are told apart: the other kind is used where it is the only one.
    rm -rf "$work/vcpkg-dynamic/consumer"
    quietly cmake -S packaging/tests/consumer -B "$work/vcpkg-dynamic/consumer" -G Ninja -DCMAKE_PREFIX_PATH="$work/vcpkg-dynamic/packages"
    quietly cmake --build "$work/vcpkg-dynamic/consumer"
    quietly "$work/vcpkg-dynamic/consumer/consumer" "$work"
}

part_destdir() {
    local root=$work/destdir libdir
    rm -rf "$root" "$work/destdir-build"
    libdir=$(${CC:-cc} -print-multiarch 2>/dev/null || true)
    libdir=/usr/lib${libdir:+/$libdir}
    quietly make install DESTDIR="$root" PREFIX=/usr BUILD="$work/destdir-build"
    [ -e "$root$libdir/libsafetensors.so.0" ] || { echo "no library in $libdir" >&2; exit 1; }
    find "$root" -type f -name '*.so.*' -o -type f -path '*/bin/*' | while read -r file; do
        if readelf -d "$file" | grep -E 'R(UN)?PATH'; then
            echo "run path in $file" >&2
            exit 1
        fi
    done
    if grep -rIl "$here" "$root"; then
        echo "the files above name the source folder" >&2
        exit 1
    fi
    # In a sysroot, pkg-config prefixes what the files say.
    PKG_CONFIG_SYSROOT_DIR=$root PKG_CONFIG_PATH="$root$libdir/pkgconfig" pkg-config --variable=libdir libsafetensors
    # shellcheck disable=SC2046
    quietly ${CC:-cc} packaging/tests/consumer/consumer.c -o "$work/destdir-consumer" \
        $(PKG_CONFIG_SYSROOT_DIR=$root PKG_CONFIG_PATH="$root$libdir/pkgconfig" PKG_CONFIG_ALLOW_SYSTEM_CFLAGS=1 \
            PKG_CONFIG_ALLOW_SYSTEM_LIBS=1 pkg-config --cflags --libs libsafetensors)
    say "make install" "DESTDIR=, PREFIX=/usr" "no run path, no path of the build, pkg-config in a sysroot" \
        "$(LD_LIBRARY_PATH=$root$libdir "$work/destdir-consumer" "$work")"
    quietly make uninstall DESTDIR="$root" BUILD="$work/destdir-build"
    if find "$root" ! -type d -o -name '*safetensors*' | grep .; then
        echo "the above is left behind by make uninstall" >&2
        exit 1
    fi
    say "make uninstall" "DESTDIR=" "nothing of ours left" "passed"
}

[ $# -gt 0 ] || set -- fetchcontent meson conan vcpkg destdir
for part in "$@"; do
    started=$(date +%s)
    "part_$part"
    echo "test_recipes: $part: $(($(date +%s) - started)) s"
done
