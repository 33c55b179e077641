/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/core/beside_posix.c - opens a file below the folder of the one that is read, part by part,
 * without following links, so that nobody who made the files chooses what is opened. A device or
 * pipe is looked at, never opened. Read first: beside.h.
 */
#ifndef _WIN32
#include "import/core/beside.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct beside {
    const sft_allocator *allocator;
    uint64_t size;
    uint32_t flags;
    size_t bytes; /* of this object */
    const char *location;
    char folder[]; /* then location, each with its NUL */
} beside;

static sft_status refused(sft_error *err, const char *location, const char *why) {
    char text[256];
    (void)sft_escape(text, sizeof text, location, strlen(location));
    return sft__fail(err, SFT_E_PATH, "external data \"%s\": %s", text, why);
}

/* The length of the repository's part of a path in the Hugging Face cache, .../models--NAME, else
 * 0. */
static size_t cache_root(const char *path) {
    static const char *const kinds[] = {"/models--", "/datasets--", "/spaces--"};
    size_t best = 0;

    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
        const char *at = strstr(path, kinds[k]);
        const char *end = at != NULL ? strchr(at + 1, '/') : NULL;
        if (end != NULL && strncmp(end, "/snapshots/", 11) == 0) {
            best = (size_t)(end - path);
        }
    }
    return best;
}

/* A link of the cache's snapshots into its blobs: its target, to be freed. */
static char *cache_target(const char *folder, const char *location) {
    char joined[2 * SFT__BESIDE_PATH];
    const size_t n = strlen(folder);
    const size_t m = strlen(location);

    if (n + m + 2 > sizeof joined) {
        return NULL;
    }
    memcpy(joined, folder, n);
    joined[n] = '/';
    memcpy(joined + n + 1, location, m + 1);
    char *from = realpath(folder, NULL);
    char *to = realpath(joined, NULL);
    const size_t root = from != NULL ? cache_root(from) : 0;
    if (root == 0 || to == NULL || strncmp(to, from, root) != 0 ||
        strncmp(to + root, "/blobs/", 7) != 0) {
        free(to);
        to = NULL;
    }
    free(from);
    return to;
}

static sft_status open_regular(int at, const char *name, int more, int *fd, const char *location,
                               sft_error *err) {
    struct stat st;
    const int look = (more & O_NOFOLLOW) != 0 ? AT_SYMLINK_NOFOLLOW : 0;

    *fd = -1;
    if (fstatat(at, name, &st, look) == 0 && !S_ISREG(st.st_mode)) {
        return S_ISLNK(st.st_mode) ? refused(err, location, "a link")
                                   : refused(err, location, "not a regular file");
    }
    *fd = openat(at, name, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC | more);
    if (*fd < 0) {
        return sft__fail_sys(err, SFT_E_IO, errno, "cannot open the external data");
    }
    if (fstat(*fd, &st) != 0 || !S_ISREG(st.st_mode)) {
        (void)close(*fd);
        *fd = -1;
        return refused(err, location, "not a regular file");
    }
    return SFT_OK;
}

/* Walks the parts of location below `folder`; link: a part was one. */
static sft_status walk(const char *folder, const char *location, int more, int *fd, bool *link,
                       sft_error *err) {
    char part[SFT__BESIDE_PATH];
    int at = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct stat st;

    *fd = -1;
    *link = false;
    if (at < 0) {
        return sft__fail_sys(err, SFT_E_IO, errno, "cannot open the model's folder");
    }
    for (const char *p = location;;) {
        const char *slash = strchr(p, '/');
        const size_t n = slash != NULL ? (size_t)(slash - p) : strlen(p);
        memcpy(part, p, n); /* sft__beside_is_good: shorter than the buffer */
        part[n] = '\0';
        *link = fstatat(at, part, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(st.st_mode);
        if (slash == NULL) {
            break;
        }
        const int next = openat(at, part, O_RDONLY | O_DIRECTORY | O_CLOEXEC | more);
        const int sys = errno;
        (void)close(at);
        if (next < 0) {
            return *link ? refused(err, location, "a link")
                         : sft__fail_sys(err, SFT_E_IO, sys,
                                         "cannot open the external data's folder");
        }
        at = next;
        p = slash + 1;
    }
    const sft_status status = open_regular(at, part, more, fd, location, err);
    (void)close(at);
    return status;
}

static sft_status open_below(const char *folder, const char *location, uint32_t flags, int *fd,
                             sft_error *err) {
    const int more = (flags & SFT_IMPORT_FOLLOW_LINKS) != 0 ? 0 : O_NOFOLLOW;
    bool link;
    sft_status status = walk(folder, location, more, fd, &link, err);

    if (status == SFT_E_PATH && link) {
        char *target = cache_target(folder, location);
        if (target != NULL) {
            status = open_regular(AT_FDCWD, target, O_NOFOLLOW, fd, location, err);
        }
        free(target);
    }
    return status;
}

static sft_status reopen_read(void *self, uint64_t offset, void *dst, size_t size, sft_error *err) {
    const beside *b = self;
    sft_source *source;
    int fd;

    SFT_TRY(open_below(b->folder, b->location, b->flags, &fd, err));
    sft_status status = sft_source_open_fd(&source, fd, SFT_ACCESS_READ, b->allocator, err);
    (void)close(fd);
    if (status != SFT_OK) {
        return status;
    }
    status = sft_source_read(source, offset, dst, size, err);
    sft_source_close(source);
    return status;
}

static void reopen_close(void *self) {
    beside *b = self;
    sft__free(b->allocator, b, b->bytes);
}

static sft_status reopening(sft_source **out, const sft__import *job, const char *folder,
                            const char *location, uint64_t size, sft_error *err) {
    const size_t n = strlen(folder) + 1;
    const size_t m = strlen(location) + 1;
    sft_source_vtable vtable;
    beside *b = sft__alloc(job->allocator, sizeof *b + n + m);

    if (b == NULL) {
        return sft__fail_nomem(err, sizeof *b + n + m);
    }
    *b = (beside){job->allocator, size, job->options.flags, sizeof *b + n + m, b->folder + n};
    memcpy(b->folder, folder, n);
    memcpy(b->folder + n, location, m);
    SFT_INIT(&vtable);
    vtable.read_at = reopen_read;
    vtable.close = reopen_close;
    const sft_status status =
        sft_source_create(out, &vtable, b, size, 0, location, job->allocator, err);
    if (status != SFT_OK) {
        reopen_close(b);
    }
    return status;
}

sft_status sft__beside_open(sft_source **out, const sft__import *job, const char *location,
                            bool keep, sft_error *err) {
    char folder[SFT__BESIDE_PATH] = ".";
    const char *slash = job->path != NULL ? strrchr(job->path, '/') : NULL;
    int fd;

    *out = NULL;
    if (!sft__beside_is_good(location, strlen(location))) {
        return refused(err, location, "leads out of the model's folder, or is no plain path");
    }
    if (job->path == NULL) {
        return sft__fail(err, SFT_E_UNSUPPORTED,
                         "external data: the model is not opened by a path, so there is no folder");
    }
    if (slash != NULL) {
        const size_t n = slash == job->path ? 1 : (size_t)(slash - job->path);
        if (n >= sizeof folder) {
            return sft__fail(err, SFT_E_PATH, "the path is too long");
        }
        memcpy(folder, job->path, n);
        folder[n] = '\0';
    }
    SFT_TRY(open_below(folder, location, job->options.flags, &fd, err));
    sft_source *source;
    sft_status status =
        sft_source_open_fd(&source, fd, job->options.access, job->options.allocator, err);
    (void)close(fd);
    if (status != SFT_OK || keep) {
        *out = status == SFT_OK ? source : NULL;
        return status;
    }
    const uint64_t size = sft_source_size(source);
    sft_source_close(source);
    return reopening(out, job, folder, location, size, err);
}
#endif
