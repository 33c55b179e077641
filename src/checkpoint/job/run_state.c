/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * checkpoint/job/run_state.c - a run of a job while it goes on: made, given its loops, unmade. Read run.h
 * first.
 */
#include "base/memory/need.h"
#include "base/options.h"
#include "checkpoint/job/run.h"

typedef sft__checkpoint_running running;

static const uint64_t DEFAULT_MEMORY = (uint64_t)256 << 20;
static const uint64_t LEAST_MEMORY = (uint64_t)4 << 20;

/* ---------------------------------------------------------------- sources */

sft_status sft__checkpoint_running_check_sources(const running *r, sft_error *err) {
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

sft_status sft__checkpoint_running_explain(const running *r, sft_status status, sft_error *err) {
    if (status == SFT_E_TRUNCATED) { /* that is what a source which has become shorter says */
        sft_error why;
        if (sft__checkpoint_running_check_sources(r, &why) == SFT_E_CHANGED) {
            status = SFT_E_CHANGED;
            if (err != NULL) {
                *err = why;
            }
        }
    }
    return status;
}

/* ---------------------------------------------------------------- the loop */

static uint64_t memory_of(const running *r) {
    return r->options.memory_bytes > 0 ? r->options.memory_bytes : DEFAULT_MEMORY;
}

static sft_status check_memory(const running *r, sft_error *err) {
    const uint64_t memory = memory_of(r);
    const uint64_t least = r->job->room + 4096 > LEAST_MEMORY ? r->job->room + 4096 : LEAST_MEMORY;
    if (memory < least) {
        return sft__base_fail(err, SFT_E_LIMIT, "%llu bytes of memory: this job needs %llu",
                              (unsigned long long)memory, (unsigned long long)least);
    }
    return SFT_OK;
}

sft_status sft__checkpoint_running_loop(running *r, sft__checkpoint_running_block *block, void *ctx,
                                        size_t count, size_t room, sft_error *err) {
    const uint64_t most = memory_of(r) / room;
    const bool alone = r->crew.group == NULL;
    if (count == 0) {
        return SFT_OK;
    }
    r->loop = (sft__move_loop){.pool = r->options.pool,
                               .allocator = r->job->allocator,
                               .room = room,
                               .most = most == 0         ? 1
                                       : most < SIZE_MAX ? (size_t)most
                                                         : SIZE_MAX,
                               .block = block,
                               .ctx = ctx};
    SFT_TRY(sft__move_loop_begin(&r->loop, r->options.control,
                                 alone ? r->mine_bytes : r->crew.total, err));
    r->loop.watch.progress.bytes_done = r->moved + r->crew.others;
    (void)sft__move_loop_run(&r->loop, count, NULL);
    const sft_status status = sft__move_loop_end(&r->loop, err);
    r->moved = r->loop.watch.progress.bytes_done - r->crew.others;
    if (status != SFT_OK) {
        sft__checkpoint_crew_stop(r);
    }
    return status;
}

sft_status sft__checkpoint_running_sum(running *r, sft__checkpoint_range range, uint32_t *crc,
                                       sft_sha256 *sha, sft_error *err) {
    uint8_t *const buffer = sft__move_loop_take(&r->loop, err);
    sft_status status = buffer != NULL ? SFT_OK : SFT_E_NOMEM;
    while (range.size > 0 && status == SFT_OK) {
        const uint64_t block = sft__base_size.job_block;
        const size_t n = (size_t)(range.size < block ? range.size : block);
        status =
            sft__checkpoint_outputs_read(&r->outputs, range.file, range.offset, buffer, n, err);
        if (status == SFT_OK && crc != NULL) {
            *crc = sft_crc32c(*crc, buffer, n);
        }
        if (status == SFT_OK && sha != NULL) {
            sft_sha256_update(sha, buffer, n);
        }
        status = status == SFT_OK ? sft__move_loop_add(&r->loop, 0, err) : status;
        range.offset += n;
        range.size -= n;
    }
    sft__move_loop_give(&r->loop, buffer);
    return status;
}

/* ---------------------------------------------------------------- from beginning to end */

sft_status sft__checkpoint_running_prepare(running *r, const sft_job *job, const char *directory,
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
    r->ready = sft__base_mutex_init(&r->lock) && sft__base_mutex_init(&r->journal_lock);
    r->done.units = sft__base_alloc_zero(job->allocator, job->unit_count + 1);
    r->done.crcs =
        sft__base_alloc_zero(job->allocator, (job->unit_count + 1) * sizeof *r->done.crcs);
    r->mine = sft__base_alloc_array(job->allocator, job->unit_count + 1, sizeof *r->mine);
    SFT_NEED(r->ready && r->done.units != NULL && r->done.crcs != NULL && r->mine != NULL,
             (job->unit_count + 1) * sizeof *r->mine, err);
    SFT_TRY(sft__checkpoint_stage_init(&r->stage, job, directory,
                                       r->options.durability == SFT_DURABLE_FULL, err));
    SFT_TRY(check_memory(r, err));
    return sft__checkpoint_running_check_sources(r, err);
}

void sft__checkpoint_running_reset(running *r) {
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
    }
}

bool sft__checkpoint_running_is_complete(const running *r, size_t *missing) {
    for (size_t i = 0; i < r->job->unit_count; i++) {
        if (r->done.units[i] == 0) {
            *missing = i;
            return false;
        }
    }
    return true;
}
