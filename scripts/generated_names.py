#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""generated_names.py - what the generators of lists of names (generate_tf_ops.py, generate_onnx_ops.py) print: an array of C, sorted."""


def print_names(head, array, count, names):
    """head: the comment; array, count: names of the array and of the number of its entries, both declared in content/graph.h."""
    print(f"""{head}
#include "import/graph/graph.h"

/* clang-format off */
const char *const {array}[] = {{""")
    line = "   "
    for name in sorted(names):
        word = f' "{name}",'
        if len(line) + len(word) > 100:
            print(line)
            line = "   "
        line += word
    print(line)
    print(f"""}};
/* clang-format on */
const size_t {count} = sizeof {array} / sizeof {array}[0];""")
