/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cuda/file_posix.c - see file.h. O_DIRECT is Linux's; elsewhere there is no such way.
 */
#ifndef _WIN32
#include "cuda/file.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

int sft__cuda_fd_direct(int fd) {
#if defined(O_DIRECT) && defined(__linux__)
    char path[40];
    if (fd < 0) {
        return -1;
    }
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    return open(path, O_RDONLY | O_DIRECT | O_CLOEXEC);
#else
    (void)fd;
    return -1;
#endif
}

void sft__cuda_fd_close(int direct) {
    if (direct >= 0) {
        (void)close(direct); /* nothing was written */
    }
}

bool sft__cuda_fd_read(int direct, uint64_t offset, void *dst, size_t size) {
    uint8_t *p = dst;
    while (size > 0) {
        const ssize_t n = pread(direct, p, size, (off_t)offset);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        /* An odd count comes from the end of the file, or from a fault: going on is not aligned. */
        if (n <= 0 || (size_t)n % SFT__CUDA_DIRECT_ALIGN != 0) {
            return false;
        }
        p += n;
        offset += (uint64_t)n;
        size -= (size_t)n;
    }
    return true;
}

bool sft__cuda_fd_stamp(int fd, sft__cuda_stamp *out) {
    struct stat st;
    if (fd < 0 || fstat(fd, &st) != 0) {
        return false;
    }
    out->size = (uint64_t)st.st_size;
#if defined(__APPLE__)
    out->mtime_ns = (int64_t)st.st_mtimespec.tv_sec * 1000000000 + st.st_mtimespec.tv_nsec;
#else
    out->mtime_ns = (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec;
#endif
    return true;
}
#else
typedef int sft__cuda_file_posix_empty;
#endif
