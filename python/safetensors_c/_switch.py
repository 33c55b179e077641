# SPDX-License-Identifier: Apache-2.0 OR MIT
"""install(): `import safetensors` gives this package, in this process and, on request, in its children.

If the reference is not imported yet, a finder at the head of sys.meta_path answers for `safetensors`, its submodules and
its distribution metadata: the reference is never loaded and need not be installed. If it is, its modules get our names
in place, and names that other modules imported from it (`from safetensors import safe_open`) are replaced there.
uninstall() undoes both.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

_OURS = __package__ or "safetensors_c"
_THEIRS = "safetensors"
_RUST = f"{_THEIRS}._safetensors_rust"
_FRAMEWORKS = ("torch", "numpy", "flax", "tensorflow", "paddle", "mlx")

# The release of the reference whose surface this is, as a version that satisfies `>=` and `==` alike.
SURFACE = "0.8.0"


def version() -> str:
    """What importlib.metadata.version("safetensors") says while installed."""
    return f"{SURFACE}+c{import_module(_OURS).__version__}"


def _target(fullname: str) -> str | None:
    """Our module behind a name of theirs."""
    if fullname == _RUST:
        return f"{_OURS}._core"
    head, _, tail = fullname.partition(".")
    if head == _THEIRS and tail in _FRAMEWORKS:
        return f"{_OURS}.{tail}"
    return None


# ---------------------------------------------------------------- before: a finder


def directory() -> str:
    """A directory that looks like the package `safetensors`, for importlib.resources, pkgutil and tools that collect
    modules. Nothing is imported from it."""
    import os

    ours = import_module(_OURS).__path__[0]
    built = os.path.join(ours, "_facade")
    return (
        built if os.path.isdir(built) else os.path.join(os.path.dirname(ours), "alias", _THEIRS)
    )  # a checkout


def facade() -> ModuleType:
    """A module `safetensors` over ours: all names, and the version of the surface."""
    ours = import_module(_OURS)
    module = ModuleType(_THEIRS, ours.__doc__)
    module.__dict__.update(_public(ours))
    module.__dict__["__version__"] = version()
    module.__dict__["__path__"] = [directory()]
    module.__dict__["__file__"] = f"{directory()}/__init__.py"
    module.__dict__["_safetensors_rust"] = ours._core
    module.__dict__["__getattr__"] = lambda name: _later(module, name)
    module.__dict__["__dir__"] = lambda: sorted(set(vars(module)) | set(ours._LATER))
    return module


def _public(ours: ModuleType) -> dict[str, Any]:
    names = {n: v for n, v in vars(ours).items() if not n.startswith("__")}
    for name in _FRAMEWORKS:
        names.pop(name, None)
    names["__all__"] = list(ours.__all__)
    return names


def _later(module: ModuleType, name: str) -> Any:
    if not name.startswith("__"):
        ours = import_module(_OURS)
        if name in ours._LATER:
            return getattr(ours, name)
    raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}")


class _Loader:
    """Gives the import system a module that is there already."""

    def __init__(self) -> None:
        self.kept: dict[str, Any] = {}

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        target = _target(spec.name)
        if target is None:
            return facade()
        module = import_module(target)
        self.kept[spec.name] = (module.__spec__, module.__loader__)
        return module

    def exec_module(self, module: ModuleType) -> None:
        # The import system has written its spec into a module that has one of its own.
        spec = module.__spec__
        if spec is not None and spec.name in self.kept:
            module.__spec__, module.__loader__ = self.kept.pop(spec.name)

    def get_resource_reader(self, name: str) -> Any:
        if name != _THEIRS:
            return None
        from importlib.readers import FileReader
        from types import SimpleNamespace

        return FileReader(SimpleNamespace(path=f"{directory()}/__init__.py"))  # type: ignore[arg-type]

    def get_data(self, path: str) -> bytes:
        with open(path, "rb") as f:
            return f.read()

    def get_source(self, name: str) -> str | None:
        """The text of the file that stands for it; inspect and linecache ask."""
        tail = name.partition(".")[2] or "__init__"
        try:
            return self.get_data(f"{directory()}/{tail}.py").decode()
        except OSError:
            return None

    def is_package(self, name: str) -> bool:
        return name == _THEIRS


class _Finder:
    """First in sys.meta_path: answers for `safetensors` only."""

    def __init__(self) -> None:
        self.loader = _Loader()

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: Any = None
    ) -> ModuleSpec | None:
        if fullname == _THEIRS:
            spec = ModuleSpec(fullname, self.loader, origin=_OURS, is_package=True)  # type: ignore[arg-type]
            spec.submodule_search_locations = [directory()]
            return spec
        if _target(fullname) is not None:
            return ModuleSpec(fullname, self.loader, origin=_target(fullname))  # type: ignore[arg-type]
        return None

    def invalidate_caches(self) -> None:
        """Nothing is cached; the import system calls this."""

    def find_distributions(self, context: Any = None) -> Iterator[Any]:
        name = getattr(context, "name", None)
        if name is None or name.lower().replace("_", "-") == _THEIRS:
            yield _distribution()


def _distribution() -> Any:
    from importlib.metadata import Distribution

    class Switched(Distribution):
        """The metadata of the distribution `safetensors` while installed."""

        def read_text(self, filename: str) -> str | None:
            if filename in ("METADATA", "PKG-INFO"):
                return (
                    f"Metadata-Version: 2.1\nName: {_THEIRS}\nVersion: {version()}\n"
                    f"Summary: {_OURS} in the place of {_THEIRS}\n"
                    f"Requires-Dist: {_OURS.replace('_', '-')}\n"
                )
            return f"{_THEIRS}\n" if filename == "top_level.txt" else None

        def locate_file(self, path: Any) -> Any:
            from pathlib import Path

            return Path(import_module(_OURS).__path__[0]).parent / path

    return Switched()


# ---------------------------------------------------------------- after: in place


class _Patch:
    """What was replaced, so that undo() can restore it."""

    def __init__(self) -> None:
        self.dicts: list[tuple[dict[str, Any], str, bool, Any]] = []
        self.modules: list[tuple[str, Any]] = []

    def set(self, table: dict[str, Any], name: str, value: Any) -> None:
        self.dicts.append((table, name, name in table, table.get(name)))
        table[name] = value

    def undo(self) -> None:
        for table, name, had, old in reversed(self.dicts):
            if had:
                table[name] = old
            else:
                table.pop(name, None)
        for name, module in self.modules:
            if module is None:
                sys.modules.pop(name, None)
            else:
                sys.modules[name] = module


def _replace_loaded(patch: _Patch) -> None:
    """Puts our names into the loaded modules of the reference, and wherever its names were imported."""
    swapped: dict[int, tuple[Any, Any]] = {}
    loaded = [n for n in list(sys.modules) if n == _THEIRS or _target(n) is not None]
    for name in loaded:
        theirs = sys.modules[name]
        target = _target(name)
        ours = import_module(target or _OURS)
        names = dict(vars(ours)) if target else _public(ours)
        table = vars(theirs)
        for key, value in names.items():
            if key.startswith("__") and key != "__all__":
                continue
            old = table.get(key)
            if old is not None and old is not value and _is_theirs(old):
                swapped[id(old)] = (old, value)
        if name == _RUST:
            patch.modules.append((name, theirs))
            sys.modules[name] = ours
            continue
        for key, value in names.items():
            if not key.startswith("__") or key == "__all__":
                patch.set(table, key, value)
        if name == _THEIRS:
            patch.set(table, "__version__", version())
            patch.set(table, "_safetensors_rust", import_module(f"{_OURS}._core"))
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] in (_THEIRS, _OURS) or not isinstance(module, ModuleType):
            continue
        table = vars(module)
        for key, value in list(table.items()):
            pair = swapped.get(id(value))
            if pair is not None and pair[0] is value:
                patch.set(table, key, pair[1])


def _is_theirs(value: Any) -> bool:
    """A class or function that the reference defines (not a module, a dtype or a number)."""
    return callable(value) and str(getattr(value, "__module__", "")).partition(".")[0] in (
        _THEIRS,
        "builtins",
    )


# ---------------------------------------------------------------- the switch

_finder: _Finder | None = None
_patch: _Patch | None = None


def install(*, children: bool = False) -> None:
    """From now on `import safetensors` and its submodules give this package.

    Works before and after the reference was imported; calling it again does nothing. children: also set
    SAFETENSORS_C=1 in the environment, so that Python processes started from here do the same (they need
    safetensors-c in their environment). Not undone for a child that runs already.
    """
    global _finder, _patch
    if children:
        import os

        os.environ["SAFETENSORS_C"] = "1"
    if _finder is not None:
        return
    is_alias = getattr(sys.modules.get(_THEIRS), "_alias_of_safetensors_c", False)
    patch = _Patch()
    if _THEIRS in sys.modules and not is_alias:
        _replace_loaded(patch)
    _patch = patch
    _finder = _Finder()
    sys.meta_path.insert(0, _finder)  # type: ignore[arg-type]


def uninstall() -> None:
    """Undoes install(): the next `import safetensors` finds what is installed under that name."""
    global _finder, _patch
    if _finder is None:
        return
    sys.meta_path.remove(_finder)  # type: ignore[arg-type]
    patched = bool(_patch and (_patch.dicts or _patch.modules))
    if not patched:
        for name in list(sys.modules):
            if name == _THEIRS or _target(name) is not None:
                del sys.modules[name]
    elif _patch is not None:
        ours = {id(m) for n, m in sys.modules.items() if n.startswith(_OURS + ".")}
        _patch.undo()
        for name in list(sys.modules):
            if _target(name) is not None and id(sys.modules[name]) in ours:
                del sys.modules[name]
    _finder = None
    _patch = None


def installed() -> bool:
    """Whether install() is in force."""
    return _finder is not None
