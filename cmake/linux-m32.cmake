# SPDX-License-Identifier: Apache-2.0 OR MIT
# 32-bit x86 on an x86-64 machine. Debian: gcc-12-multilib (the metapackage gcc-multilib conflicts with
# cross compilers; without it /usr/include/asm is missing, hence the directory below).
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR i686)
set(CMAKE_C_COMPILER gcc)
set(CMAKE_C_FLAGS_INIT -m32)
if(NOT EXISTS /usr/include/asm)
  string(APPEND CMAKE_C_FLAGS_INIT " -isystem /usr/include/x86_64-linux-gnu")
endif()
set(CMAKE_EXE_LINKER_FLAGS_INIT -m32)
set(CMAKE_SHARED_LINKER_FLAGS_INIT -m32)
