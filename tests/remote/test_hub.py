# SPDX-License-Identifier: Apache-2.0 OR MIT
"""test_hub.py - a hub of two commits, whose branch moves: every file that comes is of one commit, whether the weights are in the
local cache, partly, or not at all; names without an ending are files, and directories where there is no such file. Standard library
only."""

from __future__ import annotations

import hashlib
import http.server
import json
import os
import shutil
import sys
import threading

import harness

A, B = "a" * 40, "b" * 40
INDEX = "model.safetensors.index.json"
SHARDS = ["model-0000%d-of-00003.safetensors" % i for i in (1, 2, 3)]
BESIDE = [
    "config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "vocab.json",
    "vocab.txt",
    "merges.txt",
    "tokenizer.model",
    "chat_template.jinja",
    "README.md",
    "LICENSE",
]


def shard(i: int, commit: str) -> bytes:
    return harness.tensors_file({"t%d" % i: ("%s %d" % (commit, i)).encode()})


def model(commit: str) -> dict[str, bytes]:
    files = {s: shard(i, commit) for i, s in enumerate(SHARDS)}
    files[INDEX] = json.dumps(
        {"metadata": {}, "weight_map": {"t%d" % i: s for i, s in enumerate(SHARDS)}}
    ).encode()
    files.update({n: ("%s of %s" % (n, commit)).encode() for n in BESIDE})
    files["config.json"] = json.dumps({"commit": commit}).encode()
    files["vae/diffusion_pytorch_model.safetensors"] = shard(7, commit)
    files["v1.5/model.safetensors"] = shard(8, commit)
    files["numbers.npy"] = (
        b"\x93NUMPY\x01\x00v\x00"
        + b"{'descr': '|u1', 'fortran_order': False, 'shape': (4,), }".ljust(117)
        + b"\nabcd"
    )
    return files


class Hub(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 100

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.commits = {A: model(A), B: model(B)}
        self.main = B
        self.moves = ""  # main becomes B when this file was asked for
        self.asked: list[str] = []
        self.url = "http://127.0.0.1:%d" % self.server_address[1]
        threading.Thread(target=self.serve_forever, daemon=True).start()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1
    server: Hub

    def log_message(self, *args: object) -> None:
        pass

    def do_GET(self) -> None:  # pylint: disable=invalid-name
        revision, _, name = self.path.partition("/resolve/")[2].partition("/")
        self.server.asked.append(revision + "/" + name)
        commit = self.server.main if revision == "main" else revision
        data = self.server.commits.get(commit, {}).get(name)
        if name == self.server.moves:
            self.server.main = B
        if data is None:
            self.send_response(404)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        first, last = 0, len(data) - 1
        if self.headers.get("Range"):
            a, _, b = self.headers["Range"][6:].partition("-")
            first, last = int(a), min(int(b), last)
        self.send_response(206 if self.headers.get("Range") else 200)
        for field, value in (
            ("X-Repo-Commit", commit),
            ("ETag", '"%s"' % hashlib.sha256(data).hexdigest()),
            ("Content-Range", "bytes %d-%d/%d" % (first, last, len(data))),
            ("Content-Length", str(last + 1 - first)),
        ):
            self.send_header(field, value)
        self.end_headers()
        self.wfile.write(data[first : last + 1])


def tree(folder: str) -> dict[str, bytes]:
    found = {}
    for name in os.listdir(folder):
        with open(os.path.join(folder, name), "rb") as f:
            found[name] = f.read()
    return found


def wanted(commit: str) -> dict[str, bytes]:
    return {n: d for n, d in model(commit).items() if "/" not in n and n != "numbers.npy"}


def cache_of(t: harness.Tests, name: str, files: dict[str, bytes]) -> str:
    """A Hugging Face cache whose main is A, with these files of it."""
    repo = os.path.join(t.tmp, name, "models--org--model")
    snapshot = os.path.join(repo, "snapshots", A)
    for folder in ("refs", "blobs"):
        os.makedirs(os.path.join(repo, folder))
    os.makedirs(snapshot)
    with open(os.path.join(repo, "refs", "main"), "w", encoding="ascii") as f:
        f.write(A)
    for file, data in files.items():
        blob = hashlib.sha256(data).hexdigest()
        with open(os.path.join(repo, "blobs", blob), "wb") as f:
            f.write(data)
        os.makedirs(os.path.dirname(os.path.join(snapshot, file)), exist_ok=True)
        os.symlink(
            os.path.relpath(os.path.join(repo, "blobs", blob), os.path.dirname(os.path.join(snapshot, file))),
            os.path.join(snapshot, file),
        )
    return os.path.join(t.tmp, name)


def fetched(
    t: harness.Tests, hub: Hub, label: str, env: dict[str, str], commit: str, warned: str = ""
) -> None:
    """fetch, and cp: all of one commit, nothing asked for at a branch once the commit is known."""
    env = {"HF_ENDPOINT": hub.url, **env}
    out = os.path.join(t.tmp, "out-" + label.replace(" ", "-"))
    hub.asked = []
    done = t.tool("fetch", "hf://org/model", "-o", out, env=env)
    t.check(label, done.returncode == 0 and (warned in done.stderr if warned else done.stderr == ""), done)
    if done.returncode == 0:
        t.equal(label, tree(out), wanted(commit))
    done = t.tool("cp", "hf://org/model", out + ".safetensors", env=env)
    t.check("cp, " + label, done.returncode == 0, done)
    if done.returncode == 0:
        same = t.tool("diff", out + ".safetensors", out)
        t.equal("cp, " + label, (same.returncode, same.stdout), (0, ""))


def cached(t: harness.Tests) -> None:
    """The cache has the index at A, not all of the shards; the hub's main is B by now."""
    hub = Hub()
    files = model(A)
    part = {n: files[n] for n in (INDEX, *SHARDS[:2])}
    for name, broken in (
        ("missing", None),
        ("dangling", "../../blobs/" + "0" * 64),
        ("incomplete", "../../blobs/x.incomplete"),
    ):
        cache = cache_of(t, name, part)
        if broken is not None:
            os.symlink(broken, os.path.join(cache, "models--org--model", "snapshots", A, SHARDS[2]))
        fetched(t, hub, "a shard " + name, {"HF_HUB_CACHE": cache}, A)
        t.check(
            "asked at A alone", hub.asked != [] and all(p.startswith(A + "/") for p in hub.asked), hub.asked
        )
    fetched(
        t,
        hub,
        "all weights",
        {"HF_HUB_CACHE": cache_of(t, "weights", {**part, SHARDS[2]: files[SHARDS[2]]})},
        A,
    )
    fetched(
        t,
        hub,
        "no weights",
        {"HF_HUB_CACHE": cache_of(t, "config", {"config.json": files["config.json"]})},
        A,
    )
    t.check("asked at A alone", all(p.startswith(A + "/") for p in hub.asked), hub.asked)
    # a branch of which nothing is there is the hub's
    cache = cache_of(t, "nothing", {})
    shutil.rmtree(os.path.join(cache, "models--org--model", "snapshots"))
    fetched(t, hub, "nothing", {"HF_HUB_CACHE": cache}, B)
    # the commit is gone at the hub: said, with its name, and nothing of another comes
    del hub.commits[A]
    out = os.path.join(t.tmp, "gone")
    done = t.tool(
        "fetch",
        "hf://org/model",
        "-o",
        out,
        env={"HF_ENDPOINT": hub.url, "HF_HUB_CACHE": cache_of(t, "gone-cache", part)},
    )
    t.check(
        "a commit that is gone",
        done.returncode in (1, 3)
        and SHARDS[2] in done.stderr
        and not os.path.exists(os.path.join(out, INDEX)),
        done,
    )


def moving(t: harness.Tests) -> None:
    """No cache; main becomes B after some file was asked for: what comes is all of A, or all of B."""
    hub = Hub()
    fetched(t, hub, "at rest", {}, B)
    t.check(
        "the branch is asked for weights alone",
        all(p.endswith((".safetensors", INDEX)) for p in hub.asked if p.startswith("main/")),
        hub.asked,
    )
    for i, name in enumerate((INDEX, "model.safetensors", SHARDS[0], SHARDS[2], "config.json", "merges.txt")):
        for command in ("fetch", "split"):
            hub.main, hub.moves = A, name
            out = os.path.join(t.tmp, "moving-%s-%d" % (command, i))
            done = t.tool(command, "hf://org/model", "-o", out, env={"HF_ENDPOINT": hub.url})
            label = "%s, moving at %s" % (command, name)
            t.check(label, done.returncode == 0, done)
            if done.returncode != 0:
                continue
            got = tree(out)
            commit = A if A.encode() in got["config.json"] else B
            t.equal(label, {n: got.get(n) for n in BESIDE}, {n: model(commit)[n] for n in BESIDE})
            weights = b"".join(d for n, d in got.items() if n.endswith(".safetensors"))
            t.equal(label, [b"%s %d" % (commit.encode(), k) in weights for k in range(3)], [True] * 3)
            t.check(label, (B if commit == A else A).encode() not in weights, got)


def library(t: harness.Tests) -> None:
    """Without SFT_REMOTE_ONE_COMMIT each catalog is of one commit; the next one may be of another."""
    hub = Hub()
    hub.main, hub.moves = A, SHARDS[0]
    args = ["hf_endpoint=" + hub.url, "hash", "hf://org/model"]
    first, second = t.probe(*args), t.probe(*args)
    t.check("index and shards of A", first["status"] == "SFT_OK" and first["tensors"] == 3, first)
    t.check(
        "the shards were asked for at A",
        all("resolve/" + A in p for p in first["paths"] if not p.endswith(INDEX)),
        first,
    )
    t.check("then those of B", second["status"] == "SFT_OK" and first["content"] != second["content"], second)
    cache = cache_of(t, "library", {n: d for n, d in model(A).items() if n in (INDEX, SHARDS[0])})
    got = t.probe("hf_cache=" + cache, *args)
    t.check("of the cache's commit", got["status"] == "SFT_OK" and got["content"] == first["content"], got)


def names(t: harness.Tests) -> None:
    """A file is a file whatever it is called; where there is none, a directory; else the sentence names both."""
    hub = Hub()
    whole = model(B)
    stored = cache_of(t, "names", {n: d for n, d in model(A).items()})
    for label, env, commit in (
        ("hub", {"HF_ENDPOINT": hub.url}, B),
        ("cache", {"HF_HUB_CACHE": stored, "HF_HUB_OFFLINE": "1"}, A),
    ):
        for folder, tensor in (("vae", 7), ("v1.5", 8)):
            out = os.path.join(t.tmp, "%s-%s.safetensors" % (label, folder))
            done = t.tool("cp", "hf://org/model/" + folder, out, env=env)
            t.check(label + ", a directory", done.returncode == 0, done)
            t.equal(
                label + ", a directory",
                t.tool("hash", "--content", out).stdout.split()[0],
                t.tool("hash", "--content", t.put("x.safetensors", shard(tensor, commit))).stdout.split()[0],
            )
        done = t.tool("get", "hf://org/model/numbers.npy", "numbers", "-o", "-", env=env)
        listed = t.tool("ls", "hf://org/model/numbers.npy", env=env)
        t.check(
            label + ", a file of another format",
            listed.returncode == 0 and "U8" in listed.stdout,
            (done, listed),
        )
        scanned = t.tool("scan", "hf://org/model/README.md", env=env)
        t.check(
            label + ", scan of a text",
            scanned.returncode in (0, 1) and "harmless" in scanned.stdout + scanned.stderr,
            scanned,
        )
    done = t.tool("ls", "hf://org/model/vocab.tx", env={"HF_ENDPOINT": hub.url})
    t.check("neither", done.returncode == 3 and "neither a file nor" in done.stderr, done)
    # LICENSE is a directory here, with weights of its own: they are no licence
    for commit in (A, B):
        del hub.commits[commit]["LICENSE"]
        hub.commits[commit]["LICENSE/model.safetensors"] = whole["v1.5/model.safetensors"]
    out = os.path.join(t.tmp, "licence")
    done = t.tool("fetch", "hf://org/model", "-o", out, env={"HF_ENDPOINT": hub.url})
    t.check(
        "a directory called LICENSE",
        done.returncode == 0 and not os.path.exists(os.path.join(out, "LICENSE")),
        done,
    )
    # what is there already is compared, as in a directory
    with open(os.path.join(out, "config.json"), "w", encoding="ascii") as f:
        f.write("{}")
    done = t.tool("fetch", "--force", "hf://org/model", "-o", out, env={"HF_ENDPOINT": hub.url})
    t.check(
        "another configuration is there",
        done.returncode == 0
        and done.stderr.count("with other bytes") == 1
        and tree(out)["config.json"] == b"{}",
        done,
    )
    # offline: one warning names what the cache has not, which may not exist
    files = model(A)
    cache = cache_of(t, "offline", {n: files[n] for n in (INDEX, *SHARDS, "config.json")})
    out = os.path.join(t.tmp, "offline-out")
    done = t.tool("fetch", "hf://org/model", "-o", out, env={"HF_HUB_CACHE": cache, "HF_HUB_OFFLINE": "1"})
    t.check(
        "offline",
        done.returncode == 0
        and done.stderr.count("warning") == 1
        and "vocab.txt" in done.stderr
        and "config.json, " not in done.stderr.replace("_config.json", ""),
        done,
    )
    t.equal("offline", sorted(tree(out)), sorted([INDEX, *SHARDS, "config.json"]))


if __name__ == "__main__":
    tests = harness.Tests()
    sys.exit(tests.run(cached, moving, library, names))
