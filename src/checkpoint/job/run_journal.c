/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * checkpoint/job/run_journal.c - the journal of a run: lines follow the bytes that they speak of. Read
 * journal.h and run.h first.
 */
#include "base/memory/need.h"
#include "checkpoint/job/run.h"

typedef sft__checkpoint_running running;

sft_status sft__checkpoint_running_write_lines(running *r, sft__base_buf *lines, sft_error *err) {
    SFT_NEED(!lines->failed, lines->len, err);
    SFT_TRY(sft__fs_write_at(r->journal, r->journal_path.data, r->journal_size, lines->data,
                             lines->len, err));
    r->journal_size += lines->len;
    return r->options.durability == SFT_DURABLE_FULL
               ? sft__fs_sync(r->journal, r->journal_path.data, err)
               : SFT_OK;
}

/* What was finished up to now becomes a fact. */
sft_status sft__checkpoint_running_keep(running *r, sft_error *err) {
    sft__base_buf lines;
    sft_status status = SFT_OK;
    sft__base_mutex_lock(&r->journal_lock);
    sft__base_mutex_lock(&r->lock);
    lines = r->pending;
    sft__base_buf_init(&r->pending, r->job->allocator);
    r->pending_bytes = 0;
    sft__base_mutex_unlock(&r->lock);
    if (lines.len > 0 || lines.failed) {
        if (r->options.durability == SFT_DURABLE_FULL) {
            status = sft__checkpoint_outputs_sync(&r->outputs, err);
        }
        if (status == SFT_OK) {
            status = sft__checkpoint_running_write_lines(r, &lines, err);
        }
    }
    sft__base_mutex_unlock(&r->journal_lock);
    sft__base_buf_reset(&lines);
    return status;
}

sft_status sft__checkpoint_running_open_journal(running *r, sft_error *err) {
    uint64_t valid;
    sft__base_buf lines;
    SFT_TRY(sft__checkpoint_stage_journal(&r->stage, r->options.task, r->options.tasks,
                                          &r->journal_path, err));
    SFT_TRY(sft__fs_staged_open_alone(r->journal_path.data, &r->journal, err));
    if ((r->options.flags & SFT_JOB_RESTART) != 0) {
        SFT_TRY(sft__fs_resize(r->journal, r->journal_path.data, 0, err));
    }
    SFT_TRY(sft__checkpoint_journal_read(r->job, r->journal_path.data, &r->done, &valid, err));
    SFT_TRY(sft__fs_resize(r->journal, r->journal_path.data, valid, err));
    r->journal_size = valid;
    if (valid > 0) {
        return SFT_OK;
    }
    sft__base_buf_init(&lines, r->job->allocator);
    sft__checkpoint_journal_begin(r->job, &lines);
    const sft_status status = sft__checkpoint_running_write_lines(r, &lines, err);
    sft__base_buf_reset(&lines);
    return status;
}
