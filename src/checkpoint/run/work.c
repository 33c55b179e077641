/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * checkpoint/run/work.c - the thread behind: steps of the queue, one after the other. Read run.h first.
 */
#include "checkpoint/run/together.h"

static void finish(sft_run *run, sft_run_save *save, sft_status status, const sft_error *error) {
    if (status != SFT_OK) {
        sft__checkpoint_run_keep_failure(run, save->ticket, error);
    }
    sft__base_mutex_lock(&run->mutex);
    run->first = save->next;
    run->last = run->first == NULL ? NULL : run->last;
    run->done = save->ticket;
    run->progress.pending--;
    run->progress.bytes_done = 0;
    run->progress.bytes_total = 0;
    run->progress.committed = status == SFT_OK ? save->step : run->progress.committed;
    sft__base_cond_broadcast(&run->changed);
    sft__base_mutex_unlock(&run->mutex);
    sft__checkpoint_run_save_drop(save);
}

static void take_keep(sft_run *run, const sft_run_save *save) {
    sft__base_mutex_lock(&run->mutex);
    run->keep = save->keep != SFT_RUN_NONE ? save->keep : run->keep;
    sft__base_mutex_unlock(&run->mutex);
}

void sft__checkpoint_run_work(void *arg) {
    sft_run *const run = arg;
    for (;;) {
        sft__base_mutex_lock(&run->mutex);
        while (run->first == NULL && !run->stop) {
            sft__base_cond_wait(&run->changed, &run->mutex);
        }
        sft_run_save *const save = run->first;
        sft__base_mutex_unlock(&run->mutex);
        if (save == NULL) {
            return;
        }
        sft_error error;
        memset(&error, 0, sizeof error);
        const sft_status status = sft__checkpoint_run_write(run, save, &error);
        sft__checkpoint_run_give_slot(run, save);
        if (status == SFT_OK) {
            sft__checkpoint_run_mark_good(run, save->step);
            take_keep(run, save);
        }
        if (status == SFT_OK && sft__checkpoint_run_rank(run) == 0) { /* only behind the commit */
            sft_error why;
            memset(&why, 0, sizeof why);
            if (sft__checkpoint_run_clear(run, save->step, NULL, &why) != SFT_OK) {
                sft__checkpoint_run_keep_failure(run, 0, &why);
            }
        }
        finish(run, save, status, &error);
    }
}
