#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""dcp_oracle.py --tool TOOL [--cases N] [--seed S] - checkpoints that torch.distributed.checkpoint saves from four processes
(gloo), random DTensors on meshes of one and two dimensions, uneven sizes, optimizers and objects beside them; dcp.save and
dcp.async_save, one file for each process or for each item. The tool's tensors must be the whole ones, bit for bit; objects
are named. Then the same files damaged: every cut of .metadata and of the data, lies in .metadata. Needs torch."""

import argparse
import copy
import json
import os
import pathlib
import pickle
import random
import shutil
import subprocess
import sys
import tempfile
import time
import warnings

import hostile_shards
import torch

warnings.filterwarnings("ignore")
RANKS = 4
DTYPES = ["float32", "bfloat16", "int64", "int8", "bool", "float8_e4m3fn", "float64", "complex64"]
FAULTS = []


def cases(count, seed):
    rng = random.Random(seed)
    out = []
    for i in range(count):
        mesh = rng.choice([(4,), (2, 2), (1, 4)])
        tensors = {}
        how = rng.choice(["save", "async", "files"])
        for k in range(rng.randint(1, 5)):
            shape = tuple(rng.randint(0 if rng.random() < 0.05 else 1, 11) for _ in range(rng.randint(0, 3)))
            if how == "async":  # torch's own copy fails over parts without a storage
                shape = tuple(s or 1 for s in shape)
            placements = [rng.choice(["R"] + list(range(len(shape)))) for _ in mesh]
            placements = None if not shape or rng.random() < 0.3 or how == "async" else placements
            tensors["layer.%d.w" % k] = (rng.choice(DTYPES), shape, placements)
        out.append((mesh, tensors, how))
    return out


def whole(name, dtype, shape):
    generator = torch.Generator().manual_seed(sum(map(ord, name)) + 31 * len(shape) + sum(shape))
    n = 1
    for s in shape:
        n *= s
    size = torch.empty(0, dtype=getattr(torch, dtype)).element_size()
    data = torch.randint(
        0, 2 if dtype == "bool" else 256, (n * size,), dtype=torch.uint8, generator=generator
    )
    return (
        data.view(getattr(torch, dtype)).reshape(shape)
        if n
        else torch.empty(shape, dtype=getattr(torch, dtype))
    )


def worker(rank, folder, count, seed):
    import torch.distributed as dist
    import torch.distributed.checkpoint as dcp
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import DTensor, Replicate, Shard
    from torch.distributed.tensor._utils import compute_local_shape_and_global_offset

    torch.set_num_threads(1)
    dist.init_process_group("cpu:gloo", rank=rank, world_size=RANKS, init_method="file://%s/meeting" % folder)
    meshes = {}
    for i, (shape, tensors, how) in enumerate(cases(count, seed)):
        if shape not in meshes:
            meshes[shape] = init_device_mesh("cpu", shape)
        mesh, state = meshes[shape], {}
        for name, (dtype, size, placements) in tensors.items():
            full = whole(name, dtype, size)
            if placements is None:
                state[name] = full
                continue
            where = [Replicate() if p == "R" else Shard(p) for p in placements]
            local, offset = compute_local_shape_and_global_offset(full.shape, mesh, where)
            part = full[tuple(slice(o, o + n) for o, n in zip(offset, local))].contiguous()
            state[name] = DTensor.from_local(
                part, mesh, where, run_check=False, shape=full.shape, stride=full.stride()
            )
        tree = {"model": state, "optim": {"param_groups": [{"lr": 1e-3}]}, "epoch": i}
        path = os.path.join(folder, str(i))
        if how == "async":
            dcp.async_save(tree, checkpoint_id=path).result()
        else:
            writer = dcp.FileSystemWriter(path, single_file_per_rank=how == "save")
            dcp.save(tree, storage_writer=writer)
    dist.destroy_process_group()


def raw(tensor):
    t = tensor.contiguous()
    return t.reshape(-1).view(torch.uint8).numpy().tobytes() if t.numel() else b""


def read(path):
    data = path.read_bytes()
    n = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + n])
    header.pop("__metadata__", None)
    return {
        k: (tuple(v["shape"]), data[8 + n + v["data_offsets"][0] : 8 + n + v["data_offsets"][1]])
        for k, v in header.items()
    }


def run(tool, *args):
    return subprocess.run([tool, *map(str, args)], capture_output=True, text=True, timeout=60)


def compare(tool, folder, count, seed, stats):
    out = folder / "out.safetensors"
    for i, (mesh, tensors, how) in enumerate(cases(count, seed)):
        path = folder / str(i)
        r = run(tool, "convert", path, "-o", out, "-f", "--verify", "--no-sync")
        if r.returncode != 0:
            FAULTS.append("case %d (%s %s): %s" % (i, mesh, tensors, r.stderr))
            continue
        have = read(out)
        want = {"model." + n: (s, raw(whole(n, d, s))) for n, (d, s, _) in tensors.items()}
        if have != want:
            FAULTS.append(
                "case %d (%s %s): differs: %s"
                % (i, mesh, tensors, [n for n in want if have.get(n) != want[n]])
            )
        if "epoch" not in r.stderr or "optim.param_groups.0.lr" not in r.stderr:
            FAULTS.append("case %d: objects are not named: %s" % (i, r.stderr))
        stats["tensors"] += len(want)
        stats["files"] += sum(1 for p in path.iterdir() if p.suffix == ".distcp")
        for empty in [p for p in path.iterdir() if p.stat().st_size == 0]:
            empty.unlink()  # of a process without items: unknown, as every empty file
        scan = run(tool, "scan", path)
        if scan.returncode != 0:
            FAULTS.append("case %d: scan: %s" % (i, scan.stdout))


# ---------------------------------------------------------------- lies


def steps(tool, source):
    """resume-point names no step whose files are missing or too short, whatever .metadata says."""
    base = source.parent / "steps"
    for n in range(1, 7):
        shutil.copytree(source, base / ("step_%d" % n))
    (base / "step_6" / "__0_0.distcp").unlink()
    os.truncate(base / "step_5" / "__0_0.distcp", (source / "__0_0.distcp").stat().st_size - 1)
    os.truncate(base / "step_4" / "__0_0.distcp", 0)
    os.truncate(base / "step_3" / ".metadata", 300)
    os.truncate(base / "step_2" / ".metadata", 0)
    r = run(tool, "resume-point", base)
    if r.stdout != "step_1\n" or r.stderr.count("is skipped") != 5 or r.stderr.count("__0_0.distcp") != 3:
        FAULTS.append("steps: %s%s" % (r.stdout, r.stderr))


def damaged(tool, folder, stats):
    source = folder / "good"
    import torch.distributed.checkpoint as dcp

    state = {"w": torch.arange(24.0).reshape(4, 6), "b": torch.arange(5), "n": 3}
    dcp.save(state, checkpoint_id=source)
    work = folder / "bad"
    r = run(tool, "ls", source / "__0_0.distcp")
    if r.returncode != 1 or ".metadata" not in r.stderr:
        FAULTS.append("a file by itself: %s" % r.stderr)

    def attempt(name, word=None):
        begin = time.monotonic()
        r = run(tool, "ls", work)
        s = run(tool, "scan", work)
        stats["hostile"] += 1
        stats["slowest"] = max(stats["slowest"], time.monotonic() - begin)
        if (
            r.returncode not in (0, 1)
            or s.returncode not in (0, 1, 3)
            or r.returncode == 0
            and word is not None
        ):
            FAULTS.append("%s: exit %d, scan %d: %s" % (name, r.returncode, s.returncode, r.stderr))
        elif word is not None and word not in r.stderr:
            FAULTS.append("%s: no %s in %s" % (name, word, r.stderr))

    def fresh():
        shutil.rmtree(work, ignore_errors=True)
        shutil.copytree(source, work)

    for file in (".metadata", "__0_0.distcp"):
        data = (source / file).read_bytes()
        fresh()
        (work / file).write_bytes(b"")
        attempt("%s cut at 0" % file)
        rng = random.Random(5)
        for n in range(400):
            changed = bytearray(data)
            changed[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
            (work / file).write_bytes(changed)
            attempt("%s changed" % file)
    files = [(name, (source / name).read_bytes()) for name in (".metadata", "__0_0.distcp")]
    for which in (0, 1):
        folder = work.parent / ("cuts-%d" % which)
        folder.mkdir()
        stats["hostile"] += hostile_shards.cuts(tool, folder, files, which, FAULTS)
    good = pickle.loads((source / ".metadata").read_bytes())

    steps(tool, source)

    def lie(name, word, change):
        fresh()
        m = copy.deepcopy(good)
        change(m)
        (work / ".metadata").write_bytes(pickle.dumps(m))
        attempt(name, word)

    def place(m, fqn):
        return next(v for k, v in m.storage_data.items() if k.fqn == fqn)

    def info(field, value, fqn="w"):
        return lambda m: setattr(place(m, fqn), field, value)

    w = lambda m: m.state_dict_metadata["w"]  # noqa: E731
    chunk = type(good.state_dict_metadata["w"].chunks[0])
    half = [chunk(torch.Size([0, 0]), torch.Size([4, 3])), chunk(torch.Size([0, 3]), torch.Size([4, 3]))]
    for n in (0, 1, 100, 2**31, 2**32 - 1, 2**63 - 1, 2**63, 2**64, 2**70, -1):
        lie("offset %d" % n, None if n == place(good, "w").offset else "", info("offset", n))
        lie("length %d" % n, "", info("length", n))
        lie(
            "size %d" % n,
            "",
            lambda m, n=n: setattr(w(m), "size", torch.Size([4, 6, n]) if abs(n) < 2**63 else (4, 6, n)),
        )
    for path in (
        "../x.distcp",
        "/etc/passwd",
        "..",
        ".",
        "",
        "a/../../x",
        "C:x",
        "a\\b",
        "a\0b",
        "x" * 70000,
    ):
        lie("path %r" % path[:20], "", info("relative_path", path))
    lie("file is not there", "dcp-file", info("relative_path", "__7_0.distcp"))
    lie("two items at one place", "dcp-file", info("offset", place(good, "b").offset, "w"))
    lie(
        "another tensor's place",
        "",
        lambda m: [
            info("offset", place(good, "b").offset)(m),
            info("length", place(good, "b").length)(m),
            info("offset", place(good, "w").offset, "b")(m),
            info("length", place(good, "w").length, "b")(m),
        ],
    )
    lie(
        "no place",
        "dcp-metadata",
        lambda m: m.storage_data.pop(next(k for k in m.storage_data if k.fqn == "w")),
    )
    lie("no storage_data", "dcp-metadata", lambda m: setattr(m, "storage_data", None))
    lie("no boxes", "have 0 of 24", lambda m: setattr(w(m), "chunks", []))
    lie("one box twice", "", lambda m: setattr(w(m), "chunks", w(m).chunks * 2))
    lie("boxes that are in no file", "", lambda m: setattr(w(m), "chunks", half))
    lie("a box that leaves the tensor", "", lambda m: setattr(w(m), "size", torch.Size([4, 5])))
    lie("a larger tensor", "24 of 30", lambda m: setattr(w(m), "size", torch.Size([5, 6])))
    lie("another type", "another type", lambda m: setattr(w(m).properties, "dtype", torch.int32))
    lie("a type that is none", "", lambda m: setattr(w(m).properties, "dtype", "float32"))
    lie(
        "another shape",
        "",
        lambda m: [
            setattr(w(m), "size", torch.Size([6, 4])),
            setattr(w(m).chunks[0], "sizes", torch.Size([6, 4])),
        ],
    )
    lie("transformed", "transformed", info("transform_descriptors", ["zstd"]))
    lie("an object that is none", None, lambda m: m.state_dict_metadata.pop("n"))
    lie("an object for a tensor", "", lambda m: m.state_dict_metadata.__setitem__("n", w(m)))
    os.symlink("/etc/passwd", work / "link.distcp")
    (work / ".metadata").unlink()
    m = copy.deepcopy(good)
    place(m, "w").relative_path = "link.distcp"
    (work / ".metadata").write_bytes(pickle.dumps(m))
    attempt("a link", "")
    os.mkfifo(work / "pipe.distcp")
    place(m, "w").relative_path = "pipe.distcp"
    (work / ".metadata").write_bytes(pickle.dumps(m))
    attempt("a pipe", "")


def main():
    import torch.multiprocessing as mp

    p = argparse.ArgumentParser()
    p.add_argument("--tool", required=True)
    p.add_argument("--cases", type=int, default=8)
    p.add_argument("--seed", type=int, default=1)
    a = p.parse_args()
    tool = os.path.abspath(a.tool)
    stats = {"tensors": 0, "files": 0, "hostile": 0, "slowest": 0.0}
    with tempfile.TemporaryDirectory() as name:
        mp.spawn(worker, (name, a.cases, a.seed), nprocs=RANKS)
        compare(tool, pathlib.Path(name), a.cases, a.seed, stats)
        damaged(tool, pathlib.Path(name), stats)
    for f in FAULTS[:20]:
        print("FAULT", f)
    print(
        "torch %s, seed %d: %d checkpoints, %d files, %d tensors equal; %d damaged ones, slowest %.2f s; %d faults"
        % (
            torch.__version__,
            a.seed,
            a.cases,
            stats["files"],
            stats["tensors"],
            stats["hostile"],
            stats["slowest"],
            len(FAULTS),
        )
    )
    return 1 if FAULTS else 0


if __name__ == "__main__":
    sys.exit(main())
