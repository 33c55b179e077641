/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * checkpoint/job/run_leave.c - what a run that ends leaves to others, or finds that others have left.
 * Whoever is at work in a staging directory holds it (stage.h); only who has it alone removes it. Read
 * run.h first.
 */
#include "checkpoint/job/run.h"

sft_status sft__checkpoint_running_check_kept(const sft__checkpoint_running *r, bool *published,
                                              sft_error *err) {
    const sft__checkpoint_stage *const s = &r->stage;
    if (sft__fs_is_at(r->journal, r->journal_path.data)) {
        return SFT_OK;
    }
    if (s->fresh ? s->held && sft__fs_is_at(s->hold, s->root)
                 : sft__checkpoint_stage_is_published(s)) {
        *published = true;
        return SFT_OK;
    }
    return sft__base_fail(
        err, SFT_E_STATE,
        "\"%.200s\" was removed while this task wrote to it: its work is lost, and to "
        "be done again",
        s->directory);
}

static bool has_units(const sft__checkpoint_running *r) {
    size_t i = 0;
    while (i < r->job->unit_count && r->done.units[i] == 0) {
        i++;
    }
    return i < r->job->unit_count || r->done.committed;
}

void sft__checkpoint_running_leave(sft__checkpoint_running *r) {
    const bool alone = r->options.tasks == 0 || r->crew.group != NULL;
    if (!alone || r->journal == SFT__FS_NO_HANDLE || has_units(r)) {
        return; /* others may be at it; or it is not ours */
    }
    sft__fs_close(r->journal);
    r->journal = SFT__FS_NO_HANDLE;
    sft__checkpoint_outputs_reset(&r->outputs);
    if ((r->options.flags & SFT_JOB_FINISH) != 0) { /* what else is there is the tasks' */
        (void)!sft__fs_remove(r->journal_path.data, NULL);
        (void)sft__fs_remove_directory(r->stage.directory);
    } else if (sft__checkpoint_stage_have_alone(
                   &r->stage) && /* and nobody has been there meanwhile */
               sft__checkpoint_stage_read(&r->stage, r->stage.directory, &r->done, NULL) ==
                   SFT_OK &&
               !has_units(r)) {
        (void)!sft__checkpoint_stage_drop(&r->stage, NULL);
    }
}
