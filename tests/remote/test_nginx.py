# SPDX-License-Identifier: Apache-2.0 OR MIT
"""test_nginx.py - the tool through a real server says what it says of local files: nginx over HTTP/1.1, HTTP/2 with TLS,
behind S3 signatures; and nginx configured to misbehave. Standard library only."""

from __future__ import annotations

import grp
import json
import os
import pwd
import random
import shutil
import signal
import socket
import subprocess
import sys
import time

import harness
import hostile_server

INDEX = "model.safetensors.index.json"
FILE = "model-00001-of-00002.safetensors"
CONF = """
{user}daemon off; worker_processes 2; pid {tmp}/nginx.pid; error_log {tmp}/error.log;
events {{ worker_connections 512; }}
http {{
  access_log {tmp}/access.log; default_type application/octet-stream; sendfile on; tcp_nodelay on;
  client_body_temp_path {tmp}/b; proxy_temp_path {tmp}/p; fastcgi_temp_path {tmp}/f;
  uwsgi_temp_path {tmp}/u; scgi_temp_path {tmp}/s;
  server {{ listen 127.0.0.1:{plain}; root {root};
    location /norange/ {{ alias {root}/; max_ranges 0; }}
    location /noetag/ {{ alias {root}/; etag off; }}
    location /gzip/ {{ alias {root}/; gzip on; gzip_types *; gzip_min_length 1; gzip_proxied any; }}
    location /limit/ {{ alias {root}/; limit_rate 2m; }}
    location /move/ {{ return 307 http://127.0.0.1:{plain}/$request_uri; }}
    location /busy/ {{ return 503; }}
    location /away/ {{ rewrite ^/away/(.*)$ http://127.0.0.1:{plain}/$1 redirect; }}
  }}
  server {{ listen 127.0.0.1:{tls} ssl http2; root {root}; ssl_protocols TLSv1.2 TLSv1.3;
    ssl_certificate {cert}; ssl_certificate_key {key}; }}
}}
"""


def free_port() -> int:
    """Below the ports that the system gives to connections: none of those can take it before nginx does."""
    try:
        with open("/proc/sys/net/ipv4/ip_local_port_range", encoding="ascii") as f:
            first = int(f.read().split()[0])
    except OSError:
        first = 32768
    while True:
        port = random.randrange(max(1025, first - 16384), first) if first > 2048 else 0
        with socket.socket() as s:
            try:
                s.bind(("127.0.0.1", port))
                return s.getsockname()[1]
            except OSError:
                pass


def certificate(t: harness.Tests) -> tuple[str, str]:
    key, cert = (os.path.join(t.tmp, n) for n in ("nginx-key.pem", "nginx-cert.pem"))
    subprocess.run(
        [
            "openssl",
            "req",
            "-x509",
            "-newkey",
            "rsa:2048",
            "-nodes",
            "-keyout",
            key,
            "-out",
            cert,
            "-days",
            "2",
            "-subj",
            "/CN=127.0.0.1",
            "-addext",
            "subjectAltName=IP:127.0.0.1",
        ],
        check=True,
        capture_output=True,
    )
    return key, cert


class Nginx:
    def __init__(self, t: harness.Tests) -> None:
        key, self.cert = certificate(t)
        program = shutil.which("nginx", path=os.environ.get("PATH", "") + ":/usr/sbin:/usr/local/sbin")
        if program is None:
            raise RuntimeError("nginx is not installed: scripts/bootstrap.sh test installs it")
        for _ in range(5):
            if self.start(t, program, key):
                return
        raise RuntimeError("nginx did not start: " + open(os.path.join(t.tmp, "error.log")).read()[-500:])

    def start(self, t: harness.Tests, program: str, key: str) -> bool:
        """False: somebody else has taken one of the ports meanwhile."""
        plain, tls = free_port(), free_port()
        conf = os.path.join(t.tmp, "nginx.conf")
        user = ""
        if os.geteuid() == 0:  # else its workers run as another user, whom our folders are closed to
            user = "user %s %s; " % (pwd.getpwuid(0).pw_name, grp.getgrgid(os.getegid()).gr_name)
        with open(conf, "w", encoding="utf-8") as f:
            f.write(
                CONF.format(tmp=t.tmp, root=t.files, plain=plain, tls=tls, key=key, cert=self.cert, user=user)
            )
        self.process = subprocess.Popen(
            [program, "-p", t.tmp, "-c", conf, "-e", os.path.join(t.tmp, "error.log")],
            stderr=subprocess.DEVNULL,
        )
        self.plain = "http://127.0.0.1:%d" % plain
        self.tls = "https://127.0.0.1:%d" % tls
        until = time.monotonic() + 120
        while time.monotonic() < until and self.process.poll() is None:
            if os.path.exists(os.path.join(t.tmp, "nginx.pid")):  # written when it listens
                with socket.socket() as s:
                    if s.connect_ex(("127.0.0.1", plain)) == 0:
                        return True
            time.sleep(0.05)
        self.process.kill()
        self.process.wait()
        return False

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        self.process.wait()


SERVER: list[Nginx] = []
COMMANDS = [
    ["ls", "{}"],
    ["ls", "--json", "{}"],
    ["ls", "--long", "--sort", "size", "{}"],
    ["ls", "--fold", "{}"],
    ["check", "{}"],
    ["check", "--json", "--strict", "{}"],
    ["show", "{}"],
    ["show", "--json", "{}"],
    ["mem", "--dtype", "F16", "{}"],
    ["hash", "{}"],
    ["hash", "--content", "--json", "{}"],
    ["hash", "--tensors", "{}"],
    ["meta", "{}"],
]


def make_files(t: harness.Tests) -> list[str]:
    """The model, and the files of the golden tests: valid ones and all kinds of broken ones."""
    fixtures = os.path.join(os.path.dirname(harness.HERE), "cli", "fixtures.py")
    gold = os.path.join(t.files, "gold")  # not beside the model: the index does not name them
    if not os.path.isdir(gold):
        subprocess.run([sys.executable, fixtures, gold], check=True)
    names = [INDEX, FILE]
    for name in sorted(os.listdir(gold)):
        path = os.path.join(gold, name)
        if (
            os.path.isfile(path)
            and name.endswith((".safetensors", ".index.json"))
            and os.path.getsize(path) < 1 << 22
        ):
            names.append("gold/" + name)
    return names


def compare(
    t: harness.Tests, names: list[str], base: str, *options: str, env: dict[str, str] | None = None
) -> int:
    """Output, messages and exit status of every command, the name of the file aside."""
    count = 0
    for name in names:
        for command in COMMANDS:
            local = t.tool(*[a.format(os.path.join(t.files, name)) for a in command])
            there = t.tool(*[a.format(base + name) for a in command], *options, env=env)
            wanted = [s.replace(t.files + "/", "@/") for s in (local.stdout, local.stderr)]
            got = [s.replace(base, "@/") for s in (there.stdout, there.stderr)]
            if env is not None:  # files of s3:// are told by their URLs
                got = [s.replace(env["BASE"], "@/") for s in got]
            # hints look into a local file; a URL's first bytes are not fetched once more for them
            wanted, got = [
                [line for text in both for line in text.split("\n") if "hint: " not in line]
                for both in (wanted, got)
            ]
            t.equal("%s %s" % (command[0], name), (there.returncode, got), (local.returncode, wanted))
            count += 1
    return count


def as_local(t: harness.Tests) -> None:
    server = SERVER[0]
    names = make_files(t)
    n = compare(t, names, server.plain + "/")
    print("%d commands on %d files say the same through nginx" % (n, len(names)))
    t.check("enough files", len(names) > 10, names)
    env = {"SSL_CERT_FILE": server.cert, "BASE": server.tls + "/"}
    compare(t, [INDEX, FILE], server.tls + "/", env=env)
    # opened twice over one HTTP/2 connection that may still be in use: was refused now and then
    for _ in range(20):
        done = t.tool("check", "--strict", server.tls + "/" + INDEX, env=env)
        t.check("strict again", done.returncode == 0 and "ok" in done.stdout, done.stdout + done.stderr)
    with open(os.path.join(t.tmp, "access.log"), encoding="utf-8") as f:
        t.check("HTTP/2 was spoken", "HTTP/2.0" in f.read())


def through_s3(t: harness.Tests) -> None:
    s3 = hostile_server.start(t.files, t.log, "s3")
    base = "http://127.0.0.1:%d/s3" % s3.server_address[1]
    env = {
        "AWS_ENDPOINT_URL": base,
        "AWS_ACCESS_KEY_ID": "test-key",
        "AWS_SECRET_ACCESS_KEY": "test/secret+key",
        "BASE": base + "/bucket/",
    }
    n = compare(t, make_files(t)[:6], "s3://bucket/", env=env)
    print("%d commands say the same through signed S3 requests" % n)


def data(t: harness.Tests) -> None:
    """Slices, copies, differences; every byte that came equals the local one."""
    server = SERVER[0]
    local = os.path.join(t.files, INDEX)
    url = server.plain + "/" + INDEX
    out = [os.path.join(t.tmp, n) for n in ("a.npy", "b.npy")]
    for tensor in (
        "model.embed_tokens.weight",
        "model.embed_tokens.weight[3:200:7, ::-2]",
        "model.norm.weight[5]",
    ):
        for place, to in ((local, out[0]), (url, out[1])):
            t.equal(tensor, t.tool("get", "-f", place, tensor, "-o", to).returncode, 0)
        t.equal(tensor, harness.sha256(out[0]), harness.sha256(out[1]))
    t.equal("diff", t.tool("diff", url, local).returncode, 0)
    copies = [os.path.join(t.tmp, n) for n in ("a.safetensors", "b.safetensors")]
    for place, to in ((local, copies[0]), (url, copies[1])):
        done = t.tool("cp", "-f", "--cast", "BF16", "-s", "model.layers.*", place, to)
        said = [
            line
            for line in done.stderr.splitlines()
            if not ("left out: " in line and "not carried along" in line)
        ]
        t.equal("cp", (done.returncode, said), (0, []))  # what else the local directory holds is named
    t.equal("cp", harness.sha256(copies[0]), harness.sha256(copies[1]))
    t.check("cp to a URL", t.tool("cp", local, server.plain + "/x.safetensors").returncode != 0)
    got = t.probe("threads=4", "load", url)
    t.equal("load", (got["status"], got["loaded"]), ("SFT_OK", 255744))


def threads(t: harness.Tests) -> None:
    """Eight threads load and hash many tensors through one sft_remote, over HTTP/1.1 and HTTP/2."""
    many = {"t%d" % i: harness.noise(1000 * i % 70000 + 1, i) for i in range(400)}
    path = t.put("many.safetensors", harness.tensors_file(many))
    local = t.tool("hash", "--content", path).stdout.split()[0]
    for base, more in ((SERVER[0].plain, []), (SERVER[0].tls, ["ca_file=" + SERVER[0].cert])):
        for cache in ([], ["memory_cache_bytes=100000"], ["disk_cache=" + os.path.join(t.tmp, "blocks")]):
            args = ["threads=8", *more, *cache]
            got = t.probe(*args, "hash", base + "/many.safetensors")
            t.equal("hash %s %s" % (base, cache), (got["status"], got.get("content")), ("SFT_OK", local))
            got = t.probe(*args, "load", base + "/many.safetensors")
            t.equal("load %s %s" % (base, cache), got["loaded"], sum(map(len, many.values())))


def misbehaving(t: harness.Tests) -> None:
    base = SERVER[0].plain
    for where, status, text in (
        ("norange", "SFT_OK", ""),
        ("noetag", "SFT_OK", ""),
        ("limit", "SFT_OK", ""),
        ("away", "SFT_OK", ""),
        ("busy", "SFT_E_HTTP", "HTTP 503"),
        ("missing", "SFT_E_HTTP", "HTTP 404"),
        ("move", "SFT_E_HTTP", "more than 5 redirects"),
    ):
        got = t.probe("hash", "%s/%s/%s" % (base, where, FILE))
        t.equal(where, got["status"], status)
        t.check(where, text in got["message"], got["message"])
    got = t.probe("hash", base + "/gzip/" + FILE)  # identity was asked for, and nginx obeys
    t.equal("gzip", got["status"], "SFT_OK")
    t.put("change.safetensors", harness.tensors_file({"a": harness.noise(12 << 20, 1)}))
    path = os.path.join(t.files, "change.safetensors")
    with open(path + ".new", "wb") as f:
        f.write(harness.tensors_file({"a": harness.noise(12 << 20, 2)}))
    os.utime(path + ".new", (1e9, 1e9))  # an ETag of nginx is made of the time in seconds, and the size
    args = ["connections=1", "read", base + "/limit/change.safetensors"]
    args += ["%d000000:3000000" % n for n in (0, 4, 8)]  # one after the other, more than a second each
    p = subprocess.Popen(
        [t.args.probe, *harness.PATIENT, *args], stdout=subprocess.PIPE, text=True, env=t.env
    )
    begun = time.monotonic()
    while time.monotonic() - begun < 120:  # until nginx has answered the first of its requests
        with open(os.path.join(t.tmp, "access.log"), encoding="utf-8") as f:
            if "/limit/change.safetensors" in f.read():
                break
        time.sleep(0.02)
    os.rename(path + ".new", path)
    said = p.communicate(timeout=300)[0]
    t.check("changed in the middle", '"SFT_E_CHANGED"' in said and "its ETag is" in said, said)


def foreign(t: harness.Tests) -> None:
    """Files of other formats: what is said and made of them is what is said and made of local ones."""
    fixtures = os.path.join(os.path.dirname(harness.HERE), "import", "fixtures")
    names = sorted(n for n in os.listdir(fixtures) if n.endswith(".pt"))
    t.check("fixtures", len(names) >= 3, names)
    for name in names:
        shutil.copy(os.path.join(fixtures, name), t.files)
    n = compare_with(
        t,
        names,
        [
            ["ls", "{}"],
            ["show", "{}"],
            ["hash", "--content", "{}"],
            ["scan", "{}"],
            ["scan", "--json", "{}"],
            ["convert", "--plan", "{}", "-o", "x"],
        ],
    )
    print("%d commands on %d foreign files say the same" % (n, len(names)))
    t.check("commands", n == 6 * len(names), n)
    for name in names:
        made = []
        for place in (os.path.join(t.files, name), SERVER[0].plain + "/" + name):
            made.append(os.path.join(t.tmp, "made%d.safetensors" % len(made)))
            done = t.tool("convert", "-f", "--verify", place, "-o", made[-1])
            said = [
                line
                for line in done.stderr.splitlines()
                if "warning: left out: " not in line and "share with others" not in line
            ]
            t.equal("convert " + place, (done.returncode, said), (0, []))
        t.equal("convert " + name, harness.sha256(made[1]), harness.sha256(made[0]))
        t.equal(
            "diff", t.tool("diff", SERVER[0].plain + "/" + name, os.path.join(t.files, name)).returncode, 0
        )
    gone = t.tool("scan", SERVER[0].plain + "/nothing.pt")
    t.check("scan of nothing", gone.returncode == 3 and "HTTP 404" in gone.stderr, gone.stderr)


def compare_with(t: harness.Tests, names: list[str], commands: list[list[str]]) -> int:
    count = 0
    for name in names:
        for command in commands:
            local = t.tool(*[a.format(os.path.join(t.files, name)) for a in command])
            there = t.tool(*[a.format(SERVER[0].plain + "/" + name) for a in command])
            wanted = [s.replace(t.files + "/", "@/") for s in (local.stdout, local.stderr)]
            got = [s.replace(SERVER[0].plain + "/", "@/") for s in (there.stdout, there.stderr)]
            t.equal("%s %s" % (command, name), (there.returncode, got), (local.returncode, wanted))
            count += 1
    return count


def conformance(t: harness.Tests) -> None:
    """Every conformance case as a file behind nginx and behind signed S3 requests: the verdict that is written there."""
    sys.path.insert(0, os.path.join(os.path.dirname(harness.HERE), "conformance"))
    import read_cases  # pylint: disable=import-outside-toplevel,import-error

    folder = os.path.join(os.path.dirname(harness.HERE), "conformance", "cases")
    s3 = hostile_server.start(t.files, t.log, "s3")
    env = {
        "AWS_ENDPOINT_URL": "http://127.0.0.1:%d/s3" % s3.server_address[1],
        "AWS_ACCESS_KEY_ID": "test-key",
        "AWS_SECRET_ACCESS_KEY": "test/secret+key",
    }
    count = 0
    for group in sorted(os.listdir(folder)):
        for case in read_cases.cases(os.path.join(folder, group)):
            if case["ours"]:  # limits and strictness are given through the C interface
                continue
            name = "case%d.safetensors" % count
            t.put(name, case["file"])
            for url, more in ((SERVER[0].plain + "/" + name, {}), ("s3://bucket/" + name, env)):
                done = (
                    t.tool("ls", "--json", url, env=more)
                    if case["want"]
                    else t.tool("check", "--json", url, env=more)
                )
                label = "%s %s" % (case["name"], url)
                try:
                    told = [json.loads(line) for line in done.stdout.splitlines()]
                    if case["want"]:
                        got = ["ok", str(len(told[0]["tensors"]))]
                    else:
                        e = told[0]["error"]
                        got = [e["status"], "-" if e["offset"] is None else str(e["offset"])]
                    t.equal(label, (done.returncode, got), (0 if case["want"] else 1, case["wanted"][:2]))
                except (ValueError, KeyError, IndexError, TypeError) as e:
                    t.check(label, False, (repr(e), done.stdout[:300], done.stderr[:300]))
            os.remove(os.path.join(t.files, name))
            count += 1
    print("%d conformance cases have their verdict through nginx and S3" % count)
    t.check("cases", count > 100, count)


def ranks(t: harness.Tests) -> None:
    """What a rank gets, through a URL and of the local model; all ranks joined again are the model."""
    layout = os.path.join(t.tmp, "plan.json")
    with open(layout, "w", encoding="utf-8") as f:
        f.write(
            '{"tp_plan": {"layers.*.self_attn.q_proj": "colwise", "layers.*.mlp.down_proj": "rowwise"}, '
            '"tp_size": 4}'
        )
    local, url = os.path.join(t.files, INDEX), SERVER[0].plain + "/" + INDEX
    mem = [t.tool("mem", "--json", "--layout", layout, place).stdout for place in (local, url)]
    t.equal("mem", mem[1].replace(url, local), mem[0])
    told = json.loads(mem[0])
    t.equal("ranks", len(told["ranks"]), 4)
    for k in range(4):
        rank = ["--layout", layout, "--rank", "%d/4" % k]
        own = json.loads(t.tool("mem", "--json", *rank, url).stdout)
        t.equal("mem of a rank", own["total"], told["ranks"][k])
        folder, sliced = os.path.join(t.tmp, "rank%d" % k), os.path.join(t.tmp, "sliced%d.safetensors" % k)
        done = t.tool("fetch", *rank, "-o", folder, url)
        told_by_fetch = done.stderr
        t.check(
            "fetch says what the layout does not name",
            done.returncode == 0 and "23 of 29 tensors" in done.stderr,
            done,
        )
        done = t.tool("slice", "--layout", layout, "--rank", str(k), local, "-o", sliced)
        said = [line for line in done.stderr.splitlines() if ": warning: " not in line]
        t.equal("slice", (done.returncode, said), (0, []))
        named = [
            [line.split("warning: ")[1] for line in text.splitlines() if "of 29 tensors" in line]
            for text in (done.stderr, told_by_fetch)
        ]
        t.equal("both warn", *named)
        got = os.path.join(folder, "model.safetensors")
        t.equal("rank %d" % k, harness.sha256(got), harness.sha256(sliced))
        t.equal("listed", json.loads(t.tool("mem", "--json", got).stdout)["total"], own["total"])
    for wrong in (["--rank", "4"], ["--rank", "1/3"], ["--rank", "x"], ["--rank", "1/"], ["--rank", "-1"]):
        t.equal(str(wrong), t.tool("mem", "--layout", layout, *wrong, url).returncode, 2)
    t.equal("no layout", t.tool("fetch", "--rank", "0", "-o", t.tmp + "/none", url).returncode, 2)


def starting(t: harness.Tests) -> None:
    """A local file is listed without libcurl being opened."""
    strace = shutil.which("strace")
    t.check("strace is there", strace is not None)
    if strace is None:
        return

    def opened(*args: str) -> str:
        log = os.path.join(t.tmp, "strace")
        subprocess.run(
            [strace, "-f", "-o", log, "-e", "trace=openat,open", t.args.tool, *args],
            env=t.env,
            capture_output=True,
            check=False,
        )
        with open(log, encoding="utf-8", errors="replace") as f:
            return f.read()

    local = opened("ls", os.path.join(t.files, FILE))
    t.check("local", "curl" not in local, local)
    remote = opened("ls", SERVER[0].plain + "/" + FILE)
    t.check("remote", "libcurl" in remote, remote[-500:])


if __name__ == "__main__":
    tests = harness.Tests()
    SERVER.append(Nginx(tests))
    status = tests.run(
        as_local, through_s3, data, conformance, foreign, threads, ranks, misbehaving, starting
    )
    SERVER[0].stop()
    sys.exit(status)
