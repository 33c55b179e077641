#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""make_content.py DIRECTORY - small files by the installed tensorflow and keras, for hostile_content.py: models with a
layer that is Python code, a graph that writes a file, and models without such things. Run by hand for fixtures/content
(tensorflow-cpu 2.21.0, keras 3.15.1, tf_keras 2.21.0). With --torch, by a Python that has torch: TorchScript (torch
2.13.0). Nothing of what acts is ever run: the files are only written."""

import os
import pathlib
import shutil
import sys

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"


def placeless(function):
    """The function as if its file had no directory: what is saved of it holds no path of this machine."""
    function.__code__ = function.__code__.replace(co_filename=os.path.basename(__file__))
    return function


def tensorflow(out):
    import keras
    import tensorflow as tf
    import tf_keras

    acting = keras.Sequential([keras.Input((2,)), keras.layers.Lambda(placeless(lambda t: t * 2))])
    plain = keras.Sequential(
        [keras.Input((2,)), keras.layers.Dense(2, activation="relu"), keras.layers.Dropout(0.5)]
    )
    for name, model in (("lambda", acting), ("plain", plain)):
        model.save(out / f"{name}.keras")
        model.save(out / f"{name}.h5")
    old = tf_keras.Sequential([tf_keras.layers.Lambda(placeless(lambda t: t), input_shape=(2,))])
    old.save(out / "lambda-old.h5")

    class Writes(tf.Module):
        @tf.function(input_signature=[tf.TensorSpec([], tf.string)])
        def f(self, text):
            tf.io.write_file("/nowhere/at/all", text)
            return text

    class Computes(tf.Module):
        @tf.function(input_signature=[tf.TensorSpec([2], tf.float32)])
        def f(self, x):
            return tf.while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, a + x), [0, x])[1]

    for name, module in (("writes", Writes()), ("computes", Computes())):
        tf.saved_model.save(module, str(out / "saved"))
        shutil.move(out / "saved" / "saved_model.pb", out / f"{name}.pb")
        if name == "computes":
            shutil.move(out / "saved" / "fingerprint.pb", out / "fingerprint.pb")
        shutil.rmtree(out / "saved")


def torchscript(out):
    import torch

    @torch.jit.script
    @placeless
    def writes(x: torch.Tensor):
        torch.save(x, "/nowhere/at/all")
        return x

    @torch.jit.script
    @placeless
    def computes(x: torch.Tensor):
        parts = [x]
        for i in range(3):
            parts.append(torch.relu(x) * float(i))
        return torch.stack(parts)

    torch.jit.save(writes, str(out / "writes.ptl"))
    torch.jit.save(computes, str(out / "computes.ptl"))


if __name__ == "__main__":
    where = pathlib.Path([a for a in sys.argv[1:] if not a.startswith("--")][0]).resolve()
    where.mkdir(parents=True, exist_ok=True)
    os.chdir(pathlib.Path(__file__).resolve().parent)  # torch reads the source of what it compiles
    (torchscript if "--torch" in sys.argv else tensorflow)(where)
