# SPDX-License-Identifier: Apache-2.0 OR MIT
"""test_options.py - what options do with URLs: every option and operand of every command, as its --help lists them, with planted
secrets; `fetch --layout` from servers of this machine, against parts cut here in Python. Standard library only."""

from __future__ import annotations

import json
import os
import re
import socket
import struct
import subprocess
import sys

import harness
import hostile_server

FILE = "model-00001-of-00002.safetensors"
INDEX = "model.safetensors.index.json"
TAKEN = socket.create_server(("127.0.0.1", 0))  # view ends there, instead of serving
PLANTED = ("plantedPW", "plantedSIG", "plantedTOKEN", "plantedKEY", "plantedSESSION")


def start(t: harness.Tests, other: str = "") -> str:
    server = hostile_server.start(t.files, t.log, "a", other, None)
    return "http://127.0.0.1:%d" % server.server_address[1]


# ---------------------------------------------------------------- secrets


def commands(t: harness.Tests) -> dict[str, list[str]]:
    """{command: its options that take a value}, as --help lists them."""
    listed = re.search(r"\nCommands\n(.*?)\n\n", t.tool("--help").stdout, re.S)
    assert listed is not None
    found = {}
    for name in re.findall(r"^  (\S+)", listed.group(1), re.M):
        text = t.tool(name, "--help").stdout
        found[name] = re.findall(r"^ +(?:-\w, )?(--[a-z-]+) [\[A-Z]", text, re.M)
    return found


def operands(command: str, url: str, n: int) -> list[list[str]]:
    out = "o%d" % n
    if command in ("diff", "cp"):
        return [[url, "m.safetensors"], ["m.safetensors", url]] + (
            [[url, out + ".safetensors"]] if command == "cp" else []
        )
    if command == "get":
        return [[url, "w", "-o", "-"], ["m.safetensors", url], ["m.safetensors", "w", "-o", url]]
    if command in ("split", "dedupe", "expand", "convert"):
        return [[url, "-o", out], ["m.safetensors", "-o", url]]
    if command == "join":
        return [[url, "-o", out], ["m.safetensors", "-o", url], ["--unified", url, "-o", out]]
    if command == "reshard":
        return [
            [url, "--target-layout", "plan.json", "-r", "2", "-o", out],
            ["m.safetensors", "--target-layout", url, "-o", out],
        ]
    if command == "slice":
        return [[url, "--layout", "plan.json", "-r", "2", "-k", "1", "-o", out]]
    if command == "view":
        port = str(TAKEN.getsockname()[1])
        return [["--no-browser", "--port", port, url]]
    if command == "layout":
        return [["show", url], ["convert", url, "-o", out], ["merge", url, "-o", out], [url]]
    return [[url], ["m.safetensors", url], [url, url]]


def plain(command: str, n: int) -> list[str]:
    """Operands of this machine, for which options are tried."""
    if command in ("layout", "resume-point", "completion", "help"):
        return {"layout": ["show", "plan.json"], "resume-point": ["."]}.get(command, ["ls"])
    given = operands(command, "m.safetensors", n)[0]
    return [given[0], "o%d.safetensors" % n] if command == "cp" else given


def planted(base: str) -> list[str]:
    query = "?X-Amz-Signature=plantedSIG&Expires=1"
    return [
        base + "/ok/" + FILE + query,
        base + "/ok/m.pt" + query,
        base + "/explain-echo/" + INDEX + query,
        base + "/login/" + FILE + query,
        base.replace("//", "//user:plantedPW@") + "/ok/" + FILE,
        "s3://bucket/key" + query,
        "hf://org/repo@" + "v?token=plantedSIG",
        "hf://org/repo/x?token=plantedSIG",
        "hf://user:plantedPW@org/repo",
        base + "/ok/" + FILE + "#X-Amz-Signature=plantedSIG",
    ]


def mistyped(base: str) -> list[str]:
    """What a hand makes of a URL; no command opens it, none prints what it hides."""
    host = base.partition("//")[2]
    return [
        " " + base + "/x?sig=plantedSIG",
        "git+" + base.replace("//", "//user:plantedPW@"),
        "http:user:plantedPW@" + host,
        "http:/" + host + "/x?sig=plantedSIG",
        "https:///" + host + "/x?sig=plantedSIG",
        "//user:plantedPW@" + host,
        "HTTP//" + host + "/x?sig=plantedSIG",
        "http;//user:plantedPW@" + host,
        "http\\://user:plantedPW@" + host,
        '"' + base + '/x?sig=plantedSIG"',
        "<" + base + "/x?sig=plantedSIG>",
        "hf:user:plantedPW@org/repo",
        "s3:/user:plantedPW@bucket/key",
    ]


def secrets(t: harness.Tests) -> None:
    """In every option and operand, by itself and behind `=`: in no output, no file and no file name."""
    base = start(t, start(t))
    env = {
        "HF_TOKEN": "plantedTOKEN",
        "HF_ENDPOINT": base,
        "AWS_ENDPOINT_URL": base,
        "AWS_REGION": "x",
        "AWS_ACCESS_KEY_ID": "plantedKEY1",
        "AWS_SECRET_ACCESS_KEY": "plantedKEY2",
        "AWS_SESSION_TOKEN": "plantedSESSION",
    }
    proxied = dict(env, http_proxy="http://user:plantedPW@127.0.0.1:1", no_proxy="")
    work = os.path.join(t.tmp, "secrets")
    os.makedirs(work)
    with open(os.path.join(work, "m.safetensors"), "wb") as f:
        f.write(harness.tensors_file({"w": b"12345678", "x": b"12345678"}))
    with open(os.path.join(work, "plan.json"), "w", encoding="ascii") as f:
        f.write('{"w": "colwise", "*": "rowwise"}')
    t.put("m.pt", b"PK\x03\x04 is no archive")
    runs: list[list[str]] = []
    known = commands(t)
    t.check("commands", len(known) >= 20 and "--layout" in known["ls"] and "--names" in known["join"], known)
    for command, options in known.items():
        for url in planted(base):
            for given in operands(command, url, len(runs)):
                runs += [[command, *given], [command, "--json", "-v", *given]]
        url = planted(base)[0]
        for option in options:
            runs.append([command, option, url, *plain(command, len(runs))])
            runs.append([command, option + "=" + url, *plain(command, len(runs))])
            runs.append([command, option + "=" + planted(base)[4], *plain(command, len(runs))])
        runs.append([command, "--no-such=" + url, *plain(command, len(runs))])
        runs += [[command, *operands(command, u, len(runs))[0]] for u in mistyped(base)]
    runs += [[u] for u in planted(base) + mistyped(base)] + [
        ["lss", u] for u in planted(base)
    ]  # the command forgotten, or mistyped
    named = 0
    for i, run in enumerate(runs):
        got = subprocess.run(
            [t.args.tool, *run],
            cwd=work,
            env={**t.env, **(proxied if i % 199 == 0 else env)},
            capture_output=True,
            text=True,
            errors="replace",
            timeout=300,
            check=False,
            stdin=subprocess.DEVNULL,
        )
        said = got.stdout + got.stderr
        named += base in said
        t.check("secrets: %s" % " ".join(run[:2]), not any(p in said for p in PLANTED), (run, said[:600]))
        t.check(
            "exit status: %s" % " ".join(run[:2]),
            got.returncode in (0, 1, 2, 3),
            (run, got.returncode, said[:600]),
        )
    for proxy in (
        "ftp://user:plantedPW@127.0.0.1:1",
        "http://user:plantedPW@[::bad",
        "http://user:plantedPW@no.such.host.invalid:1",
    ):
        got = subprocess.run(
            [t.args.tool, "ls", "--allow-http", base + "/ok/" + FILE],
            cwd=work,
            env={**t.env, **env, "http_proxy": proxy, "no_proxy": ""},
            capture_output=True,
            text=True,
            errors="replace",
            timeout=300,
            check=False,
            stdin=subprocess.DEVNULL,
        )
        t.check(
            "a proxy's password",
            got.returncode == 3 and "plantedPW" not in got.stdout + got.stderr,
            (proxy, got.stderr[:600]),
        )
    for folder, folders, files in os.walk(work):
        for file in files + folders:
            t.check("name of a file", not any(p in file for p in PLANTED), os.path.join(folder, file))
        for file in files:
            with open(os.path.join(folder, file), "rb") as f:
                data = f.read()
            t.check("a file", not any(p.encode() in data for p in PLANTED), os.path.join(folder, file))
    t.check("URLs are named", named > len(runs) // 3, named)
    print("%d commands with planted secrets, %d name the URL" % (len(runs), named))


# ---------------------------------------------------------------- one rank's part


def matrices(shapes: dict[str, tuple[int, int]]) -> tuple[dict[str, bytes], bytes]:
    """Tensors of noise, and the file of them."""
    values = {n: harness.noise(a * b, i) for i, (n, (a, b)) in enumerate(shapes.items())}
    at, entries = 0, {}
    for n, shape in shapes.items():
        entries[n] = {"dtype": "U8", "shape": list(shape), "data_offsets": [at, at + len(values[n])]}
        at += len(values[n])
    text = json.dumps(entries).encode()
    return values, struct.pack("<Q", len(text)) + text + b"".join(values.values())


def read(path: str) -> dict[str, tuple[list[int], bytes]]:
    with open(path, "rb") as f:
        data = f.read()
    begin = 8 + struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:begin])
    header.pop("__metadata__", None)
    return {
        n: (e["shape"], data[begin + e["data_offsets"][0] : begin + e["data_offsets"][1]])
        for n, e in header.items()
    }


def rank_parts(t: harness.Tests) -> None:
    """Rows, columns, and what the layout does not name, for each of four ranks, whatever the server makes of ranges."""
    base = start(t)
    shapes = {"rows": (64, 30000), "columns": (300, 8192), "rest": (7, 1000)}
    values, data = matrices(shapes)
    t.put("cut.safetensors", data)
    plan = os.path.join(t.tmp, "cut.json")
    with open(plan, "w", encoding="ascii") as f:
        json.dump(
            {
                "format": "safetensors-layout",
                "version": 1,
                "mesh": {"axes": {"x": 4}},
                "tensors": [{"name": "rows", "cuts": ["x", None]}, {"name": "columns", "cuts": [None, "x"]}],
            },
            f,
        )
    for kind in ("ok", "no-etag", "weak", "cap", "multi-whole", "multi-missing"):
        for k in range(4):
            out = os.path.join(t.tmp, "rank-%s-%d" % (kind, k))
            done = t.tool(
                "fetch", "--layout", plan, "--rank", str(k), "%s/%s/cut.safetensors" % (base, kind), "-o", out
            )
            label = "%s, rank %d" % (kind, k)
            t.check(label, done.returncode == 0 and "1 of 3 tensors" in done.stderr, done)
            if done.returncode != 0:
                continue
            t.equal(label, sorted(os.listdir(out)), ["model.safetensors"])
            wide = b"".join(
                values["columns"][8192 * i + 2048 * k : 8192 * i + 2048 * (k + 1)] for i in range(300)
            )
            t.equal(
                label,
                read(os.path.join(out, "model.safetensors")),
                {
                    "rows": ([16, 30000], values["rows"][k * 480000 : (k + 1) * 480000]),
                    "columns": ([300, 2048], wide),
                    "rest": ([7, 1000], values["rest"]),
                },
            )
    # a refusal or a failure leaves nothing that can be seen
    for kind, status in (("etag", 3), ("range-total", 3), ("short", 3), ("S404", 3), ("explain-xml", 3)):
        out = os.path.join(t.tmp, "none-" + kind)
        done = t.tool(
            "fetch", "--layout", plan, "--rank", "1", "%s/%s/cut.safetensors" % (base, kind), "-o", out
        )
        t.equal(kind, (done.returncode, os.path.exists(out)), (status, False))
    out = os.path.join(t.tmp, "none")
    url = base + "/ok/cut.safetensors"
    for args, status in ((["--rank", "4"], 2), (["--rank", "0/5"], 2), (["--rank", "x"], 2), ([], 2)):
        t.equal(str(args), t.tool("fetch", "--layout", plan, *args, url, "-o", out).returncode, status)
    with open(plan, "w", encoding="ascii") as f:
        f.write('{"others.*": "colwise"}')
    done = t.tool("fetch", "--layout", plan, "--rank", "1/4", url, "-o", out)
    t.check("a layout of other names", done.returncode == 1 and "none of the layout's" in done.stderr, done)
    t.check("and nothing is there", not os.path.exists(out))
    # the token goes nowhere: the layout is a file of this machine
    done = t.tool("fetch", "--layout", base + "/ok/plan.json", "--rank", "1/4", url, "-o", out)
    t.equal("a layout behind a URL", (done.returncode, os.path.exists(out)), (3, False))


if __name__ == "__main__":
    tests = harness.Tests()
    sys.exit(tests.run(rank_parts, secrets))
