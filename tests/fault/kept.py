#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""kept.py --tool TOOL - what a file that is replaced has beside its bytes: permission bits, owner, access control list, extended
attributes. Every command that replaces one hands them on, or names what it could not; and a file that had no list gets none of the
directory's. Linux; what the file system or the user may not do is said and left out. Standard library only.
"""

import argparse
import functools
import http.server
import os
import shutil
import struct
import sys
import tempfile
import threading

import scene
from scene import CHECKS, FAULTS, check

NOTE, LIST, STRANGE = "user.note", "system.posix_acl_access", "security.sfttest"


def access_list(user, bits, mask):
    """u::rw-,u:USER:bits,g::r--,m::mask,o::--- as the kernel writes it."""
    rows = [
        (0x01, 6, 0xFFFFFFFF),
        (0x02, bits, user),
        (0x04, 4, 0xFFFFFFFF),
        (0x10, mask, 0xFFFFFFFF),
        (0x20, 0, 0xFFFFFFFF),
    ]
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *row) for row in rows)


def attempt(path, name, value):
    try:
        os.setxattr(path, name, value)
        return True
    except OSError:
        return False


def commands(base, url):
    """name, arguments, files in it that are replaced"""
    src, d = os.path.join(base, "src.safetensors"), os.path.join(base, "d")
    one, two = os.path.join(d, "model.safetensors"), os.path.join(d, "m.safetensors")
    index = [
        os.path.join(d, n)
        for n in (
            "model-00001-of-00002.safetensors",
            "model-00002-of-00002.safetensors",
            "model.safetensors.index.json",
        )
    ]
    ranks = [os.path.join(d, "rank_%d" % r, "model.safetensors") for r in range(2)] + [
        os.path.join(d, "layout.json")
    ]
    return [
        ("meta", ["meta", two, "--set", "k=" + "v" * 20000], [two]),
        ("verify --record", ["verify", "--record", "crc32c,sha256", two], [two]),
        (
            "verify --record --manifest",
            ["verify", "-f", "--record", "crc32c", "--manifest", two],
            [two + ".digests.json"],
        ),
        ("cp", ["cp", "-f", src, two], [two]),
        ("get", ["get", "-f", src, "t0", "-o", os.path.join(d, "t0.npy")], [os.path.join(d, "t0.npy")]),
        ("report", ["report", "-f", src, "-o", os.path.join(d, "r.html")], [os.path.join(d, "r.html")]),
        ("convert", ["convert", "-f", os.path.join(base, "src.pt"), "-o", two], [two]),
        (
            "convert, shards",
            ["convert", "-f", os.path.join(base, "src.pt"), "-o", one, "--max-shard-size", "20000"],
            index,
        ),
        ("convert to .pt", ["convert", "-f", src, "-o", os.path.join(d, "m.pt")], [os.path.join(d, "m.pt")]),
        (
            "convert to .npz",
            ["convert", "-f", src, "-o", os.path.join(d, "m.npz")],
            [os.path.join(d, "m.npz")],
        ),
        ("split", ["split", "-f", src, "-o", d, "--max-shard-size", "20000"], index),
        ("join", ["join", "-f", os.path.join(base, "shards"), "-o", two], [two]),
        (
            "reshard",
            ["reshard", "-f", src, "--target-layout", os.path.join(base, "plan.json"), "-r", "2", "-o", d],
            ranks,
        ),
        ("fetch", ["fetch", "-f", url + "/src.safetensors", "-o", d], [os.path.join(d, "src.safetensors")]),
        ("fetch, shards", ["fetch", "-f", url + "/shards/model.safetensors.index.json", "-o", d], index),
    ]


def one(tool, base, name, args, files, usual):
    d = os.path.join(base, "d")
    uid = 12345 if os.geteuid() == 0 else os.getuid()
    shutil.rmtree(d, ignore_errors=True)
    os.makedirs(d)
    if name in ("split", "convert, shards", "fetch, shards"):
        scene.shards(d, scene.model(1, 5000), 2)
    elif name == "reshard":
        p = scene.run(tool, *[a for a in args if a != "-f"])
        check(p.returncode == 0, name, "first", p.stderr)
    else:
        for path in files:
            scene.put(path, b"{}" if path.endswith(".json") else scene.weights(scene.model(1, 5000)))
    scene.put(
        os.path.join(d, "m.safetensors"), scene.weights(scene.model(1, 5000))
    ) if "manifest" in name else None
    kinds = set()
    for path in files:
        os.chmod(path, 0o640)
        if os.geteuid() == 0:
            os.chown(path, uid, uid)
        kinds |= {
            k
            for k, v in ((NOTE, b"mine"), (LIST, access_list(1234, 6, 6)), (STRANGE, b"x"))
            if attempt(path, k, v)
        }
    old = {path: os.stat(path) for path in files}
    p = scene.run(tool, *args)
    check(p.returncode == 0, name, "exit", p.returncode, p.stderr)
    for path in files:
        now = os.stat(path)
        check(now.st_ino != old[path].st_ino, name, path, "was not replaced")
        check(
            (now.st_mode, now.st_uid, now.st_gid) == (old[path].st_mode, old[path].st_uid, old[path].st_gid),
            name,
            path,
            oct(now.st_mode),
            now.st_uid,
            "was",
            oct(old[path].st_mode),
            old[path].st_uid,
        )
        if NOTE in kinds:
            check(NOTE in os.listxattr(path) and os.getxattr(path, NOTE) == b"mine", name, path, "lost", NOTE)
        if LIST in kinds:
            check(
                LIST in os.listxattr(path) and os.getxattr(path, LIST) == access_list(1234, 6, 6),
                name,
                path,
                "lost its list",
            )
        if STRANGE in kinds and STRANGE not in os.listxattr(path):
            check(
                STRANGE in p.stderr and os.path.basename(path) in p.stderr,
                name,
                path,
                "lost",
                STRANGE,
                "in silence:",
                p.stderr,
            )
    usual |= kinds
    return kinds


def inherited(tool, base):
    """A directory's default list is for new files: one that had none keeps its few readers."""
    d = os.path.join(base, "d")
    shutil.rmtree(d, ignore_errors=True)
    os.makedirs(d)
    path = os.path.join(d, "m.safetensors")
    scene.put(path, scene.weights(scene.model(1, 5000)))
    os.chmod(path, 0o660)
    if not attempt(d, "system.posix_acl_default", access_list(1234, 6, 6)):
        return "no lists here"
    for args in (
        ["meta", path, "--set", "k=" + "v" * 20000],
        ["cp", "-f", os.path.join(base, "src.safetensors"), path],
        ["convert", "-f", os.path.join(base, "src.pt"), "-o", path],
        ["get", "-f", path, "t0", "-o", path + ".npy"],
        ["join", "-f", os.path.join(base, "shards"), "-o", path],
    ):
        if args[0] == "get":
            scene.put(path + ".npy", b"")
            os.removexattr(path + ".npy", LIST)
            os.chmod(path + ".npy", 0o660)
        p = scene.run(tool, *args)
        check(p.returncode == 0, "default list:", args[0], p.stderr)
        for name in os.listdir(d):
            check(
                LIST not in os.listxattr(os.path.join(d, name)),
                "default list:",
                args[0],
                name,
                "has other readers now",
            )
    return "default list: not inherited"


def links(tool, base):
    """Where one file is written, the file that a link leads to is replaced; of several, a link that became a file is named."""
    d, real = os.path.join(base, "links"), os.path.join(base, "real.safetensors")
    one, old, new = os.path.join(d, "model.safetensors"), scene.model(1, 5000), scene.model(2, 5000)
    source, plan = os.path.join(base, "src.safetensors"), os.path.join(base, "plan.json")
    single = (
        ["cp", source, one],
        ["join", os.path.join(base, "shards"), "-o", one],
        ["convert", os.path.join(base, "src.pt"), "-o", one],
        ["slice", source, "--layout", plan, "-r", "1", "-k", "0", "-o", one],
    )
    for args, several in [(a, False) for a in single] + [(["split", source, "-o", d], True)]:
        for there in (True, False):
            shutil.rmtree(d, ignore_errors=True)
            os.makedirs(d)
            os.symlink("../real.safetensors", one)
            if os.path.exists(real):
                os.remove(real)
            if there:
                scene.put(real, scene.weights(old))
            p = scene.run(tool, *args)
            kept = os.path.islink(one) and (not there or scene.read_weights(real) == old)
            check(
                p.returncode != 0 and kept or args[0] in ("cp", "convert") and not there,
                "a link, without -f:",
                args,
                p.returncode,
                p.stderr,
            )
            if not there:
                check(os.path.islink(one), "a link that leads nowhere is gone:", args, p.stderr)
                continue
            p = scene.run(tool, *args, "-f")
            check(
                p.returncode == 0 and scene.read_weights(one) == new,
                "a link, with -f:",
                args,
                p.returncode,
                p.stderr,
            )
            if several:
                check(
                    not os.path.islink(one) and scene.read_weights(real) == old and "was a link" in p.stderr,
                    "in silence:",
                    args,
                    p.stderr,
                )
            else:
                check(
                    os.path.islink(one) and scene.read_weights(real) == new,
                    "the link is gone:",
                    args,
                    p.stderr,
                )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tool", required=True)
    tool = os.path.abspath(parser.parse_args().tool)
    usual = set()
    with tempfile.TemporaryDirectory() as base:
        new = scene.model(2, 5000)
        scene.put(os.path.join(base, "src.safetensors"), scene.weights(new))
        scene.write_torch(os.path.join(base, "src.pt"), new)
        scene.shards(os.path.join(base, "shards"), new, 2)
        scene.put(os.path.join(base, "plan.json"), '{"t*": "colwise"}')
        handler = functools.partial(
            type("Quiet", (http.server.SimpleHTTPRequestHandler,), {"log_message": lambda *a: None}),
            directory=base,
        )
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        table = commands(base, "http://127.0.0.1:%d" % server.server_port)
        for name, args, files in table:
            one(tool, base, name, args, files, usual)
        said = inherited(tool, base)
        links(tool, base)
        server.shutdown()
    print(
        "%d commands with %s; %s; %d checks, %d faults"
        % (len(table), ", ".join(sorted(usual)), said, CHECKS["checks"], len(FAULTS))
    )
    return 1 if FAULTS else 0


if __name__ == "__main__":
    sys.exit(main())
