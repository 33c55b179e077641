#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""make_h5py.py FOLDER - what HDF5 2.0 writes and older ones do not: layouts of version 5, native complex numbers, by the
installed h5py with libver="latest"; and h5py.json: what h5py reads. Run by hand for fixtures/ (h5py 3.16.0 with HDF5 2.0.0,
numpy 2.4.6), and by scripts/import_peers.sh."""

import hashlib
import json
import pathlib
import sys

import h5py
import numpy as np

NAMES = {"float32": "F32", "float64": "F64", "complex64": "C64", "int16": "I16"}


def main() -> int:
    folder = pathlib.Path(sys.argv[1])
    rng = np.random.default_rng(2)
    a = rng.standard_normal((12, 9)).astype(np.float32)
    with h5py.File(folder / "h5py-latest.h5", "w", libver="latest") as f:
        f.create_dataset("all", data=a, chunks=(5, 4), compression="gzip", shuffle=True, fletcher32=True)
        f.create_dataset("one", data=a, chunks=a.shape, compression="gzip")
        f.create_dataset("grows", data=a, chunks=(5, 4), maxshape=(None, 9), compression="gzip")
        f.create_dataset("grows both", data=a, chunks=(5, 4), maxshape=(None, None), compression="gzip")
        f.create_dataset("plain", data=a.astype(np.int16), chunks=(5, 4))
        f.create_dataset("big", data=a.astype(">f8"), chunks=(12, 9), compression="gzip")
        f.create_dataset("pair", data=a[:3] + np.complex64(1j))
        f.create_dataset("null", data=h5py.Empty("f4"))
        for name, kind in (
            ("complex", h5py.h5t.COMPLEX_IEEE_F32LE),
            ("complex big", h5py.h5t.COMPLEX_IEEE_F32BE),
        ):
            space = h5py.h5s.create_simple((3, 9))
            d = h5py.h5d.create(f.id, name.encode(), kind, space)
            d.write(
                space,
                space,
                np.ascontiguousarray(a[:3] + np.complex64(2j)),
                mtype=h5py.h5t.NATIVE_FLOAT_COMPLEX,
            )
    rows = {}
    with h5py.File(folder / "h5py-latest.h5") as f:
        for name, d in f.items():
            if d.shape is not None:
                value = np.ascontiguousarray(d[()])
                value = value.astype(value.dtype.newbyteorder("<"))
                rows[name] = [
                    NAMES[value.dtype.name],
                    list(value.shape),
                    hashlib.sha256(value.tobytes()).hexdigest(),
                ]
    (folder / "h5py.json").write_text(
        json.dumps({"h5py-latest.h5": rows}, indent=1, sort_keys=True) + "\n", encoding="utf-8"
    )
    print("h5py", h5py.__version__, len(rows), "tensors")
    return 0


if __name__ == "__main__":
    sys.exit(main())
