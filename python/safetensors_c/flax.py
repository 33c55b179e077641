# SPDX-License-Identifier: Apache-2.0 OR MIT
"""safetensors for JAX and Flax: save, save_file, load, load_file, save_stream.

bfloat16 and float8 come and go as JAX's own (ml_dtypes).
"""

from __future__ import annotations

import os  # noqa: F401
from typing import Any, Dict, Optional, Union  # noqa: F401  (importable from here)

import jax.numpy as jnp
import numpy as np
from jax import Array

from . import numpy
from ._core import safe_open  # noqa: F401
from ._over_numpy import OverNumpy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping


def _np2jnp(numpy_dict: dict[str, np.ndarray]) -> dict[str, Array]:
    return {name: jnp.array(array) for name, array in numpy_dict.items()}


def _jnp2np(jnp_dict: Mapping[str, Array]) -> dict[str, np.ndarray]:
    return {name: np.asarray(array) for name, array in jnp_dict.items()}


class _Flax(OverNumpy[Array]):
    name = "flax"

    def plan_entry(self, like: Any) -> tuple[str, list[int]]:
        return numpy._FRAME.plan_entry(like)

    def cast(self, tensor: Any, dtype: Any, *, only_floating: bool) -> Any:
        if only_floating and not jnp.issubdtype(tensor.dtype, jnp.floating):
            return tensor
        return tensor.astype(self.dtype(dtype))


_FRAME = _Flax(globals(), "_jnp2np", "_np2jnp")
save = _FRAME.save
save_file = _FRAME.save_file
save_stream = _FRAME.save_stream
load = _FRAME.load
load_file = _FRAME.load_file
