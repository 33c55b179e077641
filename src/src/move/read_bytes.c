/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * move/read_bytes.c - a stretch of a tensor's packed row-major bytes. Where the tensor lies in one
 * packed piece that is one read; else the stretch is cut into at most 2 * rank + 1 boxes. Read
 * first: read.c.
 */
#include "base/memory/alloc.h"
#include "move/read.h"
#include <sft/extend.h>

static bool bytes_in_one_piece(const sft_tensor *t) {
    return t->piece_count == 1 && t->pieces[0].strides == NULL && t->pieces[0].nbytes == t->nbytes;
}

static sft_status bytes_direct(const sft_catalog *catalog, const sft_tensor *tensor,
                               uint64_t offset, uint8_t *dst, size_t size, sft__move_watch *watch,
                               sft_error *err) {
    const sft_piece *piece = &tensor->pieces[0];
    const sft_source *source = sft_catalog_source_at(catalog, piece->source);
    if (source == NULL) {
        return sft__base_fail(err, SFT_E_ARG, "the tensor is not of this catalog");
    }
    SFT_TRY(sft_source_read(source, piece->offset + offset, dst, size, err));
    return sft__move_watch_add(watch, size, err);
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
static sft_status bytes_boxes(const sft_catalog *catalog, sft__move_view *v, uint64_t first,
                              uint64_t end, uint8_t *dst, sft__move_watch *watch, sft_error *err) {
    const sft_dtype *t = v->dtype;

    while (first < end) {
        const uint64_t n = bytes_box(v, first, end);
        uint64_t stride = t->block_elements > 1 ? 1 : t->block_bytes;
        for (uint32_t d = v->tensor->rank; d-- > 0;) {
            v->dst_stride[d] = (int64_t)stride;
            stride *= v->dims[d].count;
        }
        SFT_TRY(sft__move_view_read(v, catalog, dst, watch, err));
        dst += (size_t)(n / t->block_elements * t->block_bytes);
        first += n;
    }
    return SFT_OK;
}

/* The part of block `index` (block_bytes each) that lies in [offset, offset + size). */
static sft_status bytes_of_block(const sft_catalog *catalog, sft__move_view *v, uint64_t index,
                                 uint8_t *dst, uint64_t skip, uint64_t size, sft__move_watch *watch,
                                 sft_error *err) {
    const sft_dtype *t = v->dtype;
    uint8_t *block = sft__base_alloc(NULL, t->block_bytes);

    if (block == NULL) {
        return sft__base_fail_nomem(err, t->block_bytes);
    }
    const sft_status status = bytes_boxes(catalog, v, index * t->block_elements,
                                          (index + 1) * t->block_elements, block, watch, err);
    if (status == SFT_OK) {
        memcpy(dst, block + (size_t)skip, (size_t)size);
    }
    sft__base_free(NULL, block, t->block_bytes);
    return status;
}

static sft_status bytes_gathered(const sft_catalog *catalog, sft__move_view *v, uint64_t offset,
                                 uint8_t *dst, uint64_t size, sft__move_watch *watch,
                                 sft_error *err) {
    const uint64_t bytes = v->dtype->block_bytes;
    const uint64_t elements = v->dtype->block_elements;

    if (offset % bytes != 0 && size > 0) {
        const uint64_t skip = offset % bytes;
        const uint64_t n = size < bytes - skip ? size : bytes - skip;
        SFT_TRY(bytes_of_block(catalog, v, offset / bytes, dst, skip, n, watch, err));
        dst += (size_t)n;
        offset += n;
        size -= n;
    }
    const uint64_t first = offset / bytes;
    const uint64_t whole = size / bytes;
    SFT_TRY(bytes_boxes(catalog, v, first * elements, (first + whole) * elements, dst, watch, err));
    if (size % bytes != 0) {
        return bytes_of_block(catalog, v, first + whole, dst + (size_t)(whole * bytes), 0,
                              size % bytes, watch, err);
    }
    return SFT_OK;
}

sft_status sft__move_tensor_bytes(const sft_catalog *catalog, const sft_tensor *tensor,
                                  uint64_t offset, uint8_t *dst, size_t size,
                                  sft__move_watch *watch, sft_error *err) {
    sft__move_view view;
    sft_status status;

    if (size == 0) {
        return SFT_OK;
    }
    if (bytes_in_one_piece(tensor)) {
        return bytes_direct(catalog, tensor, offset, dst, size, watch, err);
    }
    status = sft__move_view_init(&view, tensor, NULL, err);
    if (status == SFT_OK) {
        status = bytes_gathered(catalog, &view, offset, dst, size, watch, err);
    }
    sft__move_view_reset(&view);
    return status;
}

sft_status sft_tensor_read_bytes(const sft_catalog *catalog, const sft_tensor *tensor,
                                 uint64_t offset, void *dst, size_t size, sft_error *err) {
    sft__move_watch watch;

    if (catalog == NULL || tensor == NULL || (dst == NULL && size != 0)) {
        return sft__base_fail(err, SFT_E_ARG, "catalog, tensor or dst is NULL");
    }
    if (offset > tensor->nbytes || size > tensor->nbytes - offset) {
        return sft__base_fail_tensor(
            err, SFT_E_RANGE, SFT_NO_OFFSET, tensor->name, tensor->name_len,
            "bytes %llu to %llu wanted of a tensor of %llu bytes", (unsigned long long)offset,
            (unsigned long long)offset + size, (unsigned long long)tensor->nbytes);
    }
    SFT_TRY(sft__move_watch_init(&watch, NULL, size, false, err));
    return sft__move_name_tensor(
        err, tensor, sft__move_tensor_bytes(catalog, tensor, offset, dst, size, &watch, err));
}
