#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Writes the seeds of fuzz_layout and fuzz_space in fuzz/corpus. Run it by hand after a change; the seeds are checked
in."""

import json
import os

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "corpus")
STRATEGY = bytes.fromhex(
    "0800121c0a0a4d61744d756c2d6f7030120e08001204080108011204080208011a240a0177121f0a0408020802120d080008"
    "ffffffffffffffffff011a0022002800300238021a220a0162121d0a0408020802120b08ffffffffffffffffff011a0022002800"
    "30003800"
)


def put(target, seeds):
    folder = os.path.join(HERE, target)
    os.makedirs(folder, exist_ok=True)
    for name, data in seeds.items():
        if not isinstance(data, (bytes, str)):
            data = json.dumps(data)
        with open(os.path.join(folder, name), "wb") as f:
            f.write(data if isinstance(data, bytes) else data.encode())


def own(*tensors, **more):
    return dict(
        {
            "format": "safetensors-layout",
            "version": 1,
            "mesh": {"axes": {"x": 2, "y": 4}},
            "tensors": tensors,
        },
        **more,
    )


LAYOUTS = {
    "strategy": STRATEGY,
    "strategy-json": {
        "current_stage": 1,
        "parallel_strategy_item": {},
        "parallel_layout_item": {
            "0-w": {
                "dev_matrix": [4, 2, 2],
                "tensor_map": [[2, 1], 0],
                "tensor_shape": [8, 8],
                "field": 0,
                "opt_weight_shard_step": 0,
                "opt_weight_shard_size": 0,
            },
            "1-w": {
                "dev_matrix": [2, 2],
                "tensor_map": [-1, -1],
                "tensor_shape": [8, 8],
                "field": 0,
                "opt_weight_shard_step": 1,
                "opt_weight_shard_size": -1,
            },
        },
    },
    "plan": {"layers.*.q_proj": "colwise", "layers.*.o_proj": "rowwise", "experts": "packed_rowwise"},
    "plan-size": {"tp_plan": {"a": "local_colwise"}, "tp_size": 3},
    "topology": {
        "tensors": {
            "w": {
                "type": "Distributed",
                "shape": [4, 6],
                "dtype": "F32",
                "chunks": [
                    {"offsets": [0, 0], "shape": [4, 2], "filename_index": 0},
                    {"offsets": [0, 2], "shape": [4, 4], "filename_index": 1},
                ],
            },
            "n": {"type": "Shared", "shape": [5], "dtype": "F32", "filename_indices": [1]},
        },
        "filenames": ["a.safetensors", "b.safetensors"],
        "world_size": 2,
    },
    "own-texts": own(
        {"pattern": "*.q", "spec": "P('x', None)"},
        {"name": "o", "placements": "S(0), Replicate()"},
        {"module": "a.*.b", "mesh": "t", "style": "colwise"},
        meshes={"t": {"axes": {"tp": 2}, "ranks": [3, 1]}},
    ),
    "own-cuts": own(
        {"name": "c", "shape": [8, 10], "cuts": [["x", {"axis": "y", "divisor": 2, "size": 2}], None]},
        {"name": "u", "shape": [10], "cuts": [{"by": "y", "split": "chunk"}]},
        {"name": "z", "shape": [7], "cuts": [{"by": "y", "sizes": [1, 2, 3, 1]}]},
        {"name": "b", "shape": [8], "cuts": [{"by": "x", "blocks": [4, 2, 2]}]},
        {"name": "g", "shape": [8], "cuts": [{"by": "x", "blocks": 2}]},
    ),
    "own-flat-boxes": own(
        {"name": "f", "shape": [3, 5], "flat": {"by": "y", "align": 2}},
        {"name": "w", "whole": True},
        {"name": "k", "boxes": [{"rank": 0, "start": [0, 1], "count": [2, 3]}]},
    ),
}
SHARD = {"a": {"saved_offsets": [0, 2]}, "s": {"saved_offsets": []}}
METADATA = {
    "state_dict_metadata": {
        "a": {
            "global_shape": [4, 6],
            "chunk": [
                {"global_offset": [0, 0], "local_shape": [4, 2]},
                {"global_offset": [0, 2], "local_shape": [4, 4]},
            ],
        },
        "s": {"global_shape": [], "chunk": [{"global_offset": [], "local_shape": []}]},
    },
    "storage_data": {
        "('a', (0, 0))": [{"file_name": "a.safetensors", "storage_rank": 0}],
        "('a', (0, 2))": [{"file_name": "b.safetensors", "storage_rank": 1}],
        "('s', ())": [
            {"file_name": "a.safetensors", "storage_rank": 0},
            {"file_name": "b.safetensors", "storage_rank": 1},
        ],
    },
}
TOPOLOGY = {
    "tensors": {
        "a": {
            "type": "Distributed",
            "shape": [4, 6],
            "dtype": "U32",
            "chunks": [
                {"offsets": [0, 0], "shape": [4, 2], "filename_index": 0},
                {"offsets": [0, 2], "shape": [4, 4], "filename_index": 1},
            ],
        },
        "s": {"type": "Shared", "shape": [], "dtype": "U32", "filename_indices": [0, 1]},
    },
    "filenames": ["a.safetensors", "b.safetensors"],
    "world_size": 2,
}
SPACES = {
    "map": "\0" + json.dumps({"weight_map": {"a": "a.safetensors", "s": "b.safetensors"}}),
    "map-flat": "\0" + json.dumps({"a": "b.safetensors"}),
    "map-out": "\0" + json.dumps({"a": "../b.safetensors"}),
    "metadata": "\1" + json.dumps(METADATA),
    "topology": "\2" + json.dumps(TOPOLOGY),
    "topology-absent": "\2" + json.dumps(dict(TOPOLOGY, filenames=["a.safetensors", "c.safetensors"])),
    "shard": "\3" + json.dumps(SHARD),
    "shard-hole": "\3" + json.dumps(dict(SHARD, a={"saved_offsets": [0, 3]})),
}

if __name__ == "__main__":
    put("layout", LAYOUTS)
    put("space", SPACES)
