/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * checkpoint/run/slots.c - memory of arenas: huge pages, touched by all threads, or the copier's. Read
 * run.h first.
 */
#include "base/memory/pages.h"
#include "checkpoint/run/run.h"
#include <sft/extend.h>

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
