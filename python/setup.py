# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Builds safetensors_c._core from src/*.c and the amalgamation of the library (sft.h, sft.c; sft_remote.h,
sft_cuda.h and sft_checkpoint.h are the headers of libraries that are opened when they are needed).

In a checkout the amalgamation is made by ../scripts/amalgamate.py; an sdist carries it. One extension for
every CPython from 3.11 on (limited API), one of its own for 3.10 and for free-threaded builds.
"""

from __future__ import annotations

import glob
import os
import re
import subprocess
import sys
import sysconfig

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist

try:
    from setuptools.command.bdist_wheel import bdist_wheel
except ImportError:  # setuptools before 70.1
    from wheel.bdist_wheel import bdist_wheel

HERE = os.path.dirname(os.path.abspath(__file__))
SCRIPT = os.path.join(HERE, "..", "scripts", "amalgamate.py")
# Headers of libraries that are opened when they are needed: each with all that it includes of such libraries.
WINGS = {"sft_cuda.h": "cuda", "sft_import.h": "import", "sft_checkpoint.h": "checkpoint_api"}
FREE_THREADED = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))
LIMITED = sys.version_info >= (3, 11) and not FREE_THREADED and not os.environ.get("SFT_FULL_API")


def header(name: str, core: str, seen: set[str]) -> str:
    """A public header behind those that it includes; without what sft.h has."""
    seen.add(name)
    with open(os.path.join(HERE, "..", "include", "sft", name + ".h"), encoding="utf-8") as f:
        text = f.read()
    before = ""
    for other in re.findall(r"^#include <sft/(\w+)\.h>\n", text, re.M):
        if other not in seen and f"#define SFT_{other.upper()}_H\n" not in core:
            before += header(other, core, seen)
    return before + re.sub(r"^#include <sft/\w+\.h>\n", "", text, flags=re.M)


def amalgamate() -> None:
    """Makes amalgamation/ anew where its sources are."""
    if os.path.exists(SCRIPT):
        out = os.path.join(HERE, "amalgamation")
        subprocess.run([sys.executable, SCRIPT, "--out", out], check=True, stdout=subprocess.DEVNULL)
        with open(os.path.join(HERE, "..", "include", "sft", "remote.h"), encoding="utf-8") as f:
            text = f.read()
        with open(os.path.join(out, "sft_remote.h"), "w", encoding="utf-8") as f:
            f.write(text.replace("#include <sft/catalog.h>", '#include "sft.h"'))
        with open(os.path.join(out, "sft.h"), encoding="utf-8") as f:
            core = f.read()
        for out_name, first in WINGS.items():
            with open(os.path.join(out, out_name), "w", encoding="utf-8") as f:
                f.write('#include "sft.h"\n' + header(first, core, set()))
    elif not os.path.exists(os.path.join(HERE, "amalgamation", "sft.c")):
        raise SystemExit("amalgamation/sft.c is missing: build from a checkout or from an sdist")


class BuildExt(build_ext):
    def run(self) -> None:
        amalgamate()
        super().run()


class BuildPy(build_py):
    """Adds safetensors_c.pth beside the package: it makes SAFETENSORS_C=1 in the environment work; and in
    safetensors_c/_facade what `safetensors.__path__` then shows: the files of the alias distribution."""

    def pth(self) -> str:
        return os.path.join(self.build_lib, "safetensors_c.pth")

    def facade(self) -> dict[str, str]:
        into = os.path.join(self.build_lib, "safetensors_c", "_facade")
        return {
            path: os.path.join(into, os.path.basename(path))
            for path in sorted(glob.glob("alias/safetensors/*.*"))
        }

    def run(self) -> None:
        super().run()
        if not self.editable_mode:
            self.copy_file("safetensors_c.pth", self.pth())
            self.mkpath(os.path.join(self.build_lib, "safetensors_c", "_facade"))
            for path, out in self.facade().items():
                self.copy_file(path, out)

    def get_outputs(self, include_bytecode: bool = True) -> list[str]:
        extra = [] if self.editable_mode else [self.pth(), *self.facade().values()]
        return list(super().get_outputs(include_bytecode)) + extra


class Sdist(sdist):
    def run(self) -> None:
        amalgamate()
        super().run()


class Wheel(bdist_wheel):
    def finalize_options(self) -> None:
        if LIMITED:
            self.py_limited_api = "cp311"
        super().finalize_options()


def extension() -> Extension:
    define = [("_FILE_OFFSET_BITS", "64"), ("SFT_STATIC", None)]
    compile_args = ["-std=gnu11", "-O2", "-fno-strict-aliasing", "-fvisibility=hidden", "-Wall", "-Wextra"]
    link_args = []
    if sys.platform.startswith("linux"):
        define.append(("_GNU_SOURCE", None))
        compile_args += ["-include", "src/old_glibc.h"]
        link_args = ["-Wl,--version-script=src/core.map", "-pthread", "-ldl"]
    if LIMITED:
        define.append(("Py_LIMITED_API", "0x030B0000"))
    compile_args += os.environ.get("SFT_CFLAGS", "").split()
    link_args += os.environ.get("SFT_LDFLAGS", "").split()
    return Extension(
        "safetensors_c._core",
        sources=sorted(glob.glob("src/*.c")) + ["amalgamation/sft.c"],
        depends=glob.glob("src/*.h")
        + ["amalgamation/sft.h", "amalgamation/sft_remote.h", "src/core.map"]
        + ["amalgamation/" + name for name in WINGS],
        include_dirs=["amalgamation", "src"],
        define_macros=define,
        extra_compile_args=compile_args,
        extra_link_args=link_args,
        py_limited_api=LIMITED,
    )


os.chdir(HERE)
setup(
    ext_modules=[extension()],
    cmdclass={"build_py": BuildPy, "build_ext": BuildExt, "sdist": Sdist, "bdist_wheel": Wheel},
)
