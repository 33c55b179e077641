/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * fs/below_posix.c - opening a file below a folder in a way that no symbolic link leads out,
 * however links are exchanged meanwhile. Where the kernel has openat2 it does the whole walk
 * (RESOLVE_BENEATH). Otherwise, and for the links of the Hugging Face cache, the path is resolved
 * first, judged as text, and then walked without following any link: what is opened in the end lies
 * where the judgement said. Read first: sft__fs_open_below in file.h.
 */
#ifndef _WIN32
#if defined(__linux__) && !defined(_GNU_SOURCE)
#define _GNU_SOURCE
#endif
#include "fs/below.h"
#include "fs/file.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#if defined(__linux__)
#include <sys/syscall.h>
#endif

#ifndef PATH_MAX
#define PATH_MAX 4096
#endif

enum { OPEN_FLAGS = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, RACES_MAX = 64 };

#if !defined(O_LARGEFILE)
#define O_LARGEFILE 0
#endif

#if defined(SYS_openat2)
/* From linux/openat2.h, which older system headers lack. */
struct how {
    uint64_t flags;
    uint64_t mode;
    uint64_t resolve;
};
enum { HOW_NO_MAGICLINKS = 0x02, HOW_BENEATH = 0x08 };

/* A descriptor, or -1 with errno; ENOSYS: ask someone else. */
static int open_beneath(int folder, const char *name) {
    /* what the C library's open adds by itself on 32 bits: else files of 2 GiB are refused */
    const struct how how = {OPEN_FLAGS | O_LARGEFILE, 0, HOW_BENEATH | HOW_NO_MAGICLINKS};
    long fd = -1;

    for (int i = 0; i < RACES_MAX; i++) { /* EAGAIN: something on the way was renamed meanwhile */
        fd = syscall(SYS_openat2, folder, name, &how, sizeof how);
        if (fd >= 0 || (errno != EAGAIN && errno != EINTR)) {
            break;
        }
    }
    if (fd < 0 && (errno == EPERM || errno == EINVAL || errno == EAGAIN)) {
        errno = ENOSYS; /* a sandbox that does not know the call, or an endless race */
    }
    return (int)fd;
}
#else
static int open_beneath(int folder, const char *name) {
    (void)folder, (void)name;
    errno = ENOSYS;
    return -1;
}
#endif

/* openat, again after a signal. */
static int open_again(int folder, const char *name, int flags) {
    int fd;
    do {
        fd = openat(folder, name, flags);
    } while (fd < 0 && errno == EINTR);
    return fd;
}

/* Opens base/rest without following a link in rest. rest is a resolved path: plain components. */
static int open_unlinked(const char *base, const char *rest) {
    char component[NAME_MAX + 1];
    int at = open_again(AT_FDCWD, base, O_RDONLY | O_CLOEXEC | O_DIRECTORY);

    while (at >= 0) {
        const char *slash = strchr(rest, '/');
        const size_t len = slash != NULL ? (size_t)(slash - rest) : strlen(rest);
        const int folder_only = slash != NULL ? O_DIRECTORY : 0;
        int next = -1;
        if (len > NAME_MAX) {
            errno = ENAMETOOLONG;
        } else {
            memcpy(component, rest, len);
            component[len] = '\0';
            next = open_again(at, component, OPEN_FLAGS | O_NOFOLLOW | folder_only);
        }
        const int sys = errno;
        (void)close(at);
        errno = sys;
        at = next;
        if (slash == NULL) {
            break;
        }
        rest = slash + 1;
    }
    return at;
}

/* If real lies in the folder `base` (base_len bytes of it): the part behind; else NULL. */
static const char *inside(const char *real, const char *base, size_t base_len) {
    if (base_len == 1 && base[0] == '/') {
        base_len = 0;
    }
    return strncmp(real, base, base_len) == 0 && real[base_len] == '/' ? real + base_len + 1 : NULL;
}

sft_status sft__fs_open_below_resolved(const char *folder_path, const char *name, int *out,
                                       bool *missing, sft_error *err) {
    char folder_real[PATH_MAX];
    char joined[PATH_MAX];
    char real[PATH_MAX];
    const size_t folder_len = strlen(folder_path);
    const char *rest;

    *out = -1;
    *missing = false;
    if (folder_len + strlen(name) + 2 > sizeof joined) {
        return sft__fail_sys(err, SFT_E_IO, ENAMETOOLONG, "cannot open %s", name);
    }
    memcpy(joined, folder_path, folder_len);
    joined[folder_len] = '/';
    memcpy(joined + folder_len + 1, name, strlen(name) + 1);
    if (realpath(folder_len != 0 ? folder_path : ".", folder_real) == NULL) {
        return sft__fail_sys(err, SFT_E_IO, errno, "cannot resolve %s", folder_path);
    }
    if (realpath(folder_len != 0 ? joined : name, real) == NULL) {
        *missing = errno == ENOENT || errno == ENOTDIR;
        return sft__fail_sys(err,
                             *missing         ? SFT_E_SHARD_MISSING
                             : errno == ELOOP ? SFT_E_PATH
                                              : SFT_E_IO,
                             errno, "cannot open %s", name);
    }
    if (strcmp(real, folder_real) == 0) {
        return sft__fail(err, SFT_E_NOT_REGULAR, "%s is a link to its own folder", name);
    }
    rest = inside(real, folder_real, strlen(folder_real));
    if (rest == NULL) { /* the cache's links: the repository's folder is the base then */
        const size_t root_len = sft__fs_cache_root(folder_real);
        folder_real[root_len] = '\0';
        rest = root_len != 0 ? inside(real, folder_real, root_len) : NULL;
        if (rest == NULL || strncmp(rest, "blobs/", 6) != 0) {
            return sft__fail(err, SFT_E_PATH, "%s is a link that leads out of its folder, to %s",
                             name, real);
        }
    }
    *out = open_unlinked(folder_real, rest);
    if (*out < 0) {
        *missing = errno == ENOENT || errno == ENOTDIR;
        return sft__fail_sys(err,
                             *missing         ? SFT_E_SHARD_MISSING
                             : errno == ELOOP ? SFT_E_PATH
                             : errno == ENXIO ? SFT_E_NOT_REGULAR
                                              : SFT_E_IO,
                             errno, "cannot open %s", name);
    }
    return SFT_OK;
}

sft_status sft__fs_open_below(sft__fs_handle folder, const char *folder_path, const char *name,
                              sft__fs_handle *out, sft__fs_stat *st, bool *missing, sft_error *err) {
    int fd = open_beneath((int)folder, name);

    *out = SFT__FS_NO_HANDLE;
    *missing = false;
    if (fd < 0 && (errno == ENOSYS || errno == EXDEV)) {
        SFT_TRY(sft__fs_open_below_resolved(folder_path, name, &fd, missing, err));
    } else if (fd < 0) {
        *missing = errno == ENOENT || errno == ENOTDIR;
        return sft__fail_sys(err,
                             *missing         ? SFT_E_SHARD_MISSING
                             : errno == ELOOP ? SFT_E_PATH
                             : errno == ENXIO ? SFT_E_NOT_REGULAR
                                              : SFT_E_IO,
                             errno, "cannot open %s", name);
    }
    const sft_status status = sft__fs_stat_file(fd, name, st, err);
    if (status == SFT_OK && st->regular) {
        *out = fd;
        return SFT_OK;
    }
    (void)close(fd);
    return status != SFT_OK ? status
                            : sft__fail(err, SFT_E_NOT_REGULAR, "%s is a %s, not a regular file",
                                        name, st->folder ? "folder" : "special file");
}
#else
typedef int sft__fs_below_posix_empty;
#endif
