#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""generate_keras_names.py [--check] - writes src/import/graph/keras_names.c: the classes, losses, metrics and activations
that Keras itself has, by the packages that are installed where this runs: keras (3) and, where it is there, tf_keras (2).
Names that are already in the file stay there: the union only grows. Run it once with each package's own interpreter."""

import argparse
import importlib
import inspect
import os
import pathlib
import re
import sys

os.environ.setdefault("KERAS_BACKEND", "numpy")
OUT = pathlib.Path(__file__).resolve().parents[1] / "src/import/graph/keras_names.c"
PARTS = (
    "layers",
    "models",
    "initializers",
    "regularizers",
    "constraints",
    "optimizers",
    "losses",
    "metrics",
    "dtype_policies",
    "quantizers",
    "optimizers.schedules",
    "optimizers.legacy",
    "mixed_precision",
    "layers.experimental",
    "layers.experimental.preprocessing",
    "random",
    "applications",
    "callbacks",
)
# What configurations hold beside classes of the public interface.
MORE_CLASSES = """Functional Model Sequential InputLayer Lambda __lambda__ __tensor__ __keras_tensor__ __numpy__ __ellipsis__ __slice__ __typespec__
__bytes__ __timestamp__ function TFOpLambda SlicingOpLambda TensorFlowOpLayer ClassMethod InstanceMethod InstanceProperty Policy PolicyV1 TypeSpec
TensorShape CompositeTensor CuDNNLSTM CuDNNGRU BatchNormalizationV1 BatchNormalizationV2 LSTMV1 GRUV1 Merge Highway MaxoutDense AtrousConvolution1D
AtrousConvolution2D TimeDistributedDense ListWrapper _DictWrapper TrackableDataStructure HashTable StaticHashTable SharedDTypePolicy Operation
Identity Distribute Add Multiply Subtract Divide""".split()
MORE_WORDS = "mse mae mape msle kld kl_divergence cosine cosine_similarity accuracy acc crossentropy ce bce MSE MAE MAPE MSLE KLD logcosh linear".split()


def texts(text, name):
    found = re.search(r"%s\[\] = \{(.*?)\};" % name, text, re.S)
    return set(re.findall(r'"([^"]*)"', found.group(1))) if found else set()


def of_package(package):
    classes, words = set(), set()
    for part in PARTS + ("activations", "losses", "metrics"):
        try:
            module = importlib.import_module("%s.%s" % (package, part))
        except Exception:
            continue
        for name, value in vars(module).items():
            if inspect.isclass(value) and not name.startswith("_"):
                classes.add(value.__name__)
                classes.add(name)
            elif (
                inspect.isfunction(value)
                and part in ("activations", "losses", "metrics")
                and not name.startswith("_")
            ):
                words.add(name)
                words.add(value.__name__)
    return classes, words - {"get", "deserialize", "serialize"}


def array(comment, name, values):
    rows, line = [], "   "
    for value in sorted(values, key=lambda v: v.encode()):
        word = ' "%s",' % value
        if len(line) + len(word) > 99:
            rows.append(line)
            line = "   "
        line += word
    rows.append(line)
    return (
        "\n/* %s */\nconst char *const sft__keras_%s[] = {\n%s\n};\nconst size_t sft__keras_%s_count =\n    sizeof sft__keras_%s / sizeof sft__keras_%s[0];\n"
        % (comment, name, "\n".join(rows), name, name, name)
    )


HEAD = """/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/graph/keras_names.c - made by scripts/generate_keras_names.py: the names that Keras 2 and 3 have
 * themselves. What a configuration names beside them is code that is not in the file. Read first:
 * content.h.
 */
#include "import/content/content.h"

/* clang-format off */
"""


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--check", action="store_true")
    given = parser.parse_args()
    before = OUT.read_text(encoding="utf-8") if OUT.exists() else ""
    classes, words = (
        texts(before, "sft__import_keras_classes") | set(MORE_CLASSES),
        texts(before, "sft__import_keras_words") | set(MORE_WORDS),
    )
    for package in ("keras", "tf_keras", "tf_keras.api._v1.keras"):
        more = of_package(package)
        print("%s: %d classes, %d functions" % (package, len(more[0]), len(more[1])))
        classes |= more[0]
        words |= more[1]
    after = HEAD + array("Classes. In byte order: searched by halves.", "classes", classes)
    after += (
        array("Losses, metrics and activations. In byte order.", "words", words) + "/* clang-format on */\n"
    )
    if given.check:
        return int(after != before)
    OUT.write_text(after, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
