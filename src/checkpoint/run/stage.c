/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * checkpoint/run/stage.c - the caller's bytes into an arena: device memory begun first, memory by the
 * common loop, what functions make in the calling thread. Read run.h first.
 */
#include "checkpoint/run/together.h"
#include "move/loop.h"

/* A block is long enough that memcpy goes past the caches, and short enough that threads end together. */
enum { BLOCK_MIN = 1 << 20, BLOCK_MAX = 32 << 20, BLOCKS_EACH = 8, FILL = 8 << 20 };

/* ---------------------------------------------------------------- copies */

/* Where a block begins: in an item, at a byte. */
typedef struct block_start {
    size_t item;
    uint64_t offset;
} block_start;

typedef struct copying {
    const sft_run_save *save;
    sft__move_loop loop;
    uint64_t block;
    block_start *starts; /* one more than there are blocks */
    size_t blocks;
} copying;

static bool is_memory(const sft__checkpoint_run_item *item) {
    return item->given.data != NULL && item->staged != NULL; /* of a group: what it writes */
}

static sft_status copy_block(void *ctx, size_t index, sft_error *err) {
    copying *const c = ctx;
    const block_start end = c->starts[index + 1];
    uint64_t at = c->starts[index].offset;
    uint64_t moved = 0;
    for (size_t i = c->starts[index].item; i < end.item || (i == end.item && at < end.offset);
         i++, at = 0) {
        const sft__checkpoint_run_item *const item = &c->save->items[i];
        const uint64_t to = i == end.item ? end.offset : item->given.nbytes;
        if (is_memory(item)) {
            memcpy(item->staged + at, (const uint8_t *)item->given.data + at, (size_t)(to - at));
            moved += to - at;
        }
    }
    return sft__move_loop_add(&c->loop, moved, err);
}

/* Cuts all memory into blocks of equal size. starts NULL: only counts them. */
static size_t cut(const sft_run_save *s, uint64_t block, block_start *starts) {
    size_t count = 0;
    uint64_t room = 0; /* left in the block */
    for (size_t i = 0; i < s->count; i++) {
        for (uint64_t at = 0; is_memory(&s->items[i]) && at < s->items[i].given.nbytes;) {
            const uint64_t left = s->items[i].given.nbytes - at;
            if (room == 0) {
                if (starts != NULL) {
                    starts[count] = (block_start){i, at};
                }
                count++;
                room = block;
            }
            const uint64_t n = left < room ? left : room;
            room -= n;
            at += n;
        }
    }
    if (starts != NULL) {
        starts[count] = (block_start){s->count, 0};
    }
    return count;
}

static sft_status copy_memory(copying *c, sft_error *err) {
    const sft_run_save *const s = c->save;
    c->starts = sft__base_alloc_array(s->allocator, c->blocks + 1, sizeof *c->starts);
    if (c->starts == NULL) {
        return sft__base_fail_nomem(err, (c->blocks + 1) * sizeof *c->starts);
    }
    (void)cut(s, c->block, c->starts);
    c->loop.pool = s->run->options.pool;
    c->loop.allocator = s->allocator;
    c->loop.block = copy_block;
    c->loop.ctx = c;
    sft_status status = sft__move_loop_begin(&c->loop, NULL, s->bytes, err);
    if (status == SFT_OK) {
        status = sft__move_loop_run(&c->loop, c->blocks, err);
        (void)!sft__move_loop_end(&c->loop, NULL);
    }
    sft__base_free(s->allocator, c->starts, (c->blocks + 1) * sizeof *c->starts);
    return status;
}

static sft_status fill_one(const sft__checkpoint_run_item *item, sft_error *err) {
    const sft_run_tensor *const t = &item->given;
    for (uint64_t at = 0; at < t->nbytes; at += FILL) {
        const size_t n = t->nbytes - at < FILL ? (size_t)(t->nbytes - at) : FILL;
        sft_error why;
        memset(&why, 0, sizeof why);
        why.offset = SFT_NO_OFFSET;
        const sft_status status = t->fill(t->fill_ctx, at, item->staged + at, n, &why);
        if (status != SFT_OK) {
            (void)sft_error_at(err, status, why.offset, item->name, item->name_len,
                               "could not be filled: %s", why.message);
            if (err != NULL) {
                err->sys = why.sys;
            }
            return status;
        }
    }
    return SFT_OK;
}

static sft_status copy_host(const sft_run_save *s, sft_error *err) {
    const uint64_t share =
        s->bytes / ((uint64_t)sft_pool_threads(s->run->options.pool) * BLOCKS_EACH);
    copying c;
    memset(&c, 0, sizeof c);
    c.save = s;
    c.block = share < BLOCK_MIN ? BLOCK_MIN : share > BLOCK_MAX ? BLOCK_MAX : share;
    c.blocks = cut(s, c.block, NULL);
    SFT_TRY(copy_memory(&c, err));
    for (size_t i = 0; i < s->count; i++) {
        if (s->items[i].given.fill != NULL && s->items[i].staged != NULL) {
            SFT_TRY(fill_one(&s->items[i], err));
        }
    }
    return SFT_OK;
}

static sft_status begin_device(const sft_run_save *s, bool *begun, sft_error *err) {
    const sft_copier *const copier = &s->run->copier;
    for (size_t i = 0; i < s->count; i++) {
        const sft__checkpoint_run_item *const item = &s->items[i];
        if (item->given.address != 0 && item->staged != NULL) {
            *begun = true;
            SFT_TRY(copier->copy(copier->ctx, item->staged, item->given.address,
                                 (size_t)item->given.nbytes, err));
        }
    }
    return SFT_OK;
}

/* The device copies while the processor does; nothing is under way any more when this returns. */
static sft_status copy_all(const sft_run_save *s, sft_error *err) {
    const sft_copier *const copier = &s->run->copier;
    bool begun = false;
    sft_status status = begin_device(s, &begun, err);
    if (status == SFT_OK) {
        status = copy_host(s, err);
    }
    if (begun && copier->finish != NULL) {
        const sft_status finished = copier->finish(copier->ctx, status == SFT_OK ? err : NULL);
        status = status == SFT_OK ? finished : status;
    }
    return status;
}

/* ---------------------------------------------------------------- all of it */

static void place(sft_run_save *s) {
    uint8_t *const base = s->run->slots[s->slot].base;
    for (size_t i = 0; i < s->plan_count; i++) {
        const sft__checkpoint_run_plan *const p = &s->plans[i];
        for (size_t k = 0; k < p->count; k++) {
            sft__checkpoint_run_item *const item = &s->items[s->order[p->first + k]];
            if (item->given.nbytes > 0) {
                item->staged = base + p->base + item->file_begin; /* inside of s->bytes */
            }
            s->tensors[p->first + k].data = item->staged;
        }
    }
}

static sft_status stage(sft_run *run, sft_run_save *save, sft_error *err) {
    SFT_TRY(sft__checkpoint_run_take_slot(run, save, err));
    place(save);
    return copy_all(save, err);
}

/* All of them have staged, or none has: nothing is written of a step that one process lacks. */
static sft_status stage_together(sft_run *run, sft_run_save *save, const sft_group *g,
                                 sft_error *err) {
    SFT_TRY(sft__checkpoint_run_divide_group(save, err));
    sft_status status = stage(run, save, err);
    if (status == SFT_OK && g->rank == 0) {
        status = sft__checkpoint_run_make_staging(run, save, err);
    }
    return sft__checkpoint_group_agree(g, status, false, err);
}

void sft_run_give_up(sft_run_save *save, const char *why) {
    sft_error err;
    if (save != NULL && save->run->options.group != NULL) {
        save->given_up = why;
        (void)sft__checkpoint_run_divide_group(save, &err); /* fails in all processes */
    }
    sft_run_save_free(save);
}

sft_status sft_run_stage(sft_run_save *save, uint64_t *ticket, sft_error *err) {
    sft_run *const run = save->run;
    const sft_group *const g = sft__checkpoint_run_group(run);
    sft_status status = SFT_OK;
    if (ticket != NULL) {
        *ticket = 0;
    }
    if (g != NULL) {
        status = stage_together(run, save, g, err);
    } else {
        status = sft__checkpoint_run_divide(save, err);
        status = status == SFT_OK ? stage(run, save, err) : status;
    }
    if (status != SFT_OK) {
        sft__checkpoint_run_give_slot(run, save);
        sft_run_save_free(save);
        return status;
    }
    run->begun = NULL;
    if (g == NULL) {
        save->time = sft__base_now_seconds();
    }
    sft__checkpoint_run_push(run, save);
    if (ticket != NULL) {
        *ticket = run->tickets; /* only this thread gives them out */
    }
    return SFT_OK;
}
