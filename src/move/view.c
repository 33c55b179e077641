/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * move/view.c - from slices, pieces and strides to grids. Read first: view.h, grid.h.
 *
 * Units. A type of one element per block is addressed in bytes. A type whose blocks hold several
 * elements (4 and 6 bit floats, quantised blocks) is addressed in elements while dimensions are
 * merged; then every place and every run must be whole blocks, and is turned into bytes. For the
 * types of the format a block boundary is a byte boundary and the other way round, so that is the
 * rule "a run of a slice begins and ends on byte boundaries".
 */
#include "move/view.h"
#include "base/checked.h"
#include "base/memory/need.h"
#include "base/options.h"
#include "move/read.h"
#include <sft/extend.h>

static bool view_in_elements(const sft_dtype *t) {
    return t->block_elements > 1;
}

static uint64_t view_unit(const sft_dtype *t) {
    return view_in_elements(t) ? 1 : t->block_bytes;
}

sft_status sft__move_read_options_get(const sft_read_options *options, sft_read_options *out,
                                      sft_error *err) {
    SFT_TRY(sft__base_options_read(out, sizeof *out, options,
                                   SFT__UP_TO(sft_read_options, slice_count), "read options", err));
    if ((out->flags & ~(SFT_READ_HOST_ORDER | SFT_READ_BORROW)) != 0) {
        return sft__base_fail(err, SFT_E_ARG, "unknown read flags %lu", (unsigned long)out->flags);
    }
    if (out->slices == NULL && out->slice_count != 0) {
        return sft__base_fail(err, SFT_E_ARG, "slices is NULL but slice_count is %llu",
                              (unsigned long long)out->slice_count);
    }
    return SFT_OK;
}

static sft_status view_rooms(sft__move_view *v, sft_error *err) {
    const size_t rank = v->tensor->rank;

    v->dims = v->dims_room;
    v->dst_stride = v->stride_room;
    if (rank > SFT__VIEW_RANK) {
        v->dims = sft__base_alloc_array(NULL, rank, sizeof *v->dims);
        v->dst_stride = sft__base_alloc_array(NULL, rank, sizeof *v->dst_stride);
        SFT_NEED(v->dims != NULL && v->dst_stride != NULL,
                 rank * (sizeof *v->dims + sizeof *v->dst_stride), err);
    }
    return SFT_OK;
}

void sft__move_view_reset(sft__move_view *v) {
    if (v->dims != v->dims_room) {
        sft__base_free(NULL, v->dims, v->tensor->rank * sizeof *v->dims);
    }
    if (v->dst_stride != v->stride_room) {
        sft__base_free(NULL, v->dst_stride, v->tensor->rank * sizeof *v->dst_stride);
    }
    v->dims = v->dims_room;
    v->dst_stride = v->stride_room;
}

uint32_t sft__move_kernel_for(const sft_dtype *from, const sft_dtype *to, bool host_order) {
    if (to->id != from->id) {
        return SFT__KERNEL_CONVERT;
    }
    return SFT_BIG_ENDIAN && host_order && from->kind != SFT_KIND_OPAQUE &&
                   from->block_elements == 1 && from->alignment > 1
               ? SFT__KERNEL_SWAP
               : SFT__KERNEL_COPY;
}

static sft_status view_kernel(sft__move_view *v, const sft_read_options *o, sft_error *err) {
    const sft_dtype *from = v->tensor->dtype;
    const bool host_order = (o->flags & SFT_READ_HOST_ORDER) != 0;

    v->dtype = o->dtype != NULL ? o->dtype : from;
    v->convert_flags = host_order && SFT_BIG_ENDIAN ? SFT_CONVERT_HOST_DST : 0;
    v->borrow = (o->flags & SFT_READ_BORROW) != 0;
    v->kernel = sft__move_kernel_for(from, v->dtype, host_order);
    if (v->kernel == SFT__KERNEL_CONVERT &&
        (sft_dtype_get(from->id) == NULL || sft_dtype_get(v->dtype->id) == NULL)) {
        return SFT_FAIL_TENSOR(err, SFT_E_UNSUPPORTED, v->tensor, "no cast from %s to %s",
                               from->name, v->dtype->name);
    }
    return SFT_OK;
}

/* The caller's strides (bytes per result dimension) into units per tensor dimension; low and span.
 */
static sft_status view_strides_given(sft__move_view *v, const int64_t *given, sft_error *err) {
    const sft_dtype *t = v->dtype;
    uint64_t low = 0;
    uint64_t high = 0;
    uint32_t r = v->rank;
    bool fits = true;

    for (uint32_t d = v->tensor->rank; d-- > 0;) {
        v->dst_stride[d] = 0;
        if (v->dims[d].dropped) {
            continue;
        }
        const bool last = r == v->rank;
        const int64_t stride = given[--r];
        const uint64_t n = v->dims[d].count;
        const uint64_t size = stride < 0 ? 0 - (uint64_t)stride : (uint64_t)stride;
        uint64_t reach = 0;
        if (n < 2) {
            continue;
        }
        if (stride == 0) {
            return sft__base_fail(err, SFT_E_ARG, "dst_strides[%lu] is 0: elements would overlap",
                                  (unsigned long)r);
        }
        if (!view_in_elements(t)) {
            fits = fits && sft__base_mul64(n - 1, size, &reach);
            v->dst_stride[d] = stride;
        } else if (stride < 0 || size % t->block_bytes != 0 || (last && size != t->block_bytes)) {
            return sft__base_fail(
                err, SFT_E_ARG,
                "dst_strides[%lu] is %lld: for %s the last must be %lu and the others "
                "positive multiples of it",
                (unsigned long)r, (long long)stride, t->name, (unsigned long)t->block_bytes);
        } else {
            const uint64_t blocks = last ? (n - 1) / t->block_elements : n - 1;
            uint64_t units = size / t->block_bytes;
            fits = fits && sft__base_mul64(blocks, size, &reach);
            fits = fits && (last || sft__base_mul64(units, t->block_elements, &units)) &&
                   units <= INT64_MAX;
            v->dst_stride[d] = (int64_t)(last ? 1 : units);
        }
        fits = fits && sft__base_add64(stride < 0 ? low : high, reach, stride < 0 ? &low : &high);
        if (!fits || low > INT64_MAX || high > INT64_MAX) {
            return sft__base_fail(err, SFT_E_OVERFLOW, "dst_strides lead beyond 63 bits");
        }
    }
    v->low = low;
    if (!sft__base_add64(low, high, &v->span) ||
        !sft__base_add64(v->span, t->block_bytes, &v->span)) {
        return sft__base_fail(err, SFT_E_OVERFLOW, "dst_strides lead beyond 64 bits");
    }
    return SFT_OK;
}

/* Products cannot overflow: none exceeds the elements, and the bytes, of the result, which were
 * checked. */
static void view_strides_packed(sft__move_view *v) {
    uint64_t stride = view_unit(v->dtype);
    for (uint32_t d = v->tensor->rank; d-- > 0;) {
        v->dst_stride[d] = (int64_t)stride;
        stride *= v->dims[d].count;
    }
    v->low = 0;
    v->span = v->nbytes;
}

sft_status sft__move_view_init(sft__move_view *v, const sft_tensor *tensor,
                               const sft_read_options *options, sft_error *err) {
    sft_read_options o;

    v->tensor = tensor;
    v->ways = NULL;
    v->dims = v->dims_room;
    v->dst_stride = v->stride_room;
    SFT_TRY(sft__move_read_options_get(options, &o, err));
    SFT_TRY(view_rooms(v, err));
    SFT_TRY(view_kernel(v, &o, err));
    SFT_TRY(sft_slice_resolve(o.slices, o.slice_count, tensor->shape, tensor->rank, v->dims, err));
    v->rank = 0;
    v->elements = 1;
    for (uint32_t d = 0; d < tensor->rank; d++) {
        v->rank += v->dims[d].dropped ? 0 : 1;
        if (v->dims[d].count == 0) {
            v->elements = 0;
        }
    }
    if (v->elements == 0) { /* the other dimensions may be of any size: no product is taken */
        v->nbytes = v->low = v->span = 0;
        return SFT_OK;
    }
    for (uint32_t d = 0; d < tensor->rank; d++) {
        if (!sft__base_mul64(v->elements, v->dims[d].count, &v->elements)) {
            return sft__base_fail(err, SFT_E_OVERFLOW, "the result has more than 2^64 elements");
        }
    }
    SFT_TRY(sft_dtype_bytes(v->dtype, v->elements, &v->nbytes, err));
    if (o.dst_strides != NULL) {
        return view_strides_given(v, o.dst_strides, err);
    }
    view_strides_packed(v);
    return SFT_OK;
}

/* ---------------------------------------------------------------- grids */

/* Indexes [*from, *to) of the dimension that fall into [low, high). */
static void view_overlap(const sft_dim *dim, uint64_t low, uint64_t high, uint64_t *from,
                         uint64_t *to) {
    const uint64_t start = dim->start;

    *from = 0;
    *to = dim->count;
    if (dim->count < 2) {
        *to = dim->count == 1 && start >= low && start < high ? 1 : 0;
    } else if (dim->step > 0) {
        const uint64_t step = (uint64_t)dim->step;
        const uint64_t below_high = start < high ? (high - 1 - start) / step + 1 : 0;
        *from = start < low ? (low - 1 - start) / step + 1 : 0;
        *to = below_high < dim->count ? below_high : dim->count;
    } else {
        const uint64_t step = 0 - (uint64_t)dim->step;
        const uint64_t from_low = start >= low ? (start - low) / step + 1 : 0;
        *from = start >= high ? (start - high) / step + 1 : 0;
        *to = from_low < dim->count ? from_low : dim->count;
    }
    if (*from > *to) {
        *from = *to;
    }
}

static sft_status view_subbyte(const sft__move_view *v, const sft_dtype *t, sft_error *err) {
    return SFT_FAIL_TENSOR(
        err, SFT_E_SUBBYTE, v->tensor,
        "the slice cuts a block of %lu %s elements: its runs must begin and end on "
        "byte boundaries",
        (unsigned long)t->block_elements, t->name);
}

/* One side of a grid. */
typedef struct grid_side {
    const sft_dtype *type;
    uint64_t *at;
    int64_t *stride;
    uint64_t *block;
} grid_side;

/* Elements into bytes. */
static sft_status view_whole_blocks(const sft__move_view *v, const sft__move_grid *g,
                                    grid_side side, sft_error *err) {
    const sft_dtype *t = side.type;
    const uint64_t e = t->block_elements;

    if (!view_in_elements(t)) {
        return SFT_OK;
    }
    bool whole = *side.at % e == 0 && *side.block % e == 0;
    for (uint32_t d = 0; d < g->rank; d++) {
        whole = whole && side.stride[d] % (int64_t)e == 0;
    }
    if (!whole) {
        return view_subbyte(v, t, err);
    }
    *side.at = *side.at / e * t->block_bytes;
    *side.block = *side.block / e * t->block_bytes;
    for (uint32_t d = 0; d < g->rank; d++) {
        side.stride[d] = side.stride[d] / (int64_t)e * (int64_t)t->block_bytes;
    }
    return SFT_OK;
}

static sft_status view_piece_check(const sft__move_view *v, const sft_piece *piece,
                                   sft_error *err) {
    if (piece->strides != NULL && view_in_elements(v->tensor->dtype)) {
        return sft__base_fail_tensor(
            err, SFT_E_UNSUPPORTED, piece->offset, v->tensor->name, v->tensor->name_len,
            "a strided piece of %s, whose elements share blocks", v->tensor->dtype->name);
    }
    return SFT_OK;
}

/* In units; source offsets relative to the piece. Dimensions of one index are left out at once, so
 * that never more than 63 are held. Products cannot overflow: they address units inside the piece
 * and inside the result, both of which were checked. */
static void view_grid_in_units(const sft__move_view *v, const sft_piece *piece, sft__move_grid *g,
                               bool *empty) {
    uint64_t packed = view_unit(v->tensor->dtype);
    uint32_t rank = 0;

    g->src = 0;
    g->dst = 0;
    *empty = v->elements == 0;
    for (uint32_t d = v->tensor->rank; d-- > 0 && !*empty;) {
        const sft_dim *dim = &v->dims[d];
        const uint64_t low = piece->start != NULL ? piece->start[d] : 0;
        const uint64_t extent = piece->count != NULL ? piece->count[d] : v->tensor->shape[d] - low;
        const int64_t stride = piece->strides != NULL ? piece->strides[d] : (int64_t)packed;
        uint64_t from;
        uint64_t to;
        packed *= extent;
        view_overlap(dim, low, low + extent, &from, &to);
        if (from == to) {
            *empty = true;
        } else {
            const uint64_t first = dim->start + from * (uint64_t)dim->step - low;
            g->src += first * (uint64_t)stride;
            g->dst += from * (uint64_t)v->dst_stride[d];
            if (to - from > 1) {
                const uint32_t k = SFT__GRID_RANK - ++rank;
                g->count[k] = to - from;
                g->src_stride[k] = (int64_t)((uint64_t)stride * (uint64_t)dim->step);
                g->dst_stride[k] = v->dst_stride[d];
            }
        }
    }
    memmove(g->count, g->count + SFT__GRID_RANK - rank, rank * sizeof g->count[0]);
    memmove(g->src_stride, g->src_stride + SFT__GRID_RANK - rank, rank * sizeof g->src_stride[0]);
    memmove(g->dst_stride, g->dst_stride + SFT__GRID_RANK - rank, rank * sizeof g->dst_stride[0]);
    g->rank = rank;
}

sft_status sft__move_view_grid(const sft__move_view *v, uint32_t index, sft__move_grid *g,
                               bool *empty, sft_error *err) {
    const sft_piece *piece = &v->tensor->pieces[index];
    const sft_dtype *from = v->tensor->dtype;

    SFT_TRY(view_piece_check(v, piece, err));
    view_grid_in_units(v, piece, g, empty);
    if (*empty) {
        return SFT_OK;
    }
    g->src_block = view_unit(from);
    g->dst_block = view_unit(v->dtype);
    sft__move_grid_coalesce(g);
    SFT_TRY(view_whole_blocks(v, g, (grid_side){from, &g->src, g->src_stride, &g->src_block}, err));
    SFT_TRY(
        view_whole_blocks(v, g, (grid_side){v->dtype, &g->dst, g->dst_stride, &g->dst_block}, err));
    g->src += piece->offset;
    return SFT_OK;
}

uint64_t sft__move_view_block_elements(const sft__move_view *v, const sft__move_grid *g) {
    const sft_dtype *from = v->tensor->dtype;
    return g->src_block / from->block_bytes * from->block_elements;
}
