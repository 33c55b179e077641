/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * move/write/cover.h - which bytes of one tensor have been put, and their CRC32C. Extents that touch are
 * merged, so a tensor that is put from front to back needs one. Not locked: the writer does that.
 */
#ifndef SFT_MOVE_COVER_H
#define SFT_MOVE_COVER_H

#include "base/memory/alloc.h"

typedef struct sft__move_extent {
    uint64_t begin;
    uint64_t end;
    uint32_t crc; /* of its bytes, once not busy */
    bool busy;    /* claimed, still being written */
} sft__move_extent;

/* Zero-initialise. Must stay where it is in memory. */
typedef struct sft__move_cover {
    sft__move_extent *list; /* sorted, disjoint: an array of cap, or &one */
    size_t count;
    size_t cap; /* 0: one suffices so far, as it does for most tensors */
    sft__move_extent one;
} sft__move_cover;

typedef enum sft__move_claim {
    SFT__CLAIM_OK,
    SFT__CLAIM_OVERLAP,
    SFT__CLAIM_NOMEM
} sft__move_claim;

/* Marks [begin, end) as being written; begin < end. On overlap *clash is the first byte put twice.
 */
sft__move_claim sft__move_cover_claim(sft__move_cover *c, uint64_t begin, uint64_t end,
                                      const sft_allocator *allocator, uint64_t *clash);
/* The extent claimed at `begin` is written; crc is of its bytes (anything if nobody asks for it).
 */
void sft__move_cover_done(sft__move_cover *c, uint64_t begin, uint32_t crc);

/* The first byte of [0, size) that is not written; size if all are. */
uint64_t sft__move_cover_missing(const sft__move_cover *c, uint64_t size);
uint32_t sft__move_cover_crc(const sft__move_cover *c); /* of a complete tensor */
void sft__move_cover_reset(sft__move_cover *c, const sft_allocator *allocator);

#endif
