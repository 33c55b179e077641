/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/write/publish_posix.c - a small file that appears whole or not at all: written beside its place
 * under another name, flushed, and linked or renamed to it. Read first: convert.h.
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

sft_status sft__publish(const char *path, const void *data, size_t size, bool replace, bool durable,
                        sft_error *err) {
    uint64_t key[2];
    char temp[4096];

    sft__random_key(key);
    const int n = snprintf(temp, sizeof temp, "%s.%08x.tmp", path, (unsigned)key[0]);
    if (n < 0 || (size_t)n >= sizeof temp) {
        return sft__fail(err, SFT_E_PATH, "the path is too long");
    }
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
    if (status == SFT_OK && replace && rename(temp, path) != 0) {
        status = sft__fail_sys(err, SFT_E_NOT_COMMITTED, errno, "cannot rename to %.200s", path);
    } else if (status == SFT_OK && !replace && link(temp, path) != 0) {
        status = sft__fail_sys(err, errno == EEXIST ? SFT_E_EXISTS : SFT_E_NOT_COMMITTED, errno,
                               "cannot put %.200s in place", path);
    }
    if (status != SFT_OK || !replace) {
        (void)unlink(temp);
    }
    return status;
}

bool sft__same_file(const char *a, const char *b) {
    struct stat x;
    struct stat y;

    return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}
#endif
