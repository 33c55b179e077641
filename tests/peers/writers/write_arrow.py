#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""write_arrow.py FOLDER - tensors of Apache Arrow (IPC messages), and Arrow's files of columns."""

import sys

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
from expect import Files, rows

files = Files("pyarrow " + pa.__version__)
rng = np.random.default_rng(40)


def put(name, tensor, named=()):
    with pa.OSFile(str(files.path(name)), "wb") as f:
        pa.ipc.write_tensor(tensor, f)
    found = {}
    if not named:
        with pa.OSFile(str(files.path(name))) as f:
            found = {"*": pa.ipc.read_tensor(f).to_numpy()}
    files.add(name, found, named)


for kind in "u1 i1 u2 i2 u4 i4 u8 i8 f2 f4 f8".split():
    value = (np.abs(rng.standard_normal((4, 6))) * 20).astype(kind)
    put("type-%s.arrow" % kind, pa.Tensor.from_numpy(value))
    put("fortran-%s.arrow" % kind, pa.Tensor.from_numpy(np.asfortranarray(value)))
x = rng.standard_normal((4, 6)).astype("f4")
for shape in ((1,), (3,), (2, 3, 4, 5), (100, 100)):
    put("shape-%s.arrow" % "x".join(map(str, shape)), pa.Tensor.from_numpy(rng.standard_normal(shape)))
put("names.arrow", pa.Tensor.from_numpy(x, dim_names=["rows", "columns"]))
put("strided.arrow", pa.Tensor.from_numpy(x[::2, ::3]))
for name, kind in (
    ("coo", pa.SparseCOOTensor),
    ("csr", pa.SparseCSRMatrix),
    ("csc", pa.SparseCSCMatrix),
    ("csf", pa.SparseCSFTensor),
):
    try:
        made = kind.from_dense_numpy(np.where(x > 0, x, 0))
        with pa.OSFile(str(files.path("sparse-%s.arrow" % name)), "wb") as f:
            pa.ipc.write_tensor(made, f)
        files.add("sparse-%s.arrow" % name, {}, ["sparse"])
    except Exception as e:
        files.skip("sparse-" + name, e)
with pa.OSFile(str(files.path("two.arrow")), "wb") as f:
    pa.ipc.write_tensor(pa.Tensor.from_numpy(x), f)
    pa.ipc.write_tensor(pa.Tensor.from_numpy(x + 1), f)
files.add("two.arrow", {}, more=True, values=sorted(rows(v)[0][2] for v in (x, x + 1)))
table = pa.table({"a": [1.0, 2.0]})
with pa.OSFile(str(files.path("table.arrow")), "wb") as f, pa.ipc.new_file(f, table.schema) as w:
    w.write_table(table)
with pa.OSFile(str(files.path("stream.arrows")), "wb") as f, pa.ipc.new_stream(f, table.schema) as w:
    w.write_table(table)
pa.feather.write_feather(table, str(files.path("table.feather")))
pa.feather.write_feather(table, str(files.path("version1.feather")), version=1)
pa.parquet.write_table(table, str(files.path("table.parquet")))
for name in ("table.arrow", "stream.arrows", "table.feather", "version1.feather", "table.parquet"):
    files.add(name, {}, not_converted="columns, no tensors")
sys.exit(files.close())
