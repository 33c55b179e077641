#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""make_fixtures.py - writes fixtures/*.pt with the installed torch, and fixtures/fixtures.json: what is in them. Run
by hand (torch 2.13.0); the files are checked in, so that the ordinary tests need no torch."""

import argparse
import hashlib
import json
import pathlib
import sys
import warnings

import torch

warnings.filterwarnings("ignore")
HERE = pathlib.Path(__file__).resolve().parent / "fixtures"
NAMES = {
    torch.float32: "F32",
    torch.float64: "F64",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.int64: "I64",
    torch.int32: "I32",
    torch.uint8: "U8",
    torch.int8: "I8",
    torch.bool: "BOOL",
    torch.uint16: "U16",
    torch.complex64: "C64",
    torch.float8_e4m3fn: "F8_E4M3",
}


def row(t):
    t = t.detach().resolve_conj().resolve_neg().contiguous()
    raw = t.reshape(-1).view(torch.uint8).numpy().tobytes() if t.numel() else b""
    return [NAMES[t.dtype], list(t.shape), hashlib.sha256(raw).hexdigest()]


def main():
    torch.manual_seed(3)
    x = torch.randn(4, 6)
    tensors = {
        "whole": x,
        "transposed": x.t(),
        "row": x[1],
        "column": x[:, 2],
        "expanded": x[:1].expand(3, 6),
        "empty": torch.zeros(0, 3),
        "scalar": torch.tensor(5),
        "bool": x > 0,
        "half": x.half(),
        "bf16": x.bfloat16(),
        "parameter": torch.nn.Parameter(x.clone()),
    }
    new = {
        "f8": x.to(torch.float8_e4m3fn),
        "u16": torch.tensor([1, 65535], dtype=torch.uint16),
        "complex": torch.view_as_complex(torch.randn(3, 2)).conj(),
    }
    model = torch.nn.Linear(3, 2)
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.ones(1, 3)).sum().backward()
    optimizer.step()
    nested = {
        "state_dict": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "epoch": 2,
        "args": argparse.Namespace(lr=0.1),
    }
    content = {}

    def put(name, value, want, **how):
        torch.save(value, HERE / name, **how)
        content[name] = {k: row(v) for k, v in want.items()}

    put("zip.pt", {**tensors, **new}, {**tensors, **new})
    put("zip-protocol4.pt", tensors, tensors, pickle_protocol=4)
    put("legacy.pt", tensors, tensors, _use_new_zipfile_serialization=False)
    put("checkpoint.pt", nested, dict(model.state_dict()))
    json.dump(content, open(HERE / "fixtures.json", "w"), indent=1, sort_keys=True)
    print("torch", torch.__version__, sorted(content))


if __name__ == "__main__":
    sys.exit(main())
