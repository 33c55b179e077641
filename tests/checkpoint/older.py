#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""older.py --tool TOOL [--kills N] - writers into a directory that holds another model.

The oracle is a reader of directories in Python: an index, or all files. Every command is tried over every kind of
older model. Without -f: refused, and not a byte changes. With -f: the reader sees the new model, the older model's
files are gone, files of nobody are left. Then split and convert are killed at random moments under -f: the reader
sees the old model, the new one, no index beside a mark, or an index whose files are going, and the tool refuses to read these;
the same command finishes. Two writers at once: a reader sees one of the two models, or one of them has said that there are two.
"""

import argparse
import functools
import hashlib
import http.server
import json
import os
import random
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "fault"))
from scene import CHECKS, FAULTS, check, weights  # noqa: E402

TOOL = None


def read_weights(path):
    with open(path, "rb") as f:
        data = f.read()
    n = struct.unpack("<Q", data[:8])[0]
    return {
        k: data[8 + n + v["data_offsets"][0] : 8 + n + v["data_offsets"][1]]
        for k, v in json.loads(data[8 : 8 + n]).items()
        if k != "__metadata__"
    }


def read_directory(path):
    """As loaders do. A string: what they would stumble over."""
    if os.path.exists(os.path.join(path, "param_name_map.json")):
        return "a map"
    names = sorted(n for n in os.listdir(path) if not n.startswith("."))
    indexes = [n for n in names if n.endswith(".safetensors.index.json")]
    files = [n for n in names if n.endswith(".safetensors")]
    if len(indexes) > 1:
        return "two indexes"
    if indexes:
        with open(os.path.join(path, indexes[0])) as f:
            table = json.load(f)["weight_map"]
        found = {}
        for name, file in table.items():
            try:
                found[name] = read_weights(os.path.join(path, file))[name]
            except (OSError, KeyError) as e:
                return "half: %r" % e
        return found
    if not files:
        return None
    found = {}
    for n in files:
        for k, v in read_weights(os.path.join(path, n)).items():
            if k in found:
                return "twice: " + k
            found[k] = v
    return found


def put(path, data):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as f:
        f.write(data if isinstance(data, bytes) else data.encode())


def shards(folder, tensors, count, stem="model"):
    names = sorted(tensors)
    table = {}
    for i in range(count):
        file = "%s-%05d-of-%05d.safetensors" % (stem, i + 1, count)
        part = {n: tensors[n] for n in names[i::count]}
        put(os.path.join(folder, file), weights(part))
        put(os.path.join(folder, file + ".digests.json"), "{}")
        table.update({n: file for n in part})
    put(
        os.path.join(folder, stem + ".safetensors.index.json"),
        json.dumps({"metadata": {"total_size": 1}, "weight_map": table}, indent=2),
    )


OLD = {"t%d" % i: bytes([i]) * 64 for i in range(6)}
NEW = {"t%d" % i: bytes([100 + i]) * 64 for i in range(6)}


def make_old(kind, folder):
    os.makedirs(folder)
    put(os.path.join(folder, "README.md"), "mine")
    put(os.path.join(folder, "notes", "x.safetensors"), weights({"z": b"1"}))
    if kind.startswith("shards"):
        shards(folder, OLD, int(kind[6:]))
    elif kind == "diffusion":
        shards(folder, OLD, 2, "diffusion_pytorch_model")
    elif kind.startswith(
        "unified"
    ):  # MindSpore's complete form: a map, flat or not, and what is no weight beside it
        names = sorted(OLD)
        table = {n: "part%d.safetensors" % (i % 3) for i, n in enumerate(names[:-1])}
        for i in range(3):
            put(
                os.path.join(folder, "part%d.safetensors" % i),
                weights({n: OLD[n] for n in table if table[n] == "part%d.safetensors" % i}),
            )
        put(os.path.join(folder, "hyper_param.safetensors"), weights({names[-1]: OLD[names[-1]]}))
        put(
            os.path.join(folder, "param_name_map.json"),
            json.dumps(table if kind == "unified-flat" else {"weight_map": table}),
        )
    elif kind == "single":
        put(os.path.join(folder, "model.safetensors"), weights(OLD))
        put(os.path.join(folder, "model.safetensors.digests.json"), "{}")


def commands(source, folder):
    """name, arguments, kinds of older models that are in its way, is -f enough"""
    one = os.path.join(folder, "model.safetensors")
    return [
        ("split-many", ["split", source, "-o", folder, "--max-shard-size", "150"], True),
        ("split-one", ["split", source, "-o", folder], True),
        ("cp", ["cp", source, one], False),
        ("join", ["join", source, "-o", one], False),
        ("convert-many", ["convert", source, "-o", one, "--max-shard-size", "150"], False),
        ("convert-one", ["convert", source, "-o", one], False),
    ]


def run(args):
    return subprocess.run([TOOL] + args, capture_output=True, text=True, errors="replace")


def snapshot(folder):
    found = {}
    for root, _, files in os.walk(folder):
        for f in files:
            path = os.path.join(root, f)
            with open(path, "rb") as h:
                found[os.path.relpath(path, folder)] = hashlib.sha256(h.read()).hexdigest()
    return found


def table(base, source):
    for kind in ("shards2", "shards3", "shards4", "diffusion", "single", "unified", "unified-flat"):
        for name, args, whole in commands(source, os.path.join(base, "d")):
            folder = os.path.join(base, "d")
            make_old(kind, folder)
            before = snapshot(folder)
            if kind == "diffusion" and not whole:
                shutil.rmtree(folder)  # a model beside another one: both are read by their names
                continue
            p = run(args)
            check(
                p.returncode in (1, 3) and p.stderr.strip() and snapshot(folder) == before,
                name,
                kind,
                "without -f:",
                p.returncode,
                p.stderr,
            )
            same = (kind.startswith("shards") and name.endswith("many")) or (
                kind == "single" and not name.endswith("many")
            )
            check(p.returncode == 1 or same, name, kind, "without -f: exit", p.returncode, p.stderr)
            p = run(args + ["-f"])
            check(p.returncode == 0, name, kind, "with -f:", p.returncode, p.stderr)
            check(read_directory(folder) == NEW, name, kind, "reads", read_directory(folder))
            after = snapshot(folder)
            written = {n for n in after if after[n] != before.get(n)}
            left = set(after) - written - {"README.md", os.path.join("notes", "x.safetensors")}
            check(not left, name, kind, "left behind:", left)
            check(os.path.join("notes", "x.safetensors") in after, name, kind, "took what is not its")
            shutil.rmtree(folder)


def unproven(base, source):
    """What no index names, what lies elsewhere, what is read, links: stays."""
    folder = os.path.join(base, "d")
    make_old("shards2", folder)
    put(os.path.join(folder, "other.safetensors"), weights({"z": b"1"}))
    before = snapshot(folder)
    p = run(["split", source, "-o", folder, "-f"])
    check(p.returncode == 1 and snapshot(folder) == before, "stranger:", p.returncode, p.stderr)
    shutil.rmtree(folder)

    victim = os.path.join(base, "victim.safetensors")
    put(victim, weights({"v": b"1"}))
    for entry in ("../victim.safetensors", victim, "link.safetensors", "README.md", "notes/x.safetensors"):
        make_old("shards2", folder)
        os.symlink(victim, os.path.join(folder, "link.safetensors"))
        index = os.path.join(folder, "model.safetensors.index.json")
        with open(index) as f:
            text = json.load(f)
        text["weight_map"]["evil"] = entry
        put(index, json.dumps(text))
        run(["cp", source, os.path.join(folder, "model.safetensors"), "-f"])
        check(
            os.path.exists(victim)
            and os.path.exists(os.path.join(folder, "README.md"))
            and os.path.exists(os.path.join(folder, "notes", "x.safetensors"))
            and os.path.islink(os.path.join(folder, "link.safetensors")),
            "index names",
            entry,
        )
        shutil.rmtree(folder)

    two_models(folder, source)
    make_old("shards2", folder)
    part = os.path.join(folder, "model-00001-of-00002.safetensors")
    before = snapshot(folder)
    run(["cp", part, os.path.join(folder, "model.safetensors"), "-f"])
    check(
        os.path.exists(part) and snapshot(folder)[os.path.basename(part)] == before[os.path.basename(part)],
        "the source is removed",
    )
    shutil.rmtree(folder)
    make_old("shards2", folder)
    put(os.path.join(folder, "model.safetensors.index.json"), "{broken")
    before = snapshot(folder)
    p = run(["split", source, "-o", folder, "-f"])
    check(p.returncode == 1 and snapshot(folder) == before, "broken index:", p.returncode, p.stderr)
    shutil.rmtree(folder)


def two_models(folder, source):
    """Two indexes: the one that is replaced goes with its files, the other model's stay; who would meet them is refused."""
    one = os.path.join(folder, "model.safetensors")
    for args in (
        ["split", source, "-o", folder, "--max-shard-size", "150"],
        ["convert", source, "-o", one, "--max-shard-size", "150"],
    ):
        make_old("shards2", folder)
        shards(folder, OLD, 2, "model.fp16")
        os.rename(
            os.path.join(folder, "model-00001-of-00002.safetensors"), os.path.join(folder, "both.safetensors")
        )
        for index in ("model", "model.fp16"):  # both models name one file
            path = os.path.join(folder, index + ".safetensors.index.json")
            with open(path) as f:
                text = f.read()
            put(path, text.replace(index + "-00001-of-00002", "both"))
        before = snapshot(folder)
        p = run(args + ["-f"])
        after = snapshot(folder)
        check(
            p.returncode == 0
            and all(after.get(n) == before[n] for n in before if "fp16" in n or n == "both.safetensors"),
            args[0],
            "beside another model:",
            p.returncode,
            p.stderr,
            sorted(after),
        )
        check("model-00002-of-00002.safetensors" not in after, args[0], "older file left")
        shutil.rmtree(folder)
    make_old("shards3", folder)
    shards(folder, OLD, 3, "vae")
    for n in range(1, 4):  # the other index names what would be written
        os.rename(
            os.path.join(folder, "vae-%05d-of-00003.safetensors" % n),
            os.path.join(folder, "model-%05d-of-00003.safetensors" % n),
        )
    path = os.path.join(folder, "vae.safetensors.index.json")
    with open(path) as f:
        text = f.read()
    put(path, text.replace("vae-", "model-"))
    before = snapshot(folder)
    for args in (["split", source, "-o", folder, "--max-shard-size", "150"], ["split", source, "-o", folder]):
        p = run(args + ["-f"])
        check(
            p.returncode == 1 and "vae.safetensors.index.json" in p.stderr and snapshot(folder) == before,
            args,
            p.returncode,
            p.stderr,
        )
    shutil.rmtree(folder)
    make_old("unified", folder)  # fewer parts than before
    p = run(["join", "--unified", source, "-o", folder])
    check(p.returncode in (1, 3), "unified over unified without -f", p.returncode)
    p = run(["join", "--unified", source, "-o", folder, "-f"])
    check(
        p.returncode == 0
        and run(["diff", source, folder]).returncode == 0
        and not os.path.exists(os.path.join(folder, "part2.safetensors")),
        "unified over unified",
        p.returncode,
        p.stderr,
        os.listdir(folder),
    )
    shutil.rmtree(folder)


def make_ranks(folder, tensors, count, plan):
    """A checkpoint of ranks: each tensor cut along its only dimension, with a layout.json that the tool writes."""
    source = os.path.join(os.path.dirname(plan), "ranks-source.safetensors")
    put(source, weights(tensors))
    p = run(["reshard", source, "--target-layout", plan, "-r", str(count), "-o", folder])
    check(p.returncode == 0, "reshard:", p.stderr)


def read_ranks(folder):
    """None: no layout. A string: a rank too many or too few for it."""
    if not os.path.exists(os.path.join(folder, "layout.json")):
        return None
    with open(os.path.join(folder, "layout.json")) as f:
        text = f.read()
    found = sorted(n for n in os.listdir(folder) if n.startswith("rank_"))
    try:
        parts = [read_weights(os.path.join(folder, n, "model.safetensors")) for n in found]
    except OSError as e:
        return "half: %r" % e
    if found != ["rank_%d" % i for i in range(len(found))] or "%d" % len(found) not in text:
        return "half: " + repr(found)
    return {k: b"".join(p[k] for p in parts) for k in parts[0]}


def ranks(base, source):
    """Directories of ranks in the way: refused, replaced if layout.json proves them, and never on the word of a stranger."""
    plan, folder = os.path.join(base, "plan.json"), os.path.join(base, "d")
    put(plan, '{"t*": "colwise"}')
    shards(os.path.join(base, "served"), NEW, 3)
    server, url = serve(base)
    every = commands(source, folder) + [
        ("unified", ["join", "--unified", source, "-o", folder], True),
        ("reshard", ["reshard", source, "--target-layout", plan, "-r", "2", "-o", folder], True),
        ("fetch", ["fetch", url + "/served/model.safetensors.index.json", "-o", folder], True),
    ]
    for name, args, _ in every:
        for kind in ("whole", "no layout", "stranger"):
            make_ranks(folder, OLD, 4, plan)
            if kind == "no layout":
                os.remove(os.path.join(folder, "layout.json"))
            elif kind == "stranger":
                put(os.path.join(folder, "rank_7", "other.safetensors"), weights({"z": b"1"}))
            notes = "rank_0/notes.txt" if name == "reshard" else "notes.txt"
            put(os.path.join(folder, notes), "mine")
            before = snapshot(folder)
            p = run(args)
            check(
                p.returncode == 1 and "rank_" in p.stderr and snapshot(folder) == before,
                name,
                kind,
                "ranks, without -f:",
                p.returncode,
                p.stderr,
            )
            p = run(args + ["-f"])
            if kind != "whole":
                check(
                    p.returncode == 1 and snapshot(folder) == before,
                    name,
                    kind,
                    "ranks, with -f:",
                    p.returncode,
                    p.stderr,
                )
            else:
                check(p.returncode == 0, name, "ranks, with -f:", p.returncode, p.stderr)
                left = [
                    n
                    for n in snapshot(folder)
                    if n.startswith("rank_")
                    and n not in (notes, "rank_0/model.safetensors", "rank_1/model.safetensors")
                ]
                check(not left and notes in snapshot(folder), name, "ranks, left:", left)
                read = read_ranks(folder) if name == "reshard" else read_directory(folder)
                check(name == "unified" or read == NEW, name, "ranks, reads", str(read)[:200])
                check(run(["ls", folder]).returncode == 0, name, "ranks: ls", run(["ls", folder]).stderr)
            shutil.rmtree(folder)
    server.shutdown()


def unreadable_layouts(base, source):
    """Layouts whose files would not open again as the model: refused before a byte is written."""
    plan, folder = os.path.join(base, "plan.json"), os.path.join(base, "d")
    put(plan, '{"t*": "colwise"}')
    boxes = [{"rank": 0, "start": [0], "count": [40]}, {"rank": 1, "start": [32], "count": [32]}]
    first = {"axes": {"tp": 2}, "first_rank": 3}
    for text, word in (
        ({"mesh": {"axes": {"tp": 2}}, "tensors": [{"name": "t0", "boxes": boxes}]}, "overlap"),
        ({"mesh": first, "tensors": [{"name": "t0", "cuts": ["tp"]}]}, "rank 0 has a file"),
    ):
        layout = os.path.join(base, "unreadable.json")
        put(layout, json.dumps({"format": "safetensors-layout", "version": 1, **text}))
        make_ranks(folder, OLD, 4, plan)
        before = snapshot(folder)
        p = run(["reshard", source, "--target-layout", layout, "-o", folder, "-f"])
        check(
            p.returncode == 1 and word in p.stderr and snapshot(folder) == before,
            "layout:",
            word,
            p.returncode,
            p.stderr,
        )
        shutil.rmtree(folder)
        p = run(["reshard", source, "--target-layout", layout, "-o", folder])
        check(
            p.returncode == 1 and not os.path.exists(folder),
            "layout, new directory:",
            word,
            p.returncode,
            p.stderr,
        )


def deduped(base):
    """Ranks over ranks without replicas: as many or more of them replace every file, and what spoke of the older ones goes."""
    many = Many(os.path.join(base, "deduped"), 24000)
    for name in ("reshard", "expand", "dedupe"):
        few = os.path.join(many.base, "few")
        shutil.rmtree(few, ignore_errors=True)
        check(run(["dedupe", many.path("ranks-u"), "-o", few]).returncode == 0, "dedupe")
        args = ["expand", few, "-o", many.folder] if name == "expand" else many.writers("u")[name]
        many.clear()
        check(run(many.writers("a")["dedupe"]).returncode == 0, "dedupe")
        before = snapshot(many.folder)
        p = run(args)
        check(
            p.returncode != 0 and snapshot(many.folder) == before,
            name,
            "over dedupe, without -f:",
            p.returncode,
            p.stderr,
        )
        p = run(args + ["-f"])
        check(
            p.returncode == 0 and many.read() == many.models["u"],
            name,
            "over dedupe:",
            p.returncode,
            p.stderr,
            os.listdir(many.folder),
        )
    many.clear()
    put(os.path.join(many.folder, "dedupe.json"), "{}")
    p = run(many.writers("u")["reshard"])
    check(
        p.returncode == 1 and "dedupe.json" in p.stderr and os.listdir(many.folder) == ["dedupe.json"],
        "a record alone:",
        p.stderr,
    )


def rank_kills(base, count):
    """reshard -f to fewer ranks, killed: old, new, or refused with a sentence that names the journal; the same command finishes."""
    rng = random.Random(11)
    plan, folder = os.path.join(base, "plan.json"), os.path.join(base, "k")
    old = {"t%d" % i: bytes([i]) * 120000 for i in range(8)}
    new = {"t%d" % i: bytes([100 + i]) * 120000 for i in range(8)}
    make_ranks(os.path.join(base, "four"), old, 4, plan)
    source = os.path.join(base, "big.safetensors")
    put(source, weights(new))
    args = ["reshard", source, "--target-layout", plan, "-r", "2", "-o", folder, "-f"]
    seen = {}
    for _ in range(count):
        shutil.copytree(os.path.join(base, "four"), folder)
        p = subprocess.Popen([TOOL] + args, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(rng.random() * 0.05)
        p.send_signal(signal.SIGKILL)
        p.wait()
        found = read_ranks(folder)
        q = run(["ls", folder])
        state = (
            "old"
            if found == old
            else "new"
            if found == new
            else "refused"
            if q.returncode in (1, 3)
            else "WRONG"
        )
        seen[state] = seen.get(state, 0) + 1
        check(state != "WRONG", "reshard killed:", str(found)[:200])
        check(state == "refused" or q.returncode == 0, "reshard killed:", state, q.returncode, q.stderr)
        left = [n for n in os.listdir(folder) if n.startswith(".") and ".tmp" not in n]
        check(all(n in q.stderr for n in left), "not named:", left, q.stderr)
        p = run(args)
        check(p.returncode == 0 and read_ranks(folder) == new, "reshard again", state, p.returncode, p.stderr)
        check(
            not [n for n in os.listdir(folder) if n.startswith(".") and ".tmp" not in n],
            "reshard again: left",
            os.listdir(folder),
        )
        shutil.rmtree(folder)
    print("reshard killed:", seen)


def new_directory(base, source):
    """A directory appears with its files, or not at all."""
    folder = os.path.join(base, "fresh")
    p = subprocess.run(
        ["sh", "-c", 'ulimit -f 0; exec "$0" split "$1" -o "$2"', TOOL, source, folder],
        capture_output=True,
        text=True,
    )
    check(p.returncode == 3 and not os.path.exists(folder), "failed split:", p.returncode, p.stderr)
    p = run(["split", source, "-o", folder])
    check(
        p.returncode == 0 and read_directory(folder) == NEW and os.listdir(folder) == ["model.safetensors"],
        "split into a new directory:",
        p.returncode,
        p.stderr,
    )
    put(os.path.join(folder, ".sft-journal-1-of-1"), "sft-job 6\n")  # of a run killed after its rename
    p = run(["ls", folder])
    check(
        p.returncode == 0 and ".sft-journal-1-of-1 is there: a run that writes here was killed" in p.stderr,
        "journal in a target:",
        p.returncode,
        p.stderr,
    )
    shutil.rmtree(folder)


def serve(base):
    handler = functools.partial(
        type("Quiet", (http.server.SimpleHTTPRequestHandler,), {"log_message": lambda *a: None}),
        directory=base,
    )
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.handle_error = lambda *a: None  # who is killed hangs up
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server, "http://127.0.0.1:%d" % server.server_port


def kills(base, count):
    server, url = serve(base)
    try:
        kill_many(base, count, url + "/served/model.safetensors.index.json")
    finally:
        server.shutdown()


def kill_many(base, count, url):
    rng = random.Random(7)
    source = os.path.join(base, "big.safetensors")
    old = {"t%d" % i: bytes([i]) * 300000 for i in range(8)}
    new = {"t%d" % i: bytes([100 + i]) * 300000 for i in range(8)}
    put(source, weights(new))
    shards(os.path.join(base, "served"), new, 4)
    seen = {}
    for i in range(count):
        folder = os.path.join(base, "k")
        os.makedirs(folder)
        kind = rng.choice(["shards4", "shards3", "single"])
        if kind == "single":
            put(os.path.join(folder, "model.safetensors"), weights(old))
        else:
            shards(folder, old, int(kind[6:]))
        name, args, _ = rng.choice(commands(source, folder) + [("fetch", ["fetch", url, "-o", folder], True)])
        args = [a if a != "150" else "600000" for a in args] + ["-f"]
        p = subprocess.Popen([TOOL] + args, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(rng.random() * 0.06)
        p.send_signal(signal.SIGKILL)
        p.wait()
        found = read_directory(folder)
        index = any(n.endswith(".index.json") and n[0] != "." for n in os.listdir(folder))
        half = not index and any(n.endswith(".index.json.sft-half") for n in os.listdir(folder))
        going = index and isinstance(found, str) and found.startswith("half")
        state = (
            "half"
            if half
            else "going"
            if going
            else "old"
            if found == old
            else "new"
            if found == new
            else "WRONG"
        )
        q = run(["ls", folder])
        for n in os.listdir(folder):
            if n.startswith(".") and n.endswith((".sft-half", ".sft-older", ".sft-part")):
                check(n in q.stderr, "not named:", n, q.stderr)
        if state == "half":  # what lies there is half of a model: never read as a whole one
            check(
                q.returncode == 3 and "half" in q.stderr,
                "half of it is read:",
                name,
                kind,
                q.returncode,
                q.stdout,
                q.stderr,
            )
        else:
            check((q.returncode == 0) == (not going), "not read:", name, kind, state, q.returncode, q.stderr)
        seen[state] = seen.get(state, 0) + 1
        check(state != "WRONG", "killed", name, kind, str(found)[:200])
        p = run(args)
        check(
            p.returncode == 0 and read_directory(folder) == new,
            "again",
            name,
            kind,
            state,
            p.returncode,
            p.stderr,
        )
        left = [
            n
            for n in os.listdir(folder)
            if n.endswith((".sft-older", ".sft-half", ".sft-part", ".part", ".journal"))
        ]
        check(not left, "again", name, kind, "left", left)
        shutil.rmtree(folder)
    print("killed:", seen)


# ---------------------------------------------------------------- what the tool reads itself


class Many:
    """Models of many small files, and commands that replace them: what is removed takes a good part of the time."""

    def __init__(self, base, count):
        self.base, self.folder = os.path.join(base, "many"), os.path.join(base, "many", "d")
        self.models = {}
        for name, word, tensors in (("a", 0, 8), ("z", 50, 8), ("u", 100, 5)):
            self.models[name] = {
                "tu"[name == "u"] + str(i): bytes([word + i]) * count for i in range(tensors)
            }
            put(self.path(name), weights(self.models[name]))
        self.plan = os.path.join(self.base, "plan.json")
        put(self.plan, '{"t*": "colwise", "u*": "colwise"}')
        for name in self.models:
            p = run(
                [
                    "reshard",
                    self.path(name),
                    "--target-layout",
                    self.plan,
                    "-r",
                    "3",
                    "-o",
                    self.path("ranks-" + name),
                ]
            )
            check(p.returncode == 0, "reshard:", p.stderr)

    def path(self, name):
        return os.path.join(self.base, name + ("" if name.startswith("ranks-") else ".safetensors"))

    def writers(self, name):
        source, one, folder = self.path(name), os.path.join(self.folder, "model.safetensors"), self.folder
        size = str(len(self.models[name][min(self.models[name])]) * 3 // 2)
        return {
            "split": ["split", source, "--max-shard-size", size, "-o", folder],
            "cp": ["cp", source, one],
            "join": ["join", self.path("ranks-" + name), "-o", one],
            "unified": ["join", "--unified", "--part-size", size, self.path("ranks-" + name), "-o", folder],
            "convert": ["convert", source, "-o", one],
            "convert-many": ["convert", source, "-o", one, "--max-shard-size", size],
            "reshard": ["reshard", source, "--target-layout", self.plan, "-r", "4", "-o", folder],
            "dedupe": ["dedupe", self.path("ranks-" + name), "-o", folder],
        }

    def clear(self):
        shutil.rmtree(self.folder, ignore_errors=True)
        os.makedirs(self.folder)
        for name in os.listdir(self.base):
            if name.startswith("."):
                shutil.rmtree(os.path.join(self.base, name))

    def read(self):
        """What the tool makes of the directory; None: it refuses to."""
        seen = os.path.join(self.base, "seen.safetensors")
        p = run(["cp", "-f", self.folder, seen])
        return read_weights(seen) if p.returncode == 0 else None


def removal_kills(base, count):
    """Killed while it removes the older model's files: what is left of them is never read as a part of the new one."""
    rng = random.Random()
    many = Many(os.path.join(base, "removal"), 24000)
    took, seen = {}, {}
    for _ in range(count):
        old, new = (
            rng.choice(["split", "unified", "reshard"]),
            rng.choice(["split", "cp", "join", "unified", "convert", "reshard"]),
        )
        args = many.writers("u")[new] + ["-f"]
        for attempt in range(2):
            many.clear()
            check(run(many.writers("a")[old]).returncode == 0, old)
            if (old, new) in took:
                break
            begun = time.monotonic()
            check(run(args).returncode == 0, "over", old, new)
            took[old, new] = time.monotonic() - begun
        p = subprocess.Popen([TOOL] + args, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(took[old, new] * (0.3 + rng.random() * 0.8))
        p.kill()
        p.wait()
        found = many.read()
        state = (
            "closed"
            if found is None
            else "old"
            if found == many.models["a"]
            else "new"
            if found == many.models["u"]
            else "WRONG"
        )
        seen[state] = seen.get(state, 0) + 1
        check(
            state != "WRONG",
            "killed over",
            old,
            new,
            "reads",
            sorted(found or {}),
            sorted(os.listdir(many.folder)),
        )
        p = run(args)
        check(
            p.returncode == 0 and many.read() == many.models["u"],
            "again over",
            old,
            new,
            state,
            p.stderr,
            sorted(os.listdir(many.folder)),
        )
        check(
            not [n for n in os.listdir(many.folder) if n.startswith(".")],
            "left over",
            old,
            new,
            sorted(os.listdir(many.folder)),
        )
    print("killed over many files:", seen)


def pairs(base, count):
    """Two or three that write models into one directory at once: one model is there, or somebody has said that it is not so. Those who may
    replace what they find take turns: one ends well, and who does not was told that another is at it."""
    rng = random.Random()
    many = Many(os.path.join(base, "pairs"), 30000)
    seen = {}
    for _ in range(count):
        many.clear()
        if rng.random() < 0.6:
            check(
                run(rng.choice(list(many.writers(rng.choice("azu")).values()))).returncode == 0, "older model"
            )
        before = many.read()
        forced = rng.random() < 0.5
        running = []
        for _ in range(rng.choice([2, 2, 3])):
            name = rng.choice("azu")
            args = rng.choice(list(many.writers(name).values())) + (
                ["-f"] if forced or rng.random() < 0.6 else []
            )
            running.append(
                (
                    name,
                    args,
                    subprocess.Popen([TOOL] + args, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE),
                )
            )
            time.sleep(rng.random() * 0.02)
        told = [
            (name, args, p.communicate()[1].decode(errors="replace"), p.returncode)
            for name, args, p in running
        ]
        check(all(code in (0, 1, 3) for _, _, _, code in told), "exit status", told)
        said = [e for _, _, e, code in told if code == 3]
        found = many.read()
        state = "said" if said else "refused" if found is None else "one"
        # or that another came between: an empty directory is replaced by the finished one, which nobody has locked until then
        check(
            not forced or all("is at it" in e or "by another process" in e for e in said),
            "at once, with -f:",
            sorted(os.listdir(many.folder)),
            told,
        )
        check(not forced or any(code == 0 for _, _, _, code in told), "at once, nobody:", told)
        seen[state] = seen.get(state, 0) + 1
        good = [many.models[name] for name, _, _, code in told if code == 0] or [before]
        check(
            state == "said" or found in good,
            "at once:",
            sorted(found or {}),
            sorted(os.listdir(many.folder)),
            told,
        )
    print("at once:", seen)


def main():
    global TOOL
    parser = argparse.ArgumentParser()
    parser.add_argument("--tool", required=True)
    parser.add_argument("--kills", type=int, default=30)
    args = parser.parse_args()
    TOOL = os.path.abspath(args.tool)
    with tempfile.TemporaryDirectory() as base:
        source = os.path.join(base, "source.safetensors")
        put(source, weights(NEW))
        table(base, source)
        unproven(base, source)
        new_directory(base, source)
        ranks(base, source)
        unreadable_layouts(base, source)
        kills(base, args.kills)
        rank_kills(base, args.kills)
        deduped(base)
        removal_kills(base, args.kills)
        pairs(base, args.kills * 2)
    print("%d checks, %d faults" % (CHECKS["checks"], len(FAULTS)))
    return 1 if FAULTS else 0


if __name__ == "__main__":
    sys.exit(main())
