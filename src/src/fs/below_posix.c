/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * fs/below_posix.c - opening a file below a directory in a way that no symbolic link leads out,
 * however links are exchanged meanwhile. Where the kernel has openat2 it does the whole walk
 * (RESOLVE_BENEATH); where no link may be there it is done part by part. Otherwise, and for the links
 * of the Hugging Face cache, the path is resolved first, judged as text, and then walked without
 * following any link: what is opened in the end lies where the judgement said. What is no regular file
 * is only looked at. Read first: below.h.
 */
#ifndef _WIN32
#if defined(__linux__) && !defined(_GNU_SOURCE)
#define _GNU_SOURCE
#endif
#include "fs/below.h"
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

/* 0: a regular file. Else the errno that stands for what it is: see failed(). */
static int not_regular(const struct stat *st) {
    return S_ISREG(st->st_mode)   ? 0
           : S_ISLNK(st->st_mode) ? ELOOP
           : S_ISDIR(st->st_mode) ? EISDIR
                                  : ENXIO;
}

#if defined(SYS_openat2)
/* From linux/openat2.h, which older system headers lack. */
struct how {
    uint64_t flags;
    uint64_t mode;
    uint64_t resolve;
};
enum { HOW_NO_MAGICLINKS = 0x02, HOW_BENEATH = 0x08 };

/* A descriptor, or -1 with errno; ENOSYS: ask someone else. */
static int resolve_beneath(const sft__fs_root *root, const char *name, uint64_t flags) {
    const struct how how = {flags, 0, HOW_BENEATH | HOW_NO_MAGICLINKS};
    long fd = -1;

    for (int i = 0; i < RACES_MAX; i++) { /* EAGAIN: something on the way was renamed meanwhile */
        fd = syscall(SYS_openat2, (int)root->directory, name, &how, sizeof how);
        if (fd >= 0 || (errno != EAGAIN && errno != EINTR)) {
            break;
        }
    }
    if (fd < 0 && (errno == EPERM || errno == EINVAL || errno == EAGAIN)) {
        errno = ENOSYS; /* a sandbox that does not know the call, or an endless race */
    }
    return (int)fd;
}

static int open_beneath(const sft__fs_root *root, const char *name) {
    struct stat st;
    const int look = resolve_beneath(root, name, O_PATH | O_CLOEXEC);

    if (look < 0) {
        return -1;
    }
    const int sys = fstat(look, &st) != 0 ? errno : not_regular(&st);
    (void)close(look);
    if (sys != 0) {
        errno = sys;
        return -1;
    }
    /* what the C library's open adds by itself on 32 bits: else files of 2 GiB are refused */
    return resolve_beneath(root, name, OPEN_FLAGS | O_LARGEFILE);
}
#else
static int open_beneath(const sft__fs_root *root, const char *name) {
    (void)root, (void)name;
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

/* Opens a file in a directory, after a look at it. links: AT_SYMLINK_NOFOLLOW or 0. */
static int open_regular(int folder, const char *name, int links) {
    struct stat st;

    if (fstatat(folder, name, &st, links) != 0) {
        return -1;
    }
    const int sys = not_regular(&st);
    if (sys != 0) {
        errno = sys;
        return -1;
    }
    return open_again(folder, name, OPEN_FLAGS | (links != 0 ? O_NOFOLLOW : 0));
}

/* Opens the directory `name`, which is no link. */
static int open_part(int folder, const char *name) {
    struct stat st;

    if (fstatat(folder, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(st.st_mode)) {
        errno = ELOOP;
        return -1;
    }
    return open_again(folder, name, OPEN_FLAGS | O_NOFOLLOW | O_DIRECTORY);
}

/* Opens base/rest, part by part, without following a link in rest. at: the open base, closed in any case. */
static int open_unlinked(int at, const char *rest) {
    char component[NAME_MAX + 1];

    while (at >= 0) {
        const char *slash = strchr(rest, '/');
        const size_t len = slash != NULL ? (size_t)(slash - rest) : strlen(rest);
        int next = -1;
        if (len > NAME_MAX) {
            errno = ENAMETOOLONG;
        } else {
            memcpy(component, rest, len);
            component[len] = '\0';
            next = slash != NULL ? open_part(at, component)
                                 : open_regular(at, component, AT_SYMLINK_NOFOLLOW);
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

/* What errno says of a file that could not be opened. */
static sft_status failed(const char *name, int sys, bool *missing, sft_error *err) {
    if (sys == ENXIO || sys == EISDIR) {
        return sft__base_fail(err, SFT_E_NOT_REGULAR, "%s is a %s, not a regular file", name,
                              sys == EISDIR ? "directory" : "special file");
    }
    *missing = sys == ENOENT || sys == ENOTDIR;
    return sft__base_fail_sys(err,
                              *missing       ? SFT_E_SHARD_MISSING
                              : sys == ELOOP ? SFT_E_PATH
                                             : SFT_E_IO,
                              sys, "cannot open %s", name);
}

/* If real lies in the directory `base` (base_len bytes of it): the part behind; else NULL. */
static const char *inside(const char *real, const char *base, size_t base_len) {
    if (base_len == 1 && base[0] == '/') {
        base_len = 0;
    }
    return strncmp(real, base, base_len) == 0 && real[base_len] == '/' ? real + base_len + 1 : NULL;
}

/* Are both the same parts? A part "." of the name counts for nothing. */
static bool same_parts(const char *plain, const char *name) {
    bool first = true; /* of a part */

    for (;;) {
        while (first && name[0] == '.' && name[1] == '/') {
            name += 2;
        }
        if (*plain != *name || *plain == '\0') {
            return *plain == *name;
        }
        first = *name == '/';
        plain++;
        name++;
    }
}

/* Where the file lies: the part of its real path behind `base`, which is cut to what that is a part of.
 * NULL: it lies where it may not. */
static const char *judge(const sft__fs_root *root, char *base, const char *real, const char *name) {
    const char *rest = inside(real, base, strlen(base));

    if (rest != NULL && (root->links != SFT__FS_LINKS_NONE || same_parts(rest, name))) {
        return rest;
    }
    /* the cache's links: the repository's directory is the base then */
    const size_t len = sft__fs_cache_root(base);
    base[len] = '\0';
    rest = len != 0 ? inside(real, base, len) : NULL;
    return rest != NULL && strncmp(rest, "blobs/", 6) == 0 ? rest : NULL;
}

sft_status sft__fs_open_below_resolved(const sft__fs_root *root, const char *name, int *out,
                                       bool *missing, sft_error *err) {
    char base[PATH_MAX];
    char joined[PATH_MAX];
    char real[PATH_MAX];
    const size_t len = strlen(root->path);
    const char *file = len != 0 ? joined : name;
    struct stat st;

    *out = -1;
    *missing = false;
    if (len + strlen(name) + 2 > sizeof joined) {
        return sft__base_fail_sys(err, SFT_E_IO, ENAMETOOLONG, "cannot open %s", name);
    }
    memcpy(joined, root->path, len);
    joined[len] = '/';
    memcpy(joined + len + 1, name, strlen(name) + 1);
    if (realpath(len != 0 ? root->path : ".", base) == NULL) {
        return sft__base_fail_sys(err, SFT_E_IO, errno, "cannot resolve %s", root->path);
    }
    if (realpath(file, real) == NULL) {
        const int sys = errno;
        const bool link = root->links == SFT__FS_LINKS_NONE && lstat(file, &st) == 0 &&
                          S_ISLNK(st.st_mode); /* to nothing */
        return failed(name, link ? ELOOP : sys, missing, err);
    }
    if (strcmp(real, base) == 0 && root->links != SFT__FS_LINKS_NONE) {
        return sft__base_fail(err, SFT_E_NOT_REGULAR, "%s is a link to its own directory", name);
    }
    const char *rest = judge(root, base, real, name);
    if (rest == NULL) {
        return sft__base_fail(err, SFT_E_PATH,
                              "%s is a link that leads out of its directory, to %s", name, real);
    }
    *out = open_unlinked(open_again(AT_FDCWD, base, O_RDONLY | O_CLOEXEC | O_DIRECTORY), rest);
    return *out >= 0 ? SFT_OK : failed(name, errno, missing, err);
}

static sft_status open_name(const sft__fs_root *root, const char *name, int *out, bool *missing,
                            sft_error *err) {
    const int folder = (int)root->directory;
    const bool none = root->links == SFT__FS_LINKS_NONE;

    if (root->links == SFT__FS_LINKS_ANY) {
        *out = open_regular(folder, name, 0);
    } else if (none) {
        *out = open_unlinked(open_again(folder, ".", O_RDONLY | O_CLOEXEC | O_DIRECTORY), name);
    } else {
        *out = open_beneath(root, name);
    }
    if (*out >= 0) {
        return SFT_OK;
    }
    const bool resolve =
        none ? errno == ELOOP
             : root->links == SFT__FS_LINKS_INSIDE && (errno == ENOSYS || errno == EXDEV);
    return resolve ? sft__fs_open_below_resolved(root, name, out, missing, err)
                   : failed(name, errno, missing, err);
}

sft_status sft__fs_open_below(const sft__fs_root *root, const char *name, sft__fs_handle *out,
                              sft__fs_stat *st, bool *missing, sft_error *err) {
    int fd;

    *out = SFT__FS_NO_HANDLE;
    *missing = false;
    SFT_TRY(open_name(root, name, &fd, missing, err));
    const sft_status status = sft__fs_stat_file(fd, name, st, err);
    if (status == SFT_OK && st->regular) {
        *out = fd;
        return SFT_OK;
    }
    (void)close(fd); /* exchanged after the look */
    return status != SFT_OK ? status : failed(name, st->folder ? EISDIR : ENXIO, missing, err);
}
#else
typedef int sft__fs_below_posix_empty;
#endif
