/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * move/plan.h - the inside of a plan. plan.c builds it, plan_run.c orders and divides the work,
 * plan_put.c brings one grid to one target. Read first: <sft/read.h>, mover.h.
 */
#ifndef SFT_MOVE_PLAN_H
#define SFT_MOVE_PLAN_H

#include "base/alloc.h"
#include "move/load.h"
#include <sft/extend.h>

/* What a move has beside its public face. */
typedef struct sft__plan_extra {
    uint64_t src_low; /* first and behind the last byte that it reads */
    uint64_t src_end;
    uint64_t dst_low;
    uint64_t dst_end;
    uint32_t convert_flags;
    bool borrow;
    bool dst_packed; /* it writes every byte from dst_low to dst_end */
} sft__plan_extra;

struct sft_plan {
    const sft_allocator *allocator;
    sft__arena arena; /* the moves' arrays */
    const sft_source **sources;
    size_t source_count;
    size_t source_room;
    sft_target **targets;
    size_t target_count;
    size_t target_room;
    sft_move *moves;
    size_t move_room;
    sft__plan_extra *extras; /* beside moves */
    size_t extra_room;
    size_t move_count;
    sft_plan_cost cost;
    sft__load_source *ways; /* of the last run: way_count entries, beside sources */
    size_t way_count;
};

/* The grid of a move and what moves it. */
void sft__plan_grid(const sft_plan *plan, size_t index, sft__grid *g);
void sft__plan_mover(const sft_plan *plan, size_t index, sft__watch *watch, uint64_t bounce_max,
                     sft__mover *m);

/* Carries a grid to a target; buffer: for targets that lend no memory. Grid offsets are those of
 * the move. */
sft_status sft__plan_put(const sft_plan *plan, size_t index, const sft__mover *m, sft__grid *g,
                         uint64_t buffer_size, sft_error *err);

#endif
