#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""one.py SCRIPT PROGRAM WORK RESULT: one program of one script of this directory, in this process.

Random numbers start from the same seed each time; nothing may come from the network."""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import json
import os
import random
import sys
import traceback
import warnings
from pathlib import Path

for name, value in {
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "TF_CPP_MIN_LOG_LEVEL": "3",
    "JAX_PLATFORMS": "cpu",
    "CUDA_VISIBLE_DEVICES": "",
}.items():
    os.environ.setdefault(name, value)


def operators_of_torchvision() -> None:
    """PyPI's torchvision is built for CUDA: beside a torch for the CPU its operators are absent, and with the first its import."""
    if importlib.util.find_spec("torchvision") is None:
        return
    import torch

    try:
        library = torch.library.Library("torchvision", "DEF")
        for name in ("nms", "qnms"):
            library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        import torchvision  # noqa: F401
    except (RuntimeError, OSError):
        pass
    finally:
        globals()["_operators"] = library


def main() -> int:
    script, name, work, result = sys.argv[1:]
    here = Path(__file__).resolve().parent
    sys.path[0] = str(here)
    import record

    operators_of_torchvision()
    importlib.import_module(script)
    entry = record.PROGRAMS[name]
    os.chdir(work)
    warnings.simplefilter("ignore")
    random.seed(1)
    import numpy

    numpy.random.seed(1)
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(1)
    log = record.Record(Path(work))
    out = {"distribution": entry["distribution"]}
    try:
        out["package"] = importlib.metadata.version(entry["distribution"])
        entry["function"](log)
        out["state"] = "ran"
    except BaseException as error:  # noqa: BLE001
        traceback.print_exc()
        out["state"] = f"stopped: {type(error).__name__}: {str(error)[:300]}"
    lacking = [module for module in entry["modules"] if module not in sys.modules]
    out.update(rows=log.rows, errors=log.errors, library=record.loaded_library(), lacking=lacking)
    Path(result).write_text(json.dumps(out))
    sys.stdout.flush()
    os._exit(0)  # some frameworks do not end in peace


if __name__ == "__main__":
    sys.exit(main())
