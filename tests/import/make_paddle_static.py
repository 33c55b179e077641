#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""make_paddle_static.py FOLDER - models of static graphs by the installed paddle, with its program as protobuf (.pdmodel) and
as JSON (PIR), files of one tensor, and paddle-static.json: the parameters that the layers have. Run by hand for fixtures/
(paddlepaddle 3.3.1, numpy 2.4.6), and by scripts/import_peers.sh."""

import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import sys

NAMES = {
    "float32": "F32",
    "float16": "F16",
    "float64": "F64",
    "bfloat16": "BF16",
    "int8": "I8",
    "uint8": "U8",
    "int16": "I16",
    "int32": "I32",
    "int64": "I64",
    "bool": "BOOL",
    "complex64": "C64",
    "float8_e4m3fn": "F8_E4M3",
    "float8_e5m2": "F8_E5M2",
}


def without_places(path: pathlib.Path) -> None:
    """The program without the stack of calls that made each operator: it holds paths of this machine."""
    from paddle.base.framework import Program

    program = Program.parse_from_string(path.read_bytes())
    for block in program.blocks:
        for op in block.ops:
            op._remove_attr("op_callstack")
    path.write_bytes(program.desc.serialize_to_string())


def graph(folder: pathlib.Path, name: str) -> dict[str, list]:
    """In a process of its own: the form of the program is chosen when paddle is imported."""
    import numpy as np
    import paddle

    class Net(paddle.nn.Layer):
        def __init__(self) -> None:
            super().__init__()
            self.embed = paddle.nn.Embedding(5, 4)
            self.dense = paddle.nn.Linear(4, 3)
            self.norm = paddle.nn.BatchNorm1D(3)
            self.last = paddle.nn.Linear(3, 2, weight_attr=paddle.ParamAttr(name="z_weight \u540d"))

        def forward(self, x: paddle.Tensor) -> paddle.Tensor:
            return self.last(self.norm(self.dense(self.embed(x))))

    paddle.seed(11)
    net = Net()
    net.eval()
    paddle.jit.save(net, str(folder / name), input_spec=[paddle.static.InputSpec([7], "int64")])
    rows = {}
    for value in net.state_dict().values():
        a = np.ascontiguousarray(value.numpy())
        rows[value.name] = ["F32", list(a.shape), hashlib.sha256(a.tobytes()).hexdigest()]
    if (folder / (name + ".pdmodel")).exists():
        paddle.enable_static()
        without_places(folder / (name + ".pdmodel"))
    return rows


def main() -> int:
    folder = pathlib.Path(sys.argv[1]).resolve()
    if len(sys.argv) > 2:
        print(json.dumps(graph(folder, sys.argv[2])))
        return 0
    content = {}
    (folder / "paddle").mkdir(exist_ok=True)
    for name, flag in (("paddle/graph", "0"), ("paddle/pir", "1")):
        out = subprocess.run(
            [sys.executable, __file__, folder, name],
            env=os.environ | {"FLAGS_enable_pir_api": flag},
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        content[name + ".pdiparams"] = json.loads(out.strip().splitlines()[-1])
    (folder / "paddle" / "graph.pdiparams.info").unlink(missing_ok=True)
    shutil.copy(folder / "paddle/pir.pdiparams", folder / "paddle-numbers.pdiparams")  # no model beside it
    rows = content["paddle/pir.pdiparams"]
    content["paddle-numbers.pdiparams"] = {"tensor_%d" % i: rows[n] for i, n in enumerate(sorted(rows))}
    import paddle

    for name, dtype in NAMES.items():
        value = paddle.to_tensor([[1.0, 0.0, 2.0], [5.0, 3.0, 1.0]]).astype(name)
        path = folder / ("paddle-%s.pdtensor" % name)
        paddle.save(value, str(path), use_binary_format=True)
        raw = path.read_bytes()[-value.element_size() * 6 :]
        assert raw == value.numpy().tobytes() or name in ("bfloat16", "float8_e4m3fn", "float8_e5m2")
        content[path.name] = {path.stem: [dtype, [2, 3], hashlib.sha256(raw).hexdigest()]}
    (folder / "paddle-static.json").write_text(
        json.dumps(content, indent=1, sort_keys=True) + "\n", encoding="utf-8"
    )
    print("paddle", paddle.__version__, sum(len(v) for v in content.values()), "tensors")
    return 0


if __name__ == "__main__":
    sys.exit(main())
