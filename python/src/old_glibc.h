/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * old_glibc.h - system calls that a C library before glibc 2.28 has no function for, so that one wheel runs on
 * all systems since glibc 2.17; and those that musl has since its newest versions only. A kernel without the
 * call says ENOSYS, which the library is ready for. Included before everything else on Linux, and itself
 * includes what declares the functions; does nothing with a newer glibc.
 */
#ifndef SFT_PYTHON_OLD_GLIBC_H
#define SFT_PYTHON_OLD_GLIBC_H

#include <features.h>

#if defined(__GLIBC__) && defined(__GLIBC_PREREQ)
#define SFT_GLIBC_BEFORE(minor) (!__GLIBC_PREREQ(2, minor))
#else
#define SFT_GLIBC_BEFORE(minor) ((minor) > 25) /* musl has had getrandom for long */
#endif

#if SFT_GLIBC_BEFORE(28)
#include <stdint.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>
#if SFT_GLIBC_BEFORE(25)
#define getrandom(data, size, flags) ((ssize_t)syscall(SYS_getrandom, (data), (size), (flags)))
#endif
#if SFT_GLIBC_BEFORE(27)
#define copy_file_range(from, from_at, to, to_at, size, flags)                                     \
    ((ssize_t)syscall(SYS_copy_file_range, (from), (from_at), (to), (to_at), (size), (flags)))
#endif
#if SFT_GLIBC_BEFORE(26)
#define preadv2(fd, vector, count, at, flags)                                                      \
    ((ssize_t)syscall(SYS_preadv2, (fd), (vector), (count), (long)(at),                            \
                      (long)((uint64_t)(at) >> 32), (flags)))
#endif
#define renameat2(from_dir, from, to_dir, to, flags)                                               \
    ((int)syscall(SYS_renameat2, (from_dir), (from), (to_dir), (to), (flags)))
#define statx(fd, path, flags, mask, out)                                                          \
    ((int)syscall(SYS_statx, (fd), (path), (flags), (mask), (out)))
#endif

#endif
