#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# test_debs.sh [PART...] - Debian packages made and tried in clean roots; needs root. Parts (default: all, in this order,
# for the suites in SUITES, default "bookworm trixie"):
#   build       debs.sh in a root of the suite, twice: two folders, two users; the bytes must be the same
#   lintian     no error and no warning, whatever is not overridden with its reason
#   first       seconds from `apt-get install ./safetensors-tools_*.deb` to the first `safetensors ls`
#   install     all packages in a root that has nothing, the tests of debian/tests against them, removed and purged
#               again: nothing of ours is left
#   upgrade     from packages of a version before, with programs that keep working
#   autopkgtest by the tool of that name, null runner
#   reprotest   in the first suite's root, varying what can be varied there
# SFT_FROM=SUITE: `first`, `install` and `upgrade` take the packages that were built in that suite; those that need Open MPI are
# left out, because another Debian has another one.
# Results are a table in build/package-tests/debs.md; packages in build/package-tests/SUITE. SFT_KEEP=1: roots stay.
set -eu
cd "$(dirname "$0")/../.."
here=$PWD
suites=${SUITES:-bookworm trixie}
made=$here/build/package-tests
root() { packaging/tests/root.sh "$@"; }
table=$made/debs.md
mkdir -p "$made"
[ "$(id -u)" -eq 0 ] || { echo "test_debs: needs root" >&2; exit 2; }
needs="build-essential debhelper cmake dh-python pybuild-plugin-pyproject python3-dev python3-setuptools python3-wheel
libbz2-dev liblzma-dev zlib1g-dev libopenmpi-dev libcmocka-dev pkgconf xz-utils"

say() { # artefact, size, made in, root, test, result
    printf '| %s | %s | %s | %s | %s | %s |\n' "$@" | tee -a "$table"
}
fail() {
    echo "test_debs: $*" >&2
    exit 1
}
build_root() { # suite, more packages: a root with the build dependencies, made once
    local where=$here/build/roots/build-$1
    # shellcheck disable=SC2086
    [ -e "$where/usr/bin/dh" ] || root make "$where" "$1" $needs
    if [ $# -gt 1 ]; then
        root run "$where" sh -ec 'dpkg -s "$@" >/dev/null 2>&1 ||
            { apt-get update -qq && apt-get install -y -qq --no-install-recommends "$@" >/dev/null; }' sh "${@:2}"
    fi
    echo "$where"
}
tarballs() {
    [ -e "$made/tarballs/.made" ] || { rm -rf "$made/tarballs"; packaging/tarball.sh "$made/tarballs"; touch "$made/tarballs/.made"; }
}

part_build() { # suite
    local where version tarball n user folder job jobs=()
    where=$(build_root "$1")
    version=$(packaging/version.sh)
    tarballs
    tarball=libsafetensors-$version.tar.xz
    n=0
    for user in root somebody; do
        [ "$n" -eq 0 ] || [ "${SFT_ONCE:-0}" != 1 ] || break
        n=$((n + 1))
        folder=$([ $user = root ] && echo /build/one || echo "/home/somebody/another place/of some length")
        root run "$where" sh -c "id -u $user >/dev/null 2>&1 || useradd -m $user" >/dev/null 2>&1
        rm -rf "$where/out$n" "$where$folder"
        mkdir -p "$where/out$n" "$where$folder"
        tar -xf "$made/tarballs/$tarball" -C "$where$folder"
        root run "$where" chown -R "$user:" "$folder" "/out$n"
        echo "build: $1, as $user in $folder"
        {
            root run "$where" setpriv --reuid $user --regid $user --init-groups env HOME="$folder" SFT_DEB_CHECK="${SFT_DEB_CHECK:-0}" \
                SFT_DEB_LOG="/out$n/log" JOBS=2 "$folder/libsafetensors-$version/packaging/debs.sh" "/out$n" \
                >"$made/build-$1-$n.txt" || fail "the build in $1 failed"
            rm -rf "$where$folder"
        } &
        jobs+=($!)
    done
    for job in "${jobs[@]}"; do wait "$job"; done
    rm -rf "${made:?}/$1"
    mkdir -p "$made/$1"
    mv "$where/out1"/*.dsc "$where/out1"/*.tar.* "$where/out1"/*.deb "$made/$1/"
    (cd "$made/$1" && sha256sum ./* | sed 's|\./||') >"$made/SHA256SUMS-$1"
    if [ "$n" -eq 2 ]; then
        (cd "$where/out2" && sha256sum --quiet -c "$made/SHA256SUMS-$1") || fail "two builds in $1 differ"
        say "source and $(ls "$made/$1"/*.deb | wc -l) binary packages" "$(du -cb "$made/$1"/*.deb | sed -n '$s/\t.*//p') bytes" \
            "$1 root" "-" "two folders, two users" "the same bytes"
    fi
}

part_lintian() { # suite; there is no bug of Debian's that asks for these packages, and Debian 12's lintian knows older policies
    local where
    where=$(build_root "$1" lintian)
    # Debian 12's lintian counts warnings that are suppressed, so its status says nothing.
    BIND="$made/$1:/debs" root run "$where" sh -c 'cd /debs && lintian --allow-root --suppress-tags initial-upload-closes-no-bugs,newer-standards-version --fail-on none --show-overrides *.dsc *.deb' \
        >"$made/lintian-$1.txt" 2>&1 || { cat "$made/lintian-$1.txt" >&2; fail "lintian in $1 did not end well"; }
    if grep -E '^[EW]: ' "$made/lintian-$1.txt"; then fail "lintian in $1"; fi
    say "all" "-" "$1 root" "$1" "lintian" "no error, no warning, $(grep -c '^O:' "$made/lintian-$1.txt" || true) overridden"
}

clean_root() { # suite, name: prints the folder
    root make "$here/build/roots/$2-$1" "$1"
    root run "$here/build/roots/$2-$1" apt-get update -qq
    echo "$here/build/roots/$2-$1"
}
drop() { [ "${SFT_KEEP:-0}" = 1 ] || root remove "$1"; }

part_first() { # suite
    local where
    where=$(clean_root "$1" first)
    BIND="$made/${SFT_FROM:-$1}:/debs $here/examples:/examples" root run "$where" bash -ec '
        TIMEFORMAT="%R s (user %U, system %S)"
        time { apt-get install -y --no-install-recommends /debs/safetensors-tools_*.deb >/dev/null 2>&1; safetensors ls /examples/model >/ls; }
        wc -l </ls' >"$made/first-$1.txt" 2>&1
    say "safetensors-tools" "$(stat -c %s "$made/${SFT_FROM:-$1}"/safetensors-tools_*.deb) bytes" "${SFT_FROM:-$1} root" "$1, clean" "apt-get install, safetensors ls" \
        "$(sed -n '/user/p' "$made/first-$1.txt") to the first result, its dependencies downloaded"
    drop "$where"
}

list_files='find / -xdev \( -path /proc -o -path /dev -o -path /tmp -o -path /debs -o -path /source -o -path /var/cache -o -path /var/log -o -path /var/lib/apt -o -path /var/lib/dpkg \) -prune -o -print | LC_ALL=C sort'

part_install() { # suite
    local where each version without=dbgsym tests="pkg-config cmake tool python3 mpi"
    if [ "${SFT_FROM:-$1}" != "$1" ]; then
        without="dbgsym|mpi"
        tests="pkg-config cmake tool python3"
    fi
    version=$(packaging/version.sh)
    where=$(clean_root "$1" install)
    mkdir -p "$where/source"
    tar -xf "$made/tarballs/libsafetensors-$version.tar.xz" -C "$where/source" --strip-components=1
    # debian/tests must not need the sources of the library
    rm -rf "$where/source/src" "$where/source/include" "$where/source/python"
    BIND="$made/${SFT_FROM:-$1}:/debs" root run "$where" bash -ec "$list_files >/before"'
        apt-get install -y --no-install-recommends $(ls /debs/*.deb | grep -vE "'"$without"'") >/installed.log 2>&1 || { tail -20 /installed.log; exit 1; }
        dpkg -l | awk "/^.i/ && /safetensors/ { print \$1, \$2, \$3 }"
        known=$(ldconfig -p | grep -c "libsafetensors.*\.so\.0 ")
        [ "$known" -eq "$(ls /debs/libsafetensors*0_*.deb | grep -cvE "'"$without"'")" ] || { echo "ldconfig knows $known libraries"; exit 1; }
        # what the tests need beside what the packages brought
        apt-get install -y --no-install-recommends gcc libc6-dev pkgconf cmake make python3-numpy '"$([ "$without" != dbgsym ] || echo openmpi-bin)"' >/dev/null 2>&1'
    for each in $tests; do
        root run "$where" sh -c "cd /source && packaging/debian/tests/$each" >"$made/$1-$each.txt" 2>&1 ||
            { cat "$made/$1-$each.txt" >&2; fail "debian/tests/$each in $1"; }
        say "all" "-" "${SFT_FROM:-$1} root" "$1, clean" "debian/tests/$each" "$(tail -n 1 "$made/$1-$each.txt")"
    done
    root run "$where" bash -ec '
        ours=$(dpkg-query -W -f "\${Package} \${Status}\n" "*safetensors*" | sed -n "s/ install ok installed//p")
        [ -n "$ours" ]
        apt-get remove -y $ours >/log 2>&1 || { tail /log; exit 1; }
        dpkg --purge $ours >/log 2>&1 || { tail /log; exit 1; }
        if dpkg-query -W -f "\${Package} \${Status}\n" "*safetensors*" 2>/dev/null | grep -v "not-installed"; then exit 1; fi'
    root run "$where" sh -c "rm -rf /source; $list_files >/after; LC_ALL=C comm -13 /before /after" >"$made/$1-left.txt" || fail "the lists of files of $1"
    if grep -iE 'safetensors|/sft(/|$)' "$made/$1-left.txt"; then fail "left behind in $1"; fi
    say "all" "-" "${SFT_FROM:-$1} root" "$1, clean" "removed and purged" "no file of ours left"
    drop "$where"
}

part_upgrade() { # suite: the same packages under an older version stand for a release before
    local where version
    version=$(packaging/version.sh)
    where=$(clean_root "$1" upgrade)
    BIND="$made/${SFT_FROM:-$1}:/debs $here/examples:/examples" root run "$where" bash -ec '
        mkdir /old
        for file in $(ls /debs/*.deb | grep -vE "dbgsym|mpi"); do
            dpkg-deb -R "$file" /old/tree
            sed -i "s/\b'"$version"'-1\b/'"$version"'~before-1/g" /old/tree/DEBIAN/control
            dpkg-deb -Zgzip -b /old/tree /old >/dev/null
            rm -rf /old/tree
        done
        apt-get install -y --no-install-recommends /old/*.deb gcc libc6-dev >/old/log 2>&1 || { tail -20 /old/log; exit 1; }
        gcc /examples/open_slice_write.c -o /program -lsafetensors
        /program /examples/model model.embed_tokens.weight /out.safetensors
        safetensors --version >/dev/null
        apt-get install -y --no-install-recommends $(ls /debs/*.deb | grep -vE "dbgsym|mpi") >/old/log 2>&1 || { tail -20 /old/log; exit 1; }
        if dpkg-query -W -f "\${Version}\n" "*safetensors*" | grep before; then exit 1; fi
        rm /out.safetensors
        /program /examples/model model.embed_tokens.weight /out.safetensors
        safetensors check /out.safetensors
        # one library alone cannot go back without the others
        if apt-get install -y --no-install-recommends --allow-downgrades --no-remove /old/libsafetensors0_*.deb >/old/log 2>&1; then exit 1; fi
        dpkg --audit' >"$made/$1-upgrade.txt" 2>&1 || { cat "$made/$1-upgrade.txt" >&2; fail "upgrade in $1"; }
    say "all but MPI's" "-" "${SFT_FROM:-$1} root" "$1, clean" "upgraded from a version before" "a program linked before still works"
    drop "$where"
}

part_autopkgtest() { # suite
    local where status=0
    where=$(clean_root "$1" autopkgtest)
    BIND="$made/$1:/debs" root run "$where" bash -ec '
        apt-get install -y --no-install-recommends autopkgtest dpkg-dev xz-utils >/dev/null 2>&1
        mkdir /local && cp /debs/* /local && cd /local && rm -f *dbgsym*
        autopkgtest --output-dir /results *.deb *.dsc -- null' >"$made/autopkgtest-$1.txt" 2>&1 || status=$?
    cp "$where/results/summary" "$made/autopkgtest-$1.summary" 2>/dev/null || true
    cat "$made/autopkgtest-$1.summary" 2>/dev/null
    [ "$status" -eq 0 ] || { tail -n 60 "$made/autopkgtest-$1.txt" >&2; fail "autopkgtest in $1 ended with $status"; }
    say "all" "-" "$1 root" "$1, clean" "autopkgtest, null runner" "$(grep -c PASS "$made/autopkgtest-$1.summary") of $(wc -l <"$made/autopkgtest-$1.summary") pass"
    drop "$where"
}

part_reprotest() { # suite
    local where version
    version=$(packaging/version.sh)
    where=$(build_root "$1" reprotest faketime locales-all util-linux)
    tarballs
    rm -rf "$where/repro"
    mkdir -p "$where/repro"
    tar -xf "$made/tarballs/libsafetensors-$version.tar.xz" -C "$where/repro"
    # The second build is another user's. reprotest's own way, `sudo -h localhost`, is what sudo refuses
    # since CVE-2025-32462; so names of hosts are not varied, either. The order of files needs FUSE.
    cat >"$where/repro/build" <<'END'
id -u somebody >/dev/null 2>&1 || useradd -m somebody
as=
[ "$(umask)" = 0022 ] || { chown -R somebody: . && as="setpriv --reuid somebody --regid somebody --init-groups"; }
JOBS=2 $as packaging/debs.sh out
END
    root run "$where" sh -ec "cd /repro && reprotest --vary=+all,-fileordering,-domain_host,-user_group --store-dir=/repro/kept \
        --no-diffoscope -c 'sh -eu /repro/build' libsafetensors-$version 'out/*' -- null" \
        >"$made/reprotest-$1.txt" 2>&1 || { tail -n 40 "$made/reprotest-$1.txt" >&2; fail "reprotest in $1"; }
    say "source and all binary packages" "-" "$1 root" "-" \
        "reprotest: user, path, time, time zone, locale, environment, home, umask, PATH, processors, kernel version, address layout" \
        "$(sed -n '/^Reproduction successful/p' "$made/reprotest-$1.txt")"
    drop "$where/repro"
}

parts=${*:-build lintian first install upgrade autopkgtest reprotest}
for part in $parts; do
    for suite in $suites; do
        [ "$part" != reprotest ] || [ "$suite" = "${suites%% *}" ] || continue
        started=$(date +%s)
        "part_$part" "$suite"
        echo "test_debs: $part in $suite: $(($(date +%s) - started)) s"
    done
done
