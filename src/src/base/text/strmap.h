/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * base/text/strmap.h - a table from names to indexes. It stores only hashes and indexes; the names stay where
 * they are and are reached through a callback-free (base pointer, stride) view. Keyed with a secret per
 * table, so that a hostile header cannot choose names that collide.
 */
#ifndef SFT_BASE_STRMAP_H
#define SFT_BASE_STRMAP_H

#include "base/memory/alloc.h"

/* How entry i's name is found: at (const char *) entries + i * stride lie a `const char *` name and,
 * right behind it, a `size_t` length. sft_tensor begins so. */
typedef struct sft__base_strmap {
    const sft_allocator *allocator; /* NULL: the slots belong to someone else */
    const void *entries;
    size_t stride;
    uint64_t *slots;   /* low 32 bits: index + 1 (0: empty); high 32: upper hash bits */
    size_t slot_count; /* power of two, or 0 */
    uint64_t key[2];
} sft__base_strmap;

#define SFT__STRMAP_NONE SIZE_MAX

/* Reserves room for `count` names. false: no memory (or count above 2^31). */
bool sft__base_strmap_init(sft__base_strmap *map, const void *entries, size_t stride, size_t count,
                           const sft_allocator *allocator);
void sft__base_strmap_reset(sft__base_strmap *map);

/* Slots that `count` names need (a power of two), or 0 if there are too many; and the same as init in memory
 * of the caller's, who frees it: `slots` of that many entries. */
size_t sft__base_strmap_slots(size_t count);
void sft__base_strmap_init_at(sft__base_strmap *map, const void *entries, size_t stride,
                              uint64_t *slots, size_t slot_count);

/* Adds entry `index`; returns the index of an entry of equal name if there is one, else NONE. */
size_t sft__base_strmap_add(sft__base_strmap *map, size_t index);

/* Adds entries 0 to count - 1 to an empty table: NONE, or as add for the first name given twice, whose index
 * goes to *twice. Faster than one by one where the table is larger than the caches. */
size_t sft__base_strmap_add_all(sft__base_strmap *map, size_t count, size_t *twice);

/* The index of the entry with this name, or NONE. */
size_t sft__base_strmap_find(const sft__base_strmap *map, const char *name, size_t len);

/* Keyed hash of bytes (SipHash-1-3; for short names within a few cycles of weaker ones). */
uint64_t sft__base_hash(const uint64_t key[2], const void *data, size_t len);

/* Sixteen bytes that an author of files cannot guess. */
void sft__base_random_key(uint64_t key[2]);

#endif
