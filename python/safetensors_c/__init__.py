# SPDX-License-Identifier: Apache-2.0 OR MIT
"""safetensors on libsafetensors: the names of the package `safetensors`, and more.

Imports nothing but the extension module; the frameworks live in safetensors_c.torch, .numpy, .flax, .tensorflow,
.paddle, .mlx and .mindspore, each imported on first use. docs/python.md is the guide.
"""

try:
    from . import _core
except ImportError:
    if type(globals().get("__loader__")).__name__ == "zipimporter":
        raise ImportError(
            "safetensors_c has an extension module, which no Python loads from a zip archive: unpack it"
        ) from None
    raise
from ._core import *  # noqa: F401,F403
from ._core import (  # noqa: F401
    SafetensorError,
    TensorSpec,
    __version__,
    _safe_open_handle,
    deserialize,
    open_any,
    safe_open,
    serialize,
    serialize_file,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ._convert import convert as convert
    from ._prefetch import PrefetchLoader as PrefetchLoader
    from ._report import report as report
    from ._stream import stream as stream
    from ._switch import install as install
    from ._switch import installed as installed
    from ._switch import uninstall as uninstall
    from .run import Run as Run
    from .tree import load_tree as load_tree
    from .tree import save_tree as save_tree

# Imported on first use, and from where.
_LATER = {
    "install": "_switch",
    "uninstall": "_switch",
    "installed": "_switch",
    "convert": "_convert",
    "save_tree": "tree",
    "load_tree": "tree",
    "PrefetchLoader": "_prefetch",
    "stream": "_stream",
    "report": "_report",
    "Run": "run",
}
_MODULES = (
    "torch",
    "numpy",
    "flax",
    "tensorflow",
    "paddle",
    "mlx",
    "mindspore",
    "tree",
    "distributed",
    "run",
)

__all__ = sorted({name for name in vars(_core) if not name.startswith("_")} | set(_LATER) | {"__version__"})


def __getattr__(name: str):  # type: ignore[no-untyped-def]
    if name in _LATER or name in _MODULES:
        from importlib import import_module

        module = import_module("." + _LATER.get(name, name), __name__)
        value = getattr(module, name) if name in _LATER else module
        globals()[name] = value
        return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list:
    return sorted(set(globals()) | set(_LATER) | set(_MODULES))
