# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Another name of safetensors_c.mlx."""

import sys

import safetensors_c.mlx

sys.modules[__name__] = safetensors_c.mlx
