/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * io/source.c - the source object: checks every range before its vtable sees it, and gives those
 * vtables that have no read_many one. Files are in source_file.c, memory and streams in
 * source_memory.c.
 */
#include "io/source.h"
#include "base/checked.h"
#include "base/memory/need.h"
#include "base/options.h"
#include <sft/extend.h>

struct sft_source {
    sft_source_vtable vtable;
    void *self;
    uint64_t size;
    const sft_allocator *allocator;
    size_t block_size; /* of this allocation */
    const char *name;
    uint32_t flags;
    sft__fs_stamp stamp; /* of the descriptor that a stranger's vtable has */
    bool stamped;
    bool ours; /* the vtable fills its errors as sft_source_read promises */
};

/* Everything behind the struct starts at a multiple of this. */
enum { BLOCK_ALIGNMENT = 16 };

static sft_status source_alloc(sft_source **out, size_t extra, const sft_source_info *info,
                               sft_error *err) {
    const char *const name = info->name != NULL ? info->name : "source";
    const size_t name_len = strlen(name);
    const size_t head = (sizeof(sft_source) + BLOCK_ALIGNMENT - 1) & ~(size_t)(BLOCK_ALIGNMENT - 1);
    size_t block_size;

    *out = NULL;
    SFT_NEED(sft__base_add_size(head + extra + 1, name_len, &block_size), SIZE_MAX, err);
    uint8_t *block = sft__base_alloc(info->allocator, block_size);
    SFT_NEED(block != NULL, block_size, err);
    memset(block, 0, head + extra);
    memcpy(block + head + extra, name, name_len + 1);
    sft_source *source = (void *)block;
    source->self = block + head;
    source->size = info->size;
    source->flags = info->flags;
    source->allocator = info->allocator;
    source->block_size = block_size;
    source->name = (const char *)(block + head + extra);
    *out = source;
    return SFT_OK;
}

sft_status sft__io_source_new(sft_source **out, const sft_source_vtable *vtable, size_t extra,
                              const sft_source_info *info, sft_error *err) {
    SFT_TRY(source_alloc(out, extra, info, err));
    (*out)->vtable = *vtable;
    (*out)->ours = true;
    return SFT_OK;
}

bool sft__io_source_reads_by(const sft_source *source,
                             sft_status (*read_at)(void *, uint64_t, void *, size_t, sft_error *)) {
    return source->vtable.read_at == read_at;
}

void *sft__io_source_self(const sft_source *source) {
    return source->self;
}

sft_status sft_source_create(sft_source **out, const sft_source_vtable *vtable, void *self,
                             const sft_source_info *info, sft_error *err) {
    sft_source_vtable copy;

    if (out == NULL || info == NULL) {
        return sft__base_fail(err, SFT_E_ARG, "out or info is NULL");
    }
    *out = NULL;
    SFT_TRY(sft__base_options_read(&copy, sizeof copy, vtable,
                                   SFT__UP_TO(sft_source_vtable, read_at), "a source's vtable",
                                   err));
    if (copy.read_at == NULL) {
        return sft__base_fail(err, SFT_E_ARG, "a source needs a vtable with read_at set");
    }
    SFT_TRY(sft__io_source_new(out, &copy, 0, info, err));
    (*out)->self = self;
    (*out)->ours = false;
    (*out)->stamped = sft__fs_stamp_fd(sft_source_descriptor(*out), &(*out)->stamp);
    return SFT_OK;
}

sft_status sft_source_unchanged(const sft_source *source, sft_error *err) {
    sft__fs_stat then;
    sft__fs_stamp was = source->stamp;
    sft__fs_stamp now;
    bool known = source->stamped;

    if (sft__io_source_stamp(source, &then)) {
        was = (sft__fs_stamp){then.size, then.mtime_ns};
        known = true;
    }
    if (known && sft__io_source_now(source, &now) &&
        (now.size != was.size || now.mtime_ns != was.mtime_ns)) {
        return sft__base_fail(err, SFT_E_CHANGED, "%s was written to while it was read",
                              source->name);
    }
    return SFT_OK;
}

void sft__io_source_discard(sft_source *source) {
    sft__base_free(source->allocator, source, source->block_size);
}

void sft_source_close(sft_source *source) {
    if (source != NULL) {
        if (source->vtable.close != NULL) {
            source->vtable.close(source->self);
        }
        sft__io_source_discard(source);
    }
}

uint64_t sft_source_size(const sft_source *source) {
    return source->size;
}

const char *sft_source_name(const sft_source *source) {
    return source->name;
}

uint32_t sft_source_flags(const sft_source *source) {
    return source->flags;
}

bool sft__io_source_batches(const sft_source *source) {
    return source->vtable.read_many != NULL;
}

int sft_source_descriptor(const sft_source *source) {
    return source->vtable.descriptor != NULL ? source->vtable.descriptor(source->self) : -1;
}

uint64_t sft_source_version(const sft_source *source) {
    return source->vtable.version != NULL ? source->vtable.version(source->self) : 0;
}

static sft_status check_range(const sft_source *source, uint64_t offset, size_t size,
                              sft_error *err) {
    if (offset > source->size || size > source->size - offset) {
        return sft__base_fail_at(err, SFT_E_TRUNCATED, offset,
                                 "%s has %llu bytes, %llu bytes at %llu were wanted", source->name,
                                 (unsigned long long)source->size, (unsigned long long)size,
                                 (unsigned long long)offset);
    }
    return SFT_OK;
}

/* What a user's function left in its record, for the caller; he may have failed without filling it.
 */
static sft_status told(const sft_source *source, uint64_t offset, sft_status status,
                       const sft_error *e, sft_error *err) {
    if (status == SFT_OK || err == NULL) {
        return status;
    }
    if (e->status != (int32_t)status) {
        return sft__base_fail_at(err, status, offset, "%s could not be read: %s", source->name,
                                 sft_status_text(status));
    }
    *err = *e;
    return status;
}

static sft_status read_checked(const sft_source *source, uint64_t offset, void *dst, size_t size,
                               sft_error *err) {
    sft_error e;
    e.status = SFT_OK;
    const sft_status status = source->vtable.read_at(source->self, offset, dst, size, &e);
    return told(source, offset, status, &e, err);
}

sft_status sft_source_read(const sft_source *source, uint64_t offset, void *dst, size_t size,
                           sft_error *err) {
    if (source == NULL || (dst == NULL && size != 0)) {
        return sft__base_fail(err, SFT_E_ARG, "source or dst is NULL");
    }
    SFT_TRY(check_range(source, offset, size, err));
    if (size == 0) {
        return SFT_OK;
    }
    if (source->ours) { /* the last call: what returns after a system call costs the most */
        return source->vtable.read_at(source->self, offset, dst, size, err);
    }
    return read_checked(source, offset, dst, size, err);
}

static void ignore_done(void *ctx, size_t index, sft_status status, const sft_error *err) {
    (void)ctx, (void)index, (void)status, (void)err;
}

/* Ends ranges from `from` on that were not read, all but `except`. */
static void end_unread(const sft_io_batch *b, size_t from, size_t except) {
    sft_error unread;
    (void)sft__base_fail(&unread, SFT_E_CANCELLED, "not read: another range of the batch failed");
    for (size_t i = from; i < b->count; i++) {
        if (i != except) {
            b->done(b->done_ctx, i, SFT_E_CANCELLED, &unread);
        }
    }
}

static bool cancelled(const sft_control *control, uint64_t done, uint64_t total) {
    const sft_progress progress = {done, total};
    return control != NULL &&
           control->struct_size >= offsetof(sft_control, ctx) + sizeof control->ctx &&
           control->poll != NULL && control->poll(control->ctx, &progress) != 0;
}

/* Sum of the sizes, for progress only. */
static uint64_t batch_bytes(const sft_io_batch *b) {
    uint64_t total = 0;
    for (size_t i = 0; i < b->count; i++) {
        if (!sft__base_add64(total, b->ranges[i].size, &total)) {
            return 0;
        }
    }
    return total;
}

/* The read_many of those that have none: one range after the other, in the given order. */
static sft_status read_in_turn(const sft_source *source, const sft_io_batch *b, sft_error *err) {
    const uint64_t total = batch_bytes(b);
    uint64_t bytes_done = 0;

    for (size_t i = 0; i < b->count; i++) {
        const sft_io_range *const r = &b->ranges[i];
        sft_error e;
        sft_status status;
        if (cancelled(b->control, bytes_done, total)) {
            status = sft__base_fail(&e, SFT_E_CANCELLED, "cancelled");
        } else if (r->size == 0) {
            status = SFT_OK;
        } else {
            status = read_checked(source, r->offset, r->data, r->size, &e);
        }
        b->done(b->done_ctx, i, status, status == SFT_OK ? NULL : &e);
        if (status != SFT_OK) {
            end_unread(b, i + 1, SIZE_MAX);
            if (err != NULL) {
                *err = e;
            }
            return status;
        }
        bytes_done += r->size;
    }
    return SFT_OK;
}

sft_status sft_source_read_many(const sft_source *source, const sft_io_batch *batch,
                                sft_error *err) {
    if (source == NULL || batch == NULL || (batch->ranges == NULL && batch->count != 0)) {
        return sft__base_fail(err, SFT_E_ARG, "source or ranges is NULL");
    }
    sft_io_batch b = *batch;
    b.done = b.done != NULL ? b.done : ignore_done;
    for (size_t i = 0; i < b.count; i++) {
        const sft_io_range *const r = &b.ranges[i];
        sft_error e;
        sft_status status = check_range(source, r->offset, r->size, &e);
        if (status == SFT_OK && r->data == NULL && r->size != 0) {
            status =
                sft__base_fail(&e, SFT_E_ARG, "range %llu has no memory", (unsigned long long)i);
        }
        if (status != SFT_OK) {
            end_unread(&b, 0, i);
            b.done(b.done_ctx, i, status, &e);
            if (err != NULL) {
                *err = e;
            }
            return status;
        }
    }
    if (source->vtable.read_many != NULL && b.count != 0) {
        sft_error e;
        e.status = SFT_OK;
        const sft_status status = source->vtable.read_many(source->self, &b, &e);
        return told(source, SFT_NO_OFFSET, status, &e, err);
    }
    return read_in_turn(source, &b, err);
}

sft_status sft_source_borrow(const sft_source *source, uint64_t offset, size_t size,
                             const void **data, sft_error *err) {
    if (source == NULL || data == NULL) {
        return sft__base_fail(err, SFT_E_ARG, "source or data is NULL");
    }
    *data = NULL;
    SFT_TRY(check_range(source, offset, size, err));
    if (source->vtable.borrow == NULL) {
        return sft__base_fail(err, SFT_E_UNSUPPORTED, "%s cannot lend memory, only read",
                              source->name);
    }
    sft_error e;
    e.status = SFT_OK;
    const sft_status status = source->vtable.borrow(source->self, offset, size, data, &e);
    if (status != SFT_OK) {
        *data = NULL;
    }
    return told(source, offset, status, &e, err);
}

void sft_source_advise(const sft_source *source, uint64_t offset, uint64_t size,
                       sft_advice advice) {
    if (source != NULL && source->vtable.advise != NULL && offset < source->size) {
        const uint64_t left = source->size - offset;
        source->vtable.advise(source->self, offset, size < left ? size : left, advice);
    }
}
