/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/write/output_posix.c - a file of known size that is written at any place by many threads, and
 * appears whole or not at all: preallocated beside its place under another name, flushed, renamed
 * or linked. Read first: export.h.
 */
#ifndef _WIN32
#include "import/core/convert.h"
#include "import/write/export.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

struct sft__output {
    const sft_allocator *allocator;
    int fd;
    bool replace;
    bool named; /* temp is there */
    char path[PATH_MAX];
    char temp[PATH_MAX + 32];
};

/* The file that `path` means, symbolic links followed; SFT_E_EXISTS and what is no file. */
static sft_status find_place(sft__output *o, const char *path, sft_error *err) {
    struct stat st;
    const bool exists = stat(path, &st) == 0;

    if (exists && !S_ISREG(st.st_mode)) {
        return sft__fail(err, SFT_E_NOT_REGULAR, "%.200s is not a regular file", path);
    }
    if (exists && !o->replace) {
        return sft__fail_sys(err, SFT_E_EXISTS, EEXIST, "cannot create %.200s", path);
    }
    if (exists && realpath(path, o->path) != NULL) {
        return SFT_OK;
    }
    const int n = snprintf(o->path, sizeof o->path, "%s", path);
    return n > 0 && (size_t)n < sizeof o->path
               ? SFT_OK
               : sft__fail(err, SFT_E_PATH, "the path is empty or too long");
}

static sft_status make_file(sft__output *o, uint64_t size, sft_error *err) {
    SFT_TRY(sft__temp_name(o->temp, sizeof o->temp, o->path, err));
    o->fd = open(o->temp, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (o->fd < 0) {
        return sft__fail_sys(err, SFT_E_IO, errno, "cannot create %.200s", o->temp);
    }
    o->named = true;
    if (o->replace) {
        SFT_TRY(sft_file_keep(o->fd, o->path, err));
    }
    if (size > INT64_MAX || (uint64_t)(off_t)size != size) {
        return sft__fail_sys(err, SFT_E_IO, EFBIG, "cannot make a file of %llu bytes",
                             (unsigned long long)size);
    }
    const int error = size == 0 ? 0 : posix_fallocate(o->fd, 0, (off_t)size);
    if (error == ENOSPC || error == EFBIG) {
        return sft__fail_sys(err, SFT_E_IO, error, "cannot make room for %llu bytes",
                             (unsigned long long)size);
    }
    if (error != 0 && ftruncate(o->fd, (off_t)size) != 0) {
        return sft__fail_sys(err, SFT_E_IO, errno, "cannot make room for %llu bytes",
                             (unsigned long long)size);
    }
    return SFT_OK;
}

sft_status sft__output_create(sft__output **out, const char *path, uint64_t size, bool replace,
                              const sft_allocator *allocator, sft_error *err) {
    sft__output *o = sft__alloc_zero(allocator, sizeof *o);

    *out = NULL;
    if (o == NULL) {
        return sft__fail_nomem(err, sizeof *o);
    }
    o->allocator = allocator;
    o->fd = -1;
    o->replace = replace;
    sft_status status = find_place(o, path, err);
    if (status == SFT_OK) {
        status = make_file(o, size, err);
    }
    if (status != SFT_OK) {
        sft__output_free(o);
        return status;
    }
    *out = o;
    return SFT_OK;
}

sft_status sft__output_write(sft__output *o, uint64_t offset, const void *data, size_t size,
                             sft_error *err) {
    const char *p = data;

    while (size > 0) {
        const ssize_t n = pwrite(o->fd, p, size, (off_t)offset);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            return sft__fail_sys(err, SFT_E_IO, n < 0 ? errno : EIO, "cannot write %.200s",
                                 o->temp);
        }
        p += n;
        offset += (uint64_t)n;
        size -= (size_t)n;
    }
    return SFT_OK;
}

sft_status sft__output_commit(sft__output *o, bool durable, sft_error *err) {
    const int fd = o->fd;

    if (durable && fsync(fd) != 0) {
        return sft__fail_sys(err, SFT_E_NOT_COMMITTED, errno, "cannot flush %.200s", o->temp);
    }
    o->fd = -1;
    if (close(fd) != 0) {
        return sft__fail_sys(err, SFT_E_NOT_COMMITTED, errno, "cannot close %.200s", o->temp);
    }
    SFT_TRY(sft__put_in_place(o->temp, o->path, o->replace, err));
    (void)unlink(o->temp); /* the second name, if there is one */
    o->named = false;
    return durable ? sft__flush_folder(o->path, err) : SFT_OK;
}

void sft__output_free(sft__output *o) {
    if (o == NULL) {
        return;
    }
    if (o->fd >= 0) {
        (void)close(o->fd);
    }
    if (o->named) {
        (void)unlink(o->temp);
    }
    sft__free(o->allocator, o, sizeof *o);
}
#endif
