/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * checkpoint/more.h - room for more in a list, or an error that says so.
 */
#ifndef SFT_CHECKPOINT_MORE_H
#define SFT_CHECKPOINT_MORE_H

#include "base/error.h"
#include "base/memory/alloc.h"

/* sft__base_grow with a status. */
static inline sft_status sft__checkpoint_more(const sft_allocator *a, void *list, size_t *room,
                                              size_t need, size_t size, sft_error *err) {
    return sft__base_grow(a, list, room, need, size) ? SFT_OK
                                                     : sft__base_fail_nomem(err, need * size);
}

#endif
