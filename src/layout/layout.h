/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * layout/layout.h - what a layout is made of. One allocation: the struct and all its arrays. Read
 * <sft/layout.h> first.
 */
#ifndef SFT_LAYOUT_LAYOUT_H
#define SFT_LAYOUT_LAYOUT_H

#include "base/memory/alloc.h"
#include <sft/layout.h>

typedef enum sft__layout_kind {
    SFT__LAYOUT_CUT = 0,
    SFT__LAYOUT_FLAT = 1,
    SFT__LAYOUT_BOXES = 2
} sft__layout_kind;

/* One digit of a device number: device / divisor % size. */
typedef struct sft__layout_digit {
    uint64_t divisor;
    uint64_t size;
} sft__layout_digit;

typedef struct sft__layout_dim_cut {
    const sft__layout_digit *digits; /* major first */
    size_t digit_count;
    uint64_t parts; /* product of the digits' sizes */
    sft_split split;
    const uint64_t *sizes; /* SFT_SPLIT_SIZES: `parts` of them */
    const uint64_t *blocks;
    size_t block_count; /* with blocks NULL: equal segments; 1: one segment */
} sft__layout_dim_cut;

struct sft_layout {
    const sft_allocator *allocator;
    size_t size; /* of this allocation */
    sft__layout_kind kind;
    size_t dims;
    uint64_t devices;
    uint64_t first_rank;
    const uint64_t *ranks;     /* of the devices, or NULL */
    const uint64_t *by_rank;   /* devices in the order of their ranks, where `ranks` is given */
    sft__layout_dim_cut *cuts; /* dims of them; FLAT: one */
    uint64_t parts;
    uint64_t align;          /* FLAT */
    const uint64_t *boxes;   /* BOXES: 2 * dims numbers per device */
    const uint64_t *part_of; /* BOXES: part of each device */
};

/* Device of a global rank; false: not of this mesh. */
bool sft__layout_device(const sft_layout *layout, uint64_t rank, uint64_t *device);

#endif
