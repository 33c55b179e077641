# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Builds safetensors_c._core from src/*.c, the amalgamation of the core (sft.h, sft.c) and the sources of the libraries for
other formats, checkpoints and URLs (library/); and of the same objects the command `safetensors` (SFT_NO_TOOL=1: without it).
zlib, libbz2 and liblzma are linked where their headers are: without one, what is compressed with it is refused. libcurl is
found when the first URL is met, libsafetensors-cuda when it is needed.

In a checkout amalgamation/ and library/ are made of the sources beside python/; an sdist carries them. One extension for
every CPython from 3.11 on (limited API), one of its own for 3.10 and for free-threaded builds.

packaging/wheels.sh builds for other machines: SFT_SYSTEM (linux, windows, darwin) and SFT_CC (the compiler, with its target)
then replace what this machine's Python says; SFT_PYTHON names a folder with Python.h (and the library for Windows),
SFT_ARCHIVES one that packaging/compression.sh made.
"""

from __future__ import annotations

import sys

if sys.version_info < (3, 10):
    raise SystemExit("safetensors-c needs Python 3.10 or later; this is " + sys.version.split()[0])

import glob
import os
import re
import shutil
import subprocess
import sysconfig
import tempfile
from concurrent.futures import ThreadPoolExecutor

import setuptools
from setuptools import Command, Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist

if int(setuptools.__version__.split(".")[0]) < 61:  # the first to read [project] of pyproject.toml
    raise SystemExit("safetensors-c needs setuptools 61 or later; this is " + setuptools.__version__)

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
SYSTEM = os.environ.get("SFT_SYSTEM") or {"win32": "windows"}.get(sys.platform, sys.platform)
CROSS = os.environ.get("SFT_CC", "").split()
ARCHIVES = os.environ.get("SFT_ARCHIVES")
TOOL = "safetensors.exe" if SYSTEM == "windows" else "safetensors"
WITH_TOOL = not os.environ.get("SFT_NO_TOOL")
ROOMS = ["import", "layout", "checkpoint"] + ([] if SYSTEM == "windows" else ["remote"])
# macro, header, function, library
PACKED = [
    ("SFT_HAVE_ZLIB", "zlib.h", "inflate", "z"),
    ("SFT_HAVE_BZIP2", "bzlib.h", "BZ2_bzDecompress", "bz2"),
    ("SFT_HAVE_LZMA", "lzma.h", "lzma_code", "lzma"),
]
SYSTEM_LIBRARIES = {
    "linux": ["m", "dl", "pthread"],
    "windows": ["advapi32", "shell32", "ws2_32"],
}  # the tool's
FREE_THREADED = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))
LIMITED = sys.version_info >= (3, 11) and not FREE_THREADED and not os.environ.get("SFT_FULL_API")


def version() -> str:
    """The library's: in a checkout its header lies beside python/, an sdist carries it."""
    for header in ("../include/sft/types.h", "library/include/sft/types.h"):
        if os.path.exists(os.path.join(HERE, header)):
            with open(os.path.join(HERE, header), encoding="utf-8") as f:
                return re.search(r'SFT_VERSION_STRING "([^"]+)"', f.read())[1]
    raise SystemExit("include/sft/types.h is missing: build from a checkout or from an sdist")


def embed(page: str) -> None:
    """The template of report's page as C, as cmake/embed.cmake makes it."""
    with open(page, "rb") as f:
        data = f.read()
    lines = (",".join(map(str, data[i : i + 32])) for i in range(0, len(data), 32))
    with open(os.path.join(HERE, "library", "src", "cli", "report_page.c"), "w", encoding="utf-8") as f:
        f.write(
            "#include <stddef.h>\n"
            "extern const unsigned char cli_report_template[];\nextern const size_t cli_report_template_size;\n"
            "const unsigned char cli_report_template[] = {\n" + ",\n".join(lines) + "};\n"
            "const size_t cli_report_template_size = sizeof cli_report_template;\n"
        )


def amalgamate() -> None:
    """Makes amalgamation/ and library/ anew where their sources are."""
    if os.path.exists(SCRIPT):
        out = os.path.join(HERE, "amalgamation")
        subprocess.run([sys.executable, SCRIPT, "--out", out], check=True, stdout=subprocess.DEVNULL)
        shutil.rmtree(os.path.join(HERE, "library"), ignore_errors=True)
        for part in ("include/sft", *("src/" + room for room in [*CORE, *ROOMS, "cli"])):
            sources = None if os.path.basename(part) in [*ROOMS, "cli"] else shutil.ignore_patterns("*.c")
            shutil.copytree(
                os.path.join(HERE, "..", part), os.path.join(HERE, "library", part), ignore=sources
            )
        embed(os.path.join(HERE, "..", "web", "dist", "report.html"))
    elif not os.path.exists(os.path.join(HERE, "amalgamation", "sft.c")):
        raise SystemExit("amalgamation/sft.c is missing: build from a checkout or from an sdist")


def sources_of(room: str) -> list[str]:
    return sorted(glob.glob(f"library/src/{room}/**/*.c", recursive=True))


class BuildExt(build_ext):
    def run(self) -> None:
        amalgamate()
        super().run()

    def get_ext_filename(self, fullname: str) -> str:
        if SYSTEM == "windows" and CROSS:
            return os.path.join(*fullname.split(".")) + ".pyd"
        return super().get_ext_filename(fullname)

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
        if CROSS:
            self.compiler.set_executables(
                compiler=CROSS, compiler_so=CROSS, linker_so=[*CROSS, "-shared"], linker_exe=CROSS
            )
        # The longest comes first: it takes a core for as long as the others take the other ones.
        ours = ["amalgamation/sft.c", *sorted(path for room in ROOMS for path in sources_of(room))]
        for macro, header, function, library in PACKED:
            there = ARCHIVES is not None or self.has(header, function, library)
            ext.define_macros.append((macro, str(int(there))))
            ext.libraries += [library] if there else []
        one = self.compiler.compile

        def all_at_once(sources: list[str], **how: object) -> list[str]:
            with ThreadPoolExecutor(int(os.environ.get("JOBS") or os.cpu_count() or 1)) as pool:
                return [made for some in pool.map(lambda s: one([s], **how), sources) for made in some]

        how = {
            "output_dir": self.build_temp,
            "include_dirs": ext.include_dirs,
            "extra_postargs": ext.extra_compile_args,
            "depends": ext.depends,
        }
        ext.extra_objects += all_at_once(ours, macros=ext.define_macros, **how)
        if WITH_TOOL:
            remote = [("SFT_TOOL_REMOTE", "1")] if "remote" in ROOMS else []
            objects = all_at_once(sources_of("cli"), macros=ext.define_macros + remote, **how)
            self.compiler.exe_extension = ".exe" if SYSTEM == "windows" else ""
            self.compiler.link_executable(
                ext.extra_objects + objects,
                "safetensors",
                output_dir=self.build_temp,
                libraries=ext.libraries + SYSTEM_LIBRARIES.get(SYSTEM, ["m"]),
                library_dirs=ext.library_dirs,
                extra_postargs=[
                    *(["-pie", "-Wl,--gc-sections"] if SYSTEM == "linux" else []),
                    *os.environ.get("SFT_LDFLAGS", "").split(),
                ],
            )
        if SYSTEM == "windows" and CROSS:
            ext.libraries.append("python3")
        self.compiler.compile = all_at_once
        super().build_extension(ext)


class BuildScripts(Command):
    """The command `safetensors` as it is: no script of Python's that starts it, no time that this costs."""

    user_options = [("build-dir=", "d", "folder")]

    def initialize_options(self) -> None:
        self.build_dir = None
        self.force = None
        self.executable = None

    def finalize_options(self) -> None:
        self.set_undefined_options("build", ("build_scripts", "build_dir"))

    def run(self) -> None:
        self.run_command("build_ext")
        self.mkpath(self.build_dir)
        self.copy_file(os.path.join(self.get_finalized_command("build_ext").build_temp, TOOL), self.build_dir)

    def get_source_files(self) -> list[str]:
        return []

    def get_outputs(self) -> list[str]:
        return [os.path.join(self.build_dir, TOOL)]


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
    if SYSTEM == "linux":
        define.append(("_GNU_SOURCE", None))
        compile_args += ["-include", "src/old_glibc.h", "-ffunction-sections", "-fdata-sections"]
        link_args = ["-Wl,--version-script=src/core.map", "-pthread", "-ldl", "-Wl,--gc-sections"]
    elif SYSTEM == "windows":
        define += [(name, None) for name in ("UNICODE", "_UNICODE", "WIN32_LEAN_AND_MEAN")]
        define += [("_WIN32_WINNT", "0x0A00"), ("__USE_MINGW_ANSI_STDIO", "1")]
    elif CROSS:
        define.append(("SFT_API", ""))  # hidden: zig's linker knows no list of what is exported
        link_args = ["-undefined", "dynamic_lookup"]
    include = ["amalgamation", "library/include", "library/src", "src"]
    folders = []
    if os.environ.get("SFT_PYTHON"):
        include.insert(0, os.environ["SFT_PYTHON"])
        folders.append(os.environ["SFT_PYTHON"])
    if ARCHIVES:
        define.append(("LZMA_API_STATIC", None))
        include.append(os.path.join(ARCHIVES, "include"))
        folders.append(os.path.join(ARCHIVES, "lib"))
    if LIMITED:
        define.append(("Py_LIMITED_API", "0x030B0000"))
    compile_args += os.environ.get("SFT_CFLAGS", "").split()
    link_args += os.environ.get("SFT_LDFLAGS", "").split()
    return Extension(
        "safetensors_c._core",
        sources=sorted(glob.glob("src/*.c")),
        depends=glob.glob("src/*.h")
        + ["amalgamation/sft.h", "src/core.map"]
        + glob.glob("library/**/*.h", recursive=True),
        include_dirs=include,
        library_dirs=folders,
        define_macros=define,
        extra_compile_args=compile_args,
        extra_link_args=link_args,
        py_limited_api=LIMITED,
    )


os.chdir(HERE)
setup(
    version=version(),
    scripts=["safetensors"] if WITH_TOOL else [],
    ext_modules=[extension()],
    cmdclass={
        "build_py": BuildPy,
        "build_ext": BuildExt,
        "build_scripts": BuildScripts,
        "sdist": Sdist,
        "bdist_wheel": Wheel,
    },
)
