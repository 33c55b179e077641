/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * checkpoint/folder_posix.c - the entries of a folder, and files below it. Read checkpoint/space.h
 * first.
 */
#ifndef _WIN32
#include "base/error.h"
#include "checkpoint/space.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sft/extend.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

bool sft__ck_is_folder(const char *path) {
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

sft_status sft__ck_look(const char *path, bool *folder, sft_error *err) {
    struct stat st;
    *folder = stat(path, &st) == 0;
    if (*folder) {
        *folder = S_ISDIR(st.st_mode);
    } else if (errno != ENOENT && errno != ENOTDIR && errno != ELOOP) {
        return sft__fail_sys(err, SFT_E_IO, errno, "cannot look at \"%.200s\"", path);
    }
    return SFT_OK;
}

sft_status sft__ck_list(const char *folder, sft__ck_visit visit, void *ctx, sft_error *err) {
    DIR *const d = opendir(folder);
    sft_status status = SFT_OK;
    if (d == NULL) {
        return sft__fail_sys(err, SFT_E_IO, errno, "cannot list the folder");
    }
    while (status == SFT_OK) {
        errno = 0;
        const struct dirent *const e = readdir(d);
        if (e == NULL) {
            status =
                errno != 0 ? sft__fail_sys(err, SFT_E_IO, errno, "cannot list the folder") : SFT_OK;
            break;
        }
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0) {
            status = visit(ctx, e->d_name, strlen(e->d_name), err);
        }
    }
    (void)closedir(d);
    return status;
}

/* What lies at `below`, a path without links, part by part from the open folder on: no link is
 * followed, so it is inside whatever happens meanwhile. `below` is cut at its slashes. */
static bool look_below(const char *folder, char *below, struct stat *st) {
    int at = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    for (char *part = below; at >= 0;) {
        char *const slash = strchr(part, '/');
        if (slash == NULL) {
            const bool good = fstatat(at, part, st, AT_SYMLINK_NOFOLLOW) == 0;
            (void)close(at);
            return good;
        }
        *slash = '\0';
        const int next = openat(at, part, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        (void)close(at);
        at = next;
        part = slash + 1;
    }
    return false;
}

/* Both paths without their links: one must begin with the other. That is known of names alone, so
 * the file that was opened is compared with what lies inside. */
static sft_status open_resolved(const char *folder, char *file, const char *name,
                                const sft_allocator *allocator, sft_source **out, sft_error *err) {
    const size_t len = strlen(folder);
    const bool root = len == 1; /* "/" */
    struct stat inside;
    struct stat opened;
    if (strncmp(file, folder, len) != 0 || (!root && file[len] != '/')) {
        return sft__fail(err, SFT_E_PATH, "%s is a link out of its folder", name);
    }
    SFT_TRY(sft_source_open(out, file, SFT_ACCESS_READ, allocator, err));
    if (!look_below(folder, file + len + (root ? 0 : 1), &inside) ||
        fstat(sft_source_descriptor(*out), &opened) != 0 || inside.st_dev != opened.st_dev ||
        inside.st_ino != opened.st_ino) {
        sft_source_close(*out);
        *out = NULL;
        return sft__fail(err, SFT_E_CHANGED, "%s was replaced while it was opened", name);
    }
    return SFT_OK;
}

sft_status sft__ck_open_below(const char *folder, const char *name, const sft_allocator *allocator,
                              sft_source **out, bool *missing, sft_error *err) {
    const size_t a = strlen(folder);
    const size_t b = strlen(name);
    sft_status status;
    *out = NULL;
    *missing = false;
    char *const path = sft__alloc(allocator, a + b + 2);
    if (path == NULL) {
        return sft__fail_nomem(err, a + b + 2);
    }
    memcpy(path, folder, a);
    path[a] = '/';
    memcpy(path + a + 1, name, b + 1);
    char *const real_folder = realpath(folder, NULL);
    char *const real_file = realpath(path, NULL);
    if (real_folder == NULL || real_file == NULL) {
        *missing = errno == ENOENT || errno == ENOTDIR;
        status = sft__fail_sys(err, *missing ? SFT_E_SHARD_MISSING : SFT_E_IO, errno,
                               "cannot open %s", path);
    } else {
        status = open_resolved(real_folder, real_file, name, allocator, out, err);
    }
    free(real_folder);
    free(real_file);
    sft__free(allocator, path, a + b + 2);
    return status;
}
#endif
