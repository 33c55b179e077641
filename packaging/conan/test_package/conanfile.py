# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Builds packaging/tests/consumer with the package and runs it."""

import os

from conan import ConanFile
from conan.tools.build import can_run
from conan.tools.cmake import CMake, CMakeToolchain, cmake_layout


class Test(ConanFile):
    settings = "os", "arch", "compiler", "build_type"
    generators = "CMakeDeps"

    def requirements(self):
        self.requires(self.tested_reference_str)

    def layout(self):
        cmake_layout(self)

    def generate(self):
        toolchain = CMakeToolchain(self)
        options = self.dependencies["libsafetensors"].options
        toolchain.cache_variables["WITH_IMPORT"] = (
            options.with_import == "True" or options.with_import is True
        )
        toolchain.generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def test(self):
        if can_run(self):
            self.run(f'"{os.path.join(self.cpp.build.bindir, "consumer")}" .', env="conanrun")
