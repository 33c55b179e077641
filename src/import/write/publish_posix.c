/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/write/publish_posix.c - a small file that appears whole or not at all: written beside its
 * place under another name, flushed, and linked or renamed to it. Read first: convert.h.
 */
#ifndef _WIN32
#include "base/strmap.h"
#include "import/core/convert.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static sft_status write_all(int fd, const char *data, size_t size, const char *path,
                            sft_error *err) {
    while (size > 0) {
        const ssize_t n = write(fd, data, size);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            return sft__fail_sys(err, SFT_E_IO, errno, "cannot write %.200s", path);
        }
        data += n;
        size -= (size_t)n;
    }
    return SFT_OK;
}

sft_status sft__temp_name(char *temp, size_t room, const char *path, sft_error *err) {
    const char *slash = strrchr(path, '/');
    const int before = slash != NULL ? (int)(slash - path) + 1 : 0;
    uint64_t key[2];

    sft__random_key(key);
    const int n =
        snprintf(temp, room, "%.*s.%.200s.%08x.tmp", before, path, path + before, (unsigned)key[0]);
    return n > 0 && (size_t)n < room ? SFT_OK : sft__fail(err, SFT_E_PATH, "the path is too long");
}

/* "No second names here", as opposed to "it went wrong". */
static bool knows_no_links(int cause) {
    return cause == EPERM || cause == ENOTSUP || cause == EOPNOTSUPP || cause == ENOSYS ||
           cause == EMLINK;
}

sft_status sft__put_in_place(const char *temp, const char *path, bool replace, sft_error *err) {
    int cause = 0;

    if (!replace && link(temp, path) != 0) {
        struct stat st;
        cause = errno;
        replace = knows_no_links(cause) && lstat(path, &st) != 0;
        cause = knows_no_links(cause) && !replace ? EEXIST : cause;
        if (!replace) {
            return sft__fail_sys(err, cause == EEXIST ? SFT_E_EXISTS : SFT_E_NOT_COMMITTED, cause,
                                 "cannot put %.200s in place", path);
        }
    }
    if (replace && rename(temp, path) != 0) {
        return sft__fail_sys(err, SFT_E_NOT_COMMITTED, errno, "cannot put %.200s in place", path);
    }
    return SFT_OK;
}

sft_status sft__flush_folder(const char *path, sft_error *err) {
    const char *slash = strrchr(path, '/');
    char folder[4096] = ".";
    const size_t len = slash != NULL ? (size_t)(slash - path) + 1 : 0;

    if (len > 0 && len < sizeof folder) {
        memcpy(folder, path, len);
        folder[len] = '\0';
    }
    const int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const bool bad = fd < 0 || (fsync(fd) != 0 && errno != EINVAL && errno != ENOTSUP);
    const int cause = errno;
    if (fd >= 0) {
        (void)close(fd);
    }
    return bad ? sft__fail_sys(err, SFT_E_DURABILITY, cause, "cannot flush the folder of %.200s",
                               path)
               : SFT_OK;
}

sft_status sft__publish(const char *path, const void *data, size_t size, bool replace, bool durable,
                        sft_error *err) {
    char temp[4096];

    SFT_TRY(sft__temp_name(temp, sizeof temp, path, err));
    const int fd = open(temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0) {
        return sft__fail_sys(err, SFT_E_IO, errno, "cannot create %.200s", temp);
    }
    sft_status status = write_all(fd, data, size, temp, err);
    if (status == SFT_OK && durable && fsync(fd) != 0) {
        status = sft__fail_sys(err, SFT_E_IO, errno, "cannot flush %.200s", temp);
    }
    if (close(fd) != 0 && status == SFT_OK) {
        status = sft__fail_sys(err, SFT_E_IO, errno, "cannot close %.200s", temp);
    }
    if (status == SFT_OK) {
        status = sft__put_in_place(temp, path, replace, err);
    }
    (void)unlink(temp);
    return status == SFT_OK && durable ? sft__flush_folder(path, err) : status;
}

bool sft__same_file(const char *a, const char *b) {
    struct stat x;
    struct stat y;

    return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}
#endif
