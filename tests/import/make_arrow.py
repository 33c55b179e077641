#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""make_arrow.py FOLDER - tensors by the installed pyarrow, and arrow.json: what its read_tensor makes of them. Run by hand
for fixtures/ (pyarrow 26.0.1, numpy 2.4.6), and by scripts/import_peers.sh."""

import hashlib
import json
import pathlib
import sys

import numpy as np
import pyarrow as pa

NAMES = {
    "float32": "F32",
    "float16": "F16",
    "float64": "F64",
    "int8": "I8",
    "uint8": "U8",
    "int16": "I16",
    "uint16": "U16",
    "int32": "I32",
    "uint32": "U32",
    "int64": "I64",
    "uint64": "U64",
}


def main() -> int:
    folder = pathlib.Path(sys.argv[1])
    rng = np.random.default_rng(3)
    content = {}

    def put(name: str, arrays: list[np.ndarray], dims: list[str] | None = None) -> None:
        with pa.OSFile(str(folder / name), "wb") as out:
            for a in arrays:
                pa.ipc.write_tensor(pa.Tensor.from_numpy(a, dim_names=dims), out)
        rows = {}
        with pa.OSFile(str(folder / name), "rb") as file:
            for i in range(len(arrays)):
                a = pa.ipc.read_tensor(file).to_numpy()
                key = "tensor" if len(arrays) == 1 else "tensor_%d" % i
                rows[key] = [NAMES[a.dtype.name], list(a.shape), hashlib.sha256(a.tobytes("C")).hexdigest()]
        content[name] = rows

    put("arrow-types.arrow", [(rng.standard_normal((2, 5)) * 90).astype(n) for n in NAMES])
    put(
        "arrow-fortran.arrow",
        [np.asfortranarray(rng.standard_normal((4, 6)).astype(np.float32))],
        ["row", "col"],
    )
    put(
        "arrow-shapes.arrow",
        [
            np.array(7, dtype=np.int64),
            np.zeros((0, 3), np.float16),
            np.arange(5, dtype=np.uint8),
            np.transpose(np.arange(24, dtype=np.int16).reshape(2, 3, 4), (2, 0, 1)),
            np.arange(48, dtype=np.float64).reshape(6, 8)[::2, ::3],
        ],
    )
    with pa.OSFile(str(folder / "arrow-table.arrows"), "wb") as out:
        table = pa.table({"a": [1, 2, 3]})
        with pa.ipc.new_stream(out, table.schema) as writer:
            writer.write_table(table)
    content["arrow-table.arrows"] = {"refused": "an Apache Arrow stream"}
    (folder / "arrow.json").write_text(json.dumps(content, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    print("pyarrow", pa.__version__, sum(len(v) for v in content.values()), "tensors")
    return 0


if __name__ == "__main__":
    sys.exit(main())
