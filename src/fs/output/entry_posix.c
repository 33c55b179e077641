/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * fs/output/entry_posix.c - see entry.h.
 */
#ifndef _WIN32
#include "fs/output/entry.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static sft_status create(const char *path, mode_t mode, sft__fs_handle *out, sft_error *err) {
    const int fd = sft__fs_open_at(AT_FDCWD, path, O_RDWR | O_CREAT | O_NOFOLLOW, mode);

    *out = SFT__FS_NO_HANDLE;
    if (fd < 0) {
        return sft__base_fail_sys(err, SFT_E_IO, errno, "cannot create \"%.200s\"", path);
    }
    *out = fd;
    return SFT_OK;
}

sft_status sft__fs_create(const char *path, sft__fs_handle *out, sft_error *err) {
    return create(path, 0666, out, err);
}

sft_status sft__fs_create_private(const char *path, sft__fs_handle *out, sft_error *err) {
    return create(path, 0600, out, err);
}

static sft_status make_directory(const char *path, mode_t mode, sft_error *err) {
    sft__fs_stat st;

    if (mkdir(path, mode) == 0) {
        return SFT_OK;
    }
    const int cause = errno;
    if (cause == EEXIST) {
        SFT_TRY(sft__fs_look(path, &st, err));
        if (st.directory) {
            return SFT_OK;
        }
    }
    return sft__base_fail_sys(err, SFT_E_IO, cause, "cannot make the directory \"%.200s\"", path);
}

sft_status sft__fs_make_directory(const char *path, sft_error *err) {
    return make_directory(path, 0777, err);
}

sft_status sft__fs_make_directory_private(const char *path, sft_error *err) {
    return make_directory(path, 0700, err);
}

sft_status sft__fs_rename(const char *from, const char *to, sft_error *err) {
    return rename(from, to) == 0 ? SFT_OK
                                 : sft__base_fail_sys(err, SFT_E_NOT_COMMITTED, errno,
                                                      "cannot put \"%.200s\" in place", to);
}

/* "No second names here", as opposed to "it went wrong". */
static bool knows_no_links(int cause) {
    return cause == EPERM || cause == ENOTSUP || cause == EOPNOTSUPP || cause == ENOSYS ||
           cause == EMLINK;
}

int sft__fs_rename_new_at(int directory, const char *from, const char *to) {
    struct stat st;

#if defined(__linux__) && defined(RENAME_NOREPLACE)
    if (renameat2(directory, from, directory, to, RENAME_NOREPLACE) == 0) {
        return 0;
    }
    if (errno != EINVAL && errno != ENOSYS && errno != EOPNOTSUPP) {
        return -1;
    }
#endif
    /* A second name, then the first one goes. */
    if (linkat(directory, from, directory, to, 0) == 0) {
        return unlinkat(directory, from, 0) == 0 ? 0 : 1;
    }
    if (!knows_no_links(errno)) {
        return -1;
    }
    if (fstatat(directory, to, &st, AT_SYMLINK_NOFOLLOW) == 0) {
        errno = EEXIST;
        return -1;
    }
    return renameat(directory, from, directory, to);
}

sft_status sft__fs_rename_new(const char *from, const char *to, sft_error *err) {
    if (sft__fs_rename_new_at(AT_FDCWD, from, to) >= 0) {
        return SFT_OK;
    }
    return sft__base_fail_sys(err, errno == EEXIST ? SFT_E_EXISTS : SFT_E_NOT_COMMITTED, errno,
                              "cannot put \"%.200s\" in place", to);
}

sft_status sft__fs_link(const char *from, const char *to, sft_error *err) {
    if (linkat(AT_FDCWD, from, AT_FDCWD, to, 0) == 0) {
        return SFT_OK;
    }
    return sft__base_fail_sys(
        err, knows_no_links(errno) || errno == EXDEV ? SFT_E_UNSUPPORTED : SFT_E_NOT_COMMITTED,
        errno, "cannot link \"%.200s\"", to);
}

sft_status sft__fs_remove(const char *path, sft_error *err) {
    return unlink(path) == 0 || errno == ENOENT || errno == ENOTDIR
               ? SFT_OK
               : sft__base_fail_sys(err, SFT_E_IO, errno, "cannot remove \"%.200s\"", path);
}

bool sft__fs_remove_directory(const char *path) {
    return rmdir(path) == 0;
}

bool sft__fs_is_link(const char *path) {
    struct stat st;
    return lstat(path, &st) == 0 && S_ISLNK(st.st_mode);
}

int sft__fs_sync_entries(int fd) {
    return fsync(fd) == 0 || errno == EINVAL || errno == ENOTSUP || errno == EOPNOTSUPP ? 0 : -1;
}

sft_status sft__fs_sync_directory(const char *path, sft_error *err) {
    const int fd = sft__fs_open_at(AT_FDCWD, path, O_RDONLY | O_DIRECTORY, 0);

    if (fd < 0) {
        return sft__base_fail_sys(err, SFT_E_IO, errno, "cannot open the directory \"%.200s\"",
                                  path);
    }
    const int cause = sft__fs_sync_entries(fd) == 0 ? 0 : errno;
    (void)close(fd); /* read-only */
    return cause == 0 ? SFT_OK
                      : sft__base_fail_sys(err, SFT_E_IO, cause,
                                           "cannot flush the directory \"%.200s\"", path);
}

sft_status sft__fs_sync_parent(const char *path, sft_error *err) {
    const size_t len = (size_t)(sft__fs_base_name(path) - path);
    char directory[4096] = ".";

    if (len >= sizeof directory) {
        return sft__base_fail_sys(err, SFT_E_IO, ENAMETOOLONG,
                                  "cannot flush the directory of \"%.200s\"", path);
    }
    if (len > 0) {
        memcpy(directory, path, len);
        directory[len] = '\0';
    }
    return sft__fs_sync_directory(directory, err);
}
#endif
