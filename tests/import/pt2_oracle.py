#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""pt2_oracle.py --tool TOOL - what torch.export.save writes, against what torch.export.load gives back, bit for bit: every type,
ties, views, constants, buffers that are not kept; the layouts of older PyTorch, put together out of torch.save and zipfile
as its torch.export did; then every cut, changed bits and lists of weights that lie. Needs torch (tests/requirements.txt)."""

import argparse
import io
import json
import os
import pathlib
import random
import resource
import subprocess
import sys
import tempfile
import warnings
import zipfile

import torch
from load_cases import truncations

warnings.filterwarnings("ignore")
FAULTS = []
STATS = {"files": 0, "tensors": 0, "hostile": 0, "slowest": 0.0}
KINDS = [
    "float32",
    "float64",
    "float16",
    "bfloat16",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "bool",
    "complex64",
]
RAW = ["float8_e4m3fn", "float8_e5m2", "uint16", "uint32", "uint64", "float8_e8m0fnu"]


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 3)
        self.tied = self.layer.weight
        self.norm = torch.nn.BatchNorm1d(3)
        self.constant = torch.tensor([1.0, 2.0, 3.0])
        self.register_buffer("temporary", torch.ones(3), persistent=False)
        self.register_buffer("transposed", torch.randn(5, 3).t())
        base = torch.randn(4, 6)
        self.register_buffer("base", base)
        self.register_buffer("row", base[2])
        self.register_buffer("columns", base[:, 1:4])
        self.register_buffer("scalar", torch.tensor(2.5))
        self.register_buffer("empty", torch.zeros(0, 3))
        for kind in KINDS + RAW:
            data = torch.randint(0, 2 if kind == "bool" else 256, (48,), dtype=torch.uint8)
            self.register_buffer("b_" + kind, data.view(getattr(torch, kind)).reshape(2, -1))

    def forward(self, x):
        return self.norm(self.layer(x)) + self.constant + self.temporary


def raw(t):
    t = t.detach().resolve_conj().contiguous()
    return t.reshape(-1).view(torch.uint8).numpy().tobytes() if t.numel() else b""


def read(path):
    data = path.read_bytes()
    n = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + n])
    metadata = header.pop("__metadata__", {})
    rows = {
        k: (tuple(v["shape"]), data[8 + n + v["data_offsets"][0] : 8 + n + v["data_offsets"][1]])
        for k, v in header.items()
    }
    rows.update({k: rows[v] for k, v in metadata.items() if v in rows})
    return rows


def run(tool, *args):
    return subprocess.run([tool, *map(str, args)], capture_output=True, text=True, timeout=60)


def compare(tool, label, path, want, named):
    out = path.with_suffix(".safetensors")
    r = run(tool, "convert", path, "-o", out, "-f", "--verify", "--no-sync")
    STATS["files"] += 1
    if r.returncode != 0:
        FAULTS.append("%s: %s" % (label, r.stderr))
        return
    have = read(out)
    wanted = {k: (tuple(v.shape), raw(v)) for k, v in want.items()}
    for k in wanted:
        if have.get(k) != wanted[k]:
            FAULTS.append("%s: %s differs: %s" % (label, k, have.get(k, ("missing",))[0]))
    if set(have) != set(wanted):
        FAULTS.append("%s: %s" % (label, sorted(set(have) ^ set(wanted))))
    if not all(n in r.stderr for n in named):
        FAULTS.append("%s: not named: %s: %s" % (label, named, r.stderr))
    STATS["tensors"] += len(wanted)
    scan = run(tool, "scan", "--json", path)
    if scan.returncode != 0 or json.loads(scan.stdout)["verdict"] != "harmless":
        FAULTS.append("%s: scan: %s" % (label, scan.stdout))


def saved(value):
    b = io.BytesIO()
    torch.save(value, b)
    return b.getvalue()


def archive(path, members):
    with zipfile.ZipFile(path, "w") as z:
        for name, data in members.items():
            z.writestr(name, data)


def processor():
    """Seconds of the processor that the tools run so far took."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def attempt(tool, label, path, word=None):
    begin = processor()
    r, s = run(tool, "ls", path), run(tool, "scan", path)
    STATS["hostile"] += 1
    STATS["slowest"] = max(STATS["slowest"], processor() - begin)
    if (
        r.returncode not in (0, 1)
        or s.returncode not in (0, 1)
        or word is not None
        and (r.returncode == 0 or word not in r.stderr)
    ):
        FAULTS.append("%s: exit %d, scan %d: %s" % (label, r.returncode, s.returncode, r.stderr))


def damaged(tool, good, folder):
    data = good.read_bytes()
    bad = folder / "bad.pt2"
    STATS["hostile"] += truncations(tool, folder, FAULTS, {"pt2": data})
    rng = random.Random(3)
    for n in range(300):
        changed = bytearray(data)
        changed[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        bad.write_bytes(changed)
        attempt(tool, "changed %d" % n, bad)
    with zipfile.ZipFile(good) as z:
        members = {n: z.read(n) for n in z.namelist()}
    name = next(n for n in members if n.endswith("weights_config.json"))
    text = members[name].decode()
    entry = json.loads(text)["config"]["layer.weight"]

    def lie(label, word, change=None, new=None):
        config = json.loads(text)
        if change is not None:
            change(config["config"]["layer.weight"])
        members[name] = (
            (json.dumps(config) if new is None else new).encode() if not isinstance(new, bytes) else new
        )
        archive(bad, members)
        attempt(tool, label, bad, word)

    def meta(key, value):
        return lambda e: e["tensor_meta"].__setitem__(key, value)

    def ints(*values):
        return [{"as_int": v} for v in values]

    for path in ("../weight_0", "/etc/passwd", "", "weight_999", "x" * 70000, "a\0b"):
        lie("path %r" % path[:20], "pt2-weight", lambda e, path=path: e.__setitem__("path_name", path))
    for n in (-1, 2**31, 2**32, 2**62, 2**63, 2**64, 2**70, 1.5, "3", None):
        lie("size %r" % n, "", meta("sizes", ints(3, n)))
        lie("stride %r" % n, "", meta("strides", ints(4, n)))
        lie("offset %r" % n, "", meta("storage_offset", {"as_int": n}))
        lie("dtype %r" % n, "", meta("dtype", n))
    lie("offset 1", "torch-view", meta("storage_offset", {"as_int": 1}))
    lie("more sizes than strides", "pt2-weight", meta("sizes", ints(3, 4, 1)))
    lie("65 dimensions", "", meta("sizes", ints(*[1] * 65)))
    lie("layout sparse", "pt2-weight", meta("layout", 1))
    lie("dtype 0", "pt2-weight", meta("dtype", 0))
    lie("dtype 99", "pt2-weight", meta("dtype", 99))
    lie("pickled", "pt2-weight", lambda e: e.__setitem__("use_pickle", True))
    lie("no description", "pt2-weight", lambda e: e.__setitem__("tensor_meta", None))
    lie(
        "name twice",
        "",
        new=text.replace('"l.bias"', '"layer.weight"').replace('"layer.bias"', '"layer.weight"'),
    )
    for label, new in (
        ("empty", ""),
        ("no object", "[]"),
        ("not UTF-8", b"\xff{}"),
        ("deep", '{"config":' + "[" * 5000),
        ("a number", "7"),
        ("deep value", json.dumps({"x": 1})[:-1] + ', "y":' + "[" * 5000 + "]" * 5000 + "}"),
    ):
        lie(label, "", new=new)
    for n in range(0, len(text), 11):
        lie("list cut at %d" % n, "", new=text[:n])
    many = {"config": {"w%d" % i: entry for i in range(30000)}}
    lie("30,000 names of one weight", None, new=json.dumps(many))
    if STATS["slowest"] > (2.0 if os.environ.get("SFT_SANITIZED") != "1" else 60):
        FAULTS.append("slowest: %.1f s" % STATS["slowest"])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tool", required=True)
    tool = os.path.abspath(parser.parse_args().tool)
    torch.manual_seed(1)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        path = folder / "m.pt2"
        program = torch.export.export(Model().eval(), (torch.randn(2, 4),))
        torch.export.save(program, path)
        loaded = torch.export.load(path)
        want = {**loaded.state_dict, **loaded.constants}
        compare(tool, "today's", path, want, ["models/model.json", "sample_inputs"])
        state, constants = saved(program.state_dict), saved(program.constants)
        archive(
            folder / "old.pt2",
            {
                "serialized_exported_program.json": b"{}",
                "serialized_state_dict.pt": state,
                "serialized_constants.pt": constants,
                "serialized_example_inputs.pt": saved(1),
                "version": b"7.1",
            },
        )
        compare(
            tool,
            "2.5's",
            folder / "old.pt2",
            {**program.state_dict, **program.constants},
            ["serialized_exported_program.json"],
        )
        archive(
            folder / "mid.pt2",
            {
                "m/data/weights/model.pt": state,
                "m/data/constants/model.pt": constants,
                "m/archive_format": b"pt2",
                "m/archive_version": b"0",
                "m/models/model.json": b"{}",
                "m/data/sample_inputs/model.pt": saved(1),
                "m/byteorder": b"little",
                "m/.data/version": b"3",
            },
        )
        compare(
            tool,
            "2.7's",
            folder / "mid.pt2",
            {**program.state_dict, **program.constants},
            ["models/model.json"],
        )
        archive(
            folder / "aoti.pt2",
            {
                "m/archive_format": b"pt2",
                "m/data/aotinductor/model/x.so": b"\x7fELF",
                "m/archive_version": b"0",
            },
        )
        attempt(tool, "compiled", folder / "aoti.pt2")
        small = folder / "small.pt2"
        torch.export.save(torch.export.export(torch.nn.Sequential(), (torch.randn(1),)), small)
        attempt(tool, "no weights", small)

        class Small(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.layer = torch.nn.Linear(4, 3)

            def forward(self, x):
                return self.layer(x)

        torch.export.save(torch.export.export(Small(), (torch.randn(1, 4),)), small)
        damaged(tool, small, folder)
    for f in FAULTS[:20]:
        print("FAULT", f[:600])
    print(
        "torch %s: %d files, %d tensors equal, %d damaged ones, slowest %.2f s, %d faults"
        % (
            torch.__version__,
            STATS["files"],
            STATS["tensors"],
            STATS["hostile"],
            STATS["slowest"],
            len(FAULTS),
        )
    )
    return 1 if FAULTS else 0


if __name__ == "__main__":
    sys.exit(main())
