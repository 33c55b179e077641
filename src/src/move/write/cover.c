/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * move/write/cover.c - see cover.h.
 */
#include "move/write/cover.h"
#include <sft/digest.h>

/* Index of the first extent that ends behind `at`. */
static size_t find(const sft__move_cover *c, uint64_t at) {
    size_t low = 0;
    size_t high = c->count;
    while (low < high) {
        const size_t mid = low + (high - low) / 2;
        if (c->list[mid].end > at) {
            high = mid;
        } else {
            low = mid + 1;
        }
    }
    return low;
}

static bool make_room(sft__move_cover *c, const sft_allocator *allocator) {
    sft__move_extent *list = NULL;
    size_t cap = 0;

    if (c->cap > 0) {
        return sft__base_grow(allocator, &c->list, &c->cap, c->count + 1, sizeof *c->list);
    }
    if (c->count == 0) {
        c->list = &c->one;
        return true;
    }
    if (!sft__base_grow(allocator, &list, &cap, c->count + 1, sizeof *list)) {
        return false;
    }
    list[0] = c->one;
    c->list = list;
    c->cap = cap;
    return true;
}

sft__move_claim sft__move_cover_claim(sft__move_cover *c, uint64_t begin, uint64_t end,
                                      const sft_allocator *allocator, uint64_t *clash) {
    const size_t i = find(c, begin);

    if (i < c->count && c->list[i].begin < end) {
        *clash = c->list[i].begin > begin ? c->list[i].begin : begin;
        return SFT__CLAIM_OVERLAP;
    }
    if (!make_room(c, allocator)) {
        return SFT__CLAIM_NOMEM;
    }
    memmove(c->list + i + 1, c->list + i, (c->count - i) * sizeof *c->list);
    c->list[i] = (sft__move_extent){begin, end, 0, true};
    c->count++;
    return SFT__CLAIM_OK;
}

/* Joins extent i with the one behind it if they touch and both are written. */
static void join(sft__move_cover *c, size_t i) {
    sft__move_extent *a = &c->list[i];
    const sft__move_extent *b = a + 1;

    if (i + 1 >= c->count || a->end != b->begin || a->busy || b->busy) {
        return;
    }
    a->crc = sft_crc32c_combine(a->crc, b->crc, b->end - b->begin);
    a->end = b->end;
    c->count--;
    memmove(c->list + i + 1, c->list + i + 2, (c->count - i - 1) * sizeof *c->list);
}

void sft__move_cover_done(sft__move_cover *c, uint64_t begin, uint32_t crc) {
    const size_t i = find(c, begin);
    c->list[i].busy = false;
    c->list[i].crc = crc;
    join(c, i);
    if (i > 0) {
        join(c, i - 1);
    }
}

uint64_t sft__move_cover_missing(const sft__move_cover *c, uint64_t size) {
    if (size == 0) {
        return 0;
    }
    if (c->count == 0 || c->list[0].begin > 0 || c->list[0].busy) {
        return 0;
    }
    return c->list[0].end; /* what touches and is written has been joined to it */
}

uint32_t sft__move_cover_crc(const sft__move_cover *c) {
    return c->count == 0 ? 0 : c->list[0].crc;
}

void sft__move_cover_reset(sft__move_cover *c, const sft_allocator *allocator) {
    if (c->cap > 0) {
        sft__base_free(allocator, c->list, c->cap * sizeof *c->list);
    }
    c->list = NULL;
    c->count = 0;
    c->cap = 0;
}
