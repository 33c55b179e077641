/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * move/read_run.c - recognises the reads that are one run of bytes, as they are, from a source of
 * this machine: for 16 KiB a view, a grid and a mover cost as much as half of the system call. It
 * only ever says "yes, these bytes" where the long way (read.c) would make the same one call;
 * whatever is unusual or wrong is left to that way and its words.
 */
#include "move/read.h"
#include <sft/extend.h>

/* Nothing to convert, to watch, to share or to place. */
static bool run_options_plain(const sft_read_options *o, const sft_tensor *t) {
    const uint32_t harmless = SFT_BIG_ENDIAN ? 0 : SFT_READ_HOST_ORDER;
    return o == NULL || (o->struct_size == sizeof *o && o->dst_strides == NULL && o->pool == NULL &&
                         o->control == NULL && (o->flags & ~harmless) == 0 &&
                         (o->slices != NULL || o->slice_count == 0) &&
                         (o->dtype == NULL || o->dtype->id == t->dtype->id));
}

/* First index and count of a dimension of `size` under a plain slice: upwards, one by one, not
 * counted from the end. */
static bool run_of_slice(const sft_slice *s, uint64_t size, uint64_t *first, uint64_t *count) {
    const bool index = s->kind == SFT_SLICE_INDEX;

    *first = s->start == SFT_OMIT && !index ? 0 : (uint64_t)s->start;
    uint64_t stop = s->stop == SFT_OMIT || (uint64_t)s->stop > size ? size : (uint64_t)s->stop;
    stop = index ? *first + 1 : stop;
    *count = stop - *first;
    return (index || (s->kind == SFT_SLICE_RANGE && s->step == 1 &&
                      (s->stop >= 0 || s->stop == SFT_OMIT))) &&
           *first < size && *first < stop;
}

/* Where the slices leave one run: offset in the tensor and bytes. Products of a tensor that has an
 * empty dimension may wrap; no slice of that dimension holds anything. */
static bool run_of_slices(const sft_read_options *o, const sft_tensor *t, uint64_t *offset,
                          uint64_t *size) {
    uint64_t stride = *size = t->dtype->block_bytes;
    bool whole = true;

    *offset = 0;
    if (o->slice_count > t->rank) {
        return false;
    }
    for (uint32_t d = t->rank; d-- > 0; stride *= t->shape[d]) {
        uint64_t first = 0;
        uint64_t n = t->shape[d];
        if (n == 0 || (d < o->slice_count && !run_of_slice(&o->slices[d], n, &first, &n)) ||
            (n != 1 && !whole)) {
            return false;
        }
        whole = whole && n == t->shape[d];
        *offset += first * stride;
        *size *= n;
    }
    return true;
}

/* Whether the read is one run of bytes as they are: its offset in the source, and its size. */
static bool run_is(const sft_source *source, const sft_tensor *t, const sft_read_options *o,
                   uint64_t *offset, uint64_t *size) {
    const uint32_t special = SFT_SOURCE_MEMORY | SFT_SOURCE_REMOTE | SFT_SOURCE_SEQUENTIAL;

    if (source == NULL || t->pieces[0].strides != NULL || t->pieces[0].nbytes != t->nbytes ||
        t->dtype->block_elements != 1 || !run_options_plain(o, t) ||
        (sft_source_flags(source) & special) != 0) {
        return false;
    }
    *offset = 0;
    *size = t->nbytes;
    if (o != NULL && o->slice_count != 0 && !run_of_slices(o, t, offset, size)) {
        return false;
    }
    *offset += t->pieces[0].offset;
    return *size != 0;
}

sft_status sft_tensor_read(const sft_catalog *catalog, const sft_tensor *tensor,
                           const sft_read_options *options, void *dst, size_t dst_size,
                           sft_error *err) {
    uint64_t offset;
    uint64_t size;

    if (catalog != NULL && tensor != NULL && dst != NULL && tensor->piece_count == 1) {
        const sft_source *source = sft_catalog_source_at(catalog, tensor->pieces[0].source);
        if (run_is(source, tensor, options, &offset, &size) && size <= dst_size) {
            const sft_status status = sft_source_read(source, offset, dst, (size_t)size, err);
            return status == SFT_OK ? SFT_OK : sft__move_name_tensor(err, tensor, status);
        }
    }
    return sft__move_read_any(catalog, tensor, options, dst, dst_size, err);
}
