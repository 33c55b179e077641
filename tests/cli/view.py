#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The server of `safetensors view`, asked by sockets and by http.client: view.py --tool TOOL. It answers its own
page to whoever knows the token, and nothing else to anybody."""

from __future__ import annotations

import argparse
import http.client
import json
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import threading
import time


def model(path):
    header = json.dumps({"a<b": {"dtype": "F32", "shape": [4], "data_offsets": [0, 16]}}).encode()
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(header)) + header + struct.pack("<4f", 1, 2, 3, 4))


class Server:
    def __init__(self, tool, *arguments, prefix=()):
        self.process = subprocess.Popen(
            [*prefix, tool, "view", "--no-browser", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.url = self.process.stdout.readline().strip()
        found = re.fullmatch(r"http://127\.0\.0\.1:(\d+)(/[0-9a-f]{32}/)", self.url)
        assert found, (self.url, self.process.stderr.read() if self.process.poll() is not None else "")
        self.port, self.path = int(found[1]), found[2]

    def raw(self, data, wait=5.0):
        with socket.create_connection(("127.0.0.1", self.port), timeout=wait) as s:
            s.sendall(data)
            got = b""
            while part := s.recv(65536):
                got += part
            return got

    def status(self, data):
        return int(self.raw(data).split(b" ", 2)[1])

    def ask(self, method="GET", path=None, **fields):
        host = fields.pop("Host", f"127.0.0.1:{self.port}")
        lines = [f"{method} {self.path if path is None else path} HTTP/1.1", f"Host: {host}"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in fields.items()]
        return self.status(("\r\n".join(lines) + "\r\n\r\n").encode())

    def end(self, how=signal.SIGINT):
        self.process.send_signal(how)
        out, err = self.process.communicate(timeout=20)
        return self.process.returncode, out, err


def without_model(tool):
    """The files of a folder, by their names, and no others."""
    os.makedirs("site/folder")
    files = {
        "index.html": ("", b"<!doctype html>", "text/html; charset=utf-8"),
        "page-1.js": ("page-1.js", b"let a;" * 20000, "text/javascript; charset=utf-8"),
        "page.css": ("page.css", b"", "text/css; charset=utf-8"),
        "r.wasm": ("r.wasm", bytes(range(256)) * 5000, "application/wasm"),
    }
    hidden = ("folder/in.js", ".secret.js", "notes.txt", "key", "a b.js", "\u00e9.js", "m.safetensors")
    for name, data in [(n, f[1]) for n, f in files.items()] + [(n, b"no") for n in hidden]:
        with open(os.path.join("site", name), "wb") as f:
            f.write(data)
    os.makedirs("many")
    for i in range(65):
        with open(f"many/{i}.js" if i else "many/index.html", "wb"):
            pass

    def served(s):
        for name, data, kind in files.values():
            k = http.client.HTTPConnection("127.0.0.1", s.port, timeout=10)
            k.request("GET", s.path + name)
            r = k.getresponse()
            assert (r.status, r.read(), r.getheader("Content-Type")) == (200, data, kind), name
            assert r.getheader("X-Content-Type-Options") == "nosniff"
        assert s.ask("HEAD", s.path + "r.wasm") == 200
        assert s.ask(path=s.path + "r.wasm?v=1") == 200 and s.ask(path=s.path + "?url=https://a/b?c") == 200
        assert s.ask(path=s.path + "x.wasm?r.wasm") == 404 and s.ask(path="/?" + s.path + "r.wasm") == 404
        assert s.ask("POST", s.path + "r.wasm") == 405
        assert s.ask(path=s.path + "r.wasm", Host="evil.example") == 421
        assert s.ask(path=s.path + "r.wasm", Origin="http://evil.example") == 403
        wrong = [
            "index.html/",
            "R.wasm",
            "./r.wasm",
            "../r.wasm",
            "folder/",
            "folder",
            "%72.wasm",
            "/r.wasm",
        ]
        for name in [*wrong, *(n for n in hidden if n.isascii() and " " not in n), "index.html"]:
            assert s.ask(path=s.path + name) == 404, name
        assert s.ask(path="/r.wasm") == 404 and s.ask(path="/" + "0" * 32 + "/r.wasm") == 404

    s = Server(tool, "--site", "site")
    served(s)
    assert s.end()[0] == 130
    # what an installed tool finds itself
    os.makedirs("i/bin")
    os.makedirs("i/share/libsafetensors")
    copy = os.path.abspath("i/bin/safetensors")
    shutil.copy(tool, copy)
    done = subprocess.run([copy, "view", "--no-browser"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and "--site names the folder" in done.stderr, done
    os.rename("site", "i/share/libsafetensors/site")
    s = Server(copy)
    served(s)
    s.end()
    # installed by links, as some installers do: the program's folder is that of its link
    os.makedirs("l/bin")
    os.makedirs("l/share/libsafetensors/site")
    os.rename(copy, "kept")
    os.symlink(os.path.abspath("kept"), "l/bin/safetensors")
    for name in os.listdir("i/share/libsafetensors/site"):
        if name not in ("folder",):
            os.symlink(
                os.path.abspath(f"i/share/libsafetensors/site/{name}"), f"l/share/libsafetensors/site/{name}"
            )
    for program in (os.path.abspath("l/bin/safetensors"), "l/bin/safetensors"):
        s = Server(program)
        served(s)
        s.end()
    # of a folder that is named, links that lead out are not served; without a page there is nothing to serve
    done = subprocess.run(
        [tool, "view", "--no-browser", "--site", "l/share/libsafetensors/site"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 2 and "is not a file of that folder" in done.stderr, done
    os.rename("i/share/libsafetensors/site", "site")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tool", required=True)
    tool = os.path.abspath(parser.parse_args().tool)
    os.chdir(tempfile.mkdtemp())
    model("m.safetensors")
    page = subprocess.run(
        [tool, "report", "--stats", "sample", "-o", "-", "m.safetensors"], capture_output=True, check=True
    ).stdout
    s = Server(tool, "m.safetensors")

    k = http.client.HTTPConnection("127.0.0.1", s.port, timeout=10)
    k.request("GET", s.path)
    r = k.getresponse()
    assert r.status == 200 and r.read() == page and b"a\\u003cb" in page or b"a<b" not in page
    assert (
        r.getheader("Content-Type") == "text/html; charset=utf-8"
        and r.getheader("Cache-Control") == "no-store"
    )
    assert r.getheader("Content-Security-Policy") == "frame-ancestors 'none'"
    assert (
        r.getheader("X-Content-Type-Options") == "nosniff" and r.getheader("Referrer-Policy") == "no-referrer"
    )
    k = http.client.HTTPConnection("127.0.0.1", s.port, timeout=10)
    k.request("HEAD", s.path)
    r = k.getresponse()
    assert r.status == 200 and r.read() == b"" and int(r.getheader("Content-Length")) == len(page)

    assert s.ask() == 200 and s.ask(Host=f"localhost:{s.port}") == 200
    assert s.ask(Host=f"LocalHost:{s.port}") == 200 and s.ask(path=s.path + "?url=x") == 200
    assert s.ask(Origin=f"http://127.0.0.1:{s.port}", Sec_Fetch_Site="same-origin") == 200
    assert s.ask(Sec_Fetch_Site="none") == 200
    for host in (
        "evil.example",
        f"evil.example:{s.port}",
        "127.0.0.1",
        f"127.0.0.1:{s.port}.evil.example",
        f"127.0.0.2:{s.port}",
        "",
    ):
        assert s.ask(Host=host) == 421, host
    for origin in ("null", "http://evil.example", f"https://127.0.0.1:{s.port}", "http://127.0.0.1"):
        assert s.ask(Origin=origin) == 403, origin
    for site in ("cross-site", "same-site", "x"):
        assert s.ask(Sec_Fetch_Site=site) == 403, site
    for method in ("POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "get", "X" * 100):
        assert s.ask(method) == 405, method
    assert b"\r\nAllow: GET, HEAD\r\n" in s.raw(
        f"PUT {s.path} HTTP/1.1\r\nHost: 127.0.0.1:{s.port}\r\n\r\n".encode()
    )
    token = s.path.strip("/")
    for path in (
        "/",
        "//",
        s.path[:-1],
        s.path + "x",
        s.path + "x?",
        "?" + s.path,
        s.path.upper(),
        "/" + "0" * 32 + "/",
        "/" + token[:-1] + "/",
        "/../..",
        "/m.safetensors",
        "*",
        f"http://127.0.0.1:{s.port}{s.path}",
        f"/{token}/../{token}/",
        f"/{token[:-1]}%30/",
    ):
        if path != s.path:
            assert s.ask(path=path) == 404, path
    here = f"Host: 127.0.0.1:{s.port}\r\n"
    for request, status in {
        f"GET {s.path} HTTP/1.1\r\n\r\n": 400,
        f"GET {s.path} HTTP/1.1\r\n{here}{here}\r\n": 400,
        f"GET {s.path} HTTP/2.0\r\n{here}\r\n": 400,
        f"GET {s.path}\r\n{here}\r\n": 400,
        f"GET  {s.path} HTTP/1.1\r\n{here}\r\n": 400,
        f"\r\n\r\nGET {s.path} HTTP/1.1\r\n{here}\r\n": 400,
        f"GET {s.path} HTTP/1.1\r\n{here}no colon\r\n\r\n": 400,
        f"GET {s.path} HTTP/1.1\r\n {here}\r\n": 400,
        f"GET {s.path} HTTP/1.1\r\n{here}Origin : http://evil.example\r\n\r\n": 400,
        f"GET {s.path} HTTP/1.1\r\n{here}Content-Length: 3\r\n\r\nabc": 413,
        f"GET {s.path} HTTP/1.1\r\n{here}Transfer-Encoding: chunked\r\n\r\n": 413,
        f"GET {s.path} HTTP/1.0\r\n{here}X: {'y' * 9000}\r\n\r\n": 431,
        f"GET {s.path} HTTP/1.0\r\n{here}X: \0\xff\r\n\r\n": 200,
        f"GET {s.path} HTTP/1.1\r\nhOsT:\t127.0.0.1:{s.port} \r\n\r\n": 200,
    }.items():
        try:
            assert s.status(request.encode("latin-1")) == status, (request[:80], status)
        except ConnectionResetError:
            assert status == 431, request[:80]  # what it did not read was still on its way

    # somebody who says nothing, or a byte a second, or goes away, hinders nobody
    idle = [socket.create_connection(("127.0.0.1", s.port)) for _ in range(100)]
    slow = socket.create_connection(("127.0.0.1", s.port))
    slow.sendall(b"GET ")
    began = time.monotonic()
    assert s.ask() == 200 and time.monotonic() - began < 5
    for one in idle[:10]:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        one.close()
    assert s.ask() == 200
    wrong = []

    def many():
        for _ in range(20):
            if s.ask() != 200:
                wrong.append(1)

    threads = [threading.Thread(target=many) for _ in range(4)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert not wrong
    for one in idle[10:] + [slow]:
        one.close()

    # nor where there are fewer descriptors than there are of those
    few = Server(tool, "m.safetensors", prefix=["sh", "-c", 'ulimit -n 24 && exec "$@"', "sh"])
    idle = [socket.create_connection(("127.0.0.1", few.port)) for _ in range(40)]
    began = time.monotonic()
    assert few.ask() == 200 and few.ask() == 200 and time.monotonic() - began < 5
    for one in idle:
        one.close()
    # and where they are there again it is as before: who reads slowly hinders nobody
    assert few.ask() == 200
    slow = []
    for _ in range(12):
        slow.append(socket.create_connection(("127.0.0.1", few.port)))
        slow[-1].sendall(f"GET {few.path} HTTP/1.1\r\nHost: 127.0.0.1:{few.port}\r\n\r\n".encode())
    began = time.monotonic()
    assert few.ask() == 200 and time.monotonic() - began < 5
    for one in slow:
        one.close()
    assert few.end()[0] == 130

    # other addresses of this machine lead nowhere
    for address in ("::1", "127.0.0.2"):
        try:
            other = socket.create_connection((address, s.port), timeout=2)
        except OSError:
            continue  # refused, or this machine has no such address
        other.close()
        raise AssertionError(address)
    status, out, err = s.end()
    assert status == 130 and out == "", (status, out, err)

    s = Server(tool, "--port", "0", "m.safetensors")
    other = Server(tool, "m.safetensors")
    assert s.path != other.path and s.port != other.port
    taken = subprocess.run(
        [tool, "view", "--no-browser", "--port", str(s.port), "m.safetensors"], capture_output=True, text=True
    )
    assert taken.returncode == 3 and "127.0.0.1" in taken.stderr, taken
    early = subprocess.run([*taken.args[:-1], "nowhere.safetensors"], capture_output=True, text=True)
    assert early.stderr == taken.stderr, "it is told before a model is read"
    assert other.end(signal.SIGTERM)[0] == 130
    port = s.port
    s.end()
    again = Server(tool, "--port", str(port), "m.safetensors")
    assert again.port == port and again.ask() == 200
    again.end()
    without_model(tool)
    # nobody knows the address: it ends
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [tool, "view", "--no-browser", "m.safetensors"], stdout=full, stderr=subprocess.PIPE, timeout=60
        )
    assert done.returncode == 3 and done.stderr, done
    try:
        with socket.socket() as free:
            free.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            free.bind(("127.0.0.1", 80))
        port_80 = True
    except OSError:
        port_80 = False  # taken, or not for us
    if port_80:
        s = Server(tool, "--port", "80", "m.safetensors")
        assert s.ask(Host="127.0.0.1") == 200 and s.ask(Host="localhost", Origin="http://localhost") == 200
        assert s.ask(Host="127.0.0.1:80") == 200 and s.ask(Host="evil.example") == 421
        s.end()
    os.mkdir("empty")
    for arguments, status in (
        (["nowhere"], 3),
        (["--port", "70000", "m.safetensors"], 2),
        (["--site", "."], 2),
        (["--site", "empty"], 2),
        (["--site", "site", "m.safetensors"], 2),
        (["--site", "many"], 2),
    ):
        done = subprocess.run(
            [tool, "view", "--no-browser", *arguments], capture_output=True, text=True, timeout=60
        )
        assert done.returncode == status, (arguments, done)
    print("view: all answers are as they should be")


if __name__ == "__main__":
    main()
