#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""make_keras_shards.py FOLDER - weights in shards by the installed keras, and keras-shards.json: the variables that it has. Run by
hand for fixtures/keras/ (keras 3.15.1 with jax, h5py 3.14.0), and by scripts/import_peers.sh."""

import hashlib
import json
import os
import pathlib
import sys

os.environ["KERAS_BACKEND"] = "jax"
import keras
import numpy as np


def main() -> int:
    folder = pathlib.Path(sys.argv[1])
    (folder / "keras").mkdir(exist_ok=True)
    keras.utils.set_random_seed(4)
    layers = [
        keras.layers.Input((8,)),
        keras.layers.Dense(6),
        keras.layers.Dense(7),
        keras.layers.BatchNormalization(),
    ]
    model = keras.Sequential(layers)
    model.save_weights(folder / "keras" / "model.weights.json", max_shard_size=200 / 1024**3)
    rows = {}
    for group, layer in (
        ("dense", model.layers[0]),
        ("dense_1", model.layers[1]),
        ("batch_normalization", model.layers[2]),
    ):
        for i, value in enumerate(layer.get_weights()):
            digest = hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()
            rows["layers/%s/vars/%d" % (group, i)] = ["F32", list(value.shape), digest]
    content = {"keras/model.weights.json": rows}
    (folder / "keras-shards.json").write_text(
        json.dumps(content, indent=1, sort_keys=True) + "\n", encoding="utf-8"
    )
    print(
        "keras", keras.__version__, len(rows), "tensors", len(list((folder / "keras").glob("*.h5"))), "files"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
