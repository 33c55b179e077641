# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The workloads, one function each; the targets stand beside what they are about.

Names of contenders: "ours"; "wheel" (the PyPI package, warm, in its own process); everything else is what
the machine needs for the same bytes without any format. A target is (text, numerator, denominator, least
ratio): how many times longer the first takes than the second.
"""

import os
import shutil
import subprocess

import files
import workloads_bytes
import workloads_files
import workloads_python

MIB = 1 << 20


def repeat(seconds_each, turn=0.02, most=2000):
    """How often to repeat inside a turn so that it lasts about `turn` seconds."""
    return max(1, min(most, int(turn / seconds_each)))


def w1_open(b):
    """Open + validate + index."""
    guesses = {100: 2e-5, 1_000: 1e-4, 10_000: 1e-3, 100_000: 1e-2, 900_000: 1e-1}
    faster = {1_000: 10, 10_000: 15, 100_000: 15}
    for count, guess in guesses.items():
        path = files.many(b.folder, count)
        n, slow = repeat(guess), repeat(guess * 20)

        def fresh(call, count=count):  # enough memory for it is backed by the host
            return workloads_bytes.backed(b, 800, call) if count > 500_000 else call

        targets = [
            ("half the speed of reading and a memchr pass over the quotes", "read + memchr hops", "ours", 0.5)
        ]
        if count in faster:
            targets.append(("times as fast as the wheel", "wheel", "ours", faster[count]))
        else:
            targets.append(("times as fast as the wheel", "wheel", "ours", None))
        b.measure(
            "W1",
            f"open {count:,} tensors",
            {
                "ours": fresh(lambda: b.c("open", path, n)),
                "wheel": fresh(lambda: b.wheel("open", path, slow)),
                "read + memchr": lambda: b.c("scan", path, n, "absent"),
                "read + memchr hops": lambda: b.c("scan", path, n, "quotes"),
            },
            targets,
            note=f"header {files.header_bytes(path):,} bytes",
        )
        b.measure(
            "W1",
            f"parse {count:,} tensors in memory",
            {
                "ours": fresh(lambda: b.c("open_memory", path, n)),
                "memchr": lambda: b.c("pass", path, n, "absent"),
                "memchr hops": lambda: b.c("pass", path, n, "quotes"),
            },
            [("half the speed of a memchr pass over the quotes", "memchr hops", "ours", 0.5)],
        )
    for count in (10_000, 100_000, 900_000):
        path = files.many(b.folder, count)
        header = files.header_bytes(path)
        grown = peak(b, "c", path)
        b.fact(
            "W1",
            f"peak memory, {count:,} tensors",
            grown,
            "bytes",
            "5x the header + 16 MB",
            5 * header + 16_000_000,
            f"{grown / header:.2f}x the header; wheel "
            f"{peak(b, 'wheel', path) / header:.2f}x (its mapping of the file included)",
        )


def peak(b, kind, path):
    """How much memory judging a file adds to a fresh process."""
    server = b.fresh(kind)
    before = server("peak")
    server("judge", path)
    grown = server("peak") - before
    server.close()
    return grown


def w2_lookup(b):
    for count in (100, 10_000, 900_000):
        path = files.many(b.folder, count)
        b.measure(
            "W2",
            f"find among {count:,}",
            {
                "ours": lambda: b.c("lookup", path, 200_000),
                "wheel get_slice": lambda: b.wheel("lookup", path, 50_000),
                "hashing the name": lambda: b.c("lookup_base", path, 200_000),
            },
            [("times as fast as the wheel", "wheel get_slice", "ours", None)],
        )


def w8_one_tensor(b):
    path, places = files.one_of_many(b.folder)
    for name, n in (("small", 50), ("large", 4)):
        offset, size = places[name]
        b.measure(
            "W8",
            f"open, read {size >> 10:,} KiB of 10,000 tensors, close",
            {
                "ours": lambda: b.c("tensor", path, name, n),
                "wheel": lambda: b.wheel("tensor", path, name, n),
                "open + pread + close": lambda: b.c("pread", path, offset, size, n, "open"),
            },
            [("times as fast as the wheel", "wheel", "ours", None)],
        )
        whole = f"0:{size}"
        n *= 10
        b.measure(
            "W8",
            f"read {size >> 10:,} KiB after opening",
            {
                "ours": lambda: b.c("slice", path, name, whole, "read", n),
                "wheel": lambda: b.wheel("slice", path, name, whole, "read", n),
                "pread": lambda: b.c("pread", path, offset, size, n),
            },
            [("as fast as pread", "pread", "ours", 0.95)],
        )
    offset, size = places["large"]

    def cold(server, *words):
        b.drop(path)
        return server(*words)

    # The header is warm after our first, uncounted read: only the tensor's pages are cold in all three.
    b.measure(
        "W8",
        "read 32 MiB cold",
        {
            "ours": lambda: cold(b.c, "slice", path, "large", f"0:{size}", "read", 1),
            "wheel": lambda: cold(b.wheel, "slice", path, "large", f"0:{size}", "read", 1),
            "pread": lambda: cold(b.c, "pread", path, offset, size, 1),
        },
        [("as fast as pread", "pread", "ours", 0.9)],
    )


def w9_rows(b):
    path, start = files.matrix(b.folder, b.mode["rows"])
    for first, rows, n in ((100, 1, 2000), (1000, 64, 200), (3000, 4096, 4)):
        ranges, size = f"{first}:{first + rows}, :", rows << 14
        b.measure(
            "W9",
            f"{rows:,} rows of 16 KiB",
            {
                "ours": lambda: b.c("slice", path, "w", ranges, "read", n),
                "ours, Python": lambda: b.server("ours-warm")("slice", path, "w", ranges, "read", n),
                "numpy.empty + os.preadv": lambda: b.server("ours-warm")(
                    "fresh", path, start + (first << 14), size, n
                ),
                "wheel": lambda: b.wheel("slice", path, "w", ranges, "read", n),
                "pread": lambda: b.c("pread", path, start + (first << 14), size, n),
            },
            [
                ("as fast as pread", "pread", "ours", 1 / 1.05, "W9" if rows > 1 else "W9-one"),
                ("Python as fast as C", "ours", "ours, Python", 0.9 if rows == 4096 else None, "P-slices"),
                (
                    "Python as fast as numpy.empty + os.preadv",
                    "numpy.empty + os.preadv",
                    "ours, Python",
                    None,
                ),
            ],
        )


def w10_columns(b):
    path, start = files.matrix(b.folder, b.mode["rows"])
    rows = b.mode["rows"] // 4
    cases = [
        (f"{w} B of each 16 KiB row", f"0:{rows}, 256:{256 + w // 4}", 1024, w, 0)
        for w in (512, 1024, 2048, 4096, 8192)
    ]
    cases.append(("every 8th column", f"0:{rows}, ::8", 0, 4, 32))
    for label, ranges, skip, width, step in cases:
        at = start + skip
        b.measure(
            "W10",
            f"{label}, in memory",
            {
                "ours": lambda: b.c("slice", path, "w", ranges, "memory", 2),
                "strided memcpy": lambda: b.c(
                    "strided", path, at, rows - 1, 1 << 14, width, step, "memory", 2
                ),
            },
            [("as fast as a strided memcpy", "strided memcpy", "ours", 0.9, "W10")],
        )
        contenders = {
            "ours": lambda: b.c("slice", path, "w", ranges, "read", 2),
            "ours, SFT_READ_BORROW": lambda: b.c("slice", path, "w", ranges, "borrow", 2),
            "memcpy from a populated mapping": lambda: b.c(
                "strided", path, at, rows - 1, 1 << 14, width, step, "map", 2
            ),
            "ours, Python": lambda: b.server("ours-warm")("slice", path, "w", ranges, "read", 1),
            "wheel": lambda: b.wheel("slice", path, "w", ranges, "read", 1),
        }
        if not step:
            contenders["pread of each run"] = lambda: b.c("gather", path, at, rows, 1 << 14, width, 2)
            contenders["pread of everything"] = lambda: b.c("through", path, at, rows, 1 << 14, width, 2)
        b.measure(
            "W10",
            f"{label}, from the file",
            contenders,
            [
                ("as fast as a memcpy", "memcpy from a populated mapping", "ours", 0.9, "W10-file"),
                (
                    "as fast as a memcpy, borrowing",
                    "memcpy from a populated mapping",
                    "ours, SFT_READ_BORROW",
                    0.9,
                    "W10-borrow",
                ),
                (
                    "as fast as the better way to pread",
                    ("pread of each run", "pread of everything"),
                    "ours",
                    None,
                ),
                ("Python as fast as C", "ours", "ours, Python", None),
                ("times as fast as the wheel", "wheel", "ours", None),
            ],
        )


def w14_edit(b):
    state = {"n": 0}

    def value():
        state["n"] += 1
        return f"run {state['n']:06d}"

    sizes = {"small": 1, "large": b.mode["save_mib"]}
    paths = {}
    for name, mib in sizes.items():
        paths[name] = path = b.folder / f"edit-{mib}.tmp.safetensors"
        b.c("make", path, mib, 1024)
        b.c("edit", path, value(), "plain", "in-place")
    for durability in ("plain", "durable"):
        b.measure(
            "W14",
            f"edit metadata of {sizes['large']} MiB in place, {durability}",
            {
                "ours": lambda: b.c("edit", paths["large"], value(), durability, "in-place"),
                "ours, 1 MiB file": lambda: b.c("edit", paths["small"], value(), durability, "in-place"),
                "4 KiB written": lambda: b.c("edit_base", paths["large"], durability),
            },
            [
                ("independent of size", "ours, 1 MiB file", "ours", 0.5),
                ("as fast as writing 4 KiB", "4 KiB written", "ours", None),
            ],
        )
    b.measure(
        "W14",
        f"edit metadata of {sizes['large']} MiB by a new file, durable",
        {
            "ours": lambda: b.c("edit", paths["large"], value(), "durable", "new-file"),
            "wheel, load and save": lambda: b.wheel("edit", paths["large"], value(), "durable", "-"),
        },
        turns=3,
    )
    for path in paths.values():
        os.unlink(path)


def w20_rejects(b):
    valid = files.many(b.folder, 100_000)
    for label, path in files.rejects(b.folder).items():
        contenders = {
            "ours": lambda: b.c("reject", path, 1),
            "a good header of that size": lambda: b.c("open", valid, 1),
            "wheel": lambda: b.wheel("reject", path, 1),
        }
        if "twice" in label:
            del contenders["wheel"]  # it accepts that
        b.measure(
            "W20",
            f"refuse: {label}",
            contenders,
            [
                ("at most twice a good parse", "a good header of that size", "ours", 0.5),
                ("times as fast as the wheel", "wheel", "ours", None),
            ],
            turns=min(b.turns, 11),
        )
        path.unlink()
    for label, path in files.bombs(b.folder).items():
        server = b.fresh("c")
        before = server("peak")
        server("judge", path)
        grown = server("peak") - before
        server.close()
        times = []
        for _ in range(3):
            b.c("prewarm", 768)  # memory that the host has not backed yet is not what is measured
            times.append(b.c("judge", path))
        server = b.fresh("wheel")
        before = server("peak")
        theirs = server("judge", path)
        note = f"wheel {theirs / 1e9:.2f} s, {(server('peak') - before) / 1e6:.0f} MB"
        server.close()
        size = files.header_bytes(path)
        b.fact("W20", f"{size / 1e6:.0f} MB header: {label}", sorted(times)[1], "ns", "within 1 s", 1e9, note)
        b.fact("W20", f"{size / 1e6:.0f} MB header: {label}, peak", grown, "bytes", "within 600 MB", 600e6)
        path.unlink()


def tool_start(b):
    path, n = files.many(b.folder, 100), 50
    tool = b.build / "safetensors"
    got = b.measure(
        "CLI",
        "ls of a small file",
        {
            "ours": lambda: b.c("spawn", n, tool, "ls", path),
            "/bin/true": lambda: b.c("spawn", n, "/bin/true"),
        },
    )
    beyond = sorted(a - t for a, t in zip(got["ours"], got["/bin/true"]))
    middle = beyond[len(beyond) // 2]  # there may be fewer turns than were wanted
    b.fact("CLI", "ls of a small file, beyond /bin/true", middle, "ns", "at most 2 ms", 2e6)


def library_size(b):
    libraries = sorted(b.build.glob("libsafetensors.so.*.*.*"))
    if not libraries:
        return
    copy = b.folder / "stripped.so"
    shutil.copy(libraries[-1], copy)
    subprocess.run(["strip", copy], check=True)
    text = subprocess.run(["readelf", "-d", copy], capture_output=True, text=True, check=True).stdout
    needed = [line.split("[")[1].rstrip("]") for line in text.splitlines() if "(NEEDED)" in line]
    b.fact(
        "SIZE",
        "stripped core library",
        copy.stat().st_size,
        "bytes",
        "at most 320 KB",
        320_000,
        "needs " + ", ".join(needed),
    )
    copy.unlink()


# name, function, seconds that it takes in the default mode (what the budget is shared out by)
ALL = [
    ("W1", w1_open, 60),
    ("W2", w2_lookup, 10),
    *workloads_bytes.ALL,
    ("W8", w8_one_tensor, 20),
    ("W9", w9_rows, 10),
    ("W10", w10_columns, 25),
    *workloads_files.ALL,
    ("W14", w14_edit, 40),
    *workloads_python.ALL,
    ("W20", w20_rejects, 90),
    ("CLI", tool_start, 5),
    ("SIZE", library_size, 1),
]

# How many timed rows a workload has.
ROWS = {
    "W1": 10,
    "W2": 3,
    "W8": 5,
    "W9": 3,
    "W10": 12,
    "W14": 3,
    "W20": 15,
    "CLI": 1,
    **workloads_bytes.ROWS,
    **workloads_files.ROWS,
    **workloads_python.ROWS,
}
