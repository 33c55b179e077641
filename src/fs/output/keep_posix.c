/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * fs/output/keep_posix.c - see keep_posix.h. All but the permission bits is best effort: who may write a
 * file may not always give it away, or set what the system's policy sets.
 */
#ifndef _WIN32
#include "fs/output/keep_posix.h"
#include "base/memory/alloc.h"
#include "fs/file.h"
#include "fs/output/keep.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>
#if defined(__linux__)
#include <sys/xattr.h>
#endif

/* Owner and group, then the bits; those of the group go where the group cannot follow. */
static sft_status keep_mode(int file, const struct stat *was, uint32_t asked, const char *name,
                            sft_error *err) {
    const bool is_asked = (asked & SFT_MODE_SET) != 0;
    uint32_t mode = (is_asked ? asked : (uint32_t)was->st_mode) & 0777u;
    struct stat st;

    if (fstat(file, &st) != 0) {
        return sft__base_fail_sys(err, SFT_E_IO, errno, "cannot look at the new file for \"%s\"",
                                  name);
    }
    if (was->st_mode != 0 && (st.st_uid != was->st_uid || st.st_gid != was->st_gid)) {
        /* best effort: only root may give files away, and to groups that are not its own */
        const bool group = fchown(file, was->st_uid, was->st_gid) == 0 ||
                           st.st_gid == was->st_gid || fchown(file, (uid_t)-1, was->st_gid) == 0;
        if (!is_asked && !group) {
            mode &= ~0070u | (mode & 0007u) << 3; /* ours may do what everybody may */
        }
    }
    /* Where a file system has no modes, all files have the same and there is nothing to set. */
    if (((uint32_t)st.st_mode & 0777u) == mode || fchmod(file, (mode_t)mode) == 0) {
        return SFT_OK;
    }
    return sft__base_fail_sys(err, SFT_E_IO, errno,
                              "cannot set the mode of the new file for \"%s\"", name);
}

#if defined(__linux__)
enum { NAMES_ROOM = 64 << 10, VALUE_ROOM = 64 << 10 }; /* what Linux allows, XATTR_LIST_MAX */

static const char access_list[] = "system.posix_acl_access";

static bool is_kept(const char *name) {
    return strncmp(name, "security.", 9) != 0 && strncmp(name, "trusted.overlay.", 16) != 0;
}

static void keep_attributes(int file, int old, bool mode_asked) {
    char *room = sft__base_alloc(NULL, NAMES_ROOM + VALUE_ROOM);
    bool list = false;

    if (room == NULL) {
        return;
    }
    const ssize_t size = flistxattr(old, room, NAMES_ROOM);
    for (ssize_t at = 0; at < size; at += (ssize_t)strlen(room + at) + 1) {
        const char *name = room + at;
        const bool is_list = strcmp(name, access_list) == 0;
        if (!is_kept(name) || (is_list && mode_asked)) {
            continue;
        }
        const ssize_t n = fgetxattr(old, name, room + NAMES_ROOM, VALUE_ROOM);
        const bool set = n >= 0 && fsetxattr(file, name, room + NAMES_ROOM, (size_t)n, 0) == 0;
        list = list || (is_list && set);
    }
    if (!list &&
        size >= 0) { /* one that the directory gave to the new file: the old one had none */
        (void)fremovexattr(file, access_list);
    }
    sft__base_free(NULL, room, NAMES_ROOM + VALUE_ROOM);
}

void sft__fs_attribute_names(const char *path, sft__base_buf *out) {
    char *room = sft__base_alloc(NULL, NAMES_ROOM);
    const ssize_t size = room != NULL ? listxattr(path, room, NAMES_ROOM) : -1;

    if (size > 0) {
        sft__base_buf_add(out, room, (size_t)size);
        sft__base_buf_add(out, "", 1);
    }
    sft__base_free(NULL, room, NAMES_ROOM);
}
#else
void sft__fs_attribute_names(const char *path, sft__base_buf *out) {
    (void)path, (void)out;
}

static void keep_attributes(int file, int old, bool mode_asked) {
    (void)file, (void)old, (void)mode_asked;
}
#endif

sft_status sft__fs_keep(int file, int old, const struct stat *was, uint32_t mode, const char *name,
                        sft_error *err) {
    const bool asked = (mode & SFT_MODE_SET) != 0;

    if (!asked && was->st_mode == 0) {
        return SFT_OK;
    }
    if (old >= 0) {
        keep_attributes(file, old, asked); /* first: a list of the directory's changes the bits */
    }
    return keep_mode(file, was, mode, name, err);
}

sft_status sft_file_keep(int fd, const char *path, sft_error *err) {
    struct stat was;

    if (stat(path, &was) != 0 || !S_ISREG(was.st_mode)) {
        return SFT_OK;
    }
    const int old = sft__fs_open_at(AT_FDCWD, path, O_RDONLY | O_NONBLOCK | O_NOCTTY, 0);
    struct stat opened;
    if (old >= 0 && fstat(old, &opened) == 0 && S_ISREG(opened.st_mode)) {
        was = opened;
    }
    const sft_status status = sft__fs_keep(fd, old, &was, 0, path, err);
    if (old >= 0) {
        (void)close(old); /* read-only */
    }
    return status;
}

sft_status sft__fs_keep_path(const char *path, const char *old, sft_error *err) {
    const int fd = sft__fs_open_at(AT_FDCWD, path, O_RDONLY | O_NOFOLLOW, 0);

    if (fd < 0) {
        return sft__base_fail_sys(err, SFT_E_IO, errno, "cannot open \"%.200s\"", path);
    }
    const sft_status status = sft_file_keep(fd, old, err);
    (void)close(fd); /* read-only */
    return status;
}
#endif
