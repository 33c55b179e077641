/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/report/ids.c - texts and their numbers: a table with open addressing. Read parts.h first.
 */
#include "cli/report/parts.h"
#include "cli/sys.h"
#include <stdlib.h>
#include <string.h>

static uint64_t hash(uint64_t seed, const void *text, size_t len) {
    const unsigned char *s = text;
    uint64_t h = seed ^ len;

    for (size_t i = 0; i < len; i += 8) {
        uint64_t word = 0;
        memcpy(&word, s + i, len - i < 8 ? len - i : 8);
        h = (h ^ word) * 0x9e3779b97f4a7c15u;
        h ^= h >> 29 ^ seed >> (i & 31);
    }
    h *= 0xbf58476d1ce4e5b9u;
    return h ^ h >> 32;
}

const char *cli_id_text(const cli_ids *ids, size_t id, size_t *len) {
    const size_t begin = id > 0 ? ids->ends[id - 1] : 0;
    *len = ids->ends[id] - begin;
    return ids->text.data + begin;
}

/* The slot that has the text, or is free for it. */
static size_t slot_of(const cli_ids *ids, const void *text, size_t len) {
    size_t at = (size_t)hash(ids->seed, text, len) & (ids->slots - 1);

    for (; ids->table[at] != 0; at = (at + 1) & (ids->slots - 1)) {
        size_t has;
        const char *other = cli_id_text(ids, ids->table[at] - 1, &has);
        if (has == len && (len == 0 || memcmp(other, text, len) == 0)) {
            break;
        }
    }
    return at;
}

static void grow(cli_ids *ids) {
    ids->slots = ids->slots > 0 ? 2 * ids->slots : 256;
    free(ids->table);
    ids->table = cli_alloc(ids->slots, sizeof *ids->table);
    for (size_t i = 0; i < ids->count; i++) {
        size_t len;
        const char *text = cli_id_text(ids, i, &len);
        ids->table[slot_of(ids, text, len)] = (uint32_t)i + 1;
    }
}

size_t cli_id_of(cli_ids *ids, const void *text, size_t len) {
    if (ids->seed == 0) {
        const double now = cli_sys_now();
        memcpy(&ids->seed, &now, sizeof ids->seed);
        ids->seed = (ids->seed ^ (uint64_t)(uintptr_t)ids) * 0x9e3779b97f4a7c15u | 1;
    }
    if (2 * (ids->count + 1) > ids->slots) {
        grow(ids);
    }
    const size_t at = slot_of(ids, text, len);
    if (ids->table[at] == 0) {
        if (ids->count == ids->room) {
            ids->room = ids->room > 0 ? 2 * ids->room : 64;
            ids->ends = cli_resize(ids->ends, ids->room, sizeof *ids->ends);
        }
        cli_text_add(&ids->text, text, len);
        ids->ends[ids->count++] = ids->text.size;
        ids->table[at] = (uint32_t)ids->count;
    }
    return ids->table[at] - 1;
}

void cli_ids_reset(cli_ids *ids) {
    free(ids->text.data);
    free(ids->ends);
    free(ids->table);
    memset(ids, 0, sizeof *ids);
}
