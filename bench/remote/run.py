#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""run.py - URLs against curl and aria2c, through a proxy that adds a round trip and limits bandwidth; nginx is the
server. Prints JSON: every figure with what it is compared to. Standard library only.

    bench/remote/run.py [--build BUILD] [--repeat 3]
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import statistics
import struct
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(ROOT, "tests", "remote"))
sys.path.insert(0, HERE)
import test_nginx  # noqa: E402  pylint: disable=wrong-import-position
from proxy import Proxy  # noqa: E402  pylint: disable=wrong-import-position

RTT = 0.05
LINK = 100e6
MIB = 1 << 20


class Place:
    """What test_nginx.Nginx wants of a test run."""

    def __init__(self, tmp: str) -> None:
        self.tmp = tmp
        self.files = os.path.join(tmp, "files")
        os.makedirs(self.files)


def write_file(path: str, tensors: list[tuple[str, list[int], int]]) -> int:
    """F32 tensors (name, shape, bytes); returns the header's length."""
    at = 0
    entries: dict[str, object] = {}
    for name, shape, size in tensors:
        entries[name] = {"dtype": "F32", "shape": shape, "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(entries).encode()
    text += b" " * (-len(text) % 8)
    block = os.urandom(MIB)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for left in range(at, 0, -MIB):
            f.write(block[: min(left, MIB)])
    return len(text)


def model(folder: str, shards: int, each: int) -> int:
    os.makedirs(folder)
    weights = {}
    header = 0
    for s in range(shards):
        name = "model-%05d-of-%05d.safetensors" % (s + 1, shards)
        tensors = [("layers.%d.%d.weight" % (s, i), [16, 16], 1024) for i in range(each)]
        header += write_file(os.path.join(folder, name), tensors)
        weights.update({t[0]: name for t in tensors})
    with open(os.path.join(folder, "model.safetensors.index.json"), "w", encoding="utf-8") as f:
        json.dump({"weight_map": weights}, f)
    return header


class Bench:
    def __init__(self, args: argparse.Namespace) -> None:
        self.build = os.path.abspath(args.build)
        self.repeat = args.repeat
        self.tmp = tempfile.mkdtemp(
            prefix="sft-bench-remote-", dir="/dev/shm" if os.path.isdir("/dev/shm") else None
        )
        self.place = Place(self.tmp)
        self.nginx = test_nginx.Nginx(self.place)
        self.port = int(self.nginx.plain.rsplit(":", 1)[1])
        self.tls = int(self.nginx.tls.rsplit(":", 1)[1])
        self.rows: list[dict[str, object]] = []

    def probe(self, *args: str) -> dict:
        program = os.path.join(self.build, "tests", "remote", "remote_probe")
        done = subprocess.run([program, *args], capture_output=True, text=True, check=False)
        got = json.loads(done.stdout)
        if got["status"] != "SFT_OK":
            raise RuntimeError(got)
        return got

    def row(self, name: str, **facts: object) -> None:
        self.rows.append({"name": name, **facts})
        print(json.dumps(self.rows[-1]), file=sys.stderr, flush=True)

    def headers(self) -> None:
        """Wall time in round trips, by one process that opens the model twice: the second time its connections are
        there; the first time each costs a round trip to connect (and one more for TLS)."""
        for each, headers in ((20, "short headers"), (900, "headers of 86 KB")):
            folder = os.path.join(self.place.files, "m%d" % each)
            header = model(folder, 20, each)
            index = os.path.getsize(os.path.join(folder, "model.safetensors.index.json"))
            for kind, port in (
                ("http, a connection for each shard", self.port),
                ("https, HTTP/2 on one", self.tls),
            ):
                proxy = Proxy(port, RTT, LINK)
                url = "%s/m%d/model.safetensors.index.json" % (proxy.url, each)
                if port == self.tls:
                    url = url.replace("http:", "https:")
                runs = [self.probe("ca_file=" + self.nginx.cert, "again", url) for _ in range(self.repeat)]
                there = statistics.median(r["again_ms"] for r in runs)
                first = statistics.median(r["ms"] - r["again_ms"] for r in runs)
                self.row(
                    "open 20 shards, %s, %s" % (headers, kind),
                    ms=there,
                    round_trips=there / (RTT * 1e3),
                    with_connecting=first / (RTT * 1e3),
                    requests=runs[0]["requests"] // 2,
                    bytes=runs[0]["bytes"] // 2,
                    most_bytes=header + index + 20 * 100000,
                )

    def timed(self, *command: str) -> float:
        begun = time.monotonic()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return time.monotonic() - begun

    def bulk(self) -> None:
        size = 384 * MIB
        write_file(os.path.join(self.place.files, "bulk.safetensors"), [("t", [size // 4], size)])
        out = os.path.join(self.tmp, "out")
        for each, n in ((0.0, 1), (10e6, 8)):
            proxy = Proxy(self.port, RTT, LINK, each)
            url = proxy.url + "/bulk.safetensors"
            ours, theirs, loads = [], [], []
            for _ in range(self.repeat):
                shutil.rmtree(out, ignore_errors=True)
                os.makedirs(out)
                if n == 1:
                    theirs.append(self.timed("curl", "-s", "-o", out + "/theirs", url))
                else:
                    theirs.append(
                        self.timed(
                            "aria2c",
                            "-q",
                            "-x",
                            str(n),
                            "-s",
                            str(n),
                            "-k",
                            "1M",
                            "-d",
                            out,
                            "-o",
                            "theirs",
                            "--file-allocation=none",
                            "--no-conf",
                            url,
                        )
                    )
                os.remove(out + "/theirs")
                begun = time.monotonic()
                self.probe("connections=%d" % n, "fetch", url, out)
                ours.append(time.monotonic() - begun)
                loads.append(self.probe("connections=%d" % n, "threads=2", "load", url)["ms"] / 1e3)
            name = "curl" if n == 1 else "aria2c"
            a, b, c = (statistics.median(x) for x in (theirs, ours, loads))
            self.row(
                "fetch 384 MiB, %d connection%s" % (n, "" if n == 1 else "s"),
                against=name,
                ours_s=b,
                theirs_s=a,
                ratio=a / b,
                mb_per_s=size / b / 1e6,
            )
            self.row(
                "load 384 MiB into memory, %d connection%s" % (n, "" if n == 1 else "s"),
                against=name,
                ours_s=c,
                theirs_s=a,
                ratio=a / c,
                mb_per_s=size / c / 1e6,
            )

    def slices(self) -> None:
        rows, columns = 8192, 2048
        size = rows * columns * 4
        write_file(os.path.join(self.place.files, "wide.safetensors"), [("w", [rows, columns], size)])
        tool = os.path.join(self.build, "safetensors")
        worth = int(LINK * RTT)
        for text, part in (
            ("1000:1100", 100 * columns * 4),
            ("0:8192:2048", 4 * columns * 4),
            ("4000:8000", 4000 * columns * 4),
            (":, 0:1024", rows * 1024 * 4),
            (":, 5", rows * 4),
        ):
            proxy = Proxy(self.port, RTT, LINK)
            begun = time.monotonic()
            done = subprocess.run(
                [
                    tool,
                    "get",
                    "-v",
                    "-f",
                    proxy.url + "/wide.safetensors",
                    "w[%s]" % text,
                    "-o",
                    os.path.join(self.tmp, "slice.npy"),
                ],
                capture_output=True,
                text=True,
                check=True,
            )
            got = int(done.stderr.split(" bytes received")[0].split()[-1])
            requests = int(done.stderr.split(" requests")[0].split()[-1])
            self.row(
                "slice [%s]" % text,
                slice_bytes=part,
                received=got - 65536,
                ratio=(got - 65536) / part,
                over=got - 65536 - part,
                one_round_trip=worth,
                requests=requests,
                s=time.monotonic() - begun,
            )

    def starts(self) -> None:
        path = os.path.join(self.place.files, "local.safetensors")
        write_file(path, [("layers.%d.weight" % i, [16, 16], 1024) for i in range(20)])
        tool = os.path.join(self.build, "safetensors")
        hidden = os.path.join(self.build, "libsafetensors-remote.so.0")

        decoy = hidden + ".decoy"
        with open(decoy, "wb"):
            pass
        times: dict[bool, list[float]] = {True: [], False: []}
        calls: dict[bool, int] = {}
        rng = random.Random(1)
        for nth in range(602):  # mixed, so that both meet the same machine
            there = nth % 2 == 0 if nth < 2 else rng.random() < 0.5
            moved = decoy if there else hidden  # a file is renamed before every run
            os.rename(moved, moved + ".away")
            if nth < 2:  # what it asks of the system, which no other work disturbs
                log = os.path.join(self.tmp, "strace")
                subprocess.run(
                    ["strace", "-f", "-o", log, tool, "ls", path], stdout=subprocess.DEVNULL, check=True
                )
                with open(log, encoding="utf-8", errors="replace") as f:
                    calls[there] = len(f.readlines())
            begun = time.perf_counter()
            subprocess.run([tool, "ls", path], stdout=subprocess.DEVNULL, check=True)
            times[there].append(time.perf_counter() - begun)
            os.rename(moved + ".away", moved)
        os.remove(decoy)
        there_ms, away_ms = (statistics.quantiles(times[k], n=4)[0] * 1e3 for k in (True, False))
        self.row(
            "ls of a local file",
            with_wing_ms=there_ms,
            without_wing_ms=away_ms,
            ratio=away_ms / there_ms,
            system_calls=calls[True],
            system_calls_without=calls[False],
        )


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", default=os.path.join(ROOT, "build"))
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("only", nargs="*", default=[])
    args = parser.parse_args()
    bench = Bench(args)
    try:
        for name in args.only or ("headers", "bulk", "slices", "starts"):
            getattr(bench, name)()
    finally:
        bench.nginx.stop()
        shutil.rmtree(bench.tmp, ignore_errors=True)
    print(
        json.dumps({"schema": 1, "rtt_ms": RTT * 1e3, "link_bytes_per_s": LINK, "rows": bench.rows}, indent=1)
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
