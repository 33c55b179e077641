/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * checkpoint/open/tiling.h - boxes of a tensor: as text, and whether they fill it. Boxes lie inside the
 * tensor; that was checked where they came from.
 */
#ifndef SFT_CHECKPOINT_TILING_H
#define SFT_CHECKPOINT_TILING_H

#include "base/memory/alloc.h"
#include <sft/checkpoint.h>

typedef struct sft__checkpoint_box {
    const uint64_t *start;
    const uint64_t *count; /* none is 0 */
    uint64_t low;          /* of tiling.c: along the dimension that is looked at first */
    uint64_t high;
} sft__checkpoint_box;

typedef struct sft__checkpoint_tiling {
    const sft_allocator *allocator;
    const sft_tensor *like; /* for its name */
    const uint64_t *shape;
    size_t dims;
    sft_error *err;
} sft__checkpoint_tiling;

/* "[0:4, 2:8]"; room: at least 8. */
void sft__checkpoint_box_describe(char *text, size_t room, const uint64_t *start,
                                  const uint64_t *count, size_t dims);
/* SFT_E_OVERLAP, or SFT_E_HOLE with a box that no box covers. Sorts the boxes. */
sft_status sft__checkpoint_tiling_check(const sft__checkpoint_tiling *tiling,
                                        sft__checkpoint_box *boxes, size_t count);

#endif
