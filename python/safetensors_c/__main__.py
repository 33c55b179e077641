# SPDX-License-Identifier: Apache-2.0 OR MIT
"""python -m safetensors_c: see _program.py, whose names are not those of the program that runs here."""

import sys

from ._program import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
