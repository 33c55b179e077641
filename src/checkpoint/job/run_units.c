/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * checkpoint/job/run_units.c - the units of a run: which ones are this process's, and each of them a block
 * of the common loop: copied, or looked at again. Read job.h and run.h first.
 */
#include "base/memory/need.h"
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
} unit_work;

static sft_status put_bytes(void *ctx, uint32_t file, uint64_t offset, uint8_t *data, size_t size,
                            sft_error *err) {
    unit_work *const w = ctx;
    SFT_TRY(sft__checkpoint_outputs_write(&w->r->outputs, file, offset, data, size, err));
    w->crc = w->unknown ? 0 : sft_crc32c(w->crc, data, size);
    return sft__move_loop_add(&w->r->loop, size, err);
}

static sft_status move_bytes(void *ctx, sft__checkpoint_range to, int fd, uint64_t from,
                             uint64_t *moved, sft_error *err) {
    unit_work *const w = ctx;
    *moved = 0;
    while (*moved < to.size) {
        const uint64_t left = to.size - *moved;
        const sft__checkpoint_range part = {to.file, to.offset + *moved,
                                            left < MOVE_STEP ? left : MOVE_STEP};
        uint64_t done;
        SFT_TRY(sft__checkpoint_outputs_copy(&w->r->outputs, part, fd, from + *moved, &done, err));
        w->unknown = w->unknown || done > 0;
        *moved += done;
        SFT_TRY(sft__move_loop_add(&w->r->loop, done, err));
        if (done < part.size) {
            return SFT_OK;
        }
    }
    return SFT_OK;
}

static sft_status sum_range(void *ctx, sft__checkpoint_range range, sft_error *err) {
    unit_work *const w = ctx;
    return sft__checkpoint_running_sum(w->r, range, &w->crc, NULL, err);
}

/* Will another process read what this one writes, for its digests? Then files are closed, which on
 * network file systems makes what is in them known, before the last lines speak of them. */
static bool others_look(const running *r) {
    return r->job->digests != 0 && r->options.tasks > 0;
}

/* The hook behind a block: what it did waits for the next flush, or is a fact now. */
static sft_status note_unit(running *r, size_t unit, uint64_t crc, sft_error *err) {
    sft__base_mutex_lock(&r->lock);
    r->done.units[unit] = 2;
    r->done.crcs[unit] = crc;
    sft__checkpoint_journal_unit(&r->pending, unit, crc);
    r->pending_bytes += r->job->units[unit].bytes;
    const bool now =
        (r->options.durability != SFT_DURABLE_FULL && !others_look(r)) || r->pending_bytes >= BATCH;
    sft__base_mutex_unlock(&r->lock);
    if (now) {
        SFT_TRY(sft__checkpoint_running_keep(r, err));
    }
    return sft__checkpoint_crew_tick(r, err);
}

/* A block of the loop that copies: one unit. */
static sft_status copy_unit(void *ctx, size_t index, sft_error *err) {
    running *const r = ctx;
    const size_t unit = r->mine[index];
    const sft__checkpoint_job_unit *const u = &r->job->units[unit];
    const bool watch = (r->options.flags & SFT_JOB_VERIFY) != 0;
    unit_work w = {r, 0, false};
    sft__checkpoint_job_sink sink = {&w, put_bytes, watch ? NULL : move_bytes, 0};
    uint8_t *const buffer = sft__move_loop_take(&r->loop, err);
    if (buffer == NULL) {
        return SFT_E_NOMEM;
    }
    const sft_status status = sft__checkpoint_job_copy(r->job, u, buffer, &sink, err);
    sft__move_loop_give(&r->loop, buffer);
    SFT_TRY(status);
    sft__base_mutex_lock(&r->lock);
    r->read += sink.read;
    sft__base_mutex_unlock(&r->lock);
    if (r->options.durability == SFT_DURABLE_FULL && u->kind == SFT__UNIT_RUNS) {
        sft__checkpoint_outputs_soon(&r->outputs, u->which, u->first, u->end - u->first);
    }
    return note_unit(r, unit, w.unknown ? SFT__CRC_UNKNOWN : w.crc, err);
}

/* A block of the loop that verifies: one unit, as it is there. */
static sft_status check_unit(void *ctx, size_t index, sft_error *err) {
    running *const r = ctx;
    const size_t unit = r->mine[index];
    const uint64_t known = r->done.crcs[unit];
    unit_work w = {r, 0, false};
    if (known != SFT__CRC_UNKNOWN) {
        SFT_TRY(sft__checkpoint_job_ranges(r->job, &r->job->units[unit], sum_range, &w, err));
    }
    if (r->done.units[unit] == 1) { /* by an earlier run; differs, or nobody looked: once more */
        r->done.units[unit] = w.crc == known ? 3 : 0;
    } else if (w.crc != known && known != SFT__CRC_UNKNOWN) {
        return sft__base_fail(err, SFT_E_MISMATCH, "what was written does not read back the same");
    }
    return SFT_OK;
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
    sft__checkpoint_running_spread(r);
}

/* Units of this kind: copied if they are not done, else looked at. */
static sft_status run_chosen(running *r, uint8_t kind, bool all, sft_error *err) {
    const bool copy = kind == 0;
    size_t room;
    SFT_NEED(sft__base_size_from_u64(copy ? r->job->room : sft__base_size.job_block, &room),
             SIZE_MAX, err);
    choose_units(r, kind, all);
    return sft__checkpoint_running_loop(r, copy ? copy_unit : check_unit, r, r->mine_count, room,
                                        err);
}

static sft_status add_range(void *ctx, sft__checkpoint_range range, sft_error *err) {
    (void)err;
    *(uint64_t *)ctx += range.size;
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

sft_status sft__checkpoint_running_units(running *r, sft_error *err) {
    SFT_TRY(run_chosen(r, 1, false, err));
    choose_units(r, 3, false);
    r->kept = count_bytes(r);
    sft_status status = run_chosen(r, 0, false, err);
    const uint64_t moved = r->moved;
    if (r->job->digests != 0) {
        sft__checkpoint_outputs_close(&r->outputs);
    }
    /* what is finished is kept, also of a run that fails */
    const sft_status noted = sft__checkpoint_running_keep(r, status == SFT_OK ? err : NULL);
    status = status == SFT_OK ? noted : status;
    if (status == SFT_OK && (r->options.flags & SFT_JOB_VERIFY) != 0) {
        status = run_chosen(r, 2, false, err);
    }
    r->moved = moved;
    return status;
}

/* What other tasks say that they did, and nobody here has looked at: proven, or done by this one.
 */
sft_status sft__checkpoint_running_prove_others(running *r, sft_error *err) {
    const uint64_t moved = r->moved;
    const uint64_t bytes = r->mine_bytes;
    sft_status status = run_chosen(r, 1, true, err);
    status = status == SFT_OK ? run_chosen(r, 0, true, err) : status;
    r->moved = moved + (status == SFT_OK ? r->moved : 0);
    r->mine_bytes = bytes;
    return status == SFT_OK ? sft__checkpoint_running_keep(r, err) : status;
}
