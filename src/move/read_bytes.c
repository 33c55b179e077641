/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * move/read_bytes.c - a stretch of a tensor's packed row-major bytes. Where the tensor lies in one
 * packed piece that is one read; else the stretch is cut into at most 2 * rank + 1 boxes. Read
 * first: read.c.
 */
#include "base/memory/need.h"
#include "move/read.h"
#include <sft/extend.h>

/* Where the boxes of one view go. */
typedef struct bytes_reader {
    const sft_catalog *catalog;
    sft__move_view view;
    sft__move_watch *watch;
} bytes_reader;

static sft_status bytes_direct(const sft_catalog *catalog, const sft__move_stretch *s, uint8_t *dst,
                               sft__move_watch *watch, sft_error *err) {
    const sft_piece *piece = &s->tensor->pieces[0];
    const sft_source *source = sft_catalog_source_at(catalog, piece->source);
    if (source == NULL) {
        return sft__base_fail(err, SFT_E_ARG, "the tensor is not of this catalog");
    }
    const uint64_t offset = piece->offset + s->offset;
    SFT_TRY(s->ways != NULL
                ? sft__io_reader_read(&s->ways[piece->source], offset, s->size, dst, err)
                : sft_source_read(source, offset, dst, s->size, err));
    return sft__move_watch_add(watch, s->size, err);
}

/* Makes the view the largest box that begins at element `first` of the row-major order and ends at
 * or before `end`; returns its elements. */
static uint64_t bytes_box(sft__move_view *v, uint64_t first, uint64_t end) {
    const sft_tensor *t = v->tensor;
    uint64_t inner = 1; /* elements of one index of dimension d */
    uint32_t d = t->rank;
    uint64_t rest = first;

    for (uint32_t k = 0; k < t->rank; k++) {
        v->dims[k] = (sft_dim){0, 1, 1, 0, 0};
    }
    /* whole inner dimensions, as long as the stretch begins at their start and holds them */
    while (d > 0 && first % (inner * t->shape[d - 1]) == 0 &&
           inner * t->shape[d - 1] <= end - first) {
        d--;
        v->dims[d].count = t->shape[d];
        inner *= t->shape[d];
    }
    rest /= inner;
    for (uint32_t k = d; k-- > 0;) {
        v->dims[k].start = rest % t->shape[k];
        rest /= t->shape[k];
    }
    v->elements = inner;
    if (d > 0) {
        const uint64_t left = t->shape[d - 1] - v->dims[d - 1].start;
        const uint64_t fit = (end - first) / inner;
        v->dims[d - 1].count = left < fit ? left : fit;
        v->elements = inner * v->dims[d - 1].count;
    }
    return v->elements;
}

/* Whole blocks [first, end) in elements. */
static sft_status bytes_boxes(bytes_reader *r, uint64_t first, uint64_t end, uint8_t *dst,
                              sft_error *err) {
    sft__move_view *v = &r->view;
    const sft_dtype *t = v->dtype;

    while (first < end) {
        const uint64_t n = bytes_box(v, first, end);
        uint64_t stride = t->block_elements > 1 ? 1 : t->block_bytes;
        for (uint32_t d = v->tensor->rank; d-- > 0;) {
            v->dst_stride[d] = (int64_t)stride;
            stride *= v->dims[d].count;
        }
        SFT_TRY(sft__move_view_read(v, r->catalog, dst, r->watch, err));
        dst += (size_t)(n / t->block_elements * t->block_bytes);
        first += n;
    }
    return SFT_OK;
}

/* Bytes [skip, skip + size) of block `index`. */
static sft_status bytes_of_block(bytes_reader *r, uint64_t index, uint64_t skip, uint64_t size,
                                 uint8_t *dst, sft_error *err) {
    const sft_dtype *t = r->view.dtype;
    uint8_t *block = sft__base_alloc(NULL, t->block_bytes);

    SFT_NEED(block != NULL, t->block_bytes, err);
    const sft_status status =
        bytes_boxes(r, index * t->block_elements, (index + 1) * t->block_elements, block, err);
    if (status == SFT_OK) {
        memcpy(dst, block + (size_t)skip, (size_t)size);
    }
    sft__base_free(NULL, block, t->block_bytes);
    return status;
}

static sft_status bytes_gathered(bytes_reader *r, uint64_t offset, uint64_t size, uint8_t *dst,
                                 sft_error *err) {
    const uint64_t bytes = r->view.dtype->block_bytes;
    const uint64_t elements = r->view.dtype->block_elements;

    if (offset % bytes != 0 && size > 0) {
        const uint64_t skip = offset % bytes;
        const uint64_t n = size < bytes - skip ? size : bytes - skip;
        SFT_TRY(bytes_of_block(r, offset / bytes, skip, n, dst, err));
        dst += (size_t)n;
        offset += n;
        size -= n;
    }
    const uint64_t first = offset / bytes;
    const uint64_t whole = size / bytes;
    SFT_TRY(bytes_boxes(r, first * elements, (first + whole) * elements, dst, err));
    return size % bytes == 0 ? SFT_OK
                             : bytes_of_block(r, first + whole, 0, size % bytes,
                                              dst + (size_t)(whole * bytes), err);
}

sft_status sft__move_tensor_bytes(const sft_catalog *catalog, const sft__move_stretch *stretch,
                                  uint8_t *dst, sft__move_watch *watch, sft_error *err) {
    bytes_reader r = {.catalog = catalog, .watch = watch};

    if (stretch->size == 0) {
        return SFT_OK;
    }
    if (sft__move_packed(stretch->tensor)) {
        return bytes_direct(catalog, stretch, dst, watch, err);
    }
    sft_status status = sft__move_view_init(&r.view, stretch->tensor, NULL, err);
    if (status == SFT_OK) {
        r.view.ways = stretch->ways;
        status = bytes_gathered(&r, stretch->offset, stretch->size, dst, err);
    }
    sft__move_view_reset(&r.view);
    return status;
}

sft_status sft__move_stretch_check(const sft__move_stretch *s, sft_error *err) {
    if (s->offset > s->tensor->nbytes || s->size > s->tensor->nbytes - s->offset) {
        return SFT_FAIL_TENSOR(
            err, SFT_E_RANGE, s->tensor, "bytes %llu to %llu wanted of a tensor of %llu bytes",
            (unsigned long long)s->offset, (unsigned long long)s->offset + s->size,
            (unsigned long long)s->tensor->nbytes);
    }
    return SFT_OK;
}

sft_status sft_tensor_read_bytes(const sft_catalog *catalog, const sft_tensor *tensor,
                                 uint64_t offset, void *dst, size_t size, sft_error *err) {
    const sft__move_stretch stretch = {tensor, offset, size, NULL};
    sft__move_watch watch;

    if (catalog == NULL || tensor == NULL || (dst == NULL && size != 0)) {
        return sft__base_fail(err, SFT_E_ARG, "catalog, tensor or dst is NULL");
    }
    SFT_TRY(sft__move_stretch_check(&stretch, err));
    SFT_TRY(sft__move_watch_init(&watch, NULL, size, false, err));
    return sft__move_name_tensor(err, tensor,
                                 sft__move_tensor_bytes(catalog, &stretch, dst, &watch, err));
}
