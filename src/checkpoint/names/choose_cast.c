/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * checkpoint/names/choose_cast.c - a source whose bytes are tensors of a catalog as other types: what is read
 * of it is read there, and cast. Read checkpoint/names/names.h first.
 */
#include "base/error.h"
#include "base/memory/alloc.h"
#include "base/memory/need.h"
#include "checkpoint/names/names.h"
#include <sft/digest.h>
#include <sft/extend.h>
#include <string.h>

/* Elements that are cast at once; a multiple of every block of the format's types. */
enum { AT_ONCE = 1 << 17, MARGIN = 8 };

typedef struct casting {
    const sft_allocator *allocator;
    const sft_catalog *in;
    sft__checkpoint_casts casts; /* owned */
    uint64_t version;
    void *ctx;
    void (*casted)(void *ctx, const sft_tensor *tensor, const sft_dtype *to, const void *before,
                   const void *after, size_t n);
} casting;

/* Elements that begin and end at a byte as both types. */
static uint64_t unit_of(const sft__checkpoint_cast *one) {
    const uint64_t a = one->to->block_elements;
    const uint64_t b = one->tensor->dtype->block_elements;
    return a > b ? a : b; /* blocks are of 1, 2 or 4 elements */
}

static uint64_t bytes_of(const sft_dtype *dtype, uint64_t elements) {
    return elements / dtype->block_elements * dtype->block_bytes;
}

/* What one read works with. room, spare: for the elements of either type that are cast at once. */
typedef struct reading {
    const casting *c;
    uint8_t *room;
    uint8_t *spare;
} reading;

/* Elements [first, first + n), whole units or up to the end, to `out`. */
static sft_status cast_run(const reading *r, const sft__checkpoint_cast *one, uint64_t first,
                           uint64_t n, void *out, sft_error *err) {
    const casting *const c = r->c;
    const sft_dtype *const from = one->tensor->dtype;
    const sft_cast cast = {one->to, from, 0};
    SFT_TRY(sft_tensor_read_bytes(c->in, one->tensor, bytes_of(from, first), r->room,
                                  (size_t)bytes_of(from, n), err));
    SFT_TRY(sft_convert(out, r->room, n, &cast, err));
    if (c->casted != NULL) {
        c->casted(c->ctx, one->tensor, one->to, r->room, out, (size_t)n);
    }
    return SFT_OK;
}

/* Bytes [at, at + size) of the tensor as the other type. */
static sft_status read_one(const reading *r, const sft__checkpoint_cast *one, uint64_t at,
                           uint8_t *dst, size_t size, sft_error *err) {
    const uint64_t unit = unit_of(one);
    const uint64_t unit_bytes = bytes_of(one->to, unit);
    while (size > 0) {
        const uint64_t first = at / unit_bytes * unit;
        const size_t skip = (size_t)(at % unit_bytes);
        const uint64_t units = (skip + (uint64_t)size + unit_bytes - 1) / unit_bytes;
        uint64_t n = one->elements - first;
        n = n < units * unit ? n : units * unit;
        n = n < AT_ONCE ? n : AT_ONCE;
        const size_t made = (size_t)bytes_of(one->to, n) - skip;
        const size_t take = made < size ? made : size;
        const bool whole = skip == 0 && take == made;
        SFT_TRY(cast_run(r, one, first, n, whole ? dst : r->spare, err));
        if (!whole) {
            memcpy(dst, r->spare + skip, take);
        }
        dst += take;
        at += take;
        size -= take;
    }
    return SFT_OK;
}

/* The tensor in which the byte lies. */
static const sft__checkpoint_cast *find(const casting *c, uint64_t offset) {
    size_t low = 0;
    size_t high = c->casts.count;
    while (high - low > 1) {
        const size_t mid = low + (high - low) / 2;
        *(c->casts.list[mid].begin <= offset ? &low : &high) = mid;
    }
    return &c->casts.list[low];
}

static sft_status cast_read_at(void *self, uint64_t offset, void *dst, size_t size,
                               sft_error *err) {
    enum { WIDEST = 16 }; /* bytes of an element */
    const casting *const c = self;
    uint8_t *out = dst;
    /* of half a byte, and a unit at either end */
    const size_t elements = size < AT_ONCE / 2 ? 2 * size + MARGIN : AT_ONCE + MARGIN;
    const size_t bytes = elements * WIDEST;
    uint8_t *const room = sft__base_alloc(c->allocator, 2 * bytes);
    sft_status status = SFT_OK;
    SFT_NEED(room != NULL, 2 * bytes, err);
    const reading r = {c, room, room + bytes};
    while (size > 0 && status == SFT_OK) {
        const sft__checkpoint_cast *const one = find(c, offset);
        const uint64_t left = one->begin + one->nbytes - offset;
        const size_t n = left < size ? (size_t)left : size;
        status = read_one(&r, one, offset - one->begin, out, n, err);
        out += n;
        offset += n;
        size -= n;
    }
    sft__base_free(c->allocator, room, 2 * bytes);
    return status;
}

static uint64_t cast_version(void *self) {
    return ((const casting *)self)->version;
}

static void cast_close(void *self) {
    casting *const c = self;
    sft__base_free(c->allocator, c->casts.list, c->casts.room * sizeof *c->casts.list);
    sft__base_free(c->allocator, c, sizeof *c);
}

/* Of what is cast to what; what the bytes of it are, the sources of the catalog know. */
static uint64_t version_of(const sft__checkpoint_cast *list, size_t count) {
    uint32_t from = 0;
    uint32_t to = 0;
    for (size_t i = 0; i < count; i++) {
        sft_tensor t = *list[i].tensor;
        from = sft_digest_describe(from, &t);
        t.dtype = list[i].to;
        to = sft_digest_describe(to, &t);
    }
    return (uint64_t)to << 32 | from | 1; /* 0 would be: not known */
}

sft_status sft__checkpoint_cast_source(sft_source **out, const sft_catalog *in,
                                       const sft__checkpoint_casts *casts,
                                       const sft_choose_options *options, sft_error *err) {
    const sft_allocator *const a =
        sft__base_allocator(options->open != NULL ? options->open->allocator : NULL);
    const sft__checkpoint_cast *const last = &casts->list[casts->count - 1];
    sft_source_vtable vtable;
    casting *const c = sft__base_alloc_zero(a, sizeof *c);
    SFT_NEED(c != NULL, sizeof *c, err);
    *c = (casting){
        a, in, *casts, version_of(casts->list, casts->count), options->ctx, options->casted};
    memset(&vtable, 0, sizeof vtable);
    vtable.struct_size = sizeof vtable;
    vtable.read_at = cast_read_at;
    vtable.close = cast_close;
    vtable.version = cast_version;
    const sft_source_info info = {last->begin + last->nbytes, 0, "tensors that are cast", a};
    const sft_status status = sft_source_create(out, &vtable, c, &info, err);
    if (status != SFT_OK) {
        sft__base_free(a, c, sizeof *c);
    }
    return status;
}
