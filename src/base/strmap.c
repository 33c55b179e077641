/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * base/strmap.c - see strmap.h. Open addressing with linear probing, load at most one half. The hash is
 * SipHash-1-3 (Aumasson and Bernstein, 2012), the choice of the Rust and Python hash tables.
 */
#include "base/strmap.h"
#include "base/checked.h"

typedef struct entry_name {
    const char *name;
    size_t len;
} entry_name;

static inline uint64_t rotl(uint64_t v, unsigned n) {
    return (v << n) | (v >> (64 - n));
}

#define SIP_ROUND(v0, v1, v2, v3)                                  \
    do {                                                           \
        (v0) += (v1), (v1) = rotl((v1), 13), (v1) ^= (v0);         \
        (v0) = rotl((v0), 32);                                     \
        (v2) += (v3), (v3) = rotl((v3), 16), (v3) ^= (v2);         \
        (v0) += (v3), (v3) = rotl((v3), 21), (v3) ^= (v0);         \
        (v2) += (v1), (v1) = rotl((v1), 17), (v1) ^= (v2);         \
        (v2) = rotl((v2), 32);                                     \
    } while (0)

uint64_t sft__hash(const uint64_t key[2], const void *data, size_t len) {
    const uint8_t *p = data;
    uint64_t v0 = key[0] ^ UINT64_C(0x736f6d6570736575);
    uint64_t v1 = key[1] ^ UINT64_C(0x646f72616e646f6d);
    uint64_t v2 = key[0] ^ UINT64_C(0x6c7967656e657261);
    uint64_t v3 = key[1] ^ UINT64_C(0x7465646279746573);
    uint64_t last = (uint64_t)len << 56;
    size_t left = len;

    for (; left >= 8; left -= 8, p += 8) {
        const uint64_t m = sft__load_le64(p);
        v3 ^= m;
        SIP_ROUND(v0, v1, v2, v3);
        v0 ^= m;
    }
    for (size_t i = 0; i < left; i++) {
        last |= (uint64_t)p[i] << (8 * i);
    }
    v3 ^= last;
    SIP_ROUND(v0, v1, v2, v3);
    v0 ^= last;
    v2 ^= 0xff;
    SIP_ROUND(v0, v1, v2, v3);
    SIP_ROUND(v0, v1, v2, v3);
    SIP_ROUND(v0, v1, v2, v3);
    return v0 ^ v1 ^ v2 ^ v3;
}

static inline entry_name name_of(const sft__strmap *map, size_t index) {
    entry_name n;
    memcpy(&n, (const uint8_t *)map->entries + index * map->stride, sizeof n);
    return n;
}

bool sft__strmap_init(sft__strmap *map, const void *entries, size_t stride, size_t count,
                      const sft_allocator *allocator) {
    size_t slots = 8;
    memset(map, 0, sizeof *map);
    map->allocator = sft__allocator(allocator);
    map->entries = entries;
    map->stride = stride;
    sft__random_key(map->key);
    if (count > UINT32_MAX / 2) {
        return false;
    }
    while (slots < 2 * count) {
        slots *= 2;
    }
    map->slots = sft__alloc_array(map->allocator, slots, sizeof *map->slots);
    if (map->slots == NULL) {
        return false;
    }
    memset(map->slots, 0, slots * sizeof *map->slots);
    map->slot_count = slots;
    return true;
}

void sft__strmap_reset(sft__strmap *map) {
    sft__free(map->allocator, map->slots, map->slot_count * sizeof *map->slots);
    memset(map, 0, sizeof *map);
}

static size_t probe(const sft__strmap *map, const char *name, size_t len, uint64_t hash, size_t *slot) {
    const size_t mask = map->slot_count - 1;
    const uint64_t tag = hash & UINT64_C(0xffffffff00000000);
    size_t at = (size_t)hash & mask;

    for (; map->slots[at] != 0; at = (at + 1) & mask) {
        if ((map->slots[at] & UINT64_C(0xffffffff00000000)) == tag) {
            const size_t index = (size_t)(map->slots[at] & 0xffffffffu) - 1;
            const entry_name n = name_of(map, index);
            if (n.len == len && memcmp(n.name, name, len) == 0) {
                return index;
            }
        }
    }
    *slot = at;
    return SFT__STRMAP_NONE;
}

size_t sft__strmap_add(sft__strmap *map, size_t index) {
    const entry_name n = name_of(map, index);
    const uint64_t hash = sft__hash(map->key, n.name, n.len);
    size_t slot = 0;
    const size_t found = probe(map, n.name, n.len, hash, &slot);
    if (found == SFT__STRMAP_NONE) {
        map->slots[slot] = (hash & UINT64_C(0xffffffff00000000)) | (uint64_t)(index + 1);
    }
    return found;
}

size_t sft__strmap_add_all(sft__strmap *map, size_t count, size_t *twice) {
    enum { AHEAD = 16 }; /* about as many cache misses as a core keeps in flight */
    uint64_t hashes[AHEAD];

    for (size_t i = 0; i < AHEAD || i - AHEAD < count; i++) {
        if (i >= AHEAD) { /* its slot was asked for sixteen names ago */
            const size_t index = i - AHEAD;
            const entry_name n = name_of(map, index);
            const uint64_t hash = hashes[index % AHEAD];
            size_t slot = 0;
            const size_t found = probe(map, n.name, n.len, hash, &slot);
            if (found != SFT__STRMAP_NONE) {
                *twice = index;
                return found;
            }
            map->slots[slot] = (hash & UINT64_C(0xffffffff00000000)) | (uint64_t)(index + 1);
        }
        if (i < count) {
            const entry_name n = name_of(map, i);
            hashes[i % AHEAD] = sft__hash(map->key, n.name, n.len);
            sft__prefetch(&map->slots[(size_t)hashes[i % AHEAD] & (map->slot_count - 1)]);
        }
    }
    return SFT__STRMAP_NONE;
}

size_t sft__strmap_find(const sft__strmap *map, const char *name, size_t len) {
    size_t slot;
    if (map->slot_count == 0) {
        return SFT__STRMAP_NONE;
    }
    return probe(map, name, len, sft__hash(map->key, name, len), &slot);
}
