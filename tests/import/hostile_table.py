#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""hostile_table.py --tool TOOL [--only N,N] [--cases] - the hostile inputs, measured: what scan says, what loading says, time and memory.

Every case of hostile*.py is fed to `scan` and to `ls`, each in a process of its own, whose time and peak memory are taken
from the system (wait4). Rows: the 60 kinds of input that docs/import.md lists, then the known bypasses and flaws of
others. Bounds: 2 seconds, 256 MiB; one beyond them is a fault, and so is a kind without a case. --cases: a row for each file.
Standard library only; Linux.
"""

import argparse
import importlib
import inspect
import json
import os
import pathlib
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time

import hostile
import scan_cases
from hostile import state, tensor, torch_zip
from load_cases import CASES, truncations

HERE = pathlib.Path(__file__).resolve().parent
SECONDS, MEMORY = 2.0, 256 << 20

# number: (what, pattern of the cases' names)
KINDS = {
    1: ("end record in a comment, two end records", r"end record in|two archives"),
    2: ("bytes before or behind the archive", r"bytes behind the end|bytes before"),
    3: ("zip64 and 32-bit fields disagree", r"^zip64"),
    4: ("counts of the directory lie", r"entries counted|several disks|directory elsewhere"),
    5: ("members overlap", r"a member inside another"),
    6: ("entries share one local header", r"two entries, one header"),
    7: ("local header is not the directory's", r"^local "),
    8: ("names twice, also in another case", r"^name twice( in other case)?$|npz: twice"),
    9: ("flag bits", r"^flag bit|local flags"),
    10: ("methods that no writer uses", r"^method "),
    11: ("deflate bombs", r"1032|bomb of zeros|npz: bomb|longer than it says"),
    12: ("sizes that disagree, or are missing", r"stored with two sizes|zip64 sizes missing"),
    13: ("local header outside", r"header behind the directory"),
    14: ("names that lead elsewhere, long, not UTF-8", r"^member '|^member not|^member with"),
    15: ("data descriptor", r"^descriptor (missing|lies)"),
    16: ("wrong CRC", r"^crc "),
    17: ("two folders with a pickle", r"^second folder"),
    18: ("TorchScript", r"^TorchScript|^code folder"),
    19: (
        "other things: zip in a zip, 7z, LFS pointer, web page",
        r"^(zip in a zip|7z|gzip|LFS|web page|empty)",
    ),
    20: ("byteorder and version", r"^byteorder '?b|^byteorder of|^version|^no version"),
    21: ("storages shorter, longer, missing, unused, deflated", r"^storage "),
    22: (
        "calls: GLOBAL, STACK_GLOBAL, INST, OBJ, memo, behind STOP",
        r"^runs code|^second pickle|^code (named|called|,)|code, then",
    ),
    23: ("eval as the magic number", r"eval as the magic"),
    25: ("each of 256 opcodes, alone and in a list", r"^opcode .. "),
    26: ("stack and mark underflow", r"underflow|^mark missing|append below|values left"),
    27: ("items for tensors, storages, tuples; odd items", r"^(setitem|append) |^build on|^odd "),
    28: ("memo", r"^memo "),
    29: ("billion laughs", r"^billion laughs"),
    30: ("lists and dicts that hold themselves", r"holds itself"),
    31: ("depth", r"^depth "),
    32: ("long integers", r"^LONG"),
    33: ("texts and bytes of 2^63", r"^(text|bytes) of 2"),
    34: ("frames", r"frame"),
    35: ("PROTO twice, unknown", r"^protocol "),
    36: ("REDUCE without a tuple, of the wrong length", r"^reduce |^rebuild of|call of a call"),
    37: (
        "views: wraps, strides, bounds, types",
        r"^tensor: (numel|offset|extent|size|stride|65|length|storage is|one st|persist|unknown)",
    ),
    38: ("untyped storage that is no multiple", r"^tensor: v3"),
    39: ("quantised: axis, scales, zero, NaN, strides", r"^tensor: (axis|scale|quantised)"),
    40: ("sparse indices out of bounds", r"^tensor: sparse"),
    41: ("storage keys", r"^tensor: storage key"),
    42: ("names: twice, controls, surrogates, 1 MB, 50,000", r"^name |names of nothing"),
    43: ("keys that are no text", r"^key is|^keys 0"),
    44: ("nested pickles, arrays of objects, arrays that lie", r"nested pickle|^numpy array"),
    45: ("Paddle's eval with extras", r"^Paddle's eval"),
    46: ("legacy: keys, counts, views, modules", r"^legacy:"),
    47: ("tar: links, twice, sizes, pax, counts, cycles", r"^tar:"),
    48: ("npy, npz: headers, shapes, objects", r"^np[yz]:"),
    49: ("HDF5", r"^hdf5"),
    50: ("TensorFlow checkpoints", r"^tf: "),
    51: ("msgpack", r"^flax:"),
    52: ("protobuf: ONNX, external data", r"^onnx:"),
    53: ("MindSpore", r"^mindspore:"),
    54: ("GGUF", r"^gguf:"),
    55: ("Arrow, Cap'n Proto: recognised, refused", r"^(Arrow|Cap'n)"),
    61: ("TFLite", r"^tflite:"),
    62: ("Arrow tensors", r"^arrow:"),
    63: ("Paddle: parameters of static graphs", r"^pdiparams:"),
}

# Flaws and bypasses of others, by the cases that have their shape.
KNOWN = {
    "CVE-2025-32434: TorchScript in spite of weights_only": r"^TorchScript|^code folder",
    "CVE-2026-24747: items for what is no dict": r"^setitem|^odd setitems",
    "CVE-2026-24747: storage shorter than its tensor": r"^storage shorter",
    "CVE-2025-1716: pip.main as the call": r"runs code: pip",
    "CVE-2025-1889: payload in a member of another ending": r"another member|^pickle of another name",
    "CVE-2025-1944: directory and local names differ": r"^local name",
    "CVE-2025-1945: flag bits": r"^flag bit",
    "CVE-2025-10155: pickle behind a .bin ending": r"bare pickle runs code",
    "CVE-2025-10156: wrong CRC stops the scanner": r"^crc of the pickle",
    "CVE-2025-10157: module below a blocked one": r"runs code: submodule|asyncio",
    "nullifAI: 7z; payload before the damage": r"^7z|code, then damage",
    "magic number made by a call": r"eval as the magic",
    "GHSA-mxhj-88fx-4pcv: OBJ, then POP": r"OBJ, then POP",
    "names of STACK_GLOBAL from the memo; INST": r"from the memo|runs code: INST",
    "dotted names": r"runs code: dotted",
    "importable modules that lists forget": r"runs code: (numpy.f2py|webbrowser|runpy|logging|functools|operator|importlib|ctypes|copyreg)",
    "second pickle behind the first": r"^second pickle",
    "cpython#154848: frames": r"frame",
    "pytorch#181310: numel * itemsize wraps": r"numel \* itemsize",
    "pytorch#184652: strides of quantised tensors": r"strides leave",
    "stable-diffusion.cpp#1832: offset wraps": r"^tensor: offset",
    "zbsm: overlapping members": r"a member inside|two entries, one header",
    "CVE-2022-25882, 2024-27318, 2024-5187: ONNX external data elsewhere": r"onnx: external data|onnx: location",
    "CVE-2026-34445: other keys of external data": r"onnx: .*(entries|keys)",
    "GGUF: ggml#709, #1516, llama.cpp#18674: counts and shapes that wrap": r"gguf: .*(2\^|overflow)",
    "CVE-2026-1669: HDF5 external storage and links": r"^hdf5.*extern",
    "CVE-2026-0897: HDF5 shape bombs": r"^hdf5.*(bomb|PB|petabyte|2\^|overflow)",
}


def runner():
    """Runs what standard input asks for. A process of its own, for the peak that the system tells of a child is never
    less than that of the process that it was made from, and this one is small."""
    for line in sys.stdin:
        job = json.loads(line)
        limit = job["file_size"]
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            begun = time.monotonic()
            p = subprocess.Popen(
                job["command"],
                cwd=job["folder"],
                stdout=out,
                stderr=err,
                stdin=subprocess.DEVNULL,
                preexec_fn=(lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)))
                if limit
                else None,
            )
            _, status, usage = os.wait4(p.pid, 0)
            seconds = time.monotonic() - begun
            p.returncode = os.waitstatus_to_exitcode(status)
            texts = []
            for f in (out, err):
                f.seek(0)
                texts.append(f.read().decode("latin-1"))
        spent = usage.ru_utime + usage.ru_stime
        print(json.dumps([p.returncode, seconds, spent, usage.ru_maxrss << 10, *texts]), flush=True)


class Run:
    """One run of the tool: status, texts, seconds, bytes at the peak."""

    process = None

    def __init__(self, tool, args, folder, file_size=0, again=2):
        if Run.process is None:
            Run.process = subprocess.Popen(
                [sys.executable, "-S", __file__, "--tool", "-", "--runner"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
        job = {"command": [tool, *map(str, args)], "folder": str(folder), "file_size": file_size}
        Run.process.stdin.write(json.dumps(job) + "\n")
        Run.process.stdin.flush()
        self.status, self.seconds, self.spent, self.peak, out, err = json.loads(Run.process.stdout.readline())
        self.out, self.err = out.encode("latin-1"), err.encode("latin-1").decode("utf-8", "replace").strip()
        if (
            self.spent > SECONDS and args[0] in ("ls", "scan") and again > 0
        ):  # a busy machine adds to it: the least of three counts
            other = Run(tool, args, folder, file_size, again - 1)
            self.spent, self.seconds = min(self.spent, other.spent), min(self.seconds, other.seconds)


class Row:
    def __init__(self, what):
        self.what, self.files, self.refused = what, 0, 0
        self.verdicts, self.seconds, self.peak, self.error = set(), 0.0, 0, ""

    def add(self, verdict, error, *runs):
        self.files += 1
        self.verdicts.add(verdict)
        self.refused += error != ""
        self.error = self.error or re.sub(r"^safetensors: (case\.pt: )?", "", error.split("\n")[0])
        self.seconds = max(self.seconds, *(r.seconds for r in runs))
        self.peak = max(self.peak, *(r.peak for r in runs))

    def text(self, first):
        order = [v for v in ("dangerous", "unknown", "harmless", "refused") if v in self.verdicts] or sorted(
            self.verdicts
        )
        error = self.error.replace("|", "\\|")
        error = error if len(error) <= 90 else error[:87] + "..."
        return "| %s | %s | %d | %s | %d: %s | %.0f ms | %.0f MiB |" % (
            first,
            self.what,
            self.files,
            ", ".join(order),
            self.refused,
            error,
            self.seconds * 1000,
            self.peak / 2**20,
        )


def cases():
    """(name, {file: bytes}, what to open, more arguments of ls), of every hostile*.py here."""
    own = [scan_cases.CASES]
    for make in makers():
        make()
        list_of_module = sys.modules[make.__module__].__dict__.get("CASES", CASES)
        if list_of_module is not CASES and all(list_of_module is not other for other in own):
            own.append(list_of_module)
    for name, data, _, _, args in CASES:
        yield name, {"case.pt": data}, "case.pt", args
    for each in own:  # of TensorFlow: an index and its shards; of the rooms' own lists
        for name, files, *rest in each:
            if isinstance(files, bytes):  # one file: of that name, where the name decides how it is read
                path = name if re.fullmatch(r"[\w./-]+\.\w+", name) else "case.bin"
                yield name, {path: files}, path, ()
            else:
                yield "tf: " + name, files, rest[0], ()


def makers():
    """What fills the lists of cases."""
    for path in sorted(HERE.glob("hostile*.py")):
        if path.name == "hostile_table.py":
            continue
        module = importlib.import_module(path.stem)
        for function in list(vars(module).values()):
            if (
                inspect.isfunction(function)
                and function.__module__ == module.__name__
                and function.__name__ not in ("case", "main")
            ):
                if not inspect.signature(function).parameters and re.search(
                    r"\b(case|torch_pkl|bad)\(", inspect.getsource(function)
                ):
                    yield function


# ---------------------------------------------------------------- what is around a file


def expect(faults, what, condition, run):
    if not condition:
        faults.append("%s: exit %d: %s" % (what, run.status, run.err[:200]))


def surroundings(tool, folder, faults):
    """56 to 60: the same tool, real files and limits."""
    rows = {}
    good = torch_zip(state(("w", tensor(size=(2, 2)))))

    def put(name, data=good):
        (folder / name).write_bytes(data)
        return name

    def convert(*args, **kw):
        return Run(tool, ["convert", "-q", *args], folder, **kw)

    def listing():
        return sorted(os.listdir(folder))

    put("in.pt")
    row = rows[56] = Row("output is the input, exists, a link, no folder, disk full; a pipe")
    for what, args, limit, word in (
        ("output is the input", ("in.pt", "-o", "in.pt", "--to", "safetensors"), 0, "exist"),
        ("output exists", ("in.pt", "-o", put("there.safetensors", b"mine")), 0, "exist"),
        ("no such folder", ("in.pt", "-o", "none/out.safetensors"), 0, ""),
        ("a pipe as the input", ("pipe.pt", "-o", "out.safetensors"), 0, "regular"),
        ("disk full", ("large.pt", "-o", "out.safetensors"), 4096, ""),
        ("a link to what is there", ("in.pt", "-o", "link.safetensors"), 0, "exist"),
    ):
        if what == "a pipe as the input":
            os.mkfifo(folder / "pipe.pt")
        if what == "disk full":
            put(
                "large.pt",
                torch_zip(
                    state(("w", tensor(hostile.storage(n=1 << 16), size=(1 << 16,), stride=(1,)))),
                    data=bytes(1 << 18),
                ),
            )
        if what == "a link to what is there":
            os.symlink("there.safetensors", folder / "link.safetensors")
        before = listing()
        r = convert(*args, file_size=limit)
        expect(faults, what, r.status not in (0,) and word in r.err and listing() == before, r)
        row.add("-", r.err, r)
    expect(
        faults,
        "what was there is changed",
        (folder / "there.safetensors").read_bytes() == b"mine" and (folder / "in.pt").read_bytes() == good,
        r,
    )

    size = 1 << 28
    store = tensor(hostile.storage(n=size // 4), size=(size // 4,), stride=(1,))
    put("slow.pt", torch_zip(state(("w", store)), data=bytes(size)))
    row = rows[57] = Row("stopped in the middle: SIGINT, SIGTERM, SIGKILL")
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
        before = listing()
        begun = time.monotonic()
        p = subprocess.Popen(
            [tool, "convert", "slow.pt", "-o", "slow.safetensors", "-q", "--verify"], cwd=folder
        )
        time.sleep(0.06)
        p.send_signal(number)
        p.wait()
        row.files += 1
        row.refused += p.returncode != 0
        row.error = "cancelled, killed"
        row.verdicts.add("-")
        row.seconds = max(row.seconds, time.monotonic() - begun)
        left = set(listing()) - set(before)
        if p.returncode == 0:
            left -= {"slow.safetensors"}
            (folder / "slow.safetensors").unlink()
        if left:
            faults.append("%s left %s" % (number, left))
        for name in left:
            os.unlink(folder / name)

    row = rows[58] = Row("the file shrinks; data at 2^32 in a sparse file")
    p = subprocess.Popen(
        [tool, "convert", "slow.pt", "-o", "cut.safetensors", "-q"], cwd=folder, stderr=subprocess.PIPE
    )
    os.truncate(folder / "slow.pt", 1 << 16)
    err = p.communicate()[1].decode()
    if p.returncode == 0 or p.returncode < 0 and (folder / "cut.safetensors").exists():
        if p.returncode < 0:
            faults.append("a file that shrinks: ends by signal %d" % -p.returncode)
    at = 1 << 32
    magic = b"\x93NUMPY\2\0"
    text = ("{'descr': '|u1', 'fortran_order': False, 'shape': (%d,), }" % (at + 16)).encode()
    text += b" " * (-(12 + len(text) + 1) % 64) + b"\n"
    with open(folder / "sparse.npy", "wb") as f:
        f.write(magic + len(text).to_bytes(4, "little") + text)
        start = f.tell()
        f.seek(start + at)
        f.write(bytes(range(16)))
    r = Run(tool, ["get", "sparse.npy", "arr_0[%d:]" % at, "-o", "-"], folder)
    if r.status != 0:
        r = Run(tool, ["get", "sparse.npy", "arr_0", "--slice", "%d:" % at, "-o", "tail.bin"], folder)
        r.out = (folder / "tail.bin").read_bytes() if (folder / "tail.bin").exists() else b""
    expect(faults, "data at 2^32", r.out[-16:] == bytes(range(16)), r)
    row.add("harmless", err, r)

    row = rows[60] = Row("four conversions of one file at once")
    put("in2.pt", torch_zip(state(("w", tensor()))))
    begun = time.monotonic()
    many = [
        subprocess.Popen(
            [tool, "convert", "in2.pt", "-o", "same.safetensors", "-q"], cwd=folder, stderr=subprocess.PIPE
        )
        for _ in range(4)
    ]
    codes = [(p.communicate()[1], p.returncode) for p in many]
    row.files, row.refused, row.verdicts = 4, sum(c != 0 for _, c in codes), {"-"}
    row.error = "; ".join(sorted({e.decode().strip()[:90] for e, c in codes if c != 0}))
    row.seconds = time.monotonic() - begun
    r = Run(tool, ["check", "same.safetensors"], folder)
    row.peak = r.peak
    expect(faults, "four at once", r.status == 0 and row.refused == 3, r)
    return rows


# ---------------------------------------------------------------- all of it


def measure(tool, folder, item):
    """(verdict, error of ls or "", scan, load)"""
    _, files, path, args = item
    for name, data in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    scan = Run(tool, ["scan", "--json", path], folder)
    load = Run(tool, ["ls", *args, path], folder)
    for name in files:
        (folder / name).unlink()
    # A folder or a name that leads nowhere has no verdict.
    verdicts = [json.loads(line)["verdict"] for line in scan.out.splitlines() if line.startswith(b"{")]
    verdict = max(verdicts, key=("harmless", "unknown", "dangerous").index, default="refused")
    return verdict, load.err if load.status != 0 else "", scan, load


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tool", required=True)
    parser.add_argument("--runner", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--only", default="")
    parser.add_argument("--cases", action="store_true")
    args = parser.parse_args()
    if args.runner:
        return runner()
    tool = os.path.abspath(args.tool)
    only = {int(n) for n in args.only.split(",") if n}
    rows = {n: Row(what) for n, (what, _) in KINDS.items()}
    known = {what: Row(what) for what in KNOWN}
    faults, all_seconds, all_peak, count = [], 0.0, 0, 0
    head = (
        "| %s | input | files | scan | refused: for example | slowest | peak |\n|---|---|---|---|---|---|---|"
    )
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for item in cases():
            into = [rows[n] for n, (_, p) in KINDS.items() if re.search(p, item[0])]
            into += [known[w] for w, p in KNOWN.items() if re.search(p, item[0])]
            if (only and not any(rows[n] in into for n in only)) or (not into and not args.cases):
                continue
            verdict, error, scan, load = measure(tool, folder, item)
            count += 1
            seconds, peak = max(scan.seconds, load.seconds), max(scan.peak, load.peak)
            all_seconds, all_peak = max(all_seconds, seconds), max(all_peak, peak)
            # A busy machine makes one wait: what counts is the processor's time.
            if (
                max(scan.spent, load.spent) > SECONDS
                or seconds > 10 * SECONDS
                or peak > MEMORY
                or scan.status not in (0, 1, 3)
                or load.status not in (0, 1, 3)
            ):
                faults.append(
                    "%s: %.2f s, %d MiB, scan %d, ls %d"
                    % (item[0], seconds, peak >> 20, scan.status, load.status)
                )
            for row in into:
                row.add(verdict, error, scan, load)
            if args.cases:
                one = Row(item[0])
                one.add(verdict, error, scan, load)
                print(one.text("-"))
        if not only or 24 in only:
            row = rows[24] = Row("cut at every byte")
            begun = time.monotonic()
            sources = {k: v for k, v in hostile.own_sources().items() if len(v) < 3000}
            cut = truncations(tool, folder, faults, sources)
            row.files = row.refused = cut
            row.verdicts, row.error = {"unknown"}, "each with a sentence, none taken"
            row.seconds = (time.monotonic() - begun) / max(1, cut)
        if not only or only & {56, 57, 58, 60}:
            rows.update(surroundings(tool, folder, faults))
    if only:
        rows = {n: r for n, r in rows.items() if n in only}
        known = {}
    print(head % "#")
    for n, row in sorted(rows.items()):
        if row.files != 0:
            print(row.text(n))
        elif (HERE / {49: "hostile_hdf5.py", 50: "hostile_tf.py"}.get(n, "")).exists():
            faults.append("%d: %s: no case" % (n, row.what))
    if known:
        print("\n" + head % "")
        for row in known.values():
            if row.files != 0:
                print(row.text(""))
            elif "HDF5" not in row.what or (HERE / "hostile_hdf5.py").exists():
                faults.append("%s: no case" % row.what)
    print(
        "\n%d files, each twice; slowest %.2f s, peak %.0f MiB; %d faults"
        % (count, all_seconds, all_peak / 2**20, len(faults))
    )
    for f in faults:
        print("FAULT", f)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
