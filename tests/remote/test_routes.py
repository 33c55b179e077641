# SPDX-License-Identifier: Apache-2.0 OR MIT
"""test_routes.py - where a redirect may lead is decided by addresses. Two machines: network namespaces of this test's own,
joined by a pair of virtual interfaces; servers of the standard library with public, private and link-local addresses; names by
a hosts file of the test's own. Nothing leaves the namespaces. Prints the table; where the system allows no namespaces, says so
and exits 77."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
import time
import urllib.parse

import harness
import hostile_server

# our machine, and the other one
OURS = ["198.51.100.1/24", "10.7.0.1/24", "2001:500:88::1/64", "fd00:7::1/64"]
THEIRS = [
    "198.51.100.2/24",
    "10.7.0.2/24",
    "192.168.7.2/24",
    "169.254.169.254/16",
    "2001:500:88::2/64",
    "fd00:7::2/64",
]
NAMES = {
    "public.test": "198.51.100.2",
    "private.test": "10.7.0.2",
    "self.test": "127.0.0.1",
    "own.test": "198.51.100.1",
    "link.test": "169.254.169.254",
    "both.test": "127.0.0.1\n198.51.100.2",
}
PORT = 8099
FILE = "model-00001-of-00002.safetensors"
SELF = "it leads to this machine"
LINK = "it leads to a link-local address"
PRIVATE = "it leads from a public address to a private one"
# from, to, why it is refused ("" : it is not)
TABLE = [
    ("198.51.100.2", "198.51.100.2", ""),
    ("198.51.100.2", "127.0.0.1", SELF),
    ("198.51.100.2", "0", SELF),
    ("198.51.100.2", "0x7f.1", SELF),
    ("198.51.100.2", "2130706433", SELF),
    ("198.51.100.2", "[::1]", SELF),
    ("198.51.100.2", "[::ffff:127.0.0.1]", SELF),
    ("198.51.100.2", "[::]", SELF),
    ("198.51.100.2", "localhost", SELF),
    ("198.51.100.2", "self.test", SELF),
    ("198.51.100.2", "own.test", SELF),
    ("198.51.100.2", "198.51.100.1", SELF),
    ("198.51.100.2", "[2001:500:88::1]", SELF),
    ("198.51.100.2", "10.7.0.1", SELF),
    ("198.51.100.2", "10.7.0.2", PRIVATE),
    ("198.51.100.2", "private.test", PRIVATE),
    ("198.51.100.2", "192.168.7.2", PRIVATE),
    ("198.51.100.2", "[fd00:7::2]", PRIVATE),
    ("198.51.100.2", "[::ffff:10.7.0.2]", PRIVATE),
    ("198.51.100.2", "169.254.169.254", LINK),
    ("198.51.100.2", "link.test", LINK),
    ("198.51.100.2", "[::ffff:169.254.169.254]", LINK),
    ("198.51.100.2", "both.test", ""),
    ("public.test", "private.test", PRIVATE),
    ("[2001:500:88::2]", "[fd00:7::2]", PRIVATE),
    ("[2001:500:88::2]", "198.51.100.2", ""),
    ("10.7.0.2", "10.7.0.2", ""),
    ("10.7.0.2", "192.168.7.2", ""),
    ("10.7.0.2", "198.51.100.2", ""),
    ("10.7.0.2", "127.0.0.1", SELF),
    ("10.7.0.2", "10.7.0.1", SELF),
    ("10.7.0.2", "169.254.169.254", LINK),
    ("127.0.0.1", "127.0.0.1", ""),
    ("127.0.0.1", "10.7.0.2", ""),
    ("127.0.0.1", "198.51.100.2", ""),
    ("198.51.100.1", "127.0.0.1", ""),
]


def run(*args: str) -> None:
    subprocess.run(args, check=True, capture_output=True)


def serve(root: str, log: str, name: str) -> hostile_server.Server:
    """On every address of this namespace, both families."""
    import http.server  # pylint: disable=import-outside-toplevel
    import socket  # pylint: disable=import-outside-toplevel
    import threading  # pylint: disable=import-outside-toplevel

    class Dual(http.server.ThreadingHTTPServer):
        daemon_threads = True
        address_family = socket.AF_INET6

        def server_bind(self) -> None:
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
            super().server_bind()

    state = hostile_server.State(root, log, name, "")
    server = Dual(("::", PORT), type("H", (hostile_server.Handler,), {"state": state}))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def other_machine(root: str, log: str) -> None:
    print("ready", flush=True)
    sys.stdin.readline()  # the interfaces are there
    serve(root, log, "theirs")
    print("serving", flush=True)
    sys.stdin.readline()


def in_namespaces() -> int:
    """Again inside a user, network and mount namespace."""
    if (
        shutil.which("unshare") is None
        or shutil.which("ip", path=os.environ["PATH"] + ":/usr/sbin:/sbin") is None
    ):
        print("skipped: unshare or ip is not installed")
        return 77
    done = subprocess.run(["unshare", "-rnm", "true"], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        print("skipped: namespaces are not allowed here: " + done.stderr.strip())
        return 77
    os.environ["SFT_ROUTES_INSIDE"] = "1"
    return subprocess.run(["unshare", "-rnm", sys.executable, *sys.argv], check=False).returncode


def joined(t: harness.Tests) -> subprocess.Popen:
    os.environ["PATH"] += ":/usr/sbin:/sbin"
    other = subprocess.Popen(
        ["unshare", "-n", sys.executable, os.path.abspath(__file__), "--other", t.files, t.log],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert other.stdout is not None and other.stdin is not None
    assert other.stdout.readline() == "ready\n"
    run("ip", "link", "set", "lo", "up")
    run("ip", "link", "add", "here", "type", "veth", "peer", "name", "there", "netns", str(other.pid))
    enter = ["nsenter", "-t", str(other.pid), "-n"]
    for name, addresses, prefix in (("here", OURS, []), ("there", THEIRS, enter)):
        for address in addresses:
            run(*prefix, "ip", "addr", "add", address, "dev", name, *(["nodad"] if ":" in address else []))
        run(*prefix, "ip", "link", "set", name, "up")
    run(*enter, "ip", "link", "set", "lo", "up")
    for net in ("192.168.7.0/24", "169.254.0.0/16"):
        run("ip", "route", "add", net, "dev", "here", "src", "10.7.0.1")
    run(*enter, "ip", "route", "add", "default", "via", "198.51.100.1")
    other.stdin.write("go\n")
    other.stdin.flush()
    assert other.stdout.readline() == "serving\n"
    return other


def hosts(t: harness.Tests) -> None:
    path = os.path.join(t.tmp, "hosts")
    with open(path, "w", encoding="ascii") as f:
        f.write("127.0.0.1 localhost\n::1 localhost\n")
        for name, addresses in NAMES.items():
            for address in addresses.split("\n"):
                f.write("%s %s\n" % (address, name))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(path.encode(), b"/etc/hosts", None, 4096, None) != 0:  # MS_BIND, in this namespace alone
        raise OSError(ctypes.get_errno(), "mount over /etc/hosts")


def table(t: harness.Tests) -> None:
    for origin, to, why in TABLE:
        t.forget()
        inner = "http://%s:%d/ok/%s" % (to, PORT, FILE)
        url = "http://%s:%d/to/%s" % (origin, PORT, urllib.parse.quote(inner, safe=""))
        got = t.probe("http=1", "retries=0", "hash", url)
        name = "%s -> %s" % (origin, to)
        t.equal(name, got["status"], "SFT_E_PATH" if why else "SFT_OK")
        t.check(name, why in got["message"], got["message"])
        asked = [e["path"] for e in t.logged()]
        t.equal(name + ": asked", any(p.startswith("/ok/") for p in asked), not why)
        print("| %s | %s | %s |" % (origin, to, why or "followed"))


def names_at_first(t: harness.Tests) -> None:
    """A name that leads to this machine is this machine; plain http to a name that leads elsewhere needs leave."""
    got = t.probe("open", "http://198.51.100.2:%d/ok/%s" % (PORT, FILE))
    t.equal("http elsewhere", got["status"], "SFT_E_PATH")
    got = t.probe("open", "http://localhost:%d/ok/%s" % (PORT, FILE))
    t.equal("http here", got["status"], "SFT_OK")
    got = t.probe("http=1", "open", "http://link.test:%d/ok/%s" % (PORT, FILE))
    t.equal("what the user names is asked", got["status"], "SFT_OK")


def used_connection(t: harness.Tests) -> None:
    """A connection that is open already is no way round: the catalog is opened here first, by the same sft_remote."""
    here = "http://127.0.0.1:%d/ok/%s" % (PORT, FILE)
    outer = "http://198.51.100.2:%d/to/%s" % (PORT, urllib.parse.quote(here, safe=""))
    got = t.tool("diff", "--allow-http", here, outer)
    t.check("refused", got.returncode == 1 and SELF in got.stderr, got)


def proxied(t: harness.Tests) -> None:
    """Behind a proxy the addresses are the proxy's: literal ones are checked, names are the proxy's business."""
    env = {"http_proxy": "http://127.0.0.1:1", "no_proxy": "198.51.100.2"}
    inner = "http://10.7.0.2:%d/ok/%s" % (PORT, FILE)
    url = "http://198.51.100.2:%d/to/%s" % (PORT, urllib.parse.quote(inner, safe=""))
    got = t.probe("env=1", "http=1", "retries=0", "open", url, env=env)
    t.check("literal", got["status"] == "SFT_E_PATH" and PRIVATE in got["message"], got)
    t.check(
        "through the proxy",
        "127.0.0.1 port 1"
        in t.probe("env=1", "http=1", "retries=0", "open", "http://private.test:%d/ok/x" % PORT, env=env)[
            "message"
        ],
        got,
    )


def main() -> int:
    if sys.argv[1:2] == ["--other"]:
        other_machine(sys.argv[2], sys.argv[3])
        return 0
    if os.environ.get("SFT_ROUTES_INSIDE") != "1":
        return in_namespaces()
    t = harness.Tests()
    other = joined(t)
    ours = serve(t.files, t.log, "ours")
    time.sleep(0.2)
    hosts(t)
    try:
        return t.run(table, names_at_first, used_connection, proxied)
    finally:
        ours.shutdown()
        other.kill()
        other.wait()


if __name__ == "__main__":
    sys.exit(main())
