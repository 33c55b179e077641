/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * checkpoint/job/job_run.c - a job, or one task of it, from its journal to its target. Read job.h,
 * journal.h, stage.h, outputs.h and job_run.h first. job_group.c: many processes that do one
 * together.
 *
 * Order of things on the disk: the bytes of units; flush; their lines in the journal; flush; when
 * all are there, headers; flush; texts; "commit"; flush; renames; then journals go. Whatever is
 * killed where, the next run finds either a line, and what it speaks of, or none; it reads what
 * lines speak of, and writes again what is not so: files may have been changed or removed
 * meanwhile.
 */
#include "checkpoint/job/job_run.h"
#include "base/options.h"
#include <sft/digest.h>
#include <stdlib.h>

typedef sft__checkpoint_running running;

static const uint64_t DEFAULT_MEMORY = (uint64_t)256 << 20;
static const uint64_t LEAST_MEMORY = (uint64_t)4 << 20;
static const uint64_t MOVE_STEP = (uint64_t)4 << 20; /* bytes between two looks at the control */
static const uint64_t BATCH = (uint64_t)256 << 20;   /* bytes between two flushes */

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

/* ---------------------------------------------------------------- the journal */

static sft_status write_lines(running *r, sft__base_buf *lines, sft_error *err) {
    if (lines->failed) {
        return sft__base_fail_nomem(err, lines->len);
    }
    SFT_TRY(sft__fs_write_at(r->journal, r->journal_path.data, r->journal_size, lines->data,
                             lines->len, err));
    r->journal_size += lines->len;
    return r->options.durability == SFT_DURABLE_FULL
               ? sft__fs_sync(r->journal, r->journal_path.data, err)
               : SFT_OK;
}

/* What was finished up to now becomes a fact. */
static sft_status checkpoint(running *r, sft_error *err) {
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
            status = write_lines(r, &lines, err);
        }
    }
    sft__base_mutex_unlock(&r->journal_lock);
    sft__base_buf_reset(&lines);
    return status;
}

sft_status sft__checkpoint_run_open_journal(running *r, sft_error *err) {
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
    const sft_status status = write_lines(r, &lines, err);
    sft__base_buf_reset(&lines);
    return status;
}

/* ---------------------------------------------------------------- one unit */

typedef struct unit_work {
    running *r;
    uint32_t crc;
    bool unknown; /* not all bytes were looked at */
    const sft__checkpoint_job_unit *unit;
    uint8_t *buffer;
} unit_work;

static sft_status put_bytes(void *ctx, uint32_t file, uint64_t offset, uint8_t *data, size_t size,
                            sft_error *err) {
    unit_work *const w = ctx;
    SFT_TRY(sft__checkpoint_outputs_write(&w->r->outputs, file, offset, data, size, err));
    w->crc = w->unknown ? 0 : sft_crc32c(w->crc, data, size);
    return sft__checkpoint_run_advance(w->r, size);
}

static sft_status move_bytes(void *ctx, uint32_t file, uint64_t offset, int fd, uint64_t from,
                             uint64_t size, uint64_t *moved, sft_error *err) {
    unit_work *const w = ctx;
    *moved = 0;
    while (*moved < size) {
        const uint64_t left = size - *moved;
        const uint64_t n = left < MOVE_STEP ? left : MOVE_STEP;
        uint64_t done;
        SFT_TRY(sft__checkpoint_outputs_copy(&w->r->outputs, file, offset + *moved, fd,
                                             from + *moved, n, &done, err));
        w->unknown = w->unknown || done > 0;
        *moved += done;
        SFT_TRY(sft__checkpoint_run_advance(w->r, done));
        if (done < n) {
            return SFT_OK;
        }
    }
    return SFT_OK;
}

static uint8_t *take_buffer(running *r) {
    sft__base_mutex_lock(&r->lock);
    while (r->free_buffers == NULL) {
        sft__base_cond_wait(&r->returned, &r->lock);
    }
    sft__checkpoint_idle *const b = r->free_buffers;
    r->free_buffers = b->next;
    sft__base_mutex_unlock(&r->lock);
    return (uint8_t *)b;
}

static void give_buffer(running *r, uint8_t *buffer) {
    sft__checkpoint_idle *const b = (sft__checkpoint_idle *)(void *)buffer;
    sft__base_mutex_lock(&r->lock);
    b->next = r->free_buffers;
    r->free_buffers = b;
    sft__base_cond_broadcast(&r->returned);
    sft__base_mutex_unlock(&r->lock);
}

static sft_status check_range(void *ctx, uint32_t file, uint64_t offset, uint64_t size,
                              sft_error *err) {
    unit_work *const w = ctx;
    while (size > 0) {
        const size_t n =
            (size_t)(size < sft__base_size.job_block ? size : sft__base_size.job_block);
        SFT_TRY(sft__checkpoint_outputs_read(&w->r->outputs, file, offset, w->buffer, n, err));
        w->crc = sft_crc32c(w->crc, w->buffer, n);
        offset += n;
        size -= n;
        SFT_TRY(sft__checkpoint_run_advance(w->r, 0));
    }
    return SFT_OK;
}

/* Will another process read what this one writes, for its digests? Then files are closed, which on
 * network file systems makes what is in them known, before the last lines speak of them. */
static bool others_look(const running *r) {
    return r->job->digests != 0 && r->options.tasks > 0;
}

static sft_status note_unit(running *r, size_t unit, uint64_t crc, sft_error *err) {
    sft__base_mutex_lock(&r->lock);
    r->done.units[unit] = 2;
    r->done.crcs[unit] = crc;
    sft__checkpoint_journal_unit(&r->pending, unit, crc);
    r->pending_bytes += r->job->units[unit].bytes;
    const bool now =
        (r->options.durability != SFT_DURABLE_FULL && !others_look(r)) || r->pending_bytes >= BATCH;
    sft__base_mutex_unlock(&r->lock);
    sft__checkpoint_crew_tick(r);
    return now ? checkpoint(r, err) : SFT_OK;
}

static sft_status do_unit(running *r, size_t unit, sft_error *err) {
    const sft__checkpoint_job_unit *const u = &r->job->units[unit];
    const bool watch = (r->options.flags & SFT_JOB_VERIFY) != 0;
    unit_work w = {r, 0, false, u, take_buffer(r)};
    sft__checkpoint_job_sink sink = {&w, put_bytes, watch ? NULL : move_bytes, 0};
    sft_status status = sft__checkpoint_run_advance(r, 0);
    if (status == SFT_OK && r->verifying) {
        const uint64_t known = r->done.crcs[unit];
        status = known == SFT__CRC_UNKNOWN
                     ? SFT_OK
                     : sft__checkpoint_job_ranges(r->job, u, check_range, &w, err);
        if (status == SFT_OK && w.crc != known) {
            if (r->done.units[unit] == 1) { /* by an earlier run, or nobody looked: once more */
                r->done.units[unit] = 0;    /* nobody else looks at it now */
            } else if (known != SFT__CRC_UNKNOWN) {
                status = sft__base_fail(err, SFT_E_MISMATCH,
                                        "what was written does not read back the same");
            }
        } else if (status == SFT_OK && r->done.units[unit] == 1) {
            r->done.units[unit] = 3;
        }
    } else if (status == SFT_OK) {
        status = sft__checkpoint_job_copy(r->job, u, w.buffer, &sink, err);
    }
    give_buffer(r, w.buffer);
    if (status == SFT_OK && !r->verifying) {
        sft__base_mutex_lock(&r->lock);
        r->read += sink.read;
        sft__base_mutex_unlock(&r->lock);
        if (r->options.durability == SFT_DURABLE_FULL && u->kind == SFT__UNIT_RUNS) {
            sft__checkpoint_outputs_soon(&r->outputs, u->which, u->first, u->end - u->first);
        }
        status = note_unit(r, unit, w.unknown ? SFT__CRC_UNKNOWN : w.crc, err);
    }
    return status;
}

static void run_unit(void *ctx, size_t index) {
    running *const r = ctx;
    sft_error error;
    memset(&error, 0, sizeof error);
    error.offset = SFT_NO_OFFSET;
    const sft_status status = do_unit(r, r->mine[index], &error);
    if (status != SFT_OK) {
        (void)sft__checkpoint_run_fail(r, status,
                                       &error); /* keeps the first one: what follows it is empty */
        sft__checkpoint_crew_stop(r);
    }
}

static sft_status run_units(running *r, sft_error *err) {
    sft_pool_run(r->options.pool, r->mine_count, run_unit, r);
    if (r->status != SFT_OK && err != NULL) {
        *err = r->error;
    }
    return r->status;
}

/* ---------------------------------------------------------------- which units */

/* The task that a unit belongs to, by the bytes before it: shares are contiguous. 1 to tasks. all:
 * those of other tasks, too. */
static void choose_units(running *r, uint8_t kind, bool all) {
    const sft_job *const job = r->job;
    const uint32_t tasks = r->options.tasks;
    uint64_t total = 0;
    uint64_t at = 0;
    for (size_t i = 0; i < job->unit_count; i++) {
        total += job->units[i].bytes + 1;
    }
    r->mine_count = 0;
    r->mine_bytes = 0;
    r->moved = 0;
    for (size_t i = 0; i < job->unit_count; i++) {
        const double share = tasks > 0 ? (double)at / (double)total * tasks : 0;
        const uint32_t task = (uint32_t)share + 1 < tasks ? (uint32_t)share + 1 : tasks;
        at += job->units[i].bytes + 1;
        const bool ours = r->crew.owner != NULL ? r->crew.owner[i] == r->crew.group->rank
                                                : all || tasks == 0 || task == r->options.task;
        if (ours && r->done.units[i] == kind) {
            r->mine[r->mine_count++] = i;
            r->mine_bytes += job->units[i].bytes;
        }
    }
    sft__checkpoint_run_spread(r);
}

static sft_status add_range(void *ctx, uint32_t file, uint64_t offset, uint64_t size,
                            sft_error *err) {
    (void)file;
    (void)offset;
    (void)err;
    *(uint64_t *)ctx += size;
    return SFT_OK;
}

/* Of the units chosen, exactly: what units say of bands is an estimate that only adds up. */
static uint64_t count_bytes(const running *r) {
    uint64_t bytes = 0;
    for (size_t i = 0; i < r->mine_count; i++) {
        (void)sft__checkpoint_job_ranges(r->job, &r->job->units[r->mine[i]], add_range, &bytes,
                                         NULL);
    }
    return bytes;
}

static sft_status verify_units(running *r, uint8_t kind, bool all, sft_error *err) {
    r->verifying = true;
    choose_units(r, kind, all);
    const sft_status status = run_units(r, err);
    r->verifying = false;
    return status;
}

static sft_status check_memory(const running *r, sft_error *err) {
    const uint64_t memory = r->options.memory_bytes > 0 ? r->options.memory_bytes : DEFAULT_MEMORY;
    const uint64_t least = r->job->room + 4096 > LEAST_MEMORY ? r->job->room + 4096 : LEAST_MEMORY;
    if (memory < least) {
        return sft__base_fail(err, SFT_E_LIMIT, "%llu bytes of memory: this job needs %llu",
                              (unsigned long long)memory, (unsigned long long)least);
    }
    return SFT_OK;
}

static sft_status make_buffers(running *r, sft_error *err) {
    const uint64_t memory = r->options.memory_bytes > 0 ? r->options.memory_bytes : DEFAULT_MEMORY;
    const uint64_t room = (r->job->room + 4095) & ~(uint64_t)4095;
    const uint64_t threads = sft_pool_threads(r->options.pool);
    uint64_t count = memory / room;
    size_t size;
    count = count < threads ? count : threads;
    if (!sft__base_size_from_u64(count * room, &size)) {
        return sft__base_fail_nomem(err, SIZE_MAX);
    }
    r->buffers = sft__base_alloc(r->job->allocator, size + 4096);
    if (r->buffers == NULL) {
        return sft__base_fail_nomem(err, size);
    }
    uint8_t *const first = r->buffers + (4096 - (uintptr_t)r->buffers % 4096);
    for (uint64_t i = 0; i < count; i++) {
        sft__checkpoint_idle *const b = (sft__checkpoint_idle *)(void *)(first + i * room);
        b->next = r->free_buffers;
        r->free_buffers = b;
    }
    r->kept = size + 4096; /* until it is freed */
    return SFT_OK;
}

static void drop_buffers(running *r, uint64_t size) {
    sft__base_free(r->job->allocator, r->buffers, (size_t)size);
    r->buffers = NULL;
    r->free_buffers = NULL;
}

sft_status sft__checkpoint_run_units(running *r, sft_error *err) {
    SFT_TRY(make_buffers(r, err));
    const uint64_t size = r->kept;
    sft_status status = SFT_OK;
    r->kept = 0;
    status = verify_units(r, 1, false, err);
    if (status == SFT_OK) {
        choose_units(r, 3, false);
        r->kept = count_bytes(r);
        choose_units(r, 0, false);
        status = run_units(r, err);
    }
    const uint64_t moved = r->moved;
    if (r->job->digests != 0) {
        sft__checkpoint_outputs_close(&r->outputs);
    }
    /* what is finished is kept, also of a run that fails */
    sft_error ignored;
    const sft_status noted = checkpoint(r, status == SFT_OK ? err : &ignored);
    status = status == SFT_OK ? noted : status;
    if (status == SFT_OK && (r->options.flags & SFT_JOB_VERIFY) != 0) {
        status = verify_units(r, 2, false, err);
    }
    r->moved = moved;
    drop_buffers(r, size);
    return status;
}

/* What other tasks say that they did, and nobody here has looked at: proven, or done by this one.
 */
static sft_status prove_others(running *r, sft_error *err) {
    const uint64_t kept = r->kept;
    const uint64_t moved = r->moved;
    const uint64_t bytes = r->mine_bytes;
    SFT_TRY(make_buffers(r, err));
    const uint64_t size = r->kept;
    sft_status status = verify_units(r, 1, true, err);
    if (status == SFT_OK) {
        choose_units(r, 0, true);
        status = run_units(r, err);
    }
    r->moved = moved + (status == SFT_OK ? r->moved : 0);
    r->mine_bytes = bytes;
    r->kept = kept;
    drop_buffers(r, size);
    return status == SFT_OK ? checkpoint(r, err) : status;
}

/* ---------------------------------------------------------------- the end */

static sft_status write_text(running *r, const sft_job_text *text, sft__base_buf *path,
                             sft_error *err) {
    sft__fs_handle disk;
    SFT_TRY(sft__checkpoint_stage_path(path, r->stage.folder, text->name, err));
    SFT_TRY(sft__checkpoint_stage_parents(&r->stage, r->stage.folder, text->name, err));
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

/* The entries of the staging folder reach the disk. */
static sft_status flush_folder(const running *r, sft_error *err) {
    const char *folder = r->stage.folder;
    const sft_status status = r->stage.durable ? sft__fs_sync_directory(folder, err) : SFT_OK;
    return status == SFT_OK || sft__fs_is_directory(folder)
               ? status
               : sft__base_fail(err, SFT_E_STATE, "another process is at it: \"%.200s\" is gone",
                                folder);
}

/* Every file is complete: what names them comes last. */
sft_status sft__checkpoint_run_commit(running *r, sft_error *err) {
    sft__base_buf lines;
    if (!r->done.committed) {
        SFT_TRY(write_texts(r, err));
        SFT_TRY(flush_folder(r, err));
        uint32_t headers = 0;
        SFT_TRY(sft__checkpoint_run_sum_headers(r, &headers, err));
        sft__base_buf_init(&lines, r->job->allocator);
        sft__checkpoint_journal_commit(&lines, headers);
        const sft_status status = write_lines(r, &lines, err);
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
        SFT_TRY(prove_others(r, err));
        SFT_TRY(sft__checkpoint_run_check_sources(r, err));
        if ((r->options.flags & SFT_JOB_REPLACE) == 0) {
            SFT_TRY(sft__checkpoint_stage_check(&r->stage, err));
        }
        if (r->options.proof != NULL) {
            SFT_TRY(r->options.proof(r->options.proof_ctx, err));
        }
        SFT_TRY(sft__checkpoint_run_finish_files(r, 0, 1, err));
    }
    return sft__checkpoint_run_commit(r, err);
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

/* Another process has the guard, or has removed it with the staging folder. */
static sft_status leave_to_others(const running *r, sft_error *err) {
    bool gone = false;
    SFT_TRY(sft__checkpoint_run_check_kept(r, &gone, err));
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
    if (mine == NULL) {
        return sft__base_fail_nomem(err, count + 1);
    }
    memcpy(mine, r->done.units, count);
    const sft_status status = sft__checkpoint_stage_read(&r->stage, r->stage.folder, &r->done, err);
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
        SFT_TRY(sft__checkpoint_run_check_kept(r, &gone, err));
    }
    if (gone) {
        return SFT_OK;
    }
    if (!sft__checkpoint_run_is_complete(r, &missing)) {
        return (r->options.flags & SFT_JOB_FINISH) == 0
                   ? SFT_OK
                   : sft__base_fail(
                         err, SFT_E_STATE, "unit %llu of %llu is not done: a task is missing",
                         (unsigned long long)missing + 1, (unsigned long long)r->job->unit_count);
    }
    return (r->options.flags & SFT_JOB_NO_FINISH) != 0 ? SFT_OK : publish_once(r, published, err);
}

/* ---------------------------------------------------------------- all of it */

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

/* A run that was killed between renaming the folder and removing the journals has done everything.
 */
sft_status sft__checkpoint_run_is_published(running *r, bool *published, sft_error *err) {
    sft__checkpoint_done found = r->done;
    found.committed = false;
    if (r->stage.fresh) {
        return SFT_OK;
    }
    if (sft__checkpoint_stage_read(&r->stage, r->stage.root, &found, NULL) == SFT_OK &&
        found.committed) {
        SFT_TRY(sft__checkpoint_run_prove_committed(r, &found, r->stage.root, err));
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
    const sft_status status = sft__checkpoint_stage_read(&r->stage, r->stage.folder, &r->done, err);
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
    SFT_TRY(sft__checkpoint_run_is_published(r, published, err));
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
    SFT_TRY(sft__checkpoint_run_open_journal(r, err));
    if ((flags & SFT_JOB_RESTART) != 0) {
        SFT_TRY(sft__checkpoint_stage_read(&r->stage, r->stage.folder, &r->done, err));
    }
    SFT_TRY(sft__checkpoint_outputs_init(&r->outputs, &r->stage, err));
    if (!r->done.committed && (flags & SFT_JOB_FINISH) == 0) {
        if (r->options.tasks == 0) {
            SFT_TRY(sft__checkpoint_outputs_reserve(&r->outputs, err));
        }
        SFT_TRY(sft__checkpoint_run_units(r, err));
        SFT_TRY(sft__checkpoint_run_check_sources(r, err));
    } else if (r->done.committed) {
        SFT_TRY(sft__checkpoint_run_prove_committed(r, &r->done, NULL, err));
    }
    return end(r, published, err);
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

sft_status sft_job_run(const sft_job *job, const char *directory,
                       const sft_job_run_options *options, sft_job_result *result, sft_error *err) {
    bool published = false;
    running r;
    sft_status status = sft__checkpoint_run_prepare(&r, job, directory, options, err);
    if (status == SFT_OK) {
        status = sft__checkpoint_run_explain(&r, carry_out(&r, &published, err), err);
    }
    if (status != SFT_OK && status != SFT_E_DURABILITY) {
        sft__checkpoint_run_leave(&r);
    }
    if (result != NULL) {
        result->bytes_written = r.moved;
        result->bytes_read = r.read;
        result->bytes_kept = r.kept;
        result->published = published ? 1 : 0;
    }
    sft__checkpoint_run_reset(&r);
    return status;
}
