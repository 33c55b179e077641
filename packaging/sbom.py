#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""sbom.py OUT [--sources versions.txt] - OUT/libsafetensors-VERSION.cdx.json: what the files of a release are made of.

CycloneDX 1.6, standard library only. Components: each file in OUT with its SHA-256; the compression libraries that
wheels, the npm package and the site have inside, by the versions of Debian's source packages (`versions.txt`, written by
compression.sh); wasi-libc, which they have inside, too; libcurl, which is looked for at run time and in none of the
files. Nothing third-party is in the source tree. The same files give the same bytes. `--check FILE` validates
one with cyclonedx-python-lib.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import subprocess
import sys
import uuid
from datetime import datetime, timezone

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
NAMESPACE = uuid.uuid5(uuid.NAMESPACE_DNS, "libsafetensors")
OURS = [{"expression": "Apache-2.0 OR MIT"}]
# What is linked in: Debian's source package, licence, name of its maker in vulnerability lists, home.
LINKED = {
    "zlib": ("Zlib", "zlib:zlib", "https://zlib.net"),
    "bzip2": ("bzip2-1.0.6", "bzip:bzip2", "https://sourceware.org/bzip2"),
    "xz-utils": (None, "tukaani:xz", "https://tukaani.org/xz"),  # liblzma: public domain, or 0BSD from 5.6 on
}
SELF = re.compile(r"SHA256SUMS|\.cdx\.json$")


def output(*command: str) -> str:
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()


def kind(path: str, version: str) -> tuple[str, str] | None:
    """What a file is, and its package URL; None for what is about others (.changes, signatures ...)."""
    name = os.path.basename(path)
    wheel = re.match(r"(?P<name>[A-Za-z0-9_]+)-(?P<version>[^-]+)-.*\.whl$", name)
    if wheel:
        package = wheel["name"].replace("_", "-")
        return (
            "wheel",
            f"pkg:pypi/{package}@{wheel['version'].replace('+', '%2B')}?file_name={name.replace('+', '%2B')}",
        )
    deb = re.match(r"(?P<name>[a-z0-9.+-]+)_(?P<version>[^_]+)_(?P<arch>[a-z0-9]+)\.deb$", name)
    if deb:
        return "deb", f"pkg:deb/debian/{deb['name']}@{deb['version'].replace('+', '%2B')}?arch={deb['arch']}"
    if re.match(r"libsafetensors_.*\.(dsc|debian\.tar\.xz|orig\.tar\.xz)$", name):
        return "debian-source", f"pkg:deb/debian/libsafetensors@{version}?arch=source&file_name={name}"
    if re.match(r"safetensors-.*\.tar\.gz$", name):
        return "sdist", f"pkg:generic/safetensors@{version}?file_name={name.replace('+', '%2B')}"
    if re.match(r"libsafetensors-wasm-.*\.tgz$", name):
        return "npm", f"pkg:npm/%40libsafetensors/wasm@{version}"
    if re.match(r"safetensors_c-.*\.tar\.gz$", name):
        return "sdist", f"pkg:pypi/safetensors-c@{version}?file_name={name}"
    if re.match(r"libsafetensors-[0-9.]+-site\.tar\.gz$", name):
        return "site", f"pkg:generic/libsafetensors@{version}?file_name={name}"
    if re.match(r"libsafetensors-[0-9.]+-recipes\.tar\.gz$", name):
        return "recipes", f"pkg:generic/libsafetensors@{version}?file_name={name}"
    if re.match(r"libsafetensors-[0-9.]+\.tar\.(gz|xz)$", name):
        return "source", f"pkg:generic/libsafetensors@{version}?file_name={name}"
    return None


def holds_libraries(what: str, name: str) -> bool:
    """Compression, and a C library in the modules of WebAssembly. The alias distribution is plain Python; Debian's packages
    depend on Debian's libraries."""
    return what in ("npm", "site") or (what == "wheel" and not name.endswith("-none-any.whl"))


def linked(sources: str | None) -> list[dict]:
    found = []
    if sources is None or not os.path.exists(sources):
        return found
    with open(sources, encoding="utf-8") as f:
        lines = [line.split() for line in f if line.strip()]
    for name, version in (line for line in lines if line[0] in LINKED):
        license_id, cpe, home = LINKED[name]
        upstream = re.match(r"(?:\d+:)?(\d+(?:\.\d+)*)", version)[1]
        files = [line for line in lines if len(line[0]) == 64 and line[1].startswith(name + "_")]
        found.append(
            {
                "type": "library",
                "bom-ref": f"linked:{name}",
                "name": name,
                "version": version,
                "licenses": [
                    {"license": {"id": license_id}} if license_id else {"license": {"name": "public domain"}}
                ],
                "cpe": f"cpe:2.3:a:{cpe}:{upstream}:*:*:*:*:*:*:*",
                "purl": f"pkg:deb/debian/{name}@{version.replace(':', '%3A').replace('+', '%2B')}?arch=source",
                "externalReferences": [{"type": "website", "url": home}],
                "properties": [
                    {"name": "libsafetensors:sha256:" + line[1], "value": line[0]} for line in files
                ],
            }
        )
    return found


def wasi_libc() -> dict:
    """What the modules of the npm package and of the site (which wheels have) are linked with, of this machine's packages."""
    version = output("dpkg-query", "-W", "-f", "${Version}", "wasi-libc")
    return {
        "type": "library",
        "bom-ref": "linked:wasi-libc",
        "name": "wasi-libc",
        "version": version,
        "licenses": [{"license": {"name": "THIRD-PARTY, in the package"}}],
        "purl": f"pkg:deb/debian/wasi-libc@{version.replace('~', '%7E').replace('+', '%2B')}?arch=all",
        "externalReferences": [{"type": "website", "url": "https://github.com/WebAssembly/wasi-libc"}],
    }


def compilers_own() -> list[dict]:
    """What the compiler of the wheels adds to each program: compiler-rt, and mingw-w64's runtime on Windows."""
    with open(os.path.join(ROOT, "packaging", "requirements-wheels.txt"), encoding="utf-8") as f:
        version = re.search(r"^ziglang==(\S+)", f.read(), re.M)[1]
    runtimes = (
        ("compiler-rt", "MIT", "https://ziglang.org"),
        ("mingw-w64", "ZPL-2.1", "https://www.mingw-w64.org"),
    )
    return [
        {
            "type": "library",
            "bom-ref": f"linked:{name}",
            "name": name,
            "description": f"the runtime that ziglang {version} links in",
            "licenses": [{"license": {"id": license_id}}],
            "purl": f"pkg:pypi/ziglang@{version}#{name}",
            "externalReferences": [{"type": "website", "url": home}],
        }
        for name, license_id, home in runtimes
    ]


def make(out: str, sources: str | None) -> tuple[str, dict]:
    version = output("packaging/version.sh")
    epoch = int(output("packaging/epoch.sh"))
    libraries = linked(sources)
    of_wasm: list[dict] = []
    runtimes: list[dict] = []
    root = {
        "type": "library",
        "bom-ref": "libsafetensors",
        "name": "libsafetensors",
        "version": version,
        "description": "The safetensors format in C: library, tool, Python package",
        "licenses": OURS,
        "purl": f"pkg:generic/libsafetensors@{version}",
    }
    files, dependencies, seal = [], [], hashlib.sha256(f"{version} {epoch}".encode())
    for folder, folders, names in os.walk(out):
        folders.sort()
        for name in sorted(names):
            path = os.path.relpath(os.path.join(folder, name), out).replace(os.sep, "/")
            what = kind(path, version)
            if SELF.search(name) or what is None:
                continue
            with open(os.path.join(folder, name), "rb") as f:
                digest = hashlib.sha256(f.read()).hexdigest()
            seal.update(f"{path} {digest}\n".encode())
            files.append(
                {
                    "type": "file",
                    "bom-ref": path,
                    "name": path,
                    "version": version,
                    "hashes": [{"alg": "SHA-256", "content": digest}],
                    "licenses": OURS,
                    "purl": what[1],
                    "properties": [{"name": "libsafetensors:kind", "value": what[0]}],
                }
            )
            holds = holds_libraries(what[0], name)
            if holds:
                of_wasm = [wasi_libc()]
            inside = [c["bom-ref"] for c in libraries + of_wasm] if holds else []
            if holds and what[0] == "wheel":
                runtimes = compilers_own()
                inside += [c["bom-ref"] for c in runtimes if "win_" in name or c["name"] == "compiler-rt"]
            dependencies.append({"ref": path, "dependsOn": inside})
            if holds and not libraries:
                raise SystemExit(
                    f"sbom: {path} has compression libraries inside, and their versions are not told"
                )
    curl = {
        "type": "library",
        "bom-ref": "at-run-time:curl",
        "name": "libcurl",
        "description": "looked for when the first URL is opened; in none of the files",
        "scope": "optional",
        "licenses": [{"license": {"id": "curl"}}],
    }
    bom = {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(NAMESPACE, seal.hexdigest())}",
        "version": 1,
        "metadata": {
            "timestamp": datetime.fromtimestamp(epoch, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "component": root,
            "lifecycles": [{"phase": "post-build"}],
        },
        "components": files + libraries + of_wasm + runtimes + [curl],
        "dependencies": [{"ref": "libsafetensors", "dependsOn": [f["bom-ref"] for f in files]}]
        + dependencies
        + [{"ref": c["bom-ref"], "dependsOn": []} for c in [*libraries, *of_wasm, *runtimes, curl]],
    }
    return version, bom


def check(path: str) -> int:
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator

    with open(path, encoding="utf-8") as f:
        text = f.read()
    fault = JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)
    bom = json.loads(text)
    refs = [c["bom-ref"] for c in bom["components"]] + ["libsafetensors"]
    wrong = [d["ref"] for d in bom["dependencies"] if not {d["ref"], *d["dependsOn"]} <= set(refs)]
    if len(set(refs)) != len(refs):
        wrong.append("a bom-ref twice")
    print(f"{os.path.basename(path)}: {fault or wrong or f'valid CycloneDX 1.6, {len(refs)} components'}")
    return 1 if fault or wrong else 0


def main() -> int:
    arguments = argparse.ArgumentParser(description="what the files of a release are made of")
    arguments.add_argument("out", nargs="?")
    arguments.add_argument("--sources")
    arguments.add_argument("--check", metavar="FILE")
    options = arguments.parse_args()
    if options.check:
        return check(options.check)
    if options.out is None:
        arguments.error("OUT is missing")
    version, bom = make(options.out, options.sources)
    path = os.path.join(options.out, f"libsafetensors-{version}.cdx.json")
    with open(path, "w", encoding="utf-8", newline="\n") as f:
        json.dump(bom, f, indent=2, ensure_ascii=False)
        f.write("\n")
    print(f"{path}: {len(bom['components'])} components")
    return 0


if __name__ == "__main__":
    sys.exit(main())
