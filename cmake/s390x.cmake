# SPDX-License-Identifier: Apache-2.0 OR MIT
# Big-endian: s390x with Debian's cross compiler; tests run under qemu-user.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR s390x)
set(CMAKE_C_COMPILER s390x-linux-gnu-gcc)
set(CMAKE_FIND_ROOT_PATH /usr/s390x-linux-gnu)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_EXE_LINKER_FLAGS_INIT -static)
find_program(SFT_QEMU NAMES qemu-s390x qemu-s390x-static)
set(CMAKE_CROSSCOMPILING_EMULATOR ${SFT_QEMU} -L /usr/s390x-linux-gnu)
