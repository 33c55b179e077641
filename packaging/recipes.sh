#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# recipes.sh OUT [TARBALLS] - the recipes of other package managers for the source tarballs in the folder TARBALLS (default OUT), with
# their digests and addresses filled in: OUT/libsafetensors-VERSION-recipes.tar.gz, which has
#   meson/subprojects/                   the wrap, and the build file that it puts beside the sources
#   vcpkg/libsafetensors/                a port for an overlay (--overlay-ports) or the registry
#   conan/                               conan create conan --version VERSION
#   cmake/safetensors.cmake              FetchContent_Declare
# SFT_RELEASE_URL: where the tarballs are downloaded from. Tarballs of the same bytes give the same bytes.
set -eu
out=${1:?usage: recipes.sh OUT [TARBALLS]}
mkdir -p "$out"
out=$(cd "$out" && pwd)
tarballs=$(cd "${2:-$out}" && pwd)
cd "$(dirname "$0")/.."
umask 022
export LC_ALL=C TZ=UTC
version=$(packaging/version.sh)
url=${SFT_RELEASE_URL:-https://libsafetensors.example/releases}
url=${url%/}
name=libsafetensors-$version
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
sha256_xz=$(sha256sum <"$tarballs/$name.tar.xz" | cut -d' ' -f1)
sha256_gz=$(sha256sum <"$tarballs/$name.tar.gz" | cut -d' ' -f1)
sha512_gz=$(sha512sum <"$tarballs/$name.tar.gz" | cut -d' ' -f1)

fill() { # file, digest
    sed "s|@URL@|$url|; s|@VERSION@|$version|g; s|@SHA256@|$2|; s|@SHA512@|$2|; s|^# The digest is filled in.*||" "$1"
}
top=$work/$name-recipes
mkdir -p "$top/meson/subprojects/packagefiles/libsafetensors" "$top/vcpkg/libsafetensors" "$top/conan/test_package" "$top/cmake"
fill packaging/meson/libsafetensors.wrap "$sha256_xz" >"$top/meson/subprojects/libsafetensors.wrap"
# The sources of the rooms that are given, but for those that are compiled apart.
sources() {
    tar -tf "$tarballs/$name.tar.gz" | sed -n -E "s#^$name/(src/($1)/.*\\.c)\$#  '\\1',#p" |
        grep -vE '/(nonfinite|dequant)\.c' | sort
}
fill packaging/meson/meson.build - | while IFS= read -r line; do
    case $line in
        @CORE@) sources 'base|fs|format|io|catalog|move' ;;
        @CHECKPOINT@) sources 'layout|checkpoint' ;;
        @IMPORT@) sources import ;;
        @REMOTE@) sources remote ;;
        *) printf '%s\n' "$line" ;;
    esac
done >"$top/meson/subprojects/packagefiles/libsafetensors/meson.build"
cp packaging/meson/meson.options "$top/meson/subprojects/packagefiles/libsafetensors/"
fill packaging/vcpkg/portfile.cmake "$sha512_gz" >"$top/vcpkg/libsafetensors/portfile.cmake"
cp packaging/vcpkg/vcpkg.json packaging/vcpkg/usage "$top/vcpkg/libsafetensors/"
cp packaging/conan/conanfile.py "$top/conan/"
cp packaging/conan/test_package/* packaging/tests/consumer/consumer.c "$top/conan/test_package/"
cat >"$top/conan/conandata.yml" <<END
sources:
  "$version":
    url: "$url/$name.tar.gz"
    sha256: "$sha256_gz"
END
cat >"$top/cmake/safetensors.cmake" <<END
# SPDX-License-Identifier: Apache-2.0 OR MIT
# include(safetensors.cmake), then target_link_libraries(main PRIVATE safetensors::safetensors)
include(FetchContent)
FetchContent_Declare(safetensors
  URL $url/$name.tar.gz
  URL_HASH SHA256=$sha256_gz
  DOWNLOAD_EXTRACT_TIMESTAMP OFF)
FetchContent_MakeAvailable(safetensors)
END
if grep -rn '@[A-Z][A-Z0-9]*@' "$top"; then
    echo "recipes: something above was not filled in" >&2
    exit 1
fi
tar -C "$work" --format=ustar --sort=name --mtime="@$(packaging/epoch.sh)" --owner=0 --group=0 --numeric-owner \
    --mode=u=rwX,go=rX -cf - "$name-recipes" | gzip -9n >"$work/tar"
mv "$work/tar" "$out/$name-recipes.tar.gz"
(cd "$out" && sha256sum "$name-recipes.tar.gz")
