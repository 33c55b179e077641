/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * checkpoint/job/run.c - a job, or one task of it, from its journal to its target. Read job.h,
 * journal.h, stage.h, outputs.h and run.h first. run_group.c: many processes that do one
 * together.
 *
 * Order of things on the disk: the bytes of units; flush; their lines in the journal; flush; when
 * all are there, headers; flush; texts; "commit"; flush; renames; then journals go. Whatever is
 * killed where, the next run finds either a line, and what it speaks of, or none; it reads what
 * lines speak of, and writes again what is not so: files may have been changed or removed
 * meanwhile.
 */
#include "checkpoint/job/run.h"
#include "base/memory/need.h"
#include "base/options.h"

typedef sft__checkpoint_running running;

/* ---------------------------------------------------------------- the end */

static sft_status write_text(running *r, const sft_job_text *text, sft__base_buf *path,
                             sft_error *err) {
    sft__fs_handle disk;
    SFT_TRY(sft__checkpoint_stage_path(path, r->stage.directory, text->name, err));
    SFT_TRY(sft__checkpoint_stage_parents(&r->stage, r->stage.directory, text->name, err));
    SFT_TRY(sft__fs_staged_open(path->data, &disk, err));
    sft_status status = sft__fs_resize(disk, path->data, 0, err);
    if (status == SFT_OK) {
        status = sft__fs_write_at(disk, path->data, 0, text->data, text->size, err);
    }
    if (status == SFT_OK && r->options.durability == SFT_DURABLE_FULL) {
        status = sft__fs_sync(disk, path->data, err);
    }
    sft__fs_close(disk);
    return status;
}

static sft_status write_texts(running *r, sft_error *err) {
    sft__base_buf path;
    sft_status status = SFT_OK;
    sft__base_buf_init(&path, r->job->allocator);
    for (size_t i = 0; i < r->job->text_count && status == SFT_OK; i++) {
        status = write_text(r, &r->job->texts[i], &path, err);
    }
    sft__base_buf_reset(&path);
    return status;
}

/* The entries of the staging directory reach the disk. */
static sft_status flush_directory(const running *r, sft_error *err) {
    const char *directory = r->stage.directory;
    const sft_status status = r->stage.durable ? sft__fs_sync_directory(directory, err) : SFT_OK;
    return status == SFT_OK || sft__fs_is_directory(directory)
               ? status
               : sft__base_fail(err, SFT_E_STATE, "another process is at it: \"%.200s\" is gone",
                                directory);
}

/* Every file is complete: what names them comes last. */
sft_status sft__checkpoint_running_commit(running *r, sft_error *err) {
    sft__base_buf lines;
    if (!r->done.committed) {
        SFT_TRY(write_texts(r, err));
        SFT_TRY(flush_directory(r, err));
        uint32_t headers = 0;
        SFT_TRY(sft__checkpoint_running_sum_headers(r, &headers, err));
        sft__base_buf_init(&lines, r->job->allocator);
        sft__checkpoint_journal_commit(&lines, headers);
        const sft_status status = sft__checkpoint_running_write_lines(r, &lines, err);
        sft__base_buf_reset(&lines);
        SFT_TRY(status);
    }
    sft__fs_close(r->journal); /* where it lies, nothing open may be renamed everywhere */
    r->journal = SFT__FS_NO_HANDLE;
    return sft__checkpoint_stage_commit(&r->stage, err);
}

/* Everything is written: headers, texts, names. Under a lock of its own, as tasks may end together.
 */
static sft_status publish(running *r, sft_error *err) {
    if (!r->done.committed) {
        SFT_TRY(sft__checkpoint_running_prove_others(r, err));
        SFT_TRY(sft__checkpoint_running_check_sources(r, err));
        if ((r->options.flags & SFT_JOB_REPLACE) == 0) {
            SFT_TRY(sft__checkpoint_stage_check(&r->stage, err));
        }
        if (r->options.proof != NULL) {
            SFT_TRY(r->options.proof(r->options.proof_ctx, err));
        }
        SFT_TRY(sft__checkpoint_running_finish_files(r, 0, 1, err));
    }
    return sft__checkpoint_running_commit(r, err);
}

/* Another process has the guard, or has removed it with the staging directory. */
static sft_status leave_to_others(const running *r, sft_error *err) {
    bool gone = false;
    SFT_TRY(sft__checkpoint_running_check_kept(r, &gone, err));
    return gone || (r->options.flags & SFT_JOB_FINISH) == 0
               ? SFT_OK
               : sft__base_fail(err, SFT_E_STATE,
                                "another process is putting \"%.200s\" in its place",
                                r->stage.root);
}

/* Of several tasks that see everything done, one publishes. */
static sft_status publish_once(running *r, bool *published, sft_error *err) {
    sft__fs_handle guard = SFT__FS_NO_HANDLE;
    sft__base_buf path;
    sft_error why;
    if (r->options.tasks == 0 && (r->options.flags & SFT_JOB_FINISH) == 0) {
        SFT_TRY(publish(r, err));
        *published = true;
        return SFT_OK;
    }
    sft__base_buf_init(&path, r->job->allocator);
    sft_status status = sft__checkpoint_stage_guard(&r->stage, &path, err);
    if (status == SFT_OK) {
        status = sft__fs_staged_open_alone(path.data, &guard, &why);
        if (status == SFT_E_STATE || !sft__checkpoint_stage_is_there(&r->stage)) {
            status = leave_to_others(r, err);
        } else if (status == SFT_OK) {
            status = publish(r, err);
            *published = status == SFT_OK;
        } else if (err != NULL) {
            *err = why;
        }
    }
    sft__fs_close(guard);
    if (guard != SFT__FS_NO_HANDLE) {
        sft__checkpoint_stage_guard_end(path.data);
    }
    sft__base_buf_reset(&path);
    return status;
}

/* What this process has proven or done stays so. */
static sft_status read_others(running *r, sft_error *err) {
    const size_t count = r->job->unit_count;
    uint8_t *const mine = sft__base_alloc(r->job->allocator, count + 1);
    SFT_NEED(mine != NULL, count + 1, err);
    memcpy(mine, r->done.units, count);
    const sft_status status =
        sft__checkpoint_stage_read(&r->stage, r->stage.directory, &r->done, err);
    for (size_t i = 0; i < count && status == SFT_OK; i++) {
        r->done.units[i] = mine[i] > 1 ? mine[i] : r->done.units[i];
    }
    sft__base_free(r->job->allocator, mine, count + 1);
    return status;
}

static sft_status end(running *r, bool *published, sft_error *err) {
    size_t missing = 0;
    bool gone = false; /* published by another one */
    if (r->options.tasks > 0) {
        SFT_TRY(read_others(r, err));
        SFT_TRY(sft__checkpoint_running_check_kept(r, &gone, err));
    }
    if (gone) {
        return SFT_OK;
    }
    if (!sft__checkpoint_running_is_complete(r, &missing)) {
        return (r->options.flags & SFT_JOB_FINISH) == 0
                   ? SFT_OK
                   : sft__base_fail(
                         err, SFT_E_STATE, "unit %llu of %llu is not done: a task is missing",
                         (unsigned long long)missing + 1, (unsigned long long)r->job->unit_count);
    }
    return (r->options.flags & SFT_JOB_NO_FINISH) != 0 ? SFT_OK : publish_once(r, published, err);
}

/* ---------------------------------------------------------------- all of it */

/* A run that was killed between renaming the directory and removing the journals has done everything.
 */
sft_status sft__checkpoint_running_is_published(running *r, bool *published, sft_error *err) {
    sft__checkpoint_done found = r->done;
    found.committed = false;
    if (r->stage.fresh) {
        return SFT_OK;
    }
    if (sft__checkpoint_stage_read(&r->stage, r->stage.root, &found, NULL) == SFT_OK &&
        found.committed) {
        SFT_TRY(sft__checkpoint_running_prove_committed(r, &found, r->stage.root, err));
        SFT_TRY(sft__checkpoint_stage_clean(&r->stage, r->stage.root, err));
        *published = true;
    }
    memset(r->done.units, 0, r->job->unit_count);
    return SFT_OK;
}

/* What earlier runs and other tasks have done. A task that restarts forgets what it did itself;
 * *anew: nothing is kept, as of no job that others could be doing. */
static sft_status read_all(running *r, bool *anew, sft_error *err) {
    const bool restart = (r->options.flags & SFT_JOB_RESTART) != 0;
    *anew = restart && r->options.tasks == 0;
    if (*anew) {
        return SFT_OK;
    }
    const sft_status status =
        sft__checkpoint_stage_read(&r->stage, r->stage.directory, &r->done, err);
    if (restart) {
        *anew = status != SFT_OK || r->done.committed;
        memset(r->done.units, 0, r->job->unit_count);
        r->done.committed = false;
    }
    return restart ? SFT_OK : status;
}

static sft_status carry_out(running *r, bool *published, sft_error *err) {
    const uint32_t flags = r->options.flags;
    bool anew = false;
    SFT_TRY(sft__checkpoint_running_is_published(r, published, err));
    if (*published) {
        return SFT_OK;
    }
    SFT_TRY(read_all(r, &anew, err));
    if (!r->done.committed && (flags & SFT_JOB_REPLACE) == 0) {
        SFT_TRY(sft__checkpoint_stage_check(&r->stage, err));
    }
    if ((flags & SFT_JOB_FINISH) != 0 && !sft__checkpoint_stage_is_there(&r->stage)) {
        return sft__base_fail(err, SFT_E_STATE, "no task has written anything");
    }
    SFT_TRY(sft__checkpoint_stage_open(&r->stage, anew, err));
    SFT_TRY(sft__checkpoint_running_open_journal(r, err));
    if ((flags & SFT_JOB_RESTART) != 0) {
        SFT_TRY(sft__checkpoint_stage_read(&r->stage, r->stage.directory, &r->done, err));
    }
    SFT_TRY(sft__checkpoint_outputs_init(&r->outputs, &r->stage, err));
    if (!r->done.committed && (flags & SFT_JOB_FINISH) == 0) {
        if (r->options.tasks == 0) {
            SFT_TRY(sft__checkpoint_outputs_reserve(&r->outputs, err));
        }
        SFT_TRY(sft__checkpoint_running_units(r, err));
        SFT_TRY(sft__checkpoint_running_check_sources(r, err));
    } else if (r->done.committed) {
        SFT_TRY(sft__checkpoint_running_prove_committed(r, &r->done, NULL, err));
    }
    return end(r, published, err);
}

void sft__checkpoint_running_tell(const uint64_t sums[3], bool published, sft_job_result *result) {
    const sft_job_result full = {sizeof full, sums[0], sums[1], sums[2], published ? 1 : 0, 0};

    if (result != NULL) {
        sft__base_result_write(result, &full, sizeof full);
    }
}

sft_status sft_job_run(const sft_job *job, const char *directory,
                       const sft_job_run_options *options, sft_job_result *result, sft_error *err) {
    bool published = false;
    running r;
    SFT_TRY(sft__base_result_check(result, SFT__UP_TO(sft_job_result, bytes_written), err));
    sft_status status = sft__checkpoint_running_prepare(&r, job, directory, options, err);
    if (status == SFT_OK) {
        status = sft__checkpoint_running_explain(&r, carry_out(&r, &published, err), err);
    }
    if (status != SFT_OK && status != SFT_E_DURABILITY) {
        sft__checkpoint_running_leave(&r);
    }
    const uint64_t sums[3] = {r.moved, r.read, r.kept};
    sft__checkpoint_running_tell(sums, published, result);
    sft__checkpoint_running_reset(&r);
    return status;
}
