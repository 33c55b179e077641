#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""transformers_peer.py --library LIB [--count N] [--seed S] - tensor-parallel plans against transformers (5.23) itself:
random plans, parameters and numbers of ranks. Which entry of the plan a parameter belongs to is asked of
transformers, the placement of the style too (on a process group that is none), and torch's pure functions say where each
rank's part lies. Prints the counts; exit 1 on any difference.
"""

import argparse
import ctypes
import json
import os
import random
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "checkpoint"))
import ffi  # noqa: E402

NAMES = [
    "layers.%d.self_attn.q_proj.weight",
    "layers.%d.self_attn.q_proj.bias",
    "layers.%d.mlp.down_proj.weight",
    "layers.%d.mlp.down_proj.bias",
    "layers.%d.mlp.experts.gate_up_proj",
    "layers.%d.mlp.experts.down_proj",
    "layers.%d.mlp.experts.%d.w1.weight",
    "embed_tokens.weight",
    "layers.%d.norm.weight",
    "layers.%d.mlp.experts.gate_up_proj_bias",
    "layers.%d.self_attn.o_proj.scale",
]


class Placements:
    """The placement that a style gives a parameter; it does not depend on the number of ranks."""

    def __init__(self):
        import torch
        import torch.distributed as dist
        from torch.distributed.device_mesh import init_device_mesh
        from torch.testing._internal.distributed.fake_pg import FakeStore
        from transformers.integrations.tensor_parallel import ALL_PARALLEL_STYLES

        dist.init_process_group("fake", rank=0, world_size=2, store=FakeStore())
        self.torch, self.styles = torch, ALL_PARALLEL_STYLES
        self.mesh = init_device_mesh("cpu", (2,))

    def of(self, style, leaf, dims):
        module = self.torch.nn.Module()
        module.register_parameter(
            leaf, self.torch.nn.Parameter(self.torch.empty([4] * dims, device="meta"), requires_grad=False)
        )
        self.styles[style].shard_param(module, leaf, self.mesh)
        found = module._parameters[leaf]
        return found.placements[0] if hasattr(found, "placements") else None


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--library", required=True)
    p.add_argument("--count", type=int, default=2000)
    p.add_argument("--seed", type=int, default=1)
    a = p.parse_args()
    from torch.distributed.tensor import Replicate, Shard, _utils
    from torch.distributed.tensor.placement_types import _StridedShard
    from transformers.distributed.parallel_utils import _get_parameter_plan

    lib = ctypes.CDLL(os.path.abspath(a.library))
    rng = random.Random(a.seed)
    placements = Placements()
    styles = [s for s in placements.styles.keys()]
    stats = {"plans": 0, "parameters": 0, "parts": 0, "uneven": 0, "cut": 0, "in no plan": 0}
    for case in range(a.count):
        plan, n = {}, rng.randint(1, 8)
        for name in rng.sample(NAMES, rng.randint(3, 9)):
            key = name.replace("%d", "*")
            plan[key.rsplit(".", 1)[0] if rng.random() < 0.7 and "." in key else key] = rng.choice(styles)
        layouts = ffi.LayoutSet(lib, json.dumps({"tp_plan": plan, "tp_size": n}).encode())
        stats["plans"] += 1
        for _ in range(3):
            name = rng.choice(NAMES)
            name = name.replace("%d", str(rng.randint(0, 40)))
            shape = [
                rng.randint(1, 13) if rng.random() < 0.6 else rng.randint(1, 3) * 2 * n
                for _ in range(rng.randint(1, 3))
            ]
            style = _get_parameter_plan(name, plan)
            if style == "embedding_colwise" and len(shape) < 2:
                continue
            placement = placements.of(style, name.rsplit(".", 1)[-1], len(shape)) if style else None
            if isinstance(placement, _StridedShard) and shape[placement.dim] % (2 * n):
                continue  # halves that do not divide: torch mixes them, we cut each half
            stats["parameters"] += 1
            stats["in no plan"] += style is None
            cut = isinstance(placement, (Shard, _StridedShard))
            stats["cut"] += cut
            stats["uneven"] += cut and shape[placement.dim] % n != 0
            for rank in range(n):
                got = layouts.all_boxes(name, shape, rank)
                want = expected(placement, shape, n, rank, _utils, Shard, _StridedShard)
                stats["parts"] += 1
                if got != want:
                    print(
                        "case %d: plan %r, %s %r on %d of %d (%s, %s): %r, transformers has %r"
                        % (case, plan, name, shape, rank, n, style, placement, got, want)
                    )
                    return 1
    del Replicate
    print(", ".join("%s %d" % kv for kv in stats.items()) + ", 0 different")
    if stats["uneven"] * 10 < stats["cut"] * 3:
        print("less than 30 % uneven")
        return 1
    return 0


def expected(placement, shape, n, rank, utils, shard, strided):
    """[(start, count)] of the parts that are not empty"""
    if isinstance(placement, strided):
        d = placement.dim % len(shape)
        half = shape[d] // 2
        size = half // n
        return [
            (
                [0] * d + [h * half + rank * size] + [0] * (len(shape) - d - 1),
                shape[:d] + [size] + shape[d + 1 :],
            )
            for h in range(2)
        ]
    if not isinstance(placement, shard):
        return [([0] * len(shape), list(shape))]
    where = shard(placement.dim % len(shape))
    size, offset = utils._compute_local_shape_and_global_offset(shape, [n], [rank], [where])
    return [] if 0 in size else [(list(offset), list(size))]


if __name__ == "__main__":
    sys.exit(main())
