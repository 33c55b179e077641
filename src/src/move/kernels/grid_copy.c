/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * move/kernels/grid_copy.c - the copy kernel: blocks from strided memory to strided memory. The two inner
 * dimensions make a sheet; lines of a sheet have loops of their own for the block sizes of
 * elements, and a sheet whose sides disagree about which dimension is inner (a transposition) is
 * walked in tiles.
 */
#include "move/kernels/grid.h"

/* One line: n blocks, `ss` and `ds` bytes apart. */
typedef void copy_line_fn(uint8_t *dst, const uint8_t *src, uint64_t n, ptrdiff_t ds, ptrdiff_t ss,
                          size_t block);

/* The sizes of elements. memcpy of a constant size is one load and one store. */
#define COPY_LINE(size)                                                                            \
    static void copy_line_##size(uint8_t *dst, const uint8_t *src, uint64_t n, ptrdiff_t ds,       \
                                 ptrdiff_t ss, size_t block) {                                     \
        (void)block;                                                                               \
        if (ds == (size)) {                                                                        \
            for (; n >= 4; n -= 4, dst += 4 * (size), src += 4 * ss) {                             \
                memcpy(dst, src, (size));                                                          \
                memcpy(dst + (size), src + ss, (size));                                            \
                memcpy(dst + 2 * (size), src + 2 * ss, (size));                                    \
                memcpy(dst + 3 * (size), src + 3 * ss, (size));                                    \
            }                                                                                      \
        }                                                                                          \
        for (; n > 0; n--, dst += ds, src += ss) {                                                 \
            memcpy(dst, src, (size));                                                              \
        }                                                                                          \
    }
COPY_LINE(1)
COPY_LINE(2)
COPY_LINE(3)
COPY_LINE(4)
COPY_LINE(6)
COPY_LINE(8)
COPY_LINE(12)
COPY_LINE(16)

/* 17 to 256 bytes: steps of 16, the last one laid over the one before. */
static void copy_line_small(uint8_t *dst, const uint8_t *src, uint64_t n, ptrdiff_t ds,
                            ptrdiff_t ss, size_t block) {
    for (; n > 0; n--, dst += ds, src += ss) {
        size_t at = 0;
        do {
            memcpy(dst + at, src + at, 16);
            at += 16;
        } while (at + 16 <= block);
        memcpy(dst + block - 16, src + block - 16, 16);
    }
}

static void copy_line_any(uint8_t *dst, const uint8_t *src, uint64_t n, ptrdiff_t ds, ptrdiff_t ss,
                          size_t block) {
    for (; n > 0; n--, dst += ds, src += ss) {
        memcpy(dst, src, block);
    }
}

static copy_line_fn *copy_line_for(size_t block) {
    switch (block) {
    case 1:
        return copy_line_1;
    case 2:
        return copy_line_2;
    case 3:
        return copy_line_3;
    case 4:
        return copy_line_4;
    case 6:
        return copy_line_6;
    case 8:
        return copy_line_8;
    case 12:
        return copy_line_12;
    case 16:
        return copy_line_16;
    default:
        return block > 16 && block <= 256 ? copy_line_small : copy_line_any;
    }
}

typedef struct copy_sheet {
    uint64_t rows;
    uint64_t columns;
    ptrdiff_t src_row;
    ptrdiff_t dst_row;
    ptrdiff_t src_column;
    ptrdiff_t dst_column;
    size_t block;
    copy_line_fn *line;
    bool tiled;
} copy_sheet;

enum { COPY_TILE = 32 };

static void copy_sheet_run(const copy_sheet *s, uint8_t *dst, const uint8_t *src) {
    if (!s->tiled) {
        for (uint64_t r = 0; r < s->rows; r++) {
            s->line(dst, src, s->columns, s->dst_column, s->src_column, s->block);
            dst += s->dst_row;
            src += s->src_row;
        }
        return;
    }
    for (uint64_t r = 0; r < s->rows; r += COPY_TILE) {
        const uint64_t rows = s->rows - r < COPY_TILE ? s->rows - r : COPY_TILE;
        for (uint64_t c = 0; c < s->columns; c += COPY_TILE) {
            const uint64_t columns = s->columns - c < COPY_TILE ? s->columns - c : COPY_TILE;
            uint8_t *d = dst + (ptrdiff_t)r * s->dst_row + (ptrdiff_t)c * s->dst_column;
            const uint8_t *p = src + (ptrdiff_t)r * s->src_row + (ptrdiff_t)c * s->src_column;
            for (uint64_t k = 0; k < rows; k++, d += s->dst_row, p += s->src_row) {
                s->line(d, p, columns, s->dst_column, s->src_column, s->block);
            }
        }
    }
}

static uint64_t copy_distance(ptrdiff_t stride) {
    return stride < 0 ? 0 - (uint64_t)stride : (uint64_t)stride;
}

static copy_sheet copy_sheet_of(const sft__move_grid *g) {
    copy_sheet s = {1,    1, 0, 0, 0, 0, (size_t)g->src_block, copy_line_for((size_t)g->src_block),
                    false};

    if (g->rank > 0) {
        s.columns = g->count[g->rank - 1];
        s.src_column = (ptrdiff_t)g->src_stride[g->rank - 1];
        s.dst_column = (ptrdiff_t)g->dst_stride[g->rank - 1];
    }
    if (g->rank > 1) {
        s.rows = g->count[g->rank - 2];
        s.src_row = (ptrdiff_t)g->src_stride[g->rank - 2];
        s.dst_row = (ptrdiff_t)g->dst_stride[g->rank - 2];
    }
    /* Tiles pay when the destination runs along the columns but the source along the rows, the
     * lines are longer than a tile, and a cache line holds several blocks. */
    s.tiled = copy_distance(s.src_column) > copy_distance(s.src_row) &&
              copy_distance(s.dst_column) < copy_distance(s.dst_row) && s.rows > 1 &&
              s.columns > COPY_TILE && s.block <= 32;
    return s;
}

void sft__move_grid_copy(const sft__move_grid *g, void *dst, const void *src) {
    const copy_sheet sheet = copy_sheet_of(g);
    const uint32_t outer = g->rank > 2 ? g->rank - 2 : 0;
    uint64_t at[SFT__GRID_RANK];
    /* Both places are inside the caller's memory, so the offsets fit ptrdiff_t modulo the word
     * size. */
    uint8_t *d = (uint8_t *)dst + (ptrdiff_t)g->dst;
    const uint8_t *s = (const uint8_t *)src + (ptrdiff_t)g->src;
    uint32_t k;

    memset(at, 0, outer * sizeof at[0]);
    do {
        copy_sheet_run(&sheet, d, s);
        for (k = outer; k-- > 0;) {
            d += (ptrdiff_t)g->dst_stride[k];
            s += (ptrdiff_t)g->src_stride[k];
            if (++at[k] < g->count[k]) {
                break;
            }
            d -= (ptrdiff_t)(g->count[k] * (uint64_t)g->dst_stride[k]);
            s -= (ptrdiff_t)(g->count[k] * (uint64_t)g->src_stride[k]);
            at[k] = 0;
        }
    } while (k != UINT32_MAX);
}
