/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * remote/cache.c - blocks that were read, in bounded memory; the one not used for the longest time
 * goes first. Its own lock; nothing is held while data is fetched.
 */
#include "base/memory/need.h"
#include "base/text/strmap.h"
#include "remote/room.h"
#include <string.h>

#define NONE UINT32_MAX

typedef struct entry {
    uint64_t key[2];
    uint64_t index;
    uint8_t *data; /* NULL: free */
    uint32_t size;
    uint32_t chain; /* next of the same slot */
    uint32_t newer;
    uint32_t older;
} entry;

struct sft__remote_cache {
    const sft_allocator *allocator;
    sft__base_mutex mutex;
    entry *entries;
    uint32_t *slots;
    uint32_t room; /* entries, and slots */
    uint32_t used;
    uint32_t newest;
    uint32_t oldest;
    uint64_t secret[2];
};

sft_status sft__remote_cache_create(sft__remote_cache **out, uint64_t bytes,
                                    const sft_allocator *allocator, sft_error *err) {
    const uint64_t blocks = bytes / SFT__BLOCK;
    const uint32_t room = blocks < 4 ? 4 : blocks > 1u << 24 ? 1u << 24 : (uint32_t)blocks;
    sft__remote_cache *c = sft__base_alloc_zero(allocator, sizeof *c);

    *out = NULL;
    SFT_NEED(c != NULL, sizeof *c, err);
    c->allocator = allocator;
    c->room = room;
    c->newest = NONE;
    c->oldest = NONE;
    sft__base_random_key(c->secret);
    c->entries = sft__base_alloc_zero(allocator, room * sizeof *c->entries);
    c->slots = sft__base_alloc(allocator, room * sizeof *c->slots);
    if (c->entries == NULL || c->slots == NULL || !sft__base_mutex_init(&c->mutex)) {
        sft__base_free(allocator, c->entries, room * sizeof *c->entries);
        sft__base_free(allocator, c->slots, room * sizeof *c->slots);
        sft__base_free(allocator, c, sizeof *c);
        return sft__base_fail_nomem(err, room * sizeof *c->entries);
    }
    memset(c->slots, 0xff, room * sizeof *c->slots);
    *out = c;
    return SFT_OK;
}

void sft__remote_cache_free(sft__remote_cache *c) {
    if (c != NULL) {
        for (uint32_t i = 0; i < c->used; i++) {
            sft__base_free(c->allocator, c->entries[i].data, SFT__BLOCK);
        }
        sft__base_free(c->allocator, c->entries, c->room * sizeof *c->entries);
        sft__base_free(c->allocator, c->slots, c->room * sizeof *c->slots);
        sft__base_mutex_reset(&c->mutex);
        sft__base_free(c->allocator, c, sizeof *c);
    }
}

static uint32_t slot_of(const sft__remote_cache *c, const uint64_t key[2], uint64_t index) {
    const uint64_t what[3] = {key[0], key[1], index};
    return (uint32_t)(sft__base_hash(c->secret, what, sizeof what) % c->room);
}

static uint32_t find(const sft__remote_cache *c, uint32_t slot, const uint64_t key[2],
                     uint64_t index) {
    for (uint32_t i = c->slots[slot]; i != NONE; i = c->entries[i].chain) {
        const entry *e = &c->entries[i];
        if (e->index == index && e->key[0] == key[0] && e->key[1] == key[1]) {
            return i;
        }
    }
    return NONE;
}

static void unlink_age(sft__remote_cache *c, uint32_t i) {
    const entry *e = &c->entries[i];
    if (e->newer != NONE) {
        c->entries[e->newer].older = e->older;
    } else {
        c->newest = e->older;
    }
    if (e->older != NONE) {
        c->entries[e->older].newer = e->newer;
    } else {
        c->oldest = e->newer;
    }
}

static void link_newest(sft__remote_cache *c, uint32_t i) {
    entry *e = &c->entries[i];
    e->newer = NONE;
    e->older = c->newest;
    if (c->newest != NONE) {
        c->entries[c->newest].newer = i;
    } else {
        c->oldest = i;
    }
    c->newest = i;
}

static void unlink_slot(sft__remote_cache *c, uint32_t i) {
    const entry *e = &c->entries[i];
    uint32_t *at = &c->slots[slot_of(c, e->key, e->index)];
    while (*at != i) {
        at = &c->entries[*at].chain;
    }
    *at = e->chain;
}

bool sft__remote_cache_get(sft__remote_cache *c, const uint64_t key[2], uint64_t index,
                           uint8_t *dst, size_t size) {
    sft__base_mutex_lock(&c->mutex);
    const uint32_t i = find(c, slot_of(c, key, index), key, index);
    const bool found = i != NONE && c->entries[i].size == size;
    if (found) {
        memcpy(dst, c->entries[i].data, size);
        unlink_age(c, i);
        link_newest(c, i);
    }
    sft__base_mutex_unlock(&c->mutex);
    return found;
}

/* An entry to fill: a new one, or the oldest. NONE: no memory, which is no fault of a cache. */
static uint32_t take_entry(sft__remote_cache *c) {
    if (c->used < c->room) {
        uint8_t *data = sft__base_alloc(c->allocator, SFT__BLOCK);
        if (data != NULL) {
            c->entries[c->used].data = data;
            return c->used++;
        }
    }
    const uint32_t i = c->oldest;
    if (i != NONE) {
        unlink_age(c, i);
        unlink_slot(c, i);
    }
    return i;
}

void sft__remote_cache_put(sft__remote_cache *c, const uint64_t key[2], uint64_t index,
                           const uint8_t *data, size_t size) {
    sft__base_mutex_lock(&c->mutex);
    const uint32_t slot = slot_of(c, key, index);
    if (find(c, slot, key, index) == NONE) {
        const uint32_t i = take_entry(c);
        if (i != NONE) {
            entry *e = &c->entries[i];
            e->key[0] = key[0];
            e->key[1] = key[1];
            e->index = index;
            e->size = (uint32_t)size; /* at most SFT__BLOCK */
            memcpy(e->data, data, size);
            e->chain = c->slots[slot];
            c->slots[slot] = i;
            link_newest(c, i);
        }
    }
    sft__base_mutex_unlock(&c->mutex);
}
