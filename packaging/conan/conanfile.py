# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Conan 2: `conan create packaging/conan` in a checkout or a source tarball; from a release, with the conandata.yml that
packaging/recipes.sh writes, the sources are downloaded and their digest is checked.

By default the compression libraries are the system's; -o compression=conan takes Conan Center's, none leaves out what
is compressed. libcurl is opened at run time and the CUDA driver too, so neither is a requirement.
"""

import glob
import os
import re
import shutil

from conan import ConanFile
from conan.tools.cmake import CMake, CMakeDeps, CMakeToolchain, cmake_layout
from conan.tools.files import copy, get, load, rm, rmdir

required_conan_version = ">=2.0"


class Libsafetensors(ConanFile):
    name = "libsafetensors"
    package_type = "library"
    description = "The safetensors format in C: read, validate, map, slice, write, edit, hash, convert"
    license = "Apache-2.0 OR MIT"
    topics = ("safetensors", "machine-learning", "weights", "serialization")
    settings = "os", "arch", "compiler", "build_type"
    options = {
        "shared": [True, False],
        "fPIC": [True, False],
        "with_import": [True, False],
        "with_remote": [True, False],
        "with_tool": [True, False],
        "compression": ["system", "conan", "none"],
    }
    default_options = {
        "shared": False,
        "fPIC": True,
        "with_import": True,
        "with_remote": True,
        "with_tool": False,
        "compression": "system",
    }
    implements = ["auto_shared_fpic"]

    def set_version(self):
        header = os.path.join(self.recipe_folder, "..", "..", "include", "sft", "types.h")
        if self.version is None and os.path.exists(header):
            self.version = re.search(r'SFT_VERSION_STRING "([^"]+)"', load(self, header))[1]

    def export_sources(self):
        if not self.conan_data:
            root = os.path.normpath(os.path.join(self.recipe_folder, "..", ".."))
            # Conan's copy() looks into every folder below: not into the root's, which may have builds.
            for part in ("cmake", "include", "src", "scripts", os.path.join("web", "dist")):
                copy(self, "*", os.path.join(root, part), os.path.join(self.export_sources_folder, part))
            for part in glob.glob(os.path.join(root, "LICENSE*")):
                shutil.copy(part, self.export_sources_folder)
            for part in ("CMakeLists.txt", "README.md", "CHANGELOG.md"):
                shutil.copy(os.path.join(root, part), self.export_sources_folder)

    def config_options(self):
        if self.settings.os == "Windows":
            del self.options.fPIC
            del self.options.with_remote

    def configure(self):
        self.settings.rm_safe("compiler.cppstd")
        self.settings.rm_safe("compiler.libcxx")
        if not (self.options.with_import or self.options.with_tool):
            del self.options.compression

    def requirements(self):
        if self.options.get_safe("compression") == "conan":
            self.requires("zlib/[>=1.2.11 <2]")
            self.requires("bzip2/1.0.8")
            self.requires("xz_utils/[>=5.4.5 <6]")

    def layout(self):
        # exported sources lie in the folder itself
        cmake_layout(self, src_folder="src" if self.conan_data else ".")

    def source(self):
        if self.conan_data:
            get(self, **self.conan_data["sources"][self.version], strip_root=True)

    def generate(self):
        toolchain = CMakeToolchain(self)
        given = toolchain.cache_variables
        given["SFT_BUILD_TOOL"] = bool(self.options.with_tool)
        given["SFT_BUILD_IMPORT"] = bool(self.options.with_import)
        given["SFT_BUILD_REMOTE"] = bool(self.options.get_safe("with_remote"))
        given["SFT_MPI"] = False
        given["SFT_STATIC_COMPRESSION"] = False
        given["SFT_INSTALL_SHARED"] = bool(self.options.shared)
        given["SFT_INSTALL_STATIC"] = not self.options.shared
        if self.options.get_safe("compression") == "none":
            for name in ("ZLIB", "BZip2", "LibLZMA"):
                given[f"CMAKE_DISABLE_FIND_PACKAGE_{name}"] = True
        toolchain.generate()
        CMakeDeps(self).generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def package(self):
        copy(self, "LICENSE*", self.source_folder, os.path.join(self.package_folder, "licenses"))
        CMake(self).install()
        # Conan writes files of its own for CMake and pkg-config.
        for folder in ("lib/cmake", "lib/pkgconfig", "share/doc"):
            rmdir(self, os.path.join(self.package_folder, folder))
        rm(self, "*.pdb", self.package_folder, recursive=True)

    def package_info(self):
        self.cpp_info.set_property("cmake_file_name", "safetensors")
        kind = "shared" if self.options.shared else "static"

        def library(component, needs=(), system=()):
            name = "safetensors" if component == "core" else f"safetensors-{component}"
            target = "safetensors" if component == "core" else component
            alias = kind if component == "core" else f"{component}-{kind}"
            info = self.cpp_info.components[component]
            info.libs = [name]
            info.requires = list(needs)
            info.set_property("cmake_target_name", f"safetensors::{target}")
            info.set_property("cmake_target_aliases", [f"safetensors::{alias}"])
            info.set_property("pkg_config_name", f"lib{name}")
            if self.settings.os in ("Linux", "FreeBSD"):
                info.system_libs = list(system)
            if not self.options.shared:
                info.defines = ["SFT_STATIC"]

        library("core", system=["pthread"])
        library("checkpoint", ["core"])
        if self.settings.os != "Windows" and self.settings.arch in (
            "x86_64",
            "armv8",
            "ppc64le",
            "riscv64",
            "s390x",
        ):
            library("cuda", ["core"], ["dl"])
        if self.options.with_import or self.options.with_tool:
            needs, system = ["core"], []
            if self.options.compression == "conan":
                needs += ["zlib::zlib", "bzip2::bzip2", "xz_utils::xz_utils"]
            elif self.options.compression == "system" and not self.options.shared:
                system = ["z", "bz2", "lzma"]
            library("import", needs, system)
        if self.options.get_safe("with_remote"):
            library("remote", ["core"], ["dl"])
