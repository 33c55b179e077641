/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * checkpoint/job/run_lanes.c - the order in which units are done: of two threads that write to one file
 * one waits, so neighbours in the list belong to different files where they can; to not too many, for
 * each of them is open. Read run.h first.
 */
#include "checkpoint/job/run.h"

typedef sft__checkpoint_running running;

/* Where a lane is in the list: what is left of the units of one file. */
typedef struct lane {
    size_t next;
    size_t end;
} lane;

static bool same_file(const sft_job *job, size_t a, size_t b) {
    const sft__checkpoint_job_unit *const x = &job->units[a];
    const sft__checkpoint_job_unit *const y = &job->units[b];
    return x->kind == SFT__UNIT_RUNS && y->kind == SFT__UNIT_RUNS && x->which == y->which;
}

/* The units of the next file that nobody is at; units that are no runs are files of their own. */
static lane take_lane(const running *r, const size_t *list, size_t *at) {
    lane l = {*at, *at};
    while (*at < r->mine_count && (*at == l.next || same_file(r->job, list[l.next], list[*at]))) {
        l.end = ++*at;
    }
    return l;
}

void sft__checkpoint_running_spread(running *r) {
    enum { LANES = 8, MOST_LANES = 128 };
    lane lanes[MOST_LANES];
    const size_t wanted = 2 * (size_t)sft_pool_threads(r->options.pool);
    const size_t most = wanted < LANES ? LANES : wanted < MOST_LANES ? wanted : MOST_LANES;
    size_t *const list = sft__base_alloc_array(r->job->allocator, r->mine_count + 1, sizeof *list);
    size_t count = 0;
    size_t at = 0;
    if (list == NULL) {
        return;
    }
    memcpy(list, r->mine, r->mine_count * sizeof *list);
    while (count < most && at < r->mine_count) {
        lanes[count++] = take_lane(r, list, &at);
    }
    for (size_t i = 0, out = 0; out < r->mine_count; i = (i + 1) % count) {
        lane *const l = &lanes[i];
        if (l->next == l->end && at < r->mine_count) {
            *l = take_lane(r, list, &at);
        }
        if (l->next < l->end) { /* true once in `count` turns at least, while any is left */
            r->mine[out++] = list[l->next++];
        }
    }
    sft__base_free(r->job->allocator, list, (r->mine_count + 1) * sizeof *list);
}
