/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * format/unique.c - finds a metadata key that is given twice. A header of 100 MB may hold ten
 * million keys, too many for a table of the usual load beside their entries: so 8 bytes a key, a
 * keyed hash and an index, are sorted by hash in place, and only equal hashes are compared. Nobody
 * can choose keys whose hashes are equal without knowing the hash's secret.
 */
#include "format/unique.h"
#include "base/checked.h"
#include "base/text/strmap.h"

enum { FEW = 12, SHORT_RUN = 24, RADIX_BITS = 10, RADIX = 1 << RADIX_BITS };

static bool same_key(const sft_metadata_entry *a, const sft_metadata_entry *b) {
    return a->key_len == b->key_len && memcmp(a->key, b->key, a->key_len) == 0;
}

/* ---------------------------------------------------------------- sorting by hash */

static void insertion_sort(sft__format_hashed *a, size_t n) {
    for (size_t i = 1; i < n; i++) {
        const sft__format_hashed v = a[i];
        size_t k = i;
        for (; k > 0 && a[k - 1].hash > v.hash; k--) {
            a[k] = a[k - 1];
        }
        a[k] = v;
    }
}

/* Groups by RADIX_BITS bits from `shift` on, in place, cycle by cycle. ends[d]: where group d ends.
 */
static void partition(sft__format_hashed *a, size_t n, unsigned shift, uint32_t ends[RADIX]) {
    uint32_t next[RADIX];
    uint32_t at = 0;

    memset(ends, 0, RADIX * sizeof *ends);
    for (size_t i = 0; i < n; i++) {
        ends[(a[i].hash >> shift) & (RADIX - 1)]++;
    }
    for (size_t d = 0; d < RADIX; d++) {
        next[d] = at;
        at += ends[d];
        ends[d] = at;
    }
    for (size_t d = 0; d < RADIX; d++) {
        while (next[d] < ends[d]) {
            sft__format_hashed v = a[next[d]];
            for (size_t to; (to = (v.hash >> shift) & (RADIX - 1)) != d;) {
                const sft__format_hashed other = a[next[to]];
                a[next[to]++] = v;
                v = other;
            }
            a[next[d]++] = v;
        }
    }
}

/* What is left after two rounds has 20 leading bits in common: some ten keys for ten million. */
static void sort_by_hash(sft__format_hashed *a, size_t n) {
    uint32_t outer[RADIX];
    uint32_t inner[RADIX];
    size_t start = 0;

    partition(a, n, 32 - RADIX_BITS, outer);
    for (size_t d = 0; d < RADIX; start = outer[d++]) {
        const size_t size = outer[d] - start;
        if (size <= SHORT_RUN) {
            insertion_sort(a + start, size);
            continue;
        }
        partition(a + start, size, 32 - 2 * RADIX_BITS, inner);
        for (size_t e = 0, from = 0; e < RADIX; from = inner[e++]) {
            insertion_sort(a + start + from, inner[e] - from);
        }
    }
}

/* ---------------------------------------------------------------- comparing */

/* Almost always a run has one key, or two. */
size_t sft__format_first_repeat(const sft_metadata_entry *entries, sft__format_hashed *run,
                                size_t n, size_t best) {
    while (n > 1) {
        const sft_metadata_entry *const key = &entries[run[0].index];
        size_t least = run[0].index;
        size_t second = SIZE_MAX;
        size_t kept = 0;
        for (size_t i = 1; i < n; i++) {
            const size_t index = run[i].index;
            if (!same_key(key, &entries[index])) {
                run[kept++] = run[i];
            } else if (index < least) {
                second = least;
                least = index;
            } else if (index < second) {
                second = index;
            }
        }
        best = second < best ? second : best;
        n = kept;
    }
    return best;
}

static size_t compare_few(const sft_metadata_entry *entries, size_t count) {
    for (size_t i = 1; i < count; i++) {
        for (size_t k = 0; k < i; k++) {
            if (same_key(&entries[i], &entries[k])) {
                return i;
            }
        }
    }
    return SIZE_MAX;
}

sft_status sft__format_unique_keys(const sft_metadata_entry *entries, size_t count,
                                   uint64_t memory_left, const sft_allocator *allocator,
                                   size_t *index) {
    uint64_t key[2];
    sft__format_hashed *items;

    *index = SIZE_MAX;
    if (count <= FEW) {
        *index = compare_few(entries, count);
        return *index == SIZE_MAX ? SFT_OK : SFT_E_DUPLICATE;
    }
    if (count > UINT32_MAX || count > memory_left / sizeof *items) {
        return SFT_E_LIMIT;
    }
    items = sft__base_alloc_array(allocator, count, sizeof *items);
    if (items == NULL) {
        return SFT_E_NOMEM;
    }
    sft__base_random_key(key);
    for (size_t i = 0; i < count; i++) {
        items[i].hash = (uint32_t)(sft__base_hash(key, entries[i].key, entries[i].key_len) >> 32);
        items[i].index = (uint32_t)i;
    }
    sort_by_hash(items, count);
    for (size_t start = 0, end; start < count; start = end) {
        for (end = start + 1; end < count && items[end].hash == items[start].hash;) {
            end++;
        }
        *index = sft__format_first_repeat(entries, items + start, end - start, *index);
    }
    sft__base_free(allocator, items, count * sizeof *items);
    return *index == SIZE_MAX ? SFT_OK : SFT_E_DUPLICATE;
}
