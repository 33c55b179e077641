# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Another name of safetensors_c._core."""

import sys

import safetensors_c._core

sys.modules[__name__] = safetensors_c._core
