/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * checkpoint/run/queue.c - between the caller's thread and the one behind: steps that wait to be written,
 * arenas, failures that wait to be told. Read run.h first.
 */
#include "base/memory/pages.h"
#include "base/options.h"
#include "checkpoint/run/run.h"
#include <sft/extend.h>

/* ---------------------------------------------------------------- failures */

void sft__checkpoint_run_keep_failure(sft_run *run, uint64_t ticket, const sft_error *error) {
    sft__base_mutex_lock(&run->mutex);
    run->failures[run->failed % SFT__RUN_FAILED] =
        (sft__checkpoint_run_failure){ticket, *error, false};
    run->failed++;
    sft__base_mutex_unlock(&run->mutex);
}

static sft_status repeat(const sft_error *error, sft_error *err) {
    if (err != NULL) {
        *err = *error;
    }
    return (sft_status)error->status;
}

/* With the lock held. */
static sft_status tell(sft_run *run, sft_error *err) {
    const size_t kept = run->failed < SFT__RUN_FAILED ? run->failed : SFT__RUN_FAILED;
    for (size_t i = run->failed - kept; i < run->failed; i++) {
        sft__checkpoint_run_failure *const f = &run->failures[i % SFT__RUN_FAILED];
        if (!f->told) {
            f->told = true;
            return repeat(&f->error, err);
        }
    }
    return SFT_OK;
}

sft_status sft__checkpoint_run_tell(sft_run *run, sft_error *err) {
    sft__base_mutex_lock(&run->mutex);
    const sft_status status = tell(run, err);
    sft__base_mutex_unlock(&run->mutex);
    return status;
}

/* With the lock held. */
static sft_status tell_of(sft_run *run, uint64_t ticket, sft_error *err) {
    for (size_t i = 0; i < SFT__RUN_FAILED; i++) {
        sft__checkpoint_run_failure *const f = &run->failures[i];
        if (i < run->failed && f->ticket == ticket) {
            f->told = true;
            return repeat(&f->error, err);
        }
    }
    return SFT_OK;
}

/* ---------------------------------------------------------------- arenas */

enum { TOUCH = 32 << 20 };

typedef struct touching {
    uint8_t *base;
    size_t size;
} touching;

static void touch(void *ctx, size_t index) {
    const touching *const t = ctx;
    const size_t at = index * TOUCH;
    sft__base_pages_touch(t->base + at, t->size - at < TOUCH ? t->size - at : TOUCH);
}

static void free_slot(const sft_run *run, sft__checkpoint_run_slot *slot) {
    if (slot->lent) {
        run->copier.free(run->copier.ctx, slot->base, slot->size);
    } else if (slot->base != NULL) {
        sft__base_pages_free(slot->base, slot->size);
    }
    slot->base = NULL;
    slot->size = 0;
    slot->lent = false;
}

sft_status sft__checkpoint_run_slot_grow(sft_run *run, sft__checkpoint_run_slot *slot, size_t bytes,
                                         sft_error *err) {
    const size_t size =
        (bytes + SFT__HUGE_PAGE - 1) & ~(SFT__HUGE_PAGE - 1); /* 0: overflow, or nothing */
    if (bytes <= slot->size) {
        return SFT_OK;
    }
    free_slot(run, slot);
    if (size >= bytes && run->copier.alloc != NULL) {
        slot->base = run->copier.alloc(run->copier.ctx, size);
        slot->lent = slot->base != NULL;
    }
    if (size >= bytes && slot->base == NULL) {
        slot->base = sft__base_pages_alloc(size);
    }
    if (slot->base == NULL) {
        return sft__base_fail_nomem(err, bytes);
    }
    slot->size = size;
    if (!slot->lent) {
        touching t = {slot->base, size};
        sft_pool_run(run->options.pool, (size + TOUCH - 1) / TOUCH, touch, &t);
    }
    return SFT_OK;
}

void sft__checkpoint_run_free_slots(sft_run *run) {
    for (size_t i = 0; i < SFT__RUN_ARENAS; i++) {
        free_slot(run, &run->slots[i]);
    }
}

static sft__checkpoint_run_slot *free_one(sft_run *run) {
    for (uint32_t i = 0; i < run->options.arenas; i++) {
        if (!run->slots[i].busy) {
            return &run->slots[i];
        }
    }
    return NULL;
}

sft_status sft__checkpoint_run_take_slot(sft_run *run, sft_run_save *save, sft_error *err) {
    sft__checkpoint_run_slot *slot;
    if (save->bytes > SIZE_MAX - (4u << 20)) {
        return sft__base_fail(err, SFT_E_OVERFLOW, "a step larger than memory");
    }
    sft__base_mutex_lock(&run->mutex);
    while ((slot = free_one(run)) == NULL) {
        sft__base_cond_wait(&run->changed, &run->mutex);
    }
    slot->busy = true;
    sft__base_mutex_unlock(&run->mutex);
    save->slot = (uint32_t)(slot - run->slots);
    return sft__checkpoint_run_slot_grow(run, slot, (size_t)save->bytes, err);
}

void sft__checkpoint_run_give_slot(sft_run *run, const sft_run_save *save) {
    if (save->slot < SFT__RUN_ARENAS) {
        sft__base_mutex_lock(&run->mutex);
        run->slots[save->slot].busy = false;
        sft__base_cond_broadcast(&run->changed);
        sft__base_mutex_unlock(&run->mutex);
    }
}

/* ---------------------------------------------------------------- the queue */

void sft__checkpoint_run_push(sft_run *run, sft_run_save *save) {
    sft__base_mutex_lock(&run->mutex);
    save->ticket = ++run->tickets;
    save->next = NULL;
    if (run->last != NULL) {
        run->last->next = save;
    } else {
        run->first = save;
    }
    run->last = save;
    run->progress.pending++;
    run->progress.staged = save->step;
    sft__base_cond_broadcast(&run->changed);
    sft__base_mutex_unlock(&run->mutex);
}

/* ---------------------------------------------------------------- poll and wait */

uint64_t sft__checkpoint_run_saved(sft_run *run) {
    sft__base_mutex_lock(&run->mutex);
    const uint64_t step = run->progress.committed;
    sft__base_mutex_unlock(&run->mutex);
    return step;
}

sft_status sft_run_poll(sft_run *run, sft_run_progress *out, sft_error *err) {
    sft__base_mutex_lock(&run->mutex);
    if (out != NULL) {
        sft__base_result_write(out, &run->progress, sizeof run->progress);
    }
    const sft_status status = tell(run, err);
    sft__base_mutex_unlock(&run->mutex);
    return status;
}

sft_status sft_run_wait(sft_run *run, uint64_t ticket, uint64_t timeout_ms, sft_error *err) {
    const uint64_t begun = sft__base_now_ms();
    sft_status status = SFT_OK;
    sft__base_mutex_lock(&run->mutex);
    const uint64_t until = ticket == SFT_RUN_ALL ? run->tickets : ticket;
    const bool known = until <= run->tickets;
    while (known && run->done < until) {
        const uint64_t spent = sft__base_now_ms() - begun;
        if (spent >= timeout_ms) {
            status = SFT_E_TIMEOUT;
            break;
        }
        sft__base_cond_wait_ms(&run->changed, &run->mutex, timeout_ms - spent);
    }
    if (status == SFT_OK && known) {
        status = ticket == SFT_RUN_ALL ? tell(run, err) : tell_of(run, ticket, err);
    } else if (status == SFT_OK) {
        status = sft__base_fail(err, SFT_E_ARG, "there is no such ticket");
    } else {
        status = sft__base_fail(err, status, "not written within %llu milliseconds",
                                (unsigned long long)timeout_ms);
    }
    sft__base_mutex_unlock(&run->mutex);
    return status;
}
