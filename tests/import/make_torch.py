#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""make_torch.py FOLDER - files by the installed torch, of any age, and torch.json: what its own torch.load makes of them.

torch_oracle.py does more with the torch of today; this one runs on old ones, too, by hand: 1.13.1 (Python 3.11,
requirements-torch-old.txt, 3 GB), 1.5.1 and 1.0.0 (Python 3.6). fixtures.py --tool TOOL FOLDER compares."""

import hashlib
import json
import pathlib
import sys
import warnings

import numpy
import torch

warnings.filterwarnings("ignore")
NAMES = {
    "bool": "BOOL",
    "uint8": "U8",
    "int8": "I8",
    "int16": "I16",
    "int32": "I32",
    "int64": "I64",
    "uint16": "U16",
    "uint32": "U32",
    "uint64": "U64",
    "float16": "F16",
    "bfloat16": "BF16",
    "float32": "F32",
    "float64": "F64",
    "complex64": "C64",
    "float8_e4m3fn": "F8_E4M3",
    "float8_e5m2": "F8_E5M2",
}


OLD = not hasattr(torch, "view_as_real")  # before 1.6: no view of other types


def raw(tensor):
    t = tensor.detach().contiguous()
    if OLD:
        kind = str(t.dtype).split(".")[-1]
        return (t.long().numpy().astype(kind) if kind in ("int8", "int16") else t.numpy()).tobytes()
    t = torch.view_as_real(t).contiguous() if t.is_complex() else t
    return t.reshape(-1).view(torch.uint8).numpy().tobytes() if t.numel() else b""


def rows(tree, prefix=""):
    found = {}
    for key, value in tree.items():
        if isinstance(value, dict):
            found.update(rows(value, "%s%s." % (prefix, key)))
        elif isinstance(value, torch.Tensor):
            kind = NAMES[str(value.dtype).split(".")[-1]]
            found[prefix + str(key)] = [kind, list(value.shape), hashlib.sha256(raw(value)).hexdigest()]
    return found


def every(kind):
    """Views of all forms, over all bit patterns."""
    dtype = getattr(torch, kind)
    if OLD:
        size = numpy.dtype(kind).itemsize
        bits = (
            numpy.random.RandomState(1)
            .randint(0, 2 if kind == "bool" else 256, 120 * size)
            .astype(numpy.uint8)
        )
        try:
            base = torch.from_numpy(bits.view(kind).reshape(4, 5, 6))
        except TypeError:  # of 1.0: int8, int16
            base = torch.from_numpy(bits.view(kind).reshape(4, 5, 6).astype("int64")).to(dtype)
    else:
        base = bits_of(kind, dtype)
    return {
        "whole": base,
        "scalar": base[1, 2, 3],
        "empty": base[:0],
        "row": base[2],
        "step": base[::2, :, ::3],
        "transposed": base.transpose(0, 2),
        "expanded": base[:1].expand(7, 5, 6),
        "diagonal": base[1].diagonal() if OLD else base.diagonal(dim1=1, dim2=2),
        "strided": base.as_strided((3, 3), (1, 2), 7),
        "parameter": torch.nn.Parameter(base.clone(), requires_grad=False),
    }


def bits_of(kind, dtype):
    size = torch.empty(0, dtype=dtype).element_size()
    data = torch.randint(0, 2 if kind == "bool" else 256, (120 * size,), dtype=torch.uint8)
    real = {8: torch.float32}.get(size) if kind == "complex64" else None
    return (
        torch.view_as_complex(data.view(real).reshape(4, 5, 6, 2))
        if real
        else data.view(dtype).reshape(4, 5, 6)
    )


def main():
    folder = pathlib.Path(sys.argv[1])
    torch.manual_seed(3)
    content = {}
    zips = "_use_new_zipfile_serialization" in torch.save.__code__.co_varnames

    def as_zip(zipped):
        return {"_use_new_zipfile_serialization": zipped} if zips else {}

    def put(name, value, part=lambda loaded: loaded, option="", **how):
        torch.save(value, str(folder / name), **how)
        # A file of its own.
        loaded = torch.load(str(folder / name), **({"weights_only": False} if zips and not OLD else {}))
        content[name + option] = rows(part(loaded))

    for kind in NAMES:
        if (
            not hasattr(torch, kind)
            or OLD
            and kind in ("bfloat16", "complex64")
            or kind == "bool"
            and OLD
            and not zips
        ):
            continue
        for protocol in (2, 3, 4):
            for zipped in (True, False)[0 if zips else 1 :]:
                if kind.startswith(("uint1", "uint3", "uint6", "float8")) and not (zipped and protocol == 2):
                    continue  # torch does not load these again
                put(
                    "%s-%d-%s.pt" % (kind, protocol, "zip" if zipped else "legacy"),
                    every(kind),
                    pickle_protocol=protocol,
                    **as_zip(zipped),
                )
    model = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 2))
    optimizer = getattr(torch.optim, "AdamW", torch.optim.Adam)(model.parameters(), amsgrad=True)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 3)
    model(torch.randn(5, 6)).sum().backward()
    optimizer.step()
    scheduler.step()
    kept = {
        "epoch": 3,
        "state_dict": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "lr": scheduler.state_dict(),
    }
    for zipped in (True, False)[0 if zips else 1 :]:
        end = "zip" if zipped else "legacy"
        put("checkpoint-%s.pt" % end, kept, lambda k: k["state_dict"], **as_zip(zipped))
        put("optimizer-%s.pt" % end, kept, lambda k: k["optimizer"], " --key optimizer", **as_zip(zipped))
    (folder / "torch.json").write_text(json.dumps(content, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    print(
        "torch", torch.__version__, len(content), "files,", sum(len(v) for v in content.values()), "tensors"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
