/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/report/room.c - what texts take in a page, and how entries of metadata share a room that is too small
 * for them. Read parts.h first.
 */
#include "cli/report/parts.h"
#include <stdlib.h>

enum {
    MEMBERS = 46, /* bytes that an entry takes at most, beside its texts */
    CUTS = 64,    /* that its two values' cuts take, too */
    LEAST = 512   /* of an entry: of more entries than have so much, the last ones are left out */
};

/* How much of a text fits into so many bytes of JSON in a page, and what it takes there at most. */
size_t cli_page_fitting(const char *text, size_t len, uint64_t *room) {
    uint64_t taken = 0;

    for (size_t i = 0; i < len; i++) {
        const unsigned char ch = (unsigned char)text[i];
        taken += ch >= 0x80                ? 3
                 : ch < 0x20 || ch == 0x7f ? 6
                 : ch == '<'               ? 6
                 : ch == '"' || ch == '\\' ? 2
                                           : 1;
        if (taken > *room) {
            *room = 0;
            return cli_whole_characters(text, i);
        }
    }
    *room -= taken;
    return len;
}

uint64_t cli_page_cost(const char *text, size_t len) {
    uint64_t room = UINT64_MAX;

    (void)cli_page_fitting(text, text == NULL ? 0 : len, &room);
    return UINT64_MAX - room;
}

static uint64_t fixed_cost(const cli_metadata_change *x) {
    return MEMBERS + cli_page_cost(x->key, x->key_len);
}

uint64_t cli_room_cost(const cli_metadata_change *x) {
    return fixed_cost(x) + cli_page_cost(x->a, x->a_len) + cli_page_cost(x->b, x->b_len);
}

static int by_bytes(const void *a, const void *b) {
    const uint64_t x = *(const uint64_t *)a;
    const uint64_t y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

cli_room cli_room_of(uint64_t *costs, size_t count, uint64_t bytes) {
    cli_room room = {.left = bytes, .most = UINT64_MAX};
    uint64_t rest = bytes;

    qsort(costs, count, sizeof *costs, by_bytes);
    for (size_t i = 0; i < count; i++) {
        const uint64_t share = rest / (count - i);
        if (costs[i] > share) {
            room.most = share > LEAST ? share : LEAST;
            break;
        }
        rest -= costs[i];
    }
    return room;
}

static uint64_t least(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

bool cli_room_take(cli_room *r, const cli_metadata_change *x, size_t shown[2]) {
    const uint64_t most = least(r->most, r->left);
    const uint64_t fixed = fixed_cost(x) + (cli_room_cost(x) > most ? CUTS : 0);

    if (fixed > most) {
        r->entries_left++;
        return false;
    }
    uint64_t rest = most - fixed; /* what b does not need of its half is a's */
    const uint64_t for_a = rest - least(cli_page_cost(x->b, x->b_len), rest / 2);
    uint64_t unused = for_a;
    shown[0] = x->a == NULL ? 0 : cli_page_fitting(x->a, x->a_len, &unused);
    rest -= for_a - unused;
    shown[1] = x->b == NULL ? 0 : cli_page_fitting(x->b, x->b_len, &rest);
    r->values_cut += x->a != NULL && shown[0] < x->a_len ? 1u : 0u;
    r->values_cut += x->b != NULL && shown[1] < x->b_len ? 1u : 0u;
    r->left -= most - rest;
    return true;
}
