/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/core/source_map.c - sources over a stretch of another source: as it is, or turned block by
 * block (byte order, conjugates, dequantising), of which nothing is kept: a read turns what it needs in a
 * buffer on the stack. And sources over bytes in memory. Read first: import.h.
 */
#include "base/checked.h"
#include "base/memory/need.h"
#include "import/core/import.h"

enum { MAP_BUFFER = 16384, MAP_BLOCK_MAX = 4096 };

typedef struct part {
    const sft_allocator *allocator;
    const sft_source *inner;
    uint64_t offset;
    sft__import_block_map map; /* fn NULL: as it is */
} part;

static sft_status part_read(void *self, uint64_t offset, void *dst, size_t size, sft_error *err) {
    const part *p = self;
    return sft_source_read(p->inner, p->offset + offset, dst, size, err);
}

static sft_status part_borrow(void *self, uint64_t offset, size_t size, const void **data,
                              sft_error *err) {
    const part *p = self;
    return sft_source_borrow(p->inner, p->offset + offset, size, data, err);
}

static void part_advise(void *self, uint64_t offset, uint64_t size, sft_advice advice) {
    const part *p = self;
    if (p->map.fn == NULL) {
        sft_source_advise(p->inner, p->offset + offset, size, advice);
    }
}

static void part_close(void *self) {
    part *p = self;
    sft__base_free(p->allocator, p, sizeof *p);
}

/* One block of which only [skip, skip + take) is wanted. */
static sft_status map_edge(const part *p, uint64_t block, size_t skip, size_t take, uint8_t *dst,
                           sft_error *err) {
    uint8_t in[MAP_BLOCK_MAX];
    uint8_t out[MAP_BLOCK_MAX];

    SFT_TRY(
        sft_source_read(p->inner, p->offset + block * p->map.in_bytes, in, p->map.in_bytes, err));
    p->map.fn(out, in, 1, p->map.argument);
    memcpy(dst, out + skip, take);
    return SFT_OK;
}

static sft_status map_read(void *self, uint64_t offset, void *dst, size_t size, sft_error *err) {
    const part *p = self;
    const size_t out_bytes = p->map.out_bytes;
    const size_t at_once = MAP_BUFFER / p->map.in_bytes;
    uint8_t in[MAP_BUFFER];
    uint8_t *to = dst;

    while (size > 0) {
        const uint64_t block = offset / out_bytes;
        const size_t skip = (size_t)(offset % out_bytes);
        size_t take = out_bytes - skip;
        if (skip != 0 || size < out_bytes) {
            take = take < size ? take : size;
            SFT_TRY(map_edge(p, block, skip, take, to, err));
        } else {
            size_t n = size / out_bytes;
            n = n < at_once ? n : at_once;
            SFT_TRY(sft_source_read(p->inner, p->offset + block * p->map.in_bytes, in,
                                    n * p->map.in_bytes, err));
            p->map.fn(to, in, n, p->map.argument);
            take = n * out_bytes;
        }
        to += take;
        offset += take;
        size -= take;
    }
    return SFT_OK;
}

static sft_status part_create(sft_source **out, const part *like, uint64_t size, const char *name,
                              sft_error *err) {
    sft_source_vtable vtable;
    part *p;

    *out = NULL;
    SFT_TRY(sft__base_need(like->allocator, &p, sizeof *p, err));
    *p = *like;
    SFT_INIT(&vtable);
    vtable.read_at = p->map.fn != NULL ? map_read : part_read;
    vtable.borrow = p->map.fn != NULL ? NULL : part_borrow;
    vtable.advise = part_advise;
    vtable.close = part_close;
    const sft_status status = sft_source_create(
        out, &vtable, p, &(sft_source_info){size, sft_source_flags(p->inner), name, p->allocator},
        err);
    if (status != SFT_OK) {
        part_close(p);
    }
    return status;
}

static sft_status inside(const sft_source *inner, uint64_t offset, uint64_t size, sft_error *err) {
    const uint64_t all = sft_source_size(inner);
    if (offset > all || size > all - offset) {
        return sft__base_fail_at(err, SFT_E_TRUNCATED, offset,
                                 "%llu bytes are needed here, the file ends at %llu",
                                 (unsigned long long)size, (unsigned long long)all);
    }
    return SFT_OK;
}

sft_status sft__import_source_part(sft_source **out, const sft_source *inner,
                                   sft__import_extent bytes, const char *name,
                                   const sft_allocator *allocator, sft_error *err) {
    const part like = {allocator, inner, bytes.offset, {NULL, 0, 0, 0}};

    *out = NULL;
    SFT_TRY(inside(inner, bytes.offset, bytes.count, err));
    return part_create(out, &like, bytes.count, name, err);
}

sft_status sft__import_source_map(sft_source **out, const sft_source *inner,
                                  sft__import_extent blocks, const sft__import_block_map *map,
                                  const sft_allocator *allocator, sft_error *err) {
    const part like = {allocator, inner, blocks.offset, *map};
    uint64_t in;
    uint64_t size;

    *out = NULL;
    if (map->in_bytes == 0 || map->out_bytes == 0 || map->in_bytes > MAP_BLOCK_MAX ||
        map->out_bytes > MAP_BLOCK_MAX) {
        return sft__base_fail(err, SFT_E_INTERNAL, "a block map needs blocks of 1 to 4096 bytes");
    }
    if (!sft__base_mul64(blocks.count, map->in_bytes, &in) ||
        !sft__base_mul64(blocks.count, map->out_bytes, &size)) {
        return sft__base_fail_at(err, SFT_E_OVERFLOW, blocks.offset, "%llu blocks overflow 64 bits",
                                 (unsigned long long)blocks.count);
    }
    SFT_TRY(inside(inner, blocks.offset, in, err));
    return part_create(out, &like, size, sft_source_name(inner), err);
}

void sft__import_block_swap(void *dst, const void *src, size_t blocks, uint32_t argument) {
    const uint8_t *s = src;
    uint8_t *d = dst;

    for (size_t i = 0; i < blocks; i++) {
        for (uint32_t k = 0; k < argument; k++) {
            d[k] = s[argument - 1 - k];
        }
        s += argument;
        d += argument;
    }
}

/* ---------------------------------------------------------------- bytes in memory */

typedef struct own {
    const sft_allocator *allocator;
    size_t size;
    uint8_t bytes[];
} own;

static sft_status own_read(void *self, uint64_t offset, void *dst, size_t size, sft_error *err) {
    const own *o = self;
    (void)err;
    memcpy(dst, o->bytes + offset, size);
    return SFT_OK;
}

static void own_close(void *self) {
    own *o = self;
    sft__base_free(o->allocator, o, sizeof *o + o->size);
}

sft_status sft__import_source_own(sft_source **out, uint8_t **bytes, size_t size, const char *name,
                                  const sft_allocator *allocator, sft_error *err) {
    sft_source_vtable vtable;
    own *o;

    SFT_TRY(sft__base_need(allocator, &o, sizeof *o + size, err));
    o->allocator = allocator;
    o->size = size;
    *bytes = o->bytes;
    SFT_INIT(&vtable);
    vtable.read_at = own_read;
    vtable.close = own_close;
    const sft_status status = sft_source_create(
        out, &vtable, o, &(sft_source_info){size, SFT_SOURCE_MEMORY, name, allocator}, err);
    if (status != SFT_OK) {
        own_close(o);
    }
    return status;
}
