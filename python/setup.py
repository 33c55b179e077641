# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Builds safetensors_c._core from src/*.c, the amalgamation of the core (sft.h, sft.c) and the sources of the libraries for
other formats, checkpoints and URLs (library/). zlib, libbz2 and liblzma are linked where their headers are: without one,
what is compressed with it is refused. libcurl is found when the first URL is met, libsafetensors-cuda when it is needed.

In a checkout amalgamation/ and library/ are made of the sources beside python/; an sdist carries them. One extension for
every CPython from 3.11 on (limited API), one of its own for 3.10 and for free-threaded builds.
"""

from __future__ import annotations

import glob
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from concurrent.futures import ThreadPoolExecutor

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
CORE = [
    "base",
    "fs",
    "format",
    "io",
    "catalog",
    "move",
]  # in amalgamation/sft.c; the rooms below see their headers
ROOMS = ["import", "layout", "checkpoint"] + ([] if sys.platform == "win32" else ["remote"])
# macro, header, function, library
PACKED = [
    ("SFT_HAVE_ZLIB", "zlib.h", "inflate", "z"),
    ("SFT_HAVE_BZIP2", "bzlib.h", "BZ2_bzDecompress", "bz2"),
    ("SFT_HAVE_LZMA", "lzma.h", "lzma_code", "lzma"),
]
FREE_THREADED = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))
LIMITED = sys.version_info >= (3, 11) and not FREE_THREADED and not os.environ.get("SFT_FULL_API")


def version() -> str:
    """The library's: in a checkout its header lies beside python/, an sdist carries it."""
    for header in ("../include/sft/types.h", "library/include/sft/types.h"):
        if os.path.exists(os.path.join(HERE, header)):
            with open(os.path.join(HERE, header), encoding="utf-8") as f:
                return re.search(r'SFT_VERSION_STRING "([^"]+)"', f.read())[1]
    raise SystemExit("include/sft/types.h is missing: build from a checkout or from an sdist")


def amalgamate() -> None:
    """Makes amalgamation/ and library/ anew where their sources are."""
    if os.path.exists(SCRIPT):
        out = os.path.join(HERE, "amalgamation")
        subprocess.run([sys.executable, SCRIPT, "--out", out], check=True, stdout=subprocess.DEVNULL)
        shutil.rmtree(os.path.join(HERE, "library"), ignore_errors=True)
        for part in ("include/sft", *("src/" + room for room in CORE + ROOMS)):
            sources = None if os.path.basename(part) in ROOMS else shutil.ignore_patterns("*.c")
            shutil.copytree(
                os.path.join(HERE, "..", part), os.path.join(HERE, "library", part), ignore=sources
            )
    elif not os.path.exists(os.path.join(HERE, "amalgamation", "sft.c")):
        raise SystemExit("amalgamation/sft.c is missing: build from a checkout or from an sdist")


class BuildExt(build_ext):
    def run(self) -> None:
        amalgamate()
        super().run()

    def has(self, header: str, function: str, library: str) -> bool:
        """Can a program that calls it be built?"""
        with tempfile.TemporaryDirectory() as folder:
            source = os.path.join(folder, "has.c")
            with open(source, "w", encoding="utf-8") as f:
                f.write(
                    f"#include <stdio.h>\n#include <{header}>\nint main(void) {{ return (void *){function} == NULL; }}\n"
                )
            null = os.open(os.devnull, os.O_WRONLY)
            shown = os.dup(2)
            os.dup2(null, 2)  # that there is none is no error
            try:
                objects = self.compiler.compile([source], output_dir=folder)
                self.compiler.link_executable(objects, os.path.join(folder, "has"), libraries=[library])
            except Exception:
                return False
            finally:
                os.dup2(shown, 2)
                os.close(shown)
                os.close(null)
        return True

    def build_extension(self, ext: Extension) -> None:
        ext.sources += sorted(
            path for room in ROOMS for path in glob.glob(f"library/src/{room}/**/*.c", recursive=True)
        )
        for macro, header, function, library in PACKED:
            there = self.has(header, function, library)
            ext.define_macros.append((macro, str(int(there))))
            ext.libraries += [library] if there else []
        one = self.compiler.compile

        def all_at_once(sources: list[str], **how: object) -> list[str]:
            with ThreadPoolExecutor(os.cpu_count()) as pool:
                return [made for some in pool.map(lambda s: one([s], **how), sources) for made in some]

        self.compiler.compile = all_at_once
        super().build_extension(ext)


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
    define = [("_FILE_OFFSET_BITS", "64"), ("SFT_STATIC", "1"), ("SFT_BUILDING", "1")]
    compile_args = ["-std=gnu11", "-O2", "-fno-strict-aliasing", "-fvisibility=hidden", "-Wall", "-Wextra"]
    compile_args.append("-Werror=implicit-function-declaration")  # as of what the stable ABI lacks
    compile_args.append("-ffp-contract=off")  # dequantised values are rounded twice, as ggml's are
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
        + ["amalgamation/sft.h", "src/core.map"]
        + glob.glob("library/**/*.h", recursive=True),
        include_dirs=["amalgamation", "library/include", "library/src", "src"],
        define_macros=define,
        extra_compile_args=compile_args,
        extra_link_args=link_args,
        py_limited_api=LIMITED,
    )


os.chdir(HERE)
setup(
    version=version(),
    ext_modules=[extension()],
    cmdclass={"build_py": BuildPy, "build_ext": BuildExt, "sdist": Sdist, "bdist_wheel": Wheel},
)
