#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# check_abi.sh [OLD-REF] - may programs built with the release before run with these libraries? By libabigail's abidiff.
#
# Builds the shared libraries of OLD-REF (default: the newest tag vX.Y.Z; without one there is nothing to compare, and
# that is said) and those of this tree, in build/abi, and compares each of the six. Exit status 1 when something is
# not compatible and the soname (SFT_SOVERSION in CMakeLists.txt) is not a higher one, or when a library is gone. What
# was added is listed and is no fault. Three things are no part of the ABI: sft__ symbols, which only libraries of the
# same version may call; members behind the last one of a struct that begins with its struct_size; names of enumerators
# that are added. CONTRIBUTING.md has the rules. --self-test plants changes in the core library and looks at the verdicts.
set -euo pipefail
cd "$(dirname "$0")/.."
command -v abidiff >/dev/null || { echo "check_abi: abidiff is needed (scripts/bootstrap.sh abi)" >&2; exit 2; }
work=$PWD/build/abi
libraries="safetensors safetensors-checkpoint safetensors-cuda safetensors-import safetensors-remote safetensors-mpi"
built="sft_shared sft_checkpoint_shared sft_cuda_shared sft_import_shared sft_remote_shared sft_mpi_shared" # targets
mkdir -p "$work"

# build SOURCE FOLDER [CMAKE-ARGUMENT...]: shared libraries with debug information
build() {
    local source=$1 folder=$2 targets="" target
    shift 2
    cmake -S "$source" -B "$folder" -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo -DSFT_BUILD_TESTS=OFF "$@" >"$folder.log" 2>&1 ||
        { tail -n 20 "$folder.log" >&2; exit 1; }
    for target in $built; do
        if ninja -C "$folder" -t query "$target" >/dev/null 2>&1; then targets="$targets $target"; fi
    done
    # shellcheck disable=SC2086
    ninja -C "$folder" ${JOBS:+-j "$JOBS"} $targets >"$folder.log" 2>&1 || { tail -n 20 "$folder.log" >&2; exit 1; }
}

soversion() { sed -n 's/^set(SFT_SOVERSION \([0-9]*\))$/\1/p' "$1/CMakeLists.txt"; }

suppressions() { # of the headers in folder $1
    printf '[suppress_function]\n  name_regexp = ^sft__\n[suppress_variable]\n  name_regexp = ^sft__\n'
    # typedef struct NAME { size_t struct_size; ...
    cat "$1"/include/sft/*.h | tr '\n' ' ' | grep -oE 'typedef struct (\w+) \{ *(/\*[^*]*\*/ *)*size_t +struct_size;' |
        sed 's/typedef struct \(\w*\).*/\1/' | sort -u | while read -r name; do
        printf '[suppress_type]\n  type_kind = struct\n  name = %s\n  has_size_change = yes\n  has_data_member_inserted_at = end\n' "$name"
    done
    # typedef struct NAME NAME; and no members: abidiff takes one for public whose file is called as a public header is.
    grep -ohE '^typedef struct (\w+) \1;' "$1"/include/sft/*.h | sed 's/.* \(\w*\);/\1/' | sort -u | while read -r name; do
        grep -qE "^struct $name \{" "$1"/include/sft/*.h ||
            printf '[suppress_type]\n  type_kind = struct\n  name = %s\n' "$name"
    done
}

# compare OLD-SOURCE OLD-BUILD NEW-SOURCE NEW-BUILD: a line for each library, what abidiff says below it
compare() {
    local old=$1 new=$3 name a b code all bad=0 raised=no
    [ "$(soversion "$new")" -gt "$(soversion "$old")" ] && raised=yes
    suppressions "$old" >"$work/suppressions"
    for name in $libraries; do
        a=$2/lib$name.so b=$4/lib$name.so
        if [ ! -e "$a" ]; then
            echo "lib$name: $([ -e "$b" ] && echo 'new' || echo 'not built, neither the old nor the new')"
            continue
        elif [ ! -e "$b" ]; then
            echo "lib$name: GONE"
            bad=1
            continue
        fi
        code=0
        all=(--suppr "$work/suppressions" --drop-private-types --headers-dir1 "$old/include" --headers-dir2 "$new/include" --no-show-locs)
        abidiff "${all[@]}" --no-added-syms "$a" "$b" >"$work/report" 2>&1 || code=$?
        if [ $((code & 3)) -ne 0 ]; then
            cat "$work/report"
            echo "check_abi: abidiff failed for lib$name" >&2
            exit 1
        elif [ "$code" -ne 0 ] && [ $raised = no ]; then
            echo "lib$name: NOT COMPATIBLE, and SFT_SOVERSION is still $(soversion "$new")"
            sed 's/^/    /' "$work/report"
            bad=1
        elif [ "$code" -ne 0 ]; then
            echo "lib$name: not compatible, and SFT_SOVERSION is raised from $(soversion "$old") to $(soversion "$new")"
            sed 's/^/    /' "$work/report"
        else
            abidiff "${all[@]}" "$a" "$b" >"$work/report" 2>&1 || code=$?
            if [ "$code" -ne 0 ]; then
                echo "lib$name: compatible, more than before"
                grep -E "^ *\[A\]" "$work/report" | sed 's/^ */    /'
            else
                echo "lib$name: compatible"
            fi
        fi
    done
    return $bad
}

copy() { # the tree as it is, in folder $1
    rm -rf "$1"
    mkdir -p "$1"
    packaging/files.sh | tar --verbatim-files-from -cf - -T - | tar -xf - -C "$1"
}

planted= # files
# plant NAME WANTED-STATUS WANTED-TEXT FILE SED-SCRIPT [FILE SED-SCRIPT]...
plant() {
    local name=$1 status=$2 text=$3 code=0 file
    shift 3
    copy "$work/plant"
    for file in $planted; do touch "$work/plant/$file"; done # restored: newer than what was compiled of them
    planted=
    while [ $# -gt 0 ]; do
        sed -i "$2" "$work/plant/$1"
        ! cmp -s "$1" "$work/plant/$1" || { echo "self-test: $name: nothing was planted in $1" >&2; exit 1; }
        planted="$planted $1"
        shift 2
    done
    build "$work/plant" "$work/plant-build" -DSFT_BUILD_TOOL=OFF
    compare . "$work/self-build" "$work/plant" "$work/plant-build" >"$work/plant.out" || code=$?
    echo "== $name: exit status $code"
    grep -v "neither the old" "$work/plant.out"
    if [ $code -ne "$status" ] || ! grep -qF -- "$text" "$work/plant.out"; then
        echo "self-test: $name: wanted exit status $status and '$text'" >&2
        exit 1
    fi
}

if [ "${1:-}" = --self-test ]; then
    libraries=safetensors built=sft_shared
    map=src/libsafetensors.map hide='s/^  local:/&\n    sft_digest_describe;/' # it is exported no more
    rm -rf "$work/plant-build"
    build . "$work/self-build" -DSFT_BUILD_TOOL=OFF
    plant "nothing" 0 "libsafetensors: compatible" README.md 's/^# .*/&./'
    plant "a function is added" 0 "[A] 'function const char* sft_added" \
        include/sft/types.h 's/^SFT_API const char \*sft_version(void);/&\nSFT_API const char *sft_added(void);/' \
        src/base/version.c 's/^const char \*sft_version.*/const char *sft_added(void) {\n    return "x";\n}\n\n&/'
    plant "a function is gone" 1 "1 Removed" $map "$hide"
    plant "a parameter has another type" 1 "parameter 2 of type" \
        include/sft/types.h 's/^SFT_API void sft_zero(void \*p, size_t size)/SFT_API void sft_zero(void *p, unsigned size)/' \
        src/base/version.c 's/size_t size/unsigned size/'
    plant "a member in front of the others of a struct" 1 "planted" \
        include/sft/catalog.h 's/^typedef struct sft_tensor {/&\n    uint64_t planted;/'
    plant "a member at the end of a struct that knows its size" 0 "libsafetensors: compatible" \
        include/sft/write.h 's/^} sft_write_options;/    uint64_t planted;\n&/'
    plant "a member in the middle of such a struct" 1 "planted" \
        include/sft/write.h 's/^    sft_durability durability;/    uint64_t planted;\n&/'
    plant "a member of a struct that programs do not see" 0 "libsafetensors: compatible" \
        src/catalog/catalog.h 's/^struct sft_catalog {/&\n    uint64_t planted;/'
    plant "a function is gone, with a new soname" 0 "raised from 0 to 1" $map "$hide" \
        CMakeLists.txt 's/^set(SFT_SOVERSION 0)/set(SFT_SOVERSION 1)/'
    rm -rf "$work/plant" "$work/plant-build" "$work/self-build"
    echo "check_abi: self-test passed"
    exit 0
fi

ref=${1:-$(git tag --list 'v[0-9]*' --sort=-version:refname | head -n 1)}
if [ -z "$ref" ]; then
    echo "check_abi: there is no release yet (no tag vX.Y.Z): nothing to compare with"
    exit 0
fi
commit=$(git rev-parse --verify --quiet "$ref^{commit}") || { echo "check_abi: no commit $ref" >&2; exit 2; }
rm -rf "$work/old"
mkdir -p "$work/old"
git archive "$commit" | tar -xf - -C "$work/old"
build "$work/old" "$work/old-build"
build . "$work/new-build"
echo "check_abi: $ref against this tree"
compare "$work/old" "$work/old-build" . "$work/new-build"
