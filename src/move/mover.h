/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * move/mover.h - carries one grid out: from a source or from memory, through a kernel, into memory.
 * The one place where the library decides how bytes are read. Read first: grid.h, watch.h.
 */
#ifndef SFT_MOVE_MOVER_H
#define SFT_MOVE_MOVER_H

#include "move/kernels/grid.h"
#include "move/watch.h"
#include <sft/read.h>

struct sft__load_source; /* load.h */

typedef struct sft__mover {
    const sft_source *source;
    struct sft__load_source *way; /* how the source is read; NULL: as it reads */
    const sft_dtype *src_dtype;
    const sft_dtype *dst_dtype;
    uint32_t kernel; /* sft__kernel */
    uint32_t convert_flags;
    bool borrow;                    /* copy from whatever memory the source lends, a mapping too */
    const sft_allocator *allocator; /* of the buffer */
    sft__watch *watch;
} sft__mover;

/* Carries the grid out; dst is the place of its destination offset 0. Uses bounded memory of its
 * own. The grid is changed. */
sft_status sft__mover_run(const sft__mover *m, sft__grid *g, uint8_t *dst, sft_error *err);

/* One packed run of elements through the kernel. */
sft_status sft__kernel_apply(const sft__mover *m, void *dst, const void *src, uint64_t src_bytes,
                             sft_error *err);

/* How an operation is cut for a pool: part `index` of `jobs` of dimension `dim` (rank: of the
 * block). */
typedef struct sft__cut {
    uint64_t jobs;
    uint32_t dim;
} sft__cut;

/* The best cut of a grid (source ascending, sorted, coalesced) into at most `want` parts. */
sft__cut sft__grid_cut_choose(const sft__grid *g, const sft__mover *m, uint64_t want);
void sft__grid_cut_apply(sft__grid *g, const sft__mover *m, sft__cut cut, uint64_t index);
/* Source ascending, sorted by source, coalesced: the order in which it is read. */
void sft__grid_for_reading(sft__grid *g);

#endif
