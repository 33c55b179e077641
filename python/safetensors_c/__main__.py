# SPDX-License-Identifier: Apache-2.0 OR MIT
"""python -m safetensors_c SCRIPT | -m MODULE | -c CODE [ARGUMENT...]: run a program with this package.

The program, and the Python processes that it starts, get safetensors_c when they import safetensors.
"""

from __future__ import annotations

import os
import runpy
import sys

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
        sys.path[0] = os.getcwd()
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
    elif how == "-c":
        sys.argv[:] = ["-c", *arguments[2:]]
        sys.path[0] = ""
        main_module = sys.modules["__main__"]
        main_module.__dict__.pop("__file__", None)
        main_module.__spec__ = None
        exec(compile(arguments[1], "<string>", "exec"), main_module.__dict__)
    else:
        sys.argv[:] = arguments
        sys.path[0] = os.path.dirname(os.path.realpath(how))
        runpy.run_path(how, run_name="__main__")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
