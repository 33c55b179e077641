/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * move/mover.h - carries one grid out: from a source or from memory, through a kernel, into memory.
 * Read first: grid.h, watch.h, io/reader.h.
 */
#ifndef SFT_MOVE_MOVER_H
#define SFT_MOVE_MOVER_H

#include "io/reader.h"
#include "move/kernels/grid.h"
#include "move/watch.h"
#include <sft/read.h>

typedef struct sft__move_mover {
    const sft_source *source;
    sft__io_reader *way; /* how the source is read; NULL: as it reads */
    const sft_dtype *src_dtype;
    const sft_dtype *dst_dtype;
    uint32_t kernel; /* sft__move_kernel */
    uint32_t convert_flags;
    bool borrow;                    /* copy from whatever memory the source lends, a mapping too */
    const sft_allocator *allocator; /* of the buffer */
    sft__move_watch *watch;
} sft__move_mover;

/* Carries the grid out; dst is the place of its destination offset 0. Uses bounded memory of its
 * own. The grid is changed. */
sft_status sft__move_mover_run(const sft__move_mover *m, sft__move_grid *g, uint8_t *dst,
                               sft_error *err);

/* One packed run of elements through the kernel. */
sft_status sft__move_kernel_apply(const sft__move_mover *m, void *dst, const void *src,
                                  uint64_t src_bytes, sft_error *err);

/* How an operation is cut for a pool: part `index` of `jobs` of dimension `dim` (rank: of the
 * block). */
typedef struct sft__move_cut {
    uint64_t jobs;
    uint32_t dim;
} sft__move_cut;

/* The best cut of a grid (source ascending, sorted, coalesced) into at most `want` parts. */
sft__move_cut sft__move_grid_cut_choose(const sft__move_grid *g, const sft__move_mover *m,
                                        uint64_t want);
void sft__move_grid_cut_apply(sft__move_grid *g, const sft__move_mover *m, sft__move_cut cut,
                              uint64_t index);
/* Source ascending, sorted by source, coalesced: the order in which it is read. */
void sft__move_grid_for_reading(sft__move_grid *g);

#endif
