/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * format/unique.h - are the keys of a metadata object different? Private to src/format.
 */
#ifndef SFT_FORMAT_UNIQUE_H
#define SFT_FORMAT_UNIQUE_H

#include "base/memory/alloc.h"
#include <sft/write.h>

/* SFT_OK: all differ. SFT_E_DUPLICATE: *index is the first entry whose key an earlier one has.
 * SFT_E_NOMEM, and SFT_E_LIMIT if more than memory_left bytes are needed. Takes 8 bytes an entry
 * while it runs. */
sft_status sft__format_unique_keys(const sft_metadata_entry *entries, size_t count,
                                   uint64_t memory_left, const sft_allocator *allocator,
                                   size_t *index);

/* A key's hash and its entry's index. */
typedef struct sft__format_hashed {
    uint32_t hash;
    uint32_t index;
} sft__format_hashed;

/* In a run of entries with equal hashes: the least index whose key another entry of the run has at
 * a lower index, or `best` if that is less. Overwrites the run. */
size_t sft__format_first_repeat(const sft_metadata_entry *entries, sft__format_hashed *run,
                                size_t n, size_t best);

#endif
