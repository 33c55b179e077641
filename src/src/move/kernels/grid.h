/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * move/kernels/grid.h - N-dimensional strided iterators over bytes, and the copy kernel that runs them from
 * memory to memory. Pure: nothing here opens, reads or allocates.
 */
#ifndef SFT_MOVE_GRID_H
#define SFT_MOVE_GRID_H

#include "base/compiler.h"

/* What becomes of the elements on their way. */
typedef enum sft__move_kernel {
    SFT__KERNEL_COPY = 0,
    SFT__KERNEL_CONVERT = 1, /* src_dtype to dst_dtype */
    SFT__KERNEL_SWAP = 2     /* byte order within elements */
} sft__move_kernel;

/* Dimensions of more than one index whose product fits 64 bits: at most 63. */
enum { SFT__GRID_RANK = 63 };

/* For each index of count[]: src_block bytes at src + sum(i * src_stride) become dst_block bytes at
 * dst + sum(i * dst_stride). Offsets are modulo 2^64: a negative stride may lead below dst. Every
 * count is at least 1. Dimension 0 is the outermost. */
typedef struct sft__move_grid {
    uint64_t src;
    uint64_t dst;
    uint64_t src_block;
    uint64_t dst_block;
    uint32_t rank;
    uint64_t count[SFT__GRID_RANK];
    int64_t src_stride[SFT__GRID_RANK];
    int64_t dst_stride[SFT__GRID_RANK];
} sft__move_grid;

/* Drops dimensions of one index, merges neighbours that continue each other on both sides, and
 * takes inner dimensions that lie packed on both sides into the block. */
void sft__move_grid_coalesce(sft__move_grid *g);
/* Turns dimensions of negative stride round, so that the source is walked upwards. */
void sft__move_grid_src_ascending(sft__move_grid *g);
/* Outermost = largest stride, of the source or of the destination; ties keep their order. */
void sft__move_grid_sort_src(sft__move_grid *g);
void sft__move_grid_sort_dst(sft__move_grid *g);

/* Narrows dimension d to [first, first + n). */
void sft__move_grid_cut(sft__move_grid *g, uint32_t d, uint64_t first, uint64_t n);
/* Number of blocks. The caller knows that it fits (it is at most the bytes of the result). */
uint64_t sft__move_grid_blocks(const sft__move_grid *g);
/* True if the destination blocks follow each other without gaps in index order. */
bool sft__move_grid_dst_packed(const sft__move_grid *g);
bool sft__move_grid_src_packed(const sft__move_grid *g);
/* Bytes from the first to the last of the source; its strides are not negative. */
uint64_t sft__move_grid_src_span(const sft__move_grid *g);

/* Parts of one grid: dimensions before `dim` are walked index by index, `dim` in groups of `group`,
 * and what is left is one part. dim == rank: every block is a part. */
typedef struct sft__move_parts {
    uint32_t dim;
    uint64_t group;
    uint64_t at[SFT__GRID_RANK];
    bool done;
} sft__move_parts;

/* Begins a walk over parts of at most max_blocks blocks (at least 1). */
void sft__move_parts_begin(sft__move_parts *p, const sft__move_grid *g, uint64_t max_blocks);
/* Begins a walk with a given cut. */
void sft__move_parts_begin_at(sft__move_parts *p, const sft__move_grid *g, uint32_t dim,
                              uint64_t group);
/* The next part, as a grid of its own with the inner dimensions alone. False when there is none
 * left. */
bool sft__move_parts_next(sft__move_parts *p, const sft__move_grid *g, sft__move_grid *part);

/* Copies every block; src_block == dst_block. dst and src are the places of offset 0. Dimensions
 * are walked as they are ordered: sort by destination before. */
void sft__move_grid_copy(const sft__move_grid *g, void *dst, const void *src);

#endif
