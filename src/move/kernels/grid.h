/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * move/kernels/grid.h - N-dimensional strided iterators over bytes, and the copy kernel that runs them from
 * memory to memory. Pure: nothing here opens, reads or allocates.
 */
#ifndef SFT_MOVE_GRID_H
#define SFT_MOVE_GRID_H

#include "base/compiler.h"

/* What becomes of the elements on their way. */
typedef enum sft__kernel {
    SFT__KERNEL_COPY = 0,
    SFT__KERNEL_CONVERT = 1, /* src_dtype to dst_dtype */
    SFT__KERNEL_SWAP = 2     /* byte order within elements */
} sft__kernel;

/* Dimensions of more than one index whose product fits 64 bits: at most 63. */
enum { SFT__GRID_RANK = 63 };

/* For each index of count[]: src_block bytes at src + sum(i * src_stride) become dst_block bytes at
 * dst + sum(i * dst_stride). Offsets are modulo 2^64: a negative stride may lead below dst. Every
 * count is at least 1. Dimension 0 is the outermost. */
typedef struct sft__grid {
    uint64_t src;
    uint64_t dst;
    uint64_t src_block;
    uint64_t dst_block;
    uint32_t rank;
    uint64_t count[SFT__GRID_RANK];
    int64_t src_stride[SFT__GRID_RANK];
    int64_t dst_stride[SFT__GRID_RANK];
} sft__grid;

/* Drops dimensions of one index, merges neighbours that continue each other on both sides, and
 * takes inner dimensions that lie packed on both sides into the block. */
void sft__grid_coalesce(sft__grid *g);
/* Turns dimensions of negative stride round, so that the source is walked upwards. */
void sft__grid_src_ascending(sft__grid *g);
/* Outermost = largest stride, of the source or of the destination; ties keep their order. */
void sft__grid_sort_src(sft__grid *g);
void sft__grid_sort_dst(sft__grid *g);

/* Narrows dimension d to [first, first + n). */
void sft__grid_cut(sft__grid *g, uint32_t d, uint64_t first, uint64_t n);
/* Number of blocks. The caller knows that it fits (it is at most the bytes of the result). */
uint64_t sft__grid_blocks(const sft__grid *g);
/* True if the destination blocks follow each other without gaps in index order. */
bool sft__grid_dst_packed(const sft__grid *g);
bool sft__grid_src_packed(const sft__grid *g);
/* Bytes from the first to the last of the source; its strides are not negative. */
uint64_t sft__grid_src_span(const sft__grid *g);

/* Parts of one grid: dimensions before `dim` are walked index by index, `dim` in groups of `group`,
 * and what is left is one part. dim == rank: every block is a part. */
typedef struct sft__parts {
    uint32_t dim;
    uint64_t group;
    uint64_t at[SFT__GRID_RANK];
    bool done;
} sft__parts;

/* Begins a walk over parts of at most max_blocks blocks (at least 1). */
void sft__parts_begin(sft__parts *p, const sft__grid *g, uint64_t max_blocks);
/* Begins a walk with a given cut. */
void sft__parts_begin_at(sft__parts *p, const sft__grid *g, uint32_t dim, uint64_t group);
/* The next part, as a grid of its own with the inner dimensions alone. False when there is none
 * left. */
bool sft__parts_next(sft__parts *p, const sft__grid *g, sft__grid *part);

/* Copies every block; src_block == dst_block. dst and src are the places of offset 0. Dimensions
 * are walked as they are ordered: sort by destination before. */
void sft__grid_copy(const sft__grid *g, void *dst, const void *src);

#endif
