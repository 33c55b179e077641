# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The name `safetensors` for the package safetensors_c."""

import safetensors_c as _c
from safetensors_c import *  # noqa: F401,F403
from safetensors_c import _core as _safetensors_rust  # noqa: F401
from safetensors_c._core import _safe_open_handle  # noqa: F401
from safetensors_c._switch import SURFACE as _surface

_alias_of_safetensors_c = True
__version__ = f"{_surface}+c{_c.__version__}"


def __getattr__(name: str):  # type: ignore[no-untyped-def]
    if name in _c._LATER:
        return getattr(_c, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list:
    return sorted(set(globals()) | set(_c._LATER))
