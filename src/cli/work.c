/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/work.c - rounds of units on the worker pool, and small things that several commands print.
 * Read work.h first.
 */
#include "work.h"
#include <stdlib.h>
#include <string.h>

enum { MOST_SLOTS = 64, FEWEST_BYTES = 1 << 20 };

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
            status = sft_error_set(err, SFT_E_CANCELLED, 0, SFT_NO_OFFSET, NULL, 0, "interrupted");
        }
    }
    cli_control_end(c);
    return status;
}

sft_status cli_run_job(cli *c, const cli_job *job, sft_error *err) {
    const sft_pool *pool = job->count > 1 && job->total_bytes > FEWEST_BYTES ? cli_pool(c) : NULL;
    const size_t threads = sft_pool_threads(pool);
    const size_t slots = threads < MOST_SLOTS ? threads : MOST_SLOTS;
    round r = {job, cli_alloc(slots, sizeof *r.slots), 0};
    const size_t room_bytes = (job->room_bytes + 63) / 64 * 64;
    char *rooms = cli_alloc(slots, room_bytes);

    for (size_t i = 0; i < slots; i++) {
        r.slots[i].room = rooms + i * room_bytes;
    }
    const sft_status status = run_rounds(c, &r, slots, pool, err);
    free(rooms);
    free(r.slots);
    return status;
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

void cli_json_shape(cli_json *j, const uint64_t *shape, size_t rank) {
    cli_json_open(j, '[');
    for (size_t k = 0; k < rank; k++) {
        cli_json_u64(j, shape[k]);
    }
    cli_json_close(j, ']');
}

int cli_compare_bytes(const char *a, size_t a_len, const char *b, size_t b_len) {
    const int order = memcmp(a, b, a_len < b_len ? a_len : b_len);
    return order != 0 ? order : (a_len > b_len) - (a_len < b_len);
}
