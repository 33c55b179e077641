# SPDX-License-Identifier: Apache-2.0 OR MIT
"""safetensors on libsafetensors."""
from ._core import *  # noqa: F401,F403
from ._core import __version__  # noqa: F401
