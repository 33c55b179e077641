/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * checkpoint/job/run_group.c - one job by many processes: who does what, and the places where all wait
 * for all. Read run.h and group.h first.
 *
 * Between two calls of a group every process has come to the same line of this file. What one
 * process fails at before such a line, all of them fail at in it; so nobody waits for somebody who
 * has gone.
 */
#include "base/checked.h"
#include "base/memory/need.h"
#include "base/options.h"
#include "checkpoint/job/run.h"
#include <sft/digest.h>

typedef sft__checkpoint_running running;

/* ---------------------------------------------------------------- the same job? */

typedef struct outline {
    uint8_t key[32];
    uint8_t plan_key[32];
    uint64_t files;
    uint64_t tensors;
    uint64_t bytes;
    uint64_t sources;
    uint64_t flags; /* of the run */
} outline;

static sft_status differs(size_t rank, const char *what, uint64_t there, uint64_t here,
                          sft_error *err) {
    return sft__base_fail(
        err, SFT_E_MISMATCH, "rank %llu has another job than rank 0: %llu %s, not %llu",
        (unsigned long long)rank, (unsigned long long)there, what, (unsigned long long)here);
}

/* The plans are equal, the sources are not: which one? Every process sends one after the other. */
static sft_status find_source(const running *r, size_t rank, sft_error *err) {
    const sft_group *const g = r->crew.group;
    uint64_t(*all)[2] = sft__base_alloc_array(NULL, g->size, sizeof *all);
    sft_status status = all != NULL ? SFT_OK : sft__base_fail_nomem(err, g->size * sizeof *all);
    for (size_t i = 0; i < r->job->source_count && status == SFT_OK; i++) {
        const sft__checkpoint_job_source *const s = &r->job->sources[i];
        const uint64_t mine[2] = {s->size, (uint64_t)s->mtime_ns};
        status = sft__checkpoint_group_gather(g, mine, sizeof mine, all, err);
        if (status != SFT_OK || (all[0][0] == all[rank][0] && all[0][1] == all[rank][1])) {
            continue;
        }
        const bool size = all[0][0] != all[rank][0];
        status = sft__base_fail(
            err, SFT_E_MISMATCH, "rank %llu sees another \"%.160s\" than rank 0: %s %llu, not %llu",
            (unsigned long long)rank, sft_source_name(s->source), size ? "size" : "time of change",
            (unsigned long long)all[rank][size ? 0 : 1], (unsigned long long)all[0][size ? 0 : 1]);
    }
    sft__base_free(NULL, all, g->size * sizeof *all);
    return status == SFT_OK
               ? sft__base_fail(err, SFT_E_MISMATCH, "rank %llu sees other sources than rank 0",
                                (unsigned long long)rank)
               : status;
}

/* The first rank whose job is not that of rank 0: what is different. */
static sft_status tell_difference(const running *r, const outline *all, size_t rank,
                                  sft_error *err) {
    const outline *const here = &all[0];
    const outline *const there = &all[rank];
    if (here->files != there->files) {
        return differs(rank, "files", there->files, here->files, err);
    }
    if (here->tensors != there->tensors) {
        return differs(rank, "tensors", there->tensors, here->tensors, err);
    }
    if (here->bytes != there->bytes) {
        return differs(rank, "bytes to write", there->bytes, here->bytes, err);
    }
    if (here->sources != there->sources) {
        return differs(rank, "sources", there->sources, here->sources, err);
    }
    if (memcmp(here->plan_key, there->plan_key, 32) != 0) {
        return sft__base_fail(
            err, SFT_E_MISMATCH,
            "rank %llu has another job than rank 0: names or places of tensors differ",
            (unsigned long long)rank);
    }
    if (here->flags != there->flags) {
        return sft__base_fail(err, SFT_E_MISMATCH, "rank %llu runs with other options than rank 0",
                              (unsigned long long)rank);
    }
    return find_source(r, rank, err);
}

/* All processes come to the same answer, by the same calls. */
static sft_status compare_jobs(const running *r, sft_error *err) {
    const sft_group *const g = r->crew.group;
    outline *const all = sft__base_alloc_array(NULL, g->size, sizeof *all);
    outline mine;
    memset(&mine, 0, sizeof mine);
    memcpy(mine.key, r->job->key, 32);
    memcpy(mine.plan_key, r->job->plan_key, 32);
    mine.files = r->job->count;
    mine.tensors = r->job->total.tensors;
    mine.bytes = r->job->total.bytes;
    mine.sources = r->job->source_count;
    mine.flags = (uint64_t)r->options.flags << 32 | (uint64_t)r->options.durability;
    SFT_NEED(all != NULL, g->size * sizeof *all, err);
    sft_status status = sft__checkpoint_group_gather(g, &mine, sizeof mine, all, err);
    for (size_t i = 1; i < g->size && status == SFT_OK; i++) {
        if (memcmp(all[0].key, all[i].key, 32) != 0 || all[0].flags != all[i].flags) {
            status = tell_difference(r, all, i, err);
        }
    }
    sft__base_free(NULL, all, g->size * sizeof *all);
    return status;
}

/* ---------------------------------------------------------------- who does what */

/* Shares of equal bytes, contiguous in the order of units, of what is to be done; and of what is
 * done already, for who verifies it. */
static void share_units(running *r, uint8_t kind) {
    const sft_job *const job = r->job;
    const uint32_t ranks = r->crew.group->size;
    uint64_t total = 0;
    uint64_t at = 0;
    for (size_t i = 0; i < job->unit_count; i++) {
        total += r->done.units[i] == kind ? job->units[i].bytes + 1 : 0;
    }
    for (size_t i = 0; i < job->unit_count; i++) {
        if (r->done.units[i] == kind) {
            const double share = (double)at / (double)total * ranks;
            r->crew.owner[i] = (uint32_t)share < ranks ? (uint32_t)share : ranks - 1;
            at += job->units[i].bytes + 1;
            r->crew.total += kind == 0 ? job->units[i].bytes : 0;
        }
    }
}

/* Journals are read by everybody, before anybody writes: what they say must be the same for all. */
static sft_status read_done(running *r, sft_error *err) {
    const sft_group *const g = r->crew.group;
    const sft_job *const job = r->job;
    sft_status status = sft__checkpoint_stage_read(&r->stage, r->stage.directory, &r->done, err);
    const uint32_t mine = status == SFT_OK ? sft_crc32c(0, r->done.units, job->unit_count) : 0;
    uint64_t number = mine;
    SFT_TRY(sft__checkpoint_group_agree_on(g, status, &number, err));
    if (number != mine) {
        status = sft__base_fail(err, SFT_E_STATE, "\"%.200s\": other journals than rank 0 sees",
                                r->stage.directory);
    }
    r->crew.owner =
        sft__base_alloc_zero(job->allocator, (job->unit_count + 1) * sizeof *r->crew.owner);
    if (status == SFT_OK && r->crew.owner == NULL) {
        status = sft__base_fail_nomem(err, (job->unit_count + 1) * sizeof *r->crew.owner);
    }
    if (status == SFT_OK) {
        share_units(r, 0);
        share_units(r, 1);
        status = g->rank == 0 ? SFT_OK
                              : sft__checkpoint_running_open_journal(r, err); /* its own is open */
    }
    return status;
}

/* ---------------------------------------------------------------- from beginning to end */

enum { GO_ON = 0, PUBLISHED = 1, COMMITTED = 2 };

/* Rank 0 looks at what is there, and makes what is not. */
static sft_status begin(running *r, uint64_t *state, sft_error *err) {
    const uint32_t flags = r->options.flags;
    bool published = false;
    sft__checkpoint_done found = r->done;
    SFT_TRY(sft__checkpoint_running_is_published(r, &published, err));
    if (published) {
        *state = PUBLISHED;
        return SFT_OK;
    }
    if ((flags & SFT_JOB_RESTART) == 0) {
        SFT_TRY(sft__checkpoint_stage_read(&r->stage, r->stage.directory, &found, err));
    }
    if (found.committed) {
        SFT_TRY(sft__checkpoint_running_prove_committed(r, &found, NULL, err));
    }
    memset(r->done.units, 0, r->job->unit_count); /* read again, together */
    if (!found.committed && (flags & SFT_JOB_REPLACE) == 0) {
        SFT_TRY(sft__checkpoint_stage_check(&r->stage, err));
    }
    *state = found.committed ? COMMITTED : GO_ON;
    SFT_TRY(sft__checkpoint_stage_open(&r->stage, (flags & SFT_JOB_RESTART) != 0, err));
    SFT_TRY(sft__checkpoint_running_open_journal(r, err));
    SFT_TRY(sft__checkpoint_crew_open(r, err));
    SFT_TRY(sft__checkpoint_outputs_init(&r->outputs, &r->stage, err));
    return found.committed ? SFT_OK : sft__checkpoint_outputs_reserve(&r->outputs, err);
}

static sft_status join_in(running *r, sft_error *err) {
    SFT_TRY(sft__checkpoint_outputs_init(&r->outputs, &r->stage, err));
    return sft__checkpoint_crew_open(r, err);
}

static sft_status work(running *r, sft_error *err) {
    sft_status status =
        sft__checkpoint_running_explain(r, sft__checkpoint_running_units(r, err), err);
    if (status == SFT_OK) {
        status = sft__checkpoint_running_check_sources(r, err);
    }
    if (status != SFT_OK) {
        sft__checkpoint_crew_stop(r);
    }
    return status;
}

/* Rank 0: is it all there, and is its place still free? */
static sft_status look_over(running *r, sft_error *err) {
    size_t missing = 0;
    SFT_TRY(sft__checkpoint_stage_read(&r->stage, r->stage.directory, &r->done, err));
    if (!sft__checkpoint_running_is_complete(r, &missing)) {
        return sft__base_fail(
            err, SFT_E_STATE,
            "unit %llu of %llu is in no journal that rank 0 sees: is \"%.160s\" on a "
            "common file system?",
            (unsigned long long)missing + 1, (unsigned long long)r->job->unit_count,
            r->stage.directory);
    }
    return (r->options.flags & SFT_JOB_REPLACE) == 0 ? sft__checkpoint_stage_check(&r->stage, err)
                                                     : SFT_OK;
}

static sft_status carry_out(running *r, bool *published, sft_error *err) {
    const sft_group *const g = r->crew.group;
    const bool first = g->rank == 0;
    uint64_t state = GO_ON;
    SFT_TRY(compare_jobs(r, err));
    SFT_TRY(sft__checkpoint_group_agree_on(g, first ? begin(r, &state, err) : SFT_OK, &state, err));
    *published = state == PUBLISHED;
    if (state == PUBLISHED) {
        return SFT_OK;
    }
    if (state == GO_ON) {
        SFT_TRY(sft__checkpoint_group_agree(g, first ? SFT_OK : join_in(r, err), false, err));
    }
    SFT_TRY(sft__checkpoint_group_agree(g, read_done(r, err), false, err));
    if (state == GO_ON) {
        const sft_status worked = work(r, err);
        SFT_TRY(sft__checkpoint_group_agree(g, worked, r->crew.stopped, err));
        SFT_TRY(sft__checkpoint_group_agree(g, first ? look_over(r, err) : SFT_OK, false, err));
        const sft_status finished =
            sft__checkpoint_running_finish_files(r, g->rank, g->size, err); /* by all */
        SFT_TRY(sft__checkpoint_group_agree(g, finished, false, err));
    }
    if (!first) { /* nothing of ours is open where rank 0 renames */
        sft__checkpoint_outputs_reset(&r->outputs);
        sft__fs_close(r->journal);
        r->journal = SFT__FS_NO_HANDLE;
    }
    sft__fs_close(r->crew.board);
    r->crew.board = SFT__FS_NO_HANDLE;
    SFT_TRY(sft__checkpoint_group_agree(g, SFT_OK, false, err));
    SFT_TRY(sft__checkpoint_group_agree(g, first ? sft__checkpoint_running_commit(r, err) : SFT_OK,
                                        false, err));
    *published = true;
    return SFT_OK;
}

/* Everybody has come to the end: what is in the staging directory is for the next run, if anything. */
static void leave(running *r) {
    if (r->crew.group->rank == 0 && r->journal != SFT__FS_NO_HANDLE &&
        sft__checkpoint_stage_read(&r->stage, r->stage.directory, &r->done, NULL) == SFT_OK) {
        sft__fs_close(r->crew.board);
        r->crew.board = SFT__FS_NO_HANDLE;
        sft__checkpoint_running_leave(r);
    }
}

static sft_status run_together(running *r, const sft_group *group, bool *published,
                               sft_error *err) {
    sft_status status = SFT_OK;
    if (r->options.tasks > 0 || (r->options.flags & (SFT_JOB_FINISH | SFT_JOB_NO_FINISH)) != 0) {
        status = sft__base_fail(err, SFT_E_ARG, "a group has no tasks: its ranks are");
    }
    SFT_TRY(sft__checkpoint_group_agree(group, status, false, err));
    r->crew.group = group;
    r->options.task = group->rank + 1;
    r->options.tasks = group->size;
    return carry_out(r, published, err);
}

/* A process that has failed before it came here: the others are told. */
static sft_status fail_together(const sft_group *group, sft_error *err) {
    sft_error none;
    if (err == NULL || err->status == SFT_OK) {
        err = err != NULL ? err : &none;
        (void)sft__base_fail(err, SFT_E_MISMATCH, "has no such job");
    }
    return sft__checkpoint_group_agree(group, (sft_status)err->status, false, err);
}

sft_status sft_job_run_group(const sft_job *job, const char *directory,
                             const sft_job_run_options *options, const sft_group *group,
                             sft_job_result *result, sft_error *err) {
    bool published = false;
    uint64_t sums[3];
    running r;
    SFT_TRY(sft__checkpoint_group_check(group, err));
    if (!sft__checkpoint_group_is_many(group)) {
        return job != NULL ? sft_job_run(job, directory, options, result, err)
                           : fail_together(group, err);
    }
    if (job == NULL) {
        return fail_together(group, err);
    }
    sft_status status = sft__checkpoint_running_prepare(&r, job, directory, options, err);
    if (status == SFT_OK) {
        status = sft__base_result_check(result, SFT__UP_TO(sft_job_result, bytes_written), err);
    }
    status = sft__checkpoint_group_agree(group, status, false, err);
    if (status == SFT_OK) {
        status = run_together(&r, group, &published, err);
    }
    if (r.crew.group != NULL && status != SFT_OK && status != SFT_E_DURABILITY) {
        leave(&r);
    }
    sums[0] = r.moved;
    sums[1] = r.read;
    sums[2] = r.kept;
    sft__checkpoint_running_reset(&r);
    if (status == SFT_OK) {
        status = sft__checkpoint_group_sum(group, sums, 3, err);
    }
    sft__checkpoint_running_tell(sums, published, result);
    return status;
}
