/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/core/beside.c - which names a file may give to others beside it, and sources over these. They are
 * opened by fs/below.h, so that nobody who made the files chooses what is opened. Read first: beside.h.
 */
#include "import/core/beside.h"
#include "fs/below.h"

typedef struct beside {
    const sft_allocator *allocator;
    sft__fs_handle file; /* SFT__FS_NO_HANDLE: opened for every read */
    uint32_t flags;
    size_t bytes; /* of this object */
    const char *location;
    char directory[]; /* then location, each with its NUL */
} beside;

bool sft__import_beside_is_good(const char *location, size_t len) {
    size_t part = 0;
    bool named = false;

    if (len == 0 || len >= SFT__BESIDE_PATH || location[0] == '/' ||
        (len > 1 && location[1] == ':')) {
        return false;
    }
    for (size_t i = 0; i <= len; i++) {
        if (i < len && (location[i] == '\0' || location[i] == '\\')) {
            return false;
        }
        if (i < len && location[i] != '/') {
            continue;
        }
        const size_t n = i - part;
        if (n == 0 || (n == 2 && location[part] == '.' && location[part + 1] == '.')) {
            return false;
        }
        named = !(n == 1 && location[part] == '.');
        part = i + 1;
    }
    return named;
}

static sft_status refused(sft_error *err, const char *location, const char *why) {
    char text[256];
    (void)sft_escape(text, sizeof text, location, strlen(location));
    return sft__base_fail(err, SFT_E_PATH, "external data \"%s\": %s", text, why);
}

static sft_status open_directory(const char *directory, sft__fs_handle *out, sft_error *err) {
    sft__fs_stat st;
    sft_error why;

    memset(&why, 0, sizeof why);
    if (sft__fs_open_any(directory, out, &st, &why) != SFT_OK) {
        return sft__base_fail_sys(err, SFT_E_IO, why.sys, "cannot open the model's directory");
    }
    if (!st.directory) {
        sft__fs_close(*out);
        return sft__base_fail(err, SFT_E_IO, "the model's directory is a file");
    }
    return SFT_OK;
}

static sft_status open_below(const char *directory, const char *location, uint32_t flags,
                             sft__fs_handle *out, sft__fs_stat *st, sft_error *err) {
    const bool follow = (flags & SFT_IMPORT_FOLLOW_LINKS) != 0;
    sft__fs_root root = {SFT__FS_NO_HANDLE, directory,
                         follow ? SFT__FS_LINKS_ANY : SFT__FS_LINKS_NONE};
    sft_error why;
    bool missing;

    SFT_TRY(open_directory(directory, &root.directory, err));
    memset(&why, 0, sizeof why);
    const sft_status status = sft__fs_open_below(&root, location, out, st, &missing, &why);
    sft__fs_close(root.directory);
    switch (status) {
    case SFT_OK:
        return SFT_OK;
    case SFT_E_PATH:
        return refused(err, location, "a link");
    case SFT_E_NOT_REGULAR:
        return refused(err, location, "not a regular file");
    case SFT_E_UNSUPPORTED:
        return sft__base_fail(err, SFT_E_UNSUPPORTED,
                              "external data: files beside the model are not opened on Windows");
    default:
        return sft__base_fail_sys(err, SFT_E_IO, why.sys, "cannot open the external data");
    }
}

static sft_status beside_read(void *self, uint64_t offset, void *dst, size_t size, sft_error *err) {
    const beside *b = self;
    sft__fs_handle file;
    sft__fs_stat st;

    if (b->file != SFT__FS_NO_HANDLE) {
        return sft__fs_read_at(b->file, b->location, offset, dst, size, err);
    }
    SFT_TRY(open_below(b->directory, b->location, b->flags, &file, &st, err));
    const sft_status status = sft__fs_read_at(file, b->location, offset, dst, size, err);
    sft__fs_close(file);
    return status;
}

static void beside_close(void *self) {
    beside *b = self;
    sft__fs_close(b->file);
    sft__base_free(b->allocator, b, b->bytes);
}

/* The file's directory and its path in there; its bytes. */
typedef struct found {
    char directory[SFT__BESIDE_PATH];
    const char *location;
    uint64_t size;
} found;

/* A source that reads by itself. file: closed with it, or by a failure; SFT__FS_NO_HANDLE: opened for every
 * read. */
static sft_status make_source(sft_source **out, const sft__import *job, const found *f,
                              sft__fs_handle file, sft_error *err) {
    const size_t n = strlen(f->directory) + 1;
    const size_t m = strlen(f->location) + 1;
    sft_source_vtable vtable;
    beside *b = sft__base_alloc(job->allocator, sizeof *b + n + m);

    if (b == NULL) {
        sft__fs_close(file);
        return sft__base_fail_nomem(err, sizeof *b + n + m);
    }
    *b = (beside){job->allocator, file, job->options.flags, sizeof *b + n + m, b->directory + n};
    memcpy(b->directory, f->directory, n);
    memcpy(b->directory + n, f->location, m);
    SFT_INIT(&vtable);
    vtable.read_at = beside_read;
    vtable.close = beside_close;
    const sft_status status = sft_source_create(
        out, &vtable, b, &(sft_source_info){f->size, 0, f->location, job->allocator}, err);
    if (status != SFT_OK) {
        beside_close(b);
    }
    return status;
}

/* The directory of a file. */
static sft_status directory_of(const char *path, char directory[SFT__BESIDE_PATH], sft_error *err) {
    if (path == NULL) {
        return sft__base_fail(
            err, SFT_E_UNSUPPORTED,
            "external data: the model is not opened by a path, so there is no directory");
    }
    const size_t len = (size_t)(sft__fs_base_name(path) - path);
    const size_t n = len > 1 ? len - 1 : len; /* without the slash, but "/" */
    if (n >= SFT__BESIDE_PATH) {
        return sft__base_fail(err, SFT_E_PATH, "the path is too long");
    }
    memcpy(directory, path, n);
    memcpy(directory + n, n == 0 ? "." : "", n == 0 ? 2 : 1);
    return SFT_OK;
}

sft_status sft__import_beside_open(sft_source **out, const sft__import *job, const char *location,
                                   bool keep, sft_error *err) {
    found f = {.location = location};
    sft__fs_handle file;
    sft__fs_stat st;

    *out = NULL;
    if (!sft__import_beside_is_good(location, strlen(location))) {
        return refused(err, location, "leads out of the model's directory, or is no plain path");
    }
    SFT_TRY(directory_of(job->path, f.directory, err));
    SFT_TRY(open_below(f.directory, location, job->options.flags, &file, &st, err));
    f.size = st.size;
    const int fd = keep ? sft__fs_descriptor(file) : -1;
    if (keep && fd < 0) {
        return make_source(out, job, &f, file, err);
    }
    const sft_status status =
        keep ? sft_source_open_fd(out, fd, job->options.access, job->options.allocator, err)
             : SFT_OK;
    sft__fs_close(file);
    return keep ? status : make_source(out, job, &f, SFT__FS_NO_HANDLE, err);
}

sft_status sft__import_beside_stays(const char *path, uint32_t flags, sft_error *err) {
    char directory[SFT__BESIDE_PATH];
    sft__fs_root root = {SFT__FS_NO_HANDLE, directory, SFT__FS_LINKS_INSIDE};
    sft__fs_handle file;
    sft__fs_stat st;
    sft_error why;
    bool missing;

    if ((flags & SFT_IMPORT_FOLLOW_LINKS) != 0) {
        return SFT_OK;
    }
    SFT_TRY(directory_of(path, directory, err));
    SFT_TRY(open_directory(directory, &root.directory, err));
    const sft_status status =
        sft__fs_open_below(&root, sft__fs_base_name(path), &file, &st, &missing, &why);
    sft__fs_close(root.directory);
    if (status == SFT_OK) {
        sft__fs_close(file);
    } else if (status == SFT_E_PATH && err != NULL) {
        *err = why;
    }
    return status == SFT_E_PATH ? status : SFT_OK;
}
