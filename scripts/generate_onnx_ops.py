#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""generate_onnx_ops.py > src/import/graph/onnx_ops.c - the operators of ONNX and of ONNX Runtime that compute and nothing else.

Run by a Python that has onnx and onnxruntime (pip install onnx onnxruntime): all operators of all versions of onnx's own domains,
and those that the runtime registers (com.microsoft, its layouts, what it kept of ONNX's experimental ones). Taken out are those
that run a library, a file or a program of somebody else's, or talk to other processes. What later versions add is unknown to scan
until this is run again.
"""

import re

import onnx
import onnxruntime
from generated_names import print_names
from onnxruntime.capi.onnxruntime_pybind11_state import get_all_operator_schema

ACTS = re.compile(
    r"^(Py|Python|ATen|Triton|External|EPContext|Snpe|OpenVINO|Vitis|Send|Recv|Nccl|Wait|Record|Yield|\w+_TRT$)"
)


def main():
    pairs = {(s.domain, s.name) for s in onnx.defs.get_all_schemas_with_history()}
    pairs |= {(s.domain, s.name) for s in get_all_operator_schema()}
    names = {f"{domain or 'ai.onnx'}/{name}" for domain, name in pairs if not ACTS.search(name)}
    print_names(
        f"""/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/graph/onnx_ops.c - made by scripts/generate_onnx_ops.py of onnx {onnx.__version__} and onnxruntime {onnxruntime.__version__}:
 * DOMAIN/OPERATOR of those that compute and nothing else, sorted by bytes. Not to be changed by hand.
 */""",
        "sft__import_onnx_ops",
        "sft__import_onnx_op_count",
        names,
    )


if __name__ == "__main__":
    main()
