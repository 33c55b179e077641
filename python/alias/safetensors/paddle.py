# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Another name of safetensors_c.paddle."""

import sys

import safetensors_c.paddle

sys.modules[__name__] = safetensors_c.paddle
