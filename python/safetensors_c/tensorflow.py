# SPDX-License-Identifier: Apache-2.0 OR MIT
"""safetensors for TensorFlow: save, save_file, load, load_file, save_stream.

bfloat16 and float8 come and go as TensorFlow's own (ml_dtypes).
"""

from __future__ import annotations

import os  # noqa: F401
from typing import Any, Dict, Optional, Union  # noqa: F401  (importable from here)

import numpy as np
import tensorflow as tf

from . import numpy  # noqa: F401
from ._core import safe_open  # noqa: F401
from ._over_numpy import OverNumpy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping


def _np2tf(numpy_dict: dict[str, np.ndarray]) -> dict[str, tf.Tensor]:
    return {name: tf.convert_to_tensor(array) for name, array in numpy_dict.items()}


def _tf2np(tf_dict: Mapping[str, tf.Tensor]) -> dict[str, np.ndarray]:
    return {name: np.asarray(tensor.numpy()) for name, tensor in tf_dict.items()}


class _TensorFlow(OverNumpy["tf.Tensor"]):
    name = "tf"

    def plan_entry(self, like: Any) -> tuple[str, list[int]]:
        dtype, shape = like if isinstance(like, tuple) else (like.dtype, like.shape)
        return tf.as_dtype(dtype).name, [int(n) for n in shape]

    def cast(self, tensor: Any, dtype: Any, *, only_floating: bool) -> Any:
        if only_floating and not tensor.dtype.is_floating:
            return tensor
        return tf.cast(tensor, tf.as_dtype(self.dtype(dtype)))


_FRAME = _TensorFlow(globals(), "_tf2np", "_np2tf")
save = _FRAME.save
save_file = _FRAME.save_file
save_stream = _FRAME.save_stream
load = _FRAME.load
load_file = _FRAME.load_file
