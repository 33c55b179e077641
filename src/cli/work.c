/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/work.c - rounds of units on the worker pool, and small things that several commands print.
 * Read work.h first.
 */
#include "cli/work.h"
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_SLOTS = 64, SLOTS_EACH = 4, FEWEST_BYTES = 1 << 20 };

typedef struct round {
    const cli_job *job;
    cli_slot *slots;
    uint64_t first;
} round;

static void work_one(void *ctx, size_t index) {
    round *r = ctx;
    cli_slot *slot = &r->slots[index];
    slot->status = r->job->work(r->job->ctx, r->first + index, slot);
}

static sft_status merge_round(round *r, size_t count, uint64_t *done, sft_error *err) {
    for (size_t i = 0; i < count; i++) {
        cli_slot *slot = &r->slots[i];
        uint64_t bytes = 0;
        if (slot->status == SFT_OK) {
            slot->status = r->job->merge(r->job->ctx, r->first + i, slot, &bytes);
        }
        if (slot->status != SFT_OK) {
            *err = slot->err;
            return slot->status;
        }
        *done += bytes;
    }
    return SFT_OK;
}

static sft_status run_rounds(cli *c, round *r, size_t slots, const sft_pool *pool, sft_error *err) {
    const sft_control *control = cli_control(c, r->job->label);
    sft_progress progress = {0, r->job->total_bytes};
    sft_status status = SFT_OK;

    while (status == SFT_OK && r->first < r->job->count) {
        const uint64_t left = r->job->count - r->first;
        const size_t count = left < slots ? (size_t)left : slots;
        if (count == 1) {
            work_one(r, 0);
        } else {
            sft_pool_run(pool, count, work_one, r);
        }
        status = merge_round(r, count, &progress.bytes_done, err);
        r->first += count;
        if (status == SFT_OK && (control->poll(control->ctx, &progress) != 0 || cli_stopped(c))) {
            status = CLI_ERROR(err, SFT_E_CANCELLED, "interrupted");
        }
    }
    cli_control_end(c);
    return status;
}

static const sft_pool *pool_for(cli *c, const cli_job *job) {
    return job->count > 1 && job->total_bytes > FEWEST_BYTES ? cli_pool(c) : NULL;
}

/* One slot for each thread, or fewer; free(slots[0].room) and free(slots) are the caller's. */
static cli_slot *make_slots(const cli_job *job, size_t count) {
    cli_slot *slots = cli_alloc(count, sizeof *slots);
    const size_t room_bytes = (job->room_bytes + 63) / 64 * 64;
    char *rooms = cli_alloc(count, room_bytes);

    for (size_t i = 0; i < count; i++) {
        slots[i].room = rooms + i * room_bytes;
    }
    return slots;
}

/* Twice as many as a pool has: while some wait for the disk, as many as there are processors compute. */
static sft_pool *pool_to_read(cli *c, const cli_job *job, const sft_pool *pool) {
    sft_pool *more = NULL;
    sft_error err; /* the pool will do as well */

    if (job->reads && sft_pool_threads(pool) > 1 && cli_text(c, "jobs") == NULL) {
        (void)!sft_pool_create(&more, 2 * sft_pool_threads(pool), NULL, &err);
    }
    return more;
}

/* Several for each thread, so that it seldom waits for the end of a round. */
static size_t slots_for(size_t threads) {
    return threads == 1 ? 1 : threads < MOST_SLOTS / SLOTS_EACH ? SLOTS_EACH * threads : MOST_SLOTS;
}

sft_status cli_run_job(cli *c, const cli_job *job, sft_error *err) {
    const sft_pool *pool = pool_for(c, job);
    sft_pool *more = pool_to_read(c, job, pool);
    const size_t count = slots_for(sft_pool_threads(more != NULL ? more : pool));
    round r = {job, make_slots(job, count), 0};
    const sft_status status = run_rounds(c, &r, count, more != NULL ? more : pool, err);

    sft_pool_free(more);
    free(r.slots[0].room);
    free(r.slots);
    return status;
}

/* ---------------------------------------------------------------- without rounds */

typedef struct free_run {
    cli *c;
    const cli_job *job;
    cli_slot *slots;
    size_t threads;
    uint64_t first;
    atomic_flag *taken; /* per slot: there are as many as threads, so one is always free */
    atomic_flag lock;   /* of what follows */
    sft_error err;
    uint64_t failed; /* unit; UINT64_MAX: none */
} free_run;

static void spin_lock(atomic_flag *flag) {
    while (atomic_flag_test_and_set_explicit(flag, memory_order_acquire)) {
    }
}

static void spin_unlock(atomic_flag *flag) {
    atomic_flag_clear_explicit(flag, memory_order_release);
}

/* The failure of the lowest unit stays: those before it have been started, and end. */
static void note_failure(free_run *r, uint64_t unit, const sft_error *err) {
    spin_lock(&r->lock);
    if (unit < r->failed) {
        r->failed = unit;
        r->err = *err;
    }
    spin_unlock(&r->lock);
}

static void free_one(void *ctx, size_t index) {
    free_run *r = ctx;
    const uint64_t unit = r->first + index;
    size_t k = 0;

    spin_lock(&r->lock);
    const bool over = r->failed < unit;
    spin_unlock(&r->lock);
    if (over) {
        return;
    }
    while (atomic_flag_test_and_set_explicit(&r->taken[k], memory_order_acquire)) {
        k = (k + 1) % r->threads;
    }
    cli_slot *slot = &r->slots[k];
    if (cli_stopped(r->c)) {
        slot->status = CLI_ERROR(&slot->err, SFT_E_CANCELLED, "interrupted");
    } else {
        slot->status = r->job->work(r->job->ctx, unit, slot);
    }
    if (slot->status != SFT_OK) {
        note_failure(r, unit, &slot->err);
    }
    spin_unlock(&r->taken[k]);
}

sft_status cli_run_free(cli *c, const cli_job *job, sft_error *err) {
    enum { AT_ONCE = 1 << 30 };
    const sft_pool *pool = pool_for(c, job);
    free_run r = {.c = c,
                  .job = job,
                  .threads = sft_pool_threads(pool),
                  .lock = ATOMIC_FLAG_INIT,
                  .failed = UINT64_MAX};

    r.slots = make_slots(job, r.threads);
    r.taken = cli_alloc(r.threads, sizeof *r.taken);
    for (size_t i = 0; i < r.threads; i++) {
        atomic_flag_clear(&r.taken[i]);
    }
    for (; r.first < job->count && r.failed == UINT64_MAX; r.first += AT_ONCE) {
        const uint64_t left = job->count - r.first;
        sft_pool_run(pool, left < AT_ONCE ? (size_t)left : AT_ONCE, free_one, &r);
    }
    free(r.taken);
    free(r.slots[0].room);
    free(r.slots);
    if (r.failed == UINT64_MAX) {
        return SFT_OK;
    }
    *err = r.err;
    return r.err.status;
}

/* ---------------------------------------------------------------- cutting */

void cli_cut_init(cli_cut *cut, size_t block) {
    memset(cut, 0, sizeof *cut);
    cut->block = block;
}

void cli_cut_add(cli_cut *cut, uint64_t size) {
    if (cut->items + 1 >= cut->room) {
        cut->room = cut->room * 2 + 64;
        cut->first = cli_resize(cut->first, cut->room, sizeof *cut->first);
        cut->sizes = cli_resize(cut->sizes, cut->room, sizeof *cut->sizes);
    }
    if (cut->items == 0) {
        cut->first[0] = 0;
    }
    cut->sizes[cut->items] = size;
    cut->first[cut->items + 1] =
        cut->first[cut->items] + size / cut->block + (size % cut->block != 0);
    cut->items++;
    cut->total_bytes += size; /* only drawn */
}

uint64_t cli_cut_units(const cli_cut *cut) {
    return cut->items > 0 ? cut->first[cut->items] : 0;
}

void cli_cut_find(const cli_cut *cut, uint64_t unit, size_t *item, uint64_t *offset, size_t *size) {
    size_t low = 0;
    size_t high = cut->items;

    while (high - low > 1) { /* first[low] <= unit < first[high] */
        const size_t middle = low + (high - low) / 2;
        if (cut->first[middle] <= unit) {
            low = middle;
        } else {
            high = middle;
        }
    }
    *item = low;
    *offset = (unit - cut->first[low]) * cut->block;
    const uint64_t left = cut->sizes[low] - *offset;
    *size = left < cut->block ? (size_t)left : cut->block;
}

void cli_cut_reset(cli_cut *cut) {
    free(cut->first);
    free(cut->sizes);
    memset(cut, 0, sizeof *cut);
}

/* ---------------------------------------------------------------- small things */

uint64_t cli_bytes_of(const sft_dtype *dtype, uint64_t elements) {
    return elements / dtype->block_elements * dtype->block_bytes;
}

const char *cli_hex(char *text, const uint8_t *bytes, size_t size) {
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < size; i++) {
        text[2 * i] = digits[bytes[i] >> 4];
        text[2 * i + 1] = digits[bytes[i] & 15];
    }
    text[2 * size] = '\0';
    return text;
}

void cli_put_shape(cli_out *o, const uint64_t *shape, size_t rank) {
    cli_put(o, "[", 1);
    for (size_t k = 0; k < rank; k++) {
        cli_printf(o, "%s%llu", k > 0 ? ", " : "", (unsigned long long)shape[k]);
    }
    cli_put(o, "]", 1);
}

int cli_compare_bytes(const char *a, size_t a_len, const char *b, size_t b_len) {
    const int order = memcmp(a, b, a_len < b_len ? a_len : b_len);
    return order != 0 ? order : (a_len > b_len) - (a_len < b_len);
}
