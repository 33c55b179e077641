/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * checkpoint/group/group.h - what is asked of a group: everybody's numbers, and one status for all. Read
 * <sft/checkpoint_group.h> first.
 */
#ifndef SFT_CHECKPOINT_GROUP_PRIVATE_H
#define SFT_CHECKPOINT_GROUP_PRIVATE_H

#include "base/error.h"
#include "base/memory/alloc.h"
#include <sft/checkpoint_group.h>

/* Is there more than this process? */
static inline bool sft__checkpoint_group_is_many(const sft_group *g) {
    return g != NULL && g->size > 1;
}

sft_status sft__checkpoint_group_check(const sft_group *g, sft_error *err);
/* `bytes` of everybody to `all`, in blocks if need be. g NULL, or of size 1: a copy. */
sft_status sft__checkpoint_group_gather(const sft_group *g, const void *mine, size_t bytes,
                                        void *all, sft_error *err);
/* The same status for all: SFT_OK if it is everybody's, else the failure of the lowest rank that
 * has one of its own, with its message. status, err: of this process. weak: it only stopped because
 * another one had failed. */
sft_status sft__checkpoint_group_agree(const sft_group *g, sft_status status, bool weak,
                                       sft_error *err);
/* agree, and rank 0's number for all. */
sft_status sft__checkpoint_group_agree_on(const sft_group *g, sft_status status, uint64_t *number,
                                          sft_error *err);
/* Sums of `count` numbers over all. */
sft_status sft__checkpoint_group_sum(const sft_group *g, uint64_t *numbers, size_t count,
                                     sft_error *err);

/* sft_checkpoint_load_group from a catalog that is open, and stays so. */
sft_status sft__checkpoint_load_parts(const sft_group *group, sft_catalog *whole,
                                      const sft_group_tensor *tensors, size_t count,
                                      const sft_group_load_options *options, sft_error *err);

#endif
