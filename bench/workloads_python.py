# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What only Python programs see: start-up (W16), dicts of very many tensors (W17), one tensor of many and
saves to bytes (PY).
"""

import files
from workloads_bytes import backed, gib


def w16_start(b):
    """Importing, and the first tensor, in a new interpreter."""
    path, _ = files.one_of_many(b.folder)
    small = files.many(b.folder, 100, "F16")
    first = "from {0} import safe_open\nwith safe_open('%s', framework='{1}') as f: f.get_tensor('%s')" % (
        small,
        "layers.0.experts.7.w",
    )

    def start(kind, code, n=5):
        return lambda: b.c(
            "spawn",
            n,
            b.pythons[kind],
            "-c",
            code.replace("\n", "; ") if "with" not in code else f"exec({code!r})",
        )

    bare = "rc" if b.pythons["rc"].exists() else "tests"
    got = b.measure(
        "W16",
        "python -c 'import ...'",
        {
            "ours": start("ours", "import safetensors_c"),
            "nothing": start(bare, "pass"),
            "safetensors": start("peers", "import safetensors"),
            "safetensors rc": start("rc", "import safetensors"),
            "numpy": start(bare, "import numpy", 2),
        },
        [("times as fast as safetensors", "safetensors", "ours", None)],
        group="start",
    )
    difference(b, got, "import, over a bare interpreter", 3e6, "P-import")
    b.measure(
        "W16",
        "import, open, one numpy tensor",
        {
            "ours": start("ours", first.format("safetensors_c", "np"), 3),
            "nothing": start(bare, "pass"),
            "safetensors": start("peers", first.format("safetensors", "np"), 3),
        },
        [("times as fast as safetensors", "safetensors", "ours", None)],
        group="start",
    )
    tool = b.build / "safetensors"
    b.measure(
        "W16",
        "safetensors ls of 10,000 tensors",
        {
            "ours": lambda: b.c("spawn", 5, tool, "ls", path),
            "nothing": lambda: b.c("spawn", 20, "/bin/true"),
        },
        group="start",
    )


def difference(b, got, case, most, target):
    if "ours" in got and "nothing" in got:
        middle = sorted(a - t for a, t in zip(got["ours"], got["nothing"]))[len(got["ours"]) // 2]
        b.fact("W16", case, middle, "ns", "at most 3 ms", most, id=target)


def w17_dict(b):
    """18,867 small tensors as a dict."""
    count = b.mode["many"]
    path = files.many(b.folder, count, "F16")
    b.c("warm", path)
    for framework, times, most in (("torch", 3, None), ("numpy", 8, 1500)):
        got = b.measure(
            "W17",
            f"load_file of {count:,} tensors, {framework}",
            {
                "ours": lambda: b.peer("ours", "lazy", path, framework, 3),
                "safetensors": lambda: b.peer("ref", "lazy", path, framework, 2),
                "safetensors rc": lambda: b.peer("rc", "lazy", path, framework, 2),
                "from_dlpack loop": lambda: b.peer("numpy", "dlpack_loop", count, framework),
            },
            [
                (
                    "times as fast as the reference",
                    ("safetensors", "safetensors rc"),
                    "ours",
                    times,
                    f"P-many-{framework}",
                ),
                (
                    "as fast as a from_dlpack loop",
                    "from_dlpack loop",
                    "ours",
                    1 / 1.3 if framework == "torch" else None,
                    f"P-loop-{framework}",
                ),
            ],
            group="views" if framework == "torch" else "many",
            note="" if framework == "torch" else "ours maps the 2.4 MB, the reference copies them",
        )
        if "ours" in got and most:
            each = sorted(got["ours"])[len(got["ours"]) // 2] / count
            b.fact(
                "W17",
                f"a tensor of {count:,}, {framework}",
                each,
                "ns",
                "at most 1.5 us",
                most,
                id="P-each-numpy",
            )


def python_ways(b):
    """Issue 4's other rows: one tensor of 10,000, numpy without a copy, load_into, save to bytes."""
    path, _ = files.one_of_many(b.folder)
    mib = b.mode["load_mib"]
    big = files.layers(b.folder, mib)
    b.c("warm", path, big)
    for framework in ("torch", "numpy"):
        b.measure(
            "PY",
            f"safe_open + one 16 KiB tensor of 10,000, {framework}",
            {
                "ours": lambda: b.peer("ours", "one_of_many", path, "small", framework, 20),
                "safetensors": lambda: b.peer("ref", "one_of_many", path, "small", framework, 3),
                "safetensors rc": lambda: b.peer("rc", "one_of_many", path, "small", framework, 3),
            },
            [
                (
                    "times as fast as the reference",
                    ("safetensors", "safetensors rc"),
                    "ours",
                    10,
                    f"P-one-{framework}",
                )
            ],
            group="open",
        )
    b.measure(
        "PY",
        f"numpy load_file of {gib(mib)}, as it comes",
        {
            "ours": lambda: b.peer("ours", "lazy", big, "numpy", 2),
            "safetensors, copies": lambda: b.peer("ref", "lazy", big, "numpy", 1),
        },
        [("times as fast, no byte of data read", "safetensors, copies", "ours", None)],
        note="two classes: ours maps, the reference copies; how much slower copies are is W4",
    )
    mine = b.rows[-1]["contenders"].get("ours")
    if mine:
        b.fact(
            "PY",
            f"memory that a numpy load of {gib(mib)} takes",
            mine["typical"]["minor"] * 4096,
            "bytes",
            "at most 16 MB (no copy)",
            16e6,
            "page faults x 4 KiB",
            id="P-zero-copy",
        )
    b.measure(
        "PY",
        f"load_into torch tensors that exist, {gib(mib)}",
        {
            "ours": backed(b, 2 * mib, lambda: b.peer("ours", "load_into", big)),
            "pread into touched memory, 1 thread": lambda: b.c("read_all", big, "cached", 1),
        },
        [("of pread's speed", "pread into touched memory, 1 thread", "ours", None)],
        turns=min(b.turns, 5),
        group="owned",
    )
    save = b.mode["save_mib"] // 2
    b.measure(
        "PY",
        f"save of {gib(save)} to bytes",
        {
            "ours": backed(b, 4 * save, lambda: b.peer("ours", "save_bytes", save)),
            "safetensors": backed(b, 4 * save, lambda: b.peer("ref", "save_bytes", save)),
            "safetensors rc": backed(b, 4 * save, lambda: b.peer("rc", "save_bytes", save)),
        },
        [("times as fast as the reference", ("safetensors", "safetensors rc"), "ours", None)],
        turns=min(b.turns, 5),
        group="save",
    )
    got = b.rows[-1]["contenders"]
    if "ours" in got:
        copies = {n: c["typical"]["peak"] / (save << 20) for n, c in got.items()}
        b.fact(
            "PY",
            "copies that a save to bytes holds",
            got["ours"]["typical"]["peak"],
            "bytes",
            "one",
            1.05 * (save << 20) + 8e6,
            "; ".join(f"{n} {c:.2f}" for n, c in copies.items()),
            id="P-save-copies",
        )


ALL = [("W16", w16_start, 30), ("W17", w17_dict, 40), ("PY", python_ways, 70)]
ROWS = {"W16": 3, "W17": 2, "PY": 5}
