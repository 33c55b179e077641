/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * checkpoint/job/run_units.c - the units of a run: which ones are this process's, in which buffers, and
 * each of them copied, or looked at again. Read job.h and run.h first.
 */
#include "checkpoint/job/run.h"
#include <sft/digest.h>

typedef sft__checkpoint_running running;

static const uint64_t MOVE_STEP = (uint64_t)4 << 20; /* bytes between two looks at the control */
static const uint64_t BATCH = (uint64_t)256 << 20;   /* bytes between two flushes */

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
    return now ? sft__checkpoint_run_keep(r, err) : SFT_OK;
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

static sft_status make_buffers(running *r, sft_error *err) {
    const uint64_t memory = sft__checkpoint_run_memory(r);
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
    const sft_status noted = sft__checkpoint_run_keep(r, status == SFT_OK ? err : &ignored);
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
sft_status sft__checkpoint_run_prove_others(running *r, sft_error *err) {
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
    return status == SFT_OK ? sft__checkpoint_run_keep(r, err) : status;
}
