# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Another name of safetensors_c.numpy."""

import sys

import safetensors_c.numpy

sys.modules[__name__] = safetensors_c.numpy
