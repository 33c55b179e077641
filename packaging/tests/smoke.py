#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""smoke.py FIXTURES TOOL... [--no-numpy] [--no-url] - is what a package installed alive? FIXTURES: tests/import/fixtures.

Saves, loads and slices with numpy and safetensors_c; lists, converts, checks and scans with the command (TOOL, its words),
compressed files among them; asks `view` for its site; opens a URL of a server that it starts on loopback. Standard library beside these.
Prints what was tried; any failure is an exception.
"""

import hashlib
import os
import subprocess
import sys
import tempfile
import threading

PACKED = {"zlib": "(in zlib)", "bz2": "(in bzip2)", "xz": "(in xz or lzma)", "lzma": "(in xz or lzma)"}


def serve(folder):
    """A server of the files in a folder, in whole or one range of each. A Python without sockets does not come here."""
    import http.server

    class Ranges(http.server.SimpleHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_):
            pass

        def do_GET(self):
            with open(self.translate_path(self.path), "rb") as f:
                data = f.read()
            first, last = 0, len(data) - 1
            wanted = self.headers.get("Range")
            if wanted:
                start, end = wanted[len("bytes=") :].split("-")
                first = int(start) if start else max(len(data) - int(end), 0)
                last = min(int(end), last) if start and end else last
            part = data[first : last + 1]
            self.send_response(206 if wanted else 200)
            self.send_header("ETag", '"' + hashlib.sha256(data).hexdigest() + '"')
            self.send_header("Content-Length", str(len(part)))
            self.send_header("Accept-Ranges", "bytes")
            if wanted:
                self.send_header("Content-Range", "bytes %d-%d/%d" % (first, last, len(data)))
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(part)

        do_HEAD = do_GET

        def __init__(self, *arguments):
            super().__init__(*arguments, directory=folder)

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Ranges)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server, "http://127.0.0.1:%d/" % server.server_address[1]


def tool(command, *arguments, status=0):
    done = subprocess.run([*command, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    text = (done.stdout + done.stderr).decode(errors="replace")
    if done.returncode != status:
        raise SystemExit("%s: exit status %d, not %d: %s" % (arguments, done.returncode, status, text))
    return text


def site(command):
    """What `view` serves without a model."""
    import urllib.request

    view = subprocess.Popen([*command, "view", "--no-browser"], stdout=subprocess.PIPE)
    try:
        url = view.stdout.readline().decode().strip()
        assert url.startswith("http://127.0.0.1:"), url
        for name in ("", "site.js", "worker.js", "safetensors.wasm", "safetensors-scan.wasm"):
            with urllib.request.urlopen(url + name) as answer:
                assert len(answer.read()) > 500, name
    finally:
        view.kill()
        view.wait()


def main():
    fixtures, *command = [word for word in sys.argv[1:] if not word.startswith("--")]
    done = []
    folder = tempfile.mkdtemp()
    os.chdir(folder)
    name = "m.safetensors"
    if "--no-numpy" in sys.argv:
        import safetensors_c

        data = bytes(range(96))
        with safetensors_c.Writer(
            name, {"a": safetensors_c.TensorSpec(dtype="F32", shape=[4, 6], data_ptr=0, data_len=96)}
        ) as w:
            w.put("a", data)
            w.finish()
        with open(name, "rb") as f:
            read = dict(safetensors_c.deserialize(f.read()))
        assert bytes(read["a"]["data"]) == data
        done.append("save and load")
    else:
        import numpy as np
        from safetensors_c import safe_open
        from safetensors_c.numpy import load_file, save_file

        a = np.arange(24, dtype=np.float32).reshape(4, 6)
        save_file({"a": a, "b": np.ones(3, np.int64)}, name, {"made": "here"})
        assert np.array_equal(load_file(name)["a"], a)
        with safe_open(name, "np") as f:
            assert np.array_equal(f.get_slice("a")[1:3, ::2], a[1:3, ::2]) and f.metadata() == {
                "made": "here"
            }
        np.savez_compressed("arrays.npz", a=a, b=a[:2])
        done.append("save, load, slice with numpy %s" % np.__version__)
    if command:
        assert "F32" in tool(command, "ls", name)
        tool(command, "check", name)
        tool(command, "convert", os.path.join(fixtures, "checkpoint.pt"), "-o", "checkpoint.safetensors")
        tool(command, "check", "checkpoint.safetensors")
        if os.path.exists("arrays.npz"):
            tool(command, "convert", "arrays.npz", "-o", "arrays.safetensors")
            tool(command, "diff", "arrays.npz", "arrays.safetensors")
        for name_of, what in PACKED.items():
            packed = os.path.join(fixtures, "joblib-" + name_of + ".joblib")
            assert what in tool(command, "scan", packed, status=1), packed
        done.append("ls, check, convert, diff, scan (zlib, bzip2, xz)")
        if "--no-numpy" not in sys.argv and len(command) == 1:  # an emulator starts no other program
            from safetensors_c import report

            assert report(name, "report.html").summary["totals"]["tensors"] == 2
            done.append("report")
    if len(command) == 1:
        site(command)
        done.append("view's site")
    if "--no-url" not in sys.argv:
        server, base = serve(folder)
        if command:
            assert tool(command, "ls", base + name) == tool(command, "ls", name)
        if "--no-numpy" not in sys.argv:
            assert np.array_equal(load_file(base + name)["a"], a)
        server.shutdown()
        done.append("URL")
    print("smoke: %s; Python %s" % ("; ".join(done), sys.version.split()[0]))


if __name__ == "__main__":
    main()
