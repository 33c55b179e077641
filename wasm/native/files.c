/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * files.c - the file system of src/fs, served by JavaScript: bytes in memory, File objects, URLs or the files
 * of Node, all by path. It is read only: what writes answers SFT_E_UNSUPPORTED.
 * Read first: host.h, src/fs/file.h.
 */
#include "base/memory/alloc.h"
#include "base/memory/need.h"
#include "fs/below.h"
#include "fs/copy.h"
#include "fs/file.h"
#include "fs/output/entry.h"
#include "fs/output/keep.h"
#include "fs/output/publish.h"
#include "fs/output/rewrite.h"
#include "fs/output/staged.h"
#include "fs/stream.h"
#include "host.h"
#include <errno.h>

static sft_status read_only(sft_error *err) {
    return sft__base_fail(err, SFT_E_UNSUPPORTED, "files are read only in WebAssembly");
}

static void convert(const host_stat *from, sft__fs_stat *st) {
    memset(st, 0, sizeof *st);
    st->exists = true;
    st->size = (uint64_t)from->size;
    st->stored = st->size;
    st->device = (uint64_t)from->device;
    st->inode = (uint64_t)from->inode;
    st->mtime_ns = (int64_t)(from->mtime_ms * 1e6);
    st->mode = 0644;
    st->names = 1;
    st->regular = from->kind == 1;
    st->directory = from->kind == 2;
}

/* ---------------------------------------------------------------- opening */

sft_status sft__fs_open_kind(const char *path, bool directory_too, sft__fs_handle *out,
                             sft__fs_stat *st, sft_error *err) {
    host_stat found;

    *out = SFT__FS_NO_HANDLE;
    const int32_t file = host_open(path, strlen(path), &found);
    if (file < 0) {
        return sft__base_fail_sys(err, SFT_E_IO, -file, "cannot open %s", path);
    }
    convert(&found, st);
    if (st->regular || (st->directory && directory_too)) {
        *out = file;
        return SFT_OK;
    }
    host_close(file);
    return st->directory ? sft__base_fail(err, SFT_E_NOT_REGULAR,
                                          "%s is a directory, not a regular file", path)
                         : sft__base_fail(err, SFT_E_NOT_REGULAR,
                                          "%s is a device or pipe, not a regular file", path);
}

/* Descriptors are handles: nobody else makes any. */
sft_status sft__fs_open_fd(int fd, const char *name, sft__fs_handle *out, sft__fs_stat *st,
                           sft_error *err) {
    *out = SFT__FS_NO_HANDLE;
    SFT_TRY(sft__fs_stat_file(fd, name, st, err));
    const int32_t file = host_dup(fd);
    if (file < 0) {
        return sft__base_fail_sys(err, SFT_E_IO, -file, "cannot duplicate %s", name);
    }
    *out = file;
    return SFT_OK;
}

void sft__fs_close(sft__fs_handle file) {
    if (file != SFT__FS_NO_HANDLE) {
        host_close((int32_t)file);
    }
}

sft_status sft__fs_scratch(sft__fs_handle *out, sft_error *err) {
    *out = SFT__FS_NO_HANDLE;
    return read_only(err);
}

/* ---------------------------------------------------------------- facts */

sft_status sft__fs_stat_file(sft__fs_handle file, const char *name, sft__fs_stat *st,
                             sft_error *err) {
    host_stat found;
    const int32_t rc = host_fstat((int32_t)file, &found);

    if (rc < 0) {
        return sft__base_fail_sys(err, SFT_E_IO, -rc, "cannot look at %s", name);
    }
    convert(&found, st);
    return SFT_OK;
}

sft_status sft__fs_stat_fd(int fd, const char *name, sft__fs_stat *st, sft_error *err) {
    return sft__fs_stat_file(fd, name, st, err);
}

sft_status sft__fs_stat_path(const char *path, bool *exists, sft__fs_stat *st, sft_error *err) {
    host_stat found;
    const int32_t rc = host_stat_path(path, strlen(path), &found);

    memset(st, 0, sizeof *st);
    *exists = rc >= 0;
    if (rc == -ENOENT || rc == -ENAMETOOLONG) {
        return SFT_OK; /* what would lie beside a file has a name */
    }
    if (rc < 0) {
        return sft__base_fail_sys(err, SFT_E_IO, -rc, "cannot look at %s", path);
    }
    convert(&found, st);
    return SFT_OK;
}

sft_status sft__fs_link_target(const char *path, sft__base_buf *out, bool *is, sft_error *err) {
    (void)path, (void)out, (void)err;
    *is = false;
    return SFT_OK;
}

bool sft__fs_real(const char *path, sft__base_buf *out) {
    const size_t at = out->len;
    const int32_t need = host_real(path, strlen(path), NULL, 0);

    if (need <= 0 || !sft__base_buf_reserve(out, (size_t)need) ||
        host_real(path, strlen(path), out->data + at, (size_t)need) != need) {
        return false;
    }
    out->len = at + (size_t)need;
    return true;
}

sft_status sft__fs_list(const char *path, sft__fs_visit visit, void *ctx, sft_error *err) {
    const int32_t need = host_list(path, strlen(path), NULL, 0);
    sft_status status = SFT_OK;

    if (need < 0) {
        return sft__base_fail_sys(err, SFT_E_IO, -need, "cannot list %s", path);
    }
    if (need == 0) {
        return SFT_OK;
    }
    char *names = sft__base_alloc(NULL, (size_t)need);
    SFT_NEED(names != NULL, (size_t)need, err);
    if (host_list(path, strlen(path), names, (size_t)need) != need) {
        status = sft__base_fail(err, SFT_E_CHANGED, "%s changed while it was listed", path);
    }
    for (size_t at = 0; status == SFT_OK && at < (size_t)need;) {
        const size_t len = strlen(names + at);
        status = visit(ctx, names + at, len, err);
        at += len + 1;
    }
    sft__base_free(NULL, names, (size_t)need);
    return status;
}

/* So that model.c finds the file behind a source. */
int sft__fs_descriptor(sft__fs_handle file) {
    return (int)file;
}

const char *sft__fs_base_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

/* ---------------------------------------------------------------- bytes */

int32_t sft__fs_read_some(sft__fs_handle file, uint64_t offset, void *dst, size_t size, size_t *n) {
    const double got = host_read((int32_t)file, (double)offset, dst, size);
    *n = got > 0 ? (size_t)got : 0;
    return got < 0 ? (int32_t)-got : 0;
}

int32_t sft__fs_write_some(sft__fs_handle file, uint64_t offset, const void *src, size_t size,
                           size_t *n) {
    (void)file, (void)offset, (void)src, (void)size;
    *n = 0;
    return EROFS;
}

sft_status sft__fs_may_grow(const char *name, uint64_t size, sft_error *err) {
    (void)name, (void)size;
    return read_only(err);
}

sft_status sft__fs_reserve(sft__fs_handle file, const char *name, uint64_t size, sft_error *err) {
    (void)file, (void)name, (void)size;
    return read_only(err);
}

sft_status sft__fs_resize(sft__fs_handle file, const char *name, uint64_t size, sft_error *err) {
    (void)file, (void)name, (void)size;
    return read_only(err);
}

sft_status sft__fs_sync(sft__fs_handle file, const char *name, sft_error *err) {
    (void)file, (void)name;
    return read_only(err);
}

void sft__fs_sync_soon(sft__fs_handle file, uint64_t offset, uint64_t size) {
    (void)file, (void)offset, (void)size;
}

sft_status sft__fs_stream_read(int fd, void *dst, size_t size, size_t *got, sft_error *err) {
    (void)fd, (void)dst, (void)size;
    *got = 0;
    return read_only(err);
}

sft_status sft__fs_map(sft__fs_handle file, const char *name, uint64_t size, const void **map,
                       sft_error *err) {
    (void)file, (void)size;
    *map = NULL;
    return sft__base_fail(err, SFT_E_UNSUPPORTED, "%s cannot be mapped in WebAssembly", name);
}

void sft__fs_unmap(const void *map, uint64_t size) {
    (void)map, (void)size;
}

bool sft__fs_resident(sft__fs_handle file, uint64_t offset, uint64_t size) {
    (void)file, (void)offset, (void)size;
    return false;
}

void sft__fs_advise(sft__fs_handle file, uint64_t offset, uint64_t size, sft_advice advice) {
    (void)file, (void)offset, (void)size, (void)advice;
}

void sft__fs_map_advise(const void *map, uint64_t map_size, uint64_t offset, uint64_t size,
                        sft_advice advice) {
    (void)map, (void)map_size, (void)offset, (void)size, (void)advice;
}

/* ---------------------------------------------------------------- below a directory */

/* Does `path` lie in the directory `base`? Both without links. */
static bool inside(const char *path, const char *base, size_t base_len) {
    if (base_len > 0 && base[base_len - 1] == '/') {
        base_len--;
    }
    return strncmp(path, base, base_len) == 0 && path[base_len] == '/';
}

/* No links on the way: the path without them is that of the directory, and the name. */
static bool is_plain(const char *file, const char *directory, const char *name) {
    const size_t len = strlen(directory) - (directory[strlen(directory) - 1] == '/');
    return inside(file, directory, len) && strcmp(file + len + 1, name) == 0;
}

/* The links of the Hugging Face cache lead from snapshots into blobs of the same repository. */
static bool may_open(const char *directory, const char *file) {
    const size_t root = sft__fs_cache_root(directory);

    return inside(file, directory, strlen(directory)) ||
           (root > 0 && inside(file, directory, root) &&
            strncmp(file + root + 1, "blobs/", 6) == 0);
}

static sft_status judge(const sft__fs_root *root, const char *path, const char *name,
                        sft_error *err) {
    sft__base_buf directory = {0};
    sft__base_buf file = {0};
    sft_status status = SFT_OK;

    if (!sft__fs_real(root->path[0] != '\0' ? root->path : ".", &directory) ||
        !sft__fs_real(path, &file)) {
        status = sft__base_fail(err, SFT_E_IO, "cannot find out where %s lies", name);
    } else if (root->links == SFT__FS_LINKS_NONE) {
        status = is_plain(file.data, directory.data, name)
                     ? SFT_OK
                     : sft__base_fail(err, SFT_E_PATH, "%s is a link, or lies behind one", name);
    } else if (!may_open(directory.data, file.data)) {
        status =
            sft__base_fail(err, SFT_E_PATH, "%s is a link that leads out of its directory", name);
    }
    sft__base_buf_reset(&directory);
    sft__base_buf_reset(&file);
    return status;
}

static char *joined(const char *directory, const char *name, size_t *size) {
    const size_t len = strlen(directory);
    const size_t slash = len > 0 && directory[len - 1] != '/';
    const size_t name_len = strlen(name);

    *size = len + slash + name_len + 1;
    char *path = sft__base_alloc(NULL, *size);
    if (path != NULL) {
        memcpy(path, directory, len);
        memset(path + len, '/', slash);
        memcpy(path + len + slash, name, name_len + 1);
    }
    return path;
}

sft_status sft__fs_open_below(const sft__fs_root *root, const char *name, sft__fs_handle *out,
                              sft__fs_stat *st, bool *missing, sft_error *err) {
    sft_error record;
    sft_error *where = err != NULL ? err : &record;
    size_t size;

    *out = SFT__FS_NO_HANDLE;
    *missing = false;
    char *path = joined(root->path, name, &size);
    SFT_NEED(path != NULL, size, err);
    sft_status status = sft__fs_open(path, out, st, where);
    if (status == SFT_E_IO && where->sys == ENOENT) {
        *missing = true;
        status = sft__base_fail_sys(err, SFT_E_SHARD_MISSING, where->sys, "cannot open %s", name);
    } else if (status == SFT_OK && root->links != SFT__FS_LINKS_ANY) {
        status = judge(root, path, name, err);
        if (status != SFT_OK) {
            sft__fs_close(*out);
            *out = SFT__FS_NO_HANDLE;
        }
    }
    sft__base_free(NULL, path, size);
    return status;
}

/* ---------------------------------------------------------------- what writes */

sft_status sft__fs_copy_range(const sft__fs_copy *copy, sft_error *err) {
    (void)copy;
    return read_only(err);
}

sft_status sft__fs_copy_cheaply(const sft__fs_copy *copy, uint64_t *moved, sft_error *err) {
    (void)copy, (void)err;
    *moved = 0;
    return SFT_OK;
}

sft_status sft__fs_stream_init(sft__fs_stream *stream, int fd, sft_error *err) {
    (void)fd;
    memset(stream, 0, sizeof *stream);
    return read_only(err);
}

sft_status sft__fs_stream_write(const sft__fs_stream *stream, const sft__fs_span *parts,
                                size_t count, sft_error *err) {
    (void)stream, (void)parts, (void)count;
    return read_only(err);
}

void sft__fs_publish_free(sft__fs_publish *publish) {
    (void)publish;
}
