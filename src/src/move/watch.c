/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * move/watch.c - see watch.h.
 */
#include "move/watch.h"
#include "base/thread/meter.h"

sft_status sft__move_watch_init(sft__move_watch *w, const sft_control *control,
                                uint64_t bytes_total, bool shared, sft_error *err) {
    memset(w, 0, sizeof *w);
    SFT_TRY(sft__base_control_of(control, &w->control, err));
    w->progress.bytes_total = bytes_total;
    w->shared = shared;
    if (shared && !sft__base_mutex_init(&w->lock)) {
        return sft__base_fail(err, SFT_E_NOMEM, "cannot create a lock");
    }
    return SFT_OK;
}

static void watch_lock(sft__move_watch *w) {
    if (w->shared) {
        sft__base_mutex_lock(&w->lock);
    }
}

static void watch_unlock(sft__move_watch *w) {
    if (w->shared) {
        sft__base_mutex_unlock(&w->lock);
    }
}

sft_status sft__move_watch_add(sft__move_watch *w, uint64_t bytes, sft_error *err) {
    bool stop;

    if (w->control == NULL && !w->shared) {
        return SFT_OK;
    }
    watch_lock(w);
    w->progress.bytes_done += bytes;
    if (!w->stop && w->control != NULL && w->control->poll(w->control->ctx, &w->progress) != 0) {
        w->stop = true;
        w->status = SFT_E_CANCELLED;
        w->job = 0;
        (void)sft__base_fail(&w->error, SFT_E_CANCELLED, "cancelled after %llu of %llu bytes",
                             (unsigned long long)w->progress.bytes_done,
                             (unsigned long long)w->progress.bytes_total);
    }
    stop = w->stop;
    if (stop && err != NULL) {
        *err = w->error;
        err->status = SFT_E_CANCELLED;
    }
    watch_unlock(w);
    return stop ? SFT_E_CANCELLED : SFT_OK;
}

void sft__move_watch_fail(sft__move_watch *w, size_t job, sft_status status,
                          const sft_error *error) {
    watch_lock(w);
    if (w->status == SFT_OK || (job < w->job && status != SFT_E_CANCELLED)) {
        w->status = status;
        w->job = job;
        w->error = *error;
    }
    w->stop = true;
    watch_unlock(w);
}

sft_status sft__move_watch_end(sft__move_watch *w, sft_error *err) {
    if (w->shared) {
        sft__base_mutex_reset(&w->lock);
        w->shared = false;
    }
    if (w->status != SFT_OK && err != NULL) {
        *err = w->error;
    }
    return w->status;
}
