/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * move/load/reader.c - stretches of tensors in the way that suits each file: finds the place in the caller's
 * memory that direct reads want. Read first: ../read_bytes.c, io/reader.h.
 */
#include "base/memory/need.h"
#include "base/sizes.h"
#include "move/read.h"
#include <sft/extend.h>

enum { ALIGNED = 16 };

struct sft_reader {
    const sft_catalog *catalog;
    const sft_allocator *allocator;
    size_t count;
    sft__io_reader sources[];
};

static size_t bytes_of(size_t sources) {
    return sizeof(sft_reader) + sources * sizeof(sft__io_reader);
}

sft_status sft_reader_create(sft_reader **out, const sft_catalog *catalog, sft_strategy strategy,
                             const sft_allocator *allocator, sft_error *err) {
    SFT_OUT(out, err);
    if (catalog == NULL) {
        return sft__base_fail(err, SFT_E_ARG, "catalog is NULL");
    }
    SFT_TRY(sft__io_strategy_check(strategy, err));
    if (strategy == SFT_STRATEGY_MAP) {
        return sft__base_fail(err, SFT_E_UNSUPPORTED, "a mapping has nothing to read");
    }
    const size_t count = sft_catalog_source_count(catalog);
    /* cannot overflow: the catalog holds an array of that length */
    sft_reader *r = sft__base_alloc_zero(sft__base_allocator(allocator), bytes_of(count));
    SFT_NEED(r != NULL, bytes_of(count), err);
    r->catalog = catalog;
    r->allocator = sft__base_allocator(allocator);
    r->count = count;
    for (size_t i = 0; i < count; i++) {
        r->sources[i].source = sft_catalog_source_at(catalog, i);
        r->sources[i].wanted = sft_source_size(r->sources[i].source);
    }
    sft__io_readers_open(r->sources, count, strategy, false);
    *out = r;
    return SFT_OK;
}

/* Where in room, from a page's beginning on, byte `offset` of a file goes: to the same place in a page. */
static uint8_t *place_in(void *room, uint64_t offset) {
    const uintptr_t mask = SFT__FS_DIRECT_ALIGN - 1;
    uint8_t *page = (uint8_t *)room + (size_t)((0 - (uintptr_t)room) & mask);
    return page + (size_t)(offset & mask);
}

static sft_status read_stretch(sft_reader *r, const sft__move_stretch *s, uint8_t *at,
                               sft_error *err) {
    const sft_tensor *t = s->tensor;
    sft__move_watch watch;

    for (uint32_t i = 0; i < t->piece_count; i++) {
        if (t->pieces[i].source >= r->count) {
            return sft__base_fail(err, SFT_E_ARG, "the tensor is not of this catalog");
        }
    }
    SFT_TRY(sft__move_watch_init(&watch, NULL, s->size, false, err));
    SFT_TRY(sft__move_tensor_bytes(r->catalog, s, at, &watch, err));
    for (uint32_t i = 0; i < t->piece_count; i++) {
        SFT_TRY(sft__io_reader_unchanged(&r->sources[t->pieces[i].source], "read", err));
    }
    return SFT_OK;
}

sft_status sft_reader_read(sft_reader *reader, const sft_tensor *tensor, uint64_t offset,
                           size_t size, void **data, sft_error *err) {
    if (reader == NULL || tensor == NULL || data == NULL || *data == NULL) {
        return sft__base_fail(err, SFT_E_ARG, "reader, tensor or data is NULL");
    }
    const sft__move_stretch stretch = {tensor, offset, size,
                                       size < sft__base_size.load_span ? NULL : reader->sources};
    SFT_TRY(sft__move_stretch_check(&stretch, err));
    uint8_t *at = place_in(*data, sft__move_packed(tensor) ? tensor->pieces[0].offset + offset : 0);
    SFT_TRY(sft__move_name_tensor(err, tensor, read_stretch(reader, &stretch, at, err)));
    const size_t skew = (size_t)((uintptr_t)at % ALIGNED); /* less than its place in the page */
    if (skew != 0) {
        memmove(at - skew, at, size);
    }
    *data = at - skew;
    return SFT_OK;
}

void sft_reader_free(sft_reader *reader) {
    if (reader != NULL) {
        for (size_t i = 0; i < reader->count; i++) {
            sft__io_reader_close(&reader->sources[i]);
        }
        sft__base_free(reader->allocator, reader, bytes_of(reader->count));
    }
}
