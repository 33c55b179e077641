# SPDX-License-Identifier: Apache-2.0 OR MIT
"""test_hostile.py - servers that misbehave: case, verdict, time; where credentials went; every header length
around the first read; caches; the hub; S3 signatures; TLS; downloads that are killed. Standard library only."""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
import urllib.parse

import harness
import hostile_server

FILE = "model-00001-of-00002.safetensors"
INDEX = "model.safetensors.index.json"
TOKEN = "secret-token"

# kind of server behaviour, status, part of the message, most milliseconds, most requests. A busy machine gets ten
# times as many milliseconds: what counts is that there is a bound.
TABLE = [
    ("ok", "SFT_OK", "", 2000, 1),
    ("range-wrong", "SFT_E_HTTP", "its Content-Range is 1-65536, asked was 0-65535", 1000, 1),
    ("range-none", "SFT_E_HTTP", "no Content-Range", 1000, 1),
    ("range-text", "SFT_E_HTTP", "its Content-Range makes no sense", 1000, 1),
    ("short", "SFT_E_HTTP", "remaining to read", 2000, 5),
    ("short-once", "SFT_OK", "", 2000, 2),
    ("gzip", "SFT_E_HTTP", "compressed", 1000, 1),
    ("whole", "SFT_OK", "", 2000, 1),
    ("whole-endless", "SFT_E_HTTP", "no Content-Length", 1000, 1),
    ("parts", "SFT_E_HTTP", "several parts", 1000, 1),
    ("huge-head", "SFT_E_HTTP", "its head is longer than 64 KiB", 1000, 1),
    ("big-header", "SFT_E_HEADER_TOO_LARGE", "9223372036854775808", 1000, 1),
    ("S404", "SFT_E_HTTP", "HTTP 404", 1000, 1),
    ("S403", "SFT_E_HTTP", "HTTP 403: forbidden, no credential was sent", 1000, 1),
    ("S416", "SFT_E_HTTP", "HTTP 416", 1000, 1),
    ("S429", "SFT_E_HTTP", "HTTP 429: too many requests", 3000, 5),
    ("S500", "SFT_E_HTTP", "HTTP 500", 3000, 5),
    ("S503", "SFT_E_HTTP", "HTTP 503", 3000, 5),
    ("S418", "SFT_E_HTTP", "HTTP 418", 1000, 1),
    ("once-503", "SFT_OK", "", 3500, 2),
    ("later", "SFT_E_HTTP", "the server asks to wait longer than the deadline allows", 1000, 1),
    ("loop", "SFT_E_HTTP", "more than 5 redirects", 1000, 6),
    ("nowhere", "SFT_E_HTTP", "a redirect without an address", 1000, 1),
    ("silent", "SFT_E_HTTP", "stalled: 0 bytes", 5500, 4),
    ("slow", "SFT_E_HTTP", "stalled: ", 5500, 4),
    ("reset", "SFT_E_HTTP", "", 3000, 5),
    ("auth", "SFT_E_HTTP", "HTTP 401: not authorized, no credential was sent", 1000, 1),
    ("no-etag", "SFT_OK", "", 2000, 1),
    ("weak", "SFT_OK", "", 2000, 1),
]
# only seen when more than the first range is read
LATER = [
    ("etag", "SFT_E_CHANGED", "its ETag is"),
    ("range-total", "SFT_E_CHANGED", "bytes, had"),
    ("version-lost", "SFT_E_CHANGED", "does not tell its version any more"),
    ("version-came", "SFT_E_CHANGED", "the first one told none"),
]


def start(t: harness.Tests, name: str = "a", other: str = "", tls=None) -> str:
    server = hostile_server.start(t.files, t.log, name, other, tls)
    return "%s://127.0.0.1:%d" % ("https" if tls else "http", server.server_address[1])


def misbehaviour(t: harness.Tests) -> None:
    base = start(t)
    for kind, status, text, most_ms, most_requests in TABLE:
        options = harness.QUICK if kind in ("silent", "slow") else ()
        got = t.probe(*options, "open", "%s/%s/%s" % (base, kind, FILE))
        said = got["message"]
        t.equal(kind, got["status"], status)
        t.check(kind, text in said, said)
        t.check(kind + " time", got["ms"] <= 10 * most_ms, got["ms"])
        t.check(kind + " requests", got["requests"] <= most_requests, got["requests"])
        if got["status"] not in ("SFT_OK", "SFT_E_HEADER_TOO_LARGE"):
            t.check(kind + " names URL and range", base in said and ": bytes 0-65535: " in said, said)
        if t.args.table:
            print("| %s | %s | %d | %.0f ms | %s |" % (kind, got["status"], got["requests"], got["ms"], said))
    for kind, status, text in LATER:
        got = t.probe("hash", "%s/%s/%s" % (base, kind, FILE))
        t.equal(kind, got["status"], status)
        t.check(kind, text in got["message"] and FILE in got["message"], got["message"])
        if t.args.table:
            print(
                "| %s | %s | %d | %.0f ms | %s |" % (kind, status, got["requests"], got["ms"], got["message"])
            )
    for to in ("file:///etc/passwd", "ftp://127.0.0.1/x", "http://example.org/x", "gopher://x/", "//"):
        got = t.probe("open", "%s/to/%s" % (base, urllib.parse.quote(to, safe="")))
        t.check("redirect to " + to, got["status"] in ("SFT_E_PATH", "SFT_E_HTTP"), got)
        t.check("redirect to " + to, got["requests"] == 1, got)
    # a server that ignores ranges: what lies beyond the budget is not to be had, and is not downloaded
    t.put("long.safetensors", harness.tensors_file({"a": harness.noise(3 << 20, 1), "b": b"end"}))
    got = t.probe("whole_bytes=1000000", "open", base + "/whole/long.safetensors")
    t.equal("whole: header", got["status"], "SFT_OK")
    t.check("whole: header bytes", got["bytes"] < 700000, got["bytes"])
    got = t.probe("whole_bytes=1000000", "read", base + "/whole/long.safetensors", "3000000:100")
    t.check("whole: beyond", "the whole file instead of a range" in got["message"], got)
    t.check("whole: bytes", got["bytes"] < 1500000, got["bytes"])
    t.put("empty.safetensors", b"")
    t.equal("empty", t.probe("open", base + "/ok/empty.safetensors")["status"], "SFT_E_TOO_SMALL")


# how a server answers a request for several ranges; requests of one read, its first included; is it asked so again
SEVERAL = [
    ("ok", 2, 1),
    ("quoted", 2, 1),
    ("coalesced", 2, 1),
    ("endless", 2, 1),
    ("joined", 2, 1),
    ("first", 5, 1),
    ("cut", 3, 2),
    *(
        (how, 5, 1)
        for how in (
            "whole",
            "S400",
            "S403",
            "S416",
            "S431",
            "S501",
            "off",
            "total",
            "none",
            "two",
            "head",
            "line",
            "boundary",
            "long",
            "order",
            "missing",
            "twice",
            "split",
            "more",
            "unmarked",
        )
    ),
]


def several(t: harness.Tests) -> None:
    """Many short ranges in one request: exactly right, or one by one; whatever comes, the bytes are right."""
    server = hostile_server.start(t.files, t.log, "several")
    base = "http://127.0.0.1:%d" % server.server_address[1]
    data = harness.tensors_file({"a": harness.noise(4 << 20, 5)})
    t.put("wide.safetensors", data)
    ranges = [(100000 + 50000 * i, 1000 + i) for i in range(60)]
    args = ["%d:%d" % r for r in reversed(ranges)]
    wanted = harness.hashlib.sha256(b"".join(data[a : a + n] for a, n in reversed(ranges))).hexdigest()
    for how, most, asked in SEVERAL:
        t.forget()
        got = t.probe("connections=2", "read", "%s/multi-%s/wide.safetensors" % (base, how), *args)
        t.equal(how, (got["status"], got["sha256"]), ("SFT_OK", wanted))
        t.check(how + " requests", got["requests"] <= most, got)
        t.check(how + " time", got["ms"] < 2000, got["ms"])
        t.equal(how + " asked", sum("," in e["range"] for e in t.logged()), asked)
        exact = how in ("ok", "quoted", "cut")
        t.check(how + " bytes", got["bytes"] < 65536 + (80000 if exact else 4 << 20), got["bytes"])
        if t.args.table:
            print(
                "| several ranges: %s | %s | %d | %.0f ms | |"
                % (how, got["status"], got["requests"], got["ms"])
            )
    got = t.probe("read", base + "/multi-changed/wide.safetensors", *args)
    t.equal("changed", got["status"], "SFT_E_CHANGED")
    t.check("changed", "its ETag is" in got["message"], got)
    # overlapping, touching and equal ranges come once
    odd = ["100000:1000", "100000:1000", "100500:3000", "103500:10"] + args
    wanted = harness.hashlib.sha256()
    for r in odd[:60]:
        a, n = map(int, r.split(":"))
        wanted.update(data[a : a + n])
    got = t.probe("read", base + "/multi-ok/wide.safetensors", *odd[:60])
    t.equal("overlapping", (got["status"], got["sha256"], got["requests"]), ("SFT_OK", wanted.hexdigest(), 2))
    # columns through the tool
    t.forget()
    tensor = {"w": {"dtype": "F32", "shape": [512, 1024], "data_offsets": [0, 2 << 20]}}
    text = json.dumps(tensor).encode()
    t.put("cols.safetensors", harness.struct.pack("<Q", len(text)) + text + harness.noise(2 << 20, 9))
    outs = [os.path.join(t.tmp, n) for n in ("cols.npy", "cols-url.npy")]
    for part in ("w[:, 100:300]", "w[5:400, 7]", "w[::3, ::2]", "w[::-1, 1000:]"):
        for place, out in zip(
            (os.path.join(t.files, "cols.safetensors"), base + "/multi-ok/cols.safetensors"), outs
        ):
            t.equal(part, t.tool("get", "-f", place, part, "-o", out).returncode, 0)
        t.equal(part, harness.sha256(outs[1]), harness.sha256(outs[0]))
    t.check("several were asked for", sum("," in e["range"] for e in t.logged()) > 5, len(t.logged()))


def refused_urls(t: harness.Tests) -> None:
    for url, status in (
        ("http://example.org/x.safetensors", "SFT_E_PATH"),
        ("https://user:pass@127.0.0.1/x.safetensors", "SFT_E_PATH"),
        ("https://127.0.0.1:0/x", "SFT_E_PATH"),
        ("https:///x", "SFT_E_PATH"),
        ("https://a b/x", "SFT_E_PATH"),
        ("http://127.0.0.1.example.org/x", "SFT_E_PATH"),
        ("file:///etc/passwd", "SFT_E_IO"),  # no scheme of ours: a path, at which nothing is
        ("ftp://127.0.0.1/", "SFT_E_IO"),
        ("hf://", "SFT_E_PATH"),
        ("hf://org/repo/../x.safetensors", "SFT_E_PATH"),
        ("hf://../repo", "SFT_E_PATH"),
        ("hf://org/repo@/x.safetensors", "SFT_E_PATH"),
        ("s3://bucket", "SFT_E_PATH"),
        ("s3://bucket/../x", "SFT_E_PATH"),
    ):
        got = t.probe("open", url)
        t.equal(url, (got["status"], got["requests"]), (status, 0))
    got = t.probe("open", "http://127.0.0.1:9/x?X-Amz-Signature=deadbeef")
    t.check("queries are not shown", "deadbeef" not in got["message"] and "/x: " in got["message"], got)


def shard_names(t: harness.Tests) -> None:
    """An index leads nowhere but below its own folder at its own host."""
    base = start(t)
    other = start(t, "b")
    for name in (
        "../" + FILE,
        "a/../../" + FILE,
        "/ok/" + FILE,
        other + "/ok/" + FILE,
        "//127.0.0.1:1/" + FILE,
        "..\\" + FILE,
        "a/./" + FILE,
        "C:" + FILE,
    ):
        t.put("bad/" + INDEX, json.dumps({"weight_map": {"x": name}}).encode())
        t.forget()
        got = t.probe("open", base + "/ok/bad/" + INDEX)
        t.equal(name, got["status"], "SFT_E_PATH")
        t.equal(name, [e["path"] for e in t.logged()], ["/ok/bad/" + INDEX])
    # what means something in URLs is only a name here
    data = harness.tensors_file({"x": b"12345"})
    for name in ("a?b#c%2e%2e.safetensors", "sp ace é.safetensors", "%2e%2e%2fx.safetensors"):
        t.put("odd/" + name, data)
        t.put("odd/" + INDEX, json.dumps({"weight_map": {"x": name}}).encode())
        got = t.probe("hash", base + "/ok/odd/" + INDEX)
        t.equal(name, (got["status"], got.get("tensors")), ("SFT_OK", 1))


def credentials(t: harness.Tests) -> None:
    """The log of two servers proves where the token went."""
    other = start(t, "other")
    home = start(t, "home", other)
    args = ["hf_endpoint=" + home + "/lfs", "hf_token=" + TOKEN]
    t.forget()
    got = t.probe(*args, "hash", "hf://org/repo/" + INDEX)
    t.equal("hub", (got["status"], got.get("tensors")), ("SFT_OK", 29))
    log = t.logged()
    t.check("hub", any(e["server"] == "other" for e in log), log)
    t.check("token to home", all(e["token"] for e in log if e["server"] == "home"), log)
    t.check("no token to another host", not any(e["token"] for e in log if e["server"] == "other"), log)
    t.check("commit pinned", any(hostile_server.COMMIT in e["path"] for e in log), log)
    asked = [e for e in log if e["server"] == "home"]
    t.check("addresses of redirects are remembered", len(asked) <= 3, [e["path"] for e in asked])
    # a plain URL elsewhere never has it, one at the endpoint has
    t.forget()
    t.probe(*args, "open", other + "/ok/" + FILE)
    t.check("plain URL elsewhere", not any(e["token"] for e in t.logged()), t.logged())
    t.forget()
    got = t.probe("hf_endpoint=" + home, "hf_token=" + TOKEN, "open", home + "/auth/" + FILE)
    t.equal("plain URL at home", got["status"], "SFT_OK")
    t.forget()
    to = urllib.parse.quote(other + "/auth/" + FILE, safe="")
    got = t.probe("hf_endpoint=" + home, "hf_token=" + TOKEN, "open", home + "/to/" + to)
    t.equal("redirected", (got["status"], got["sys"]), ("SFT_E_HTTP", 401))
    t.check("redirected", "no credential was sent" in got["message"], got["message"])
    t.equal("redirected", [(e["server"], e["token"]) for e in t.logged()], [("home", True), ("other", False)])
    t.check("identity asked", all(e["accept_encoding"] == "identity" for e in t.logged()), t.logged())
    for value in ("secret\r\nX-Evil: 1", "tok\x7f"):
        got = t.probe("hf_token=" + value, "open", home + "/ok/" + FILE)
        t.equal("token with control characters", got["status"], "SFT_E_ARG")


def reasons(t: harness.Tests) -> None:
    """The server's own words, unless they repeat a secret."""
    base = start(t)
    for kind, said in (
        ("xml", "HTTP 403: forbidden, no credential was sent; AccessDenied: Request has expired"),
        ("json", "Access to this model is restricted"),
        ("head", "Gated repository"),
        ("long", "so it is, so it is"),
        ("echo", "the server's words repeat a credential"),
    ):
        got = t.probe("open", "%s/explain-%s/%s?sig=planted%%2Fsecret" % (base, kind, FILE))
        t.check(kind, said in got["message"] and "planted" not in got["message"], got["message"])
        t.check(kind + " bytes", got["bytes"] < 300000, got["bytes"])


def capped(t: harness.Tests) -> None:
    """A server that answers with less than was asked for is asked for the rest at once."""
    base = start(t)
    data = harness.tensors_file({"a": harness.noise(9 << 20, 3)})
    t.put("nine.safetensors", data)
    out = os.path.join(t.tmp, "nine")
    got = t.probe("connections=1", "backoff_ms=5000", "fetch", base + "/cap/nine.safetensors", out)
    t.equal("cap", (got["status"], got["retries"]), ("SFT_OK", 0))
    t.equal("cap", harness.sha256(os.path.join(out, "nine.safetensors")), hashlib.sha256(data).hexdigest())
    # no ranges at all, and longer than the budget: in one go; what came before a break is kept
    for connections in (1, 8):
        out = os.path.join(t.tmp, "whole%d" % connections)
        args = [
            "connections=%d" % connections,
            "whole_bytes=1000000",
            "fetch",
            base + "/whole/nine.safetensors",
            out,
        ]
        t.forget()
        got = t.probe(*args)
        t.equal("whole", (got["status"], len(t.logged())), ("SFT_OK", 2))
        t.equal(
            "whole", harness.sha256(os.path.join(out, "nine.safetensors")), hashlib.sha256(data).hexdigest()
        )


def signed_again(t: harness.Tests) -> None:
    """Blocks on disk are found again under another signature; another version parameter is another file."""
    base = start(t)
    blocks = os.path.join(t.tmp, "signed-blocks")
    url = base + "/ok/" + FILE + "?versionId=1&X-Amz-Signature="
    first = t.probe("disk_cache=" + blocks, "hash", url + "aaaaaaaa")
    again = t.probe("disk_cache=" + blocks, "hash", url + "bbbbbbbb")
    t.equal("same", first["content"], again["content"])
    t.check("found", again["bytes"] < first["bytes"] // 2 + 70000 and again["cache_hits"] > 0, again)
    other = t.probe("disk_cache=" + blocks, "hash", url.replace("versionId=1", "versionId=2") + "aaaaaaaa")
    t.check("another version is not", other["cache_hits"] < again["cache_hits"], other)


PLANTED = ("plantedPW", "plantedSIG", "plantedTOKEN", "plantedKEY", "plantedSESSION")


def secrets(t: harness.Tests) -> None:
    """No output of any command, no file it leaves and no argument that others see holds a planted secret."""
    if t.args.tool is None:
        return
    base = start(t)
    env = {
        "HF_TOKEN": "plantedTOKEN",
        "HF_ENDPOINT": base,
        "AWS_ENDPOINT_URL": base,
        "AWS_REGION": "x",
        "AWS_ACCESS_KEY_ID": "plantedKEY1",
        "AWS_SECRET_ACCESS_KEY": "plantedKEY2",
        "AWS_SESSION_TOKEN": "plantedSESSION",
    }
    query = "?X-Amz-Signature=plantedSIG&Expires=1"
    urls = [
        base + "/ok/" + FILE + query,
        base + "/ok/" + INDEX + query,
        base + "/ok/missing.safetensors" + query,
        base + "/explain-echo/" + FILE + query,
        base + "/login/" + FILE + query,
        base + "/signed/" + FILE + query,
        base.replace("//", "//user:plantedPW@") + "/ok/" + FILE + query,
        base.replace("http://", "HTTP://user:plantedPW@") + "/x",
        "ftp://user:plantedPW@host/x" + query,
        "hf://org/repo/" + FILE + query,
        "s3://bucket/key" + query,
    ]
    work = os.path.join(t.tmp, "secrets")
    os.makedirs(work)
    name = "model.embed_tokens.weight"
    commands = [
        ["ls"],
        ["ls", "--json"],
        ["ls", "-v", "--long"],
        ["check"],
        ["check", "--json"],
        ["hash"],
        ["hash", "--json", "--content"],
        ["hash", "--whole"],
        ["mem"],
        ["mem", "--json"],
        ["verify"],
        ["verify", "--json"],
        ["meta"],
        ["meta", "--json"],
        ["scan"],
        ["scan", "--json"],
        ["scan", "--sarif"],
        ["show"],
        ["show", "--json"],
        ["ls", "--nosuch"],
        ["ls", "--block-cache", "blocks"],
    ]
    done = 0
    for n, url in enumerate(urls):
        runs = [[*c, url] for c in commands]
        runs += [
            ["get", url, name, "-o", "g%d.npy" % n],
            ["cp", url, "c%d.safetensors" % n],
            ["cp", "--json", url, "d%d.safetensors" % n],
            ["diff", url, url],
            ["diff", "--json", url, urls[0]],
            ["convert", url, "-o", "e%d.safetensors" % n],
            ["fetch", url, "-o", "f%d" % n],
            ["fetch", "--json", url, "-o", "h%d" % n],
            ["ls", "--layout=" + url, urls[0]],
            ["split", url, "-o", "s%d" % n],
            ["fetch", "x", url],
            ["nosuch", url],
        ]
        for run in runs:
            got = subprocess.run(
                [t.args.tool, *run],
                cwd=work,
                env={**t.env, **env},
                capture_output=True,
                text=True,
                errors="replace",
                timeout=300,
                check=False,
            )
            said = got.stdout + got.stderr
            done += 1
            t.check("secrets: %s" % " ".join(run[:2]), not any(p in said for p in PLANTED), (run, said[:600]))
    for folder, folders, files in os.walk(work):
        for file in files + folders:
            t.check("name of a file", not any(p in file for p in PLANTED), file)
        for file in files:
            with open(os.path.join(folder, file), "rb") as f:
                data = f.read()
            t.check("a file", not any(p.encode() in data for p in PLANTED), os.path.join(folder, file))
    # two URLs that differ in their query alone are two files
    got = t.tool("diff", base + "/ok/" + FILE + "?a=1", base + "/weak/" + FILE + "?a=2", env=env)
    t.equal("diff of two", got.returncode, 0)
    # what `ps` shows
    slow = subprocess.Popen(
        [t.args.tool, "ls", base + "/silent/" + FILE + query],
        env={**t.env, **env},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        until = time.monotonic() + 60
        seen = b"planted"
        while b"planted" in seen and time.monotonic() < until:
            with open("/proc/%d/cmdline" % slow.pid, "rb") as f:
                seen = f.read()
            time.sleep(0.02)
        t.check("arguments", b"planted" not in seen and b"Signature" not in seen, seen)
    finally:
        slow.kill()
        slow.wait()
    print("%d commands with planted secrets" % done)


def pinned(t: harness.Tests) -> None:
    base = start(t)
    t.forget()
    t.probe("hash", base + "/ok/" + FILE)
    log = [
        e for e in t.logged() if e["path"].startswith("/ok/")
    ]  # a client that was killed may still be heard
    t.equal("first has no If-Range", log[0]["if_range"], "")
    t.check("later ones have", len(log) > 1 and all(e["if_range"] for e in log[1:]), log)
    t.forget()
    t.probe("hash", base + "/weak/" + FILE)
    t.check("a weak tag is none", not any(e["if_range"] for e in t.logged()), t.logged())


def boundaries(t: harness.Tests) -> None:
    """Every header length around the first read, and around where the second would begin."""
    base = start(t)
    first = 65536
    lengths = [n for n in range(first - 24, first + 25)] + [
        8 * k + d for k in (1000, 12500) for d in (-1, 0, 1)
    ]
    for n in lengths:
        path = t.put("edge.safetensors", harness.header_of(n, 100))
        got = t.probe("hash", base + "/ok/edge.safetensors")
        t.equal("header of %d" % n, (got["status"], got.get("tensors")), ("SFT_OK", 1))
        wanted = 1 if n + 8 + 100 <= first else 2 if n + 8 >= first - 100 else 3
        t.check("requests of %d" % n, got["requests"] <= max(wanted, 2) + 1, got["requests"])
        opened = t.probe("open", base + "/ok/edge.safetensors")
        t.equal("requests to open %d" % n, opened["requests"], 1 if n + 8 <= first else 2)
        t.equal("bytes to open %d" % n, opened["bytes"], min(max(first, n + 8), os.path.getsize(path)))
        if t.args.tool and n % 8 == 0:
            local = t.tool("hash", "--content", path).stdout.split()[0]
            t.equal("content of %d" % n, got.get("content"), local)
    for first in (8, 9, 16, 100, 999, 1000, 1001, 1007, 1008, 1009):
        t.put("edge.safetensors", harness.header_of(1000, 10))
        got = t.probe("first_bytes=%d" % first, "hash", base + "/ok/edge.safetensors")
        t.equal("first read of %d" % first, (got["status"], got.get("tensors")), ("SFT_OK", 1))


def caches(t: harness.Tests) -> None:
    base = start(t)
    url = base + "/ok/long.safetensors"
    data = harness.tensors_file({"a": harness.noise(3 << 20, 1), "b": b"end"})
    t.put("long.safetensors", data)
    ranges = ["100:2000", "500:100", "70000:5000", "2000000:1100000", "0:8", "%d:3" % (len(data) - 3)]
    plain = t.probe("read", url, *ranges)
    wanted = harness.hashlib.sha256()
    for r in ranges:
        offset, size = map(int, r.split(":"))
        wanted.update(data[offset : offset + size])
    t.equal("ranges", plain["sha256"], wanted.hexdigest())
    folder = os.path.join(t.tmp, "blocks")
    for nth in range(2):
        got = t.probe("disk_cache=" + folder, "read", url, *ranges)
        t.equal("disk cache %d" % nth, got["sha256"], wanted.hexdigest())
    t.equal("the first read alone was sent", got["requests"], 1)
    t.check("hits", got["cache_hits"] > 1100000, got)
    for name in os.listdir(folder):
        if name.endswith(".blocks"):
            with open(os.path.join(folder, name), "r+b") as f:
                f.seek(2100000)
                f.write(b"damage")
    got = t.probe("disk_cache=" + folder, "read", url, *ranges)
    t.equal("a damaged block is not believed", got["sha256"], wanted.hexdigest())
    t.check("and fetched again", got["requests"] > 1, got)
    t.put("long.safetensors", harness.tensors_file({"a": harness.noise(3 << 20, 2), "b": b"new"}))
    got = t.probe("disk_cache=" + folder, "read", url, *ranges)
    t.check("another version", got["status"] == "SFT_OK" and got["sha256"] != wanted.hexdigest(), got)
    t.probe("disk_cache=" + folder, "disk_cache_bytes=65536", "read", url, *ranges)
    used = sum(os.stat(os.path.join(folder, n)).st_blocks * 512 for n in os.listdir(folder))
    t.check("the limit", used <= 4 << 20, used)
    got = t.probe("memory_cache_bytes=65536", "hash", base + "/ok/" + INDEX)
    t.equal("a small cache", got["status"], "SFT_OK")


def hub_cache(t: harness.Tests) -> None:
    """The layout of huggingface_hub: refs, snapshots of links, blobs; offline and mixed."""
    base = start(t)
    cache = os.path.join(t.tmp, "hub")
    repo = os.path.join(cache, "models--org--repo")
    commit = "a" * 40
    snapshot = os.path.join(repo, "snapshots", commit)
    for folder in ("refs", "blobs", "snapshots/" + commit):
        os.makedirs(os.path.join(repo, folder))
    with open(os.path.join(repo, "refs", "main"), "w", encoding="utf-8") as f:
        f.write(commit)

    def keep(name: str) -> None:
        with open(os.path.join(t.files, name), "rb") as f:
            data = f.read()
        blob = harness.hashlib.sha256(data).hexdigest()
        with open(os.path.join(repo, "blobs", blob), "wb") as f:
            f.write(data)
        os.symlink("../../blobs/" + blob, os.path.join(snapshot, name))

    local = ["hf_endpoint=http://127.0.0.1:9", "hf_cache=" + cache]
    args = ["hf_endpoint=" + base + "/lfs", "hf_cache=" + cache]
    got = t.probe(*local, "offline=1", "open", "hf://org/repo")
    t.equal("offline, nothing there", (got["status"], got["requests"]), ("SFT_E_HTTP", 0))
    keep(INDEX)
    keep(FILE)
    got = t.probe(*local, "offline=1", "open", "hf://org/repo")
    t.equal("offline, a shard missing", (got["status"], got["requests"]), ("SFT_E_SHARD_MISSING", 0))
    other = start(t, "b")
    home = start(t, "a", other)
    got = t.probe("hf_endpoint=" + home + "/lfs", "hf_cache=" + cache, "hash", "hf://org/repo")
    t.equal("one shard from the hub", (got["status"], got.get("tensors")), ("SFT_OK", 29))
    t.check("and one from the cache", any("blobs" in p or cache in p for p in got["paths"]), got["paths"])
    keep("model-00002-of-00002.safetensors")
    for url in (
        "hf://org/repo",
        "hf://models/org/repo@main",
        "hf://org/repo@" + commit,
        "hf://org/repo/" + INDEX,
    ):
        got = t.probe(*local, "offline=1", "hash", url)
        t.equal(url, (got["status"], got.get("tensors"), got["requests"]), ("SFT_OK", 29, 0))
    got = t.probe(*args, "offline=1", "open", "hf://org/repo@other")
    t.equal("another revision", got["status"], "SFT_E_HTTP")
    got = t.probe("env=1", "hash", "hf://org/repo", env={"HF_HUB_CACHE": cache, "HF_HUB_OFFLINE": "1"})
    t.equal("by the environment", (got["status"], got["requests"]), ("SFT_OK", 0))
    got = t.probe("env=1", "open", "https://127.0.0.1:9/x", env={"HF_HUB_OFFLINE": "yes"})
    t.equal("offline means everything", got["status"], "SFT_E_HTTP")


def environment(t: harness.Tests) -> None:
    base = start(t)
    home = os.path.join(t.tmp, "home", ".cache", "huggingface")
    os.makedirs(home, exist_ok=True)
    with open(os.path.join(home, "token"), "w", encoding="utf-8") as f:
        f.write(TOKEN + "\n")
    pipe = os.path.join(t.tmp, "pipe")
    os.mkfifo(pipe)
    url = base + "/auth/" + FILE
    for env, good in (
        ({"HF_ENDPOINT": base}, True),
        ({"HF_ENDPOINT": base, "HF_TOKEN": " \t\n"}, True),
        ({"HF_ENDPOINT": base, "HF_TOKEN": " %s\n" % TOKEN, "HF_HOME": t.tmp}, True),
        ({"HF_ENDPOINT": base, "HF_TOKEN_PATH": pipe}, False),
        ({"HF_ENDPOINT": base, "HF_TOKEN_PATH": "/dev/null"}, False),
        ({"HF_ENDPOINT": base, "HF_TOKEN": TOKEN, "HF_HOME": t.tmp}, True),
        ({"HF_ENDPOINT": base, "HF_HOME": t.tmp}, False),
        ({"HF_ENDPOINT": base, "HF_HUB_DISABLE_IMPLICIT_TOKEN": "1"}, False),
        ({"HF_ENDPOINT": base, "HF_TOKEN_PATH": os.path.join(home, "token"), "HF_HOME": t.tmp}, True),
        (
            {"HF_ENDPOINT": base, "http_proxy": "http://198.51.100.7:9"},
            True,
        ),  # another machine is not asked for this one
        ({"HF_ENDPOINT": base, "all_proxy": "http://user:pw@no.such.host.invalid"}, True),
        ({"HF_ENDPOINT": base, "http_proxy": "http://127.0.0.1:1"}, False),
        ({}, False),
    ):
        got = t.probe("env=1", "retries=1", "open", url, env=env)
        t.equal(str(sorted(env)), got["status"] == "SFT_OK", good)
    got = t.probe("open", url, env={"HF_ENDPOINT": base, "HF_TOKEN": TOKEN})
    t.equal("not without being asked", got["status"], "SFT_E_HTTP")


def s3(t: harness.Tests) -> None:
    """Signatures are checked by a second implementation, from the specification."""
    base = start(t)
    args = ["s3_endpoint=" + base + "/s3", "s3_access_key=test-key", "s3_secret_key=test/secret+key"]
    t.put("dir/sp ace+&.safetensors", harness.tensors_file({"x": b"12345"}))
    got = t.probe(*args, "hash", "s3://bucket/" + INDEX)
    t.equal("signed", (got["status"], got.get("tensors")), ("SFT_OK", 29))
    got = t.probe(*args, "hash", "s3://bucket/dir/sp ace+&.safetensors")
    t.equal("a key with blanks", (got["status"], got.get("tensors")), ("SFT_OK", 1))
    got = t.probe(*args, "s3_session_token=session", "s3_region=eu-west-3", "open", "s3://bucket/" + FILE)
    t.equal("session, region", got["status"], "SFT_OK")
    t.check("session", t.logged()[-1]["security_token"], t.logged()[-1])
    got = t.probe(args[0], args[1], "s3_secret_key=wrong", "open", "s3://bucket/" + FILE)
    t.equal("wrong secret", (got["status"], got["sys"]), ("SFT_E_HTTP", 403))
    t.check("said", "although a credential was sent" in got["message"], got["message"])
    got = t.probe(args[0], "open", "s3://bucket/" + FILE)
    t.equal("unsigned", (got["status"], got["sys"]), ("SFT_E_HTTP", 403))
    env = {
        "AWS_ENDPOINT_URL": base + "/s3",
        "AWS_ACCESS_KEY_ID": "test-key",
        "AWS_SECRET_ACCESS_KEY": "test/secret+key",
        "AWS_DEFAULT_REGION": "us-west-2",
    }
    got = t.probe("env=1", "open", "s3://bucket/" + FILE, env=env)
    t.equal("by the environment", got["status"], "SFT_OK")


def tls(t: harness.Tests) -> None:
    """A certificate of our own authority: refused without it, accepted with it; never from https to http."""
    pem = {name: os.path.join(t.tmp, name + ".pem") for name in ("ca", "ca-key", "key", "cert", "req")}
    conf = os.path.join(t.tmp, "ext")
    with open(conf, "w", encoding="utf-8") as f:
        f.write("subjectAltName=IP:127.0.0.1\n")

    def openssl(*args: str) -> None:
        subprocess.run(["openssl", *args], check=True, capture_output=True)

    new = ["req", "-newkey", "rsa:2048", "-nodes"]
    openssl(
        *new,
        "-x509",
        "-keyout",
        pem["ca-key"],
        "-out",
        pem["ca"],
        "-days",
        "2",
        "-subj",
        "/CN=test authority",
    )
    openssl(*new, "-keyout", pem["key"], "-out", pem["req"], "-subj", "/CN=127.0.0.1")
    openssl(
        "x509",
        "-req",
        "-in",
        pem["req"],
        "-CA",
        pem["ca"],
        "-CAkey",
        pem["ca-key"],
        "-CAcreateserial",
        "-out",
        pem["cert"],
        "-days",
        "2",
        "-extfile",
        conf,
    )
    base = start(t, "tls", tls=(pem["cert"], pem["key"]))
    plain = start(t, "plain")
    got = t.probe("open", base + "/ok/" + FILE)
    t.equal("unknown authority", got["status"], "SFT_E_HTTP")
    t.check("unknown authority", "TLS: " in got["message"] and got["requests"] == 1, got)
    got = t.probe("ca_file=" + pem["ca"], "hash", base + "/ok/" + INDEX)
    t.equal("known authority", (got["status"], got.get("tensors")), ("SFT_OK", 29))
    got = t.probe("ca_file=" + pem["ca"], "open", base.replace("127.0.0.1", "localhost") + "/ok/" + FILE)
    t.equal("another name", got["status"], "SFT_E_HTTP")
    t.check("another name", "TLS: " in got["message"], got)
    t.forget()
    to = urllib.parse.quote(plain + "/ok/" + FILE, safe="")
    got = t.probe("ca_file=" + pem["ca"], "open", base + "/to/" + to)
    t.equal("downgrade", got["status"], "SFT_E_PATH")
    t.check("downgrade", "it leads from https to http" in got["message"], got)
    t.check("downgrade", not any(e["server"] == "plain" for e in t.logged()), t.logged())
    got = t.probe("open", plain.replace("http:", "https:") + "/ok/" + FILE)
    t.equal("no TLS there", got["status"], "SFT_E_HTTP")


def fetched(t: harness.Tests) -> None:
    base = start(t)
    out = os.path.join(t.tmp, "out")
    got = t.probe("fetch", base + "/ok/" + INDEX, out)
    t.equal("all", (got["status"], got["published"]), ("SFT_OK", 3))
    for name in (FILE, "model-00002-of-00002.safetensors", INDEX):
        t.equal(name, harness.sha256(os.path.join(out, name)), harness.sha256(os.path.join(t.files, name)))
    t.equal("nothing else", len(os.listdir(out)), 3)
    got = t.probe("fetch", base + "/ok/" + INDEX, out)
    t.equal("again", got["status"], "SFT_E_EXISTS")
    # verified by what the hub tells
    home = start(t, "home", base)
    args = ["hf_endpoint=" + home + "/lfs"]
    out = os.path.join(t.tmp, "out2")
    got = t.probe(*args, "fetch", "hf://org/repo/" + INDEX, out)
    t.equal("verified", (got["status"], got["published"], got["verified"]), ("SFT_OK", 3, 3))
    got = t.probe(*args, "fetch", "hf://org/repo/" + INDEX, out)
    t.equal("kept", (got["status"], got["published"], got["kept"]), ("SFT_OK", 0, 3))
    # what an index names is weights in plain sight, or nothing is written
    out = os.path.join(t.tmp, "plain")
    data = harness.tensors_file({"x": b"12345"})
    for name in (
        ".bashrc",
        ".hidden.safetensors",
        "a/.b/c.safetensors",
        ".sft-part",
        "-f",
        "-f.safetensors",
        "~",
        "config.json",
        "model.safetensors.part",
        "model.safetensors.part.journal",
        "m\u202e.safetensors",
        ".safetensors",
    ):
        t.put("named/" + name, data)
        t.put("named/" + INDEX, json.dumps({"weight_map": {"x": name}}).encode())
        t.equal(
            "fetch names " + ascii(name),
            t.probe("fetch", base + "/ok/named/" + INDEX, out)["status"],
            "SFT_E_PATH",
        )
        t.equal("nothing of " + ascii(name), os.path.exists(out) and os.listdir(out), False)
    for name in ("a b.safetensors", "parts/m-1.of~2.safetensors", "\u6a21\u578b.safetensors"):
        t.put("named/" + name, data)
        t.put("named/" + INDEX, json.dumps({"weight_map": {"x": name}}).encode())
        t.equal(
            "fetch names " + ascii(name),
            t.probe("fetch", base + "/ok/named/" + INDEX, out)["status"],
            "SFT_OK",
        )
        t.check("there is " + ascii(name), os.path.exists(os.path.join(out, name)))
        shutil.rmtree(out)
    # a selection
    out = os.path.join(t.tmp, "out3")
    got = t.probe("keep=norm", "fetch", base + "/ok/" + INDEX, out)
    t.equal("selection", (got["status"], os.listdir(out)), ("SFT_OK", ["model.safetensors"]))
    got = t.probe("keep=nothing-is-called-so", "fetch", base + "/ok/" + INDEX, os.path.join(t.tmp, "out4"))
    t.equal("none", got["status"], "SFT_E_NOT_FOUND")
    # whatever goes wrong, nothing is published
    t.put("wide.safetensors", harness.tensors_file({"a": harness.noise(9 << 20, 3)}))
    for kind, status in (
        ("etag", "SFT_E_CHANGED"),
        ("short", "SFT_E_HTTP"),
        ("range-total", "SFT_E_CHANGED"),
    ):
        out = os.path.join(t.tmp, "bad-" + kind)
        got = t.probe("fetch", "%s/%s/wide.safetensors" % (base, kind), out)
        t.equal(kind, got["status"], status)
        there = os.listdir(out) if os.path.isdir(out) else []
        t.check(kind + " publishes nothing", all(n.startswith(".") for n in there), there)


def uneven(t: harness.Tests) -> None:
    """One connection of four is forty times slower: the others take over what it has left."""
    base = start(t)
    t.put("uneven.safetensors", harness.tensors_file({"a": harness.noise(64 << 20, 11)}))
    t.probe("open", base + "/ok/uneven.safetensors")  # the server has read the file
    out = os.path.join(t.tmp, "uneven")
    t.forget()
    got = t.probe("connections=4", "fetch", base + "/uneven/uneven.safetensors", out)
    t.equal("uneven", (got["status"], got["retries"]), ("SFT_OK", 0))
    t.equal(
        "uneven",
        harness.sha256(os.path.join(out, "uneven.safetensors")),
        harness.sha256(os.path.join(t.files, "uneven.safetensors")),
    )
    log = [e["range"][6:].split("-") for e in t.logged()[1:]]
    first = max((int(b) - int(a) + 1 for a, b in log), default=0)
    t.check("the slow one is helped", len(log) > 4 and got["ms"] < first / 1e6 * 1e3 * 0.8, (got["ms"], log))
    t.check("little comes twice", got["bytes"] < (64 << 20) * 1.3, got["bytes"])


def journals(folder: str) -> list[bytes]:
    found = []
    for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else ():
        if name.endswith(".journal"):
            with open(os.path.join(folder, name), "rb") as f:
                found.append(f.read())
    return found


def killed(t: harness.Tests) -> None:
    """Fifty kills at moments of chance, and some damage meanwhile; then it ends, and the bytes are equal."""
    server = hostile_server.start(t.files, t.log, "a")
    base = "http://127.0.0.1:%d" % server.server_address[1]
    names = []
    for i in range(2):
        names.append("k%d.safetensors" % i)
        t.put(names[-1], harness.tensors_file({"t%d" % i: harness.noise((90 << 20) + i, i)}))
    weights = {"t%d" % i: n for i, n in enumerate(names)}
    names.append("k.safetensors.index.json")
    t.put(names[-1], json.dumps({"weight_map": weights}).encode())
    url = base + "/ok/k.safetensors.index.json"
    t.probe("open", url)  # the server has read the files
    whole = {n: harness.sha256(os.path.join(t.files, n)) for n in names}
    server.state.rate = 20e6
    out = os.path.join(t.tmp, "killed")
    rng = random.Random(7)
    kills = ends = 0
    while kills < 50:
        args = [t.args.probe, *harness.PATIENT, "connections=2", "fetch", url, out]
        known = journals(out)
        p = subprocess.Popen(args, env=t.env, stdout=subprocess.DEVNULL)
        time.sleep(rng.uniform(0.01, 0.3))
        while kills % 10 == 9 and journals(out) == known and p.poll() is None:
            time.sleep(0.01)  # however busy the machine is: now and then something is done before the end
        if p.poll() is not None:  # a busy machine sleeps longer than it was told to: once more from the start
            ends += 1
            t.check(
                "ended before it was killed", p.returncode == 0 and ends < 20, (p.returncode, kills, ends)
            )
            shutil.rmtree(out)
            continue
        p.send_signal(signal.SIGKILL)
        p.wait()
        there = os.listdir(out) if os.path.isdir(out) else []
        kills += 1
        half = [
            n for n in there if not n.startswith(".") and harness.sha256(os.path.join(out, n)) != whole[n]
        ]
        t.check("nothing half is published", not half, there)
        parts = [os.path.join(out, n) for n in there if n.endswith(".part")]
        if kills % 10 == 5 and parts:
            with open(rng.choice(parts), "r+b") as f:
                f.seek(rng.randrange(80 << 20))
                f.write(b"damage")
    server.state.rate = 0.0
    got = t.probe("fetch", url, out)
    t.equal("ends", (got["status"], got["published"]), ("SFT_OK", 3))
    for name in names:
        t.equal(name, harness.sha256(os.path.join(out, name)), whole[name])
    t.check("resumed", got["resumed"] > 0, got)
    print("killed 50 times; the last run found %d of %d bytes" % (got["resumed"], got["fetched_bytes"]))


def allocations(t: harness.Tests) -> None:
    """Every allocation of the library fails in turn, against this server."""
    if t.args.fault is None:
        return
    other = start(t, "other")
    base = start(t, "a", other)
    for url in (base + "/ok/" + FILE, base + "/lfs/" + INDEX):
        args = [t.args.fault, url, os.path.join(t.tmp, "fault")]
        done = subprocess.run(args, env=t.env, capture_output=True, text=True, timeout=300, check=False)
        t.equal(url, done.returncode, 0)
        if done.returncode != 0:
            print(done.stdout[-2000:], done.stderr[-2000:])
        else:
            print(url.rsplit("/", 2)[1], done.stdout.strip())


if __name__ == "__main__":
    tests = harness.Tests()
    sys.exit(
        tests.run(
            misbehaviour,
            several,
            refused_urls,
            shard_names,
            credentials,
            reasons,
            capped,
            signed_again,
            secrets,
            pinned,
            boundaries,
            caches,
            hub_cache,
            environment,
            s3,
            tls,
            fetched,
            uneven,
            killed,
            allocations,
        )
    )
