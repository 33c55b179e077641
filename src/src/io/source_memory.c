/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * io/source_memory.c - sources over memory: the caller's, and what was read from a stream.
 */
#include "base/checked.h"
#include "io/source.h"

typedef struct memory_source {
    const uint8_t *data;
    uint8_t *owned; /* a stream's bytes, or NULL */
    size_t owned_size;
    const sft_allocator *allocator;
} memory_source;

static sft_status memory_read_at(void *self, uint64_t offset, void *dst, size_t size,
                                 sft_error *err) {
    const memory_source *m = self;
    (void)err;
    memcpy(dst, m->data + (size_t)offset, size); /* fits: offset <= the size, which is a size_t */
    return SFT_OK;
}

static sft_status memory_borrow(void *self, uint64_t offset, size_t size, const void **data,
                                sft_error *err) {
    static const uint8_t nothing[1] = {0};
    const memory_source *m = self;
    (void)err;
    *data = size != 0 || m->data != NULL ? m->data + (size_t)offset : nothing;
    return SFT_OK;
}

static void memory_close(void *self) {
    memory_source *m = self;
    sft__base_free(m->allocator, m->owned, m->owned_size);
}

static const sft_source_vtable memory_vtable = {.struct_size = sizeof memory_vtable,
                                                .read_at = memory_read_at,
                                                .borrow = memory_borrow,
                                                .close = memory_close};

sft_status sft_source_open_memory(sft_source **out, const void *data, size_t size,
                                  const sft_allocator *allocator, sft_error *err) {
    if (out == NULL) {
        return sft__base_fail(err, SFT_E_ARG, "out is NULL");
    }
    *out = NULL;
    if (data == NULL && size != 0) {
        return sft__base_fail(err, SFT_E_ARG, "data is NULL");
    }
    SFT_TRY(sft__io_source_new(out, &memory_vtable, sizeof(memory_source), size, SFT_SOURCE_MEMORY,
                               "memory", allocator, err));
    memory_source *m = sft__io_source_self(*out);
    m->data = data;
    m->allocator = allocator;
    return SFT_OK;
}

typedef struct stream_bytes {
    uint8_t *data;
    size_t len;
    size_t cap;
    size_t max;
} stream_bytes;

/* Room for at least one more byte, never more than max in all. */
static bool stream_grow(stream_bytes *b, const sft_allocator *allocator) {
    enum { FIRST = 64 << 10 };
    size_t cap = FIRST;
    if (b->cap != 0 && !sft__base_mul_size(b->cap, 2, &cap)) {
        return false;
    }
    cap = cap < b->max ? cap : b->max;
    uint8_t *data = sft__base_resize(allocator, b->data, b->cap, cap);
    if (data == NULL) {
        return false;
    }
    b->data = data;
    b->cap = cap;
    return true;
}

static sft_status stream_read_all(stream_bytes *b, int fd, const sft_allocator *allocator,
                                  sft_error *err) {
    for (;;) {
        uint8_t beyond;
        size_t got;
        if (b->len == b->max) { /* full: anything but the end is too much */
            SFT_TRY(sft__fs_stream_read(fd, &beyond, 1, &got, err));
            return got == 0 ? SFT_OK
                            : sft__base_fail_at(err, SFT_E_LIMIT, b->len,
                                                "the stream has more than %llu bytes, the limit",
                                                (unsigned long long)b->max);
        }
        if (b->len == b->cap && !stream_grow(b, allocator)) {
            return sft__base_fail_nomem(err, b->cap);
        }
        SFT_TRY(sft__fs_stream_read(fd, b->data + b->len, b->cap - b->len, &got, err));
        if (got == 0) {
            return SFT_OK;
        }
        b->len += got;
    }
}

sft_status sft_source_open_stream(sft_source **out, int fd, uint64_t max_bytes,
                                  const sft_allocator *allocator, sft_error *err) {
    const uint64_t max = max_bytes != 0 ? max_bytes : (uint64_t)1 << 40;
    stream_bytes b = {NULL, 0, 0, max < SIZE_MAX ? (size_t)max : SIZE_MAX};
    sft_status status;

    if (out == NULL) {
        return sft__base_fail(err, SFT_E_ARG, "out is NULL");
    }
    *out = NULL;
    status = stream_read_all(&b, fd, allocator, err);
    if (status == SFT_OK) {
        status = sft__io_source_new(out, &memory_vtable, sizeof(memory_source), b.len,
                                    SFT_SOURCE_MEMORY, "stream", allocator, err);
    }
    if (status != SFT_OK) {
        sft__base_free(allocator, b.data, b.cap);
        return status;
    }
    memory_source *m = sft__io_source_self(*out);
    m->data = b.data;
    m->owned = b.data;
    m->owned_size = b.cap;
    m->allocator = allocator;
    return SFT_OK;
}
