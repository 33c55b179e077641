# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Behind python -m safetensors_c SCRIPT | -m MODULE | -c CODE [ARGUMENT...]: run a program with this package.

The program, and the Python processes that it starts, get safetensors_c when they import safetensors.
"""

from __future__ import annotations

import importlib.machinery
import os
import runpy
import sys
import zipfile
from collections.abc import Callable
from typing import Any

from . import __version__
from ._switch import install

USAGE = """usage: python -m safetensors_c SCRIPT [ARGUMENT...]
       python -m safetensors_c -m MODULE [ARGUMENT...]
       python -m safetensors_c -c CODE [ARGUMENT...]

Runs a Python program with safetensors_c in the place of safetensors, in it and in its child processes.
"""


def main(arguments: list[str]) -> int:
    if not arguments or arguments[0] in ("-h", "--help"):
        print(USAGE, end="", file=sys.stdout if arguments else sys.stderr)
        return 0 if arguments else 2
    if arguments[0] in ("-V", "--version"):
        print(f"safetensors_c {__version__}")
        return 0
    how = arguments[0]
    if how in ("-m", "-c") and len(arguments) < 2:
        print(USAGE, end="", file=sys.stderr)
        return 2
    if how.startswith("-") and how not in ("-m", "-c"):
        print(f"safetensors_c: unknown option {how}\n{USAGE}", end="", file=sys.stderr)
        return 2
    install(children=True)
    if how == "-m":
        sys.argv[:] = arguments[1:]
        _first_path(os.getcwd)
        _main_globals()
        runpy._run_module_as_main(arguments[1], alter_argv=True)  # type: ignore[attr-defined]
    elif how == "-c":
        sys.argv[:] = ["-c", *arguments[2:]]
        _first_path(str)
        exec(compile(arguments[1], "<string>", "exec"), _main_globals())
    else:
        sys.argv[:] = arguments
        return _script(how)
    return 0


def _first_path(folder: Callable[[], str]) -> None:
    """Where the program's own modules are: as Python does it, so not where it was asked for safe paths (-P, -I, and what has
    no such place), and not where there is no current directory any more."""
    if not getattr(sys.flags, "safe_path", False) and not sys.flags.isolated:
        try:
            sys.path[0] = folder()
        except OSError:
            sys.path[0] = ""


def _main_globals(**named: Any) -> dict[str, Any]:
    """The names of the module __main__ as a program finds them. It is that module, and stays it: threads and functions of
    atexit outlive a program's last line, and pickle looks for its classes there."""
    names = sys.modules["__main__"].__dict__
    for name in [n for n in names if n != "__builtins__"]:
        del names[name]
    names.update(
        __name__="__main__", __doc__=None, __package__=None, __spec__=None, __annotations__={}, **named
    )
    return names


def _script(path: str) -> int:
    if os.path.isdir(path) or zipfile.is_zipfile(path) or path.endswith(".pyc"):
        _first_path(lambda: os.path.dirname(os.path.realpath(path)))
        runpy.run_path(path, run_name="__main__")
        return 0
    try:
        with open(path, "rb") as f:
            text = f.read()
    except OSError as e:
        print(
            f"safetensors_c: can't open file {os.path.abspath(path)!r}: [Errno {e.errno}] {e.strerror}",
            file=sys.stderr,
        )
        return 2
    _first_path(lambda: os.path.dirname(os.path.realpath(path)))
    whole = os.path.abspath(path)
    loader = importlib.machinery.SourceFileLoader("__main__", whole)
    exec(compile(text, whole, "exec"), _main_globals(__file__=whole, __cached__=None, __loader__=loader))
    return 0
