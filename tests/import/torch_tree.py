#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""torch_tree.py --tool TOOL - whole checkpoints through `safetensors convert --tree` and back to PyTorch.

An AdamW optimizer with schedulers and random number states: .pt -> .safetensors -> load_tree, and -> .pt ->
torch.load(weights_only=True), equal at every step, training continued bit for bit. Every type of
docs/tree.md; files that Python's save_tree wrote; state dicts of every element type, mapped and tied. Needs
torch, numpy and this package (safetensors_c).
"""

import argparse
import collections
import json
import math
import os
import random
import struct
import subprocess
import sys
import tempfile
import warnings

import numpy as np
import torch
from safetensors_c import load_tree, save_tree
from safetensors_c import torch as sft

warnings.filterwarnings("ignore")
COUNT = 0


def run(tool, *args, want=0):
    r = subprocess.run([tool, *map(str, args)], capture_output=True, text=True, timeout=300)
    if r.returncode != want:
        sys.exit("%s: exit %d, not %d: %s" % (" ".join(map(str, args)), r.returncode, want, r.stderr))
    return r


def same(a, b, at=""):
    """Types, order of keys, bits."""
    global COUNT
    COUNT += 1
    if isinstance(a, torch.Tensor):
        assert isinstance(b, torch.Tensor) and a.dtype == b.dtype and a.shape == b.shape, at
        x, y = (t.detach().contiguous().reshape(-1) for t in (a, b))
        assert not x.numel() or torch.equal(x.view(torch.uint8), y.view(torch.uint8)), at
        return
    assert type(a) is type(b), (at, type(a), type(b))
    if isinstance(a, dict):
        assert list(a) == list(b), (at, list(a), list(b))
        for k in a:
            same(a[k], b[k], at + "." + str(k))
    elif isinstance(a, (list, tuple)):
        assert len(a) == len(b), at
        for i, (x, y) in enumerate(zip(a, b)):
            same(x, y, at + "." + str(i))
    else:
        assert a == b or a != a, (at, a, b)


class Training:
    def __init__(self):
        torch.manual_seed(0)
        self.model = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))
        self.optimizer = torch.optim.AdamW(
            [{"params": self.model[0].parameters()}, {"params": self.model[2].parameters(), "lr": 3e-3}],
            lr=1e-2,
            betas=(0.87, 0.993),
            amsgrad=True,
        )
        lr = torch.optim.lr_scheduler
        self.schedulers = [
            lr.MultiStepLR(self.optimizer, [2, 4], gamma=0.7),
            lr.SequentialLR(
                self.optimizer,
                [lr.LinearLR(self.optimizer, 0.3, total_iters=3), lr.CosineAnnealingLR(self.optimizer, 9)],
                [3],
            ),
            lr.ReduceLROnPlateau(self.optimizer, patience=1),
        ]

    def steps(self, count):
        losses = []
        for _ in range(count):
            self.optimizer.zero_grad()
            loss = self.model(torch.randn(5, 6)).square().sum()
            loss.backward()
            self.optimizer.step()
            losses.append(loss.item())
            for s in self.schedulers[:2]:
                s.step()
            self.schedulers[2].step(losses[-1])
        return losses

    def state(self):
        return {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "schedulers": [s.state_dict() for s in self.schedulers],
            "rng": torch.get_rng_state(),
            "epoch": 5,
            "best": float("inf"),
        }

    def resume(self, state):
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        for s, kept in zip(self.schedulers, state["schedulers"]):
            s.load_state_dict(kept)
        torch.set_rng_state(state["rng"])


def optimizer(tool, folder):
    training = Training()
    training.steps(5)
    state = training.state()
    paths = {}
    for name, options in {
        "zip": {},
        "zip4": {"pickle_protocol": 4},
        "legacy": {"_use_new_zipfile_serialization": False},
    }.items():
        p = os.path.join(folder, name)
        torch.save(state, p + ".pt", **options)
        run(tool, "convert", p + ".pt", "--tree", "--verify", "-o", p + ".safetensors")
        run(tool, "convert", p + ".safetensors", "--verify", "-o", p + ".back.pt")
        paths[name] = p
    onward = training.steps(7)
    final = training.state()
    for name, p in paths.items():
        read = {
            "tree": load_tree(p + ".safetensors"),
            "back": torch.load(p + ".back.pt", weights_only=True),
            "mapped": torch.load(p + ".back.pt", weights_only=True, mmap=True),
        }
        for how, again in read.items():
            same(state_of(p), again, name + " " + how)
            other = Training()
            other.resume(again)
            assert other.steps(7) == onward, (name, how)
            same(final, other.state(), name + " " + how + " continued")


def state_of(p):
    return torch.load(p + ".pt", weights_only=False)


def every_type(tool, folder):
    shared = torch.arange(6.0).reshape(2, 3)
    tree = {
        "text": 'a"\\\n\u00e4\U0001f600',
        "none": None,
        "flags": [True, False],
        "float": [
            0.1,
            -0.0,
            1e-5,
            5e-324,
            1.7976931348623157e308,
            float("nan"),
            float("-inf"),
            1e16,
            123456.789,
        ],
        "int": [
            0,
            -1,
            255,
            256,
            -(2**31),
            2**31,
            2**53,
            -(2**53),
            2**63,
            -(2**63),
            2**64,
            10**50,
            -(10**700),
        ],
        "complex": 1.5 - 2j,
        "bytes": bytes(range(256)),
        "tuple": (1, (2, ()), []),
        "set": {1, 2},
        "odict": collections.OrderedDict([("b", 1), ("a", {})]),
        "counter": collections.Counter({3: 2, "x": 1}),
        "size": torch.Size([2, 3]),
        "dtype": [torch.bfloat16, torch.float8_e4m3fn],
        7: {"$": 1},
        "7": shared,
        (1, "k"): None,
        2.5: b"",
        None: shared,
        "numpy": [
            np.float32(1.1),
            np.float64(2.2),
            np.float16(0.5),
            np.int64(-5),
            np.uint8(200),
            np.int8(-128),
            np.uint64(2**64 - 1),
            np.bool_(True),
        ],
        "empty": torch.empty(0, 3),
        "scalar": torch.tensor(3, dtype=torch.int16),
    }
    ours = os.path.join(folder, "every.safetensors")
    for protocol in (2, 4, 5):
        torch.save(tree, os.path.join(folder, "every.pt"), pickle_protocol=protocol)
        run(tool, "convert", os.path.join(folder, "every.pt"), "--tree", "-f", "-o", ours)
        same(tree, load_tree(ours), "every type, protocol %d" % protocol)
    save_tree(tree, os.path.join(folder, "python.safetensors"))
    for source in (ours, os.path.join(folder, "python.safetensors")):
        back = os.path.join(folder, "every.back.pt")
        run(tool, "convert", source, "-f", "--verify", "-o", back)
        again = torch.load(back, weights_only=False)
        same(tree, again, "every type, back from " + source)
        assert again["7"] is again[None]
        assert run(tool, "scan", back).stdout.count("harmless") == 1


def texts_of_floats(tool, folder):
    """The text of each float is Python's repr: the shortest, of two as near the even one."""
    rng = random.Random(1)
    floats = [-2000723712327223.25, 73091527877058.125, 5e-324, 2.0**-1022, 2.0**52, 1e23, 9007199254740993.0]
    for bits in [rng.getrandbits(64) for _ in range(20000)] + [e << 52 for e in range(1, 2047)]:
        floats.append(struct.unpack("<d", struct.pack("<Q", bits))[0])
    floats = [
        x for x in floats + [rng.randrange(1 << 53, 1 << 55) / 8 for _ in range(2000)] if math.isfinite(x)
    ]
    p = os.path.join(folder, "floats.pt")
    out = os.path.join(folder, "floats.safetensors")
    torch.save({"a": torch.ones(2), "floats": floats}, p)
    run(tool, "convert", p, "--tree", "-o", out)
    with open(out, "rb") as f:
        header = json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))
    found = json.loads(header["__metadata__"]["sft.tree"])["tree"]["floats"]
    assert [x["v"] for x in found] == [repr(x) for x in floats]


def refusals(tool, folder):
    p = os.path.join(folder, "refused.pt")
    out = os.path.join(folder, "refused.safetensors")
    torch.save({"a": torch.ones(2), "args": argparse.Namespace(x=1)}, p)
    run(tool, "convert", p, "--tree", "-o", out, want=1)
    assert not os.path.exists(out)
    run(tool, "convert", p, "--tree", "--allow-opaque", "-o", out)
    same({"a": torch.ones(2), "args": None}, load_tree(out))
    run(tool, "convert", out, "--drop", "a", "-o", os.path.join(folder, "x.safetensors"), want=1)
    loop = []
    loop.append(loop)
    torch.save({"a": torch.ones(2), "loop": loop}, p)
    run(tool, "convert", p, "--tree", "-f", "-o", out, want=1)
    for text in (
        "{",
        '{"version":2,"tree":1}',
        '{"version":1,"tree":{"$":"eval","v":"1"}}',
        '{"version":1,"tree":{"$":"torch.dtype","v":"load"}}',
        '{"version":1,"tree":{"$":"tensor","v":"b"}}',
        '{"version":1,"tree":1.5}',
        '{"version":1,"tree":%s1}' % ("[" * 300),
        '{"version":1,"tree":[1,]}',
    ):
        sft.save_file({"a": torch.ones(1)}, out, {"sft.tree": text})
        back = os.path.join(folder, "bad.pt")
        r = subprocess.run([tool, "convert", out, "-o", back], capture_output=True, text=True)
        assert r.returncode in (1, 2) and not os.path.exists(back), (text[:60], r.returncode, r.stderr)


DTYPES = [
    torch.bool,
    torch.uint8,
    torch.int8,
    torch.int16,
    torch.int32,
    torch.int64,
    torch.uint16,
    torch.uint32,
    torch.uint64,
    torch.float16,
    torch.bfloat16,
    torch.float32,
    torch.float64,
    torch.complex64,
    torch.float8_e4m3fn,
    torch.float8_e5m2,
    torch.float8_e4m3fnuz,
    torch.float8_e5m2fnuz,
    torch.float8_e8m0fnu,
]


def state_dicts(tool, folder):
    generator = torch.Generator().manual_seed(1)
    tensors = {}
    for dtype in DTYPES:
        for shape in ((), (0, 3), (2, 3, 4), (7,)):
            n = int(np.prod(shape, dtype=np.int64)) * torch.empty(0, dtype=dtype).element_size()
            raw = torch.randint(
                0, 2 if dtype is torch.bool else 256, (n,), dtype=torch.uint8, generator=generator
            )
            tensors["%s.%s" % (dtype, len(tensors))] = (
                raw.view(dtype).reshape(shape) if n else torch.empty(shape, dtype=dtype)
            )
    first = next(iter(tensors))
    p = os.path.join(folder, "plain.safetensors")
    sft.save_file(tensors, p, {"format": "pt", "tied": first})
    run(tool, "convert", p, "--verify", "-o", os.path.join(folder, "plain.pt"))
    for options in ({}, {"mmap": True}):
        again = torch.load(os.path.join(folder, "plain.pt"), weights_only=True, **options)
        assert again["tied"].untyped_storage().data_ptr() == again[first].untyped_storage().data_ptr()
        del again["tied"]
        same(dict(sorted(tensors.items())), dict(sorted(again.items())), "state dict")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tool", required=True)
    tool = os.path.abspath(parser.parse_args().tool)
    for part in (optimizer, every_type, texts_of_floats, refusals, state_dicts):
        with tempfile.TemporaryDirectory() as folder:
            part(tool, folder)
    print("%d values compared" % COUNT)


if __name__ == "__main__":
    main()
