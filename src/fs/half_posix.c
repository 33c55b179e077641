/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * fs/half_posix.c - see half.h.
 */
#ifndef _WIN32
#include "fs/half.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

static int flush_directory(const char *path) {
    const char *slash = strrchr(path, '/');
    char folder[4096] = ".";
    const size_t len = slash != NULL ? (size_t)(slash - path) + 1 : 0;

    if (len >= sizeof folder) {
        return ENAMETOOLONG;
    }
    if (len > 0) {
        memcpy(folder, path, len);
        folder[len] = '\0';
    }
    const int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) {
        return errno;
    }
    const int cause =
        fsync(fd) == 0 || errno == EINVAL || errno == ENOTSUP || errno == EOPNOTSUPP ? 0 : errno;
    (void)close(fd); /* read-only */
    return cause;
}

sft_status sft__fs_half_make(const char *path, bool durable, sft_error *err) {
    int fd;
    do {
        fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
    } while (fd < 0 && errno == EINTR);
    if (fd < 0) {
        return sft__fail_sys(err, SFT_E_IO, errno, "cannot create %.200s", path);
    }
    (void)close(fd); /* nothing was written */
    const int cause = durable ? flush_directory(path) : 0;
    return cause == 0 ? SFT_OK
                      : sft__fail_sys(err, SFT_E_IO, cause, "cannot flush the directory of %.200s", path);
}

sft_status sft__fs_half_remove(const char *path, sft_error *err) {
    return unlink(path) == 0 || errno == ENOENT
               ? SFT_OK
               : sft__fail_sys(err, SFT_E_IO, errno, "cannot remove %.200s", path);
}
#else
typedef int sft__fs_half_posix_empty;
#endif
