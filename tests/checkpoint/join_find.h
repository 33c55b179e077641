/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * checkpoint/join_find.h - a join of ranks by a function that finds their layouts, and nothing else of a
 * checkpoint. Read checkpoint/open/assembly.h first.
 */
#ifndef SFT_TESTS_JOIN_FIND_H
#define SFT_TESTS_JOIN_FIND_H

#include "checkpoint/open/assembly.h"

static inline sft_status join_find(sft_catalog **out, const sft_rank_part *parts, size_t count,
                                   sft_layout_find find, void *ctx, const sft_open_options *options,
                                   sft_error *err) {
    const sft__checkpoint_join what = {.parts = parts, .count = count, .find = find, .ctx = ctx};
    return sft__checkpoint_join_parts(out, &what, options, err);
}

#endif
