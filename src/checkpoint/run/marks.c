/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * checkpoint/run/marks.c - complete steps that this run has found to be no good: they do not count where the
 * rules say which steps stay, so that they push no good one out, nor where a new one must be the newest. Read
 * run.h first.
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

bool sft__checkpoint_run_is_marked(sft_run *run, uint64_t step) {
    sft__base_mutex_lock(&run->mutex);
    const sft__checkpoint_run_mark *const mark = find(run, step);
    const bool marked = mark != NULL && !mark->unread;
    sft__base_mutex_unlock(&run->mutex);
    return marked;
}

void sft__checkpoint_run_unmark(sft_run *run, uint64_t step) {
    size_t kept = 0;
    sft__base_mutex_lock(&run->mutex);
    for (size_t i = 0; i < run->mark_count; i++) {
        if (step != SFT_RUN_NONE && run->marks[i].step <= step) {
            run->marks[kept++] = run->marks[i];
        }
    }
    run->mark_count = kept;
    if (step == SFT_RUN_NONE || (run->keep != SFT_RUN_NONE && run->keep > step)) {
        run->keep = SFT_RUN_NONE;
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
    const uint64_t named = run->keep;
    sft__base_mutex_unlock(&run->mutex);
    sft__checkpoint_run_judge(&run->rules, list->steps, list->count, sft__base_now_seconds());
    for (size_t i = 0; i < list->count; i++) {
        sft_run_step *const s = &list->steps[i].told;
        s->kept |= s->step == saved ? SFT_RUN_KEPT_NEWEST : 0;
        s->kept |= s->step == named ? SFT_RUN_KEPT_NAMED : 0;
    }
}

/* ---------------------------------------------------------------- a step that is to be saved */

/* The newest step that waits to be written; SFT_RUN_NONE: none. */
static uint64_t newest_queued(sft_run *run) {
    uint64_t newest = SFT_RUN_NONE;
    sft__base_mutex_lock(&run->mutex);
    for (const sft_run_save *s = run->first; s != NULL; s = s->next) {
        newest = newest == SFT_RUN_NONE || s->step > newest ? s->step : newest;
    }
    sft__base_mutex_unlock(&run->mutex);
    return newest;
}

sft_status sft__checkpoint_run_check_newer(sft_run *run, uint64_t step, sft_error *err) {
    sft_run_list *list;
    uint64_t newest = newest_queued(run);
    SFT_TRY(sft__checkpoint_run_list_new(&list, run->allocator, err));
    sft_status status = sft__checkpoint_run_scan(list, run->path, run->id, SFT_RUN_NONE, err);
    for (size_t i = status == SFT_OK ? list->count : 0; i-- > 0;) {
        const sft_run_step *const s = &list->steps[i].told;
        if (s->complete && !sft__checkpoint_run_is_marked(run, s->step)) {
            newest = newest == SFT_RUN_NONE || s->step > newest ? s->step : newest;
            break;
        }
    }
    sft_run_list_free(list);
    if (status == SFT_OK && newest != SFT_RUN_NONE && newest > step) {
        return sft__base_fail(err, SFT_E_EXISTS,
                              "step %llu comes before step %llu, the newest of the run, which the "
                              "next resume would take: to train on from an older step, rewind the "
                              "run to it first, which removes the newer ones",
                              (unsigned long long)step, (unsigned long long)newest);
    }
    return status;
}
