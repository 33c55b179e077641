#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""torchao_oracle.py --tool TOOL - quantised models of torchao, saved by torch, converted by us, made whole again by torchao.

Parts must have the names and bytes that torchao's own flatten_tensor_state_dict gives them, and unflatten_tensor_state_dict
must make the objects of them. Run by scripts/import_peers.sh (requirements-torch-family.txt)."""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import warnings

import torch
from safetensors import safe_open
from safetensors.torch import load_file

warnings.filterwarnings("ignore")
import torchao  # noqa: E402
from torchao.prototype.mx_formats.mx_tensor import MXTensor  # noqa: E402
from torchao.prototype.mx_formats.nvfp4_tensor import NVFP4Tensor  # noqa: E402
from torchao.prototype.safetensors.safetensors_support import (  # noqa: E402
    flatten_tensor_state_dict,
    unflatten_tensor_state_dict,
)
from torchao.quantization import (  # noqa: E402
    Float8WeightOnlyConfig,
    Int4Tensor,
    Int8DynamicActivationInt8WeightConfig,
    Int8WeightOnlyConfig,
    IntxWeightOnlyConfig,
    quantize_,
)

FAULTS = []


def models():
    configs = {
        "int8": Int8WeightOnlyConfig(),
        "int8 dynamic": Int8DynamicActivationInt8WeightConfig(),
        "float8": Float8WeightOnlyConfig(),
        "int4 in int8": IntxWeightOnlyConfig(torch.int4),
        "int2 in int8": IntxWeightOnlyConfig(torch.int2),
    }
    for name, config in configs.items():
        model = torch.nn.Sequential(torch.nn.Linear(128, 64), torch.nn.Linear(64, 32, bias=False)).to(
            torch.bfloat16
        )
        quantize_(model, config)
        yield name, {k: v.detach() for k, v in model.state_dict().items()}
    w = torch.randn(64, 128, dtype=torch.bfloat16)
    for kind in (torch.float8_e4m3fn, torch.float8_e5m2, torch.float4_e2m1fn_x2):
        yield "MX %s" % kind, {"a.w": MXTensor.to_mx(w, kind, 32), "a.b": w}
    yield "NVFP4", {"a.w": NVFP4Tensor.to_nvfp4(w)}
    yield "NVFP4 of two scales", {"a.w": NVFP4Tensor.to_nvfp4(w, per_tensor_scale=torch.tensor(0.5))}
    q = torch.randint(0, 255, (64, 64), dtype=torch.uint8).view(torch.int8)
    s = torch.rand(4, 64, dtype=torch.bfloat16)
    yield "int4", {"a.w": Int4Tensor(q, s, s.clone(), [1, 32], torch.Size([64, 128]))}


def plain(attribute):
    """JSON has no tuples."""
    return str(list(attribute) if isinstance(attribute, (tuple, list)) else attribute)


def same(a, b):
    if type(a) is not type(b) or a.shape != b.shape or a.dtype != b.dtype:
        return False
    if type(a) is torch.Tensor:
        return torch.equal(
            a.contiguous().view(-1).view(torch.uint8), b.contiguous().view(-1).view(torch.uint8)
        )
    names = list(a.tensor_data_names) + list(getattr(a, "optional_tensor_data_names", []))
    for name in names:
        x, y = getattr(a, name), getattr(b, name)
        if (x is None) != (y is None) or x is not None and not same(x, y):
            return False
    names = list(a.tensor_attribute_names) + list(getattr(a, "optional_tensor_attribute_names", []))
    return all(plain(getattr(a, n)) == plain(getattr(b, n)) for n in names)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tool", required=True)
    tool = os.path.abspath(parser.parse_args().tool)
    count = parts = 0
    with tempfile.TemporaryDirectory() as name:
        source, out = pathlib.Path(name) / "m.pt", pathlib.Path(name) / "m.safetensors"
        for label, state in models():
            for zipped in (True, False):
                torch.save(state, source, _use_new_zipfile_serialization=zipped)
                r = subprocess.run(
                    [tool, "convert", source, "-o", out, "-f", "-q", "--verify"],
                    capture_output=True,
                    text=True,
                )
                if r.returncode != 0:
                    FAULTS.append("%s: %s" % (label, r.stderr.strip()))
                    continue
                have = load_file(out)
                with safe_open(out, "pt") as f:
                    metadata = dict(f.metadata())
                flat, told = flatten_tensor_state_dict(state)
                if set(flat) != set(have) or not all(same(flat[k].contiguous(), have[k]) for k in flat):
                    FAULTS.append("%s: parts %s, torchao has %s" % (label, sorted(have), sorted(flat)))
                    continue
                parts += len(flat)
                made, left = unflatten_tensor_state_dict(have, metadata)
                if left or set(made) != set(state) or not all(same(state[k], made[k]) for k in state):
                    FAULTS.append("%s: other objects, left %s: %s" % (label, list(left), metadata))
                if sorted(json.loads(metadata["tensor_names"])) != sorted(json.loads(told["tensor_names"])):
                    FAULTS.append("%s: tensor_names %s" % (label, metadata["tensor_names"]))
                count += 1
    for f in FAULTS:
        print("FAULT", f)
    print("torchao %s: %d files, %d parts, %d faults" % (torchao.__version__, count, parts, len(FAULTS)))
    return 1 if FAULTS else 0


if __name__ == "__main__":
    sys.exit(main())
