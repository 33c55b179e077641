/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * base/text/strmap.c - see strmap.h. Open addressing with linear probing, load at most one half. The hash is
 * SipHash-1-3 (Aumasson and Bernstein, 2012), the choice of the Rust and Python hash tables.
 */
#include "base/text/strmap.h"
#include "base/checked.h"

typedef struct entry_name {
    const char *name;
    size_t len;
} entry_name;

static inline uint64_t rotl(uint64_t v, unsigned n) {
    return (v << n) | (v >> (64 - n));
}

#define SIP_ROUND(v0, v1, v2, v3)                                                                  \
    do {                                                                                           \
        (v0) += (v1), (v1) = rotl((v1), 13), (v1) ^= (v0);                                         \
        (v0) = rotl((v0), 32);                                                                     \
        (v2) += (v3), (v3) = rotl((v3), 16), (v3) ^= (v2);                                         \
        (v0) += (v3), (v3) = rotl((v3), 21), (v3) ^= (v0);                                         \
        (v2) += (v1), (v1) = rotl((v1), 17), (v1) ^= (v2);                                         \
        (v2) = rotl((v2), 32);                                                                     \
    } while (0)

uint64_t sft__base_hash(const uint64_t key[2], const void *data, size_t len) {
    const uint8_t *p = data;
    uint64_t v0 = key[0] ^ UINT64_C(0x736f6d6570736575);
    uint64_t v1 = key[1] ^ UINT64_C(0x646f72616e646f6d);
    uint64_t v2 = key[0] ^ UINT64_C(0x6c7967656e657261);
    uint64_t v3 = key[1] ^ UINT64_C(0x7465646279746573);
    uint64_t last = (uint64_t)len << 56;
    size_t left = len;

    for (; left >= 8; left -= 8, p += 8) {
        const uint64_t m = sft__base_load_le64(p);
        v3 ^= m;
        SIP_ROUND(v0, v1, v2, v3);
        v0 ^= m;
    }
    if (len >= 8) { /* the last bytes once more, as the high end of a whole word */
        last |= left != 0 ? sft__base_load_le64(p + left - 8) >> (64 - 8 * left) : 0;
    } else {
        for (size_t i = 0; i < left; i++) {
            last |= (uint64_t)p[i] << (8 * i);
        }
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

static inline entry_name name_of(const sft__base_strmap *map, size_t index) {
    entry_name n;
    memcpy(&n, (const uint8_t *)map->entries + index * map->stride, sizeof n);
    return n;
}

size_t sft__base_strmap_slots(size_t count) {
    size_t slots = 8;
    if (count > UINT32_MAX / 2 || count > SIZE_MAX / (4 * sizeof(uint64_t))) {
        return 0;
    }
    while (slots < 2 * count) {
        slots *= 2;
    }
    return slots;
}

void sft__base_strmap_init_at(sft__base_strmap *map, const void *entries, size_t stride,
                              uint64_t *slots, size_t slot_count) {
    memset(map, 0, sizeof *map);
    map->entries = entries;
    map->stride = stride;
    map->slots = slots;
    map->slot_count = slot_count;
    sft__base_random_key(map->key);
    memset(slots, 0, slot_count * sizeof *slots);
}

bool sft__base_strmap_init(sft__base_strmap *map, const void *entries, size_t stride, size_t count,
                           const sft_allocator *allocator) {
    const size_t slot_count = sft__base_strmap_slots(count);
    uint64_t *const slots = sft__base_alloc_array(allocator, slot_count, sizeof *slots);

    memset(map, 0, sizeof *map);
    if (slots == NULL) {
        return false;
    }
    sft__base_strmap_init_at(map, entries, stride, slots, slot_count);
    map->allocator = sft__base_allocator(allocator);
    return true;
}

void sft__base_strmap_reset(sft__base_strmap *map) {
    if (map->allocator != NULL) {
        sft__base_free(map->allocator, map->slots, map->slot_count * sizeof *map->slots);
    }
    memset(map, 0, sizeof *map);
}

static size_t probe(const sft__base_strmap *map, const char *name, size_t len, uint64_t hash,
                    size_t *slot) {
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

static inline size_t add_hashed(sft__base_strmap *map, size_t index, entry_name n, uint64_t hash) {
    size_t slot = 0;
    const size_t found = probe(map, n.name, n.len, hash, &slot);
    if (found == SFT__STRMAP_NONE) {
        map->slots[slot] = (hash & UINT64_C(0xffffffff00000000)) | (uint64_t)(index + 1);
    }
    return found;
}

size_t sft__base_strmap_add(sft__base_strmap *map, size_t index) {
    const entry_name n = name_of(map, index);
    return add_hashed(map, index, n, sft__base_hash(map->key, n.name, n.len));
}

/* In batches: first all hashes, which overlap in the processor while their slots are on the way, then the
 * slots. */
size_t sft__base_strmap_add_all(sft__base_strmap *map, size_t count, size_t *twice) {
    enum { BATCH = 16 };
    uint64_t hashes[BATCH];
    const size_t mask = map->slot_count - 1;

    for (size_t start = 0; start < count; start += BATCH) {
        const size_t n = count - start < BATCH ? count - start : BATCH;
        for (size_t i = 0; i < n; i++) {
            const entry_name name = name_of(map, start + i);
            hashes[i] = sft__base_hash(map->key, name.name, name.len);
            sft__base_prefetch(&map->slots[(size_t)hashes[i] & mask]);
        }
        for (size_t i = 0; i < n; i++) {
            const size_t first = add_hashed(map, start + i, name_of(map, start + i), hashes[i]);
            if (first != SFT__STRMAP_NONE) {
                *twice = start + i;
                return first;
            }
        }
    }
    return SFT__STRMAP_NONE;
}

size_t sft__base_strmap_find(const sft__base_strmap *map, const char *name, size_t len) {
    size_t slot;
    if (map->slot_count == 0) {
        return SFT__STRMAP_NONE;
    }
    return probe(map, name, len, sft__base_hash(map->key, name, len), &slot);
}
