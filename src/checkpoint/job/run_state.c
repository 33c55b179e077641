/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * checkpoint/job/run_state.c - a run of a job while it goes on: made, asked whether to go on, failed,
 * unmade. Read run.h first.
 */
#include "base/options.h"
#include "checkpoint/job/run.h"

typedef sft__checkpoint_running running;

static const uint64_t DEFAULT_MEMORY = (uint64_t)256 << 20;
static const uint64_t LEAST_MEMORY = (uint64_t)4 << 20;

/* ---------------------------------------------------------------- failing */

sft_status sft__checkpoint_run_fail(running *r, sft_status status, const sft_error *why) {
    sft__base_mutex_lock(&r->lock);
    if (r->status == SFT_OK) {
        r->status = status;
        r->error = *why;
    }
    sft__base_mutex_unlock(&r->lock);
    return status;
}

sft_status sft__checkpoint_run_advance(running *r, uint64_t bytes) {
    const sft_control *const control = r->options.control;
    sft__base_mutex_lock(&r->lock);
    r->moved += bytes;
    sft_status status = r->status;
    if (status == SFT_OK && control != NULL && control->poll != NULL) {
        const bool alone = r->crew.group == NULL;
        const sft_progress p = {r->moved + r->crew.others, alone ? r->mine_bytes : r->crew.total};
        if (control->poll(control->ctx, &p) != 0) {
            status = sft__base_fail(&r->error, SFT_E_CANCELLED, "cancelled");
            r->status = status;
        }
    }
    sft__base_mutex_unlock(&r->lock);
    return status;
}

/* ---------------------------------------------------------------- sources */

sft_status sft__checkpoint_run_check_sources(const running *r, sft_error *err) {
    for (size_t i = 0; i < r->job->source_count; i++) {
        const sft__checkpoint_job_source *const s = &r->job->sources[i];
        const char *const name = sft_source_name(s->source);
        const int fd = sft_source_descriptor(s->source);
        sft__fs_stat fact;
        if (!s->timed) {
            SFT_TRY(sft_source_unchanged(s->source, err));
            continue;
        }
        SFT_TRY(fd >= 0 ? sft__fs_stat_fd(fd, name, &fact, err) : sft__fs_look(name, &fact, err));
        if (fact.size != s->size || fact.mtime_ns != s->mtime_ns) {
            return sft__base_fail(err, SFT_E_CHANGED,
                                  "\"%.200s\" has changed since the job was planned", name);
        }
        SFT_TRY(sft_source_unchanged(s->source, err));
    }
    return SFT_OK;
}

sft_status sft__checkpoint_run_explain(const running *r, sft_status status, sft_error *err) {
    if (status == SFT_E_TRUNCATED) { /* that is what a source which has become shorter says */
        sft_error why;
        if (sft__checkpoint_run_check_sources(r, &why) == SFT_E_CHANGED) {
            status = SFT_E_CHANGED;
            if (err != NULL) {
                *err = why;
            }
        }
    }
    return status;
}

/* ---------------------------------------------------------------- from beginning to end */

uint64_t sft__checkpoint_run_memory(const running *r) {
    return r->options.memory_bytes > 0 ? r->options.memory_bytes : DEFAULT_MEMORY;
}

static sft_status check_memory(const running *r, sft_error *err) {
    const uint64_t memory = sft__checkpoint_run_memory(r);
    const uint64_t least = r->job->room + 4096 > LEAST_MEMORY ? r->job->room + 4096 : LEAST_MEMORY;
    if (memory < least) {
        return sft__base_fail(err, SFT_E_LIMIT, "%llu bytes of memory: this job needs %llu",
                              (unsigned long long)memory, (unsigned long long)least);
    }
    return SFT_OK;
}

sft_status sft__checkpoint_run_prepare(running *r, const sft_job *job, const char *directory,
                                       const sft_job_run_options *options, sft_error *err) {
    memset(r, 0, sizeof *r);
    r->job = job;
    r->journal = SFT__FS_NO_HANDLE;
    r->crew.board = SFT__FS_NO_HANDLE;
    sft__base_buf_init(&r->crew.board_path, job->allocator);
    SFT_TRY(sft__base_options_read(&r->options, sizeof r->options, options,
                                   SFT__UP_TO(sft_job_run_options, pool), "options", err));
    if (r->options.tasks > 0 && (r->options.task == 0 || r->options.task > r->options.tasks)) {
        return sft__base_fail(err, SFT_E_ARG, "task %lu of %lu", (unsigned long)r->options.task,
                              (unsigned long)r->options.tasks);
    }
    sft__base_buf_init(&r->journal_path, job->allocator);
    sft__base_buf_init(&r->pending, job->allocator);
    r->ready = sft__base_mutex_init(&r->lock) && sft__base_mutex_init(&r->journal_lock) &&
               sft__base_cond_init(&r->returned);
    r->done.units = sft__base_alloc_zero(job->allocator, job->unit_count + 1);
    r->done.crcs =
        sft__base_alloc_zero(job->allocator, (job->unit_count + 1) * sizeof *r->done.crcs);
    r->mine = sft__base_alloc_array(job->allocator, job->unit_count + 1, sizeof *r->mine);
    if (!r->ready || r->done.units == NULL || r->done.crcs == NULL || r->mine == NULL) {
        return sft__base_fail_nomem(err, (job->unit_count + 1) * sizeof *r->mine);
    }
    SFT_TRY(sft__checkpoint_stage_init(&r->stage, job, directory,
                                       r->options.durability == SFT_DURABLE_FULL, err));
    SFT_TRY(check_memory(r, err));
    return sft__checkpoint_run_check_sources(r, err);
}

void sft__checkpoint_run_reset(running *r) {
    const sft_allocator *const a = r->job->allocator;
    const size_t ranks = r->crew.group != NULL ? r->crew.group->size : 0;
    sft__fs_close(r->journal);
    sft__fs_close(r->crew.board);
    sft__base_buf_reset(&r->crew.board_path);
    sft__base_free(a, r->crew.owner, (r->job->unit_count + 1) * sizeof *r->crew.owner);
    sft__base_free(a, r->crew.numbers, 8 * (ranks + 1));
    sft__checkpoint_outputs_reset(&r->outputs);
    sft__checkpoint_stage_reset(&r->stage);
    sft__base_buf_reset(&r->journal_path);
    sft__base_buf_reset(&r->pending);
    sft__base_free(a, r->done.units, r->job->unit_count + 1);
    sft__base_free(a, r->done.crcs, (r->job->unit_count + 1) * sizeof *r->done.crcs);
    sft__base_free(a, r->mine, (r->job->unit_count + 1) * sizeof *r->mine);
    if (r->ready) {
        sft__base_mutex_reset(&r->lock);
        sft__base_mutex_reset(&r->journal_lock);
        sft__base_cond_reset(&r->returned);
    }
}

bool sft__checkpoint_run_is_complete(const running *r, size_t *missing) {
    for (size_t i = 0; i < r->job->unit_count; i++) {
        if (r->done.units[i] == 0) {
            *missing = i;
            return false;
        }
    }
    return true;
}
