# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Files out of memory and out of other files: saving (W11), streaming writers (W12), merging and splitting
(W13), casts (W15), verifying (W18).
"""

import subprocess

import files
from workloads_bytes import backed, gib

MIB = 1 << 20


def w11_save(b):
    """64 tensors into a new file, plain, durable, with digests; from C and from Python."""
    mib = b.mode["save_mib"]
    path = b.folder / "save.tmp.safetensors"
    turns = b.turns if mib <= 1024 else 7

    def c(*words):
        return backed(b, mib, lambda: b.c(words[0], path, mib, *words[1:]))

    def wheel(*words):
        return backed(b, mib, lambda: b.wheel(words[0], path, mib, *words[1:]))

    def python(kit, framework):
        return backed(b, 2 * mib, lambda: b.peer(kit, "save_file", path, mib, framework))

    b.measure(
        "W11",
        f"save {gib(mib)}",
        {
            "ours": c("save", "plain", "none", 1),
            "ours, 2 threads": c("save", "plain", "none", 2),
            "fallocate + write": c("write", "plain", 8192),
            "wheel": wheel("save", "plain", "none", 1),
        },
        [
            ("as fast as fallocate + write", "fallocate + write", "ours", 0.9, "W11"),
            ("as fast as fallocate + write, 2 threads", "fallocate + write", "ours, 2 threads", None),
            ("times as fast as the wheel", "wheel", "ours", 2, "W11-ref"),
        ],
        turns,
        group="save",
    )
    b.measure(
        "W11",
        f"save {gib(mib)} durably",
        {
            "ours": c("save", "durable", "none", 1),
            "ours, 2 threads": c("save", "durable", "none", 2),
            "ours, data_alignment 4096": c("save", "durable", "none", 1, 4096),
            "O_DIRECT + fsync": c("write", "direct", 8192),
            "O_DIRECT, copied first, + fsync": c("write", "copied", 4096),
            "write + fsync": c("write", "durable", 8192),
            "wheel + fsync": wheel("save", "durable", "none", 1),
        },
        [
            ("as fast as O_DIRECT + fsync", "O_DIRECT + fsync", "ours", 0.9, "W11-durable"),
            ("as fast, 2 threads", "O_DIRECT + fsync", "ours, 2 threads", 0.9, "W11-durable-2"),
            ("as fast, data at whole pages", "O_DIRECT + fsync", "ours, data_alignment 4096", None),
            ("as fast as O_DIRECT with a copy before", "O_DIRECT, copied first, + fsync", "ours", None),
            ("times as fast as the wheel and fsync", "wheel + fsync", "ours", 2, "W11-durable-ref"),
        ],
        turns,
        group="save",
    )
    b.measure(
        "W11",
        f"save {gib(mib)} with digests",
        {
            "ours": c("save", "plain", "none", 1),
            "ours + crc32c": c("save", "plain", "crc32c", 1),
            "ours + crc32c, 2 threads": c("save", "plain", "crc32c", 2),
            "ours + sha256": c("save", "plain", "sha256", 1),
        },
        [
            ("CRC32C at most 5 % more", "ours", "ours + crc32c", 1 / 1.05),
            ("CRC32C, 2 threads", "ours", "ours + crc32c, 2 threads", 1 / 1.05),
            ("SHA-256", "ours", "ours + sha256", None),
        ],
        turns,
    )
    b.measure(
        "W11",
        f"save {gib(mib)} durably with digests",
        {
            "ours": c("save", "durable", "none", 1),
            "ours + crc32c": c("save", "durable", "crc32c", 1),
            "ours, 2 threads": c("save", "durable", "none", 2),
            "ours + crc32c, 2 threads": c("save", "durable", "crc32c", 2),
        },
        [
            ("CRC32C at most 5 % more", "ours", "ours + crc32c", 1 / 1.05),
            ("CRC32C, 2 threads", "ours, 2 threads", "ours + crc32c, 2 threads", 1 / 1.05),
        ],
        turns,
    )
    b.measure(
        "W11",
        f"save_file of {gib(mib)}, Python torch",
        {
            "ours, Python": python("ours", "torch"),
            "fallocate + write": c("write", "plain", 8192),
            "fallocate + write, 2 threads": c("write", "plain", 8192, 2),
            "safetensors": python("ref", "torch"),
            "safetensors rc": python("rc", "torch"),
            "torch.save": python("torch", "torch"),
            "numpy.save": python("numpy", "numpy"),
        },
        [
            (
                "times as fast as the reference",
                ("safetensors", "safetensors rc"),
                "ours, Python",
                2,
                "P-save",
            ),
            ("as fast as fallocate + write", "fallocate + write", "ours, Python", None),
            (
                "fallocate + write: times as fast as the reference",
                ("safetensors", "safetensors rc"),
                "fallocate + write",
                None,
            ),
            ("... two threads", ("safetensors", "safetensors rc"), "fallocate + write, 2 threads", None),
        ],
        turns,
        group="save",
    )


def w12_stream(b):
    """A streaming writer, the header known first, pieces of 256 KiB."""
    mib = b.mode["save_mib"]
    path = b.folder / "stream.tmp.safetensors"
    turns = b.turns if mib <= 1024 else 7
    b.measure(
        "W12",
        f"stream {gib(mib)} in pieces of 256 KiB",
        {
            "ours": backed(b, mib, lambda: b.c("stream", path, mib, "plain", 256)),
            "fallocate + write": backed(b, mib, lambda: b.c("stream_base", path, mib, 256)),
        },
        [("as fast as fallocate + write", "fallocate + write", "ours", 0.9, "W12")],
        turns,
        note="the wheel cannot stream",
        group="save",
    )
    server = b.fresh("c")
    before = server("peak")
    server("stream", path, mib, "plain", 256)
    b.fact(
        "W12",
        "peak memory of the stream",
        server("peak") - before,
        "bytes",
        "under 64 MiB",
        64 * MIB,
        id="W12-memory",
    )
    server.close()


def program(b, target, *command):
    """The time of a program that writes `target`, which is flushed and removed outside the clock. Asked in a
    fresh process, so that the peak is the program's."""

    def run():
        server = b.fresh("c")
        try:
            answer = server("spawn", 1, *command)
            server("remove", target)
            return answer
        finally:
            server.close()

    return run


def w13_reshard(b):
    """Eight shards into one file, one file into eight."""
    mib = b.mode["shard_mib"]
    folder, paths = files.shards(b.folder, mib)
    one = files.layers(b.folder, 8 * mib, 256, "BF16", "whole")
    out = b.folder / "out.tmp.safetensors"
    outs = [b.folder / f"out-{i}.tmp.safetensors" for i in range(8)]
    tool = b.build / "safetensors"
    b.c("warm", one, *paths)
    room = 8 * mib
    shell = " ".join(f"'{p}'" for p in paths)

    def each(how):
        def run():
            return {"ns": sum(b.c("copy", o, how, 1, 1, p)["ns"] for o, p in zip(outs, paths))}

        return run

    fastest = ("cat", "copy_file_range", "fallocate + 2 x pread and pwrite")
    b.measure(
        "W13",
        f"merge 8 shards of {mib} MiB",
        {
            "ours, the tool": backed(
                b, room, program(b, out, tool, "cp", "-q", "-f", "--no-sync", folder, out)
            ),
            "ours, mapped + sft_save": backed(b, room, lambda: b.c("reshard", folder, 2, out)),
            "cat": backed(b, room, program(b, out, "/bin/sh", "-c", f"cat {shell} > '{out}'")),
            "copy_file_range": backed(b, room, lambda: b.c("copy", out, "kernel", 1, 1, *paths)),
            "fallocate + 2 x pread and pwrite": backed(
                b, room, lambda: b.c("copy", out, "threads", 1, 1, *paths)
            ),
            "safetensors, load + save": backed(b, room, lambda: b.peer("ref", "reshard", out, 1, *paths)),
        },
        [
            ("of the fastest copy, the tool", fastest, "ours, the tool", 0.85, "W13"),
            ("of the fastest copy, sft_save", fastest, "ours, mapped + sft_save", None),
            ("times as fast as safetensors", "safetensors, load + save", "ours, the tool", None),
        ],
        group="files",
    )
    got = b.rows[-1]["contenders"].get("ours, the tool")
    if got:
        b.fact(
            "W13",
            "peak memory of the merge, the tool",
            got["typical"]["peak"],
            "bytes",
            "under 64 MiB",
            64 * MIB,
        )
    b.measure(
        "W13",
        f"split into 8 shards of {mib} MiB",
        {
            "ours, sft_writer_copy": backed(b, room, lambda: b.c("recopy", one, 2, *outs)),
            "ours, mapped + sft_save": backed(b, room, lambda: b.c("reshard", one, 2, *outs)),
            "cat": backed(
                b,
                room,
                lambda: {
                    "ns": sum(
                        program(b, o, "/bin/sh", "-c", f"cat '{p}' > '{o}'")()["ns"]
                        for o, p in zip(outs, paths)
                    )
                },
            ),
            "copy_file_range": backed(b, room, each("kernel")),
            "fallocate + 2 x pread and pwrite": backed(b, room, each("threads")),
            "safetensors, load + save": backed(b, room, lambda: b.peer("ref", "reshard", out, 8, one)),
        },
        [
            ("of the fastest copy", fastest, "ours, sft_writer_copy", 0.85, "W13-split"),
            ("of the fastest copy, sft_save", fastest, "ours, mapped + sft_save", None),
            ("times as fast as safetensors", "safetensors, load + save", "ours, sft_writer_copy", None),
        ],
        group="files",
    )


# from, to, bytes written for every byte read (as in:out), torch's name
CASTS = (
    ("BF16", "F32", 1, 2, "float32"),
    ("F32", "BF16", 2, 1, "bfloat16"),
    ("F32", "F16", 2, 1, "float16"),
    ("F32", "F8_E4M3", 4, 1, "float8_e4m3fn"),
)


def w15_casts(b):
    """A file into one of another element type."""
    mib = b.mode["load_mib"] // 2
    out = b.folder / "cast.tmp.safetensors"
    tool = b.build / "safetensors"
    for source, target, read, written, name in CASTS:
        path = files.layers(b.folder, mib, dtype=source, name="cast")
        b.c("warm", path)
        room = mib * written // read
        b.measure(
            "W15",
            f"{source} to {target}, {gib(mib)} read",
            {
                "ours, the tool": backed(
                    b, room, program(b, out, tool, "cp", "-q", "-f", "--no-sync", "--cast", target, path, out)
                ),
                "2 x pread and pwrite": backed(
                    b, room, lambda: b.c("copy", out, "threads", read, written, path)
                ),
                "2 x pread, sft_convert and pwrite": backed(
                    b, room, lambda: b.c("copy", out, f"{source}>{target}", read, written, path)
                ),
                "sft_convert alone, in the cache, 1 thread": lambda: b.c("cast_base", source, target, mib),
                "safetensors + torch": backed(b, room, lambda: b.peer("ref", "convert", path, out, name)),
            },
            [
                (
                    "of the same bytes read and written",
                    "2 x pread and pwrite",
                    "ours, the tool",
                    0.8,
                    f"W15-{target}" if source == "F32" else "W15-F32",
                ),
                (
                    "of the same with a bare cast between",
                    "2 x pread, sft_convert and pwrite",
                    "ours, the tool",
                    None,
                ),
                ("times as fast as torch", "safetensors + torch", "ours, the tool", None),
            ],
            group="files",
        )


def w18_verify(b):
    """All of a warm file against its recorded digests."""
    mib = b.mode["load_mib"]
    plain = files.layers(b.folder, mib)
    path, crc = (plain.with_name(f"digests{n}-{mib}.safetensors") for n in ("", "-crc"))
    for target, digests in ((path, "crc32c,sha256"), (crc, "crc32c")):
        if not target.exists():
            subprocess.run(
                [b.build / "safetensors", "cp", "-q", "--no-sync", "--digests", digests, plain, target],
                check=True,
            )
    b.c("warm", path, crc)
    b.measure(
        "W18",
        f"verify {gib(mib)} warm",
        {
            "ours, CRC32C, 2 threads": lambda: b.c("verify", path, "crc32c", 2),
            "ours, CRC32C, 1 thread": lambda: b.c("verify", path, "crc32c", 1),
            "ours, SHA-256, 2 threads": lambda: b.c("verify", path, "sha256", 2),
            "pread, 2 threads": lambda: b.c("read_all", path, "cached", 2),
            "pread again and again into 16 MiB, 2 threads": lambda: b.c("read_all", path, "cached", 2, 16),
            "CRC32C of touched memory, 1 thread": lambda: b.c("hash_base", path, "crc32c"),
            "SHA-256 of touched memory, 1 thread": lambda: b.c("hash_base", path, "sha256"),
            "sha256sum": lambda: b.c("spawn", 1, "/usr/bin/sha256sum", path),
        },
        [
            ("CRC32C at the rate of reading", "pread, 2 threads", "ours, CRC32C, 2 threads", 0.95, "W18"),
            ("CRC32C, 1 thread", "pread, 2 threads", "ours, CRC32C, 1 thread", None),
            ("SHA-256: times as fast as sha256sum", "sha256sum", "ours, SHA-256, 2 threads", None),
        ],
        turns=min(b.turns, 11),
        group="verify",
    )
    b.measure(
        "W18",
        f"load {gib(mib)} verified by CRC32C, C",
        {
            "ours, verified": backed(b, mib, lambda: b.once("load", crc, "auto", "fresh", 2, "recorded")),
            "ours, plain": backed(b, mib, lambda: b.once("load", crc, "auto", "fresh", 2)),
            "ours, verified, reused arena": lambda: b.c("load", crc, "auto", "reused", 2, "recorded"),
            "ours, plain, reused arena": lambda: b.c("load", crc, "auto", "reused", 2),
            "CRC32C alone, in the cache, 1 thread": lambda: b.c("hash_base", crc, "again"),
        },
        [
            ("at most 5 % more", "ours, plain", "ours, verified", 1 / 1.05, "VERIFIED"),
            ("reused arena", "ours, plain, reused arena", "ours, verified, reused arena", None),
        ],
        group="verify",
    )

    def cold(*words):
        b.drop(crc)
        return b.once(*words)

    b.measure(
        "W18",
        f"load {gib(mib)} cold, verified by CRC32C, C",
        {
            "ours, verified": backed(b, mib, lambda: cold("load", crc, "auto", "fresh", 2, "recorded")),
            "ours, plain": backed(b, mib, lambda: cold("load", crc, "auto", "fresh", 2)),
        },
        [("at most 5 % more", "ours, plain", "ours, verified", 1 / 1.05, "VERIFIED-cold")],
        group="verify",
    )
    b.measure(
        "W18",
        f"load {gib(mib)} verified by CRC32C, Python",
        {
            "ours, verify=True": backed(b, mib, lambda: b.peer("ours", "verified", crc, "yes")),
            "ours, verify=False": backed(b, mib, lambda: b.peer("ours", "verified", crc, "no")),
        },
        [("at most 5 % more", "ours, verify=False", "ours, verify=True", 1 / 1.05, "VERIFIED-python")],
        group="verify",
    )
    path.unlink()
    crc.unlink()


ALL = [
    ("W11", w11_save, 220),
    ("W12", w12_stream, 20),
    ("W13", w13_reshard, 90),
    ("W15", w15_casts, 100),
    ("W18", w18_verify, 90),
]
ROWS = {"W11": 5, "W12": 1, "W13": 2, "W15": 4, "W18": 4}
