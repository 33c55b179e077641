# SPDX-License-Identifier: Apache-2.0 OR MIT
"""hostile_server.py - an HTTP server that does what a path asks for, right or wrong. Standard library only.

    /ok/FILE            ranges, ETag, as it should be          /etag/FILE     another ETag from the 2nd request on
    /range-wrong/FILE   Content-Range one byte off              /range-none/FILE  206 without Content-Range
    /range-total/FILE   another total from the 2nd request on   /range-text/FILE  Content-Range: bytes later
    /short/FILE         half of the body, then the end          /short-once/FILE  so for the 1st answer only
    /gzip/FILE          Content-Encoding: gzip                  /whole/FILE    200 whatever is asked
    /whole-endless/FILE 200 without length, without end         /S503/FILE     status S always (S429 ...)
    /once-503/FILE      503 with Retry-After: 1 once, then ok   /later/FILE    503 with Retry-After: 3600
    /login/FILE         redirects to a URL with a password      /signed/FILE   to a signed one where nobody listens
    /loop/FILE          redirects for ever                      /to/URL        redirects there (percent-encoded)
    /slow/FILE          two bytes a second                      /silent/FILE   never answers
    /huge-head/FILE     a head without end                      /parts/FILE    multipart/byteranges
    /big-header/FILE    bytes that announce a header of 2^63    /reset/FILE    cuts the connection at once
    /if-range/FILE      as ok, and refuses requests without If-Range after the first (for tests of pinning)
    /no-etag/FILE       neither ETag nor Last-Modified          /weak/FILE     a weak ETag
    /version-lost/FILE  both in the first answer alone          /version-came/FILE  in all but the first
    /multi-HOW/FILE     one range as it should be; several: see Handler.several
    /uneven/FILE        long answers: the 1st at 4 MB a second, others at 40
    /cap/FILE           at most 96 KiB an answer                /explain-HOW/FILE  403 with a reason: xml, json, head, echo
    /auth/FILE          401 unless Authorization: Bearer good   /s3/BUCKET/KEY AWS signature 4 checked
    /lfs/FILE           302 to OTHER/ok/FILE with X-Linked-Etag and X-Repo-Commit, as the hub does

Every request is appended to a log file as one JSON line: server, path, range, what credentials came.
"""

from __future__ import annotations

import argparse
import hashlib
import hmac
import json
import os
import socket
import ssl
import sys
import threading
import time
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

SECRETS = {"test-key": "test/secret+key"}
COMMIT = "0123456789abcdef0123456789abcdef01234567"


class State:
    def __init__(self, root: str, log: str, name: str, other: str) -> None:
        self.root = root
        self.log = log
        self.name = name
        self.other = other
        self.lock = threading.Lock()
        self.rate = 0.0  # bytes a second on one connection; 0: as fast as it goes
        self.seen: dict[str, int] = {}
        self.files: dict[str, tuple[tuple[int, int], bytes, str]] = {}

    def count(self, path: str) -> int:
        with self.lock:
            self.seen[path] = self.seen.get(path, 0) + 1
            return self.seen[path]

    def note(self, entry: dict[str, object]) -> None:
        with self.lock, open(self.log, "a", encoding="utf-8") as f:
            f.write(json.dumps(entry) + "\n")


def sign(key: bytes, text: str) -> bytes:
    return hmac.new(key, text.encode(), hashlib.sha256).digest()


def signature_fault(handler: "Handler") -> str:
    """Why the AWS Signature Version 4 of a request is wrong; "" if it is right."""
    auth = handler.headers.get("Authorization", "")
    if not auth.startswith("AWS4-HMAC-SHA256 "):
        return "no signature"
    parts = dict(p.strip().split("=", 1) for p in auth[len("AWS4-HMAC-SHA256 ") :].split(","))
    key, date, region, service, last = parts["Credential"].split("/")
    if service != "s3" or last != "aws4_request" or key not in SECRETS:
        return "unknown credential"
    names = parts["SignedHeaders"].split(";")
    if "host" not in names or "x-amz-date" not in names or "x-amz-content-sha256" not in names:
        return "host, date or digest of the body not signed"
    path, _, query = handler.path.partition("?")
    lines = "".join("%s:%s\n" % (n, " ".join(handler.headers.get(n, "").split())) for n in names)
    body = handler.headers.get("x-amz-content-sha256", hashlib.sha256(b"").hexdigest())
    canonical = "\n".join([handler.command, path, query, lines, ";".join(names), body])
    scope = "/".join([date, region, service, last])
    text = "\n".join(
        [
            "AWS4-HMAC-SHA256",
            handler.headers["x-amz-date"],
            scope,
            hashlib.sha256(canonical.encode()).hexdigest(),
        ]
    )
    k = sign(("AWS4" + SECRETS[key]).encode(), date)
    for part in (region, service, last):
        k = sign(k, part)
    good = hmac.new(k, text.encode(), hashlib.sha256).hexdigest()
    return "" if hmac.compare_digest(good, parts["Signature"]) else "wrong signature"


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1  # head and body in one packet
    state: State

    def log_message(self, *args: object) -> None:
        pass

    # ------------------------------------------------------------ pieces of answers

    def head(self, status: int, fields: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in fields.items():
            self.send_header(name, value)
        self.end_headers()

    def empty(self, status: int, **fields: str) -> None:
        self.head(status, {"Content-Length": "0", **{k.replace("_", "-"): v for k, v in fields.items()}})

    def several(self, data: bytes, how: str, fields: dict[str, str]) -> None:
        """The answer to a request for several ranges; `how` names what is wrong with it."""
        text = self.headers["Range"][6:].split(",")
        asked = [tuple(map(int, r.split("-"))) for r in text]
        if how.startswith("S"):
            self.empty(int(how[1:]))
            return
        if how in ("first", "joined"):
            first, last = asked[0][0], asked[0][1] if how == "first" else asked[-1][1]
            fields["Content-Range"] = "bytes %d-%d/%d" % (first, last, len(data))
            self.head(206, {**fields, "Content-Length": str(last + 1 - first)})
            self.wfile.write(data[first : last + 1])
            return
        if how == "coalesced":  # neighbours in one part, the gaps included
            asked = [(asked[i][0], asked[min(i + 2, len(asked) - 1)][1]) for i in range(0, len(asked), 3)]
        elif how == "order":
            asked.reverse()
        elif how == "missing":
            asked.pop()
        elif how == "twice":
            asked.insert(2, asked[1])
        elif how == "split":
            asked = [p for a, b in asked for p in ((a, a), (a + 1, b))]
        elif how == "more":
            asked.append((len(data) - 2, len(data) - 1))
        body = b"\r\n"
        for nth, (first, last) in enumerate(asked):
            off = 1 if how == "off" and nth == 3 else 0
            total = len(data) + (1 if how == "total" and nth == 3 else 0)
            head = "Content-Type: application/octet-stream\r\n"
            if how != "none" or nth != 3:
                head += "Content-Range: bytes %d-%d/%d\r\n" % (first + off, last + off, total)
            if how == "two" and nth == 3:
                head += "Content-Range: bytes %d-%d/%d\r\n" % (first + 1, last + 1, total)
            if how == "head" and nth == 3:
                head += "".join("X-%d: %s\r\n" % (i, "x" * 200) for i in range(50))
            if how == "line" and nth == 3:
                head += "X: %s\r\n" % ("x" * 5000)
            mark = "--other" if how == "boundary" and nth == 3 else "--THIS"
            body += ("%s\r\n%s\r\n" % (mark, head)).encode() + data[first : last + 1]
            body += (b"longer" if how == "long" and nth == 3 else b"") + b"\r\n"
        body += b"--THIS--\r\n"
        kind = "multipart/byteranges; boundary=" + ('"THIS"' if how == "quoted" else "THIS")
        kind = kind.partition(";")[0] if how == "unmarked" else kind
        fields["Content-Type"] = kind
        if how == "changed":
            fields["ETag"] = '"another"'
        cut = how == "cut" and self.state.count("cut") == 1
        if how == "endless":
            body += b"x" * (64 << 20)
        self.head(206, {**fields, "Content-Length": str(len(body))})
        self.wfile.write(body[: len(body) // 2] if cut else body)
        if cut:
            self.close_connection = True

    def range(self, size: int) -> tuple[int, int] | None:
        text = self.headers.get("Range", "")
        if not text.startswith("bytes="):
            return None
        first, _, last = text[6:].partition("-")
        return int(first), min(int(last), size - 1) if last else size - 1

    def etag(self, data: bytes) -> str:
        for _, known, tag in list(self.state.files.values()):
            if known is data:
                return tag
        return '"%s"' % hashlib.sha256(data).hexdigest()

    def serve(self, data: bytes, how: str, nth: int) -> None:
        """The file, right or with the fault that `how` names."""
        fields = {"ETag": self.etag(data), "Last-Modified": "Sun, 06 Nov 1994 08:49:37 GMT"}
        if how == "no-etag" or (how == "version-lost" and nth > 1) or (how == "version-came" and nth == 1):
            fields = {}
        elif how == "weak":
            fields["ETag"] = 'W/"weak"'
        elif how == "etag" and nth > 1:
            fields["ETag"] = '"another"'
        if "," in self.headers.get("Range", "") and how != "multi-whole":
            self.several(data, how.removeprefix("multi-"), fields)
            return
        want = (
            None if how == "multi-whole" and "," in self.headers.get("Range", "") else self.range(len(data))
        )
        if_range = self.headers.get("If-Range")
        changed = if_range is not None and if_range != fields.get("ETag")
        if want is None or how == "whole" or changed:
            self.head(200, {**fields, "Content-Length": str(len(data))})
            self.wfile.write(data)
            return
        first, last = want
        last = min(last, first + (96 << 10) - 1) if how == "cap" else last
        if first >= len(data):
            self.empty(416, Content_Range="bytes */%d" % len(data))
            return
        body = memoryview(data)[first : last + 1]
        total = len(data) + (4 if how == "range-total" and nth > 1 else 0)
        off = 1 if how == "range-wrong" else 0
        fields["Content-Range"] = "bytes %d-%d/%d" % (first + off, last + off, total + off)
        if how == "range-none":
            del fields["Content-Range"]
        elif how == "range-text":
            fields["Content-Range"] = "bytes later"
        elif how == "gzip":
            fields["Content-Encoding"] = "gzip"
        elif how == "parts":
            fields["Content-Type"] = "multipart/byteranges; boundary=x"
        short = how == "short" or (how == "short-once" and nth == 1)
        self.head(206, {**fields, "Content-Length": str(len(body))})
        rate = self.state.rate
        if how == "uneven" and len(body) > 1 << 20:
            rate = 1e6 if self.state.count("uneven") == 1 else 40e6
        self.send(body[: len(body) // 2] if short else body, rate)
        if short:
            self.close_connection = True

    def send(self, body: memoryview, rate: float) -> None:
        if rate == 0.0:
            self.wfile.write(body)
            return
        begun = time.monotonic()
        for at in range(0, len(body), 65536):
            self.wfile.write(body[at : at + 65536])
            ahead = at / rate - (time.monotonic() - begun)
            time.sleep(max(0.0, ahead))

    def slowly(self, data: bytes) -> None:
        want = self.range(len(data)) or (0, len(data) - 1)
        fields = {"Content-Range": "bytes %d-%d/%d" % (want[0], want[1], len(data))}
        self.head(206, {**fields, "Content-Length": str(want[1] - want[0] + 1), "ETag": '"slow"'})
        for at in range(want[0], want[1] + 1):
            self.wfile.write(data[at : at + 1])
            self.wfile.flush()
            time.sleep(0.5)

    # ------------------------------------------------------------ what paths ask for

    def note(self) -> None:
        self.state.note(
            {
                "server": self.state.name,
                "path": self.path,
                "range": self.headers.get("Range", ""),
                "authorization": self.headers.get("Authorization", "").split(" ")[0],
                "token": "secret-token" in self.headers.get("Authorization", ""),
                "security_token": self.headers.get("x-amz-security-token", "") != "",
                "accept_encoding": self.headers.get("Accept-Encoding", ""),
                "if_range": self.headers.get("If-Range", ""),
                "signed": dict(self.headers.items())
                if "AWS4" in self.headers.get("Authorization", "")
                else {},
            }
        )

    def find(self, name: str) -> bytes | None:
        path = os.path.normpath(os.path.join(self.state.root, urllib.parse.unquote(name)))
        if not path.startswith(self.state.root + os.sep) or not os.path.isfile(path):
            return None
        st = os.stat(path)
        stamp = (st.st_mtime_ns, st.st_size)
        if path not in self.state.files or self.state.files[path][0] != stamp:
            with open(path, "rb") as f:
                data = f.read()
            self.state.files[path] = (stamp, data, '"%s"' % hashlib.sha256(data).hexdigest())
        return self.state.files[path][1]

    def never(self) -> None:
        if self.path_kind == "silent":
            time.sleep(30)
        elif self.path_kind == "huge-head":
            self.send_response(206)
            for i in range(100000):
                self.send_header("X-%d" % i, "x" * 100)
                if i % 100 == 99:
                    self.flush_headers()
        elif self.path_kind == "whole-endless":
            self.head(200, {"ETag": '"endless"', "Connection": "close"})
            while True:
                self.wfile.write(b"x" * 65536)
        self.close_connection = True

    def explain(self, kind: str) -> None:
        said = {
            "explain-xml": "<Error><Code>AccessDenied</Code><Message>Request has expired</Message></Error>",
            "explain-json": '{"error": "Access to this model is restricted"}',
            "explain-long": '{"error": "%s"}' % ("so it is, " * 100000),
            "explain-echo": "<Error><Code>SignatureDoesNotMatch</Code><Message>not %s</Message></Error>"
            % urllib.parse.unquote(self.path.partition("?")[2].partition("=")[2]),
        }.get(kind, "").encode()
        fields = {"X-Error-Message": "Gated repository"} if kind == "explain-head" else {}
        self.head(403, {**fields, "Content-Length": str(len(said))})
        self.wfile.write(said)

    def redirect(self, rest: str, nth: int) -> None:
        kind = self.path_kind
        if kind == "loop":
            self.empty(302, Location="/loop/%d/%s" % (nth, rest))
        elif kind == "to":
            self.empty(302, Location=urllib.parse.unquote(rest))
        elif kind == "nowhere":
            self.empty(302)
        elif kind == "login":
            self.empty(302, Location="http://u:plantedPW@127.0.0.1:1/x?X-Amz-Signature=plantedSIG")
        elif kind == "signed":
            self.empty(302, Location="http://127.0.0.1:1/x?X-Amz-Signature=plantedSIG")
        else:
            data = self.find(rest.split("/resolve/", 1)[-1].split("/", 1)[-1]) or b""
            name = rest.split("/resolve/", 1)[-1].split("/", 1)[-1]
            self.empty(
                302,
                Location="%s/ok/%s" % (self.state.other, name),
                X_Linked_Etag=self.etag(data),
                X_Repo_Commit=COMMIT,
            )

    def do_GET(self) -> None:
        self.note()
        path = self.path.partition("?")[0].lstrip("/")
        kind, _, rest = path.partition("/")
        self.path_kind = kind
        nth = self.state.count(kind if kind == "loop" else path)
        try:
            self.answer(kind, rest, nth)
        except (BrokenPipeError, ConnectionResetError, ssl.SSLError):
            self.close_connection = True

    def do_HEAD(self) -> None:
        """As huggingface_hub asks: what a GET would redirect to, and how long that is."""
        path = self.path.partition("?")[0].lstrip("/")
        kind, _, rest = path.partition("/")
        name = rest.split("/resolve/", 1)[-1].split("/", 1)[-1] if kind == "lfs" else rest
        data = self.find(name)
        if data is None:
            self.empty(404)
            return
        fields = {"ETag": self.etag(data), "X-Repo-Commit": COMMIT, "Content-Length": str(len(data))}
        if kind == "lfs":
            fields.update(
                {"X-Linked-Etag": self.etag(data), "X-Linked-Size": str(len(data)), "Content-Length": "0"}
            )
            fields["Location"] = "%s/ok/%s" % (self.state.other, name)
        self.head(302 if kind == "lfs" else 200, fields)

    def answer(self, kind: str, rest: str, nth: int) -> None:
        if kind in ("loop", "to", "nowhere", "lfs", "login", "signed"):
            if kind == "lfs" and self.find(rest.split("/resolve/", 1)[-1].split("/", 1)[-1]) is None:
                self.empty(404)
                return
            self.redirect(rest, nth)
            return
        if kind in ("silent", "huge-head", "whole-endless"):
            self.never()
            return
        if kind == "reset":
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            self.connection.close()
            self.close_connection = True
            return
        if kind.startswith("S") and kind[1:].isdigit():
            self.empty(int(kind[1:]))
            return
        if kind.startswith("explain-"):
            self.explain(kind)
            return
        if kind == "later" or (kind == "once-503" and nth == 1):
            self.empty(503, Retry_After="3600" if kind == "later" else "1")
            return
        if kind == "auth" and self.headers.get("Authorization") != "Bearer secret-token":
            self.empty(401)
            return
        if kind == "s3":
            fault = signature_fault(self)
            if fault:
                self.empty(403, X_Fault=fault)
                return
            rest = rest.partition("/")[2]
        data = self.find(rest)
        if kind == "big-header":
            data = b"\0\0\0\0\0\0\0\x80" + b"{" * 1000
        if data is None:
            self.empty(404)
        elif kind == "slow":
            self.slowly(data)
        else:
            self.serve(data, kind, nth)


class Server(ThreadingHTTPServer):
    daemon_threads = True
    state: State
    request_queue_size = 128

    def handle_error(self, request: object, client_address: object) -> None:
        pass


def start(root: str, log: str, name: str, other: str = "", tls: tuple[str, str] | None = None) -> Server:
    """A server in a thread of its own on a free port of 127.0.0.1."""
    state = State(os.path.realpath(root), log, name, other)
    server = Server(("127.0.0.1", 0), type("H", (Handler,), {"state": state}))
    server.state = state
    if tls is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*tls)
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("root")
    parser.add_argument("log")
    args = parser.parse_args()
    server = start(args.root, args.log, "a")
    print("http://127.0.0.1:%d" % server.server_address[1], flush=True)
    try:
        threading.Event().wait()
    except KeyboardInterrupt:
        pass
    return 0


if __name__ == "__main__":
    sys.exit(main())
