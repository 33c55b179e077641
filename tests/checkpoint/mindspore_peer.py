#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""mindspore_peer.py --library LIB --tool TOOL [--count N] [--jobs N] [--seed S] - layouts and checkpoints against
MindSpore itself (its CPU wheel; needs no device).

  layouts      N random device matrices, tensor maps (nested ones too), optimizer sharding: the strategy as a protobuf
               made by MindSpore's own classes; every rank's box as MindSpore's arithmetic slices it
  dedupe       whole random jobs without replicas: which rank keeps what, by the tool and by MindSpore's own
               get_parameter_redundancy and remove_param_redundancy; the files as ms.save_checkpoint writes them; expanded
  jobs         checkpoints of whole random jobs: rank files, full and de-duplicated, written by ms.save_checkpoint; the
               whole as the tool reads it against the truth, and against ms.unified_safetensors where that is right;
               the parts of ms.load_distributed_checkpoint joined again
Prints the counts; exit 1 on any difference.
"""

import argparse
import ctypes
import json
import math
import os
import random
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
os.environ.setdefault("GLOG_v", "3")

import ffi  # noqa: E402
import mindspore as ms  # noqa: E402
import numpy as np  # noqa: E402
from mindspore.parallel import _tensor, transform_safetensors  # noqa: E402
from mindspore.train._utils import get_parameter_redundancy, remove_param_redundancy  # noqa: E402
from mindspore.train.node_strategy_pb2 import ParallelStrategyMap  # noqa: E402


def product(values):
    n = 1
    for v in values:
        n *= v
    return n


# ---------------------------------------------------------------- random layouts


def random_case(rng, dims=None):
    """(dev, tensor_map, step, size, shape)"""
    while True:
        dev = [rng.choice([1, 2, 2, 2, 3, 4]) for _ in range(rng.randint(1, 4))]
        dims = dims or rng.randint(1, 3)
        axes = list(range(len(dev)))
        rng.shuffle(axes)
        tensor_map, used = [], []
        for _ in range(dims):
            take = rng.choice([0, 1, 1, 1, 2]) if axes else 0
            mine = [axes.pop() for _ in range(min(take, len(axes)))]
            used += mine
            tensor_map.append(-1 if not mine else mine[0] if len(mine) == 1 else mine)
        cut = {len(dev) - 1 - m for m in used}
        free = [i for i in range(len(dev)) if i not in cut and dev[i] > 1]
        step = size = 0
        if rng.random() < 0.9 and free:
            size, step = random_opt(rng, dev, free, nested=any(isinstance(m, list) for m in tensor_map))
        shape = []
        for d, m in enumerate(tensor_map):
            parts = product(
                dev[len(dev) - 1 - k] for k in ([] if m == -1 else m if isinstance(m, list) else [m])
            )
            if d == 0 and size:
                parts *= product(dev[i] for i in free) if size == -1 else size
            shape.append(parts * rng.randint(1, 3))
        if product(dev) <= 32 and product(shape) <= 4096 and (free or rng.random() < 0.4):
            return dev, tensor_map, step, size, shape


def random_opt(rng, dev, free, nested):
    """An optimizer shard size that MindSpore can make of the axes that are left, and its step."""
    if rng.random() < 0.25 and not (len(free) == len(dev)):
        size = -1
    elif len(free) == len(dev) and not nested:
        n = product(dev)
        size = rng.choice([s for s in range(2, n + 1) if n % s == 0])
        return size, 1
    else:
        sizes, done = [], 1
        for i in reversed(free):
            sizes += [done * k for k in range(2, dev[i] + 1) if dev[i] % k == 0]
            done *= dev[i]
        size = rng.choice(sizes)
    return size, product(dev[free[-1] + 1 :])


def protobuf(entries, stage=0):
    """entries: [(name, dev, tensor_map, step, size)]. Nested maps have no protobuf form."""
    m = ParallelStrategyMap()
    m.current_stage = stage
    item = m.parallel_strategy_item.add()
    item.node_name = "MatMul-op0"
    item.parallel_strategys.stage = stage
    item.parallel_strategys.parallel_strategy.add().dim.extend([1, 1])
    for name, dev, tensor_map, step, size in entries:
        item = m.parallel_layout_item.add()
        item.param_name = name
        layouts = item.parallel_layouts
        layouts.dev_matrix.add().dim.extend(dev)
        layouts.tensor_map.add().dim.extend(tensor_map)
        layouts.param_split_shape.add()
        layouts.indices_offset.add()
        layouts.field, layouts.opt_weight_shard_step, layouts.opt_weight_shard_size = 0, step, size
    return m.SerializeToString()


def strategy_json(entries):
    return json.dumps(
        {
            "current_stage": 0,
            "parallel_strategy_item": {},
            "parallel_layout_item": {
                name: {
                    "dev_matrix": dev,
                    "tensor_map": tensor_map,
                    "field": 0,
                    "opt_weight_shard_step": step,
                    "opt_weight_shard_size": size,
                }
                for name, dev, tensor_map, step, size in entries
            },
        }
    ).encode()


def takes_wrong_shortcut(dev, tensor_map, size):
    """Where the first axis alone replicates, MindSpore 2.10 takes the axes for being in the order of the dimensions; its
    general way (_construct_tensor_layout_helper) does not, and agrees with what ranks hold without optimizer sharding."""
    if size <= 0 or any(isinstance(m, list) for m in tensor_map):
        return False
    free = [i for i in range(len(dev)) if dev[i] > 1 and len(dev) - 1 - i not in tensor_map]
    used = [m for m in tensor_map if m != -1 and dev[len(dev) - 1 - m] > 1]
    return free == [0] and used != sorted(used, reverse=True)


def their_slice(full, dev, tensor_map, step, size, rank):
    """The rank's part, by MindSpore's layout and slicing."""
    item = [dev, tensor_map, None, None, step, size]
    dev, tensor_map, step, size = _tensor._extract_layout_item(item)
    if takes_wrong_shortcut(dev, tensor_map, int(size)):
        free = [i for i in range(len(dev)) if dev[i] > 1 and len(dev) - 1 - i not in tensor_map]
        new_dev, new_map, new_shape = _tensor._construct_tensor_layout_helper(
            list(dev),
            list(tensor_map),
            int(size),
            list(full.shape),
            _tensor._get_tensor_strategy(list(dev), list(tensor_map)),
            free,
        )
    else:
        new_dev, new_map, new_shape = _tensor._construct_tensor_layout_for_opt_shard(
            list(dev), list(tensor_map), step, int(size), list(full.shape)
        )
    if any(isinstance(m, (list, tuple)) for m in new_map):
        new_dev, new_map, new_shape = _tensor._expand_layout(new_dev, new_map, new_shape)
    part = _tensor._load_tensor(
        ms.Tensor(full),
        [int(d) for d in new_dev],
        [int(m) for m in new_map],
        [int(n) for n in new_shape],
        rank,
    )
    # back from the dimensions that were put between: each of the tensor's own takes its share of the elements
    strategy = _tensor._get_tensor_strategy(list(dev), list(tensor_map))
    local = [n // s for n, s in zip(full.shape, strategy)]
    local[0] //= int(size) if size > 0 else 1
    return part.reshape(local)


def check_layouts(lib, count, rng):
    stats = {"ranks": 0, "opt": 0, "nested": 0, "minus": 0, "wrong": 0}
    for case in range(count):
        dev, tensor_map, step, size, shape = random_case(rng)
        nested = any(isinstance(m, list) for m in tensor_map)
        entries = [("p-0.weight", dev, tensor_map, step, size)]
        sets = [ffi.LayoutSet(lib, strategy_json(entries))]
        if not nested:
            sets.append(ffi.LayoutSet(lib, protobuf(entries)))
        stats["opt"] += size != 0
        stats["wrong"] += size != 0 and takes_wrong_shortcut(dev, tensor_map, 1)
        stats["nested"] += nested
        stats["minus"] += size == -1
        full = np.arange(product(shape), dtype=np.int32).reshape(shape)
        for rank in range(product(dev)):
            want = their_slice(full, dev, tensor_map, step, size, rank)
            for s in sets:
                start, extent = s.box("p-0.weight", shape, rank)
                got = full[tuple(slice(a, a + n) for a, n in zip(start, extent))]
                if got.shape != want.shape or not np.array_equal(got, want):
                    return (
                        "case %d: dev %r map %r step %d size %d shape %r rank %d: %r + %r, MindSpore begins at %r %r"
                        % (
                            case,
                            dev,
                            tensor_map,
                            step,
                            size,
                            shape,
                            rank,
                            start,
                            extent,
                            want.flat[0],
                            want.shape,
                        )
                    )
            stats["ranks"] += 1
    if stats["opt"] * 10 < count * 3:
        return "only %d of %d layouts have optimizer sharding" % (stats["opt"], count)
    print(
        "layouts: %d, %d ranks, %d %% optimizer sharding (%d of all ranks), %d nested maps, 0 different "
        "(%d by MindSpore's general way, as its shortcut permutes axes)"
        % (
            count,
            stats["ranks"],
            100 * stats["opt"] // count,
            stats["minus"],
            stats["nested"],
            stats["wrong"],
        )
    )
    return None


# ---------------------------------------------------------------- whole jobs


def run_tool(tool, *args):
    return subprocess.run([tool, *args], capture_output=True, text=True)


def random_job(rng, ranks_of):
    """Parameters of one job: they share the number of devices."""
    devices = rng.choice(ranks_of)
    entries, shapes, tries = [], {}, 0
    query = "attn-q" if rng.random() < 0.2 else "attn_q"  # MindSpore takes what stands before "-" for a stage
    names = ["embed.weight", "layers.0.%s.weight" % query, "layers.0.mlp.bias", "moments.x", "norm", "head"]
    while len(entries) < 6 and tries < 4000:
        tries += 1
        dev, tensor_map, step, size, shape = random_case(rng)
        if product(dev) != devices or any(isinstance(m, list) for m in tensor_map):
            continue
        name = names[len(entries)]
        entries.append((name, dev, tensor_map, step, size))
        shapes[name] = shape
    return devices, entries, shapes


def save_rank(path, parts, **options):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    ms.save_checkpoint(
        [{"name": n, "data": ms.Tensor(v)} for n, v in parts.items()],
        path,
        format=path.rsplit(".", 1)[1],
        **options,
    )


def holders(lib_set, entries, shapes, devices):
    """{name: {box: [ranks]}}"""
    out = {}
    for name, *_ in entries:
        for rank in range(devices):
            start, extent = lib_set.box(name, shapes[name], rank)
            out.setdefault(name, {}).setdefault((tuple(start), tuple(extent)), []).append(rank)
    return out


def whole_by_tool(tool, folder, layout, out):
    r = run_tool(tool, "cp", "-f", "--layout", layout, folder, out)
    if r.returncode != 0:
        return None, r.stderr
    return ffi.read_file(out)[0], ""


def same(got, truth):
    return set(got) == set(truth) and all(
        got[n][1] == truth[n].shape and got[n][2] == truth[n].tobytes() for n in truth
    )


def check_job(lib, tool, rng, folder, stats):
    devices, entries, shapes = random_job(rng, [2, 4, 4, 8])
    truth = {n: rng_array(rng, shapes[n]) for n in shapes}
    truth["global_step"] = np.array([7], dtype=np.int32)
    strategy = os.path.join(folder, "strategy.ckpt")
    with open(strategy, "wb") as f:
        f.write(protobuf(entries))
    s = ffi.LayoutSet(lib, protobuf(entries))
    keep = {
        n: {box: rng.choice(ranks) for box, ranks in boxes.items()}
        for n, boxes in holders(s, entries, shapes, devices).items()
    }
    dedup = rng.random() < 0.5
    form = "ckpt" if rng.random() < 0.25 else "safetensors"
    for rank in range(devices):
        parts = {"global_step": truth["global_step"]}
        for name, dev, tensor_map, step, size in entries:
            start, extent = s.box(name, shapes[name], rank)
            if not dedup or keep[name][(tuple(start), tuple(extent))] == rank:
                parts[name] = their_slice(truth[name], dev, tensor_map, step, size, rank).copy()
        save_rank(
            os.path.join(folder, "src", "rank_%d" % rank, "net_rank_%d-1_2.%s" % (rank, form)),
            parts,
            crc_check=rng.random() < 0.5,
            remove_redundancy=dedup,
        )
    got, why = whole_by_tool(
        tool, os.path.join(folder, "src"), strategy, os.path.join(folder, "whole.safetensors")
    )
    if got is None or not same(got, truth):
        return "the whole of %d ranks (%s) is not the truth: %s" % (
            devices,
            "de-duplicated" if dedup else "full",
            why,
        )
    stats["jobs"] += 1
    stats["dedup"] += dedup
    stats["in .ckpt"] += form == "ckpt"
    return (
        None if form == "ckpt" else check_unified(tool, folder, strategy, truth, entries, dedup, stats)
    ) or check_loaded(lib, tool, rng, folder, truth, shapes, stats)


def rng_array(rng, shape):
    return np.frombuffer(rng.randbytes(product(shape) * 4), dtype=np.int32).reshape(shape)


class SmallParts:
    """The module math of transform_safetensors, with parts of so many bytes instead of 3 GiB."""

    def __init__(self, part):
        self.part = part

    def __getattr__(self, name):
        return getattr(math, name)

    def ceil(self, value):
        return math.ceil(value * (3 << 30) / self.part)


def same_unified(tool, folder, strategy, part, stats):
    """join --unified against MindSpore's folder: names of files, the map (its order too), hyper parameters, values."""
    out, theirs = os.path.join(folder, "joined"), os.path.join(folder, "unified")
    r = run_tool(
        tool,
        "join",
        os.path.join(folder, "src"),
        "--layout",
        strategy,
        "-o",
        out,
        "--unified",
        "--part-size",
        str(part),
        "--no-sync",
    )
    if r.returncode != 0:
        return "join --unified: " + r.stderr
    names = [sorted(os.listdir(f)) for f in (out, theirs)]
    if names[0] != names[1]:
        return "files of the unified form: %r, by MindSpore %r" % tuple(names)
    maps = []
    for f in (out, theirs):
        with open(os.path.join(f, "param_name_map.json"), encoding="utf-8") as file:
            maps.append(json.load(file))
    if maps[0]["metadata"] != maps[1]["metadata"] or maps[0]["weight_map"] != maps[1]["weight_map"]:
        return "maps of the unified form: %r, by MindSpore %r" % tuple(maps)
    for name in names[0]:
        if name.endswith(".safetensors"):
            ours, other = (ffi.read_file(os.path.join(f, name))[0] for f in (out, theirs))
            if ours != other:
                return "%s of the unified form differs: %r, by MindSpore %r" % (
                    name,
                    sorted(ours),
                    sorted(other),
                )
    stats["unified alike"] += 1
    stats["parts"] += sum(n.startswith("part") for n in names[0])
    return None


def check_unified(tool, folder, strategy, truth, entries, dedup, stats):
    """MindSpore's own merge: the folder that it writes, opened by the tool, has the truth. Where MindSpore refuses (names
    with "-", sizes that it cannot transform), only our answer counts."""
    out = os.path.join(folder, "unified")
    part = stats["jobs"] % 3 * 200 + 100
    transform_safetensors.math = SmallParts(part)
    try:
        ms.unified_safetensors(os.path.join(folder, "src"), strategy, out, merge_with_redundancy=not dedup)
    except Exception as e:  # noqa: BLE001  (ValueError, KeyError, RuntimeError, by version)
        stats["unify refused"] += 1
        stats.setdefault("reasons", set()).add(str(e)[:80])
        return None
    with open(os.path.join(out, "param_name_map.json"), encoding="utf-8") as f:
        if not set(json.load(f)["weight_map"].values()) <= set(os.listdir(out)):
            stats["unify incomplete"] += 1  # a child process failed, and nobody asked
            return None
    r = run_tool(tool, "cp", "-f", out, os.path.join(folder, "u.safetensors"))
    if r.returncode != 0:
        return "unified weights of MindSpore do not open: " + r.stderr
    got = ffi.read_file(os.path.join(folder, "u.safetensors"))[0]
    wrong = [
        n for n in truth if n not in got or got[n][2] != truth[n].tobytes() or got[n][1] != truth[n].shape
    ]
    if wrong:
        theirs = {}
        for name in os.listdir(out):
            if name.endswith(".safetensors"):
                theirs.update(ffi.read_file(os.path.join(out, name))[0])
        known = {e[0] for e in entries if e[4] != 0 and takes_wrong_shortcut(e[1], e[2], 1)}
        if all(n in theirs and got.get(n) == theirs[n] and n in known for n in wrong):
            stats["unify wrong"] += 1  # its shortcut permutes axes; the tool shows what is there
            return None
        return "unified weights: %r differ, of %r" % (wrong, entries)
    stats["unified"] += 1
    return same_unified(tool, folder, strategy, part, stats)


def check_loaded(lib, tool, rng, folder, truth, shapes, stats):
    """Another job's parts, sliced by MindSpore out of a complete file, joined by the tool."""
    devices, entries, _ = random_job(rng, [2, 4])
    names = [n for n in shapes if n in {e[0] for e in entries}]
    layouts = {e[0]: e for e in entries}
    complete = os.path.join(folder, "complete")
    os.makedirs(complete)
    chosen = {}
    for name in names:
        _, dev, tensor_map, step, size = layouts[name]
        if len(tensor_map) != len(shapes[name]):
            continue
        strategy = _tensor._get_tensor_strategy(dev, tensor_map)
        parts = list(strategy)
        parts[0] *= 1 if size == 0 else (product(dev) // product(strategy) if size == -1 else size)
        if all(n % p == 0 for n, p in zip(shapes[name], parts)):
            chosen[name] = layouts[name]
    if not chosen:
        return None
    ms.save_checkpoint(
        [{"name": n, "data": ms.Tensor(truth[n])} for n in chosen],
        os.path.join(complete, "part0.safetensors"),
        format="safetensors",
    )
    strategy = os.path.join(folder, "dst.ckpt")
    with open(strategy, "wb") as f:
        f.write(protobuf(list(chosen.values())))
    out = os.path.join(folder, "dst")
    os.makedirs(out)
    try:
        ms.load_distributed_checkpoint(
            None,
            predict_strategy=strategy,
            format="safetensors",
            unified_safetensors_dir=complete,
            dst_safetensors_dir=out,
        )
    except Exception as e:  # noqa: BLE001
        stats["load refused"] += 1
        stats.setdefault("reasons", set()).add(str(e)[:80])
        return None
    got, why = whole_by_tool(tool, out, strategy, os.path.join(folder, "again.safetensors"))
    if got is None or not same(got, {n: truth[n] for n in chosen}):
        return "parts that MindSpore cut do not join: %s %r" % (why, list(chosen.values()))
    stats["loaded"] += 1
    return None


# ---------------------------------------------------------------- replicas


def loses_parts(groups, boxes):
    """MindSpore takes ranks for replicas that hold other parts (a step that is not the stride of the free axes, or a
    size that does not divide the group): it would drop bytes."""
    return sorted(tuple(sorted(g)) for g in groups) != sorted(tuple(sorted(r)) for r in boxes.values())


def check_dedupe(lib, tool, rng, folder, stats):
    devices, entries, shapes = random_job(rng, [2, 4, 8, 8])
    truth = {n: rng_array(rng, shapes[n]) for n in shapes}
    truth["global_step"] = np.array([7], dtype=np.int32)
    strategy = os.path.join(folder, "strategy.ckpt")
    with open(strategy, "wb") as f:
        f.write(protobuf(entries))
    groups = get_parameter_redundancy(strategy, initial_rank=0)
    boxes = holders(ffi.LayoutSet(lib, protobuf(entries)), entries, shapes, devices)
    if any(loses_parts(groups[n], boxes[n]) for n in boxes):
        stats["dedupe unsafe"] += 1
        return None
    keep = remove_param_redundancy(groups)
    crc = rng.random() < 0.3
    for rank in range(devices):
        parts = {"global_step": truth["global_step"]}
        for name, dev, tensor_map, step, size in entries:
            parts[name] = their_slice(truth[name], dev, tensor_map, step, size, rank).copy()
        name = "rank_%d/net_rank_%d-1_2.safetensors" % (rank, rank)
        save_rank(
            os.path.join(folder, "full", name),
            parts,
            remove_redundancy=rng.choice([None, False]),
            crc_check=crc,
        )
        fewer = {n: v for n, v in parts.items() if n == "global_step" or n in keep.get(rank, set())}
        save_rank(os.path.join(folder, "few", name), fewer, remove_redundancy=True)
    for args in (("dedupe", "full", "ours"), ("expand", "ours", "again"), ("expand", "few", "back")):
        r = run_tool(
            tool,
            args[0],
            "--layout",
            strategy,
            os.path.join(folder, args[1]),
            "-o",
            os.path.join(folder, args[2]),
            "--no-sync",
        )
        if r.returncode != 0:
            return "%s: %s" % (args[0], r.stderr)
    for rank in range(devices):
        name = "rank_%d/net_rank_%d-1_2.safetensors" % (rank, rank)
        full, few, ours, again, back = (
            ffi.read_file(os.path.join(folder, f, name)) for f in ("full", "few", "ours", "again", "back")
        )
        if ours[0] != few[0] or (ours[1] != few[1] and len(few[0]) != len(full[0])):
            return "rank %d keeps %r, by MindSpore %r, of %r" % (
                rank,
                (sorted(ours[0]), ours[1]),
                (sorted(few[0]), few[1]),
                entries,
            )
        if again != full or back[0] != full[0]:
            return "rank %d does not come back: %r" % (rank, entries)
    got, why = whole_by_tool(
        tool, os.path.join(folder, "ours"), strategy, os.path.join(folder, "whole.safetensors")
    )
    if got is None or not same(got, truth):
        return "without replicas it is another model: " + why
    stats["deduped"] += 1
    return None


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--library", required=True)
    p.add_argument("--tool", required=True)
    p.add_argument("--count", type=int, default=2000)
    p.add_argument("--jobs", type=int, default=20)
    p.add_argument("--seed", type=int, default=1)
    a = p.parse_args()
    lib = ctypes.CDLL(os.path.abspath(a.library))
    rng = random.Random(a.seed)
    fault = check_layouts(lib, a.count, rng)
    stats = {
        k: 0
        for k in (
            "jobs",
            "dedup",
            "in .ckpt",
            "unified",
            "unify refused",
            "unify wrong",
            "loaded",
            "load refused",
            "deduped",
            "dedupe unsafe",
            "unified alike",
            "unify incomplete",
            "parts",
        )
    }
    for i in range(a.jobs):
        if fault:
            break
        folder = tempfile.mkdtemp(prefix="sft-ms-")
        fault = check_job(lib, os.path.abspath(a.tool), rng, folder, stats)
        if not fault:
            os.makedirs(os.path.join(folder, "replicas"))
            fault = check_dedupe(lib, os.path.abspath(a.tool), rng, os.path.join(folder, "replicas"), stats)
        if fault:
            print("job %d in %s" % (i, folder))
        else:
            shutil.rmtree(folder)
    print("jobs:", ", ".join("%s %s" % (k, v) for k, v in stats.items()))
    if fault:
        print(fault)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
