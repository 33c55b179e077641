# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Bytes out of files: lazy views (W3), everything owned (W4, W6, W19), mapped and summed (W5), larger than
memory (W7), the choice of a strategy (AUTO), tensors as they arrive (STREAM).

Every contender loads in a process of its own; see bench/peers.py. The classes are never mixed: a row is
about views, or about bytes in memory of one's own, for all in it.
"""

import os
import shutil

import files

# What owns all bytes of a safetensors file, by package: (name, kit, way)
OWNED = [
    ("safetensors, mmap + clone", "ref", "clone"),
    ("safetensors, pread", "ref", "pread"),
    ("safetensors, load(bytes)", "ref", "bytes"),
    ("safetensors rc, mmap + clone", "rc", "clone"),
    ("safetensors rc, pread", "rc", "pread"),
    ("fastsafetensors", "fastsafetensors", "-"),
    ("runai streamer", "runai", "-"),
    ("instanttensor", "instanttensor", "-"),
    ("numpy.fromfile", "numpy", "-"),
]
FORMATS = [
    ("torch.load", "torch", "pt"),
    ("tensorizer", "tensorizer", "tensors"),
    ("gguf, copied", "gguf", "gguf"),
]
REFERENCE = tuple(name for name, kit, _ in OWNED if kit in ("ref", "rc"))


def backed(b, mib, call):
    """Touches as much memory as the work needs before every call. In a virtual machine the first touch of
    memory that the host has taken back costs ten times what the work costs; it would hit whoever comes
    first."""

    def run():
        b.c("prewarm", mib + mib // 4 + 64)
        return call()

    return run


def checking(call):
    """Adds the word "verify" to the first, uncounted call."""
    state = {"checked": False}

    def run():
        words = () if state["checked"] else ("verify",)
        state["checked"] = True
        return call(*words)

    return run


def gib(mib):
    return f"{mib / 1024:g} GiB"


def converted(b, path, kit, suffix):
    """The same tensors in another format; None where the package is absent."""
    target = path.with_suffix("." + suffix)
    if not target.exists():
        if not b.has(kit):
            return None
        b.peer(kit, "make", path, target)
    return target


def w3_views(b):
    """A tensor object for every tensor of a warm file; no byte is touched."""
    moe = files.many(b.folder, b.mode["many"], "F16")
    big = files.layers(b.folder, b.mode["load_mib"])
    for path, count, n in ((big, 290, 100), (moe, b.mode["many"], 5)):
        base = f"open + mmap + close + 1 us x {count:,}"

        def allowed(path=path, count=count):
            return 2 * b.c("map_base", path, 200)["ns"] + 1000 * count

        others = {
            "ours, C": lambda path=path, n=n: b.c("views", path, n),
            "open + mmap + close": lambda path=path: b.c("map_base", path, 200),
            "2 x " + base: allowed,
            "ours, Python torch": lambda path=path: b.peer("ours", "lazy", path, "torch", 5),
            "ours, Python numpy": lambda path=path: b.peer("ours", "lazy", path, "numpy", 5),
            "safetensors": lambda path=path: b.peer("ref", "lazy", path, "torch", 3),
            "safetensors rc": lambda path=path: b.peer("rc", "lazy", path, "torch", 3),
            "numpy.memmap": lambda path=path: b.peer("numpy", "lazy", path, "numpy", 5),
        }
        for name, kit, suffix in (("torch.load mmap", "torch", "pt"), ("gguf", "gguf", "gguf")):
            other = converted(b, path, kit, suffix)
            if other:
                others[name] = lambda kit=kit, other=other, n=n: b.peer(
                    kit, "lazy", other, "torch", max(1, n // 30)
                )
        b.measure(
            "W3",
            f"views of {count:,} tensors",
            others,
            [
                ("within the allowance", "2 x " + base, "ours, C", 1, "W3"),
                ("Python torch within the allowance", "2 x " + base, "ours, Python torch", None),
                ("Python numpy within the allowance", "2 x " + base, "ours, Python numpy", None),
                ("times as fast as safetensors", "safetensors", "ours, Python torch", None),
            ],
            group="views",
        )


def owning(b, path, mib, prepare, suffixes):
    """Contenders that bring all bytes into memory of the caller's; prepare(path) before each turn."""

    def turn(path, call):
        def run(*words):
            prepare(path)
            return call(*words)

        return backed(b, mib, checking(run))

    out = {}
    for framework in ("torch", "numpy"):
        out[f"ours, Python {framework}"] = turn(
            path, lambda *w, f=framework: b.peer("ours", "owned", path, f, "pread", *w)
        )
    for name, kit, way in OWNED:
        out[name] = turn(path, lambda *w, k=kit, y=way: b.peer(k, "owned", path, "torch", y, *w))
    out["safetensors numpy"] = turn(path, lambda *w: b.peer("ref", "owned", path, "numpy", "mmap", *w))
    for name, kit, suffix in suffixes:
        other = converted(b, path, kit, suffix)
        if other:
            out[name] = turn(
                other,
                lambda *w, k=kit, o=other: b.peer(
                    k, "owned", o, "torch", "-", *(list(w) + [path] if w else [])
                ),
            )
    return out


def once(b, *words):
    return lambda *w: b.once(*words, *w)


def w4_load(b):
    """Everything in memory of one's own, from the page cache."""
    mib = b.mode["load_mib"]
    path = files.layers(b.folder, mib)
    b.c("warm", path)
    contenders = {
        "ours, fresh memory": backed(b, mib, checking(once(b, "load", path, "auto", "fresh", 2))),
        "ours, touched memory": backed(b, mib, checking(once(b, "load", path, "auto", "touched", 2))),
        "ours, reused arena": backed(b, mib, checking(once(b, "load", path, "auto", "reused", 2))),
        "pread into touched memory": backed(b, mib, once(b, "read_all", path, "cached", 2)),
    }
    contenders.update(owning(b, path, mib, lambda p: None, FORMATS))
    b.measure(
        "W4",
        f"load {gib(mib)} warm, owned",
        contenders,
        [
            (
                "of pread's speed, fresh memory",
                "pread into touched memory",
                "ours, fresh memory",
                0.65,
                "W4-fresh",
            ),
            (
                "of pread's speed, reused arena",
                "pread into touched memory",
                "ours, reused arena",
                0.95,
                "W4-arena",
            ),
            ("of pread's speed, touched memory", "pread into touched memory", "ours, touched memory", None),
            ("C: times the reference's best way", REFERENCE, "ours, fresh memory", 3, "W4-ref"),
            (
                "Python torch: times the reference's best way",
                REFERENCE,
                "ours, Python torch",
                3,
                "P-owned-torch",
            ),
            (
                "Python numpy: times the reference's best way",
                REFERENCE + ("safetensors numpy",),
                "ours, Python numpy",
                3,
                "P-owned-numpy",
            ),
        ],
        group="owned",
    )
    got, size = b.rows[-1]["contenders"], path.stat().st_size
    best = min((c["typical"]["peak"] for n, c in got.items() if n in REFERENCE), default=0)
    for framework in ("torch", "numpy"):
        mine = got.get(f"ours, Python {framework}")
        if mine:
            peak = mine["typical"]["peak"]
            b.fact(
                "W4",
                f"peak memory, {gib(mib)} owned, Python {framework}",
                peak,
                "bytes",
                "the tensors + 2 % + 16 MB",
                size * 1.02 + 16e6,
                f"{peak / size:.2f}x the file; the reference's most frugal way {best / size:.2f}x",
                id=f"P-peak-{framework}",
            )


def w5_sum(b):
    """Mapped, and every byte of it summed by one thread."""
    mib = b.mode["load_mib"]
    path = files.layers(b.folder, mib)
    b.c("warm", path)
    b.measure(
        "W5",
        f"map {gib(mib)} warm and sum it, C",
        {
            "ours, populated": lambda: b.c("sum", path, "populate", 2),
            "ours, lazy": lambda: b.c("sum", path, "lazy", 1),
            "sum of touched memory": lambda: b.c("sum_base", path),
        },
        [
            (
                "of the speed in touched memory, populated",
                "sum of touched memory",
                "ours, populated",
                0.9,
                "W5",
            ),
            ("of the speed in touched memory, lazy", "sum of touched memory", "ours, lazy", None),
        ],
        group="mapped",
    )
    b.measure(
        "W5",
        f"map {gib(mib)} warm and sum it, Python",
        {
            "ours, torch": lambda: b.peer("ours", "total", path, "torch"),
            "ours, numpy": lambda: b.peer("ours", "total", path, "numpy"),
            "safetensors torch": lambda: b.peer("ref", "total", path, "torch"),
            "safetensors rc torch": lambda: b.peer("rc", "total", path, "torch"),
            "safetensors numpy": lambda: b.peer("ref", "total", path, "numpy"),
            "numpy.memmap": lambda: b.peer("numpy", "total", path, "numpy"),
            "sum of touched memory": lambda: b.peer("numpy", "total_base", path),
        },
        [
            ("of the speed in touched memory", "sum of touched memory", "ours, numpy", None),
            ("times as fast as safetensors torch", "safetensors torch", "ours, torch", None),
        ],
        group="mapped",
    )


def w6_cold(b):
    """Everything in memory of one's own, from the disk."""
    mib = b.mode["load_mib"]
    path = files.layers(b.folder, mib)

    def cold(call):
        def run(*words):
            b.drop(path)
            return call(*words)

        return run

    contenders = {
        "ours, auto": backed(b, mib, cold(once(b, "load", path, "auto", "fresh", 2))),
        "ours, auto, touched memory": backed(b, mib, cold(once(b, "load", path, "auto", "touched", 2))),
        "ours, direct, reused arena": cold(lambda: b.c("load", path, "direct", "reused", 2)),
        "ours, read": backed(b, mib, cold(once(b, "load", path, "read", "fresh", 2))),
        "O_DIRECT into touched memory": backed(b, mib, cold(once(b, "read_all", path, "direct", 2))),
    }
    contenders.update(owning(b, path, mib, b.drop, FORMATS[:1]))
    for name in ("safetensors, load(bytes)", "safetensors numpy", "ours, Python numpy"):
        del contenders[name]
    b.c("load", path, "direct", "reused", 2)
    lazy = ("safetensors, mmap + clone", "safetensors rc, mmap + clone")
    b.measure(
        "W6",
        f"load {gib(mib)} cold, owned",
        contenders,
        [
            ("of the disk's speed", "O_DIRECT into touched memory", "ours, auto", 0.95, "W6"),
            (
                "of the disk's speed, touched memory",
                "O_DIRECT into touched memory",
                "ours, auto, touched memory",
                0.95,
                "W6-touched",
            ),
            (
                "of the disk's speed, reused arena",
                "O_DIRECT into touched memory",
                "ours, direct, reused arena",
                None,
            ),
            ("times the reference where it is lazy", lazy, "ours, auto", 2, "W6-ref"),
            ("Python: times the reference where it is lazy", lazy, "ours, Python torch", None),
        ],
        turns=min(b.turns, 11),
        group="owned",
    )
    row = b.rows[-1]["contenders"].get("ours, auto")
    if row:
        b.fact(
            "W6",
            f"processor time, {gib(mib)} cold",
            row["typical"]["cpu_us"] * 1000 / (mib / 1024),
            "ns",
            "0.15 s a GiB",
            0.15e9,
            "per GiB, of both threads",
        )


def w7_stream(b):
    """A file streamed cold through a small window; in the full mode one larger than memory."""
    mib = b.mode["stream_mib"]
    if mib == 0:
        mib = (os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 20) * 108 // 100
        room = (shutil.disk_usage(b.folder).free >> 20) - (4 << 10)
        mib = min(mib, room, 30_000)
    path = files.layers(b.folder, mib, name="stream")

    def cold(*words):
        def run():
            b.drop(path)
            return b.once(*words)

        return run

    def cold_peer(kit):
        def run():
            b.drop(path)
            return b.peer(kit, "stream", path)

        return run

    note = "" if b.mode["stream_mib"] == 0 else "a stand-in: smaller than memory, but no byte of it is cached"
    b.measure(
        "W7",
        f"stream {gib(mib)} cold through 256 MiB",
        {
            "ours, auto": cold("windows", path, "auto", 2, 256),
            "ours, direct": cold("windows", path, "direct", 2, 256),
            "O_DIRECT into touched memory": cold("read_all", path, "direct", 2, 256),
            "safetensors, pread": cold_peer("ref"),
            "safetensors rc, pread": cold_peer("rc"),
            "runai streamer": cold_peer("runai"),
        },
        [
            ("of the disk's speed", "O_DIRECT into touched memory", "ours, auto", 0.95, "W7"),
            ("times as fast as safetensors", "safetensors, pread", "ours, auto", None),
        ],
        turns=min(b.turns, 11 if mib <= 4096 else 5),
        group="owned",
        note=note,
    )
    b.drop(path)
    answer = b.once("windows", path, "auto", 2, 256)
    left = b.c("cached", path) / 1e6
    b.fact(
        "W7",
        "page cache that a stream leaves behind",
        left * path.stat().st_size,
        "bytes",
        "1 % of the file",
        path.stat().st_size / 100,
        f"{left:.2%} of the file",
        id="W7-cache",
    )
    b.fact("W7", "peak memory of the stream", answer["peak"], "bytes", "the window + 64 MiB", 320 << 20)
    path.unlink()


def w19_threads(b):
    """Eight files by eight threads of one Python process."""
    mib = b.mode["shard_mib"]
    _, paths = files.shards(b.folder, mib)
    b.c("warm", *paths)

    def one_by_one():
        return {"ns": sum(b.c("load", path, "auto", "fresh", 2)["ns"] for path in paths)}

    def python(kit, way, threads):
        return backed(b, 8 * mib, lambda: b.peer(kit, "many_files", "torch", way, threads, *paths))

    b.measure(
        "W19",
        f"8 threads x 8 files of {mib} MiB, owned, one process",
        {
            "ours, 8 threads": python("ours", "pread", 8),
            "ours, one after the other": python("ours", "pread", 1),
            "ours, C, two threads, one after the other": backed(b, 8 * mib, one_by_one),
            "safetensors, mmap + clone, 8 threads": python("ref", "clone", 8),
            "safetensors, pread, 8 threads": python("ref", "pread", 8),
            "safetensors rc, pread, 8 threads": python("rc", "pread", 8),
            "fastsafetensors, 8 threads": python("fastsafetensors", "-", 8),
        },
        [
            ("of the rate of one thread", "ours, one after the other", "ours, 8 threads", 0.9, "W19"),
            ("of C's rate", "ours, C, two threads, one after the other", "ours, 8 threads", None),
            ("times as fast as safetensors", "safetensors, mmap + clone, 8 threads", "ours, 8 threads", None),
        ],
        group="owned",
    )


def auto_matrix(b):
    """auto beside every fixed strategy: {cold, warm} x {1, 64 files} x {whole, rows, columns}."""
    mib = b.mode["matrix_mib"]
    try:
        for count in (1, 64):
            folder = b.folder / f"shards-matrix-{count}"
            tensors = 16 if count == 1 else 2
            folder.mkdir(exist_ok=True)
            b.c("matrix_make", folder, count, tensors, max(1, mib * 64 // (count * tensors)))
            for cache in ("cold", "warm"):
                for what in ("whole", "rows", "columns"):
                    fixed = ("read", "direct")
                    b.measure(
                        "AUTO",
                        f"{count} file{'s' if count > 1 else ''}, {cache}, {what}",
                        {
                            f"ours, {s}": lambda s=s: b.c("matrix", folder, cache, what, s, 2)
                            for s in ("auto", *fixed, "map")
                        },
                        [
                            (
                                "of the best fixed strategy",
                                tuple(f"ours, {s}" for s in fixed),
                                "ours, auto",
                                1 / 1.1,
                                "AUTO",
                            )
                        ],
                        turns=min(b.turns, 11),
                        note="map: bytes that a cut file turns into a signal",
                    )
            shutil.rmtree(folder)
    finally:
        for count in (1, 64):
            shutil.rmtree(b.folder / f"shards-matrix-{count}", ignore_errors=True)


def stream_in(b):
    """Tensors as they arrive, within 256 MiB."""
    mib = b.mode["load_mib"]
    path = files.layers(b.folder, mib)
    for cache, base in (("warm", "cached"), ("cold", "direct")):

        def turn(*words, cache=cache):
            def run():
                if cache == "cold":
                    b.drop(path)
                else:
                    b.c("warm", path)
                return b.c(*words)

            return run

        b.measure(
            "STREAM",
            f"stream {gib(mib)} {cache} within 256 MiB",
            {
                "ours": turn("stream_in", path, "auto", 256, 2, "none"),
                "ours, the consumer takes a CRC32C": turn("stream_in", path, "auto", 256, 2, "crc"),
                "read through as much memory": turn("read_through", path, base, 256, 2, "none"),
            },
            [("of reading through as much memory", "read through as much memory", "ours", 0.9, "STREAM")],
            turns=min(b.turns, 11),
            group="owned",
        )
    server = b.fresh("c")
    grown = server("stream_in_memory", path, "auto", 256, 2, "none")
    server.close()
    b.fact("STREAM", "memory of the stream", grown, "bytes", "256 MiB + 32 MiB", 288 << 20)


ALL = [
    ("W3", w3_views, 30),
    ("W4", w4_load, 170),
    ("W5", w5_sum, 50),
    ("W6", w6_cold, 170),
    ("W7", w7_stream, 170),
    ("W19", w19_threads, 80),
    ("AUTO", auto_matrix, 150),
    ("STREAM", stream_in, 30),
]
ROWS = {"W3": 2, "W4": 1, "W5": 2, "W6": 1, "W7": 1, "W19": 1, "AUTO": 12, "STREAM": 2}
