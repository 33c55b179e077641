# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Another name of safetensors_c.tensorflow."""

import sys

import safetensors_c.tensorflow

sys.modules[__name__] = safetensors_c.tensorflow
