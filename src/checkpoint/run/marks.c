/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * checkpoint/run/marks.c - complete steps that this run has found to be no good: they do not count where the
 * rules say which steps stay, so that they push no good one out. Read run.h first.
 */
#include "checkpoint/run/run.h"

/* With the lock held. */
static sft__checkpoint_run_mark *find(sft_run *run, uint64_t step) {
    for (size_t i = 0; i < run->mark_count; i++) {
        if (run->marks[i].step == step) {
            return &run->marks[i];
        }
    }
    return NULL;
}

sft_status sft__checkpoint_run_mark_bad(sft_run *run, uint64_t step, bool unread, sft_error *err) {
    sft__base_mutex_lock(&run->mutex);
    sft__checkpoint_run_mark *mark = find(run, step);
    if (mark == NULL && sft__base_grow(run->allocator, &run->marks, &run->mark_room,
                                       run->mark_count + 1, sizeof *run->marks)) {
        mark = &run->marks[run->mark_count++];
    }
    if (mark != NULL) {
        *mark = (sft__checkpoint_run_mark){step, unread};
    }
    sft__base_mutex_unlock(&run->mutex);
    return mark != NULL ? SFT_OK : sft__base_fail_nomem(err, sizeof *mark);
}

void sft__checkpoint_run_mark_good(sft_run *run, uint64_t step) {
    sft__base_mutex_lock(&run->mutex);
    sft__checkpoint_run_mark *const mark = find(run, step);
    if (mark != NULL) {
        *mark = run->marks[--run->mark_count];
    }
    sft__base_mutex_unlock(&run->mutex);
}

void sft__checkpoint_run_judge_list(sft_run *run, sft_run_list *list, uint64_t saved) {
    sft__base_mutex_lock(&run->mutex);
    for (size_t i = 0; i < list->count; i++) {
        sft_run_step *const s = &list->steps[i].told;
        const sft__checkpoint_run_mark *const mark = find(run, s->step);
        if (mark != NULL && s->complete && s->verified == 0) {
            s->verified = 2;
            s->why = "resume has passed it over";
            s->kept |= mark->unread ? SFT_RUN_KEPT_OTHER : 0;
        }
    }
    sft__base_mutex_unlock(&run->mutex);
    sft__checkpoint_run_judge(&run->rules, list->steps, list->count, sft__base_now_seconds());
    for (size_t i = 0; i < list->count; i++) {
        if (list->steps[i].told.step == saved) {
            list->steps[i].told.kept |= SFT_RUN_KEPT_NEWEST;
        }
    }
}
