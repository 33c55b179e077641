/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * layout/shard.c - from (layout, shape, rank) to boxes. Nothing is allocated. Read layout/layout.h first.
 */
#include "base/checked.h"
#include "base/error.h"
#include "layout/layout.h"

/* [start, start + count) of one segment or dimension. */
typedef struct span {
    uint64_t start;
    uint64_t count;
} span;

/* ---------------------------------------------------------------- one dimension */

static uint64_t digit_of(const sft__layout_digit *digit, uint64_t device) {
    return device / digit->divisor % digit->size;
}

/* Part `index` of `parts` of a span. parts is not 0. */
static span cut_once(span from, sft__layout_split split, uint64_t parts, uint64_t index) {
    const uint64_t n = from.count;
    uint64_t begin;
    uint64_t end;
    if (split == SFT__SPLIT_BALANCED) {
        const uint64_t rest = n % parts;
        begin = index * (n / parts) + (index < rest ? index : rest);
        end = begin + n / parts + (index < rest ? 1 : 0);
    } else {
        const uint64_t size = n / parts + (n % parts != 0 ? 1 : 0);
        /* index * size may be past n, and then past 2^64: compare before multiplying */
        begin = size != 0 && index > n / size ? n : index * size;
        begin = begin < n ? begin : n;
        end = size < n - begin ? begin + size : n;
    }
    from.start += begin;
    from.count = end - begin;
    return from;
}

/* What a device holds of a segment of n elements. */
static span cut_segment(const sft__layout_dim_cut *cut, uint64_t n, uint64_t device) {
    span s = {0, n};
    if (cut->split == SFT__SPLIT_SIZES) {
        uint64_t part = 0;
        for (size_t i = 0; i < cut->digit_count; i++) {
            part = part * cut->digits[i].size + digit_of(&cut->digits[i], device);
        }
        for (uint64_t i = 0; i < part; i++) {
            s.start += cut->sizes[i];
        }
        s.count = cut->sizes[part];
        return s;
    }
    for (size_t i = 0; i < cut->digit_count; i++) {
        s = cut_once(s, cut->split, cut->digits[i].size, digit_of(&cut->digits[i], device));
    }
    return s;
}

static uint64_t block_length(const sft__layout_dim_cut *cut, uint64_t n, size_t block) {
    return cut->blocks != NULL ? cut->blocks[block] : n / cut->block_count;
}

/* Size of the device's part of a dimension, and its non-empty blocks. */
static uint64_t local_extent(const sft__layout_dim_cut *cut, uint64_t n, uint64_t device,
                             uint64_t *blocks) {
    uint64_t sum = 0;
    *blocks = 0;
    for (size_t i = 0; i < cut->block_count; i++) {
        const uint64_t count = cut_segment(cut, block_length(cut, n, i), device).count;
        sum += count; /* at most n */
        *blocks += count != 0;
    }
    return sum;
}

/* The wanted-th non-empty block of a dimension: where it is in full and in the device's part. */
static void find_block(const sft__layout_dim_cut *cut, uint64_t n, uint64_t device, uint64_t wanted,
                       span *full, uint64_t *local) {
    uint64_t at = 0;
    *local = 0;
    for (size_t i = 0; i < cut->block_count; i++) {
        const uint64_t length = block_length(cut, n, i);
        *full = cut_segment(cut, length, device);
        if (full->count != 0 && wanted-- == 0) {
            full->start += at;
            return;
        }
        at += length;
        *local += full->count;
    }
}

/* ---------------------------------------------------------------- may this shape be cut so? */

static sft_status check_sum(const uint64_t *list, uint64_t count, uint64_t n, size_t dim,
                            const char *what, sft_error *err) {
    uint64_t sum = 0;
    for (uint64_t i = 0; i < count; i++) {
        if (!sft__base_add64(sum, list[i], &sum)) {
            return sft__base_fail(err, SFT_E_OVERFLOW, "dimension %llu: the %s overflow",
                                  (unsigned long long)dim, what);
        }
    }
    if (sum != n) {
        return sft__base_fail(
            err, SFT_E_SHAPE, "dimension %llu of size %llu: the %s add up to %llu",
            (unsigned long long)dim, (unsigned long long)n, what, (unsigned long long)sum);
    }
    return SFT_OK;
}

static sft_status check_dim(const sft__layout_dim_cut *cut, uint64_t n, size_t dim,
                            sft_error *err) {
    if (cut->split == SFT__SPLIT_SIZES) {
        return check_sum(cut->sizes, cut->parts, n, dim, "sizes", err);
    }
    if (cut->blocks != NULL) {
        SFT_TRY(check_sum(cut->blocks, cut->block_count, n, dim, "blocks", err));
    } else if (n % cut->block_count != 0) {
        return sft__base_fail(
            err, SFT_E_SHAPE, "dimension %llu of size %llu cannot have %llu equal blocks",
            (unsigned long long)dim, (unsigned long long)n, (unsigned long long)cut->block_count);
    }
    for (size_t i = 0; i < cut->block_count && cut->split == SFT__SPLIT_EVEN; i++) {
        if (block_length(cut, n, i) % cut->parts != 0) {
            return sft__base_fail(
                err, SFT_E_SHAPE,
                "dimension %llu: %llu elements cannot be cut into %llu equal parts",
                (unsigned long long)dim, (unsigned long long)block_length(cut, n, i),
                (unsigned long long)cut->parts);
        }
    }
    return SFT_OK;
}

static sft_status check_box(const sft_layout *layout, const uint64_t *shape, uint64_t device,
                            sft_error *err) {
    const uint64_t *const start = layout->boxes + device * 2 * layout->dims;
    const uint64_t *const count = start + layout->dims;
    for (size_t d = 0; d < layout->dims; d++) {
        if (start[d] > shape[d] || count[d] > shape[d] - start[d]) {
            return sft__base_fail(
                err, SFT_E_SHAPE,
                "box of rank %llu ends at %llu + %llu in dimension %llu of size %llu",
                (unsigned long long)layout->ranks[device], (unsigned long long)start[d],
                (unsigned long long)count[d], (unsigned long long)d, (unsigned long long)shape[d]);
        }
    }
    return SFT_OK;
}

static sft_status count_elements(const uint64_t *shape, size_t dims, uint64_t *elements,
                                 sft_error *err) {
    uint64_t n = 1;
    for (size_t i = 0; i < dims; i++) {
        if (!sft__base_mul64(n, shape[i], &n)) {
            return sft__base_fail(err, SFT_E_OVERFLOW, "number of elements overflows 64 bits");
        }
    }
    *elements = n;
    return SFT_OK;
}

/* All but explicit boxes, which are checked one by one. */
static sft_status check_shape(const sft_layout *layout, const uint64_t *shape, size_t dims,
                              sft_error *err) {
    uint64_t elements;
    if (dims > SFT_LAYOUT_RANK) {
        return sft__base_fail(err, SFT_E_LIMIT,
                              "tensor of %llu dimensions, at most %u are possible",
                              (unsigned long long)dims, SFT_LAYOUT_RANK);
    }
    if (layout->kind == SFT__LAYOUT_FLAT) {
        return count_elements(shape, dims, &elements, err);
    }
    if (dims != layout->dims) {
        return sft__base_fail(err, SFT_E_SHAPE, "tensor of %llu dimensions, the layout has %llu",
                              (unsigned long long)dims, (unsigned long long)layout->dims);
    }
    for (size_t i = 0; i < dims && layout->kind == SFT__LAYOUT_CUT; i++) {
        SFT_TRY(check_dim(&layout->cuts[i], shape[i], i, err));
    }
    return SFT_OK;
}

sft_status sft__layout_check(const sft_layout *layout, const uint64_t *shape, size_t dims,
                             sft_error *err) {
    SFT_TRY(check_shape(layout, shape, dims, err));
    for (uint64_t i = 0; i < layout->devices && layout->kind == SFT__LAYOUT_BOXES; i++) {
        SFT_TRY(check_box(layout, shape, i, err));
    }
    return SFT_OK;
}

/* ---------------------------------------------------------------- flat ranges */

/* The elements of the device. */
static sft_status flat_range(const sft_layout *layout, const uint64_t *shape, size_t dims,
                             uint64_t device, span *range, sft_error *err) {
    const sft__layout_dim_cut *const cut = &layout->cuts[0];
    uint64_t n = 0;
    uint64_t part = 0;
    SFT_TRY(count_elements(shape, dims, &n, err));
    for (size_t i = 0; i < cut->digit_count; i++) {
        part = part * cut->digits[i].size + digit_of(&cut->digits[i], device);
    }
    uint64_t size = n / cut->parts + (n % cut->parts != 0 ? 1 : 0);
    const uint64_t over = size % layout->align;
    if (over != 0 && !sft__base_add64(size, layout->align - over, &size)) {
        size = UINT64_MAX;
    }
    const uint64_t begin = size != 0 && part > n / size ? n : part * size;
    range->start = begin < n ? begin : n;
    range->count = size < n - range->start ? size : n - range->start;
    return SFT_OK;
}

/* The largest box that begins at element x, stays below `end` and is contiguous; returns its elements.
 * Empty shapes do not come here: they have no element x. */
static uint64_t flat_box(const uint64_t *shape, size_t dims, uint64_t x, uint64_t end,
                         const sft__layout_shard *out) {
    uint64_t inner = 1;
    size_t k = dims;
    for (size_t i = 0; i < dims; i++) {
        inner *= shape[i]; /* the elements: checked */
    }
    if (dims == 0) {
        return 1;
    }
    for (k = 0; k < dims; k++) {
        inner /= shape[k];
        if (x % inner == 0 && end - x >= inner) {
            break;
        }
    }
    uint64_t rest = x;
    uint64_t step = inner;
    const uint64_t room = (end - x) / inner;
    const uint64_t left = shape[k] - x / inner % shape[k];
    const uint64_t many = room < left ? room : left;
    for (size_t i = dims; i-- > 0;) {
        out->start[i] = rest % shape[i];
        rest /= shape[i];
        out->count[i] = i > k ? shape[i] : (i == k ? many : 1);
    }
    return step * many;
}

/* The boxes of a range, in order: box `index` into out (NULL: none is asked for); their number, unless it
 * was found. */
static uint64_t flat_boxes(const uint64_t *shape, size_t dims, span range, uint64_t index,
                           const sft__layout_shard *out) {
    uint64_t starts[SFT_LAYOUT_RANK];
    uint64_t counts[SFT_LAYOUT_RANK];
    const sft__layout_shard scratch = {starts, counts, NULL};
    const sft__layout_shard *const to = out != NULL ? out : &scratch;
    const uint64_t end = range.start + range.count; /* of the tensor's elements */
    uint64_t n = 0;
    for (uint64_t x = range.start; x < end; n++) {
        const uint64_t taken = flat_box(shape, dims, x, end, to);
        if (out != NULL && n == index) {
            out->local_start[0] = x - range.start;
            return n;
        }
        x += taken;
    }
    return n;
}

/* ---------------------------------------------------------------- the questions */

static sft_status ready(const sft_layout *layout, const uint64_t *shape, size_t dims, uint64_t rank,
                        uint64_t *device, sft_error *err) {
    SFT_TRY(check_shape(layout, shape, dims, err));
    if (!sft__layout_device(layout, rank, device)) {
        return sft__base_fail(err, SFT_E_NOT_FOUND, "rank %llu is not of this mesh",
                              (unsigned long long)rank);
    }
    return layout->kind == SFT__LAYOUT_BOXES ? check_box(layout, shape, *device, err) : SFT_OK;
}

sft_status sft_layout_local_shape(const sft_layout *layout, const uint64_t *shape, size_t dims,
                                  uint64_t rank, uint64_t *local, sft_error *err) {
    uint64_t device;
    uint64_t blocks;
    SFT_TRY(ready(layout, shape, dims, rank, &device, err));
    if (layout->kind == SFT__LAYOUT_FLAT) {
        span range;
        SFT_TRY(flat_range(layout, shape, dims, device, &range, err));
        local[0] = range.count;
        return SFT_OK;
    }
    for (size_t i = 0; i < dims; i++) {
        local[i] = layout->kind == SFT__LAYOUT_BOXES
                       ? layout->boxes[device * 2 * dims + dims + i]
                       : local_extent(&layout->cuts[i], shape[i], device, &blocks);
    }
    return SFT_OK;
}

static uint64_t box_count(const sft_layout *layout, const uint64_t *shape, uint64_t device) {
    uint64_t n = 1;
    uint64_t blocks;
    for (size_t i = 0; i < layout->dims; i++) {
        if (layout->kind == SFT__LAYOUT_BOXES) {
            blocks = layout->boxes[device * 2 * layout->dims + layout->dims + i] != 0;
        } else {
            (void)local_extent(&layout->cuts[i], shape[i], device, &blocks);
        }
        n = n > UINT64_MAX / (blocks == 0 ? 1 : blocks) ? UINT64_MAX : n * blocks;
    }
    return n;
}

sft_status sft__layout_shard_count(const sft_layout *layout, const uint64_t *shape, size_t dims,
                                   uint64_t rank, uint64_t *count, sft_error *err) {
    uint64_t device;
    SFT_TRY(ready(layout, shape, dims, rank, &device, err));
    if (layout->kind == SFT__LAYOUT_FLAT) {
        span range;
        SFT_TRY(flat_range(layout, shape, dims, device, &range, err));
        *count = flat_boxes(shape, dims, range, 0, NULL);
        return SFT_OK;
    }
    *count = box_count(layout, shape, device);
    return SFT_OK;
}

static void box_at(const sft_layout *layout, const uint64_t *shape, uint64_t device, uint64_t index,
                   const sft__layout_shard *out) {
    const size_t dims = layout->dims;
    for (size_t i = dims; i-- > 0;) {
        if (layout->kind == SFT__LAYOUT_BOXES) {
            out->start[i] = layout->boxes[device * 2 * dims + i];
            out->count[i] = layout->boxes[device * 2 * dims + dims + i];
            out->local_start[i] = 0;
        } else {
            uint64_t blocks;
            span full = {0, 0};
            (void)local_extent(&layout->cuts[i], shape[i], device, &blocks);
            find_block(&layout->cuts[i], shape[i], device, index % blocks, &full,
                       &out->local_start[i]);
            out->start[i] = full.start;
            out->count[i] = full.count;
            index /= blocks;
        }
    }
}

sft_status sft__layout_shard_at(const sft_layout *layout, const uint64_t *shape, size_t dims,
                                uint64_t rank, uint64_t index, const sft__layout_shard *out,
                                sft_error *err) {
    uint64_t device;
    uint64_t count;
    SFT_TRY(sft__layout_shard_count(layout, shape, dims, rank, &count, err));
    if (index >= count) {
        return sft__base_fail(err, SFT_E_RANGE, "shard %llu of %llu", (unsigned long long)index,
                              (unsigned long long)count);
    }
    (void)sft__layout_device(layout, rank, &device);
    if (layout->kind == SFT__LAYOUT_FLAT) {
        span range;
        SFT_TRY(flat_range(layout, shape, dims, device, &range, err));
        (void)flat_boxes(shape, dims, range, index, out);
        return SFT_OK;
    }
    box_at(layout, shape, device, index, out);
    return SFT_OK;
}
