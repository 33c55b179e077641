/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * fs/output/rewrite_posix.c - see rewrite.h.
 */
#ifndef _WIN32
#include "fs/output/entry.h"
#include "fs/output/rewrite.h"
#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

sft_status sft__fs_rewrite_open(const char *path, sft__fs_handle *out, sft__fs_stat *st,
                                bool *refused, sft_error *err) {
    sft_status status;
    int fd;

    *out = SFT__FS_NO_HANDLE;
    do {
        fd = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    } while (fd < 0 && errno == EINTR);
    if (fd < 0) {
        *refused = errno == EACCES || errno == EPERM || errno == EROFS || errno == ETXTBSY;
        return sft__base_fail_sys(err, SFT_E_IO, errno, "cannot open \"%s\" for writing", path);
    }
    *refused = false;
    status = sft__fs_stat_file(fd, path, st, err);
    if (status != SFT_OK) {
        (void)close(fd); /* nothing was written */
        return status;
    }
    *out = fd;
    return SFT_OK;
}

sft_status sft__fs_rewrite_lock(sft__fs_handle file, const char *path, bool (*stop)(void *),
                                void *ctx, sft_error *err) {
    const struct timespec pause = {0, 5000000};

    while (flock((int)file, LOCK_EX | LOCK_NB) != 0) {
        if (errno != EWOULDBLOCK && errno != EINTR) {
            return SFT_OK; /* no locks here */
        }
        if (stop != NULL && stop(ctx)) {
            return sft__base_fail(err, SFT_E_CANCELLED,
                                  "cancelled while \"%s\" is edited by another", path);
        }
        (void)nanosleep(&pause, NULL);
    }
    return SFT_OK;
}

sft_status sft__fs_rewrite_close(sft__fs_handle file, const char *path, bool durable,
                                 sft_error *err) {
    int cause = 0;
    if (durable && sft__fs_sync_descriptor((int)file) != 0) {
        cause = errno;
    }
    if (close((int)file) != 0 && cause == 0) {
        cause = errno;
    }
    if (cause != 0) {
        return sft__base_fail_sys(err, SFT_E_DURABILITY, cause,
                                  "\"%s\" is changed, but could not be written to disk", path);
    }
    return SFT_OK;
}
#else
typedef int sft__fs_rewrite_posix_empty;
#endif
