/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * io/source_file.c - sources over regular files. Reads are positioned reads whatever the access, so
 * that a file that shrinks is an error and never a signal. The mapping is for borrowing alone and
 * made once, when opened (MAP) or by the first borrow (AUTO).
 */
#include "base/thread/thread.h"
#include "io/source.h"
#include <stdatomic.h>

typedef struct file_source {
    sft__fs_handle file;
    uint64_t size;
    sft__fs_stat stamp;           /* when opened */
    const char *name;             /* the source's */
    _Atomic(const uint8_t *) map; /* NULL until somebody borrows; written under the lock */
    sft__base_mutex lock;
    sft_access access;
    bool nameless; /* name is no path */
} file_source;

static sft_status file_read_at(void *self, uint64_t offset, void *dst, size_t size,
                               sft_error *err) {
    const file_source *f = self;
    return sft__fs_read_at(f->file, f->name, offset, dst, size, err);
}

/* Maps the file; the caller holds the lock (or nobody else knows the source yet). */
static sft_status map_now(file_source *f, sft_error *err) {
    const void *map;
    sft__fs_stat st;

    SFT_TRY(sft__fs_stat_file(f->file, f->name, &st, err));
    if (st.size < f->size) {
        return sft__base_fail_at(err, SFT_E_TRUNCATED, st.size,
                                 "%s has shrunk from %llu to %llu bytes", f->name,
                                 (unsigned long long)f->size, (unsigned long long)st.size);
    }
    SFT_TRY(sft__fs_map(f->file, f->name, f->size, &map, err));
    atomic_store_explicit(&f->map, (const uint8_t *)map, memory_order_release);
    return SFT_OK;
}

static sft_status file_borrow(void *self, uint64_t offset, size_t size, const void **data,
                              sft_error *err) {
    static const uint8_t nothing[1] = {0};
    file_source *f = self;
    const uint8_t *map;

    if (f->access == SFT_ACCESS_READ) {
        return sft__base_fail(err, SFT_E_UNSUPPORTED, "%s was opened for reading only, not mapped",
                              f->name);
    }
    if (size == 0) {
        *data = nothing;
        return SFT_OK;
    }
    map = atomic_load_explicit(&f->map, memory_order_acquire);
    if (map == NULL) {
        sft_status status = SFT_OK;
        sft__base_mutex_lock(&f->lock);
        if (atomic_load_explicit(&f->map, memory_order_relaxed) == NULL) {
            status = map_now(f, err);
        }
        map = atomic_load_explicit(&f->map, memory_order_relaxed);
        sft__base_mutex_unlock(&f->lock);
        if (status != SFT_OK) {
            return status;
        }
    }
    *data = map + offset; /* cannot overflow: the whole file fits in memory addresses */
    return SFT_OK;
}

static void file_advise(void *self, uint64_t offset, uint64_t size, sft_advice advice) {
    file_source *f = self;
    const uint8_t *map = atomic_load_explicit(&f->map, memory_order_acquire);
    if (advice == SFT_ADVICE_WILL_NEED && sft__fs_resident(f->file, offset, size)) {
        return; /* looking at every page of the range, as the system would, costs more than asking
                 */
    }
    if (map != NULL) {
        sft__fs_map_advise(map, f->size, offset, size, advice);
    }
    if (advice != SFT_ADVICE_UNMAP) {
        sft__fs_advise(f->file, offset, size, advice);
    }
}

static int file_descriptor(void *self) {
    const file_source *f = self;
    return sft__fs_descriptor(f->file);
}

static void file_close(void *self) {
    file_source *f = self;
    sft__fs_unmap(atomic_load_explicit(&f->map, memory_order_relaxed), f->size);
    sft__fs_close(f->file);
    sft__base_mutex_reset(&f->lock);
}

sft_status sft__io_source_from_handle(sft_source **out, sft__fs_handle file, const sft__fs_stat *st,
                                      const char *name, sft_access access,
                                      const sft_allocator *allocator, sft_error *err) {
    static const sft_source_vtable vtable = {.struct_size = sizeof vtable,
                                             .read_at = file_read_at,
                                             .borrow = file_borrow,
                                             .advise = file_advise,
                                             .descriptor = file_descriptor,
                                             .close = file_close};
    sft_status status =
        sft__io_source_new(out, &vtable, sizeof(file_source), st->size, 0, name, allocator, err);
    if (status != SFT_OK) {
        sft__fs_close(file);
        return status;
    }
    file_source *f = sft__io_source_self(*out);
    f->file = file;
    f->size = st->size;
    f->stamp = *st;
    f->name = sft_source_name(*out);
    f->access = access;
    atomic_init(&f->map, NULL);
    if (!sft__base_mutex_init(&f->lock)) {
        status = sft__base_fail(err, SFT_E_NOMEM, "cannot make a lock");
        sft__fs_close(file);
        sft__io_source_discard(*out);
        *out = NULL;
        return status;
    }
    if (access == SFT_ACCESS_MAP && st->size != 0) {
        status = map_now(f, err);
    }
    if (status != SFT_OK) {
        sft_source_close(*out);
        *out = NULL;
    }
    return status;
}

bool sft__io_source_nameless(const sft_source *source) {
    return sft__io_source_reads_by(source, file_read_at) &&
           ((const file_source *)sft__io_source_self(source))->nameless;
}

bool sft__io_source_stamp(const sft_source *source, sft__fs_stat *stamp) {
    if (!sft__io_source_reads_by(source, file_read_at)) {
        return false;
    }
    *stamp = ((const file_source *)sft__io_source_self(source))->stamp;
    return true;
}

bool sft__io_source_now(const sft_source *source, sft__fs_stamp *stamp) {
    sft__fs_stat st;

    if (!sft__io_source_reads_by(source, file_read_at)) {
        return sft__fs_stamp_fd(sft_source_descriptor(source), stamp);
    }
    const file_source *f = sft__io_source_self(source);
    if (sft__fs_stat_file(f->file, f->name, &st, NULL) != SFT_OK) {
        return false;
    }
    *stamp = (sft__fs_stamp){st.size, st.mtime_ns};
    return true;
}

static bool access_known(sft_access access) {
    return access == SFT_ACCESS_AUTO || access == SFT_ACCESS_READ || access == SFT_ACCESS_MAP;
}

sft_status sft_source_open(sft_source **out, const char *path, sft_access access,
                           const sft_allocator *allocator, sft_error *err) {
    sft__fs_handle file;
    sft__fs_stat st;

    if (out == NULL) {
        return sft__base_fail(err, SFT_E_ARG, "out is NULL");
    }
    *out = NULL;
    if (path == NULL || !access_known(access)) {
        return sft__base_fail(err, SFT_E_ARG, "path is NULL or access is unknown");
    }
    SFT_TRY(sft__fs_open(path, &file, &st, err));
    return sft__io_source_from_handle(out, file, &st, path, access, allocator, err);
}

sft_status sft_source_open_fd(sft_source **out, int fd, sft_access access,
                              const sft_allocator *allocator, sft_error *err) {
    static const char name[] = "descriptor";
    sft__fs_handle file;
    sft__fs_stat st;

    if (out == NULL) {
        return sft__base_fail(err, SFT_E_ARG, "out is NULL");
    }
    *out = NULL;
    if (!access_known(access)) {
        return sft__base_fail(err, SFT_E_ARG, "access is unknown");
    }
    SFT_TRY(sft__fs_open_fd(fd, name, &file, &st, err));
    SFT_TRY(sft__io_source_from_handle(out, file, &st, name, access, allocator, err));
    ((file_source *)sft__io_source_self(*out))->nameless = true;
    return SFT_OK;
}
