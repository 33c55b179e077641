/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * move/kernels/grid.c - making strided iterators small, and cutting them into parts. Read first: grid.h.
 */
#include "move/kernels/grid.h"

static void grid_remove(sft__move_grid *g, uint32_t d) {
    g->rank--;
    for (uint32_t k = d; k < g->rank; k++) {
        g->count[k] = g->count[k + 1];
        g->src_stride[k] = g->src_stride[k + 1];
        g->dst_stride[k] = g->dst_stride[k + 1];
    }
}

/* Strides are compared modulo 2^64: equal residues address equal bytes. */
static bool grid_continues(int64_t outer, int64_t inner, uint64_t inner_count) {
    return (uint64_t)outer == (uint64_t)inner * inner_count;
}

void sft__move_grid_coalesce(sft__move_grid *g) {
    for (uint32_t d = g->rank; d-- > 0;) {
        if (g->count[d] == 1) {
            grid_remove(g, d);
        } else if (d + 1 < g->rank &&
                   grid_continues(g->src_stride[d], g->src_stride[d + 1], g->count[d + 1]) &&
                   grid_continues(g->dst_stride[d], g->dst_stride[d + 1], g->count[d + 1])) {
            g->count[d + 1] *= g->count[d];
            grid_remove(g, d);
        }
    }
    while (g->rank > 0 && (uint64_t)g->src_stride[g->rank - 1] == g->src_block &&
           (uint64_t)g->dst_stride[g->rank - 1] == g->dst_block) {
        g->rank--;
        g->src_block *= g->count[g->rank];
        g->dst_block *= g->count[g->rank];
    }
}

static void grid_turn(sft__move_grid *g, uint32_t d) {
    g->src += (g->count[d] - 1) * (uint64_t)g->src_stride[d];
    g->dst += (g->count[d] - 1) * (uint64_t)g->dst_stride[d];
    g->src_stride[d] = (int64_t)(0 - (uint64_t)g->src_stride[d]);
    g->dst_stride[d] = (int64_t)(0 - (uint64_t)g->dst_stride[d]);
}

void sft__move_grid_src_ascending(sft__move_grid *g) {
    for (uint32_t d = 0; d < g->rank; d++) {
        if (g->src_stride[d] < 0) {
            grid_turn(g, d);
        }
    }
}

static uint64_t grid_size_of(int64_t stride) {
    return stride < 0 ? 0 - (uint64_t)stride : (uint64_t)stride;
}

static void grid_sort(sft__move_grid *g, const int64_t *by) {
    for (uint32_t i = 1; i < g->rank; i++) {
        for (uint32_t k = i; k > 0 && grid_size_of(by[k - 1]) < grid_size_of(by[k]); k--) {
            const uint64_t count = g->count[k];
            const int64_t src = g->src_stride[k];
            const int64_t dst = g->dst_stride[k];
            g->count[k] = g->count[k - 1];
            g->src_stride[k] = g->src_stride[k - 1];
            g->dst_stride[k] = g->dst_stride[k - 1];
            g->count[k - 1] = count;
            g->src_stride[k - 1] = src;
            g->dst_stride[k - 1] = dst;
        }
    }
}

void sft__move_grid_sort_src(sft__move_grid *g) {
    grid_sort(g, g->src_stride);
}

void sft__move_grid_sort_dst(sft__move_grid *g) {
    grid_sort(g, g->dst_stride);
}

void sft__move_grid_cut(sft__move_grid *g, uint32_t d, uint64_t first, uint64_t n) {
    g->src += first * (uint64_t)g->src_stride[d];
    g->dst += first * (uint64_t)g->dst_stride[d];
    g->count[d] = n;
}

uint64_t sft__move_grid_blocks(const sft__move_grid *g) {
    uint64_t blocks = 1;
    for (uint32_t d = 0; d < g->rank; d++) {
        blocks *= g->count[d];
    }
    return blocks;
}

static bool grid_packed(const sft__move_grid *g, const int64_t *stride, uint64_t block) {
    uint64_t want = block;
    for (uint32_t d = g->rank; d-- > 0;) {
        if (g->count[d] != 1 && (uint64_t)stride[d] != want) {
            return false;
        }
        want *= g->count[d];
    }
    return true;
}

bool sft__move_grid_dst_packed(const sft__move_grid *g) {
    return grid_packed(g, g->dst_stride, g->dst_block);
}

bool sft__move_grid_src_packed(const sft__move_grid *g) {
    return grid_packed(g, g->src_stride, g->src_block);
}

uint64_t sft__move_grid_src_span(const sft__move_grid *g) {
    uint64_t span = g->src_block;
    for (uint32_t d = 0; d < g->rank; d++) {
        span += (g->count[d] - 1) * (uint64_t)g->src_stride[d];
    }
    return span;
}

/* ---------------------------------------------------------------- parts */

void sft__move_parts_begin_at(sft__move_parts *p, const sft__move_grid *g, uint32_t dim,
                              uint64_t group) {
    p->dim = dim;
    p->group = group;
    p->done = false;
    memset(p->at, 0, sizeof p->at[0] * (g->rank < SFT__GRID_RANK ? g->rank + 1 : g->rank));
}

void sft__move_parts_begin(sft__move_parts *p, const sft__move_grid *g, uint64_t max_blocks) {
    uint64_t inside = 1; /* blocks of one index of dimension d; never above max_blocks */
    uint32_t d = g->rank;

    while (d > 0 && g->count[d - 1] <= max_blocks / inside) {
        inside *= g->count[--d];
    }
    if (d == 0) {
        sft__move_parts_begin_at(p, g, 0, g->rank > 0 ? g->count[0] : 1);
    } else {
        sft__move_parts_begin_at(p, g, d - 1, max_blocks / inside);
    }
}

bool sft__move_parts_next(sft__move_parts *p, const sft__move_grid *g, sft__move_grid *part) {
    const uint32_t dim = p->dim;
    const uint32_t kept = dim < g->rank ? g->rank - dim : 0;

    if (p->done) {
        return false;
    }
    part->src = g->src;
    part->dst = g->dst;
    part->src_block = g->src_block;
    part->dst_block = g->dst_block;
    part->rank = kept;
    for (uint32_t d = 0; d < dim; d++) {
        part->src += p->at[d] * (uint64_t)g->src_stride[d];
        part->dst += p->at[d] * (uint64_t)g->dst_stride[d];
    }
    for (uint32_t d = 0; d < kept; d++) {
        part->count[d] = g->count[dim + d];
        part->src_stride[d] = g->src_stride[dim + d];
        part->dst_stride[d] = g->dst_stride[dim + d];
    }
    if (kept > 0) {
        const uint64_t left = g->count[dim] - p->at[dim];
        const uint64_t take = left < p->group ? left : p->group;
        sft__move_grid_cut(part, 0, p->at[dim], take);
        p->at[dim] += take;
        if (p->at[dim] < g->count[dim]) {
            return true;
        }
        p->at[dim] = 0;
    }
    for (uint32_t d = dim; d-- > 0;) {
        if (++p->at[d] < g->count[d]) {
            return true;
        }
        p->at[d] = 0;
    }
    p->done = true;
    return true;
}
