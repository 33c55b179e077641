# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Another name of safetensors_c.torch."""

import sys

import safetensors_c.torch

sys.modules[__name__] = safetensors_c.torch
