/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/write/publish_posix.c - a file to its place, by a link or a new name. Read first: convert.h.
 */
#ifndef _WIN32
#include "base/strmap.h"
#include "import/core/convert.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

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

bool sft__same_file(const char *a, const char *b) {
    struct stat x;
    struct stat y;

    return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}
#endif
