# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Another name of safetensors_c.flax."""

import sys

import safetensors_c.flax

sys.modules[__name__] = safetensors_c.flax
