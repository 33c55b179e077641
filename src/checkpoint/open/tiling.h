/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * checkpoint/open/tiling.h - boxes of a tensor: as text, and whether they fill it. Boxes lie inside the
 * tensor; that was checked where they came from.
 */
#ifndef SFT_CHECKPOINT_TILING_H
#define SFT_CHECKPOINT_TILING_H

#include "base/alloc.h"
#include <sft/checkpoint.h>

typedef struct sft__box {
    const uint64_t *start;
    const uint64_t *count; /* none is 0 */
    uint64_t low;          /* of tiling.c: along the dimension that is looked at first */
    uint64_t high;
} sft__box;

typedef struct sft__tiling {
    const sft_allocator *allocator;
    const sft_tensor *like; /* for its name */
    const uint64_t *shape;
    size_t dims;
    sft_error *err;
} sft__tiling;

/* "[0:4, 2:8]"; room: at least 8. */
void sft__box_describe(char *text, size_t room, const uint64_t *start, const uint64_t *count,
                       size_t dims);
/* SFT_E_OVERLAP, or SFT_E_HOLE with a box that no box covers. Sorts the boxes. */
sft_status sft__tiling_check(const sft__tiling *tiling, sft__box *boxes, size_t count);

#endif
